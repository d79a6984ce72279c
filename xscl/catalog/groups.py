"""Groups of queries, instances, templates, variables and guards: the one module that writes their tables.

The tables are ``groups``, ``instances``, ``templates``, ``variables``, ``guards``, and an
``rt_<template>`` for each template.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy import Column, Integer, MetaData, Table
from sqlalchemy.engine import Connection

from xscl.catalog.insertions import add_rows
from xscl.catalog.parts import remove_parts
from xscl.catalog.stored_json import read_stored
from xscl.catalog.suggestions import find_template, no_template
from xscl.catalog.tables import (
    GROUPS,
    GUARDS,
    INSTANCES,
    IS_LISTED,
    NEVER,
    PARTS,
    QUERIES,
    TEMPLATES,
    VARIABLES,
    in_parts,
)
from xscl.templates.graph import EdgeKind
from xscl.templates.statements.relations import SUBSCRIBED, held_columns, rt_table
from xscl.templates.template import Template

__all__ = [
    "add_groups",
    "add_guards",
    "add_instances",
    "add_rt_rows",
    "add_template",
    "add_variables",
    "channels_json",
    "counts_rows",
    "create_rt",
    "owner_use",
    "put_derived",
    "read_rt_rows",
    "read_template",
    "read_template_use",
    "read_templates",
    "remove_groups",
    "remove_variables",
    "replace_rt_rows",
    "starts_after_losses",
    "stored_rt",
    "stored_template",
    "template_values",
]

Row = Mapping[str, object]

# -- templates -------------------------------------------------------------------------------------------------


def stored_template(row: sa.Row[tuple[object, ...]]) -> Template:
    """Return the template of a row of ``templates``."""
    return Template(
        id=row.template,
        certificate=row.certificate,
        blocks=tuple(read_stored(TEMPLATES.c.blocks, row.blocks)),
        parents=tuple(read_stored(TEMPLATES.c.parents, row.parents)),
        joins=read_stored(TEMPLATES.c.joins, row.joins, _joins),
    )


def _joins(text: str) -> tuple[tuple[int, int, EdgeKind], ...]:
    return tuple((left, right, kind) for left, right, kind in json.loads(text))


def read_templates(connection: Connection) -> list[Template]:
    """Return every template, without counting its queries."""
    return [stored_template(row) for row in connection.execute(sa.select(TEMPLATES))]


def read_template(connection: Connection, name: str) -> Template:
    """Return a template by its id, or by the beginning of an id that no other template has.

    Raises:
        CatalogError: there is none, or more than one.
    """
    found = find_template(connection, name)
    if found is None:
        raise no_template(connection, name)
    return stored_template(connection.execute(sa.select(TEMPLATES).where(TEMPLATES.c.template == found)).one())


def read_template_use(connection: Connection) -> list[tuple[Template, int, int]]:
    """Return (template, live queries, groups of live queries) of every template, most queries first."""
    counts = (
        sa.select(
            QUERIES.c.template,
            sa.func.count().label("queries"),
            sa.func.count(sa.distinct(QUERIES.c.gid)).label("groups"),
        )
        .where(QUERIES.c.docid_until == NEVER)
        .group_by(QUERIES.c.template)
        .subquery()
    )
    statement = sa.select(TEMPLATES, counts.c.queries, counts.c.groups).outerjoin(
        counts, counts.c.template == TEMPLATES.c.template
    )
    rows = connection.execute(statement).all()
    found = [(stored_template(row), row.queries or 0, row.groups or 0) for row in rows]
    return sorted(found, key=lambda item: (-item[1], item[0].id))


def owner_use(connection: Connection, owner: str) -> tuple[int, int]:
    """Return how many live queries an owner has, and what they cost together (``CompiledQuery.cost``)."""
    mine = QUERIES.c.owner == owner, QUERIES.c.docid_until == NEVER
    queries = connection.scalar(sa.select(sa.func.count()).select_from(QUERIES).where(*mine)) or 0
    whole = sa.select(QUERIES.c.template, sa.func.count().label("queries")).group_by(QUERIES.c.template)
    whole = whole.where(*mine, ~sa.exists().where(PARTS.c.gid == QUERIES.c.gid))
    # Queries that are made of others cost what these do.
    made = sa.select(GROUPS.c.template, sa.func.count().label("queries")).group_by(GROUPS.c.template)
    made = made.join(PARTS, PARTS.c.part == GROUPS.c.gid).join(QUERIES, QUERIES.c.gid == PARTS.c.gid).where(*mine)
    counts: Counter[str] = Counter()
    for statement in (whole, made):
        counts.update({row.template: row.queries for row in connection.execute(statement)})
    costs = 0
    for some in in_parts(sorted(counts)):
        rows = connection.execute(sa.select(TEMPLATES).where(TEMPLATES.c.template.in_(some)))
        costs += sum(stored_template(row).cost * counts[row.template] for row in rows)
    return queries, costs


@lru_cache(maxsize=1024)
def stored_rt(template: Template) -> Table:
    """Return the stored form of ``rt_<template>``: a row per group and case, which the relation fans out to queries."""
    columns = [
        Column(column.name, column.type)
        for column in rt_table(template).columns
        if column.name not in ("qid", *SUBSCRIBED, *held_columns(template))
    ]
    key = sa.PrimaryKeyConstraint("gid", "case")
    return Table(f"rt_{template.id}", MetaData(), Column("gid", Integer), *columns, key)


def read_rt_rows(connection: Connection, template: Template, query: str | None = None) -> list[dict[str, object]]:
    """Return the rows of ``rt_<template>``: one per live query and case, or those of one query that is listed."""
    stored = stored_rt(template)
    columns = [column for column in stored.c if column.name != "gid"]
    of_query = (QUERIES.c.docid_until == NEVER,) if query is None else (QUERIES.c.qid == query, IS_LISTED)
    of_queries = (QUERIES.c[name] for name in ("qid", *SUBSCRIBED, "docid_from", "held_from"))
    statement = (
        sa.select(*of_queries, *columns)
        .join(stored, stored.c.gid == QUERIES.c.gid)
        .where(*of_query)
        .order_by(QUERIES.c.qid, stored.c.case)
    )
    return _with_held_times(connection, template, [dict(row._mapping) for row in connection.execute(statement)])


def _with_held_times(
    connection: Connection, template: Template, rows: Sequence[dict[str, object]]
) -> list[dict[str, object]]:
    """Give ``held_from`` of queries by the blocks whose channels it speaks of."""
    tops = [f"var{template.blocks.index(block) + 1}" for block in range(template.block_count)]
    names = {row[top] for row in rows if row["held_from"] is not None for top in tops}
    channels: dict[object, str] = {}
    for part in in_parts(sorted(names, key=str)):
        of_part = sa.select(VARIABLES.c.var, VARIABLES.c.channel).where(VARIABLES.c.var.in_(part))
        channels.update((var, channel) for var, channel in connection.execute(of_part))
    for row in rows:
        text = row.pop("held_from")
        held = {} if text is None else read_stored(QUERIES.c.held_from, str(text))
        row.update((f"held{block}", held.get(channels.get(row[top]))) for block, top in enumerate(tops, start=1))
    return list(rows)


def starts_after_losses(connection: Connection, template: Template) -> bool:
    """Tell whether a live query of a template started with history when retention had taken events."""
    mine = QUERIES.c.template == template.id, QUERIES.c.docid_until == NEVER, QUERIES.c.held_from.is_not(None)
    return connection.execute(sa.select(QUERIES.c.query).where(*mine).limit(1)).first() is not None


def counts_rows(connection: Connection, template: Template) -> bool:
    """Tell whether a group of a template has a row window."""
    stored = stored_rt(template)
    some = [stored.c[f"n{block}"].is_not(None) for block in range(1, template.block_count + 1)]
    return connection.execute(sa.select(stored.c.gid).where(sa.or_(*some)).limit(1)).first() is not None


# -- adding ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 10)
def channels_json(channels: frozenset[str]) -> str:
    """Return the channels that a group reads, and the streams it names, as they are kept: sorted."""
    return json.dumps(sorted(channels), ensure_ascii=False)


def template_values(template: Template) -> dict[str, object]:
    """Return a template's row of ``templates``."""
    return {
        "template": template.id,
        "certificate": template.certificate,
        "blocks": json.dumps(template.blocks),
        "parents": json.dumps(template.parents),
        "joins": json.dumps(template.joins),
    }


def add_template(connection: Connection, template: Template) -> None:
    """Add a template, and the table of its groups' cases."""
    create_rt(connection, template)
    connection.execute(TEMPLATES.insert().values(**template_values(template)))


def add_instances(connection: Connection, rows: Sequence[Row]) -> None:
    """Add rows of instances."""
    add_rows(connection, INSTANCES.insert(), rows)


def add_groups(connection: Connection, rows: Sequence[Row]) -> None:
    """Add rows of groups."""
    add_rows(connection, GROUPS.insert(), rows)


def add_rt_rows(connection: Connection, template: Template, rows: Sequence[Row]) -> None:
    """Add rows of groups' cases to the table of their template."""
    add_rows(connection, stored_rt(template).insert(), rows)


def add_variables(connection: Connection, rows: Sequence[Row]) -> None:
    """Add rows of variables."""
    if rows:
        connection.execute(VARIABLES.insert(), rows)


def add_guards(connection: Connection, rows: Sequence[Row]) -> None:
    """Add rows of guards that are not there."""
    there: set[str] = set()
    for part in in_parts([row["guard"] for row in rows]):
        there.update(connection.scalars(sa.select(GUARDS.c.guard).where(GUARDS.c.guard.in_(part))))
    add_rows(connection, GUARDS.insert(), [row for row in rows if row["guard"] not in there])


# -- removing --------------------------------------------------------------------------------------------------


def remove_groups(connection: Connection, used: Collection[int]) -> None:
    """Remove groups without a query that are not ``used`` by stored matches, and what only they have.

    The greatest numbers stay, because numbers are not given out again.
    """
    last = connection.scalar(sa.select(sa.func.max(GROUPS.c.gid))) or 0
    asked = sa.exists().where(QUERIES.c.gid == GROUPS.c.gid)
    remove_parts(connection, last, used)
    of_absence = sa.exists().where(PARTS.c.part == GROUPS.c.gid)
    free = sa.select(GROUPS.c.gid, GROUPS.c.template).where(~asked, ~of_absence, GROUPS.c.gid < last)
    by_template: dict[str, list[int]] = {}
    for gid, template in connection.execute(free):
        if gid not in used:
            by_template.setdefault(template, []).append(gid)
    templates = {template.id: template for template in read_templates(connection)}
    for name, gids in by_template.items():
        cases = stored_rt(templates[name])
        for part in in_parts(gids):
            connection.execute(cases.delete().where(cases.c.gid.in_(part)))
            connection.execute(GROUPS.delete().where(GROUPS.c.gid.in_(part)))
    last = connection.scalar(sa.select(sa.func.max(INSTANCES.c.iid))) or 0
    has_group = INSTANCES.c.iid.in_(sa.select(GROUPS.c.iid))
    connection.execute(INSTANCES.delete().where(~has_group, INSTANCES.c.iid < last))
    _remove_guards(connection, templates.values())


def remove_variables(connection: Connection, keys: Sequence[int]) -> None:
    """Remove variables that no query has."""
    for part in in_parts(keys):
        connection.execute(VARIABLES.delete().where(VARIABLES.c.key.in_(part)))


def _remove_guards(connection: Connection, templates: Iterable[Template]) -> None:
    """Remove guards that no group has."""
    used: set[str | None] = set()
    for template in templates:
        cases = stored_rt(template)
        for block in range(1, template.block_count + 1):
            used.update(connection.scalars(sa.select(cases.c[f"guard{block}"]).distinct()))
    gone = [name for name in connection.scalars(sa.select(GUARDS.c.guard)) if name not in used]
    for part in in_parts(gone):
        connection.execute(GUARDS.delete().where(GUARDS.c.guard.in_(part)))


# -- mending ---------------------------------------------------------------------------------------------------


def create_rt(connection: Connection, template: Template) -> None:
    """Make the table of a template's cases if it is not there."""
    stored_rt(template).create(connection, checkfirst=True)


def replace_rt_rows(connection: Connection, template: Template, gid: int, rows: Sequence[Row]) -> None:
    """Replace the cases of a group."""
    cases = stored_rt(template)
    connection.execute(cases.delete().where(cases.c.gid == gid))
    add_rt_rows(connection, template, rows)


def put_derived(connection: Connection, table: Table, values: Row) -> None:
    """Add or replace a row of ``groups``, ``instances``, ``templates``, ``variables`` or ``guards``, all columns."""
    (number,) = table.primary_key.columns
    changed = connection.execute(sa.update(table).where(number == values[number.name]).values(**values))
    if not changed.rowcount:
        connection.execute(sa.insert(table).values(**values))
