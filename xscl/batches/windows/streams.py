"""Rows of matches that several parts share: a match is stored once, with the numbers of the parts that have it.

Parts that select events of one channel by different conditions make *streams* of the channel (M. Hong, RUMOR).  A match
of several streams is one row.  Its values and its groups are made once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from xscl.batches.windows.groups import BEHIND, Matches
from xscl.batches.windows.rows import KEPT_SCHEMA, Found, in_order, in_time, keys_of, rows_of
from xscl.catalog.records import ChannelInfo
from xscl.templates.columns import Bools, Int64s

__all__ = ["ROWLESS", "Stream", "Streams", "of_parts", "shared_rows"]

ROWLESS = KEPT_SCHEMA.empty_table()
"""Table without a match."""


def shared_rows(parts: Int64s, found: Found, events: pa.Table, channels: Mapping[str, ChannelInfo]) -> pa.Table:
    """Return matches that were found for parts as rows, each match once.

    Args:
        parts: the part of each match.
        found: the matches.
        events: their documents, by ``rows.members_of``.
        channels: the channels by name.
    """
    wanted = in_time(found, events)
    parts, docs, nodes = parts[wanted], found.docs[wanted], found.nodes[wanted]
    if not len(parts) or (parts == parts[0]).all():
        lengths = np.ones(len(parts), dtype=np.int64)
    else:
        codes = keys_of(docs, nodes).dictionary_encode().indices.to_numpy()
        order = np.lexsort((parts, codes))
        begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
        lengths = np.diff(begins, append=len(order))
        docs, nodes, parts = docs[order[begins]], nodes[order[begins]], parts[order]
    rows = rows_of(Found(docs, nodes, found.blocks), events, channels)
    return _with_lists(rows, lengths, parts, np.full(len(parts), -1, dtype=np.int64))


def of_parts(kept: Mapping[tuple[int, ...], pa.Table], parts: tuple[int, ...]) -> pa.Table:
    """Return the rows of some parts, which may have shared them with others."""
    if parts in kept:
        return kept[parts]
    wanted, found = np.array(parts, dtype=np.int64), []
    for shared, rows in kept.items():
        if not set(parts).isdisjoint(shared):
            streams = Streams(rows)
            streams.kept = np.isin(streams.parts, wanted)
            found.append(streams.kept_rows())
    return in_order(pa.concat_tables(found)) if found else ROWLESS


class Stream(NamedTuple):
    """Rows of a part among those that it shares."""

    places: Int64s
    """Places among the rows of each part."""
    rows: Int64s
    """The rows, ascending."""


class Streams:
    """Rows of parts that share them, in order."""

    def __init__(self, rows: pa.Table) -> None:
        """Begin with rows (``rows.KEPT_SCHEMA``)."""
        self.rows = rows
        lists = rows.column("parts").combine_chunks()
        self.parts: Int64s = lists.flatten().to_numpy()
        """Parts of all rows, row by row."""
        self.numbers: Int64s = rows.column("numbers").combine_chunks().flatten().to_numpy().copy()
        """Number of each row in each of its parts; -1: its time is not settled."""
        self.kept: Bools = np.zeros(len(self.parts), dtype=np.bool_)
        """Whether a part needs a row any longer."""
        self._row: Int64s = np.repeat(np.arange(len(rows)), lists.value_lengths().to_numpy())
        self._matches = Matches(rows)
        self._order: Int64s = np.argsort(self.parts, kind="stable")
        self._sorted: Int64s = self.parts[self._order]

    def of(self, part: int) -> Stream:
        """Return the rows of a part."""
        begin, end = np.searchsorted(self._sorted, [part, part + 1]).tolist()
        places = self._order[begin:end]
        return Stream(places, self._row[places])

    def number(self, stream: Stream, now: int, settled: int) -> int:
        """Give rows of a part whose time is settled their numbers, which go on behind those of before.

        Args:
            stream: rows of the part.
            now: the time up to which times are settled.
            settled: how many matches of the part were settled before.

        Returns:
            How many are settled now.
        """
        new = np.flatnonzero((self.numbers[stream.places] < 0) & (self._matches.ts[stream.rows] < now))
        self.numbers[stream.places[new]] = settled + np.arange(len(new))
        return settled + len(new)

    def matches(self, stream: Stream) -> Matches:
        """Return the matches of a part, behind ``number``."""
        numbers = self.numbers[stream.places]
        return self._matches.stream(stream.rows, np.where(numbers < 0, BEHIND, numbers))

    def kept_rows(self) -> pa.Table:
        """Return the rows that some part needs, each with these parts."""
        lengths = np.bincount(self._row[self.kept], minlength=len(self.rows))
        rows = _chosen(self.rows, lengths > 0)
        return _with_lists(rows, lengths[lengths > 0], self.parts[self.kept], self.numbers[self.kept])


def _chosen(rows: pa.Table, kept: Bools) -> pa.Table:
    """Return the rows that are kept, without a copy if they are the last."""
    behind = rows.num_rows - int(kept.sum())
    return rows.slice(behind) if kept[behind:].all() else rows.filter(pa.array(kept))


def _with_lists(rows: pa.Table, lengths: Int64s, parts: Int64s, numbers: Int64s) -> pa.Table:
    """Return rows with the parts that have them and their numbers; ``lengths`` has how many each row has."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    lists: dict[str, Any] = {
        name: pa.ListArray.from_arrays(ends, pa.array(values, pa.int64()))
        for name, values in (("parts", parts), ("numbers", numbers))
    }
    columns: Iterable[Any] = (lists.get(name) if name in lists else rows.column(name) for name in KEPT_SCHEMA.names)
    return pa.table(list(columns), schema=KEPT_SCHEMA)
