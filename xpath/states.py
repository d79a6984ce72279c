"""The states of the automaton: a trie of steps, and what is wanted of the nodes that reach a state.

States are hash-consed prefixes of definitions: (state before, step).  Two queries that ask for the same path under the
same conditions share its state, so what a document costs grows with distinct definitions, not with queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakSet

from xscl.xpath.names import NodeTests
from xscl.xpath.pattern import Axis, Condition, Definition
from xscl.xpath.predicates import PredicateIndex

__all__ = ["Branch", "LeafSpec", "State", "Trie", "WitnessSpec"]


@dataclass(frozen=True, slots=True)
class WitnessSpec:
    """One variable whose nodes are wanted, and what is wanted of them.

    ``functions`` name the values to keep (``''`` is the string value itself); None among them asks for a row without a
    value, by which a block is found that joins by time alone or not at all.  ``edges`` are pairs of definitions (upper,
    lower) of the reduced pattern: their bindings on the way to a node, or hanging off that way, are kept with it.
    ``hanging`` are those of them that hang off, even where their lower end has the definition of a node on the way.
    """

    definition: Definition
    functions: tuple[str | None, ...]
    edges: tuple[tuple[Definition, Definition], ...]
    hanging: tuple[tuple[Definition, Definition], ...] = ()


@dataclass(slots=True)
class LeafSpec:
    """What is wanted of a state's nodes; each thing with the number of specs that want it."""

    functions: Counter[str | None] = field(default_factory=Counter)
    edges: Counter[tuple[State, State]] = field(default_factory=Counter)
    hanging: Counter[tuple[State, State]] = field(default_factory=Counter)
    hangs: bool = False
    """An edge hangs off the way."""
    recorded: tuple[State, ...] = ()
    """States whose nodes must be noted for the sake of this leaf's chains."""

    @property
    def pairs(self) -> list[tuple[State, State]]:
        """All edges, those with a higher upper end first."""
        found = {*self.edges, *self.hanging}
        return sorted(found, key=lambda pair: (pair[0].depth, pair[1].depth, pair[0].key, pair[1].key))


_Thing = TypeVar("_Thing")
_NO_GUARDED: dict[tuple[Condition, ...], State] = {}
_NO_BRANCHES: dict[int, Branch] = {}
"""Of the many that have none.  Nothing is ever put in."""


class State:
    """A prefix of definitions.  Its parent is None for the document node of a channel."""

    __slots__ = (
        "attributes",
        "axis",
        "child",
        "conditions",
        "depth",
        "descendant",
        "key",
        "leaf",
        "parent",
        "plain",
        "recorded",
        "test",
        "texts",
        "uses",
    )

    def __init__(self, parent: State | None, axis: Axis, test: int, conditions: tuple[Condition, ...]) -> None:
        self.parent = parent
        self.axis: Axis = axis
        self.test = test
        """The number of the node test."""
        self.conditions = conditions
        """On the node itself."""
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.plain: bool = not conditions and (parent is None or parent.plain)
        """No conditions on the node or above it."""
        self.child: dict[int, Branch] = _NO_BRANCHES
        """The next steps by the number of their node test."""
        self.descendant: dict[int, Branch] = _NO_BRANCHES
        self.attributes = False
        """A next step has been one to attributes."""
        self.texts = False
        """A next step has been one to text nodes."""
        self.leaf: LeafSpec | None = None
        self.key = 0
        """The digest of the definition that ends here, known where a spec speaks of it."""
        self.uses = 0
        """Mentions in specs."""
        self.recorded = 0
        """Leaves whose chains need this state's nodes noted."""

    @property
    def noted(self) -> bool:
        """Rows of these nodes are made when the document has been walked, not from a template."""
        return self.leaf is not None and (not self.plain or self.leaf.hangs)

    def branches(self, axis: Axis) -> dict[int, Branch]:
        """The next steps of one axis."""
        return self.child if axis == "child" else self.descendant

    def grow(self, axis: Axis, test: int, kind: str) -> Branch:
        """A new next step."""
        self.attributes |= kind == "attribute"
        self.texts |= kind == "text"
        branch = Branch()
        if axis == "child":
            self.child = self.child or {}
            self.child[test] = branch
        else:
            self.descendant = self.descendant or {}
            self.descendant[test] = branch
        return branch


class Branch:
    """The states that one state leads to by one axis and node test."""

    __slots__ = ("free", "guarded", "own", "shared")

    def __init__(self) -> None:
        self.free: State | None = None
        """The one whose node has no conditions of its own."""
        self.guarded: dict[tuple[Condition, ...], State] = _NO_GUARDED
        self.own: PredicateIndex[State] | None = None
        """Of the guarded states."""
        self.shared: WeakSet[PredicateIndex[State]] | None = None
        """Of these and the guarded states of other branches, as long as somebody uses them."""

    def add(self, state: State) -> None:
        """Take in a state."""
        if not state.conditions:
            self.free = state
            return
        self.guarded = self.guarded or {}
        self.guarded[state.conditions] = state
        for index in self._indexes():
            index.add(state.conditions, state)

    def remove(self, state: State) -> None:
        """Take a state out."""
        if not state.conditions:
            self.free = None
            return
        del self.guarded[state.conditions]
        for index in self._indexes():
            index.remove(state)

    def index(self) -> PredicateIndex[State]:
        """The index of the guarded states."""
        if self.own is None:
            self.own = shared_index([self])
        return self.own

    def _indexes(self) -> list[PredicateIndex[State]]:
        return [*([self.own] if self.own is not None else ()), *(self.shared or ())]


def shared_index(branches: Iterable[Branch]) -> PredicateIndex[State]:
    """One index of the guarded states of several branches; ``Branch.shared`` keeps it up to date."""
    index = PredicateIndex[State]()
    for branch in branches:
        for conditions, state in branch.guarded.items():
            index.add(conditions, state)
    return index


class Trie:
    """All states, by channel.  ``stale`` gathers the plain states that lead elsewhere, or ask for more, than before."""

    def __init__(self) -> None:
        self.roots: dict[str, Branch] = {}
        self.tests = NodeTests()
        self.stale: set[State] = set()
        self.stale_roots: set[str] = set()
        self.count = 0

    def add(self, spec: WitnessSpec) -> None:
        """Ask for one more spec's rows."""
        self._change(spec, 1)

    def remove(self, spec: WitnessSpec) -> None:
        """Ask no longer for a spec that was added; states that nothing speaks of any more are gone."""
        self._change(spec, -1)

    def _change(self, spec: WitnessSpec, by: int) -> None:
        mentioned: list[State] = []

        def state(definition: Definition) -> State:
            found = self._state(definition)
            found.uses += by
            mentioned.append(found)
            return found

        end = state(spec.definition)
        leaf = end.leaf = end.leaf or LeafSpec()
        for name in spec.functions:
            _count(leaf.functions, name, by)
        for upper, lower in spec.edges:
            _count(leaf.edges, (state(upper), state(lower)), by)
        for upper, lower in spec.hanging:
            _count(leaf.hanging, (state(upper), state(lower)), by)
        leaf.hangs = bool(leaf.hanging) or not all(_on_way(lower, end) for _, lower in leaf.edges)
        if not leaf.functions:
            end.leaf = None
        self._record(leaf, _to_record(end) if end.noted else ())
        if end.plain:
            self.stale.add(end)
        for found in mentioned:
            self._release(found)

    def _record(self, leaf: LeafSpec, states: tuple[State, ...]) -> None:
        for by, each in ((1, states), (-1, leaf.recorded)):
            for state in each:
                state.recorded += by
                if state.plain:
                    self.stale.add(state)
        leaf.recorded = states

    def _state(self, definition: Definition) -> State:
        """The state of a definition, added with its prefixes if it is new."""
        root = self.roots.get(definition.channel)
        if root is None:
            root = self.roots[definition.channel] = Branch()
        at = root.guarded.get(definition.conditions) if definition.conditions else root.free
        if at is None:
            at = State(None, "child", -1, definition.conditions)
            root.add(at)
            self.count += 1
            self.stale_roots.add(definition.channel)
        for step in definition.steps:
            test = self.tests.number(step.test)
            branch = at.branches(step.axis).get(test)
            new = branch is None
            if branch is None:
                branch = at.grow(step.axis, test, step.test.kind)
            found = branch.guarded.get(step.conditions) if step.conditions else branch.free
            if found is None:
                # An index that has the branch's other guarded states takes this one in; nothing else changes.
                if at.plain and (new or not step.conditions or not branch.guarded):
                    self.stale.add(at)
                found = State(at, step.axis, test, step.conditions)
                branch.add(found)
                self.count += 1
            at = found
        at.key = at.key or definition.key
        return at

    def _release(self, state: State) -> None:
        """Take a state out that nothing speaks of, and those above it that were there for its sake."""
        at: State | None = state
        while at is not None and not at.uses and not at.child and not at.descendant:
            if at.parent is None:
                self._release_root(at)
                return
            branches = at.parent.branches(at.axis)
            branch = branches.get(at.test)
            if branch is None or (branch.guarded.get(at.conditions) if at.conditions else branch.free) is not at:
                return  # released before
            branch.remove(at)
            self.count -= 1
            if not branch.guarded and branch.free is None:
                del branches[at.test]
            if at.parent.plain:
                self.stale.add(at.parent)
            at = at.parent

    def _release_root(self, state: State) -> None:
        for channel, root in self.roots.items():
            if (root.guarded.get(state.conditions) if state.conditions else root.free) is state:
                root.remove(state)
                self.count -= 1
                self.stale_roots.add(channel)
                if not root.guarded and root.free is None:
                    del self.roots[channel]
                return

    def all_states(self) -> Iterator[State]:
        """Every state, parents first."""
        waiting = [state for root in self.roots.values() for state in _members(root)]
        while waiting:
            state = waiting.pop()
            yield state
            for branches in (state.child, state.descendant):
                for branch in branches.values():
                    waiting.extend(_members(branch))


def _count(counter: Counter[_Thing], thing: _Thing, by: int) -> None:
    counter[thing] += by
    if not counter[thing]:
        del counter[thing]


def _on_way(state: State, end: State) -> bool:
    at: State | None = end
    while at is not None and at is not state:
        at = at.parent
    return at is state


def _to_record(end: State) -> tuple[State, ...]:
    """The states below the highest upper end of a leaf's edges, on the ways that its chains climb and descend."""
    assert end.leaf is not None
    pairs = end.leaf.pairs
    top = min((upper.depth for upper, _ in pairs), default=end.depth)
    found: dict[State, None] = {end: None}
    for state, above in [(end, top), *((lower, upper.depth) for upper, lower in pairs)]:
        at = state
        while at.depth > above and at.parent is not None:
            found[at] = None
            at = at.parent
    return tuple(found)


def _members(branch: Branch) -> Iterator[State]:
    if branch.free is not None:
        yield branch.free
    yield from branch.guarded.values()
