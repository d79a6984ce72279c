"""The states of the automaton: a trie of steps, and what is wanted of the nodes that reach a state.

States are hash-consed prefixes of definitions: (state before, step).  Two queries that ask for the same path under the
same conditions share its state, so what a document costs grows with distinct definitions, not with queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from xscl.base.mixed import by_column
from xscl.base.values import hash64
from xscl.xpath.guards import FREE, Guards
from xscl.xpath.names import NodeTests
from xscl.xpath.pattern import Axis, Condition, Definition
from xscl.xpath.row_template import RowTemplate, alone

__all__ = [
    "DOCUMENT_NODE",
    "Branch",
    "LeafSpec",
    "SpecKey",
    "State",
    "Trie",
    "WitnessSpec",
    "spec_digests",
    "spec_key",
]


@dataclass(frozen=True, slots=True)
class WitnessSpec:
    """One variable whose nodes are wanted, and what is wanted of them.

    ``functions`` name the values to keep (``''`` is the string value itself; some say how each column of a row is read,
    ``base.mixed``); None among them asks for a row without a
    value, by which a block is found that joins by time alone or not at all.  ``edges`` are pairs of definitions (upper,
    lower) of the reduced pattern: their bindings on the way to a node, or hanging off that way, are kept with it.
    ``hanging`` are those of them that hang off, even where their lower end has the definition of a node on the way.
    """

    definition: Definition
    functions: tuple[str | None, ...]
    edges: tuple[tuple[Definition, Definition], ...]
    hanging: tuple[tuple[Definition, Definition], ...] = ()


SpecKey = tuple[int, tuple[str | None, ...], tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]


def spec_key(spec: WitnessSpec) -> SpecKey:
    """Return the key that equal specs share; a key is hashed sooner than a spec."""
    edges, hanging = (tuple((upper.key, lower.key) for upper, lower in pairs) for pairs in (spec.edges, spec.hanging))
    return spec.definition.key, spec.functions, edges, hanging


def spec_digests(spec: WitnessSpec) -> frozenset[int]:
    """64 bits, never 0, that stand for what a spec asks of a document, wherever only a number fits.

    There are two if it wants rows with values and rows without.  Which functions it wants makes no difference, because
    that changes when more is known of a channel, while rows are kept.
    """
    definition, functions, edges, hanging = spec_key(spec)
    kinds = {function is not None for function in functions}
    return frozenset(hash64(repr((definition, valued, edges, hanging))) or 1 for valued in kinds)


@dataclass(slots=True)
class LeafSpec:
    """The requests for a state's nodes, each with the number of specs that make it."""

    functions: Counter[str | None] = field(default_factory=Counter)
    edges: Counter[tuple[State, State]] = field(default_factory=Counter)
    hanging: Counter[tuple[State, State]] = field(default_factory=Counter)
    pairs: tuple[tuple[State, State], ...] = ()
    """All edges, those with a higher upper end first."""
    deferred: bool = False
    """Its rows are made when the document has been walked: an edge hangs off the way, conditions stand on it, or values
    differ by the name of the node."""
    alone: bool = True
    """No edge leads from or to another node, and values do not differ by the name of the node."""
    template: RowTemplate | None = None
    """The rows of a node, where the leaf is alone and has conditions; made when first asked for."""
    climbed: tuple[State, ...] = ()
    """States whose nodes must be noted for the sake of this leaf's chains."""

    def settle(self, end: State) -> None:
        """Bring what follows from the edges up to date; ``end`` is the leaf's state."""
        found = {*self.edges, *self.hanging}
        # The keys make the order the same in every process.
        self.pairs = tuple(sorted(found, key=lambda pair: (pair[0].depth, pair[1].depth, pair[0].key, pair[1].key)))
        hangs = bool(self.hanging) or not all(_on_way(lower, end) for _, lower in self.edges)
        named = any(map(by_column, self.functions))
        self.deferred = hangs or not end.plain or named
        self.template = None
        self.alone = not named and not self.hanging and all(upper is lower is end for upper, lower in self.edges)


_Thing = TypeVar("_Thing")
DOCUMENT_NODE = -1
"""The number of the test that the document node passes."""
_NO_GUARDED: dict[int, State] = {}
_NO_BRANCHES: dict[int, Branch] = {}
"""Branches of the many states that have none. Nothing is ever put in."""


class State:
    """A prefix of definitions.  Its parent is None for the document node of a channel."""

    __slots__ = (
        "attributes",
        "axis",
        "child",
        "depth",
        "descendant",
        "guard",
        "key",
        "leaf",
        "parent",
        "plain",
        "climbed",
        "test",
        "texts",
        "uses",
    )

    def __init__(self, parent: State | None, axis: Axis, test: int, guard: int) -> None:
        self.parent = parent
        self.axis: Axis = axis
        self.test = test
        """The number of the node test."""
        self.guard = guard
        """The number of the conditions on the node itself."""
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.plain: bool = guard == FREE and (parent is None or parent.plain)
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
        self.climbed = 0
        """Leaves whose chains climb from this state's nodes."""

    @property
    def deferred(self) -> bool:
        """Rows of these nodes are made when the document has been walked, not from a template."""
        return self.leaf is not None and self.leaf.deferred

    def template(self) -> RowTemplate | None:
        """Return the rows of a node that is reached where conditions hold; None if chains speak of other nodes too."""
        leaf = self.leaf
        if leaf is None or not leaf.alone:
            return None
        if leaf.template is None:
            leaf.template = alone([(self.key, leaf.functions, bool(leaf.pairs))])
        return leaf.template

    def branches(self, axis: Axis) -> dict[int, Branch]:
        """Return the next steps of one axis."""
        return self.child if axis == "child" else self.descendant

    def grow(self, axis: Axis, test: int, kind: str) -> Branch:
        """Add a next step."""
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

    __slots__ = ("free", "guarded")

    def __init__(self) -> None:
        self.free: State | None = None
        """The one whose node has no conditions of its own."""
        self.guarded: dict[int, State] = _NO_GUARDED
        """The others, by the number of their node's conditions."""

    def get(self, guard: int) -> State | None:
        """Return the state with these conditions."""
        return self.free if guard == FREE else self.guarded.get(guard)

    def put(self, guard: int, state: State) -> None:
        """Take in a state."""
        if guard == FREE:
            self.free = state
        else:
            self.guarded = self.guarded or {}
            self.guarded[guard] = state

    def take_out(self, state: State) -> bool:
        """Take a state out; whether it was in."""
        if self.get(state.guard) is not state:
            return False
        if state.guard == FREE:
            self.free = None
        else:
            del self.guarded[state.guard]
        return True

    def holding(self, guards: set[int]) -> list[State]:
        """Return the guarded states whose conditions are among those that hold."""
        if len(guards) < len(self.guarded):
            return [self.guarded[guard] for guard in guards if guard in self.guarded]
        return [state for guard, state in self.guarded.items() if guard in guards]

    @property
    def empty(self) -> bool:
        """Nothing is left."""
        return self.free is None and not self.guarded


class Trie:
    """All states, by channel.  ``stale`` gathers the plain states that lead elsewhere, or ask for more, than before."""

    def __init__(self) -> None:
        self.roots: dict[str, Branch] = {}
        self.tests = NodeTests()
        self.guards = Guards()
        self.stale: set[State] = set()
        self.stale_roots: set[str] = set()
        self.count = 0
        self.changes = 0
        """Specs that came or went."""

    def add(self, spec: WitnessSpec) -> None:
        """Ask for one more spec's rows."""
        self._change(spec, 1)

    def remove(self, spec: WitnessSpec) -> None:
        """Ask no longer for a spec that was added; states that nothing speaks of any more are gone."""
        self._change(spec, -1)

    def _change(self, spec: WitnessSpec, by: int) -> None:
        mentioned: list[State] = []
        known: dict[int, State] = {}
        self.changes += 1

        def state(definition: Definition) -> State:
            found = known.get(definition.key)
            if found is None:
                found = known[definition.key] = self._state(definition)
            found.uses += by
            mentioned.append(found)
            return found

        for upper, lower in (*spec.edges, *spec.hanging):
            begins = lower.steps[: len(upper.steps)] == upper.steps and lower.conditions == upper.conditions
            if not begins or lower.channel != upper.channel or upper.channel != spec.definition.channel:
                raise ValueError(f"{lower} does not begin with {upper}, or not in channel {spec.definition.channel}")
        if not spec.functions:
            raise ValueError(f"nothing is asked of {spec.definition}")
        end = state(spec.definition)
        leaf = end.leaf = end.leaf or LeafSpec()
        for name in spec.functions:
            _count(leaf.functions, name, by)
        for upper, lower in spec.edges:
            _count(leaf.edges, (state(upper), state(lower)), by)
        for upper, lower in spec.hanging:
            _count(leaf.hanging, (state(upper), state(lower)), by)
        if not leaf.functions:
            end.leaf = None
        leaf.settle(end)
        self._note_climbed(leaf, _to_climb(end) if end.deferred else ())
        if end.plain:
            self.stale.add(end)
        for found in mentioned:
            self._release(found)

    def _note_climbed(self, leaf: LeafSpec, states: tuple[State, ...]) -> None:
        for by, each in ((1, states), (-1, leaf.climbed)):
            for state in each:
                state.climbed += by
                if state.plain:
                    self.stale.add(state)
        leaf.climbed = states

    def _state(self, definition: Definition) -> State:
        """Return the state of a definition, added with its prefixes if it is new."""
        root = self.roots.get(definition.channel)
        if root is None:
            root = self.roots[definition.channel] = Branch()
        at = self._in(root, definition.conditions)
        if at is None:
            at = self._new(root, None, "child", DOCUMENT_NODE, definition.conditions)
            self.stale_roots.add(definition.channel)
        for step in definition.steps:
            test = self.tests.number(step.test)
            branch = at.branches(step.axis).get(test)
            if branch is None:
                branch = at.grow(step.axis, test, step.test.kind)
            found = self._in(branch, step.conditions)
            if found is None:
                # Where a branch has guarded states, one more of them changes nothing for the path automaton.
                if at.plain and not (step.conditions and branch.guarded):
                    self.stale.add(at)
                found = self._new(branch, at, step.axis, test, step.conditions)
            at = found
        at.key = at.key or definition.key
        return at

    def _in(self, branch: Branch, conditions: tuple[Condition, ...]) -> State | None:
        guard = self.guards.number(conditions)
        return None if guard is None else branch.get(guard)

    def _new(
        self, branch: Branch, parent: State | None, axis: Axis, test: int, conditions: tuple[Condition, ...]
    ) -> State:
        guard = self.guards.add(test, conditions)
        state = State(parent, axis, test, guard)
        branch.put(guard, state)
        self.count += 1
        return state

    def _release(self, state: State) -> None:
        """Take a state out that nothing speaks of, and those above it that were there for its sake."""
        at: State | None = state
        while at is not None and not at.uses and not at.child and not at.descendant:
            if at.parent is None:
                self._release_root(at)
                return
            branches = at.parent.branches(at.axis)
            branch = branches.get(at.test)
            if branch is None or not branch.take_out(at):
                return  # taken out before
            self._gone(at)
            if branch.empty:
                del branches[at.test]
            if at.parent.plain:
                self.stale.add(at.parent)
            at = at.parent

    def _release_root(self, state: State) -> None:
        for channel, root in self.roots.items():
            if root.take_out(state):
                self._gone(state)
                self.stale_roots.add(channel)
                if root.empty:
                    del self.roots[channel]
                return

    def _gone(self, state: State) -> None:
        self.guards.remove(state.test, state.guard)
        self.count -= 1

    def all_states(self) -> Iterator[State]:
        """Yield every state, parents first."""
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


def _to_climb(end: State) -> tuple[State, ...]:
    """Return the states below the highest upper end of a leaf's edges, on the ways of its chains."""
    assert end.leaf is not None
    if end.leaf.alone:
        return ()
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
