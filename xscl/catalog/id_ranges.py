"""Ids of rows that are kept as ranges: one row of ``row_ranges`` for many, instead of one of ``event_ids`` for each.

The ids of a range are a prefix and a number, growing with the documents' numbers; not every number between the first
and the last need be there.  The documents' numbers are without gaps.  The file of a range may hold other events, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.sealed import CHECKED_PAGES, check_file
from xscl.catalog.tables import ROW_RANGES

__all__ = ["RangeRow", "StoredRows", "rows_by_id", "split_id", "stored_rows"]

_NUMBERED = re.compile(r"(.*:)?(0|-?[1-9][0-9]{0,17})\Z", re.DOTALL)


def split_id(text: str) -> tuple[str, int] | None:
    """Return the prefix and the number of an id that a range may hold; None for others.

    >>> split_id("readings.csv:17"), split_id("17"), split_id("a17"), split_id("x:07")
    (('readings.csv:', 17), ('', 17), None, None)
    """
    found = _NUMBERED.match(text)
    return None if found is None else (found[1] or "", int(found[2]))


@dataclass(frozen=True, slots=True)
class RangeRow:
    """A row that a range holds."""

    id: str
    docid: int
    ts: int
    cells: list[str | None]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a range."""

    numbers: npt.NDArray[np.int64]
    """Growing."""
    cells: pa.ListArray


def stored_rows(
    connection: Connection, root: Path, channel: str, prefix: str, first: int, last: int
) -> Iterator[StoredRows]:
    """Yield the rows with this prefix of the ranges that may hold a number between two, the range's other rows too."""
    statement = sa.select(ROW_RANGES).where(
        ROW_RANGES.c.channel == channel,
        ROW_RANGES.c.prefix == prefix,
        ROW_RANGES.c.last >= first,
        ROW_RANGES.c.first <= last,
    )
    for one in connection.execute(statement).all():
        path = check_file(root / one.path)
        table = pq.read_table(
            path, columns=["id", "cells"], filters=_inside(one.docid, one.last_docid), **CHECKED_PAGES
        )
        digits = pc.utf8_slice_codeunits(table.column("id"), len(prefix))
        numbers = digits.cast(pa.int64()).to_numpy()
        yield StoredRows(numbers, table.column("cells").combine_chunks())


def rows_by_id(
    connection: Connection, root: Path, wanted: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, RangeRow]]:
    """Yield (channel, row) of the ids that ranges hold; ``wanted`` are ids by channel."""
    for channel, ids in wanted.items():
        some = sa.select(ROW_RANGES.c.docid).where(ROW_RANGES.c.channel == channel).limit(1)
        if connection.execute(some).first() is None:
            continue
        by_prefix: dict[str, dict[int, str]] = {}
        for text in ids:
            if (found := split_id(text)) is not None:
                by_prefix.setdefault(found[0], {})[found[1]] = text
        if not by_prefix:
            continue
        for prefix, of_prefix in by_prefix.items():
            least, most = min(of_prefix), max(of_prefix)
            ranges = sa.select(ROW_RANGES).where(
                ROW_RANGES.c.channel == channel,
                ROW_RANGES.c.prefix == prefix,
                ROW_RANGES.c.last >= least,
                ROW_RANGES.c.first <= most,
            )
            for one in connection.execute(ranges).all():
                here = [text for number, text in of_prefix.items() if one.first <= number <= one.last]
                if not here:
                    continue
                path = check_file(root / one.path)
                found = pc.field("id").isin(here) & _inside(one.docid, one.last_docid)
                table = pq.read_table(path, columns=["id", "docid", "ts", "cells"], filters=found, **CHECKED_PAGES)
                for row in table.to_pylist():
                    yield channel, RangeRow(row["id"], row["docid"], row["ts"], row["cells"])


def _inside(first: int, last: int) -> pc.Expression:
    return (pc.field("docid") >= first) & (pc.field("docid") <= last)
