"""The versions of what stage 1 is asked, as files by which automata in other processes are kept up to date.

A version is written as what it adds to the one before and takes away.  A process that has an automaton of an earlier
version reads the changes since then, a new one reads all from the last whole list on.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from xscl.xpath.automaton import Automaton
from xscl.xpath.states import WitnessSpec

__all__ = [
    "SpecChange",
    "SpecFiles",
    "SpecKey",
    "apply_change",
    "load_automaton",
    "save_change",
    "spec_key",
]

_MOST_KEPT = 3
"""Automata in one process: of documents, of rows of earlier versions, and of another engine in tests."""

_MOST_FILES = 100
"""From one whole list on."""
_MANY = 1_000
"""Specs for which the garbage collector is kept away."""

SpecKey = tuple[int, tuple[str | None, ...], tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]


def spec_key(spec: WitnessSpec) -> SpecKey:
    """What equal specs share and others do not; sooner hashed than a spec."""
    edges, hanging = (tuple((upper.key, lower.key) for upper, lower in pairs) for pairs in (spec.edges, spec.hanging))
    return spec.definition.key, spec.functions, edges, hanging


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One version of what is asked, by its difference from another."""

    previous: str | None
    """The file of the version before; None: there was nothing."""
    added: tuple[WitnessSpec, ...]
    removed: tuple[WitnessSpec, ...] = ()


class SpecFiles:
    """Writes the versions, and removes the files that no version needs any more."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._asked: dict[SpecKey, WitnessSpec] = {}
        self._files: list[Path] = []
        """From the last whole list on."""
        self._changes = 0
        """Specs added and removed since then."""
        self._number = 0

    def version(self, specs: Iterable[WitnessSpec], folder: Path) -> Path:
        """The file of the version that asks for these specs; the one before if it asks for the same."""
        asked = {spec_key(spec): spec for spec in specs}
        added = tuple(spec for key, spec in asked.items() if key not in self._asked)
        removed = tuple(spec for key, spec in self._asked.items() if key not in asked)
        if self._files and not added and not removed:
            return self._files[-1]
        self._number += 1
        path = folder / f"{self._name}-{self._number:06d}.pickle"
        changes = self._changes + len(added) + len(removed)
        # When the changes are as many as the specs, reading all of them costs a new process twice as much; and files
        # have a price of their own.
        whole = not self._files or changes >= len(asked) or len(self._files) >= _MOST_FILES
        save_change(
            SpecChange(None, tuple(asked.values())) if whole else SpecChange(str(self._files[-1]), added, removed), path
        )
        # Only now: if the file could not be written, the next call must not take it for written.
        self._asked = asked
        self._changes = 0 if whole else changes
        if whole:
            for old in self._files:
                old.unlink(missing_ok=True)
            self._files = []
        self._files.append(path)
        return path


def save_change(change: SpecChange, path: Path) -> None:
    """Write a version; the files of the versions before it must stay."""
    # It is there with all its content or not at all.
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(pickle.dumps(change, protocol=5))
    unfinished.replace(path)


_automata: dict[str, Automaton] = {}
"""The automata of this process by the file of their version, the one used last at the end."""


def load_automaton(path: str) -> Automaton:
    """The automaton of a version.

    If the process has one of an earlier version, that is brought up to date, and is no longer the earlier one's.
    """
    changes: list[SpecChange] = []
    at: str | None = path
    while at is not None and at not in _automata:
        change: SpecChange = pickle.loads(Path(at).read_bytes())
        changes.append(change)
        at = change.previous
    if at is None:
        # What a whole list takes the place of is not needed while the new automaton is made.
        for known in [known for known in _automata if _series(known) == _series(path)]:
            del _automata[known]
    automaton = Automaton() if at is None else _automata.pop(at)
    for change in reversed(changes):
        apply_change(automaton, change)
    _automata[path] = automaton
    while len(_automata) > _MOST_KEPT:
        del _automata[next(iter(_automata))]
    return automaton


def _series(path: str) -> str:
    """What the files of one ``SpecFiles`` have in common."""
    return path.rpartition("-")[0]


def apply_change(automaton: Automaton, change: SpecChange) -> None:
    """Make an automaton of the version before one of this version."""
    # A hundred thousand definitions are some million objects, none of them garbage.  The collector would look at them
    # again and again while they are made, and at every full collection ever after.
    many = len(change.added) > _MANY
    if many:
        gc.unfreeze()  # automata that are not kept any more are garbage, and full of cycles
        gc.collect()
        gc.disable()
    try:
        for spec in change.removed:
            automaton.remove(spec)
        for spec in change.added:
            automaton.add(spec)
    finally:
        if many:
            gc.freeze()
            gc.enable()
