"""Texts that differ in constants alone: the normal form of one, filled in with the constants of others.

Constants of brackets are replaced by *marks*, and the text with marks is brought to normal form.  Where each mark
stands in one condition, as it was written, the constants of another text are put in its place, and nothing is parsed.
The queries that a query about absence, or with steps, is made of are filled in with it.  Numbers and windows in braces
of steps (``step_marks``) are filled in as well: nothing but the text by which a query is of a group depends on them.
Where marks stand in guards alone, all else that a text is compiled to is that of the first one.  Any other outline, and
any constant that may be refused, goes the way of all texts.  Nor are tokens read (``skeletons``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from xscl.base.errors import QueryError
from xscl.base.replacing import replaced
from xscl.base.values import number_text
from xscl.language import ast
from xscl.language.absence import absence_parts
from xscl.language.compile_joins import lifted_like
from xscl.language.compiled import CompiledQuery, Filled, FilledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.filled_conditions import Marks, Refused, filled_once, marks_within
from xscl.language.format import format_query, format_string
from xscl.language.guards import Lifted, guard_of
from xscl.language.normalize import NormalBlock, NormalQuery, TreeNode, normalize
from xscl.language.parser import parse_query
from xscl.language.skeletons import QUOTES, Skeleton, bracketed, constant_spans, cut
from xscl.language.step_marks import Cut, Varying, cut_at, varying
from xscl.language.step_outlines import said_of
from xscl.language.step_parts import members_of, parts_of
from xscl.language.steps import steps_of
from xscl.language.tokens import Token, tokenize
from xscl.xpath.pattern import Condition, Constant

__all__ = ["Outline", "Outlines"]

_MOST = 2_000
"""Words and signs, and hundreds of characters, of a text that is filled in; longer ones may be refused."""
_CLAUSES = frozenset(("as", "change", "create", "declare", "drop", "publish", "select", "starting"))
_OTHERS = frozenset(("bad", "constructor", "next"))


@dataclass(frozen=True, slots=True)
class _Marked:
    """A normal form with marks."""

    normal: NormalQuery
    places: tuple[tuple[int, int], ...]
    """(block, node) of the conditions with marks."""
    first: CompiledQuery
    """The first text of the outline, compiled."""
    lifted: tuple[Lifted, ...] | None
    """Guards of the blocks; None: marks are not in guards alone."""
    cut: Cut = Cut(("",), ())
    """Text of a part, without the marks in it."""

    def filled(self, marks: Marks, made: dict[int, Any], told: Sequence[str]) -> FilledQuery:
        """Return the normal form with constants for marks, but for places in its text.

        Args:
            marks: the constants.
            made: blocks, conditions and guards with these constants, by the identity of those with marks.
            told: the constants as texts have them.
        """
        for place, block in enumerate(self.normal.blocks):
            if id(block) not in made:
                marked = [node for at, node in self.places if at == place]
                filled = partial(filled_once, marks=marks, made=made)
                made[id(block)] = _filled_block(block, marked, filled) if marked else self.first.normal.blocks[place]
        normal = replaced(self.normal, blocks=tuple([made[id(block)] for block in self.normal.blocks]))
        return FilledQuery(normal, self._guards(marks, made), self.cut.filled(told))

    def _guards(self, marks: Marks, made: dict[int, Any]) -> tuple[Filled, ...] | None:
        """Return the guards of the blocks with constants for marks; None: these are not in guards alone."""
        if self.lifted is None:
            return None
        marked = {place for place, _ in self.places}
        found: list[Filled] = []
        for place, lifted in enumerate(self.lifted):
            selection = lifted.selection
            if place not in marked or selection is None:
                found.append((lifted.guard, lifted.specs))
                continue
            if id(selection) not in made:
                made[id(selection)] = guard_of(selection.mapped(partial(filled_once, marks=marks, made=made)))
            if made[id(selection)] is None:
                return None
            found.append(made[id(selection)])
        return tuple(found)


def _filled_block(block: NormalBlock, marked: Sequence[int], filled: Callable[[Condition], Condition]) -> NormalBlock:
    """Return a block whose conditions are filled in at some of its nodes."""
    nodes = list(block.nodes)
    for node in marked:
        known = nodes[node]
        found = list(map(filled, known.conditions))
        nodes[node] = TreeNode(known.parent, known.step, known.variable, found, known.spans)
    return NormalBlock(block.channel, nodes, block.result)


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
    _whole: _Marked | None = None
    """None: it is not made, or texts are not filled in."""
    _parts: list[_Marked] = field(default_factory=list)
    """Queries that a query about absence, or with steps, is made of."""
    _said: Cut | None = None
    """Text by which a query with steps is of a group, without the marks in it, those of brackets first."""

    def filled(
        self,
        text: str,
        constants: Sequence[str],
        printed: Sequence[str],
        namespaces: Mapping[str, str],
        channels: Mapping[str, ChannelFacts],
    ) -> FilledQuery | None:
        """Return the normal form of another text, but for places in it; None: it is to be parsed.

        Args:
            text: the text.
            constants: its constants in brackets of blocks, as it has them.
            printed: its numbers and windows of steps, as texts of groups have them.
            namespaces: URIs by prefix.
            channels: the channels' schemas.
        """
        if not self.is_made:
            self.is_made = True
            self._make(text, namespaces, channels)
        if len(text) > 100 * _MOST or (self._whole is None and (self._said is None or self.marks)):
            return None
        try:
            values = [_constant(each) for each in constants]
            marks = dict(zip(self.marks, values, strict=True))
            made: dict[int, Any] = {}
            told = [
                each if value.is_number else format_string(value.value)
                for each, value in zip(constants, values, strict=True)
            ]
            said = "" if self._said is None else self._said.filled([*told, *printed])
            if self._whole is None:
                return FilledQuery(self.first.normal, said=said)
            whole = self._whole.filled(marks, made, told)
            return replaced(whole, parts=tuple([part.filled(marks, made, told) for part in self._parts]), said=said)
        except Refused:
            return None

    def _make(self, text: str, namespaces: Mapping[str, str], channels: Mapping[str, ChannelFacts]) -> None:
        """Bring the text with marks to normal form, where that can be filled in."""
        *tokens, _ = tokenize(text)
        if self.first.windowed is not None or len(tokens) > _MOST or not self._is_plain(tokens):
            return
        marked, marks, numbers = _with_marks(text, tokens, of_steps=bool(self.first.stepped))
        try:
            query = parse_query(marked)
            if self.first.stepped:
                steps_of(query, marked, namespaces)  # refuses what could not be told
                said = cut_at(said_of(query), [*map(_printed, marks), *numbers])
                if said is None:
                    return
                self._said = said
            if marks:
                self._bring(query, marked, marks, namespaces, channels)
        except (QueryError, Refused):
            self._said = None

    def _is_plain(self, tokens: Sequence[Token]) -> bool:
        """Whether a text has no clauses, which may have constants of their own; those of steps are known."""
        if self.first.stepped:
            return all(kind not in ("bad", "next") for kind, *_ in tokens)
        return not any(kind in _OTHERS or kind == "name" and value.lower() in _CLAUSES for kind, value, _, _ in tokens)

    def _bring(
        self,
        query: ast.Query,
        text: str,
        marks: Sequence[Constant],
        namespaces: Mapping[str, str],
        channels: Mapping[str, ChannelFacts],
    ) -> None:
        """Bring a query with marks in brackets to normal form.

        Raises:
            QueryError, Refused: that cannot be filled in.
        """
        self.marks = tuple(marks)
        brought = partial(_marked, text=text, marks=marks, namespaces=namespaces, channels=channels)
        members = members_of(query) if self.first.stepped else replace(query, negations=())
        whole, seen = brought(members, first=self.first)
        parts: list[_Marked] = []
        for part, known in self._queries(query, text):
            made, more = brought(part, first=known)
            seen |= more
            parts.append(_worded(made, format_query(part), marks))
        # Notes are made of texts in quotes that are compared as numbers.
        if seen == Counter(marks):
            self._whole, self._parts = whole, [_shared(part, whole) for part in parts]

    def _queries(self, query: ast.Query, text: str) -> Iterator[tuple[ast.Query, CompiledQuery]]:
        """Yield the queries that a query is made of, with those of the first text."""
        known = (part.compiled for part in self.first.parts)
        if self.first.absence is not None:
            made = absence_parts(query, text)
            yield from zip((made.wanted, *made.forbidden), known, strict=True)
        elif self.first.stepped:
            yield from zip(parts_of(query), known, strict=True)


def _with_marks(text: str, tokens: Sequence[Token], *, of_steps: bool) -> tuple[str, list[Constant], list[str]]:
    """Return a text with marks, those in brackets, and those of steps as texts of groups have them."""
    places: dict[tuple[int, int], str] = {}
    marks: list[Constant] = []
    numbers: list[str] = []
    for token in bracketed(tokens):
        is_number = token.kind == "number"
        marks.append(Constant(f"{7_000_000_001 + len(marks)}" if is_number else f"qz{len(marks)}zq", is_number))
        places[token.start, token.end] = str(marks[-1])
    begin = tokens[0].start
    for (start, end), each in (varying(tokens) if of_steps else {}).items():
        if each.may_be(text[begin + start : begin + end]):
            mark = each.mark(len(numbers))
            numbers.append(each.printed(mark))
            places[begin + start, begin + end] = mark
    words: list[str] = []
    done = 0
    for (start, end), mark in sorted(places.items()):
        words += [text[done:start], mark]
        done = end
    return "".join(words) + text[done:], marks, numbers


def _printed(mark: Constant) -> str:
    return mark.value if mark.is_number else format_string(mark.value)


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """Texts that differ in constants alone."""

    inside: tuple[int, ...]
    """Places of the constants in brackets of blocks."""
    outside: tuple[int, ...]
    """Places of all others."""
    free: Mapping[int, Varying]
    """Numbers and windows of steps among these others, by their places."""
    outlines: dict[tuple[str | None, ...], Outline] = field(default_factory=dict)
    """Outlines by these others; None: a mark."""

    def key(self, constants: Sequence[str]) -> tuple[str | None, ...]:
        """Return the key of an outline."""
        if not self.free:
            return tuple([constants[at] for at in self.outside])
        marks = self.marks(constants)
        return tuple([None if at in marks else constants[at] for at in self.outside])

    def marks(self, constants: Sequence[str]) -> dict[int, Varying]:
        """Return the places of marks of steps."""
        return {at: each for at, each in self.free.items() if each.may_be(constants[at])}


class Outlines:
    """The outlines that were met, by skeletons of texts."""

    def __init__(self) -> None:
        self._skeletons: dict[Skeleton, _Skeleton] = {}

    def find(self, text: str) -> tuple[Outline, list[str], list[str]] | None:
        """Return the outline of a text, its constants in brackets of blocks, and its numbers and windows of steps as
        texts of groups have them; None: it is not known, or has none.
        """
        words, constants = cut(text)
        found = self._skeletons.get(words)
        outline = None if found is None else found.outlines.get(found.key(constants))
        if found is None or outline is None:
            return None
        printed = [each.printed(constants[at]) for at, each in found.marks(constants).items()]
        return outline, [constants[at] for at in found.inside], printed

    def add(self, text: str, tokens: Sequence[Token], first: Outline) -> None:
        """Note the first text of an outline; ``tokens`` are the text's."""
        words, constants = cut(text)
        found = self._skeletons.get(words)
        if found is None:
            found = _skeleton(text, words, tokens, of_steps=bool(first.first.stepped))
            if found is None:
                return
            self._skeletons[words] = found
        found.outlines[found.key(constants)] = first

    def clear(self) -> None:
        """Forget all of them."""
        self._skeletons.clear()


def _skeleton(text: str, words: Skeleton, tokens: Sequence[Token], *, of_steps: bool) -> _Skeleton | None:
    """Return the skeleton of the first text that has it; None: texts do not differ in its constants, or it is not told
    so.
    """
    spans = constant_spans(text, words, tokens)
    if spans is None:
        return None
    inside = {(each.start - tokens[0].start, each.end - tokens[0].start) for each in bracketed(tokens)}
    free = varying(tokens) if of_steps else {}
    if inside.isdisjoint(spans) and not free:
        return None
    places = range(len(spans))
    return _Skeleton(
        tuple(at for at in places if spans[at] in inside),
        tuple(at for at in places if spans[at] not in inside),
        {at: free[span] for at, span in enumerate(spans) if span in free},
    )


def _shared(part: _Marked, whole: _Marked) -> _Marked:
    """Return a part that has what the whole query has where both are equal, to be filled in once."""
    blocks = list(part.normal.blocks)
    for place in {place for place, _ in whole.places if place < len(blocks)}:
        if blocks[place] == whole.normal.blocks[place]:
            blocks[place] = whole.normal.blocks[place]
    lifted = part.lifted
    if lifted is not None and whole.lifted is not None:
        known = {each.selection: each.selection for each in whole.lifted}
        lifted = tuple(replace(each, selection=known.get(each.selection, each.selection)) for each in lifted)
    return replace(part, normal=replace(part.normal, blocks=tuple(blocks)), lifted=lifted)


def _marked(
    query: ast.Query,
    *,
    text: str,
    marks: Sequence[Constant],
    first: CompiledQuery,
    namespaces: Mapping[str, str],
    channels: Mapping[str, ChannelFacts],
) -> tuple[_Marked, Counter[Constant]]:
    """Return the normal form of a query with marks, and how often it has each of them."""
    normal = normalize(query, text, namespaces)
    places, seen = [], Counter[Constant]()
    for at, block in enumerate(normal.blocks):
        for node, tree in enumerate(block.nodes):
            found = [each for condition in tree.conditions for each in marks_within(condition, marks)]
            seen.update(found)
            places += [(at, node)] * bool(found)
    return _Marked(normal, tuple(places), first, lifted_like(normal, channels, first)), seen


def _worded(part: _Marked, text: str, marks: Sequence[Constant]) -> _Marked:
    """Return a part with its text, cut at the marks.

    Raises:
        Refused: there are other constants in its brackets.
    """
    words, order, end = list[str](), list[int](), 0
    for token in bracketed(tokenize(text)):
        mark = Constant(token.value, token.kind == "number")
        if mark not in marks:
            raise Refused
        words.append(text[end : token.start])
        order.append(marks.index(mark))
        end = token.end
    return replace(part, cut=Cut((*words, text[end:]), tuple(order)))


def _constant(text: str) -> Constant:
    """Return the constant that a text has.

    Raises:
        Refused: it is no number after all.
    """
    quote = text[0]
    if quote in QUOTES:
        return Constant(text[1:-1].replace(quote * 2, quote), is_number=False)
    number = number_text(text)
    if number is None:
        raise Refused
    return Constant(number, is_number=True)
