"""Plots of the console: figures by time, bars of amounts, and curves of a column over another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

__all__ = ["Bar", "Curve", "Sparkline", "bars", "curve", "sparkline"]

_LINE = 22
"""Height of a bar and the space below it, in pixels."""
_LONGEST = 34
"""Characters of a label."""
_BARS, _MOST_BARS = 300, 40
"""Width of the longest bar, and bars of a drawing at most."""
_WIDTH, _HEIGHT = 640, 200
"""Size of a curve."""
_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
"""Types of Spark whose values have places on a line."""
_TIMES = frozenset({"timestamp", "date", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Figures as a line and the area below it."""

    width: int
    height: int
    line: str
    area: str
    greatest: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure of a row."""

    label: str
    figure: str
    y: int
    width: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A column of figures over a column of numbers or times; all its texts are ready to be shown."""

    width: int
    height: int
    line: str
    first: str
    """Least value of the first column."""
    last: str
    lowest: str
    highest: str
    name: str


def sparkline(figures: Sequence[float], width: int = 240, height: int = 40) -> Sparkline:
    """Draw figures from left to right; the greatest one reaches the top."""
    most = max(figures, default=0.0) or 1.0
    step = width / max(1, len(figures) - 1)
    places = [
        f"{step * number:.1f},{height - 1 - (height - 3) * each / most:.1f}" for number, each in enumerate(figures)
    ]
    line = " ".join(places)
    return Sparkline(width, height, line, f"0,{height} {line} {width},{height}", max(figures, default=0.0))


def bars(rows: Sequence[Sequence[object]]) -> list[Bar]:
    """Draw the last column of some rows, labelled by their first one; nothing where it is no column of amounts."""
    figures = [row[-1] for row in rows if len(row) > 1]
    if not 2 <= len(figures) == len(rows) <= _MOST_BARS:
        return []
    amounts = [float(each) for each in figures if isinstance(each, (int, float)) and not isinstance(each, bool)]
    if len(amounts) < len(rows) or min(amounts) < 0 or not max(amounts) > 0:
        return []
    shares = [each / max(amounts) for each in amounts]
    return [
        Bar(str(row[0])[:_LONGEST], str(row[-1]), _LINE * number, round(_BARS * share, 1))
        for number, (row, share) in enumerate(zip(rows, shares, strict=True))
    ]


def curve(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> Curve | None:
    """Draw the last column of some rows over the first one; None where those are no numbers, or have no order.

    Args:
        columns: names and types of the columns.
        rows: their values; times as ISO 8601.
    """
    if len(columns) < 2 or columns[0][1] not in _NUMBERS | _TIMES or columns[-1][1] not in _NUMBERS:
        return None
    places = [(_place(row[0]), _place(row[-1])) for row in rows]
    found = sorted(
        (x, y, str(row[0])) for (x, y), row in zip(places, rows, strict=True) if x is not None and y is not None
    )
    if len(found) < 3 or found[0][0] == found[-1][0]:
        return None
    low, high = min(y for _, y, _ in found), max(y for _, y, _ in found)
    left, span, tall = found[0][0], found[-1][0] - found[0][0], (high - low) or 1.0
    line = " ".join(
        f"{(x - left) / span * _WIDTH:.1f},{_HEIGHT - 2 - (y - low) / tall * (_HEIGHT - 4):.1f}" for x, y, _ in found
    )
    name = f"{columns[-1][0]} over {columns[0][0]}"
    return Curve(_WIDTH, _HEIGHT, line, found[0][2], found[-1][2], f"{low:,g}", f"{high:,g}", name)


def _place(value: object) -> float | None:
    """Return where a value stands on a line; None for what has no place there."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < float("inf") else None
