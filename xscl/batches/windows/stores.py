"""Stores of buckets in a batch: matches whose time is settled go into buckets, and families of windows read these.

A part begins with matches.  Once buckets cost less for windows of a shape, all matches that come are put into buckets,
and are not kept for these windows.  Answers are the same, so the choice is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from xscl.base.number_order import each_once
from xscl.batches.windows.answers import Frontier, least_needed
from xscl.batches.windows.buckets import (
    Buckets,
    Shape,
    folded,
    key_of,
    partials_of,
    pays,
    together,
    width_of,
)
from xscl.batches.windows.families import Family, Kind, identity
from xscl.batches.windows.groups import Matches, Partial
from xscl.templates.columns import Int64s

__all__ = ["Store", "Stores", "stores_of"]


@dataclass(frozen=True, slots=True)
class Store:
    """Common facts of families that may share buckets."""

    kinds: tuple[Kind, ...]
    partials: tuple[Partial, ...]
    width: int
    """Length of a bucket."""
    sees: Int64s
    """Places after which queries see matches, ascending."""


def stores_of(families: Iterable[Family]) -> dict[Shape, Store]:
    """Return what families may share."""
    found: dict[Shape, list[Family]] = {}
    for family in families:
        if family.kind.shape is not None:
            found.setdefault(family.kind.shape, []).append(family)
    return {shape: _store(of) for shape, of in found.items()}


def _store(families: list[Family]) -> Store:
    kinds = tuple(family.kind for family in families)
    definitions = {identity(of.definition): of.definition for family in families for of in family.members}
    aggregates = (each for definition in definitions.values() for each in definition.aggregates)
    windows = ((kind.window, kind.every) for kind in kinds if kind.window is not None and kind.every is not None)
    sees = each_once(np.concatenate([family.sees for family in families]))
    return Store(kinds, partials_of(dict.fromkeys(aggregates)), width_of(windows), sees)


class Stores:
    """Buckets of a part in a batch."""

    def __init__(self, part: int, stores: Mapping[Shape, Store], kept: dict[tuple[int, str], Buckets]) -> None:
        """Begin with the buckets that are kept, by part and shape; they are brought up to date."""
        self._part, self._stores, self._kept = part, stores, kept

    def take(self, matches: Matches, frontier: Frontier) -> None:
        """Put matches into buckets whose times are settled."""
        for shape, store in self._stores.items():
            old, key = self._of(shape), (self._part, key_of(shape))
            until = frontier.now // store.width * store.width
            if old is None and not pays(matches, shape, store.width, until, frontier.before):
                continue
            begin, end = (0 if old is None else old.until), until
            low = 0 if old is None else int(np.searchsorted(matches.ts, begin))
            high = int(np.searchsorted(matches.ts, end))
            if old is not None and low >= high:
                continue
            new = folded(matches.some(np.arange(low, high)), shape, store.partials, store.width, until, store.sees)
            self._kept[key] = new if old is None else together(old, new)

    def _of(self, shape: Shape) -> Buckets | None:
        return self._kept.get((self._part, key_of(shape)))

    def of(self, family: Family) -> Buckets | None:
        """Return the buckets of a family; None: its windows are over matches."""
        return None if family.kind.shape is None else self._of(family.kind.shape)

    def leave(self, now: int) -> None:
        """Leave out the buckets that no window needs any more."""
        for shape, store in self._stores.items():
            buckets = self._of(shape)
            if buckets is not None:
                least = min(least_needed(kind, now) for kind in store.kinds)
                self._kept[self._part, key_of(shape)] = buckets.since(least)
