"""Visits of the nodes of a chunk: what a walk notes, without a walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xscl.xpath import chains
from xscl.xpath.automaton import Automaton, Move
from xscl.xpath.chunk_texts import attribute_values, string_values, text_values
from xscl.xpath.column_chunk import Beside, Bools, ColumnChunk
from xscl.xpath.nodes import DOCUMENT
from xscl.xpath.path_moves import NO_TEMPLATE, PathMoves
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


class ChunkVisits:
    """The visits of a chunk, document by document."""

    def __init__(self, automaton: Automaton, chunk: ColumnChunk, moves: PathMoves, begins: Mapping[str, Move]) -> None:
        """``begins`` are the moves of document nodes, by channel."""
        self._chunk = chunk
        moves.learn(automaton, chunk.roots, begins)
        moves.learn(automaton, chunk.path, begins)
        kinds = [_document_nodes(chunk), _elements(chunk)]
        if len(chunk.attribute_path) and moves.attributes[chunk.path].any():
            kinds.append(_beside(chunk, 2, chunk.attributes, chunk.attribute_path, chunk.attribute_numbers))
        if moves.texts[chunk.path].any():
            kinds.append(_beside(chunk, 3, chunk.texts, chunk.text_path, chunk.text_numbers))
        left = np.zeros(len(chunk.places), dtype=np.bool_)
        found = []
        for nodes in kinds:
            moves.learn(automaton, nodes.path, begins)
            left[nodes.document[moves.beyond[nodes.path]]] = True
            found.append(nodes.at(moves.template[nodes.path] != NO_TEMPLATE))
        every = _Nodes(*(np.concatenate(column) for column in zip(*found, strict=True)))
        self._moves = moves
        which = moves.template[every.path]
        sizes = every.size * moves.rows[which] * (moves.asked[which] > 0)
        left |= self._sums(every, moves.pairs[which]) > chains.MAX_CHAIN_ENTRIES
        left |= self._sums(every, sizes) > chains.MAX_VALUE_CHARACTERS
        self.left = left
        """Documents that ask for more than rows of templates, or for very many; they have no visits here."""
        order = np.argsort(every.document, kind="stable")
        order = order[~left[every.document[order]]]
        self._nodes, self._which = every.at(order), which[order]
        self._bounds = np.searchsorted(self._nodes.document, np.arange(len(left) + 1))
        amounts = [moves.rows[self._which], moves.entries[self._which], sizes[order]]
        self._amounts = [np.cumsum(self._sums(self._nodes, amount)) for amount in amounts]
        automaton.visits += int(np.diff(chunk.first)[~left].sum())
        self._next = 0
        """Number of the next document."""

    def _sums(self, nodes: _Nodes, amounts: Int64s) -> Int64s:
        return np.bincount(nodes.document, amounts, len(self._chunk.places)).astype(np.int64)

    @property
    def waits(self) -> bool:
        """Whether some documents are left."""
        return self._next < len(self.left)

    def following(self, rows: int, entries: int, characters: int) -> tuple[Visits, int, int, int]:
        """Return the visits of the next documents, and how many rows, chain entries and characters they give.

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
        return self._visits(slice(self._bounds[low], self._bounds[high])), found[0], found[1], found[2]

    def _visits(self, places: slice) -> Visits:
        nodes, which, moves = _Nodes(*(column[places] for column in self._nodes)), self._which[places], self._moves
        asked = moves.asked[which] > 0
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
            templates=moves.templates,
            which=which,
            texts=pa.concat_arrays(texts) if texts else pa.array([], pa.string()),
            text=text,
            nodes=self._climbed(nodes, which).astype(np.int32),
        )

    def _climbed(self, nodes: _Nodes, which: Int64s) -> Int64s:
        """Return the numbers of the nodes on the way to each node, itself the last."""
        chunk, moves = self._chunk, self._moves
        counts = moves.way[which] + 1
        if not counts.max(initial=0) > 1:
            return nodes.number
        at, node = gather(moves.hops_begin[nodes.path], counts)
        # An attribute or a text is a level below its element.
        hops = moves.hops[at] - (nodes.kind > 1)[node]
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


def _beside(chunk: ColumnChunk, kind: int, nodes: Beside, path: Int64s, numbers: Int64s) -> _Nodes:
    rows = np.arange(len(path))
    documents = chunk.document[nodes.owner]
    return _Nodes(documents, path, np.full_like(rows, kind), rows, nodes.owner, numbers, nodes.end - nodes.begin)
