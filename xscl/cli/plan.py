"""``xscl plan``: what runs for the registered queries."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.base.terminal import give
from xscl.cli.options import JsonOption, ServedOptions
from xscl.cli.printing import Format, print_rows
from xscl.templates.statements.picture import GraphFormat

__all__ = ["plan"]


def plan(
    like: Annotated[
        str | None, typer.Option("--like", metavar="PATTERN", help="Only queries whose names fit, with * and ?.")
    ] = None,
    rules: Annotated[
        str,
        typer.Option(
            "--rules", metavar="LIST", help="What these rules alone would make: all, none, s, c, or names, with commas."
        ),
    ] = "all",
    graph: Annotated[GraphFormat | None, typer.Option(help="Draw it, so.")] = None,
    json: JsonOption = False,
    *,
    at: ServedOptions,
) -> None:
    """Show what runs for the registered queries: operators, put together to m-ops by rules, and what each reads.

    Example: xscl plan --like 'ramp*'
    xscl plan --rules none
    """
    from xscl.answers.explaining.plan import query_plan
    from xscl.cli.remote_answers import remote_plan

    language = None if json else graph or GraphFormat.text
    if (client := at.client(only_home=True)) is not None:
        found = remote_plan(client, like, rules, language)
    else:
        made = query_plan(at.open().catalog, like, rules)
        found = made.record() if language is None else made.graph(language)
    if language is None:
        print_rows([found], [], Format.json)
    else:
        give(found)
