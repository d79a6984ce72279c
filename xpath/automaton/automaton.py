"""All definitions of all queries in one machine.

States (``xpath.automaton.states``) without conditions on their way are *plain*: whether a node reaches them depends on
the names on its path alone.  Over them lies a deterministic automaton on paths of names, built as documents come
(YFilter's construction, made lazy): its node for a path knows the states that are reached there, the witness rows that
every such node gives, and the open elements that the rows' chains speak of.  A document costs a look-up for each
element, whatever the number of definitions.

States with conditions on their way are *guarded*: one predicate index for each node test says which conditions hold at
a node, and the states that are reached are followed element by element (``xscl.xpath.automaton.walk``).

Definitions come and go one by one.  Only the parts of the path automaton that lead through a changed state are
forgotten.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from xscl.base.errors import DocumentLimitError
from xscl.xpath.automaton.chains import chain, check_entries
from xscl.xpath.automaton.row_template import RowTemplate, alone, along_way
from xscl.xpath.automaton.states import Branch, SpecKey, State, WitnessSpec, spec_key
from xscl.xpath.automaton.trie import Trie

__all__ = ["Automaton", "AutomatonSize", "Move", "WitnessSpec"]

MAX_HELD = 30_000_000
"""Greatest size of the path automaton, in references of eight bytes; a larger one starts anew."""


MAX_STRANGERS = 50_000
"""Names that no definition speaks of, which the path automaton keeps nevertheless."""

_ENTRY = 16
"""Size of a table's entry, in references."""


@dataclass(frozen=True, slots=True)
class AutomatonSize:
    """The size of an automaton."""

    states: int
    moves: int
    """Nodes of the path automaton, as far as documents have built it."""
    bytes: int
    """Approximate size of states and path automaton together."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Open elements that wait for descendants, innermost first."""

    states: tuple[State, ...]
    place: int
    """Place of the element on the way of noted open nodes."""
    above: Waiting | None
    attributes: bool
    """Here or above, something waits for attributes."""
    texts: bool

    def __iter__(self) -> Iterator[Waiting]:
        at: Waiting | None = self
        while at is not None:
            yield at
            at = at.above


class Move:
    """A node of the path automaton: what is true at a node once its path is known."""

    __slots__ = (
        "attributes",
        "busy",
        "final",
        "guarded",
        "idle",
        "inner",
        "next",
        "climbed",
        "on_way",
        "place",
        "reached",
        "refused",
        "rows",
        "texts",
        "waiting",
    )

    def __init__(self, reached: tuple[State, ...], place: int, waiting: Waiting | None, *, on_way: bool) -> None:
        self.reached = reached
        """Plain states."""
        self.place = place
        """Number of nodes above on the way: those at which a state is reached, from the document node on."""
        self.on_way = on_way
        """Whether this one is; it stands at ``place`` then."""
        self.waiting = waiting
        """States that wait for descendants of the node."""
        self.inner = tuple([state for state in reached if state.child])
        """States reached here that lead on by the child axis."""
        self.final = not self.inner and waiting is None
        """Nothing below can reach a plain state, or a guarded one from a plain one."""
        self.climbed = tuple([state for state in reached if state.climbed])
        """States reached here from whose nodes chains climb, so that these are to be noted."""
        self.attributes = any(state.attributes for state in self.inner) or (waiting is not None and waiting.attributes)
        self.texts = any(state.texts for state in self.inner) or (waiting is not None and waiting.texts)
        self.guarded: tuple[Branch, ...] = ()
        """Branches with the guarded states that the node may reach from plain ones."""
        self.rows: RowTemplate | None = None
        self.refused = False
        """The rows' chains are too long for any document."""
        self.busy = self.attributes or self.texts or bool(self.climbed)
        """A row template is not all there is to do at the node."""
        self.next: dict[str, Move] = {}
        self.idle: Move | None = None
        """The node of elements below at which nothing is reached."""

    def weight(self) -> int:
        """Return the approximate size in references, without the entries of ``next``."""
        rows = self.rows
        return 64 + 3 * len(self.reached) + (3 * rows.rows + 5 * rows.chain if rows is not None else 0)

    def origins(self, state: State, place: int) -> list[int]:
        """Return the places on the way from which a state is reached at a place, which is this node's or above it."""
        if state.axis == "child":
            return [place - 1]
        assert state.parent is not None
        opened = (at for at in self.waiting or () if state.parent in at.states)
        return [at.place for at in opened if at.place < place]


class Follower(Protocol):
    """Keeps the specs of an automaton in a way of its own."""

    def put(self, spec: WitnessSpec) -> None:
        """Take in a spec."""

    def take_out(self, spec: WitnessSpec) -> None:
        """Let go of a spec."""


class Automaton:
    """Definitions are added and removed; documents are matched by ``xscl.xpath.witness``."""

    def __init__(self, specs: Iterable[WitnessSpec] = ()) -> None:
        self.trie = Trie()
        self.visits = 0
        """Elements that were looked at since the automaton was made."""
        self.epoch = 0
        """Changes when moves are forgotten."""
        self._starts: dict[str, Move] = {}
        self._held = 0
        self._strangers = 0
        self.asked: dict[SpecKey, WitnessSpec] = {}
        self._again: Counter[SpecKey] = Counter()
        """Specs that were added more than once, and how often more."""
        self.follower: Follower | None = None
        """Is told of every spec that comes or goes."""
        for spec in specs:
            self.add(spec)

    def add(self, spec: WitnessSpec) -> None:
        """Ask for the rows of one more spec."""
        self.trie.add(spec)
        key = spec_key(spec)
        if key in self.asked:
            self._again[key] += 1
            return
        self.asked[key] = spec
        if self.follower is not None:
            self.follower.put(spec)

    def remove(self, spec: WitnessSpec) -> None:
        """Ask no longer for the rows of a spec that was added."""
        self.trie.remove(spec)
        key = spec_key(spec)
        if self._again[key]:
            self._again[key] -= 1
            return
        del self._again[key], self.asked[key]
        if self.follower is not None:
            self.follower.take_out(spec)

    def start(self, channel: str) -> Move | None:
        """Return the path automaton's node for the document node of a channel; None if no definition reads the channel.

        To be called between documents: what specs have changed since the last call takes effect.
        """
        if self.trie.stale or self.trie.stale_roots:
            self._forget()
        if self._held > MAX_HELD:
            self._starts.clear()
            self._held = self._strangers = 0
            self.epoch += 1
        found = self._starts.get(channel)
        if found is None:
            root = self.trie.roots.get(channel)
            if root is None:
                return None
            found = self._starts[channel] = self._move(None, [root])
        return found

    def enter(self, move: Move, name: Any) -> Move | None:
        """Go from an element (or the document node) to a child element, an attribute or a text node by its name.

        None for what is no element: the "name" of a comment is no string.
        """
        if not isinstance(name, str):
            return None
        key = self.trie.tests.key(name)
        found = move.next.get(key)
        if found is None:
            found = self._move(move, self._branches(move, name))
            self._remember(move, key, found)
        # Strangers' names have a common key; keeping some of the names as well saves making the key every time.
        if name != key and self._strangers < MAX_STRANGERS and name not in move.next:
            self._strangers += 1
            self._remember(move, name, found)
        return found

    def _remember(self, move: Move, name: str, found: Move) -> None:
        if self._held <= MAX_HELD:
            move.next[name] = found
            self._held += _ENTRY + len(name) // 8

    def _branches(self, move: Move, name: str) -> list[Branch]:
        tests = self.trie.tests.passed(name)
        branches: list[Branch] = []
        for test in tests:
            branches += [state.child[test] for state in move.inner if test in state.child]
            for waiting in move.waiting or ():
                branches += [state.descendant[test] for state in waiting.states if test in state.descendant]
        # Where elements nest, a state may wait at several of them.
        return list(dict.fromkeys(branches))

    def _move(self, above: Move | None, branches: list[Branch]) -> Move:
        place, waiting = (above.place + above.on_way, above.waiting) if above else (0, None)
        if above and not branches:
            if above.idle is None:
                above.idle = Move((), place, waiting, on_way=False) if above.on_way else above
            return above.idle
        reached = tuple([branch.free for branch in branches if branch.free is not None])
        opened = [state for state in reached if state.descendant]
        if opened:
            waiting = _opened(opened, place, waiting)
        move = Move(reached, place, waiting, on_way=True)
        move.guarded = tuple([branch for branch in branches if branch.guarded])
        try:
            move.rows = _template(move)
        except DocumentLimitError:
            move.refused = True
        move.busy |= bool(move.guarded) or move.refused
        self._held += move.weight()
        return move

    def _forget(self) -> None:
        """Drop the moves that lead through stale states."""
        stale = self.trie.stale
        self._held = 0
        self.epoch += 1
        for channel, start in list(self._starts.items()):
            if channel in self.trie.stale_roots or not stale.isdisjoint(start.reached):
                del self._starts[channel]
        waiting = list(self._starts.values())
        seen = set(waiting)
        while waiting:
            move = waiting.pop()
            self._held += move.weight()
            for name, below in list(move.next.items()):
                if not stale.isdisjoint(below.reached):
                    del move.next[name]
                    continue
                self._held += _ENTRY + len(name) // 8
                if below not in seen:
                    seen.add(below)
                    waiting.append(below)
        stale.clear()
        self.trie.stale_roots.clear()

    def moves(self) -> Iterator[Move]:
        """Yield every node of the path automaton."""
        waiting = list(self._starts.values())
        seen = set(waiting)
        while waiting:
            move = waiting.pop()
            yield move
            for below in move.next.values():
                if below not in seen:
                    seen.add(below)
                    waiting.append(below)

    def size(self) -> AutomatonSize:
        """Count and measure states and tables; every one is looked at."""
        size = 0
        for state in self.trie.all_states():
            branches = len(state.child) + len(state.descendant)
            size += sys.getsizeof(state) + sys.getsizeof(state.child) + sys.getsizeof(state.descendant) + 64 * branches
        moves = 0
        for move in self.moves():
            moves += 1
            size += sys.getsizeof(move) + sys.getsizeof(move.next) + 8 * (2 * len(move.reached) + len(move.climbed))
            if move.rows is not None:
                size += sum(sys.getsizeof(getattr(move.rows, each)) for each in ("variables", "functions", "entries"))
                size += sys.getsizeof(move.rows.keys) + sys.getsizeof(move.rows.places)
        return AutomatonSize(self.trie.count, moves, size)


def _template(move: Move) -> RowTemplate | None:
    """Return the rows of the states that are reached at every node of a path.

    Raises:
        DocumentLimitError: their chains have more entries than a document may have.
    """
    leaves = [(state, leaf) for state in move.reached if (leaf := state.leaf) is not None and not leaf.deferred]
    if not leaves:
        return None
    if all(leaf.alone for _, leaf in leaves):
        return alone([(state.key, leaf.functions, bool(leaf.order.pairs)) for state, leaf in leaves])
    chains = []
    pairs = 0
    for state, leaf in leaves:
        entries = chain(state, move.place, origins=move.origins, below=_nothing, reached=None)
        chains.append((state.key, leaf.functions, entries))
        pairs += len(entries)
        check_entries(pairs)
    return along_way(chains, move.place)


def _opened(states: list[State], place: int, above: Waiting | None) -> Waiting:
    return Waiting(
        states=tuple(states),
        place=place,
        above=above,
        attributes=any(state.attributes for state in states) or (above is not None and above.attributes),
        texts=any(state.texts for state in states) or (above is not None and above.texts),
    )


def _nothing(state: State, place: int) -> tuple[int, ...]:
    """Return no edge hangs off the way of a leaf with a template."""
    raise AssertionError(f"{state.key} hangs off at {place}")
