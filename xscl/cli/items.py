"""``xscl item``: the items of feeds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.terminal import show
from xscl.cli.commands import command
from xscl.cli.options import LONG, Printing, ServedOptions, cut, held_by_databases, one_line, say, time_given
from xscl.cli.printing import Format, print_rows

if TYPE_CHECKING:
    from xscl.store.home import Home

__all__ = ["item_app", "put_items"]

_SCREEN = 50  # items for a person

item_app = typer.Typer(no_args_is_help=True, help="Items of feeds: what they brought.")

FeedOption = Annotated[
    str | None, typer.Option("--feed", help="Of this feed: its address, or a part of its address or title.")
]


@command(item_app, "list")
def item_list(
    feed: FeedOption = None,
    channel: Annotated[str | None, typer.Option(help="Of this channel.")] = None,
    since: Annotated[str | None, typer.Option(help="Dated at or after (ISO 8601, seconds, or NOW-7d).")] = None,
    until: Annotated[str | None, typer.Option(help="Dated at or before.")] = None,
    like: Annotated[str | None, typer.Option(help="Titles or links that fit a pattern of '*' and '?'.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, callback=held_by_databases, help="At most this many.", show_default="50 for a person, else all"
        ),
    ] = None,
    *,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """List items, the newest first, each in its newest version.

    Example: xscl item list --feed bbc --since NOW-7d --like '*election*'
    """
    from xscl.answers.item_listing import ITEM_COLUMNS, ItemFilter, item_rows
    from xscl.cli.next_steps import no_items

    begin, end = time_given(since, "--since"), time_given(until, "--until")
    wanted = ItemFilter(feed, channel, begin, end, like)
    printed = printing.chosen()
    for_a_person = printed is Format.table and sys.stdout.isatty()
    most = _SCREEN if limit is None and for_a_person else limit
    opened: Home | None = None
    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote_answers import remote_items

        rows = remote_items(client, wanted, most)
    else:
        opened = at.open()
        rows = item_rows(opened, wanted)
    some = islice(rows, most)
    if for_a_person and printing.format is None:
        shown = put_items(some)
    else:
        shown = print_rows(some, ["ts", "feed", "title", "link"] if for_a_person else ITEM_COLUMNS, printed)
    if limit is None and shown == most and next(rows, None) is not None:
        say(f"note: the newest {shown}; --limit or --until go on, --format ndjson gives all")
    if not shown and printed is Format.table:
        fits_any = wanted == ItemFilter() and limit != 0
        say(no_items(opened.catalog) if opened is not None and fits_any else "no item fits")


@command(item_app, "show")
def item_show(
    item: Annotated[str, typer.Argument(help="Its id, or a part of it.")],
    feed: FeedOption = None,
    *,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """Show an item: when it came and from where, and the fields of its document.

    Example: xscl item show ak20456452
    """
    from xscl.answers.item_listing import find_item

    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote_answers import remote_item

        found, fields = remote_item(client, item, feed)
    else:
        found, fields = find_item(at.open(), item, feed)
    if printing.given:
        print_rows([found], [*found], printing.chosen())
        return
    told = [(name, value) for name, value in found.items() if name not in ("title", "link", "feed", "document")]
    told += [*fields]
    width = max(len(name) for name, _ in told)
    for name, value in told:
        if value is not None:
            show(f"{name:<{width}}  {one_line(str(value))}")


def put_items(rows: Iterable[Mapping[str, object]]) -> int:
    """Print items for a person: date and title, and below them the link and the feed; returns how many."""
    count = 0
    for row in rows:
        show(f"{row['ts']}  {cut(str(row['title'] or row['item']), LONG)}")
        for told in (row["link"], cut(str(row["feed"] or ""), LONG)):
            if told:
                show(f"    {told}", style="dim")
        count += 1
    return count
