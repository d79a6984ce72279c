"""Times in the headers of an answer: dates, freshness, when to ask again.

Times are microseconds since the epoch, spans microseconds.  A header that cannot be read says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from xscl.base.types import to_micros

__all__ = ["fresh_for", "http_date", "retry_after"]

_SECOND = 1_000_000
_MOST_DIGITS = 12


def http_date(text: str) -> int | None:
    """Return a date of HTTP, in any of the three forms that there have been.

    >>> http_date("Thu, 01 Jan 1970 00:00:10 GMT"), http_date("Thursday"), http_date("0")
    (10000000, None, None)
    """
    try:
        moment = parsedate_to_datetime(text)
        return to_micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def retry_after(headers: Mapping[str, str], now: int) -> int | None:
    """Read the time for which the sender wants to be left alone: ``Retry-After`` in seconds or as a date.

    Args:
        headers: by names in lower case.
        now: when the answer came.
    """
    text = headers.get("retry-after", "").strip()
    if (seconds := _whole(text)) is not None:
        return seconds * _SECOND
    moment = http_date(text)
    return None if moment is None else max(0, moment - now)


def fresh_for(headers: Mapping[str, str], now: int) -> int | None:
    """Read the time an answer stays fresh by ``Cache-Control: max-age``, else by ``Expires``; None without either.

    Args:
        headers: by names in lower case.
        now: when the answer came, for senders that do not give their own time.
    """
    directives = [part.strip().lower() for part in headers.get("cache-control", "").split(",")]
    if "no-cache" in directives or "no-store" in directives:
        return None
    for directive in directives:
        name, _, value = directive.partition("=")
        if name.strip() == "max-age" and (seconds := _whole(value.strip().strip('"'))) is not None:
            return seconds * _SECOND
    expires = http_date(headers.get("expires", ""))
    if expires is None:
        return None
    sent = http_date(headers.get("date", ""))
    return max(0, expires - (now if sent is None else sent))


def _whole(text: str) -> int | None:
    """Return a whole number of seconds; longer ones than any time we keep are cut."""
    if not text.isascii() or not text.isdigit():
        return None
    return int(text) if len(text) <= _MOST_DIGITS else 10**_MOST_DIGITS
