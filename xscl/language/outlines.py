"""Texts that differ in constants of brackets alone: the normal form of one, filled in with the constants of others.

The constants of a text are replaced by *marks*, and the text with marks is brought to normal form.  Where each mark
stands in one condition, as it was written, the constants of another text are put in its place, and nothing is parsed.
The queries that a query about absence is made of are filled in with it.  Any other outline, and any constant that may
be refused, goes the way of all texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xscl.base.errors import QueryError
from xscl.base.values import number_text
from xscl.base.words import is_word
from xscl.language import ast
from xscl.language.absence import absence_parts
from xscl.language.compile import CompiledQuery, FilledPart, FilledQuery
from xscl.language.format import format_query, format_string
from xscl.language.normalize import NormalQuery, TreeNode, normalize
from xscl.language.parser import parse_query
from xscl.language.tokens import Token, tokenize
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Comparison,
    Condition,
    Constant,
    Exists,
    Expression,
    Here,
    Negation,
    Step,
    Truth,
    conditions,
)

__all__ = ["Outline", "outline_of"]

_MOST = 2_000
"""Words and signs, and hundreds of characters, of a text that is filled in; longer ones may be refused."""
_CLAUSES = frozenset(("as", "change", "create", "declare", "drop", "publish", "select", "starting"))
_OTHERS = frozenset(("bad", "constructor", "next"))
_BRACKETS = frozenset("[]{}")
_ORDERS = frozenset(("<", "<=", ">", ">="))

Marks = Mapping[Constant, Constant]


def outline_of(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the words of a text without the constants in brackets of blocks."""
    found: list[str] = []
    nested, joining = 0, False
    for kind, value, _, _ in tokens:
        if kind in _BRACKETS:
            joining, nested = _within(kind, nested, joining)
        if kind not in ("string", "number"):
            found.append(value)
        else:
            found.append(kind if nested > 0 and not joining else f"{kind} {value}")
    return tuple(found)


def _within(kind: str, nested: int, joining: bool) -> tuple[bool, int]:
    """Return whether what comes behind a bracket or a brace is in braces, and in how many brackets.

    Brackets in braces are ends of windows, which need not be closed by a bracket.
    """
    if kind in "{}":
        return kind == "{", nested
    return joining, nested if joining else nested + (1 if kind == "[" else -1)


@dataclass(frozen=True, slots=True)
class _Marked:
    """A normal form with marks."""

    normal: NormalQuery
    places: tuple[tuple[int, int], ...]
    """(block, node) of the conditions with marks."""
    first: NormalQuery
    """The normal form of the first text of the outline."""
    words: tuple[str, ...] = ()
    """Text of a part, without the marks in it."""
    order: tuple[int, ...] = ()
    """Numbers of these marks."""

    def filled(self, marks: Marks) -> NormalQuery:
        """Return the normal form with constants for marks, but for places in its text."""
        trees: dict[int, list[TreeNode]] = {}
        for block, node in self.places:
            nodes = trees.setdefault(block, list(self.normal.blocks[block].nodes))
            known = nodes[node]
            found = [_filled(condition, marks) for condition in known.conditions]
            nodes[node] = TreeNode(known.parent, known.step, known.variable, found, known.spans)
        blocks = tuple(
            replace(block, nodes=trees[place]) if place in trees else self.first.blocks[place]
            for place, block in enumerate(self.normal.blocks)
        )
        return replace(self.normal, blocks=blocks)

    def text(self, constants: Sequence[Token]) -> str:
        """Return the text of a part with constants for marks."""
        told = [format_string(each.value) if each.kind == "string" else each.value for each in constants]
        return "".join(
            word + filled for word, filled in zip(self.words, [*(told[at] for at in self.order), ""], strict=True)
        )


@dataclass(slots=True)
class Outline:
    """The texts of one outline."""

    first: CompiledQuery
    """The first of them."""
    names: str
    """Its names, as JSON."""
    marks: tuple[Constant, ...] = ()
    is_made: bool = False
    _whole: _Marked | None = None
    """None: it is not made, or texts are not filled in."""
    _parts: list[_Marked] = field(default_factory=list)
    """Queries that a query about absence is made of."""

    def filled(self, text: str, tokens: Sequence[Token], namespaces: Mapping[str, str]) -> FilledQuery | None:
        """Return the normal form of another text, but for places in it; None: it is to be parsed."""
        if not self.is_made:
            self.is_made = True
            self._make(text, tokens, namespaces)
        if self._whole is None or len(tokens) > _MOST or len(text) > 100 * _MOST:
            return None
        constants = list(_bracketed(tokens))
        values = tuple(map(_constant, constants))
        if None in values:
            return None
        marks: dict[Constant, Constant] = dict(zip(self.marks, values, strict=True))  # type: ignore[arg-type]
        try:
            parts = tuple(FilledPart(part.text(constants), part.filled(marks)) for part in self._parts)
            return FilledQuery(self._whole.filled(marks), parts)
        except _Refused:
            return None

    def _make(self, text: str, tokens: Sequence[Token], namespaces: Mapping[str, str]) -> None:
        """Bring the text with marks to normal form, where that can be filled in."""
        if (
            self.first.windowed is not None
            or self.first.stepped
            or any(kind in _OTHERS or kind == "name" and value.lower() in _CLAUSES for kind, value, _, _ in tokens)
        ):
            return
        words: list[str] = []
        marks: list[Constant] = []
        end, begin = 0, tokens[0].start
        for token in _bracketed(tokens):
            is_number = token.kind == "number"
            marks.append(Constant(f"{7_000_000_001 + len(marks)}" if is_number else f"qz{len(marks)}zq", is_number))
            words += [text[end : token.start - begin], str(marks[-1])]
            end = token.end - begin
        marked = "".join(words) + text[end:]
        try:
            query = parse_query(marked)
            whole, seen = _marked(replace(query, negations=()), marked, marks, self.first, namespaces)
            parts: list[_Marked] = []
            for part, known in self._queries(query, marked):
                made, more = _marked(part, marked, marks, known, namespaces)
                seen |= more
                parts.append(_worded(made, format_query(part), marks))
        except (QueryError, _Refused):
            return
        # Notes are made of texts in quotes that are compared as numbers.
        if seen == Counter(marks):
            self._whole, self._parts, self.marks = whole, parts, tuple(marks)

    def _queries(self, query: ast.Query, text: str) -> Iterator[tuple[ast.Query, CompiledQuery]]:
        """Yield the queries that a query about absence is made of, with those of the first text."""
        if self.first.absence is not None:
            made = absence_parts(query, text)
            known = (part.compiled for part in self.first.absence.parts)
            yield from zip((made.wanted, *made.forbidden), known, strict=True)


def _marked(
    query: ast.Query, text: str, marks: Sequence[Constant], first: CompiledQuery, namespaces: Mapping[str, str]
) -> tuple[_Marked, Counter[Constant]]:
    """Return the normal form of a query with marks, and how often it has each of them."""
    normal = normalize(query, text, namespaces)
    places, seen = [], Counter[Constant]()
    for at, block in enumerate(normal.blocks):
        for node, tree in enumerate(block.nodes):
            found = [each for condition in tree.conditions for each in _constants(condition, marks)]
            seen.update(found)
            places += [(at, node)] * bool(found)
    return _Marked(normal, tuple(places), first.normal), seen


def _worded(part: _Marked, text: str, marks: Sequence[Constant]) -> _Marked:
    """Return a part with its text, cut at the marks.

    Raises:
        _Refused: there are other constants in its brackets.
    """
    words, order, end = list[str](), list[int](), 0
    for token in _bracketed(tokenize(text)):
        mark = Constant(token.value, token.kind == "number")
        if mark not in marks:
            raise _Refused
        words.append(text[end : token.start])
        order.append(marks.index(mark))
        end = token.end
    return replace(part, words=(*words, text[end:]), order=tuple(order))


class _Refused(Exception):
    """A constant that may be refused."""


def _bracketed(tokens: Sequence[Token]) -> Iterator[Token]:
    """Iterate over the constants in brackets of blocks."""
    nested, joining = 0, False
    for token in tokens:
        if token.kind in _BRACKETS:
            joining, nested = _within(token.kind, nested, joining)
        elif nested > 0 and not joining and token.kind in ("string", "number"):
            yield token


def _constant(token: Token) -> Constant | None:
    if token.kind == "string":
        return Constant(token.value, is_number=False)
    number = number_text(token.value)
    return None if number is None else Constant(number, is_number=True)


def _constants(condition: Condition, marks: Sequence[Constant]) -> list[Constant]:
    """Return the marks in a condition, each as often as it stands there as it was written."""
    found: list[Constant] = []

    def note(constant: Constant) -> Constant:
        found.extend([constant] * (constant in marks))
        return constant

    def compared(comparison: Comparison) -> None:
        if comparison.op in _ORDERS and not comparison.right.is_number and comparison.right in marks:
            found.extend([comparison.right] * 2)

    _mapped(condition, note, compared)
    return found


def _filled(condition: Condition, marks: Marks) -> Condition:
    return _mapped(condition, lambda constant: marks.get(constant, constant), lambda _: None)


Change = Callable[[Constant], Constant]
Seen = Callable[[Comparison], None]


def _mapped(condition: Condition, change: Change, seen: Seen) -> Condition:
    """Return a condition with other constants, in canonical order."""
    match condition:
        case Exists(step):
            return Exists(_mapped_step(step, change, seen))
        case Comparison(left, op, right):
            seen(condition)
            return Comparison(_expression(left, change, seen), op, change(right))
        case Truth(call):
            found = _expression(call, change, seen)
            assert isinstance(found, Call)
            return Truth(found)
        case Negation(part):
            return Negation(_mapped(part, change, seen))
        case AllOf(parts):
            return AllOf(conditions([_mapped(part, change, seen) for part in parts]))
        case AnyOf(parts):
            return AnyOf(conditions([_mapped(part, change, seen) for part in parts]))
    return condition


def _mapped_step(step: Step, change: Change, seen: Seen) -> Step:
    if not step.conditions:
        return step
    return Step(step.axis, step.test, conditions([_mapped(part, change, seen) for part in step.conditions]))


def _expression(expression: Expression, change: Change, seen: Seen) -> Expression:
    match expression:
        case Constant():
            return change(expression)
        case Here(steps):
            return Here(tuple([_mapped_step(step, change, seen) for step in steps]))
        case Call("contains-word", (operand, *sought)):
            words = set()
            for each in sought:
                assert isinstance(each, Constant)
                word = change(each).value
                if not is_word(word):
                    raise _Refused
                words.add(word.casefold())
            folded = (Constant(word, is_number=False) for word in sorted(words))
            return Call(expression.name, (_expression(operand, change, seen), *folded))
        case Call(name, args):
            return Call(name, tuple([_expression(arg, change, seen) for arg in args]))
