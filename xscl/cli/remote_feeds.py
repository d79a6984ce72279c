"""Subscriptions of a running service: the same rows and texts as of a home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from xscl.answers.feed_listing import FeedFilter
from xscl.cli.options import needs_home

if TYPE_CHECKING:
    from xscl.cli.client import Client
    from xscl.intake.polling import PollReport

__all__ = [
    "add_remote_feed",
    "drop_remote_feed",
    "fetch_remote_feeds",
    "import_remote_feeds",
    "refuse_own",
    "remote_feed",
    "remote_feed_rows",
    "remote_opml",
    "set_remote_feed",
]

_FEEDS = "/v1/feeds"


def refuse_own(given: Mapping[str, object]) -> None:
    """Refuse options of polling that a service has for itself.

    Raises:
        EngineError: ``XSCL_NEEDS_HOME``: one of them is given.
    """
    for option, value in given.items():
        if value:
            raise needs_home(f"feed {option}", "a service asks feeds by the settings that it was started with")


def add_remote_feed(client: Client, url: str, channel: str, interval: str | None, folder: str | None) -> str:
    """Subscribe to a feed; return its address in normal form."""
    asked = {"url": url, "channel": channel, "interval": interval, "folder": folder}
    return str(client.call("POST", _FEEDS, json=asked)["feed"])


def import_remote_feeds(client: Client, data: bytes, channel: str) -> list[tuple[int, str, str, Exception | None]]:
    """Subscribe to the feeds of a list; return line, outcome, address and refusal of each."""
    from xscl.cli.client import error_of

    told = client.call(
        "POST", f"{_FEEDS}/import", params={"channel": channel}, content=data, headers={"content-type": "text/x-opml"}
    )
    return [
        (each["line"], each["action"], each["url"], error_of(each["problem"]) if "problem" in each else None)
        for each in told["feeds"]
    ]


def remote_feed_rows(client: Client, wanted: FeedFilter) -> list[dict[str, object]]:
    """List feeds, as ``feed_rows`` does."""
    params = {name: value for name, value in asdict(wanted).items() if value is not None}
    return list(client.call("GET", _FEEDS, params=params)["feeds"])


def remote_feed(client: Client, feed: str) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Return the row of one feed, and its newest items."""
    found = client.call("GET", f"{_FEEDS}/one", params={"feed": feed})
    return found["feed"], found["items"]


def fetch_remote_feeds(client: Client, urls: list[str] | None, everything: bool) -> PollReport:
    """Have a service ask feeds now."""
    from xscl.intake.polling import PollReport

    told: dict[str, Any] = client.call("POST", f"{_FEEDS}/fetch", json={"urls": urls or [], "all": everything})
    problems = [(each["feed"], each["message"]) for each in told.pop("problems")]
    return PollReport(**{**told, "statuses": Counter(told["statuses"])}, problems=problems)


def set_remote_feed(client: Client, url: str, values: Mapping[str, str | None]) -> None:
    """Change a subscription."""
    if all(value is None for value in values.values()):
        raise typer.BadParameter("no option says how to change the feed")
    client.call("PATCH", _FEEDS, params={"url": url}, json=dict(values))


def drop_remote_feed(client: Client, url: str) -> None:
    """End a subscription."""
    client.call("DELETE", _FEEDS, params={"url": url})


def remote_opml(client: Client) -> bytes:
    """Return the subscriptions as a list in OPML."""
    return str(client.call("GET", f"{_FEEDS}/list.opml")).encode()
