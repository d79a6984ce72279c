"""Matches, events and relations of a home."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from xscl.answers.matches.counts import count_matches
from xscl.answers.matches.listing import ALL_MATCHES, Listing, MatchListing, list_matches
from xscl.answers.matches.reader import named_queries
from xscl.base.types import MatchCounts, time_bound, with_fields
from xscl.engine.opened import OpenedHome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from xscl.answers.once.once import Answer

__all__ = ["Answering"]


class Answering(OpenedHome):
    """Calls that list matches, answer questions once, and read relations."""

    def matches(self, query: str | None = None, listing: Listing = ALL_MATCHES, **given: Any) -> MatchListing:
        """Return matches of one query, or of all, that are committed when this is called.

        They are sorted by (ts, query, match); with ``after`` they come in the order in which they were committed, and
        ``cursor`` of a match, or of the listing, is where to go on from::

            listing = engine.matches(after=cursor)        # "start" the first time
            for match in listing:
                deliver(match)
            cursor = listing.cursor

        Args:
            query: only of the query of this name, also if it was dropped.
            listing: options; ``given`` are fields of it, such as ``since``, ``until``, ``window``, ``limit``.  Whole
                numbers of ``since``, ``until`` and ``now`` are microseconds since the epoch, as ``ts`` of a match is;
                numbers within ``window`` are seconds.

        Raises:
            CatalogError: there was never a query of that name.
            EngineError: ``XSCL_BAD_WINDOW``, ``XSCL_BAD_CURSOR``; ``XSCL_BAD_OPTION``: a bound is no time.
        """
        return list_matches(self.home, listing, **({} if query is None else {"query": query}), **given)

    def changes(self, query: str | None = None, *, after: str = "start", limit: int | None = None) -> MatchListing:
        """Return what came and went behind a cursor, in the order in which it was committed.

        A match with ``retracted`` says that the match of its id no longer holds, and why.  Applied in their order, the
        changes give the matches that hold::

            listing = engine.changes(after=cursor)
            for match in listing:
                if match.retracted is None:
                    table[match.id] = match
                else:
                    del table[match.id]
            cursor = listing.cursor

        Args:
            query: only of the query of this name, also if it was dropped.
            after: cursor of a match or of a listing; ``start`` is before everything.
            limit: number of changes at most.

        Raises:
            CatalogError: there was never a query of that name.
            EngineError: ``XSCL_BAD_CURSOR``.
        """
        return list_matches(self.home, query=query, after=after, limit=limit)

    def count_matches(
        self,
        query: str | None = None,
        by: Sequence[str] = (),
        aggregates: Sequence[str] = (),
        listing: Listing = ALL_MATCHES,
        **given: Any,
    ) -> MatchCounts:
        """Count the matches of a query, or of each, that are committed now; rows with the most matches come first.

        ::

            engine.count_matches("rises", by=["symbol"], aggregates=["max(price)"], window="NOW-7d..NOW").rows

        Args:
            query: only of the query of this name, also if it was dropped; by default a row for each query.
            by: variables of the query; a row has the matches that share values of all.
            aggregates: ``max(x)``, ``min(x)``, ``sum(x)``, ``avg(x)``, ``count(x)`` or ``count(DISTINCT x)`` of
                variables.
            listing: options, as of ``matches``; ``given`` are fields of it.

        Raises:
            CatalogError: there was never a query of that name.
            EngineError: ``XSCL_BAD_AGGREGATE``, ``XSCL_COUNT_SIZE``, and as ``matches`` says.
        """
        asked = with_fields(listing, given | ({} if query is None else {"query": query}))
        return count_matches(self.home, asked, by, aggregates)

    def query_once(self, text: str, *, since: int | str | datetime | None = None, name: str | None = None) -> Answer:
        """Answer one query from all that is held, sorted by (ts, match), without registering it.

        Nothing is written to the home, events that wait to be processed count, and other processes may work on the
        home.  The ids are those that a query of this name and text has.  Temporary files go where Python puts them
        (``TMPDIR``), which executors on other machines must be able to reach.

        Args:
            text: one query, which DECLAREs may precede; nothing is published.
            since: members are of this event time or later: microseconds, ISO 8601, or a datetime.  By default the
                text's own STARTING says so, where NOW means all that is held: nothing comes after the question.
            name: what the matches are listed under; else the text's own (CREATE QUERY), or ``once``.

        Returns:
            An iterator of matches, whose ``notes`` say what they may lack: a channel that is not there, documents that
            queries are still to publish, documents that were left out.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: it is no name.
        """
        from xscl.answers.once.once import query_once

        return query_once(
            self.home, self._driver.settings, lambda: self.spark, text, since=time_bound("since", since), name=name
        )

    def matches_df(
        self,
        query: str | None = None,
        *,
        since: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
    ) -> DataFrame:
        """Return matches of one query, or of all, as a DataFrame of Spark, in no order; docs/reference/sql.md lists its
        columns.

        Spark's tasks build values and documents when rows are read.

        Args:
            query: only of the query of this name, also if it was dropped.
            since: of this event time or later: microseconds, ISO 8601, or a datetime; bounds are included.
            until: of this event time or earlier.

        Raises:
            CatalogError: there was never a query of that name.
            EngineError: ``XSCL_BAD_OPTION``: a bound is no time.
        """
        begin, end = time_bound("since", since), time_bound("until", until)
        if query is not None:
            named_queries(self.home, query)
        from xscl.answers.sql.views import matches_frame

        return matches_frame(self.home, self.spark, query, begin, end)

    def channel_df(
        self,
        name: str,
        *,
        since: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
    ) -> DataFrame:
        """Return the events of a channel as a DataFrame of Spark, in no order; docs/reference/sql.md lists its columns.

        Spark's tasks decode the columns that are read.  Bounds keep files of other times from being read.

        Args:
            name: the channel's name.
            since: of this event time or later: microseconds, ISO 8601, or a datetime; bounds are included.
            until: of this event time or earlier.

        Raises:
            CatalogError: ``XSCL_UNKNOWN_CHANNEL``.
            EngineError: ``XSCL_BAD_OPTION``: a bound is no time.
        """
        begin, end = time_bound("since", since), time_bound("until", until)
        from xscl.answers.sql.views import channel_frame

        return channel_frame(self.home, self.spark, name, begin, end)

    def sql(self, statement: str, /, **frames: object) -> DataFrame:
        """Read the home's relations with one statement of Spark SQL, which docs/reference/sql.md describes.

        DataFrames of Spark and pandas and tables of pyarrow that are given by name are relations of this statement.
        So are the temporary views of the session that ``connect`` was given, unless the home has a relation of
        that name::

            engine.sql("SELECT owner, count(*) AS n FROM matches JOIN owners USING (qid) GROUP BY owner", owners=df)

        Raises:
            EngineError: ``XSCL_SQL``: the statement does something else than reading, or Spark cannot run it.
                ``XSCL_BAD_OPTION``: a frame is no table, or has the name of a relation of the home.
        """
        caller = self.spark if self._is_given else None
        from xscl.answers.sql.views import sql_session

        return sql_session(self.home, self.spark, statement, frames=frames, caller=caller)
