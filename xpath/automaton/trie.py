"""The trie of steps: all states of the automaton, by channel, as specs come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from xscl.xpath.automaton.names import NodeTests
from xscl.xpath.automaton.states import DOCUMENT_NODE, Branch, LeafSpec, State, WitnessSpec
from xscl.xpath.guards import Guards
from xscl.xpath.pattern import Axis, Condition, Definition

__all__ = ["Trie"]

_Thing = TypeVar("_Thing")


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
        ways: list[State] = []
        for counter, pairs in ((leaf.edges, spec.edges), (leaf.hanging, spec.hanging)):
            for upper, lower in pairs:
                pair = state(upper), state(lower)
                there = pair in counter
                _count(counter, pair, by)
                if there is not (pair in counter):
                    ways += _to_climb(end, pair)
        if not leaf.functions:
            end.leaf = None
        leaf.settle(end)
        self._note_climbed(end, leaf, ways, by)
        if end.plain:
            self.stale.add(end)
        for found in mentioned:
            self._release(found)

    def _note_climbed(self, end: State, leaf: LeafSpec, ways: Sequence[State], by: int) -> None:
        """Note from which nodes the chains of a leaf climb, after as many edges more or less with these ways."""
        climbs = end.deferred and leaf.way is None
        if climbs is not leaf.climbs:
            # Before or afterwards, no node was noted.
            self._note(leaf.ways.keys() | {end}, -1 if leaf.climbs else 0)
            _count_all(leaf.ways, ways, by)
            self._note(leaf.ways.keys() | {end}, 1 if climbs else 0)
            leaf.climbs = climbs
            return
        touched = {*ways} - {end}
        before = touched & leaf.ways.keys()
        _count_all(leaf.ways, ways, by)
        if climbs:
            self._note(before ^ touched & leaf.ways.keys(), by)

    def _note(self, states: Iterable[State], by: int) -> None:
        for state in states if by else ():
            state.climbed += by
            if state.plain:
                self.stale.add(state)

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


def _count_all(counter: Counter[_Thing], things: Iterable[_Thing], by: int) -> None:
    for thing in things:
        _count(counter, thing, by)


def _to_climb(end: State, edge: tuple[State, State]) -> Iterator[State]:
    """Yield the states below the upper end of an edge, on the ways of chains from a leaf and from the lower end."""
    upper, lower = edge
    for state in (end, lower):
        at = state
        while at.depth > upper.depth and at.parent is not None:
            yield at
            at = at.parent


def _members(branch: Branch) -> Iterator[State]:
    if branch.free is not None:
        yield branch.free
    yield from branch.guarded.values()
