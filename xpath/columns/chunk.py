"""Documents as columns: the nodes of many documents in arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from xscl.xpath.columns.names import ChunkNames
from xscl.xpath.runs import Int64s

__all__ = ["Beside", "Bools", "Bytes", "ColumnChunk"]

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Beside:
    """Attributes, or text nodes, in document order: each is an interval of the bytes."""

    owner: Int64s
    """Its element."""
    begin: Int64s
    end: Int64s
    coded: Bools
    """An entity is in the interval."""


@dataclass(frozen=True, eq=False)
class ColumnChunk:
    """The nodes of some documents.  Elements are rows, in document order, one document after the other."""

    names: ChunkNames
    data: Bytes
    """The documents, one behind the other, and some bytes more."""
    places: Int64s
    """Place of each document among those that were asked for."""
    roots: Int64s
    """The path of each document node."""
    first: Int64s
    """Each document's first element, and the number of all elements behind them."""
    document: Int64s
    """Each element's document."""
    path: Int64s
    level: Int64s
    """1 at the root element."""
    parent: Int64s
    """The row of the element above; -1 at the root element."""
    last: Int64s
    """The row of the last descendant; the element's own if there is none."""
    text_first: Int64s
    """The first text node inside."""
    text_end: Int64s
    """The one behind the last text node inside."""
    attributes: Beside
    attribute_path: Int64s
    texts: Beside

    @cached_property
    def text_path(self) -> Int64s:
        """Paths of the text nodes."""
        distinct, which = np.unique(self.path[self.texts.owner], return_inverse=True)
        return self.names.paths(distinct, np.zeros(len(distinct), dtype=np.int64))[which]

    @cached_property
    def sizes(self) -> Int64s:
        """Bytes of the texts inside each element."""
        sums = np.concatenate([[0], np.cumsum(self.texts.end - self.texts.begin)])
        found: Int64s = sums[self.text_end] - sums[self.text_first]
        return found

    @cached_property
    def attribute_numbers(self) -> Int64s:
        """Numbers of the attributes in their documents."""
        return self._numbers(self.attributes, self.texts)

    @cached_property
    def text_numbers(self) -> Int64s:
        """Numbers of the text nodes in their documents."""
        return self._numbers(self.texts, self.attributes)

    def numbers(self, elements: Int64s) -> Int64s:
        """Return the numbers of elements in their documents."""
        return elements - self.first[self.document[elements]]

    def _numbers(self, nodes: Beside, others: Beside) -> Int64s:
        """Give numbers to attributes and text nodes together, behind the elements of their document."""
        documents = self.document[nodes.owner]
        of_document = np.searchsorted(documents, np.arange(len(self.places)))
        before = np.searchsorted(self.document[others.owner], np.arange(len(self.places)))
        rank = np.arange(len(documents)) - of_document[documents]
        rank += np.searchsorted(others.begin, nodes.begin) - before[documents]
        found: Int64s = np.diff(self.first)[documents] + rank
        return found
