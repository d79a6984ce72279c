"""Rows of links that partial matches meet: those of several runs, as far as they are held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xscl.templates.columns import Bools, Int64s, gather
from xscl.templates.many_blocks.runs import Documents, LinkRun, MetRows
from xscl.templates.retention import Floors

__all__ = ["UNBOUND", "Asked", "LinkState", "count_of", "documents_of", "met_of"]

UNBOUND = -1
"""Stands for the docid of a document that is not known yet."""


class Asked(NamedTuple):
    """Rows that are asked for, by link and by the documents that are known."""

    link: Int64s
    left: Int64s
    """Docid of the left member, or ``UNBOUND``."""
    right: Int64s
    """Docid of the right member, or ``UNBOUND``; one of both is known."""


@dataclass(frozen=True, slots=True)
class LinkState:
    """Rows of links: those of earlier batches, and of earlier levels of this one."""

    runs: Sequence[LinkRun] = ()
    floors: Floors | None = None
    """Tell which rows of ``runs`` are held; None: all of them.  They are asked about rows that are met, no others."""
    added: Sequence[LinkRun] = ()
    """Runs whose rows are all held."""

    def met(self, asked: Asked, most: int) -> Iterator[tuple[Int64s, MetRows]]:
        """Yield rows that are asked for, about ``most`` at a time, and the place in ``asked`` of each."""
        for run in self.runs:
            for at, rows in met_of(run, asked, most):
                if self.floors is None:
                    yield at, rows
                    continue
                held = self.floors.keep_links(rows.link, *rows.ts)
                yield (at, rows) if held.all() else (at[held], chosen(rows, held))
        for run in self.added:
            yield from met_of(run, asked, most)

    def count(self, asked: Asked) -> Int64s:
        """Return the number of rows that each asks for, rows that are not held included."""
        found = np.zeros(len(asked.link), np.int64)
        for run in (*self.runs, *self.added):
            found += count_of(run, asked)
        return found

    def documents(self, docids: Int64s) -> list[Documents]:
        """Return documents that are here, out of some whose numbers rise."""
        return documents_of((*self.runs, *self.added), docids)

    def of_event(self, place: str, hash_: int) -> set[int]:
        """Return the docids of an event, told by ``Member.place``: each stream may have its own copy."""
        found = set()
        for run in (*self.runs, *self.added):
            starts, counts = run.documents_of(np.array([hash_]))
            for at in run.by_hash[starts[0] : starts[0] + counts[0]].tolist():
                if run.documents.place[at].as_py() == place:
                    found.add(int(run.documents.docid[at]))
        return found


def documents_of(runs: Sequence[LinkRun], docids: Int64s) -> list[Documents]:
    """Return documents that are in some runs, out of some whose numbers rise."""
    found = []
    for run in runs:
        at, there = run.documents.found(docids)
        if there.any():
            found.append(run.documents.chosen(at[there]))
    return found


def met_of(run: LinkRun, asked: Asked, most: int) -> Iterator[tuple[Int64s, MetRows]]:
    """Yield rows of a run that are asked for, at most ``most`` at a time, and the place in ``asked`` of each."""
    for at, starts, counts, backward in _spans_of(run, asked):
        for rows, span in _pieces(starts, counts, most):
            yield at[span], run.rows(run.by_right[rows].astype(np.int64) if backward else rows)


def count_of(run: LinkRun, asked: Asked) -> Int64s:
    """Return the number of rows of a run that each asks for."""
    found = np.zeros(len(asked.link), np.int64)
    for at, _, counts, _ in _spans_of(run, asked):
        found[at] = counts
    return found


def _spans_of(run: LinkRun, asked: Asked) -> Iterator[tuple[Int64s, Int64s, Int64s, bool]]:
    """Yield places in ``asked``, the spans of rows that they ask for, and whether these are spans of ``by_right``."""
    backward = asked.left == UNBOUND
    keys, there = run.keys(asked.link, np.where(backward, asked.right, asked.left))
    both = there & ~backward & (asked.right != UNBOUND)
    if len(at := np.flatnonzero(both)):
        yield at, *run.of_both(keys[at], asked.right[at]), False
    if len(at := np.flatnonzero(there & ~backward & ~both)):
        yield at, *run.of_left(keys[at]), False
    if len(at := np.flatnonzero(there & backward)):
        yield at, *run.of_right(keys[at]), True


def _pieces(starts: Int64s, counts: Int64s, most: int) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield at most ``most`` places of some spans at a time, and the span of each."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for begin in range(0, total, most):
        end = min(begin + most, total)
        first, last = int(np.searchsorted(ends, begin, side="right")), int(np.searchsorted(ends, end))
        before = ends[first : last + 1] - counts[first : last + 1]
        cut = np.maximum(begin - before, 0)
        lengths = np.minimum(ends[first : last + 1], end) - before - cut
        places, span = gather(starts[first : last + 1] + cut, lengths)
        yield places, span + first


def chosen(rows: MetRows, mask: Bools) -> MetRows:
    """Return some of the rows."""
    pairs = ((left[mask], right[mask]) for left, right in (rows.docid, rows.item, rows.ts))
    docid, item, ts = pairs
    return MetRows(rows.link[mask], docid, item, ts, rows.widths[mask], rows.nodes[np.repeat(mask, rows.widths)])
