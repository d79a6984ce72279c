"""Numbers of pairs of documents by edge, estimated from how often values occur.  Nothing here needs Spark.

Of a file of witnesses, which is read once, those values are counted whose hashes lie in a fixed part of their range,
the same in all files, and those that occur often, wherever their hashes lie: a single one may make most of the pairs.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from xscl.base.sealed import read_whole, write_whole
from xscl.base.values import hash64
from xscl.templates.program import Program

__all__ = [
    "Partners",
    "ValueCounts",
    "counted",
    "estimated_pairs",
    "kept_counts",
    "load_partners",
    "partners_of",
    "save_partners",
    "value_counts",
    "value_digest",
]

_PART = 64
"""One in so many hashes is counted,"""
_OFTEN = 8
"""Values that a file has so often are all counted."""

_BITS = 16
"""Bits of a ``_Presence`` for each value, at least; two in ten thousand others then seem to be there."""
_SPREAD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Presence:
    """A Bloom filter of values: says of every value that is there that it is, and of hardly any other."""

    shift: int
    bits: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, keys: Numbers) -> _Presence:
        """Return the values of these keys."""
        size = max(10, (_BITS * len(keys)).bit_length())
        found = np.zeros(1 << size, np.bool_)
        for spread in _SPREAD:
            found[(keys * np.uint64(spread)) >> np.uint64(64 - size)] = True
        return cls(64 - size, np.packbits(found, bitorder="little"))

    def has(self, keys: Numbers) -> npt.NDArray[np.bool_]:
        """Tell of each key whether its value is there."""
        there = np.ones(len(keys), np.bool_)
        for spread in _SPREAD:
            place = (keys * np.uint64(spread)) >> np.uint64(self.shift)
            there &= (self.bits[place >> np.uint64(3)] >> (place & np.uint64(7)).astype(np.uint8) & 1).astype(np.bool_)
        return there


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Counts of the values of a file, late documents apart; a value is one of a variable and function."""

    rows: int
    """Rows of the file."""
    keys: Numbers
    """A digest of each value's variable and function, plus its hash, modulo 2 ** 64, ascending."""
    hashes: Numbers
    """The hash of each value."""
    counts: npt.NDArray[np.int64]
    """The number of rows that have each value."""
    presence: _Presence
    """Whether it has a value, of those that are not counted too."""

    def of(self, keys: Numbers) -> npt.NDArray[np.int64]:
        """Tell how often the file has the values of these keys."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.counts[places], 0)

    def often(self) -> Numbers:
        """Return the hashes of the values that the file has often."""
        return self.hashes[self.counts >= _OFTEN]


def value_counts(path: str) -> ValueCounts:
    """Return the counts of a file of witnesses, or of a folder of them."""
    return counted(ds.dataset(path, format="parquet").to_table(columns=["var", "fn", "h", "late"]))


def counted(table: pa.Table) -> ValueCounts:
    """Return the counts of witnesses."""
    table = table.filter(pc.invert(table.column("late")))
    functions = table.column("fn").combine_chunks().dictionary_encode(null_encoding="encode")
    names = functions.dictionary.to_pylist()
    variables, var_of = np.unique(table.column("var").to_numpy(), return_inverse=True)
    places = var_of * max(1, len(names)) + functions.indices.to_numpy(zero_copy_only=False)
    present, of = np.unique(places, return_inverse=True)
    digests = [
        value_digest(int(variables[place // len(names)]), names[place % len(names)]) for place in present.tolist()
    ]
    hashes = table.column("h").to_numpy().view(np.uint64)
    keys = np.array(digests, np.uint64)[of] + hashes if len(of) else hashes
    distinct, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return ValueCounts(table.num_rows, distinct, hashes[first], counts, _Presence.of(distinct))


@lru_cache(maxsize=4096)
def kept_counts(path: str) -> ValueCounts:
    """Return those of a file that never changes; values that are rare are counted in one of ``_PART`` of the hashes
    only.
    """
    whole = value_counts(path)
    kept = _sampled(whole.hashes) | (whole.counts >= _OFTEN)
    return ValueCounts(whole.rows, whole.keys[kept], whole.hashes[kept], whole.counts[kept], whole.presence)


def estimated_pairs(program: Program, fresh: ValueCounts, state: Sequence[ValueCounts]) -> dict[int, float]:
    """Return the pairs of nodes that each edge of two blocks finds: of ``fresh`` among themselves and with ``state``,
    windows left aside. Rare values are estimated, frequent ones counted.
    """
    asks: dict[int, list[tuple[int, bool, int]]] = {}
    edges = [edge for edge in program.edges.values() if edge.key.kind == "EQ"]
    for place, edge in enumerate(edges):
        left, right = value_digest(edge.key.lvar, edge.key.lfn), value_digest(edge.key.rvar, edge.key.rfn)
        asks.setdefault(left, []).append((place, True, right))
        asks.setdefault(right, []).append((place, False, left))
    found = np.zeros(len(edges))
    often = np.unique(np.concatenate([fresh.often(), *(some.often() for some in state)]))
    exact = np.isin(fresh.hashes, often)
    looked_at = exact | _sampled(fresh.hashes)
    weights = np.where(exact, 1, _PART)[looked_at] * fresh.counts[looked_at]
    hashes, digests = fresh.hashes[looked_at], (fresh.keys - fresh.hashes)[looked_at]
    for digest in np.unique(digests).tolist():
        of_it = digests == digest
        for place, new_left, partner in asks.get(digest, ()):
            keys = hashes[of_it] + np.uint64(partner)
            # Two new documents meet once.
            met = sum((some.of(keys) for some in state), fresh.of(keys) if new_left else np.zeros(len(keys), np.int64))
            found[place] += float(np.dot(weights[of_it], met))
    return {edge.number: float(found[place]) for place, edge in enumerate(edges)}


def _sampled(hashes: Numbers) -> npt.NDArray[np.bool_]:
    return hashes < np.uint64((1 << 64) // _PART)


@dataclass(frozen=True, slots=True)
class Partners:
    """The values for which new witnesses may find a partner; most have none, and need not be asked for."""

    state: tuple[_Presence, ...]
    once: _Presence
    """Among the new ones,"""
    twice: _Presence
    """Values that may have a second witness besides the one that asks."""

    def may_have(self, keys: Numbers, own: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Tell of each key whether its value is there; where it is the asking witness' ``own``, whether there again."""
        found = np.where(own, self.twice.has(keys), self.once.has(keys))
        for some in self.state:
            found |= some.has(keys)
        return found


def partners_of(fresh: ValueCounts, state: Sequence[ValueCounts]) -> Partners:
    """Partners among all values of the batch and of the state."""
    twice = _Presence.of(fresh.keys[fresh.counts > 1])
    return Partners(tuple(some.presence for some in state), fresh.presence, twice)


def save_partners(partners: Partners, path: Path) -> None:
    """Write them for workers."""
    write_whole(path, pickle.dumps(partners, protocol=5))


@lru_cache(maxsize=2)
def load_partners(path: str) -> Partners:
    """Return those of one batch, read once per process."""
    partners: Partners = pickle.loads(read_whole(Path(path)))
    return partners


def value_digest(var: int, fn: str | None) -> int:
    """Return what is added to the hashes of a variable's values."""
    return hash64(f"{var} {fn}") % (1 << 64)
