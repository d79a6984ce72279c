"""The states of the automaton: steps, and what is wanted of the nodes that reach a state.

States are hash-consed prefixes of definitions: (state before, step).  Two queries that ask for the same path under the
same conditions share its state, so what a document costs grows with distinct definitions, not with queries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xscl.base.mixed import by_column
from xscl.base.own_functions import own_parts
from xscl.base.values import hash64
from xscl.xpath.automaton.row_template import RowTemplate, along_way
from xscl.xpath.guards import FREE
from xscl.xpath.pattern import Axis, Definition

__all__ = [
    "DOCUMENT_NODE",
    "Branch",
    "LeafSpec",
    "SpecKey",
    "State",
    "WitnessSpec",
    "own_digest",
    "own_digests",
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
    """Return 64 bits, never 0, that stand for what a spec asks of a document, wherever only a number fits.

    There are two if it wants rows with values and rows without.  Which functions it wants makes no difference, because
    that changes when more is known of a channel, while rows are kept.
    """
    definition, functions, edges, hanging = spec_key(spec)
    kinds = {function is not None for function in functions}
    return frozenset(hash64(repr((definition, valued, edges, hanging))) or 1 for valued in kinds)


def own_digest(definition: int, own: tuple[str, ...]) -> int:
    """Return 64 bits, never 0, that stand for a wish for values of a variable by these functions of one's own."""
    return hash64(repr((definition, own))) or 1


def own_digests(spec: WitnessSpec) -> frozenset[int]:
    """Return ``own_digest`` of all values that a spec asks for by functions of one's own."""
    own = {own_parts(function) for function in spec.functions if function is not None}
    return frozenset(own_digest(spec.definition.key, names) for names in own if names)


@dataclass(slots=True)
class LeafSpec:
    """The requests for a state's nodes, each with the number of specs that make it."""

    functions: Counter[str | None] = field(default_factory=Counter)
    edges: Counter[tuple[State, State]] = field(default_factory=Counter)
    hanging: Counter[tuple[State, State]] = field(default_factory=Counter)
    ways: Counter[State] = field(default_factory=Counter)
    """States on the ways of chains, each with the number of edges whose chains climb from it."""
    deferred: bool = False
    """Its rows are made when the document has been walked: an edge hangs off the way, conditions stand on it, or values
    differ by the name of the node."""
    way: int | None = 0
    """Levels of a document from a node up to the highest end of an edge, 0 where no edge leads to another node.  None:
    they differ, since a step to descendants lies between; or an edge hangs off, or values differ by the node's name.
    """
    climbs: bool = False
    """Nodes must be noted for the sake of this leaf's chains."""
    template: RowTemplate | None = None
    """The rows of a node, where the leaf has conditions and a ``way``; made when first asked for."""
    _order: EdgeOrder | None = None

    @property
    def alone(self) -> bool:
        """Whether no edge leads from or to another node, and values do not differ by the name of the node."""
        return self.way == 0

    @property
    def order(self) -> EdgeOrder:
        """All edges in the order in which chains are made."""
        if self._order is None:
            self._order = EdgeOrder.of({*self.edges, *self.hanging})
        return self._order

    def settle(self, end: State) -> None:
        """Bring what follows from the edges up to date; ``end`` is the leaf's state."""
        hangs = bool(self.hanging) or not all(_on_way(lower, end) for _, lower in self.edges)
        named = any(map(by_column, self.functions))
        self.deferred = hangs or not end.plain or named
        self.template = self._order = None
        top = min([upper.depth for upper, _ in self.edges], default=end.depth)
        self.way = None if hangs or named else _levels_up(end, top)


class EdgeOrder(NamedTuple):
    """Edges in the order in which chains are made."""

    pairs: tuple[tuple[State, State], ...]
    """Edges; one with a higher upper end comes first."""
    of_lower: Mapping[State, Sequence[int]]
    """The places of edges by their lower end."""

    @classmethod
    def of(cls, edges: Iterable[tuple[State, State]]) -> EdgeOrder:
        """Put edges in order."""
        # The keys make the order the same in every process.
        pairs = tuple(sorted(edges, key=lambda pair: (pair[0].depth, pair[1].depth, pair[0].key, pair[1].key)))
        of_lower: defaultdict[State, list[int]] = defaultdict(list)
        for place, (_, lower) in enumerate(pairs):
            of_lower[lower].append(place)
        return cls(pairs, dict(of_lower))

    @property
    def top(self) -> int | None:
        """The depth of the highest upper end; None: there is no edge."""
        return self.pairs[0][0].depth if self.pairs else None

    def reaching(self, states: Collection[State]) -> Iterable[tuple[State, State]]:
        """Return the edges whose lower ends are among some states, in order."""
        if len(states) >= len(self.pairs):
            return self.pairs
        places = sorted(place for state in states for place in self.of_lower.get(state, ()))
        return [self.pairs[place] for place in places]


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
        """Return the rows of a node that is reached where conditions hold; None if they differ from node to node.

        The open nodes of its way are those right above the node, one of each level.
        """
        leaf = self.leaf
        if leaf is None or leaf.way is None:
            return None
        if leaf.template is None:
            top = self.depth - leaf.way
            entries = sorted((up.key, low.key, up.depth - top, low.depth - top) for up, low in leaf.order.pairs)
            leaf.template = along_way([(self.key, leaf.functions, entries)], leaf.way)
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


def _levels_up(end: State, top: int) -> int | None:
    """Return the levels between nodes of a state and those of the one at depth ``top`` above it; None: they differ."""
    at = end
    while at.depth > top and at.parent is not None:
        if at.axis == "descendant":
            return None
        at = at.parent
    return end.depth - top


def _on_way(state: State, end: State) -> bool:
    at: State | None = end
    while at is not None and at is not state:
        at = at.parent
    return at is state
