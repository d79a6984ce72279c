"""Rows of JSON lines in which nothing can be wrong, some lines at once.

Nothing is refused here.  Who is told that lines are not plain looks at them closely, and finds most of them sound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

from xscl.base.types import Scalar
from xscl.base.values import exact_number

__all__ = ["plain_row", "plain_rows"]

_Row = dict[str, Scalar]
_SCALARS = frozenset((str, int, float, bool, Decimal, type(None)))
_LONGEST = 1 << 20
_ALIKE = bytes.maketrans(b"123456789.E", b"0000000000e")
_INEXACT = (b"0" * 17, b"0" * 16 + b"e", b"0e000", b"0e+000", b"0e-000")
"""Parts of numbers that may be no doubles, with all digits alike; texts may have such parts, too."""
_BEHIND_KEYS = (" :", "\t:", "\r:", "\n:")


def plain_row(text: str) -> _Row | None:
    """Return the row of a line in which nothing can be wrong; None where it is to be looked at closely."""
    try:
        found = _read(text)
    except (ValueError, ArithmeticError, RecursionError):
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
        rows: list[_Row] = _read(f"[{text}]")
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return rows if len(rows) == len(lines) and _are_plain(rows, text) else None


def _read(text: str) -> Any:
    """Read JSON; a number is a decimal where a double would not be exact."""
    alike = text.encode("utf-8", "replace").translate(_ALIKE)
    return json.loads(text, parse_float=exact_number if any(part in alike for part in _INEXACT) else None)


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
