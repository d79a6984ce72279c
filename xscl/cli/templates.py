"""``xscl template``: queries grouped by the shape of their joins."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.base.terminal import give
from xscl.cli.options import CatalogOption, FormatOption, HomeOption, JsonOption, format_of, open_given, say
from xscl.cli.printing import Format, print_rows
from xscl.templates.picture import GraphFormat

__all__ = ["template_app"]

template_app = typer.Typer(no_args_is_help=True, help="Query templates: queries grouped by the shape of their joins.")


@template_app.command("list")
def template_list(
    home: HomeOption = None, catalog: CatalogOption = None, format: FormatOption = None, json: JsonOption = False
) -> None:
    """List templates, those with most queries first."""
    from xscl.cli.next_steps import no_queries

    rows = [
        {
            "template": template.id,
            "blocks": template.block_count,
            "variables": template.width,
            "joins": len(template.joins),
            "queries": queries,
            "groups": groups,
            "shape": template.certificate,
        }
        for template, queries, groups in open_given(home, catalog).catalog.templates()
    ]
    columns = ["template", "blocks", "variables", "joins", "queries", "groups", "shape"]
    short = ["template", "blocks", "joins", "queries", "groups", "shape"]
    if not print_rows(rows, columns, format_of(format, json), short=short):
        say(no_queries())


@template_app.command("show")
def template_show(
    template: str,
    graph: Annotated[GraphFormat | None, typer.Option(help="Print only the join graph, so.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    json: JsonOption = False,
) -> None:
    """Show a template: its join graph, and how many queries have it."""
    from xscl.answers.explain import template_facts, template_text
    from xscl.templates.picture import join_graph

    opened = open_given(home, catalog)
    if json:
        print_rows([template_facts(opened.catalog, template)], [], Format.json)
    elif graph is not None:
        give(join_graph(opened.catalog.template(template), graph))
    else:
        give(template_text(opened.catalog, template))


@template_app.command("sql")
def template_sql(template: str, home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """Print a template's conjunctive query as Spark SQL; it runs in 'xscl sql' as it is."""
    from xscl.templates.sql import cq_statement, spark_text

    give(spark_text(cq_statement(open_given(home, catalog).catalog.template(template))))


@template_app.command("datalog")
def template_datalog(template: str, home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """Print a template's conjunctive query as a Datalog rule, as the thesis writes it."""
    from xscl.templates.picture import datalog

    give(datalog(open_given(home, catalog).catalog.template(template)))
