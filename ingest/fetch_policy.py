"""Times when a feed and a host may be asked next, and changes by an answer.  No input, output, clock or chance.

Times are microseconds since the epoch, spans microseconds.  ``chance`` is a number from 0 up to 1 that the caller
draws; equal numbers give equal decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from xscl.ingest.http_times import fresh_for, retry_after
from xscl.ingest.poll_hints import Hints

__all__ = [
    "DEFAULT_INTERVAL",
    "HOST_MOST",
    "LEAST_INTERVAL",
    "MOST_INTERVAL",
    "SPACING",
    "Answer",
    "HostState",
    "Subscription",
    "after_failure",
    "after_success",
    "host_after",
    "host_key",
    "interval_of",
    "is_refusal",
    "lasting_move",
    "spaced",
]

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

DEFAULT_INTERVAL = _HOUR
LEAST_INTERVAL = 5 * _MINUTE
MOST_INTERVAL = _DAY
"""Bound of a subscription's own interval, of feeds' and headers' wishes, and of backoff; jitter comes on top."""
SPACING = 2 * _SECOND
"""Least time from one request to the next to the same host."""
HOST_MOST = _HOUR
"""Time for which a host is left alone after refusals, unless the host asks for longer."""

_JITTER = 0.1
"""Jitter: a feed is asked later than due by at most this part of the time waited for."""
_SPREAD = 10 * _MINUTE
"""After a skipped hour or day, feeds begin again within this time."""
_MOST_DOUBLINGS = 30
_MAX_VALIDATOR = 1_000
_REFUSALS = frozenset({429, *range(500, 600)})


@dataclass(frozen=True, slots=True)
class Subscription:
    """Facts of a feed before the poll that a decision needs."""

    url: str
    interval: int | None = None
    failures: int = 0
    moved_to: str | None = None
    hints: Hints = Hints()


@dataclass(frozen=True, slots=True)
class Answer:
    """End of a poll: the last answer, behind its redirects."""

    status: int | None
    """None: no answer came."""
    headers: Mapping[str, str]
    """Headers by names in lower case."""
    moved_to: str | None = None
    """Address to which lasting redirects (301, 308), from the first on, led."""


@dataclass(frozen=True, slots=True)
class HostState:
    """Time when a host may be asked again, and its refusals in a row."""

    next_request: int
    failures: int


def interval_of(wanted: int | None) -> int:
    """Return a subscription's interval within the bounds."""
    return min(max(DEFAULT_INTERVAL if wanted is None else wanted, LEAST_INTERVAL), MOST_INTERVAL)


def after_success(feed: Subscription, answer: Answer, hints: Hints, now: int, chance: float) -> dict[str, object]:
    """Return the columns of ``feeds`` after an answer that was taken: new content, or none (304).

    The next poll is due after the longest of the subscription's interval, what the feed asks for (``hints``) and how
    long the answer stays fresh, and not in hours or days that the feed excludes.  A 304 leaves validators as they are.
    """
    asked = (interval_of(feed.interval), hints.every or 0, fresh_for(answer.headers, now) or 0)
    due = _outside(now + _later(min(max(asked), MOST_INTERVAL), chance), hints, chance)
    values: dict[str, object] = {
        "next_fetch": due,
        "fetched": now,
        "succeeded": now,
        "http_status": answer.status,
        "problem": None,
        "failures": 0,
        "moved_to": None if lasting_move(feed, answer) else answer.moved_to,
    }
    if answer.status != 304:
        values["etag"] = _validator(answer.headers.get("etag"))
        values["modified"] = _validator(answer.headers.get("last-modified"))
    return values


def after_failure(feed: Subscription, answer: Answer, problem: str, now: int, chance: float) -> dict[str, object]:
    """Return the columns of ``feeds`` after a poll without content: no answer, a refusal, or something that is no feed.

    Validators stay those of the last content that was taken, so whatever was sent now is asked for again.  The wait is
    drawn between the interval and its double, fourfold, … with each failure in a row (full jitter: feeds that fail
    together do not come back together).  Who says ``Retry-After`` is left alone for as long.  410 ends the polls.
    """
    failures = feed.failures + 1
    values: dict[str, object] = {
        "fetched": now,
        "http_status": answer.status,
        "problem": problem,
        "failures": failures,
    }
    if answer.status == 410:
        return {**values, "status": "stopped", "next_fetch": None}
    interval = interval_of(feed.interval)
    wait = _backoff(interval, MOST_INTERVAL, failures, chance)
    asked = min(retry_after(answer.headers, now) or 0, MOST_INTERVAL)
    return {**values, "next_fetch": now + _later(max(wait, asked), chance)}


def lasting_move(feed: Subscription, answer: Answer) -> str | None:
    """Return the address that a feed has from now on: two polls in a row were sent there by lasting redirects.

    An address that gives up encryption is followed and not kept.
    """
    target = answer.moved_to
    if target is None or target != feed.moved_to or target == feed.url:
        return None
    return None if feed.url.startswith("https:") and not target.startswith("https:") else target


def spaced(now: int, chance: float) -> int:
    """Return the time when the host of a request that is sent now may get the next one."""
    return now + SPACING + int(chance * SPACING / 2)


def is_refusal(status: int | None) -> bool:
    """Whether a host that answers so, or not at all, should be left alone for a while."""
    return status is None or status in _REFUSALS


def host_after(before: HostState, answer: Answer, now: int, chance: float) -> HostState:
    """Return a host's state after a request to it: spacing after answers, backoff with full jitter after refusals."""
    if not is_refusal(answer.status):
        return HostState(max(before.next_request, spaced(now, chance)), 0)
    failures = before.failures + 1
    asked = min(retry_after(answer.headers, now) or 0, MOST_INTERVAL)
    wait = max(_backoff(SPACING, HOST_MOST, failures, chance), _later(asked, chance))
    return HostState(max(before.next_request, now + wait), failures)


def host_key(url: str) -> str:
    """Name the host that spacing is for: with the port if that is not the usual one.

    >>> host_key("https://Example.org:443/a"), host_key("http://example.org:8080/")
    ('example.org', 'example.org:8080')
    """
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    name = parts.hostname or ""
    return name if parts.port in (None, usual) else f"{name}:{parts.port}"


def _backoff(least: int, most: int, failures: int, chance: float) -> int:
    high = max(least, min(most, least << min(failures, _MOST_DOUBLINGS)))
    return least + int(chance * (high - least))


def _later(span: int, chance: float) -> int:
    return span + int(span * _JITTER * chance)


def _outside(when: int, hints: Hints, chance: float) -> int:
    """Find the first moment from ``when`` on in no skipped hour or day; ``when`` itself if all are skipped."""
    hour = when // _HOUR
    for later in range(24 * 7):
        at = hour + later
        day = (at // 24 + 3) % 7  # the epoch began on a Thursday
        if at % 24 not in hints.skip_hours and day not in hints.skip_days:
            return when if later == 0 else at * _HOUR + int(chance * _SPREAD)
    return when


def _validator(text: str | None) -> str | None:
    """Return a validator that can be sent back as it came."""
    fits = text is not None and 0 < len(text) <= _MAX_VALIDATOR and text.isascii() and text.isprintable()
    return text if fits else None
