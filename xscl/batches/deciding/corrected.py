"""Answers about absence that newer versions and removals change (``ON CHANGE RETRACT``).

A document that is out is no member, and forbids nothing.  So answers with this document go, and answers that it alone
has forbidden come, again or for the first time.  Such an answer may be old, and have no pending row any more.  So
the matches that a change speaks of are told anew, from all results about their members; all other matches take the
way of all queries about absence.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.docids import place_of
from xscl.batches.attempt import Attempt
from xscl.batches.bindings import Bindings, Parts, bindings, kills_of, remembered
from xscl.batches.deciding.absence_changes import Changes, Found, Readers
from xscl.batches.deciding.absence_found import pending_rows, times_of
from xscl.batches.deciding.edited import End, changed_documents, ends_of, paths_since, queries_of
from xscl.batches.ranges import BatchRange
from xscl.batches.taking_back import Retraction, groups_with
from xscl.catalog.retractions import Retracted, read_retractions
from xscl.store.parquet import list_parts
from xscl.store.results import Results, files_with
from xscl.templates.absence import KILL_SCHEMA, NOT_YET, PENDING_SCHEMA, Round
from xscl.templates.columns import Bools, Int64s
from xscl.templates.origins import batch_of

__all__ = ["Anew", "anew", "told_anew"]

_Members = tuple[int, ...]
_Match = tuple[int, _Members, _Members]
"""Group, documents and nodes."""
_Kill = tuple[int, int, int]
"""Place and number of a forbidden document, and the place at which it was out."""


@dataclass
class Anew:
    """Matches that changes speak of, with everything that was found about their members."""

    groups: pa.Array
    """Their groups."""
    members: pa.Array
    """Their members; all matches of these groups with these members are told anew."""
    rows: pa.Table = field(default_factory=PENDING_SCHEMA.empty_table)
    """Their bindings as pending rows, each once."""
    kills: pa.Table = field(default_factory=KILL_SCHEMA.empty_table)
    """Bindings with forbidden documents."""
    stored: dict[_Match, dict[int, int]] = field(default_factory=dict)
    """Last batch that stored each match, by group, or by what stands for it in a query."""
    gone: dict[_Match, list[Retracted]] = field(default_factory=dict)
    """Times that each match was taken back."""
    ends: Mapping[int, End] = field(default_factory=dict)
    """Events that have taken documents out, by the numbers of these."""

    def without(self, table: pa.Table) -> pa.Table:
        """Return the rows of a table that are about other matches."""
        mine = pc.and_(pc.is_in(table.column("gid"), self.groups), pc.is_in(table.column("members"), self.members))
        return table.filter(pc.invert(mine))

    def answered_as(self, pending: pa.Table) -> Self:
        """Return these matches, with the places at which their bindings among some pending rows were answered."""
        known = pending.filter(pc.is_in(pending.column("members"), self.members)).to_pylist()
        answered = {(row["gid"], row["key"]): row["answered"] for row in known}
        rows = [{**row, "answered": answered.get((row["gid"], row["key"]), -1)} for row in self.rows.to_pylist()]
        return replace(self, rows=pa.Table.from_pylist(rows, schema=PENDING_SCHEMA))


def anew(batch: Attempt, files: Sequence[Path], new: Round) -> Anew | None:
    """Return the matches that newer versions and removals may change; None: there are none.

    Args:
        batch: the batch.
        files: results of its levels.
        new: bindings that these have found.
    """
    groups, asked = batch.driver.absences.correcting
    if not groups:
        return None
    found = [_touched(batch, groups, new), _replayed(batch, groups, new)]
    changed = np.array(sorted(changed_documents(batch)), np.int64)
    if len(changed):
        with batch.home.catalog.read() as connection:
            paths = paths_since(connection, int(place_of(changed).min()))
        for path in paths:
            of_path = files_with(batch.home.results([path]), changed)
            found += [members for _, members in _bindings(batch, of_path, asked, changed) if members is not None]
    members = pc.unique(pa.chunked_array([pa.array([], pa.binary()), *found]))
    if not len(members):
        return None
    made = Anew(pa.array(groups, pa.int64()), members)
    _read(batch, made, asked, files)
    return made


def _touched(batch: Attempt, groups: Sequence[int], new: Round) -> pa.Array:
    """Return the members of new bindings with documents that are out."""
    found = pa.array([], pa.binary())
    for table in (new.pending, new.kills):
        mine = table.filter(pc.is_in(table.column("gid"), pa.array(groups, pa.int64())))
        if mine.num_rows:
            members = mine.column("members").combine_chunks()
            docs = [np.frombuffer(each, np.int64) for each in members.to_pylist()]
            if "other" in mine.column_names:
                others = mine.column("other").to_pylist()
                docs = [np.append(each, other) for each, other in zip(docs, others, strict=True)]
            out = ends_of(batch.home, np.unique(np.concatenate(docs)), batch.span.last, _removed(batch))
            has = pa.array([not out.keys().isdisjoint(each.tolist()) for each in docs], pa.bool_())
            found = pa.concat_arrays([found, members.filter(has)])
    return found


def _replayed(batch: Attempt, groups: Sequence[int], new: Round) -> pa.Array:
    """Return the members of new bindings with late documents that are taken again, which may forbid final answers."""
    kills = new.kills if batch.span.replayed else new.kills.slice(0, 0)
    mine = kills.filter(pc.is_in(kills.column("gid"), pa.array(groups, pa.int64())))
    return mine.column("members").combine_chunks()


def _removed(batch: Attempt) -> Mapping[int, Any]:
    return {} if batch.publisher is None else batch.publisher.removed


# -- what was found ------------------------------------------------------------------------------------------------


def _bindings(
    batch: Attempt, files: Sequence[str | Path], asked: Parts, having: Int64s, firsts: bool = False
) -> Iterator[tuple[pa.Table, pa.Array]]:
    """Iterate over bindings of parts, as pending rows or as kills, each table with the members of its rows.

    Args:
        batch: the batch.
        files: results.
        asked: parts of groups.
        having: documents; each binding has one of these.
        firsts: each has one of these as its first document.
    """
    if not files:
        return
    results = Results(files)
    meanings = results.meanings(asked.finders)
    found = results.combinations()
    docs = found.docs[:, :1] if firsts else found.docs
    found = found.where(meanings.have(found) & np.isin(docs, having).any(axis=1))
    if not len(found.origin):
        return
    times = times_of(batch, found.docs)
    for every in bindings(found, meanings, asked):
        part = remembered(every, times["docid"], times["behind"])
        table = (
            kills_of(part) if part.ends is None else pending_rows(_in_time(part, times), json.loads(part.ends), times)
        )
        yield table, table.column("members").combine_chunks()


def _in_time(part: Bindings, times: Mapping[str, Any]) -> Bindings:
    """Return the bindings that are no late document alone."""
    if part.docs.shape[1] > 1:
        return part
    return part.where(~np.isin(part.docs[:, 0], times["docid"][times["late"]]))


def _read(batch: Attempt, made: Anew, asked: Parts, files: Sequence[Path]) -> None:
    """Read all that is known of the members."""
    home, span = batch.home, batch.span
    members = {tuple(np.frombuffer(each, np.int64).tolist()) for each in made.members.to_pylist()}
    every = np.unique([docid for each in members for docid in each])
    firsts = np.array(sorted({each[0] for each in members}), np.int64)
    groups = made.groups.to_pylist()
    with home.catalog.read() as connection:
        paths = paths_since(connection, int(place_of(every).min()))
        alone = {-query: gid for gid in groups for query in queries_of(connection, [gid])}
        for each in read_retractions(connection, [*groups, *alone]):
            if each.docids in members:
                made.gone.setdefault((alone.get(each.gid, each.gid), each.docids, each.nodes), []).append(each)
    rows: dict[tuple[int, bytes], dict[str, Any]] = {}
    results: list[Sequence[str | Path]] = [*(files_with(home.results([path]), every) for path in paths), files]
    for some in results:
        for table, of in _bindings(batch, some, asked, firsts, firsts=True):
            mine = table.filter(pc.is_in(of, made.members))
            if "other" in table.column_names:
                made.kills = pa.concat_tables([made.kills, mine])
                continue
            for row in mine.to_pylist():
                known = rows.setdefault((row["gid"], row["key"]), row)
                known["witness"] = min(known["witness"], row["witness"])
        _read_stored(made, some, members, groups, alone)
    made.rows = pa.Table.from_pylist([*rows.values()], schema=PENDING_SCHEMA)
    docs = np.append(list_parts(made.rows.column("docs"))[1], made.kills.column("other").to_numpy())
    made.ends = ends_of(home, docs, span.last, _removed(batch))


def _read_stored(
    made: Anew,
    files: Sequence[str | Path],
    members: Collection[_Members],
    groups: Sequence[int],
    alone: Mapping[int, int],
) -> None:
    results = Results(files)
    meanings = results.meanings({*groups, *alone})
    if not meanings:
        return
    found = results.combinations(meanings)
    for row, origin in enumerate(found.origin.tolist()):
        docids = found.docids(row)
        for meaning in meanings.of(origin, int(found.number[row])) if docids in members else ():
            for gid in meaning.groups & {*groups, *alone}:
                stored = made.stored.setdefault((alone.get(gid, gid), docids, meaning.nodes), {})
                stored[gid] = max(batch_of(origin), stored.get(gid, 0))


# -- what holds ----------------------------------------------------------------------------------------------------


def told_anew(
    made: Anew, decided: Int64s, final: Int64s, readers: Readers, span: BatchRange
) -> tuple[Changes, pa.Table]:
    """Return how matches change, and their rows that are not final.

    Args:
        made: the matches.
        decided: place at which each row is answered.
        final: place at which each row is final.
        readers: the queries that may see them.
        span: the batch.
    """
    changes, last = Changes(touched=True), span.last
    kills: dict[tuple[int, bytes], list[_Kill]] = {}
    for kill in made.kills.to_pylist():
        end = made.ends[kill["other"]].place if kill["other"] in made.ends else NOT_YET
        kills.setdefault((kill["gid"], kill["key"]), []).append((kill["place"], kill["other"], end))
    rows: dict[_Match, list[_Row]] = {}
    left = []
    for row, answer, ends in zip(made.rows.to_pylist(), decided.tolist(), final.tolist(), strict=True):
        mine = kills.get((row["gid"], row["key"]), [])
        match = row["gid"], tuple(row["docs"]), tuple(row["nodes"])
        rows.setdefault(match, []).append(_Row(row, answer, mine))
        if ends > last and made.ends.keys().isdisjoint(row["docs"]):
            killed = max((place for place, _, end in mine if end > last), default=-1)
            left.append({**row, "killed": killed, "answered": answer if answer <= last else -1})
    for match, some in sorted(rows.items(), key=lambda each: each[0]):
        if match[0] in readers:
            _change(changes, made, match, some, readers.of(match[0]), (span.first, last))
    return changes, pa.Table.from_pylist(left, schema=PENDING_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Row:
    """Binding of a match."""

    row: Mapping[str, Any]
    decided: int
    kills: Sequence[_Kill]

    def first_kills(self, begins: Int64s, upto: Int64s, first: int) -> tuple[Int64s, Int64s]:
        """Return the place of the first document that forbids it for each query, and its number; ``NOT_YET``: none."""
        place, other = np.full(len(begins), NOT_YET), np.full(len(begins), NOT_YET)
        for at, number, end in self.kills:
            hit = (at > begins) & (at <= upto) & (end > upto)
            sooner = hit & ((max(at, first) < place) | (max(at, first) == place) & (number < other))
            place[sooner], other[sooner] = max(at, first), number
        return place, other


def _change(
    changes: Changes,
    made: Anew,
    match: _Match,
    rows: Sequence[_Row],
    queries: tuple[Int64s, Int64s, Int64s],
    places: tuple[int, int],
) -> None:
    """Tell how a match changes for the queries of its group."""
    gid, docs, nodes = match
    first, last = places
    begins, ends, numbers = queries
    came = [place_of(docid) for docid in docs]
    sees: Bools = (begins < min(came)) & (max(came) < ends)
    live, upto = sees & (ends > first), np.minimum(last, ends - 1)
    before = live & _had(made, match, ends, numbers)
    out = min((made.ends[docid] for docid in docs if docid in made.ends), default=None)
    stays: Bools = np.full(len(ends), fill_value=True) if out is None else out.place > upto
    firsts = [row.first_kills(begins, upto, first) for row in rows]
    living = [place == NOT_YET for place, _ in firsts]
    # Where a frontier fell back, an answer that was given stays.
    answered = before | np.logical_or.reduce([row.decided <= upto for row in rows])
    now = live & stays & answered & np.logical_or.reduce(living)
    if (new := now & ~before).any():
        witness = min(tuple(row.row["witness"]) for row, alive in zip(rows, living, strict=True) if (alive & new).any())
        whole = bool(new.sum() == sees.sum())
        groups = groups_with(gid, numbers[new], whole=whole)
        changes.found.append(Found(groups, docs, nodes, witness, rows[0].row["later"], max(rows[0].decided, first)))
    causes: dict[tuple[int, int, str], list[int]] = {}
    for query in np.flatnonzero(before & ~now).tolist():
        if out is not None and not stays[query]:
            cause = out.place, out.other, str(out.because)
        else:
            # A match goes when the last of its bindings does.
            cause = *max((int(place[query]), int(other[query])) for place, other in firsts), "late"
        causes.setdefault(cause, []).append(query)
    for (place, other, because), own in sorted(causes.items()):
        whole = len(causes) == 1 and len(own) == (sees & (ends > place)).sum()
        told = groups_with(gid, numbers[own], whole=whole)
        later = rows[0].row["later"]
        changes.retracted.append(Retraction(told, docs, nodes, later, max(place, first), other, because))  # type: ignore[arg-type]


def _had(made: Anew, match: _Match, ends: Int64s, numbers: Int64s) -> Bools:
    """Tell which queries of its group had a match before the batch."""
    had = np.zeros(len(ends), dtype=np.bool_)
    gone = made.gone.get(match, ())
    for source, batch in made.stored.get(match, {}).items():
        held = np.full(len(ends), fill_value=True) if source == match[0] else numbers == -source
        for each in gone:
            if each.batch > batch:
                lost = each.place < ends
                held &= ~(lost if each.gid == match[0] else lost & (numbers == -each.gid))
        had |= held
    return had
