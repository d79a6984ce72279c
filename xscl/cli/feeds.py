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
from xscl.cli.options import HomeOptions, Printing, complain, exit_partly, say
from xscl.cli.printing import Format, print_rows
from xscl.cli.progress import shown_progress

if TYPE_CHECKING:
    from xscl.intake.polling import PollReport, PollSettings
    from xscl.store.home import Home

__all__ = ["ContactOption", "feed_app", "poll_settings", "report_poll"]

_SHORT = ["feed", "health", "next", "last", "items", "versions", "policy"]
_NEWEST = 5  # items that are shown with a feed

feed_app = typer.Typer(no_args_is_help=True, help="Subscriptions to feeds, and polling them politely.")

ContactOption = Annotated[
    str | None,
    typer.Option(
        "--contact",
        help="Where the owners of feeds can reach you, sent with requests; without it XSCL_CONTACT of the environment.",
    ),
]
PrivateOption = Annotated[bool, typer.Option("--allow-private", help="Also ask hosts on private networks.")]
ChannelOption = Annotated[str, typer.Option("--channel", help="Channel of the items, or one of its streams.")]


def poll_settings(
    contact: str | None = None, *, allow_private: bool = False, patience_s: float | None = None
) -> PollSettings:
    """Return the settings of options and environment."""
    from dataclasses import replace

    from xscl.intake.polling import PollSettings, environment_settings

    settings = environment_settings(PollSettings(contact=contact, allow_private=allow_private))
    return settings if patience_s is None else replace(settings, patience_s=patience_s)


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
    at: HomeOptions,
) -> None:
    """Subscribe to a feed.

    Example: xscl feed add https://example.org/news.xml --channel news --interval '30 min'
    """
    from xscl.catalog.subscriptions import add_feed, parse_interval

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
    at: HomeOptions,
) -> None:
    """Subscribe to the feeds of a list; those that are subscribed already stay as they are.

    Example: xscl feed import subscriptions.opml --channel news
    """
    from xscl.catalog.subscriptions import import_outlines
    from xscl.ingest.opml import read_opml

    opened = at.open()
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as fault:
        raise SourceError("XSCL_SOURCE_UNREADABLE", f"{file}: {fault.strerror}") from None
    found = read_opml(data, source=file)
    done = failed = 0
    with shown_progress():
        results = list(
            import_outlines(opened.catalog, found, now=now_micros(), channel=channel, allow_private=allow_private)
        )
    for outline, what, error in results:
        where = f"{file}:{outline.line}"
        if error is None:
            done += 1
            say(f"{where}: {what} {outline.url}")
        else:
            failed += 1
            complain(f"{where}: refused {outline.url}: {error}")
    say(f"{counted(done, 'feed')}, {failed:,} refused")
    exit_partly(done, failed)


@command(feed_app, "list")
def feed_list(
    like: Annotated[str | None, typer.Option(help="Addresses or titles that fit a pattern of '*' and '?'.")] = None,
    channel: Annotated[str | None, typer.Option(help="Feeds whose items go to a channel.")] = None,
    folder: Annotated[str | None, typer.Option(help="Feeds in a folder of the list, and in those inside it.")] = None,
    health: Annotated[Health | None, typer.Option(help="Only feeds in this state.")] = None,
    *,
    at: HomeOptions,
    printing: Printing,
) -> None:
    """List feeds, subscribed and read from files, with what became of them and what identifies their items.

    Example: xscl feed list --health failing --folder News
    """
    from xscl.answers.feed_listing import FEED_COLUMNS, FeedFilter, feed_rows, feed_summary
    from xscl.cli.next_steps import no_feeds

    wanted = FeedFilter(like, channel, folder, health)
    rows = list(feed_rows(at.open().catalog, wanted))
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
    at: HomeOptions,
    printing: Printing,
) -> None:
    """Show a feed: all that is known of it, and its newest items.

    Example: xscl feed show example.org
    """
    from itertools import islice

    from xscl.answers.feed_listing import one_listed
    from xscl.answers.item_listing import ItemFilter, item_rows

    opened = at.open()
    row, identity = one_listed(opened.catalog, feed)
    if printing.given:
        print_rows([row], [*row], printing.chosen())
        return
    width = max(map(len, row))
    for name, value in row.items():
        if value is not None:
            show(f"{name:<{width}}  {value}")
    if identity is not None and (newest := list(islice(item_rows(opened, ItemFilter(feed=identity)), _NEWEST))):
        show("")
        put_items(newest)


def _short(row: dict[str, object]) -> dict[str, object]:
    """Return a row for a person: a failure is a word in ``last``, and what it says stands by itself."""
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
    wait: Annotated[str, typer.Option(help="How long to go on where hosts must be left alone in between.")] = "5 min",
    contact: ContactOption = None,
    allow_private: PrivateOption = False,
    *,
    at: HomeOptions,
) -> None:
    """Ask the feeds that are due, and take in what is new; 'xscl run' processes it.

    Hosts get one request at a time, with a pause in between, and are left alone for as long as they say.  Feeds that
    are gone (410) are not asked again.

    Example: xscl feed fetch --contact mailto:me@example.org
    xscl feed fetch https://example.org/news.xml
    """
    from xscl.base.durations import parse_duration

    try:
        patience = parse_duration(wait) / 1e6
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--wait") from None
    settings = poll_settings(contact, allow_private=allow_private, patience_s=patience)
    _fetch(at.open(), urls or None, all_, settings)


def _fetch(home: Home, urls: list[str] | None, everything: bool, settings: PollSettings) -> None:
    from xscl.intake.polling import poll

    if settings.contact is None:
        say("note: requests say nothing of who sends them; give --contact or XSCL_CONTACT (an address of web or mail)")
    with shown_progress():
        report = poll(home, urls=urls, everything=everything, settings=settings)
    report_poll(report)
    for url, status in _resting(home, urls):
        say(f"note: {url} is {status} and was not asked; xscl feed set {url} --resume")
    exit_partly(report.feeds - len(report.problems), len(report.problems))


def _resting(home: Home, urls: list[str] | None) -> list[tuple[str, str]]:
    """Address and status of those that were named and are not polled."""
    from xscl.answers.feed_listing import feed_rows
    from xscl.ingest.addresses import normal_url

    if urls is None:
        return []
    found = ((str(row["feed"]), str(row["status"])) for row in feed_rows(home.catalog))
    named = {*urls, *map(normal_url, urls)}
    return [(url, status) for url, status in found if url in named and status in ("paused", "stopped")]


def report_poll(report: PollReport, *, only_news: bool = False) -> None:
    """Say what a pass did; with ``only_news`` nothing where nothing was due."""
    for url, problem in report.problems:
        complain(problem if url in problem else f"{url}: {problem}")
    if only_news and not report.feeds:
        return
    statuses = ", ".join(f"{count} × {status}" for status, count in sorted(report.statuses.items()))
    parts = [
        f"{counted(report.feeds, 'feed')} asked with {counted(report.requests, 'request')}"
        + (f" ({statuses})" if statuses else ""),
        counted(report.received, "byte"),
        f"{counted(report.events, 'event')} taken",
        *([f"of them {counted(report.versions, 'new version')}"] if report.versions else []),
        *([f"{report.rejected} rejected"] if report.rejected else []),
        *([f"{counted(report.left, 'feed')} left for later"] if report.left else []),
        f"{report.seconds:.1f} s",
    ]
    say(", ".join(parts))


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
    at: HomeOptions,
) -> None:
    """Change a subscription.

    Example: xscl feed set https://example.org/news.xml --interval '2 h'
    """
    from xscl.catalog.subscriptions import set_feed

    if pause and resume:
        raise typer.BadParameter("--pause and --resume exclude each other")
    set_feed(
        at.open().catalog,
        url,
        now=now_micros(),
        channel=channel,
        interval=interval,
        folder=folder,
        status="paused" if pause else "active" if resume else None,
        allow_private=allow_private,
    )
    say(f"feed {url}")


@command(feed_app, "drop")
def feed_drop(url: str, at: HomeOptions) -> None:
    """End a subscription; its items stay.

    Example: xscl feed drop https://example.org/news.xml
    """
    from xscl.catalog.subscriptions import drop_feed

    drop_feed(at.open().catalog, url)
    say(f"dropped {url}")


@command(feed_app, "export")
def feed_export(
    file: Annotated[str, typer.Argument(help="Where to write; '-' is stdout.")] = "-",
    *,
    at: HomeOptions,
) -> None:
    """Write the subscriptions as a list in OPML 2.0, which 'xscl feed import' takes.

    Example: xscl feed export subscriptions.opml
    """
    from xscl.catalog.subscriptions import outlines
    from xscl.ingest.opml import write_opml

    data = write_opml(outlines(at.open().catalog))
    if file == "-":
        give_bytes(data)
        return
    Path(file).write_bytes(data + b"\n")
    say(f"written: {file}")
