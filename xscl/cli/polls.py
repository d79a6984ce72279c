"""Asking feeds: its settings, and telling what a pass did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.shown import counted
from xscl.cli.options import complain, exit_partly, say

if TYPE_CHECKING:
    from xscl.intake.polling import PollReport, PollSettings

__all__ = ["ContactOption", "poll_settings", "report_poll", "tell_fetched"]

ContactOption = Annotated[
    str | None,
    typer.Option(
        "--contact",
        help="Where the owners of feeds can reach you, sent with requests; without it XSCL_CONTACT of the environment.",
    ),
]


def poll_settings(
    contact: str | None = None, *, allow_private: bool = False, patience_s: float | None = None
) -> PollSettings:
    """Return the settings of options and environment."""
    from dataclasses import replace

    from xscl.intake.polling import PollSettings, environment_settings

    settings = environment_settings(PollSettings(contact=contact, allow_private=allow_private))
    return settings if patience_s is None else replace(settings, patience_s=patience_s)


def tell_fetched(report: PollReport, urls: list[str] | None, rows: Iterable[Mapping[str, object]]) -> None:
    """Say what a pass did, and which of the feeds that were named rest."""
    report_poll(report)
    for url, status in _resting(urls or [], rows):
        say(f"note: {url} is {status} and was not asked; xscl feed set {url} --resume")
    exit_partly(report.feeds - len(report.problems), len(report.problems))


def _resting(urls: list[str], rows: Iterable[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Return the address and status of feeds that were named and are not polled; ``rows`` are of ``feed_rows``."""
    from xscl.ingest.addresses import normal_url

    found = ((str(row["feed"]), str(row["status"])) for row in rows)
    named = {*urls, *map(normal_url, urls)}
    return [(url, status) for url, status in found if url in named and status in ("paused", "stopped")]


def report_poll(report: PollReport, *, only_news: bool = False) -> None:
    """Say what a pass did; with ``only_news`` nothing where nothing was due."""
    for url, problem in report.problems:
        complain(problem if url in problem else f"{url}: {problem}")
    for note in report.notes:
        say(f"note: {note}")
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
