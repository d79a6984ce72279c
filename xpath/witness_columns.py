"""Visits of a walk to witness rows, in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain as chained
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import CHAIN, REFUSED
from xscl.base.mixed import label, read_value, read_values
from xscl.base.own_functions import FAILED, is_own, own_parts
from xscl.base.values import text_hashes
from xscl.xpath.automaton.row_template import ChainEntry, RowTemplate
from xscl.xpath.automaton.states import own_digest
from xscl.xpath.automaton.walk import DeferredRow, Visit
from xscl.xpath.ranks import xpath_numbers
from xscl.xpath.runs import distinct, gather, starts

__all__ = ["FlatRows", "Visits", "arrow_columns", "rows_of_deferred", "rows_of_visits", "walked"]


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


class Visits(NamedTuple):
    """Nodes at which rows of templates are due, in columns."""

    documents: npt.NDArray[np.int32]
    templates: Sequence[RowTemplate]
    which: npt.NDArray[np.int64]
    """Number of each node's template."""
    texts: pa.StringArray
    """String values."""
    text: npt.NDArray[np.int64]
    """Place of each node's string value among these; -1: no row asks for it."""
    nodes: npt.NDArray[np.int32]
    """Numbers of the nodes on the way that each template's chains may speak of, and behind them that of the node."""


def walked(documents: npt.NDArray[np.int32], visits: Sequence[Visit]) -> Visits:
    """Return the visits of walks, in columns."""
    templates, texts, ways = zip(*visits, strict=True)
    known = list(dict.fromkeys(templates))
    order = {template: number for number, template in enumerate(known)}
    found = pa.array(texts, pa.string())
    return Visits(
        documents=documents,
        templates=known,
        which=np.fromiter(map(order.__getitem__, templates), np.int64, len(visits)),
        texts=found,
        text=np.where(found.is_valid().to_numpy(zero_copy_only=False), np.arange(len(found)), -1),
        nodes=np.fromiter(chained.from_iterable(ways), dtype=np.int32),
    )


def rows_of_visits(visits: Visits, numbers: dict[str, int]) -> tuple[FlatRows, pa.StringArray]:
    """Return the rows of templates and their values, without a step of Python for each."""
    used, which = distinct(visits.which)
    known = [visits.templates[number] for number in used.tolist()]
    names = {name: place for place, name in enumerate(dict.fromkeys(name for each in known for name in each.asked))}
    values, value = _values(visits, names, [each.asked for each in known], which)
    # Functions are numbered in their template; and here, over all templates.
    asked = np.array([names[name] for each in known for name in each.asked], dtype=np.int64)
    asked_start = starts([len(each.asked) for each in known])
    rows = np.array([each.rows for each in known], dtype=np.int64)
    at, visit = gather(starts(rows)[which], rows[which])
    functions = np.concatenate([each.functions for each in known])[at]
    entries = np.array([each.chain for each in known], dtype=np.int64)
    entry_at, entry_visit = gather(starts(entries)[which], entries[which])
    places = np.concatenate([each.places for each in known])[entry_at]
    open_counts = np.array([each.way + 1 for each in known], dtype=np.int64)[which]
    open_start = starts(open_counts)
    valued = np.flatnonzero(functions >= 0)
    function = asked[(asked_start[which][visit] + functions)[valued]]
    labels, places_of = np.full((2, len(at)), -1, dtype=np.int64)
    labels[valued] = np.array([numbers.setdefault(label(name), len(numbers)) for name in names], np.int64)[function]
    places_of[valued] = value[function, visit[valued]]
    flat = FlatRows(
        documents=visits.documents[visit],
        variables=np.concatenate([each.variables for each in known])[at],
        nodes=visits.nodes[open_start + open_counts - 1][visit],
        functions=labels.astype(np.int32),
        values=places_of,
        entries=np.concatenate([each.entries for each in known])[at],
        keys=np.concatenate([each.keys for each in known])[entry_at],
        bound=visits.nodes[open_start[entry_visit][:, np.newaxis] + places],
    )
    return flat, values


def _values(
    visits: Visits, names: Mapping[str, int], asked: Sequence[Sequence[str]], which: npt.NDArray[np.int64]
) -> tuple[pa.StringArray, npt.NDArray[np.int64]]:
    """Return values, and the place of each function's value of each visit; a function is applied once to a text."""
    found = [pa.array([], pa.string())]
    place = np.full((len(names), len(which)), -1, dtype=np.int64)
    behind = 0
    for name, number in names.items():
        asking = np.array([name in each for each in asked], dtype=np.bool_)
        here = np.flatnonzero(asking[which] & (visits.text >= 0))
        place[number, here] = np.arange(behind, behind + len(here))
        behind += len(here)
        texts = visits.texts
        if len(here) != len(texts) or (visits.text[here] != np.arange(len(texts))).any():
            texts = texts.take(pa.array(visits.text[here]))
        found.append(_read(name, texts) if name else texts)
    return pa.concat_arrays(found), place


def _read(name: str, texts: pa.StringArray) -> pa.StringArray:
    """Return what a function gives for each of some texts."""
    if name == "string-length":
        return pc.utf8_length(texts).cast(pa.string())
    if name == "lower":
        lowered = pc.ascii_lower(texts)
        others = pc.invert(pc.string_is_ascii(texts))
        some: list[str] = texts.filter(others).to_pylist()
        return (
            pc.replace_with_mask(lowered, others, pa.array(read_values(name, some), pa.string())) if some else lowered
        )
    encoded = texts.dictionary_encode()
    return pa.array(read_values(name, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)


def rows_of_deferred(
    deferred: list[tuple[int, DeferredRow]],
    refused: list[tuple[int, str, int]],
    numbers: dict[str, int],
) -> tuple[FlatRows, pa.StringArray]:
    """Make columns of deferred rows and of the marks of refused documents, and their values."""
    values: list[str | None] = []
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
    flat = FlatRows(
        documents=table[:, 0].astype(np.int32),
        variables=table[:, 1],
        nodes=table[:, 2].astype(np.int32),
        functions=table[:, 3].astype(np.int32),
        values=table[:, 4],
        entries=table[:, 5].astype(np.int32),
        keys=entries[:, :2],
        bound=entries[:, 2:].astype(np.int32),
    )
    return flat, pa.array(values, pa.string())


def arrow_columns(flat: FlatRows, names: list[str], texts: pa.StringArray) -> tuple[pa.Array, list[pa.Array]]:
    """Return each row's place of its document in the batch; and the columns from ``var`` on.

    A row that asks for a value, and whose value is NULL, is left out.  One whose function fails says so instead.
    """
    if any(map(is_own, names)):
        flat = _with_failures(flat, names, texts)
    no_function, no_value = flat.functions < 0, flat.values < 0
    hashes = text_hashes(texts)
    at = np.where(no_value, 0, flat.values)
    numbers = xpath_numbers(texts)
    if not len(texts):  # nothing to take from
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
    if texts.null_count:
        # A function without a value there: the row satisfies no comparison.
        kept = pa.array(no_function | texts.is_valid().to_numpy(zero_copy_only=False)[at])
        return documents.filter(kept), [column.filter(kept) for column in columns]
    return documents, columns


def _with_failures(flat: FlatRows, names: list[str], texts: pa.StringArray) -> FlatRows:
    """Return the rows with a row that says so, of ``REFUSED``, for each document and variable where a function of one's
    own failed, in place of the rows whose value that is.
    """
    failed = pc.starts_with(texts, FAILED).fill_null(False).to_numpy(zero_copy_only=False)
    without = (flat.functions < 0) | (flat.values < 0)
    without[~without] = ~failed[flat.values[~without]]
    if without.all():
        return flat
    rows = zip(*(column[~without].tolist() for column in flat[:5]), strict=True)
    told = dict.fromkeys((at, variable, function, value) for at, variable, _, function, value in rows)
    digests = [own_digest(variable, own_parts(names[function])) for _, variable, function, _ in told]
    nothing = np.zeros(len(told), dtype=np.int64)
    refused = FlatRows(
        documents=np.array([at for at, *_ in told], dtype=np.int32),
        variables=nothing + REFUSED,
        nodes=nothing.astype(np.int32),
        functions=nothing.astype(np.int32) - 1,
        values=np.array([value for *_, value in told], dtype=np.int64),
        entries=nothing.astype(np.int32) + 1,
        keys=np.column_stack([nothing + REFUSED, np.array(digests, dtype=np.int64)]),
        bound=np.column_stack([nothing, nothing]).astype(np.int32),
    )
    entries = np.repeat(without, flat.entries)
    kept = FlatRows(
        flat.documents[without],
        flat.variables[without],
        flat.nodes[without],
        flat.functions[without],
        flat.values[without],
        flat.entries[without],
        flat.keys[entries],
        flat.bound[entries],
    )
    parts = [kept, refused]
    return FlatRows(*map(np.concatenate, zip(*parts, strict=True)))
