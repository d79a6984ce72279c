"""Steps of paths over documents in columns: from many nodes at once, by arithmetic on their rows.

A node is its kind and its row: an element, attribute or text node of a chunk, or the number of a document.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from xscl.xpath.columns.chunk import ColumnChunk
from xscl.xpath.columns.texts import attribute_values, string_values, text_values
from xscl.xpath.conditions.condition import clark_name, matches_name
from xscl.xpath.pattern import Axis, NodeTest
from xscl.xpath.runs import Int64s, distinct, gather

__all__ = ["ChunkSteps", "Kind"]

Kind = Literal["document", "element", "attribute", "text"]


class _Names(NamedTuple):
    """Names of the elements or attributes of a chunk, in Clark's form."""

    places: dict[str, int]
    """Distinct names, numbered as they come."""
    which: Int64s
    """Number of each node's name."""


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
        if test.kind == "text":
            return np.arange(len(self.chunk.texts.owner))
        named = self._elements if test.kind == "element" else self._attributes
        name = clark_name(test)
        if name is not None:
            place = named.places.get(name)
            return np.zeros(0, dtype=np.int64) if place is None else np.flatnonzero(named.which == place)
        passes = np.array([matches_name(test, name) for name in named.places], dtype=np.bool_)
        return np.flatnonzero(passes[named.which])

    def names(self, kind: Kind, rows: Int64s) -> tuple[list[str], Int64s]:
        """Return names, in Clark's form, and the place of each node's among them: of elements or attributes."""
        named = self._elements if kind == "element" else self._attributes
        return list(named.places), named.which[rows]

    @cached_property
    def _elements(self) -> _Names:
        ends, which = distinct(self._ends[self.chunk.path])
        return _Names({self.chunk.names.names[end]: place for place, end in enumerate(ends.tolist())}, which)

    @cached_property
    def _attributes(self) -> _Names:
        ends, which = distinct(self._ends[self.chunk.attribute_path])
        return _Names({self.chunk.names.names[end][1:]: place for place, end in enumerate(ends.tolist())}, which)

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
