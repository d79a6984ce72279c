"""The relations that queries of templates speak of, declared once (architecture: R_docTS, R_bin, R_doc, R_T, R_out).

These are SQLAlchemy tables so that one statement runs on Spark SQL and on SQLite.  Times are microseconds since the
epoch, variables are 16 hex digits of the digest of their definition.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, MetaData, String, Table

from xscl.templates.bounds import UNBOUNDED, UNLESS_EXCHANGED
from xscl.templates.graph import solved
from xscl.templates.template import Group, Template

__all__ = [
    "R_BIN",
    "R_DOC",
    "R_DOCTS",
    "R_GUARD",
    "R_MEMBER",
    "R_ORDINAL",
    "RELATIONS",
    "SUBSCRIBED",
    "held_columns",
    "rt_rows",
    "rt_table",
    "var_key",
    "var_name",
]

RELATIONS = MetaData()
SUBSCRIBED = ("sees_from", "ts_from")
"""Columns of R_T in which queries of one group differ: which members they see."""

R_DOCTS = Table(
    "r_docts",
    RELATIONS,
    Column("docid", BigInteger),
    Column("ts", BigInteger),
    Column("channel", String),
    Column("id", String),
    Column("item", BigInteger),
    Column("late", Boolean),
    Column("whole", Boolean, comment="false: a copy that a stream brought later, and not the event itself"),
)
"""Every document, and every later copy by another stream of its source."""
R_MEMBER = Table(
    "r_member",
    RELATIONS,
    Column("docid", BigInteger),
    Column("stream", Integer),
)
"""The streams of each document."""
R_ORDINAL = Table(
    "r_ordinal",
    RELATIONS,
    Column("docid", BigInteger),
    Column("channel", String),
    Column("ordinal", BigInteger, comment="how many events of the channel came before it"),
)
"""The events of each channel in the intake order, which row windows count."""
R_GUARD = Table(
    "r_guard",
    RELATIONS,
    Column("docid", BigInteger),
    Column("guard", String, comment="16 hex digits"),
)
"""The guards of blocks that each document satisfies."""
R_BIN = Table(
    "r_bin",
    RELATIONS,
    Column("docid", BigInteger),
    Column("var1", String),
    Column("var2", String),
    Column("node1", Integer),
    Column("node2", Integer),
)
R_DOC = Table(
    "r_doc",
    RELATIONS,
    Column("docid", BigInteger),
    Column("node", Integer),
    Column("fn", String, comment="the function applied, '' for none"),
    Column("strval", String),
    Column("num", Double, comment="XPath number(), NULL where it is none"),
)


def var_name(key: int) -> str:
    """Return a variable's name in the relations: its 64-bit digest in hex."""
    return f"{key & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def var_key(name: str) -> int:
    """Return the digest that ``var_name`` wrote.

    >>> var_key(var_name(-5))
    -5
    """
    key = int(name, 16)
    return key - (1 << 64) if key >> 63 else key


def held_columns(template: Template) -> tuple[str, ...]:
    """Name the columns of R_T in which queries that start with history differ, beside ``SUBSCRIBED``."""
    return ("docid_from", *(f"held{block}" for block in range(1, template.block_count + 1)))


def rt_table(template: Template, metadata: MetaData | None = None) -> Table:
    """Return ``rt_<template>``, R_T of the thesis (6.4): one row per query (and case), with windows and operators as
    columns.

    ``once_i_j`` is 1 if only those count whose member of block i is first by (ts, channel, id), -1 if only those whose
    member of block j is, else 0.  With ``exchange_i_j`` a match does not count whose member of block j is first if the
    query matches with these two members exchanged, too.  ``f_e`` and ``add_e`` are the nearest doubles of exact
    fractions.  A match's members all come after place ``sees_from`` of the intake order, and have a ``ts`` of at least
    ``ts_from`` unless that is NULL (STARTING).  A block's document satisfies ``guard<i>`` unless that is NULL.  The
    document is among the ``n<i>`` newest events of its channel when the last member comes, unless that is NULL.  If it
    came up to place ``docid_from``, it has a ``ts`` of at least ``held<i>``, unless that is NULL.
    """
    columns: list[Column[object]] = [
        Column("qid", String),
        Column("case", Integer),
    ]
    columns += [Column(name, BigInteger) for name in SUBSCRIBED]
    columns += [Column(f"var{i}", String) for i in range(1, template.width + 1)]
    for edge in range(1, len(template.joins) + 1):
        columns += [
            Column(f"kind_{edge}", String),
            Column(f"fn_l_{edge}", String),
            Column(f"fn_r_{edge}", String),
            Column(f"f_{edge}", Double),
            Column(f"add_{edge}", Double),
            Column(f"op_{edge}", String),
            Column(
                f"alone_{edge}",
                String,
                comment="BAND: 'l' for left op f * right + add, 'r' for right op f * left + add",
            ),
        ]
    for i, j in template.pairs:
        columns += [
            Column(f"lo_{i}_{j}", BigInteger, comment=f"no bound: -{UNBOUNDED}"),
            Column(f"hi_{i}_{j}", BigInteger, comment=f"no bound: {UNBOUNDED}"),
            Column(f"once_{i}_{j}", Integer),
            Column(f"exchange_{i}_{j}", Boolean),
        ]
    columns += [
        Column(f"stream{block}", Integer, comment="the stream that the block names; NULL: its channel")
        for block in range(1, template.block_count + 1)
    ]
    columns += [
        Column(f"guard{block}", String, comment="the guard of the block; NULL: it has none")
        for block in range(1, template.block_count + 1)
    ]
    columns += [
        Column(f"n{block}", BigInteger, comment="how many newest events of its channel the block's is among; NULL: any")
        for block in range(1, template.block_count + 1)
    ]
    columns += [Column(name, BigInteger) for name in held_columns(template)]
    return Table(f"rt_{template.id}", metadata or MetaData(), *columns)


def rt_rows(template: Template, group: Group) -> list[dict[str, object]]:
    """Return the columns of R_T that a group fills, a row a case; others are the subscriber's."""
    streams = {f"stream{block + 1}": group.stream(block) or None for block in range(template.block_count)}
    guards = {f"guard{block + 1}": _guard_name(group, block) for block in range(template.block_count)}
    newest = {f"n{block + 1}": group.newest_rows(block) or None for block in range(template.block_count)}
    shared = {**_instance_columns(group), **streams, **guards, **newest}
    rows = []
    for number, case in enumerate(group.cases, start=1):
        row = {**shared, "case": number}
        for (i, j), bounds in zip(template.pairs, case, strict=True):
            either = bounds.order == UNLESS_EXCHANGED
            row |= {f"lo_{i}_{j}": bounds.lo, f"hi_{i}_{j}": bounds.hi, f"once_{i}_{j}": 0 if either else bounds.order}
            row[f"exchange_{i}_{j}"] = bounds.exchange or either
        rows.append(row)
    return rows


def _guard_name(group: Group, block: int) -> str | None:
    guard = group.guard(block)
    return None if guard is None else guard.name


def _instance_columns(group: Group) -> dict[str, object]:
    row: dict[str, object] = {}
    for place, var in enumerate(group.instance.variables, start=1):
        row[f"var{place}"] = var_name(var)
    for edge, join in enumerate(group.instance.joins, start=1):
        form = solved(join)
        row |= {
            f"kind_{edge}": join.kind,
            f"fn_l_{edge}": join.fn_l,
            f"fn_r_{edge}": join.fn_r,
            f"f_{edge}": float(form.f),
            f"add_{edge}": float(form.add),
            f"op_{edge}": form.op,
            f"alone_{edge}": form.alone,
        }
    return row
