"""Printing rows: a table for people, JSON and CSV for programs.  Data goes to stdout."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from xscl.base import terminal
from xscl.base.shown import for_terminal, json_escaped
from xscl.base.terminal import show, write_data

__all__ = ["Format", "distinct_names", "print_rows"]


class Format(StrEnum):
    """Formats of listings."""

    table = "table"
    ndjson = "ndjson"
    json = "json"
    csv = "csv"


Row = Mapping[str, object]

_TIME = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+Z?)?")
_LEAST = 8
"""Characters of a column that may be broken, if times and numbers are not to be."""


def distinct_names(columns: Iterable[str]) -> list[str]:
    """Name columns so that no two have one name: the second ``title`` becomes ``title_2``.

    >>> distinct_names(["title", "title", "title_2", "title"])
    ['title', 'title_3', 'title_2', 'title_4']
    """
    given = list(columns)
    taken, named = set(given), set[str]()
    found = []
    for name in given:
        new, number = name, 1
        while new in named or (number > 1 and new in taken):
            number += 1
            new = f"{name}_{number}"
        named.add(new)
        found.append(new)
    return found


def print_rows(
    rows: Iterable[Row],
    columns: Sequence[str],
    format_: Format,
    *,
    short: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> int:
    """Print rows, one after another where the format allows it; returns how many.

    Args:
        rows: what to print.
        columns: of tables and CSV.
        format_: how.
        short: columns of a person's table, without those that are empty in all rows; all columns by default.
        notes: columns that a person gets as lines below their row, where they have something.
    """
    match format_:
        case Format.ndjson:
            return _each(rows, lambda row: write_data(_json(row) + "\n"))
        case Format.json:
            return _array(rows)
        case Format.csv:
            writer = csv.writer(sys.stdout)
            writer.writerow(columns)
            return _each(rows, lambda row: writer.writerow([_cell(row.get(name)) for name in columns]))
        case Format.table:
            if not sys.stdout.isatty():
                return _plain_table(rows, columns)
            shown, listed = short or columns, list(rows)
            return _noted_table(listed, shown, notes) if notes else _table(listed, shown)


def _each(rows: Iterable[Row], write: Callable[[Row], object]) -> int:
    count = 0
    for row in rows:
        write(row)
        count += 1
    return count


def _array(rows: Iterable[Row]) -> int:
    write_data("[")
    before = iter(("",))
    count = _each(rows, lambda row: write_data(next(before, ",\n ") + _json(row)))
    write_data("]\n")
    return count


def _json(row: Row) -> str:
    # JSON has no NaN and no infinities.
    values = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    return json_escaped(json.dumps(values, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return str(value)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else repr(value)
    return str(value)


def _table(rows: list[Row], columns: Sequence[str]) -> int:
    """Return a table as wide as the terminal, without columns that have nothing in any row."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = {name: [_cell(row.get(name)) for row in rows] for name in columns}
    cells = {name: column for name, column in cells.items() if any(column)}
    console = terminal.console(soft_wrap=False)
    numeric = {name for name in cells if all(isinstance(row.get(name), (int, float, type(None))) for row in rows)}
    # A time or a number that is broken cannot be read, nor copied.
    whole = numeric | {name for name, column in cells.items() if all(_TIME.fullmatch(text) for text in column if text)}
    room = console.width - sum(max(map(len, [name, *cells[name]])) + 2 for name in whole)
    fits = room >= _LEAST * (len(cells) - len(whole))
    for name in cells:
        justify: Literal["left", "right"] = "right" if name in numeric else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=fits and name in whole)
    for values in zip(*cells.values(), strict=True):
        table.add_row(*values)
    if cells:
        console.print(table)
    return len(rows)


def _noted_table(rows: list[Row], columns: Sequence[str], notes: Sequence[str]) -> int:
    """Return a table whose first column, such as an address, is never broken, so that it can be copied."""
    if not rows:
        return 0
    console = terminal.console()
    first, *others = columns
    cells = [[_line(row.get(name)) for name in others] for row in rows]
    widths = [max(map(len, column)) for column in zip(others, *cells, strict=True)]
    room = max(console.width - sum(widths) - 2 * len(widths), len(first))
    room = min(room, max([len(first), *(len(_line(row.get(first))) for row in rows)]))
    right = [all(isinstance(row.get(name), (int, float, type(None))) for row in rows) for name in others]

    def line(head: str, values: Sequence[str], style: str = "") -> None:
        padded = [
            value.rjust(width) if flush else value.ljust(width)
            for value, width, flush in zip(values, widths, right, strict=True)
        ]
        if len(head) > room:
            console.print(head)
            head = ""
        console.print("  ".join([head.ljust(room), *padded]).rstrip(), style=style)

    line(first, others, "bold")
    for row, values in zip(rows, cells, strict=True):
        line(_line(row.get(first)), values)
        for note in notes:
            if text := _line(row.get(note)):
                console.print(f"    {note}: {text}", style="dim")
    return len(rows)


def _plain_table(rows: Iterable[Row], columns: Sequence[str]) -> int:
    """Return a table in a pipe, which has no width: a row is a line, so that it can be searched and cut.

    Columns are as wide as the first thousand rows need; a wider cell further down moves what comes behind it.
    """
    waiting = iter(rows)
    first = list(itertools.islice(waiting, 1_000))
    lines = [[_line(row.get(name)) for name in columns] for row in first]
    widths = [max(map(len, cells)) for cells in zip(columns, *lines, strict=True)]
    right = [
        bool(first) and all(isinstance(row.get(name), (int, float, type(None))) for row in first) for name in columns
    ]

    def write(cells: Sequence[str]) -> None:
        padded = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(cells, widths, right, strict=True)
        ]
        show("  ".join(padded).rstrip())

    write(columns)
    for cells in lines:
        write(cells)
    return len(first) + _each(waiting, lambda row: write([_line(row.get(name)) for name in columns]))


def _line(value: object) -> str:
    return for_terminal(" ".join(_cell(value).splitlines()).replace("\t", " "))
