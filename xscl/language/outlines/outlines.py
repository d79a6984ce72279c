"""Texts that differ in constants alone: the normal form of one, filled in with the constants of others.

Constants of brackets are replaced by *marks*, and the text with marks is brought to normal form.  Where each mark
stands in one condition, as it was written, the constants of another text are put in its place, and nothing is parsed.
The queries that a query about absence, with steps, or with windows, is made of are filled in with it.  Constants of
steps and of windows of matches (``step_marks``, ``window_marks``) are filled in as well: nothing but the text by which
a query is of a group depends on them.  So are numbers and windows of joins and of absence (``join_marks``).
Where marks stand in guards alone, all else that a text is compiled to is that of the first one.  Any other outline, and
any constant that may be refused, goes the way of all texts.  Nor are tokens read (``skeletons``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

from xscl.base.errors import QueryError
from xscl.base.replacing import replaced
from xscl.base.values import number_text
from xscl.language.absence import End, absence_parts
from xscl.language.aggregates import misfit_of, whole_part_of
from xscl.language.compiled import CompiledQuery, FilledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.outlines.filled_conditions import Refused
from xscl.language.outlines.join_marks import LengthPlace, Numbers, length_place, varying_in_joins
from xscl.language.outlines.marked_queries import MarkedQuery, marked_query, shared, worded
from xscl.language.outlines.marks import (
    Cut,
    Marked,
    Value,
    Varying,
    cut_at,
    marks_among,
    may_be_mark,
    unquoted,
    with_marks,
)
from xscl.language.outlines.skeletons import QUOTES, Skeleton, bracketed, constant_spans, cut
from xscl.language.outlines.step_marks import varying_in_steps
from xscl.language.outlines.steps import said_of
from xscl.language.outlines.window_marks import varying_in_windows
from xscl.language.outlines.windows import Slots, slots_of
from xscl.language.steps.parts import members_of, parts_of
from xscl.language.steps.steps import steps_of
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query, format_string
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.tokens import Token, tokenize
from xscl.xpath.pattern import Constant

__all__ = ["Outline", "Outlines"]

_MOST = 2_000
"""Words and signs, and hundreds of characters, of a text that is filled in; longer ones may be refused."""
_CLAUSES = frozenset(("change", "create", "declare", "drop", "starting"))
_OTHERS = frozenset(("bad", "constructor", "next"))


@dataclass(slots=True)
class Outline:
    """The texts of one outline."""

    first: CompiledQuery
    """The first of them."""
    names: str
    """Its names, as JSON."""
    publish: str | None = None
    marks: tuple[Constant, ...] = ()
    is_made: bool = False
    _whole: MarkedQuery | None = None
    """None: it is not made, or texts are not filled in."""
    _parts: list[MarkedQuery] = field(default_factory=list)
    """Queries that a query about absence, with steps, or with windows, is made of."""
    _said: Cut | None = None
    """Text by which a query with steps, or windows, is of a group, without the marks in it, those of brackets first."""
    _slots: Slots | None = None
    """Places of the marks of a query with windows."""
    _ends: tuple[tuple[tuple[End, LengthPlace | None], ...], ...] = ()
    """Ends of the time of each block that must not be there, with marks."""
    _of_joins: Mapping[Value, Constant | None] = field(default_factory=dict)
    """Marks in braces of joins, as those of conditions; None: of windows."""
    _is_tried: bool = False
    """Whether parts of a text that was filled in had the texts that they have alone."""
    refuses_joins: bool = False
    """Whether texts that differ in constants in braces of joins are to be parsed."""

    def filled(
        self,
        text: str,
        constants: Sequence[str],
        numbers: Sequence[tuple[Varying, str]],
        namespaces: Mapping[str, str],
        channels: Mapping[str, ChannelFacts],
    ) -> FilledQuery | None:
        """Return the normal form of another text, but for places in it; None: it is to be parsed.

        Args:
            text: the text.
            constants: its constants in brackets of blocks, as it has them.
            numbers: its other constants that texts may differ in.
            namespaces: URIs by prefix.
            channels: the channels' schemas.
        """
        is_first = not self.is_made
        if is_first and numbers and _is_joined(self.first) and any(map(may_be_mark, cut(text)[1])):
            return None  # what has a mark would be equal to what has none
        if is_first:
            self.is_made = True
            self._make(text, namespaces, channels, with_joins=bool(numbers))
        if len(text) > 100 * _MOST or (self._whole is None and (self._said is None or self.marks)):
            return None
        try:
            values = [_constant(each) for each in constants]
            told = [
                each if value.is_number else format_string(value.value)
                for each, value in zip(constants, values, strict=True)
            ]
            of_joins: dict[Fraction, Fraction] = {}
            for mark, (each, constant) in zip(self._of_joins, numbers, strict=False):
                values += [] if self._of_joins[mark] is None else [_constant(constant)]
                value = each.value(constant)
                if isinstance(mark, Fraction) and isinstance(value, Fraction):
                    of_joins[mark] = value
            marks = dict(zip(self.marks, values, strict=True))
            made: dict[int, Any] = {}
            told += self._printed(numbers)
            said = "" if self._said is None else self._said.filled(told)
            if is_first and said and said != said_of(parse_query(text)):
                self._whole = self._said = None
                return None
            if self._whole is None:
                return FilledQuery(self.first.normal, said=said)
            whole = self._whole.filled(marks, made, told, of_joins)
            parts = tuple([part.filled(marks, made, told, of_joins) for part in self._parts])
            if not self._is_tried and not self._is_worded(text, parts):
                self._whole = None
                self.refuses_joins = bool(self._of_joins)
                return None
            self._is_tried = True
            return replaced(whole, parts=parts, said=said, ends=self._filled_ends(of_joins))
        except Refused:
            return None

    def _is_worded(self, text: str, parts: Sequence[FilledQuery]) -> bool:
        """Tell whether the parts of a query about absence have the texts that they have alone."""
        if self.first.absence is None or not self._of_joins:
            return True
        made = absence_parts(parse_query(text), text)
        return [part.text for part in parts] == [format_query(each) for each in (made.wanted, *made.forbidden)]

    def _filled_ends(self, numbers: Numbers) -> tuple[tuple[End, ...], ...]:
        return tuple(
            [
                tuple(
                    dict.fromkeys(end if place is None else End(end.block, place.value(numbers)) for end, place in ends)
                )
                for ends in self._ends
            ]
        )

    def _printed(self, numbers: Sequence[tuple[Varying, str]]) -> list[str]:
        """Return constants as texts of groups have them.

        Raises:
            Refused: windows cannot have these lengths.
        """
        if self._slots is not None:
            window, every = self._slots.lengths([each.value(constant) for each, constant in numbers])
            if misfit_of(window, every) is not None:
                raise Refused
        return [each.printed(constant) for each, constant in numbers]

    def _make(
        self, text: str, namespaces: Mapping[str, str], channels: Mapping[str, ChannelFacts], *, with_joins: bool
    ) -> None:
        """Bring the text with marks to normal form, where that can be filled in."""
        *tokens, _ = tokenize(text)
        if len(tokens) > _MOST or not self._is_plain(tokens):
            return
        is_joined = _is_joined(self.first)
        marked = with_marks(text, tokens, _varying(tokens, self.first) if with_joins or not is_joined else {})
        marks = [*marked.in_brackets]
        if is_joined:
            both = zip(marked.values, marked.numbers, strict=True)
            self._of_joins = {value: None if each.unit is not None else _constant(mark) for value, (each, mark) in both}
            marks += [constant for constant in self._of_joins.values() if constant is not None]
        try:
            query = parse_query(marked.text)
            if self.first.stepped or self.first.windowed is not None:
                self._require_told(query, marked, namespaces)
                self._said = cut_at(said_of(query), marked.printed)
                if self._said is None:
                    return
            if marks or self._of_joins:
                self._bring(query, marked, marks, namespaces, channels)
        except (QueryError, Refused):
            self._said = None
        self.refuses_joins = bool(self._of_joins) and self._whole is None

    def _require_told(self, query: ast.Query, marked: Marked, namespaces: Mapping[str, str]) -> None:
        """Refuse what steps, or windows, could not tell.

        Raises:
            QueryError, Refused: it is refused.
        """
        if self.first.stepped:
            steps_of(query, marked.text, namespaces)
            return
        self._slots = slots_of(query, marked.text, namespaces, marked.values)
        if self._slots is None:
            raise Refused

    def _is_plain(self, tokens: Sequence[Token]) -> bool:
        """Whether a text has no clauses but those of steps and windows; others may have constants of their own."""
        if self.first.stepped or self.first.windowed is not None:
            return all(kind not in ("bad", "next") for kind, *_ in tokens)
        return not any(kind in _OTHERS or kind == "name" and value.lower() in _CLAUSES for kind, value, _, _ in tokens)

    def _bring(
        self,
        query: ast.Query,
        marked: Marked,
        marks: Sequence[Constant],
        namespaces: Mapping[str, str],
        channels: Mapping[str, ChannelFacts],
    ) -> None:
        """Bring a query with marks in brackets to normal form.

        Raises:
            QueryError, Refused: that cannot be filled in.
        """
        self.marks, text = tuple(marks), marked.text
        brought = partial(marked_query, text=text, marks=marks, namespaces=namespaces, channels=channels)
        of_query = self._whole_of(query, text, namespaces, channels)
        whole, seen = brought(of_query, first=self.first, numbers=self._numbers_of(of_query, marked))
        parts: list[MarkedQuery] = []
        in_parts = set(self._numbers_of(of_query, marked))
        for part, known in self._queries(query, text, namespaces, channels):
            numbers = self._numbers_of(part, marked)
            in_parts.update(numbers)
            made, more = brought(part, first=known, numbers=numbers)
            seen |= more
            parts.append(worded(made, format_query(part), marked.printed))
        if self.first.absence is not None:
            if in_parts != {mark for mark in self._of_joins if isinstance(mark, Fraction)}:
                raise Refused
            lengths = [
                mark for mark, constant in self._of_joins.items() if constant is None and isinstance(mark, Fraction)
            ]
            self._ends = tuple(
                tuple((end, length_place("offset", end.offset, lengths)) for end in ends)
                for _, ends in absence_parts(query, text).ends
            )
        # Notes are made of texts in quotes that are compared as numbers.
        if seen == Counter(marks):
            self._whole, self._parts = whole, [shared(part, whole) for part in parts]

    def _numbers_of(self, query: ast.Query, marked: Marked) -> dict[Fraction, Constant | None]:
        """Return the marks that joins and windows of a query may have, as those of conditions."""
        told = {value: each.printed(mark) for value, (each, mark) in zip(marked.values, marked.numbers, strict=True)}
        text = format_query(query) if self.first.absence is not None else marked.text
        return {
            mark: constant
            for mark, constant in self._of_joins.items()
            if isinstance(mark, Fraction) and (self.first.absence is None or told[mark] in text)
        }

    def _whole_of(
        self,
        query: ast.Query,
        text: str,
        namespaces: Mapping[str, str],
        channels: Mapping[str, ChannelFacts],
    ) -> ast.Query:
        """Return the query by whose normal form a query is compiled."""
        if self.first.windowed is not None:
            return whole_part_of(query, text, namespaces, channels)
        return members_of(query) if self.first.stepped else replace(query, negations=())

    def _queries(
        self, query: ast.Query, text: str, namespaces: Mapping[str, str], channels: Mapping[str, ChannelFacts]
    ) -> Iterator[tuple[ast.Query, CompiledQuery]]:
        """Yield the queries that a query is made of, with those of the first text."""
        known = (part.compiled for part in self.first.parts)
        if self.first.absence is not None:
            made = absence_parts(query, text)
            yield from zip((made.wanted, *made.forbidden), known, strict=True)
        elif self.first.stepped:
            yield from zip(parts_of(query), known, strict=True)
        elif self.first.windowed is not None:
            yield from zip((whole_part_of(query, text, namespaces, channels),), known, strict=True)


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """Texts that differ in constants alone."""

    inside: tuple[int, ...]
    """Places of the constants in brackets of blocks."""
    outside: tuple[int, ...]
    """Places of all others."""
    free: Mapping[int, Varying]
    """Constants of joins, steps and windows among these others, by their places."""
    outlines: dict[tuple[str | None, ...], Outline] = field(default_factory=dict)
    """Outlines by these others; None: a mark."""

    def key(self, constants: Sequence[str]) -> tuple[str | None, ...]:
        """Return the key of an outline."""
        if not self.free:
            return tuple([constants[at] for at in self.outside])
        marks = self.marks(constants)
        return tuple([None if at in marks else constants[at] for at in self.outside])

    def marks(self, constants: Sequence[str]) -> dict[int, Varying]:
        """Return the places of marks outside of brackets."""
        return marks_among(self.free, constants)


class Outlines:
    """The outlines that were met, by skeletons of texts."""

    def __init__(self) -> None:
        self._skeletons: dict[Skeleton, _Skeleton] = {}

    def find(self, text: str) -> tuple[Outline, list[str], list[tuple[Varying, str]]] | None:
        """Return the outline of a text, its constants in brackets of blocks, and others that texts may differ in;
        None: it is not known, or has none.
        """
        words, constants = cut(text)
        found = self._skeletons.get(words)
        outline = None if found is None else found.outlines.get(found.key(constants))
        if found is None or outline is None:
            return None
        numbers = [(each, constants[at]) for at, each in found.marks(constants).items()]
        return outline, [constants[at] for at in found.inside], numbers

    def add(self, text: str, tokens: Sequence[Token], first: Outline) -> None:
        """Note the first text of an outline; ``tokens`` are the text's."""
        words, constants = cut(text)
        found = self._skeletons.get(words)
        if found is None:
            found = _skeleton(text, words, tokens, first.first)
            if found is None:
                return
            self._skeletons[words] = found
        if not (found.free and _is_joined(first.first) and any(map(may_be_mark, constants))):
            found.outlines[found.key(constants)] = first

    def refuse_joins(self, text: str) -> None:
        """Have texts of the skeleton of one parsed if they differ in constants in braces of joins."""
        words, _ = cut(text)
        self._skeletons[words] = replace(self._skeletons[words], free={}, outlines={})

    def clear(self) -> None:
        """Forget all of them."""
        self._skeletons.clear()


def _skeleton(text: str, words: Skeleton, tokens: Sequence[Token], first: CompiledQuery) -> _Skeleton | None:
    """Return the skeleton of the first text that has it; None: texts do not differ in its constants, or it is not told
    so.
    """
    spans = constant_spans(text, words, tokens)
    if spans is None:
        return None
    inside = {(each.start - tokens[0].start, each.end - tokens[0].start) for each in bracketed(tokens)}
    free = _varying(tokens, first)
    if inside.isdisjoint(spans) and not free:
        return None
    places = range(len(spans))
    return _Skeleton(
        tuple(at for at in places if spans[at] in inside),
        tuple(at for at in places if spans[at] not in inside),
        {at: free[span] for at, span in enumerate(spans) if span in free},
    )


def _varying(tokens: Sequence[Token], first: CompiledQuery) -> dict[tuple[int, int], Varying]:
    """Return what texts may differ in outside of brackets, by its place from the start of the first token on."""
    if _is_joined(first):
        return varying_in_joins(tokens, first)
    if first.stepped:
        return varying_in_steps(tokens)
    return {} if first.windowed is None else varying_in_windows(tokens)


def _is_joined(first: CompiledQuery) -> bool:
    """Tell whether a query has neither steps nor windows of matches."""
    return not first.stepped and first.windowed is None


def _constant(text: str) -> Constant:
    """Return the constant that a text has.

    Raises:
        Refused: it is no number after all.
    """
    if text[0] in QUOTES:
        return Constant(unquoted(text), is_number=False)
    number = number_text(text)
    if number is None:
        raise Refused
    return Constant(number, is_number=True)
