"""What all live queries ask of stage 2, as data: edges to join, instances to resolve, groups with their windows.

Queries become rows here: distinct value joins become *edges*, each enumerated once however many queries use it, and the
groups of one instance share everything but the final test of their windows.  The program is rebuilt when the set of
groups changes, and shipped to Spark's workers as a file.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from xscl.templates.bounds import Bounds
from xscl.templates.template import Group, Instance

__all__ = [
    "Constraint",
    "Edge",
    "InstancePlan",
    "LiveGroup",
    "Program",
    "build_program",
    "load_program",
    "save_program",
]

EdgeKey = tuple[Literal["EQ", "NE", "ONE"], int, str | None, int, str | None]


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


@dataclass(frozen=True, slots=True)
class Edge:
    """A distinct join of two variables.

    ``EQ`` pairs equal values; with functions None it pairs documents by time alone.  ``NE`` is checked on pairs found
    otherwise.  ``ONE`` is a query of one block: its right side is not used.  ``lo`` and ``hi`` enclose the windows of
    every group that uses the edge; ``checked`` says that some instance needs NE edges on this edge's pairs.
    """

    number: int
    kind: Literal["EQ", "NE", "ONE"]
    lvar: int
    lfn: str | None
    rvar: int
    rfn: str | None
    lo: int
    hi: int
    checked: bool


@dataclass(frozen=True, slots=True)
class Constraint:
    """A binary condition on two nodes of an instance: ``relation`` names the pairs of nodes that satisfy it.

    ``relation`` is (edge number,) for a value join, (block, var1, var2) for rows of R_bin.
    """

    left: int
    right: int
    relation: tuple[int, ...]
    way: Literal["scan", "forward", "backward", "check"]
    """How the resolver uses it: enumerate it, go from left to right, from right to left, or test it."""


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """An instance with the order in which its nodes are bound, and its groups."""

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
class Program:
    """Everything stage 2 knows of the queries."""

    edges: tuple[Edge, ...]
    instances: dict[int, InstancePlan]
    by_edge: dict[int, tuple[int, ...]]
    """Edge number to the instances that are looked for when it is matched: every instance is listed once."""
    checks: dict[int, tuple[int, ...]]
    """Edge number to the NE edges that are to be checked on the pairs it matches."""


def build_program(groups: Iterable[LiveGroup]) -> Program:
    """The program of a set of live groups, in time proportional to their number."""
    by_instance: dict[int, list[LiveGroup]] = defaultdict(list)
    for live in groups:
        by_instance[live.iid].append(live)
    numbers: dict[EdgeKey, int] = {}
    envelopes: dict[int, Bounds] = {}
    checks: dict[int, set[int]] = defaultdict(set)
    plans: dict[int, InstancePlan] = {}
    by_edge: dict[int, list[int]] = defaultdict(list)
    for number, members in sorted(by_instance.items()):
        instance = members[0].group.instance
        envelope = _envelope(members)
        anchors = []
        for _, key in _edges_of(instance):
            edge = numbers.setdefault(key, len(numbers))
            known = envelopes.get(edge)
            envelopes[edge] = Bounds(min(known.lo, envelope.lo), max(known.hi, envelope.hi)) if known else envelope
            if key[0] != "NE":
                anchors.append(edge)
        joins = [(joined, numbers[key]) for joined, key in _edges_of(instance)]
        checks[anchors[0]].update(edge for _, edge in joins if edge not in anchors)
        plans[number] = _plan(number, instance, joins, tuple(members))
        by_edge[anchors[0]].append(number)
    edges = tuple(
        Edge(edge, *key, envelopes[edge].lo, envelopes[edge].hi, bool(checks[edge])) for key, edge in numbers.items()
    )
    return Program(
        edges,
        plans,
        {edge: tuple(found) for edge, found in by_edge.items()},
        {edge: tuple(sorted(found)) for edge, found in checks.items()},
    )


def _envelope(groups: list[LiveGroup]) -> Bounds:
    windows = [bounds for live in groups for bounds, _ in live.group.windows]
    if not windows:
        return Bounds()
    return Bounds(min(b.lo for b in windows), max(b.hi for b in windows))


def _edges_of(instance: Instance) -> list[tuple[tuple[int, int], EdgeKey]]:
    """((left, right) node of the instance, edge) for all its value joins, and one that finds its documents."""
    blocks = [node.block for node in instance.nodes]
    if max(blocks) == 0:
        return [((0, 0), ("ONE", instance.variables[0], None, instance.variables[0], None))]
    found: list[tuple[tuple[int, int], EdgeKey]] = []
    for join in instance.joins:
        kind: Literal["EQ", "NE"] = "EQ" if join.kind == "EQ" else "NE"
        sides = (instance.variables[join.left], join.fn_l, instance.variables[join.right], join.fn_r)
        found.append(((join.left, join.right), (kind, *sides)))
    if not any(key[0] == "EQ" for _, key in found):
        left, right = anchor_places(instance)
        found.append(((left, right), ("EQ", instance.variables[left], None, instance.variables[right], None)))
    # Equal values are found first and everything else is checked on the pairs they leave.
    return sorted(found, key=lambda item: item[1][0] != "EQ")


def anchor_places(instance: Instance) -> tuple[int, int]:
    """The meta-variables by which two blocks without an equality are paired: the last of each block."""
    width = len(instance.variables)
    left = max(place for place in range(width) if instance.nodes[place].block == 0)
    right = max(place for place in range(width) if instance.nodes[place].block == 1)
    return left, right


def _plan(
    number: int,
    instance: Instance,
    joins: list[tuple[tuple[int, int], int]],
    groups: tuple[LiveGroup, ...],
) -> InstancePlan:
    width = len(instance.variables)
    value_joins = [Constraint(left, right, (edge,), "check") for (left, right), edge in joins]
    tree = [
        Constraint(u, w, (instance.nodes[u].block, instance.nodes[u].var, instance.nodes[w].var), "check")
        for u, w in _binding_edges(instance, width)
    ]
    output = [
        Constraint(u, w, (instance.nodes[u].block, instance.nodes[u].var, instance.nodes[w].var), "check")
        for u, w in instance.output_edges
    ]
    needs = frozenset(edge for _, edge in joins)
    return InstancePlan(
        number=number,
        width=width,
        binding=_ordered(value_joins, tree, bound=set()),
        output=_ordered([], output, bound=set(range(width))),
        results=instance.results,
        needs=needs,
        groups=groups,
    )


def _binding_edges(instance: Instance, width: int) -> tuple[tuple[int, int], ...]:
    return tuple((u, w) for u, w in instance.tree_edges if u < width and w < width)


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


def save_program(program: Program, path: Path) -> None:
    """Write a program where workers find it."""
    path.write_bytes(pickle.dumps(program, protocol=5))


@lru_cache(maxsize=2)
def load_program(path: str) -> Program:
    """The program of one version, read once per process."""
    program: Program = pickle.loads(Path(path).read_bytes())
    return program
