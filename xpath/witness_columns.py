"""Visits of a walk to witness rows, in columns."""

from __future__ import annotations

from itertools import chain as chained
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.arrow_schemas import CHAIN, REFUSED
from xscl.base.mixed import label, read_value
from xscl.base.values import value_hashes
from xscl.xpath.row_columns import xpath_numbers
from xscl.xpath.row_template import ChainEntry
from xscl.xpath.runs import gather, starts
from xscl.xpath.walk import DeferredRow, Visit

__all__ = ["OF_EVENT", "FlatRows", "arrow_columns", "rows_of_deferred", "rows_of_visits"]

OF_EVENT = ("docid", "ts", "item", "place", "late", "membership")


class FlatRows(NamedTuple):
    """Rows in columns, their values and chain entries apart."""

    documents: npt.NDArray[np.int32]
    variables: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int32]
    functions: npt.NDArray[np.int32]
    """Numbers of functions; -1: a row without a value."""
    values: npt.NDArray[np.int64]
    """Places in a list of values; -1: none."""
    entries: npt.NDArray[np.int32]
    """Chain entries of each row."""
    keys: npt.NDArray[np.int64]
    """Two columns: var1 and var2 of the chain entries, row by row."""
    bound: npt.NDArray[np.int32]
    """Two columns: node1 and node2."""


def rows_of_visits(
    documents: npt.NDArray[np.int32], visits: list[Visit], numbers: dict[str, int], values: list[str | None]
) -> FlatRows:
    """Return the rows of templates, without a step of Python for each."""
    templates, texts, ways = zip(*visits, strict=True)
    known = list(dict.fromkeys(templates))
    order = {template: number for number, template in enumerate(known)}
    which = np.fromiter(map(order.__getitem__, templates), np.int64, len(visits))
    # Functions are numbered in their template; and here, over all templates.
    asked = np.array(
        [numbers.setdefault(label(name), len(numbers)) for each in known for name in each.asked], dtype=np.int32
    )
    asked_start = starts([len(each.asked) for each in known])
    value_start = starts(np.array([len(each.asked) for each in known])[which]) + len(values)
    if all(each.asked == ("",) for each in known):
        values += texts
    else:
        for template, text in zip(templates, texts, strict=True):
            values += (text if name == "" or text is None else read_value(name, text) for name in template.asked)
    rows = np.array([each.rows for each in known])
    at, visit = gather(starts(rows)[which], rows[which])
    functions = np.concatenate([each.functions for each in known])[at]
    entries = np.array([each.chain for each in known])
    entry_at, entry_visit = gather(starts(entries)[which], entries[which])
    places = np.concatenate([each.places for each in known])[entry_at]
    # Each visit's open nodes, and the node itself behind them.
    open_nodes = np.fromiter(chained.from_iterable(ways), dtype=np.int32)
    open_counts = np.array([each.way + 1 for each in known])[which]
    open_start = starts(open_counts)
    valued = functions >= 0
    names = np.full(len(at), -1, dtype=np.int32)
    names[valued] = asked[(asked_start[which][visit] + functions)[valued]]
    return FlatRows(
        documents=documents[visit],
        variables=np.concatenate([each.variables for each in known])[at],
        nodes=open_nodes[open_start + open_counts - 1][visit],
        functions=names,
        values=np.where(valued, value_start[visit] + functions, -1),
        entries=np.concatenate([each.entries for each in known])[at],
        keys=np.concatenate([each.keys for each in known])[entry_at],
        bound=open_nodes[open_start[entry_visit][:, np.newaxis] + places],
    )


def rows_of_deferred(
    deferred: list[tuple[int, DeferredRow]],
    refused: list[tuple[int, str, int]],
    numbers: dict[str, int],
    values: list[str | None],
) -> FlatRows:
    """Make columns of deferred rows, and of the marks of refused documents."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    chains: list[ChainEntry] = []
    for document, row in deferred:
        for function in row.functions:
            place, number = -1, -1
            if function is not None and row.text is not None:
                place, number = len(values), numbers.setdefault(label(function), len(numbers))
                values.append(read_value(function, row.text))
            rows.append((document, row.variable, row.node, number, place, len(row.chain)))
            chains += row.chain
    for document, reason, digest in refused:
        rows.append((document, REFUSED, 0, -1, len(values), bool(digest)))
        values.append(reason)
        if digest:
            chains.append((REFUSED, digest, 0, 0))
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    entries = np.array(chains, dtype=np.int64).reshape(-1, 4)
    return FlatRows(
        documents=table[:, 0].astype(np.int32),
        variables=table[:, 1],
        nodes=table[:, 2].astype(np.int32),
        functions=table[:, 3].astype(np.int32),
        values=table[:, 4],
        entries=table[:, 5].astype(np.int32),
        keys=entries[:, :2],
        bound=entries[:, 2:].astype(np.int32),
    )


def arrow_columns(flat: FlatRows, names: list[str], values: list[str | None]) -> tuple[pa.Array, list[pa.Array]]:
    """Return each row's place of its document in the batch; and the columns from ``var`` on.

    A row that asks for a value and has none is left out.
    """
    texts = pa.array(values, pa.string())
    no_function, no_value = flat.functions < 0, flat.values < 0
    hashes = value_hashes(values)
    at = np.where(no_value, 0, flat.values)
    numbers = xpath_numbers(texts)
    if not values:  # nothing to take from
        hashes, numbers = np.zeros(1, dtype=np.int64), np.full(1, np.nan)
    number = numbers[at]
    entries = pa.StructArray.from_arrays(
        [flat.keys[:, 0], flat.keys[:, 1], flat.bound[:, 0], flat.bound[:, 1]], fields=list(CHAIN.value_type)
    )
    offsets = np.concatenate([[0], np.cumsum(flat.entries)]).astype(np.int32)
    columns = [
        pa.array(flat.variables),
        pa.array(flat.nodes),
        pa.array(names, pa.string()).take(pa.array(flat.functions, mask=no_function)),
        texts.take(pa.array(flat.values, mask=no_value)),
        pa.array(number, mask=np.isnan(number) | no_function),
        pa.array(np.where(no_function, 0, hashes[at])),
        pa.ListArray.from_arrays(offsets, entries, type=CHAIN),
    ]
    documents = pa.array(flat.documents)
    if None in values:
        # A function without a value there: the row satisfies no comparison.
        kept = pa.array(no_function | texts.is_valid().to_numpy(zero_copy_only=False)[at])
        return documents.filter(kept), [column.filter(kept) for column in columns]
    return documents, columns
