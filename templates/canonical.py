"""A canonical labelling of join graphs: isomorphic graphs, blocks distinguished, get the same certificate.

Most graphs need no search: where no two vertices are equal in content, content orders them, and what shape makes of
that order is remembered.  Other graphs take colour refinement with individualisation (McKay's method), adapted
to join graphs:

* leaves that see the same vertices are told apart at once, because all ways to do so give the same graph;
* vertices are coloured by what they are, and colours refined by the colours around them until nothing changes;
* vertices whose colour nobody shares say nothing more about the others; without them the graph falls into components
  (k parallel joins: k components of two vertices), which are put in order one by one and sorted;
* where a component still shares colours, each vertex of one colour is tried in turn.  Only the tries whose refined
  colouring is least are followed, and of those that are images of each other under an automorphism only one.

The number of tries is small unless a graph is regular in a way that colours do not see, connected, and large; the work
is bounded, and graphs past the bound are refused by name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from xscl.base.errors import UnsupportedFeatureError
from xscl.templates.graph import EdgeKind, JoinGraph, ValueJoin, Vertex

__all__ = ["Canonical", "canonicalize"]

_Order = tuple[int, ...]
_Joins = tuple[tuple[int, int, int], ...]
"""(left, right, label), sorted."""
_Ranks = dict[int, int]
"""Colours of vertices: numbers whose order no renaming changes."""
_Certificate = tuple[tuple[int, ...], ...]
_Sortable = TypeVar("_Sortable", bound=Hashable)

_KINDS: tuple[EdgeKind, ...] = ("BAND", "EQ", "NE")
_LABEL = {kind: label for label, kind in enumerate(_KINDS)}
_REMEMBERED = 1 << 14
"""Shapes remembered, at about 1 kB each."""
_MOST_WORK = 3_000_000
"""Vertices and joins looked at by one search; about a second."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """``certificate`` identifies the template; ``graph`` is the input with vertices and joins in canonical order."""

    certificate: str
    graph: JoinGraph
    order: tuple[int, ...]
    """``order[i]`` is the input's index of canonical vertex i."""


def canonicalize(graph: JoinGraph) -> Canonical:
    """Return the canonical form of a join graph, whose parents come before their children.

    The certificate depends on shape alone: blocks, tree edges, joins with their kinds and directions.  Which of several
    equivalent labellings is taken is settled by the definitions and the joins' columns, so that the result depends
    neither on variable names nor on the order in which anything was written.

    Raises:
        UnsupportedFeatureError: the graph is so symmetric that no order was found within the bound on work.
    """
    # First by content: equal queries come to one vertex order, whatever order they were written in.
    by_content = _by_content(graph)
    vertices = [graph.vertices[old] for old in by_content]
    place = _inverse(by_content)
    # Then by shape: ties fall to the order just made.
    by_shape, certificate = _by_shape(
        tuple(v.block for v in vertices),
        tuple(place[v.parent] if v.parent >= 0 else -1 for v in vertices),
        tuple(sorted((place[j.left], place[j.right], _LABEL[j.kind]) for j in graph.joins)),
    )
    order = tuple(by_content[i] for i in by_shape)
    return Canonical(certificate, _relabelled(graph, order), order)


def _by_content(graph: JoinGraph) -> _Order:
    depths = _depths([v.parent for v in graph.vertices])
    keys = [(v.block, depth, v.definition) for v, depth in zip(graph.vertices, depths, strict=True)]
    if len(set(keys)) == len(keys):
        return tuple(sorted(range(len(keys)), key=keys.__getitem__))
    columns = _ranks([(j.kind, j.fn_l, j.fn_r, j.f, j.add, j.op) for j in graph.joins])
    return _by_ranks(
        tuple(_ranks(keys)),
        tuple(v.parent for v in graph.vertices),
        tuple(sorted((j.left, j.right, rank) for j, rank in zip(graph.joins, columns, strict=True))),
    )


@lru_cache(maxsize=_REMEMBERED)
def _by_shape(blocks: tuple[int, ...], parents: tuple[int, ...], joins: _Joins) -> tuple[_Order, str]:
    colours = _ranks(list(zip(blocks, _depths(parents), strict=True)))
    order = _Search(tuple(colours), parents, joins).order()
    above, edges = _moved(parents, joins, order)
    nodes = ",".join(f"{blocks[old]}.{parent}" for old, parent in zip(order, above, strict=True))
    return order, ";".join([nodes, *(f"{left}-{right}:{_KINDS[label]}" for left, right, label in edges)])


@lru_cache(maxsize=_REMEMBERED)
def _by_ranks(ranks: tuple[int, ...], parents: tuple[int, ...], joins: _Joins) -> _Order:
    return _Search(ranks, parents, joins).order()


class _Search:
    """The search for the order with the least certificate of one graph with coloured vertices and labelled joins."""

    def __init__(self, colours: tuple[int, ...], parents: tuple[int, ...], joins: _Joins) -> None:
        self.colours = colours
        self.around: list[list[tuple[int, int]]] = [[] for _ in colours]
        # Labels are multiples of the number of vertices, so that label + rank is one number for both.
        size = len(colours)
        for index, parent in enumerate(parents):
            if parent >= 0:
                self.around[index].append((0, parent))
                self.around[parent].append((size, index))
        for left, right, label in joins:
            self.around[left].append(((2 + 2 * label) * size, right))
            self.around[right].append(((3 + 2 * label) * size, left))
        self.work = 0

    def order(self) -> _Order:
        """Return all vertices, in canonical order."""
        whole = list(range(len(self.colours)))
        return tuple(self._ordered(whole, self._refined(whole, self._twins_apart())[0]))

    def _twins_apart(self) -> _Ranks:
        """Give numbers to the leaves that see the same vertices."""
        twins: dict[tuple[int, ...], int] = {}
        numbered = []
        for colour, around in zip(self.colours, self.around, strict=True):
            key = (colour, *sorted([label + other for label, other in around]))
            number = twins.get(key, 0)
            twins[key] = number + 1
            numbered.append((colour, number))
        return dict(enumerate(_ranks(numbered)))

    def _ordered(self, vertices: list[int], ranks: _Ranks, *, search: bool = True) -> list[int]:
        """Return the vertices in canonical order, given a stable colouring of them.

        Without ``search`` it is the order that comes of trying the first vertex wherever a colour is shared.
        """
        cells = _cells(vertices, ranks)
        shared = {vertex for cell in cells.values() if len(cell) > 1 for vertex in cell}
        if not shared:
            return sorted(vertices, key=ranks.__getitem__)
        components = self._components(shared)
        if len(components[0]) == len(vertices):
            return self._tried(vertices, ranks, min((r, c) for r, c in cells.items() if len(c) > 1)[1], search)
        ordered = [self._ordered(component, ranks, search=search) for component in components]
        ordered.sort(key=lambda component: self._certificate(component, ranks))
        return sorted(
            [*(v for v in vertices if v not in shared), *(v for component in ordered for v in component)],
            key=ranks.__getitem__,
        )

    def _components(self, vertices: set[int]) -> list[list[int]]:
        found = []
        left = set(vertices)
        for first in sorted(vertices):
            if first not in left:
                continue
            left.remove(first)
            component = [first]
            for vertex in component:
                for _, other in self.around[vertex]:
                    if other in left:
                        left.remove(other)
                        component.append(other)
            found.append(component)
        return found

    def _tried(self, vertices: list[int], ranks: _Ranks, cell: list[int], search: bool) -> list[int]:
        """Set each vertex of the cell apart from the others in turn, and return the least order that follows."""
        if not search:
            return self._ordered(vertices, self._apart(vertices, ranks, cell[0])[0], search=False)
        tries = [self._apart(vertices, ranks, vertex) for vertex in cell]
        least = min(seen for _, seen in tries)
        images: set[_Certificate] = set()
        best: tuple[_Certificate, list[int]] | None = None
        for tried, seen in tries:
            if seen != least:
                continue
            image = self._certificate(self._ordered(vertices, tried, search=False), ranks)
            if image not in images:
                images.add(image)
                order = self._ordered(vertices, tried)
                certificate = self._certificate(order, ranks)
                if best is None or certificate < best[0]:
                    best = certificate, order
        assert best is not None
        return best[1]

    def _apart(self, vertices: list[int], ranks: _Ranks, vertex: int) -> tuple[_Ranks, list[tuple[int, ...]]]:
        apart = {v: 2 * ranks[v] + 1 for v in vertices}
        apart[vertex] -= 1
        return self._refined(vertices, dict(zip(vertices, _ranks(apart.values()), strict=True)))

    def _refined(self, vertices: list[int], ranks: _Ranks) -> tuple[_Ranks, list[tuple[int, ...]]]:
        """Return the coarsest stable colouring below, and what the vertices of each colour see, which no renaming
        changes.
        """
        count = 0
        around = self.around
        if len(vertices) < len(around):
            inside = set(vertices)
            around = [[pair for pair in self.around[v] if pair[1] in inside] for v in vertices]
        size = len(vertices) + sum(map(len, around))
        while True:
            self._spend(size)
            seen = [
                (ranks[vertex], *sorted([label + ranks[other] for label, other in near]))
                for vertex, near in zip(vertices, around, strict=True)
            ]
            distinct = sorted(set(seen))
            rank_of = {signature: rank for rank, signature in enumerate(distinct)}
            ranks = {vertex: rank_of[signature] for vertex, signature in zip(vertices, seen, strict=True)}
            if len(distinct) == count or len(distinct) == len(vertices):
                return ranks, sorted(seen)
            count = len(distinct)

    def _certificate(self, order: list[int], ranks: _Ranks) -> _Certificate:
        """Return the graph of these vertices alone, in this order; equal ones are isomorphic."""
        self._spend(len(order))
        place = {vertex: index for index, vertex in enumerate(order)}
        return tuple(
            [
                (
                    ranks[vertex],
                    *sorted([label + place[other] for label, other in self.around[vertex] if other in place]),
                )
                for vertex in order
            ]
        )

    def _spend(self, work: int) -> None:
        self.work += work
        if self.work > _MOST_WORK:
            raise UnsupportedFeatureError(
                "XSCL_UNSUPPORTED_SYMMETRY",
                f"the query's {len(self.colours)} joined nodes are joined too symmetrically to be put in order",
                hint="leave out joins that follow from others, or split the query",
            )


def _cells(vertices: list[int], ranks: _Ranks) -> dict[int, list[int]]:
    cells: dict[int, list[int]] = {}
    for vertex in vertices:
        cells.setdefault(ranks[vertex], []).append(vertex)
    return cells


def _depths(parents: Sequence[int]) -> list[int]:
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return depths


def _inverse(order: Sequence[int]) -> _Order:
    found = [0] * len(order)
    for new, old in enumerate(order):
        found[old] = new
    return tuple(found)


def _moved(parents: Sequence[int], joins: _Joins, order: Sequence[int]) -> tuple[tuple[int, ...], _Joins]:
    """Return the parents and joins of the graph with its vertices in that order."""
    place = _inverse(order)
    return (
        tuple([place[parents[old]] if parents[old] >= 0 else -1 for old in order]),
        tuple(sorted([(place[left], place[right], label) for left, right, label in joins])),
    )


def _relabelled(graph: JoinGraph, order: Sequence[int]) -> JoinGraph:
    place = _inverse(order)
    vertices = [graph.vertices[old] for old in order]
    joins = sorted((place[j.left], place[j.right], j.kind, j.fn_l, j.fn_r, j.f, j.add, j.op) for j in graph.joins)
    return JoinGraph(
        tuple([Vertex(v.block, place[v.parent] if v.parent >= 0 else -1, v.definition) for v in vertices]),
        tuple([ValueJoin(*columns) for columns in joins]),
    )


def _ranks(keys: Iterable[_Sortable]) -> list[int]:
    found = list(keys)
    rank = {key: index for index, key in enumerate(sorted(set(found)))}  # type: ignore[type-var]
    return [rank[key] for key in found]
