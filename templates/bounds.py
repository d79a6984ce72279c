"""Windows as bounds on the differences of event times, in microseconds, and the matrices that tighten them.

Every window of a query says ``lo <= ts(j) - ts(i) <= hi`` of two of its blocks.  A *case* of a query has such bounds
for every pair of blocks, tightened by all the others (difference-bound matrices: A. Silva's thesis on Juggler, and
timed automata before it), so that any two members can be compared as soon as both are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

__all__ = ["UNBOUNDED", "UNLESS_EXCHANGED", "Bounds", "Case", "DifferenceBounds", "NegativeCycle", "pair_index"]

UNBOUNDED = 1 << 62
"""Stands for no bound, so that bounds are plain numbers everywhere; no two event times differ by that much."""


UNLESS_EXCHANGED = 2
"""The order of two members that windows and guards may admit either way (``Bounds.order``)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval of time differences, both ends included: ``lo <= ts(right) - ts(left) <= hi``.

    ``order`` 1 asks for the left member to be first by (ts, channel, id), -1 for the right one, 0 for nothing;
    ``UNLESS_EXCHANGED`` asks for the left one where windows and guards admit the members in the other order too.
    ``exchange`` asks for the left member to be first where the same members, with these two exchanged, match too.
    """

    lo: int = -UNBOUNDED
    hi: int = UNBOUNDED
    order: int = 0
    exchange: bool = False

    def __or__(self, other: Bounds) -> Bounds:
        """Return the least bounds that enclose both."""
        order = self.order if self.order == other.order else 0
        return Bounds(min(self.lo, other.lo), max(self.hi, other.hi), order)

    @property
    def finite(self) -> bool:
        """Bounded on both sides."""
        return self.lo > -UNBOUNDED and self.hi < UNBOUNDED

    def admits(self, difference: int, left_first: bool) -> bool:
        """Tell whether two members so far apart, in this order, satisfy it, whatever ``exchange`` asks."""
        assert self.order != UNLESS_EXCHANGED, "two members alone do not tell"
        return self.lo <= difference <= self.hi and (self.order == 0 or (self.order == 1) is left_first)


Case = tuple[Bounds, ...]
"""Bounds of all pairs of blocks i < j, in the order of ``itertools.combinations``."""


@cache
def pair_index(count: int) -> Mapping[tuple[int, int], int]:
    """Return the place of each pair of ``count`` blocks in a case."""
    return {pair: place for place, pair in enumerate(combinations(range(count), 2))}


class NegativeCycle(ValueError):
    """No event times satisfy the bounds: going round ``blocks``, each is later than the one before by too much.

    ``steps[n]`` is the least that ``blocks[n + 1]`` is later than ``blocks[n]``, in microseconds; the last block is the
    first one again, and the steps add up to more than 0.
    """

    def __init__(self, blocks: tuple[int, ...], steps: tuple[int, ...]) -> None:
        super().__init__(blocks, steps)
        self.blocks = blocks
        self.steps = steps


class DifferenceBounds:
    """Upper bounds on ``ts(j) - ts(i)`` for all i and j."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.upper = [[0 if i == j else UNBOUNDED for j in range(count)] for i in range(count)]
        self.order: dict[tuple[int, int], int] = {}
        self.exchanged: set[tuple[int, int]] = set()
        """Pairs of blocks whose documents ``ONCE`` may exchange."""

    def copy(self) -> DifferenceBounds:
        """Return a copy that can be limited further by itself."""
        other = DifferenceBounds(0)
        other.count = self.count
        other.upper = [list(row) for row in self.upper]
        other.order = dict(self.order)
        other.exchanged = set(self.exchanged)
        return other

    def limit(self, left: int, right: int, lo: int, hi: int) -> None:
        """Ask for ``lo <= ts(right) - ts(left) <= hi``."""
        self.upper[left][right] = min(self.upper[left][right], hi)
        self.upper[right][left] = min(self.upper[right][left], -lo)

    def put_first(self, left: int, right: int) -> None:
        """Ask for ``left`` to be first by (ts, channel, id)."""
        self.limit(left, right, 0, UNBOUNDED)
        pair, order = ((left, right), 1) if left < right else ((right, left), -1)
        if self.order.setdefault(pair, order) != order:
            # Each before the other: nothing satisfies that.
            self.limit(left, right, 1, UNBOUNDED)
            self.limit(right, left, 1, UNBOUNDED)

    def tightened(self) -> Case:
        """Return the bounds of all pairs, each as tight as the others make it (Floyd and Warshall).

        Raises:
            NegativeCycle: nothing satisfies them all.
        """
        upper = [list(row) for row in self.upper]
        blocks = range(self.count)
        through = [list(blocks) for _ in blocks]
        for k in blocks:
            for i in blocks:
                first = upper[i][k]
                if first >= UNBOUNDED:
                    continue
                for j in blocks:
                    if upper[k][j] < UNBOUNDED and first + upper[k][j] < upper[i][j]:
                        upper[i][j] = first + upper[k][j]
                        through[i][j] = through[i][k]
                        if i == j:
                            raise self._cycle(through, i)
        return tuple(
            Bounds(_clamped(-upper[j][i]), _clamped(upper[i][j]), self.order.get((i, j), 0), (i, j) in self.exchanged)
            for i, j in combinations(blocks, 2)
        )

    def _cycle(self, through: list[list[int]], start: int) -> NegativeCycle:
        path = [start, through[start][start]]
        while path[-1] != start and path[-1] not in path[:-1]:
            path.append(through[path[-1]][start])
        # A shorter cycle may have closed on the way.
        path = path[path.index(path[-1]) :]
        # An upper bound on ts(j) - ts(i) below 0 says that i is later than j, so told forwards it goes backwards.
        path.reverse()
        steps = tuple(-self.upper[later][earlier] for earlier, later in zip(path, path[1:], strict=False))
        least = path.index(min(path[:-1]))
        turned = (*path[least:-1], *path[: least + 1])
        return NegativeCycle(turned, (*steps[least:], *steps[:least]))


def _clamped(bound: int) -> int:
    # Bounds are stored in 64 bits; what lies beyond differs from no difference of two event times.
    return max(-UNBOUNDED, min(UNBOUNDED, bound))
