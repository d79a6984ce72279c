"""Functions that Spark ships for stage 1: events in Arrow to witness rows in Arrow. Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from xscl.xpath.row_files import load_matchers
from xscl.xpath.row_witness import row_witnesses
from xscl.xpath.spec_files import load_automaton
from xscl.xpath.witness import witness_rows

__all__ = ["READ", "witness_batches"]

_WALKED = ["docid", "channel", "id", "item", "ts", "late", "membership", "content"]
READ = [*_WALKED, "cells", "shaped"]
"""Columns of events: ``content`` is that of the event, or the document of a row that is ``shaped``."""


def witness_batches(
    batches: Iterator[pa.RecordBatch], *, specs: str | None, rows: str | None
) -> Iterator[pa.RecordBatch]:
    """Turn events into witness rows.

    Args:
        batches: events, columns ``READ``.
        specs: the file of what documents are walked for; None: nothing.
        rows: the file of what columns answer; None: nothing.
    """
    for batch in batches:
        is_row = batch.column("cells").is_valid()
        if rows is not None:
            yield from row_witnesses(load_matchers(rows), batch)
        if specs is not None:
            documents = batch.filter(pc.or_(batch.column("shaped"), pc.invert(is_row)))
            yield from witness_rows(load_automaton(specs), documents.select(_WALKED))
