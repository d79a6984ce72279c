"""Durations of windows: ``7 days``, ``90s``, ``'PT5M'``, a bare number of seconds.  All in integer microseconds."""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = [
    "MAX_DIGITS",
    "UNITS",
    "format_duration",
    "iso_duration",
    "parse_duration",
    "parse_pause",
    "parse_wait",
    "scaled",
]

MAX_DIGITS = 1000
"""Digits of one number in a text, at most."""

_SECOND = 1_000_000
_LONG = {
    "us": (1, ("microsecond",)),
    "ms": (1_000, ("millisecond",)),
    "s": (_SECOND, ("sec", "second")),
    "min": (60 * _SECOND, ("minute",)),
    "h": (3_600 * _SECOND, ("hour",)),
    "d": (86_400 * _SECOND, ("day",)),
    "w": (604_800 * _SECOND, ("week",)),
}
UNITS: dict[str, int] = {
    name: size
    for short, (size, long) in _LONG.items()
    for name in (short, *long, *(word + "s" for word in long), *(("mins",) if short == "min" else ()))
}
"""Unit name (lower case) to microseconds."""

_LONGEST_WAIT = 30 * 365 * UNITS["d"]

_ISO = re.compile(
    r"P(?:(?P<w>\d+(?:\.\d+)?)W)?(?:(?P<d>\d+(?:\.\d+)?)D)?"
    r"(?:T(?=\d)(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<min>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?\Z",
    re.ASCII | re.IGNORECASE,
)
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*\Z", re.ASCII)


def scaled(digits: str, unit: str) -> int:
    """Return ``digits`` of a known unit in microseconds, exactly, finer parts cut.

    Raises:
        ValueError: more than ``MAX_DIGITS`` digits.
    """
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of more than {MAX_DIGITS} digits")
    whole, _, fraction = digits.partition(".")
    return int(Fraction(int(whole + fraction), 10 ** len(fraction)) * UNITS[unit.lower()])


def iso_duration(text: str) -> int:
    """Parse an ISO 8601 duration of weeks, days, hours, minutes and seconds.

    Raises:
        ValueError: no such duration; years and months have no fixed length and are refused.

    >>> iso_duration("PT5M"), iso_duration("P1DT1S")
    (300000000, 86401000000)
    """
    found = _ISO.match(text.strip())
    parts = {unit: value for unit, value in found.groupdict().items() if value} if found else {}
    if not parts:
        raise ValueError(f"{text!r} is no ISO 8601 duration of weeks, days, hours, minutes and seconds")
    return sum(scaled(value, unit) for unit, value in parts.items())


def parse_duration(text: str) -> int:
    """Parse a duration on the command line: ``30s``, ``7 days``, ``PT5M`` or a number of seconds.

    Raises:
        ValueError: not a duration.
    """
    found = _TEXT.match(text)
    if found and (not found[2] or found[2].lower() in UNITS):
        return scaled(found[1], found[2] or "s")
    try:
        return iso_duration(text)
    except ValueError:
        raise ValueError(f"{text!r} is no duration; durations are written 30s, 5 min, 7 days or PT5M") from None


def parse_wait(text: str) -> float:
    """Parse a time to wait, in seconds; more than thirty years count as thirty, which clocks of processes can wait for.

    Raises:
        ValueError: not a duration.

    >>> parse_wait("5 min"), parse_wait("99999 w") == parse_wait("9999999 w")
    (300.0, True)
    """
    return min(parse_duration(text), _LONGEST_WAIT) / _SECOND


def parse_pause(text: str) -> float:
    """Parse the time between two looks, in seconds.

    Raises:
        ValueError: not a duration, or less than a millisecond.
    """
    if parse_duration(text) < UNITS["ms"]:
        raise ValueError(f"{text!r} leaves no time between two looks; 1 ms is the least, and 1s is often enough")
    return parse_wait(text)


def format_duration(micros: int) -> str:
    """Return the shortest exact text of a duration, which parses to the same.

    >>> format_duration(604_800_000_000), format_duration(90_000_000), format_duration(0)
    ('1 w', '90 s', '0 s')
    """
    if micros < 0:
        return "-" + format_duration(-micros)
    if micros == 0:
        return "0 s"
    for unit in ("w", "d", "h", "min", "s", "ms"):
        if micros % UNITS[unit] == 0:
            return f"{micros // UNITS[unit]} {unit}"
    return f"{micros} us"
