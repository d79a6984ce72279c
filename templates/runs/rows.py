"""Rows of runs: as witness rows again, in part, or with the rows of other runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.base.number_order import each_once, order_by, order_of, places_in
from xscl.templates.columns import Bools, Int32s, Int64s, gather
from xscl.templates.runs.making import built_run, different_shapes, empty_run, ranked_values, run_of
from xscl.templates.runs.run import KEY_BITS, Key, Run, RunShapes, equal_texts, group_starts
from xscl.templates.shapes import bundle_hashes, row_hashes

__all__ = ["documents_rows", "merged_run", "row_variables", "rows_of_run", "with_more_rows"]


def rows_of_run(run: Run, kept: Bools | None = None) -> pa.Table:
    """Return the witness rows of a run, or of some rows of it, as ``WITNESS_SCHEMA``."""
    rows = np.arange(run.size) if kept is None else np.flatnonzero(kept)
    shape = run.shape[rows]
    member, of = gather(run.shapes.starts[shape], np.diff(run.shapes.starts)[shape])
    row = rows[of]
    doc, slices = pa.array(run.doc[row]), run.slices_of(row)
    value = run.slice_codes[slices] >> KEY_BITS
    key = run.slice_keys(slices)
    variables = np.array([var for var, _ in run.keys], dtype=np.int64)
    functions = pa.array([fn for _, fn in run.keys], pa.string())
    number = run.numbers[slices]
    columns = {
        "docid": run.docs[run.doc[row]],
        "ts": run.ts[row],
        "item": run.items[run.doc[row]],
        "place": run.places.take(doc),
        "late": np.zeros(len(row), dtype=np.bool_),
        "membership": run.memberships[run.doc[row]],
        "var": variables[key],
        "node": run.shapes.nodes[member],
        "fn": functions.take(pa.array(key)),
        "strval": run.texts.take(pa.array(value)),
        "num": pa.array(number, mask=np.isnan(number)),
        "h": run.hashes[value],
        "chain": run.shapes.chains.take(pa.array(member)),
    }
    return pa.table(columns).select(WITNESS_SCHEMA.names).cast(WITNESS_SCHEMA)


def row_variables(run: Run) -> Int64s:
    """Return the variable of every row."""
    return np.array([var for var, _ in run.keys], dtype=np.int64)[run.row_keys()]


def documents_rows(run: Run, docs: Int64s) -> Bools:
    """Tell which rows are of some documents, rising."""
    place, known = run.places_of(docs)
    wanted = np.zeros(len(run.docs), dtype=np.bool_)
    wanted[place[known]] = True
    found: Bools = wanted[run.doc]
    return found


def merged_run(runs: Sequence[Run], kept: Sequence[Bools | None]) -> Run:
    """Make one run of the rows of several that are kept; no two of them share a document."""
    parts = [
        (run, np.arange(run.size) if some is None else np.flatnonzero(some))
        for run, some in zip(runs, kept, strict=True)
    ]
    parts = [(run, rows) for run, rows in parts if len(rows)]
    if not parts:
        return empty_run()
    keys, key_of = _all_keys([run for run, _ in parts])
    hashes, texts, value_of = _all_values([run for run, _ in parts])
    shape_of, shapes = _all_shapes(parts)
    slices = [run.slices_of(rows) for run, rows in parts]
    each = list(zip(parts, slices, strict=True))
    value = np.concatenate([value_of[at][run.slice_codes[of] >> KEY_BITS] for at, ((run, _), of) in enumerate(each)])
    key = np.concatenate([key_of[at][run.slice_keys(of)] for at, ((run, _), of) in enumerate(each)])
    docids = np.concatenate([run.docs[run.doc[rows]] for run, rows in parts])
    ts = np.concatenate([run.ts[rows] for run, rows in parts])
    order = order_by(value * len(keys) + key, ts, docids)
    used = each_once(value)
    values = places_in(used, value)[order]
    docs = _documents(parts)
    return built_run(
        keys=keys,
        hashes=hashes[used],
        texts=texts.take(pa.array(used)),
        codes=values << KEY_BITS | key[order],
        numbers=np.concatenate([run.numbers[of] for (run, _), of in each])[order],
        docids=docids[order],
        shape=shape_of[order],
        shapes=shapes,
        **docs,
    )


def _all_keys(runs: Sequence[Run]) -> tuple[tuple[Key, ...], list[Int64s]]:
    """Return the keys of all runs, and the number of each run's keys among them."""
    every = {key: number for number, key in enumerate(dict.fromkeys(key for run in runs for key in run.keys))}
    return tuple(every), [np.array([every[key] for key in run.keys], dtype=np.int64) for run in runs]


def _all_values(runs: Sequence[Run]) -> tuple[Int64s, pa.Array, list[Int64s]]:
    """Return the values of all runs with their hashes, and the place of each run's values among them."""
    texts = pa.concat_arrays([run.texts for run in runs])
    hashes = np.concatenate([run.hashes for run in runs])
    rank, first = _ranked_values(hashes, texts)
    ends = np.cumsum([len(run.hashes) for run in runs])
    return hashes[first], texts.take(pa.array(first)), np.split(rank, ends[:-1])


def _ranked_values(hashes: Int64s, texts: pa.Array) -> tuple[Int64s, Int64s]:
    """Return what ``ranked_values`` does, for hashes that rise run by run: to compare these merges whole runs."""
    order = np.argsort(hashes, kind="stable")
    starts = group_starts(hashes[order])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    first = order[starts[:-1]]
    again = np.flatnonzero(first[rank] != np.arange(len(rank)))
    alike = equal_texts(texts.take(pa.array(again)), texts.take(pa.array(first[rank[again]])))
    return (rank, first) if alike.all() else ranked_values(hashes, texts)


def _all_shapes(parts: Sequence[tuple[Run, Int64s]]) -> tuple[Int32s, RunShapes]:
    """Return the shape of each row of all parts, and the different shapes."""
    used, counts, taken = [], [], []
    for run, rows in parts:
        distinct = each_once(run.shape[rows].astype(np.int64))
        used.append(distinct)
        members, count = run.shapes.members(distinct)
        counts.append(count)
        taken.append((run.shapes.nodes[members], run.shapes.chains.take(pa.array(members))))
    places, chains = np.concatenate([nodes for nodes, _ in taken]), pa.concat_arrays([chains for _, chains in taken])
    begin = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
    hashes = bundle_hashes(row_hashes(pa.array(places), chains), np.diff(begin))
    which, first, of, starts = different_shapes(hashes, begin)
    variables = np.concatenate([run.shapes.variables[some] for (run, _), some in zip(parts, used, strict=True)])[first]
    before = np.cumsum([0, *map(len, used)])
    shape = [
        which[before[at] + np.searchsorted(some, run.shape[rows])]
        for at, ((run, rows), some) in enumerate(zip(parts, used, strict=True))
    ]
    return np.concatenate(shape), RunShapes(variables, starts, places[of], chains.take(pa.array(of)))


def _documents(parts: Sequence[tuple[Run, Int64s]]) -> dict[str, Any]:
    """Return the columns of the documents that have one of some rows, in their order."""
    used = [each_once(run.doc[rows].astype(np.int64)) for run, rows in parts]
    docs = np.concatenate([run.docs[of] for (run, _), of in zip(parts, used, strict=True)])
    order = order_of(docs)
    numbers = ("items", "times", "memberships")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(run, name)[of] for (run, _), of in zip(parts, used, strict=True)])[order]
        for name in numbers
    }
    places = pa.concat_arrays([run.places.take(pa.array(of)) for (run, _), of in zip(parts, used, strict=True)])
    return {"docs": docs[order], "places": places.take(pa.array(order)), **columns}


def with_more_rows(run: Run, kept: Bools | None, more: pa.Table) -> Run:
    """Make a run of the rows of one that are kept, and further witness rows of some of its documents."""
    docs = each_once(more.column("docid").to_numpy())
    concerned = documents_rows(run, docs)
    kept = np.ones(run.size, dtype=np.bool_) if kept is None else kept
    again = pa.concat_tables([rows_of_run(run, kept & concerned), more.select(WITNESS_SCHEMA.names)])
    return merged_run([run, run_of(again)], [kept & ~concerned, None])
