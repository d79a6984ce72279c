"""Wishes of a feed on how often to ask for it: ``ttl``, ``sy:updatePeriod``, ``skipHours``, ``skipDays``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from xscl.ingest.markup import collapse, split_name

__all__ = ["NO_HINTS", "Hints", "hints_from_json", "hints_json", "read_hints"]

_MINUTE = 60_000_000
_MOST_MINUTES = 60 * 24 * 366
_SYNDICATION = "http://purl.org/rss/1.0/modules/syndication/"
_PERIODS = {"hourly": 60, "daily": 60 * 24, "weekly": 60 * 24 * 7, "monthly": 60 * 24 * 30, "yearly": 60 * 24 * 365}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, slots=True)
class Hints:
    """Wishes of a feed to whoever polls it."""

    every: int | None = None
    """Least time between two polls in microseconds; None: nothing is said."""
    skip_hours: frozenset[int] = frozenset()
    """Hours of the day in UTC, 0 to 23."""
    skip_days: frozenset[int] = frozenset()
    """Days of the week in UTC, 0 is Monday."""


NO_HINTS = Hints()


def read_hints(root: etree._Element) -> Hints:
    """Return the hints of a feed's tree; what is no number, hour or day is passed over.

    Where several say how often, the longest time counts.
    """
    minutes: list[int] = []
    hours: set[int] = set()
    days: set[int] = set()
    period, frequency = None, 1
    for element in _head(root):
        namespace, name = split_name(element)
        text = collapse("".join(element.itertext(etree.Element))) if name not in ("skipHours", "skipDays") else ""
        if name == "ttl":
            minutes += _numbers(text)
        elif name == "skipHours":
            hours.update(hour % 24 for hour in _numbers(*_children(element, "hour")) if hour <= 24)
        elif name == "skipDays":
            days.update(_DAYS.index(day) for day in map(str.lower, _children(element, "day")) if day in _DAYS)
        elif namespace == _SYNDICATION and name == "updatePeriod":
            period = _PERIODS.get(text.lower())
        elif namespace == _SYNDICATION and name == "updateFrequency":
            frequency = next(_numbers(text), 1) or 1
    if period is not None:
        minutes.append(period // frequency)
    every = min(max(minutes, default=0), _MOST_MINUTES) * _MINUTE
    return Hints(every or None, frozenset(hours), frozenset(days))


def _head(root: etree._Element) -> Iterator[etree._Element]:
    """Yield the children of what describes the feed: RSS has it in ``channel``, Atom in the root."""
    for head in (root, *root.iterchildren("{*}channel")):
        yield from head.iterchildren(etree.Element)


def _children(element: etree._Element, name: str) -> Iterator[str]:
    for child in element.iterchildren(f"{{*}}{name}"):
        yield collapse(child.text or "")


def _numbers(*texts: str) -> Iterator[int]:
    for text in texts:
        if text.isascii() and text.isdigit() and len(text) <= 9:
            yield int(text)


def hints_json(hints: Hints) -> str | None:
    """Return the hints as they are stored; None where nothing is said."""
    values = {
        "every": hints.every,
        "skip_hours": sorted(hints.skip_hours),
        "skip_days": sorted(hints.skip_days),
    }
    said = {name: value for name, value in values.items() if value}
    return json.dumps(said) if said else None


def hints_from_json(text: str | None) -> Hints:
    """Return the hints that ``hints_json`` wrote."""
    if text is None:
        return NO_HINTS
    values = json.loads(text)
    return Hints(values.get("every"), frozenset(values.get("skip_hours", ())), frozenset(values.get("skip_days", ())))
