"""``xscl match``: matches of standing queries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.atomic_files import check_place, written_whole
from xscl.base.errors import EngineError, SourceError
from xscl.base.terminal import give, show
from xscl.cli.commands import command
from xscl.cli.match_print import MatchFormat, MatchPrinting, print_matches, why_no_longer
from xscl.cli.options import JsonOption, Printing, ServedOptions, held_by_databases, one_line, say, time_given
from xscl.cli.printing import Format, print_rows

if TYPE_CHECKING:
    from xscl.answers.matches.listing import Listing

__all__ = ["match_app"]

_OPTIONS = {"XSCL_BAD_WINDOW": "--window", "XSCL_BAD_CURSOR": "--after"}

match_app = typer.Typer(no_args_is_help=True, help="Matches of standing queries.")


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """Options that bound the times of matches."""

    since: Annotated[str | None, typer.Option(help="Match time at or after (ISO 8601, seconds, or NOW-7d).")] = None
    until: Annotated[str | None, typer.Option(help="Match time at or before.")] = None
    now: Annotated[
        str | None,
        typer.Option(help="As it was then: no match of a later time.", show_default="the clock, of --window"),
    ] = None
    window: Annotated[
        str | None, typer.Option(metavar="BEGIN..END", help="Only with all members in it: NOW-7d..NOW, 0..NOW, 2..12.")
    ] = None

    def listing(self, query: str | None, after: str | None = None, limit: int | None = None) -> Listing:
        """Make the record of a listing."""
        from xscl.answers.matches.listing import Listing

        now = time_given(self.now, "--now")
        since, until = time_given(self.since, "--since", now=now), time_given(self.until, "--until", now=now)
        return Listing(query, since, until, now, self.window, after, limit)


@dataclass(frozen=True, slots=True)
class CursorOptions:
    """Options that say behind which match a listing begins, and how long it is."""

    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="In the order of commits, behind this; 'start' is before all.")
    ] = None
    cursor: Annotated[
        Path | None,
        typer.Option(
            "--cursor", metavar="FILE", help="As --after; takes the cursor from a file, and puts the next there."
        ),
    ] = None
    limit: Annotated[int | None, typer.Option(min=0, callback=held_by_databases, help="At most this many.")] = None

    @property
    def behind(self) -> str | None:
        """Return the cursor behind which to begin."""
        if self.cursor is None:
            return self.after
        if self.after is not None:
            raise typer.BadParameter("the file says behind which", param_hint="--after with --cursor")
        return _cursor_in(self.cursor)


@command(match_app, "list")
def match_list(
    query: Annotated[str | None, typer.Argument(help="Only matches of this query.")] = None,
    *,
    times: TimeOptions,
    options: CursorOptions,
    current: Annotated[
        bool,
        typer.Option("--current", help="Only the newest match of each group; of WINDOW … EVERY, the last window."),
    ] = False,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="VARIABLE", help="With --current: its values tell groups.", show_default="GROUP BY"),
    ] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Of matches with the same document only the first.")
    ] = False,
    at: ServedOptions,
    printing: MatchPrinting,
) -> None:
    """List matches, sorted by time, query and match, or behind a cursor as they were committed.

    Example: xscl match list same_story --window NOW-7d..NOW
    xscl match list trending --current
    xscl match list --cursor place.txt --format ndjson
    """
    from xscl.answers.matches.listing import ALL_MATCHES, list_matches, with_other_documents
    from xscl.cli.next_steps import no_matches
    from xscl.cli.remote import RemoteMatches

    printed, client = printing.chosen(), at.client()
    listing = replace(
        times.listing(query, options.behind, None if distinct else options.limit), current=current, by=by or ()
    )
    with _refusals_of(options):
        found = list_matches(at.open(), listing) if client is None else RemoteMatches(client, listing)
    listed = islice(with_other_documents(found), options.limit) if distinct else found
    shown = print_matches(listed, printed, cursors=listing.after is not None)
    if not shown and printed in (MatchFormat.cards, MatchFormat.table):
        say("no match fits" if listing != ALL_MATCHES or client is not None else no_matches(at.open().catalog))
    for note in found.notes:
        say(f"note: {note}")
    _keep_place(options.cursor, found.cursor, told=listing.after is not None)


@contextmanager
def _refusals_of(options: CursorOptions) -> Iterator[None]:
    """Make the refusal of a listing one of the option that asked for it."""
    try:
        yield
    except EngineError as error:
        option = _OPTIONS.get(error.condition)
        if option is None:
            raise
        if option == "--after" and options.cursor is not None:
            option = f"--cursor {options.cursor}"
        raise typer.BadParameter(str(error), param_hint=option) from None


def _keep_place(path: Path | None, cursor: str, *, told: bool) -> None:
    """Put the cursor into its file, or tell it."""
    if path is not None:
        # What was not put out is not behind the cursor.
        sys.stdout.flush()
        with written_whole(path) as file:
            file.write(f"{cursor}\n".encode())
    elif told:
        say(f"go on with --after {cursor}")


@command(match_app, "count")
def match_count(
    query: Annotated[str | None, typer.Argument(help="Only matches of this query.", show_default="each query")] = None,
    by: Annotated[
        list[str] | None, typer.Option(metavar="VARIABLE", help="A row for matches that share values of these.")
    ] = None,
    agg: Annotated[
        list[str] | None,
        typer.Option(metavar="AGGREGATE", help="max(x), min(x), sum(x), avg(x), count(x), count(DISTINCT x)."),
    ] = None,
    *,
    times: TimeOptions,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """Count matches: of each query, or of one by values of its variables, with aggregates of other values.

    Example: xscl match count same_story --window NOW-7d..NOW
    xscl match count rises --by symbol --agg 'max(price)'
    """
    from xscl.answers.matches.counts import count_matches
    from xscl.cli.remote import remote_counts

    listing, client = times.listing(query), at.client()
    try:
        if client is None:
            found = count_matches(at.open(), listing, by or (), agg or ())
        else:
            found = remote_counts(client, listing, by or (), agg or ())
    except EngineError as error:
        option = _OPTIONS.get(error.condition)
        if option is None:
            raise
        raise typer.BadParameter(str(error), param_hint=option) from None
    print_rows(found.rows, found.columns, printing.chosen())
    for note in found.notes:
        say(f"note: {note}")


@command(match_app, "show")
def match_show(match: str, json: JsonOption = False, *, at: ServedOptions) -> None:
    """Show one match with its output document, also one that was taken back; the first characters of its id suffice.

    Example: xscl match show 9f2c
    """
    from xscl.answers.matches.cards import member_lines
    from xscl.answers.matches.listing import find_match, match_json
    from xscl.base.types import format_time
    from xscl.cli.remote import remote_match

    client = at.client()
    found = find_match(at.open(), match) if client is None else remote_match(client, match)
    if json:
        print_rows([match_json(found)], [], Format.ndjson)
        return
    show(f"match  {found.id}")
    show(f"query  {found.query}")
    show(f"time   {format_time(found.ts)}")
    for event in found.events:
        show(f"event  {event.channel}  {event.id}  {format_time(event.ts)}")
    for line in member_lines(found):
        show(f"  {line}")
    for name, node in found.nodes.items():
        show(f"node   {name} = {node}")
    for name, value in found.values.items():
        show(f"value  {name} = {one_line(value)}")
    if found.replaces is not None:
        show(f"replaces  {found.replaces}")
    if found.retracted is not None:
        show(f"holds no longer: {why_no_longer(found)}")
    show("")
    give(found.document)


def _cursor_in(file: Path) -> str:
    """Return the cursor that a file has, or the one before everything if there is none."""
    check_place(file)
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "start"
    except OSError as error:
        raise SourceError("XSCL_SOURCE_UNREADABLE", f"{file}: {error.strerror}") from None
