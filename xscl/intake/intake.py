"""Intake: events, registrations and drops get their offsets in the home's intake order (docs/explanation/time.md).

Events are checked here, once: a document that is not well-formed, a row that does not fit, an id that is taken for
other content are rejected with a named condition and counted, and nothing else is lost.  Each chunk of events that
are taken is one Parquet file, which the catalogue names in the same transaction as the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import cast

from sqlalchemy.engine import Connection

from xscl.base.collecting import collecting_later
from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import XsclError
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.base.system_errors import FAULTS, named_file_faults
from xscl.base.types import Event, now_micros
from xscl.catalog.intake_order import add_flush, take_places
from xscl.catalog.source_offsets import positions_in, put_positions
from xscl.ingest.records import (
    Control,
    Drop,
    FeedDocument,
    Flush,
    Heartbeat,
    Noted,
    Position,
    Record,
    Register,
    Rejected,
    Removal,
    RowTable,
)
from xscl.intake.checks import CheckedEvent, check_events
from xscl.intake.events import take_events
from xscl.intake.feed_entries import take_feed
from xscl.intake.feed_memory import FeedStates
from xscl.intake.heartbeats import take_heartbeat
from xscl.intake.record_runs import record_runs
from xscl.intake.removals import take_removals
from xscl.intake.report import IntakeReport, noted_on_errors
from xscl.intake.row_changes import take_changes
from xscl.intake.rows import take_rows, take_table
from xscl.intake.transaction import Terms, note_refusals, open_chunk
from xscl.registry.registry import Registry
from xscl.store.home import Home

__all__ = ["Intake", "IntakeReport"]


class Intake:
    """Takes records into a home.

    Args:
        home: the home.
        strict: refuse events of channels that do not exist.
        now: gives the time of receipt, microseconds since the epoch.
        limits: of a document.
    """

    def __init__(
        self,
        home: Home,
        *,
        strict: bool = False,
        now: Callable[[], int] = now_micros,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.home = home
        self.catalog = home.catalog
        self.terms = Terms(home, Registry(home.catalog), now, strict, limits)

    def positions(self, start: str) -> dict[str, str]:
        """Return the positions that are kept of inputs whose names start with a text."""
        with self.catalog.read() as connection:
            return positions_in(connection, start)

    def take(self, records: Iterable[Record]) -> IntakeReport:
        """Take records in their order; everything that can be taken is.

        An error has a note of what was taken in before it.
        """
        report = IntakeReport()
        with noted_on_errors(report):
            self.take_more(records, report)
        return report

    def take_more(self, records: Iterable[Record], report: IntakeReport) -> None:
        """Take records as ``take`` does, and count them in a report."""
        for chunk in record_runs(_without_notes(records, report)):
            # Nothing that a chunk becomes is part of a cycle, so the collector can wait.
            with named_file_faults(self.home.root), collecting_later():
                self._take(chunk, report)
                chunk.clear()  # else the collector, which begins again now, would look at all records

    def _take(self, chunk: list[Record], report: IntakeReport) -> None:
        first = chunk[0]
        if len(chunk) > 1 and isinstance(first, Removal):
            self._remove([record for record in chunk if isinstance(record, Removal)], report)
        elif isinstance(first, Control):
            self.act(first, report)
        elif isinstance(first, RowTable):
            take_rows(self.terms, first, report, take_changes if first.options.op else take_table)
        else:
            self._take_chunk(chunk, report)

    def act(self, record: Control, report: IntakeReport) -> None:
        """Do what a record asks for at its place of the intake order."""
        terms = self.terms

        def keep_position(connection: Connection) -> None:
            if record.position is not None:
                put_positions(connection, [record.position], terms.now())

        try:
            match record:
                case Register(text, name, owner=owner):
                    terms.registry.register(text, name=name, owner=owner, strict=terms.strict, then=keep_position)
                    report.registered += 1
                case Drop(name):
                    with self.catalog.begin() as connection:
                        terms.registry.drop(name, connection=connection)
                        keep_position(connection)
                    report.dropped += 1
                case Flush():
                    with self.catalog.begin() as connection:
                        place, _ = take_places(connection, 1, terms.now())
                        add_flush(connection, place)
                        keep_position(connection)
                case Heartbeat(channel, ts):
                    with self.catalog.begin() as connection:
                        take_heartbeat(connection, channel, ts, terms.now(), strict=terms.strict)
                        keep_position(connection)
                    report.heartbeats += 1
                case Removal():
                    with open_chunk(terms, report) as chunk:
                        take_removals(chunk, record)
                        keep_position(chunk.connection)
        except XsclError as error:
            if error.condition in FAULTS:
                raise  # a fault of disk or database is none of the record
            problem = Rejected(record.source, error.condition, str(error).partition("] ")[2])
            report.note(problem)
            with self.catalog.begin() as connection:
                note_refusals(self.home, connection, [problem], terms.now())
                keep_position(connection)

    def _remove(self, removals: list[Removal], report: IntakeReport) -> None:
        """Take out events of one channel in one transaction; where that is refused, each is refused for itself."""
        positions = [each.position for each in removals if each.position is not None]
        try:
            with open_chunk(self.terms, report) as chunk:
                take_removals(chunk, *removals)
                put_positions(chunk.connection, positions, chunk.now)
        except XsclError as error:
            if error.condition in FAULTS:
                raise
            for removal in removals:
                self.act(removal, report)

    def _take_chunk(self, records: list[Record], report: IntakeReport) -> None:
        kinds = set(map(type, records))
        positions: list[Position] = []
        if Position in kinds:
            positions = [record for record in records if isinstance(record, Position)]
            records = [record for record in records if not isinstance(record, Position)]
        runs = [(False, records)] if records else []
        if FeedDocument in kinds:
            grouped = groupby(records, lambda record: isinstance(record, FeedDocument))
            runs = [(is_feed, list(run)) for is_feed, run in grouped]
        # Checks take time, so they are made before the transaction, which keeps others from writing.
        plain = [record for is_feed, run in runs if not is_feed for record in run]
        checked = in_fresh_dictionary(_check_all, plain, self.terms.limits) if plain else []
        with open_chunk(self.terms, report) as chunk:
            states = FeedStates(chunk.connection, chunk.now)
            begin = 0
            for is_feed, run in runs:
                if is_feed:
                    for document in run:
                        assert isinstance(document, FeedDocument)
                        take_feed(chunk, states, document)
                else:
                    take_events(chunk, checked[begin : begin + len(run)])
                    begin += len(run)
            states.write()
            put_positions(chunk.connection, positions, chunk.now)


def _without_notes(records: Iterable[Record], report: IntakeReport) -> Iterator[Record]:
    """Yield the records that are to be taken; notes go to the report."""
    for record in records:
        if isinstance(record, Noted):
            report.note_input(f"{record.source}: {record.text}")
        else:
            yield record


def _check_all(records: Sequence[Record], limits: Limits) -> list[CheckedEvent | Rejected]:
    if set(map(type, records)) == {Event}:
        return check_events(cast("Sequence[Event]", records), limits)
    checked = iter(check_events([record for record in records if isinstance(record, Event)], limits))
    return [next(checked) if isinstance(record, Event) else _as_rejected(record) for record in records]


def _as_rejected(record: object) -> Rejected:
    """Refuse a record that is no event at all like a bad one."""
    if isinstance(record, Rejected):
        return record
    return Rejected("", "XSCL_BAD_EVENT", f"a {type(record).__name__} is no event")
