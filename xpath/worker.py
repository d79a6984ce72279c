"""What Spark ships for stage 1: events in Arrow to witness rows in Arrow.  Nothing here needs Spark.

The automaton reaches a worker as files, one for each change of what is asked, and stays in the process between jobs:
a worker that knows a version reads the changes since then, a new one reads all from the last whole list on.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from xscl.xpath.automaton import Automaton, WitnessSpec
from xscl.xpath.witness import REFUSED, WITNESS_SCHEMA, witness_rows

__all__ = [
    "REFUSED",
    "WITNESS_SCHEMA",
    "SpecChange",
    "apply_change",
    "load_automaton",
    "save_change",
    "save_specs",
    "witness_batches",
]

_MOST_KEPT = 2
"""Automata in one process: of two engines in turn, in tests."""


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One version of what is asked, by its difference from another."""

    previous: str | None
    """The file of the version before; None: there was nothing."""
    added: tuple[WitnessSpec, ...]
    removed: tuple[WitnessSpec, ...] = ()


def save_change(change: SpecChange, path: Path) -> None:
    """Write a version where workers find it.  The files of the versions before it must stay."""
    path.write_bytes(pickle.dumps(change, protocol=5))


def save_specs(specs: Sequence[WitnessSpec], path: Path) -> None:
    """Write a version as a whole."""
    save_change(SpecChange(None, tuple(specs)), path)


_automata: dict[str, Automaton] = {}
"""The automata of this process by the file of their version, the one used last at the end."""


def load_automaton(path: str) -> Automaton:
    """The automaton of a version.  One that the process has of an earlier version is brought up to date, and is that
    version's no more.
    """
    if path in _automata:
        _automata[path] = _automata.pop(path)
        return _automata[path]
    changes: list[SpecChange] = []
    at: str | None = path
    while at is not None and at not in _automata:
        change: SpecChange = pickle.loads(Path(at).read_bytes())
        changes.append(change)
        at = change.previous
    automaton = Automaton() if at is None else _automata.pop(at)
    for change in reversed(changes):
        apply_change(automaton, change)
    _automata[path] = automaton
    while len(_automata) > _MOST_KEPT:
        del _automata[next(iter(_automata))]
    return automaton


def apply_change(automaton: Automaton, change: SpecChange) -> None:
    """Make an automaton of the version before one of this version."""
    # A hundred thousand definitions are some million objects, none of them garbage.  The collector would look at them
    # again and again while they are made, and at every full collection ever after.
    gc.disable()
    try:
        for spec in change.removed:
            automaton.remove(spec)
        for spec in change.added:
            automaton.add(spec)
    finally:
        gc.freeze()
        gc.enable()


def witness_batches(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``witness_rows`` of every batch, with the automaton of a file."""
    automaton = load_automaton(path)
    for batch in batches:
        yield from witness_rows(automaton, batch)
