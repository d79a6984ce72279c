"""Visits of the nodes of a chunk: what a walk notes, without a walk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xscl.base.number_order import order_of
from xscl.xpath.automaton import chains
from xscl.xpath.automaton.automaton import Automaton, Move
from xscl.xpath.columns.chunk import Beside, Bools, ColumnChunk
from xscl.xpath.columns.steps import ChunkSteps, Kind
from xscl.xpath.columns.texts import attribute_values, string_values, text_values
from xscl.xpath.fact_rows import Facts, FactVariables
from xscl.xpath.moves.guarded_states import Seeds
from xscl.xpath.moves.paths import NO_TEMPLATE, PathMoves
from xscl.xpath.nodes import DOCUMENT
from xscl.xpath.runs import Int64s, gather
from xscl.xpath.witness_columns import Visits

__all__ = ["ChunkVisits"]

_VALUES: tuple[Callable[[ColumnChunk, Int64s], pa.StringArray], ...]
_VALUES = string_values, string_values, attribute_values, text_values
"""String values by kind: of document nodes, elements, attributes, texts."""


class _Nodes(NamedTuple):
    """Nodes of a chunk."""

    document: Int64s
    path: Int64s
    kind: Int64s
    row: Int64s
    """The row of the element, attribute or text node; of a document node, that of the root element."""
    element: Int64s
    """The row of the element, or of the owner; -1 for a document node."""
    number: Int64s
    """The number in the document."""
    size: Int64s
    """Bytes of the string value, or some more."""

    def at(self, places: Int64s | Bools) -> _Nodes:
        return _Nodes(*(column[places] for column in self))


class _Found(NamedTuple):
    """Nodes at which templates' rows are due."""

    nodes: _Nodes
    which: Int64s
    """Number of the template of each."""
    begin: Int64s
    """Begin of each node's way in the hops: those of paths, and behind them those of states with conditions."""


class ChunkVisits:
    """The visits of a chunk, document by document."""

    def __init__(
        self,
        automaton: Automaton,
        chunk: ColumnChunk,
        moves: PathMoves,
        begins: Mapping[str, Move],
        known: FactVariables,
    ) -> None:
        """``begins`` are the moves of document nodes, by channel; ``known`` are the facts that need no visits."""
        self._chunk, self._moves, self._known = chunk, moves, known
        self._facts: list[Facts] = []
        moves.learn(automaton, chunk.roots, begins)
        moves.learn(automaton, chunk.path, begins)
        self._kinds: dict[Kind, _Nodes] = {}
        self.postponed = False
        """Documents were left because it is too soon to prepare conditions for columns."""
        self.left = np.zeros(len(chunk.places), dtype=np.bool_)
        """Documents that ask for more than rows of templates, or for very many; they have no visits here."""
        kinds = self._kinds_asked()
        found = list(self._plain(automaton, kinds, begins))
        self._templates, self._columns, self._hops = moves.templates, moves.columns, moves.hops
        found += self._guarded(automaton, kinds, self.left)
        self._order(found)
        automaton.visits += int(np.diff(chunk.first)[~self.left].sum())
        self._next = 0
        """Number of the next document."""

    def _kinds_asked(self) -> list[Kind]:
        """Return the kinds of nodes that something leads to."""
        chunk, moves = self._chunk, self._moves
        kinds: list[Kind] = ["document", "element"]
        if len(chunk.attribute_path) and moves.attributes[chunk.path].any():
            kinds.append("attribute")
        if moves.texts[chunk.path].any():
            kinds.append("text")
        return kinds

    def _plain(self, automaton: Automaton, kinds: Sequence[Kind], begins: Mapping[str, Move]) -> Iterator[_Found]:
        """Yield the nodes at which their paths alone say what is due; documents with paths that say more are left."""
        moves = self._moves
        for kind in kinds:
            nodes = self._of_kind(kind)
            moves.learn(automaton, nodes.path, begins)
            self.left[nodes.document[moves.beyond[nodes.path]]] = True
            nodes = nodes.at(moves.template[nodes.path] != NO_TEMPLATE)
            yield _Found(nodes, moves.template[nodes.path], moves.hops_begin[nodes.path])

    def _order(self, found: Sequence[_Found]) -> None:
        """Bring all that was found into the order of documents, and count what each gives; too large ones are left."""
        left = self.left
        every = _Nodes(*(np.concatenate(column) for column in zip(*(nodes for nodes, _, _ in found), strict=True)))
        which, begin = (np.concatenate([each[place] for each in found]) for place in (1, 2))
        rows, entries, pairs, _, asked = self._columns
        sizes = every.size * rows[which] * (asked[which] > 0)
        left |= self._sums(every, pairs[which]) > chains.MAX_CHAIN_ENTRIES
        left |= self._sums(every, sizes) > chains.MAX_VALUE_CHARACTERS
        order = order_of(every.document, len(left))
        order = order[~left[every.document[order]]]
        self._found = _Found(every.at(order), which[order], begin[order])
        self._bounds = np.searchsorted(every.document[order], np.arange(len(left) + 1))
        amounts = [self._sums(self._found.nodes, amount[order]) for amount in (rows[which], entries[which], sizes)]
        self._order_facts()
        amounts[1] += np.diff(self._fact_bounds)
        self._amounts = [np.cumsum(amount) for amount in amounts]

    def _of_kind(self, kind: Kind) -> _Nodes:
        if kind not in self._kinds:
            self._kinds[kind] = _NODES[kind](self._chunk)
        return self._kinds[kind]

    def _guarded(self, automaton: Automaton, kinds: Sequence[Kind], left: Bools) -> Iterator[_Found]:
        """Yield the nodes at which guarded states are reached; documents with those that chains note are left."""
        seeds = [self._seeds(kind) for kind in kinds]
        if not any(each.branches for each in seeds):
            return
        chunk = self._chunk
        states = self._moves.guarded_states(automaton, len(chunk.places))
        if states is None:
            self.postponed = True
            for each in seeds:
                left[self._of_kind(each.kind).document[each.rows]] = True
            return
        behind = len(self._templates)
        self._templates = [*self._templates, *states.templates]
        self._columns = np.concatenate([self._columns, states.columns], axis=1)
        # The way of a node that conditions lead to is one of all levels right above it.
        longest = int(states.columns[3].max(initial=0))
        begin = len(self._hops) + longest - states.columns[3]
        self._hops = np.concatenate([self._hops, np.arange(longest, -1, -1)])
        facts = np.full(len(states.templates), -1)
        facts[states.bare[:, 0]] = self._known.numbers(states.bare[:, 1])
        bindings = np.zeros(len(left))
        for kind, rows, of in states.reached(ChunkSteps(chunk), seeds):
            nodes = self._of_kind(kind)
            left[nodes.document[rows[states.beyond[of]]]] = True
            template = states.template[of]
            rows, template = rows[template != NO_TEMPLATE], template[template != NO_TEMPLATE]
            bindings += np.bincount(nodes.document[rows], minlength=len(left))
            number = facts[template]
            self._facts.append(Facts(nodes.document[rows[number >= 0]], number[number >= 0]))
            rows, template = rows[number < 0], template[number < 0]
            yield _Found(nodes.at(rows), template + behind, begin[template])
        left |= bindings > chains.MAX_CHAIN_ENTRIES

    def _order_facts(self) -> None:
        """Bring the facts of documents that are not left into order."""
        none = np.empty(0, dtype=np.int64)
        documents, numbers = map(np.concatenate, zip(Facts(none, none), *self._facts, strict=True))
        kept = ~self.left[documents]
        codes = np.sort(documents[kept] << 32 | numbers[kept])
        self._facts_found = Facts(codes >> 32, codes & ((1 << 32) - 1))
        self._fact_bounds = np.searchsorted(self._facts_found.documents, np.arange(len(self.left) + 1))

    def _seeds(self, kind: Kind) -> Seeds:
        """Return the nodes to which branches lead from plain states to guarded ones."""
        paths = self._of_kind(kind).path
        rows = np.flatnonzero(self._moves.guarded[paths])
        rows = rows[np.argsort(paths[rows], kind="stable")]
        distinct, first, counts = np.unique(paths[rows], return_index=True, return_counts=True)
        of_path = [self._moves.branches(path) for path in distinct.tolist()]
        many = [len(branches) for branches in of_path]
        every = [branch for branches in of_path for branch in branches]
        return Seeds(kind, rows, every, np.repeat(first, many), np.repeat(counts, many))

    def _sums(self, nodes: _Nodes, amounts: Int64s) -> Int64s:
        return np.bincount(nodes.document, amounts, len(self._chunk.places)).astype(np.int64)

    @property
    def waits(self) -> bool:
        """Whether some documents are left."""
        return self._next < len(self.left)

    def following(self, rows: int, entries: int, characters: int) -> tuple[Visits, Facts, int, int, int]:
        """Return the visits and facts of the next documents, and the rows, chain entries and characters they give.

        The last document brings one of these up to what is given.
        """
        low = self._next
        before = [int(amount[low - 1]) if low else 0 for amount in self._amounts]
        room = rows, entries, characters
        ends = [
            int(np.searchsorted(amount, done + most))
            for amount, done, most in zip(self._amounts, before, room, strict=True)
        ]
        self._next = high = min(*ends, len(self.left) - 1) + 1
        found = [int(amount[high - 1]) - done for amount, done in zip(self._amounts, before, strict=True)]
        of = slice(self._fact_bounds[low], self._fact_bounds[high])
        facts = Facts(self._chunk.places[self._facts_found.documents[of]], self._facts_found.numbers[of])
        return self._visits(slice(self._bounds[low], self._bounds[high])), facts, found[0], found[1], found[2]

    def _visits(self, places: slice) -> Visits:
        found = self._found
        nodes, which = _Nodes(*(column[places] for column in found.nodes)), found.which[places]
        asked = self._columns[4][which] > 0
        text = np.full(len(which), -1)
        texts = []
        behind = 0
        for kind, values in enumerate(_VALUES):
            here = np.flatnonzero(asked & (nodes.kind == kind))
            if len(here):
                texts.append(values(self._chunk, nodes.row[here]))
                text[here] = np.arange(behind, behind + len(here))
                behind += len(here)
        return Visits(
            documents=self._chunk.places[nodes.document].astype(np.int32),
            templates=self._templates,
            which=which,
            texts=pa.concat_arrays(texts) if texts else pa.array([], pa.string()),
            text=text,
            nodes=self._climbed(nodes, self._columns[3][which] + 1, found.begin[places]).astype(np.int32),
        )

    def _climbed(self, nodes: _Nodes, counts: Int64s, begin: Int64s) -> Int64s:
        """Return the numbers of the nodes on the way to each node, itself the last."""
        chunk = self._chunk
        if not counts.max(initial=0) > 1:
            return nodes.number
        at, node = gather(begin, counts)
        # An attribute or a text is a level below its element.
        hops = self._hops[at] - (nodes.kind > 1)[node]
        rows = nodes.element[node]
        climbing = np.flatnonzero(hops > 0)
        while len(climbing):
            rows[climbing] = chunk.parent[rows[climbing]]
            hops[climbing] -= 1
            climbing = climbing[hops[climbing] > 0]
        numbers = np.where(rows < 0, DOCUMENT, rows - chunk.first[nodes.document[node]])
        numbers[np.cumsum(counts) - 1] = nodes.number
        return numbers


def _document_nodes(chunk: ColumnChunk) -> _Nodes:
    documents = np.arange(len(chunk.places))
    above = np.full(len(documents), -1)
    sizes = chunk.sizes[chunk.first[:-1]]
    return _Nodes(documents, chunk.roots, 0 * documents, chunk.first[:-1], above, above, sizes)


def _elements(chunk: ColumnChunk) -> _Nodes:
    rows = np.arange(len(chunk.path))
    return _Nodes(chunk.document, chunk.path, np.ones_like(rows), rows, rows, chunk.numbers(rows), chunk.sizes)


def _attributes(chunk: ColumnChunk) -> _Nodes:
    return _beside(chunk, 2, chunk.attributes, chunk.attribute_path, chunk.attribute_numbers)


def _texts(chunk: ColumnChunk) -> _Nodes:
    return _beside(chunk, 3, chunk.texts, chunk.text_path, chunk.text_numbers)


def _beside(chunk: ColumnChunk, kind: int, nodes: Beside, path: Int64s, numbers: Int64s) -> _Nodes:
    rows = np.arange(len(path))
    documents = chunk.document[nodes.owner]
    return _Nodes(documents, path, np.full_like(rows, kind), rows, nodes.owner, numbers, nodes.end - nodes.begin)


_NODES: Mapping[Kind, Callable[[ColumnChunk], _Nodes]] = {
    "document": _document_nodes,
    "element": _elements,
    "attribute": _attributes,
    "text": _texts,
}
