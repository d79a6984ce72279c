"""Blocks of a query, reduced to what joins and results need, and their guards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xscl.base.errors import UnsupportedFeatureError
from xscl.language.guards import Lifted
from xscl.templates.guards import Guard
from xscl.templates.reduce import Minor
from xscl.xpath.automaton.automaton import WitnessSpec
from xscl.xpath.pattern import Definition, Step

__all__ = ["BlockPlan", "check_size", "edges_around", "guards_and_facts", "path_to", "with_ancestors"]

_Pairs = tuple[tuple[Definition, Definition], ...]
_MAX_CHARACTERS = 2_000_000
"""Characters of all definitions of a query."""


@dataclass(slots=True)
class BlockPlan:
    """One block, reduced."""

    channel: str
    joined: set[int]
    minor: Minor
    output: Minor
    definitions: dict[int, Definition]
    parents: list[int]
    edges: list[tuple[int, int]]
    """(upper, lower) of either pattern."""
    hanging: list[tuple[int, int]]
    """Edges that lead away from the joined nodes, towards results."""
    lifted: Lifted
    vertex: dict[int, int] = field(default_factory=dict)
    """Node of the block to vertex of the join graph."""

    def is_like(self, other: BlockPlan) -> bool:
        """Whether another block differs in its guard alone."""
        return self.definitions is other.definitions or (
            (self.channel, self.joined, self.parents) == (other.channel, other.joined, other.parents)
            and (self.minor, self.output) == (other.minor, other.output)
            and self.definitions == other.definitions
            and (self.edges, self.hanging) == (other.edges, other.hanging)
        )


def check_size(plans: Sequence[BlockPlan]) -> None:
    """Refuse definitions that say the same too often: a variable's repeats the conditions on its whole way.

    Raises:
        UnsupportedFeatureError: ``XSCL_QUERY_LIMIT``.
    """
    characters = 0
    for definition in (each for plan in plans for each in plan.definitions.values()):
        # A text is made when it is asked for; none behind the limit is made.
        characters += len(definition.text)
        if characters > _MAX_CHARACTERS:
            raise UnsupportedFeatureError(
                "XSCL_QUERY_LIMIT",
                "the paths of all joined and selected variables, with their conditions, "
                f"have more than {_MAX_CHARACTERS:,} characters",
                hint="bind fewer variables, or put the conditions on a node above them into a query of its own that "
                "publishes",
            )


def edges_around(plan: BlockPlan, node: int) -> tuple[_Pairs, _Pairs]:
    """Return the R_bin edges that rows of a joined node carry: those on its way, and those that hang off towards
    results.
    """
    definitions = plan.definitions
    on_the_way = with_ancestors(plan.parents, (node,))
    way = [(definitions[u], definitions[w]) for u, w in plan.edges if w in on_the_way]
    if len(plan.minor.nodes) == 1:
        way.append((definitions[plan.minor.nodes[0]],) * 2)
    return tuple(way), tuple((definitions[u], definitions[w]) for u, w in plan.hanging)


def with_ancestors(parents: Sequence[int], nodes: Iterable[int]) -> set[int]:
    """Return the nodes and all above them."""
    found: set[int] = set()
    for node in nodes:
        while node >= 0 and node not in found:
            found.add(node)
            node = parents[node]
    return found


def path_to(steps: list[Step | None], parents: list[int], node: int) -> tuple[Step, ...]:
    """Return the steps that lead to a node."""
    found: list[Step] = []
    while (step := steps[node]) is not None:
        found.append(step)
        node = parents[node]
    return tuple(reversed(found))


def guards_and_facts(plans: Sequence[BlockPlan]) -> tuple[tuple[Guard | None, ...], tuple[WitnessSpec, ...]]:
    """Return the guards of the blocks, or nothing, and the specs of the facts that they read."""
    guards = tuple(plan.lifted.guard for plan in plans)
    facts = tuple({spec: None for plan in plans for spec in plan.lifted.specs})
    return (guards if any(guards) else ()), facts
