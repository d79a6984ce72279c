"""Steps of paths over documents in columns: from many nodes at once, by arithmetic on their rows.

A node is its kind and its row: an element, attribute or text node of a chunk, or the number of a document.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from xscl.xpath.chunk_texts import attribute_values, string_values, text_values
from xscl.xpath.column_chunk import ColumnChunk
from xscl.xpath.condition import matches_name
from xscl.xpath.pattern import Axis, NodeTest
from xscl.xpath.runs import Int64s, distinct, gather

__all__ = ["ChunkSteps", "Kind"]

Kind = Literal["document", "element", "attribute", "text"]


class ChunkSteps:
    """A chunk, and the nodes of it that pass each test."""

    def __init__(self, chunk: ColumnChunk) -> None:
        self.chunk = chunk
        self._passing: dict[NodeTest, Int64s] = {}

    def passing(self, test: NodeTest) -> Int64s:
        """Return the rows of the nodes that pass a test, rising."""
        found = self._passing.get(test)
        if found is None:
            found = self._passing[test] = self._sought(test)
        return found

    def _sought(self, test: NodeTest) -> Int64s:
        chunk = self.chunk
        if test.kind == "text":
            return np.arange(len(chunk.texts.owner))
        if test.kind == "element":
            name_of, names = self._element_names
        else:
            name_of, names = self._attribute_names
        passes = np.array([matches_name(test, name) for name in names], dtype=np.bool_)
        return np.flatnonzero(passes[name_of])

    @cached_property
    def _element_names(self) -> tuple[Int64s, list[str]]:
        """Distinct names of elements, and the place of each element's among them."""
        ends, which = distinct(self._ends[self.chunk.path])
        return which, [self.chunk.names.names[end] for end in ends.tolist()]

    @cached_property
    def _attribute_names(self) -> tuple[Int64s, list[str]]:
        """Distinct names of attributes, and the place of each attribute's among them."""
        ends, which = distinct(self._ends[self.chunk.attribute_path])
        return which, [self.chunk.names.names[end][1:] for end in ends.tolist()]

    @cached_property
    def _ends(self) -> Int64s:
        return np.array(self.chunk.names.ends, dtype=np.int64)

    def texts(self, kind: Kind, rows: Int64s) -> pa.StringArray:
        """Return the string values of nodes."""
        match kind:
            case "document":
                return string_values(self.chunk, self.chunk.first[rows])
            case "element":
                return string_values(self.chunk, rows)
            case "attribute":
                return attribute_values(self.chunk, rows)
            case "text":
                return text_values(self.chunk, rows)

    def step(self, kind: Kind, rows: Int64s, axis: Axis, test: NodeTest) -> tuple[Int64s, Int64s]:
        """Return what one step without conditions reaches: (places in ``rows``, rows reached), by place and row.

        ``rows`` are distinct.
        """
        nothing = np.zeros(0, dtype=np.int64)
        if kind in ("attribute", "text") or not len(rows):
            return nothing, nothing
        chunk, found = self.chunk, self.passing(test)
        if kind == "document":
            low, high = chunk.first[rows], chunk.first[rows + 1]
            if axis == "child":
                high = low + (test.kind == "element")
        else:
            low, high = rows, chunk.last[rows] + 1
            if axis == "child":
                return self._children(rows, found, test)
            low = low + (test.kind == "element")
        within = found
        if test.kind != "element":
            within = (chunk.attributes if test.kind == "attribute" else chunk.texts).owner[found]
            if axis == "child":  # of the document node, which has none
                return nothing, nothing
            # Texts of an element stand behind those of its children: their owners do not rise.
            if test.kind == "text":
                order = np.argsort(within, kind="stable")
                found, within = found[order], within[order]
        begin, end = np.searchsorted(within, low), np.searchsorted(within, high)
        at, place = gather(begin, end - begin)
        return _in_order(place, found[at])

    def _children(self, rows: Int64s, found: Int64s, test: NodeTest) -> tuple[Int64s, Int64s]:
        chunk = self.chunk
        match test.kind:
            case "element":
                above = chunk.parent[found]
            case "attribute":
                above = chunk.attributes.owner[found]
            case "text":
                above = chunk.texts.owner[found]
        place = np.full(len(chunk.path) + 1, -1)
        place[rows] = np.arange(len(rows))
        # The last one stands for no parent.
        from_place = place[above]
        here = from_place >= 0
        return _in_order(from_place[here], found[here])


def _in_order(place: Int64s, rows: Int64s) -> tuple[Int64s, Int64s]:
    if len(place) < 2 or ((place[1:] > place[:-1]) | ((place[1:] == place[:-1]) & (rows[1:] > rows[:-1]))).all():
        return place, rows
    order = np.lexsort((rows, place))
    return place[order], rows[order]
