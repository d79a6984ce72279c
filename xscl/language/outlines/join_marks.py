"""Constants in braces of a join that texts may differ in, and their places in what is compiled.

A number of a comparison of two variables is a factor or an addend of one value join.  The length of a window is a bound
of event times.  Others are constants of conditions on one variable, like those of brackets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple, TypeVar

from xscl.base.replacing import replaced
from xscl.language.compiled import CompiledQuery, FilledJoins
from xscl.language.normalize import NormalJoin, NormalQuery
from xscl.language.outlines.filled_conditions import Refused
from xscl.language.outlines.marks import Varying
from xscl.language.outlines.step_marks import COMPARISONS, varying_number, varying_text
from xscl.language.syntax.tokens import Token
from xscl.templates.bounds import Bounds, Case
from xscl.templates.graph import ValueJoin

__all__ = ["JoinMarks", "Numbers", "join_marks", "varying_in_joins"]

Join = TypeVar("Join", NormalJoin, ValueJoin)

_OTHERS = frozenset(("in", "last", "maxwindow", "unbounded"))
"""Words of other windows."""
Numbers = Mapping[Fraction, Fraction]
"""Numbers by the marks in whose places they stand: of comparisons, and of microseconds."""


def varying_in_joins(tokens: Sequence[Token], first: CompiledQuery) -> dict[tuple[int, int], Varying]:
    """Return what texts may differ in, by its place from the start of the first token on.

    Args:
        tokens: a text's.
        first: the text, compiled.
    """
    found: dict[tuple[int, int], Varying] = {}
    if not _is_plain(first):
        return found
    # Bounds of three blocks follow from several windows.
    begin, is_alone = tokens[0].start, len(first.normal.blocks) == 2 and _has_one_window(tokens)
    for at in _in_braces(tokens):
        token = tokens[at]
        known = varying_number(tokens, at) if token.kind == "number" else varying_text(tokens, at)
        if known is not None and (known.unit is None or is_alone):
            found[token.start - begin, token.end - begin] = replace(known, is_joined=True)
    return found


def _is_plain(first: CompiledQuery) -> bool:
    """Tell whether the order of vertices depends on no number of a join, and no bound on another one."""
    instance = first.group.instance
    blocks = [node.block for node in instance.nodes[: len(instance.variables)]]
    return len(first.normal.blocks) > 1 and len({*zip(blocks, instance.variables, strict=True)}) == len(blocks)


def _has_one_window(tokens: Sequence[Token]) -> bool:
    """Tell whether the braces of a join have one plain window: bounds are the least of all windows."""
    kinds = [token.kind for token in tokens]
    inside = tokens[kinds.index("{") : kinds.index("}")] if "{" in kinds and "}" in kinds else ()
    words = [token.value.lower() for token in inside if token.kind == "name"]
    commas = sum(token.kind == "," for token in inside) - words.count("once")
    has_atoms = any(token.kind in COMPARISONS for token in inside)
    return commas == has_atoms and _OTHERS.isdisjoint(words)


def _in_braces(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the places of constants in braces of joins."""
    inside = False
    for at, token in enumerate(tokens):
        if token.kind == "{":
            inside = True
        elif token.kind == "}":
            inside = False
        elif inside and token.kind in ("number", "string"):
            yield at


class _JoinPlace(NamedTuple):
    """Marks in a value join."""

    join: int
    factor: Fraction | None = None
    """Mark of the factor; None: the factor has none."""
    is_divided: bool = False
    """Whether the join is solved for the other side: factor and addend are divided by the mark."""
    addend: Fraction | None = None
    """Mark of the addend."""
    signs: tuple[int, int] = (1, 1)
    """Signs of the factor and of the addend."""

    def marks(self) -> list[Fraction]:
        """Return the marks."""
        return [mark for mark in (self.factor, self.addend) if mark is not None]

    def numbers(self, numbers: Numbers) -> dict[str, Fraction]:
        """Return the columns of the join that have marks, with numbers in their places."""
        found = {}
        divisor = numbers[self.factor] if self.factor is not None and self.is_divided else Fraction(1)
        if self.factor is not None:
            found["f"] = self.signs[0] * (1 / divisor if self.is_divided else numbers[self.factor])
        if self.addend is not None:
            found["add"] = self.signs[1] * numbers[self.addend] / divisor
        return found


class _BoundPlace(NamedTuple):
    """Place of a mark in the bounds of event times."""

    case: int
    pair: int
    name: str
    """Name of the end: ``lo`` or ``hi``."""
    mark: Fraction
    sign: int


class _OfGroup(NamedTuple):
    """Marks in what a query is compiled to."""

    joins: tuple[ValueJoin, ...]
    """Value joins of the template's instance, with marks."""
    of_joins: tuple[_JoinPlace, ...]
    cases: tuple[Case, ...]
    """Bounds of the group, with marks."""
    of_cases: tuple[_BoundPlace, ...]


@dataclass(frozen=True, slots=True)
class JoinMarks:
    """Places of marks in the value joins and the windows of a query."""

    normal: NormalQuery
    joins: tuple[_JoinPlace, ...]
    cases: tuple[_BoundPlace, ...]
    group: _OfGroup | None
    """Marks in what is compiled; None: a query with other constants is compiled from its normal form."""

    def filled(self, normal: NormalQuery, numbers: Numbers) -> tuple[NormalQuery, FilledJoins | None]:
        """Return a normal form with numbers for marks, and what depends on these.

        Raises:
            Refused: two comparisons are one with these numbers.
        """
        joins = _with_numbers(self.normal.joins, self.joins, numbers)
        if len({*joins}) < len(joins):
            raise Refused
        normal = replaced(normal, joins=joins, cases=_with_bounds(self.normal.cases, self.cases, numbers))
        if self.group is None:
            return normal, None
        of_instance = sorted(_with_numbers(self.group.joins, self.group.of_joins, numbers), key=_columns)
        return normal, FilledJoins(tuple(of_instance), _with_bounds(self.group.cases, self.group.of_cases, numbers))


def join_marks(marked: CompiledQuery, first: CompiledQuery, marks: Sequence[Fraction]) -> JoinMarks:
    """Return the places of marks in a compiled query; ``first`` is the same with other constants.

    Raises:
        Refused: they are not all there once.
    """
    joins, cases = _joins(marked.normal.joins, marks), _bounds(marked.normal.cases, marks)
    told, bounded = _told(joins), {each.mark for each in cases}
    if len({*told}) != len(told) or {*told, *bounded} != {*marks}:
        raise Refused
    group, known = marked.group, first.group
    of_group = _OfGroup(
        group.instance.joins, _joins(group.instance.joins, marks), group.cases, _bounds(group.cases, marks)
    )
    same = replaced(group.instance, joins=()) == replaced(known.instance, joins=())
    same &= (group.links, group.specs, marked.specs) == (known.links, known.specs, first.specs)
    same &= sorted(_told(of_group.of_joins)) == sorted(told) and {each.mark for each in of_group.of_cases} == bounded
    return JoinMarks(marked.normal, joins, cases, of_group if same else None)


def _told(places: Sequence[_JoinPlace]) -> list[Fraction]:
    return [mark for each in places for mark in each.marks()]


def _joins(joins: Sequence[NormalJoin | ValueJoin], marks: Sequence[Fraction]) -> tuple[_JoinPlace, ...]:
    found = []
    for at, join in enumerate(joins):
        place = _JoinPlace(at)
        for mark in marks:
            for sign, is_divided in product((1, -1), (False, True)):
                if join.f == sign * (1 / mark if is_divided else mark):
                    place = place._replace(factor=mark, is_divided=is_divided, signs=(sign, 1))
        divisor = place.factor if place.factor is not None and place.is_divided else 1
        for mark, sign in product(marks, (1, -1)):
            if join.add == sign * mark / divisor:
                place = place._replace(addend=mark, signs=(place.signs[0], sign))
        if place.is_divided and place.addend is None and join.add:
            raise Refused  # nobody knows whether it was divided as well
        if place.marks():
            found.append(place)
    return tuple(found)


def _bounds(cases: Sequence[Case], marks: Sequence[Fraction]) -> tuple[_BoundPlace, ...]:
    return tuple(
        _BoundPlace(case, pair, name, mark, sign)
        for case, of in enumerate(cases)
        for pair, bounds in enumerate(of)
        for name, value in (("lo", bounds.lo), ("hi", bounds.hi))
        for mark in marks
        for sign in (1, -1)
        if value == sign * mark
    )


def _with_numbers(joins: Sequence[Join], places: Sequence[_JoinPlace], numbers: Numbers) -> tuple[Join, ...]:
    found = list(joins)
    for place in places:
        found[place.join] = replaced(found[place.join], **place.numbers(numbers))
    return tuple(found)


def _with_bounds(cases: tuple[Case, ...], places: Sequence[_BoundPlace], numbers: Numbers) -> tuple[Case, ...]:
    if not places:
        return cases
    found: list[list[Bounds]] = [list(case) for case in cases]
    for case, pair, name, mark, sign in places:
        found[case][pair] = replaced(found[case][pair], **{name: sign * int(numbers[mark])})
    return tuple(tuple(case) for case in found)


def _columns(join: ValueJoin) -> tuple[object, ...]:
    """Return the columns by which value joins are in order in an instance."""
    return join.left, join.right, join.kind, join.fn_l, join.fn_r, join.f, join.add, join.op
