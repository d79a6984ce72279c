"""A predicate index: which of many sets of conditions one node satisfies, without trying them one by one.

Every set of conditions is filed under one comparison that it cannot do without (its *access*): equality by hash, ranges
in a segment tree over the elementary cells between the constants, words in an automaton that reads a text once, or the
mere existence of a path.  (The idea is the grouped filter of Madden et al., *Continuously Adaptive Continuous Queries
over Streams*, 2002.)  A node's values are read once for each path that is asked for; what the access finds is then
checked for the conditions that are left.  Sets without such a comparison are checked one by one.

Values are read as XPath 1.0 reads them in brackets (``Comparison``), or exactly (``Compared``, atoms of one variable);
each reading has an index of its own, and each expression that is compared or searched (``lower(./title)``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic

from lxml import etree

from xscl.base.errors import FunctionFailedError
from xscl.xpath.conditions.accesses import Access, access_of
from xscl.xpath.conditions.condition import Memo, as_number, as_text, clark_name, holds, reach
from xscl.xpath.conditions.intervals import Key, Path, Ranges, Reading, T
from xscl.xpath.conditions.word_index import WordIndex
from xscl.xpath.nodes import AttributeNode, DocumentNode, Node, TextNode
from xscl.xpath.pattern import AllOf, Condition, Expression, exists_chain

__all__ = ["PredicateIndex"]

_FEW = 4
"""Names that are sought one by one below a node; where there are more, all names below it are gathered."""


@dataclass(frozen=True, slots=True)
class _Check(Generic[T]):
    """An item with conditions that are still to be checked."""

    item: T
    conditions: tuple[Condition, ...] | None = field(hash=False)
    """None: all conditions of the item."""


@dataclass(slots=True)
class _Values(Generic[T]):
    """Comparisons with values of one reading."""

    equal: dict[Key, dict[T, None]] = field(default_factory=dict)
    ranges: Ranges[T] = field(default_factory=Ranges)

    def add(self, access: Access, item: T) -> None:
        if access.equal is not None:
            self.equal.setdefault(access.equal, {})[item] = None
        elif access.interval is not None:
            self.ranges.add(access.interval, item)

    def remove(self, access: Access, item: T) -> None:
        if access.equal is not None:
            items = self.equal.get(access.equal, {})
            items.pop(item, None)
            if not items:
                self.equal.pop(access.equal, None)
        else:
            self.ranges.remove(item)

    def __bool__(self) -> bool:
        return bool(self.equal or self.ranges)

    def crowd(self, access: Access) -> int:
        """Count the items under the constant of an equality."""
        return 0 if access.equal is None else len(self.equal.get(access.equal, ()))

    def at(self, key: Key) -> Iterable[T]:
        """Return items whose comparison holds of a value."""
        found = self.equal.get(key, ())
        return [*found, *self.ranges.at(key)] if self.ranges else found


@dataclass(slots=True)
class _Sought(Generic[T]):
    """Words that are sought in one text."""

    index: WordIndex = field(default_factory=WordIndex)
    items: dict[int, dict[T, None]] = field(default_factory=dict)
    """Items by the number of a word."""

    def add(self, access: Access, item: T) -> None:
        for word in access.words:
            self.items.setdefault(self.index.add(access.function, word), {})[item] = None

    def remove(self, access: Access, item: T) -> None:
        for word in access.words:
            number = self.index.add(access.function, word)
            self.items[number].pop(item, None)
            if not self.items[number]:
                del self.items[number]
                self.index.remove(number)

    def crowd(self, access: Access) -> int:
        """Count the items under the words of an access."""
        numbers = (self.index.number(access.function, word) for word in access.words)
        return sum(len(self.items.get(number, ())) for number in numbers if number is not None)

    def at(self, text: str) -> Iterator[T]:
        """Return items of the words that a text has."""
        return (item for number in self.index.held(text) for item in self.items[number])


@dataclass(slots=True)
class _Computed(Generic[T]):
    """Comparisons with the value of one expression."""

    texts: _Values[T] = field(default_factory=_Values)
    numbers: _Values[T] = field(default_factory=_Values)
    sought: _Sought[T] = field(default_factory=_Sought)

    def part(self, access: Access) -> _Values[T] | _Sought[T]:
        """Return the part in which an access is filed."""
        if access.words:
            return self.sought
        assert access.reading is not None
        return self.numbers if access.reading.number else self.texts

    def at(self, expression: Expression, node: Node, memo: Memo) -> Iterator[T]:
        """Yield items whose comparison holds at a node."""
        value = memo.value(expression, node)
        if value is None:
            return
        if self.sought.items:
            yield from self.sought.at(as_text(value))
        if self.texts:
            yield from self.texts.at(as_text(value))
        if self.numbers and not math.isnan(number := as_number(value)):
            yield from self.numbers.at(number)

    def every(self) -> Iterator[T]:
        """Return all items."""
        yield from (item for items in self.sought.items.values() for item in items)
        for values in (self.texts, self.numbers):
            yield from (item for items in values.equal.values() for item in items)
            yield from values.ranges.intervals


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
    computed: dict[str | None, dict[Expression, _Computed[_Check[T]]]] = field(default_factory=dict)
    """Comparisons with values of expressions, by the name of a child that they need."""
    count: int = 0
    anywhere: Condition = field(kw_only=True)
    """Condition that the path leads to a node; unused for the node itself."""

    @property
    def valued(self) -> bool:
        """String values of the nodes are asked for."""
        return bool(self.values or self.likely or self.paired)

    @property
    def visited(self) -> bool:
        """The nodes are asked for, whatever of them."""
        return self.valued or bool(self.computed)

    def at(self, node: Node, memo: Memo) -> Iterator[_Check[T]]:
        """Yield the checks whose comparison with the value of an expression holds at a node."""
        asked: Iterable[str | None] = self.computed
        if len(self.computed) > _FEW:
            asked = self.computed.keys() & {None, *(str(child.tag) for child in _below(node))}
        for name in asked:
            for expression, computed in self.computed[name].items():
                try:
                    yield from list(computed.at(expression, node, memo))
                except FunctionFailedError:
                    # It is an error of those alone whose other conditions hold.
                    yield from (_Check(check.item, None) for check in computed.every())


def _below(node: Node) -> Iterable[etree._Element]:
    if isinstance(node, DocumentNode):
        return (node.root,)
    return () if isinstance(node, (AttributeNode, TextNode)) else node


class PredicateIndex(Generic[T]):
    """Items, each with the conditions of one node; ``T`` is hashable."""

    def __init__(self) -> None:
        self._conditions: dict[T, tuple[Condition, ...]] = {}
        self._filed: dict[T, tuple[tuple[Access, ...], tuple[Condition, ...]]] = {}
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
        accesses, rest = self._filed[item] = access_of(conditions, self._crowd)
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
            elif access.computed is not None:
                by_expression = nodes.computed.setdefault(access.child, {})
                by_expression.setdefault(access.computed, _Computed()).part(access).add(access, check)
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
            elif access.computed is not None:
                nodes.computed[access.child][access.computed].part(access).remove(access, check)
            elif access.paired:
                nodes.paired[access.reading].remove(access, check)
            elif rest:
                nodes.likely[access.reading].remove(access, check)
            else:
                nodes.values[access.reading].remove(access, item)

    def satisfied(self, node: Node, memo: Memo) -> set[T]:
        """Return the items whose conditions the node satisfies."""
        found: set[T] = set()
        likely = [_Check(item, self._filed[item][1]) for item in self._checked]
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
            if nodes.computed:
                for other in reached:
                    likely += nodes.at(other, memo)
        for check in likely:
            if check.item not in found:
                conditions = self._conditions[check.item] if check.conditions is None else check.conditions
                if all(holds(condition, node, memo) for condition in conditions):
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
            if nodes.visited:
                found = reach(path, node, memo)
                if found:
                    yield nodes, found
            elif holds(nodes.anywhere, node, memo):
                yield nodes, [node]

    def _names_below(self, node: etree._Element | DocumentNode) -> Iterable[str]:
        """Return the names that paths begin with, among them all those of the node's descendants."""
        if len(self._by_descendant) <= _FEW:
            return self._by_descendant
        if isinstance(node, DocumentNode):
            return {str(found.tag) for found in node.root.iter(etree.Element)}
        return {str(found.tag) for found in node.iterdescendants(etree.Element)}

    def _crowd(self, access: Access) -> int:
        """Count the items that would have to be checked together with one that is filed under these constants."""
        place, key = self._place(access.path)
        nodes = place.get(key)
        if nodes is None or access.reading is None:
            return 0
        if access.computed is not None:
            computed = nodes.computed.get(access.child, {}).get(access.computed)
            return 0 if computed is None else computed.part(access).crowd(access)
        if access.reading not in nodes.likely:
            return 0
        return nodes.likely[access.reading].crowd(access)

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
