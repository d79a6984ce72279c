"""The schema of version 0.1, which had no migrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "batches",
        sa.Column("batch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("witnesses", sa.BigInteger(), nullable=False),
        sa.Column("pairs", sa.BigInteger(), nullable=False),
        sa.Column("rout", sa.BigInteger(), nullable=False),
        sa.Column("matches", sa.BigInteger(), nullable=False),
        sa.Column("jobs", sa.Integer(), comment="Spark jobs as Spark counts them; NULL where it does not"),
        sa.Column("prepare_s", sa.Double(), nullable=False),
        sa.Column("stage1_s", sa.Double(), nullable=False),
        sa.Column("join_s", sa.Double(), nullable=False),
        sa.Column("commit_s", sa.Double(), nullable=False),
        sa.Column("witness_path", sa.String()),
        sa.Column("result_path", sa.String()),
        sa.Column("committed", sa.BigInteger(), nullable=False, comment="microseconds since the epoch"),
        sa.PrimaryKeyConstraint("batch"),
    )
    op.create_table(
        "channels",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False, comment="xml or rows"),
        sa.Column("feed", sa.Boolean(), nullable=False, comment="whether ids have versions"),
        sa.Column("element", sa.String(), comment="root element of a row's document"),
        sa.Column("schema", sa.Text(), comment="columns of a row channel as a JSON object of types"),
        sa.Column("lateness", sa.BigInteger(), comment="microseconds; NULL: nothing is late"),
        sa.Column("clock", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "clocks",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("greatest", sa.BigInteger(), nullable=False, comment="greatest event time seen"),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "event_ids",
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("base", sa.String(), nullable=False, comment="the id without feed and version"),
        sa.Column("feed", sa.String(), nullable=False, comment="the feed of a feed item, else ''"),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("docid", sa.BigInteger(), nullable=False),
        sa.Column("item", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("channel", "id"),
    )
    op.create_index("event_ids_base", "event_ids", ["channel", "base"])
    op.create_index("event_ids_docid", "event_ids", ["docid"])
    op.create_table(
        "flushes",
        sa.Column("place", sa.BigInteger(), nullable=False, comment="a batch ends here"),
        sa.PrimaryKeyConstraint("place"),
    )
    op.create_table(
        "groups",
        sa.Column("gid", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("iid", sa.Integer(), nullable=False),
        sa.Column("template", sa.String(), nullable=False),
        sa.Column(
            "text", sa.Text(), nullable=False, comment="a text of a query of the group, from which it is compiled"
        ),
        sa.Column("namespaces", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("gid"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "home",
        sa.Column("one", sa.Integer(), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("next_place", sa.BigInteger(), nullable=False, comment="next place in the intake order"),
        sa.Column("received", sa.BigInteger(), nullable=False, comment="time of the last intake, microseconds"),
        sa.Column("processed", sa.BigInteger(), nullable=False, comment="last place of the last committed batch"),
        sa.PrimaryKeyConstraint("one"),
    )
    op.create_table(
        "instances",
        sa.Column("iid", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("template", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("iid"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "intake_files",
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("path"),
    )
    op.create_table(
        "late",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("channel", sa.String()),
        sa.Column("id", sa.String()),
        sa.Column("ts", sa.BigInteger()),
        sa.Column("received", sa.BigInteger()),
        sa.Column("condition", sa.String()),
        sa.Column("message", sa.Text()),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "queries",
        sa.Column("query", sa.Integer(), nullable=False),
        sa.Column("qid", sa.String(), nullable=False, comment="the query's name"),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("namespaces", sa.Text(), nullable=False),
        sa.Column("gid", sa.Integer(), nullable=False),
        sa.Column("template", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False, comment="of name and text, for match ids"),
        sa.Column("names", sa.Text(), nullable=False, comment="the query's names of meta-variables and result nodes"),
        sa.Column("docid_from", sa.BigInteger(), nullable=False, comment="its place in the intake order"),
        sa.Column("docid_until", sa.BigInteger(), nullable=False, comment="where it was dropped"),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("query"),
    )
    op.create_index("ix_queries_gid", "queries", ["gid"])
    op.create_index("ix_queries_qid", "queries", ["qid"])
    op.create_table(
        "rejected",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("channel", sa.String()),
        sa.Column("id", sa.String()),
        sa.Column("ts", sa.BigInteger()),
        sa.Column("received", sa.BigInteger()),
        sa.Column("condition", sa.String()),
        sa.Column("message", sa.Text()),
        sa.Column("source", sa.String()),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "templates",
        sa.Column("template", sa.String(), nullable=False),
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("blocks", sa.Text(), nullable=False),
        sa.Column("parents", sa.Text(), nullable=False),
        sa.Column("joins", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("template"),
    )
    op.create_table(
        "variables",
        sa.Column("key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("var", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("example", sa.String(), comment="a name some query gives it"),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("ix_variables_var", "variables", ["var"])
