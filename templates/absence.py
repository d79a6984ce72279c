"""Absence: wanted bindings, less bindings with a forbidden document, as far as clocks and settled times tell.

A *pending* row is a binding that was found and is not final.  A row is answered at the first place of the intake order
at which its members are in, and at which all channels that may bring a forbidden document are beyond its ends by their
clocks, less what the query blocks.  Rows are final where the times of these channels are settled beyond their ends.
``Settled`` tells the places.  The functions here know tables alone, so tasks run them on parts of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.templates.columns import Bools, Int64s

__all__ = [
    "HIT_SCHEMA",
    "KILL_SCHEMA",
    "NEVER",
    "NOT_YET",
    "PENDING_SCHEMA",
    "Frontiers",
    "Round",
    "Settled",
    "Subtracted",
    "decided_places",
    "parted",
    "subtracted",
]

NOT_YET = 1 << 62
"""A place behind all others."""
NEVER = -(1 << 62)
"""A time before all others."""
PENDING_SCHEMA = pa.schema(
    [
        ("gid", pa.int64()),  # the group about absence
        ("members", pa.binary()),  # documents, by which rows of one match stand in one part
        ("key", pa.binary()),  # members and nodes, which tell bindings of a group apart
        ("docs", pa.list_(pa.int64())),
        ("nodes", pa.list_(pa.int32())),  # those that make a match
        ("witness", pa.list_(pa.int32())),
        ("ts", pa.int64()),  # time of the match
        ("later", pa.int64()),  # how much later that is than the newest member
        ("came", pa.int64()),  # place at which its members are in
        ("waits", pa.string()),  # by what it is answered and final, a key of ``Frontiers``
        ("ends", pa.list_(pa.int64())),  # greatest time of each forbidden document
        ("killed", pa.int64()),  # greatest place of a forbidden document that came; -1: none
        ("answered", pa.int64()),  # place at which it was answered; -1: not yet
    ]
)
KILL_SCHEMA = pa.schema(
    [
        ("gid", pa.int64()),
        ("members", pa.binary()),
        ("key", pa.binary()),
        ("place", pa.int64()),  # of the forbidden document
        ("other", pa.int64()),  # number of that document
    ]
)
"""A binding with a forbidden document."""
HIT_SCHEMA = pa.schema([("row", pa.int64()), ("place", pa.int64()), ("other", pa.int64())])
"""A forbidden document of a touched row that came before the row was final."""


@dataclass(frozen=True, slots=True)
class Frontiers:
    """Places at which rows that wait for the same channels are answered and final."""

    answers: Sequence[Settled]
    """Times up to which each channel of a forbidden document answers."""
    settled: Sequence[Settled]
    """Times below which the events of each are in."""

    @property
    def is_open(self) -> bool:
        """Whether nothing settles the times of some channel, so that no row is final."""
        return any(each.before == NEVER and not (each.times > NEVER).any() for each in self.settled)


@dataclass(frozen=True, slots=True)
class Settled:
    """Times below which the events of a channel are in, by places of a range."""

    before: int
    """Time before the range."""
    places: Int64s
    """Places at which it changes, ascending."""
    times: Int64s
    """Time from each of them on; it falls only where a channel begins or ceases to be fed by queries alone."""

    def at(self, places: Int64s) -> Int64s:
        """Return the times at some places."""
        found: Int64s = np.append(self.before, self.times)[np.searchsorted(self.places, places, side="right")]
        return found

    def beyond(self, ends: Int64s, since: Int64s) -> Int64s:
        """Return the first place, from ``since`` on, at which all events up to some times are in.

        >>> found = Settled(5, np.array([7, 9, 12]), np.array([8, 20, 6]))
        >>> found.beyond(np.array([4, 5, 8, 8, 5]), np.array([6, 6, 6, 12, 12])).tolist() == [6, 7, 9, NOT_YET, 12]
        True
        """
        times, places = np.append(self.before, self.times), np.append(-1, self.places)
        falls = np.flatnonzero(times[1:] < times[:-1]) + 1
        found = np.full(len(ends), NOT_YET)
        for first, last in zip(np.append(0, falls).tolist(), np.append(falls, len(times)).tolist(), strict=True):
            at = first + np.searchsorted(times[first:last], ends, side="right")
            end = places[last] if last < len(places) else NOT_YET
            here = np.maximum(np.append(places, NOT_YET)[at], since)
            found = np.where((at < last) & (here < end), np.minimum(found, here), found)
        return found


@dataclass(frozen=True, slots=True)
class Round:
    """Rows to decide in a range of places."""

    pending: pa.Table
    """Table ``PENDING_SCHEMA``."""
    kills: pa.Table
    """Table ``KILL_SCHEMA``."""


def parted(work: Round, count: int) -> list[Round]:
    """Cut rows into parts, so that the bindings of a match and what forbids them are in one."""
    if count <= 1:
        return [work]

    def cut(table: pa.Table) -> list[pa.Table]:
        keys = table.column("members").combine_chunks()
        numbers = np.array([crc32(key) for key in keys.to_pylist()], dtype=np.int64) % count
        return [table.filter(pa.array(numbers == part)) for part in range(count)]

    return [Round(*each) for each in zip(cut(work.pending), cut(work.kills), strict=True)]


@dataclass(frozen=True, slots=True)
class Subtracted:
    """Outcome for some rows in a range of places."""

    touched: pa.Table
    """Rows of ``PENDING_SCHEMA`` as they were before, with the place ``decided`` of their answers.

    They are answered, or one of their matches was killed.
    """
    hits: pa.Table
    """Table ``HIT_SCHEMA``."""
    left: pa.Table
    """Rows that are not final: table ``PENDING_SCHEMA``."""


def subtracted(frontiers: Mapping[str, Frontiers], first: int, last: int, work: Round) -> Subtracted:
    """Answer what can be answered, and note what forbids rows that are not final.

    Args:
        frontiers: by what rows wait for.
        first: first place of the range.
        last: last place of it.
        work: the rows.
    """
    pending = work.pending
    known = pending.column("answered").to_numpy()
    decided, final = decided_places(frontiers, first, pending)
    row, place, other = _hits(pending, work.kills, final, first)
    killed = pending.column("killed").to_numpy().copy()
    np.maximum.at(killed, row, place)
    touched = np.flatnonzero(_touched(pending, (decided <= last) & (known < 0), row[known[row] >= 0]))
    at = np.full(pending.num_rows, -1)
    at[touched] = np.arange(len(touched))
    mine = at[row] >= 0
    hits = {"row": at[row[mine]], "place": place[mine], "other": other[mine]}
    now = _with(pending, {"killed": killed, "answered": np.where(decided <= last, decided, known)})
    return Subtracted(
        pending.append_column("decided", pa.array(decided)).take(pa.array(touched)),
        pa.table(hits, schema=HIT_SCHEMA),
        now.filter(pa.array(final > last)),
    )


def decided_places(frontiers: Mapping[str, Frontiers], first: int, pending: pa.Table) -> tuple[Int64s, Int64s]:
    """Return the places, from ``first`` on, at which rows are answered, unless they are already, and final."""
    known = pending.column("answered").to_numpy()
    came = np.maximum(pending.column("came").to_numpy(), first)
    answers = {name: each.answers for name, each in frontiers.items()}
    settled = {name: each.settled for name, each in frontiers.items()}
    decided = np.where(known >= 0, known, _places(pending, came, answers))
    return decided, np.maximum(decided, _places(pending, came, settled))


def _touched(pending: pa.Table, answered: Bools, hit: Int64s) -> Bools:
    """Tell which rows are answered now, or are of a match that had been answered and one of whose rows is hit."""
    if len(hit):
        members = pending.column("members").combine_chunks()
        matches = pc.is_in(members, pc.unique(members.take(pa.array(hit)))).to_numpy(zero_copy_only=False)
        answered = answered | matches & (pending.column("answered").to_numpy() >= 0)
    return answered


def _with(table: pa.Table, columns: Mapping[str, Int64s]) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, pa.int64()))
    return table


def _places(pending: pa.Table, came: Int64s, settled: Mapping[str, Sequence[Settled]]) -> Int64s:
    """Return the place at which each row's members are in, and all channels beyond its ends; ``NOT_YET``: none."""
    waits = pending.column("waits").combine_chunks().dictionary_encode()
    found = came.copy()
    ends = pending.column("ends").combine_chunks()
    starts = ends.offsets.to_numpy()[: len(found)]
    values = ends.values.to_numpy()
    for kind, name in enumerate(waits.dictionary.to_pylist()):
        mine = np.flatnonzero(waits.indices.to_numpy() == kind)
        # All channels at one place: one may have fallen back where another has come.
        before = None
        while before is None or (found[mine] > before).any():
            before = found[mine]
            for number, channel in enumerate(settled[name]):
                found[mine] = channel.beyond(values[starts[mine] + number], found[mine])
    return np.asarray(found, dtype=np.int64)


def _hits(pending: pa.Table, kills: pa.Table, final: Int64s, first: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return (row, place, document) of forbidden documents that came before the rows are final."""
    if not kills.num_rows or not pending.num_rows:
        none = np.zeros(0, np.int64)
        return none, none, none
    rows = pending.select(["gid", "key"]).append_column("row", pa.array(np.arange(pending.num_rows)))
    met = rows.join(kills.drop_columns(["members"]), ["gid", "key"], join_type="inner")
    row, place, other = (met.column(name).to_numpy() for name in ("row", "place", "other"))
    in_time = np.maximum(place, first) <= final[row]
    return row[in_time], place[in_time], other[in_time]
