"""Conditions of a block on its whole document that compare with constants, lifted out of the pattern as a guard.

A condition on the document node, or on the root element, speaks of the document as a whole.  So does one on a column
of a row, which has each column once.  All others may hold for one node and not for the next, and stay in the pattern.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xscl.base.own_functions import is_own
from xscl.base.values import to_number
from xscl.language.column_types import BlockColumns
from xscl.templates.guards import LENGTH, MOST_ALTERNATIVES, Guard, Literal, facts_variable
from xscl.xpath.automaton.automaton import WitnessSpec
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
    conditions,
    uses_own,
)

__all__ = ["Lifted", "Selection", "guard_of", "lift"]

_MIRRORED_BY_NOT = {"<", "<=", ">", ">="}


@dataclass(frozen=True, slots=True)
class Lifted:
    """A block's steps and the conditions on its document node, without its guard; and the guard."""

    steps: list[Step | None]
    at_document: tuple[Condition, ...]
    guard: Guard | None = None
    specs: tuple[WitnessSpec, ...] = ()
    """Specs of the facts and numbers that the guard reads."""
    selection: Selection | None = None
    """The guard's conditions."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The conditions of a block's guard."""

    channel: str
    root: Step | None
    """The step to the root element, without conditions; None: the guard is of the document node alone."""
    of_document: tuple[Condition, ...]
    of_root: tuple[Condition, ...]

    def mapped(self, change: Callable[[Condition], Condition]) -> Selection:
        """Return a selection with other conditions."""
        of_document, of_root = ([change(each) for each in found] for found in (self.of_document, self.of_root))
        return Selection(self.channel, self.root, conditions(of_document), conditions(of_root))

    @property
    def definition(self) -> Definition:
        """Return the definition of the topmost node with all conditions."""
        top = () if self.root is None else (Step(self.root.axis, self.root.test, self.of_root),)
        return Definition(self.channel, top, self.of_document)


@dataclass(frozen=True, slots=True)
class _Atom:
    """A condition that is no formula of others."""

    condition: Condition
    on_root: bool
    """Whether it is on the root element; else it is on the document node."""
    is_told: bool = False
    """Whether it is told by a number or a length in the document."""

    @property
    def excludes(self) -> bool:
        """Whether most documents satisfy it, whatever its constant is."""
        found = self.condition
        while isinstance(found, Exists) and len(found.step.conditions) == 1:
            (found,) = found.step.conditions
        return isinstance(found, Negation) or isinstance(found, Comparison) and found.op == "!="


_Alternatives = tuple[frozenset[_Atom], ...]


class _TooMany(Exception):
    """A formula with too many alternatives."""


def lift(
    columns: BlockColumns, steps: list[Step | None], at_document: tuple[Condition, ...], live: Iterable[int]
) -> Lifted:
    """Lift the guard out of a block.

    Args:
        columns: the block.
        steps: the steps of its nodes, with their conditions.
        at_document: conditions on the document node.
        live: nodes with a definition, and those above them.
    """
    as_it_is = Lifted(steps, at_document)
    channel = columns.facts.channel or columns.block.channel
    of_document, rest_document = _split(at_document)
    root = _root(columns, steps, live)
    of_root: list[Condition] = []
    changed = list(steps)
    bare: Step | None = None
    if root is not None:
        step = steps[root]
        assert step is not None
        of_root, kept = _split(step.conditions)
        bare = Step(step.axis, step.test)
        changed[root] = Step(step.axis, step.test, kept)
        for node in _columns_of(columns, root, live):
            of_column = steps[node]
            assert of_column is not None
            if of_column.conditions:
                lifted, left = _split(of_column.conditions)
                of_root += [Exists(Step(of_column.axis, of_column.test, (each,))) for each in lifted]
                changed[node] = Step(of_column.axis, of_column.test, left)
    if not of_document and not of_root:
        return as_it_is
    selection = Selection(channel, bare, conditions(of_document), conditions(of_root))
    found = guard_of(selection)
    if found is None:
        return as_it_is
    return Lifted(changed, rest_document, *found, selection)


def guard_of(selection: Selection) -> tuple[Guard, tuple[WitnessSpec, ...]] | None:
    """Return the guard of conditions, with the specs that it reads; None: it would have too many alternatives."""
    whole = selection.definition
    asked = _Asked(selection, whole)
    try:
        found = _product(
            [*(asked.alternatives(each, on_root=False) for each in asked.with_own(selection.of_document))]
            + [asked.alternatives(each, on_root=True) for each in asked.with_own(selection.of_root)]
        )
    except _TooMany:
        return None
    alternatives = tuple(sorted([tuple(sorted(asked.literals(each))) for each in found]))
    return Guard(whole.text, facts_variable(selection.channel), alternatives), tuple(asked.specs.values())


def _root(columns: BlockColumns, steps: Sequence[Step | None], live: Iterable[int]) -> int | None:
    """Return the node of the root element, if the block has just one path from the document node and it is that."""
    tops = [node for node in live if node and columns.block.nodes[node].parent == 0]
    if len(tops) != 1:
        return None
    step = steps[tops[0]]
    return tops[0] if step is not None and step.axis == "child" and step.test.kind == "element" else None


def _columns_of(columns: BlockColumns, root: int, live: Iterable[int]) -> list[int]:
    """Return the nodes that are a column of a row, which has it once."""
    if columns.facts.kind != "rows":
        return []
    nodes = columns.block.nodes
    return [
        node
        for node in sorted(live)
        if nodes[node].parent == root
        and (step := nodes[node].step) is not None
        and step.axis == "child"
        and step.test.kind == "element"
        and step.test.local is not None
        and step.test.uri in ("", None)
    ]


def _split(parts: Sequence[Condition]) -> tuple[list[Condition], tuple[Condition, ...]]:
    """Return the conditions that compare with a constant, and the others."""
    compared = [each for each in parts if _compares(each)]
    return compared, tuple(each for each in parts if each not in compared)


def _compares(condition: Condition) -> bool:
    match condition:
        case Comparison() | Compared() | Truth():
            return True
        case Exists(step):
            return any(map(_compares, step.conditions))
        case Negation(part):
            return _compares(part)
        case AllOf(parts) | AnyOf(parts):
            return any(map(_compares, parts))
        case OfColumns(_, part, otherwise):
            return _compares(part) or _compares(otherwise)


class _Asked:
    """The facts that a guard asks stage 1 for."""

    def __init__(self, selection: Selection, whole: Definition) -> None:
        """Begin; ``whole`` is the selection's definition."""
        self.channel = selection.channel
        self.root = selection.root
        self.whole = whole
        self.calls_own = is_own(whole.text)
        """Whether a condition may call a function of one's own."""
        self.specs: dict[tuple[int, str | None], WitnessSpec] = {}

    def with_own(self, parts: tuple[Condition, ...]) -> Sequence[Condition]:
        """Return conditions with functions of one's own as one condition with all others.

        So such a function is called where all others hold, and costs no document that these leave out.
        """
        if not self.calls_own or len(parts) < 2 or not any(map(uses_own, parts)):
            return parts
        return [AllOf(conditions(parts))]

    def alternatives(self, condition: Condition, *, on_root: bool, negated: bool = False) -> _Alternatives:
        """Return the alternatives of a condition, or of its negation.

        Raises:
            _TooMany: there are more than a guard may have.
        """
        match condition:
            case _ if self.calls_own and uses_own(condition):
                return (frozenset([_Atom(Negation(condition) if negated else condition, on_root)]),)
            case Negation(part):
                return self.alternatives(part, on_root=on_root, negated=not negated)
            case AllOf(parts) | AnyOf(parts):
                found = [self.alternatives(part, on_root=on_root, negated=negated) for part in parts]
                return _product(found) if isinstance(condition, AllOf) is not negated else _union(found)
        is_told = on_root and not negated and (self._number(condition) or self._length(condition)) is not None
        return (frozenset([_Atom(Negation(condition) if negated else condition, on_root, is_told)]),)

    def literals(self, atoms: frozenset[_Atom]) -> set[Literal]:
        """Return the literals of an alternative.

        Most documents have none of the words that queries exclude.  So a fact that excludes is one with the facts that
        the alternative asks for besides: few documents have these.
        """
        facts = [each for each in atoms if each.on_root and not each.is_told]
        excluding = [each for each in facts if each.excludes]
        together = facts if excluding and len(excluding) < len(facts) and not self.calls_own else []
        found = {self._literal(each) for each in atoms if each not in together}
        if together:
            found.add(self._fact(conditions([each.condition for each in together]), on_root=True))
        return found

    def _literal(self, atom: _Atom) -> Literal:
        told = (self._number(atom.condition) or self._length(atom.condition)) if atom.is_told else None
        return told or self._fact((atom.condition,), on_root=atom.on_root)

    def _fact(self, parts: tuple[Condition, ...], *, on_root: bool) -> Literal:
        if on_root:
            assert self.root is not None
            definition = Definition(self.channel, (Step(self.root.axis, self.root.test, parts),))
        else:
            definition = Definition(self.channel, (), parts)
        # Mostly there is one condition, and the text of the whole is known.
        return Literal(self._ask(self.whole if self.whole == definition else definition, None))

    def _number(self, condition: Condition) -> Literal | None:
        """Return the literal of a path of children to a number that is compared by order; None: it is none."""
        path: list[Step] = []
        while isinstance(condition, Exists) and len(condition.step.conditions) == 1:
            step = condition.step
            if step.axis != "child" or step.test.kind == "text":
                return None
            path.append(Step(step.axis, step.test))
            (condition,) = step.conditions
        match condition:
            case Comparison(Here(()), op, Constant(value, _)) if path and op in _MIRRORED_BY_NOT:
                number = to_number(value)
                if number is None or math.isinf(number):
                    return None
                assert self.root is not None
                definition = Definition(self.channel, (self.root, *path))
                return Literal(self._ask(definition, ""), op, number)
        return None

    def _length(self, condition: Condition) -> Literal | None:
        """Return the literal of a length, of the first node that a path of children reaches, which is to be above a
        bound; None: it is none.

        A path that reaches nothing has the length 0, which no such bound lets through: a document without a row, be it
        because nobody asked when it came, does not satisfy the literal.
        """
        match condition:
            case Comparison(Call("string-length", (Here(steps),)), (">" | ">=") as op, Constant(value, _)) if steps:
                number = to_number(value)
                if number is None or math.isinf(number) or number < 0 or (number == 0 and op == ">="):
                    return None
                if any(step.axis != "child" or step.test.kind == "text" or step.conditions for step in steps):
                    return None
                assert self.root is not None
                definition = Definition(self.channel, (self.root, *steps))
                return Literal(self._ask(definition, LENGTH), f"length {op}", number)
        return None

    def _ask(self, definition: Definition, function: str | None) -> int:
        key = definition.key
        self.specs.setdefault((key, function), WitnessSpec(definition, (function,), ()))
        return key


def _product(parts: Sequence[_Alternatives]) -> _Alternatives:
    found: set[frozenset[_Atom]] = {frozenset()}
    for part in parts:
        found = {one | other for one in found for other in part}
        if len(found) > MOST_ALTERNATIVES:
            raise _TooMany
    return tuple(found)


def _union(parts: Sequence[_Alternatives]) -> _Alternatives:
    found = {each for part in parts for each in part}
    if len(found) > MOST_ALTERNATIVES:
        raise _TooMany
    return tuple(found)
