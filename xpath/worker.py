"""What Spark ships for stage 1: events in Arrow to witness rows in Arrow.  Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from xscl.xpath.spec_files import load_automaton
from xscl.xpath.witness import witness_rows

__all__ = ["witness_batches"]


def witness_batches(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``witness_rows`` of every batch, with the automaton of a file."""
    automaton = load_automaton(path)
    for batch in batches:
        yield from witness_rows(automaton, batch)
