"""Shapes of steps: what queries have in common that differ only in constants of their conditions, and in windows.

Queries of one shape are one step, whose rows are moved once for all of them.  A shape is a pure function of a query's
steps, and so are the numbers that are taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from xscl.base.values import digest_text
from xscl.language.steps.terms import (
    Accumulator,
    Computed,
    Filter,
    Fold,
    Next,
    Node,
    Part,
    Skip,
    StepsDefinition,
    Value,
    Without,
)
from xscl.language.terms import Comparison, Term

__all__ = [
    "Number",
    "alike",
    "comparisons_of",
    "filled",
    "is_of",
    "kept_slots",
    "limits_in",
    "own_value",
    "shape_of",
    "slots_in",
    "slots_of",
    "step_id",
    "with_widest",
]

Number = Fraction | str
"""Number that was taken out of a shape, or the text in place of one."""
_Change = Callable[[Term, str], Term]
"""Changes a term beside an operator; ``_KEPT``: in what a FOLD keeps."""
_KEPT = ""
"""Stands for an operator where a FOLD keeps a value."""


def shape_of(definition: StepsDefinition) -> tuple[StepsDefinition, tuple[Number, ...]]:
    """Return steps without the numbers of their conditions and of what FOLDs keep, texts that are equal or not,
    windows, numbers of iterations, and names of variables; and these numbers and texts.
    """
    numbers: list[Number] = []

    def taken(term: Term, op: str) -> Term:
        if term.kind == "text" and op in ("=", "!=") and not term.functions:
            numbers.append(term.text)
            return replace(term, text="", slot=len(numbers) - 1)
        if op == _KEPT:
            term = term if term.first is None else replace(term, first=taken(term.first, op))
            is_number = term.kind == "number" or term.is_number
        else:
            # What is greater or less is compared as a number in any case: p is 1 * p + 0.
            is_number = term.kind != "text" and (term.is_number or op not in ("=", "!=") and not term.functions)
        if not is_number:
            return term
        numbers.extend((term.factor, term.constant))
        return replace(term, factor=Fraction(1), constant=Fraction(0), is_number=True, slot=len(numbers) - 2)

    parts = tuple(replace(part, names=("",) * len(part.names)) for part in definition.parts)
    root = _without_windows(_changed(definition.root, taken), numbers)
    return replace(definition, parts=parts, root=root), tuple(numbers)


def _without_windows(node: Node, numbers: list[Number]) -> Node:
    """Return steps without windows and numbers of iterations, which are put behind the numbers."""

    def taken(value: int | None) -> int | None:
        if value is None:
            return None
        numbers.append(Fraction(value))
        return len(numbers) - 1

    match node:
        case Part():
            return node
        case Filter():
            return replace(node, of=_without_windows(node.of, numbers))
        case Without(skip=skip):
            most = taken(skip.most)
            is_around = skip.most is not None and skip.least == -skip.most
            skip = replace(skip, least_slot=most if is_around else taken(skip.least), most_slot=most)
            skip = replace(skip, least=None, most=None)
            return replace(node, left=_without_windows(node.left, numbers), skip=skip)
    skip = node.skip
    skip = replace(skip, most_slot=taken(skip.most), duration_slot=taken(skip.duration), least_slot=taken(skip.least))
    if isinstance(node, Fold):
        node = replace(node, at_most_slot=taken(node.at_most), at_most=None)
    skip = replace(skip, least=None, most=None, duration=None)
    left, right = (_without_windows(each, numbers) for each in (node.left, node.right))
    return replace(node, left=left, right=right, skip=skip)


def with_widest(root: Node, numbers: Sequence[Sequence[Number]]) -> Node:
    """Return steps of a shape with windows that those of all queries are in, and the greatest numbers of iterations.

    They stay taken out: they say whose a match is.
    """
    least = {node.skip.least_slot for node in _skipping(root) if node.skip.least_slot != node.skip.most_slot}
    columns = [*zip(*numbers, strict=True)]

    def widest(slot: int) -> tuple[int, int]:
        own = [int(each) for each in columns[slot]]
        return (min if slot in least else max)(own), slot

    return _limited(root, widest)


def _skipping(node: Node) -> Iterator[Next | Fold | Without]:
    """Yield the steps that go to a right side."""
    match node:
        case Filter():
            yield from _skipping(node.of)
        case Next() | Fold() | Without():
            yield node
            yield from _skipping(node.left)
            yield from _skipping(node.right)


def _limited(node: Node, change: Callable[[int], tuple[int | None, int | None]]) -> Node:
    """Return steps with other limits in place of those that were taken out.

    ``change`` gives for a place the limit, and its place if it stays taken out.
    """

    def changed(value: int | None, slot: int | None) -> tuple[int | None, int | None]:
        return (value, None) if slot is None else change(slot)

    match node:
        case Part():
            return node
        case Filter():
            return replace(node, of=_limited(node.of, change))
    skip = node.skip
    most, most_slot = changed(skip.most, skip.most_slot)
    duration, duration_slot = changed(skip.duration, skip.duration_slot)
    if skip.least_slot is not None and skip.least_slot == skip.most_slot:
        least, least_slot = None if most is None else -most, most_slot
    else:
        least, least_slot = changed(skip.least, skip.least_slot)
    skip = Skip(skip.keys, least, most, duration, skip.between, skip.comparisons, least_slot, most_slot, duration_slot)
    left, right = _limited(node.left, change), _limited(node.right, change)
    if isinstance(node, Without):
        assert isinstance(right, Part)
        return replace(node, left=left, right=right, skip=skip)
    if isinstance(node, Fold):
        at_most, slot = changed(node.at_most, node.at_most_slot)
        node = replace(node, at_most=at_most, at_most_slot=slot)
    return replace(node, left=left, right=right, skip=skip)


def step_id(
    shape: StepsDefinition, channels: Sequence[Sequence[str]], distances: tuple[int | None, int | None] = (None, None)
) -> str:
    """Return the name of the step of a shape over channels, those that each part reads.

    ``distances`` are those behind clocks up to which queries answer and remember (``Level``); None: the lateness.
    """
    level = () if distances == (None, None) else (repr(distances),)
    return f"s3_{digest_text('step', repr(shape), repr(channels), *level, size=8)}"


def filled(root: Node, numbers: Sequence[Number | None]) -> Node:
    """Return steps of a shape with their numbers; those that are None stay taken out."""

    def given(term: Term, op: str) -> Term:
        if op == _KEPT and term.first is not None:
            term = replace(term, first=given(term.first, op))
        if term.slot is None:
            return term
        if term.kind == "text":
            text = numbers[term.slot]
            return replace(term, text=text, slot=None) if isinstance(text, str) else term
        factor, constant = numbers[term.slot], numbers[term.slot + 1]
        if not isinstance(factor, Fraction) or not isinstance(constant, Fraction):
            return term
        is_plain = op not in ("=", "!=", _KEPT) and term.kind != "number" and factor == 1 and constant == 0
        return replace(term, factor=factor, constant=constant, is_number=not is_plain, slot=None)

    def limit(slot: int) -> tuple[int | None, int | None]:
        own = numbers[slot]
        return (None, slot) if own is None else (int(own), None)

    return _changed(_limited(root, limit), given)


def alike(numbers: Sequence[Sequence[Number]]) -> list[Number | None]:
    """Return the numbers that all queries of a shape have; None: they differ."""
    return [column[0] if len(set(column)) == 1 else None for column in zip(*numbers, strict=True)]


def slots_of(comparison: Comparison) -> tuple[int, ...]:
    """Return the places of the numbers that were taken out of a condition."""
    return *_slots_of_term(comparison.left), *_slots_of_term(comparison.right)


def _slots_of_term(term: Term) -> tuple[int, ...]:
    if term.slot is None:
        return ()
    return (term.slot,) if term.kind == "text" else (term.slot, term.slot + 1)


def own_value(one: Comparison, parts: frozenset[int]) -> Term | None:
    """Return the number or text that was taken out of a comparison with a variable of some parts.

    None: the condition is none of these.
    """
    for own, other in ((one.left, one.right), (one.right, one.left)):
        is_own = own.slot is not None and own.kind in ("number", "text") and _is_of(other, parts)
        if is_own and not (own.kind == "text" and (other.is_number or one.op not in ("=", "!="))):
            return own
    return None


def is_of(one: Comparison, parts: frozenset[int]) -> bool:
    """Tell whether a condition says the same for all queries, and speaks of variables of some parts alone."""
    sides = one.left, one.right
    return all(side.slot is None and (side.kind in ("number", "text") or _is_of(side, parts)) for side in sides)


def _is_of(term: Term, parts: frozenset[int]) -> bool:
    return term.kind == "variable" and term.part in parts and term.slot is None


def slots_in(node: Node) -> Iterator[int]:
    """Yield the places of the numbers that were taken out of a step, without those of the steps below it."""
    for each in comparisons_of(node):
        yield from slots_of(each)
    yield from limits_in(node)
    if isinstance(node, Fold):
        yield from kept_slots(node.accumulators)


def kept_slots(accumulators: Iterable[Accumulator]) -> Iterator[int]:
    """Yield the places of the numbers that were taken out of what a FOLD keeps."""
    waiting: list[Value | None] = [each.value for each in accumulators]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Computed):
            waiting += (value.left, value.right)
        elif value is not None:
            waiting.append(value.first)
            yield from _slots_of_term(value)


def limits_in(node: Node) -> Iterator[int]:
    """Yield the places of the windows and numbers of iterations that were taken out of a step."""
    if isinstance(node, Next | Fold | Without):
        skip = node.skip
        yield from dict.fromkeys(
            slot for slot in (skip.least_slot, skip.most_slot, skip.duration_slot) if slot is not None
        )
    if isinstance(node, Fold) and node.at_most_slot is not None:
        yield node.at_most_slot


def comparisons_of(node: Node) -> Iterator[Comparison]:
    """Yield the conditions of a step, without those of the steps below it."""
    match node:
        case Filter():
            yield from node.comparisons
        case Next() | Without():
            yield from node.skip.comparisons
        case Fold():
            yield from (*node.skip.comparisons, *node.conditions)


def _changed(node: Node, change: _Change) -> Node:
    """Return steps with other terms in conditions, and in what FOLDs keep."""
    match node:
        case Part():
            return node
        case Filter():
            return replace(node, of=_changed(node.of, change), comparisons=_compared(node.comparisons, change))
    left, skip = _changed(node.left, change), replace(node.skip, comparisons=_compared(node.skip.comparisons, change))
    if isinstance(node, Without):
        return replace(node, left=left, skip=skip)
    if isinstance(node, Fold):
        kept = tuple(replace(each, value=_kept(each.value, change)) for each in node.accumulators)
        node = replace(node, conditions=_compared(node.conditions, change), accumulators=kept)
    return replace(node, left=left, right=_changed(node.right, change), skip=skip)


def _compared(comparisons: Sequence[Comparison], change: _Change) -> tuple[Comparison, ...]:
    return tuple(Comparison(change(one.left, one.op), one.op, change(one.right, one.op)) for one in comparisons)


def _kept(value: Value, change: _Change) -> Value:
    if isinstance(value, Computed):
        return Computed(value.op, _kept(value.left, change), _kept(value.right, change))
    return change(value, _KEPT)
