"""Answers of steps that are told before they are final, and their corrections.

A level that corrects (``Level``) answers up to one distance behind clocks, and remembers events up to another.  A batch
keeps the rows of a query that waits for the greater distance, and moves them up to that distance first.  Then a copy of
them moves up to the lesser one.  The rows that this gives hold now.  A comparison with the rows that held before tells
which answers come, and which go.  So a late event needs no look at old events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xscl.base.docids import place_of
from xscl.base.number_order import each_once
from xscl.batches.attempt import Attempt
from xscl.batches.deciding.edited import paths_since
from xscl.batches.deciding.step_answers import Decided, Teller, groups_having
from xscl.batches.memory.steps import Readers
from xscl.batches.publishing.documents import Made
from xscl.batches.publishing.removals import published_numbers
from xscl.batches.refusals import Rejection
from xscl.batches.steps.matches import answer_nodes
from xscl.batches.steps.rows import Rows, joined_rows
from xscl.batches.steps.tree import Tree
from xscl.batches.taking_back import Retraction, groups_with
from xscl.batches.windows.answers import Frontier
from xscl.catalog.retractions import Because
from xscl.language.facts import ANSWERS
from xscl.store.results import NO_DOC, files_with, stored_matches
from xscl.templates.columns import Bools, Int64s, numbered_rows

__all__ = [
    "came_since",
    "corrected",
    "cut_from",
    "documents_cut",
    "first_docs",
    "having_docs",
    "made_before",
    "moved_ahead",
    "told_once",
]

_Answer = tuple[tuple[int, ...], tuple[int, ...]]
"""Documents and nodes of a match."""


@dataclass(frozen=True, slots=True)
class _Side:
    """Rows that are answers before the batch, or behind it."""

    rows: Rows
    nodes: Int64s
    having: list[Bools]
    """Queries that have rows, by kind."""
    kind: Int64s
    """Kind of each row."""

    def answer(self, row: int) -> _Answer:
        """Return the answer that a row is."""
        return tuple(self.rows.docs[row].tolist()), tuple(self.nodes[row].tolist())


@dataclass(frozen=True, slots=True)
class _Lost:
    """An answer that queries have no longer."""

    row: int
    """A row of it before the batch."""
    lost: Bools
    had: Bools


def corrected(teller: Teller, one: Decided) -> list[Retraction]:
    """Write the answers that come, and return those that go."""
    assert one.told is not None
    if not len(one.told) and not len(one.rows):
        return []
    if one.definition.has_values:
        return _corrected_documents(teller, one, one.told)
    readers = one.members.readers
    before, now = _side(one, one.told), _side(one, one.rows)
    mine = one.is_about(np.arange(len(readers.number)))
    lost: list[_Lost] = []
    rows, groups, of = list[int](), dict[tuple[int, ...], int](), list[int]()
    for old, new in _changed(before, now):
        had, has = (
            np.logical_or.reduce([side.having[kind] for kind in side.kind[some].tolist()])
            if len(some)
            else np.zeros(len(mine), dtype=np.bool_)
            for side, some in ((before, old), (now, new))
        )
        if (comes := has & ~had & mine).any():
            rows.append(int(new[np.argmin(now.rows.place[new])]))
            places = place_of(now.rows.docs[rows[-1]])
            whose = groups_having(readers, np.flatnonzero(comes), (int(places.min()), int(places.max())))
            of.append(groups.setdefault(whose, len(groups)))
        if (goes := had & ~has & mine).any():
            lost.append(_Lost(int(old[0]), goes, had))
    if rows:
        out = teller.results()
        teller.publish(out, [*teller.put(out, now.rows, now.nodes, np.array(rows, np.int64), [*groups], np.array(of))])
    return list(_retracted(teller.batch, one, before, readers, lost))


def moved_ahead(tree: Tree, frontiers: Sequence[Frontier]) -> tuple[Rows, Rows]:
    """Return the rows that a tree would decide if times were settled so far, and lefts whose runs it would cut off.

    Its state stays as it is.
    """
    state = {name: rows.take(np.arange(len(rows))) for name, rows in tree.state.items()}
    copy = Tree(tree.layout, tree.root, frontiers, state, tree.sharing, versions=tree.versions)
    nothing = Rows.empty(tree.layout)
    return copy.move([nothing] * len(frontiers)), joined_rows([nothing, *copy.too_long])


def having_docs(rows: Rows, others: Rows) -> Bools:
    """Tell which rows have the documents of one of some others."""
    code = numbered_rows([*np.concatenate([rows.docs, others.docs]).T])[1]
    return np.isin(code[: len(rows)], code[len(rows) :])


def first_docs(docs: Int64s) -> Int64s:
    """Return the first document of each row."""
    found: Int64s = docs[np.arange(len(docs)), np.argmax(docs != NO_DOC, axis=1)] if len(docs) else docs[:, 0]
    return found


def cut_from(docs: Int64s, cut: Rows | None) -> Int64s:
    """Return the event from which a run was cut off that rows are of; ``NO_DOC`` for other rows.

    Args:
        docs: documents of the rows.
        cut: lefts whose runs were cut off.
    """
    found = np.full(len(docs), NO_DOC)
    lefts = docs[:0] if cut is None else cut.docs
    # Lefts of one FOLD have documents in the same places.
    for there in np.unique(lefts != NO_DOC, axis=0):
        some = lefts[((lefts != NO_DOC) == there).all(axis=1)]
        code = numbered_rows([*np.concatenate([docs, some])[:, there].T])[1]
        begun = np.full(len(code), NO_DOC)
        begun[code[len(docs) :]] = first_docs(some)
        found = np.where(found == NO_DOC, begun[code[: len(docs)]], found)
    return found


def told_once(one: Decided, done: Rows) -> Iterator[Decided]:
    """Yield final rows; those whose answers may be among what was told before, with the rows of that (``done``)."""
    if not len(done):
        yield one
        return
    again = having_docs(one.rows, done)
    yield replace(one, rows=one.rows.take(~again))
    if again.any():
        yield replace(one, rows=joined_rows([one.rows.take(again), done]), told=done)


def came_since(new: Sequence[Rows], first: int) -> tuple[Int64s, Int64s]:
    """Return the documents of matches that came at a place or behind it, and their times, in the order of these."""
    docs = np.concatenate([rows.docs.reshape(-1) for rows in new])
    times = np.concatenate([rows.times.reshape(-1) for rows in new])
    mine = (docs != NO_DOC) & (place_of(docs) >= first)
    found = np.unique(np.stack([times[mine], docs[mine]], axis=1), axis=0)
    return found[:, 1], found[:, 0]


def _side(one: Decided, rows: Rows) -> _Side:
    """Return rows with the queries that have them: those that are there where these are decided."""
    readers, having = one.members.readers, []
    gone = np.searchsorted(np.unique(readers.until), rows.place, "right")
    kinds, which = numbered_rows([rows.base, gone, *rows.box.T])
    for at in kinds.tolist():
        members = one.sharing.sets.members(int(rows.base[at]), rows.box[at])
        having.append(readers.mask(readers.of_members(members)) & (readers.until > rows.place[at]))
    return _Side(rows, answer_nodes(one.definition, one.layout, rows), having, which)


def _changed(before: _Side, now: _Side) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the rows on both sides of each answer that other queries have than before."""
    count = len(before.rows)
    docs = np.concatenate([before.rows.docs, now.rows.docs])
    # Queries whose absences end at other times have other answers.
    nodes, ts = np.concatenate([before.nodes, now.nodes]), np.concatenate([before.rows.ts, now.rows.ts])
    answer = numbered_rows([*docs.T, *nodes.T, ts])[1]
    codes: dict[bytes, int] = {}
    coded = [np.array([codes.setdefault(each.tobytes(), len(codes)) for each in s.having]) for s in (before, now)]
    code = np.concatenate([of[s.kind] if len(of) else s.kind for of, s in zip(coded, (before, now), strict=True)])
    pairs = answer * len(codes) + code
    differing = np.unique(np.setxor1d(pairs[:count], pairs[count:]) // max(len(codes), 1))
    there = np.flatnonzero(np.isin(answer, differing))
    there = there[np.argsort(answer[there], kind="stable")]
    for rows in np.split(there, np.flatnonzero(np.diff(answer[there])) + 1) if len(there) else ():
        yield rows[rows < count], rows[rows >= count] - count


def _retracted(
    batch: Attempt, one: Decided, before: _Side, readers: Readers, lost: list[_Lost]
) -> Iterator[Retraction]:
    """Yield what takes answers back; a group is named if its queries have it stored so, and all lose it."""
    told = before.rows
    sources = _sources(batch, readers, [before.answer(each.row) for each in lost]) if lost else {}
    limits = cut_from(told.docs[[each.row for each in lost]], one.cut)
    for each, limit in zip(lost, limits.tolist(), strict=True):
        answer, row = before.answer(each.row), each.row
        groups: list[int] = []
        for gid in np.unique(readers.gid[each.lost]).tolist():
            mine = readers.gid == gid
            whole = gid in sources.get(answer, ()) and bool((each.lost & mine == each.had & mine).all())
            groups += groups_with(gid, readers.number[each.lost & mine], whole=whole)
        later = int(told.ts[row] - told.times[row].max())
        place, cause, because = _cause(one, int(told.start[row]), int(told.ts[row]), limit)
        yield Retraction(tuple(sorted(groups)), *answer, later, place, cause, because)


def _sources(batch: Attempt, readers: Readers, answers: list[_Answer]) -> dict[_Answer, set[int]]:
    """Return the groups, or what stands for them in a query, under which answers are stored."""
    docs = np.unique(np.array([doc for answer in answers for doc in answer[0]], dtype=np.int64))
    groups = {*np.unique(readers.gid).tolist(), *(-readers.number).tolist()}
    with batch.home.catalog.read() as connection:
        paths = batch.home.results(paths_since(connection, int(place_of(docs).min())))
    found: dict[_Answer, set[int]] = {answer: set() for answer in answers}
    for match in stored_matches(files_with(paths, docs), groups):
        if (match.docids, match.nodes) in found:
            found[match.docids, match.nodes] |= match.groups & groups
    return found


def _cause(one: Decided, start: int, ts: int, limit: int) -> tuple[int, int, Because]:
    """Return what takes an answer back: its place, a document, and why.

    A document of the batch does, the first between the answer's start and its time.  If the run was cut off that the
    answer is of, none does: then it is the event from which that run was cut off (``limit``).
    """
    if limit != NO_DOC:
        return one.ends[0] - 1, limit, "limit"
    docs, times = one.came
    inside = docs[(start <= times) & (times <= ts)]
    cause = int((inside if len(inside) else docs)[0])
    return place_of(cause), cause, "late"


# -- documents -----------------------------------------------------------------------------------------------------


def made_before(teller: Teller, one: Decided) -> dict[str, tuple[Made, set[int]]]:
    """Return the documents that held before the batch; refusals were told then."""
    assert one.told is not None
    return _made(teller, replace(one, rows=one.told), ())[0]


def _made(
    teller: Teller, one: Decided, told: Collection[Rejection]
) -> tuple[dict[str, tuple[Made, set[int]]], list[Rejection]]:
    """Return documents, and the refusals that are not among some that were told."""
    publisher = teller.batch.publisher
    assert publisher is not None
    known, publisher.rejected = publisher.rejected, []
    try:
        found = teller.made(one)
    finally:
        refused, publisher.rejected = publisher.rejected, known
    return found, [each for each in refused if each not in told]


def _corrected_documents(teller: Teller, one: Decided, told: Rows) -> list[Retraction]:
    """Write the documents that come, with their matches, and return the matches that go."""
    publisher = teller.batch.publisher
    if publisher is None:
        return []  # no event came, and no time moved on
    before, old = _made(teller, replace(one, rows=told), ())
    now, new = _made(teller, one, old)
    publisher.rejected += new
    comes = {id_: whose - before[id_][1] if id_ in before else whose for id_, (_, whose) in now.items()}
    goes = {id_: whose - now[id_][1] if id_ in now else whose for id_, (_, whose) in before.items()}
    changed = [id_ for id_, whose in (*comes.items(), *goes.items()) if whose]
    with teller.batch.home.catalog.read() as connection:
        known = {
            id_: docid for (_, id_), docid in published_numbers(connection, [(ANSWERS, i) for i in changed]).items()
        }
    found = [(now[id_][0], tuple(sorted(whose))) for id_, whose in comes.items() if whose]
    teller.write_documents(found, {id_: known[id_] for id_ in comes if id_ in known})
    limits = documents_cut(teller, one) if any(goes.values()) else {}
    retracted = []
    for id_, whose in goes.items():
        if whose:
            made = before[id_][0]
            start = made.ts if made.start is None else made.start
            cause = _cause(one, start, made.ts, limits.get(id_, NO_DOC))
            retracted.append(Retraction(tuple(sorted(whose)), (known[id_],), (0,), 0, *cause))
    return retracted


def documents_cut(teller: Teller, one: Decided) -> dict[str, int]:
    """Return the events from which runs were cut off, by the ids of documents of before that are of these runs."""
    if one.told is None or one.cut is None or not len(one.cut):
        return {}
    begun = cut_from(one.told.docs, one.cut)
    return {
        id_: doc
        for doc in each_once(begun[begun != NO_DOC]).tolist()
        for id_ in _made(teller, replace(one, rows=one.told.take(begun == doc)), ())[0]
    }
