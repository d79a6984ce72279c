"""Facts about one template: as a record, as a text for people, and as a statement of SQL."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from xscl.answers.explaining.explain import NAMED, query_names, template_sizes
from xscl.answers.explaining.step_templates import step_facts, step_sql_text, step_text
from xscl.answers.explaining.text import columns, count
from xscl.base.errors import CatalogError
from xscl.catalog.catalog import Catalog
from xscl.catalog.groups import counts_rows, read_rt_rows, read_template, starts_after_losses
from xscl.catalog.parts import read_parts_of
from xscl.catalog.queries import read_query
from xscl.catalog.steps import is_step
from xscl.registry.query_list import QueryFilter
from xscl.templates.statements.dialect import Dialect
from xscl.templates.statements.dialects import statement_text
from xscl.templates.statements.picture import GraphFormat, join_graph
from xscl.templates.statements.sql import cq_statement, query_statement
from xscl.templates.template import Template

__all__ = ["template_facts", "template_sql_text", "template_text"]


def template_facts(catalog: Catalog, name: str) -> dict[str, object]:
    """Collect the facts about a template as one record of JSON.

    Raises:
        CatalogError: there is none of that id.
    """
    if is_step(name):
        return step_facts(catalog, name)
    template, queries, groups, names = catalog.ask(_use, name)
    return {
        "template": template.id,
        "shape": template.certificate,
        "blocks": template.block_count,
        "variables": [
            {"variable": f"var{place + 1}", "block": block + 1, "parent": None if above < 0 else f"var{above + 1}"}
            for place, (block, above) in enumerate(zip(template.blocks, template.parents, strict=True))
        ],
        "joins": [
            {"edge": f"e{number}", "left": f"var{left + 1}", "right": f"var{right + 1}", "kind": kind}
            for number, (left, right, kind) in enumerate(template.joins, start=1)
        ],
        "queries": queries,
        "groups": groups,
        "examples": list(names),
    }


def _use(connection: Connection, name: str) -> tuple[Template, int, int, tuple[str, ...]]:
    """Return a template, how many live queries and groups have it, and the names of the first queries."""
    template = read_template(connection, name)
    names = query_names(connection, QueryFilter(template=template.id, suspended=False, limit=NAMED))
    return (template, *template_sizes(connection, template), names)


def template_text(catalog: Catalog, name: str) -> str:
    """Write a template for a person to read.

    Raises:
        CatalogError: there is none of that id.
    """
    if is_step(name):
        return step_text(catalog, name)
    template, queries, groups, names = catalog.ask(_use, name)
    more = queries - len(names)
    examples = ", ".join(names) + (f" and {more:,} more" if more else "")
    rows = [
        ("template", template.id),
        ("shape", template.certificate),
        (
            "size",
            ", ".join(
                (
                    count(template.block_count, "block"),
                    count(template.width, "meta-variable"),
                    count(len(template.joins), "value join"),
                )
            ),
        ),
        ("queries", f"{queries:,} in {count(groups, 'group')}: {examples}" if queries else "none"),
    ]
    lines = [line.removeprefix("  ") for line in columns(rows)]
    return "\n".join([*lines, "", join_graph(template, GraphFormat.text)])


_JOINS_ALONE = "-- The joins alone: what must not be there is taken away, and windows are made, once that is certain."


def template_sql_text(catalog: Catalog, name: str, query: str | None, dialect: Dialect) -> str:
    """Write the statement of a template, over ``rt_<template>`` or ``rs_<step>``, or with the constants of one query.

    Raises:
        CatalogError: there is no template of that id, no such query, or it has another template.
    """
    if is_step(name):
        return step_sql_text(catalog, name, query)
    with catalog.read() as connection:
        template = read_template(connection, name)
        if query is None:
            rows, held = counts_rows(connection, template), starts_after_losses(connection, template)
            return statement_text(cq_statement(template, rows=rows, held=held), dialect)
        info = read_query(connection, query)
        if info.template != template.id:
            raise CatalogError(
                "XSCL_TEMPLATE_NOT_FOUND",
                f"the query {query} has the template {info.template}, not {template.id}",
                hint=f"xscl template sql {info.template} --query {query}",
            )
        text = statement_text(query_statement(template, read_rt_rows(connection, template, query)), dialect)
        return f"{_JOINS_ALONE}\n{text}" if read_parts_of(connection, [info.gid]) else text
