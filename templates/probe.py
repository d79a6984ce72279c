"""What new witnesses ask for: rows of the batch, expanded by the edges that they take part in.  Nothing here needs
Spark.

Queries are data here too: which edges a variable has is looked up in the program, so that the statement that does the
joining (``join``) has one text for all queries, and the same number of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from xscl.arrow import CHAIN
from xscl.templates.program import Edge, Program, load_program

__all__ = ["CHECK_SCHEMA", "CLOSE", "PAIR", "PROBE_SCHEMA", "TINY", "check_batches", "probe_batches"]

_CARRIED = ("docid", "ts", "item", "place", "node", "strval", "h", "chain")
PROBE_SCHEMA = pa.schema(
    [
        ("edge", pa.int32()),
        ("single", pa.bool_()),  # a query of one block: nothing is asked for
        ("checked", pa.bool_()),  # other edges are to be checked on the pairs found
        ("new_left", pa.bool_()),  # the new witness is the left side of the edge
        ("lo", pa.int64()),
        ("hi", pa.int64()),
        ("pvar", pa.int64()),  # variable and function of the partner
        ("pfn", pa.string()),
        ("docid", pa.int64()),
        ("ts", pa.int64()),
        ("item", pa.int64()),
        ("place", pa.string()),
        ("node", pa.int32()),
        ("strval", pa.string()),
        ("h", pa.int64()),
        ("chain", CHAIN),
    ]
)
CHECK_SCHEMA = pa.schema(
    [
        ("edge", pa.int32()),
        ("lvar", pa.int64()),
        ("lfn", pa.string()),
        ("rvar", pa.int64()),
        ("rfn", pa.string()),
        ("op", pa.string()),
        ("numbers", pa.bool_()),  # left op f * right + add, of numbers; else left op right, of strings
        ("f", pa.float64()),
        ("add", pa.float64()),
        ("d1", pa.int64()),
        ("d2", pa.int64()),
        ("i1", pa.int64()),
        ("i2", pa.int64()),
        ("t1", pa.int64()),
        ("t2", pa.int64()),
        ("p1", pa.string()),
        ("p2", pa.string()),
    ]
)
PAIR = CHECK_SCHEMA.names[9:]
"""Columns that tell the two documents of a pair: numbers, items, event times in microseconds, places."""


CLOSE = 1e-9
"""Numbers whose difference is less, measured against themselves, are compared exactly and not as doubles."""
TINY = 1e-290
"""So are smaller numbers, which doubles hold with few digits or none."""


def probe_batches(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """New witness rows to rows of ``PROBE_SCHEMA``: one for each edge and side that a row takes part in.

    Witnesses of late documents ask only for queries of one block.
    """
    asks = _asks(load_program(path))
    for batch in batches:
        keys = zip(*(batch.column(name).to_pylist() for name in ("var", "fn", "late")), strict=True)
        rows: list[int] = []
        edges: list[Edge] = []
        sides: list[bool] = []
        for row, (var, fn, late) in enumerate(keys):
            for edge, left in asks.get((var, fn), ()):
                if not late or edge.key.kind == "ONE":
                    rows.append(row)
                    edges.append(edge)
                    sides.append(left)
        carried = batch.take(pa.array(rows, pa.int64()))
        sided = list(zip(edges, sides, strict=True))
        columns = {
            "edge": [edge.number for edge in edges],
            "single": [edge.key.kind == "ONE" for edge in edges],
            "checked": [edge.checked for edge in edges],
            "new_left": sides,
            "lo": [edge.lo for edge in edges],
            "hi": [edge.hi for edge in edges],
            "pvar": [edge.key.rvar if left else edge.key.lvar for edge, left in sided],
            "pfn": [edge.key.rfn if left else edge.key.lfn for edge, left in sided],
            **{name: carried.column(name) for name in _CARRIED},
        }
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for field in PROBE_SCHEMA
            for column in (columns[field.name],)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=PROBE_SCHEMA)


def _asks(program: Program) -> dict[tuple[int, str | None], list[tuple[Edge, bool]]]:
    """(variable, function) to the edges, and sides of them, that its witnesses ask by."""
    found: dict[tuple[int, str | None], list[tuple[Edge, bool]]] = {}
    for edge in program.edges.values():
        key = edge.key
        if not key.finds:
            continue
        found.setdefault((key.lvar, key.lfn), []).append((edge, True))
        if key.kind == "EQ":
            found.setdefault((key.rvar, key.rfn), []).append((edge, False))
    return found


def _check(edge: Edge) -> tuple[object, ...]:
    """The first columns of ``CHECK_SCHEMA``; unequal numbers have unequal texts, so ``!=`` needs no arithmetic."""
    key = edge.key
    numbers = key.kind == "BAND" and (key.lfn or "").startswith("number")
    return (edge.number, key.lvar, key.lfn, key.rvar, key.rfn, key.op, numbers, float(key.f), float(key.add))


def check_batches(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Matched edges (edge and ``PAIR``) to the NE and BAND edges that are to be checked on their pairs."""
    program = load_program(path)
    asked = {edge.number: _check(edge) for edge in program.edges.values() if not edge.key.finds}
    for batch in batches:
        found: set[tuple[object, ...]] = set()
        columns = [batch.column(name).to_pylist() for name in ("edge", *PAIR)]
        for edge, *pair in zip(*columns, strict=True):
            for number in program.checks.get(edge, ()):
                found.add((*asked[number], *pair))
        values = zip(*found, strict=True) if found else [()] * len(CHECK_SCHEMA)
        arrays = [pa.array(column, field.type) for column, field in zip(values, CHECK_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=CHECK_SCHEMA)
