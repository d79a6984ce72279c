"""Documents of pairs, looked up among witness rows or runs of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.alike_rows import OF_EVENT, event_columns
from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.templates.columns import Bools, Int32s, Int64s
from xscl.templates.joins.document_facts import DocumentFacts, facts_of_rows, facts_of_runs
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.program_guards import ProgramGuards
from xscl.templates.results import Member
from xscl.templates.runs.run import Run

__all__ = ["documents_of_alike", "documents_of_rows", "documents_of_runs"]


def documents_of_rows(rows: pa.Table, fresh: pa.Table, guards: ProgramGuards) -> Documents:
    """Look up documents that are looked at one by one in their witness rows.

    Args:
        rows: rows of these documents.
        fresh: all rows of the batch, whose facts stand together.
        guards: tell which facts are read.
    """

    def members(left: int, right: int) -> list[Member]:
        assert right < 0
        at = pc.index(rows.column("docid"), left).as_py()
        row = rows.select(["docid", "item", "ts", "place", "membership"]).slice(at, 1).to_pylist()[0]
        return [Member(**row)]

    def left_first(pairs: MatchedPairs) -> Bools:
        return np.zeros(len(pairs.left), dtype=np.bool_)

    def facts(docs: Int64s) -> DocumentFacts:
        some = np.isin(fresh.column("docid").to_numpy(), docs)
        return facts_of_rows(fresh if some.all() else fresh.filter(pa.array(some)), docs, guards)

    of_rows: Int32s = rows.column("membership").to_numpy()
    if not of_rows.any():
        return Documents(members, left_first, facts)
    docs, first = np.unique(rows.column("docid").to_numpy(), return_index=True)

    def memberships(wanted: Int64s) -> Int32s:
        # The right sides are no documents.
        place = np.minimum(np.searchsorted(docs, wanted), len(docs) - 1)
        found: Int32s = np.where(docs[place] == wanted, of_rows[first[place]], -1).astype(np.int32)
        return found

    return Documents(members, left_first, facts, memberships)


def documents_of_alike(events: pa.RecordBatch, guards: ProgramGuards) -> Documents:
    """Look up documents of rows that no guard is asked about, in their events."""
    numbers: Int64s = events.column("docid").to_numpy()

    def row(docid: int) -> dict[str, Any]:
        at = int(np.flatnonzero(numbers == docid)[0])
        columns = zip(OF_EVENT, event_columns(events.slice(at, 1)), strict=True)
        return {name: column[0].as_py() for name, column in columns}

    def members(left: int, right: int) -> list[Member]:
        assert right < 0
        found = row(left)
        return [Member(**{name: found[name] for name in Member._fields})]

    def left_first(pairs: MatchedPairs) -> Bools:
        return np.zeros(len(pairs.left), dtype=np.bool_)

    def facts(docs: Int64s) -> DocumentFacts:
        return facts_of_rows(WITNESS_SCHEMA.empty_table(), docs, guards)

    if "membership" not in events.schema.names or not (of_events := events.column("membership").to_numpy()).any():
        return Documents(members, left_first, facts)
    order = np.argsort(numbers, kind="stable")

    def memberships(wanted: Int64s) -> Int32s:
        # The right sides are no documents.
        place = order[np.minimum(np.searchsorted(numbers, wanted, sorter=order), len(order) - 1)]
        return np.where(numbers[place] == wanted, of_events[place], -1).astype(np.int32)

    return Documents(members, left_first, facts, memberships)


def documents_of_runs(runs: Sequence[Run], guards: ProgramGuards) -> Documents:
    """Look documents up in the runs of the state; ``guards`` tell which facts are read of them."""

    def facts(docs: Int64s) -> DocumentFacts:
        return facts_of_runs(runs, docs, guards)

    def member(doc: int) -> Member:
        return next(found for run in runs if (found := run.member(doc)) is not None)

    def members(left: int, right: int) -> list[Member]:
        return [member(doc) for doc in (left, right) if doc >= 0]

    def left_first(pairs: MatchedPairs) -> Bools:
        first: Bools = pairs.ts_l < pairs.ts_r
        ties = np.flatnonzero(pairs.ts_l == pairs.ts_r)
        if len(ties):
            docs, which = np.unique(np.concatenate([pairs.left[ties], pairs.right[ties]]), return_inverse=True)
            places = [member(doc).place if doc >= 0 else "" for doc in docs.tolist()]
            rank = np.argsort(np.argsort(np.array(places, dtype=object)))
            first[ties] = rank[which[: len(ties)]] < rank[which[len(ties) :]]
        return first

    def linked(docs: Int64s) -> pa.StructArray:
        return _members_of_runs(runs, docs)

    if not any(run.has_members for run in runs):
        return Documents(members, left_first, facts, linked=linked)

    def memberships(docs: Int64s) -> Int32s:
        distinct, which = np.unique(docs, return_inverse=True)
        found = np.full(len(distinct), -1, dtype=np.int32)
        for run in runs:
            place, here = run.places_of(distinct)
            found[here] = run.memberships[place[here]]
        of_docs: Int32s = found[which]
        return of_docs

    return Documents(members, left_first, facts, memberships, linked)


def _members_of_runs(runs: Sequence[Run], docs: Int64s) -> pa.StructArray:
    """Return documents, whose numbers rise, as members; several runs may have one of them."""
    parts, count = [], 0
    place_of_part = np.zeros(len(docs), dtype=np.int64)
    for run in runs:
        place, here = run.places_of(docs)
        at = place[here]
        columns = [run.docs[at], run.items[at], run.times[at], run.places.take(pa.array(at)), run.memberships[at]]
        parts.append(pa.StructArray.from_arrays(columns, names=Member._fields))
        place_of_part[here] = count + np.arange(len(at))
        count += len(at)
    return pa.concat_arrays(parts).take(pa.array(place_of_part))
