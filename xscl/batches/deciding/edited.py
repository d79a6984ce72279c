"""Matches of queries that a newer version of an item, or its removal, takes back (``ON CHANGE RETRACT``).

Such a query has one part, which finds its matches as all joins are found.  Matches all of whose members are the newest
versions, and not removed, become its own.  A newer version takes back those that batches before have found with the
version before, and so does a removal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from xscl.base.docids import place_of
from xscl.batches.attempt import Attempt
from xscl.batches.deciding.absence_changes import readers_of
from xscl.batches.publishing.documents import Told
from xscl.batches.taking_back import Retraction
from xscl.catalog.channels import read_streams
from xscl.catalog.events import edited_between, newer_versions
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.parts import retracting_channels
from xscl.catalog.removals import Removed, removed_among, removed_between
from xscl.catalog.retractions import Because
from xscl.catalog.tables import BATCHES, QUERIES, in_parts
from xscl.store.home import Home
from xscl.store.results import NO_DOC, Combinations, Meaning, Results, StoredMatch, files_with
from xscl.templates.columns import Int64s
from xscl.templates.results import Admitted, ClassRow, ResultColumns

__all__ = ["End", "changed_documents", "edited_matches", "ends_of", "paths_since", "queries_of"]


def edited_matches(
    batch: Attempt, results: Results, out: ResultColumns, chosen: Callable[[int], bool]
) -> tuple[list[Retraction], list[Told]]:
    """Write the matches of a batch that hold, and return those of earlier batches that do not hold any longer.

    Args:
        batch: the batch.
        results: what its levels have found.
        out: takes the matches.
        chosen: tells which groups it is about.

    Returns:
        Matches that are taken back, and matches that come and go within the batch.
    """
    home, span = batch.home, batch.span
    removed = {} if batch.publisher is None else batch.publisher.removed
    every = batch.driver.absences.retracting
    parts = {part: mine for part, gids in every.items() if (mine := [gid for gid in gids if chosen(gid)])}
    if not parts:
        return [], []
    edited = changed_documents(batch)
    passed = _write_new(batch, results, parts, out, removed)
    groups = {gid for gids in parts.values() for gid in gids}
    return list(_taken_back(home, (span.first, span.last), groups, edited, removed)) if edited else [], passed


def changed_documents(batch: Attempt) -> set[int]:
    """Return the documents that newer versions and removals of a batch take out, of channels where that matters."""
    span, removed = batch.span, {} if batch.publisher is None else batch.publisher.removed
    with batch.home.catalog.read() as connection:
        edited = edited_between(connection, span.first, span.last) if span.channels else {}
        edited |= removed_between(connection, span.first, span.last)
        edited |= {docid: each.channel for docid, each in removed.items()}
        if not edited:
            return set()
        streams = read_streams(connection)
        asked = {resolve_stream(streams, name)[0] for name in retracting_channels(connection)}
    return {docid for docid, channel in edited.items() if channel in asked}


class End(NamedTuple):
    """Event that takes a document out."""

    place: int
    other: int
    """Its number; of a removal that of the document itself."""
    because: Because


# -- matches that come ---------------------------------------------------------------------------------------------


def _write_new(
    batch: Attempt,
    results: Results,
    parts: Mapping[int, Sequence[int]],
    out: ResultColumns,
    removed: Mapping[int, Removed],
) -> list[Told]:
    """Write the matches that hold, and return those that ceased to within the batch."""
    passed: list[Told] = []
    meanings = results.meanings(parts.keys())
    if not meanings:
        return passed
    found = results.combinations()
    found = found.where(meanings.have(found))
    newer = ends_of(batch.home, found.docs, batch.span.last, removed)
    older = np.isin(found.docs, np.array(sorted(newer), np.int64)).any(axis=1)
    keys, class_of = np.unique(np.stack([found.origin, found.number], axis=1), axis=0, return_inverse=True)
    for place, (origin, number) in enumerate(keys.tolist()):
        mine = class_of.reshape(-1) == place
        meant = [(meaning, gids) for meaning in meanings.of(origin, number) if (gids := _of(parts, meaning))]
        _write(out, found.where(mine & ~older), [_class_row(*each) for each in meant])
        for row in np.flatnonzero(mine & older).tolist():
            end = min(newer[docid].place for docid in found.docids(row) if docid in newer)
            alone = [(meaning, _until(batch, gids, found.docids(row), end)) for meaning, gids in meant]
            _write(out, found.where(np.array([row])), [_class_row(*each) for each in alone if each[1]])
            if end > max(map(place_of, found.docids(row))):
                passed += (_passed(batch, found.docids(row), *each, end) for each in meant)
    return passed


def _passed(batch: Attempt, docids: tuple[int, ...], meaning: Meaning, gids: Sequence[int], end: int) -> Told:
    """Return a match that ceased to hold at a place of the batch."""
    groups = frozenset(gids)
    match = StoredMatch(docids, meaning.nodes, meaning.witness, groups, meaning.exchange, 0, batch.span.batch)
    return Told(match, None, end)


def _of(parts: Mapping[int, Sequence[int]], meaning: Meaning) -> tuple[int, ...]:
    """Return the groups that have a match of the parts that found it."""
    return tuple(sorted({gid for part in meaning.groups if part in parts for gid in parts[part]}))


def _class_row(meaning: Meaning, groups: Sequence[int]) -> ClassRow:
    by = Admitted(groups, (1,) * len(groups))
    return ClassRow("match", 0, meaning.nodes, meaning.witness, by, exchange=meaning.exchange)


def _write(out: ResultColumns, found: Combinations, rows: Sequence[ClassRow]) -> None:
    if not rows or not len(found.origin):
        return
    number = out.add_class(rows)
    docs = found.docs[:, : int((found.docs[0] != NO_DOC).sum())]
    which = np.full(len(docs), number, dtype=np.int32)
    if docs.shape[1] == 1:
        out.add_pairs(docs[:, 0], np.full(len(docs), NO_DOC), which)
    else:
        out.add_combinations(docs, which)


def _until(batch: Attempt, groups: Sequence[int], docids: Sequence[int], end: int) -> tuple[int, ...]:
    """Return what stands for the queries that were dropped before a member had a newer version."""
    places = [place_of(docid) for docid in docids]
    found: list[int] = []
    with batch.home.catalog.read() as connection:
        readers = readers_of(connection, groups, max(places), batch.span.last)
    for begins, ends, numbers in (readers.of(gid) for gid in groups if gid in readers):
        sees = (begins < min(places)) & (max(places) < ends) & (ends <= end)
        found += (-numbers[sees]).tolist()
    return tuple(sorted(found))


# -- matches that go -----------------------------------------------------------------------------------------------


def _taken_back(
    home: Home,
    places: tuple[int, int],
    groups: Collection[int],
    edited: Collection[int],
    removed: Mapping[int, Removed],
) -> Iterator[Retraction]:
    """Yield the matches of earlier batches with documents that are out, unless an earlier batch took them back."""
    first, last = places
    old = np.array(sorted(edited), np.int64)
    with home.catalog.read() as connection:
        alone = [-number for number in queries_of(connection, groups)]
        paths = paths_since(connection, int(place_of(old).min()))
    for path in paths:
        files = files_with(home.results([path]), old)
        if not files:
            continue
        results = Results(files)
        meanings = results.meanings({*groups, *alone})
        found = results.combinations()
        found = found.where(meanings.have(found) & np.isin(found.docs, old).any(axis=1))
        newer = ends_of(home, found.docs, last, removed)
        for row in range(len(found.origin)):
            docids = found.docids(row)
            end = min(newer[docid] for docid in docids if docid in newer)
            for meaning in meanings.of(int(found.origin[row]), int(found.number[row])) if end.place >= first else ():
                whose = tuple(sorted(meaning.groups & {*groups, *alone}))
                yield Retraction(whose, docids, meaning.nodes, 0, *end, meaning.exchange)


def queries_of(connection: sa.Connection, groups: Collection[int]) -> Iterator[int]:
    """Yield the numbers of the queries of some groups, also of dropped ones."""
    for some in in_parts(sorted(groups)):
        yield from connection.scalars(sa.select(QUERIES.c.query).where(QUERIES.c.gid.in_(some)))


def paths_since(connection: sa.Connection, place: int) -> list[str]:
    """Return the results of the batches that may have a match of an event at a place, or of later ones."""
    wanted = BATCHES.c.last >= place, BATCHES.c.result_path.is_not(None)
    paths = connection.scalars(sa.select(BATCHES.c.result_path).where(*wanted).order_by(BATCHES.c.batch))
    return list(dict.fromkeys(paths))


def ends_of(home: Home, docs: Int64s, last: int, own: Mapping[int, Removed]) -> dict[int, End]:
    """Return what has taken some documents out first, up to a place; ``own`` are removals by the batch itself."""
    docids = np.unique(docs[docs != NO_DOC]).tolist()
    with home.catalog.read() as connection:
        newer = newer_versions(connection, docids, last)
        removed = removed_among(connection, docids, last)
    removed |= {docid: own[docid].place for docid in docids if docid in own}
    ends = {docid: End(place_of(other), other, "edited") for docid, other in newer.items()}
    for docid, place in removed.items():
        gone = End(place, docid, "removed")
        ends[docid] = min(gone, ends.get(docid, gone))
    return ends
