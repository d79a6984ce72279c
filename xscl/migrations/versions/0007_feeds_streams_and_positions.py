"""Feeds and hosts, streams of channels, ids of rows by ranges, positions of inputs that grow."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the tables; of events before, times and streams are not known."""
    op.create_table(
        "streams",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(), nullable=False, unique=True),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("source", sa.String()),
    )
    op.create_table(
        "memberships",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("streams", sa.Text(), nullable=False),
        sa.Column("whole", sa.Boolean(), nullable=False),
        sa.UniqueConstraint("streams", "whole"),
    )
    op.create_table(
        "row_ranges",
        sa.Column("path", sa.String(), primary_key=True),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("docid", sa.BigInteger(), nullable=False),
    )
    op.create_index("row_ranges_channel", "row_ranges", ["channel", "prefix", "last"])
    op.create_table(
        "sources",
        sa.Column("source", sa.Text(), primary_key=True),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("taken", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "feeds",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("identity", sa.Text(), unique=True),
        sa.Column("url", sa.Text(), unique=True),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("home", sa.Text()),
        sa.Column("folder", sa.Text()),
        sa.Column("outline", sa.Text()),
        sa.Column("status", sa.String()),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("interval", sa.BigInteger()),
        sa.Column("next_fetch", sa.BigInteger()),
        sa.Column("fetched", sa.BigInteger()),
        sa.Column("succeeded", sa.BigInteger()),
        sa.Column("http_status", sa.Integer()),
        sa.Column("problem", sa.Text()),
        sa.Column("failures", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("etag", sa.Text()),
        sa.Column("modified", sa.Text()),
        sa.Column("allow_private", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("moved_to", sa.Text()),
        sa.Column("hints", sa.Text()),
        sa.Column("requests", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("bytes", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("polls", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("items", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("versions", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("rejected", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("policy", sa.String(), nullable=False, server_default="guid"),
        sa.Column("reason", sa.Text()),
        sa.Column("memory", sa.Text()),
    )
    op.create_table(
        "hosts",
        sa.Column("host", sa.String(), primary_key=True),
        sa.Column("next_request", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False, server_default="0"),
    )
    op.add_column("event_ids", sa.Column("ts", sa.BigInteger()))
    op.add_column("event_ids", sa.Column("received", sa.BigInteger()))
    op.add_column("event_ids", sa.Column("membership", sa.Integer(), nullable=False, server_default="0"))
    connection = op.get_bind()
    there = set(sa.inspect(connection).get_table_names())
    for row in connection.execute(sa.text("select template, blocks from templates")).all():
        if f"rt_{row.template}" in there:
            for block in range(1, max(json.loads(row.blocks)) + 2):
                op.add_column(f"rt_{row.template}", sa.Column(f"stream{block}", sa.Integer()))
