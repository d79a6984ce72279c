"""Links: the parts of an instance that speak of two of its blocks.

A query of many blocks is answered pair by pair: what two of its blocks ask of each other is a *link*, found by the same
value joins as a query of two blocks; rows of links are kept, and put together by documents and shared nodes
(``assemble``).  Links are named by what they ask, so queries share them.

The law: a binding of an instance is the natural join of one row of each of its links, on documents and on the nodes
that links of one block share.  The law holds because the nodes of a link in a block are closed upwards:
two links of a block share all common ancestors of what they bind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from xscl.base.values import hash64
from xscl.templates.bounds import Case, pair_index
from xscl.templates.canonical import canonicalize
from xscl.templates.graph import JoinGraph, ValueJoin, Vertex
from xscl.templates.template import Instance

__all__ = ["Link", "anchor", "joins_between", "linked_blocks", "links_of"]


@dataclass(frozen=True, slots=True)
class Link:
    """The part of an instance that speaks of two of its blocks."""

    key: int
    """A digest of everything but ``blocks`` and ``places``: equal links of all queries have one key."""
    blocks: tuple[int, int]
    """The instance's blocks, i < j."""
    places: tuple[int, ...]
    """Places of the link's nodes among the instance's."""
    joins: tuple[ValueJoin, ...]
    """The value joins between the two blocks (``joins_between``), over the instance's places; none if they are linked
    by time alone."""
    anchor: tuple[int, int] | None
    """Places by which the two blocks are paired by time where no values are equal."""
    edges: tuple[tuple[int, int], ...]
    """(upper, lower) places that hang together in a document."""


def linked_blocks(count: int, joined: Collection[tuple[int, int]], case: Case) -> tuple[tuple[int, int], ...]:
    """Return the pairs of blocks to link.

    All blocks that are joined by value are linked, and the closest in time where that leaves blocks apart.

    The pairs depend on the query alone, so that its rows of state do not change when other queries come and go.
    """
    places = pair_index(count)

    def width(pair: tuple[int, int]) -> tuple[int, tuple[int, int]]:
        bounds = case[places[pair]]
        return bounds.hi - bounds.lo, pair

    component = list(range(count))
    found = []
    for pair in [*sorted(joined), *sorted(combinations(range(count), 2), key=width)]:
        first, second = (component[block] for block in pair)
        if pair in joined or first != second:
            found.append(pair)
            component = [first if c == second else c for c in component]
    return tuple(sorted(set(found)))


def anchor(instance: Instance, blocks: tuple[int, int]) -> tuple[int, int] | None:
    """Return the places by which two blocks are paired where no values are equal; None where some are.

    The places depend on the two blocks alone, not on the rest of the instance.
    """
    joins = joins_between(instance, blocks)
    if any(join.kind == "EQ" for join in joins):
        return None
    parents = _parents(instance)
    if joins:
        places, graph = _canonical(instance, blocks, _with_ancestors(parents, _ends(joins)), parents)
        return places[graph.joins[0].left], places[graph.joins[0].right]
    left, right = (_first_leaf(instance, parents, block) for block in blocks)
    return left, right


def _first_leaf(instance: Instance, parents: Sequence[int], block: int) -> int:
    """Return a joined node of a block, or its only one: the first by the variables on the way to it."""
    width = len(instance.variables)
    inner = {parents[place] for place in range(width)}

    def way(place: int) -> list[int]:
        return [instance.nodes[node].var for node in _upwards(parents, place)]

    return min((p for p in range(width) if instance.nodes[p].block == block and p not in inner), key=way)


def joins_between(instance: Instance, blocks: tuple[int, int]) -> tuple[ValueJoin, ...]:
    """Return what two blocks ask of each other's values.

    Where that is no equality, those that follow from equalities with other blocks are added (a = b and b = c: a = c):
    so the same story in three feeds is looked for among equal titles, not among all items that are of different feeds.
    """
    joins = tuple(
        join for join in instance.joins if (instance.nodes[join.left].block, instance.nodes[join.right].block) == blocks
    )
    if not joins or any(join.kind == "EQ" for join in joins):
        return joins
    return (*joins, *_implied(instance, blocks))


def _implied(instance: Instance, blocks: tuple[int, int]) -> Iterator[ValueJoin]:
    """Iterate over an equality for each value that both blocks have by way of other blocks."""
    same: dict[tuple[int, str], set[tuple[int, str]]] = {}
    for join in instance.joins:
        if join.kind == "EQ":
            ends = (join.left, join.fn_l), (join.right, join.fn_r)
            met = set(ends).union(*(same.get(end, ()) for end in ends))
            same |= dict.fromkeys(met, met)
    for group in sorted({tuple(sorted(group)) for group in same.values()}):
        left, right = ([end for end in group if instance.nodes[end[0]].block == block] for block in blocks)
        if left and right:
            yield ValueJoin(left[0][0], right[0][0], "EQ", left[0][1], right[0][1])


def _ends(joins: Sequence[ValueJoin]) -> set[int]:
    return {end for join in joins for end in (join.left, join.right)}


def links_of(instance: Instance, pairs: Sequence[tuple[int, int]] | None = None) -> tuple[Link, ...]:
    """Return the links between some pairs of blocks, all that the instance links if not told; they bind all its nodes.

    Nodes on the way to a joined node are in every link that reaches them; output nodes that hang off those ways are in
    the first link that reaches where they hang.
    """
    parents = _parents(instance)
    reached: list[set[int]] = []
    pairs = instance.links if pairs is None else pairs
    for blocks in pairs:
        ends = _ends(joins_between(instance, blocks))
        reached.append(_with_ancestors(parents, ends | set(anchor(instance, blocks) or ())))
    bound = set().union(*reached)
    # Parents come before children here, so what hangs under a hanging node finds it in its link.
    for place in _parents_first(parents, range(len(parents))):
        if place not in bound:
            next(nodes for nodes in reached if parents[place] in nodes).add(place)
            bound.add(place)
    return tuple(_link(instance, blocks, nodes, parents) for blocks, nodes in zip(pairs, reached, strict=True))


def _parents(instance: Instance) -> list[int]:
    """Return the node above each node in the output pattern of its block, else in its reduced pattern."""
    with_output = {instance.nodes[lower].block for _, lower in instance.output_edges}
    parents = [-1] * len(instance.nodes)
    for upper, lower in (*instance.tree_edges, *instance.output_edges):
        if instance.nodes[lower].block not in with_output or (upper, lower) in instance.output_edges:
            parents[lower] = upper
    return parents


def _upwards(parents: Sequence[int], node: int) -> Iterator[int]:
    """Iterate over a node and all above it."""
    while node >= 0:
        yield node
        node = parents[node]


def _with_ancestors(parents: Sequence[int], nodes: set[int]) -> set[int]:
    return {above for node in nodes for above in _upwards(parents, node)}


def _parents_first(parents: Sequence[int], nodes: Iterable[int]) -> list[int]:
    return sorted(nodes, key=lambda node: (len(list(_upwards(parents, node))), node))


def _canonical(
    instance: Instance, blocks: tuple[int, int], nodes: set[int], parents: Sequence[int]
) -> tuple[list[int], JoinGraph]:
    """Return the places of some nodes of two blocks, and the graph that they are, in its own canonical order.

    The order within the instance would not do: it depends on what other blocks ask, and that may be compiled again
    when their columns become known, while rows of this link are kept.
    """
    places = _parents_first(parents, nodes)
    local = {place: number for number, place in enumerate(places)}
    vertices = tuple(
        Vertex(blocks.index(instance.nodes[p].block), local.get(parents[p], -1), str(instance.nodes[p].var))
        for p in places
    )
    joins = tuple(
        replace(join, left=local[join.left], right=local[join.right]) for join in joins_between(instance, blocks)
    )
    canonical = canonicalize(JoinGraph(vertices, joins))
    return [places[old] for old in canonical.order], canonical.graph


def _link(instance: Instance, blocks: tuple[int, int], nodes: set[int], parents: Sequence[int]) -> Link:
    places, graph = _canonical(instance, blocks, nodes, parents)
    by_time = anchor(instance, blocks)
    key = hash64(
        repr(
            (
                [(vertex.block, vertex.parent, vertex.definition) for vertex in graph.vertices],
                [(j.left, j.right, j.kind, j.fn_l, j.fn_r, str(j.f), str(j.add), j.op) for j in graph.joins],
                by_time and tuple(map(places.index, by_time)),
            )
        )
    )
    edges = tuple((parents[place], place) for place in places if parents[place] >= 0)
    return Link(key, blocks, tuple(places), joins_between(instance, blocks), by_time, edges)
