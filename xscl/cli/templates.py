"""``xscl template``: queries grouped by the shape of their joins."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.base.terminal import give
from xscl.cli.commands import command
from xscl.cli.options import JsonOption, Printing, ServedOptions, say
from xscl.cli.printing import Format, print_rows
from xscl.templates.statements.dialect import Dialect
from xscl.templates.statements.picture import GraphFormat

__all__ = ["template_app"]

TemplateArgument = Annotated[str, typer.Argument(help="Its id, or the beginning that no other has.")]

template_app = typer.Typer(no_args_is_help=True, help="Query templates: queries grouped by the shape of their joins.")


@command(template_app, "list")
def template_list(at: ServedOptions, printing: Printing) -> None:
    """List templates, those with most queries first, and steps that queries share.

    Example: xscl template list
    """
    from xscl.answers.status import template_rows
    from xscl.cli.next_steps import no_queries

    client = at.client(only_home=True)
    rows = template_rows(at.open().catalog) if client is None else client.call("GET", "/v1/templates")["templates"]
    columns = ["template", "blocks", "variables", "joins", "queries", "groups", "shape"]
    short = ["template", "blocks", "joins", "queries", "groups", "shape"]
    if not print_rows(rows, columns, printing.chosen(), short=short):
        say(no_queries())


@command(template_app, "show")
def template_show(
    template: TemplateArgument,
    graph: Annotated[GraphFormat | None, typer.Option(help="Print only the join graph, so.")] = None,
    json: JsonOption = False,
    *,
    at: ServedOptions,
) -> None:
    """Show a template: its join graph, and how many queries have it.

    Example: xscl template show t2_09bc611bb4aa3c95 --graph mermaid
    """
    from xscl.answers.explaining.templates import template_facts, template_text
    from xscl.catalog.groups import read_template
    from xscl.templates.statements.picture import join_graph

    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote_answers import remote_graph, remote_template

        if graph is not None and not json:
            give(remote_graph(client, template, graph))
        elif json:
            print_rows([remote_template(client, template, json=True)], [], Format.json)
        else:
            give(remote_template(client, template, json=False))
        return
    opened = at.open()
    if json:
        print_rows([template_facts(opened.catalog, template)], [], Format.json)
    elif graph is not None:
        give(join_graph(opened.catalog.ask(read_template, template), graph))
    else:
        give(template_text(opened.catalog, template))


@command(template_app, "sql")
def template_sql(
    template: TemplateArgument,
    query: Annotated[
        str | None, typer.Option("--query", help="Print it for this query: its constants in place of 'rt_…'.")
    ] = None,
    dialect: Annotated[Dialect, typer.Option("--dialect", help="For which database.")] = Dialect.spark,
    *,
    at: ServedOptions,
) -> None:
    """Print a template's conjunctive query; 'xscl sql' runs it as it is, and other databases on exported relations.

    Example: xscl template sql t2_09bc611bb4aa3c95
    xscl template sql t2_09bc611bb4aa3c95 --query same_story --dialect duckdb
    """
    from xscl.answers.explaining.templates import template_sql_text

    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote_answers import remote_template_sql

        give(remote_template_sql(client, template, query, dialect))
        return
    give(template_sql_text(at.open().catalog, template, query, dialect))


@command(template_app, "datalog")
def template_datalog(template: TemplateArgument, at: ServedOptions) -> None:
    """Print a template's conjunctive query as a Datalog rule, as the thesis writes it.

    Example: xscl template datalog t2_09bc611bb4aa3c95
    """
    from xscl.catalog.groups import read_template
    from xscl.templates.statements.picture import datalog

    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote_answers import remote_datalog

        give(remote_datalog(client, template))
        return
    give(datalog(at.open().catalog.ask(read_template, template)))
