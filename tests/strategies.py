"""Hypothesis strategies that the tests share: texts by the grammar, tiny documents, sound queries over them, streams.

Documents and queries use one tiny alphabet, so that patterns match and joins hit often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

from hypothesis import assume
from hypothesis import strategies as st
from oracle.evaluate import Doc

from xscl.base.errors import QueryError
from xscl.language.compile import compile_query
from xscl.language.facts import ChannelFacts
from xscl.language.normalize import normalize
from xscl.language.syntax.parser import parse_query
from xscl.language.unsatisfiable import impossible

T = TypeVar("T")
SECOND = 1_000_000
NAMESPACES = {"n": "urn:n"}
"""What the prefix of documents and queries stands for; give it to whatever evaluates the queries."""
CHANNELS = ("S", "T")
ELEMENTS = ("a", "a", "a", "b", "b", "b", "c", "d")
VALUES = ("", "1", "1.0", "2", "x", "y", " x ")
COMMON_VALUES = ("x", "1", "x", "1", "x")
RARE_VALUES = ("X", "http://e.org/x/", "https://E.org:443/x?utm_id=1#y")
"""Values that only functions make equal."""

ROWS = ("R", "Q")
"""Channels of rows; their columns are those of ``NUMERIC`` and ``TEXTS``."""
NUMERIC: Mapping[str, frozenset[str]] = {"R": frozenset({"n", "m"}), "Q": frozenset({"n"})}
TEXTS: Mapping[str, frozenset[str]] = {"R": frozenset({"s"}), "Q": frozenset({"s", "t"})}
NUMBERS = (*("1", "2") * 5, "3", "0", "1.5", "-1", "0.1", "10", "9007199254740993", "9007199254740992")
STRING_VALUES = (*("1", "x", "1", "2") * 3, "y", "X", "10", "", "\ufffd", "\U0001f600")


class Choices:
    """Small decisions read off Hypothesis' ``draw``, so that the rules below read like a grammar."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def one(self, *options: T) -> T:
        """One of the options, simpler ones first."""
        return self.draw(st.sampled_from(options))  # type: ignore[no-any-return]

    def chance(self, percent: int) -> bool:
        """True in about so many of a hundred cases; shrinks to False."""
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)

    def count(self, least: int, most: int) -> int:
        """A number in a range, both ends included."""
        return int(self.draw(st.integers(least, most)))


class Dice(Choices):
    """The same decisions from a seed: nothing to shrink, but many cases quickly and none likelier than meant."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def one(self, *options: T) -> T:
        return self.random.choice(options)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def count(self, least: int, most: int) -> int:
        return self.random.randint(least, most)


# -- documents ---------------------------------------------------------------------------------------------------


def _text(choose: Choices) -> str:
    """A value, often one of two, rarely one that only a function makes equal to another."""
    return choose.one(*VALUES, *COMMON_VALUES * 4, *RARE_VALUES)


def _element(choose: Choices, depth: int, root: bool = False) -> str:
    name = ("n:" if choose.chance(8) else "") + choose.one(*ELEMENTS)
    attributes = choose.one("", "", "k", "m", "km", "kn")
    written = "".join(f' {"n:k" if a == "n" else a}="{_text(choose)}"' for a in attributes)
    declared = ' xmlns:n="urn:n"' if root else ""
    return f"<{name}{declared}{written}>{_content(choose, depth, root)}</{name}>"


def _content(choose: Choices, depth: int, root: bool) -> str:
    # Mostly one text or only elements: string values of mixed content are seldom equal.
    kind = choose.one("elements", "elements", "elements", "mixed") if root else choose.count(0, 6)
    if depth == 1 or kind in (0, 1, 2, 3):
        return _text(choose)
    if kind == 4:
        return _text(choose) + "<!--c-->" + _text(choose)
    parts = [_element(choose, depth - 1) for _ in range(choose.count(1, 4 if root else 2))]
    if kind in (5, "mixed"):
        parts.insert(choose.count(0, len(parts)), choose.one("<!--c-->", "", "x") + _text(choose))
    return "".join(parts)


@st.composite
def small_documents(draw: Any) -> str:
    """One document of a few nodes, nested to depth 4, with attributes, a prefix at times and text cut by comments."""
    return _element(Choices(draw), 4, root=True)


@st.composite
def event_streams(draw: Any, *, least: int = 4, most: int = 9, late: bool = False) -> list[Doc]:
    """Events of the channels S and T at whole seconds from 0 to 6, ties and versions of one item included."""
    choose = Choices(draw)
    found = []
    for number in range(choose.count(least, most)):
        channel = choose.one(*CHANNELS)
        item = f"i{choose.count(0, 2)}" if choose.chance(20) else None
        is_late = late and choose.chance(15)
        ts = choose.count(0, 6) * SECOND
        found.append(Doc(channel, f"e{number}", ts, draw(small_documents()), is_late, item))
    return found


def _time(choose: Choices) -> int:
    """Whole seconds from 0 to 7 as a rule, at times a microsecond beside them."""
    return choose.count(0, 7) * SECOND + choose.one(0, 0, 0, 0, 1, -1)


def plain_stream(choose: Choices, least: int = 10, most: int = 16, *, late: bool = False) -> list[Doc]:
    """Events of S and T within seven seconds, alike enough for three or four of them to join."""
    found = []
    for number in range(choose.count(least, most)):
        item = f"i{choose.count(0, 3)}" if choose.chance(15) else None
        is_late = late and choose.chance(5)
        xml = _element(choose, 4, root=True) if choose.chance(8) else _plain_document(choose)
        found.append(Doc(choose.one(*CHANNELS), f"e{number}", _time(choose), xml, is_late, item))
    return found


def _plain_document(choose: Choices) -> str:
    values = ("1", "1", "2", "1", "x", "1.0", "3")
    inner = ""
    for _ in range(choose.one(1, 2, 2, 3)):
        name = choose.one("b", "b", "b", "c", "a")
        inner += f"<{name}>{choose.one(*values)}</{name}>"
    root = choose.one("a", "a", "a", "a", "b")
    attribute = f' k="{choose.one(*values)}"' if choose.chance(60) else ""
    return f"<{root}{attribute}>{inner}</{root}>"


def with_copies(choose: Choices, docs: Sequence[Doc], streams: Sequence[str]) -> list[Doc]:
    """Make the documents of S events of streams, some with copies that come by another stream later."""
    found: list[Doc] = []
    waiting: list[Doc] = []
    for doc in docs:
        if doc.channel == "S":
            names = [name for name in streams if choose.chance(50)]
            first = tuple(names[: choose.count(0, len(names))])
            # Copies are of one item with the event, like versions.
            doc = replace(doc, streams=first, item=doc.item or f"item of {doc.id}")
            late = [replace(doc, streams=(name,), whole=False, late=choose.chance(10)) for name in names[len(first) :]]
            waiting += late if first else []
        found.append(doc)
        while waiting and choose.chance(40):
            found.append(waiting.pop(choose.count(0, len(waiting) - 1)))
    return found + waiting


def row_stream(choose: Choices, least: int = 10, most: int = 16) -> list[Doc]:
    """Rows of the channels R and Q among documents of S, within seven seconds; NULL columns are absent."""
    found = []
    for number in range(choose.count(least, most)):
        channel = choose.one("R", "Q", "R", "Q", "S")
        xml = _plain_document(choose) if channel == "S" else _row(choose, channel)
        found.append(Doc(channel, f"e{number}", _time(choose), xml))
    return found


def _row(choose: Choices, channel: str) -> str:
    columns = [(name, NUMBERS) for name in sorted(NUMERIC[channel])]
    columns += [(name, STRING_VALUES) for name in sorted(TEXTS[channel])]
    written = "".join(f"<{n}>{choose.one(*values)}</{n}>" for n, values in columns if not choose.chance(12))
    return f"<{channel}>{written}</{channel}>"


# -- sound queries -----------------------------------------------------------------------------------------------


@dataclass
class _Pattern:
    """A block being written: its text and the variables bound so far."""

    choose: Choices
    letter: str
    variables: list[str] = field(default_factory=list)

    def binding(self) -> str:
        number = len(self.variables) + 1
        name = f"{self.letter}{number}" + ("'" if self.choose.chance(10) else "")
        self.variables.append(name)
        return self.choose.one("->", " AS ") + name

    def maybe_binding(self, percent: int) -> str:
        return self.binding() if len(self.variables) < 4 and self.choose.chance(percent) else ""

    def block(self, channel: str) -> str:
        choose = self.choose
        if choose.chance(25):
            return channel + self.axis() + choose.one(_element_test, _leaf_test)(choose) + self.binding()
        if choose.chance(15):
            text = channel + self.maybe_binding(70) + self.brackets(2, 60)
            return text if self.variables else channel + self.binding() + text[len(channel) :]
        text = channel + (self.maybe_binding(60) + self.brackets(1, 30) if choose.chance(8) else "")
        if choose.chance(15):
            text += self.axis() + _element_test(choose) + self.maybe_binding(30) + self.brackets(1, 10)
        test = _leaf_test(choose) if choose.chance(35) else _element_test(choose)
        text += self.axis() + test
        is_element = "@" not in test and "(" not in test
        bound = self.maybe_binding(60) if is_element or self.variables else self.binding()
        text += bound + (self.brackets(2, 45) if is_element else self.leaf_brackets())
        if not self.variables:
            # Somewhere there must be a variable to join; a further step is the simplest place.
            text += self.axis() + choose.one("text()", "*") + self.binding()
        return text

    def plain_block(self, channel: str) -> str:
        """A block that seldom has more than a few witnesses in a document, so that many of them can be joined."""
        choose = self.choose
        if channel in ROWS:
            return self.row_block(channel)
        if choose.chance(20):
            return channel + choose.one("[.//b{}]", "[.//@k{}]", "[./b{}]", "{}").format(self.binding())
        if choose.chance(30):
            return channel + "//" + choose.one("b", "b", "b", "@k", "b/text()", "c") + self.binding()
        text = channel + choose.one("//a", "/a", "//a", "/*", "//b") + self.maybe_binding(15)
        for _ in range(choose.one(1, 1, 1, 2)):
            text += f"[{choose.one('./', './/')}{choose.one('b', 'b', '@k', 'c', 'b', 'b')}{self.binding()}]"
        return text + (f"[{_dot_condition(choose)}]" if choose.chance(5) else "")

    def row_block(self, channel: str) -> str:
        """A block over a row channel that binds one to three of its columns."""
        choose = self.choose
        columns = [*sorted(NUMERIC[channel]), *sorted(TEXTS[channel])]
        text = channel + self.maybe_binding(5)
        for _ in range(choose.one(1, 2, 2, 3)):
            text += f"[{choose.one('./', '')}{choose.one(*columns)}{self.binding()}]"
        if choose.chance(8):
            text += f"[./{choose.one('n', 's')} {choose.one('>', '=', '!=', '<=')} {_literal(choose)}]"
        return text

    def axis(self) -> str:
        return self.choose.one(*["//"] * 7, "/")

    def brackets(self, most: int, percent: int) -> str:
        found = ""
        for _ in range(most):
            if not self.choose.chance(percent):
                break
            found += f"[{self.bracket()}]"
        return found

    def leaf_brackets(self) -> str:
        return f"[{_dot_condition(self.choose)}]" if self.choose.chance(15) else ""

    def bracket(self) -> str:
        choose = self.choose
        if len(self.variables) >= 4 or choose.chance(20):
            return condition(choose)
        text = self.path()
        kind = choose.count(0, 19)
        if kind == 19:
            other = choose.one(condition, _dot_condition)(choose)
            text = f"{text} and ({other})" if " or " in other else f"{text} and {other}"
        elif kind >= 17:
            text = f"({text})" if kind == 18 else f"{text} and {self.path()}"
        return text

    def path(self) -> str:
        """A path inside brackets that binds, mostly at its end."""
        choose = self.choose
        text = choose.one(".//", ".//", ".//", "./", "")
        if choose.chance(10):
            text += _element_test(choose) + self.maybe_binding(30) + choose.one("//", "/")
        if choose.chance(40):
            return text + _leaf_test(choose) + self.maybe_binding(90) + self.leaf_brackets()
        text += _element_test(choose) + self.maybe_binding(85)
        if choose.chance(10):
            text += f"[{self.bracket()}]"
        if choose.chance(8):
            text += " " + choose.one("=", "!=", ">", "<=") + " " + _literal(choose)
        return text


def _element_test(choose: Choices) -> str:
    return choose.one(*ELEMENTS, *ELEMENTS, "*", "*", "*", "*", "*", "*:b", choose.one("*:a", "n:a", "n:*"))


def _leaf_test(choose: Choices) -> str:
    return choose.one("text()", "@k", "text()", "@*", "@k", "@m", choose.one("@k", "@n:k"))


def _literal(choose: Choices) -> str:
    return choose.one("'x'", "1", "'1'", "2", "'y'", "1.5", "-1", "' x '", '"X"', "''")


def _plain_path(choose: Choices, depth: int) -> str:
    """A path without variables."""
    text = choose.one("./", ".//", "") + choose.one(_element_test, _element_test, _leaf_test)(choose)
    if depth and "@" not in text and "(" not in text:
        if choose.chance(20):
            text += f"[{condition(choose, depth - 1)}]"
        if choose.chance(25):
            text += choose.one("/", "//") + choose.one(_element_test, _leaf_test)(choose)
    return text


def _dot_condition(choose: Choices) -> str:
    part = choose.one("'x'", "'1'", "'e.org'")
    asked = choose.one("'x'", "'1', 'X'", "'e.org'")
    return choose.one(
        f". {choose.one('=', '!=', '<', '>=')} {_literal(choose)}",
        f"contains(., {part})",
        f"contains-word(., {asked})",
        f"starts-with(normalize-space(.), {part})",
        f"string-length() {choose.one('>', '=', '<')} {choose.one('1', '2', '0')}",
        "normalize-space() = 'x'",
        "lower(.) = 'x'",
        "not(. = 'y')",
    )


def condition(choose: Choices, depth: int = 2) -> str:
    """A bracket's content that binds nothing."""
    kind = choose.count(0, 9 if depth else 5)
    if kind < 2:
        text = _plain_path(choose, depth)
        compared = choose.chance(60)
        return f"{text} {choose.one('=', '!=', '<', '<=', '>', '>=')} {_literal(choose)}" if compared else text
    if kind < 4:
        return _dot_condition(choose)
    if kind == 4:
        return f"count({_plain_path(choose, depth)}) {choose.one('=', '>', '<')} {choose.one('1', '2')}"
    if kind == 5:
        inner = _plain_path(choose, 0)
        asked = choose.one("'x'", "'1'", "'y', 'X'")
        return choose.one(
            f"contains({inner}, {_literal(choose)})",
            f"contains-word({inner}, {asked})",
            f"starts-with(lower({inner}), 'x')",
            f"normalize-space({inner}) = {_literal(choose)}",
            f"string-length(normalize-space({inner})) > {choose.one('0', '1')}",
            f"lower({inner})",
            f"contains(., {inner})",
        )
    if kind == 6:
        return f"not({condition(choose, depth - 1)})"
    word = choose.one(" or ", " and ")
    text = condition(choose, depth - 1) + word + condition(choose, depth - 1)
    return f"({text})" if choose.chance(40) else text


@st.composite
def one_block_queries(draw: Any, channels: Sequence[str] = CHANNELS) -> str:
    """A sound query of one block; prefixes as in ``NAMESPACES``."""
    choose = Choices(draw)
    channel = choose.one(*channels)
    text = channel if choose.chance(5) else _Pattern(choose, "x").block(channel)
    assume(may_hold(text))
    return f"SELECT * FROM {text}" if choose.chance(10) else text


@st.composite
def two_block_queries(draw: Any, channels: Sequence[str] = CHANNELS, *, functions: bool = True) -> str:
    """A sound query of two blocks, tied by one to three atoms or by a finite window; prefixes as in ``NAMESPACES``."""
    choose = Choices(draw)
    left, right = _Pattern(choose, "x"), _Pattern(choose, "y")
    texts = left.block(choose.one(*channels)), right.block(choose.one(*channels))
    following = choose.chance(50)
    atoms = []
    if not choose.chance(8):
        atoms = [_atom(choose, left.variables, right.variables, functions) for _ in range(choose.one(1, 1, 1, 2, 3))]
        if choose.chance(15):
            atoms.append(_one_sided(choose, choose.one(*left.variables, *right.variables), functions))
    windows = _windows(choose, following, tied=bool(atoms), pair=(left.variables[0], right.variables[0]))
    operator = "FOLLOWED BY" if following else "JOIN"
    params = ", ".join([" AND ".join(atoms)] * bool(atoms) + windows)
    text = f"{texts[0]} {operator} {{{params}}} {texts[1]}"
    assume(may_hold(text))
    return f"SELECT * FROM {text}" if choose.chance(10) else text


def _atom(choose: Choices, left: list[str], right: list[str], functions: bool) -> str:
    sides = [choose.one(left[-1], *left[::-1]), choose.one(right[-1], *right[::-1])]
    if choose.chance(10):
        side = choose.count(0, 1)
        sides[side] += choose.one("//", "/") + choose.one(*ELEMENTS, "@k", "text()", "*")
    if functions and choose.chance(25):
        name = choose.one("normalize-space", "lower", "url", "lower", "normalize-space", "host")
        outer = choose.one("lower", "normalize-space", "")
        wrapped = [f"{name}({side})" for side in sides]
        if outer and choose.chance(30):
            wrapped = [f"{outer}({side})" for side in wrapped]
        sides = [wrapped[0], wrapped[1] if choose.chance(80) else sides[1]]
    if choose.chance(30):
        sides.reverse()
    return f"{sides[0]} {choose.one('=', '=', '=', '=', '!=')} {sides[1]}"


@dataclass
class _Source:
    """A block or join being written, with the variables of each of its blocks."""

    text: str
    blocks: list[list[str]]

    @property
    def term(self) -> str:
        """The text where a term is asked for."""
        return self.text if len(self.blocks) == 1 else f"({self.text})"


@dataclass
class _ManyBlocks:
    """Writes a join of any number of blocks.

    Every operator has an atom or a finite window between its sides, so that all blocks are tied.
    """

    choose: Choices
    channels: Sequence[str]
    functions: bool
    halves: bool
    letters: list[str] = field(default_factory=lambda: ["x", "y", "z", "w", "v", "u"])

    def source(self, count: int) -> _Source:
        if count == 1:
            pattern = _Pattern(self.choose, self.letters.pop(0))
            channel = self.choose.one(*self.channels)
            wild = channel not in ROWS and self.choose.chance(8)
            text = pattern.block(channel) if wild else pattern.plain_block(channel)
            return _Source(text, [pattern.variables])
        on_right = self.choose.one(1, 1, 1, self.choose.count(1, count - 1))
        left = self.source(count - on_right)
        return self.join(left, self.source(on_right))

    def join(self, left: _Source, right: _Source) -> _Source:
        choose = self.choose
        following = choose.chance(50)
        both = left.blocks + right.blocks
        atoms = []
        if choose.chance(70 if len(both) == 2 else 45):
            pairs = range(choose.one(1, 1, 1, 2))
            atoms = [self.atom(choose.one(*left.blocks[::-1]), choose.one(*right.blocks)) for _ in pairs]
        windows = self.windows(following, bool(atoms), left.blocks, right.blocks)
        if len(both) > 2 and choose.chance(12):
            atoms.append(self.atom(*self.two_of(both)))
        if choose.chance(5):
            atoms.append(_one_sided(choose, choose.one(*choose.one(*both)), self.functions))
        params = ", ".join([" AND ".join(atoms)] * bool(atoms) + windows)
        operator = "FOLLOWED BY" if following else "JOIN"
        first = left.term if choose.chance(25) else left.text
        return _Source(f"{first} {operator} {{{params}}} {right.term}", both)

    def two_of(self, blocks: list[list[str]]) -> tuple[list[str], list[str]]:
        """Two different blocks of at least two."""
        first = self.choose.count(0, len(blocks) - 1)
        second = (first + self.choose.count(1, len(blocks) - 1)) % len(blocks)
        return blocks[first], blocks[second]

    def atom(self, left: list[str], right: list[str]) -> str:
        choose = self.choose
        kind = choose.count(0, 9)
        if kind < 3:
            return _atom(choose, left, right, self.functions)
        sides = [choose.one(left[-1], *left), choose.one(right[-1], *right)]
        if kind < 6:
            return f"{sides[0]} = {sides[1]}"
        if kind > 6:
            sides = [_linear(choose, side, self.halves) for side in sides]
        elif self.functions and choose.chance(20):
            sides = [f"lower({sides[0]})", choose.one(f"normalize-space({sides[1]})", sides[1])]
        return f"{sides[0]} {choose.one('<', '<=', '>', '>=', '<=', '>=', '=', '!=')} {sides[1]}"

    def windows(self, following: bool, tied: bool, left: Sequence[list[str]], right: Sequence[list[str]]) -> list[str]:
        choose = self.choose
        finite = ["3 s", "5 s", "4 s", "0 s..3 s", "1 s..4 s"] if following else ["3 s", "5 s", "2 s", "0 s"]
        finite += ["MAXWINDOW 5 s"]
        found = [choose.one(*finite, *["", "UNBOUNDED", *["0 s..UNBOUNDED"] * following] * tied)]
        if choose.chance(10):
            # A relative window alone ties two sides as well.
            found = [self.relative(choose.one(*left), choose.one(*right), choose.count(-3, 1), finite=True)]
        both = [*left, *right]
        if choose.chance(14):
            found.append(self.relative(*self.two_of(both), choose.count(-5, 0), finite=choose.chance(60)))
        if choose.chance(8):
            found.append(f"MAXWINDOW {choose.count(3, 6)} s")
        if not following and choose.chance(25):
            found.append("ONCE")
        return [window for window in found if window]

    def relative(self, one: list[str], other: list[str], low: int, *, finite: bool) -> str:
        choose = self.choose
        sides = [choose.one(*one), choose.one(*other)]
        if choose.chance(50):
            sides.reverse()
        high = f"{low + choose.count(3, 7)} s"
        lower = f"{low} s" if finite or choose.chance(50) else "-UNBOUNDED"
        upper = high if finite or lower == "-UNBOUNDED" else "UNBOUNDED"
        return f"{sides[0]} - {sides[1]} IN {choose.one('[', '(')}{lower}, {upper}{choose.one(']', ')')}"


def _linear(choose: Choices, variable: str, halves: bool) -> str:
    """A linear form of one variable; ``halves`` keeps to numbers on which doubles are exact."""
    forms = ["{}", "2 * {}", "{} + 1", "{} - 0.5", "-{} + 3", "{} / 2"]
    if not halves:
        forms += ["{} / 3 + 1/3", "0.1 * {}", "1.5 * ({} - 1)"]
    return choose.one(*forms).format(variable)


def _select(choose: Choices, blocks: Sequence[list[str]], constructors: bool) -> str:
    """A SELECT clause with the word FROM, or nothing."""
    if choose.chance(70):
        return choose.one("", "", "SELECT * FROM ")
    parts = []
    for _ in range(choose.one(1, 2, 2, 3)):
        part = choose.one(*choose.one(*blocks))
        parts.append(part + (choose.one("//", "/") + choose.one("b", "@k", "text()") if choose.chance(30) else ""))
    if constructors and choose.chance(40):
        first, *rest = [f"{{{part}}}" for part in parts]
        written = choose.one(f'<e by="a {first}">', f"<e>{first}") + "".join(f"<f>{part}</f>" for part in rest)
        return f"SELECT {written}</e> FROM "
    items = [part + (f" AS n{place}" if choose.chance(40) else "") for place, part in enumerate(parts)]
    return f"SELECT {', '.join(items)} FROM "


def many_block_query(
    choose: Choices,
    channels: Sequence[str] = CHANNELS,
    *,
    least: int = 2,
    most: int = 4,
    functions: bool = True,
    halves: bool = False,
    select: bool = True,
    constructors: bool = False,
) -> str:
    """A query of several blocks that is sound but for its times, which may have no solution.

    ``channels`` may have those of ``ROWS``; prefixes as in ``NAMESPACES``.
    """
    while True:
        source = _ManyBlocks(choose, channels, functions, halves)
        found = source.source(choose.one(*range(least, most + 1), min(3, most)))
        text = (_select(choose, found.blocks, constructors) if select else "") + found.text
        if may_hold(text):
            return text


ROW_FACTS = {name: ChannelFacts("rows", NUMERIC[name], TEXTS[name]) for name in ROWS}


def may_hold(text: str) -> bool:
    """Whether no part of a query, over documents or rows, is refused because it can never hold."""
    try:
        normal = normalize(parse_query(text), text, NAMESPACES)
    except QueryError:
        return True  # refused for something else
    return impossible(normal, ROW_FACTS) is None


@st.composite
def many_block_workloads(draw: Any) -> tuple[list[str], list[Doc]]:
    """A few queries of several blocks and the documents for them, to be shrunk."""
    choose = Choices(draw)
    return [many_block_query(choose) for _ in range(choose.count(1, 3))], plain_stream(choose, 4, 10, late=True)


def _one_sided(choose: Choices, variable: str, functions: bool) -> str:
    if functions and choose.chance(30):
        return f"{choose.one('lower', 'normalize-space')}({variable}) {choose.one('=', '!=')} 'x'"
    op = choose.one("=", "!=", "<", "<=", ">", ">=")
    constant = choose.one("1", "'x'", "2", "1.5", "'1'")
    return f"{constant} {op} {variable}" if choose.chance(30) else f"{variable} {op} {constant}"


def _windows(choose: Choices, following: bool, *, tied: bool, pair: tuple[str, str]) -> list[str]:
    finite = ["3 s", "1 s", "0 s..2 s"] if following else ["3 s", "1 s"]
    found = [choose.one("", "UNBOUNDED", *finite)] if tied else [choose.one(*finite)]
    if choose.chance(6):
        found.append(f"{pair[1]} - {pair[0]} IN {choose.one('[0 s, 2 s]', '(-1 s, 2 s)', '[0 s, UNBOUNDED)')}")
    if choose.chance(6):
        found.append("MAXWINDOW 2 s")
    if not following and choose.chance(20):
        found.append("ONCE")
    return [window for window in found if window]


# -- texts by the grammar ----------------------------------------------------------------------------------------

WORDS = ("S", "T", "blog", "C.raw", "a-b", "été", "_x", "join", "From", "as", "once", "s", "not", "text", "unbounded")
"""Names, keywords among them, because these are not reserved."""
UNITS = ("us", "ms", "s", "min", "h", "d", "w", "Seconds", "minutes", "mins", "DAYS", "week", "hour")
ISO_DURATIONS = ("'PT5M'", '"P1DT2H"', "'P2W'", "'PT0.5S'", "'pt1h30m'")
STRINGS = ("'x'", '"x"', "''", "'it''s'", '"say ""a"""', "'(: no comment :)'", "'a -- b'", "'é\t'")
SPACES = ("", "", " ", " ", "  ", "\n", "\t", " (: c :) ", "(: a (: b :) 'c :)", " -- it's\n", "\r\n")


@dataclass
class _Grammar:
    """Tokens by the rules of docs/reference/language.md, Statements: syntax only, so variables need not be bound."""

    choose: Choices
    room: int = 12
    """How many more optional parts may be written, so that texts stay short."""

    def more(self, percent: int) -> bool:
        """Whether to write an optional part."""
        self.room -= 1
        return self.room > 0 and self.choose.chance(percent)

    def word(self, *words: str) -> list[str]:
        """Keywords, in any case."""
        return [self.choose.one(word, word.lower(), word.title()) for word in words]

    def several(self, rule: Callable[[], list[str]], separator: list[str], percent: int = 30) -> list[str]:
        found = rule()
        while self.more(percent):
            found += separator + rule()
        return found

    def name(self) -> list[str]:
        return [self.choose.one(*WORDS)]

    def variable(self) -> list[str]:
        return [self.choose.one("x1", "y", "and", "v.w", "z-1", "as") + self.choose.one("", "", "'", "''")]

    def number(self) -> list[str]:
        return [self.choose.one("1", "0", "007", "2.50", "12345678901234567890")]

    def string(self) -> list[str]:
        return [self.choose.one(*STRINGS)]

    def query(self) -> list[str]:
        choose = self.choose
        found: list[str] = []
        if self.more(30):
            items = ["*"] if choose.chance(50) else self.several(self.item, [","])
            found += self.word("SELECT") + items + self.word("FROM")
        found += self.source()
        if self.more(15):
            found += self.word("PUBLISH") + self.name()
            found += choose.one([], self.word("SPANNING")) + choose.one([], self.word("AS", "ROWS"))
        if self.more(15):
            time = choose.one("'2026-06-01T00:00:00Z'", '"2026-06-01T00:00:00.5+02:00"')
            found += self.word("STARTING") + choose.one([time], self.word("NOW"), self.word("ALL"))
        if self.more(10):
            found += self.word("CONSISTENCY") + choose.one(*self.levels())
        if self.more(10):
            found += self.word("ON", "CHANGE") + choose.one(self.word("KEEP"), self.word("RETRACT"))
        return found

    def levels(self) -> list[list[str]]:
        between = self.word("BLOCKING") + self.duration() + self.word("MEMORY") + self.duration()
        return [self.word("STRONG"), self.word("MIDDLE"), self.word("WEAK"), between]

    def item(self) -> list[str]:
        return self.variable_path() + (self.word("AS") + self.name() if self.more(30) else [])

    def source(self) -> list[str]:
        found = self.term()
        while self.more(50):
            operator = self.choose.one(("FOLLOWED", "BY"), ("JOIN",))
            found += self.word(*operator) + ["{", *self.params(), "}"] + self.term()
        return found

    def term(self) -> list[str]:
        return ["(", *self.source(), ")"] if self.more(8) else self.block()

    def block(self) -> list[str]:
        found = self.name() + self.binding(20) + self.brackets(15)
        while self.more(50):
            found += self.step()
        return found

    def step(self) -> list[str]:
        return [self.choose.one("/", "//"), *self.test(), *self.binding(40), *self.brackets(40)]

    def test(self) -> list[str]:
        kind = self.choose.count(0, 9)
        if kind < 4:
            return self.name()
        rules = {4: ["*"], 5: [*self.name(), ":", *self.name()], 6: [*self.name(), ":", "*"]}
        rules |= {7: ["*", ":", *self.name()], 8: ["text", "(", ")"]}
        attribute = ["@", *self.choose.one(self.name(), ["*"], [*self.name(), ":", *self.name()])]
        return rules.get(kind, attribute)

    def binding(self, percent: int) -> list[str]:
        return self.choose.one(["->"], self.word("AS")) + self.variable() if self.more(percent) else []

    def brackets(self, percent: int) -> list[str]:
        found: list[str] = []
        while self.more(percent):
            found += ["[", *self.predicate(), "]"]
        return found

    def predicate(self) -> list[str]:
        return self.several(lambda: self.several(self.unary, self.word("AND"), 20), self.word("OR"), 20)

    def unary(self) -> list[str]:
        kind = self.choose.count(0, 9)
        if kind == 0 and self.room > 0:
            return self.choose.one(["not"], []) + ["(", *self.predicate(), ")"]
        found = self.function() if kind < 4 else self.relpath()
        return found + [self.choose.one("=", "!=", "<", "<=", ">", ">="), *self.literal()] if self.more(40) else found

    def relpath(self) -> list[str]:
        found = ["."] if self.choose.chance(50) else [*self.test(), *self.binding(30), *self.brackets(15)]
        while self.more(40):
            found += self.step()
        return found

    def literal(self) -> list[str]:
        return self.choose.one(self.string(), self.number(), ["-", *self.number()])

    def text_word(self) -> list[str]:
        return [self.choose.one("'x'", '"can\'t"', "'3.14'", "'Ebola'")]

    def argument(self) -> list[str]:
        return self.choose.one(self.literal, self.relpath, self.function)() if self.room > 0 else ["."]

    def function(self) -> list[str]:
        self.room -= 1
        name = self.choose.one(
            "contains", "starts-with", "normalize-space", "string-length", "lower", "count", "contains-word"
        )
        arguments: list[str] = []
        if name in ("contains", "starts-with"):
            arguments = [*self.argument(), ",", *self.argument()]
        elif name == "contains-word":
            arguments = [*self.argument(), ",", *self.several(self.text_word, [","], 30)]
        elif name == "count":
            arguments = self.relpath()
        elif name == "lower" or self.choose.chance(50):
            arguments = self.argument()
        return [name, "(", *arguments, ")"]

    def params(self) -> list[str]:
        if not self.more(85):
            return []
        start = self.several(self.atom, self.word("AND")) if self.choose.chance(60) else self.window()
        return start + ([",", *self.several(self.window, [","])] if self.more(40) else [])

    def atom(self) -> list[str]:
        return [*self.operand(), self.choose.one("=", "!=", "<", "<=", ">", ">="), *self.operand()]

    def operand(self) -> list[str]:
        kind = self.choose.count(0, 9)
        if kind == 0:
            return self.string()
        if kind < 3 and self.more(100):
            function = self.choose.one("lower", "normalize-space", "host", "url")
            return [function, "(", *self.operand(), ")"]
        return self.variable_path() if kind < 7 else self.linear(with_path=self.choose.chance(70))

    def linear(self, *, with_path: bool) -> list[str]:
        """A sum of products, at most one of which has the variable path."""
        parts = [self.product(with_path=with_path)]
        while self.more(40):
            parts.append(self.product(with_path=False))
        if with_path and self.choose.chance(30):
            parts.reverse()
        found = parts[0]
        for part in parts[1:]:
            found = [*found, self.choose.one("+", "-"), *part]
        return found

    def product(self, *, with_path: bool) -> list[str]:
        found = [] if self.choose.chance(60) else ["-"]
        factor = self.variable_path if with_path else self.number
        if self.more(20):
            found += ["(", *self.linear(with_path=with_path), ")"]
        elif self.more(30):
            found += [*self.number(), "*", *factor()]
        else:
            found += factor()
        return found + [self.choose.one("*", "/"), "2.5"] if self.more(20) else found

    def variable_path(self) -> list[str]:
        found = self.variable()
        while self.more(20):
            found += [self.choose.one("/", "//"), *self.test(), *self.brackets(10)]
        return found

    def window(self) -> list[str]:
        kind = self.choose.count(0, 7)
        if kind < 2:
            return self.duration()
        if kind == 2:
            return [*self.duration(), "..", *self.choose.one(self.duration(), self.word("UNBOUNDED"))]
        if kind < 6:
            return {3: self.word("UNBOUNDED"), 4: self.word("MAXWINDOW") + self.duration(), 5: self.word("ONCE")}[kind]
        unbounded = self.word("UNBOUNDED")
        low = self.choose.one(["-", *self.duration()], ["-", *unbounded], self.duration())
        high = self.choose.one(self.duration(), unbounded, ["-", *self.duration()])
        bounds = [self.choose.one("[", "("), *low, ",", *high, self.choose.one("]", ")")]
        return [*self.variable(), "-", *self.variable(), *self.word("IN"), *bounds]

    def duration(self) -> list[str]:
        if self.choose.chance(20):
            return [self.choose.one(*ISO_DURATIONS)]
        return self.number() + ([self.choose.one(*UNITS)] if self.choose.chance(80) else [])


@st.composite
def query_tokens(draw: Any) -> list[str]:
    """The tokens of one query by the grammar."""
    return _Grammar(Choices(draw)).query()


def spaced(choose: Choices, tokens: Sequence[str]) -> str:
    """Tokens as a text, with random white space and comments, and with some wherever two would run together."""
    text = choose.one("", "", " ", "-- first\n", "(: first :)")
    for before, token in zip(["", *tokens], tokens, strict=False):
        space = choose.one(*SPACES)
        text += space or (" " if _run_together(before, token) else "")
        text += token
    return text + choose.one("", " ", " -- last", "(: last :)")


def _run_together(before: str, token: str) -> bool:
    if not before:
        return False
    last, first = before[-1], token[0]
    is_word = last.isalnum() or last in "_'\""
    return (is_word and (first.isalnum() or first in "_-.'\"")) or (last, first) in {("-", "-"), ("-", ">")}


@st.composite
def query_texts(draw: Any) -> str:
    """One query by the grammar, with random spacing, comments and case of keywords."""
    return spaced(Choices(draw), draw(query_tokens()))


def dense_stream(choose: Dice) -> list[Doc]:
    """Events of a few equal values at whole seconds, up to four seconds out of order, so that windows end on them."""
    found = []
    for number in range(choose.count(22, 30)):
        ts = max(0, number // 2 - choose.one(0, 0, 0, 1, 2, 4)) * SECOND
        xml = f"<a><b>{choose.one(1, 1, 2)}</b><c>{choose.one(1, 2)}</c></a>"
        found.append(Doc(choose.one(*CHANNELS), f"e{number}", ts, xml))
    return found


def sound_query(choose: Dice) -> str:
    """A dense query whose windows can be satisfied."""
    while True:
        text = dense_query(choose)
        try:
            compile_query(parse_query(text), text, namespaces=NAMESPACES)
        except QueryError as error:
            assert error.condition == "XSCL_UNSATISFIABLE_WINDOW", text
        else:
            return text


def dense_query(choose: Dice) -> str:
    """Two to four blocks that are joined by value or by time alone, with short windows on any two of them."""
    text = ""
    for number in range(choose.one(2, 2, 3, 3, 4)):
        block = f"{choose.one(*CHANNELS)}->r{number}[./b->x{number}][./c->y{number}]"
        if number == 0:
            text = block
            continue
        follows = choose.chance(40)
        asked = [f"x{choose.count(0, number - 1)} = x{number}"] if choose.chance(85) else []
        if choose.chance(20):
            asked.append(f"y{choose.count(0, number - 1)} != y{number}")
        low = choose.count(0, 2)
        asked.append(f"{low} s..{low + choose.count(0, 2)} s" if follows and choose.chance(50) else f"{low + 1} s")
        if choose.chance(30):
            low = choose.count(-3, 2)
            asked.append(f"r{number} - r{choose.count(0, number - 1)} IN [{low} s, {low + choose.count(0, 4)} s]")
        if choose.chance(20):
            asked.append(f"MAXWINDOW {choose.count(2, 5)} s")
        atoms = " AND ".join(part for part in asked if "=" in part)
        windows = [part for part in asked if "=" not in part]
        text += f" {'FOLLOWED BY' if follows else 'JOIN'} {{{', '.join([*filter(None, [atoms]), *windows])}}} {block}"
    return text
