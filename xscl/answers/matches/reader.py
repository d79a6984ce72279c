"""Reading matches: stored once for all groups that share them, told apart by subscriber here.  No Spark is needed.

A stored match names the groups it satisfies; a query of such a group sees it if all its members came after the query's
registration and before its drop in the intake order.

There are two orders.  By *time* (ts, query, match): the combinations of documents that may be asked for are sorted as
numbers, some 40 bytes each, and all else is read for a few hundred at a time.  By *commit*, behind a cursor: batch by
batch, and what lies before the cursor's batch is not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import NamedTuple, Self

import numpy as np
import sqlalchemy as sa

from xscl.answers.matches.cursors import Cursor
from xscl.answers.matches.times import Times
from xscl.base.docids import place_of
from xscl.base.types import MatchEvent, Retraction
from xscl.catalog.counters import REMOVED_EVENTS, total
from xscl.catalog.parts import has_parts
from xscl.catalog.queries import read_queries
from xscl.catalog.records import QueryInfo
from xscl.catalog.retractions import Retracted, has_retractions, read_retractions
from xscl.catalog.suggestions import no_query
from xscl.catalog.tables import BATCHES, CHANNELS
from xscl.language.facts import is_sub_query
from xscl.registry.query_list import of_groups
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.parquet import codes, int64s
from xscl.store.results import NO_DOC, Combinations, Meanings, Results, StoredMatch, match_id
from xscl.templates.columns import Bools, Int64s
from xscl.templates.origins import batch_of, batches_of

__all__ = ["FoundMatch", "MatchReader", "Member", "Part", "members_of", "named_queries"]

_FIRST_PART, _PART = 50, 500
"""Combinations that are read together: few at first, so that the first match is soon there."""
_MEANINGS = 64 << 20
"""Bytes of what classes mean that are kept, of the folders read last."""
_NEVER = 1 << 62


class Part(NamedTuple):
    """Consecutive batches whose results are in one place."""

    path: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Facts of the catalogue that a listing goes by, as of one moment."""

    last: int
    """The last batch."""
    parts: tuple[Part, ...]
    """Results of the batches with matches, in their order."""
    kept: Mapping[str, int]
    """Channels whose older events may be gone, and from which time on they are there."""
    forgets: bool
    """Whether events have gone, or may go while matches are listed."""
    has_later: bool
    """Whether matches may be later than their members, as those of queries that are made of parts."""
    retracts: bool
    """Whether any match was taken back."""

    @classmethod
    def now(cls, home: Home, first: int = 0) -> Self:
        """Read the facts of the batches from ``first`` on."""
        with home.catalog.read() as connection:
            last = connection.scalar(sa.select(sa.func.max(BATCHES.c.batch))) or 0
            wanted = BATCHES.c.matches > 0, BATCHES.c.batch >= first, BATCHES.c.result_path.is_not(None)
            statement = sa.select(BATCHES.c.batch, BATCHES.c.result_path).where(*wanted).order_by(BATCHES.c.batch)
            batches = connection.execute(statement).all()
            channels = connection.execute(sa.select(CHANNELS)).all()
            removed = total(connection, REMOVED_EVENTS) > 0
            has_later, retracts = has_parts(connection), has_retractions(connection)
        parts = []
        for path, some in groupby(batches, key=lambda row: row.result_path):
            numbers = [row.batch for row in some]
            parts.append(Part(path, numbers[0], numbers[-1]))
        kept = {row.name: row.kept_from for row in channels if row.kept_from is not None}
        forgets = removed or bool(kept) or any(row.retention is not None for row in channels)
        return cls(last, tuple(parts), kept, forgets, has_later, retracts)


class Member(NamedTuple):
    """A member of a match."""

    event: MatchEvent
    version: int
    """Number of the item's version, from 1."""


class FoundMatch(NamedTuple):
    """A match that a query sees, before its documents are read."""

    id: str
    query: QueryInfo
    ts: int
    match: StoredMatch
    members: tuple[Member, ...]
    retracted: Retraction | None = None
    """Reason for which it no longer holds."""

    @property
    def cursor(self) -> Cursor:
        """The place right behind it."""
        return Cursor(self.match.batch, self.match.docids, self.query.query, self.match.nodes)


class MatchReader:
    """Reads the matches of one query, or of all, that are committed when it is made."""

    def __init__(self, home: Home, query: str | None, times: Times, first: int = 0) -> None:
        self._home = home
        self._times = times
        self.committed = Committed.now(home, first)
        # Queries are read behind the batches, so that no cursor passes a batch of a query that came in between.
        self.asked = None if query is None else named_queries(home, query)
        """Queries of that name; None: all queries."""
        self._subscribers: dict[int, list[QueryInfo]] = {}
        self._note(self.asked or ())
        self._groups = None if self.asked is None else frozenset(self._subscribers)
        self._meanings: dict[Part, Meanings] = {}
        self._held = 0
        """Bytes of ``_meanings``."""
        self._retracted: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Retracted]] | None = None
        """Matches that were taken back, by documents and nodes; None: not read yet."""

    # -- orders ------------------------------------------------------------------------------------------------

    def by_time(self, *, all_ever: bool = False) -> Iterator[FoundMatch]:
        """List matches that hold, sorted by (ts, query, match); with ``all_ever`` those too that were taken back."""
        parts, found, times = [], [], []
        for number, part in enumerate(self.committed.parts):
            some, newest = self._in_time(part, sort=True)
            if len(newest):
                parts.append(np.full(len(newest), number))
                found.append(some)
                times.append(newest)
        if not found:
            return
        part_of, everything, ts = np.concatenate(parts), Combinations.together(found), np.concatenate(times)
        del parts, found, times
        order = np.argsort(ts, kind="stable")
        ts = ts[order]
        for first, last in _cuts(np.flatnonzero(np.diff(ts, prepend=ts[0] - 1))):
            rows = order[first:last]
            chosen = zip(part_of[rows].tolist(), rows.tolist(), strict=True)
            several = self._found(everything, [(self.committed.parts[number], row) for number, row in chosen])
            several = [item._replace(retracted=self._retraction(item)) for item in several]
            several = several if all_ever else [item for item in several if item.retracted is None]
            several.sort(key=lambda item: (item.ts, item.query.name, item.id, item.match.batch))
            # A query that starts with what is held, was dropped and is registered again has some matches again.
            owner: dict[str, int] = {}
            yield from (item for item in several if owner.setdefault(item.id, item.query.query) == item.query.query)

    def by_commit(self, begin: Cursor) -> Iterator[FoundMatch]:
        """List matches behind a cursor, in the order of batches, documents, queries and nodes.

        A match that was taken back comes once more, with the reason.
        """
        return merge(self._came(begin), self._went(begin), key=_commit_key)

    def _came(self, begin: Cursor) -> Iterator[FoundMatch]:
        for part in self.committed.parts:
            several, _ = self._in_time(part, sort=False)
            keys = [batches_of(several.origin), *several.docs.T]
            order = np.lexsort(keys[::-1])
            if begin.docids:
                # Fewer documents come before more.
                width = max(several.docs.shape[1], len(begin.docids))
                wanted = (begin.batch, *begin.docids, *[NO_DOC] * (width - len(begin.docids)))
                order = order[_reached(keys, order, wanted) :]
            sorted_keys = np.stack([key[order] for key in keys])
            changed = np.ones(len(order), dtype=np.bool_)
            changed[1:] = (sorted_keys[:, 1:] != sorted_keys[:, :-1]).any(axis=0)
            for first, last in _cuts(np.flatnonzero(changed)):
                found = self._found(several, [(part, row) for row in order[first:last].tolist()])
                for item in sorted(found, key=_commit_key):
                    if item.cursor.is_behind(begin):
                        yield item

    def _went(self, begin: Cursor) -> Iterator[FoundMatch]:
        """List matches that were taken back behind a cursor."""
        rows = [row for several in self._retractions().values() for row in several if row.batch >= begin.batch]
        for _, of_batch in groupby(sorted(rows, key=lambda row: row.batch), key=lambda row: row.batch):
            found = [item for row in of_batch for item in self._taken_back(row)]
            for item in sorted(found, key=_commit_key):
                if item.cursor.is_behind(begin):
                    yield item

    def _retractions(self) -> Mapping[tuple[tuple[int, ...], tuple[int, ...]], list[Retracted]]:
        if self._retracted is None:
            found: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Retracted]] = {}
            if self.committed.retracts:
                groups = None if self._groups is None else sorted(self._groups)
                with self._home.catalog.read() as connection:
                    for row in read_retractions(connection, groups):
                        if row.batch <= self.committed.last:
                            found.setdefault((row.docids, row.nodes), []).append(row)
            self._retracted = found  # whole, or nothing: a read that failed is made again
        return self._retracted

    def _retraction(self, item: FoundMatch) -> Retraction | None:
        """Return why a later batch has taken a match back; None: none has."""
        for row in self._retractions().get((item.match.docids, item.match.nodes), ()):
            later = row.batch > item.match.batch
            if later and row.gid in item.query.groups and row.place < item.query.docid_until:
                return _reason(row)
        return None

    def _taken_back(self, row: Retracted) -> Iterator[FoundMatch]:
        """Give a match that was taken back once for each query that had it."""
        match = StoredMatch(row.docids, row.nodes, (), frozenset((row.gid,)), row.exchange, row.later, row.batch)
        if self.asked is None:
            self._read_subscribers([match])
        why = _reason(row)
        for item in self._seen(match, members_of(self._home, set(row.docids))):
            times = [member.event.ts for member in item.members]
            in_time = self._times.admit(np.array([min(times)]), np.array([item.ts]))[0]
            kept = all(e.ts >= self.committed.kept.get(e.channel, e.ts) for e, _ in item.members)
            if row.place < item.query.docid_until and in_time and kept:
                yield item._replace(retracted=why)

    def of_documents(self, part: Part, wanted: Collection[tuple[int, ...]]) -> list[FoundMatch]:
        """Find the matches of some combinations of documents in some batches that hold."""
        found, _ = self._in_time(part, sort=False)
        firsts = np.array(sorted({docids[0] for docids in wanted}), dtype=np.int64)
        rows = np.flatnonzero(np.isin(found.docs[:, 0], firsts)).tolist()
        matches = self._found(found, [(part, row) for row in rows if found.docids(row) in wanted])
        return [match for match in matches if self._retraction(match) is None]

    # -- combinations ------------------------------------------------------------------------------------------

    def _results(self, part: Part) -> Results:
        """Return the results of some batches; an object reads each small file once."""
        return Results(self._home.results([part.path]), part.first, part.last)

    def _combinations(self, part: Part, results: Results) -> Combinations:
        """Read the combinations of some batches, of the groups that are asked for."""
        return results.combinations(None if self._groups is None else self._meanings_of(part, results))

    def _meanings_of(self, part: Part, results: Results | None = None) -> Meanings:
        """Read the meanings of classes for the groups that are asked for, and keep the last ones used."""
        meanings = self._meanings.pop(part, None)
        if meanings is None:
            meanings = (results or self._results(part)).meanings(self._groups)
            self._held += meanings.size
            while self._meanings and self._held > _MEANINGS:
                self._held -= self._meanings.pop(next(iter(self._meanings))).size
        self._meanings[part] = meanings
        return meanings

    def _in_time(self, part: Part, *, sort: bool) -> tuple[Combinations, Int64s]:
        """Select combinations within the bounds whose members are all kept; with ``sort`` also the matches' times."""
        results = self._results(part)
        found = self._combinations(part, results)
        if not (sort or self._times or self.committed.kept) or not len(found.origin):
            return found, np.zeros(0, dtype=np.int64)
        oldest, newest, kept = self._member_times(found)
        if self.committed.has_later:
            newest = newest + results.later(found)
        chosen = kept & self._times.admit(oldest, newest)
        return (found, newest) if chosen.all() else (found.where(chosen), newest[chosen])

    def _member_times(self, found: Combinations) -> tuple[Int64s, Int64s, Bools]:
        """Give the times of each combination's oldest and newest member, and whether all its members are kept."""
        docids = np.unique(found.docs[found.docs != NO_DOC])
        table = events_of(self._home, docids, ["docid", "ts", *(["channel"] if self.committed.kept else [])])
        there = np.searchsorted(docids, int64s(table.column("docid")))
        ts = np.zeros(len(docids), dtype=np.int64)
        ts[there] = int64s(table.column("ts"))
        gone = np.ones(len(docids), dtype=np.bool_)
        gone[there] = False
        if gone.any() and not self.committed.forgets:
            raise FileNotFoundError(f"event {docids[gone][0]} is in no file of events")
        if self.committed.kept:
            numbers, names = codes(table.column("channel"))
            kept_from = np.array([self.committed.kept.get(str(name), -_NEVER) for name in names], dtype=np.int64)
            gone[there] |= ts[there] < kept_from[numbers]
        no_doc = found.docs == NO_DOC
        place = np.where(no_doc, 0, np.searchsorted(docids, found.docs))
        oldest = np.where(no_doc, _NEVER, ts[place]).min(axis=1)
        newest = np.where(no_doc, -_NEVER, ts[place]).max(axis=1)
        return oldest, newest, ~(gone[place] & ~no_doc).any(axis=1)

    # -- matches -----------------------------------------------------------------------------------------------

    def _found(self, combinations: Combinations, rows: Sequence[tuple[Part, int]]) -> list[FoundMatch]:
        """Build the matches of some combinations that a query sees."""
        stored: list[StoredMatch] = []
        for part, row in rows:
            origin, docids = int(combinations.origin[row]), combinations.docids(row)
            meanings = self._meanings_of(part).of(origin, int(combinations.number[row]))
            stored += (StoredMatch(docids, *meaning, batch_of(origin)) for meaning in meanings)
        if self.asked is None:
            self._read_subscribers(stored)
        members = members_of(self._home, {docid for match in stored for docid in match.docids})
        return [item for match in stored for item in self._seen(match, members)]

    def _read_subscribers(self, stored: Sequence[StoredMatch]) -> None:
        new = {gid for match in stored for gid in match.groups} - self._subscribers.keys()
        self._subscribers.update((gid, []) for gid in new)
        infos = [info for info in of_groups(self._home.catalog, new) if new.intersection(info.groups)]
        self._note([info for info in infos if not is_sub_query(info.name)], new)

    def _note(self, queries: Sequence[QueryInfo], groups: frozenset[int] | set[int] | None = None) -> None:
        for info in queries:
            for gid in info.groups:
                if groups is None or gid in groups:
                    self._subscribers.setdefault(gid, []).append(info)

    def _seen(self, match: StoredMatch, members: Mapping[int, Member]) -> Iterator[FoundMatch]:
        """Give a stored match once for each query that sees it."""
        if any(docid not in members for docid in match.docids):
            return  # upkeep has removed an event meanwhile
        mine = tuple(members[docid] for docid in match.docids)
        events = [member.event for member in mine]
        named = [(event.channel, event.id) for event in events]
        times = [(event.channel, place_of(docid), event.ts) for event, docid in zip(events, match.docids, strict=True)]
        queries = {info.query: info for gid in match.groups for info in self._subscribers.get(gid, ())}
        for info in queries.values():
            if match.is_seen_by(info) and info.admits(times):
                id_ = match_id(info.digest, named, match.nodes)
                yield FoundMatch(id_, info, max(event.ts for event in events) + match.later, match, mine)


def named_queries(home: Home, query: str) -> list[QueryInfo]:
    """List the queries that had or have a name.

    Raises:
        CatalogError: ``XSCL_QUERY_NOT_FOUND``.
    """
    with home.catalog.read() as connection:
        asked = read_queries(connection, live_only=False, name=query)
        if not asked:
            raise no_query(connection, query, dropped=True)
    return asked


def members_of(home: Home, docids: set[int]) -> dict[int, Member]:
    """Read the members of matches by their numbers, without members that are gone."""
    rows = events_of(home, docids, ["docid", "channel", "id", "ts", "version"]).to_pylist()
    return {row["docid"]: Member(MatchEvent(row["channel"], row["id"], row["ts"]), row["version"]) for row in rows}


def _reason(row: Retracted) -> Retraction:
    return Retraction(row.because, None if row.channel is None or row.id is None else (row.channel, row.id))


def _cuts(beginnings: Int64s) -> Iterator[tuple[int, int | None]]:
    """Yield parts of a few hundred rows, the last one open; each ends before one of ``beginnings``, where another run
    begins.
    """
    size, first = _FIRST_PART, 0
    while True:
        after = beginnings[np.searchsorted(beginnings, first + size) :]
        if not len(after):
            break
        yield first, int(after[0])
        first, size = int(after[0]), _PART
    yield first, None


def _commit_key(item: FoundMatch) -> tuple[int, tuple[int, ...], int, tuple[int, ...]]:
    cursor = item.cursor
    return cursor.batch, cursor.docids, cursor.query, cursor.nodes


def _reached(keys: Sequence[Int64s], order: Int64s, wanted: Sequence[int]) -> int:
    """Find the first of the ordered rows whose keys are ``wanted`` or greater."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        row = [int(key[order[middle]]) for key in keys]
        if (*row, *[NO_DOC] * (len(wanted) - len(row))) < tuple(wanted):
            low = middle + 1
        else:
            high = middle
    return low
