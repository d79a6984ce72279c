"""Registered queries."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Integer, String, Table, Text

from xscl.catalog.tables.columns import METADATA, NAME, count, index_some, needed

__all__ = ["HAS_SPARE", "IS_DROPPED", "IS_LISTED", "IS_PUBLISHING", "IS_SUSPENDED", "IS_WAITING", "NEVER", "QUERIES"]

NEVER = 1 << 62
"""``docid_until`` of a live query: later than any event."""
QUERIES = Table(
    "queries",
    METADATA,
    Column("query", Integer, primary_key=True),
    needed("qid", NAME, "the query's name"),
    needed("text", Text),
    Column("written", Text, comment="the text with the queries that it has in parentheses; NULL: it has none"),
    needed("namespaces", Text),
    needed("gid", Integer),
    needed("template", String),
    needed("digest", String, "of name and text, for match ids"),
    needed("names", Text, "the query's names of meta-variables and result nodes"),
    needed("docid_from", BigInteger, "its place in the intake order"),
    needed("docid_until", BigInteger, "where it was dropped"),
    Column("spare", BigInteger, comment="first of the places before its drop that nothing has; NULL: none is there"),
    needed("received", BigInteger),
    Column("publish", String, comment="the channel its output goes to"),
    needed("starting", String, "NOW, ALL or a time (ISO 8601)", "NOW"),
    count("sees_from", "it sees members that come after this place"),
    Column("ts_from", BigInteger, comment="it sees members of this event time or later; NULL: of any"),
    Column("history", Integer, comment="stands for its group in matches of members from before it; NULL: it has none"),
    Column("filled", BigInteger, comment="the batch that found those; NULL: none has"),
    Column("held_from", Text, comment="JSON: by channel, the least event time of events from before it; NULL: any"),
    Column("ended", BigInteger, comment="it has no matches of later batches; NULL: places tell"),
    needed("owner", NAME, "who registered it; '': nobody said", ""),
    Column("level", String, comment="level of consistency of a query about absence; NULL: it is about none"),
    count("late_for", "events of its channels that came too late for its memory, and in time for others"),
    Column("suspended", Text, comment="the quota that ended it, in words; NULL: none did"),
    Column("released", BigInteger, comment="where its suspension ended, by resuming or dropping it; NULL: it has not"),
    # Live names are unique, because all of them have the same end.
    sa.Index("queries_name", "qid", "docid_until", unique=True),
    sa.Index("queries_group", "gid", "qid"),
    sa.Index("queries_template", "template", "qid"),
    sa.Index("queries_owner", "owner", "qid"),
)
# Conditions on queries for which there are indexes.  Values are written out: with parameters SQLite would use none.
IS_DROPPED = QUERIES.c.docid_until < sa.literal_column(str(NEVER))
HAS_SPARE = QUERIES.c.spare.is_not(None)
"""Condition that places before its drop are left for replays of what was published too late."""
IS_WAITING = sa.and_(QUERIES.c.starting != sa.literal_column("'NOW'"), QUERIES.c.filled.is_(None))
"""Condition that a query waits for its answers from held events."""
IS_PUBLISHING = QUERIES.c.publish.is_not(None)
IS_SUSPENDED = sa.and_(QUERIES.c.suspended.is_not(None), QUERIES.c.released.is_(None))
IS_LISTED = sa.or_(QUERIES.c.docid_until == NEVER, IS_SUSPENDED)
"""Live, or suspended: its name is taken."""

index_some("queries_dropped", QUERIES.c.docid_until, IS_DROPPED)
index_some("queries_spare", QUERIES.c.spare, HAS_SPARE)
index_some("queries_waiting", QUERIES.c.docid_from, IS_WAITING)
index_some("queries_publish", QUERIES.c.publish, IS_PUBLISHING)
index_some("queries_suspended", QUERIES.c.qid, IS_SUSPENDED)
index_some("queries_history", QUERIES.c.history, QUERIES.c.history.is_not(None))
