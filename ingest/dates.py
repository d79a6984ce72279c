"""The dates of feeds, read strictly: a date that is not wholly there is no date, because a guess would join.

Two forms are taken: RFC 822 as mail and RSS write it (with its named zones), and ISO 8601 in the profile of
the W3C (``2026-06-01``, ``2026-06-01T09:30Z``, ``2026-06-01 09:30:00.5 +02:00``).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

__all__ = ["parse_date"]

_RFC822 = re.compile(
    r"""(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?
        ([0-9]{1,2})\s+([a-z]{3,9})\s+([0-9]{4}|[0-9]{2})\s+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?\s*
        (ut|utc|gmt|z|[ecmp][sd]t|[+-][0-9]{4}|[+-][0-9]{2}:[0-9]{2})
        (?:\s*\([^()]*\))?""",
    re.IGNORECASE | re.VERBOSE,
)
_ISO = re.compile(
    r"""(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})
        (?:(?:T|\s+)(?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?)\s*
           (?P<zone>Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)?)?""",
    re.IGNORECASE | re.VERBOSE,
)
_NEVER = datetime(1, 1, 1, tzinfo=UTC)
_UTC_NAMES = ("Z", "UT", "UTC", "GMT")
_HOURS = {"E": -5, "C": -6, "M": -7, "P": -8}
"""Offsets of the zones of mail, as EST; EDT is an hour more."""
_NAMES = ["january", "february", "march", "april", "may", "june"]
_NAMES += ["july", "august", "september", "october", "november", "december"]
_MONTHS = {text: number for number, name in enumerate(_NAMES, start=1) for text in (name, name[:3])}
_LAST_OF_THIS_CENTURY = 68
"""Last year of two digits that is one of this century, as mail has it."""


def parse_date(text: str) -> datetime | None:
    """Return the moment, in UTC; None where the text is not wholly a date.

    A date without a time is its midnight, an ISO time without a zone is UTC; RFC 822 needs both.  The name of
    the weekday is not compared with the date.  The first moment of the year 1 is how programs write that they
    have no date, and is none.

    >>> parse_date("Mon, 01 Jun 2026 05:30:00 EDT").isoformat(), parse_date("2026-06-01").isoformat()
    ('2026-06-01T09:30:00+00:00', '2026-06-01T00:00:00+00:00')
    >>> parse_date("2016/6/29 15:07:41") is None
    True
    """
    text = text.strip()
    return None if len(text) > 100 else _parsed(text)


@lru_cache(maxsize=16_384)  # most feeds with all their entries, whose dates are asked for again
def _parsed(text: str) -> datetime | None:
    try:
        moment = _iso(text) or _rfc822(text)
        found = moment.astimezone(UTC) if moment else None
        return None if found == _NEVER else found
    except (ValueError, OverflowError, TypeError):  # a 31st of June, an hour 25, a moment before the year 1
        return None


def _iso(text: str) -> datetime | None:
    found = _ISO.fullmatch(text)
    if not found:
        return None
    zone = (found["zone"] or "Z").upper()
    offset = "+00:00" if zone in _UTC_NAMES else zone
    return datetime.fromisoformat(f"{found['date']}T{found['time'] or '00:00'}{offset}".replace(",", "."))


def _rfc822(text: str) -> datetime | None:
    found = _RFC822.fullmatch(text)
    if not found:
        return None
    day, month, year, hour, minute, second, zone = found.groups()
    number = _MONTHS.get(month.lower())
    if number is None:
        return None
    whole = int(year)
    if len(year) == 2:
        whole += 1900 if whole > _LAST_OF_THIS_CENTURY else 2000
    return datetime(whole, number, int(day), int(hour), int(minute), int(second or 0), tzinfo=_zone(zone.upper()))


@lru_cache(maxsize=64)
def _zone(name: str) -> timezone:
    """Return the zone of a name or an offset; "-0000" says that it is not known, and the time itself is UTC."""
    if name in _UTC_NAMES:
        return UTC
    if name[0] in "+-":
        digits = name[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        return timezone(-offset if name[0] == "-" else offset)
    return timezone(timedelta(hours=_HOURS[name[0]] + (name[1] == "D")))
