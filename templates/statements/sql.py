"""The conjunctive query CQ_T of a template as one SQL statement (thesis 6.4), for people and for tests.

The engine evaluates all templates by a better shared plan (``program``, ``join``, ``resolve``); tests hold that plan
equal to these statements, which run unchanged on Spark SQL and on SQLite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    FromClause,
    Select,
    case,
    false,
    not_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.sql.selectable import NamedFromClause

from xscl.base.docids import PUBLISHED, SERIAL_BITS
from xscl.templates.bounds import UNBOUNDED
from xscl.templates.graph import MIRRORED
from xscl.templates.statements.constants import (
    UNKNOWN,
    Columns,
    Constants,
    all_of,
    any_of,
    decided,
    is_constant,
    is_null,
    unsettled,
    value_of,
)
from xscl.templates.statements.relations import (
    R_BIN,
    R_DOC,
    R_DOCTS,
    R_GUARD,
    R_MEMBER,
    R_ORDINAL,
    SUBSCRIBED,
    rt_table,
)
from xscl.templates.template import Template

__all__ = ["cq_statement", "query_statement"]


def cq_statement(
    template: Template,
    *,
    streams: bool = True,
    exchanges: bool = True,
    guards: bool = True,
    rows: bool = False,
    held: bool = False,
) -> Select[tuple[object, ...]]:
    """Make CQ_T over ``rt_<template>``, ``r_bin``, ``r_doc``, ``r_docts``, ``r_member`` and ``r_guard``.

    Rows: (qid, case, docid1…, node1…), one per query and combination of bindings of its meta-variables.  R_docTS says
    more than times, because versions of one item never join and ONCE orders equal times by channel and id.  Without
    ``streams`` it is for queries and documents that know none, without ``exchanges`` for queries whose R_T has no
    ``exchange_i_j``, without ``guards`` for queries that have none.  With ``rows``, and ``r_ordinal``, it is also for
    queries with row windows, with ``held`` for queries that came when retention had taken events.
    """
    found = _Matched(template, rt_table(template).alias("rt"), streams, guards, "", rows, held)
    conditions = found.conditions
    if exchanges and template.block_count > 1:
        other = _Matched(template, rt_table(template).alias("rtx"), streams, guards, "x", held=held)
        conditions.append(not_(_exchanged(found, other, streams)))
    return found.select().where(*unsettled(conditions))


def query_statement(
    template: Template, rows: Sequence[Mapping[str, object]]
) -> Select[tuple[object, ...]] | CompoundSelect[tuple[object, ...]]:
    """Make CQ_T for one query, whose rows of ``rt_<template>`` are given: their constants stand in place of the
    relation.

    A case is a SELECT of its own, and conditions that its constants settle are left out.
    """
    cases = []
    for row in rows:
        found = _Matched(template, Constants(template, row), True, True, "", True, True)
        conditions = found.conditions
        if any(row[name] for name in row if name.startswith("exchange_")):
            others = (_Matched(template, Constants(template, each), True, True, "x", held=True) for each in rows)
            conditions += [not_(_exchanged(found, other, True)) for other in others]
        cases.append(found.select().where(*unsettled(conditions)))
    return cases[0] if len(cases) == 1 else union_all(*cases)


class _Matched:
    """The relations of a template's matches joined, and their conditions, whatever ``exchange_i_j`` says."""

    def __init__(
        self,
        template: Template,
        rt: Columns,
        streams: bool,
        guards: bool,
        mark: str,
        rows: bool = False,
        held: bool = False,
    ) -> None:
        """``mark`` ends the names of relations, so that they may stand in one statement with others."""
        self.template = template
        self.rt = rt
        self.mark = mark
        self.query = query = _Conjunction(rt if isinstance(rt, FromClause) else None)
        # R_T first, then the first block, then along the value joins: every relation is entered with something bound,
        # which matters to engines that join in the written order.
        _bind_block(query, rt, template, 0, mark)
        for edge in _reachable_order(template):
            self._join_values(edge)
        for block in range(1, template.block_count):
            _bind_block(query, rt, template, block, mark)
        self.docs = docs = [R_DOCTS.alias(f"d{block + 1}{mark}") for block in range(template.block_count)]
        for block, doc in enumerate(docs):
            query.join(doc, [], block, [])
        self.conditions = [*query.conditions, *_document_conditions(template, rt, docs)]
        for block, doc in enumerate(docs, start=1) if held else ():
            if value_of(rt.c[f"held{block}"]) is not None:
                self._ask_time(block, doc)
        for block, doc in enumerate(docs, start=1) if streams else ():
            self._ask_stream(block, doc)
        for block, doc in enumerate(docs, start=1) if guards else ():
            if value_of(rt.c[f"guard{block}"]) is not None:
                self._ask_guard(block, doc)
        for block, doc in enumerate(docs, start=1) if rows and len(docs) > 1 else ():
            if value_of(rt.c[f"n{block}"]) is not None:
                self._count_rows(block, doc)

    def _join_values(self, edge: int) -> None:
        """Join the values of a value join, from the side whose document is known to the other one."""
        template, rt = self.template, self.rt
        left, right, kind = template.joins[edge - 1]
        values = {side: R_DOC.alias(f"{side}{edge}{self.mark}") for side in ("l", "r")}
        sides = [("l", left), ("r", right)]
        sides.sort(key=lambda side: template.blocks[side[1]] not in self.query.docids)
        for number, (side, place) in enumerate(sides):
            doc = values[side]
            on = [doc.c.fn == rt.c[f"fn_{side}_{edge}"]]
            if number == 1:
                on.append(_comparison(rt, edge, kind, values["l"], values["r"]))
            self.query.join(doc, on, template.blocks[place], [(place, doc.c.node)])

    def _ask_time(self, block: int, doc: NamedFromClause) -> None:
        """Ask that a block's event came after the query, or was held when the query came."""
        held, before = self.rt.c[f"held{block}"], self.rt.c["docid_from"]
        self.conditions.append(any_of(is_null(held), _place(doc.c.docid) > before, doc.c.ts >= held))

    def _ask_stream(self, block: int, doc: NamedFromClause) -> None:
        """Ask that a block's event came by the stream that the block names, or else by the channel itself."""
        member, stream = R_MEMBER.alias(f"m{block}{self.mark}"), self.rt.c[f"stream{block}"]
        if value_of(stream) is None:
            self.conditions.append(doc.c.whole == true())
            return
        of_stream = all_of(member.c.docid == doc.c.docid, member.c.stream == stream)
        self.query.left_join(member, of_stream)
        self.conditions.append(any_of(member.c.docid.is_not(None), all_of(is_null(stream), doc.c.whole == true())))

    def _ask_guard(self, block: int, doc: NamedFromClause) -> None:
        """Ask that a block's event satisfies the block's guard."""
        held, guard = R_GUARD.alias(f"g{block}{self.mark}"), self.rt.c[f"guard{block}"]
        satisfied = all_of(held.c.docid == doc.c.docid, held.c.guard == guard)
        self.query.left_join(held, satisfied)
        self.conditions.append(any_of(is_null(guard), held.c.docid.is_not(None)))

    def _count_rows(self, block: int, doc: NamedFromClause) -> None:
        """Ask that the event so many behind a block's has not come when the last member has."""
        own, other = R_ORDINAL.alias(f"o{block}{self.mark}"), R_ORDINAL.alias(f"p{block}{self.mark}")
        newest, last = self.rt.c[f"n{block}"], _Greatest(*(_place(each.c.docid) for each in self.docs))
        self.query.left_join(own, own.c.docid == doc.c.docid)
        behind = all_of(
            other.c.channel == own.c.channel, other.c.ordinal == own.c.ordinal + newest, other.c.docid <= last
        )
        self.query.left_join(other, behind)
        self.conditions.append(any_of(is_null(newest), other.c.docid.is_(None)))

    def select(self) -> Select[tuple[object, ...]]:
        """Select the query, the case, and the documents and nodes that match."""
        statement = select(
            self.rt.c["qid"].label("qid"),
            self.rt.c["case"].label("case"),
            *(doc.c.docid.label(f"docid{i}") for i, doc in enumerate(self.docs, start=1)),
            *(self.query.nodes[place].label(f"node{place + 1}") for place in range(self.template.width)),
        )
        return statement.select_from(self.query.joined).distinct()


class _Greatest(GenericFunction[int]):
    """The greatest of some numbers."""

    name = "greatest"
    inherit_cache = True


@compiles(_Greatest, "sqlite")
def _greatest_on_sqlite(element: _Greatest, compiler: SQLCompiler, **options: Any) -> str:
    return f"max({compiler.process(element.clauses, **options)})"


def _exchanged(found: _Matched, other: _Matched, streams: bool) -> ColumnElement[bool]:
    """Tell whether the query matches with two neighbouring members exchanged, and that match is complete before this
    one.

    Where both are complete with one document, the match whose left member is first counts as the earlier one.
    Without streams both have the same documents.
    """
    last, other_last = (_Greatest(*(_place(doc.c.docid) for doc in docs)) for docs in (found.docs, other.docs))
    ways = []
    for i in range(len(found.docs) - 1):
        docs = list(found.docs)
        docs[i], docs[i + 1] = docs[i + 1], docs[i]
        right_first = not_(_is_first(found.docs[i], found.docs[i + 1]))
        ways.append(
            all_of(
                is_constant(found.rt.c[f"exchange_{i + 1}_{i + 2}"], True),
                any_of(other_last < last, all_of(other_last == last, right_first)) if streams else right_first,
                *(
                    all_of(mine.c.channel == theirs.c.channel, mine.c.id == theirs.c.id)
                    for mine, theirs in zip(other.docs, docs, strict=True)
                ),
            )
        )
    same = true() if isinstance(other.rt, Constants) else other.rt.c["qid"] == found.rt.c["qid"]
    outer = [found.rt] if isinstance(found.rt, FromClause) else []
    return (
        select(other.rt.c["qid"])
        .select_from(other.query.joined)
        .where(all_of(same, any_of(*ways), *other.conditions))
        .correlate(found.query.joined, *outer, *found.docs)
        .exists()
    )


class _Conjunction:
    """A chain of joins that remembers which column each document and each meta-variable was first bound to."""

    def __init__(self, first: FromClause | None) -> None:
        self._source = first
        self.conditions: list[ColumnElement[bool]] = []
        """Conditions of a first relation, which is joined with nothing."""
        self.docids: dict[int, ColumnElement[int]] = {}
        self.nodes: dict[int, ColumnElement[int]] = {}

    @property
    def joined(self) -> FromClause:
        """Relations that were joined so far."""
        assert self._source is not None
        return self._source

    def left_join(self, relation: NamedFromClause, on: ColumnElement[bool]) -> None:
        """Join a relation that need not have a row."""
        self._source = self.joined.join(relation, on, isouter=True)

    def join(
        self,
        relation: NamedFromClause,
        on: list[ColumnElement[bool]],
        block: int,
        nodes: list[tuple[int, ColumnElement[int]]],
    ) -> None:
        """Join ``relation``, a row of block's document that speaks of these meta-variables' nodes."""
        docid = self.docids.setdefault(block, relation.c.docid)
        if docid is not relation.c.docid:
            on = [*on, relation.c.docid == docid]
        for place, column in nodes:
            known = self.nodes.setdefault(place, column)
            if known is not column:
                on = [*on, column == known]
        if self._source is None:
            self._source = relation
            self.conditions += on
        else:
            self._source = self._source.join(relation, all_of(*on))


def _reachable_order(template: Template) -> list[int]:
    """Return the value joins (from 1) in an order in which each, where possible, starts from a block that is known."""
    waiting = list(range(1, len(template.joins) + 1))
    known = {0}
    found = []
    while waiting:
        blocks = {edge: {template.blocks[place] for place in template.joins[edge - 1][:2]} for edge in waiting}
        edge = next((edge for edge in waiting if blocks[edge] & known), waiting[0])
        waiting.remove(edge)
        known |= blocks[edge]
        found.append(edge)
    return found


def _comparison(rt: Columns, edge: int, kind: str, left: FromClause, right: FromClause) -> ColumnElement[bool]:
    """Return what a value join asks of two rows of R_doc; numbers are compared as doubles."""
    if kind == "EQ":
        return left.c.strval == right.c.strval
    if kind == "NE":
        return left.c.strval != right.c.strval
    f, add, op, alone = (rt.c[f"{name}_{edge}"] for name in ("f", "add", "op", "alone"))
    fn = rt.c[f"fn_l_{edge}"]
    of_numbers = fn.like("number%") if value_of(fn) is UNKNOWN else decided(str(value_of(fn)).startswith("number"))
    numbers = any_of(
        *(
            all_of(is_constant(alone, side), is_constant(op, name), one.c.num.bool_op(name)(_line(f, add, other.c.num)))
            for side, one, other in (("l", left, right), ("r", right, left))
            for name in MIRRORED
        )
    )
    # Without arithmetic the left side stands alone.
    strings = any_of(
        *(all_of(is_constant(op, name), left.c.strval.bool_op(name)(right.c.strval)) for name in ("<", "<=", ">", ">="))
    )
    return any_of(all_of(of_numbers, numbers), all_of(not_(of_numbers), strings))


def _line(f: ColumnElement[Any], add: ColumnElement[Any], number: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return ``f * number + add``."""
    multiple = number if value_of(f) == 1.0 else f * number
    return multiple if value_of(add) == 0.0 else multiple + add


def _bind_block(query: _Conjunction, rt: Columns, template: Template, block: int, mark: str) -> None:
    """Return the structural facts of one block; a block of one variable v has rows (v, v, n, n)."""
    places = [place for place in range(template.width) if template.blocks[place] == block]
    edges = [(template.parents[place], place) for place in places if template.parents[place] >= 0]
    for upper, lower in edges or [(places[0], places[0])]:
        fact = R_BIN.alias(f"b{lower + 1}{mark}")
        on = [fact.c.var1 == rt.c[f"var{upper + 1}"], fact.c.var2 == rt.c[f"var{lower + 1}"]]
        query.join(fact, on, block, [(upper, fact.c.node1), (lower, fact.c.node2)])


def _document_conditions(template: Template, rt: Columns, docs: Sequence[FromClause]) -> list[ColumnElement[bool]]:
    sees_from, ts_from = (rt.c[name] for name in SUBSCRIBED)
    conditions: list[ColumnElement[bool]] = [_place(doc.c.docid) > sees_from for doc in docs]
    if value_of(ts_from) is not None:
        conditions += [any_of(is_null(ts_from), doc.c.ts >= ts_from) for doc in docs]
    if template.block_count > 1:
        conditions += [doc.c.late == false() for doc in docs]
    for i, j in template.pairs:
        a, b = docs[i - 1], docs[j - 1]
        difference, once = b.c.ts - a.c.ts, rt.c[f"once_{i}_{j}"]
        low, high = rt.c[f"lo_{i}_{j}"], rt.c[f"hi_{i}_{j}"]
        first = _is_first(a, b)
        conditions += [
            a.c.item != b.c.item,
            true() if value_of(low) == -UNBOUNDED else difference >= low,
            true() if value_of(high) == UNBOUNDED else difference <= high,
            any_of(
                is_constant(once, 0), all_of(is_constant(once, 1), first), all_of(is_constant(once, -1), not_(first))
            ),
        ]
    return conditions


def _is_first(a: FromClause, b: FromClause) -> ColumnElement[bool]:
    """Tell whether one row of R_docTS is before another by (ts, channel, id)."""
    return any_of(
        a.c.ts < b.c.ts,
        all_of(
            a.c.ts == b.c.ts,
            any_of(a.c.channel < b.c.channel, all_of(a.c.channel == b.c.channel, a.c.id < b.c.id)),
        ),
    )


def _place(docid: ColumnElement[int]) -> ColumnElement[int]:
    """Return ``docids.place_of`` of a column."""
    published = (docid - PUBLISHED).self_group().bitwise_rshift(SERIAL_BITS)
    return case((docid >= PUBLISHED, published), else_=docid)
