"""Columns by type: the nodes of a block that are columns of a type, and conditions that compare their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from xscl.base.values import time_key
from xscl.language.facts import ChannelFacts
from xscl.language.normalize import NormalBlock
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Compared,
    Comparison,
    Condition,
    Constant,
    Exists,
    Here,
    Negation,
    Step,
    conditions,
)

__all__ = ["BlockColumns", "as_number", "as_time", "final_steps", "names_column"]


class BlockColumns:
    """Nodes of a block that are columns, by type."""

    def __init__(self, block: NormalBlock, facts: ChannelFacts) -> None:
        self.block = block
        self.facts = facts

    @cached_property
    def numeric(self) -> set[int]:
        """Columns of numbers."""
        return self._columns(self.facts.numeric)

    @cached_property
    def times(self) -> set[int]:
        """Columns of times."""
        return self._columns(self.facts.times)

    @cached_property
    def ordered(self) -> set[int]:
        """Columns that are ordered among themselves, though they are no numbers."""
        return self._columns(self.facts.texts | self.facts.times)

    @cached_property
    def _typed(self) -> set[int]:
        facts = self.facts
        return self._columns(facts.numeric | facts.texts | facts.times)

    def is_open(self, node: int) -> bool:
        """Whether it is not known yet what kind of values a node has."""
        return self.facts.kind != "xml" and node not in self._typed

    def _columns(self, columns: frozenset[str]) -> set[int]:
        """Return the nodes of a block that are such columns; a row's root element is none, whatever its name.

        What ``*`` reaches below the root element is such a column if all columns are.
        """
        nodes, facts = self.block.nodes, self.facts
        known = facts.numeric | facts.texts | facts.times | facts.truths
        found = set()
        for index, node in enumerate(nodes):
            if node.step is None or node.step.test.kind != "element":
                continue
            if node.step.test.local is not None:
                is_column = node.step.test.local in columns and not (node.parent == 0 and node.step.axis == "child")
            else:
                above = nodes[node.parent]
                below_root = above.step is not None and above.parent == 0 and above.step.axis == "child"
                is_column = facts.kind == "rows" and below_root and bool(known) and known <= columns
            if is_column:
                found.add(index)
        return found


def final_steps(columns: BlockColumns, kept: Iterable[int]) -> tuple[list[Step | None], tuple[Condition, ...]]:
    """Return every node's step with its conditions, removed branches included; and the conditions on the document node.

    A branch without a kept node is a condition on the node above it; the same node's own step, by which an output
    variable below is reached, has the conditions of its other branches.  Where none is kept, a node that a step
    reaches has a witness of everything below.
    """
    block, numeric, times = columns.block, columns.numeric, columns.facts.times
    live = set(kept)
    own: list[list[Condition]] = [
        [as_number(condition) if index in numeric else condition for condition in node.conditions]
        for index, node in enumerate(block.nodes)
    ]
    if times:
        for node, mine in zip(block.nodes, own, strict=True):
            is_root = node.parent == 0 and node.step is not None and node.step.axis == "child"
            is_time = node.step is not None and not is_root and names_column(node.step, times)
            mine[:] = [as_time(condition, times, of_time=is_time) for condition in mine]
    steps: list[Step | None] = [None] * len(block.nodes)
    # Parents come before children, so children are finished first when going backwards.
    for index in range(len(block.nodes) - 1, 0, -1):
        node = block.nodes[index]
        assert node.step is not None
        # What a step says of itself stays with it, so a step without conditions is taken as it is.
        steps[index] = Step(node.step.axis, node.step.test, conditions(own[index])) if own[index] else node.step
        if index in live:
            live.add(node.parent)
        else:
            own[node.parent].append(Exists(steps[index]))  # type: ignore[arg-type]
    return steps, conditions(own[0])


def as_number(condition: Condition) -> Condition:
    """Return a comparison of a numeric column, which is numeric, whatever it is compared with."""
    if isinstance(condition, Compared) and not condition.functions:
        return replace(condition, numeric=True)
    return condition


def as_time(condition: Condition, times: frozenset[str], *, of_time: bool) -> Condition:
    """Return a condition whose comparisons of columns of times with ISO 8601 texts compare times.

    Args:
        condition: the condition.
        times: the names of the columns.
        of_time: whether the condition's own node is such a column.
    """

    def timed(condition: Condition, of_time: bool) -> Condition:
        match condition:
            case Comparison(Here(()), op, Constant(value, False)) | Compared("", op, Constant(value, False), False):
                key = time_key(value) if of_time else None
                return condition if key is None else Compared("time", op, Constant(key, is_number=False), numeric=False)
            case Exists(step):
                of_time = names_column(step, times)
                inner = conditions(timed(part, of_time) for part in step.conditions)
                return Exists(replace(step, conditions=inner)) if inner != step.conditions else condition
            case Negation(part):
                return Negation(timed(part, of_time))
            case AllOf(parts):
                return AllOf(conditions(timed(part, of_time) for part in parts))
            case AnyOf(parts):
                return AnyOf(conditions(timed(part, of_time) for part in parts))
        return condition

    return timed(condition, of_time)


def names_column(step: Step, columns: frozenset[str]) -> bool:
    """Whether a step asks for one of these columns."""
    return step.test.kind == "element" and step.test.uri in ("", None) and step.test.local in columns
