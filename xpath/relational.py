"""Definitions that the columns of a row channel answer, without documents.

A row's document is flat: a root named by the channel and a child for each column that is not NULL.  So which nodes a
definition selects there, with which chains, and under which conditions on the row's columns, is known before any row is
seen.  ``ChannelSplit`` finds the definitions for which this is true, as they come and go, and says, for each node that
they select, what the witness of a row consists of; ``row_witness`` makes witness rows of that.

*Positions* are nodes of the document of a row without NULLs: the document node -1, the root 0, columns from 1.  The
node's number in a row is its position without the NULLs before it.

The law, tested: for every row, what ``row_witness`` makes of ``ChannelSplit.asked`` and what ``match_document`` finds
in the row's document with the specs of definitions that columns do not answer are together what it finds there with
all specs, each row once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from lxml import etree

from xscl.base.errors import DocumentLimitError
from xscl.base.mixed import of_column
from xscl.xpath.automaton.automaton import Automaton, WitnessSpec
from xscl.xpath.automaton.row_template import ChainEntry
from xscl.xpath.columns.conditions import TooManyAlternatives, alternatives, paths_read
from xscl.xpath.columns.formulas import All, Any_, Formula, Not, Single, There
from xscl.xpath.conditions.condition import matches_name
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.nodes import DOCUMENT
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Definition,
    Exists,
    Here,
    Negation,
    OfColumns,
    Step,
    Truth,
    uses_own,
)

__all__ = ["Asked", "ChannelSplit", "Guard", "RowShape"]

_ROOT = 0
_MANY = 10_000
"""Definitions whose chains are asked for together."""

_MOST_ENTRIES = 10_000
"""Chain entries that columns give for one definition in one row."""

Guard = frozenset[Formula]
"""Formulas that a row's columns must satisfy, all of them."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """The shape of a row channel's documents."""

    element: str
    """The root's name."""
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """One node of a wanted variable in every row that has the columns it needs, with one of its values."""

    position: int
    var: int
    function: str | None
    """The function, of columns of one kind; None: a row without a value."""
    guard: Guard
    """Condition on the row: the node exists and its conditions hold, with those on its way."""
    chain: tuple[ChainEntry, ...]
    """R_bin by positions; entries of NULLs are not there."""


class _NeedsWalk(Exception):
    """A definition that columns alone do not answer."""


class ChannelSplit:
    """The definitions that columns of one row channel answer, as definitions come and go; each costs its own specs."""

    def __init__(self, shape: RowShape) -> None:
        self._selections = _Selections(shape)
        self._row = _whole_row(shape)
        self._rows: dict[int, list[Asked]] = {}
        """Requested rows by the keys of the definitions that columns answer."""

    def put(self, asked: Mapping[int, list[WitnessSpec]]) -> None:
        """Take in all specs of some definitions, by their keys; a key without a spec goes."""
        candidates: dict[int, _Candidate] = {}
        for key, specs in asked.items():
            self._rows.pop(key, None)
            candidate = _candidate(specs, self._selections) if specs else None
            if candidate is not None:
                candidates[key] = candidate
        try:
            found = _asked(candidates, self._row)
        except DocumentLimitError:
            # Together they are too many; what each asks does not depend on the others.
            found = {}
            for key, candidate in candidates.items():
                with suppress(DocumentLimitError):
                    found |= _asked({key: candidate}, self._row)
        for key, candidate in candidates.items():
            rows = found.get(key)
            # What asks for more of a row is walked, and refused there if it is too much.
            if rows is not None and sum(len(row.chain) for row in rows) <= _MOST_ENTRIES and _clear(candidate, rows):
                self._rows[key] = rows

    def answers(self, key: int) -> bool:
        """Whether columns answer what is asked of a definition."""
        return key in self._rows

    def rows(self, key: int) -> Sequence[Asked]:
        """Return the rows that the columns give for a definition."""
        return self._rows.get(key, ())

    def asked(self) -> tuple[Asked, ...]:
        """Return all rows that are asked for."""
        return tuple(row for key in self._rows for row in self.rows(key))


_MOST_KNOWN = 50_000

# -- what definitions select -----------------------------------------------------------------------------------


class _Selections:
    """The nodes that definitions select in the flat document of a channel."""

    def __init__(self, shape: RowShape) -> None:
        self.shape = shape
        self._known: dict[int, dict[int, Guard] | None] = {}
        """Nodes by the keys of definitions; a key is hashed sooner than a definition."""

    def of(self, definition: Definition) -> dict[int, Guard]:
        """Return the positions that a definition selects, each with what must hold of the row.

        Every step goes down, and there are two levels below the document node, so there is one way to each position.
        """
        if definition.key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()  # most are of queries that have gone
            try:
                self._known[definition.key] = self._select(definition)
            except _NeedsWalk:
                self._known[definition.key] = None
        found = self._known[definition.key]
        if found is None:
            raise _NeedsWalk
        return found

    def _select(self, definition: Definition) -> dict[int, Guard]:
        at_document = self._all(definition.conditions, DOCUMENT)
        found = {} if at_document is None else {DOCUMENT: at_document}
        for step in definition.steps:
            found = {
                below: guard | more
                for position, guard in found.items()
                for below, more in self._reached(step, position).items()
            }
        return found

    def _reached(self, step: Step, position: int) -> dict[int, Guard]:
        found = {}
        for place in self._below(step, position):
            guard = self._all(step.conditions, place)
            if guard is not None:
                found[place] = guard | {There(place)} if place else guard
        return found

    def _below(self, step: Step, position: int) -> Iterator[int]:
        """Yield the positions that a step leads to, conditions apart."""
        if step.test.kind != "element":
            raise _NeedsWalk
        if position == DOCUMENT and matches_name(step.test, self.shape.element):
            yield _ROOT
        if position == _ROOT or (position == DOCUMENT and step.axis == "descendant"):
            for place, name in enumerate(self.shape.columns, start=1):
                if matches_name(step.test, name):
                    yield place

    def _all(self, conditions: Iterable[Condition], position: int) -> Guard | None:
        """Return the guard under which conditions hold at a node; None: they never do."""
        found: Guard = frozenset()
        for condition in conditions:
            if uses_own(condition):
                raise _NeedsWalk  # a walk tells whose error it is where such a function fails
            guard = self._guard(condition, position)
            if guard is None:
                return None
            found |= guard
        return found

    def _guard(self, condition: Condition, position: int) -> Guard | None:
        match condition:
            case Exists(step):
                return _one_of(list(self._reached(step, position).values()))
            case AllOf(parts):
                return self._all(parts, position)
            case AnyOf(parts):
                guards = (self._guard(part, position) for part in parts)
                return _one_of([guard for guard in guards if guard is not None])
            case Negation(part):
                guard = self._guard(part, position)
                if guard is None:
                    return frozenset()
                return frozenset([Not(All(guard))]) if guard else None
            case OfColumns(columns, part, otherwise):
                is_one = position > _ROOT and self.shape.columns[position - 1] in columns
                return self._guard(part if is_one else otherwise, position)
            case Compared():
                return frozenset([Single(max(position, 0), condition)])
            case Comparison() | Truth():
                return frozenset([self._computed(condition, position)])

    def _computed(self, condition: Comparison | Truth, position: int) -> Single:
        """Return a condition on what is computed of values: of the node's own, or of one column's."""
        paths = paths_read(condition)
        if all(path == Here() for path in paths):
            return Single(max(position, 0), condition)
        if position != _ROOT or any(len(path.steps) != 1 or path.steps[0].conditions for path in paths):
            raise _NeedsWalk
        columns = {place for path in paths for place in self._below(path.steps[0], position)}
        if len(columns) != 1:
            raise _NeedsWalk
        (column,) = columns
        return Single(column, condition, self.shape.columns[column - 1])


def _one_of(guards: list[Guard]) -> Guard | None:
    if not guards:
        return None
    least = min(guards, key=len)
    if all(least <= guard for guard in guards):
        return least
    return frozenset([Any_(frozenset(All(guard) for guard in guards))])


@dataclass(frozen=True, slots=True)
class _Candidate:
    definition: Definition
    specs: list[WitnessSpec]
    selected: dict[int, Guard]
    """Positions, each with what must hold of the row."""
    ends: dict[int, dict[int, Guard]]
    """The same of the ends of all edges, by key."""


def _candidate(specs: list[WitnessSpec], selections: _Selections) -> _Candidate | None:
    definition = specs[0].definition
    ends = {end.key: end for spec in specs for edge in (*spec.edges, *spec.hanging) for end in edge}
    try:
        selected = {key: selections.of(end) for key, end in ends.items()}
        found = _Candidate(definition, specs, selections.of(definition), selected)
        for guard in found.selected.values():
            alternatives(All(guard))
    except (_NeedsWalk, TooManyAlternatives):
        return None
    return found


def _asked(candidates: Mapping[int, _Candidate], row: etree._Element) -> dict[int, list[Asked]]:
    """Return the rows that each of these definitions asks for.

    Raises:
        DocumentLimitError: more than a row may be asked for.
    """
    found: dict[int, list[Asked]] = {key: [] for key in candidates}
    remaining = iter(candidates.values())
    while some := list(islice(remaining, _MANY)):
        _ask(some, row, found)
    return found


def _ask(candidates: Sequence[_Candidate], row: etree._Element, found: dict[int, list[Asked]]) -> None:
    # The walk itself says what the chains are: those of a row that has all columns and satisfies all conditions.
    marks = _Marks()
    bare = [
        WitnessSpec(
            marks.of(candidate.definition),
            (None,),
            marks.edges(edge for spec in candidate.specs for edge in spec.edges),
            marks.edges(edge for spec in candidate.specs for edge in spec.hanging),
        )
        for candidate in candidates
    ]
    by_key = {candidate.definition.key: candidate for candidate in candidates}
    columns = [str(column.tag) for column in row]
    for witness in match_document(Automaton(bare), bare[0].definition.channel, row):
        candidate = by_key[marks.key[witness.var]]
        guard = candidate.selected.get(witness.node)
        if guard is None:
            continue
        chain = tuple(
            (marks.key[upper], marks.key[lower], high, low)
            for upper, lower, high, low in witness.chain
            if high in candidate.ends[marks.key[upper]] and low in candidate.ends[marks.key[lower]]
        )
        column = None if witness.node <= _ROOT else columns[witness.node - 1]
        functions = {
            None if function is None else of_column(function, column)
            for spec in candidate.specs
            for function in spec.functions
        }
        found[candidate.definition.key] += (
            Asked(witness.node, candidate.definition.key, function, guard, chain)
            for function in sorted(functions, key=lambda name: (name is not None, name))
        )


class _Marks:
    """Definitions that differ as others do, but whose conditions always hold."""

    def __init__(self) -> None:
        self.key: dict[int, int] = {}
        """The key of the definition that one stands for."""
        self._known: dict[int, Definition] = {}

    def of(self, definition: Definition) -> Definition:
        if definition.key not in self._known:
            steps = tuple(Step(step.axis, step.test, _mark(step.conditions)) for step in definition.steps)
            marked = Definition(definition.channel, steps, _mark(definition.conditions))
            self._known[definition.key] = marked
            self.key[marked.key] = definition.key
        return self._known[definition.key]

    def edges(self, edges: Iterable[tuple[Definition, Definition]]) -> tuple[tuple[Definition, Definition], ...]:
        found = {(upper.key, lower.key): (upper, lower) for upper, lower in edges}
        return tuple((self.of(upper), self.of(lower)) for upper, lower in found.values())


def _mark(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    if not conditions:
        return ()
    text = Constant("".join(f"[{condition}]" for condition in conditions), is_number=False)
    return (Truth(Call("contains", (text, Constant("", is_number=False)))),)


def _clear(candidate: _Candidate, rows: Iterable[Asked]) -> bool:
    """Whether chains have no conditions of their own, but that their nodes are there."""
    for row in rows:
        for upper, lower, high, low in row.chain:
            there = row.guard | {There(high), There(low)}
            if not (candidate.ends[upper][high] <= there and candidate.ends[lower][low] <= there):
                return False
    return True


def _whole_row(shape: RowShape) -> etree._Element:
    """Return the document of a row without NULLs, whose nodes are numbered as positions are."""
    root = etree.Element(shape.element)
    for column in shape.columns:
        etree.SubElement(root, column)
    return root
