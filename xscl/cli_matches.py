"""``xscl match``: matches of standing queries."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
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
    say,
    time_given,
)
from xscl.errors import EngineError, SourceError
from xscl.listing import Format, print_rows
from xscl.whole_files import check_place, written_whole

if TYPE_CHECKING:
    from xscl.types import Match

__all__ = ["match_app", "print_matches"]

_OPTIONS = {"XSCL_BAD_WINDOW": "--window", "XSCL_BAD_CURSOR": "--after"}

match_app = typer.Typer(no_args_is_help=True, help="Matches of standing queries.")


@match_app.command("list")
def match_list(
    query: Annotated[str | None, typer.Argument(help="Only matches of this query.")] = None,
    since: Annotated[str | None, typer.Option(help="Match time at or after (ISO 8601 or seconds).")] = None,
    until: Annotated[str | None, typer.Option(help="Match time at or before.")] = None,
    now: Annotated[
        str | None,
        typer.Option(help="As it was then: no match of a later time.", show_default="the clock, of --window"),
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="BEGIN..END", help="Only with all members in it: NOW-7d..NOW, 0..NOW, 2..12.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="In the order of commits, behind this; 'start' is before all.")
    ] = None,
    cursor: Annotated[
        Path | None,
        typer.Option(
            "--cursor", metavar="FILE", help="As --after; takes the cursor from a file, and puts the next there."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, max=MOST, help="At most so many.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """List matches, sorted by time, query and match, or behind a cursor as they were committed."""
    from xscl.matches import list_matches

    if cursor is not None:
        if after is not None:
            raise typer.BadParameter("the file says behind which", param_hint="--after with --cursor")
        after = _cursor_in(cursor)
    try:
        found = list_matches(
            open_given(home, catalog),
            query=query,
            since=time_given(since, "--since"),
            until=time_given(until, "--until"),
            now=time_given(now, "--now"),
            window=window,
            after=after,
            limit=limit,
        )
    except EngineError as error:
        option = _OPTIONS.get(error.condition)
        if option is None:
            raise
        if option == "--after" and cursor is not None:
            option = f"--cursor {cursor}"
        raise typer.BadParameter(str(error), param_hint=option) from None
    print_matches(found, format_of(format, json, piped=Format.ndjson), cursors=after is not None)
    if cursor is not None:
        # What was not put out is not behind the cursor.
        sys.stdout.flush()
        with written_whole(cursor) as file:
            file.write(f"{found.cursor}\n".encode())
    elif after is not None:
        say(f"go on with --after {found.cursor}")


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
    lines += [] if found.replaces is None else [f"replaces  {found.replaces}"]
    print("\n".join([*lines, "", found.document]))  # noqa: T201


def print_matches(found: Iterable[Match], format_: Format, *, cursors: bool = False) -> None:
    """Print matches: whole for a program, with the cursors behind them if wanted; short in a table."""
    from xscl.matches import match_json

    rows = (match_json(match, cursor=cursors) for match in found)
    if format_ is Format.table:
        short = (_short(row) for row in rows)
        print_rows(short, ["match", "query", "ts", "events", "values"], format_)
        return
    more = ["replaces", "cursor"] if cursors else ["replaces"]
    print_rows(rows, ["match", "query", "ts", "events", "nodes", "values", "document", *more], format_)


def _cursor_in(file: Path) -> str:
    """The cursor that a file has, or the one before everything if there is none."""
    check_place(file)
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "start"
    except OSError as error:
        raise SourceError("XSCL_SOURCE_UNREADABLE", f"{file}: {error.strerror}") from None


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
