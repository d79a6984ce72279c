"""Merging of runs: each is in order already, so whole slices are brought together, and few rows are sorted.

Rows that are not kept are left out of their run first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from xscl.base.number_order import each_once, order_by, order_of
from xscl.templates.columns import Bools, Int32s, Int64s, gather
from xscl.templates.runs.making import different_shapes, empty_run, ranked_values
from xscl.templates.runs.run import KEY_BITS, Key, Run, RunShapes, equal_texts, group_starts
from xscl.templates.shapes import bundle_hashes, row_hashes

__all__ = ["all_shapes", "merged_run", "part_of"]

_KEY = (1 << KEY_BITS) - 1


def merged_run(runs: Sequence[Run], kept: Sequence[Bools | None]) -> Run:
    """Make one run of the rows of several that are kept; no two of them share a document."""
    parts = [run if some is None or some.all() else part_of(run, some) for run, some in zip(runs, kept, strict=True)]
    parts = [part for part in parts if part.size]
    if len(parts) < 2:
        return parts[0] if parts else empty_run()
    keys, key_of = _all_keys(parts)
    hashes, texts, value_of = _all_values(parts)
    documents, place_of = _all_documents(parts)
    shape_of, shapes = all_shapes(parts)
    codes = _all_codes([part.slice_codes for part in parts], value_of, key_of)
    sizes = np.concatenate([np.diff(part.slice_starts) for part in parts])
    # Comparing merges what rises part by part.
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    # The slices of one code become one.
    groups = group_starts(codes)
    rows, starts = _rows_of_slices(sizes, order, groups)
    doc = np.concatenate([place[part.doc] for part, place in zip(parts, place_of, strict=True)])
    _sort_late(rows, starts, np.diff(groups) > 1, doc, documents["times"])
    doc = doc[rows]
    document_codes = _all_codes([part.document_codes for part in parts], place_of, key_of)
    by_document, document_codes = _by_document(parts, rows, document_codes, len(keys))
    return Run(
        keys=keys,
        hashes=hashes,
        texts=texts,
        slice_codes=codes[groups[:-1]],
        slice_starts=starts,
        numbers=np.concatenate([part.numbers for part in parts])[order[groups[:-1]]],
        ts=documents["times"][doc],
        doc=doc,
        shape=shape_of[rows],
        by_document=by_document,
        document_codes=document_codes,
        shapes=shapes,
        **documents,
    )


def part_of(run: Run, kept: Bools) -> Run:
    """Make a run of some rows of one, with the values, documents and shapes that these have."""
    rows = np.flatnonzero(kept)
    before = np.concatenate([[0], np.cumsum(kept)])
    sizes = np.diff(before[run.slice_starts])
    slices = np.flatnonzero(sizes)
    value = run.slice_codes[slices] >> KEY_BITS
    values = each_once(value)
    docs, shape = (each_once(column[rows].astype(np.int64)) for column in (run.doc, run.shape))
    doc_of, shape_of = _ranks(docs, len(run.docs)), _ranks(shape, len(run.shapes.variables))
    by_document = np.flatnonzero(kept[run.by_document])
    document_codes = run.document_codes[by_document]
    members, counts = run.shapes.members(shape)
    return Run(
        run.keys,
        run.docs[docs],
        run.items[docs],
        run.times[docs],
        run.places.take(pa.array(docs)),
        run.memberships[docs],
        run.hashes[values],
        run.texts.take(pa.array(values)),
        slice_codes=_ranks(values, len(run.hashes))[value].astype(np.int64) << KEY_BITS
        | run.slice_codes[slices] & _KEY,
        slice_starts=np.concatenate([[0], np.cumsum(sizes[slices])]),
        numbers=run.numbers[slices],
        ts=run.ts[rows],
        doc=doc_of[run.doc[rows]],
        shape=shape_of[run.shape[rows]],
        by_document=before[run.by_document[by_document]].astype(np.int32),
        document_codes=doc_of[document_codes >> KEY_BITS].astype(np.int64) << KEY_BITS | document_codes & _KEY,
        shapes=RunShapes(
            run.shapes.variables[shape],
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            run.shapes.nodes[members],
            run.shapes.chains.take(pa.array(members)),
        ),
    )


def _ranks(places: Int64s, count: int) -> Int32s:
    """Return for each of so many places its number among some, which rise."""
    found = np.zeros(count, dtype=np.int32)
    found[places] = np.arange(len(places), dtype=np.int32)
    return found


# -- columns of all runs -------------------------------------------------------------------------------------------


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


def _all_documents(runs: Sequence[Run]) -> tuple[dict[str, Any], list[Int32s]]:
    """Return the columns of all documents, in their order, and the place of each run's documents among them."""
    docs = np.concatenate([run.docs for run in runs])
    order = order_of(docs)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    numbers = ("items", "times", "memberships")
    columns = {name: np.concatenate([getattr(run, name) for run in runs])[order] for name in numbers}
    places = pa.concat_arrays([run.places for run in runs]).take(pa.array(order))
    ends = np.cumsum([len(run.docs) for run in runs])
    return {"docs": docs[order], "places": places, **columns}, np.split(place, ends[:-1])


def all_shapes(runs: Sequence[Run]) -> tuple[Int32s, RunShapes]:
    """Return the shape of each row of all runs, one run after another, and the different shapes."""
    nodes = np.concatenate([run.shapes.nodes for run in runs])
    chains = pa.concat_arrays([run.shapes.chains for run in runs])
    counts = np.concatenate([np.diff(run.shapes.starts) for run in runs])
    hashes = bundle_hashes(row_hashes(pa.array(nodes), chains), counts)
    begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    which, first, rows, starts = different_shapes(hashes, begin)
    variables = np.concatenate([run.shapes.variables for run in runs])[first]
    ends = np.cumsum([len(run.shapes.variables) for run in runs])
    shape = np.concatenate([of[run.shape] for run, of in zip(runs, np.split(which, ends[:-1]), strict=True)])
    return shape, RunShapes(variables, starts, nodes[rows], chains.take(pa.array(rows)))


def _all_codes(codes: Sequence[Int64s], high: Sequence[Int32s | Int64s], keys: Sequence[Int64s]) -> Int64s:
    """Return the codes of all runs, with their values or documents and their keys as they are called in the whole."""
    each = zip(codes, high, keys, strict=True)
    return np.concatenate(
        [of[code >> KEY_BITS].astype(np.int64) << KEY_BITS | key[code & _KEY] for code, of, key in each]
    )


# -- the order of rows ---------------------------------------------------------------------------------------------


def _rows_of_slices(sizes: Int64s, order: Int64s, groups: Int64s) -> tuple[Int64s, Int64s]:
    """Return the rows of slices of some sizes in their new order, and where the rows of each group begin, and end."""
    rows, _ = gather((np.cumsum(sizes) - sizes)[order], sizes[order])
    return rows, np.concatenate([[0], np.cumsum(sizes[order])])[groups]


def _sort_late(rows: Int64s, starts: Int64s, several: Bools, doc: Int32s, times: Int64s) -> None:
    """Put the rows of slices in order of time and document, where they come from several runs.

    ``doc`` has the document of each row before it was moved to its place in ``rows``.
    """
    slices = np.flatnonzero(several)
    at, of = gather(starts[slices], np.diff(starts)[slices])
    docs = doc[rows[at]]
    ts = times[docs]
    is_late = (ts[1:] < ts[:-1]) | ((ts[1:] == ts[:-1]) & (docs[1:] < docs[:-1]))
    if (is_late & (of[1:] == of[:-1])).any():
        rows[at] = rows[at[order_by(of, ts, docs.astype(np.int64))]]


def _by_document(runs: Sequence[Run], rows: Int64s, codes: Int64s, keys: int) -> tuple[Int32s, Int64s]:
    """Return the rows by document and key, and the codes of these; ``codes`` are those of all runs."""
    place = np.empty(len(rows), dtype=np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    ends = np.cumsum([0, *(run.size for run in runs)])
    found = np.concatenate(
        [place[begin:end][run.by_document] for run, (begin, end) in zip(runs, pairwise(ends.tolist()), strict=True)]
    )
    same = codes[1:] == codes[:-1]
    if not ((codes[1:] > codes[:-1]) | (same & (found[1:] > found[:-1]))).all():
        # Numbers that lie close together have fewer digits than the codes.
        order = order_by((codes >> KEY_BITS) * keys + (codes & _KEY), found.astype(np.int64))
        found, codes = found[order], codes[order]
    return found, codes
