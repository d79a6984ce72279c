"""Items that members of kept rows are versions of: these stay known when retention has taken the members' events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from xscl.batches.attempt import Attempt
from xscl.batches.steps.rows import Rows, numbered_nodes
from xscl.language.steps.terms import Node, Without
from xscl.store.event_files import events_of
from xscl.templates.columns import Int64s

__all__ = ["Items", "asks_for_items"]


@dataclass
class Items:
    """Items of documents in one batch."""

    batch: Attempt
    known: Mapping[int, int]
    """Document to its item, for members of rows that earlier batches kept.  One that is missing is its own item."""
    _came: list[Int64s] = field(default_factory=list)
    """Documents of rows that came in the batch."""

    def of(self, docs: Int64s) -> Int64s:
        """Return the items that some documents are versions of."""
        numbers, which = np.unique(docs, return_inverse=True)
        found: Int64s = numbers.copy()
        if self.known:
            found[:] = [self.known.get(docid, docid) for docid in numbers.tolist()]
        read = events_of(self.batch.home, numbers, ["docid", "item"], self.batch.made)
        # Retention may have taken some of them.
        found[np.searchsorted(numbers, read.column("docid").to_numpy())] = read.column("item").to_numpy()
        return found[which.reshape(-1)]

    def come(self, rows: Iterable[Rows]) -> None:
        """Note the documents of rows whose items later batches may ask for."""
        self._came += [np.unique(each.docs) for each in rows if len(each)]

    def kept(self, rows: Iterable[Rows]) -> dict[int, int]:
        """Return document to item for members of the rows that are kept behind the batch, but for their own items."""
        found = dict(self.known)
        if self._came:
            docs = np.unique(np.concatenate(self._came))
            found |= dict(zip(docs.tolist(), self.of(docs).tolist(), strict=True))
        others = {docid: item for docid, item in found.items() if docid != item}
        if not others:
            return {}
        mine: set[int] = set()
        for each in rows:
            mine.update(each.docs.reshape(-1).tolist(), *(one for one in each.events if one is not None))
        return {docid: item for docid, item in sorted(others.items()) if docid in mine}


def asks_for_items(node: Node) -> bool:
    """Tell whether something must not be there in a step, which versions of members do not forbid."""
    return any(isinstance(each, Without) for each in numbered_nodes(node))
