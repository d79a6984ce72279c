"""``xscl match``: matches of standing queries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.cli_common import (
    MOST,
    CatalogOption,
    FormatOption,
    HomeOption,
    JsonOption,
    cut,
    format_of,
    open_given,
    time_given,
)
from xscl.listing import Format, print_rows

if TYPE_CHECKING:
    from xscl.types import Match

__all__ = ["match_app", "print_matches"]

match_app = typer.Typer(no_args_is_help=True, help="Matches of standing queries.")


@match_app.command("list")
def match_list(
    query: Annotated[str | None, typer.Argument(help="Only matches of this query.")] = None,
    since: Annotated[str | None, typer.Option(help="Match time at or after (ISO 8601 or seconds).")] = None,
    until: Annotated[str | None, typer.Option(help="Match time at or before.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, max=MOST, help="At most so many.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """List matches, sorted by time, query and match."""
    from xscl.matches import list_matches

    found = list_matches(
        open_given(home, catalog), query=query, since=time_given(since, "--since"), until=time_given(until, "--until")
    )
    print_matches(itertools.islice(found, limit), format_of(format, json, piped=Format.ndjson))


@match_app.command("show")
def match_show(match: str, home: HomeOption = None, catalog: CatalogOption = None, json: JsonOption = False) -> None:
    """Show one match with its output document; the first characters of its id suffice."""
    from xscl.matches import find_match, match_json
    from xscl.types import format_time

    found = find_match(open_given(home, catalog), match)
    if json:
        print_rows([match_json(found)], [], Format.ndjson)
        return
    lines = [f"match  {found.id}", f"query  {found.query}", f"time   {format_time(found.ts)}"]
    lines += [f"event  {e.channel}  {e.id}  {format_time(e.ts)}" for e in found.events]
    lines += [f"node   {name} = {node}" for name, node in found.nodes.items()]
    lines += [f"value  {name} = {value}" for name, value in found.values.items()]
    print("\n".join([*lines, "", found.document]))  # noqa: T201


def print_matches(found: Iterator[Match], format_: Format) -> None:
    """Print matches: whole for a program, short in a table."""
    from xscl.matches import match_json

    rows = (match_json(match) for match in found)
    if format_ is Format.table:
        short = (_short(row) for row in rows)
        print_rows(short, ["match", "query", "ts", "events", "values"], format_)
        return
    print_rows(rows, ["match", "query", "ts", "events", "nodes", "values", "document"], format_)


def _short(row: dict[str, object]) -> dict[str, object]:
    events, values = row["events"], row["values"]
    assert isinstance(events, list) and isinstance(values, dict)
    return {
        "match": str(row["match"])[:12],
        "query": row["query"],
        "ts": row["ts"],
        "events": "  ".join(f"{e['channel']}:{e['id']}" for e in events),
        "values": "  ".join(f"{name}={cut(str(value))}" for name, value in values.items()),
    }
