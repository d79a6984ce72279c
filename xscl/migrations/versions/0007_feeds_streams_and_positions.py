"""Feeds and hosts, streams of channels, ids of rows by ranges, positions of inputs that grow."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from xscl.tables import FEEDS, HOSTS, MEMBERSHIPS, ROW_RANGES, SOURCES, STREAMS

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the tables; of events before, times and streams are not known."""
    for table in (STREAMS, MEMBERSHIPS, ROW_RANGES, SOURCES, FEEDS, HOSTS):
        table.create(op.get_bind())
    op.add_column("event_ids", sa.Column("ts", sa.BigInteger()))
    op.add_column("event_ids", sa.Column("received", sa.BigInteger()))
    for row in op.get_bind().execute(sa.text("select template, blocks from templates")).all():
        for block in range(1, max(json.loads(row.blocks)) + 2):
            op.add_column(f"rt_{row.template}", sa.Column(f"stream{block}", sa.Integer()))
    op.add_column("event_ids", sa.Column("membership", sa.Integer(), nullable=False, server_default="0"))
