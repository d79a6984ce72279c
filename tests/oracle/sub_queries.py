"""The oracle of queries in parentheses, and of what is published as rows (docs/reference/language.md): each query
becomes the documents that it publishes, and is then a channel as any other.

A query sees the same of its queries in parentheses, whoever shares them: all of them are asked from its registration to
its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lxml import etree
from oracle.absence import FOR_EVER, Asked, Fed, Forbidden, Intake, Question, decided_rows
from oracle.aggregates import told
from oracle.evaluate import Columns, Doc, Row, bindings_rows, selected_variables
from oracle.nodes import parse
from oracle.publish import output
from oracle.steps import stepped

from xscl.language.syntax import ast

_NUMBERS = ("count", "sum", "avg", "min", "max")
Values = tuple[tuple[str, str], ...]
Types = Mapping[str, Mapping[str, bool]]
"""Columns of each channel of rows; whether they are numbers."""


@dataclass(frozen=True)
class Answered:
    """An answer: what SELECT lists, or else its document; its times, and the place at which it is given."""

    values: Values
    document: str
    start: int
    ts: int
    place: int


@dataclass(frozen=True)
class _Seen:
    """Documents that a query sees, with the columns of those that are rows."""

    intake: Intake
    types: Types

    @property
    def columns(self) -> dict[str, Columns]:
        found: dict[str, Columns] = {}
        for name, wanted in (("numeric", True), ("texts", False)):
            found[name] = {
                channel: frozenset(column for column, is_number in of.items() if is_number is wanted)
                for channel, of in self.types.items()
            }
        return found


def answered(query: ast.Query, intake: Intake, since: int = -1, until: int = FOR_EVER + 1) -> list[Answered]:
    """All answers to a query that is registered at a place and dropped at another."""
    return list(_answers(query, _with_sub_queries(query, intake, since, until), since, until))


def chained(asked: Sequence[Asked], intake: Intake, types: Types) -> list[list[Answered]]:
    """All answers to queries that publish rows, each with those of the queries before it that it reads.

    Args:
        asked: the queries, none before one that publishes what it reads.
        intake: what was taken in.
        types: columns of all channels of rows.
    """
    found = []
    for number, each in enumerate(asked):
        query, since, until = each.query, each.since, each.until
        mine = list(_answers(query, _Seen(intake, types), since, until))
        found.append(mine)
        if query.publish is None:
            continue
        new = {
            Doc(query.publish, f"{number}-{at}", one.ts, one.document, start=one.start if query.spanning else None): (
                one.place
            )
            for at, one in enumerate(mine)
        }
        fed = [*intake.fed.get(query.publish, ()), Fed(frozenset(b.channel for b in _blocks(query)), since, until)]
        intake = replace(intake, events={**intake.events, **new}, fed={**intake.fed, query.publish: fed})
    return found


def columns_of(query: ast.Query, types: Types) -> Mapping[str, bool]:
    """The columns that a query gives its rows, and whether they are numbers."""
    return dict(_types(query, types))


def _with_sub_queries(query: ast.Query, intake: Intake, since: int, until: int) -> _Seen:
    """What a query sees: the events, and what its queries in parentheses publish."""
    types: dict[str, Mapping[str, bool]] = {}
    new: dict[Doc, int] = {}
    fed = dict(intake.fed)
    for block in _blocks(query):
        if not isinstance(block, ast.SubQuery) or block.channel in fed:
            continue
        inner = _with_sub_queries(block.query, intake, since, until)
        for number, each in enumerate(_answers(block.query, inner, since, until)):
            new[Doc(block.channel, f"{number}", each.ts, each.document, start=each.start)] = each.place
        new |= {doc: place for doc, place in inner.intake.events.items() if doc not in intake.events}
        fed |= inner.intake.fed
        fed[block.channel] = [Fed(frozenset(each.channel for each in _blocks(block.query)), since, until)]
        types |= inner.types
        if isinstance(block.query.select, tuple):
            types[block.channel] = dict(_types(block.query, inner.types))
    return _Seen(replace(intake, events={**intake.events, **new}, fed=fed), types)


def _blocks(query: ast.Query) -> Iterable[ast.Block]:
    return (*ast.blocks(query.source), *(each.right for each in query.negations))


# -- answers -----------------------------------------------------------------------------------------------------


def _answers(query: ast.Query, seen: _Seen, since: int, until: int) -> Iterator[Answered]:
    intake = seen.intake
    if query.aggregate is not None:
        for window in told(Asked(query, since, until), intake, **seen.columns):
            yield Answered(window.values, _row(window.values), window.ts, window.ts, window.place)
    elif query.steps is not None:
        found: dict[object, Answered] = {}
        # Conditions of steps compare texts for equality, and numbers in all else.
        for step in stepped(Asked(query, since, until), intake, numeric=seen.columns["numeric"]):
            one = Answered(step.values, _row(step.values), step.start, step.ts, step.place)
            key = step.answer, step.values
            found[key] = min(found.get(key, one), one, key=lambda each: each.place)
        yield from found.values()
    else:
        yield from _distinct(query, _rows(query, seen, since, until))


def _rows(query: ast.Query, seen: _Seen, since: int, until: int) -> Iterator[tuple[Row, int, int]]:
    """Bindings of a query without steps and windows, with their times and places."""
    intake = seen.intake
    if query.negations:
        wanted = replace(query, negations=())
        question = Question(wanted, tuple(_forbidden(query, each) for each in query.negations), since, until)
        for one, row in decided_rows(question, intake, **seen.columns):
            yield row, one.ts, one.place
        return
    # What a query publishes of a late event is taken again at once, as if it were in time.
    judged = {
        replace(doc, late=doc.late and doc.channel not in intake.fed): place
        for doc, place in intake.judged().items()
        if since < place < until
    }
    docs = sorted(judged, key=lambda doc: judged[doc])
    for row in bindings_rows(query, docs, **seen.columns):
        yield row, max(doc.ts for doc in row.docs), max(judged[doc] for doc in row.docs)


def _forbidden(query: ast.Query, negation: ast.Negation) -> Forbidden:
    windows = tuple(w for w in negation.windows if not (isinstance(w, ast.Window) and w.kind == "between"))
    op: Literal["followed by", "join"] = "followed by" if negation.op == "not followed by" else "join"
    join = ast.Join(op, query.source, negation.right, negation.atoms, windows)
    return Forbidden(join, len(windows) < len(negation.windows))


def _distinct(query: ast.Query, rows: Iterable[tuple[Row, int, int]]) -> Iterator[Answered]:
    """The distinct matches of some bindings."""
    names, known = selected_variables(query.select), set()
    for row, ts, place in rows:
        key = row.docs, row.results, tuple(row.nodes[name] for name in names)
        if key in known:
            continue
        known.add(key)
        values = tuple(_values(query, row)) if isinstance(query.select, tuple) else ()
        document = _row(values) if values else output(query, row)
        start = min(doc.ts if doc.start is None else doc.start for doc in row.docs)
        yield Answered(values, document, start, ts, place)


def _values(query: ast.Query, row: Row) -> Iterator[tuple[str, str]]:
    assert isinstance(query.select, tuple)
    trees = [parse(doc.xml) for doc in row.docs]
    owner = {name: at for at, block in enumerate(ast.blocks(query.source)) for name, _ in _bound(block)}
    for item in query.select:
        tree = trees[owner[item.path.name]]
        node = next(n for n in tree.branch() if n.id == row.nodes[item.path.name] and n.kind != "document")
        yield item.name or item.path.name, node.string()


def _row(values: Values) -> str:
    """A row of these values, without those that are none."""
    root = etree.Element("row")
    for name, value in values:
        if value:
            etree.SubElement(root, name).text = value
    return etree.tostring(root, encoding="unicode")


# -- columns -----------------------------------------------------------------------------------------------------


def _types(query: ast.Query, types: Mapping[str, Mapping[str, bool]]) -> Iterator[tuple[str, bool]]:
    """The columns of a query's rows, and whether they are numbers."""
    measures = {each.text: each for each in query.measures}
    columns = {
        name: types.get(block.channel, {}).get(column, False)
        for block in ast.blocks(query.source)
        for name, column in _bound(block)
    }

    def is_number(operand: ast.Operand | None) -> bool:
        if not isinstance(operand, ast.Linear) or operand.path is None:
            return isinstance(operand, ast.Linear)
        if operand != ast.Linear(operand.path):
            return True
        measure = measures.get(operand.path.name)
        if measure is None:
            return columns.get(operand.path.name, False)
        return measure.function in _NUMBERS or is_number(measure.operand)

    assert isinstance(query.select, tuple)
    for item in query.select:
        yield item.name or item.path.name, is_number(ast.Linear(item.path))


def _bound(block: ast.Block) -> Iterator[tuple[str, str]]:
    """The variables of a block in brackets, each with the name of its element."""
    for predicate in block.predicates:
        if isinstance(predicate, ast.Truth) and isinstance(predicate.operand, ast.RelPath):
            last = predicate.operand.steps[-1]
            if last.binding:
                yield last.binding.name, last.test.local or ""
