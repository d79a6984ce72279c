"""Plans from groups: the edges that an instance or a link needs, and the order in which its nodes are bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

from xscl.base.values import hash64
from xscl.templates.bounds import Bounds, Case
from xscl.templates.graph import ValueJoin
from xscl.templates.links import Link, anchor, joins_between, links_of
from xscl.templates.plans import Assembly, Constraint, EdgeKey, InstancePlan, LinkPlan, LinkStep, LiveGroup
from xscl.templates.template import Group, Instance

__all__ = ["assembly_of", "edge_of_one", "edges_between", "instance_plan", "link_plan", "shared", "ordered"]

_SHARED = 1 << 16
"""Number of parts of groups and plans that are shared as one object each."""


T = TypeVar("T")


@lru_cache(maxsize=_SHARED)
def shared(value: T) -> T:
    """Return one object for equal values: a hundred thousand groups consist of the same few thousand parts."""
    return value


_Ends = tuple[tuple[int, int], EdgeKey]
"""An edge of a plan and the nodes it joins, as places of the instance."""
_Way = Literal["scan", "forward", "backward", "check"]


def instance_plan(
    number: int,
    instance: Instance,
    found: Sequence[_Ends],
    numbers: Sequence[int],
    groups: dict[int, LiveGroup],
) -> InstancePlan:
    """Return the plan of an instance whose edges, with their ends, have these numbers."""
    ends = tuple([(ends, _is_valued(key)) for ends, key in found])
    shape = _shape(len(instance.variables), ends, instance.tree_edges, instance.output_edges, instance.results)
    tree = _structure(instance, instance.tree_edges) + [(*found[at][0], (numbers[at],)) for at in shape.joins]
    output = _structure(instance, instance.output_edges)
    return InstancePlan(
        number=number,
        width=len(instance.variables),
        binding=tuple([Constraint(*tree[at], way) for at, way in shape.binding]),
        output=tuple([Constraint(*output[at], way) for at, way in shape.output]),
        results=instance.results,
        found_by=numbers[0],
        needs=frozenset(numbers),
        inner=shape.inner,
        specs=frozenset([(block, digest) for each in groups.values() for block, _, digest in each.group.specs]),
        groups=groups,
    )


_Related = tuple[int, int, tuple[int, ...]]
"""Two nodes and their relation, as in ``Constraint``."""


def _structure(instance: Instance, edges: Iterable[tuple[int, int]]) -> list[_Related]:
    nodes = instance.nodes
    return [(upper, lower, (nodes[upper].block, nodes[upper].var, nodes[lower].var)) for upper, lower in edges]


class _Shape(NamedTuple):
    """All of a plan that does not depend on its variables."""

    joins: tuple[int, ...]
    """Places of the edges that say something of nodes."""
    binding: tuple[tuple[int, _Way], ...]
    """Order of tree edges and these, as their places."""
    output: tuple[tuple[int, _Way], ...]
    inner: frozenset[int]


@lru_cache(maxsize=_SHARED)
def _shape(
    width: int,
    found: tuple[tuple[tuple[int, int], bool], ...],
    tree: tuple[tuple[int, int], ...],
    output: tuple[tuple[int, int], ...],
    results: tuple[int, ...],
) -> _Shape:
    """Return the shape of plans whose edges have these ends, each with whether it says something of values."""
    joins = _saying(found)
    ends = [found[place][0] for place in joins]
    return _Shape(
        joins,
        _order((*tree, *ends), len(tree), frozenset()),
        _order(output, len(output), frozenset(range(width))),
        _inner(width, ends, (*tree, *output), results),
    )


def _is_valued(key: EdgeKey) -> bool:
    return key.kind == "ONE" or key.lfn is not None


def _saying(found: Sequence[tuple[tuple[int, int], bool]]) -> tuple[int, ...]:
    """Return the places of the edges of a plan that say something of nodes.

    Where two blocks are paired by time and the same nodes' values are compared, the edge by time only finds the pairs.
    """
    valued = {ends for ends, is_valued in found if is_valued}
    return tuple(place for place, (ends, is_valued) in enumerate(found) if is_valued or ends not in valued)


def _joined(found: Sequence[_Ends], numbers: Sequence[int]) -> list[Constraint]:
    """Return a constraint for each edge of a plan that says something of nodes."""
    places = _saying([(ends, _is_valued(key)) for ends, key in found])
    return [Constraint(*found[place][0], (numbers[place],), "check") for place in places]


def _inner(
    width: int,
    joins: Iterable[tuple[int, int]],
    structure: Iterable[tuple[int, int]],
    results: Sequence[int],
) -> frozenset[int]:
    """Return the places of nodes that stand in one value join only, are no result and above nothing."""
    ends = Counter(end for join in joins for end in join)
    above = {upper for upper, _ in structure}
    return frozenset(place for place in range(width) if ends[place] == 1 and place not in {*above, *results})


def edge_of_one(instance: Instance) -> list[_Ends]:
    """Return the edge of an instance of one block."""
    return [((0, 0), EdgeKey("ONE", instance.variables[0], None, instance.variables[0], None))]


def edges_between(instance: Instance, blocks: tuple[int, int]) -> list[_Ends]:
    """Return ((left, right) node of the instance, edge) of two of its blocks, those that find pairs first."""
    found = [((j.left, j.right), _edge_key(instance, j)) for j in joins_between(instance, blocks)]
    by_time = anchor(instance, blocks)
    if by_time is not None:
        left, right = (instance.variables[place] for place in by_time)
        found.append((by_time, EdgeKey("EQ", left, None, right, None)))
    return sorted(found, key=lambda item: not item[1].finds)


def _edge_key(instance: Instance, join: ValueJoin) -> EdgeKey:
    left, right = instance.variables[join.left], instance.variables[join.right]
    return EdgeKey(join.kind, left, join.fn_l, right, join.fn_r, join.op, join.f, join.add)


def _structural(instance: Instance, edge: tuple[int, int], side: int) -> Constraint:
    upper, lower = edge
    return Constraint(upper, lower, (side, instance.nodes[upper].var, instance.nodes[lower].var), "check")


def link_plan(group: Group, link: Link, found: Sequence[_Ends], numbers: Sequence[int], bounds: Bounds) -> LinkPlan:
    """Return the plan, over the link's own places, of a link whose edges, with their ends, have these numbers."""
    instance = group.instance
    joins = _joined(found, numbers)
    tree = [_structural(instance, edge, link.blocks.index(instance.nodes[edge[0]].block)) for edge in link.edges]
    local = {place: number for number, place in enumerate(link.places)}
    binding = tuple(
        shared(Constraint(local[c.left], local[c.right], c.relation, c.way)) for c in ordered(joins, tree, bound=set())
    )
    specs = _link_specs(instance, link, group)
    return LinkPlan(link.key, len(link.places), binding, numbers[0], frozenset(numbers), bounds, specs)


def _link_specs(instance: Instance, link: Link, group: Group) -> frozenset[tuple[int, int]]:
    """Return (side, digest) of each thing that stage 1 is asked for nodes of a link."""
    nodes = {(instance.nodes[place].block, instance.nodes[place].var) for place in link.places}
    return frozenset(
        (link.blocks.index(block), digest) for block, variable, digest in group.specs if (block, variable) in nodes
    )


def _told_apart(instance: Instance, link: Link, group: Group) -> Link:
    """Return a link with a key that says what stage 1 is asked for it: who is refused a document has no rows of it."""
    specs = sorted(_link_specs(instance, link, group))
    return replace(link, key=hash64(repr((link.key, specs)))) if specs else link


def assembly_of(
    number: int,
    live: LiveGroup,
    pairs: tuple[tuple[int, int], ...],
    bounds: Case,
    crossings: frozenset[tuple[int, int]],
) -> Assembly:
    """Tell how rows of links between these pairs of blocks are put together; of the group's instance."""
    instance = live.group.instance
    links = tuple(_told_apart(instance, link, live.group) for link in links_of(instance, pairs))
    return Assembly(
        number=number,
        instance=live.iid,
        pairs=pairs,
        blocks=max(node.block for node in instance.nodes) + 1,
        nodes=len(instance.nodes),
        width=len(instance.variables),
        links=links,
        steps=tuple(_steps(links, start) for start in range(len(links))),
        bounds=bounds,
        crossings=crossings,
        results=instance.results,
        groups={live.gid: live},
    )


def _steps(links: tuple[Link, ...], start: int) -> tuple[LinkStep, ...]:
    """Order the other links of an instance behind a first one: those that only test, then those by value, then those by
    time.
    """
    bound = set(links[start].blocks)
    waiting = [place for place in range(len(links)) if place != start]
    found = []

    def cost(place: int) -> tuple[bool, bool, bool, int]:
        known = bound & set(links[place].blocks)
        return not known, len(known) == 1, links[place].anchor is not None, place

    while waiting:
        place = min(waiting, key=cost)
        waiting.remove(place)
        found.append(LinkStep(place, 0 if links[place].blocks[0] in bound else 1))
        bound |= set(links[place].blocks)
    return tuple(found)


def ordered(joins: list[Constraint], tree: list[Constraint], *, bound: set[int]) -> tuple[Constraint, ...]:
    """Return an order in which every constraint but the first starts from something bound.

    Tests come first, then steps to an ancestor (at most a few nodes), then steps down, then value joins.
    """
    parts = [*tree, *joins]
    order = _order(tuple([(part.left, part.right) for part in parts]), len(tree), frozenset(bound))
    return tuple([Constraint(parts[at].left, parts[at].right, parts[at].relation, way) for at, way in order])


@lru_cache(maxsize=_SHARED)
def _order(ends: tuple[tuple[int, int], ...], trees: int, known: frozenset[int]) -> tuple[tuple[int, _Way], ...]:
    """Return the order of constraints with these ends, as their places; those of trees come first, joins follow."""
    waiting, bound = list(range(len(ends))), set(known)
    found: list[tuple[int, _Way]] = []
    if len(ends) > trees and not bound:
        waiting.remove(trees)
        found.append((trees, "scan"))
        bound |= {*ends[trees]}

    def cost(place: int) -> tuple[int, int]:
        known_l, known_r = (end in bound for end in ends[place])
        is_tree = place < trees
        if known_l and known_r:
            return 0, not is_tree
        if known_r:
            return (1 if is_tree else 3), 0
        return (2 if is_tree else 3) if known_l else 9, 0

    while waiting:
        place = min(waiting, key=cost)
        waiting.remove(place)
        known_l, known_r = (end in bound for end in ends[place])
        found.append((place, "check" if known_l and known_r else "forward" if known_l else "backward"))
        bound |= {*ends[place]}
    return tuple(found)
