"""Line plots as PNG and SVG, where matplotlib is installed (``pip install 'xscl[bench]'``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any

__all__ = ["Axes", "Lines", "Plot", "can_draw", "draw", "of_value", "times_line"]

Point = tuple[float, float]
Lines = Mapping[str, tuple[Point, ...]]
_Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Plot:
    """Named lines through points (x, y)."""

    title: str
    x: str
    """Label of the x axis, with its unit."""
    y: str
    lines: Lines
    log_x: bool = False
    log_y: bool = False
    told: Lines = field(default_factory=dict)
    """Lines that others tell of, drawn beside."""


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
    chosen: Callable[[_Rows], Iterable[Mapping[str, Any]]] | None = None
    """Chooses the rows that are drawn; None: all are."""
    log_x: bool = False
    log_y: bool = False
    told: Callable[[Lines], Lines] | None = None
    """Gives lines that others tell of, from those that were measured."""

    def plot(self, title: str, rows: _Rows) -> Plot:
        """Draw lines through the rows, without points that lack a number.

        >>> rows = [{"n": 1, "s": 0.5, "mode": "a"}, {"n": 2, "s": 0.7, "mode": "a"}, {"n": 1, "s": 3.0, "mode": "b"}]
        >>> Axes("", "number", "seconds", "n", {"": "s"}, by="mode").plot("Time", rows).lines
        {'a': ((1, 0.5), (2, 0.7)), 'b': ((1, 3.0),)}
        """
        drawn: dict[str, tuple[Point, ...]] = {}
        for row in rows if self.chosen is None else self.chosen(rows):
            for label, column in self.lines.items():
                name = ": ".join(filter(None, (str(row[self.by]) if self.by else "", label)))
                if row.get(column) is not None:
                    drawn[name] = (*drawn.get(name, ()), (row[self.over], row[column]))
        told = {} if self.told is None else self.told(drawn)
        return Plot(title, self.x, self.y, drawn, self.log_x, self.log_y, told)


def of_value(column: str, value: object) -> Callable[[_Rows], Iterable[Mapping[str, Any]]]:
    """Choose the rows with a value in a column.

    >>> of_value("n", 1)([{"n": 1}, {"n": 2}])
    [{'n': 1}]
    """
    return lambda rows: [row for row in rows if row.get(column) == value]


def times_line(name: str, line: str, factor: float) -> Callable[[Lines], Lines]:
    """Tell of a line that is so many times another one.

    >>> times_line("told", "ours", 4)({"ours": ((1, 2.0), (10, 3.0))})
    {'told': ((1, 8.0), (10, 12.0))}
    """
    return lambda lines: {name: tuple((x, factor * y) for x, y in lines.get(line, ()))}


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(plots: Sequence[Plot], stem: Path) -> list[Path]:
    """Write ``<stem>.png`` and ``<stem>.svg``, with plots side by side; nothing where matplotlib is missing."""
    if not can_draw():
        return []
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7 if len(plots) == 1 else 5.5 * len(plots), 4.5), layout="constrained")
    for number, plot in enumerate(plots, 1):
        _draw_in(figure.add_subplot(1, len(plots), number), plot)
    written = []
    # Without date and random ids, so that equal figures give equal files.
    with matplotlib.rc_context({"svg.hashsalt": stem.name}):
        for suffix, metadata in (("png", None), ("svg", {"Date": None})):
            path = stem.with_suffix(f".{suffix}")
            figure.savefig(path, dpi=120, metadata=metadata)
            written.append(path)
    return written


def _draw_in(axes: Any, plot: Plot) -> None:
    for name, points in plot.lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=4, label=name)
    for (name, points), style in zip(plot.told.items(), cycle(("--", ":")), strict=False):
        axes.plot([x for x, _ in points], [y for _, y in points], f"kx{style}", alpha=0.6, label=name)
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
