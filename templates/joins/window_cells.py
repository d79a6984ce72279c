"""Windows of many groups over many pairs of documents: the cells in which all pairs are admitted alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.docids import PUBLISHED, place_of
from xscl.templates.columns import Int32s, Int64s
from xscl.templates.joins.document_facts import DocumentFacts
from xscl.templates.members import Membership, sees
from xscl.templates.ordinals import Ordinals
from xscl.templates.plans import Windows
from xscl.templates.results import Member

__all__ = ["Documents", "MatchedPairs", "admit_all", "pair_ages", "whole_span", "window_cells"]


class MatchedPairs(NamedTuple):
    """Pairs of documents, in columns; -1 and the same time on the right for queries of one block."""

    left: Int64s
    right: Int64s
    ts_l: Int64s
    ts_r: Int64s


@dataclass(frozen=True)
class Documents:
    """Facts of documents that pairs do not carry; they are looked up, seldom."""

    members: Callable[[int, int], list[Member]]
    """The members of a pair; of one document if the right one is -1."""
    left_first: Callable[[MatchedPairs], npt.NDArray[np.bool_]]
    """Tells whether the left document of each pair is first by (ts, channel, id)."""
    facts: Callable[[Int64s], DocumentFacts]
    """Returns what guards read of some documents, whose numbers rise."""
    memberships: Callable[[Int64s], Int32s] | None = None
    """Returns the number of each document's membership; None: all have 0."""
    linked: Callable[[Int64s], pa.StructArray] | None = None
    """Returns documents, whose numbers rise, as members of links; None: no pair is of two documents."""

    def looked_up(self, docs: Int64s) -> Documents:
        """Return the same, which looks the facts of some documents, whose numbers rise, up once."""
        known = self.facts(docs)
        return replace(self, facts=known.of)


def window_cells(
    windows: Windows,
    pairs: MatchedPairs,
    documents: Documents,
    memberships: Mapping[int, Membership],
    ordinals: Ordinals,
) -> tuple[npt.NDArray[np.int64] | None, list[npt.NDArray[np.bool_]]]:
    """Tell which windows admit which pairs: the number of each pair's cell, and what each cell admits.

    Pairs are of one cell if no bound of a window lies between them, and the same streams see both documents.  Bounds
    that all pairs, or none, satisfy tell nothing apart; where only such are left, there is one cell, and None stands
    for its number.
    """
    windows, seen = _facts(windows, pairs, documents, ordinals)
    # Windows that admit no pair at all are left out of everything but the answer.
    some = (
        (windows.lo <= seen.difference.max())
        & (windows.hi >= seen.difference.min())
        & (windows.first <= seen.oldest.max())
        & (windows.last >= seen.newest.min())
    )
    for rows, ages in ((windows.rows_l, seen.age_l), (windows.rows_r, seen.age_r)):
        some &= (rows == 0) | (ages.min() < rows)
    told = Windows(*(column[some] for column in windows))
    sides = [
        _seen_by(docs, streams, documents, memberships)
        for docs, streams in ((pairs.left, told.left), (pairs.right, told.right))
        if len(streams) and (documents.memberships is not None or streams.any())
    ]
    keys = [*_keys(told, seen), *(side.which for side in sides if side.which is not None)]

    def admits(at: int) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(some), dtype=np.bool_)
        found[some] = _admitting(told, seen, at)
        for side in sides:
            found[some] &= side.sees[0 if side.which is None else side.which[at]]
        return found

    if not keys:
        return None, [admits(0)]
    cells = keys[0]
    for key in keys[1:]:
        _, cells = np.unique(cells * (key.max() + 1) + key, return_inverse=True)
    _, examples, cells = np.unique(cells, return_index=True, return_inverse=True)
    return cells, [admits(at) for at in examples.tolist()]


class _Facts(NamedTuple):
    """Facts of pairs that windows compare; all but the first have one entry where it is the same for all pairs."""

    difference: Int64s
    """Event time of the right document after the left one's."""
    oldest: Int64s
    """Lesser place of the two documents."""
    newest: Int64s
    first: npt.NDArray[np.bool_]
    """Whether the left document is first."""
    age_l: Int64s
    """Number of events of its channel that came behind the left document; one entry where no window asks."""
    age_r: Int64s


def pair_ages(windows: Windows, pairs: MatchedPairs, ordinals: Ordinals) -> tuple[Int64s, Int64s]:
    """Return how many events of its channel came behind each document of pairs; one entry where no window asks."""
    found = []
    for docs, counted in ((pairs.left, windows.counted_l), (pairs.right, windows.counted_r)):
        if not counted.any():
            found.append(np.zeros(1, np.int64))
            continue
        newest = np.maximum(place_of(pairs.left), place_of(np.where(pairs.right < 0, pairs.left, pairs.right)))
        # All documents of a side are of one channel.
        found.append(ordinals.ages(int(counted.max()), docs, newest))
    return found[0], found[1]


def _facts(windows: Windows, pairs: MatchedPairs, documents: Documents, ordinals: Ordinals) -> tuple[Windows, _Facts]:
    """Return the facts of pairs; and the windows, without bounds of places where all of them see all documents."""
    docs = (pairs.left,) if pairs.right.max() < 0 else (pairs.left, pairs.right)
    least, greatest = min(int(of.min()) for of in docs), max(int(of.max()) for of in docs)
    if greatest < PUBLISHED and (windows.first <= least).all() and (windows.last >= greatest).all():
        # Nobody asks which documents these are.
        oldest = newest = np.zeros(1, dtype=np.int64)
        windows = windows._replace(first=np.zeros_like(windows.first), last=np.zeros_like(windows.last))
    else:
        left, right = place_of(pairs.left), place_of(np.where(pairs.right < 0, pairs.left, pairs.right))
        oldest, newest = np.minimum(left, right), np.maximum(left, right)
    first = documents.left_first(pairs) if windows.order.any() else np.zeros(1, dtype=np.bool_)
    ages = pair_ages(windows, pairs, ordinals)
    return windows, _Facts(pairs.ts_r - pairs.ts_l, oldest, newest, first, *ages)


def _keys(windows: Windows, seen: _Facts) -> Iterator[Int64s]:
    """Yield numbers of pairs that differ where a bound of a window lies between them."""
    for values, bounds in (
        (seen.difference, np.concatenate([windows.lo, windows.hi + 1])),
        (seen.oldest, windows.first),
        (seen.newest, windows.last + 1),
        (seen.age_l, windows.rows_l),
        (seen.age_r, windows.rows_r),
    ):
        between = np.unique(bounds[(bounds > values.min()) & (bounds <= values.max())])
        if len(between):
            yield np.searchsorted(between, values, side="right")
    if seen.first.any() and not seen.first.all():
        yield seen.first.astype(np.int64)


def _admitting(windows: Windows, seen: _Facts, at: int) -> npt.NDArray[np.bool_]:
    """Tell which windows admit a pair, as far as times and places tell."""
    place, order = min(at, len(seen.oldest) - 1), 1 if seen.first[min(at, len(seen.first) - 1)] else -1
    admitted: npt.NDArray[np.bool_] = (
        (windows.lo <= seen.difference[at])
        & (windows.hi >= seen.difference[at])
        & (windows.first <= seen.oldest[place])
        & (windows.last >= seen.newest[place])
        & ((windows.order == 0) | (windows.order == order))
    )
    for rows, ages in ((windows.rows_l, seen.age_l), (windows.rows_r, seen.age_r)):
        admitted &= (rows == 0) | (ages[min(at, len(ages) - 1)] < rows)
    return admitted


def whole_span(windows: Windows | None) -> tuple[int, int] | None:
    """Return the documents between which all of some windows admit every document of no stream; None: some window does
    not.
    """
    if (
        windows is None
        or windows.order.any()
        or windows.guard_l.any()
        or (windows.lo > 0).any()
        or (windows.hi < 0).any()
    ):
        return None
    if windows.left.any():
        return None
    return int(windows.first.max()), int(windows.last.min())


def admit_all(windows: Windows, least: int, greatest: int) -> bool:
    """Whether windows, as far as times do not tell, admit all pairs of documents of no stream between two."""
    more = windows.left.any() or windows.right.any() or windows.rows_l.any() or windows.rows_r.any()
    return not more and bool((windows.first <= least).all() and (windows.last >= greatest).all())


class _SeenBy(NamedTuple):
    """Windows that see the documents of one side of some pairs."""

    which: Int64s | None
    """The row of ``sees`` of each pair; None: the first."""
    sees: npt.NDArray[np.bool_]
    """Different rows, with a column for each window."""


def _seen_by(docs: Int64s, streams: Int32s, documents: Documents, memberships: Mapping[int, Membership]) -> _SeenBy:
    """Tell which windows, that name these streams on one side, see these documents; all see -1, which is none."""
    asked, of_window = np.unique(streams, return_inverse=True)
    numbers = np.zeros(1, dtype=np.int32) if documents.memberships is None else documents.memberships(docs)
    distinct, which = np.unique(numbers, return_inverse=True)
    rows = [
        [number < 0 or sees(memberships, stream, number) for stream in asked.tolist()] for number in distinct.tolist()
    ]
    different, row_of = np.unique(np.array(rows, dtype=np.bool_).reshape(len(rows), -1), axis=0, return_inverse=True)
    return _SeenBy(row_of.reshape(-1)[which] if len(different) > 1 else None, different[:, of_window])
