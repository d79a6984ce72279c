"""Absence: wanted bindings, less bindings with a forbidden document, once no such document can come any more.

A *pending* row is a binding that was found and is not decided.  A row is decided at the first place of the intake order
at which its members are in, and at which the times of all channels that may bring a forbidden document are settled
beyond its ends.  ``Settled`` tells the places.  The functions here know tables alone, so tasks run them on parts of the
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.templates.columns import Int64s

__all__ = ["KILL_SCHEMA", "NOT_YET", "PENDING_SCHEMA", "Round", "Settled", "parted", "subtracted"]

NOT_YET = 1 << 62
"""A place behind all others."""
PENDING_SCHEMA = pa.schema(
    [
        ("gid", pa.int64()),  # the group about absence
        ("key", pa.binary()),  # members and nodes, which tell bindings of a group apart
        ("docs", pa.list_(pa.int64())),
        ("nodes", pa.list_(pa.int32())),  # those that make a match
        ("witness", pa.list_(pa.int32())),
        ("ts", pa.int64()),  # time of the match
        ("later", pa.int64()),  # how much later that is than the newest member
        ("came", pa.int64()),  # place at which its members are in
        ("ends", pa.list_(pa.int64())),  # greatest time of each forbidden document
        ("killed", pa.int64()),  # greatest place of a forbidden document that came; -1: none
    ]
)
KILL_SCHEMA = pa.schema([("gid", pa.int64()), ("key", pa.binary()), ("place", pa.int64())])
"""A binding with a forbidden document, and the place of that."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Times below which the events of a channel are in, by places of a range."""

    before: int
    """Time before the range."""
    places: Int64s
    """Places at which it grows, ascending."""
    times: Int64s
    """Time from each of them on, ascending."""

    def beyond(self, ends: Int64s) -> Int64s:
        """Return the first place at which all events up to some times are in; -1: they were before.

        >>> Settled(5, np.array([7, 9]), np.array([8, 20])).beyond(np.array([4, 5, 8, 20])).tolist()[:3]
        [-1, 7, 9]
        """
        at = np.searchsorted(self.times, ends, side="right")
        places = np.append(self.places, NOT_YET)[at]
        found: Int64s = np.where(self.before > ends, -1, places)
        return found


@dataclass(frozen=True, slots=True)
class Round:
    """Rows to decide in a range of places."""

    pending: pa.Table
    """Table ``PENDING_SCHEMA``."""
    kills: pa.Table
    """Table ``KILL_SCHEMA``."""


def parted(work: Round, count: int) -> list[Round]:
    """Cut rows into parts, so that a binding and what forbids it are in one."""
    if count <= 1:
        return [work]

    def cut(table: pa.Table) -> list[pa.Table]:
        keys = table.column("key").combine_chunks()
        numbers = np.array([crc32(key) for key in keys.to_pylist()], dtype=np.int64) % count
        return [table.filter(pa.array(numbers == part)) for part in range(count)]

    return [Round(*each) for each in zip(cut(work.pending), cut(work.kills), strict=True)]


def subtracted(
    channels: Mapping[int, Sequence[str]], settled: Mapping[str, Settled], first: int, last: int, work: Round
) -> tuple[pa.Table, pa.Table]:
    """Decide what can be decided: rows that are decided, with the place of the decision, and rows that are left.

    Args:
        channels: the channel of each forbidden document, by group.
        settled: how far the times of channels are settled.
        first: first place of the range.
        last: last place of it.
        work: the rows.
    """
    pending = work.pending
    decided = _places(pending, channels, settled, first)
    pending = pending.append_column("decided", pa.array(decided))
    pending = _killed(pending, work.kills)
    done = pa.array(pending.column("decided").to_numpy() <= last)
    return pending.filter(done), pending.filter(pc.invert(done)).drop_columns(["decided"])


def _places(
    pending: pa.Table, channels: Mapping[int, Sequence[str]], settled: Mapping[str, Settled], first: int
) -> Int64s:
    """Return the place at which each row is decided; ``NOT_YET`` for those that are not."""
    groups = pending.column("gid").to_numpy()
    found = np.maximum(pending.column("came").to_numpy(), first)
    ends = pending.column("ends").combine_chunks()
    starts = ends.offsets.to_numpy()[: len(groups)]
    values = ends.values.to_numpy()
    for gid in np.unique(groups).tolist():
        mine = np.flatnonzero(groups == gid)
        for number, channel in enumerate(channels[gid]):
            beyond = settled[channel].beyond(values[starts[mine] + number])
            found[mine] = np.maximum(found[mine], beyond)
    return np.asarray(found, dtype=np.int64)


def _killed(pending: pa.Table, kills: pa.Table) -> pa.Table:
    """Note the newest forbidden document of each row that came before the decision."""
    if not kills.num_rows or not pending.num_rows:
        return pending
    rows = pending.select(["gid", "key", "decided"]).append_column("row", pa.array(np.arange(pending.num_rows)))
    met = rows.join(kills, ["gid", "key"], join_type="inner")
    row, place = met.column("row").to_numpy(), met.column("place").to_numpy()
    in_time = place <= met.column("decided").to_numpy()
    killed = pending.column("killed").to_numpy().copy()
    np.maximum.at(killed, row[in_time], place[in_time])
    at = pending.schema.get_field_index("killed")
    return pending.set_column(at, "killed", pa.array(killed))
