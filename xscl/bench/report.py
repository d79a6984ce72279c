"""Report of a bench: figures, a table, a plot, and the machine they were measured on."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from xscl import __version__
from xscl.bench.plot import Plot, draw

__all__ = ["Report", "Row", "Value", "machine", "rounded", "rounded_row", "write_report"]

Value = str | int | float | bool | None
Row = Mapping[str, Any]
"""Values by name, each a ``Value``."""
_PACKAGES = ("pyspark", "pyarrow", "pandas", "lxml", "elementpath", "sqlalchemy")


@dataclass(frozen=True, slots=True)
class Report:
    """One run of one bench."""

    bench: str
    settings: Row
    """Sizes and seed with which the run can be repeated."""
    figures: Row
    """Figures by the names of docs/reference/benchmarks.md; times in the unit that the name ends in."""
    table: tuple[Row, ...]
    """Rows of equal columns."""
    plots: tuple[Plot, ...]
    """Plots that are drawn side by side."""
    notes: tuple[str, ...] = ()
    """Notes for readers of the figures: samples, extrapolation."""
    spark: bool = True
    """True where Spark takes part, so that Java is part of the machine."""


def rounded(value: float, digits: int = 4) -> float:
    """Round to so many significant digits, as many as a measured time has.

    >>> rounded(1234.567), rounded(0.00012345)
    (1235.0, 0.0001234)
    """
    return float(f"{value:.{digits}g}")


def rounded_row(row: Row) -> Row:
    """Round all numbers of a row that are no integers."""
    return {name: rounded(value) if isinstance(value, float) else value for name, value in row.items()}


def machine(*, java: bool) -> dict[str, object]:
    """Return cores, memory and versions; nothing that names the machine, its user or its folders."""
    found: dict[str, object] = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "xscl": __version__,
    }
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    if java:
        from xscl.spark.java import java_version

        found["java"] = java_version()[1]
    return found


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write ``<bench>.csv .md .json`` and, where matplotlib is installed, ``.png .svg``; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    host = machine(java=report.spark)
    record = {name: value for name, value in asdict(report).items() if name != "spark"}
    texts = {
        "csv": _csv(report),
        "md": _markdown(report, host),
        "json": json.dumps({**record, "machine": host}, indent=1) + "\n",
    }
    written = []
    for suffix, text in texts.items():
        path = folder / f"{report.bench}.{suffix}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written + draw(report.plots, folder / report.bench)


def _csv(report: Report) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(report.table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(report.table)
    return text.getvalue()


def _markdown(report: Report, host: Mapping[str, object]) -> str:
    settings = ", ".join(f"{name} {_cell(value)}" for name, value in report.settings.items())
    parts = [
        f"# {report.bench}",
        f"With {settings}.",
        _rows(list(report.table[0]), [list(row.values()) for row in report.table]),
        _rows(["figure", "value"], [[f"`{name}`", value] for name, value in report.figures.items()]),
        *report.notes,
        _rows(["machine", ""], [[name, value] for name, value in host.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(columns: list[str], rows: list[list[object]]) -> str:
    rule = ["---" if column in ("figure", "machine") else "--:" for column in columns]
    lines = [columns, rule, *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value).replace("|", "\\|")
