"""What a query publishes and where it starts; unique live names; indexes for listing by name, group and template."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns; what is derived is filled in when it is rebuilt."""
    op.add_column("home", sa.Column("derived_version", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("home", sa.Column("files_version", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("groups", sa.Column("channels", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("queries", sa.Column("publish", sa.String()))
    op.add_column("queries", sa.Column("starting", sa.String(), nullable=False, server_default="NOW"))
    if op.get_context().dialect.name == "postgresql":
        op.alter_column("queries", "qid", type_=sa.String(collation="C"))
    op.drop_index("ix_queries_qid", "queries")
    op.drop_index("ix_queries_gid", "queries")
    op.create_index("queries_name", "queries", ["qid", "docid_until"], unique=True)
    op.create_index("queries_group", "queries", ["gid", "qid"])
    op.create_index("queries_template", "queries", ["template", "qid"])
    published = sa.column("publish").is_not(None)
    op.create_index("queries_publish", "queries", ["publish"], sqlite_where=published, postgresql_where=published)
    op.create_index("groups_channels", "groups", ["channels"])
