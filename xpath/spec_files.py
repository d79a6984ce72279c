"""The versions of what stage 1 is asked: an automaton here, and files by which those of other processes follow.

A version is written as what it adds to the one before and takes away (``xscl.base.versioned_files``).
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from xscl.base.versioned_files import VersionFiles, load_version
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.automaton.states import SpecKey, WitnessSpec, spec_key

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


@dataclass(slots=True)
class _Since:
    """Specs that have come and gone since some moment."""

    added: dict[SpecKey, WitnessSpec] = field(default_factory=dict)
    removed: dict[SpecKey, WitnessSpec] = field(default_factory=dict)

    def add(self, key: SpecKey, spec: WitnessSpec) -> None:
        if self.removed.pop(key, None) is None:
            self.added[key] = spec

    def remove(self, key: SpecKey, spec: WitnessSpec) -> None:
        if self.added.pop(key, None) is None:
            self.removed[key] = spec


class SpecFiles:
    """The specs, and their versions as files."""

    def __init__(self, name: str) -> None:
        self._asked: dict[SpecKey, WitnessSpec] = {}
        self._unwritten = _Since()
        """Since the last version."""
        self._unread = _Since()
        """Since the automaton was asked for."""
        self._automaton: Automaton | None = None
        self._files = VersionFiles(name)

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, key: SpecKey, spec: WitnessSpec) -> None:
        """Ask for one more, which is not asked for."""
        self._asked[key] = spec
        self._unwritten.add(key, spec)
        self._unread.add(key, spec)

    def remove(self, key: SpecKey) -> None:
        """Remove a spec."""
        spec = self._asked.pop(key)
        self._unwritten.remove(key, spec)
        self._unread.remove(key, spec)

    def automaton(self) -> Automaton:
        """Return the automaton of what is asked now; it changes with that, and is made when it is first asked for."""
        changes, self._unread = self._unread, _Since()
        automaton, self._automaton = self._automaton or Automaton(), None
        try:
            apply_change(automaton, SpecChange(None, tuple(changes.added.values()), tuple(changes.removed.values())))
        except BaseException:
            self._unread = _Since(dict(self._asked))
            raise
        self._automaton = automaton
        return automaton

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
        waiting = self._unwritten
        changes = len(waiting.added) + len(waiting.removed)
        if self._files.last is not None and not changes:
            return self._files.last

        def make(previous: str | None) -> SpecChange:
            if previous is None:
                return SpecChange(None, tuple(self._asked.values()))
            return SpecChange(previous, tuple(waiting.added.values()), tuple(waiting.removed.values()))

        path = self._files.write(folder, make, changes=changes, size=len(self._asked))
        self._unwritten = _Since()
        return path


_spared: deque[bool] = deque(maxlen=1)
"""Whether the collector was kept from an automaton, which may be garbage by now."""
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
        if _spared:
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
            _spared.append(True)
            gc.enable()
