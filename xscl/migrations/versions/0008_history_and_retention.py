"""What queries see of events from before them, how long channels hold events, late events that were taken again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add columns and a table; queries of before see what they saw: what came after them."""
    op.add_column("channels", sa.Column("newest", sa.BigInteger()))
    op.add_column("channels", sa.Column("processed", sa.BigInteger()))
    # What each channel of a clock had is not known; together they had what the clock had.
    op.execute("update channels set newest = (select clocks.greatest from clocks where clocks.name = channels.clock)")
    op.execute(
        "update channels set processed = (select clocks.processed from clocks where clocks.name = channels.clock)"
    )
    op.drop_table("clocks")
    op.add_column("channels", sa.Column("retention", sa.BigInteger()))
    op.add_column("channels", sa.Column("idle", sa.BigInteger()))
    op.add_column("channels", sa.Column("held_from", sa.BigInteger()))
    op.add_column("channels", sa.Column("kept_from", sa.BigInteger()))
    op.add_column("queries", sa.Column("sees_from", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("queries", sa.Column("ts_from", sa.BigInteger()))
    op.add_column("queries", sa.Column("history", sa.Integer()))
    op.add_column("queries", sa.Column("filled", sa.BigInteger()))
    op.add_column("queries", sa.Column("held_from", sa.Text()))
    op.add_column("queries", sa.Column("ended", sa.BigInteger()))
    op.execute("update queries set sees_from = docid_from")
    op.execute("update queries set filled = 0 where starting <> 'NOW'")
    waiting = sa.text("starting != 'NOW' and filled is null")
    op.create_index("queries_waiting", "queries", ["docid_from"], sqlite_where=waiting, postgresql_where=waiting)
    op.add_column("late", sa.Column("docid", sa.BigInteger()))
    of_late = "event_ids.channel = late.channel and event_ids.id = late.id"
    op.execute(f"update late set docid = (select docid from event_ids where {of_late})")
    op.add_column("late", sa.Column("replayed", sa.BigInteger()))
    again = sa.text("replayed is not null")
    op.create_index("late_replayed", "late", ["replayed"], sqlite_where=again, postgresql_where=again)
    op.add_column("batches", sa.Column("filled", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("batches", sa.Column("replayed", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "old_files",
        sa.Column("path", sa.String(), primary_key=True),
        sa.Column("replaced", sa.BigInteger(), nullable=False),
    )
    op.add_column("home", sa.Column("swept", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "totals",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("count", sa.BigInteger(), nullable=False),
    )
    # A file may hold several ranges now.
    op.drop_index("row_ranges_channel", "row_ranges")
    op.rename_table("row_ranges", "row_ranges_of_files")
    op.create_table(
        "row_ranges",
        sa.Column("docid", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("last_docid", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
    )
    op.execute(
        "insert into row_ranges (docid, last_docid, path, channel, prefix, first, last)"
        " select r.docid, f.last, r.path, r.channel, r.prefix, r.first, r.last"
        " from row_ranges_of_files r join intake_files f on f.path = r.path"
    )
    op.drop_table("row_ranges_of_files")
    op.create_index("ix_row_ranges_path", "row_ranges", ["path"])
    op.create_index("row_ranges_channel", "row_ranges", ["channel", "prefix", "last"])
