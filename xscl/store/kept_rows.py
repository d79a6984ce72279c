"""Rows of join state that are kept: counted by row groups, or read one by one.

A row is kept after a batch if it was kept before and the floors of now keep it (``templates.retention``).  So a row
that went out of sight stays so, also where floors fall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xscl.base.sealed import check_file
from xscl.store.state_files import KEYS, SCHEMAS, TIMES, Kind, StateFile
from xscl.templates.retention import Floors

__all__ = ["KeptRows"]

Numbers = npt.NDArray[np.int64]
_READ = 64_000
"""Rows that are read together."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Floors that tell kept rows from others."""

    root: Path
    before: Floors | None
    """Floors of the last commit; None: all rows were kept."""
    now: Floors

    def counted(self, file: StateFile, *, fresh: bool) -> tuple[StateFile, bool]:
        """Return the file with its rows held, and whether lower floors would bring back rows that are out of sight.

        Floors of the last commit do not apply to a ``fresh`` file.
        """
        path, kind = self.root / file.path, file.rows_kind
        before = None if fresh else self.before
        held, lower = 0, False
        for number, group in enumerate(_row_groups(path, kind)):
            some, every = (_keep(self.now, kind, group.keys, *times) for times in (group.greatest, group.least))
            if before is not None:
                every &= _keep(before, kind, group.keys, *group.least)
            if (every == some).all():
                held += int(group.rows[every].sum())
                continue
            # Some keys' rows are kept in part: only these are looked at one by one.
            with pq.ParquetFile(check_file(path)) as source:
                columns = _columns(source, kind, number)
            now = _keep(self.now, kind, *columns)
            earlier = now if before is None else now & _keep(before, kind, *columns)
            held += int(earlier.sum())
            lower |= bool((earlier != now).any())
        return replace(file, held=held), lower

    def rows(self, file: StateFile, *, fresh: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that are kept, some at a time."""
        kind = file.rows_kind
        with pq.ParquetFile(check_file(self.root / file.path)) as source:
            for batch in source.iter_batches(_READ, columns=SCHEMAS[kind].names):
                columns = [batch.column(name).to_numpy() for name in (KEYS[kind], *TIMES[kind])]
                kept = _keep(self.now, kind, *columns)
                if self.before is not None and not fresh:
                    kept &= _keep(self.before, kind, *columns)
                if kind == "witness":
                    kept &= ~batch.column("late").to_numpy(zero_copy_only=False)
                if kept.any():
                    yield batch.filter(pa.array(kept))

    def witnesses(self, rows: pa.Table) -> pa.Table:
        """Return those of new witness rows that are kept."""
        return _on_time(rows.filter(pa.array(self.now.keep(rows["var"].to_numpy(), rows["ts"].to_numpy()))))


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """Rows, least and greatest event times of each key in a row group of a file; late rows do not count."""

    keys: Numbers
    rows: Numbers
    least: tuple[Numbers, ...]
    greatest: tuple[Numbers, ...]


@lru_cache(maxsize=1024)
def _row_groups(path: Path, kind: Kind) -> tuple[_RowGroup, ...]:
    with pq.ParquetFile(check_file(path)) as source:
        return tuple(_row_group(_columns(source, kind, number)) for number in range(source.num_row_groups))


def _columns(source: pq.ParquetFile, kind: Kind, number: int) -> tuple[Numbers, ...]:
    """Read keys and event times of the rows of a row group, without late ones."""
    names = [KEYS[kind], *TIMES[kind]]
    if kind == "link":
        table = source.read_row_group(number, columns=names)
    else:
        table = _on_time(source.read_row_group(number, columns=[*names, "late"]))
    return tuple(table.column(name).to_numpy() for name in names)


def _on_time(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows.column("late")))


def _row_group(columns: tuple[Numbers, ...]) -> _RowGroup:
    keys, *times = columns
    order = np.argsort(keys, kind="stable")
    distinct, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    if not len(distinct):
        return _RowGroup(distinct, counts, tuple(times), tuple(times))
    least = tuple(np.minimum.reduceat(ts[order], starts) for ts in times)
    return _RowGroup(distinct, counts, least, tuple(np.maximum.reduceat(ts[order], starts) for ts in times))


def _keep(rule: Floors, kind: Kind, keys: Numbers, *times: Numbers) -> npt.NDArray[np.bool_]:
    return rule.keep(keys, *times) if kind == "witness" else rule.keep_links(keys, *times)
