"""Windows of an invocation (PSoup): which times a listing of matches speaks of, as of a moment NOW."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from xscl.base.durations import parse_duration
from xscl.base.errors import EngineError
from xscl.base.types import to_micros

__all__ = ["Window", "parse_moment", "parse_window"]

_NOW = re.compile(r"\s*now\s*(?:([+-])(.*))?\Z", re.ASCII | re.IGNORECASE | re.DOTALL)
_MOMENTS = "NOW, NOW-7d, NOW+1h, an ISO 8601 time or seconds since the epoch"
_FORMS = f"a window is written BEGIN..END; each is {_MOMENTS}"


@dataclass(frozen=True, slots=True)
class _End:
    """One end of a window, in microseconds: since the epoch, or from NOW on."""

    micros: int
    moves: bool

    def at(self, now: int) -> int:
        return now + self.micros if self.moves else self.micros


@dataclass(frozen=True, slots=True)
class Window:
    """Both ends included: *sliding* if both move with NOW, *landmark* if one does, *snapshot* if none."""

    begin: _End
    end: _End

    def at(self, now: int) -> tuple[int, int]:
        """Give the window as of ``now`` in microseconds; later events have not come yet."""
        return self.begin.at(now), min(self.end.at(now), now)


def parse_window(text: str) -> Window:
    """Read the window that a text stands for.

    Raises:
        EngineError: ``XSCL_BAD_WINDOW``: it is none, or begins after its end whatever NOW is.

    >>> parse_window("NOW-10..NOW").at(12_000_000), parse_window("2..12").at(5_000_000)
    ((2000000, 12000000), (2000000, 5000000))
    """
    begin_text, dots, end_text = text.partition("..")
    if not dots:
        raise EngineError("XSCL_BAD_WINDOW", f"{text!r} has no '..'", hint=_FORMS)
    begin, end = _end(begin_text), _end(end_text)
    if begin.moves == end.moves and begin.micros > end.micros:
        raise EngineError("XSCL_BAD_WINDOW", f"{text!r} begins after its end", hint="the earlier end comes first")
    return Window(begin, end)


def parse_moment(text: str, now: int) -> int:
    """Read one moment as a window's ends are written, as of ``now``; both are microseconds since the epoch.

    Raises:
        ValueError: it is none.

    >>> parse_moment("NOW-7s", 12_000_000), parse_moment("2", 0)
    (5000000, 2000000)
    """
    try:
        return _end(text).at(now)
    except EngineError as error:
        raise ValueError(f"{error.message}; a time is {_MOMENTS}") from None


def _end(text: str) -> _End:
    try:
        if (found := _NOW.match(text)) is not None:
            sign, duration = found.groups()
            micros = 0 if sign is None else parse_duration(duration)
            return _End(-micros if sign == "-" else micros, True)
        try:
            return _End(to_micros(Decimal(text.strip())), False)
        except InvalidOperation:
            return _End(to_micros(text), False)
    except ValueError as error:
        raise EngineError("XSCL_BAD_WINDOW", str(error), hint=_FORMS) from None
