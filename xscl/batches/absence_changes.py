"""Changes of answers about absence in a batch: matches that come, and matches that are taken back.

Queries of one group that were registered at different places see different documents.  A match that all of them have
which see its members is stored under their group; any other is stored for each query that has it (``history``).  So it
is with matches that are taken back.

Changes are told between the states before and after a batch.  A match that comes and goes in one batch was never there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from xscl.base.docids import place_of
from xscl.batches.ranges import BatchRange
from xscl.catalog.retractions import Because
from xscl.catalog.tables import QUERIES, in_parts
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.parquet import list_parts
from xscl.store.results import NO_DOC, member_digests
from xscl.templates.absence import Subtracted
from xscl.templates.columns import Bools, Int64s
from xscl.templates.results import Admitted, ClassRow, ResultColumns

__all__ = ["Changes", "Readers", "Retraction", "changes_of", "retraction_rows"]

_NONE = -(1 << 62)
_CELLS = 4_000_000
"""Rows times queries that are looked at together."""
_Queries = tuple[Int64s, Int64s, Int64s]
"""Place after which each query sees members, where it ended, and its number."""
_Hits = tuple[Int64s, Int64s, Int64s]
"""Row, place and number of each forbidden document."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A match that some queries have since the batch."""

    groups: tuple[int, ...]
    docs: tuple[int, ...]
    nodes: tuple[int, ...]
    witness: tuple[int, ...]
    later: int


@dataclass(frozen=True, slots=True)
class Retraction:
    """A match that some queries have no longer."""

    groups: tuple[int, ...]
    docs: tuple[int, ...]
    nodes: tuple[int, ...]
    later: int
    place: int
    """Place of what takes it back."""
    other: int
    """Number of the document that does."""
    because: Because = "late"
    exchange: int | None = None


@dataclass(slots=True)
class Changes:
    """Matches that come and go in a batch."""

    found: list[_Found] = field(default_factory=list)
    retracted: list[Retraction] = field(default_factory=list)
    touched: bool = False
    """Whether rows were answered, or forbidden."""

    def add(self, more: Changes) -> None:
        """Add the changes of other matches."""
        self.found += more.found
        self.retracted += more.retracted
        self.touched |= more.touched

    def write(self, out: ResultColumns) -> None:
        """Write what comes as results."""
        classes: dict[tuple[object, ...], int] = {}
        docs: dict[int, list[tuple[int, ...]]] = {}
        for one in sorted(self.found, key=lambda one: (one.docs, one.nodes, one.groups)):
            meant = one.groups, one.nodes, one.witness, one.later, len(one.docs)
            if meant not in classes:
                by = Admitted(one.groups, (1,) * len(one.groups))
                rows = [ClassRow("match", 0, one.nodes, one.witness, by, later=one.later or None)]
                classes[meant] = out.add_class(rows)
            docs.setdefault(classes[meant], []).append(one.docs)
        for number, members_of in docs.items():
            of_class = np.array(members_of, dtype=np.int64)
            which = np.full(len(of_class), number, dtype=np.int32)
            if of_class.shape[1] == 1:
                out.add_pairs(of_class[:, 0], np.full(len(of_class), NO_DOC), which)
            else:
                out.add_combinations(of_class, which)


class Readers:
    """Queries of groups about absence that may see pending rows, dropped ones included."""

    def __init__(self, connection: sa.Connection, groups: Sequence[int], oldest: int, last: int) -> None:
        """Read the queries that were live at the place ``oldest`` or came later; ``last`` is the batch's last place."""
        self.last = last
        columns = QUERIES.c.gid, QUERIES.c.sees_from, QUERIES.c.docid_until, QUERIES.c.query
        rows: list[tuple[int, ...]] = []
        for some in in_parts(groups):
            live = QUERIES.c.gid.in_(some), QUERIES.c.docid_until > oldest
            rows += map(tuple, connection.execute(sa.select(*columns).where(*live)))
        table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 4)
        _, self._begins, self._ends, self._numbers = table.T
        self._groups, self._starts = np.unique(table[:, 0], return_index=True)

    def __contains__(self, gid: int) -> bool:
        return gid in self._groups

    def of(self, gid: int) -> _Queries:
        """Return the queries of a group that has some."""
        at = int(np.searchsorted(self._groups, gid))
        mine = slice(self._starts[at], self._starts[at + 1] if at + 1 < len(self._starts) else None)
        return self._begins[mine], self._ends[mine], self._numbers[mine]

    def may_see(self, left: pa.Table) -> Bools:
        """Tell for which rows a query is left that no forbidden document keeps from them."""
        newest = self._greatest(np.where(self._ends > self.last, self._begins, _NONE))
        found: Bools = left.column("killed").to_numpy() <= newest[self._at(left)]
        return found

    def may_change(self, rows: pa.Table, hits: _Hits, first: int) -> Bools:
        """Tell which rows may change matches of a query; most forbidden rows change none."""
        killed = rows.column("killed").to_numpy()
        newest, places = killed.copy(), killed.copy()
        row, place, _ = hits
        np.maximum.at(newest, row, place)
        np.maximum.at(places, row, np.maximum(place, first))
        at = self._at(rows)
        latest, soonest = self._greatest(self._begins)[at], -self._greatest(-self._ends)[at]
        kept = (rows.column("answered").to_numpy() < 0) & (newest > latest) & (places < soonest)
        found: Bools = (at < len(self._groups)) & ~kept
        return found

    def _greatest(self, values: Int64s) -> Int64s:
        """Return the greatest value of each group's queries; behind them ``_NONE``, for groups without."""
        found = np.maximum.reduceat(values, self._starts) if len(values) else values
        return np.append(found, _NONE)

    def _at(self, rows: pa.Table) -> Int64s:
        """Return the place of each row's group."""
        groups = rows.column("gid").to_numpy()
        at = np.searchsorted(self._groups, groups)
        there = np.append(self._groups, _NONE)[at] == groups
        return np.where(there, at, len(self._groups))


def changes_of(part: Subtracted, readers: Readers, first: int) -> Changes:
    """Tell how the matches of touched rows change for queries; ``first`` is the first place of the batch."""
    found = Changes(touched=bool(part.touched.num_rows))
    hits: _Hits = tuple(part.hits.column(name).to_numpy() for name in ("row", "place", "other"))
    chosen = np.flatnonzero(readers.may_change(part.touched, hits, first))
    # A group has its rows side by side.
    chosen = chosen[np.argsort(part.touched.column("gid").to_numpy()[chosen], kind="stable")]
    rows, hits = part.touched.take(pa.array(chosen)), _moved(hits, chosen, part.touched.num_rows)
    groups, begins = np.unique(rows.column("gid").to_numpy(), return_index=True)
    cuts = np.append(begins, rows.num_rows).tolist()
    of_group = np.searchsorted(hits[0], cuts).tolist()
    for number, gid in enumerate(groups.tolist()):
        begin, end = cuts[number : number + 2]
        row, place, other = (column[of_group[number] : of_group[number + 1]] for column in hits)
        touched = _Touched(rows.slice(begin, end - begin), (row - begin, place, other), readers.of(gid))
        for some in touched.chunks():
            found.add(some.changes(gid, readers.last, first))
    return found


def _moved(hits: _Hits, chosen: Int64s, count: int) -> _Hits:
    """Return the hits of rows that were chosen out of so many, by the order of these."""
    place = np.full(count, -1)
    place[chosen] = np.arange(len(chosen))
    row = place[hits[0]]
    order = np.argsort(row, kind="stable")
    order = order[row[order] >= 0]
    return row[order], hits[1][order], hits[2][order]


class _Touched:
    """Touched rows of a group, those of one match side by side."""

    def __init__(self, rows: pa.Table, hits: _Hits, queries: _Queries) -> None:
        self.queries = queries
        order, self.starts = _by_match(rows)
        self.rows = rows.take(pa.array(order))
        self.hits = _moved(hits, order, rows.num_rows)

    def chunks(self) -> Iterator[_Chunk]:
        """Yield some matches at a time."""
        size = max(1, _CELLS // max(1, len(self.queries[0])))
        begin = 0
        while begin < self.rows.num_rows:
            behind = self.starts[np.searchsorted(self.starts, begin + size) :]
            end = int(behind[0]) if len(behind) else self.rows.num_rows
            mine = (self.hits[0] >= begin) & (self.hits[0] < end)
            row, place, other = (column[mine] for column in self.hits)
            starts = self.starts[(self.starts >= begin) & (self.starts < end)] - begin
            yield _Chunk(self.rows.slice(begin, end - begin), starts, self.queries, (row - begin, place, other))
            begin = end


def _by_match(rows: pa.Table) -> tuple[Int64s, Int64s]:
    """Return the order of rows of a group by the matches that they make, and where each match begins in it."""
    if not rows.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Members and shown nodes begin what tells bindings apart.
    shown = len(rows.column("docs")[0].as_py()) + len(rows.column("nodes")[0].as_py())
    matches = pc.binary_slice(rows.column("key").combine_chunks(), 0, 8 * shown).dictionary_encode().indices.to_numpy()
    order = np.argsort(matches, kind="stable")
    return order, np.flatnonzero(np.diff(matches[order], prepend=-1))


@dataclass(frozen=True, slots=True)
class _Chunk:
    rows: pa.Table
    starts: Int64s
    """First row of each match."""
    queries: _Queries
    hits: _Hits

    def changes(self, gid: int, last: int, first: int) -> Changes:
        """Return the changes of matches of a group; ``first`` and ``last`` are the places of the batch."""
        begins, ends, numbers = self.queries
        oldest, newest = _places(self.rows)
        answered, decided, killed = (
            self.rows.column(name).to_numpy()[:, None] for name in ("answered", "decided", "killed")
        )
        sees = (begins < oldest[:, None]) & (newest[:, None] < ends)
        alive = sees & (killed <= begins)
        had = alive & (answered >= 0) & (answered < ends)
        has = alive & (decided <= last) & (decided < ends) & ~self._hit(first)
        before, now = (np.logical_or.reduceat(one, self.starts, axis=0) for one in (had, has))
        seen = sees[self.starts]
        come, gone = now & ~before, before & ~now
        found = Changes()
        whole, came = (come == seen).all(axis=1), np.flatnonzero(come.any(axis=1))
        for match, key in zip(came.tolist(), self._keys(came), strict=True):
            whose = _whose(gid, numbers[come[match]], whole=bool(whole[match]))
            found.found.append(_Found(whose, *key[:2], self._witness(match, has), key[2]))
        went = np.flatnonzero(gone.any(axis=1))
        for match, key in zip(went.tolist(), self._keys(went), strict=True):
            place, other = self._first_hit(match, first)
            all_of_them = bool((gone[match] == (seen[match] & (ends > place))).all())
            whose = _whose(gid, numbers[gone[match]], whole=all_of_them)
            found.retracted.append(Retraction(whose, *key, place, other))
        return found

    def _hit(self, first: int) -> Bools:
        """Tell for which queries a forbidden document of a row has come."""
        begins, ends, _ = self.queries
        row, place, _ = self.hits
        found = np.zeros((self.rows.num_rows, len(begins)), dtype=np.bool_)
        sees = (place[:, None] > begins) & (np.maximum(place, first)[:, None] < ends)
        np.logical_or.at(found, row, sees)
        return found

    def _first_hit(self, match: int, first: int) -> tuple[int, int]:
        """Return the place in the batch, and the number, of the first document that forbids a row of a match."""
        begin, end = self._span(match)
        row, place, other = self.hits
        mine = np.flatnonzero((row >= begin) & (row < end))
        at = mine[np.lexsort((other[mine], place[mine]))[0]]
        return max(int(place[at]), first), int(other[at])

    def _span(self, match: int) -> tuple[int, int]:
        end = self.starts[match + 1] if match + 1 < len(self.starts) else self.rows.num_rows
        return int(self.starts[match]), int(end)

    def _keys(self, matches: Int64s) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int]]:
        """Yield documents and nodes of matches, and how much later than their members they are."""
        some = self.rows.select(["docs", "nodes", "later"]).take(pa.array(self.starts[matches]))
        for row in some.to_pylist():
            yield tuple(row["docs"]), tuple(row["nodes"]), row["later"]

    def _witness(self, match: int, has: Bools) -> tuple[int, ...]:
        """Return the least witness of a match's rows that some query has."""
        begin, end = self._span(match)
        living = [row for row in range(begin, end) if end - begin == 1 or has[row].any()]
        return min(tuple(self.rows.column("witness")[row].as_py()) for row in living)


def _whose(gid: int, numbers: Int64s, *, whole: bool) -> tuple[int, ...]:
    """Return the group, or what stands for it in the matches of some of its queries."""
    return (gid,) if whole else tuple(sorted((-numbers).tolist()))


def _places(rows: pa.Table) -> tuple[Int64s, Int64s]:
    """Return the least and the greatest place of the members of each row."""
    lengths, docs = list_parts(rows.column("docs"))
    places = place_of(docs)
    starts = np.cumsum(lengths) - lengths
    return np.minimum.reduceat(places, starts), np.maximum.reduceat(places, starts)


def retraction_rows(
    home: Home, span: BatchRange, retracted: Sequence[Retraction], tables: Sequence[pa.Table]
) -> Iterator[dict[str, Any]]:
    """Yield rows of table ``retractions``; ``tables`` are events that the batch publishes."""
    docids = {docid for each in retracted for docid in (*each.docs, each.other)}
    if not docids:
        return
    events = {row["docid"]: row for row in events_of(home, docids, ["docid", "channel", "id"], tables).to_pylist()}
    for each in sorted(retracted, key=lambda one: (one.docs, one.nodes, one.groups)):
        places = [place_of(docid) for docid in each.docs]
        other = events.get(each.other, {"channel": None, "id": None})
        row = {
            "batch": span.batch,
            "docs": json.dumps(each.docs),
            "nodes": ",".join(map(str, each.nodes)),
            "members": member_digests((events[docid]["channel"], events[docid]["id"]) for docid in each.docs),
            "first": min(places),
            "last": max(places),
            "later": each.later,
            "place": each.place,
            "exchange": each.exchange,
            "because": "replayed" if span.replayed else each.because,
            "channel": other["channel"],
            "id": other["id"],
        }
        yield from ({**row, "gid": gid} for gid in each.groups)
