"""The function that Spark ships for resolution: matched edges to results, in Arrow.  Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.templates.columns import Int32s, Int64s
from xscl.templates.matched_edges import MatchedEdges
from xscl.templates.program_files import load_program
from xscl.templates.resolve import Resolver, holds_exactly
from xscl.templates.results import Member, ResultColumns
from xscl.templates.shapes import Shapes
from xscl.templates.window_cells import Documents, MatchedPairs

__all__ = ["result_batches"]

_MANY = 250_000
"""Rows that are resolved together, and a few more."""
_MANY_SHAPES = 200_000


@lru_cache(maxsize=2)
def _resolver(path: str) -> Resolver:
    return Resolver(load_program(path), Shapes())


def result_batches(path: str, batches: Iterable[pa.RecordBatch], origin: int) -> Iterator[pa.RecordBatch]:
    """Iterate over rows of matched edges (``join``), sorted by (d1, d2), to rows of ``RESULT_SCHEMA`` with classes of
    an origin.
    """
    resolver = _resolver(path)
    out = ResultColumns(origin)
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _MANY:
            table = pa.Table.from_batches(waiting).combine_chunks()
            # The last pair may run over into the next batch.
            left, right = _pairs(table)
            end = int(np.flatnonzero((left != left[-1]) | (right != right[-1]))[-1:].sum()) + 1
            if (left[end - 1], right[end - 1]) == (left[-1], right[-1]):
                continue  # it is all one pair
            _resolve(resolver, table.slice(0, end), out)
            waiting = table.slice(end).to_batches()
            rows = table.num_rows - end
            yield from out.full()
    if rows:
        _resolve(resolver, pa.Table.from_batches(waiting).combine_chunks(), out)
    yield from out.take()
    if len(resolver.shapes) > _MANY_SHAPES:
        resolver.shapes.keep(np.empty(0, np.int32))


def _pairs(table: pa.Table) -> tuple[Int64s, Int64s]:
    """Return the documents of each row, -1 for no second one."""
    return _ints(table, "d1"), _ints(table, "d2")


def _ints(table: pa.Table, name: str) -> Int64s:
    found: Int64s = table.column(name).fill_null(-1).to_numpy().astype(np.int64, copy=False)
    return found


def _resolve(resolver: Resolver, table: pa.Table, out: ResultColumns) -> None:
    left, right = _pairs(table)
    new = np.concatenate([[True], (left[1:] != left[:-1]) | (right[1:] != right[:-1])])
    first = np.flatnonzero(new)
    out.add_count(len(first))
    told = table.select(["d1", "d2", "i1", "i2", "t1", "t2", "p1", "p2", "m1", "m2"]).take(pa.array(first))
    table = table.filter(pa.array(_holding(resolver, table)))
    left, right = _pairs(table)
    new = np.concatenate([[True], (left[1:] != left[:-1]) | (right[1:] != right[:-1])]) if len(left) else new[:0]
    starts = np.concatenate([np.flatnonzero(new), [len(left)]]).astype(np.int64)
    at = starts[:-1]
    ts_l = _ints(table, "t1")[at]
    ts_r = np.where(right[at] < 0, ts_l, _ints(table, "t2")[at])
    columns = {name: table.column(name).combine_chunks() for name in ("edge", "n1", "c1", "n2", "c2")}
    edges = MatchedEdges(
        columns["edge"].to_numpy(zero_copy_only=False).astype(np.int32),
        resolver.shapes.numbers(columns["n1"], columns["c1"]),
        resolver.shapes.numbers(columns["n2"], columns["c2"]),
    )
    resolver.resolve(MatchedPairs(left[at], right[at], ts_l, ts_r), starts, edges, _documents(told), out)


def _holding(resolver: Resolver, table: pa.Table) -> npt.NDArray[np.bool_]:
    """Tell which rows are matched edges: those are compared here that doubles could not tell."""
    holds = np.ones(table.num_rows, dtype=np.bool_)
    close = np.flatnonzero(table.column("v1").is_valid().to_numpy())
    columns = [table.column(name).take(pa.array(close)).to_pylist() for name in ("edge", "v1", "v2")]
    for at, edge, one, other in zip(close.tolist(), *columns, strict=True):
        holds[at] = holds_exactly(resolver.program.edges[edge], one, other)
    return holds


def _documents(pairs: pa.Table) -> Documents:
    """``pairs`` has a row for each pair of documents."""

    @cache
    def places() -> dict[tuple[int, int], int]:
        return {pair: at for at, pair in enumerate(zip(*(column.tolist() for column in _pairs(pairs)), strict=True))}

    def members(left: int, right: int) -> list[Member]:
        row = pairs.slice(places()[left, right], 1).to_pylist()[0]
        return [Member(*(row[f"{name}{side}"] for name in "ditpm")) for side in (1, 2) if row[f"d{side}"] is not None]

    def left_first(of: MatchedPairs) -> npt.NDArray[np.bool_]:
        at = pa.array([places()[pair] for pair in zip(of.left.tolist(), of.right.tolist(), strict=True)], pa.int64())
        p1, p2 = (pairs.column(name).take(at) for name in ("p1", "p2"))
        first = pc.less(p1, p2).fill_null(False).to_numpy()
        found: npt.NDArray[np.bool_] = (of.ts_l < of.ts_r) | ((of.ts_l == of.ts_r) & first)
        return found

    numbers = np.concatenate([_ints(pairs, name) for name in ("m1", "m2")])
    if not (numbers > 0).any():
        return Documents(members, left_first)

    def memberships(docs: Int64s) -> Int32s:
        distinct, first = np.unique(np.concatenate(_pairs(pairs)), return_index=True)
        found: Int32s = numbers[first][np.searchsorted(distinct, docs)].astype(np.int32)
        return found

    return Documents(members, left_first, memberships)
