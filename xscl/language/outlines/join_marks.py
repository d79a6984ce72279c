"""Constants in braces of a join that texts may differ in, and their places in what is compiled.

A number of a comparison of two variables is a factor or an addend of one value join.  The length of the only window of
two blocks is a bound of event times; bounds that follow from several windows are computed for each text.  Others are
constants of conditions on one variable, like those of brackets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple, TypeVar

from xscl.base.errors import QueryError
from xscl.base.replacing import replaced
from xscl.language.compile_joins import links_of
from xscl.language.compiled import CompiledQuery, FilledJoins
from xscl.language.normalize import NormalJoin, NormalQuery
from xscl.language.outlines.filled_conditions import Refused
from xscl.language.outlines.marks import Varying
from xscl.language.outlines.step_marks import varying_end, varying_number, varying_text
from xscl.language.syntax import ast
from xscl.language.syntax.tokens import Token
from xscl.language.windows import cases_of, placed_joins
from xscl.templates.bounds import Bounds, Case
from xscl.templates.graph import ValueJoin

__all__ = ["JoinMarks", "LengthPlace", "Numbers", "join_marks", "length_place", "varying_in_joins"]

_MANY = 1_000
"""Combinations of windows whose bounds are remembered."""
Join = TypeVar("Join", NormalJoin, ValueJoin)

Numbers = Mapping[Fraction, Fraction]
"""Numbers by the marks in whose places they stand: of comparisons, and of microseconds."""


def varying_in_joins(tokens: Sequence[Token], first: CompiledQuery) -> dict[tuple[int, int], Varying]:
    """Return what texts may differ in, by its place from the start of the first token on.

    Args:
        tokens: a text's.
        first: the text, compiled.
    """
    found: dict[tuple[int, int], Varying] = {}
    joined = [first] if first.absence is None else [part.compiled for part in first.parts]
    if len(first.normal.blocks) == 1 and first.absence is None or not all(map(_is_plain, joined)):
        return found
    begin = tokens[0].start
    for at in _in_braces(tokens):
        token = tokens[at]
        if token.kind == "string":
            known = varying_text(tokens, at)
        else:
            known = varying_number(tokens, at) or varying_end(tokens, at)
        if known is not None:
            # Texts of parts have numbers as they are written.
            found[token.start - begin, token.end - begin] = replace(known, is_joined=first.absence is None)
    return found


def _is_plain(first: CompiledQuery) -> bool:
    """Tell whether the order of vertices depends on no number of a join."""
    instance = first.group.instance
    blocks = [node.block for node in instance.nodes[: len(instance.variables)]]
    return len({*zip(blocks, instance.variables, strict=True)}) == len(blocks)


def _has_one_window(source: ast.Source) -> bool:
    """Tell whether two blocks have one plain window: bounds are the least of all windows."""
    if (
        isinstance(source, ast.Block)
        or not isinstance(source.left, ast.Block)
        or not isinstance(source.right, ast.Block)
    ):
        return False
    timed = [each for each in source.windows if not isinstance(each, ast.Window) or each.kind != "once"]
    return len(timed) == 1 and all(
        isinstance(each, ast.Window) and each.kind in ("within", "range") and each.high is not None for each in timed
    )


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


class LengthPlace(NamedTuple):
    """Place of a mark in a window, or in the end of an absence."""

    name: str
    """Name of the end: ``low``, ``high`` or ``offset``."""
    mark: Fraction
    sign: int
    open: int
    """Microseconds by which an end is moved that does not belong to the window."""

    def value(self, numbers: Numbers) -> int:
        """Return the length with a number for the mark."""
        return self.sign * int(numbers[self.mark]) + self.open


def length_place(name: str, length: int | None, marks: Sequence[Fraction]) -> LengthPlace | None:
    """Return the place of a mark in a length; None: there is none."""
    for mark, sign, moved in product(marks, (1, -1), (0, 1, -1)) if length is not None else ():
        if length == sign * mark + moved:
            return LengthPlace(name, mark, sign, moved)
    return None


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows with marks; bounds of event times follow from them."""

    source: ast.Source
    places: tuple[tuple[tuple[LengthPlace, ...], ...], ...]
    """Places of the marks in each window of each join."""
    first: NormalQuery
    _known: dict[tuple[Fraction, ...], tuple[Case, ...]] = field(default_factory=dict)
    """Bounds by the numbers that stand for the marks: many texts have the same windows."""

    def marks(self) -> list[Fraction]:
        """Return the marks."""
        return [place.mark for join in self.places for window in join for place in window]

    def cases(self, numbers: Numbers) -> tuple[Case, ...]:
        """Return the bounds with numbers for marks.

        Raises:
            Refused: no event times satisfy them, or notes may be others.
        """
        lengths = tuple([numbers[mark] for mark in self.marks()])
        if lengths not in self._known:
            if len(self._known) >= _MANY:
                self._known.clear()
            self._known[lengths] = self._cases(numbers)
        return self._known[lengths]

    def _cases(self, numbers: Numbers) -> tuple[Case, ...]:
        first = self.first
        block_of = {name: block for name, (block, _) in first.variables.items()}
        source = _with_lengths(self.source, iter(self.places), numbers)
        try:
            cases = cases_of(source, "", block_of, first.block_names)
        except QueryError:
            raise Refused from None  # the refusal has to name places of the text
        if _finite(cases) != _finite(first.cases):
            raise Refused
        return cases


def _finite(cases: Sequence[Case]) -> list[list[bool]]:
    return [[bounds.finite for bounds in case] for case in cases]


def _windows(source: ast.Source, first: NormalQuery, marks: Sequence[Fraction]) -> _Windows:
    places = []
    for placed in placed_joins(source):
        found = [
            tuple(
                place
                for name, length in (("low", window.low), ("high", window.high))
                if (place := length_place(name, length, marks)) is not None
            )
            for window in placed.join.windows
        ]
        places.append(tuple(found))
    return _Windows(source, tuple(places), first)


def _with_lengths(
    source: ast.Source, places: Iterator[Sequence[Sequence[LengthPlace]]], numbers: Numbers
) -> ast.Source:
    if isinstance(source, ast.Block):
        return source
    left = _with_lengths(source.left, places, numbers)
    right = _with_lengths(source.right, places, numbers)
    windows = [
        replaced(window, **{place.name: place.value(numbers) for place in own}) if own else window
        for window, own in zip(source.windows, next(places), strict=True)
    ]
    return replaced(source, left=left, right=right, windows=tuple(windows))


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
    windows: _Windows | None
    """Windows with marks from which bounds follow; None: ``cases`` has the marks."""
    links: tuple[tuple[tuple[int, int], ...], ...]
    """Pairs of blocks that are joined with each other in each case of the first query."""

    def filled(self, normal: NormalQuery, numbers: Numbers) -> NormalQuery:
        """Return a normal form with numbers for marks.

        Raises:
            Refused: two comparisons are one with these numbers.
        """
        joins = _with_numbers(self.normal.joins, self.joins, numbers)
        if len({*joins}) < len(joins):
            raise Refused
        if self.windows is None:
            cases = _with_bounds(self.normal.cases, self.cases, numbers)
        else:
            cases = self.windows.cases(numbers)
        return replaced(normal, joins=joins, cases=cases)

    def compiled(self, normal: NormalQuery, numbers: Numbers) -> FilledJoins | None:
        """Return what a filled normal form's joins and windows are compiled to; None: that has to be compiled anew."""
        if self.group is None or (self.windows is not None and links_of(normal) != self.links):
            return None
        of_instance = sorted(_with_numbers(self.group.joins, self.group.of_joins, numbers), key=_columns)
        cases = normal.cases
        if self.windows is None:
            cases = _with_bounds(self.group.cases, self.group.of_cases, numbers)
        return FilledJoins(tuple(of_instance), cases)


def join_marks(marked: CompiledQuery, first: CompiledQuery, marks: Sequence[Fraction], source: ast.Source) -> JoinMarks:
    """Return the places of marks in a compiled query.

    Args:
        marked: the query with marks.
        first: the same with other constants.
        marks: the marks.
        source: the FROM clause with marks.

    Raises:
        Refused: they are not all there once.
    """
    windows = _windows(source, first.normal, marks)
    in_windows = windows.marks()
    joins = _joins(marked.normal.joins, marks)
    told = [*_told(joins), *in_windows]
    if len({*told}) != len(told) or {*told} != {*marks}:
        raise Refused
    bounding = [] if not in_windows or not _has_one_window(source) else in_windows
    cases = _bounds(marked.normal.cases, bounding)
    of_group = _of_group(marked, first, marks, bounding)
    same = sorted(_told(of_group.of_joins)) == sorted(_told(joins))
    same &= {each.mark for each in of_group.of_cases} == {each.mark for each in cases} == {*bounding}
    same &= _is_same(marked, first)
    is_made = in_windows != bounding
    # ``ONCE`` may ask for other bounds of a group than windows do.
    same &= not (is_made and any(bounds.exchange for case in marked.normal.cases for bounds in case))
    return JoinMarks(
        marked.normal, joins, cases, of_group if same else None, windows if is_made else None, first.group.links
    )


def _of_group(
    marked: CompiledQuery, first: CompiledQuery, marks: Sequence[Fraction], bounding: Sequence[Fraction]
) -> _OfGroup:
    group = marked.group
    return _OfGroup(
        group.instance.joins, _joins(group.instance.joins, marks), group.cases, _bounds(group.cases, bounding)
    )


def _is_same(marked: CompiledQuery, first: CompiledQuery) -> bool:
    """Tell whether two compiled queries differ in numbers of value joins, and in bounds, alone."""
    group, known = marked.group, first.group
    same = replaced(group.instance, joins=()) == replaced(known.instance, joins=())
    return same and (group.links, group.specs, marked.specs) == (known.links, known.specs, first.specs)


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
