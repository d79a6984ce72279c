"""Paths of documents in columns to the moves of an automaton.

The states that a node reaches without conditions on its way depend on its path alone.  So the automaton is asked once
for each path, and all nodes of a path get its rows together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xscl.xpath.automaton.automaton import Automaton, Move
from xscl.xpath.automaton.row_template import RowTemplate, template_columns
from xscl.xpath.automaton.states import Branch
from xscl.xpath.columns.names import ChunkNames
from xscl.xpath.moves.guard_sets import GuardSets
from xscl.xpath.moves.guarded_states import GuardedStates
from xscl.xpath.runs import Int64s

__all__ = ["NO_TEMPLATE", "PathMoves"]

NO_TEMPLATE = -1
_WORTH = 64
"""Documents whose walks cost as much as to prepare the conditions for columns, if there are more of these."""


class PathMoves:
    """The moves of an automaton, in arrays by path; those of templates are by their number."""

    def __init__(self) -> None:
        self.names = ChunkNames()
        self._since = 0, 0
        self._guards = GuardSets()
        self._guarded: GuardedStates | None = None
        self._walked = 0
        """Documents that came since the guarded states were prepared."""
        self._forget()

    def guarded_states(self, automaton: Automaton, documents: int) -> GuardedStates | None:
        """Return the guarded states for so many documents; None while it is sooner to walk these.

        A change of the specs makes them anew; sets of conditions that came or went change what is known of the others
        not.
        """
        trie = automaton.trie
        self._walked += documents
        if self._guarded is None or self._guarded.changes != trie.changes:
            if self._guarded is not None and self._walked < min(len(trie.guards), _WORTH):
                return None
            self._guarded, self._walked = GuardedStates(trie, self._guards), 0
        return self._guarded

    def _forget(self) -> None:
        self.moves: dict[int, Move | None] = {}
        self._ways: dict[int, tuple[int, ...]] = {}
        """Levels of the nodes on the way to each path's nodes."""
        self.known, self.beyond, self.guarded, self.attributes, self.texts = np.zeros((5, 0), dtype=np.bool_)
        self.template = np.zeros(0, dtype=np.int64)
        self.hops_begin = np.zeros(0, dtype=np.int64)
        self._hops = [0]
        """Begins with that of a node alone."""
        self.templates: list[RowTemplate] = []
        self._arrays()

    def learn(self, automaton: Automaton, paths: Int64s, begins: Mapping[str, Move]) -> None:
        """Ask the automaton for the moves of paths, whose parents are known or among them.

        ``begins`` are the moves of document nodes, by channel.
        """
        names = self.names
        since = names.epoch, automaton.epoch
        if since != self._since:
            self._forget()
            self._since = since
        if len(self.known) < len(names.ends):
            self._grow(2 * len(names.ends))
        unknown = paths[~self.known[paths]]
        if not len(unknown):
            return
        # A path has a greater number than its parent.
        for path in np.flatnonzero(np.bincount(unknown)).tolist():
            parent = names.parents[path]
            move: Move | None = None
            way: tuple[int, ...] = ()
            if parent < 0:
                move = begins[names.channel(path)]
            elif (above := self.moves[parent]) is not None:
                move = automaton.enter(above, names.names[names.ends[path]])
                way = (*self._ways[parent], names.levels[parent]) if above.on_way else self._ways[parent]
            self.known[path] = True
            self.moves[path], self._ways[path] = move, way
            if move is not None:
                self._note(path, move, way)
        self._arrays()

    def branches(self, path: int) -> tuple[Branch, ...]:
        """Return the branches that lead to guarded states at nodes of a path."""
        move = self.moves[path]
        return () if move is None else move.guarded

    def _note(self, path: int, move: Move, way: tuple[int, ...]) -> None:
        self.beyond[path] = bool(move.climbed) or move.refused
        self.guarded[path] = bool(move.guarded)
        self.attributes[path], self.texts[path] = move.attributes, move.texts
        template = move.rows
        if template is not None:
            self.template[path] = len(self.templates)
            self.templates.append(template)
            self.hops_begin[path] = len(self._hops)
            self._hops += [*(self.names.levels[path] - level for level in way[: template.way]), 0]

    def _arrays(self) -> None:
        """Make arrays anew."""
        self.columns = template_columns(self.templates)
        self.hops = np.array(self._hops, dtype=np.int64)
        """Levels between a node and those on its way, the node itself being the last; path by path."""

    def _grow(self, size: int) -> None:
        for name in ("known", "beyond", "guarded", "attributes", "texts", "template", "hops_begin"):
            old = getattr(self, name)
            new = np.full(size, NO_TEMPLATE if name == "template" else 0, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
