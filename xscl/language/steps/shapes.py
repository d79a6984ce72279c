"""Shapes of steps: what queries have in common that differ only in constants of their conditions, and in windows.

Queries of one shape are one step, whose rows are moved once for all of them.  A shape is a pure function of a query's
steps, and so are the numbers that are taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from xscl.base.values import digest_text
from xscl.language.steps.terms import Filter, Fold, Next, Node, Part, Skip, StepsDefinition, Without
from xscl.language.terms import Comparison, Term

__all__ = [
    "Number",
    "alike",
    "comparisons_of",
    "filled",
    "is_of",
    "limits_in",
    "own_value",
    "shape_of",
    "slots_in",
    "slots_of",
    "step_id",
    "with_greatest",
]

Number = Fraction | str
"""Number that was taken out of a shape, or the text in place of one."""
_Change = Callable[[Comparison], Comparison]


def shape_of(definition: StepsDefinition) -> tuple[StepsDefinition, tuple[Number, ...]]:
    """Return steps without the numbers of their conditions, texts that are equal or not, windows, numbers of
    iterations, and names of variables; and these numbers and texts.

    Windows and iterations of a FOLD with LONGEST, and of the steps below it, stay: they end the runs that compete.
    """
    numbers: list[Number] = []

    def taken(term: Term, op: str) -> Term:
        if term.kind == "text" and op in ("=", "!=") and not term.functions:
            numbers.append(term.text)
            return replace(term, text="", slot=len(numbers) - 1)
        # What is greater or less is compared as a number in any case: p is 1 * p + 0.
        if term.kind == "text" or not (term.is_number or op not in ("=", "!=") and not term.functions):
            return term
        numbers.extend((term.factor, term.constant))
        return replace(term, factor=Fraction(1), constant=Fraction(0), is_number=True, slot=len(numbers) - 2)

    def change(one: Comparison) -> Comparison:
        return Comparison(taken(one.left, one.op), one.op, taken(one.right, one.op))

    parts = tuple(replace(part, names=("",) * len(part.names)) for part in definition.parts)
    root = _without_windows(_changed(definition.root, change), numbers)
    return replace(definition, parts=parts, root=root), tuple(numbers)


def _without_windows(node: Node, numbers: list[Number]) -> Node:
    """Return steps without greatest windows and numbers of iterations, which are put behind the numbers.

    A step goes to the first right side that satisfies all else, however long its window is: the window says for whom
    that is a match.  So does the number of iterations.  Steps to the right of others keep theirs, because their matches
    compete.
    """
    match node:
        case Filter():
            return replace(node, of=_without_windows(node.of, numbers))
        case Without():
            return replace(node, left=_without_windows(node.left, numbers))
        case Fold(longest=True):
            return node
        case Next() | Fold():
            left, skip = _without_windows(node.left, numbers), node.skip
            if skip.most is not None:
                numbers.append(Fraction(skip.most))
                skip = replace(skip, most=None, most_slot=len(numbers) - 1)
            if skip.duration is not None:
                numbers.append(Fraction(skip.duration))
                skip = replace(skip, duration=None, duration_slot=len(numbers) - 1)
            if isinstance(node, Fold) and node.at_most is not None:
                numbers.append(Fraction(node.at_most))
                node = replace(node, at_most=None, at_most_slot=len(numbers) - 1)
            return replace(node, left=left, skip=skip)
    return node


def with_greatest(root: Node, limits: Mapping[int, int]) -> Node:
    """Return steps of a shape with the greatest limits of all queries, by the places of those that are taken out.

    These are windows and numbers of iterations.  They stay taken out: they say whose a match is.
    """
    return _limited(root, lambda slot: (limits[slot], slot))


def _limited(node: Node, change: Callable[[int], tuple[int | None, int | None]]) -> Node:
    """Return steps with other limits in place of those that were taken out.

    ``change`` gives for a place the limit, and its place if it stays taken out.
    """
    match node:
        case Filter():
            return replace(node, of=_limited(node.of, change))
        case Without():
            return replace(node, left=_limited(node.left, change))
        case Next() | Fold():
            skip = node.skip
            if skip.most_slot is not None:
                most, slot = change(skip.most_slot)
                skip = replace(skip, most=most, most_slot=slot)
            if skip.duration_slot is not None:
                most, slot = change(skip.duration_slot)
                skip = replace(skip, duration=most, duration_slot=slot)
            if isinstance(node, Fold) and node.at_most_slot is not None:
                most, slot = change(node.at_most_slot)
                node = replace(node, at_most=most, at_most_slot=slot)
            return replace(node, left=_limited(node.left, change), skip=skip)
    return node


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
        if term.slot is None:
            return term
        if term.kind == "text":
            text = numbers[term.slot]
            return replace(term, text=text, slot=None) if isinstance(text, str) else term
        factor, constant = numbers[term.slot], numbers[term.slot + 1]
        if not isinstance(factor, Fraction) or not isinstance(constant, Fraction):
            return term
        is_plain = op not in ("=", "!=") and term.kind != "number" and factor == 1 and constant == 0
        return replace(term, factor=factor, constant=constant, is_number=not is_plain, slot=None)

    def limit(slot: int) -> tuple[int | None, int | None]:
        own = numbers[slot]
        return (None, slot) if own is None else (int(own), None)

    root = _limited(root, limit)
    return _changed(root, lambda one: Comparison(given(one.left, one.op), one.op, given(one.right, one.op)))


def alike(numbers: Sequence[Sequence[Number]]) -> list[Number | None]:
    """Return the numbers that all queries of a shape have; None: they differ."""
    return [column[0] if len(set(column)) == 1 else None for column in zip(*numbers, strict=True)]


def slots_of(comparison: Comparison) -> tuple[int, ...]:
    """Return the places of the numbers that were taken out of a condition."""
    terms = [term for term in (comparison.left, comparison.right) if term.slot is not None]
    return tuple(
        slot + behind for t in terms if (slot := t.slot) is not None for behind in range(1 + (t.kind != "text"))
    )


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


def limits_in(node: Node) -> Iterator[int]:
    """Yield the places of the windows and numbers of iterations that were taken out of a step."""
    if isinstance(node, Next | Fold):
        yield from (slot for slot in (node.skip.most_slot, node.skip.duration_slot) if slot is not None)
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
    """Return steps with other conditions."""
    match node:
        case Part():
            return node
        case Filter():
            return replace(node, of=_changed(node.of, change), comparisons=tuple(map(change, node.comparisons)))
        case Next():
            left, right = _changed(node.left, change), _changed(node.right, change)
            return replace(node, left=left, right=right, skip=_skip(node.skip, change))
        case Without():
            return replace(node, left=_changed(node.left, change), skip=_skip(node.skip, change))
        case Fold():
            left, right = _changed(node.left, change), _changed(node.right, change)
            skip, conditions = _skip(node.skip, change), tuple(map(change, node.conditions))
            return replace(node, left=left, right=right, skip=skip, conditions=conditions)


def _skip(skip: Skip, change: _Change) -> Skip:
    return replace(skip, comparisons=tuple(map(change, skip.comparisons)))
