"""Values that nodes of a chunk have, as columns: texts of the nodes themselves, of nodes that a path reaches, and more.

Each column is made when it is asked for first.  Nodes that a path reaches are found one step after another, for all
nodes at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.number_order import each_once
from xscl.xpath.columns.chunk import Bools
from xscl.xpath.columns.steps import ChunkSteps, Kind
from xscl.xpath.pattern import Condition, Step
from xscl.xpath.runs import Int64s, distinct, gather, starts

__all__ = [
    "Below",
    "Combined",
    "Counted",
    "First",
    "Name",
    "NodeColumn",
    "NodeColumns",
    "Own",
    "OwnSets",
    "Reached",
    "RowColumn",
    "SetsOfNodes",
]

Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Own:
    """The text of the node."""


@dataclass(frozen=True, slots=True)
class Name:
    """The name of the node, an element or attribute, in Clark's form."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Texts of the nodes that a path without conditions reaches."""

    steps: Steps


@dataclass(frozen=True, slots=True)
class First:
    """The text of the first node that a path reaches; '' where it reaches none."""

    steps: Steps


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of nodes that a path reaches."""

    steps: Steps


@dataclass(frozen=True, slots=True)
class RowColumn:
    """There where the node is an element of one of these names just below the root element."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Below:
    """Nodes that a step without conditions reaches; sets of conditions on these are told."""

    step: Step


@dataclass(frozen=True, slots=True)
class OwnSets:
    """The node itself; sets of conditions on it are told."""


@dataclass(frozen=True, slots=True)
class Combined:
    """Values of several other columns together; conditions on these are told."""

    columns: tuple[Own | First | Counted, ...]


NodeColumn = Own | Name | Reached | First | Counted | RowColumn | Below | OwnSets | Combined


class SetsOfNodes(Protocol):
    """Sets of conditions that are told."""

    def holding(self, steps: ChunkSteps, kind: Kind, rows: Int64s, most: int | None = None) -> tuple[Int64s, Int64s]:
        """Return all pairs (place among the nodes, number of a set) where the set holds at the node."""

    def combined(self, values: Sequence[tuple[str, ...]]) -> tuple[Int64s, Int64s]:
        """Return all pairs (place among tuples of texts, number of a condition) where the condition holds."""


class _Column(NamedTuple):
    """The values of a column."""

    size: int
    texts: pa.StringArray | None
    codes: Int64s
    """The value of each row, or of each of ``rows``."""
    rows: Int64s | None = None
    nodes: Int64s | None = None
    """Nodes that are the values."""


class NodeColumns:
    """Columns of distinct nodes of one kind, by number."""

    def __init__(
        self,
        steps: ChunkSteps,
        kind: Kind,
        rows: Int64s,
        columns: Sequence[NodeColumn],
        told: Mapping[NodeColumn, SetsOfNodes],
        filters: Mapping[tuple[Condition, ...], SetsOfNodes],
        most: int | None = None,
    ) -> None:
        """``most`` pairs are told of a column; where there are more, ``TooManyPairs`` is raised."""
        self.count = len(rows)
        self._steps, self._kind, self._rows = steps, kind, rows
        self._asked, self._told, self._filters, self._most = columns, told, filters, most
        self._known: dict[NodeColumn, _Column] = {}
        self._ways: dict[Steps, tuple[Int64s, Int64s, Kind]] = {(): (np.arange(len(rows)), rows, kind)}

    def size(self, column: int) -> int:
        """Count the distinct values of a column."""
        return self._column(self._asked[column]).size

    def texts(self, column: int) -> pa.StringArray:
        """Return the distinct texts of a column."""
        return self._column(self._asked[column]).texts

    def codes(self, column: int) -> Int64s:
        """Return the value of each node in a column of one value."""
        return self._column(self._asked[column]).codes

    def pairs(self, column: int) -> tuple[Int64s, Int64s] | None:
        """Return the nodes and values of a column of several values, by node; None: no node has two."""
        found = self._column(self._asked[column])
        return None if found.rows is None else (found.rows, found.codes)

    def told(self, column: int) -> tuple[Int64s, Int64s]:
        """Return the values of a column for which sets of conditions hold, and the sets."""
        asked = self._asked[column]
        sets = self._told[asked]
        match asked:
            case Below(step):
                nodes = self._column(asked).nodes
                assert nodes is not None
                return sets.holding(self._steps, step.test.kind, nodes, self._most)
            case Combined():
                texts = self._column(asked).texts
                assert texts is not None
                return sets.combined(texts.to_pylist())
            case _:
                return sets.holding(self._steps, self._kind, self._rows, self._most)

    def _column(self, column: NodeColumn) -> _Column:
        found = self._known.get(column)
        if found is None:
            found = self._known[column] = self._made(column)
        return found

    def _made(self, column: NodeColumn) -> _Column:
        match column:
            case Own():
                return _encoded(self._steps.texts(self._kind, self._rows))
            case Name():
                names, which = self._steps.names(self._kind, self._rows)
                return _Column(len(names), pa.array(names, pa.string()), which)
            case Reached(steps):
                return self._reached_texts(steps)
            case First(steps):
                return _encoded(self._first_texts(steps))
            case Counted(steps):
                place, _, _ = self._reached(steps)
                numbers, codes = np.unique(np.bincount(place, minlength=self.count), return_inverse=True)
                return _Column(len(numbers), pa.array(list(map(str, numbers.tolist())), pa.string()), codes)
            case RowColumn(names):
                there = _is_column(self._steps, self._kind, self._rows, names)
                return _Column(1, pa.array([""], pa.string()), np.where(there, 0, 1))
            case Below(step):
                place, reached = self._steps.step(self._kind, self._rows, step.axis, step.test)
                nodes, which = distinct(reached)
                return self._spread(place, _Column(len(nodes), None, which, nodes=nodes))
            case OwnSets():
                return _Column(self.count, None, np.arange(self.count), nodes=self._rows)
            case Combined(columns):
                return self._combined(columns)

    def _spread(self, place: Int64s, column: _Column) -> _Column:
        """Return a column with values for each of some places, which rise; each has one value if none has two."""
        if (place[1:] == place[:-1]).any():
            return column._replace(rows=place)
        codes = np.full(self.count, column.size)
        codes[place] = column.codes
        return column._replace(codes=codes)

    def _reached_texts(self, steps: Steps) -> _Column:
        place, reached, kind = self._reached(steps)
        nodes, which = distinct(reached)
        found = _encoded(self._steps.texts(kind, nodes))
        return self._spread(place, found._replace(codes=found.codes[which]))

    def _reached(self, path: Steps) -> tuple[Int64s, Int64s, Kind]:
        """Return the nodes that a path reaches: (places, rows reached), each pair once and by place, and their kind."""
        found = self._ways.get(path)
        if found is None:
            found = self._ways[path] = self._stepped(path)
        return found

    def _stepped(self, path: Steps) -> tuple[Int64s, Int64s, Kind]:
        place, nodes, kind = self._reached(path[:-1])
        step = path[-1]
        once, which = distinct(nodes)
        origin, reached = self._steps.step(kind, once, step.axis, step.test)
        if step.conditions and len(reached):
            found, back = distinct(reached)
            holds = np.zeros(len(found), dtype=np.bool_)
            holds[self._filters[step.conditions].holding(self._steps, step.test.kind, found)[0]] = True
            kept = holds[back]
            origin, reached = origin[kept], reached[kept]
        counts = np.bincount(origin, minlength=len(once))
        at, pair = gather(starts(counts)[which], counts[which])
        most = int(reached.max(initial=0)) + 1
        both = each_once(place[pair] * most + reached[at])
        return both // most, both % most, step.test.kind

    def _first_texts(self, path: Steps) -> pa.StringArray:
        place, reached, kind = self._reached(path)
        first = np.flatnonzero(np.diff(place, prepend=-1))
        at = np.full(self.count, -1)
        at[place[first]] = np.arange(len(first))
        texts = self._steps.texts(kind, reached[first])
        return texts if (at >= 0).all() else pc.fill_null(texts.take(pa.array(at, mask=at < 0)), "")

    def _combined(self, columns: Sequence[Own | First | Counted]) -> _Column:
        together = []
        for column in columns:
            each = self._column(column)
            assert each.texts is not None
            together.append(each.texts.take(pa.array(each.codes)).to_pylist())
        known: dict[tuple[str, ...], int] = {}
        codes = [known.setdefault(values, len(known)) for values in zip(*together, strict=True)]
        texts = pa.array(list(map(list, known)), pa.list_(pa.string()))
        return _Column(len(known), texts, np.array(codes, dtype=np.int64))


def _encoded(texts: pa.StringArray) -> _Column:
    encoded = texts.dictionary_encode()
    return _Column(len(encoded.dictionary), encoded.dictionary, encoded.indices.to_numpy().astype(np.int64))


def _is_column(steps: ChunkSteps, kind: Kind, rows: Int64s, columns: Sequence[str]) -> Bools:
    """Tell which nodes are elements of these names just below the root element."""
    chunk = steps.chunk
    if kind != "element":
        return np.zeros(len(rows), dtype=np.bool_)
    names = chunk.names
    paths, which = distinct(chunk.path[rows])
    named = [names.levels[path] == 2 and names.names[names.ends[path]] in columns for path in paths.tolist()]
    return np.array(named, dtype=np.bool_)[which]
