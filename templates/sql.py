"""The conjunctive query CQ_T of a template as one SQL statement (thesis 6.4), for people and for tests.

The engine evaluates all templates by a better shared plan (``program``, ``join``, ``resolve``); tests hold that plan
equal to these statements, which run unchanged on Spark SQL and on SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, and_, case, false, not_, or_, select, true
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import IdentifierPreparer, SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.sql.selectable import NamedFromClause

from xscl.base.docids import PUBLISHED, SERIAL_BITS, place_words
from xscl.templates.graph import MIRRORED
from xscl.templates.relations import R_BIN, R_DOC, R_DOCTS, R_GUARD, R_MEMBER, rt_table
from xscl.templates.template import Template

__all__ = ["SparkDialect", "cq_statement", "spark_text"]


class _BacktickPreparer(IdentifierPreparer):
    def __init__(self, dialect: DefaultDialect) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`")


class SparkDialect(DefaultDialect):
    """Enough of Spark SQL to print a SELECT."""

    name = "spark"
    supports_native_boolean = True
    preparer: type[IdentifierPreparer] = _BacktickPreparer
    supports_statement_cache = True


def spark_text(statement: Select[tuple[object, ...]]) -> str:
    """Return the statement as Spark SQL, with its constants written out, a line for every relation and every
    condition.
    """
    text = str(statement.compile(dialect=SparkDialect(), compile_kwargs={"literal_binds": True}))
    relations, where, conditions = text.replace(" \n", "\n").partition("\nWHERE ")
    relations = relations.replace(" LEFT OUTER JOIN ", "\n  LEFT JOIN ").replace(" JOIN ", "\n  JOIN ")
    relations = relations.replace("LEFT\n  JOIN", "LEFT JOIN")
    return place_words(relations + where + "\n  AND ".join(_conjuncts(conditions)))


def _conjuncts(text: str) -> Iterator[str]:
    """Iterate over the parts of a condition between the ANDs that stand in no parentheses."""
    part: list[str] = []
    depth = 0
    for piece in text.split(" AND "):
        part.append(piece)
        depth += piece.count("(") - piece.count(")")
        if depth == 0:
            yield " AND ".join(part)
            part = []


def cq_statement(
    template: Template, *, streams: bool = True, exchanges: bool = True, guards: bool = True
) -> Select[tuple[object, ...]]:
    """CQ_T over ``rt_<template>``, ``r_bin``, ``r_doc``, ``r_docts``, ``r_member`` and ``r_guard``.

    Rows: (qid, case, docid1…, node1…), one per query and combination of bindings of its meta-variables.  R_docTS says
    more than times, because versions of one item never join and ONCE orders equal times by channel and id.  Without
    ``streams`` it is for queries and documents that know none, without ``exchanges`` for queries whose R_T has no
    ``exchange_i_j``, without ``guards`` for queries that have none.
    """
    found = _Matched(template, streams, guards, "")
    statement = select(
        found.rt.c.qid,
        found.rt.c.case,
        *(doc.c.docid.label(f"docid{i}") for i, doc in enumerate(found.docs, start=1)),
        *(found.query.nodes[place].label(f"node{place + 1}") for place in range(template.width)),
    )
    conditions = found.conditions
    if exchanges and template.block_count > 1:
        conditions.append(not_(_exchanged(template, streams, guards, found)))
    return statement.select_from(found.query.source).distinct().where(and_(*conditions))


class _Matched:
    """The relations of a template's matches joined, and their conditions, whatever ``exchange_i_j`` says."""

    def __init__(self, template: Template, streams: bool, guards: bool, mark: str) -> None:
        """``mark`` ends the names of relations, so that they may stand in one statement with others."""
        self.rt = rt = rt_table(template).alias(f"rt{mark}")
        self.query = query = _Conjunction(rt)
        # R_T first, then the first block, then along the value joins: every relation is entered with something bound,
        # which matters to engines that join in the written order.
        _bind_block(query, rt, template, 0, mark)
        for edge in _reachable_order(template):
            left, right, kind = template.joins[edge - 1]
            values = {side: R_DOC.alias(f"{side}{edge}{mark}") for side in ("l", "r")}
            sides = [("l", left), ("r", right)]
            # From the side whose document is known to the other one.
            sides.sort(key=lambda side: template.blocks[side[1]] not in query.docids)
            for number, (side, place) in enumerate(sides):
                doc = values[side]
                on = [doc.c.fn == rt.c[f"fn_{side}_{edge}"]]
                if number == 1:
                    on.append(_comparison(rt, edge, kind, values["l"], values["r"]))
                query.join(doc, on, template.blocks[place], [(place, doc.c.node)])
        for block in range(1, template.block_count):
            _bind_block(query, rt, template, block, mark)
        self.docs = docs = [R_DOCTS.alias(f"d{block + 1}{mark}") for block in range(template.block_count)]
        members = [R_MEMBER.alias(f"m{block + 1}{mark}") for block in range(template.block_count)]
        for block, doc in enumerate(docs):
            query.join(doc, [], block, [])
        self.conditions = _document_conditions(template, rt, docs)
        for block, (doc, member) in enumerate(zip(docs, members, strict=True), start=1) if streams else ():
            stream = rt.c[f"stream{block}"]
            of_stream = and_(member.c.docid == doc.c.docid, member.c.stream == stream)
            query.source = query.source.join(member, of_stream, isouter=True)
            self.conditions.append(or_(member.c.docid.is_not(None), and_(stream.is_(None), doc.c.whole == true())))
        for block, doc in enumerate(docs, start=1) if guards else ():
            held, guard = R_GUARD.alias(f"g{block}{mark}"), rt.c[f"guard{block}"]
            satisfied = and_(held.c.docid == doc.c.docid, held.c.guard == guard)
            query.source = query.source.join(held, satisfied, isouter=True)
            self.conditions.append(or_(guard.is_(None), held.c.docid.is_not(None)))


class _Greatest(GenericFunction[int]):
    """The greatest of some numbers."""

    name = "greatest"
    inherit_cache = True


@compiles(_Greatest, "sqlite")
def _greatest_on_sqlite(element: _Greatest, compiler: SQLCompiler, **options: Any) -> str:
    return f"max({compiler.process(element.clauses, **options)})"


def _exchanged(template: Template, streams: bool, guards: bool, found: _Matched) -> ColumnElement[bool]:
    """Tell whether the query matches with two neighbouring members exchanged, and that match is complete before this
    one.

    Where both are complete with one document, the match whose left member is first counts as the earlier one.
    Without streams both have the same documents.
    """
    other = _Matched(template, streams, guards, "x")
    last, other_last = (_Greatest(*(_place(doc.c.docid) for doc in docs)) for docs in (found.docs, other.docs))
    ways = []
    for i in range(len(found.docs) - 1):
        docs = list(found.docs)
        docs[i], docs[i + 1] = docs[i + 1], docs[i]
        right_first = not_(_is_first(found.docs[i], found.docs[i + 1]))
        ways.append(
            and_(
                found.rt.c[f"exchange_{i + 1}_{i + 2}"] == true(),
                or_(other_last < last, and_(other_last == last, right_first)) if streams else right_first,
                *(
                    and_(mine.c.channel == theirs.c.channel, mine.c.id == theirs.c.id)
                    for mine, theirs in zip(other.docs, docs, strict=True)
                ),
            )
        )
    inner = select(other.rt.c.qid).select_from(other.query.source)
    return (
        inner.where(and_(other.rt.c.qid == found.rt.c.qid, or_(*ways), *other.conditions))
        .correlate(found.query.source, found.rt, *found.docs)
        .exists()
    )


class _Conjunction:
    """A chain of joins that remembers which column each document and each meta-variable was first bound to."""

    def __init__(self, first: FromClause) -> None:
        self.source = first
        self.docids: dict[int, ColumnElement[int]] = {}
        self.nodes: dict[int, ColumnElement[int]] = {}

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
        self.source = self.source.join(relation, and_(true(), *on))


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


def _comparison(rt: FromClause, edge: int, kind: str, left: FromClause, right: FromClause) -> ColumnElement[bool]:
    """Return what a value join asks of two rows of R_doc; numbers are compared as doubles."""
    if kind == "EQ":
        return left.c.strval == right.c.strval
    if kind == "NE":
        return left.c.strval != right.c.strval
    f, add, op, alone = (rt.c[f"{name}_{edge}"] for name in ("f", "add", "op", "alone"))
    of_numbers = rt.c[f"fn_l_{edge}"].like("number%")
    numbers = or_(
        *(
            and_(alone == side, op == name, one.c.num.bool_op(name)(f * other.c.num + add))
            for side, one, other in (("l", left, right), ("r", right, left))
            for name in MIRRORED
        )
    )
    # Without arithmetic the left side stands alone.
    strings = or_(*(and_(op == name, left.c.strval.bool_op(name)(right.c.strval)) for name in ("<", "<=", ">", ">=")))
    return or_(and_(of_numbers, numbers), and_(not_(of_numbers), strings))


def _bind_block(query: _Conjunction, rt: FromClause, template: Template, block: int, mark: str) -> None:
    """Return the structural facts of one block; a block of one variable v has rows (v, v, n, n)."""
    places = [place for place in range(template.width) if template.blocks[place] == block]
    edges = [(template.parents[place], place) for place in places if template.parents[place] >= 0]
    for upper, lower in edges or [(places[0], places[0])]:
        fact = R_BIN.alias(f"b{lower + 1}{mark}")
        on = [fact.c.var1 == rt.c[f"var{upper + 1}"], fact.c.var2 == rt.c[f"var{lower + 1}"]]
        query.join(fact, on, block, [(upper, fact.c.node1), (lower, fact.c.node2)])


def _document_conditions(template: Template, rt: FromClause, docs: Sequence[FromClause]) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [_place(doc.c.docid) > rt.c.sees_from for doc in docs]
    conditions += [or_(rt.c.ts_from.is_(None), doc.c.ts >= rt.c.ts_from) for doc in docs]
    if template.block_count > 1:
        conditions += [doc.c.late == false() for doc in docs]
    for i, j in template.pairs:
        a, b = docs[i - 1], docs[j - 1]
        difference = b.c.ts - a.c.ts
        first = _is_first(a, b)
        conditions += [
            a.c.item != b.c.item,
            difference >= rt.c[f"lo_{i}_{j}"],
            difference <= rt.c[f"hi_{i}_{j}"],
            or_(rt.c[f"once_{i}_{j}"] == 0, and_(rt.c[f"once_{i}_{j}"] == 1, first), _is_last(rt, i, j, first)),
        ]
    return conditions


def _is_first(a: FromClause, b: FromClause) -> ColumnElement[bool]:
    """Tell whether one row of R_docTS is before another by (ts, channel, id)."""
    return or_(
        a.c.ts < b.c.ts,
        and_(
            a.c.ts == b.c.ts,
            or_(a.c.channel < b.c.channel, and_(a.c.channel == b.c.channel, a.c.id < b.c.id)),
        ),
    )


def _place(docid: ColumnElement[int]) -> ColumnElement[int]:
    """``places.place_of`` of a column."""
    published = (docid - PUBLISHED).self_group().bitwise_rshift(SERIAL_BITS)
    return case((docid >= PUBLISHED, published), else_=docid)


def _is_last(rt: FromClause, i: int, j: int, first: ColumnElement[bool]) -> ColumnElement[bool]:
    return and_(rt.c[f"once_{i}_{j}"] == -1, not_(first))
