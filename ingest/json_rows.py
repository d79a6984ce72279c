"""JSON lines and rows of Python into tables of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from typing import cast

import numpy as np
import pyarrow as pa

from xscl.base.errors import SourceError
from xscl.base.types import Scalar
from xscl.ingest.event_file import read_row_line
from xscl.ingest.lines import ByteStream, LineRange, placed_lines
from xscl.ingest.plain_rows import plain_rows
from xscl.ingest.reading import Reading
from xscl.ingest.records import Rejected, RowTable, rejected

__all__ = ["python_table", "read_json_lines"]


_BLOCK = 2 * 1024 * 1024
"""Bytes in which the lines of one table begin."""
_TOGETHER = 100
"""Lines that are read at once, if nothing can be wrong with any of them."""


_EXACT = 2**53


def read_json_lines(
    stream: ByteStream, *, channel: str, source: str, reading: Reading, within: LineRange | None = None
) -> Iterator[RowTable]:
    """Yield the rows of JSON lines, one flat object each; a line that is none is a problem of its table.

    Args:
        stream: from its beginning on, or from that of the range.
        channel: the rows' channel.
        source: what places and ids begin with.
        reading: options; ``format`` has no meaning here.
        within: the range to read; None: the whole file.
    """
    within = within or LineRange()
    block, first, lines = within.begin // _BLOCK, within.line, list[bytes]()

    def tables() -> Iterator[RowTable]:
        rows, numbers, problems = _json_rows(lines, first, channel=channel, source=source)
        if rows or problems:
            exact = _set_apart(rows, numbers)
            table = python_table(rows, numbers, problems, channel=channel, source=source, reading=reading)
            yield replace(table, exact=exact) if exact else table

    for at, text in placed_lines(stream, begin=within.begin, end=within.end):
        if at // _BLOCK != block:
            yield from tables()
            block, first, lines = at // _BLOCK, first + len(lines), []
        lines.append(text)
    yield from tables()


def _json_rows(
    lines: Sequence[bytes], first: int, *, channel: str, source: str
) -> tuple[list[dict[str, Scalar]], list[int], list[Rejected]]:
    """Read lines from the one with the number ``first`` on: rows, their numbers, and lines that are none."""
    rows: list[dict[str, Scalar]] = []
    numbers: list[int] = []
    problems: list[Rejected] = []
    for start in range(0, len(lines), _TOGETHER):
        some = lines[start : start + _TOGETHER]
        plain = plain_rows(some)
        if plain is not None:
            rows += plain
            numbers += range(first + start, first + start + len(some))
            continue
        for number, line in enumerate(some, start=first + start):
            try:
                row = read_row_line(line, first=number == 1)
                if row is not None:
                    rows.append(row)
                    numbers.append(number)
            except SourceError as error:
                problems.append(rejected(f"{source}:{number}", error, channel))
    return rows, numbers, problems


def _set_apart(rows: Sequence[dict[str, Scalar]], numbers: Sequence[int]) -> dict[int, dict[str, int | Decimal]]:
    """Take numbers out of rows that neither doubles nor, in columns without fractions, 64 bits hold; return them as
    ``RowTable.exact`` has them.
    """
    values = list(chain.from_iterable(map(dict.values, rows)))
    whole = [value for value in values if type(value) is int]
    if Decimal not in set(map(type, values)) and all(_fits(end(whole), exact=False) for end in (min, max) if whole):
        return {}
    fractions = {name for row in rows for name, value in row.items() if type(value) in (float, Decimal)}
    exact: dict[int, dict[str, int | Decimal]] = {}
    for row, number in zip(rows, numbers, strict=True):
        found = {
            name: value
            for name, value in row.items()
            if isinstance(value, Decimal) or (type(value) is int and not _fits(value, exact=name not in fractions))
        }
        if found:
            exact[number] = found
            row |= {name: float(value) if isinstance(value, Decimal) else None for name, value in found.items()}
    return exact


def python_table(
    rows: Sequence[Mapping[str, Scalar]],
    numbers: Sequence[int],
    problems: Sequence[Rejected] = (),
    *,
    channel: str,
    source: str,
    reading: Reading,
) -> RowTable:
    """Make a table of rows of Python; a row with a value of another kind than most in its column is a problem."""
    columns = _columns(rows)
    wrong: dict[int, str] = {}
    for name, values in columns.items():
        for place, told in _misfits(name, values):
            wrong.setdefault(place, told)
    where = [f"{source}:{number}" for number in numbers]
    refused = [Rejected(where[place], "XSCL_ROW_SCHEMA", wrong[place], channel) for place in sorted(wrong)]
    taken = np.array(numbers, dtype=np.int64)
    if wrong:
        kept = [place for place in range(len(rows)) if place not in wrong]
        columns = {name: [values[place] for place in kept] for name, values in columns.items()}
        taken = taken[kept]
    arrays = {name: _python_array(values) for name, values in columns.items()}
    return RowTable(
        channel,
        pa.table(arrays),
        source,
        taken,
        options=reading.rows,
        schema=reading.declared,
        problems=(*problems, *refused),
    )


def _misfits(name: str, values: Sequence[Scalar]) -> Iterator[tuple[int, str]]:
    """Yield the places of values that are of another kind than most of their column, and the refusal of each."""
    if _is_sound(set(map(type, values)) - {type(None)}, values):
        return
    kinds = Counter(_kind(value) for value in values if value is not None)
    wanted = kinds.most_common(1)[0][0] if kinds else None
    # Numbers with and without fractions are of one kind.
    allowed = {"bigint", "double"} if wanted in ("bigint", "double") else {wanted}
    exact = "double" not in kinds
    for place, value in enumerate(values):
        if value is None:
            continue
        kind = _kind(value)
        if kind not in allowed or (kind == "bigint" and not _fits(cast(int, value), exact=exact)):
            yield place, f"column {name!r}: expected {wanted}, found {kind} {str(value)[:80]!r}"


def _columns(rows: Sequence[Mapping[str, Scalar]]) -> dict[str, list[Scalar]]:
    """Return the values of each column, None where a row lacks it."""
    if rows and sum(map(len, rows)) == len(rows) * len(rows[0]):
        try:
            # Rows of as many columns as the first, which have all of its columns, have no other.
            return {name: [row[name] for row in rows] for name in rows[0]}
        except KeyError:
            pass
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


_KINDS = (
    (bool, "boolean"),
    (int, "bigint"),
    (float, "double"),
    (str, "string"),
    (Decimal, "decimal"),
    (datetime, "timestamp"),
    (date, "date"),
)


_ARRAYS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def _is_sound(types: set[type], values: Sequence[Scalar]) -> bool:
    """Whether all values of a column are of one kind, told without looking at each; most columns are."""
    if types <= {float, int} and int in types:
        numbers = [value for value in values if type(value) is int]
        exact = float not in types
        return _fits(min(numbers), exact=exact) and _fits(max(numbers), exact=exact)
    return len(types) <= 1 and all(type_ in dict(_KINDS) for type_ in types)


def _kind(value: object) -> str:
    return next((name for type_, name in _KINDS if isinstance(value, type_)), type(value).__name__)


def _fits(value: int, *, exact: bool) -> bool:
    return -(2**63) <= value < 2**63 if exact else -_EXACT <= value <= _EXACT


def _python_array(values: list[Scalar]) -> pa.Array:
    types = set(map(type, values)) - {type(None)}
    if types == {float, int}:
        return pa.array(values, pa.float64())
    if len(types) == 1:
        return pa.array(values, _ARRAYS.get(types.pop()))
    if any(issubclass(type_, float) for type_ in types):
        return pa.array([None if value is None else float(cast(float, value)) for value in values], pa.float64())
    return pa.array(values)
