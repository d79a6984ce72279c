"""``xscl feed``: subscriptions, and polling them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.answers.feed_health import Health
from xscl.base.errors import SourceError
from xscl.base.shown import counted
from xscl.base.terminal import give_bytes, show
from xscl.base.types import now_micros
from xscl.cli.commands import command
from xscl.cli.items import put_items
from xscl.cli.options import LONG, Printing, ServedOptions, complain, cut, exit_partly, say
from xscl.cli.polls import ContactOption, poll_settings, tell_fetched
from xscl.cli.printing import Format, print_rows
from xscl.cli.progress import shown_progress

if TYPE_CHECKING:
    from xscl.cli.client import Client
    from xscl.intake.polling import PollSettings
    from xscl.store.home import Home

__all__ = ["feed_app"]

_SHORT = ["feed", "health", "next", "last", "items", "versions", "policy"]
_NEWEST = 5  # items that are shown with a feed

feed_app = typer.Typer(no_args_is_help=True, help="Subscriptions to feeds, and polling them politely.")

PrivateOption = Annotated[bool, typer.Option("--allow-private", help="Also ask hosts on private networks.")]
ChannelOption = Annotated[str, typer.Option("--channel", help="Channel of the items, or one of its streams.")]


@command(feed_app, "add")
def feed_add(
    url: str,
    channel: ChannelOption = "items",
    interval: Annotated[str | None, typer.Option(help="Time between polls: 5 min to 1 d.", show_default="1 h")] = None,
    folder: Annotated[str | None, typer.Option(help="Where lists have it: News/World.")] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="Ask for it at once.")] = False,
    contact: ContactOption = None,
    allow_private: PrivateOption = False,
    *,
    at: ServedOptions,
) -> None:
    """Subscribe to a feed.

    Example: xscl feed add https://example.org/news.xml --channel news --interval '30 min'
    """
    from xscl.catalog.subscriptions import add_feed, parse_interval
    from xscl.cli.remote_feeds import add_remote_feed, refuse_own

    if (client := at.client(only_home=True)) is not None:
        refuse_own({"add --contact": contact, "add --allow-private": allow_private})
        url = add_remote_feed(client, url, channel, interval, folder)
        say(f"feed {url}")
        if fetch:
            _fetch_remote(client, [url], False)
        return
    opened = at.open()
    every = None if interval is None else parse_interval(interval)
    url = add_feed(
        opened.catalog,
        url,
        now=now_micros(),
        channel=channel,
        interval=every,
        folder=folder,
        allow_private=allow_private,
    )
    say(f"feed {url}")
    if fetch:
        _fetch(opened, [url], False, poll_settings(contact))


@command(feed_app, "import")
def feed_import(
    file: Annotated[str, typer.Argument(help="A list in OPML; '-' reads stdin.")],
    channel: ChannelOption = "items",
    allow_private: PrivateOption = False,
    *,
    at: ServedOptions,
) -> None:
    """Subscribe to the feeds of a list; those that are subscribed already stay as they are.

    Example: xscl feed import subscriptions.opml --channel news
    """
    from xscl.catalog.subscriptions import import_outlines
    from xscl.cli.remote_feeds import import_remote_feeds, refuse_own
    from xscl.ingest.opml import read_opml

    client = at.client(only_home=True)
    opened = None if client is not None else at.open()
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as fault:
        raise SourceError("XSCL_SOURCE_UNREADABLE", f"{file}: {fault.strerror}") from None
    results: list[tuple[int, str, str, Exception | None]]
    if opened is None:
        assert client is not None
        refuse_own({"import --allow-private": allow_private})
        results = import_remote_feeds(client, data, channel)
    else:
        found = read_opml(data, source=file)
        with shown_progress():
            taken = import_outlines(
                opened.catalog, found, now=now_micros(), channel=channel, allow_private=allow_private
            )
            results = [(outline.line, what, outline.url, error) for outline, what, error in taken]
    done = failed = 0
    for line, what, url, error in results:
        if error is None:
            done += 1
            say(f"{file}:{line}: {what} {url}")
        else:
            failed += 1
            complain(f"{file}:{line}: refused {url}: {error}")
    say(f"{counted(done, 'feed')}, {failed:,} refused")
    exit_partly(done, failed)


@command(feed_app, "list")
def feed_list(
    like: Annotated[str | None, typer.Option(help="Addresses or titles that fit a pattern of '*' and '?'.")] = None,
    channel: Annotated[str | None, typer.Option(help="Feeds whose items go to a channel.")] = None,
    folder: Annotated[str | None, typer.Option(help="Feeds in a folder of the list, and in those inside it.")] = None,
    health: Annotated[Health | None, typer.Option(help="Only feeds in this state.")] = None,
    *,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """List feeds, subscribed and read from files, with what became of them and what identifies their items.

    Example: xscl feed list --health failing --folder News
    """
    from xscl.answers.feed_listing import FEED_COLUMNS, FeedFilter, feed_rows, feed_summary
    from xscl.cli.next_steps import no_feeds
    from xscl.cli.remote_feeds import remote_feed_rows

    wanted = FeedFilter(like, channel, folder, health)
    client = at.client(only_home=True)
    rows = remote_feed_rows(client, wanted) if client is not None else list(feed_rows(at.open().catalog, wanted))
    printed = printing.chosen()
    if printed is not Format.table:
        print_rows(rows, FEED_COLUMNS, printed)
        return
    if sys.stdout.isatty():
        print_rows(map(_short, rows), _SHORT, printed, notes=("title", "problem", "reason"))
    else:
        print_rows(map(_short, rows), [*_SHORT, "title", "problem", "reason"], printed)
    if rows:
        say(feed_summary(rows, now_micros()))
    else:
        say(no_feeds() if wanted == FeedFilter() else "no feed fits")


@command(feed_app, "show")
def feed_show(
    feed: Annotated[str, typer.Argument(metavar="URL", help="Its address, or a part of its address or title.")],
    at: ServedOptions,
    printing: Printing,
) -> None:
    """Show a feed: all that is known of it, and its newest items.

    Example: xscl feed show example.org
    """
    from itertools import islice

    from xscl.answers.feed_listing import one_listed
    from xscl.answers.item_listing import ItemFilter, item_rows
    from xscl.cli.remote_feeds import remote_feed

    newest: list[dict[str, object]] = []
    if (client := at.client(only_home=True)) is not None:
        row, newest = remote_feed(client, feed)
    else:
        opened = at.open()
        row, identity = one_listed(opened.catalog, feed)
        if identity is not None:
            newest = list(islice(item_rows(opened, ItemFilter(feed=identity)), _NEWEST))
    if printing.given:
        print_rows([row], [*row], printing.chosen())
        return
    width = max(map(len, row))
    for name, value in row.items():
        if value is not None:
            show(f"{name:<{width}}  {cut(str(value), LONG) if name == 'title' else value}")
    if newest:
        show("")
        put_items(newest)


def _short(row: dict[str, object]) -> dict[str, object]:
    """Return a row for a person: a failure is a word in ``last``, and what it says stands by itself; a long title is
    cut.
    """
    row = {**row, "title": None if row["title"] is None else cut(str(row["title"]), LONG)}
    last = row["last"]
    if not isinstance(last, str) or not last.startswith("["):
        return {**row, "problem": None}
    condition, _, message = last[1:].replace("\n  hint: ", "; ").partition("] ")
    message = message.removeprefix(str(row["feed"])).lstrip(": ")
    answered = re.match(r"answered (\d{3})\b", message)
    word = answered[1] if answered else condition.removeprefix("XSCL_").lower().replace("_", " ")
    return {**row, "last": word, "problem": message}


@command(feed_app, "fetch")
def feed_fetch(
    urls: Annotated[list[str] | None, typer.Argument(metavar="[URL]…", help="Only these, also before time.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All active feeds, also before time.")] = False,
    wait: Annotated[
        str | None,
        typer.Option(help="How long to go on where hosts must be left alone in between.", show_default="5 min"),
    ] = None,
    contact: ContactOption = None,
    allow_private: PrivateOption = False,
    *,
    at: ServedOptions,
) -> None:
    """Ask the feeds that are due, and take in what is new; 'xscl run' processes it.

    Hosts get one request at a time, with a pause in between, and are left alone for as long as they say.  Feeds that
    are gone (410) are not asked again.

    Example: xscl feed fetch --contact mailto:me@example.org
    xscl feed fetch https://example.org/news.xml
    """
    from xscl.base.durations import parse_wait
    from xscl.cli.remote_feeds import refuse_own

    if (client := at.client(only_home=True)) is not None:
        refuse_own({"fetch --contact": contact, "fetch --allow-private": allow_private, "fetch --wait": wait})
        _fetch_remote(client, urls or None, all_)
        return
    try:
        patience = parse_wait(wait or "5 min")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--wait") from None
    settings = poll_settings(contact, allow_private=allow_private, patience_s=patience)
    _fetch(at.open(), urls or None, all_, settings)


def _fetch(home: Home, urls: list[str] | None, everything: bool, settings: PollSettings) -> None:
    from xscl.answers.feed_listing import feed_rows
    from xscl.intake.polling import poll

    if settings.contact is None:
        say("note: requests say nothing of who sends them; give --contact or XSCL_CONTACT (an address of web or mail)")
    with shown_progress():
        report = poll(home, urls=urls, everything=everything, settings=settings)
    tell_fetched(report, urls, () if urls is None else feed_rows(home.catalog))


def _fetch_remote(client: Client, urls: list[str] | None, everything: bool) -> None:
    """Have a service ask feeds."""
    from xscl.answers.feed_listing import FeedFilter
    from xscl.cli.remote_feeds import fetch_remote_feeds, remote_feed_rows

    report = fetch_remote_feeds(client, urls, everything)
    tell_fetched(report, urls, () if urls is None else remote_feed_rows(client, FeedFilter()))


@command(feed_app, "set")
def feed_set(
    url: str,
    channel: Annotated[str | None, typer.Option(help="Channel of new items.")] = None,
    interval: Annotated[str | None, typer.Option(help="Time between polls; 'none' for the default.")] = None,
    folder: Annotated[str | None, typer.Option(help="Where lists have it; '' for the top.")] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Do not ask for it.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Ask for it again, also if it was gone (410).")] = False,
    allow_private: Annotated[
        bool | None, typer.Option("--allow-private/--no-private", help="Whether its host may be on a private network.")
    ] = None,
    *,
    at: ServedOptions,
) -> None:
    """Change a subscription.

    Example: xscl feed set https://example.org/news.xml --interval '2 h'
    """
    from xscl.catalog.subscriptions import set_feed
    from xscl.cli.remote_feeds import refuse_own, set_remote_feed

    if pause and resume:
        raise typer.BadParameter("--pause and --resume exclude each other")
    status = "paused" if pause else "active" if resume else None
    if (client := at.client(only_home=True)) is not None:
        refuse_own({"set --allow-private": allow_private is not None})
        values = {"channel": channel, "interval": interval, "folder": folder, "status": status}
        set_remote_feed(client, url, values)
        _say_set(url, interval)
        return
    set_feed(
        at.open().catalog,
        url,
        now=now_micros(),
        channel=channel,
        interval=interval,
        folder=folder,
        status=status,
        allow_private=allow_private,
    )
    _say_set(url, interval)


def _say_set(url: str, interval: str | None) -> None:
    say(f"feed {url}")
    if interval is not None:
        say(f"note: the interval counts from the next poll on; 'xscl feed fetch {url}' polls now")


@command(feed_app, "drop")
def feed_drop(url: str, at: ServedOptions) -> None:
    """End a subscription; its items stay.

    Example: xscl feed drop https://example.org/news.xml
    """
    from xscl.catalog.subscriptions import drop_feed
    from xscl.cli.remote_feeds import drop_remote_feed

    if (client := at.client(only_home=True)) is not None:
        drop_remote_feed(client, url)
    else:
        drop_feed(at.open().catalog, url)
    say(f"dropped {url}")


@command(feed_app, "export")
def feed_export(
    file: Annotated[str, typer.Argument(help="Where to write; '-' is stdout.")] = "-",
    *,
    at: ServedOptions,
) -> None:
    """Write the subscriptions as a list in OPML 2.0, which 'xscl feed import' takes.

    Example: xscl feed export subscriptions.opml
    """
    from xscl.base.atomic_files import written_whole
    from xscl.catalog.subscriptions import outlines
    from xscl.cli.remote_feeds import remote_opml
    from xscl.ingest.opml import write_opml

    client = at.client(only_home=True)
    data = remote_opml(client) if client is not None else write_opml(outlines(at.open().catalog))
    if file == "-":
        give_bytes(data)
        return
    with written_whole(Path(file)) as stream:
        stream.write(data + b"\n")
    say(f"written: {file}")
