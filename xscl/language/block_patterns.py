"""Blocks of a query as trees of steps that are walked in one document: all assignments of nodes to them, or one.

Every step has all that is below it as conditions, so an assignment of the nodes at the top can always be completed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xscl.language.column_types import BlockColumns, final_steps
from xscl.language.facts import ChannelFacts
from xscl.language.normalize import NormalQuery
from xscl.xpath.conditions.condition import Memo, holds, select
from xscl.xpath.nodes import AttributeNode, DocumentNode, Node, TextNode
from xscl.xpath.pattern import Condition, Step

__all__ = ["BlockPattern", "assignments", "block_pattern", "one_assignment"]


@dataclass(frozen=True, slots=True)
class BlockPattern:
    """A block made ready to be walked; its nodes have the numbers that ``NormalBlock`` gives them."""

    at_document: tuple[Condition, ...]
    steps: Sequence[Step | None]
    parents: Sequence[int]
    wanted: tuple[int, ...]
    """Nodes that an assignment is to have."""
    walked: tuple[int, ...]
    """These and the nodes above them, parents first, without the document node."""


def block_pattern(
    normal: NormalQuery, block: int, facts: Mapping[str, ChannelFacts], wanted: Collection[int]
) -> BlockPattern:
    """Make a block ready to be walked.

    Args:
        normal: the query.
        block: the block's place.
        facts: of the channels and streams.
        wanted: the nodes that assignments are to have.
    """
    found = normal.blocks[block]
    steps, at_document = final_steps(BlockColumns(found, facts.get(found.channel, ChannelFacts())), ())
    parents = [node.parent for node in found.nodes]
    walked = set(wanted)
    for place in range(len(parents) - 1, 0, -1):
        if place in walked:
            walked.add(parents[place])
    return BlockPattern(at_document, steps, parents, tuple(sorted(wanted)), tuple(sorted(walked - {0})))


def assignments(pattern: BlockPattern, document: DocumentNode, memo: Memo) -> Iterator[dict[int, Node]]:
    """Yield the distinct assignments of nodes of a document to the wanted nodes of a pattern."""
    if not all(holds(condition, document, memo) for condition in pattern.at_document):
        return

    def extend(place: int, bound: dict[int, Node]) -> Iterator[dict[int, Node]]:
        if place == len(pattern.walked):
            yield {node: bound[node] for node in pattern.wanted}
            return
        node = pattern.walked[place]
        step = pattern.steps[node]
        assert step is not None
        for reached in select(step, bound[pattern.parents[node]], memo):
            yield from extend(place + 1, {**bound, node: reached})

    # Nodes without a name on the way can reach the same nodes twice.
    seen: set[tuple[Node, ...]] = set()
    for nodes in extend(0, {0: document}):
        key = tuple(nodes.values())
        if key not in seen:
            seen.add(key)
            yield nodes


def one_assignment(
    pattern: BlockPattern, document: DocumentNode, memo: Memo, fixed: Mapping[int, Node]
) -> dict[int, Node] | None:
    """Return the first assignment in document order that has some nodes fixed; None if there is none.

    Sibling branches do not depend on each other, so that each node of the pattern is tried on a node of the document
    once at most.
    """
    below: list[list[Node]] = [[] for _ in pattern.parents]
    for place, node in fixed.items():
        while place:
            below[place].append(node)
            place = pattern.parents[place]
    above = {id(node): _self_and_above(node) for node in fixed.values()}
    branches: list[list[int]] = [[] for _ in pattern.parents]
    for place in pattern.walked:
        branches[pattern.parents[place]].append(place)
    tried: dict[tuple[int, Node], dict[int, Node] | None] = {}

    def admitted(place: int, node: Node) -> bool:
        if place in fixed and node != fixed[place]:
            return False
        return all(node in above[id(each)] for each in below[place])

    def solve(place: int, node: Node) -> dict[int, Node] | None:
        if (place, node) not in tried:
            tried[place, node] = _solved(place, node)
        return tried[place, node]

    def _solved(place: int, node: Node) -> dict[int, Node] | None:
        found = {place: node}
        for branch in branches[place]:
            step = pattern.steps[branch]
            assert step is not None
            reached = (solve(branch, each) for each in select(step, node, memo) if admitted(branch, each))
            first = next((some for some in reached if some is not None), None)
            if first is None:
                return None
            found |= first
        return found

    found = solve(0, document)
    return None if found is None else {place: found[place] for place in pattern.wanted}


def _self_and_above(node: Node) -> set[Node]:
    """Return the node, and all elements that it is in."""
    if isinstance(node, DocumentNode):
        return {node}
    owner = node.owner if isinstance(node, (AttributeNode, TextNode)) else node
    return {node, owner, *owner.iterancestors()}
