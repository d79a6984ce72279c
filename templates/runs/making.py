"""Making runs: of witness rows in any order, or of columns that are in order already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.arrow_schemas import CHAIN
from xscl.base.number_order import each_once, order_of, places_in
from xscl.templates.columns import Bools, Int32s, Int64s, gather, numbered
from xscl.templates.runs.run import KEY_BITS, Key, Run, RunShapes, equal_texts, group_starts
from xscl.templates.shapes import bundle_hashes, row_hashes

__all__ = ["built_run", "different_shapes", "empty_run", "ranked_values", "run_of", "witness_keys"]


def run_of(table: pa.Table, known: tuple[tuple[Key, ...], Int64s] | None = None) -> Run:
    """Make a run of witness rows in any order, which are not late and are all that their documents have.

    ``known`` are their ``witness_keys`` where these were asked for before.
    """
    if not table.num_rows:
        return empty_run()
    columns = {name: table.column(name).combine_chunks() for name in table.schema.names}
    docid, ts, hashes, texts = _ints(columns["docid"]), _ints(columns["ts"]), _ints(columns["h"]), columns["strval"]
    keys, key = witness_keys(table) if known is None else known
    docs = each_once(docid)
    doc = places_in(docs, docid)
    of_docs = np.empty(len(docs), dtype=np.int64)
    of_docs[doc] = np.arange(len(doc))
    times = ts[of_docs]
    in_time = np.empty(len(docs), dtype=np.int64)
    in_time[order_of(times)] = np.arange(len(docs))
    # One number tells the key of a row, and the place of its document by time.
    code = key * len(docs) + in_time[doc]
    order, values = _by_value(code, len(keys) * len(docs), hashes, texts)
    begin = group_starts(values, code[order])
    lead = order[begin[:-1]]
    first = order[group_starts(values)[:-1]]
    shape, members = _bundles(columns, order, begin)
    at = pa.array(of_docs)
    return built_run(
        keys=keys,
        docs=docs,
        items=_ints(columns["item"])[of_docs],
        times=times,
        places=columns["place"].take(at),
        memberships=columns["membership"].take(at).to_numpy(zero_copy_only=False),
        hashes=hashes[first],
        texts=texts.take(pa.array(first)),
        codes=values[begin[:-1]] << KEY_BITS | key[lead],
        numbers=columns["num"].to_numpy(zero_copy_only=False).astype(np.float64)[lead],
        docids=docid[lead],
        shape=shape,
        shapes=members,
    )


def built_run(
    *,
    keys: tuple[Key, ...],
    docs: Int64s,
    items: Int64s,
    times: Int64s,
    places: pa.Array,
    memberships: Int32s,
    hashes: Int64s,
    texts: pa.Array,
    codes: Int64s,
    numbers: npt.NDArray[np.float64],
    docids: Int64s,
    shape: Int32s,
    shapes: RunShapes,
) -> Run:
    """Make a run of its documents, its values, and its rows in order of (value, key, time, document).

    Each row has a slice code (``codes``, rising), its value as a number, its document and its shape.  All other
    columns are those of the run with the same names.
    """
    starts = group_starts(codes)
    doc = places_in(docs, docids)
    of_key = codes & ((1 << KEY_BITS) - 1)
    by_document = doc << KEY_BITS | of_key
    order = order_of(doc * max(len(keys), 1) + of_key)
    return Run(
        keys,
        docs,
        items,
        times,
        places,
        memberships,
        hashes,
        texts,
        slice_codes=codes[starts[:-1]],
        slice_starts=starts,
        numbers=numbers[starts[:-1]],
        ts=times[doc],
        doc=doc.astype(np.int32),
        shape=shape,
        by_document=order.astype(np.int32),
        document_codes=by_document[order],
        shapes=shapes,
    )


def empty_run() -> Run:
    """Return the run without a document."""
    none, few = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    texts, chains = pa.array([], pa.string()), pa.array([], CHAIN)
    return built_run(
        keys=(),
        docs=none,
        items=none,
        times=none,
        places=texts,
        memberships=few,
        hashes=none,
        texts=texts,
        codes=none,
        numbers=np.empty(0),
        docids=none,
        shape=few,
        shapes=RunShapes(none, np.zeros(1, dtype=np.int64), few, chains),
    )


def ranked_values(hashes: Int64s, texts: pa.Array) -> tuple[Int64s, Int64s]:
    """Rank values by (hash, text), equal ones alike: the rank of each row's value, and a row of each rank."""
    order, value = _by_value(np.zeros(len(hashes), dtype=np.int64), 1, hashes, texts)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = value
    return rank, order[group_starts(value)[:-1]]


def _by_value(code: Int64s, below: int, hashes: Int64s, texts: pa.Array) -> tuple[Int64s, Int64s]:
    """Return an order of rows by (hash, text), and then by a code, which is below a bound; and the number of each one's
    value in this order, rising.
    """
    order = order_of(code, below)
    order = order[order_of(hashes[order])]
    new = _changes(hashes[order])
    again = np.flatnonzero(~new)
    other = ~equal_texts(texts.take(pa.array(order[again])), texts.take(pa.array(order[again - 1])))
    if other.any():
        # Several values have one hash: their texts are told apart by a number.
        text = _ints(texts.dictionary_encode("encode").indices)
        order = order_of(code, below)
        order = order[order_of(text[order])]
        order = order[order_of(hashes[order])]
        new = _changes(hashes[order]) | _changes(text[order])
    return order, np.cumsum(new) - 1


def _changes(numbers: Int64s) -> Bools:
    """Tell where a number differs from the one before it; the first one does."""
    found = np.ones(len(numbers), dtype=np.bool_)
    found[1:] = numbers[1:] != numbers[:-1]
    return found


def witness_keys(table: pa.Table) -> tuple[tuple[Key, ...], Int64s]:
    """Return the different keys of witness rows, and the number of each row's key among them."""
    encoded = table.column("fn").combine_chunks().dictionary_encode("encode")
    names: Sequence[str | None] = encoded.dictionary.to_pylist()
    distinct, _, which = numbered(_ints(table.column("var").combine_chunks()))
    both, _, where = numbered(which * (len(names) + 1) + _ints(encoded.indices))
    keys = [(int(distinct[at // (len(names) + 1)]), names[at % (len(names) + 1)]) for at in both.tolist()]
    return tuple(keys), where


def _bundles(columns: dict[str, pa.Array], order: Int64s, begin: Int64s) -> tuple[Int32s, RunShapes]:
    """Return the shape of each bundle, the rows ``order[begin[i]:begin[i + 1]]``, and the different shapes."""
    nodes, chains = columns["node"], columns["chain"]
    hashes = bundle_hashes(row_hashes(nodes, chains)[order], np.diff(begin))
    variables = _ints(columns["var"])[order[begin[:-1]]]
    places: Int32s = nodes.to_numpy(zero_copy_only=False)
    # Most bundles share their shapes, so only rows of different ones are brought into order.
    which, first, rows, starts = different_shapes(hashes, begin)
    rows = order[rows]
    return which, RunShapes(variables[first], starts, places[rows], chains.take(pa.array(rows)))


def different_shapes(hashes: Int64s, begin: Int64s) -> tuple[Int32s, Int64s, Int64s, Int64s]:
    """Tell shapes apart by their hashes; ``begin`` has the first row of each, and the end.

    Returns:
        the number of each shape among the different ones; of these the first of each, their rows, one shape after
        another, and where each one's rows begin, and the end.
    """
    _, first, which = numbered(hashes)
    counts = begin[first + 1] - begin[first]
    rows, _ = gather(begin[first], counts)
    return which.astype(np.int32), first, rows, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _ints(column: pa.Array) -> Int64s:
    found: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found
