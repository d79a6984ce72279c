"""Join state in files of its own, and how far each clock is processed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Name the folders of witness rows as state; their files are looked at when files are upgraded."""
    op.create_table(
        "state_files",
        sa.Column("path", sa.String(), primary_key=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("ts_min", sa.BigInteger()),
        sa.Column("ts_max", sa.BigInteger()),
        sa.Column("docid_min", sa.BigInteger()),
        sa.Column("docid_max", sa.BigInteger()),
        sa.Column("replaced", sa.BigInteger()),
    )
    op.execute(
        "insert into state_files (path, kind, batch, rows, held, bytes) "
        "select witness_path, 'witness', batch, 0, 0, 0 from batches where witness_path is not null"
    )
    op.drop_column("batches", "witness_path")
    # Joined results stand beside the others, under a name made of theirs.
    op.drop_column("batches", "joined_path")
    for name in ("state_rows", "state_bytes", "purged", "slices_asked", "slices_found"):
        op.add_column("batches", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("batches", sa.Column("joined_in", sa.String(), nullable=False, server_default="executors"))
    op.add_column("channels", sa.Column("settled", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("channels", sa.Column("published", sa.BigInteger()))
    op.add_column("channels", sa.Column("watermark", sa.BigInteger()))
    op.add_column("clocks", sa.Column("processed", sa.BigInteger()))
