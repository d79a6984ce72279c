"""Line plots as PNG and SVG, where matplotlib is installed (``pip install 'xscl[bench]'``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["Plot", "can_draw", "draw"]


@dataclass(frozen=True, slots=True)
class Plot:
    """Named lines through points (x, y)."""

    title: str
    x: str
    """What the x axis says, with its unit."""
    y: str
    lines: Mapping[str, tuple[tuple[float, float], ...]]
    log_x: bool = False
    log_y: bool = False


def can_draw() -> bool:
    """Whether matplotlib is installed."""
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
