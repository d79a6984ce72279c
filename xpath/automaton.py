"""All definitions of all queries in one machine.

*States* are hash-consed prefixes of definitions: (state before, step).  Two queries that ask for the same path under
the same conditions share its state, so what a document costs grows with distinct definitions, not with queries.

Over the states lies a deterministic automaton on element names, built as documents come (YFilter's construction, made
lazy): its node for an element knows which states the element reaches by structure alone, and which states above wait
for descendants.  Conditions are checked afterwards, only for what structure reached (``witness``), once per (state,
node).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from xscl.xpath.condition import matches_name
from xscl.xpath.pattern import Condition, Definition, NodeTest, Step

__all__ = ["Arrival", "Automaton", "LeafSpec", "Move", "State", "WitnessSpec"]


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


@dataclass(frozen=True, slots=True)
class State:
    """A prefix of definitions.  ``parent`` is -1 for the document node of a channel."""

    parent: int
    step: Step | None
    conditions: tuple[Condition, ...]
    """On the node itself."""
    key: int
    """The digest of the definition that ends here."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A state that a node reaches from ``parent``; ``by_child``: only from the node's parent element."""

    state: int
    parent: int
    by_child: bool


@dataclass(slots=True)
class Move:
    """A node of the lazy automaton: what is true at an element once its path is known."""

    arrivals: tuple[Arrival, ...]
    """States the element reaches."""
    reached: frozenset[int]
    waiting: frozenset[int]
    """States with descendant steps, reached here or above."""
    opens: tuple[int, ...]
    """States with descendant steps reached here."""
    attributes: tuple[tuple[NodeTest, Arrival], ...]
    texts: tuple[Arrival, ...]
    next: dict[str, Move] = field(default_factory=dict)

    @property
    def dead(self) -> bool:
        """Nothing below can match."""
        return not self.reached and not self.waiting


@dataclass(slots=True)
class LeafSpec:
    """What is wanted of a state's nodes, gathered over all queries."""

    functions: set[str | None] = field(default_factory=set)
    edges: set[tuple[int, int]] = field(default_factory=set)
    hanging: set[tuple[int, int]] = field(default_factory=set)


class Automaton:
    """Built once per set of specs; documents are matched by ``xscl.xpath.witness``."""

    def __init__(self, specs: Iterable[WitnessSpec]) -> None:
        self.states: list[State] = []
        self.leaves: defaultdict[int, LeafSpec] = defaultdict(LeafSpec)
        self.roots: defaultdict[str, dict[tuple[Condition, ...], int]] = defaultdict(dict)
        self._by_step: dict[tuple[int, Step], int] = {}
        self._below: defaultdict[int, list[int]] = defaultdict(list)
        self._moves: dict[tuple[tuple[Arrival, ...], frozenset[int]], Move] = {}
        self._starts: dict[str, Move] = {}
        self._names: set[str] = set()
        self._any_uri: set[str] = set()
        self._any_local: set[str] = set()
        for spec in specs:
            leaf = self.leaves[self.state(spec.definition)]
            leaf.functions.update(spec.functions)
            leaf.edges.update((self.state(upper), self.state(lower)) for upper, lower in spec.edges)
            leaf.hanging.update((self.state(upper), self.state(lower)) for upper, lower in spec.hanging)

    def state(self, definition: Definition) -> int:
        """The state of a definition, added with its prefixes if it is new."""
        roots = self.roots[definition.channel]
        at = roots.get(definition.conditions)
        if at is None:
            key = Definition(definition.channel, (), definition.conditions).key
            at = roots[definition.conditions] = self._add(State(-1, None, definition.conditions, key))
        for index, step in enumerate(definition.steps):
            known = self._by_step.get((at, step))
            if known is None:
                key = Definition(definition.channel, definition.steps[: index + 1], definition.conditions).key
                known = self._add(State(at, step, step.conditions, key))
                self._by_step[at, step] = known
                self._below[at].append(known)
                self._learn_name(step.test)
            at = known
        return at

    def _add(self, state: State) -> int:
        self.states.append(state)
        return len(self.states) - 1

    def _learn_name(self, test: NodeTest) -> None:
        if test.kind != "element":
            return
        if test.local is not None and test.uri is not None:
            self._names.add(f"{{{test.uri}}}{test.local}" if test.uri else test.local)
        elif test.local is not None:
            self._any_uri.add(test.local)
        elif test.uri is not None:
            self._any_local.add(test.uri)

    def start(self, channel: str) -> Move | None:
        """The automaton's node for the document node of a channel; None if no query reads the channel."""
        if channel not in self._starts and channel in self.roots:
            roots = sorted(self.roots[channel].values())
            self._starts[channel] = self._move(tuple(Arrival(root, -1, True) for root in roots), frozenset())
        return self._starts.get(channel)

    def enter(self, move: Move, tag: str) -> Move:
        """From an element (or the document node) to a child element named ``tag``."""
        key = self._key(tag)
        found = move.next.get(key)
        if found is None:
            arrivals = [
                *self._arrivals(move.reached, tag, "child"),
                *self._arrivals(move.waiting, tag, "descendant"),
            ]
            found = self._move(tuple(arrivals), move.waiting)
            move.next[key] = found
        return found

    def _key(self, tag: str) -> str:
        """What the tests can tell of a name: strangers' names get no entries of their own, so memory stays bounded."""
        if tag in self._names:
            return tag
        if not self._any_uri and not self._any_local:
            return ""
        uri, _, local = tag[1:].rpartition("}") if tag[0] == "{" else ("", "", tag)
        return f"{uri if uri in self._any_local else ''}|{local if local in self._any_uri else ''}"

    def _arrivals(self, parents: frozenset[int], tag: str, axis: str) -> Iterable[Arrival]:
        for parent in sorted(parents):
            for below in self._below[parent]:
                step = self.states[below].step
                assert step is not None
                if step.axis == axis and step.test.kind == "element" and matches_name(step.test, tag):
                    yield Arrival(below, parent, axis == "child")

    def _move(self, arrivals: tuple[Arrival, ...], above: frozenset[int]) -> Move:
        known = self._moves.get((arrivals, above))
        if known is not None:
            return known
        reached = frozenset(arrival.state for arrival in arrivals)
        opens = tuple(state for state in sorted(reached) if self._has_descendant_step(state))
        waiting = above | frozenset(opens)
        attributes, texts = [], []
        for parents, by_child in ((reached, True), (waiting, False)):
            for parent in sorted(parents):
                for below in self._below[parent]:
                    step = self.states[below].step
                    assert step is not None
                    if (step.axis == "child") is not by_child or step.test.kind == "element":
                        continue
                    arrival = Arrival(below, parent, by_child)
                    if step.test.kind == "text":
                        texts.append(arrival)
                    else:
                        attributes.append((step.test, arrival))
        move = Move(arrivals, reached, waiting, opens, tuple(attributes), tuple(texts))
        self._moves[arrivals, above] = move
        return move

    def _has_descendant_step(self, state: int) -> bool:
        steps = (self.states[below].step for below in self._below[state])
        return any(step is not None and step.axis == "descendant" for step in steps)
