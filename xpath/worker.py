"""What Spark ships for stage 1: events in Arrow to witness rows in Arrow.  Nothing here needs Spark.

The automaton reaches a worker as a file named by its version and stays in the process between jobs.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from xscl.xpath.automaton import Automaton, WitnessSpec
from xscl.xpath.witness import REFUSED, WITNESS_SCHEMA, witness_rows

__all__ = ["REFUSED", "WITNESS_SCHEMA", "load_automaton", "save_specs", "witness_batches"]


def save_specs(specs: list[WitnessSpec], path: Path) -> None:
    """Write what a worker builds its automaton from."""
    path.write_bytes(pickle.dumps(specs, protocol=5))


@lru_cache(maxsize=2)
def load_automaton(path: str) -> Automaton:
    """The automaton of one version, built once per process."""
    specs: list[WitnessSpec] = pickle.loads(Path(path).read_bytes())
    return Automaton(specs)


def witness_batches(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``witness_rows`` of every batch, with the automaton of a file."""
    automaton = load_automaton(path)
    for batch in batches:
        yield from witness_rows(automaton, batch)
