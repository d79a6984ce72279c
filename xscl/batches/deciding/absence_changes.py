"""Changes of answers about absence in a batch: matches that come, and matches that are taken back.

Queries of one group that were registered at different places see different documents.  A match that all of them have
which see its members is stored under their group; any other is stored for each query that has it (``history``).  So it
is with matches that are taken back.

Changes are told between the states before and after a batch.  A match that comes and goes in one batch was never there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from xscl.base.docids import place_of
from xscl.batches.publishing.documents import Told
from xscl.batches.taking_back import Retraction, groups_with
from xscl.catalog.tables import QUERIES, among, raw_rows
from xscl.store.parquet import list_parts
from xscl.store.results import NO_DOC, StoredMatch
from xscl.templates.absence import NOT_YET, Subtracted
from xscl.templates.columns import Bools, Int64s, gather
from xscl.templates.results import Admitted, ClassRow, ResultColumns

__all__ = ["Changes", "Found", "Readers", "changes_of", "readers_of"]

_NONE = -(1 << 62)
_TOLD = "answered", "decided", "killed"
_CELLS = 4_000_000
"""Rows times queries that are looked at together."""
_Queries = tuple[Int64s, Int64s, Int64s]
"""Place after which each query sees members, where it ended, and its number."""
_Hits = tuple[Int64s, Int64s, Int64s]
"""Row, place and number of each forbidden document."""


@dataclass(frozen=True, slots=True)
class Found:
    """A match that some queries have since the batch."""

    groups: tuple[int, ...]
    docs: tuple[int, ...]
    nodes: tuple[int, ...]
    witness: tuple[int, ...]
    later: int
    place: int
    """Place at which it was decided."""
    end: int | None = None
    """Place in the batch from which on it holds no longer; None: it does."""


@dataclass(slots=True)
class Changes:
    """Matches that come and go in a batch."""

    found: list[Found] = field(default_factory=list)
    passed: list[Found] = field(default_factory=list)
    """Matches that come and go within the batch."""
    retracted: list[Retraction] = field(default_factory=list)
    touched: bool = False
    """Whether rows were answered, or forbidden."""

    def add(self, more: Changes) -> None:
        """Add the changes of other matches."""
        self.found += more.found
        self.passed += more.passed
        self.retracted += more.retracted
        self.touched |= more.touched

    def told(self, batch: int) -> Iterator[Told]:
        """Yield what comes in a batch, also what goes again."""
        for one in (*self.found, *self.passed):
            match = StoredMatch(one.docs, one.nodes, one.witness, frozenset(one.groups), None, one.later, batch)
            yield Told(match, one.place, one.end)

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

    def __init__(self, queries: Int64s, last: int) -> None:
        """Take rows in their order: group, place after which it sees members, place of its end, number of the query.

        ``last`` is the batch's last place.
        """
        self.last = last
        _, self._begins, self._ends, self._numbers = queries.T
        self._groups, self._starts = np.unique(queries[:, 0], return_index=True)

    def __contains__(self, gid: int) -> bool:
        return gid in self._groups

    def of(self, gid: int) -> _Queries:
        """Return the queries of a group that has some."""
        at = int(np.searchsorted(self._groups, gid))
        mine = slice(self._starts[at], self._starts[at + 1] if at + 1 < len(self._starts) else None)
        return self._begins[mine], self._ends[mine], self._numbers[mine]

    @property
    def queries(self) -> _Queries:
        """All queries, those of a group side by side."""
        return self._begins, self._ends, self._numbers

    def starts(self, rows: pa.Table) -> Int64s:
        """Return the place of the first query of each row's group, which has some."""
        return self._starts[self._at(rows)]

    def counts(self, rows: pa.Table) -> Int64s:
        """Return the number of queries of each row's group, which has some."""
        return np.diff(self._starts, append=len(self._begins))[self._at(rows)]

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
        # A match that comes and goes may be published in between.
        soon = np.full(rows.num_rows, NOT_YET)
        np.minimum.at(soon, row, np.maximum(place, first))
        passes = (soon < NOT_YET) & (soon > rows.column("decided").to_numpy())
        kept = (rows.column("answered").to_numpy() < 0) & (newest > latest) & (places < soonest) & ~passes
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


def readers_of(connection: sa.Connection, groups: Sequence[int], oldest: int, last: int) -> Readers:
    """Read the queries of some groups that were live at the place ``oldest`` or came later."""
    columns = QUERIES.c.gid, QUERIES.c.sees_from, QUERIES.c.docid_until, QUERIES.c.query
    live = among(connection, QUERIES.c.gid, groups), QUERIES.c.docid_until > oldest
    table = np.array(raw_rows(connection, sa.select(*columns).where(*live)), dtype=np.int64).reshape(-1, 4)
    return Readers(table[np.lexsort(table.T[::-1])], last)


def changes_of(part: Subtracted, readers: Readers, first: int) -> Changes:
    """Tell how the matches of touched rows change for queries; ``first`` is the first place of the batch."""
    found = Changes(touched=bool(part.touched.num_rows))
    hits: _Hits = tuple(part.hits.column(name).to_numpy() for name in ("row", "place", "other"))
    chosen = np.flatnonzero(readers.may_change(part.touched, hits, first))
    if not len(chosen):
        return found
    order, starts = _by_match(part.touched.take(pa.array(chosen)))
    chosen = chosen[order]
    rows, hits = part.touched.take(pa.array(chosen)), _moved(hits, chosen, part.touched.num_rows)
    # Some matches at a time: those of few queries are thousands, and some may have a hundred thousand queries.
    cells = np.cumsum(np.add.reduceat(readers.counts(rows), starts))
    begin = 0
    while begin < len(starts):
        done = cells[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(cells, done + _CELLS, side="right")))
        first_row, last_row = starts[begin], starts[end] if end < len(starts) else rows.num_rows
        low, high = np.searchsorted(hits[0], [first_row, last_row])
        row, place, other = (column[low:high] for column in hits)
        some = rows.slice(first_row, last_row - first_row)
        chunk = _Chunk(some, starts[begin:end] - first_row, readers, (row - first_row, place, other))
        found.add(chunk.changes(first))
        begin = end
    return found


def _moved(hits: _Hits, chosen: Int64s, count: int) -> _Hits:
    """Return the hits of rows that were chosen out of so many, by the order of these."""
    place = np.full(count, -1)
    place[chosen] = np.arange(len(chosen))
    row = place[hits[0]]
    order = np.argsort(row, kind="stable")
    order = order[row[order] >= 0]
    return row[order], hits[1][order], hits[2][order]


def _by_match(rows: pa.Table) -> tuple[Int64s, Int64s]:
    """Return the order of rows by group and by the matches that they make, and where each match begins in it."""
    # Members and shown nodes begin what tells bindings apart.
    shown = list_parts(rows.column("docs"))[0] + list_parts(rows.column("nodes"))[0]
    keys, matches = rows.column("key").combine_chunks(), np.empty(rows.num_rows, dtype=np.int64)
    for width in np.unique(shown).tolist():
        mine = np.flatnonzero(shown == width)
        cut = pc.binary_slice(keys.take(pa.array(mine)), 0, 8 * width)
        matches[mine] = cut.dictionary_encode().indices.to_numpy()
    groups = rows.column("gid").to_numpy()
    order = np.lexsort((matches, shown, groups))
    begins = [np.diff(column[order], prepend=-1) != 0 for column in (groups, shown, matches)]
    return order, np.flatnonzero(np.logical_or.reduce(begins))


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Touched rows, those of one match side by side; each meets the queries of its group."""

    rows: pa.Table
    starts: Int64s
    """First row of each match."""
    readers: Readers
    hits: _Hits

    def changes(self, first: int) -> Changes:
        """Return the changes of the matches; ``first`` is the first place of the batch."""
        counts = self.readers.counts(self.rows)
        query, row = gather(self.readers.starts(self.rows), counts)
        begins, ends, numbers = (column[query] for column in self.readers.queries)
        oldest, newest = (column[row] for column in _places(self.rows))
        answered, decided, killed = (self.rows.column(name).to_numpy()[row] for name in _TOLD)
        sees = (begins < oldest) & (newest < ends)
        alive = sees & (killed <= begins)
        had = alive & (answered >= 0) & (answered < ends)
        hit = self._hit_places(counts, first)
        comes = alive & (decided <= self.readers.last) & (decided < ends)
        has = comes & (hit == NOT_YET)
        # A match has several rows, and each of these meets the same queries.
        of = np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=self.rows.num_rows))[row]
        order = np.lexsort((row, query, of))
        cells = np.flatnonzero((np.diff(of[order], prepend=-1) != 0) | (np.diff(query[order], prepend=-1) != 0))
        before, now = (np.logical_or.reduceat(one[order], cells) for one in (had, has))
        # A match goes when the last of its bindings does.
        end = np.maximum.reduceat(np.where(alive, hit, -1)[order], cells)
        passed = np.logical_or.reduceat(comes[order], cells) & ~before & ~now & (end > decided[order[cells]])
        at = order[cells]
        told = _Told(of[at], numbers[at], sees[at], ends[at])
        living = np.zeros(self.rows.num_rows, dtype=np.bool_)
        living[row[has]] = True
        return Changes(
            found=list(self._found(told, now & ~before, living)),
            passed=list(self._passed(told, passed, end)),
            retracted=list(self._retracted(told, before & ~now, end, first)),
        )

    def _found(self, told: _Told, chosen: Bools, living: Bools) -> Iterator[Found]:
        """Yield the matches that come; ``living`` are the rows that some query has now."""
        came = told.of(chosen)
        matches = [match for match, _, _ in came]
        for (match, own, seen), key, witness in zip(
            came, self._keys(matches), self._witnesses(matches, living), strict=True
        ):
            whose = groups_with(key[0], told.numbers[own], whole=len(own) == told.sees[seen].sum())
            yield Found(whose, *key[1:3], witness, key[3], self._place(match))

    def _passed(self, told: _Told, chosen: Bools, end: Int64s) -> Iterator[Found]:
        """Yield, for each query, the matches that come and go within the batch."""
        passed = told.of(chosen)
        for (match, own, _), key in zip(passed, self._keys([each for each, _, _ in passed]), strict=True):
            for number, place in zip(told.numbers[own].tolist(), end[own].tolist(), strict=True):
                yield Found((-number,), *key[1:3], (), key[3], self._place(match), place)

    def _retracted(self, told: _Told, chosen: Bools, end: Int64s, first: int) -> Iterator[Retraction]:
        """Yield the matches that go, with the document that forbids each."""
        went = told.of(chosen)
        for (match, own, seen), key in zip(went, self._keys([each for each, _, _ in went]), strict=True):
            place, other = self._hit_at(match, int(end[own].max()), first)
            whole = len(own) == (told.sees[seen] & (told.ends[seen] > place)).sum()
            whose = groups_with(key[0], told.numbers[own], whole=bool(whole and (told.ends[own] > place).all()))
            yield Retraction(whose, *key[1:], place, other)

    def _hit_places(self, counts: Int64s, first: int) -> Int64s:
        """Return the place of the first forbidden document of each row, for each query of its group."""
        row, place, _ = self.hits
        found = np.full(counts.sum(), NOT_YET)
        at, hit = gather((np.cumsum(counts) - counts)[row], counts[row])
        query, _ = gather(self.readers.starts(self.rows)[row], counts[row])
        begins, ends, _ = (column[query] for column in self.readers.queries)
        places = np.maximum(place, first)[hit]
        seen = (place[hit] > begins) & (places < ends)
        np.minimum.at(found, at[seen], places[seen])
        return found

    def _hit_at(self, match: int, wanted: int, first: int) -> tuple[int, int]:
        """Return a place, and the number of the first document there that forbids a row of a match."""
        begin, end = self._span(match)
        row, place, other = self.hits
        there = np.flatnonzero((row >= begin) & (row < end) & (np.maximum(place, first) == wanted))
        at = there[np.lexsort((other[there], place[there]))[0]]
        return wanted, int(other[at])

    def _place(self, match: int) -> int:
        """Return the place at which a match was decided; its members alone tell."""
        return int(self.rows.column("decided")[int(self.starts[match])].as_py())

    def _span(self, match: int) -> tuple[int, int]:
        end = self.starts[match + 1] if match + 1 < len(self.starts) else self.rows.num_rows
        return int(self.starts[match]), int(end)

    def _keys(self, matches: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...], int]]:
        """Yield groups, documents and nodes of matches, and how much later than their members they are."""
        some = self.rows.select(["gid", "docs", "nodes", "later"]).take(pa.array(self.starts[matches]))
        columns = (some.column(name).to_pylist() for name in some.column_names)
        for gid, docs, nodes, later in zip(*columns, strict=True):
            yield gid, tuple(docs), tuple(nodes), later

    def _witnesses(self, matches: Sequence[int], living: Bools) -> Iterator[tuple[int, ...]]:
        """Yield the least witness of each match's rows that some query has."""
        spans = [self._span(match) for match in matches]
        rows = [[row for row in range(*span) if living[row]] for span in spans]
        every = self.rows.column("witness").take(pa.array([row for some in rows for row in some], pa.int64()))
        waiting = iter(every.to_pylist())
        for some in rows:
            yield min(tuple(next(waiting)) for _ in some)


class _Told(NamedTuple):
    """Matches with each query of their group, those of one match side by side."""

    match: Int64s
    numbers: Int64s
    """Number of the query."""
    sees: Bools
    """Whether the query sees the members."""
    ends: Int64s
    """Place where the query ended."""

    def of(self, chosen: Bools) -> list[tuple[int, Int64s, slice]]:
        """Return the matches that some of these rows are of, with these rows, and with all rows of the match."""
        at = np.flatnonzero(chosen)
        matches, begins = np.unique(self.match[at], return_index=True)
        if not len(matches):
            return []
        spans = np.stack([np.searchsorted(self.match, matches, side) for side in ("left", "right")], axis=1).tolist()
        own = np.split(at, begins[1:])
        return [(match, mine, slice(*span)) for match, mine, span in zip(matches.tolist(), own, spans, strict=True)]


def _places(rows: pa.Table) -> tuple[Int64s, Int64s]:
    """Return the least and the greatest place of the members of each row."""
    lengths, docs = list_parts(rows.column("docs"))
    places = place_of(docs)
    starts = np.cumsum(lengths) - lengths
    return np.minimum.reduceat(places, starts), np.maximum.reduceat(places, starts)
