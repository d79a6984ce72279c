"""Taking in parts of the input that tasks have read and checked: the driver gives places and settles ids.

Tasks come twice: they check parts and keep what was checked in files; then, with places, they write the event files.
In between the driver decides in one transaction, piece by piece in the order of the input, by the functions that it
uses for records of its own.  A piece that was checked for columns that its channel does not have is checked again.
"""

from __future__ import annotations

import pickle
import shutil
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Protocol

from xscl.base.errors import XsclError
from xscl.base.failpoints import step
from xscl.base.private import private_folder
from xscl.base.system_errors import named_file_faults
from xscl.base.temporary import hold_folder, let_folder_go
from xscl.catalog.channels import read_channels, read_streams
from xscl.catalog.events import add_event_files, add_row_ranges
from xscl.catalog.records import ChannelInfo
from xscl.ingest.file_parts import FilePart, read_part
from xscl.ingest.reading import Reading
from xscl.ingest.records import Control, Noted, Record, Rejected, RowTable
from xscl.intake.checks import CheckedEvent
from xscl.intake.events import take_events
from xscl.intake.feed_entries import CheckedFeed, take_feed
from xscl.intake.feed_memory import FeedStates
from xscl.intake.intake import Intake
from xscl.intake.part_files import EventsToWrite, RowsToWrite, Target, kept_rows, write_decisions, write_placed
from xscl.intake.part_pieces import EventPiece, PartTerms, PartWork, Piece, RowPiece, checked_part
from xscl.intake.report import IntakeReport
from xscl.intake.row_batch import fixed_schema
from xscl.intake.rows import place_rows, refuse_all, row_channel, row_chunks, without_known
from xscl.intake.transaction import Chunk, open_chunk
from xscl.spark.places import Place

__all__ = ["Left", "Source", "take_parts", "take_wave", "work_folder"]

_PARTS = 4
"""Parts that are checked by one job, for each task at a time."""
_PIECES = 16
"""Pieces of one transaction at most."""


@dataclass(frozen=True, slots=True)
class Left:
    """A part that is to be taken, without the pieces that were."""

    part: FilePart | Rejected | Noted | int
    """Part of files, what could not be looked at, or the number of a partition."""
    done: int = 0


class Source(Protocol):
    """Input whose parts tasks check."""

    def first_rows(self, parts: Sequence[Left]) -> RowTable | None:
        """Return the first rows, where all parts have to know what types they fix."""

    def check(self, parts: Sequence[Left], terms: PartTerms) -> list[tuple[Left, Sequence[Piece | Rejected] | None]]:
        """Check parts by one job; return the pieces of each, None where only the driver can take the part."""

    def records(self, part: Left) -> Iterable[Record]:
        """Return the records of a part for the driver."""


@dataclass(frozen=True, slots=True)
class _Files:
    """Files in parts."""

    reading: Reading
    place: Place

    def first_rows(self, parts: Sequence[Left]) -> RowTable | None:
        """Return the first rows of texts, where there are more parts than one, and none was begun."""
        first = parts[0].part
        if len(parts) == 1 or parts[0].done or not isinstance(first, FilePart) or first.kind not in ("csv", "jsonl"):
            return None
        return next((record for record in read_part(first, self.reading) if isinstance(record, RowTable)), None)

    def check(self, parts: Sequence[Left], terms: PartTerms) -> list[tuple[Left, Sequence[Piece | Rejected] | None]]:
        """Check parts by one job."""
        work = [
            PartWork(left.part, self.reading, terms, left.done) for left in parts if isinstance(left.part, FilePart)
        ]
        found = iter(self.place.map(checked_part, work))
        return [(left, [left.part] if isinstance(left.part, Rejected | Noted) else next(found)) for left in parts]

    def records(self, part: Left) -> Iterable[Record]:
        """Return the records of a part for the driver."""
        assert isinstance(part.part, FilePart)
        return read_part(part.part, self.reading)


def take_parts(
    intake: Intake, parts: Iterable[FilePart | Rejected | Noted], reading: Reading, place: Place
) -> IntakeReport:
    """Take in parts in their order; everything that can be taken is.

    Args:
        intake: where to.
        parts: parts of the input, and what could not be looked at.
        reading: options of reading.
        place: where parts are checked and event files are written.
    """
    report = IntakeReport()
    source = _Files(reading, place)
    waiting = iter(parts)
    with work_folder(intake) as folder:
        while more := list(islice(waiting, _PARTS * place.slots)):
            take_wave(intake, source, list(map(Left, more)), place, folder, report)
    return report


@contextmanager
def work_folder(intake: Intake) -> Iterator[Path]:
    """Make a folder for what tasks check; whoever tidies the home leaves it alone while this process lives."""
    folder = intake.home.folder("programs") / f"intake-{uuid.uuid4().hex[:8]}"
    private_folder(folder)
    hold_folder(folder)
    try:
        with named_file_faults(intake.home.root):
            yield folder
    finally:
        let_folder_go(folder)


# -- one job of checking ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """A piece, and where it is among the parts of a wave."""

    part: int
    number: int
    piece: Piece | Rejected | None
    """None: the whole part is the driver's."""


@dataclass(frozen=True, slots=True)
class _Wave:
    """Parts that were checked by one job."""

    intake: Intake
    source: Source
    place: Place
    terms: PartTerms
    report: IntakeReport
    parts: Sequence[Left]
    steps: Sequence[_Step]
    unprimed: Mapping[str, ChannelInfo] = field(default_factory=dict)
    """Channels as they were before the first rows fixed their columns for all tasks."""


def take_wave(
    intake: Intake, source: Source, parts: Sequence[Left], place: Place, folder: Path, report: IntakeReport
) -> None:
    """Check parts and take them in; what was checked for other columns than its channel has is checked again.

    Args:
        intake: where to.
        source: whose parts they are.
        parts: the parts; none stands for all that the source has.
        place: where event files are written.
        folder: of this intake.
        report: counts what is taken.
    """
    while True:
        mine = folder / uuid.uuid4().hex[:8]
        private_folder(mine)
        try:
            left = _settled(_checked(intake, source, parts, place, mine, report))
        finally:
            shutil.rmtree(mine, ignore_errors=True)
        if not left:
            return
        parts = left


def _checked(
    intake: Intake, source: Source, parts: Sequence[Left], place: Place, folder: Path, report: IntakeReport
) -> _Wave:
    with intake.catalog.read() as connection:
        channels, streams = read_channels(connection), read_streams(connection)
    terms = PartTerms(str(folder), channels, frozenset(streams), intake.terms.limits)
    primed = _primed(source.first_rows(parts), terms)
    unprimed: dict[str, ChannelInfo] = {}
    if primed is not None:
        unprimed = {primed.name: channels.get(primed.name) or ChannelInfo.new(primed.name, "rows")}
        terms = replace(terms, channels={**channels, primed.name: primed})
    found = source.check(parts, terms)
    steps = [
        _Step(at, number, piece)
        for at, (left, pieces) in enumerate(found)
        for number, piece in enumerate([None] if pieces is None else pieces, start=left.done)
    ]
    return _Wave(intake, source, place, terms, report, [left for left, _ in found], steps, unprimed)


def _primed(table: RowTable | None, terms: PartTerms) -> ChannelInfo | None:
    """Return the channel of the first rows, with the columns that they fix; None where they fix nothing."""
    if table is None or not len(table.rows) or table.channel in terms.streams:
        return None
    channel = terms.channels.get(table.channel) or ChannelInfo.new(table.channel, "rows")
    if channel.schema is not None and None not in channel.schema.values():
        return None
    try:
        return replace(channel, schema=fixed_schema(next(row_chunks(table)), channel))
    except XsclError:
        return None  # none of these rows is taken


# -- one transaction -------------------------------------------------------------------------------------------


def _settled(wave: _Wave) -> list[Left]:
    """Take in the pieces of a wave; return the parts that are left where one has to be checked again."""
    waiting = deque(wave.steps)
    while waiting:
        first = waiting[0]
        if first.piece is None:
            part = wave.parts[waiting.popleft().part]
            wave.report.add(wave.intake.take(wave.source.records(part)))
        elif isinstance(first.piece, Noted):
            waiting.popleft()
            wave.report.note_input(f"{first.piece.source}: {first.piece.text}")
        elif isinstance(first.piece, Control):
            waiting.popleft()
            wave.intake.act(first.piece, wave.report)
        elif isinstance(first.piece, RowPiece):
            count = len(waiting)
            _take_rows(wave, waiting)
            if len(waiting) == count:
                return [replace(wave.parts[first.part], done=first.number), *wave.parts[first.part + 1 :]]
        else:
            _take_events(wave, waiting)
    return []


def _take_rows(wave: _Wave, waiting: deque[_Step]) -> None:
    """Take in rows in one transaction, up to a piece that has to be checked again, or that needs what is committed."""
    with open_chunk(wave.intake.terms, wave.report) as chunk:
        writing: list[_Writing] = []
        for _ in range(_PIECES):
            if not waiting or not isinstance(waiting[0].piece, RowPiece):
                break
            if not _take_row_piece(wave, chunk, waiting[0], writing):
                break
            waiting.popleft()
        _write(wave, chunk, writing)
    step("intake.rows")


def _take_row_piece(wave: _Wave, chunk: Chunk, here: _Step, writing: list[_Writing]) -> bool:
    """Take in the rows of a piece; return whether that could be done in this transaction."""
    piece = here.piece
    assert isinstance(piece, RowPiece)
    table = piece.table
    channel: ChannelInfo | None = None
    refusal: XsclError | None = None
    if piece.count:
        try:
            channel = row_channel(chunk, table)
        except XsclError as error:
            refusal = error
    if channel is not None:
        is_first = here.part == 0 and here.number == wave.parts[0].done
        if not _is_fresh(wave, channel, piece, is_first=is_first) or _needs_commit(piece, channel, writing):
            return False
    chunk.rejected.extend(table.problems)
    refusal = refusal or piece.error
    if refusal is not None:
        refuse_all(chunk, table, refusal, piece.count)
        return True
    chunk.rejected.extend(piece.refusals)
    if piece.file is None or channel is None:
        return True
    assert piece.fixed is not None
    known = channel.schema or {}
    columns = {name: type_ or known.get(name) for name, type_ in piece.fixed.items()}
    checked = kept_rows(piece.file, piece.prefix, replace(channel, schema=columns))
    chunk.write_ids()
    stub = replace(table, numbers=checked.numbers)
    batch, which, digests = without_known(chunk, stub, checked.batch, checked.digests)
    count = len(batch.kept)
    if count:
        placed = place_rows(chunk, batch, digests)
        chosen = None if count == len(checked.numbers) else which
        first = placed.first
        target = Target(str(wave.intake.home.folder("events")), writing[0].first if writing else first)
        work = RowsToWrite(piece.file, piece.prefix, chosen, placed, target)
        writing.append(_Writing(work, first, first + count - 1, count, placed.ids))
    return True


def _is_fresh(wave: _Wave, channel: ChannelInfo, piece: RowPiece, *, is_first: bool) -> bool:
    """Whether rows that were checked for a channel as it was seem the same to the channel as it is."""
    assumed = piece.assumed
    assert assumed is not None
    if channel.element != assumed.element:
        return False
    before = wave.unprimed.get(channel.name)
    # The first piece has fixed the columns for all tasks.
    if channel.schema == assumed.schema or (is_first and before is not None and channel.schema == before.schema):
        return True
    if channel.schema is None or piece.error is not None or piece.fixed is None:
        return False
    then = assumed.schema or piece.table.schema or {}
    return list(piece.fixed) == list(channel.schema) and all(
        then.get(name) == type_ or (then.get(name) is None and piece.fixed[name] in (None, type_))
        for name, type_ in channel.schema.items()
    )


def _needs_commit(piece: RowPiece, channel: ChannelInfo, writing: Sequence[_Writing]) -> bool:
    """Whether rows may have ids of ranges that this transaction has not named yet."""
    for other in writing:
        if other.ids is None or other.ids["channel"] != channel.name:
            continue
        if piece.ids is None:
            return True
        first, last = piece.ids
        if other.ids["prefix"] == piece.prefix and first <= int(other.ids["last"]) and int(other.ids["first"]) <= last:
            return True
    return False


def _take_events(wave: _Wave, waiting: deque[_Step]) -> None:
    """Take in events in one transaction."""
    with open_chunk(wave.intake.terms, wave.report) as chunk:
        states = FeedStates(chunk.connection, chunk.now)
        spans: list[tuple[int, str]] = []
        for _ in range(_PIECES):
            piece = waiting[0].piece if waiting else None
            if isinstance(piece, Rejected):
                chunk.rejected.append(piece)
            elif isinstance(piece, EventPiece):
                _take_event_piece(chunk, states, piece)
                spans.append((len(chunk.rows), piece.texts))
            else:
                break
            waiting.popleft()
        states.write()
        _write(wave, chunk, list(_decided(wave, chunk, spans)))


def _take_event_piece(chunk: Chunk, states: FeedStates, piece: EventPiece) -> None:
    items: list[CheckedEvent | CheckedFeed | Rejected] = pickle.loads(Path(piece.file).read_bytes())
    for is_feed, run in groupby(items, lambda item: isinstance(item, CheckedFeed)):
        if is_feed:
            for feed in run:
                assert isinstance(feed, CheckedFeed)
                take_feed(chunk, states, feed.document, feed.entries)
        else:
            take_events(chunk, [item for item in run if not isinstance(item, CheckedFeed)])


def _decided(wave: _Wave, chunk: Chunk, spans: Sequence[tuple[int, str]]) -> Iterator[_Writing]:
    """Write down what was decided of the events of each piece, which are the chunk's no longer."""
    begin, events = 0, str(wave.intake.home.folder("events"))
    for end, texts in spans:
        rows = chunk.rows[begin:end]
        begin = end
        if not rows:
            continue
        decided = write_decisions(wave.terms.folder, rows)
        work = EventsToWrite(decided, texts, Target(events, chunk.rows[0][0]))
        yield _Writing(work, rows[0][0], rows[-1][0], len(rows), None)
    chunk.rows.clear()


@dataclass(frozen=True, slots=True)
class _Writing:
    """Events that a task is to write."""

    work: RowsToWrite | EventsToWrite
    first: int
    last: int
    rows: int
    ids: Mapping[str, Any] | None
    """Their row of ``row_ranges``, without the file."""


def _write(wave: _Wave, chunk: Chunk, writing: Sequence[_Writing]) -> None:
    """Have the event files of a transaction written, and name them."""
    if not writing:
        return
    step("intake.write")
    names = wave.place.map(write_placed, [one.work for one in writing])
    paths = [f"events/{name}" for name in names]
    chunk.files += [wave.intake.home.root / path for path in paths]
    step("intake.wrote")
    named = list(zip(paths, writing, strict=True))
    files = [{"path": path, "first": one.first, "last": one.last, "rows": one.rows} for path, one in named]
    add_event_files(chunk.connection, files)
    add_row_ranges(chunk.connection, [{**one.ids, "path": path} for path, one in named if one.ids is not None])
