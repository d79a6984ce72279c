"""What batches found for queries of three and more blocks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; earlier batches joined two blocks at most."""
    op.add_column("batches", sa.Column("links", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("batches", sa.Column("joined_path", sa.String()))
