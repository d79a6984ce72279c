"""Matches of parts as rows of steps, and rows that are decided as matches of queries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.batches.steps.rows import Layout, Rows
from xscl.language.steps.terms import StepsDefinition
from xscl.templates.columns import Int64s

__all__ = ["answer_nodes", "part_rows"]


def part_rows(
    definition: StepsDefinition,
    layout: Layout,
    number: int,
    table: pa.Table,
    events: pa.Table,
) -> Rows:
    """Return matches of a part as rows of a query.

    Args:
        definition: the query's steps.
        layout: its places.
        number: the part.
        table: the matches, as ``windows.rows`` has them.
        events: their documents, by ``windows.rows.members_of``.
    """
    rows = Rows.empty(layout, table.num_rows)
    if not table.num_rows:
        return rows
    keys = np.frombuffer(b"".join(table.column("key").to_pylist()), dtype=">i8").astype(np.int64)
    keys = keys.reshape(table.num_rows, -1)
    blocks, names = layout.of_parts(frozenset([number]))
    rows.ts = table.column("ts").to_numpy().copy()
    rows.place, rows.first = (table.column(name).to_numpy().copy() for name in ("came", "first"))
    rows.docs[:, blocks] = keys[:, : len(blocks)]
    rows.times[:, blocks], starts = _times(rows.docs[:, blocks], events)
    rows.start = starts.min(axis=1)
    rows.nodes[:, np.append(blocks, names + layout.blocks[-1])] = keys[:, len(blocks) :]
    if definition.parts[number].names:
        texts = table.column("texts").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        rows.texts[:, names] = texts.reshape(table.num_rows, -1)
    return rows


def _times(docs: Int64s, events: pa.Table) -> tuple[Int64s, Int64s]:
    """Return the times and the starts of documents."""
    at = np.searchsorted(events.column("docid").to_numpy(), docs)
    starts = pc.coalesce(events.column("start"), events.column("ts"))
    return events.column("ts").to_numpy()[at], starts.to_numpy()[at]


def answer_nodes(definition: StepsDefinition, layout: Layout, rows: Rows) -> Int64s:
    """Return the nodes that make each match: the result nodes of all blocks, and those that SELECT mentions."""
    selected = [layout.blocks[-1] + layout.variable(*each) for each in definition.selected]
    found: Int64s = rows.nodes[:, [*range(layout.blocks[len(definition.members)]), *selected]]
    return found
