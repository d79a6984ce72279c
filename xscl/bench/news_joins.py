"""Baselines of ``people``: the same questions asked of DuckDB in two ways, and by a program written by hand.

All begin with the texts of documents, which lxml parses.  DuckDB takes an id once, and its files keep texts, items
and pairs, as a home does; the program keeps items and pairs in memory.  Times and numbers of items grow together, so
the older one of a pair has the smaller number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from lxml import etree

from xscl.base.values import digest_text
from xscl.bench.news import LONGEST_S, Item, Question, Selection, Shape

__all__ = ["Found", "Way", "ways"]

Found = set[tuple[int, int, int]]
"""Number of the question, older and newer item."""
Text = tuple[int, int, str]
"""Number and event time of an item, and its document."""
_COLUMNS = (
    *("number", "seconds", "feed", "language", "title", "lower_title", "description", "link", "length"),
    *("id", "digest", "text"),
)
_CONDITIONS = {
    "feed": "{side}.feed = {value}",
    "language": "{side}.language = {value}",
    "length": "{side}.length > {value}",
    "word": "contains({side}.title, {value})",
}


class Way(Protocol):
    """One way to answer all questions."""

    def take(self, texts: Sequence[Text]) -> None:
        """Take new items in, and keep the pairs that they complete."""

    def found(self) -> Found:
        """Return all pairs that were found."""


def ways(asked: Sequence[Question], most_statements: int, folder: Path) -> dict[str, Way]:
    """Make the ways: hand-written, and on DuckDB, with files in a folder, where it is installed.

    A statement a question is left out where these are more than ``most_statements``.
    """
    made: dict[str, Way] = {"python": _Program(asked)}
    if find_spec("duckdb"):
        made["duckdb"] = _Statements(_templates(asked), folder / "templates.duckdb")
        if len(asked) <= most_statements:
            single = [_single(number, each) for number, each in enumerate(asked)]
            made["duckdb_each"] = _Statements(single, folder / "each.duckdb")
    return made


def _items(texts: Iterable[Text]) -> Iterator[Item]:
    for number, at, text in texts:
        value = {child.tag: child.text or "" for child in etree.fromstring(text)}
        yield Item(
            number,
            at,
            value["channel_url"],
            value["language"],
            value["title"],
            value["description"],
            value["item_url"],
        )


# -- by hand -------------------------------------------------------------------------------------------------------


class _Program:
    """Dictionaries from values to earlier items; the questions of a shape are tried on every pair that they give."""

    def __init__(self, asked: Sequence[Question]) -> None:
        self._asked: dict[Shape, list[tuple[int, Question]]] = defaultdict(list)
        for number, question in enumerate(asked):
            self._asked[question.shape].append((number, question))
        self._earlier: dict[Shape, dict[str, list[Item]]] = {shape: defaultdict(list) for shape in self._asked}
        self._found: Found = set()

    def take(self, texts: Sequence[Text]) -> None:
        """Take new items in, and keep the pairs that they complete."""
        for item in _items(texts):
            for shape, earlier in self._earlier.items():
                partners = earlier[shape.key(item)]
                for partner in partners:
                    self._meet(shape, partner, item)
                partners.append(item)

    def _meet(self, shape: Shape, one: Item, other: Item) -> None:
        apart = other.at - one.at
        if apart > LONGEST_S or shape.feeds and (one.feed == other.feed) != (shape.feeds == "="):
            return
        for number, asked in self._asked[shape]:
            if apart > asked.window_s:
                continue
            left, right = asked.left, asked.right
            if (left.holds(one) and right.holds(other)) or (shape.once and left.holds(other) and right.holds(one)):
                self._found.add((number, one.number, other.number))

    def found(self) -> Found:
        """Return all pairs that were found."""
        return self._found


# -- DuckDB --------------------------------------------------------------------------------------------------------

Statement = tuple[str, pa.Table | None]
"""Text, and the table ``questions`` that it reads."""


class _Statements:
    """Tables of all items and of new ones, and statements that join them; a transaction takes a batch."""

    def __init__(self, statements: Sequence[Statement], path: Path) -> None:
        import duckdb

        self._database = duckdb.connect(path, config={"threads": 1})
        # Statements take twice as long where they unpack columns.
        self._database.execute("pragma force_compression = 'uncompressed'")
        types = dict.fromkeys(_COLUMNS, "varchar") | dict.fromkeys(("number", "seconds", "length"), "bigint")
        columns = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        self._database.execute(f"create table items ({columns})")
        self._database.execute(f"create temp table fresh ({columns})")
        self._database.execute("create table found (question bigint, older bigint, newer bigint)")
        self._texts = []
        for place, (text, questions) in enumerate(statements):
            if questions is not None:
                self._database.register("given", questions)
                self._database.execute(f"create table questions_{place} as select * from given")
            self._texts.append(text.replace("questions", f"questions_{place}"))

    def take(self, texts: Sequence[Text]) -> None:
        """Take new items in, and keep the pairs that they complete."""
        columns = (pa.array(column) for column in zip(*map(_row, _items(texts), texts), strict=True))
        self._database.register("given", pa.table(dict(zip(_COLUMNS, columns, strict=True))))
        self._database.execute("begin")
        self._database.execute("delete from fresh")
        self._database.execute("insert into fresh select * from given where id not in (select id from items)")
        self._database.execute("insert into items select * from fresh")
        for text in self._texts:
            self._database.execute(text)
        self._database.execute("commit")

    def found(self) -> Found:
        """Return all pairs that were found."""
        return set(self._database.execute("select question, older, newer from found").fetchall())


def _row(item: Item, text: Text) -> tuple[str | int, ...]:
    """Return the values of ``_COLUMNS``."""
    words = (item.title, item.title.lower(), item.description, item.link, len(item.description))
    document = text[2]
    return item.number, item.at, item.feed, item.language, *words, f"d{item.number}", digest_text(document), document


def _templates(asked: Sequence[Question]) -> list[Statement]:
    """Write one statement a shape; what the questions differ in stands in a table, NULL where there is no condition."""
    of_shape: dict[Shape, list[tuple[int, Question]]] = defaultdict(list)
    for number, question in enumerate(asked):
        of_shape[question.shape].append((number, question))
    found = []
    for shape, those in of_shape.items():
        columns: dict[str, pa.Array] = {
            "question": pa.array([number for number, _ in those]),
            "window_s": pa.array([question.window_s for _, question in those]),
        }
        for side in ("left", "right"):
            for name in _CONDITIONS:
                type_ = pa.int64() if name == "length" else pa.string()
                values = [getattr(getattr(question, side), name) for _, question in those]
                columns[f"{side}_{name}"] = pa.array(values, type_)
        used = {name for name, values in columns.items() if values.null_count < len(values)}

        def holds(side: str, item: str, used: set[str] = used) -> list[str]:
            return [
                f"(q.{side}_{name} is null or {text.format(side=item, value=f'q.{side}_{name}')})"
                for name, text in _CONDITIONS.items()
                if f"{side}_{name}" in used
            ]

        found.append((_statement(shape, holds, "q.question", "q.window_s", "join questions q on"), pa.table(columns)))
    return found


def _single(number: int, asked: Question) -> Statement:
    """Write the statement of one question."""

    def holds(side: str, item: str) -> list[str]:
        selection: Selection = getattr(asked, side)
        values = {name: getattr(selection, name) for name in _CONDITIONS}
        return [
            text.format(side=item, value=values[name] if name == "length" else f"'{values[name]}'")
            for name, text in _CONDITIONS.items()
            if values[name] is not None
        ]

    return _statement(asked.shape, holds, str(number), str(asked.window_s), "where"), None


def _statement(
    shape: Shape, holds: Callable[[str, str], list[str]], question: str, window_s: str, condition: str
) -> str:
    """Write a statement: the pairs that a shape joins, then what a question asks of them."""
    key = "lower_title" if shape.lower else shape.field
    feeds = f"and a.feed {shape.feeds} b.feed" if shape.feeds else ""
    orders = [("p.a", "p.b"), ("p.b", "p.a")] if shape.once else [("p.a", "p.b")]
    either = " or ".join(
        f"({' and '.join([*holds('left', one), *holds('right', other)]) or 'true'})" for one, other in orders
    )
    return (
        f"insert into found with p as materialized (select a, b from items a join fresh b on a.{key} = b.{key} "
        f"where a.number < b.number {feeds} and b.seconds - a.seconds <= {LONGEST_S}) "
        f"select {question}, p.a.number, p.b.number from p {condition} p.b.seconds - p.a.seconds <= {window_s} "
        f"and ({either})"
    )
