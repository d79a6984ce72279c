"""Conditions of nodes in columns: which of many sets of conditions hold at each of many nodes.

A condition becomes a formula over *atoms*.  An atom asks one thing of a node: whether its text satisfies a comparison,
whether a step reaches a node at which a set of conditions holds, how many nodes a path reaches, or something of the
first of these.  Atoms that ask along the same step or path are answered together, with the sets of conditions there,
and so on down.  Truth is a matrix of atoms and nodes; formulas are operations on its rows, in bits.

The law, tested against lxml: the answers are those of ``xscl.xpath.condition.holds`` for each node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.values import to_number
from xscl.xpath.chunk_steps import ChunkSteps, Kind
from xscl.xpath.column_chunk import Bools
from xscl.xpath.condition import Memo, holds
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Exists,
    Expression,
    Here,
    Negation,
    OfColumns,
    Step,
    Truth,
    exists_chain,
)
from xscl.xpath.runs import Int64s, gather, starts
from xscl.xpath.text_conditions import TextConditions, compare, on_text

__all__ = ["ChunkConditions"]

_CELLS = 1 << 23
"""Atoms times nodes that are looked at together."""

Steps = tuple[Step, ...]
Conditions = tuple[Condition, ...]
_ALWAYS = Exists  # a key of its own


@dataclass(slots=True)
class _Formula:
    op: str
    parts: list[int]
    depth: int


class ChunkConditions:
    """Sets of conditions, by number; a set holds where all its conditions do."""

    def __init__(self, sets: Sequence[Conditions]) -> None:
        self._atoms = 0
        self._known: dict[Hashable, int] = {}
        self._formulas: list[_Formula] = []
        self._texts: list[tuple[int, Condition]] = []
        self._steps: dict[Step, list[tuple[int, Conditions]]] = {}
        self._firsts: dict[Steps, list[tuple[int, Condition]]] = {}
        self._counts: dict[Steps, list[tuple[int, str, float]]] = {}
        self._columns: list[tuple[int, tuple[str, ...]]] = []
        self._others: list[tuple[int, Condition, list[Expression]]] = []
        results = [self._joined("and", [self._compiled(each) for each in conditions]) for conditions in sets]
        # Formulas have negative numbers while atoms are still counted.
        self._results = np.array([self._row(each) for each in results], dtype=np.int64)
        for formula in self._formulas:
            formula.parts = [self._row(part) for part in formula.parts]
        self._levels = self._grouped()
        self._of_text = TextConditions([condition for _, condition in self._texts])
        self._below = {step: ChunkConditions([inner for _, inner in asked]) for step, asked in self._steps.items()}
        self._of_first = {
            steps: TextConditions([condition for _, condition in asked]) for steps, asked in self._firsts.items()
        }
        paths = [*self._firsts, *self._counts]
        paths += [path for _, _, leaves in self._others for leaf in leaves for path in [_steps(leaf)]]
        self._filters = {
            step.conditions: ChunkConditions([step.conditions]) for path in paths for step in path if step.conditions
        }

    def __len__(self) -> int:
        return len(self._results)

    @property
    def cells(self) -> int:
        """Cells of the matrix for each node."""
        return self._atoms + len(self._formulas) + 1

    def holding(self, steps: ChunkSteps, kind: Kind, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return all pairs (place among the nodes, number of a set) where the set holds at the node, by place.

        ``rows`` are distinct nodes of a kind.
        """
        size = max(_CELLS // self.cells, 64)
        pairs = [
            (begin + place, number)
            for begin in range(0, len(rows), size)
            for place, number in [
                np.nonzero(np.ascontiguousarray(self.matrix(steps, kind, rows[begin : begin + size]).T))
            ]
        ]
        if not pairs:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        places, numbers = zip(*pairs, strict=True)
        return np.concatenate(places), np.concatenate(numbers)

    # -- from conditions to atoms ----------------------------------------------------------------------------------

    def _row(self, number: int) -> int:
        return number if number >= 0 else self._atoms - 1 - number

    def _atom(self, key: Hashable) -> tuple[int, bool]:
        """Return the number of an atom, and whether it is new."""
        if key in self._known:
            return self._known[key], False
        self._known[key] = self._atoms
        self._atoms += 1
        return self._atoms - 1, True

    def _joined(self, op: str, parts: list[int]) -> int:
        parts = sorted(set(parts))
        if not parts:
            return self._always()
        if len(parts) == 1 and op != "not":
            return parts[0]
        key = op, tuple(parts)
        if key not in self._known:
            depth = 1 + max(self._formulas[-1 - part].depth if part < 0 else 0 for part in parts)
            self._formulas.append(_Formula(op, parts, depth))
            self._known[key] = -len(self._formulas)
        return self._known[key]

    def _always(self) -> int:
        atom, new = self._atom(_ALWAYS)
        if new:
            self._always_atom = atom
        return atom

    def _compiled(self, condition: Condition) -> int:
        key = "condition", condition
        if key not in self._known:
            self._known[key] = self._made(condition)
        return self._known[key]

    def _made(self, condition: Condition) -> int:
        match condition:
            case Negation(part):
                return self._joined("not", [self._compiled(part)])
            case AllOf(parts):
                return self._joined("and", [self._compiled(part) for part in parts])
            case AnyOf(parts):
                return self._joined("or", [self._compiled(part) for part in parts])
            case OfColumns(columns, part, otherwise):
                return self._by_column(columns, self._compiled(part), self._compiled(otherwise))
            case Exists(step):
                return self._step(step)
            case Comparison(Here(steps), op, right) if steps:
                return self._compiled(exists_chain(steps, (Comparison(Here(), op, right),)))
            case Comparison(Call("count", (Here(steps),)), op, right):
                number = to_number(right.value)
                if number is None:
                    return self._always() if op == "!=" else self._joined("not", [self._always()])
                return self._count(steps, op, number)
            case Truth(Call("count", (Here(steps),))):
                return self._count(steps, ">", 0)
            case Compared():
                return self._text(condition)
            case Comparison(left, _, _):
                return self._called(condition, left)
            case Truth(call):
                return self._called(condition, call)

    def _by_column(self, columns: tuple[str, ...], part: int, otherwise: int) -> int:
        atom, new = self._atom(("columns", columns))
        if new:
            self._columns.append((atom, columns))
        inside = self._joined("and", [atom, part])
        return self._joined("or", [inside, self._joined("and", [self._joined("not", [atom]), otherwise])])

    def _step(self, step: Step) -> int:
        atom, _ = self._atom(("step", step))
        self._steps.setdefault(Step(step.axis, step.test), []).append((atom, step.conditions))
        return atom

    def _text(self, condition: Condition) -> int:
        atom, _ = self._atom(("text", condition))
        self._texts.append((atom, condition))
        return atom

    def _count(self, steps: Steps, op: str, number: float) -> int:
        atom, _ = self._atom(("count", steps, op, number))
        self._counts.setdefault(steps, []).append((atom, op, number))
        return atom

    def _called(self, condition: Condition, expression: Expression) -> int:
        """File a condition on functions by the paths that they read."""
        leaves = list(dict.fromkeys(_leaves(expression)))
        if all(leaf == Here() for leaf in leaves):
            return self._text(condition)
        atom, _ = self._atom(("called", condition))
        if len(leaves) == 1 and isinstance(leaves[0], Here):
            asked = _with(condition, {leaves[0]: Here()})
            self._firsts.setdefault(leaves[0].steps, []).append((atom, asked))
        else:
            self._others.append((atom, condition, [leaf for leaf in leaves if leaf != Here()]))
        return atom

    def _grouped(self) -> list[tuple[str, Int64s, Int64s, Int64s]]:
        """Return formulas that are computed together, inner ones first: rows, flat parts, and where these begin."""
        groups: dict[tuple[int, str], list[int]] = {}
        for place, formula in enumerate(self._formulas):
            groups.setdefault((formula.depth, formula.op), []).append(place)
        found = []
        for (_, op), places in sorted(groups.items()):
            parts = [self._formulas[place].parts for place in places]
            flat = np.array([part for each in parts for part in each], dtype=np.int64)
            begins = starts([len(each) for each in parts])
            found.append((op, np.array(places) + self._atoms, flat, begins))
        return found

    # -- from atoms to answers -------------------------------------------------------------------------------------

    def matrix(self, steps: ChunkSteps, kind: Kind, rows: Int64s) -> Bools:
        """(set, node): whether the set holds at the node."""
        atoms = np.zeros((self._atoms, len(rows)), dtype=np.bool_)
        if _ALWAYS in self._known:
            atoms[self._always_atom] = True
        if self._texts:
            atoms[[atom for atom, _ in self._texts]] = self._of_text.holding(steps.texts(kind, rows))
        for step, asked in self._steps.items():
            self._answer_step(atoms, steps, kind, rows, step, asked)
        for path, firsts in self._firsts.items():
            texts = self._first_texts(steps, kind, rows, path)
            atoms[[atom for atom, _ in firsts]] = self._of_first[path].holding(texts)
        for path, counts in self._counts.items():
            numbers, ops, constants = zip(*counts, strict=True)
            place, _, _ = self._reached(steps, kind, rows, path)
            atoms[list(numbers)] = compare(np.bincount(place, minlength=len(rows)), ops, constants)
        for atom, columns in self._columns:
            atoms[atom] = _is_column(steps, kind, rows, columns)
        for atom, condition, leaves in self._others:
            atoms[atom] = self._asked(steps, kind, rows, condition, leaves)
        return self._computed(atoms)

    def _computed(self, atoms: Bools) -> Bools:
        """Return the rows of the sets."""
        if not self._formulas:
            return atoms[self._results]
        bits = np.zeros((self._atoms + len(self._formulas), (atoms.shape[1] + 7) // 8), dtype=np.uint8)
        bits[: self._atoms] = np.packbits(atoms, axis=1)
        for op, rows, flat, begins in self._levels:
            if op == "not":
                bits[rows] = ~bits[flat]
            else:
                join: np.ufunc = np.bitwise_and if op == "and" else np.bitwise_or
                bits[rows] = join.reduceat(bits[flat], begins, axis=0)
        return np.unpackbits(bits[self._results], axis=1, count=atoms.shape[1]).view(np.bool_)

    def _answer_step(
        self,
        atoms: Bools,
        steps: ChunkSteps,
        kind: Kind,
        rows: Int64s,
        step: Step,
        asked: Sequence[tuple[int, Conditions]],
    ) -> None:
        place, reached = steps.step(kind, rows, step.axis, step.test)
        below = self._below[step]
        numbers = np.array([atom for atom, _ in asked])[:, np.newaxis]
        size = max(_CELLS // below.cells, 64)
        for begin in range(0, len(place), size):
            some = place[begin : begin + size]
            distinct, which = np.unique(reached[begin : begin + size], return_inverse=True)
            inner = below.matrix(steps, step.test.kind, distinct)[:, which]
            first = np.flatnonzero(np.diff(some, prepend=-1))
            if len(first) < len(some):
                inner = np.logical_or.reduceat(inner, first, axis=1)
            atoms[numbers, some[first]] |= inner

    def _reached(self, steps: ChunkSteps, kind: Kind, rows: Int64s, path: Steps) -> tuple[Int64s, Int64s, Kind]:
        """Return the nodes that a path reaches: (places in ``rows``, rows reached), each pair once, and their kind."""
        place, nodes = np.arange(len(rows)), rows
        for step in path:
            distinct, which = np.unique(nodes, return_inverse=True)
            origin, reached = steps.step(kind, distinct, step.axis, step.test)
            if step.conditions and len(reached):
                found, back = np.unique(reached, return_inverse=True)
                kept = self._filters[step.conditions].matrix(steps, step.test.kind, found)[0][back]
                origin, reached = origin[kept], reached[kept]
            counts = np.bincount(origin, minlength=len(distinct))
            at, pair = gather(starts(counts)[which], counts[which])
            most = int(reached.max(initial=0)) + 1
            both = np.unique(place[pair] * most + reached[at])
            place, nodes, kind = both // most, both % most, step.test.kind
        return place, nodes, kind

    def _first_texts(self, steps: ChunkSteps, kind: Kind, rows: Int64s, path: Steps) -> pa.StringArray:
        """Return the text of the first node that a path reaches from each node; '' where it reaches none."""
        place, reached, kind = self._reached(steps, kind, rows, path)
        first = np.flatnonzero(np.diff(place, prepend=-1))
        at = np.full(len(rows), -1)
        at[place[first]] = np.arange(len(first))
        texts = steps.texts(kind, reached[first])
        return pc.fill_null(texts.take(pa.array(at, mask=at < 0)), "")

    def _asked(
        self, steps: ChunkSteps, kind: Kind, rows: Int64s, condition: Condition, leaves: Sequence[Expression]
    ) -> npt.NDArray[np.bool_]:
        """Ask a condition on several paths once for all nodes at which these have the same texts and numbers."""
        columns: list[list[str]] = [steps.texts(kind, rows).to_pylist()]
        for leaf in leaves:
            if isinstance(leaf, Here):
                columns.append(self._first_texts(steps, kind, rows, leaf.steps).to_pylist())
            else:
                place, _, _ = self._reached(steps, kind, rows, _steps(leaf))
                columns.append(list(map(str, np.bincount(place, minlength=len(rows)).tolist())))
        known: dict[tuple[str, ...], bool] = {}
        for values in zip(*columns, strict=True):
            if values not in known:
                told: dict[Expression, Expression] = {
                    leaf: Constant(value, is_number=isinstance(leaf, Call))
                    for leaf, value in zip(leaves, values[1:], strict=True)
                }
                known[values] = holds(_with(condition, told), on_text(values[0]), Memo())
        return np.array([known[values] for values in zip(*columns, strict=True)], dtype=np.bool_)


def _is_column(steps: ChunkSteps, kind: Kind, rows: Int64s, columns: Sequence[str]) -> Bools:
    """Tell which nodes are elements of these names just below the root element."""
    chunk = steps.chunk
    if kind != "element":
        return np.zeros(len(rows), dtype=np.bool_)
    names = chunk.names
    distinct, which = np.unique(chunk.path[rows], return_inverse=True)
    named = [names.levels[path] == 2 and names.names[names.ends[path]] in columns for path in distinct.tolist()]
    return np.array(named, dtype=np.bool_)[which]


def _leaves(expression: Expression) -> Iterator[Expression]:
    """Yield the paths that an expression reads, and the paths whose nodes it counts, with ``count``."""
    match expression:
        case Here():
            yield expression
        case Call("count", (Here(),)):
            yield expression
        case Call(_, ()):
            yield Here()
        case Call(_, args):
            for each in args:
                yield from _leaves(each)


def _steps(leaf: Expression) -> Steps:
    match leaf:
        case Here(steps) | Call("count", (Here(steps),)):
            return steps
    raise AssertionError(leaf)


def _with(condition: Condition, told: Mapping[Expression, Expression]) -> Condition:
    """Return a condition on functions with other leaves."""
    match condition:
        case Comparison(left, op, right):
            return Comparison(_changed(left, told), op, right)
        case Truth(call):
            changed = _changed(call, told)
            assert isinstance(changed, Call)
            return replace(condition, call=changed)
    raise AssertionError(condition)


def _changed(expression: Expression, told: Mapping[Expression, Expression]) -> Expression:
    if expression in told:
        return told[expression]
    if isinstance(expression, Call):
        return Call(expression.name, tuple(_changed(each, told) for each in expression.args))
    return expression
