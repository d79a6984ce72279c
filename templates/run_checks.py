"""Checks of files of runs: every column is compared with the others, so that no place in one leads out of the file.

A run that is made again from the rows of a file has the same columns.  Before that, lengths and places are compared, so
that a small file takes little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_bounds import compressed
from xscl.base.number_order import order_by
from xscl.templates.many_blocks.runs import LINK_SCHEMA, LinkRun, merged_links
from xscl.templates.runs.files import read_run, run_columns, run_told
from xscl.templates.runs.making import built_run, empty_run, ranked_values
from xscl.templates.runs.mapped_columns import open_columns
from xscl.templates.runs.merging import all_shapes, part_of
from xscl.templates.runs.rows import row_variables
from xscl.templates.runs.run import KEY_BITS, Run

__all__ = ["wrong_links", "wrong_run"]

Columns = Mapping[str, pa.Array]

_ROWS = 1_000
"""Witness rows for each byte of a file, at most."""
_WRONG = (OSError, pa.ArrowException, ValueError, LookupError, TypeError, ArithmeticError, AssertionError)
"""Errors of columns that contradict each other."""


def wrong_run(path: Path) -> str | None:
    """Tell what is wrong with a file of a run; None: nothing is."""
    return _wrong(path, run_columns(empty_run()), _wrong_rows)


def wrong_links(path: Path) -> str | None:
    """Tell what is wrong with a file of rows of links; None: nothing is."""
    return _wrong(path, LinkRun.of(LINK_SCHEMA.empty_table()).columns(), _wrong_links)


def _wrong(
    path: Path, like: Mapping[str, Any], look: Callable[[Columns, Mapping[str, Any], int], str | None]
) -> str | None:
    """Tell what is wrong with the columns of a file, which have the types of those of ``like``."""
    try:
        if (why_not := compressed(path)) is not None:
            return why_not
        columns, told = open_columns(path)
        for name, column in columns.items():
            column.validate(full=True)
            if name not in like or column.type != _array(like[name]).type or (name != "texts" and _has_none(column)):
                return f"it has no column {name} like this"
        if missing := like.keys() - columns.keys():
            return f"it lacks columns {', '.join(sorted(missing))}"
        return look(columns, told, path.stat().st_size)
    except _WRONG as error:
        return f"it contradicts itself ({type(error).__name__})"


def _wrong_rows(columns: Columns, told: Mapping[str, Any], size: int) -> str | None:
    run, _ = read_run(columns, told)
    shapes, documents = run.shapes, (run.items, run.times, run.places, run.memberships)
    alike = (
        {len(run.docs)} == {len(column) for column in documents},
        len(run.hashes) == len(run.texts),
        len(run.slice_codes) == len(run.numbers),
        {run.size} == {len(column) for column in (run.doc, run.shape, run.by_document, run.document_codes)},
        _leads(run.slice_starts, len(run.slice_codes), run.size),
        _leads(shapes.starts, len(shapes.variables), len(shapes.nodes)) and len(shapes.nodes) == len(shapes.chains),
    )
    if not all(alike):
        return "its columns have other lengths than each other"
    values, keys = run.slice_codes >> KEY_BITS, run.slice_keys(np.arange(len(run.slice_codes)))
    if not (
        all(isinstance(fn, str | None) for _, fn in run.keys)
        and _within(values, len(run.hashes))
        and _within(keys, len(run.keys))
        and _within(run.doc, len(run.docs))
        and _within(run.shape, len(shapes.variables))
        and _are_places(run.places)
    ):
        return "its rows lead out of it"
    if (count := int(np.diff(shapes.starts)[run.shape].sum())) > size * _ROWS:
        return f"it has {count:,} rows in {size:,} bytes"
    again = _sorted_again(run)
    same = again.keys == run.keys and run_told(again) == told and _of_their_keys(run)
    return None if same and _same(columns, run_columns(again)) else "its rows are not in their order"


def _sorted_again(run: Run) -> Run:
    """Make a run of the rows of one, whose order is not relied upon."""
    rank, first = ranked_values(run.hashes, run.texts)
    slices = run.slices_of(np.arange(run.size))
    value, key = rank[run.slice_codes[slices] >> KEY_BITS], run.slice_keys(slices)
    documents, order_of_docs = np.unique(run.docs, return_index=True)
    shape, shapes = all_shapes([run])
    order = order_by(value * len(run.keys) + key, run.ts, run.docs[run.doc])
    whole = built_run(
        keys=run.keys,
        docs=documents,
        items=run.items[order_of_docs],
        times=run.times[order_of_docs],
        places=run.places.take(pa.array(order_of_docs)),
        memberships=run.memberships[order_of_docs],
        hashes=run.hashes[first],
        texts=run.texts.take(pa.array(first)),
        codes=(value << KEY_BITS | key)[order],
        numbers=run.numbers[slices[order]],
        docids=run.docs[run.doc[order]],
        shape=shape[order],
        shapes=shapes,
    )
    # Values, documents and shapes without a row are left out.
    return part_of(whole, np.ones(run.size, dtype=np.bool_))


def _of_their_keys(run: Run) -> bool:
    """Tell whether all rows have shapes of their keys' variables.

    A shape without a chain says nothing of its variable, so rows of several variables may have it: numbers that guards
    compare have no chains.
    """
    shapes, counts = run.shapes, pc.list_value_length(run.shapes.chains).to_numpy()
    chained = np.add.reduceat(counts, shapes.starts[:-1]) > 0 if len(counts) else np.zeros(0, dtype=np.bool_)
    return bool(((shapes.variables[run.shape] == row_variables(run)) | ~chained[run.shape]).all())


def _wrong_links(columns: Columns, told: Mapping[str, Any], size: int) -> str | None:
    run = LinkRun.read(columns)
    documents, rows = run.documents, len(run)
    alike = (
        {len(documents.docid)} == {len(column) for column in documents},
        {len(run.links)} == {len(run.widths), len(run.node_starts)},
        {rows} == {len(run.right), len(run.by_right)},
        _leads(run.starts, len(run.links), rows),
    )
    if not all(alike):
        return "its columns have other lengths than each other"
    nodes = run.widths.astype(object) * np.diff(run.starts)
    if not (
        (run.widths >= 0).all()
        and nodes.sum() == len(run.nodes)
        and (run.node_starts == np.cumsum([0, *nodes])[:-1]).all()
        and _within(run.left, len(documents.docid))
        and _within(run.right, len(documents.docid))
        and _are_places(documents.place)
    ):
        return "its rows lead out of it"
    again = merged_links([run], [None])
    return None if _same(columns, again.columns()) else "its rows are not in their order"


# -- columns -------------------------------------------------------------------------------------------------------


def _array(column: pa.Array | npt.NDArray[Any]) -> pa.Array:
    return pa.array(column) if isinstance(column, np.ndarray) else column


def _has_none(column: pa.Array) -> bool:
    """Tell whether a column, or what is nested in it, lacks a value."""
    if column.null_count:
        return True
    if pa.types.is_list(column.type):
        return _has_none(column.flatten())
    return pa.types.is_struct(column.type) and any(map(_has_none, column.flatten()))


def _leads(starts: npt.NDArray[np.int64], count: int, end: int) -> bool:
    """Tell whether so many parts, none of them empty, begin at the start and reach the end."""
    return len(starts) == count + 1 and starts[0] == 0 and starts[-1] == end and bool((np.diff(starts) > 0).all())


def _within(places: npt.NDArray[np.signedinteger], count: int) -> bool:
    return not len(places) or bool(places.min() >= 0 and places.max() < count)


def _are_places(places: pa.Array) -> bool:
    """Tell whether all are a channel and an id."""
    return bool(pc.all(pc.match_substring(places, "\0"), min_count=0).as_py())


def _same(columns: Columns, others: Mapping[str, Any]) -> bool:
    """Tell whether columns have the same values; one that is no number equals itself."""
    return all(
        np.array_equal(column.to_numpy(), other, equal_nan=True)
        if pa.types.is_floating(column.type)
        else column.equals(_array(other))
        for column, other in ((columns[name], other) for name, other in others.items())
    )
