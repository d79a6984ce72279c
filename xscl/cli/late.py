"""``xscl late``: events that came too late, and taking them as if they had been in time."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.cli.commands import command
from xscl.cli.options import PARTLY, HomeOptions, Printing, held_by_databases, say, time_given
from xscl.cli.printing import Format, print_rows

__all__ = ["late_app"]

late_app = typer.Typer(no_args_is_help=True, help="Late events: which there are, and taking them again.")

_Channel = Annotated[str | None, typer.Option("--channel", help="Only those of this channel.")]
_Since = Annotated[str | None, typer.Option("--since", help="Event time at or after (ISO 8601, seconds, or NOW-7d).")]
_Until = Annotated[str | None, typer.Option("--until", help="Event time at or before.")]


@command(late_app, "list")
def late_list(
    channel: _Channel = None,
    since: _Since = None,
    until: _Until = None,
    limit: Annotated[int | None, typer.Option(min=0, callback=held_by_databases, help="At most this many.")] = None,
    events: Annotated[bool, typer.Option("--events", help="Print lines of an event file.")] = False,
    *,
    at: HomeOptions,
    printing: Printing,
) -> None:
    """List late events in the order in which they came; 'replayed' is the place at which one was taken again.

    Example: xscl late list --channel readings --since 2026-11-01T00:00:00Z
    """
    from itertools import islice

    from xscl.cli.next_steps import no_late_events
    from xscl.store.late_events import LateChoice, late_lines, late_rows

    choice = LateChoice(channel, time_given(since, "--since"), time_given(until, "--until"))
    opened = at.open()
    if events:
        print_rows(islice(late_lines(opened, choice), limit), [], Format.ndjson)
        return
    rows = islice(late_rows(opened.catalog, choice), limit)
    columns = ["channel", "id", "ts", "received", "message", "replayed"]
    if not print_rows(rows, columns, printing.chosen()):
        say("no late event fits" if choice != LateChoice() or limit is not None else no_late_events(opened.catalog))


@command(late_app, "replay")
def late_replay(
    ids: Annotated[list[str] | None, typer.Argument(help="Only events of these ids.", show_default="all")] = None,
    channel: _Channel = None,
    since: _Since = None,
    until: _Until = None,
    *,
    at: HomeOptions,
) -> None:
    """Take late events as if they had been in time: the next 'xscl run' finds what they join with.

    Example: xscl late replay --channel readings
    """
    from xscl.cli.next_steps import no_late_events
    from xscl.store.late_events import LateChoice, take_again

    choice = LateChoice(channel, time_given(since, "--since"), time_given(until, "--until"), tuple(ids or ()))
    opened = at.open()
    taken = take_again(opened, choice)
    told = [f"late events that the next run takes again: {taken.events:,}"] if taken.events else []
    told += [f"taken again before: {taken.before:,}"] if taken.before else []
    told += [f"held no more: {taken.gone:,}"] if taken.gone else []
    if not told:
        say("no late event fits" if choice != LateChoice() else no_late_events(opened.catalog))
    else:
        say("; ".join(told))
    if taken.gone:
        raise typer.Exit(PARTLY)
