"""Runs of records that are taken in together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xscl.base.types import Event
from xscl.ingest.records import Control, FeedDocument, Record, Removal, RowTable
from xscl.intake.feed_entries import events_of

__all__ = ["record_runs"]

_RUN_EVENTS = 10_000
_RUN_CHARACTERS = 32 * 1024 * 1024
_RUN_REMOVALS = 1_000


def record_runs(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield events in runs of a bounded size, removals of one channel likewise, and every other record alone, in its
    place.
    """
    run: list[Record] = []
    count = size = 0
    for record in records:
        if type(record) is Event and not (run and isinstance(run[0], Removal)):
            # Most inputs have nothing but events, and this branch costs them least.
            run.append(record)
            count += 1
            size += len(record.xml or "")
            if count >= _RUN_EVENTS or size >= _RUN_CHARACTERS:
                yield run
                run, count, size = [], 0, 0
            continue
        goes_on = not isinstance(record, Control | RowTable)
        ends = not _is_also(run, record) if run and isinstance(run[0], Removal) else not goes_on
        if run and ends:
            yield run
            run, count, size = [], 0, 0
        run.append(record)
        if isinstance(record, Event):
            count += 1
            size += len(record.xml or "")
        elif isinstance(record, FeedDocument):
            count += events_of(record)
            size += sum(len(entry.raw or "") for entry in record.entries)
        else:
            count += 1
        is_alone = not goes_on and not isinstance(record, Removal)
        if is_alone or count >= _RUN_EVENTS or size >= _RUN_CHARACTERS:
            yield run
            run, count, size = [], 0, 0
    if run:
        yield run


def _is_also(run: list[Record], record: Record) -> bool:
    """Tell whether a record goes on a run of removals."""
    first = run[0]
    same = isinstance(first, Removal) and isinstance(record, Removal) and record.channel == first.channel
    return same and len(run) < _RUN_REMOVALS
