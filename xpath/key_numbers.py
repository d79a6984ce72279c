"""Numbers of keys: equal keys of 64 bits have one number, in the order in which they came."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xscl.xpath.runs import Int64s

__all__ = ["KeyNumbers", "Keys"]

Keys = npt.NDArray[np.uint64]
_NOTHING = np.zeros(0, dtype=np.int64)


class KeyNumbers:
    """Keys in order, each with its number; a look-up is a binary search, without a step of Python for a key."""

    def __init__(self) -> None:
        self._keys: Keys = np.zeros(0, dtype=np.uint64)
        self._numbers: Int64s = _NOTHING

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, keys: Keys) -> tuple[Int64s, Int64s]:
        """Return the numbers of keys, and the places of those that are new: the first place of each, in their order."""
        count = len(self._keys)
        if not len(keys):
            return _NOTHING, _NOTHING
        if count:
            at = np.minimum(np.searchsorted(self._keys, keys), count - 1)
            missing = np.flatnonzero(self._keys[at] != keys)
            if not len(missing):
                return self._numbers[at], _NOTHING
        else:
            missing = np.arange(len(keys))
        _, first = np.unique(keys[missing], return_index=True)
        fresh = np.sort(missing[first])
        together = np.concatenate([self._keys, keys[fresh]])
        order = np.argsort(together)
        self._keys = together[order]
        self._numbers = np.concatenate([self._numbers, np.arange(count, count + len(fresh))])[order]
        return self._numbers[np.searchsorted(self._keys, keys)], fresh
