"""Rows of JSON lines in which nothing can be wrong, some lines at once.

Nothing is refused here.  Who is told that lines are not plain looks at them closely, and finds most of them sound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import chain

from xscl.base.types import Scalar

__all__ = ["plain_row", "plain_rows"]

_Row = dict[str, Scalar]
_SCALARS = frozenset((str, int, float, bool, type(None)))
_LONGEST = 1 << 20
_BEHIND_KEYS = (" :", "\t:", "\r:", "\n:")


def plain_row(text: str) -> _Row | None:
    """Return the row of a line in which nothing can be wrong; None where it is to be looked at closely."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if _are_plain([found], text) else None


def plain_rows(lines: Sequence[bytes]) -> list[_Row] | None:
    """Return the rows of lines of at most ``_LONGEST`` bytes together; None where one of them may be no plain row."""
    joined = b",\n".join([line.strip() for line in lines])
    # Every line begins and ends with a brace, and no text holds a line feed.  So rows of scalars, as many as there
    # are lines, are one for each line.
    if joined.count(b"},\n{") != len(lines) - 1 or joined[:1] != b"{" or len(joined) > _LONGEST:
        return None
    try:
        text = joined.decode("utf-8")
        rows: list[_Row] = json.loads(f"[{text}]")
    except (ValueError, RecursionError):
        return None
    return rows if len(rows) == len(lines) and _are_plain(rows, text) else None


def _are_plain(rows: Sequence[object], text: str) -> bool:
    """Whether values read from a text are rows of scalars that can be stored, in which no key is written twice."""
    if set(map(type, rows)) != {dict} or any(written in text for written in _BEHIND_KEYS):
        return False
    found: Sequence[_Row] = rows  # type: ignore[assignment]
    if text.count('":') != sum(map(len, found)):
        return False
    values = list(chain.from_iterable(map(dict.values, found)))
    kinds = set(map(type, values))
    if not kinds <= _SCALARS:
        return False
    # A sum is finite only where all numbers are.
    if float in kinds and not math.isfinite(sum([value for value in values if type(value) is float])):
        return False
    return "\\u" not in text or _have_characters([*chain.from_iterable(found), *values])


def _have_characters(values: Sequence[Scalar]) -> bool:
    """Whether no text has half a surrogate pair."""
    try:
        "".join([value for value in values if type(value) is str]).encode()
    except UnicodeEncodeError:
        return False
    return True
