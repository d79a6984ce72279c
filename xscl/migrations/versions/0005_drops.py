"""An index by which the planner finds the queries that were dropped since it last looked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Index the places of drops, of dropped queries alone."""
    dropped = sa.text("docid_until < 4611686018427387904")
    op.create_index("queries_dropped", "queries", ["docid_until"], sqlite_where=dropped, postgresql_where=dropped)
