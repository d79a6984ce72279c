"""How many documents the queries of a batch published."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column; earlier batches published nothing."""
    op.add_column("batches", sa.Column("published", sa.BigInteger(), nullable=False, server_default="0"))
