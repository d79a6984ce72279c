"""Taking in parts of the input that tasks have read and checked: the driver gives places and settles ids.

Tasks come twice: they check parts and keep what was checked in files; then, with places, they write the event files.
In between the driver decides in one transaction, piece by piece in the order of the input, by the functions that it
uses for records of its own.  A piece that was checked for columns that its channel does not have is checked again.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from xscl.base.collecting import collecting_later
from xscl.base.errors import XsclError
from xscl.base.failpoints import step
from xscl.catalog.events import add_event_files, add_row_ranges
from xscl.catalog.records import ChannelInfo
from xscl.ingest.file_parts import FilePart
from xscl.ingest.reading import Reading
from xscl.ingest.records import Control, Noted, Rejected
from xscl.intake.checks import CheckedEvent
from xscl.intake.events import take_events
from xscl.intake.feed_entries import CheckedFeed, take_feed
from xscl.intake.feed_memory import FeedStates
from xscl.intake.intake import Intake
from xscl.intake.part_files import EventsToWrite, RowsToWrite, Target, kept_rows, write_decisions, write_placed
from xscl.intake.part_pieces import EventPiece, RowPiece
from xscl.intake.part_waves import Files, Left, Source, Step, Wave, Waves, waves_of, work_folder
from xscl.intake.report import IntakeReport, noted_on_errors
from xscl.intake.rows import place_rows, refuse_all, row_channel, without_known
from xscl.intake.transaction import Chunk, open_chunk
from xscl.spark.places import Place

__all__ = ["take_frame_parts", "take_parts"]

_PIECES = 16
"""Pieces of one transaction at most."""


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
    return _take(intake, Files(reading, place), map(Left, parts), place)


def take_frame_parts(intake: Intake, source: Source, place: Place) -> IntakeReport:
    """Take in all parts of a source that knows them itself; everything that can be taken is."""
    return _take(intake, source, None, place)


def _take(intake: Intake, source: Source, parts: Iterable[Left] | None, place: Place) -> IntakeReport:
    report = IntakeReport()
    with noted_on_errors(report), work_folder(intake) as folder:
        waves = Waves(intake, source, place, folder, report)
        with closing(waves_of(waves, parts)) as every:
            for wave in every:
                left = _settled(wave)
                while left:
                    with waves.checked_again(left) as again:
                        left = _settled(again)
    return report


# -- one transaction -------------------------------------------------------------------------------------------


def _settled(wave: Wave) -> list[Left]:
    """Take in the pieces of a wave; return the parts that are left where one has to be checked again."""
    waiting = deque(wave.steps)
    while waiting:
        first = waiting[0]
        if first.piece is None:
            part = wave.parts[waiting.popleft().part]
            wave.intake.take_more(wave.source.records(part), wave.report)
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


def _take_rows(wave: Wave, waiting: deque[Step]) -> None:
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


def _take_row_piece(wave: Wave, chunk: Chunk, here: Step, writing: list[_Writing]) -> bool:
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


def _is_fresh(wave: Wave, channel: ChannelInfo, piece: RowPiece, *, is_first: bool) -> bool:
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


def _take_events(wave: Wave, waiting: deque[Step]) -> None:
    """Take in events in one transaction."""
    with collecting_later(), open_chunk(wave.intake.terms, wave.report) as chunk:
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


def _decided(wave: Wave, chunk: Chunk, spans: Sequence[tuple[int, str]]) -> Iterator[_Writing]:
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


def _write(wave: Wave, chunk: Chunk, writing: Sequence[_Writing]) -> None:
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
