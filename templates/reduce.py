"""Reduction of a tree to its minor (thesis 6.3): the part that a join needs to see of a pattern.

Leaves that are not kept go, repeatedly; nodes that are not below the least common ancestor of the rest go; inner
nodes with one child are contracted unless they are kept themselves.  The kept nodes and their least common ancestors
stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Minor", "reduce_tree"]


@dataclass(frozen=True, slots=True)
class Minor:
    """``nodes`` of the original tree, parents first; ``parents[i]`` is the place in ``nodes`` of node i's parent."""

    nodes: tuple[int, ...]
    parents: tuple[int, ...]
    """-1 for the root."""

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """(upper, lower) as nodes of the original tree."""
        return tuple(
            (self.nodes[parent], node) for node, parent in zip(self.nodes, self.parents, strict=True) if parent >= 0
        )


def reduce_tree(parents: Sequence[int], keep: Iterable[int]) -> Minor:
    """Return the minor of a tree given by parents (-1 for the root, parents before children) that keeps ``keep``.

    A chain a-b-c with a branch d under b, keeping c and d, leaves b with its two leaves:

    >>> reduce_tree([-1, 0, 1, 1], {2, 3})
    Minor(nodes=(1, 2, 3), parents=(-1, 0, 0))
    """
    return _reduced(tuple(parents), frozenset(keep))


@lru_cache(maxsize=10_000)
def _reduced(parents: tuple[int, ...], keep: frozenset[int]) -> Minor:
    live_children = [0] * len(parents)
    live = [False] * len(parents)
    for node in range(len(parents) - 1, -1, -1):
        live[node] = node in keep or live_children[node] > 0
        if live[node] and parents[node] >= 0:
            live_children[parents[node]] += 1
    nodes: list[int] = []
    above: list[int] = []
    place: dict[int, int] = {}
    for node, parent in enumerate(parents):
        if not live[node]:
            continue
        # The nearest kept ancestor-or-self; nodes without one lie above the least common ancestor.
        nearest = place.get(parent, -1)
        if node in keep or live_children[node] > 1:
            place[node] = len(nodes)
            nodes.append(node)
            above.append(nearest)
        else:
            place[node] = nearest
    return Minor(tuple(nodes), tuple(above))
