"""Queries about absence as this process remembers them from batch to batch: their parts, and who reads answers.

With many such queries nearly each event is about other ones.  So they are columns in memory, read once, and a batch
reads what has come and gone since.  Nothing of it decides an answer: the catalogue says the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlalchemy.engine import Connection

from xscl.base.number_order import each_once
from xscl.batches.bindings import Parts
from xscl.catalog.absences import asked_since, dropped_until, groups_asked
from xscl.catalog.catalog import Catalog
from xscl.catalog.parts import PartRow, parts_behind
from xscl.catalog.query_state import QueryState, query_state
from xscl.catalog.tables import NEVER, NOTHING_FORBIDDEN, OF_STEPS, OF_WINDOWS
from xscl.templates.columns import Bools, Int64s, gather, within

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
        self._changing: list[PartRow] = []
        """Parts of groups whose matches newer versions and removals change."""
        self.retracting: dict[int, list[int]] = {}
        """Groups of these that forbid nothing, by the group that finds their matches."""
        self.correcting: tuple[list[int], Parts] = [], self._parts
        """Groups of these that forbid something, and their parts."""
        self.least_memory: int | None = None
        """The least memory that a query has of its own, microseconds; None: none has."""

    def read(self, catalog: Catalog, state: QueryState) -> None:
        """Read what has come and gone since the last batch; ``state`` is that of the queries before it."""
        if state != self._state:
            with catalog.read() as connection:
                # Others may have come meanwhile.
                self._read(connection, query_state(connection))

    def _read(self, connection: Connection, state: QueryState) -> None:
        known = self._state
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
            finders = each_once(np.append(self._finders, np.array([row.part for row in new], np.int64)))
            fresh = groups_asked(connection, np.setdiff1d(finders, self._finders).tolist())
            self._finders, self._asked = finders, each_once(np.append(self._asked, np.array(fresh, np.int64)))
            # A hundred thousand rows that stay are columns: the collector would look at each object again and again.
            self._parts = self._parts.plus(row for row in new if row.ends not in (OF_WINDOWS, OF_STEPS))
            self._by_part = np.argsort(self._parts.part, kind="stable")
            self._add_changing(new)

    def _add_changing(self, new: Sequence[PartRow]) -> None:
        memories = [each for each in (self.least_memory, *(row.memory for row in new)) if each is not None]
        self.least_memory = min(memories, default=None)
        changing = {row.gid for row in new if row.retracts}
        self._changing += [row for row in new if row.gid in changing]
        wanted = [row for row in self._changing if row.retracts]
        self.retracting = {}
        for row in (row for row in wanted if row.ends == NOTHING_FORBIDDEN):
            self.retracting.setdefault(row.part, []).append(row.gid)
        groups = sorted(row.gid for row in wanted if row.ends not in (None, NOTHING_FORBIDDEN))
        mine = frozenset(groups)
        self.correcting = groups, Parts.of(row for row in self._changing if row.gid in mine)

    def _read_queries(self, connection: Connection, newest: int) -> None:
        rows = np.array(asked_since(connection, newest), dtype=np.int64).reshape(-1, 4)
        own = rows[np.isin(rows[:, 0], each_once(self._parts.gid))]
        table = np.concatenate([self._queries, own])
        table[:, 2] = NEVER
        dropped = np.array(dropped_until(connection), dtype=np.int64).reshape(-1, 2)
        order = np.argsort(table[:, 3])
        at = np.searchsorted(table[:, 3], dropped[:, 0], sorter=order)
        there = np.flatnonzero(at < len(table))
        there = there[table[order[at[there]], 3] == dropped[there, 0]]
        table[order[at[there]], 2] = dropped[there, 1]
        self._queries = table[np.lexsort(table.T[::-1])]
        self._asked = each_once(np.concatenate([self._asked, rows[np.isin(rows[:, 0], self._finders), 0]]))

    @property
    def asks(self) -> bool:
        """Tell whether there are queries about absence, or such as changes correct."""
        return bool(len(self._parts) or self._changing)

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
