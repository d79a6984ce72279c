"""How many pairs of documents each edge has, estimated from how often values occur.  Nothing here needs Spark.

Of a file of witnesses, which is read once, those values are counted whose hashes lie in a fixed part of their range,
the same in all files, and those that occur often, wherever their hashes lie: a single one may make most of the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow.dataset as ds

from xscl.templates.program import Program
from xscl.values import hash64

__all__ = ["ValueCounts", "estimated_pairs", "kept_counts", "value_counts"]

_PART = 64
"""One in so many hashes is counted,"""
_OFTEN = 8
"""and every value that a file has so often."""

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """How often a file has values, late documents apart; a value is one of a variable and function."""

    rows: int
    """Rows of the file."""
    keys: Numbers
    """Of each value, ascending: a digest of its variable and function, plus its hash, modulo 2 ** 64;"""
    hashes: Numbers
    """its hash,"""
    counts: npt.NDArray[np.int64]
    """and the number of rows that have it."""

    def of(self, keys: Numbers) -> npt.NDArray[np.int64]:
        """How often the file has the values of these keys."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.counts[places], 0)

    def often(self) -> Numbers:
        """The hashes of the values that the file has often."""
        return self.hashes[self.counts >= _OFTEN]


def value_counts(path: str) -> ValueCounts:
    """The counts of a file of witnesses, or of a folder of them."""
    table = ds.dataset(path, format="parquet").to_table(columns=["var", "fn", "h"], filter=~ds.field("late"))
    functions = table.column("fn").combine_chunks().dictionary_encode(null_encoding="encode")
    names = functions.dictionary.to_pylist()
    variables, var_of = np.unique(table.column("var").to_numpy(), return_inverse=True)
    places = var_of * max(1, len(names)) + functions.indices.to_numpy(zero_copy_only=False)
    present, of = np.unique(places, return_inverse=True)
    digests = [_digest(int(variables[place // len(names)]), names[place % len(names)]) for place in present.tolist()]
    hashes = table.column("h").to_numpy().view(np.uint64)
    keys = np.array(digests, np.uint64)[of] + hashes if len(of) else hashes
    distinct, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return ValueCounts(table.num_rows, distinct, hashes[first], counts)


@lru_cache(maxsize=4096)
def kept_counts(path: str) -> ValueCounts:
    """Those of a file that never changes; values that are rare are counted in one of ``_PART`` of the hashes only."""
    whole = value_counts(path)
    kept = _counted(whole.hashes) | (whole.counts >= _OFTEN)
    return ValueCounts(whole.rows, whole.keys[kept], whole.hashes[kept], whole.counts[kept])


def estimated_pairs(program: Program, fresh: ValueCounts, state: Sequence[ValueCounts]) -> dict[int, float]:
    """The pairs of nodes that each edge of two blocks finds: of ``fresh`` among themselves and with ``state``, windows
    left aside.  What is rare is estimated, what is frequent counted.
    """
    asks: dict[int, list[tuple[int, bool, int]]] = {}
    edges = [edge for edge in program.edges.values() if edge.key.kind == "EQ"]
    for place, edge in enumerate(edges):
        left, right = _digest(edge.key.lvar, edge.key.lfn), _digest(edge.key.rvar, edge.key.rfn)
        asks.setdefault(left, []).append((place, True, right))
        asks.setdefault(right, []).append((place, False, left))
    found = np.zeros(len(edges))
    often = np.unique(np.concatenate([fresh.often(), *(some.often() for some in state)]))
    exact = np.isin(fresh.hashes, often)
    looked_at = exact | _counted(fresh.hashes)
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


def _counted(hashes: Numbers) -> npt.NDArray[np.bool_]:
    return hashes < np.uint64((1 << 64) // _PART)


def _digest(var: int, fn: str | None) -> int:
    return hash64(f"{var} {fn}") % (1 << 64)
