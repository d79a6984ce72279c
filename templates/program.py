"""What all live queries ask of stage 2, as data: edges to join, instances to resolve, groups with their windows.

Queries become rows here: distinct value joins become *edges*, each enumerated once however many queries use it, and the
groups of one instance share everything but the final test of their windows.  Instances of many blocks are cut into
links (``links``), which are resolved like instances of two blocks and then put together (``assemble``).  The program is
rebuilt when the set of groups changes, and shipped to Spark's workers as a file.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import Literal

from xscl.templates.bounds import Bounds, Case, pair_index
from xscl.templates.graph import ValueJoin
from xscl.templates.links import Link, anchor, links_of
from xscl.templates.template import Group, Instance

__all__ = [
    "Assembly",
    "Constraint",
    "Edge",
    "InstancePlan",
    "LinkPlan",
    "LinkStep",
    "LiveGroup",
    "Program",
    "build_program",
    "load_program",
    "save_program",
]


@dataclass(frozen=True, slots=True)
class EdgeKey:
    """What makes a join of two variables distinct.

    ``EQ`` pairs equal values; with functions None it pairs documents by time alone.  ``NE`` and ``BAND`` (``left op
    f * right + add``) are checked on pairs found otherwise.  ``ONE`` is a query of one block: its right side is not
    used.
    """

    kind: Literal["EQ", "NE", "BAND", "ONE"]
    lvar: int
    lfn: str | None
    rvar: int
    rfn: str | None
    op: str = "="
    f: Fraction = Fraction(1)
    add: Fraction = Fraction(0)

    @property
    def finds(self) -> bool:
        """Whether it finds pairs, rather than being checked on them."""
        return self.kind in ("EQ", "ONE")


@dataclass(frozen=True, slots=True)
class Edge:
    """A distinct join of two variables and its number in the program.

    ``lo`` and ``hi`` enclose the windows of every group that uses it; ``checked`` says that some instance needs others
    checked on this edge's pairs.
    """

    number: int
    key: EdgeKey
    lo: int
    hi: int
    checked: bool


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group with a subscriber, and the span of the intake order that its subscribers see."""

    gid: int
    iid: int
    """The number of its instance; equal instances have one number."""
    group: Group
    first: int
    """The least docid that a subscriber sees."""
    last: int
    """The greatest docid that a subscriber sees."""
    channels: tuple[str, ...] = ()
    """The channel of each block."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A binary condition on two nodes of a pair: ``relation`` names the pairs of nodes that satisfy it.

    ``relation`` is (edge number,) for a value join, (side, var1, var2) for rows of R_bin of the left (0) or right (1)
    document.
    """

    left: int
    right: int
    relation: tuple[int, ...]
    way: Literal["scan", "forward", "backward", "check"]
    """How the resolver uses it: enumerate it, go from left to right, from right to left, or test it."""


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """An instance of one or two blocks, the order in which its nodes are bound, and its groups."""

    number: int
    width: int
    """Number of meta-variables."""
    binding: tuple[Constraint, ...]
    """Binds the meta-variables: a row of R_out."""
    output: tuple[Constraint, ...]
    """Extends a row of R_out to the output variables."""
    results: tuple[int, ...]
    needs: frozenset[int]
    """Edges that must all be matched."""
    groups: tuple[LiveGroup, ...]


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """A link and the order in which its nodes are bound; ``bounds`` enclose the windows of all that use it."""

    key: int
    width: int
    binding: tuple[Constraint, ...]
    needs: frozenset[int]
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class LinkStep:
    """One link more for what is bound: ``known`` (0 or 1) is the side of the link whose document is bound already."""

    use: int
    known: int


@dataclass(frozen=True, slots=True)
class Assembly:
    """An instance of three or more blocks: how rows of its links are put together, and its groups.

    Cases that link different blocks have assemblies of their own.
    """

    number: int
    instance: int
    pairs: tuple[tuple[int, int], ...]
    """The blocks that are linked."""
    blocks: int
    nodes: int
    """Number of its nodes, output variables included."""
    width: int
    """Number of meta-variables, which come first."""
    links: tuple[Link, ...]
    steps: tuple[tuple[LinkStep, ...], ...]
    """``steps[m]`` is the order in which the others follow link m."""
    bounds: Case
    """Enclose the cases of all groups that link these blocks."""
    results: tuple[int, ...]
    groups: tuple[LiveGroup, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Everything stage 2 knows of the queries."""

    edges: dict[int, Edge]
    """By number."""
    instances: dict[int, InstancePlan]
    links: dict[int, LinkPlan]
    assemblies: dict[int, Assembly]
    by_edge: dict[int, tuple[InstancePlan | LinkPlan, ...]]
    """Edge number to what is looked for when it is matched: everything is listed once."""
    checks: dict[int, tuple[int, ...]]
    """Edge number to the NE and BAND edges that are to be checked on the pairs it matches."""
    starts: dict[int, tuple[tuple[int, int], ...]]
    """Link key to the (assembly, place among its links) that a new row of it may be part of."""

    @property
    def rounds(self) -> int:
        """How often a row of a link is joined with others: one less than the most links of an instance."""
        return max((len(assembly.links) - 1 for assembly in self.assemblies.values()), default=0)


@dataclass(slots=True)
class _Edges:
    """The distinct edges, as they are met."""

    numbers: dict[EdgeKey, int] = field(default_factory=dict)
    envelopes: dict[int, Bounds] = field(default_factory=dict)
    checks: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def add(self, keys: Sequence[EdgeKey], envelope: Bounds) -> list[int]:
        """The numbers of the edges of one plan; the first finds pairs, and the others that do not are checked on
        them.
        """
        found = []
        for key in keys:
            number = self.numbers.setdefault(key, len(self.numbers))
            known = self.envelopes.get(number)
            self.envelopes[number] = known | envelope if known else envelope
            found.append(number)
        self.checks[found[0]].update(n for n, key in zip(found, keys, strict=True) if not key.finds)
        return found

    def edges(self) -> dict[int, Edge]:
        return {
            number: Edge(number, key, self.envelopes[number].lo, self.envelopes[number].hi, bool(self.checks[number]))
            for key, number in self.numbers.items()
        }


def build_program(groups: Iterable[LiveGroup]) -> Program:
    """The program of a set of live groups, in time proportional to their number."""
    by_instance: dict[int, list[LiveGroup]] = defaultdict(list)
    for live in groups:
        by_instance[live.iid].append(live)
    edges = _Edges()
    instances: dict[int, InstancePlan] = {}
    links: dict[int, LinkPlan] = {}
    assemblies: dict[int, Assembly] = {}
    starts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    by_edge: dict[int, list[InstancePlan | LinkPlan]] = defaultdict(list)
    first_edge: dict[int, int] = {}
    for number, members in sorted(by_instance.items()):
        instance = members[0].group.instance
        blocks = max(node.block for node in instance.nodes) + 1
        if blocks <= 2:
            cases = [case for live in members for case in live.group.cases]
            plan, anchor_edge = _instance_plan(number, instance, _envelope(cases), edges, tuple(members))
            instances[number] = plan
            by_edge[anchor_edge].append(plan)
            continue
        for assembly in _assemblies(number, instance, blocks, members, len(assemblies)):
            assemblies[assembly.number] = assembly
            index = pair_index(blocks)
            for place, link in enumerate(assembly.links):
                starts[link.key].append((assembly.number, place))
                bounds = assembly.bounds[index[link.blocks]]
                plan_of_link, first_edge[link.key] = _link_plan(instance, link, bounds, edges)
                known = links.get(link.key)
                # Equal links have equal plans, but for what encloses the windows of their users.
                links[link.key] = replace(plan_of_link, bounds=known.bounds | bounds) if known else plan_of_link
    for key, plan_of_link in links.items():
        by_edge[first_edge[key]].append(plan_of_link)
    return Program(
        edges.edges(),
        instances,
        links,
        assemblies,
        {edge: tuple(found) for edge, found in by_edge.items()},
        {edge: tuple(sorted(found)) for edge, found in edges.checks.items()},
        {key: tuple(found) for key, found in starts.items()},
    )


def _envelope(cases: Iterable[Case]) -> Case:
    return tuple(reduce(or_, parts) for parts in zip(*cases, strict=True))


# -- one or two blocks -----------------------------------------------------------------------------------------


def _instance_plan(
    number: int, instance: Instance, envelope: Case, edges: _Edges, groups: tuple[LiveGroup, ...]
) -> tuple[InstancePlan, int]:
    """The plan, and the edge by which its pairs are found."""
    width = len(instance.variables)
    found = _edges_between(instance, (0, 1)) if envelope else _edge_of_one(instance)
    numbers = edges.add([key for _, key in found], envelope[0] if envelope else Bounds())
    joins = [Constraint(*ends, (edge,), "check") for (ends, _), edge in zip(found, numbers, strict=True)]
    tree = [_structural(instance, edge, instance.nodes[edge[0]].block) for edge in instance.tree_edges]
    output = [_structural(instance, edge, instance.nodes[edge[0]].block) for edge in instance.output_edges]
    plan = InstancePlan(
        number=number,
        width=width,
        binding=_ordered(joins, tree, bound=set()),
        output=_ordered([], output, bound=set(range(width))),
        results=instance.results,
        needs=frozenset(numbers),
        groups=groups,
    )
    return plan, numbers[0]


def _edge_of_one(instance: Instance) -> list[tuple[tuple[int, int], EdgeKey]]:
    return [((0, 0), EdgeKey("ONE", instance.variables[0], None, instance.variables[0], None))]


def _edges_between(instance: Instance, blocks: tuple[int, int]) -> list[tuple[tuple[int, int], EdgeKey]]:
    """((left, right) node of the instance, edge) of two of its blocks, those that find pairs first."""
    nodes = instance.nodes
    joins = [j for j in instance.joins if (nodes[j.left].block, nodes[j.right].block) == blocks]
    found = [((j.left, j.right), _edge_key(instance, j)) for j in joins]
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


# -- many blocks -----------------------------------------------------------------------------------------------


def _link_plan(instance: Instance, link: Link, bounds: Bounds, edges: _Edges) -> tuple[LinkPlan, int]:
    """The plan over the link's own places, and the edge by which its pairs are found."""
    found = _edges_between(instance, link.blocks)
    numbers = edges.add([key for _, key in found], bounds)
    joins = [Constraint(*ends, (edge,), "check") for (ends, _), edge in zip(found, numbers, strict=True)]
    tree = [_structural(instance, edge, link.blocks.index(instance.nodes[edge[0]].block)) for edge in link.edges]
    local = {place: number for number, place in enumerate(link.places)}
    binding = tuple(
        Constraint(local[c.left], local[c.right], c.relation, c.way) for c in _ordered(joins, tree, bound=set())
    )
    return LinkPlan(link.key, len(link.places), binding, frozenset(numbers), bounds), numbers[0]


def _assemblies(
    iid: int, instance: Instance, blocks: int, groups: Iterable[LiveGroup], first: int
) -> Iterator[Assembly]:
    """The assemblies of an instance, numbered from ``first``: one for each way in which cases link its blocks."""
    cases: dict[tuple[tuple[int, int], ...], list[Case]] = defaultdict(list)
    users: dict[tuple[tuple[int, int], ...], dict[int, LiveGroup]] = defaultdict(dict)
    for live in groups:
        for case, pairs in zip(live.group.cases, live.group.links, strict=True):
            cases[pairs].append(case)
            users[pairs][live.gid] = live
    for number, pairs in enumerate(sorted(cases), start=first):
        links = links_of(instance, pairs)
        yield Assembly(
            number=number,
            instance=iid,
            pairs=pairs,
            blocks=blocks,
            nodes=len(instance.nodes),
            width=len(instance.variables),
            links=links,
            steps=tuple(_steps(links, start) for start in range(len(links))),
            bounds=_envelope(cases[pairs]),
            results=instance.results,
            groups=tuple(users[pairs].values()),
        )


def _steps(links: tuple[Link, ...], start: int) -> tuple[LinkStep, ...]:
    """Links that only test come first, then those by value, then those by time."""
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


# -- order of binding ------------------------------------------------------------------------------------------


def _ordered(joins: list[Constraint], tree: list[Constraint], *, bound: set[int]) -> tuple[Constraint, ...]:
    """An order in which every constraint but the first starts from something bound.

    Tests come first, then steps to an ancestor (at most a few nodes), then steps down, then value joins.
    """
    left = [*tree, *joins]
    if joins and not bound:
        first = joins[0]
        left.remove(first)
        ordered = [Constraint(first.left, first.right, first.relation, "scan")]
        bound = {first.left, first.right}
    else:
        ordered = []

    def cost(constraint: Constraint) -> tuple[int, int]:
        known_l, known_r = constraint.left in bound, constraint.right in bound
        is_tree = len(constraint.relation) == 3
        if known_l and known_r:
            return 0, not is_tree
        if known_r:
            return (1 if is_tree else 3), 0
        return (2 if is_tree else 3) if known_l else 9, 0

    while left:
        constraint = min(left, key=cost)
        left.remove(constraint)
        known_l, known_r = constraint.left in bound, constraint.right in bound
        way: Literal["forward", "backward", "check"] = (
            "check" if known_l and known_r else "forward" if known_l else "backward"
        )
        ordered.append(Constraint(constraint.left, constraint.right, constraint.relation, way))
        bound |= {constraint.left, constraint.right}
    return tuple(ordered)


# -- files -----------------------------------------------------------------------------------------------------


def save_program(program: Program, path: Path) -> None:
    """Write a program where workers find it, whole or not at all."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(pickle.dumps(program, protocol=5))
    unfinished.replace(path)


@lru_cache(maxsize=2)
def load_program(path: str) -> Program:
    """The program of one version, read once per process."""
    program: Program = pickle.loads(Path(path).read_bytes())
    return program
