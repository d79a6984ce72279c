"""Line plots as PNG and SVG, where matplotlib is installed (``pip install 'xscl[bench]'``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["Axes", "Plot", "can_draw", "draw"]

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Plot:
    """Named lines through points (x, y)."""

    title: str
    x: str
    """Label of the x axis, with its unit."""
    y: str
    lines: Mapping[str, tuple[Point, ...]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class Axes:
    """Columns of a table as lines of a plot."""

    title: str
    x: str
    y: str
    over: str
    """Column of the x axis."""
    lines: Mapping[str, str]
    """Column of each line, by its name."""
    by: str | None = None
    """Column whose values have lines of their own."""
    without: str | None = None
    """Column whose value leaves a row out."""
    log_x: bool = False
    log_y: bool = False

    def plot(self, title: str, rows: Iterable[Mapping[str, Any]]) -> Plot:
        """Draw lines through the rows, without points that lack a number.

        >>> rows = [{"n": 1, "s": 0.5, "mode": "a"}, {"n": 2, "s": 0.7, "mode": "a"}, {"n": 1, "s": 3.0, "mode": "b"}]
        >>> Axes("", "number", "seconds", "n", {"": "s"}, by="mode").plot("Time", rows).lines
        {'a': ((1, 0.5), (2, 0.7)), 'b': ((1, 3.0),)}
        """
        drawn: dict[str, tuple[Point, ...]] = {}
        for row in rows:
            if self.without and row[self.without]:
                continue
            for label, column in self.lines.items():
                name = ": ".join(filter(None, (str(row[self.by]) if self.by else "", label)))
                if row.get(column) is not None:
                    drawn[name] = (*drawn.get(name, ()), (row[self.over], row[column]))
        return Plot(title, self.x, self.y, drawn, self.log_x, self.log_y)


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(plot: Plot, stem: Path) -> list[Path]:
    """Write ``<stem>.png`` and ``<stem>.svg``; nothing where matplotlib is missing."""
    if not can_draw():
        return []
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in plot.lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=4, label=name)
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    written = []
    # Without date and random ids, so that equal figures give equal files.
    with matplotlib.rc_context({"svg.hashsalt": stem.name}):
        for suffix, metadata in (("png", None), ("svg", {"Date": None})):
            path = stem.with_suffix(f".{suffix}")
            figure.savefig(path, dpi=120, metadata=metadata)
            written.append(path)
    return written
