"""Columns by type: the nodes of a block that are columns of a type, and conditions that compare their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Literal

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
    OfColumns,
    Step,
    conditions,
)

__all__ = ["BlockColumns", "ColumnType", "as_number", "as_time", "final_steps", "is_wildcard", "names_column"]

_OTHER: frozenset[ColumnType] = frozenset(["other"])


ColumnType = Literal["number", "text", "time", "other"]
"""``other`` is a truth value, and what is no column."""


class BlockColumns:
    """Nodes of a block that are columns, by type."""

    def __init__(self, block: NormalBlock, facts: ChannelFacts) -> None:
        self.block = block
        self.facts = facts

    @cached_property
    def _by_name(self) -> dict[str, ColumnType]:
        facts = self.facts
        of_types: tuple[tuple[ColumnType, frozenset[str]], ...] = (
            ("number", facts.numeric),
            ("text", facts.texts),
            ("time", facts.times),
            ("other", facts.truths),
        )
        return {name: type_ for type_, names in of_types for name in names}

    def types(self, node: int) -> frozenset[ColumnType]:
        """Return the types of what a node may be; a row's root element is no column, whatever its name."""
        return frozenset(self.columns(node).values()) | (_OTHER if self.may_be_no_column(node) else frozenset())

    def columns(self, node: int) -> Mapping[str, ColumnType]:
        """Return the columns that a node may be, with their types."""
        step = self.block.nodes[node].step
        if step is None or step.test.kind != "element":
            return {}
        if step.test.local is not None:
            type_ = None if self._is_root(node) else self._by_name.get(step.test.local)
            return {} if type_ is None else {step.test.local: type_}
        return self._by_name if self.is_any(node) and self.facts.kind == "rows" else {}

    def may_be_no_column(self, node: int) -> bool:
        """Tell whether a node may be something else than a column that is known."""
        return not self.columns(node) or (self.is_any(node) and self.block.nodes[node].parent == 0)

    def is_any(self, node: int) -> bool:
        """Tell whether a node may be each of the columns of a row, if its channel has rows."""
        found = self.block.nodes[node]
        if self.facts.kind == "xml" or found.step is None or not is_wildcard(found.step):
            return False
        if found.parent == 0:
            return found.step.axis == "descendant"
        # The root is the only element that has others inside.
        return self.block.nodes[found.parent].parent == 0

    def is_open(self, node: int) -> bool:
        """Whether it is not known yet what kind of values a node has."""
        if self.facts.kind == "xml":
            return False
        return not self._by_name if self.is_any(node) else "other" in self.types(node)

    def _is_root(self, node: int) -> bool:
        found = self.block.nodes[node]
        return found.parent == 0 and found.step is not None and found.step.axis == "child"


def final_steps(columns: BlockColumns, kept: Iterable[int]) -> tuple[list[Step | None], tuple[Condition, ...]]:
    """Return every node's step with its conditions, removed branches included; and the conditions on the document node.

    A branch without a kept node is a condition on the node above it; the same node's own step, by which an output
    variable below is reached, has the conditions of its other branches.  Where none is kept, a node that a step
    reaches has a witness of everything below.
    """
    block = columns.block
    live = set(kept)
    own = [_typed_conditions(columns, node) for node in range(len(block.nodes))]
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


def _typed_conditions(columns: BlockColumns, node: int) -> list[Condition]:
    """Return the conditions of a node as the types of the columns that it may be demand."""
    found, facts = columns.block.nodes[node].conditions, columns.facts
    if not found or not (facts.numeric or facts.times):
        return list(found)
    types = columns.types(node)
    return [_typed(condition, types, facts) for condition in found]


def _typed(condition: Condition, types: frozenset[ColumnType], facts: ChannelFacts) -> Condition:
    """Return a condition of a node that compares each type of column that the node may be as its type demands."""
    number, found = as_number(condition), condition
    if types == {"number"}:
        return number
    if facts.times:
        of_time = types == {"time"} if len(types) == 1 or "time" not in types else None
        found = as_time(condition, facts.times, of_time=of_time)
    return _of_columns(facts.numeric, number, found) if "number" in types and number != condition else found


def _of_columns(names: frozenset[str], condition: Condition, otherwise: Condition) -> Condition:
    return otherwise if condition == otherwise else OfColumns(tuple(sorted(names)), condition, otherwise)


def as_number(condition: Condition) -> Condition:
    """Return a comparison of a numeric column, which is numeric, whatever it is compared with."""
    if isinstance(condition, Compared) and not condition.functions:
        return replace(condition, numeric=True)
    return condition


def as_time(condition: Condition, times: frozenset[str], *, of_time: bool | None) -> Condition:
    """Return a condition whose comparisons of columns of times with ISO 8601 texts compare times.

    Args:
        condition: the condition.
        times: the names of the columns.
        of_time: whether the condition's own node is such a column; None: it may be one of them, or something else.
    """
    match condition:
        case Comparison(Here(()), op, Constant(value, False)) | Compared("", op, Constant(value, False), False):
            key = None if of_time is False else time_key(value)
            if key is None:
                return condition
            found = Compared("time", op, Constant(key, is_number=False), numeric=False)
            return found if of_time else _of_columns(times, found, condition)
        case Exists(step):
            is_time = None if is_wildcard(step) else names_column(step, times)
            inner = conditions(as_time(part, times, of_time=is_time) for part in step.conditions)
            return Exists(replace(step, conditions=inner)) if inner != step.conditions else condition
        case Negation(part):
            return Negation(as_time(part, times, of_time=of_time))
        case AllOf(parts):
            return AllOf(conditions(as_time(part, times, of_time=of_time) for part in parts))
        case AnyOf(parts):
            return AnyOf(conditions(as_time(part, times, of_time=of_time) for part in parts))
    return condition


def is_wildcard(step: Step) -> bool:
    """Whether a step asks for elements without a namespace, whatever their name."""
    return step.test.kind == "element" and step.test.uri in ("", None) and step.test.local is None


def names_column(step: Step, columns: frozenset[str]) -> bool:
    """Whether a step asks for one of these columns."""
    return step.test.kind == "element" and step.test.uri in ("", None) and step.test.local in columns
