"""Queries about absence as this process remembers them from batch to batch: their parts, and who reads answers.

With many such queries nearly each event is about other ones.  So they are columns in memory, read once, and a batch
reads what has come and gone since.  Nothing of it decides an answer: the catalogue says the same.
"""

from __future__ import annotations

import numpy as np
from sqlalchemy.engine import Connection

from xscl.batches.bindings import Parts
from xscl.catalog.absences import asked_since, dropped_until, groups_asked
from xscl.catalog.parts import parts_behind
from xscl.catalog.query_state import QueryState, query_state
from xscl.catalog.tables import NEVER, OF_STEPS, OF_WINDOWS
from xscl.templates.columns import Bools, Int64s, gather, rising, within

__all__ = ["AbsenceMemory"]

_NONE: Int64s = np.empty(0, np.int64)


class AbsenceMemory:
    """Memory of one process that works on a home."""

    def __init__(self) -> None:
        """Begin without anything."""
        self._state: QueryState | None = None
        self._forget()

    def _forget(self) -> None:
        self._parts = Parts.of(())
        self._last = 0
        """Last group whose parts were read."""
        self._by_part = _NONE
        """Their order by the groups that find them."""
        self._finders = _NONE
        """Groups that find a part of others, of windows and steps as well."""
        self._queries = np.empty((0, 4), np.int64)
        """Queries as ``Readers`` takes them."""
        self._asked = _NONE
        """Groups that find a part and have queries of their own."""

    def read(self, connection: Connection) -> None:
        """Read what has come and gone since the last batch."""
        state, known = query_state(connection), self._state
        if state == known:
            return
        if known is None or not state.goes_on(known):
            self._forget()
            known = None
        self._read_parts(connection)
        self._read_queries(connection, 0 if known is None else known.newest)
        self._state = state

    def _read_parts(self, connection: Connection) -> None:
        new = parts_behind(connection, self._last)
        if new:
            self._last = new[-1].gid
            finders = rising(np.append(self._finders, np.array([row.part for row in new], np.int64)))
            fresh = groups_asked(connection, np.setdiff1d(finders, self._finders).tolist())
            self._finders, self._asked = finders, rising(np.append(self._asked, np.array(fresh, np.int64)))
            # A hundred thousand rows that stay are columns: the collector would look at each object again and again.
            self._parts = self._parts.plus(row for row in new if row.ends not in (OF_WINDOWS, OF_STEPS))
            self._by_part = np.argsort(self._parts.part, kind="stable")

    def _read_queries(self, connection: Connection, newest: int) -> None:
        rows = np.array(asked_since(connection, newest), dtype=np.int64).reshape(-1, 4)
        own = rows[np.isin(rows[:, 0], rising(self._parts.gid))]
        table = np.concatenate([self._queries, own])
        table[:, 2] = NEVER
        dropped = np.array(dropped_until(connection), dtype=np.int64).reshape(-1, 2)
        order = np.argsort(table[:, 3])
        at = np.searchsorted(table[:, 3], dropped[:, 0], sorter=order)
        there = np.flatnonzero(at < len(table))
        there = there[table[order[at[there]], 3] == dropped[there, 0]]
        table[order[at[there]], 2] = dropped[there, 1]
        self._queries = table[np.lexsort(table.T[::-1])]
        self._asked = rising(np.concatenate([self._asked, rows[np.isin(rows[:, 0], self._finders), 0]]))

    def parts_of(self, groups: Int64s) -> Parts:
        """Return the parts that some groups find, which rise, in the order of the groups about absence."""
        found = self._parts.part[self._by_part]
        begins, ends = (np.searchsorted(found, groups, side) for side in ("left", "right"))
        return self._parts.where(np.sort(self._by_part[gather(begins, ends - begins)[0]]))

    def are_unasked(self, groups: Int64s) -> Bools:
        """Tell which of some groups are parts of others, and have no query, dropped ones included."""
        return within(groups, self._finders) & ~within(groups, self._asked)

    def readers(self, oldest: int) -> Int64s:
        """Return the queries that were live at a place or came later, as ``Readers`` takes them."""
        return self._queries[self._queries[:, 2] > oldest]
