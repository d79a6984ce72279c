"""The dates of feeds, read strictly: a date that is not wholly there is no date, because a guess would join.

Two forms are taken: RFC 822 as mail and RSS write it (with its named zones), and ISO 8601 in the profile of
the W3C (``2026-06-01``, ``2026-06-01T09:30Z``, ``2026-06-01 09:30:00.5 +02:00``).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

__all__ = ["parse_date"]

_RFC822 = re.compile(
    r"""(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?
        (?P<date>[0-9]{1,2}\s+[a-z]{3,9}\s+(?P<year>[0-9]{4}|[0-9]{2})\s+[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)\s*
        (?P<zone>ut|utc|gmt|z|[ecmp][sd]t|[+-][0-9]{4}|[+-][0-9]{2}:[0-9]{2})
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


@lru_cache(maxsize=4_096)
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
    zone = found["zone"].upper().replace(":", "")
    # "-0000" says that the zone is not known; the time itself is UTC.
    offset = "+0000" if zone in (*_UTC_NAMES, "-0000") else zone
    moment = parsedate_to_datetime(f"{found['date']} {offset}")
    # Mail takes the year 0001 for 2001.
    return moment.replace(year=int(found["year"])) if len(found["year"]) == 4 else moment
