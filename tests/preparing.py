"""What ``Preparer`` makes of a text beside what ``compile_query`` makes of it, and texts that nearly say the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from strategies import NAMESPACES, Choices, spaced

from xscl.base.errors import QueryError
from xscl.language.compile import compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.forms import Prepared, Preparer
from xscl.language.query_rows import names_json
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.tokens import Token, tokenize
from xscl.language.text_notes import text_notes
from xscl.templates.template import Instance

Names = Mapping[str, Sequence[str | None]]


class _Counting(Preparer):
    compilations = 0
    filled = 0
    """Compilations of texts that were not parsed."""
    alike = 0
    """Compilations that began with what another text had been compiled to."""

    def _compiled(self, query: ast.Query, text: str, like: CompiledQuery | None = None) -> Prepared:
        self.compilations += 1
        found = super()._compiled(query, text, like)
        self.alike += like is not None and found.compiled.plans is like.plans
        return found

    def _filled(self, text: str) -> Prepared | None:
        found = super()._filled(text)
        self.filled += found is not None
        return found


@dataclass
class Both:
    """One ``Preparer`` for many texts; ``known`` counts those that were of a form it knew."""

    channels: Mapping[str, ChannelFacts] | None = None
    known: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.preparer = _Counting(NAMESPACES, self.channels)

    def check(self, text: str) -> CompiledQuery | None:
        """Compare both ways; None if both refuse the text."""
        tokens = tokenize(text)
        # What stands behind a constructor's beginning is not in its tokens.
        tokens = tokens if tokens[-1].kind == "constructor" else tokens[:-1]
        try:
            expected = compile_query(parse_query(text), text, namespaces=NAMESPACES, channels=self.channels)
        except QueryError as error:
            self.refused += 1
            self._refuses(text, error, lambda: self.preparer.prepare(text, tokens, lambda: (parse_query(text), text)))
            return None
        before = self.preparer.compilations
        found = self.preparer.prepare(text, tokens, lambda: (parse_query(text), text))
        self.known += self.preparer.compilations == before
        compiled = found.compiled
        assert compiled.group == expected.group, text
        assert compiled.group.key == expected.group.key, text
        assert compiled.template == expected.template, text
        assert Counter(map(repr, compiled.specs)) == Counter(map(repr, expected.specs)), text
        assert Counter(map(repr, compiled.facts)) == Counter(map(repr, expected.facts)), text
        assert compiled.channels == expected.channels, text
        assert parts(compiled) == parts(expected), text
        assert {d.key for d in compiled.definitions.values()} == {d.key for d in expected.definitions.values()}, text
        query = parse_query(text)
        assert (found.publish, found.starting) == (query.publish, query.starting), text
        if expected.stepped or expected.windowed is not None:
            assert found.names == names_json(expected), text
            assert compiled.notes == text_notes(query, expected.normal.cases), text
            return expected
        names = json.loads(found.names)
        assert set(names) == {"meta", "results", "result_blocks", "joined"}
        assert names["results"] == list(expected.result_names), text
        assert names["result_blocks"] == list(expected.result_blocks), text
        assert len(names["joined"]) == len(expected.joined_names), text
        assert set(names["joined"]) == set(expected.joined_names), text
        if names["meta"] != list(expected.meta_names):
            assert same_by_name(expected.group.instance, names["meta"], expected.meta_names), (text, names)
        return expected

    def _refuses(self, text: str, error: QueryError, prepare: Callable[[], object]) -> None:
        try:
            prepare()
        except QueryError as found:
            assert told(found) == told(error), text
        else:
            raise AssertionError(f"taken, though {error.condition}: {text}")


def parts(compiled: CompiledQuery) -> tuple[object, ...]:
    """What a query about absence or with steps is made of."""
    made = [(part.text, part.compiled.group, part.compiled.template) for part in compiled.parts]
    about = () if compiled.absence is None else (compiled.absence.ends, compiled.absence.shown)
    return compiled.level, compiled.is_made, *about, *made


def told(error: QueryError) -> tuple[object, ...]:
    """What an error says."""
    return type(error), error.condition, error.line, error.column, error.message, error.hint


def same_by_name(instance: Instance, found: Sequence[str | None], expected: Sequence[str | None]) -> bool:
    """Whether giving each node the place that its name has elsewhere leaves the instance what it is."""
    count = len(instance.nodes)
    width = len(instance.variables)
    if sorted(map(str, found)) != sorted(map(str, expected)):
        return False
    edges = {
        *(("tree", *edge) for edge in instance.tree_edges),
        *(("output", *edge) for edge in instance.output_edges),
        *((j.left, j.right, (j.kind, j.fn_l, j.fn_r, j.f, j.add, j.op)) for j in instance.joins),
    }

    def moved(edge: tuple[object, ...], to: Sequence[int]) -> tuple[object, ...]:
        if isinstance(edge[0], str):
            return (edge[0], to[edge[1]], to[edge[2]])  # type: ignore[index]
        return (to[edge[0]], to[edge[1]], edge[2])  # type: ignore[index]

    def fits(place: int, other: int) -> bool:
        if instance.nodes[place] != instance.nodes[other] or (place < width) != (other < width):
            return False
        if place in instance.results and place != other:
            return False
        return place >= width or found[place] == expected[other]

    def search(to: list[int]) -> bool:
        if len(to) == count:
            return {moved(edge, to) for edge in edges} == edges
        return any(search([*to, other]) for other in range(count) if other not in to and fits(len(to), other))

    return search([])


# -- texts that nearly say the same ------------------------------------------------------------------------------

KEYWORDS = ("followed", "by", "join", "and", "unbounded", "once", "in", "maxwindow")
NAMES = ("x", "y", "a", "b", "S", "T", "author", "lower", "join", "once", "min", "s", "and", "text", "x'", "x''", "été")
"""Names for variables, those of other things among them."""
WINDOWS = (
    "1 h",
    "5 s",
    "'PT5M'",
    "60 min",
    "0 s..2 s",
    "UNBOUNDED",
    "MAXWINDOW 5 s",
    "ONCE",
    "7 days",
    "5",
    "1 s..0 s",
)


def words(tokens: Sequence[Token]) -> list[str]:
    """Tokens as they are written."""
    return [_quoted(token.value) if token.kind == "string" else token.value for token in tokens if token.kind != "end"]


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def variables(written: Sequence[str]) -> list[str]:
    """Those that ``->`` or AS binds."""
    return [b for a, b in zip(written, written[1:], strict=False) if a == "->" or a.lower() == "as"]


def renamed(choose: Choices, written: Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """With other names for its variables, some of them from ``names``."""
    old = variables(written)
    pool = [*names, *(f"v{place}" for place in range(len(old)))]
    new = [pool.pop(choose.count(0, len(pool) - 1)) for _ in old]
    name = dict(zip(old, new, strict=True))
    return [name.get(word, word) for word in written]


def with_other_cases(choose: Choices, written: Sequence[str]) -> list[str]:
    """With keywords in other cases; brackets have ``or`` and ``not`` in one case only, so they are left alone."""
    found, depth = [], 0
    for word in written:
        depth += (word == "[") - (word == "]")
        change = choose.one(str.lower, str.upper, str.title)
        found.append(change(word) if word.lower() in KEYWORDS and not depth else word)
    return found


def with_brackets_permuted(choose: Choices, written: Sequence[str]) -> list[str]:
    """With brackets that stand side by side, outside of braces, in another order."""
    found: list[str] = []
    place, braces = 0, 0
    while place < len(written):
        word = written[place]
        braces += (word == "{") - (word == "}")
        if word != "[" or braces:
            found.append(word)
            place += 1
            continue
        groups = []
        while place < len(written) and written[place] == "[":
            end = _closing(written, place)
            groups.append(["[", *with_brackets_permuted(choose, written[place + 1 : end - 1]), "]"])
            place = end
        while groups:
            found += groups.pop(choose.count(0, len(groups) - 1))
    return found


def _closing(written: Sequence[str], place: int) -> int:
    depth = 0
    for at in range(place, len(written)):
        depth += (written[at] in ("[", "(")) - (written[at] in ("]", ")"))
        if depth == 0:
            return at + 1
    return len(written)


def _parted(written: Sequence[str], separator: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    depth = 0
    for word in written:
        depth += (word in ("[", "(")) - (word in ("]", ")"))
        if depth == 0 and word.lower() == separator:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def with_other_joins(choose: Choices, written: Sequence[str], *, windows: bool) -> list[str]:
    """With atoms in another order and, if wanted, other windows."""
    found: list[str] = []
    place = 0
    names = variables(written)
    while place < len(written):
        found.append(written[place])
        place += 1
        if found[-1] != "{":
            continue
        end = next((at for at in range(place, len(written)) if written[at] == "}"), len(written))
        parts = _parted(written[place:end], ",")
        if parts and any(word in ("=", "!=", "<", "<=", ">", ">=") for word in parts[0]):
            atoms = _parted(parts[0], "and")
            parts[0] = []
            while atoms:
                parts[0] += [*atoms.pop(choose.count(0, len(atoms) - 1)), "AND"]
            parts[0].pop()
            if windows:
                parts = [parts[0], *([_window(choose, names)] for _ in range(choose.one(0, 1, 1, 2)))]
        for number, part in enumerate(parts):
            found += [","] * (number > 0) + part
        place = end
    return found


def _window(choose: Choices, names: Sequence[str]) -> str:
    if choose.chance(70):
        return choose.one(*WINDOWS)
    later, earlier = choose.one(*names), choose.one(*names)
    return f"{later} - {earlier} IN {choose.one('[', '(')}{choose.one('0 s', '-3 s', '3 s', '-UNBOUNDED')}, 2 s]"


def with_other_constants(choose: Choices, written: Sequence[str]) -> list[str]:
    """With other constants in brackets."""
    found, depth = [], 0
    for word in written:
        depth += (word == "[") - (word == "]")
        if depth and word[0] == "'" and choose.chance(60):
            found.append(choose.one("'x'", "'y'", "'1'", "'2026-01-01'", "''"))
        elif depth and word[0].isdigit() and choose.chance(60):
            found.append(choose.one("0", "1", "1.5", "2"))
        else:
            found.append(word)
    return found


def broken(choose: Choices, written: Sequence[str]) -> list[str]:
    """With a word or two replaced, doubled, left out or moved; often no query any more."""
    found = list(written)
    for _ in range(choose.one(1, 1, 2)):
        at = choose.count(0, len(found) - 1)
        kind = choose.count(0, 4)
        other = choose.one(
            "0", "1", "2", "3", "'1'", "x", ",", "[", "]", "{", "}", "(", ")", "AND", "=", "/", "-", *found
        )
        if kind == 0:
            found[at] = other
        elif kind == 1:
            found.insert(at, other)
        elif kind == 2 and len(found) > 1:
            del found[at]
        elif kind == 3:
            to = choose.count(0, len(found) - 1)
            found[at], found[to] = found[to], found[at]
        else:
            # A number for a variable, or one variable for another.
            places = [place for place, word in enumerate(found) if word in variables(found)]
            if places:
                found[choose.one(*places)] = choose.one("0", "1", "2", *variables(found))
    return found


def near(choose: Choices, text: str) -> str:
    """A text that says the same, or nearly."""
    written = words(tokenize(text))
    if choose.chance(90):
        # Forms do not know AS.
        written = ["->" if word == "AS" else word for word in written]
    if choose.chance(40):
        return " ".join(with_other_constants(choose, written))
    if choose.chance(60):
        written = renamed(choose, written, NAMES if choose.chance(30) else ())
    if choose.chance(60):
        written = with_brackets_permuted(choose, written)
    if choose.chance(70):
        written = with_other_joins(choose, written, windows=choose.chance(60))
    if choose.chance(30):
        written = with_other_cases(choose, written)
    if choose.chance(25):
        written = broken(choose, written)
    return spaced(choose, written) if choose.chance(30) else " ".join(written)
