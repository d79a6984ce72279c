"""Requests of new witnesses, and of the pairs that they find: kernels around the joins of a batch (``join``).
Nothing here needs Spark.

Queries are data here too: which edges a variable has is looked up in the program, so that the statements that do the
joining have one text for all queries, and the same number of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import CHAIN
from xscl.templates.order import JoinOrder
from xscl.templates.plans import Edge
from xscl.templates.program import Program
from xscl.templates.program_files import load_program
from xscl.templates.value_counts import Partners, value_digest

__all__ = [
    "ASKED_SCHEMA",
    "CHECK_SCHEMA",
    "CLOSE",
    "MATCHED_SCHEMA",
    "PROBE_SCHEMA",
    "TINY",
    "asked_batches",
    "probe_batches",
    "single_batches",
]

_CARRIED = ("docid", "ts", "item", "place", "membership", "node", "strval", "h", "chain")
PROBE_SCHEMA = pa.schema(
    [
        ("edge", pa.int32()),
        ("new_left", pa.bool_()),  # the new witness is the left side of the edge
        ("lo", pa.int64()),
        ("hi", pa.int64()),
        ("pvar", pa.int64()),  # variable and function of the partner
        ("pfn", pa.string()),
        ("docid", pa.int64()),
        ("ts", pa.int64()),
        ("item", pa.int64()),
        ("place", pa.string()),
        ("membership", pa.int32()),
        ("node", pa.int32()),
        ("strval", pa.string()),
        ("h", pa.int64()),
        ("chain", CHAIN),
    ]
)
_PAIR_FIELDS: list[tuple[str, pa.DataType]] = [
    ("d1", pa.int64()),
    ("d2", pa.int64()),
    ("i1", pa.int64()),
    ("i2", pa.int64()),
    ("t1", pa.int64()),
    ("t2", pa.int64()),
    ("p1", pa.string()),
    ("p2", pa.string()),
    ("m1", pa.int32()),
    ("m2", pa.int32()),
]
"""The two documents of a pair: numbers, items, event times in microseconds, places, numbers of memberships."""
_PAIR = [name for name, _ in _PAIR_FIELDS]
MATCHED_SCHEMA = pa.schema(
    [
        ("edge", pa.int32()),
        *_PAIR_FIELDS,
        ("n1", pa.int32()),
        ("n2", pa.int32()),
        ("c1", CHAIN),
        ("c2", CHAIN),
        ("v1", pa.string()),  # numbers that doubles cannot tell apart, which the edge is still to be tested on
        ("v2", pa.string()),
    ]
)
"""A matched edge of a pair; of one document, for a query of one block, whose right side is NULL."""
CHECK_SCHEMA = pa.schema(
    [
        ("verified", pa.int32()),  # the edge to be looked up
        ("lvar", pa.int64()),
        ("lfn", pa.string()),
        ("rvar", pa.int64()),
        ("rfn", pa.string()),
        ("op", pa.string()),
        ("numbers", pa.bool_()),  # left op f * right + add, of numbers; else left op right, of strings
        ("f", pa.float64()),
        ("add", pa.float64()),
    ]
)
ASKED_SCHEMA = pa.schema([*MATCHED_SCHEMA, *CHECK_SCHEMA])
"""Matched edges, whose columns of ``CHECK_SCHEMA`` are NULL, and what is asked of their pairs, which has no nodes."""


CLOSE = 1e-9
"""Numbers whose difference is less, measured against themselves, are compared exactly and not as doubles."""
TINY = 1e-290
"""So are smaller numbers, which doubles hold with few digits or none."""

Indices = npt.NDArray[np.int64]


# -- new witnesses ---------------------------------------------------------------------------------------------


def probe_batches(
    path: str, order: JoinOrder, partners: Partners, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Turn new witness rows into rows of ``PROBE_SCHEMA``.

    A row is probed once for each enumerated edge and side on which it may find a partner.

    Witnesses of late documents ask for nothing.
    """
    program = load_program(path)
    asks = _asks(program, order)
    sides = [(program.edges[number], left) for number, left in dict.fromkeys(ask for of in asks.values() for ask in of)]
    places = {(edge.number, left): place for place, (edge, left) in enumerate(sides)}
    asked = pa.RecordBatch.from_pydict(
        {
            "edge": [edge.number for edge, _ in sides],
            "new_left": [left for _, left in sides],
            "lo": [edge.lo for edge, _ in sides],
            "hi": [edge.hi for edge, _ in sides],
            "pvar": [edge.key.rvar if left else edge.key.lvar for edge, left in sides],
            "pfn": [edge.key.rfn if left else edge.key.lfn for edge, left in sides],
        },
        schema=pa.schema([field for field in PROBE_SCHEMA if field.name not in _CARRIED]),
    )
    wanted = {key: [places[ask] for ask in of] for key, of in asks.items()}
    ends = [((edge.key.lvar, edge.key.lfn), (edge.key.rvar, edge.key.rfn)) for edge, _ in sides]
    own = np.array([left == right for left, right in ends], np.bool_)
    digests = np.array(
        [
            value_digest(*(right if new_left else left))
            for (left, right), (_, new_left) in zip(ends, sides, strict=True)
        ],
        np.uint64,
    )
    for batch in batches:
        batch = batch.filter(pc.invert(batch.column("late")))
        rows, found = _expanded(batch, wanted)
        keys = batch.column("h").to_numpy(zero_copy_only=False).view(np.uint64)[rows] + digests[found]
        kept = partners.may_have(keys, own[found])
        rows, found = rows[kept], found[kept]
        carried = batch.select(_CARRIED).take(pa.array(rows))
        yield _beside(PROBE_SCHEMA, asked.take(pa.array(found)), carried)


def single_batches(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn new witness rows into the rows of ``MATCHED_SCHEMA`` of queries of one block."""
    program = load_program(path)
    ones: dict[tuple[int, str | None], list[int]] = {}
    for edge in program.edges.values():
        if edge.key.kind == "ONE":
            ones.setdefault((edge.key.lvar, edge.key.lfn), []).append(edge.number)
    names = {"docid": "d1", "item": "i1", "ts": "t1", "place": "p1", "membership": "m1", "node": "n1", "chain": "c1"}
    for batch in batches:
        rows, found = _expanded(batch, ones)
        carried = batch.select(list(names)).take(pa.array(rows)).rename_columns(list(names.values()))
        twice = carried.select(["n1", "c1"]).rename_columns(["n2", "c2"])
        edges = pa.RecordBatch.from_arrays([pa.array(found, pa.int32())], ["edge"])
        yield _beside(MATCHED_SCHEMA, edges, carried, twice)


def _asks(program: Program, order: JoinOrder) -> dict[tuple[int, str | None], list[tuple[int, bool]]]:
    """(variable, function) to the enumerated edges of two blocks, and sides of them, that its witnesses ask by."""
    found: dict[tuple[int, str | None], list[tuple[int, bool]]] = {}
    for number in sorted(order.enumerated):
        key = program.edges[number].key
        if key.kind == "EQ":
            found.setdefault((key.lvar, key.lfn), []).append((number, True))
            found.setdefault((key.rvar, key.rfn), []).append((number, False))
    return found


def _expanded(batch: pa.RecordBatch, wanted: Mapping[tuple[int, str | None], list[int]]) -> tuple[Indices, Indices]:
    """(row, number) for each number that is wanted of a row's variable and function."""
    functions = batch.column("fn").dictionary_encode(null_encoding="encode")
    names = functions.dictionary.to_pylist()
    variables, var_of = np.unique(batch.column("var").to_numpy(zero_copy_only=False), return_inverse=True)
    codes = var_of * max(1, len(names)) + functions.indices.to_numpy(zero_copy_only=False)
    keys, key_of = np.unique(codes, return_inverse=True)
    lists = [wanted.get((int(variables[key // len(names)]), names[key % len(names)]), []) for key in keys.tolist()]
    return _flattened(lists, key_of)


def _flattened(lists: list[list[int]], of: Indices) -> tuple[Indices, Indices]:
    """(place in ``of``, number) for each number of the list that each entry of ``of`` points at."""
    sizes = np.array([len(numbers) for numbers in lists], np.int64)
    starts = np.cumsum(sizes) - sizes
    numbers = np.array([number for some in lists for number in some], np.int64)
    counts = sizes[of] if len(of) else np.zeros(0, np.int64)
    rows = np.repeat(np.arange(len(of)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, numbers[np.repeat(starts[of], counts) + within] if len(rows) else np.zeros(0, np.int64)


def _beside(schema: pa.Schema, *parts: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of batches of equal length side by side, in the schema's order; those that are missing are NULL."""
    columns = {name: column for part in parts for name, column in zip(part.schema.names, part.columns, strict=True)}
    rows = parts[0].num_rows
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# -- pairs -----------------------------------------------------------------------------------------------------


def asked_batches(path: str, order: JoinOrder, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Iterate over rows of ``MATCHED_SCHEMA``, sorted by pair, to rows of ``ASKED_SCHEMA``: themselves, and once for
    each pair what is to be verified on it.
    """
    program = load_program(path)
    numbers = sorted({edge for others in order.verified.values() for edge in others})
    checks = _checks([program.edges[number] for number in numbers])
    places = {number: place for place, number in enumerate(numbers)}
    wanted = {edge: [places[other] for other in others] for edge, others in order.verified.items()}
    # A pair's rows may run over from one Arrow batch into the next.
    last_pair, asked_of_it = (-1, -1), np.zeros(0, np.int64)
    for batch in batches:
        yield _beside(ASKED_SCHEMA, batch)
        if not batch.num_rows:
            continue
        first, second = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("d1", "d2"))
        pair = np.concatenate(([0], np.cumsum((first[1:] != first[:-1]) | (second[1:] != second[:-1]))))
        edges, edge_of = np.unique(batch.column("edge").to_numpy(zero_copy_only=False), return_inverse=True)
        rows, found = _flattened([wanted.get(edge, []) for edge in edges.tolist()], edge_of)
        _, once = np.unique(pair[rows] * len(checks) + found, return_index=True)
        rows, found = rows[once], found[once]
        if (first[0], second[0]) == last_pair:
            new = (pair[rows] > 0) | ~np.isin(found, asked_of_it)
            rows, found = rows[new], found[new]
            asked_of_it = asked_of_it if pair[-1] == 0 else asked_of_it[:0]
        else:
            asked_of_it = asked_of_it[:0]
        last_pair, asked_of_it = (first[-1], second[-1]), np.union1d(asked_of_it, found[pair[rows] == pair[-1]])
        yield _beside(ASKED_SCHEMA, batch.select(_PAIR).take(pa.array(rows)), checks.take(pa.array(found)))


def _checks(edges: list[Edge]) -> pa.RecordBatch:
    """Return rows of ``CHECK_SCHEMA``; numbers are equal if and only if their texts are, so ``=`` and ``!=`` compare
    texts.
    """
    keys = [edge.key for edge in edges]
    columns = {
        "verified": [edge.number for edge in edges],
        "lvar": [key.lvar for key in keys],
        "lfn": [key.lfn for key in keys],
        "rvar": [key.rvar for key in keys],
        "rfn": [key.rfn for key in keys],
        "op": [key.op for key in keys],
        "numbers": [key.kind == "BAND" and (key.lfn or "").startswith("number") for key in keys],
        "f": [float(key.f) for key in keys],
        "add": [float(key.add) for key in keys],
    }
    return pa.RecordBatch.from_pydict(columns, schema=CHECK_SCHEMA)
