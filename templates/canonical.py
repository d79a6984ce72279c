"""A canonical labelling of join graphs: isomorphic graphs, sides distinguished, get the same certificate.

Colour refinement with individualisation: vertices are coloured by what they are, colours are refined by the colours
around them until nothing changes, and where a colour is still shared each of its vertices is tried in turn.  The least
certificate over all tries is the canonical one.  A try whose first complete labelling has the certificate of a
sibling's is that sibling's image under an automorphism and is not followed further, which keeps k equal parallel joins
at about k*k/2 tries instead of k factorial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xscl.templates.graph import JoinGraph, ValueJoin, Vertex

__all__ = ["Canonical", "canonicalize"]

Certificate = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Canonical:
    """``certificate`` identifies the template; ``graph`` is the input with vertices and joins in canonical order."""

    certificate: str
    graph: JoinGraph
    order: tuple[int, ...]
    """``order[i]`` is the input's index of canonical vertex i."""


def canonicalize(graph: JoinGraph) -> Canonical:
    """The canonical form of a join graph.

    The certificate depends on shape alone: blocks, tree edges, joins and their kinds.  Which of several equivalent
    labellings is taken is settled by the definitions and the joins' columns, so that the result depends neither on
    variable names nor on the order in which anything was written.
    """
    # First by content: equal queries come to one vertex order, whatever order they were written in.
    by_content = _Labelling(
        [(v.block, _depth(graph.vertices, i), v.definition) for i, v in enumerate(graph.vertices)],
        _neighbours(graph, content=True),
    ).order()
    sorted_graph = _relabelled(graph, by_content)
    # Then by shape: ties fall to the order just made.
    by_shape = _Labelling(
        [(v.block, _depth(sorted_graph.vertices, i)) for i, v in enumerate(sorted_graph.vertices)],
        _neighbours(sorted_graph, content=False),
    ).order()
    final = _relabelled(sorted_graph, by_shape)
    certificate = ";".join(
        [",".join(f"{v.block}.{v.parent}" for v in final.vertices)]
        + [f"{join.left}-{join.right}:{join.kind}" for join in final.joins]
    )
    return Canonical(certificate, final, tuple(by_content[i] for i in by_shape))


def _depth(vertices: Sequence[Vertex], index: int) -> int:
    depth = 0
    while vertices[index].parent >= 0:
        index = vertices[index].parent
        depth += 1
    return depth


def _neighbours(graph: JoinGraph, *, content: bool) -> list[list[tuple[tuple[object, ...], int]]]:
    found: list[list[tuple[tuple[object, ...], int]]] = [[] for _ in graph.vertices]
    for index, vertex in enumerate(graph.vertices):
        if vertex.parent >= 0:
            found[index].append((("up",), vertex.parent))
            found[vertex.parent].append((("down",), index))
    for join in graph.joins:
        columns = (join.fn_l, join.fn_r, join.f, join.add, join.op) if content else ()
        found[join.left].append((("join", join.kind, *columns), join.right))
        found[join.right].append((("joined", join.kind, *columns), join.left))
    return found


def _relabelled(graph: JoinGraph, order: Sequence[int]) -> JoinGraph:
    place = {old: new for new, old in enumerate(order)}
    vertices = tuple(
        Vertex(
            graph.vertices[old].block,
            place.get(graph.vertices[old].parent, -1),
            graph.vertices[old].definition,
        )
        for old in order
    )
    joins = sorted(
        (ValueJoin(place[j.left], place[j.right], j.kind, j.fn_l, j.fn_r, j.f, j.add, j.op) for j in graph.joins),
        key=lambda j: (j.left, j.right, j.kind, j.fn_l, j.fn_r, j.f, j.add, j.op),
    )
    return JoinGraph(vertices, tuple(joins))


class _Labelling:
    """The search for the least certificate of one coloured graph."""

    def __init__(
        self,
        colours: Sequence[tuple[object, ...]],
        neighbours: list[list[tuple[tuple[object, ...], int]]],
    ) -> None:
        self.neighbours = neighbours
        self.colours = colours
        self.best: tuple[Certificate, tuple[int, ...]] | None = None

    def order(self) -> tuple[int, ...]:
        self._search(self._refine(_ranks(self.colours)))
        assert self.best is not None
        return self.best[1]

    def _search(self, ranks: list[int]) -> Certificate:
        """Explore below a refined colouring; the certificate of the first complete labelling met."""
        cell = _first_shared(ranks)
        if not cell:
            order = tuple(sorted(range(len(ranks)), key=ranks.__getitem__))
            certificate = self._certificate(order)
            if self.best is None or certificate < self.best[0]:
                self.best = certificate, order
            return certificate
        first: Certificate | None = None
        seen: set[Certificate] = set()
        for vertex in cell:
            tried = self._refine(_individualised(ranks, vertex))
            if first is not None and self._leftmost(tried) in seen:
                continue
            found = self._search(tried)
            seen.add(found)
            first = first or found
        assert first is not None
        return first

    def _leftmost(self, ranks: list[int]) -> Certificate:
        while cell := _first_shared(ranks):
            ranks = self._refine(_individualised(ranks, cell[0]))
        return self._certificate(tuple(sorted(range(len(ranks)), key=ranks.__getitem__)))

    def _refine(self, ranks: list[int]) -> list[int]:
        while True:
            signatures = [
                (rank, tuple(sorted((label, ranks[other]) for label, other in around)))
                for rank, around in zip(ranks, self.neighbours, strict=True)
            ]
            refined = _ranks(signatures)
            if refined == ranks:
                return ranks
            ranks = refined

    def _certificate(self, order: tuple[int, ...]) -> Certificate:
        place = {vertex: index for index, vertex in enumerate(order)}
        return tuple(
            (
                self.colours[vertex],
                tuple(sorted((label, place[other]) for label, other in self.neighbours[vertex])),
            )
            for vertex in order
        )


def _ranks(keys: Sequence[tuple[object, ...]]) -> list[int]:
    rank = {key: index for index, key in enumerate(sorted(set(keys)))}
    return [rank[key] for key in keys]


def _first_shared(ranks: list[int]) -> list[int]:
    seen: dict[int, list[int]] = {}
    for vertex, rank in enumerate(ranks):
        seen.setdefault(rank, []).append(vertex)
    return next((cell for _, cell in sorted(seen.items()) if len(cell) > 1), [])


def _individualised(ranks: list[int], vertex: int) -> list[int]:
    return [2 * rank + (0 if v == vertex else 1) for v, rank in enumerate(ranks)]
