"""Events of a home as lines of an event file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow.parquet as pq

from xscl.base.sealed import CHECKED_PAGES
from xscl.base.types import format_time
from xscl.catalog.records import ChannelInfo, StreamInfo
from xscl.ingest.rows import TEXT_TYPES
from xscl.store.home import Home
from xscl.templates.members import NONE, Membership

__all__ = ["EventLines", "Line", "value_of_cell"]

_COLUMNS = ("docid", "channel", "id", "version", "ts", "content", "cells", "membership", "start")
_ROWS = 2_000
Line = dict[str, object]


class EventLines:
    """Events as lines of an event file; those of channels that are not given are left out."""

    def __init__(
        self,
        home: Home,
        channels: Mapping[str, ChannelInfo],
        streams: Mapping[str, StreamInfo],
        memberships: Mapping[int, Membership],
    ) -> None:
        self._home = home
        self._channels = channels
        self._names = {(stream.channel, stream.number): stream.name for stream in streams.values()}
        self._memberships = memberships
        self.count = 0
        self.versions = 0

    def lines(self, paths: list[str]) -> Iterator[tuple[int, Line]]:
        """Yield (place, line), by place; some rows of a file are in memory."""
        for path in self._home.paths(paths):
            with pq.ParquetFile(path, **CHECKED_PAGES) as file:
                there = [name for name in _COLUMNS if name in file.schema_arrow.names]
                for batch in file.iter_batches(_ROWS, columns=there):
                    for row in batch.to_pylist():
                        yield from self.of_event(row)

    def of_event(self, row: Mapping[str, object]) -> Iterator[tuple[int, Line]]:
        """Yield (place, line) of an event, a row of ``EVENT_SCHEMA``: one for each stream that it came by."""
        channel, docid, ts = row["channel"], row["docid"], row["ts"]
        assert isinstance(channel, str) and isinstance(docid, int) and isinstance(ts, int)
        number = row["membership"]
        assert isinstance(number, int)
        if channel not in self._channels:
            return
        self.versions += row["version"] != 1
        line: Line = {"channel": channel, "id": row["id"], "ts": format_time(ts)}
        start = row.get("start")
        if isinstance(start, int):
            line["start"] = format_time(start)
        if row["content"] is not None:
            line["xml"] = row["content"]
        else:
            line["row"] = self._row(channel, row["cells"])
        # An event that came by several streams is one if the lines stand together.
        for stream in sorted(self._memberships.get(number, NONE).streams) or [0]:
            self.count += 1
            yield docid, {**line, "channel": self._names.get((channel, stream), channel)}

    def _row(self, channel: str, cells: object) -> Line:
        columns = self._channels[channel].schema or {}
        assert isinstance(cells, list)
        # Columns that came later are not in the rows before.
        return {name: value_of_cell(kind, cell) for (name, kind), cell in zip(columns.items(), cells, strict=False)}


def value_of_cell(kind: str | None, cell: str | None) -> object:
    """Return the value of a column; a channel makes the same cell of it again."""
    if cell is None or kind in TEXT_TYPES or kind == "decimal":
        return cell
    if kind == "bigint":
        return int(cell)
    return cell == "true" if kind == "boolean" else float(cell)
