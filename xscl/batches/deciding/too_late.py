"""Events that came too late for queries with a memory of their own, and in time for others: they are counted.

A query whose level has a memory sees no event that comes farther behind its channel's clock (``bindings``).  Each such
event may cost it an answer, or a correction, so whoever runs the batch is told.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.docids import place_of
from xscl.batches.attempt import Attempt
from xscl.catalog.channels import read_streams
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.queries import read_remembering
from xscl.store.parquet import checked_dataset
from xscl.templates.columns import Int64s

__all__ = ["count_too_late"]

_COLUMNS = ["docid", "channel", "behind"]


def count_too_late(batch: Attempt) -> tuple[dict[int, int], int]:
    """Return the number of events too late for each query that has any, by its number, and that of all these events."""
    span = batch.span
    least = batch.driver.absences.least_memory
    if least is None:
        return {}, 0
    events = pa.concat_tables(_behind(batch, least)).sort_by("docid")
    if not events.num_rows:
        return {}, 0
    with batch.home.catalog.read() as connection:
        queries, streams = read_remembering(connection, span.first, span.last), read_streams(connection)
    places, behind = place_of(events.column("docid").to_numpy()), events.column("behind").to_numpy()
    order = np.argsort(places, kind="stable")
    found: dict[int, int] = {}
    missed = np.zeros(len(places), dtype=np.bool_)
    known: dict[tuple[frozenset[str], int], Int64s] = {}
    for query in queries:
        kind = query.channels, query.memory
        if kind not in known:
            names = {resolve_stream(streams, name)[0] for name in query.channels}
            mine = pc.is_in(events.column("channel"), pa.array(sorted(names), pa.string())).to_numpy()
            known[kind] = order[(mine & (behind > query.memory))[order]]
        begin, end = np.searchsorted(places[known[kind]], [query.since + 1, query.until]).tolist()
        missed[known[kind][begin:end]] = True
        if end > begin:
            found[query.query] = end - begin
    return found, int(missed.sum())


def _behind(batch: Attempt, least: int) -> Iterator[pa.Table]:
    """Yield the events of a batch that are in time for their channels, farther behind their clocks than ``least``."""
    span = batch.span
    wanted = (ds.field("behind") > least) & ~ds.field("late")
    if span.channels:
        here = (ds.field("docid") >= span.first) & (ds.field("docid") <= span.last)
        yield checked_dataset(span.paths, EVENT_SCHEMA).to_table(columns=_COLUMNS, filter=here & wanted)
    for table in batch.made:
        yield table.filter(wanted).select(_COLUMNS)
    yield pa.schema([EVENT_SCHEMA.field(name) for name in _COLUMNS]).empty_table()
