"""Runs of records that are taken in together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xscl.base.types import Event
from xscl.ingest.records import Control, FeedDocument, Record, RowTable
from xscl.intake.feed_entries import events_of

__all__ = ["record_runs"]

_RUN_EVENTS = 10_000
_RUN_CHARACTERS = 32 * 1024 * 1024


def record_runs(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Events in runs of a bounded size; everything else alone, in its place."""
    run: list[Record] = []
    count = size = 0
    for record in records:
        if isinstance(record, Event):
            count += 1
            size += len(record.xml or "")
        elif isinstance(record, Control | RowTable):
            if run:
                yield run
                run, count, size = [], 0, 0
            yield [record]
            continue
        elif isinstance(record, FeedDocument):
            count += events_of(record)
            size += sum(len(entry.raw or "") for entry in record.entries)
        else:
            count += 1
        run.append(record)
        if count >= _RUN_EVENTS or size >= _RUN_CHARACTERS:
            yield run
            run, count, size = [], 0, 0
    if run:
        yield run
