"""The groups whose subscribers see events of a range, kept up to date by reading changes.

A query sees the events of a range if it was registered before the range's end and not dropped before its beginning.  A
registration is no batch boundary: who sees which event is told apart by the places of the intake order.  A query that
sees what was there before it counts from the range of its registration on, and then from the beginning.

A query about absence subscribes to the groups that find what it asks, which are its parts.

Queries' numbers and places grow together, so what was registered since is what has greater numbers, and what was
dropped since has greater places.  Ranges go forward; after one that goes back everything is read again, as after a
removal of dropped queries.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.intake_order import next_place_and_sweeps
from xscl.catalog.parts import finders_of
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import GROUPS, IS_DROPPED, NEVER, QUERIES, in_parts

__all__ = ["Chosen", "GroupText", "Subscribers", "group_texts"]

_PAGE = 1_000
"""Queries that are read together."""
_STARTS = sa.func.min(QUERIES.c.sees_from), sa.func.max(QUERIES.c.sees_from)


@dataclass(frozen=True, slots=True)
class GroupText:
    """A group by the number it has in a program, and what it is compiled from."""

    number: int
    iid: int
    text: str
    namespaces: str
    """A JSON object."""
    channels: str = "[]"
    """The channels that it reads and the streams that it names: a JSON list."""


@dataclass(slots=True)
class _Subscribed:
    """The subscribers of a group that see events of the range."""

    first: int
    """The least docid that one of them sees."""
    newest: int
    """The greatest place after which one of them sees members."""
    live: int = 0
    """Number of subscribers that are not dropped."""
    dropped: int = 0
    end: int = 0
    """The greatest place at which one of them was dropped."""


class Subscribers:
    """The groups that some query of a range subscribes to."""

    def __init__(self) -> None:
        self._groups: dict[int, _Subscribed] = {}
        self._ends: list[tuple[int, int, int]] = []
        """(place of the drop, group, least docid that it sees) of dropped queries, a heap."""
        self._range: tuple[int, int] | None = None
        self._seen = 0
        """The greatest number of a query that was read."""
        self._read_until = 0
        """Drops before this place were read."""
        self._swept = 0
        """Value of ``home.swept`` when queries were read."""
        self._finders: dict[int, tuple[int, ...]] = {}
        """Groups that find what groups about absence ask."""
        self._asking: dict[int, list[int]] = {}
        """Groups about absence that each of those groups is a part of."""

    def __contains__(self, gid: int) -> bool:
        return gid in self._groups

    @property
    def newest(self) -> int:
        """Return the greatest number of a query that was read."""
        return self._seen

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[int]:
        return iter(self._groups)

    def span(self, gid: int) -> tuple[int, int, int]:
        """Return ``first``, ``last`` and ``newest`` of a group, as in ``LiveGroup``."""
        group = self._groups[gid]
        return group.first, NEVER if group.live else group.end, group.newest

    def forget(self) -> None:
        """Have everything read again by the next call of ``move``: queries have been put into other groups."""
        self._range = None

    def texts(self, connection: Connection, gids: Iterable[int]) -> list[GroupText]:
        """Return the texts that some groups are compiled from."""
        return group_texts(connection, {gid: gid for gid in gids})

    def move(self, connection: Connection, first: int, last: int) -> set[int] | None:
        """Go to the range of places from ``first`` to ``last``.

        Returns groups that may have come, gone or changed their spans; None if any group may.  The connection's
        statements must read one state of the catalogue.
        """
        # What fails half way is read as a whole next time.
        known, self._range = self._range, None
        read_until, swept = next_place_and_sweeps(connection)
        self._read_finders(connection)
        changed = None
        # Queries that were removed may be some whose drops were not read.
        if known is None or first < known[0] or last < known[1] or swept != self._swept:
            self._read_all(connection, first, last)
        else:
            changed = self._read_changes(connection, known[0], first, last)
        self._range, self._read_until, self._swept = (first, last), read_until, swept
        return changed

    def _read_finders(self, connection: Connection) -> None:
        new = finders_of(connection, max(self._finders, default=0))
        self._finders |= new
        for gid, parts in new.items():
            for part in parts:
                self._asking.setdefault(part, []).append(gid)

    def _of(self, gid: int) -> tuple[int, ...]:
        """Return the groups of the program that a query of a group subscribes to."""
        return self._finders.get(gid, (gid,))

    def _read_all(self, connection: Connection, first: int, last: int) -> None:
        alive = QUERIES.c.docid_from < last, QUERIES.c.docid_until > first
        live = sa.func.sum(sa.case((QUERIES.c.docid_until == NEVER, 1), else_=0))
        statement = sa.select(QUERIES.c.gid, *_STARTS, live).where(*alive)
        rows = connection.execute(statement.group_by(QUERIES.c.gid).order_by(QUERIES.c.gid)).all()
        self._groups = {}
        for asked, least, newest, count in rows:
            for gid in self._of(asked):
                group = self._groups.setdefault(gid, _Subscribed(least, newest))
                group.first, group.newest = min(group.first, least), max(group.newest, newest)
                group.live += int(count)
        self._ends = []
        ended = sa.select(QUERIES.c.docid_until, QUERIES.c.gid, QUERIES.c.sees_from).where(*alive, IS_DROPPED)
        for end, asked, start in connection.execute(ended):
            for gid in self._of(asked):
                self._drop(end, gid, start)
        newest = sa.select(QUERIES.c.query).where(QUERIES.c.docid_from < last).order_by(QUERIES.c.query.desc()).limit(1)
        self._seen = connection.execute(newest).scalar() or 0

    def _read_changes(self, connection: Connection, before: int, first: int, last: int) -> set[int]:
        """Read what has changed since the range that began at the place ``before``; return the groups that changed."""
        changed = self._read_dropped(connection, before)
        changed |= self._read_registered(connection, last)
        passed, leaderless = self._pass_ends(first)
        self._read_leaders(connection, leaderless, first, last)
        return changed | passed

    def _read_dropped(self, connection: Connection, before: int) -> set[int]:
        """Read the queries that were dropped or suspended since; return their groups."""
        changed: set[int] = set()
        # A drop takes a new place.  A suspension has the place behind its batch, which is no older than that range.
        for end, asked, start in connection.execute(*_dropped(self._seen, self._read_until, before)):
            for gid in self._of(asked):
                self._groups[gid].live -= 1
                self._drop(end, gid, start)
                changed.add(gid)
        return changed

    def _read_registered(self, connection: Connection, last: int) -> set[int]:
        """Read the queries that were registered since; return their groups."""
        changed: set[int] = set()
        registered = self._registered(connection, last)
        for gid, start, end in ((gid, start, end) for asked, start, end in registered for gid in self._of(asked)):
            group = self._groups.setdefault(gid, _Subscribed(start, start))
            group.first, group.newest = min(group.first, start), max(group.newest, start)
            if end < NEVER:
                self._drop(end, gid, start)
            else:
                group.live += 1
            changed.add(gid)
        return changed

    def _pass_ends(self, first: int) -> tuple[set[int], set[int]]:
        """Forget the dropped queries that see nothing of the range; return their groups, and those that lost the query
        that sees the least or the newest.
        """
        changed: set[int] = set()
        leaderless: set[int] = set()
        while self._ends and self._ends[0][0] <= first:
            _, gid, start = heapq.heappop(self._ends)
            group = self._groups[gid]
            group.dropped -= 1
            changed.add(gid)
            if start in (group.first, group.newest):
                leaderless.add(gid)
            if not group.live and not group.dropped:
                del self._groups[gid]
                leaderless.discard(gid)
        return changed, leaderless

    def _read_leaders(self, connection: Connection, leaderless: set[int], first: int, last: int) -> None:
        """Read what the queries that are left of some groups see."""
        leaders: dict[int, tuple[int, int]] = {}
        asking = {asked for gid in leaderless for asked in (gid, *self._asking.get(gid, ()))}
        for some in in_parts(sorted(asking)):
            statement = sa.select(QUERIES.c.gid, *_STARTS).where(
                QUERIES.c.gid.in_(some),
                QUERIES.c.docid_from < last,
                QUERIES.c.docid_until > first,
            )
            for asked, *span in connection.execute(statement.group_by(QUERIES.c.gid)):
                for gid in leaderless.intersection(self._of(asked)):
                    known = leaders.get(gid, span)
                    leaders[gid] = min(known[0], span[0]), max(known[1], span[1])
        for gid, (least, newest) in leaders.items():
            self._groups[gid].first, self._groups[gid].newest = least, newest

    def _drop(self, end: int, gid: int, start: int) -> None:
        group = self._groups[gid]
        group.dropped += 1
        group.end = max(group.end, end)
        heapq.heappush(self._ends, (end, gid, start))

    def _registered(self, connection: Connection, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield (group, least docid seen, place of the drop) of queries registered since; those that see nothing yet
        wait.
        """
        while True:
            rows = connection.execute(*_page_behind(self._seen)).all()
            for row in rows:
                if row.docid_from >= last:
                    return
                self._seen = row.query
                yield row.gid, row.sees_from, row.docid_until
            if len(rows) < _PAGE:
                return


@prepared
def _dropped(seen: int, read_until: int, before: int) -> sa.Select[Any]:
    return sa.select(QUERIES.c.docid_until, QUERIES.c.gid, QUERIES.c.sees_from).where(
        IS_DROPPED,
        QUERIES.c.query <= seen,
        (QUERIES.c.docid_until >= read_until) | QUERIES.c.suspended.is_not(None) & (QUERIES.c.docid_until > before),
    )


@prepared
def _page_behind(query: int) -> sa.Select[Any]:
    columns = QUERIES.c.query, QUERIES.c.gid, QUERIES.c.docid_from, QUERIES.c.docid_until, QUERIES.c.sees_from
    return sa.select(*columns).where(QUERIES.c.query > query).order_by(QUERIES.c.query).limit(_PAGE)


class Chosen:
    """Some groups, and no others, whatever the range: what ``Subscribers`` is to live queries."""

    def __init__(self, groups: Iterable[GroupText], spans: Mapping[int, tuple[int, int, int]]) -> None:
        """``spans`` are the ``first``, ``last`` and ``newest`` of each of them, as in ``LiveGroup``, by number."""
        self._texts: Mapping[int, GroupText] = {group.number: group for group in groups}
        self._spans = spans

    def __contains__(self, number: int) -> bool:
        return number in self._texts

    def __iter__(self) -> Iterator[int]:
        return iter(self._texts)

    def span(self, number: int) -> tuple[int, int, int]:
        """Return ``first``, ``last`` and ``newest`` of a group, as in ``LiveGroup``."""
        return self._spans[number]

    def texts(self, connection: Connection, numbers: Iterable[int]) -> list[GroupText]:
        """Return the texts that some groups are compiled from."""
        return [self._texts[number] for number in numbers]

    def forget(self) -> None:
        """Do nothing: chosen groups are not read from the catalogue."""

    def move(self, connection: Connection, first: int, last: int) -> None:
        """Return None: any of the groups may have come."""


def group_texts(connection: Connection, numbers: Mapping[int, int]) -> list[GroupText]:
    """Return the texts that stored groups are compiled from; ``numbers`` gives each the number it is to have."""
    found = []
    statement = sa.select(GROUPS.c.gid, GROUPS.c.iid, GROUPS.c.text, GROUPS.c.namespaces, GROUPS.c.channels)
    for gids in in_parts(sorted(numbers)):
        for gid, *values in connection.execute(statement.where(GROUPS.c.gid.in_(gids))).all():
            found.append(GroupText(numbers[gid], *values))
    return found
