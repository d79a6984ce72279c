"""Matches of parts as the levels of a batch have found them: pending rows, and bindings with what forbids them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.docids import place_of
from xscl.base.number_order import each_once
from xscl.base.types import LAST_TIME
from xscl.batches.attempt import Attempt
from xscl.batches.bindings import Bindings, Parts, bindings, keys_of, kills_of, remembered, unasked_matches
from xscl.batches.deciding.edited import paths_since
from xscl.catalog.late import replayed_among
from xscl.catalog.parts import read_parts
from xscl.catalog.tables import NOTHING_FORBIDDEN
from xscl.language.absence import LATEST, cut_offset
from xscl.store.event_files import events_of
from xscl.store.results import NO_DOC, Results, files_with
from xscl.templates.absence import PENDING_SCHEMA
from xscl.templates.columns import Int64s

__all__ = ["found_rows", "pending_rows", "taken_again", "times_of", "unasked"]

_TIMES = "docid", "ts", "late", "behind"


def found_rows(batch: Attempt, results: Results, parts: Parts) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return new pending rows, and bindings with forbidden documents, of what the levels have found.

    ``parts`` are those of all groups that have found something.
    """
    asked = parts.asking()
    if not len(asked):
        return [], []
    meanings = results.meanings(asked.finders)
    combinations = results.combinations()
    combinations = combinations.where(meanings.have(combinations))
    times = times_of(batch, combinations.docs)
    # Late documents serve queries of one block, but absence is a question of order.  They have partners by a replay
    # alone, which takes them as if in time.
    combinations = combinations.where(~np.isin(combinations.docs[:, 0], times["docid"][times["late"]]))
    wanted, killed = [], []
    for each in bindings(combinations, meanings, asked):
        part = remembered(each, times["docid"], times["behind"])
        if part.ends is None:
            killed.append(kills_of(part))
        else:
            wanted.append(pending_rows(part, json.loads(part.ends), times))
    return wanted, killed


def taken_again(batch: Attempt, chosen: Callable[[int], bool]) -> list[pa.Table]:
    """Return pending rows of the late documents that the batch takes again, where a query wants one block.

    Queries of one block have had these documents when they came, so the results of that batch tell what they are.

    Args:
        batch: the batch.
        chosen: tells the groups about absence to look for.
    """
    docs = np.array(sorted(batch.span.replayed), np.int64)
    with batch.home.catalog.read() as connection:
        paths = paths_since(connection, int(place_of(docs).min()))
        results = [Results(files) for path in paths if (files := files_with(batch.home.results([path]), docs))]
        groups = each_once(np.concatenate([np.empty(0, np.int64), *(each.class_groups()[2] for each in results)]))
        of_groups = [row for row in read_parts(connection, groups.tolist()) if chosen(row.gid)]
    parts = Parts.of(row for row in of_groups if row.ends not in (None, NOTHING_FORBIDDEN))
    found: list[pa.Table] = []
    for each in results if len(parts) else ():
        meanings, every = each.meanings(parts.finders), each.combinations()
        alone = np.isin(every.docs[:, 0], docs) & (every.docs[:, 1:] == NO_DOC).all(axis=1)
        every = every.where(meanings.have(every) & alone)
        times = times_of(batch, every.docs)
        found += [pending_rows(part, json.loads(str(part.ends)), times) for part in bindings(every, meanings, parts)]
    return found


def unasked(batch: Attempt, results: Results) -> int:
    """Count the matches that only parts of groups have, and that no query asks for."""
    return unasked_matches(results, batch.driver.absences.are_unasked)


def times_of(batch: Attempt, docs: Int64s) -> dict[str, npt.NDArray[Any]]:
    """Return the documents of some combinations, ascending, their times, and whether they are late and not replayed."""
    events = events_of(batch.home, np.unique(docs[docs != NO_DOC]), list(_TIMES), batch.made).sort_by("docid")
    found = {name: events.column(name).to_numpy() for name in _TIMES}
    found["behind"] = np.where(found["late"], 0, found["behind"])
    if found["late"].any():
        with batch.home.catalog.read() as connection:
            again = replayed_among(connection, found["docid"][found["late"]].tolist(), batch.span.last)
        found["late"] = found["late"] & ~np.isin(found["docid"], np.array(sorted(again), np.int64))
    return found


def pending_rows(part: Bindings, ends_of: Any, times: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    """Return bindings of what is wanted as pending rows.

    Args:
        part: the bindings.
        ends_of: when the time of each forbidden document ends, as table ``parts`` has it.
        times: documents and their times, as ``times_of`` gives them.
    """
    docs, count = part.docs, len(part.docs)
    ts = times["ts"][np.searchsorted(times["docid"], docs)]
    newest = ts.max(axis=1)
    ends = np.stack(
        [
            np.minimum.reduce(
                [(newest if block == LATEST else ts[:, block]) + cut_offset(offset) for block, offset in of]
            )
            for _, of in ends_of
        ],
        axis=1,
    )
    ends = np.minimum(ends, LAST_TIME)  # nothing comes behind it
    when = np.maximum(newest, ends.max(axis=1))
    columns = {
        "gid": part.groups,
        "members": keys_of(docs, docs[:, :0]),
        "key": keys_of(docs, part.nodes),
        "docs": _lists(docs),
        "nodes": _lists(part.nodes[:, : docs.shape[1] + part.shown]).cast(pa.list_(pa.int32())),
        "witness": part.witness,
        "ts": when,
        "later": when - newest,
        "came": place_of(docs).max(axis=1),
        "waits": pa.repeat(json.dumps([[channel for channel, _ in ends_of], part.blocking, part.memory]), count),
        "ends": _lists(ends),
        "killed": np.full(count, -1),
        "answered": np.full(count, -1),
    }
    return pa.table(columns, schema=PENDING_SCHEMA)


def _lists(rows: Int64s) -> pa.Array:
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1])
    return pa.ListArray.from_arrays(offsets, pa.array(rows.reshape(-1)))
