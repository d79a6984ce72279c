"""The versions of what stage 1 is asked, as files by which automata in other processes are kept up to date.

A version is written as what it adds to the one before and takes away (``xscl.base.versioned_files``).
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from xscl.base.versioned_files import VersionFiles, load_version
from xscl.xpath.automaton import Automaton
from xscl.xpath.states import SpecKey, WitnessSpec, spec_key

__all__ = [
    "SpecChange",
    "SpecFiles",
    "apply_change",
    "load_automaton",
]

_MOST_KEPT = 2
"""Automata in one process: the engine's, and that of another engine in tests."""
_MANY = 1_000
"""Specs for which the garbage collector is kept away."""


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One version of what is asked, by its difference from another."""

    previous: str | None
    """The file of the version before; None: there was nothing."""
    added: tuple[WitnessSpec, ...]
    removed: tuple[WitnessSpec, ...] = ()


class SpecFiles:
    """The specs, and their versions as files."""

    def __init__(self, name: str) -> None:
        self._asked: dict[SpecKey, WitnessSpec] = {}
        self._added: dict[SpecKey, WitnessSpec] = {}
        """Since the last version."""
        self._removed: dict[SpecKey, WitnessSpec] = {}
        self._files = VersionFiles(name)

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, key: SpecKey, spec: WitnessSpec) -> None:
        """Ask for one more, which is not asked for."""
        self._asked[key] = spec
        if self._removed.pop(key, None) is None:
            self._added[key] = spec

    def remove(self, key: SpecKey) -> None:
        """Remove a spec."""
        spec = self._asked.pop(key)
        if self._added.pop(key, None) is None:
            self._removed[key] = spec

    def version(self, specs: Iterable[WitnessSpec], folder: Path) -> Path:
        """Ask for these specs and no other: the file of that version."""
        asked = {spec_key(spec): spec for spec in specs}
        for key in [key for key in self._asked if key not in asked]:
            self.remove(key)
        for key, spec in asked.items():
            if key not in self._asked:
                self.add(key, spec)
        return self.written(folder)

    def written(self, folder: Path) -> Path:
        """Return the file of the version that asks for what is asked now; the one before if it asks for the same."""
        changes = len(self._added) + len(self._removed)
        if self._files.last is not None and not changes:
            return self._files.last

        def make(previous: str | None) -> SpecChange:
            if previous is None:
                return SpecChange(None, tuple(self._asked.values()))
            return SpecChange(previous, tuple(self._added.values()), tuple(self._removed.values()))

        path = self._files.write(folder, make, changes=changes, size=len(self._asked))
        self._added, self._removed = {}, {}
        return path


_automata: dict[str, Automaton] = {}
"""The automata of this process by the file of their version."""


def load_automaton(path: str) -> Automaton:
    """Return the automaton of a version; that of an earlier one is brought up to date, and is no longer the earlier
    one's.
    """

    def changed(automaton: Automaton, change: SpecChange) -> Automaton:
        apply_change(automaton, change)
        return automaton

    return load_version(path, _automata, _MOST_KEPT, Automaton, changed)


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
