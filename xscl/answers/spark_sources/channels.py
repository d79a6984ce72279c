"""The Spark data source ``xscl-channel``: events of a channel, for batches and streams.

An offset of a stream says up to which place of the intake order it has events that were taken in, and up to which
batch it has documents that queries published.  Between two offsets there are the same events for ever, so a
micro-batch that Spark repeats has the same rows; later copies of events are no rows.  Tasks read files only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from xscl.answers.spark_sources.common import HomeSource
from xscl.answers.sql.channel_views import ChannelView, read_views
from xscl.base.arrow_schemas import spark_schema
from xscl.base.docids import place_of
from xscl.base.errors import EngineError
from xscl.base.sealed import missing_file
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.suggestions import no_channel, suggestion
from xscl.ingest.channel_columns import EVENT_COLUMNS, ChannelColumn, decoded
from xscl.store.event_parts import BEGIN, EventPart, Offset, all_parts, last_offset, limited, parts_between
from xscl.store.event_spans import Events
from xscl.store.home import Home

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["ChannelSource"]

_NARROW = ["docid", "channel", "id", "version", "ts", "received", "membership"]


class ChannelSource(HomeSource):
    """Events: ``spark.readStream.format("xscl-channel").option("channel", "news").load("xscl-home")``.

    Options: ``channel``, ``since`` and ``until`` (event times), ``catalog``; of streams ``after`` (``start``, ``now``,
    or a place of the intake order) and ``maxRowsPerTrigger``.  With a schema of some columns, others are not decoded.
    """

    known = ("channel", "since", "until", "after")

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "xscl-channel"

    def schema(self) -> str:
        """Return the columns as DDL."""
        self.check()
        with self.home() as home:
            columns = self.view(home).columns
        own = pa.schema([(column.name, column.type) for column in columns])
        return f"{spark_schema(EVENT_COLUMNS)}, {spark_schema(own)}" if columns else spark_schema(EVENT_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of batches."""
        return _Reader(self, schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's name
        """Make the reader of streams."""
        return _StreamReader(self, schema.fieldNames())

    @property
    def channel(self) -> str:
        """Name of the channel.

        Raises:
            EngineError: ``XSCL_BAD_OPTION``: there is none.
        """
        channel = self.options.get("channel")
        if channel is None:
            raise EngineError("XSCL_BAD_OPTION", "xscl-channel needs a channel", hint=".option('channel', 'items')")
        return channel

    def view(self, home: Home) -> ChannelView:
        """Read the channel.

        Raises:
            CatalogError: ``XSCL_UNKNOWN_CHANNEL``.
        """
        with home.catalog.read() as connection:
            view = read_views(connection).get(self.channel)
            if view is None:
                raise no_channel(connection, self.channel, "list them with 'xscl channel list'")
        return view

    def parts(self, home: Home, parts: Sequence[EventPart], names: Sequence[str]) -> list[InputPartition]:
        """Return parts for tasks, with all that they need to know.

        Raises:
            EngineError: ``XSCL_NO_COLUMN``: the channel has no column of a name.
        """
        view = self.view(home)
        known = [*EVENT_COLUMNS.names, *(column.name for column in view.columns)]
        for name in names:
            if name not in known:
                hint = suggestion(name, known, f"columns are {', '.join(known)}")
                raise EngineError("XSCL_NO_COLUMN", f"channel {view.channel} has no column {name!r}", hint=hint)
        columns = tuple(column for column in view.columns if column.name in names)
        wanted = replace(self.times, channel=view.channel)
        return [_Part(part, replace(view, columns=columns), wanted, tuple(names)) for part in parts]


@dataclass
class _Part(InputPartition):
    """Events that one task reads."""

    events: EventPart
    view: ChannelView
    wanted: Events
    names: tuple[str, ...]


class _Reader(DataSourceReader):
    """Events that are there when tasks are planned."""

    def __init__(self, source: ChannelSource, names: Sequence[str]) -> None:
        self._source = source
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files that may have events of the channel and of the times."""
        with self._source.home() as home:
            with home.catalog.read() as connection:
                parts = all_parts(connection, home, replace(self._source.times, channel=self._source.channel))
            return self._source.parts(home, parts, self._names)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a part."""
        assert isinstance(partition, _Part)
        return _rows(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Events as they come to be seen."""

    def __init__(self, source: ChannelSource, names: Sequence[str]) -> None:
        self._source = source
        self._names = names
        self._limit = source.limit
        self._last: Offset | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - pyspark's name
        """Return the place of the option ``after``.

        Raises:
            EngineError: ``XSCL_BAD_OPTION``.
        """
        after = self._source.options.get("after", "start").strip()
        if after == "now":
            with self._source.home() as home, home.catalog.read() as connection:
                processed, taken_in = read_last_places(connection)
            return replace(Offset.at(processed), place=taken_in).json()
        if after != "start" and not after.isdecimal():
            raise EngineError("XSCL_BAD_OPTION", f"after is start, now or a place of the intake order, not {after!r}")
        return (BEGIN if after == "start" else Offset.at(int(after))).json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - pyspark's name
        """Return the limit of ``maxRowsPerTrigger``, or none."""
        return self._limit

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - pyspark's name
        """Return the place behind the last event that may be taken now; ``start`` if there is none.

        Raises:
            EngineError: ``XSCL_BAD_CURSOR``: the home has never given ``start``.
        """
        begin = Offset.read(start)
        with self._source.home() as home:
            _refuse_ahead(home, begin)
            end = last_offset(home, self._source.channel, begin)
            if self._last is not None:
                end = _least(end, self._last)
            if isinstance(limit, ReadMaxRows):
                end = limited(home, self._source.channel, begin, end, limit.max_rows)
        return end.json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - pyspark's name
        """Take no more than what is there now."""
        with self._source.home() as home:
            self._last = last_offset(home, self._source.channel)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the files with events between two places."""
        with self._source.home() as home:
            parts = parts_between(home, self._source.channel, Offset.read(start), Offset.read(end))
            return self._source.parts(home, parts, self._names)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a part."""
        assert isinstance(partition, _Part)
        return _rows(partition)


def _least(end: Offset, last: Offset) -> Offset:
    """Return the lesser place for either part."""
    published, docid = min((end.published, end.docid), (last.published, last.docid))
    return Offset(min(end.place, last.place), published, docid)


def _refuse_ahead(home: Home, begin: Offset) -> None:
    with home.catalog.read() as connection:
        _, taken_in = read_last_places(connection)
    if max(begin.place, begin.published) > taken_in:
        raise EngineError(
            "XSCL_BAD_CURSOR",
            f"place {max(begin.place, begin.published)} is ahead of all that was taken in here (place {taken_in})",
            hint="a checkpoint belongs to the home that it was made with; a new one begins with the option after",
        )


# -- tasks ---------------------------------------------------------------------------------------------------------


def _rows(part: _Part) -> Iterator[pa.RecordBatch]:
    """Read the rows of a part; stored columns are read for row groups with wanted events, and decoded for these."""
    stored = list(dict.fromkeys(column.stored for column in part.view.columns))
    try:
        with pq.ParquetFile(part.events.path, page_checksum_verification=True) as file:
            for group in part.events.groups:
                narrow = file.read_row_group(group, columns=_NARROW)
                chosen = _chosen(part, narrow)
                if not len(chosen):
                    continue
                more = file.read_row_group(group, columns=stored).take(chosen) if stored else None
                yield _batch(part, narrow.take(chosen), more)
    except FileNotFoundError:
        raise missing_file(Path(part.events.path)) from None


def _chosen(part: _Part, events: pa.Table) -> pa.Array:
    """Return the places of the events that are wanted."""
    docid, ts = events["docid"].to_numpy(), events["ts"].to_numpy()
    view, wanted = part.view, part.wanted
    here = np.asarray(pc.equal(events["channel"], view.channel).to_numpy())
    here &= (docid >= part.events.first) & (docid <= part.events.last)
    here &= (ts >= wanted.since) & (ts <= wanted.until)
    if part.events.only is not None:
        here &= np.isin(docid, np.frombuffer(part.events.only, dtype=np.int64))
    if view.copies:
        here &= ~np.isin(events["membership"].to_numpy(), list(view.copies))
    if view.kept_from is not None:
        here &= (ts >= view.kept_from) | (place_of(docid) > view.processed)
    return pa.array(np.flatnonzero(here))


def _batch(part: _Part, events: pa.Table, stored: pa.Table | None) -> pa.RecordBatch:
    events = events.combine_chunks()
    columns: dict[str, ChannelColumn] = {column.name: column for column in part.view.columns}
    arrays = []
    for name in part.names:
        if name == "stream":
            streams = [list(part.view.streams.get(number, ())) for number in events["membership"].to_pylist()]
            arrays.append(pa.array(streams, EVENT_COLUMNS.field(name).type))
        elif name in EVENT_COLUMNS.names:
            arrays.append(_whole(events[name]).cast(EVENT_COLUMNS.field(name).type))
        else:
            assert stored is not None
            arrays.append(decoded(columns[name], _whole(stored[columns[name].stored])))
    return pa.RecordBatch.from_arrays(arrays, names=list(part.names))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
