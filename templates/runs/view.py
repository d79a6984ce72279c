"""A run as one finder sees it: keys and shapes by the finder's numbers, and rows that are in sight only.

Rows out of sight are those whose times lie below the floor of their variable (``retention``); they leave the file when
it is written again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xscl.base.number_order import each_once
from xscl.templates.columns import Int32s, Int64s
from xscl.templates.retention import EVER, Floors
from xscl.templates.runs.run import Key, Run
from xscl.templates.shapes import Shapes

__all__ = ["FinderNumbers", "RunView"]

_NEVER = np.iinfo(np.int64).max
_MANY_SHAPES = 200_000
"""Shapes that a finder remembers from unit to unit."""


@dataclass
class FinderNumbers:
    """Numbers of keys and shapes, the same for all runs that a finder sees."""

    shapes: Shapes = field(default_factory=Shapes)
    _keys: dict[Key, int] = field(default_factory=dict)
    _seen: dict[int, _Numbered] = field(default_factory=dict)
    """Runs by their identities, with the numbers that were given to them."""

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self._keys)

    def key(self, key: Key) -> int:
        """Return the number of a key."""
        return self._keys.setdefault(key, len(self._keys))

    def keys(self, keys: tuple[Key, ...]) -> Int64s:
        """Return the numbers of some keys."""
        return np.array([self.key(key) for key in keys], dtype=np.int64)

    def view(self, run: Run, floors: Floors | None) -> RunView:
        """Return the view of a run; without floors all its rows are in sight."""
        known = self._seen.get(id(run))
        if known is None:
            known = self._seen[id(run)] = _Numbered(run, self)
        return RunView(known, None if floors is None else _least(run, floors))

    def forget(self, kept: set[int]) -> None:
        """Forget runs but those of some identities, and all shapes where they have become too many."""
        self._seen = {number: known for number, known in self._seen.items() if number in kept}
        if len(self.shapes) > _MANY_SHAPES:
            self._seen.clear()
            self.shapes.keep(np.empty(0, dtype=np.int32))


class _Numbered:
    """A run, and the finder's numbers of its keys and of the shapes that were asked for."""

    def __init__(self, run: Run, numbers: FinderNumbers) -> None:
        self.run = run
        self.keys = numbers.keys(run.keys)
        self._numbers = numbers
        self._local = np.empty(0, dtype=np.int64)
        # Pages of zeros take no memory before they are written to.
        self._shapes = np.zeros(len(run.shapes.starts) - 1, dtype=np.int32)
        """Number of each shape, and one more; 0: not asked for yet."""

    def local(self, keys: Int64s) -> Int64s:
        """Return the run's numbers of some keys; -1: it has no row of the key."""
        if len(self._local) < self._numbers.count:
            self._local = np.full(self._numbers.count, -1, dtype=np.int64)
            self._local[self.keys] = np.arange(len(self.keys))
        return self._local[keys]

    def shapes(self, which: Int32s | Int64s) -> Int32s:
        """Return the finder's numbers of some shapes of the run."""
        found = self._shapes[which]
        new = found == 0
        if new.any():
            asked = each_once(which[new].astype(np.int64))
            self._shapes[asked] = self.run.shapes.numbers(asked, self._numbers.shapes) + 1
            found = self._shapes[which]
        return found - np.int32(1)


def _least(run: Run, floors: Floors) -> Int64s | None:
    """Return the least time of each key's rows that are in sight; None: all are."""
    variables = np.array([var for var, _ in run.keys], dtype=np.int64)
    if not len(floors.variables):
        return np.full(len(variables), _NEVER)
    place = np.minimum(np.searchsorted(floors.variables, variables), len(floors.variables) - 1)
    found: Int64s = np.where(floors.variables[place] == variables, floors.least[place], _NEVER)
    return None if (found == EVER).all() else found


@dataclass(frozen=True, slots=True)
class RunView:
    """A run in the numbers of a finder."""

    _numbered: _Numbered
    least: Int64s | None
    """The least time in sight of each of the run's keys; None: all are."""

    @property
    def run(self) -> Run:
        """The run."""
        return self._numbered.run

    @property
    def keys(self) -> Int64s:
        """The finder's number of each of the run's keys."""
        return self._numbered.keys

    def local(self, keys: Int64s) -> Int64s:
        """Return the run's numbers of some keys; -1: it has no row of the key."""
        return self._numbered.local(keys)

    def shapes(self, which: Int32s | Int64s) -> Int32s:
        """Return the finder's numbers of some shapes of the run."""
        return self._numbered.shapes(which)

    def within(self, slices: Int64s, least: Int64s, greatest: Int64s) -> tuple[Int64s, Int64s]:
        """Tell of each of some slices where the rows in sight between two times begin, and end."""
        if self.least is not None:
            least = np.maximum(least, self.least[self.run.slice_keys(slices)])
        return self.run.within(slices, least, greatest)

    def of_documents(self, docs: Int64s, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows in sight of a key in each of some documents: places of documents, rising, and of rows."""
        local = self.local(keys)
        at, rows = self.run.of_documents(docs, local)
        if self.least is None:
            return at, rows
        seen = self.run.ts[rows] >= self.least[local[at]]
        return at[seen], rows[seen]
