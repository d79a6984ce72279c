"""The Spark data source ``xscl-matches``: matches in the order of commits, for batches and streams.

Offsets of a stream are the cursors of listings.  Two cursors have the same matches between them for ever, so a
micro-batch that Spark repeats has the same rows.  Tasks read the catalogue and the files of the home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import sqlalchemy as sa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from xscl.answers.matches.cursors import Cursor, parse_cursor, refuse_ahead
from xscl.answers.matches.listing import built_matches
from xscl.answers.matches.reader import FoundMatch, MatchReader, named_queries
from xscl.answers.matches.times import Times
from xscl.answers.spark_sources.common import HomeSource
from xscl.base.types import Match
from xscl.catalog.tables import BATCHES, HAS_CHANGES
from xscl.store.home import Home

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["MatchSource"]

_COLUMNS = (
    "match string, query string, ts timestamp, ts_min timestamp, ts_max timestamp, channels array<string>, "
    "ids array<string>, times array<timestamp>, nodes map<string, string>, values map<string, string>, "
    "document string, replaces string, cursor string, retracted string"
)
_PARTS = 64
"""Tasks of a micro-batch, at most."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MatchSource(HomeSource):
    """Matches: ``spark.readStream.format("xscl-matches").option("query", "Q1").load("xscl-home")``.

    Options: ``query`` (all), ``after`` (``start``, or a cursor), ``catalog``; of streams ``maxRowsPerTrigger``.
    """

    known = ("query", "after")

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "xscl-matches"

    def schema(self) -> str:
        """Return the columns as DDL: those of ``Engine.matches_df``, the cursor, and why a match no longer holds."""
        self.check()
        with self.home() as home:
            if self.query is not None:
                named_queries(home, self.query)
        return _COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of batches."""
        return _Reader(self, schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's name
        """Make the reader of streams."""
        return _StreamReader(self, schema.fieldNames())

    @property
    def query(self) -> str | None:
        """Name of the query whose matches are wanted; None: of all."""
        return self.options.get("query")

    @property
    def begin(self) -> Cursor:
        """Return the place to begin behind."""
        return parse_cursor(self.options.get("after", "start"))

    def found(self, home: Home, begin: Cursor, end: Cursor | None = None) -> Iterator[FoundMatch]:
        """Iterate over the matches between two cursors."""
        reader = MatchReader(home, self.query, Times(), first=begin.batch)
        return takewhile(lambda item: end is None or not item.cursor.is_behind(end), reader.by_commit(begin))

    def rows(self, part: _Part, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
        """Return the rows of a part."""
        with self.home() as home:
            for match in built_matches(home, self.found(home, parse_cursor(part.begin), parse_cursor(part.end))):
                row = _row(match)
                yield tuple(row[name] for name in names)


@dataclass
class _Part(InputPartition):
    """Matches between two cursors."""

    begin: str
    end: str


class _Reader(DataSourceReader):
    """Matches that are committed when tasks are planned."""

    def __init__(self, source: MatchSource, names: Sequence[str]) -> None:
        self._source = source
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the matches into parts of several batches each."""
        with self._source.home() as home:
            return _parts(home, self._source.begin, _end(home))

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Return the rows of a part."""
        assert isinstance(partition, _Part)
        return self._source.rows(partition, self._names)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Matches as batches commit them."""

    def __init__(self, source: MatchSource, names: Sequence[str]) -> None:
        self._source = source
        self._names = names
        self._limit = source.limit
        self._last: Cursor | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - pyspark's name
        """Return the cursor of the option ``after``."""
        return {"cursor": str(self._source.begin)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - pyspark's name
        """Return the limit of ``maxRowsPerTrigger``, or none."""
        return self._limit

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802 - pyspark's name
        """Return the cursor behind the last match that may be taken now; ``start`` if there is none.

        Raises:
            EngineError: ``XSCL_BAD_CURSOR``: the home has never given ``start``.
        """
        begin = parse_cursor(start["cursor"])
        with self._source.home() as home:
            end = _end(home)
            refuse_ahead(begin, end.batch - 1)
            if self._last is not None and end.is_behind(self._last):
                end = self._last
            if not end.is_behind(begin) or not _batches(home, begin, end):
                return start
            if isinstance(limit, ReadMaxRows):
                some = list(islice(self._source.found(home, begin, end), limit.max_rows))
                end = some[-1].cursor if len(some) == limit.max_rows else end
        return {"cursor": str(end)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - pyspark's name
        """Take no more than what is there now."""
        with self._source.home() as home:
            self._last = _end(home)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Cut the matches between two cursors into parts of several batches each."""
        with self._source.home() as home:
            return _parts(home, parse_cursor(start["cursor"]), parse_cursor(end["cursor"]))

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Return the rows of a part."""
        assert isinstance(partition, _Part)
        return self._source.rows(partition, self._names)


def _end(home: Home) -> Cursor:
    """Return the place behind everything that is committed."""
    with home.catalog.read() as connection:
        return Cursor((connection.scalar(sa.select(sa.func.max(BATCHES.c.batch))) or 0) + 1)


def _batches(home: Home, begin: Cursor, end: Cursor) -> list[int]:
    """Return the batches with matches that lie between two cursors, in part or as a whole."""
    batch = BATCHES.c.batch
    between = batch >= begin.batch, (batch <= end.batch if end.docids else batch < end.batch)
    statement = sa.select(batch).where(HAS_CHANGES, *between).order_by(batch)
    with home.catalog.read() as connection:
        return list(connection.scalars(statement))


def _parts(home: Home, begin: Cursor, end: Cursor) -> list[InputPartition]:
    """Cut the batches between two cursors into parts that lie one behind another."""
    batches = _batches(home, begin, end)
    size = max(1, -(-len(batches) // _PARTS))
    cuts = [begin, *(Cursor(batches[place]) for place in range(size, len(batches), size)), end]
    if not batches:
        return []
    return [_Part(str(first), str(last)) for first, last in zip(cuts, cuts[1:], strict=False)]


def _row(match: Match) -> dict[str, object]:
    ts, *times = (_EPOCH + timedelta(microseconds=ts) for ts in (match.ts, *(event.ts for event in match.events)))
    return {
        "match": match.id,
        "query": match.query,
        "ts": ts,
        "ts_min": min(times),
        "ts_max": ts,
        "channels": [event.channel for event in match.events],
        "ids": [event.id for event in match.events],
        "times": times,
        "nodes": {name: str(node) for name, node in match.nodes.items()},
        "values": dict(match.values),
        "document": match.document,
        "replaces": match.replaces,
        "cursor": match.cursor,
        "retracted": None if match.retracted is None else match.retracted.because,
    }
