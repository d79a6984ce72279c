"""Answers about absence that replayed late events take back (``late replay``).

Such an event may forbid answers that are final and have no pending row.  So the results about their members
are read once more: an answer goes unless one of its bindings is still free of forbidden documents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from xscl.base.docids import place_of
from xscl.batches.bindings import Parts, bindings, keys_of, kills_of, remembered
from xscl.batches.deciding.absence_changes import Readers, readers_of
from xscl.batches.deciding.edited import paths_since, queries_of
from xscl.batches.ranges import BatchRange
from xscl.batches.taking_back import Retraction
from xscl.catalog.parts import read_parts_of
from xscl.catalog.retractions import Retracted, read_retractions
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.results import NO_DOC, Results, files_with
from xscl.templates.absence import Round
from xscl.templates.columns import Int64s
from xscl.templates.origins import batch_of

__all__ = ["replayed_matches"]

_Members = tuple[int, ...]


class _Found:
    """Results about some members, for some groups."""

    def __init__(self) -> None:
        self.bindings: dict[tuple[int, _Members, _Members], list[bytes]] = {}
        """Keys of bindings, by group, documents and nodes of a match."""
        self.killed: dict[tuple[int, bytes], list[tuple[int, int]]] = {}
        """Place and number of forbidden documents, by group and key of a binding."""
        self.stored: dict[tuple[int, _Members, _Members], tuple[int, int]] = {}
        """Last batch, and time behind the members, of matches, by group or what stands for it in a query."""


def replayed_matches(home: Home, span: BatchRange, files: Sequence[Path | str], work: Round) -> list[Retraction]:
    """Return the final answers that forbidden documents of the batch take back.

    Args:
        home: the home.
        span: the batch.
        files: results of its levels.
        work: rows that are not final, whose changes are told elsewhere, and bindings with forbidden documents.
    """
    pending = work.pending.select(["gid", "key"])
    lone = work.kills.join(pending, ["gid", "key"], join_type="left anti")
    if not lone.num_rows:
        return []
    docs = {tuple(np.frombuffer(each, np.int64).tolist()) for each in lone.column("members").unique().to_pylist()}
    groups = sorted(lone.column("gid").unique().to_pylist())
    oldest = min(place_of(docid) for members in docs for docid in members)
    with home.catalog.read() as connection:
        asked = Parts.of(read_parts_of(connection, groups))
        alone = {-query: gid for gid in groups for query in queries_of(connection, [gid])}
        paths = paths_since(connection, oldest)
        readers = readers_of(connection, groups, oldest, span.last)
        gone = list(read_retractions(connection, [*groups, *alone]))
    found = _Found()
    members = np.unique([docid for each in docs for docid in each])
    for some in (*(files_with(home.results([path]), members) for path in paths), files):
        _read(found, Results(some), asked, {*groups, *alone}, docs, partial(_times, home))
    touched = {(row["gid"], row["key"]): row["other"] for row in lone.to_pylist()}
    # Bindings of one match become final together; of one that is not final, those that are forbidden are left out.
    waiting = set(zip(*(column.to_pylist() for column in pending.columns), strict=True))
    return list(_taken_back(found, waiting, touched, alone, readers, _last_gone(gone), span.first))


def _times(home: Home, docs: Int64s) -> tuple[Int64s, Int64s]:
    """Return some documents, ascending, and how far behind its clock each came that was in time for its channel."""
    events = events_of(home, np.unique(docs[docs != NO_DOC]), ["docid", "late", "behind"]).sort_by("docid")
    docids, late, behind = (events.column(name).to_numpy() for name in events.column_names)
    return docids, np.where(late, 0, behind)


def _read(
    found: _Found,
    results: Results,
    asked: Parts,
    groups: Collection[int],
    docs: Collection[_Members],
    times: Callable[[Int64s], tuple[Int64s, Int64s]],
) -> None:
    """Add the results about the members ``docs``, for some groups, to ``found``."""
    meanings = results.meanings({*groups, *asked.finders.tolist()})
    combinations = results.combinations()
    firsts = np.array(sorted({members[0] for members in docs}), np.int64)
    combinations = combinations.where(meanings.have(combinations) & np.isin(combinations.docs[:, 0], firsts))
    if not len(combinations.origin):
        return
    behind = times(combinations.docs) if asked.has_memory else None
    for every in bindings(combinations, meanings, asked):
        part = every if behind is None else remembered(every, *behind)
        if part.ends is None:
            table = kills_of(part)
            for row in table.to_pylist():
                found.killed.setdefault((row["gid"], row["key"]), []).append((row["place"], row["other"]))
            continue
        shown = part.nodes[:, : part.docs.shape[1] + part.shown].tolist()
        for gid, members, nodes, key in zip(
            part.groups.tolist(), part.docs.tolist(), shown, keys_of(part.docs, part.nodes).to_pylist(), strict=True
        ):
            found.bindings.setdefault((gid, tuple(members), tuple(nodes)), []).append(key)
    for row, origin in enumerate(combinations.origin.tolist()):
        docids = combinations.docids(row)
        for meaning in meanings.of(origin, int(combinations.number[row])) if docids in docs else ():
            for gid in meaning.groups & {*groups}:
                found.stored[gid, docids, meaning.nodes] = batch_of(origin), meaning.later


def _last_gone(gone: Sequence[Retracted]) -> dict[tuple[int, _Members, _Members], int]:
    """Return the last batch that took each match back."""
    return {(row.gid, row.docids, row.nodes): row.batch for row in sorted(gone, key=lambda row: row.batch)}


def _taken_back(
    found: _Found,
    waiting: Collection[tuple[int, bytes]],
    touched: Mapping[tuple[int, bytes], int],
    alone: Mapping[int, int],
    readers: Readers,
    gone: Mapping[tuple[int, _Members, _Members], int],
    first: int,
) -> Iterator[Retraction]:
    """Yield the answers that lose their last free binding for some of their queries.

    Args:
        found: results about the answers' members.
        waiting: bindings, as group and key, that are not final; their answers are taken back elsewhere.
        touched: numbers of the batch's forbidden documents, by the group and key of the binding that they forbid.
        alone: groups by what stands for one of their queries in results: its number, negated.
        readers: between which places each query of a group reads.
        gone: last batch that took a match back.
        first: place of the batch's first event.
    """
    for (whose, docids, nodes), (batch, later) in sorted(found.stored.items()):
        gid = alone.get(whose, whose)
        keys = found.bindings.get((gid, docids, nodes), [])
        was_gone = gid not in readers or gone.get((whose, docids, nodes), -1) > batch
        if was_gone or not any((gid, key) in touched for key in keys) or any((gid, key) in waiting for key in keys):
            continue
        begins, ends, numbers = readers.of(gid)
        places = [place_of(docid) for docid in docids]
        had = (begins < min(places)) & (max(places) < ends) & (ends > first)
        had &= True if whose == gid else numbers == -whose
        lost = had.copy()
        for key in keys:
            kills = np.array(found.killed.get((gid, key), ()), np.int64).reshape(-1, 2)[:, :1]
            lost &= ((kills > begins) & (np.maximum(kills, first) < ends)).any(axis=0)
        if lost.any():
            other = min(touched[gid, key] for key in keys if (gid, key) in touched)
            named = (whose,) if (lost == had).all() else tuple(sorted((-numbers[lost]).tolist()))
            yield Retraction(named, docids, nodes, later, first, other, "replayed")
