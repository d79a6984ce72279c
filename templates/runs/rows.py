"""Rows of runs: as witness rows again, in part, or with further ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Int64s, gather
from xscl.templates.retention import Floors
from xscl.templates.runs.making import run_of
from xscl.templates.runs.merging import merged_run
from xscl.templates.runs.run import KEY_BITS, Run

__all__ = ["documents_rows", "row_variables", "rows_above", "rows_of_run", "with_more_rows"]


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


def rows_above(run: Run, floors: Floors) -> Bools:
    """Tell which rows are kept; floors are looked up once for each variable of the run."""
    least = floors.of(np.array([var for var, _ in run.keys], dtype=np.int64))
    found: Bools = run.ts >= least[run.row_keys()]
    return found


def documents_rows(run: Run, docs: Int64s) -> Bools:
    """Tell which rows are of some documents, rising."""
    place, known = run.places_of(docs)
    wanted = np.zeros(len(run.docs), dtype=np.bool_)
    wanted[place[known]] = True
    found: Bools = wanted[run.doc]
    return found


def with_more_rows(run: Run, kept: Bools | None, more: pa.Table) -> Run:
    """Make a run of the rows of one that are kept, and further witness rows of some of its documents."""
    docs = each_once(more.column("docid").to_numpy())
    concerned = documents_rows(run, docs)
    kept = np.ones(run.size, dtype=np.bool_) if kept is None else kept
    again = pa.concat_tables([rows_of_run(run, kept & concerned), more.select(WITNESS_SCHEMA.names)])
    return merged_run([run, run_of(again)], [kept & ~concerned, None])
