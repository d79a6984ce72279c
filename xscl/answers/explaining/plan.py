"""Plan of the registered queries: which m-ops run for them, and which rules have made them, as rows, text and graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.explaining.operators import EVERY, Queried, operators_of
from xscl.base.errors import EngineError
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_facts, read_streams
from xscl.catalog.queries import query_info
from xscl.catalog.records import QueryInfo
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import IS_LISTED, NEVER, QUERIES
from xscl.language.compiled import CompiledQuery
from xscl.language.forms import Preparer
from xscl.registry.query_list import IS_WRITTEN, QueryFilter, list_queries
from xscl.templates.rules import KINDS, RULES, MOp, Operator, Rule, named_rules, planned
from xscl.templates.statements.picture import GraphFormat

__all__ = ["MOST_PLANNED", "PLAN_COLUMNS", "QueryPlan", "chosen_rules", "plan_of", "plan_rows", "query_plan"]

MOST_PLANNED = 10_000
"""Queries whose plan is made for a statement, or a call of the service."""
PLAN_COLUMNS = ("mop", "kind", "rule", "operators", "queries", "inputs")
"""Columns of the relation ``plan``."""

_FEW = 5
"""Constants that are shown of more."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The m-ops that run for some queries."""

    mops: tuple[MOp, ...]
    operators: int
    queries: int
    publish: Mapping[str, str]
    """Channel to which a query's answers go, by its name."""

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each m-op, those that others read before these."""
        return [
            {
                "mop": f"m{each.number}",
                "kind": each.kind,
                "rule": each.rule or None,
                "operators": len(each.operators),
                "queries": len(each.queries),
                "inputs": [_name(one) for one in each.inputs],
                "streams": each.streams,
                "text": _words(each),
                "publishes": list(self._publishes(each)),
            }
            for each in self.mops
        ]

    def record(self) -> dict[str, object]:
        """Return the plan as a record of JSON."""
        return {"mops": self.rows(), "operators": self.operators, "queries": self.queries}

    def text(self) -> str:
        """Return a line for each m-op, and how many there are."""
        letters = self._letters()
        cells = []
        for each in self.mops:
            streams = f"→ {letters[each.number]} ({each.streams} streams)" if each.number in letters else ""
            made = ", ".join([*filter(None, [streams]), *(f"→ {name}" for name in self._publishes(each))])
            inputs = ", ".join(letters.get(one, _name(one)) if isinstance(one, int) else one for one in each.inputs)
            cells.append(
                (f"m{each.number}", _words(each), inputs, made, _number(len(each.queries), "query"), each.rule)
            )
        widths = [max((len(row[at]) for row in cells), default=0) for at in range(6)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        of = f"{_number(self.operators, 'operator')} of {_number(self.queries, 'query')}"
        return "\n".join([*lines, f"{_number(len(self.mops), 'm-op')} for {of}"])

    def graph(self, language: GraphFormat) -> str:
        """Return the plan as a graph of channels and m-ops."""
        match language:
            case GraphFormat.text:
                return self.text()
            case GraphFormat.dot:
                return "\n".join(self._dot())
            case GraphFormat.mermaid:
                return "\n".join(self._mermaid())

    def _letters(self) -> dict[int, str]:
        """Return the names of channels that have several streams, by m-op."""
        taken = {one for each in self.mops for one in each.inputs if isinstance(one, str)} | {*self.publish.values()}
        free = (name for name in _names() if name not in taken)
        return {each.number: next(free) for each in self.mops if each.streams > 1}

    def _publishes(self, mop: MOp) -> Iterator[str]:
        """Yield the channels to which queries publish whose last operator this is."""
        last = {each.query for each in mop.operators if each.is_last} & self.publish.keys()
        yield from dict.fromkeys(sorted(self.publish[query] for query in last))

    def _edges(self) -> Iterator[tuple[str | int, str | int, str]]:
        letters = self._letters()
        for each in self.mops:
            yield from ((one, each.number, letters.get(one, "") if isinstance(one, int) else "") for one in each.inputs)
            yield from ((each.number, channel, "") for channel in self._publishes(each))

    def _dot(self) -> Iterator[str]:
        channels = _numbered(self._edges())
        yield "digraph plan {"
        yield "  rankdir=LR;"
        yield from (f"  c{number} [label={_quoted(name)}, shape=ellipse];" for name, number in channels.items())
        for each in self.mops:
            yield f"  m{each.number} [label={_quoted(_label(each))}, shape=box];"
        for left, right, letter in self._edges():
            label = f" [label={_quoted(letter)}]" if letter else ""
            yield f"  {_node(left, channels)} -> {_node(right, channels)}{label};"
        yield "}"

    def _mermaid(self) -> Iterator[str]:
        channels = _numbered(self._edges())
        yield "flowchart LR"
        yield from (f'  c{number}(["{_escaped(name)}"])' for name, number in channels.items())
        yield from (f'  m{each.number}["{_escaped(_label(each))}"]' for each in self.mops)
        for left, right, letter in self._edges():
            arrow = f"-- {letter} -->" if letter else "-->"
            yield f"  {_node(left, channels)} {arrow} {_node(right, channels)}"


def chosen_rules(names: str) -> tuple[Rule, ...]:
    """Return rules by their names.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``.
    """
    try:
        return named_rules(names)
    except ValueError as error:
        raise EngineError(
            "XSCL_BAD_OPTION",
            f"there is no rule {error.args[0]!r}",
            hint=f"all, none, s, c, or some of {', '.join(f'{rule.name} ({rule.word})' for rule in RULES)}",
        ) from None


def query_plan(catalog: Catalog, like: str | None = None, rules: str = "all", most: int | None = None) -> QueryPlan:
    """Return the m-ops that run for live queries.

    Args:
        catalog: has the queries.
        like: a pattern of names of queries: ``*`` is any text, ``?`` any character; None: all queries.
        rules: names of the rules that put operators together.
        most: most queries that are planned; None: any number.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: there is no such rule.  ``XSCL_PLAN_LIMIT``: there are too many queries.
    """
    chosen = chosen_rules(rules)
    queries = list(list_queries(catalog, QueryFilter(like=like, suspended=False)))
    _refuse_many(len(queries), most)
    with catalog.read() as connection:
        return plan_of(connection, queries, chosen)


def plan_rows(connection: Connection) -> list[dict[str, object]]:
    """Return the rows of the relation ``plan``.

    Raises:
        EngineError: ``XSCL_PLAN_LIMIT``.
    """
    live = sa.and_(QUERIES.c.docid_until == NEVER, IS_WRITTEN)
    _refuse_many(connection.scalar(sa.select(sa.func.count()).select_from(QUERIES).where(live)) or 0, MOST_PLANNED)
    rows = connection.execute(sa.select(QUERIES).where(live).order_by(QUERIES.c.qid)).mappings()
    found = plan_of(connection, list(map(query_info, rows)), RULES).rows()
    return [{**{name: row[name] for name in PLAN_COLUMNS}, "inputs": ", ".join(row["inputs"])} for row in found]


def _refuse_many(queries: int, most: int | None) -> None:
    if most is not None and queries > most:
        raise EngineError(
            "XSCL_PLAN_LIMIT",
            f"a plan of {queries:,} queries takes long; at most {most:,} are planned here",
            hint="xscl plan --like PATTERN, or xscl plan on the home, which plans any number",
        )


def plan_of(connection: Connection, queries: Sequence[QueryInfo], rules: Sequence[Rule]) -> QueryPlan:
    """Return the m-ops that rules make of the operators of some queries."""
    facts = read_facts(connection)
    labels = {stream.name: stream.channel for stream in read_streams(connection).values()}

    preparers: dict[tuple[tuple[str, str], ...], Preparer] = {}

    def compiled(text: str, namespaces: Mapping[str, str]) -> CompiledQuery:
        key = tuple(sorted(namespaces.items()))
        if key not in preparers:
            preparers[key] = Preparer(namespaces, facts)
        return preparers[key].prepare_text(text).compiled

    def sub_query(name: str) -> Queried | None:
        row = connection.execute(sa.select(QUERIES).where(QUERIES.c.qid == name, IS_LISTED)).mappings().first()
        if row is None:
            return None
        return Queried(name, row.text, read_stored(QUERIES.c.namespaces, row.namespaces), row.level)

    groups: dict[int, list[Operator]] = {}
    operators: list[Operator] = []
    for info in queries:
        if info.gid not in groups:
            groups[info.gid] = operators_of(
                Queried(info.name, info.text, info.namespaces, info.level), compiled, sub_query
            )
        operators += (replace(each, query=info.name) for each in groups[info.gid])
    publish = {info.name: info.publish for info in queries if info.publish is not None}
    return QueryPlan(planned(operators, rules, labels), len(operators), len(queries), publish)


# -- words ---------------------------------------------------------------------------------------------------------


def _words(mop: MOp) -> str:
    """Return what an m-op does."""
    texts: dict[str, list[str]] = {}
    for each in mop.operators:
        texts.setdefault(each.text, []).append(each.constants)
    said = [_filled(text, sorted(set(constants), key=_order)) for text, constants in texts.items()]
    more = [f"and {len(said) - _FEW} others"] if len(said) > _FEW else []
    sign = "index " if mop.kind == "select" and mop.rule and [*texts] != [EVERY] else ""
    return sign + "; ".join([*said[:_FEW], *more])


def _filled(text: str, constants: Sequence[str]) -> str:
    """Return words with the constants that stand for {}."""
    if constants == [""]:
        return text
    more = [f"and {len(constants) - _FEW} others"] if len(constants) > _FEW else []
    said = ", ".join([*constants[:_FEW], *more])
    return text.removesuffix("{}") + (f"{{{said}}}" if len(constants) > 1 else said)


def _order(constant: str) -> tuple[int, Fraction, str]:
    try:
        return 0, Fraction(constant), constant
    except ValueError:
        return 1, Fraction(0), constant


def _number(number: int, word: str) -> str:
    plural = {"query": "queries"}.get(word, f"{word}s")
    return f"{number:,} {word if number == 1 else plural}"


def _name(source: str | int) -> str:
    return source if isinstance(source, str) else f"m{source}"


def _names() -> Iterator[str]:
    """Yield C to Z, and then these with numbers."""
    letters = "CDEFGHIJKLMNOPQRSTUVWXYZ"
    yield from letters
    yield from (f"{letter}{number}" for number in count(1) for letter in letters)


def _label(mop: MOp) -> str:
    rule = f" ({mop.rule})" if mop.rule else ""
    return f"m{mop.number} {KINDS[mop.kind]}{rule}: {_words(mop)}"


def _numbered(edges: Iterator[tuple[str | int, str | int, str]]) -> dict[str, int]:
    """Return numbers of the channels of edges."""
    names = dict.fromkeys(end for left, right, _ in edges for end in (left, right) if isinstance(end, str))
    return {name: number for number, name in enumerate(names, start=1)}


def _node(end: str | int, channels: Mapping[str, int]) -> str:
    return f"m{end}" if isinstance(end, int) else f"c{channels[end]}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _escaped(text: str) -> str:
    return (
        text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
    )
