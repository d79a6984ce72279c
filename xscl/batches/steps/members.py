"""Documents of rows of steps, those of all iterations of a FOLD, and the items that they are versions of.

No two members of a match are versions of one item, so a row passes over those of its own documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import TypeGuard

import numpy as np

from xscl.batches.steps.rows import Objects, Rows, objects
from xscl.store.results import NO_DOC
from xscl.templates.columns import Bools, Int64s

__all__ = ["Apart", "Versions", "documents_of", "kept_versions", "with_events"]

Versions = Mapping[int, int]
"""Item of each document that is a newer version of one.  A document that is missing is an item of its own."""


def with_events(rows: Rows) -> Objects:
    """Return the events of rows that are matches of parts, each as a tuple."""
    return objects([tuple(doc for doc in docs if doc != NO_DOC) for docs in rows.docs.tolist()])


def documents_of(rows: Rows) -> list[frozenset[int]]:
    """Return all documents of each row."""
    if len(rows) and rows.events[0] is None:
        return [frozenset(doc for doc in docs if doc != NO_DOC) for docs in rows.docs.tolist()]
    known = {id(events): events for events in rows.events}
    flat = {key: _flat(events) for key, events in known.items()}
    return [flat[id(events)] for events in rows.events]


def _flat(events: object) -> frozenset[int]:
    """Return the documents in tuples of tuples, which may be as deep as a run is long."""
    found, waiting = set[int](), [events]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            waiting += each
        elif isinstance(each, frozenset):
            found |= each
        elif isinstance(each, int):
            found.add(each)
    return frozenset(found)


def _is_iteration(events: object) -> TypeGuard[tuple[object, object]]:
    """Tell whether events are those before an iteration of a FOLD, and its own."""
    return isinstance(events, tuple) and len(events) == 2 and not isinstance(events[0], int)


def _in_both(lefts: Rows, rights: Rows) -> list[int]:
    """Return the documents of rows on the left that rows on the right have too, but for iterations of these."""
    docs = lefts.docs
    if len(lefts) and lefts.events[0] is not None:
        docs = np.array([*frozenset(chain.from_iterable(documents_of(lefts)))], dtype=np.int64)
    return [doc for doc in np.intersect1d(docs, rights.docs).tolist() if doc != NO_DOC]


def kept_versions(versions: Versions, rows: Iterable[Rows]) -> dict[int, int]:
    """Return the versions among the documents of rows that are kept.

    Retention may take the documents' events before the rows.
    """
    if not versions:
        return {}
    mine = set(chain.from_iterable(chain.from_iterable(map(documents_of, rows))))
    return {docid: item for docid, item in sorted(versions.items()) if docid in mine}


class Apart:
    """Test whether the documents of rows on both sides are versions of different items."""

    def __init__(self, lefts: Rows, rights: Rows, versions: Versions, *, may_meet_itself: bool, has_runs: bool) -> None:
        """Prepare the test.

        Args:
            lefts: rows of the left; rows that are tested may have taken rows of the right since.
            rights: rows of the right.
            versions: versions among the documents of both.
            may_meet_itself: whether a document may stand on both sides.
            has_runs: whether rows of the right are matches of a FOLD.
        """
        self.versions, self.rights = versions, rights
        self._shared = frozenset(versions.values())
        """Items that documents of both sides may be versions of."""
        self._involved = np.zeros(len(rights), dtype=np.bool_)
        self._of_right: dict[int, frozenset[int]] = {}
        """Shared items of rows on the right that have some."""
        self._known: dict[int, tuple[object, set[int], int]] = {}
        """Events of rows on the left with their items, and the call that asked for these, by the ids of the events."""
        self._calls = 0
        if may_meet_itself:
            self._shared |= self._items(_in_both(lefts, rights))
        if len(lefts) and self._shared:
            self._find(np.array(sorted({*versions, *self._shared}), dtype=np.int64), has_runs=has_runs)

    def _find(self, docs: Int64s, *, has_runs: bool) -> None:
        some = np.arange(len(self.rights))
        if not has_runs:
            some = some[np.isin(self.rights.docs, docs).any(axis=1)]
        for row, own in zip(some.tolist(), documents_of(self.rights.take(some)), strict=True):
            if mine := self._items(own) & self._shared:
                self._of_right[row] = mine
                self._involved[row] = True

    def _items(self, docs: Iterable[int]) -> frozenset[int]:
        return frozenset(self.versions.get(doc, doc) for doc in docs)

    def _items_of(self, rows: Rows) -> list[AbstractSet[int]]:
        """Return the items of each row."""
        if not len(rows) or rows.events[0] is None:
            return [self._items(own) for own in documents_of(rows)]
        self._calls += 1
        return [*map(self._items_in, rows.events)]

    def _items_in(self, events: object) -> AbstractSet[int]:
        """Return the items of events; those of an iteration are the events before it, and its own.

        A run asks at each of its iterations, which takes the items of the iteration before and adds its own.
        """
        whole, behind = events, set[int]()
        while id(events) not in self._known and _is_iteration(events):
            behind |= self._items(_flat(events[1]))
            events = events[0]
        known = self._known.get(id(events))
        found = {*self._items(_flat(events))} if known is None else known[1]
        if known is not None and known[2] == self._calls:
            found = {*found}  # the row before is asked about, too
        elif known is not None:
            del self._known[id(events)]
        found |= behind
        self._known[id(whole)] = whole, found, self._calls
        return found

    def passes(self, rows: Rows, at: Int64s, of: Int64s) -> Bools:
        """Tell which pairs of a row of the left and a row of the right have no item in common."""
        good = np.ones(len(at), dtype=np.bool_)
        some = np.flatnonzero(self._involved[of])
        if len(some):
            lefts = np.unique(at[some])
            items = dict(zip(lefts.tolist(), self._items_of(rows.take(lefts)), strict=True))
            both = zip(at[some].tolist(), of[some].tolist(), strict=True)
            good[some] = [items[left].isdisjoint(self._of_right[right]) for left, right in both]
        return good
