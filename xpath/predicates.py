"""A predicate index: which of many sets of conditions one node satisfies, without trying them one by one.

Every set of conditions is filed under one comparison that it cannot do without (its *access*): equality by hash, ranges
in a segment tree over the elementary cells between the constants, or the mere existence of a path.  (The idea is the
grouped filter of Madden et al., *Continuously Adaptive Continuous Queries over Streams*, 2002.)  A node's values are
read once for each path that is asked for; what the access finds is then checked for the conditions that are left.  Sets
without such a comparison are checked one by one.

Values are read as XPath 1.0 reads them in brackets (``Comparison``), or exactly (``Compared``, atoms of one variable);
each reading has an index of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Generic

from lxml import etree

from xscl.base.values import number_text, to_number
from xscl.xpath.condition import Memo, clark_name, holds, reach
from xscl.xpath.intervals import Interval, Key, Path, Ranges, Reading, T
from xscl.xpath.nodes import AttributeNode, DocumentNode, Node, TextNode, string_value
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Compared,
    Comparison,
    Condition,
    Exists,
    Here,
    OfColumns,
    Step,
    exists_chain,
)

__all__ = ["PredicateIndex"]

_FEW = 4
"""Names that are sought one by one below a node; where there are more, all names below it are gathered."""


@dataclass(frozen=True, slots=True)
class _Access:
    """A comparison under which a set of conditions is filed."""

    path: Path
    reading: Reading | None
    """None: that the path leads to a node is enough."""
    equal: Key | None = None
    interval: Interval | None = None
    exact: bool = True
    """True if the access says all that its condition says."""
    paired: bool = False
    """The interval comes from two conditions, which two different nodes may satisfy."""

    @property
    def rank(self) -> int:
        """Small for what few nodes satisfy."""
        if self.equal is not None:
            return 0
        if self.interval is None:
            return 3
        return 1 if self.interval.low is not None and self.interval.high is not None else 2


@dataclass(frozen=True, slots=True)
class _Check(Generic[T]):
    """An item with conditions that are still to be checked."""

    item: T
    conditions: tuple[Condition, ...]


@dataclass(slots=True)
class _Values(Generic[T]):
    """Comparisons with values of one reading."""

    equal: dict[Key, dict[T, None]] = field(default_factory=dict)
    ranges: Ranges[T] = field(default_factory=Ranges)

    def add(self, access: _Access, item: T) -> None:
        if access.equal is not None:
            self.equal.setdefault(access.equal, {})[item] = None
        elif access.interval is not None:
            self.ranges.add(access.interval, item)

    def remove(self, access: _Access, item: T) -> None:
        if access.equal is not None:
            items = self.equal.get(access.equal, {})
            items.pop(item, None)
            if not items:
                self.equal.pop(access.equal, None)
        else:
            self.ranges.remove(item)

    def at(self, key: Key) -> Iterable[T]:
        """Items whose comparison holds of a value."""
        found = self.equal.get(key, ())
        return [*found, *self.ranges.at(key)] if self.ranges else found


@dataclass(slots=True)
class _Nodes(Generic[T]):
    """The accesses of one path."""

    exist: dict[T, None] = field(default_factory=dict)
    likely_exist: dict[_Check[T], None] = field(default_factory=dict)
    values: dict[Reading, _Values[T]] = field(default_factory=dict)
    """Items that satisfy all their conditions if the comparison holds."""
    likely: dict[Reading, _Values[_Check[T]]] = field(default_factory=dict)
    paired: dict[Reading, _Values[_Check[T]]] = field(default_factory=dict)
    """Checks to be made in full where the path leads to several nodes."""
    count: int = 0
    anywhere: Condition = field(kw_only=True)
    """Condition that the path leads to a node; unused for the node itself."""

    @property
    def valued(self) -> bool:
        """Values of the nodes are asked for."""
        return bool(self.values or self.likely or self.paired)

    def texts(self, found: Iterable[Node]) -> list[str] | None:
        """Return the string values of the nodes that the path leads to, where they are asked for; None: there is no
        node.
        """
        if self.values or self.likely or self.paired:
            return [string_value(node) for node in dict.fromkeys(found)] or None
        return None if next(iter(found), None) is None else []


class PredicateIndex(Generic[T]):
    """Items, each with the conditions of one node; ``T`` is hashable."""

    def __init__(self) -> None:
        self._conditions: dict[T, tuple[Condition, ...]] = {}
        self._filed: dict[T, tuple[tuple[_Access, ...], tuple[Condition, ...]]] = {}
        self._checked: dict[T, None] = {}
        # By path: the node itself, its children and attributes of one name, longer paths by the name of a child or
        # descendant that they begin with, everything else.
        self._own: dict[Path, _Nodes[T]] = {}
        self._children: dict[str, _Nodes[T]] = {}
        self._attributes: dict[str, _Nodes[T]] = {}
        self._by_child: dict[str, dict[Path, _Nodes[T]]] = {}
        self._by_descendant: dict[str, dict[Path, _Nodes[T]]] = {}
        self._others: dict[Path, _Nodes[T]] = {}

    def __len__(self) -> int:
        return len(self._conditions)

    def __contains__(self, item: T) -> bool:
        return item in self._conditions

    def add(self, conditions: tuple[Condition, ...], item: T) -> None:
        """File an item under its conditions; it must not be there."""
        self._conditions[item] = conditions
        accesses, rest = self._filed[item] = _choose(conditions, self._crowd)
        if not accesses:
            self._checked[item] = None
        check = _Check(item, rest)
        for access in accesses:
            nodes = self._nodes(access.path)
            nodes.count += 1
            if access.reading is None and rest:
                nodes.likely_exist[check] = None
            elif access.reading is None:
                nodes.exist[item] = None
            elif access.paired:
                nodes.paired.setdefault(access.reading, _Values()).add(access, check)
            elif rest:
                nodes.likely.setdefault(access.reading, _Values()).add(access, check)
            else:
                nodes.values.setdefault(access.reading, _Values()).add(access, item)

    def remove(self, item: T) -> None:
        """Take an item out."""
        del self._conditions[item]
        accesses, rest = self._filed.pop(item)
        self._checked.pop(item, None)
        check = _Check(item, rest)
        for access in accesses:
            place, key = self._place(access.path)
            nodes = place[key]
            nodes.count -= 1
            if not nodes.count:
                self._drop(access.path)
            elif access.reading is None:
                nodes.exist.pop(item, None)
                nodes.likely_exist.pop(check, None)
            elif access.paired:
                nodes.paired[access.reading].remove(access, check)
            elif rest:
                nodes.likely[access.reading].remove(access, check)
            else:
                nodes.values[access.reading].remove(access, item)

    def satisfied(self, node: Node, memo: Memo) -> set[T]:
        """Return the items whose conditions the node satisfies."""
        found: set[T] = set()
        likely = [_Check(item, self._conditions[item]) for item in self._checked]
        for nodes, reached in self._reached(node, memo):
            found.update(nodes.exist)
            likely += nodes.likely_exist
            texts = [memo.text(other) for other in reached] if nodes.valued else []
            for text in texts:
                for reading, values in nodes.values.items():
                    if (key := reading.key(text)) is not None:
                        found.update(values.at(key))
                for reading, checks in nodes.likely.items():
                    if (key := reading.key(text)) is not None:
                        likely.extend(checks.at(key))
            if nodes.paired:
                likely += self._pairs(nodes, texts)
        for check in likely:
            if check.item not in found and all(holds(condition, node, memo) for condition in check.conditions):
                found.add(check.item)
        return found

    def _pairs(self, nodes: _Nodes[T], texts: list[str]) -> list[_Check[T]]:
        """Return the items that have two conditions on one path. Of several nodes, each may satisfy one condition."""
        found: list[_Check[T]] = []
        for reading, checks in nodes.paired.items():
            if len(texts) > 1:
                keys = [key for text in texts if (key := reading.key(text)) is not None]
                found += [
                    _Check(check.item, self._conditions[check.item])
                    for check, intervals in checks.ranges.intervals.items()
                    if keys and any(interval.meets(min(keys), max(keys)) for interval in intervals)
                ]
            elif (key := reading.key(texts[0])) is not None:
                found.extend(checks.at(key))
        return found

    def _reached(self, node: Node, memo: Memo) -> Iterator[tuple[_Nodes[T], list[Node]]]:
        """Yield the paths that lead from a node to others, with these; with the node itself where no value is asked
        for.
        """
        for own in self._own.values():
            yield own, [node]
        if isinstance(node, (AttributeNode, TextNode)):
            return
        paths = list(self._others.items())
        if self._children or self._by_child:
            # The node's children are fewer than the names that are asked for.
            children: dict[str, list[Node]] = {}
            for child in (node.root,) if isinstance(node, DocumentNode) else node:
                tag: str = child.tag  # type: ignore[assignment]  # that of a comment is a function
                if tag in self._children or tag in self._by_child:
                    children.setdefault(tag, []).append(child)
            for tag, found in children.items():
                if tag in self._children:
                    yield self._children[tag], found
                paths += self._by_child.get(tag, {}).items()
        for tag in self._names_below(node):
            paths += self._by_descendant.get(tag, {}).items()
        if self._attributes and not isinstance(node, DocumentNode):
            for name in node.attrib:
                if name in self._attributes:
                    yield self._attributes[str(name)], [AttributeNode(node, str(name))]
        for path, nodes in paths:
            if nodes.valued:
                found = reach(path, node, memo)
                if found:
                    yield nodes, found
            elif holds(nodes.anywhere, node, memo):
                yield nodes, [node]

    def _names_below(self, node: etree._Element | DocumentNode) -> Iterable[str]:
        """Names that paths begin with, among them all those of the node's descendants."""
        if len(self._by_descendant) <= _FEW:
            return self._by_descendant
        if isinstance(node, DocumentNode):
            return {str(found.tag) for found in node.root.iter(etree.Element)}
        return {str(found.tag) for found in node.iterdescendants(etree.Element)}

    def _crowd(self, access: _Access) -> int:
        """Count the items that would have to be checked together with one that is filed under an equality."""
        place, key = self._place(access.path)
        nodes = place.get(key)
        if nodes is None or access.reading not in nodes.likely or access.equal is None:
            return 0
        return len(nodes.likely[access.reading].equal.get(access.equal, ()))

    def _nodes(self, path: Path) -> _Nodes[T]:
        place, key = self._place(path, new=True)
        nodes = place.get(key)
        if nodes is None:
            nodes = place[key] = _Nodes(anywhere=exists_chain(path) if path else AllOf(()))
        return nodes

    def _drop(self, path: Path) -> None:
        place, key = self._place(path)
        del place[key]
        if path and not place:
            name = clark_name(path[0].test) or ""
            for by_name in (self._by_child, self._by_descendant):
                if by_name.get(name) is place:
                    del by_name[name]

    def _place(self, path: Path, *, new: bool = False) -> tuple[dict[Any, _Nodes[T]], Path | str]:
        """Return the place of a path's accesses; without ``new``, an empty place of its own is not kept."""
        if not path:
            return self._own, path
        first, name = path[0], clark_name(path[0].test)
        if name is None:
            return self._others, path
        if len(path) == 1 and first.axis == "child":
            return self._children if first.test.kind == "element" else self._attributes, name
        if first.test.kind == "element":
            by_name = self._by_child if first.axis == "child" else self._by_descendant
            return by_name.setdefault(name, {}) if new else by_name.get(name, {}), path
        return self._others, path


def _choose(
    conditions: Sequence[Condition], crowd: Callable[[_Access], int]
) -> tuple[tuple[_Access, ...], tuple[Condition, ...]]:
    """Return the accesses for the conditions of one node (any of them must hold), and the conditions they leave open.

    Of several equalities the one is taken that the smallest ``crowd`` is filed under, because many sets may share the
    constant of the other.
    """
    found = [(condition, accesses) for condition in conditions if (accesses := _accesses(condition, crowd))]
    together: dict[tuple[Path, Reading | None], list[tuple[Condition, _Access]]] = {}
    for condition, accesses in found:
        if len(accesses) == 1 and accesses[0].interval is not None:
            together.setdefault((accesses[0].path, accesses[0].reading), []).append((condition, accesses[0]))
    choices: list[tuple[tuple[Condition, ...], tuple[_Access, ...]]] = [((each,), accesses) for each, accesses in found]
    for (path, _), parts in together.items():
        if len(parts) > 1:
            interval = Interval()
            for _, access in parts:
                assert access.interval is not None
                interval &= access.interval
            exact = all(access.exact for _, access in parts)
            merged = replace(parts[0][1], interval=interval, exact=exact, paired=path != ())
            choices.append((tuple(condition for condition, _ in parts), (merged,)))
    if not choices:
        return (), tuple(conditions)
    # Of equals the last is taken, which is the one with more conditions.
    said, best = min(reversed(choices), key=lambda choice: max((access.rank, crowd(access)) for access in choice[1]))
    if not all(access.exact for access in best):
        said = ()
    return best, tuple(condition for condition in conditions if condition not in said)


def _accesses(condition: Condition, crowd: Callable[[_Access], int]) -> tuple[_Access, ...]:
    """Return accesses, among them for every node that satisfies the condition one that finds it; () if none can."""
    match condition:
        case Comparison(Here(()), op, right):
            if op in ("=", "!=") and not right.is_number:
                return _compared(Reading(None, number=False), op, right.value)
            number = to_number(right.value)
            return () if number is None else _compared(Reading(None, number=True), op, number)
        case Compared(functions, op, right):
            if not condition.of_numbers:
                return _compared(Reading(functions, number=False), op, right.value)
            exact = right.value if right.is_number else number_text(right.value)
            return () if exact is None else _compared(Reading(functions, number=True), op, Fraction(exact))
        case Exists(step):
            bare = Step(step.axis, step.test)
            inner, rest = _choose(step.conditions, lambda access: crowd(replace(access, path=(bare, *access.path))))
            if not inner:
                return (_Access((bare,), None, exact=not rest),)
            below = (replace(access, path=(bare, *access.path)) for access in inner)
            return tuple(replace(access, exact=access.exact and not rest) for access in below)
        case AllOf(parts):
            inner, rest = _choose(parts, crowd)
            return tuple(replace(access, exact=access.exact and not rest) for access in inner)
        case AnyOf(parts):
            each = [_accesses(part, crowd) for part in parts]
            return tuple(access for accesses in each for access in accesses) if all(each) else ()
        case OfColumns(_, part, otherwise):
            return tuple(replace(access, exact=False) for access in _accesses(AnyOf((part, otherwise)), crowd))
    return ()


def _compared(reading: Reading, op: str, constant: Key) -> tuple[_Access, ...]:
    match op:
        case "=":
            return (_Access((), reading, equal=constant),)
        case "<" | "<=":
            return (_Access((), reading, interval=Interval(high=constant, with_high=op == "<=")),)
        case ">" | ">=":
            return (_Access((), reading, interval=Interval(low=constant, with_low=op == ">=")),)
    return ()
