"""Waves of parts: tasks check some parts of the input while the driver decides on those before them.

A wave has as many parts as tasks run at a time, and one job checks it.  The job runs beside the driver, which begins
it when it has the wave before, and before it decides on that.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from xscl.base.errors import XsclError
from xscl.base.private import private_folder
from xscl.base.system_errors import named_file_faults
from xscl.base.temporary import hold_folder, let_folder_go
from xscl.catalog.channels import read_channels, read_streams
from xscl.catalog.records import ChannelInfo
from xscl.ingest.file_parts import FilePart, read_part
from xscl.ingest.reading import Reading
from xscl.ingest.records import Noted, Record, Rejected, RowTable
from xscl.intake.intake import Intake
from xscl.intake.part_pieces import PartTerms, PartWork, Piece, checked_part
from xscl.intake.report import IntakeReport
from xscl.intake.row_batch import fixed_schema
from xscl.intake.rows import row_chunks
from xscl.spark.places import Place

__all__ = ["Files", "Found", "Left", "Source", "Step", "Wave", "Waves", "waves_of", "work_folder"]

_PARTS = 1
"""Parts that are checked by one job, for each task at a time."""


@dataclass(frozen=True, slots=True)
class Left:
    """A part that is to be taken, without the pieces that were."""

    part: FilePart | Rejected | Noted | int
    """Part of files, what could not be looked at, or the number of a partition."""
    done: int = 0


Found = list[tuple[Left, Sequence[Piece | Rejected] | None]]
"""The pieces of each part, None where only the driver can take the part."""


class Source(Protocol):
    """Input whose parts tasks check."""

    def first_rows(self, parts: Sequence[Left]) -> RowTable | None:
        """Return the first rows, where all parts have to know what types they fix."""

    def check(self, parts: Sequence[Left], terms: PartTerms) -> Found:
        """Check parts by one job; none stands for all that the source has."""

    def records(self, part: Left) -> Iterable[Record]:
        """Return the records of a part for the driver."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files in parts."""

    reading: Reading
    place: Place

    def first_rows(self, parts: Sequence[Left]) -> RowTable | None:
        """Return the first rows of texts, where there are more parts than one, and none was begun."""
        first = parts[0].part
        if len(parts) == 1 or parts[0].done or not isinstance(first, FilePart) or first.kind not in ("csv", "jsonl"):
            return None
        return next((record for record in read_part(first, self.reading) if isinstance(record, RowTable)), None)

    def check(self, parts: Sequence[Left], terms: PartTerms) -> Found:
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


@dataclass(frozen=True, slots=True)
class Step:
    """A piece, and where it is among the parts of a wave."""

    part: int
    number: int
    piece: Piece | Rejected | None
    """None: the whole part is the driver's."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Parts that were checked by one job."""

    intake: Intake
    source: Source
    place: Place
    terms: PartTerms
    report: IntakeReport
    parts: Sequence[Left]
    steps: Sequence[Step]
    unprimed: Mapping[str, ChannelInfo]
    """Channels as they were before the first rows fixed their columns for all tasks."""


@dataclass(frozen=True, slots=True)
class Waves:
    """The waves of one intake."""

    intake: Intake
    source: Source
    place: Place
    folder: Path
    report: IntakeReport
    """Counts what is taken."""
    primed: dict[str, ChannelInfo] = field(default_factory=dict)
    """Channels with the columns that first rows fix, which may not be taken yet."""

    def begun(self, parts: Sequence[Left], pool: ThreadPoolExecutor, *, is_again: bool = False) -> _Begun:
        """Have parts checked by a job beside this process; ``is_again``: all before them is taken."""
        terms, unprimed = self._terms(parts, is_again)
        return _Begun(terms, unprimed, pool.submit(self.place.beside(self.source.check), parts, terms))

    def wave(self, begun: _Begun) -> Wave:
        """Wait for a job; return the wave."""
        found = begun.found.result()
        steps = [
            Step(at, number, piece)
            for at, (left, pieces) in enumerate(found)
            for number, piece in enumerate([None] if pieces is None else pieces, start=left.done)
        ]
        parts = [left for left, _ in found]
        return Wave(self.intake, self.source, self.place, begun.terms, self.report, parts, steps, begun.unprimed)

    @contextmanager
    def checked_again(self, parts: Sequence[Left]) -> Iterator[Wave]:
        """Check parts, and wait for it; their files are removed at the end."""
        with ThreadPoolExecutor(1) as pool:
            begun = self.begun(parts, pool, is_again=True)
            try:
                yield self.wave(begun)
            finally:
                begun.remove()

    def _terms(self, parts: Sequence[Left], is_again: bool) -> tuple[PartTerms, dict[str, ChannelInfo]]:
        """Return what tasks know of the home, and its channels as they were before first rows fixed their columns."""
        with self.intake.catalog.read() as connection:
            channels, streams = read_channels(connection), read_streams(connection)
        if not is_again:
            channels |= {name: known for name, known in self.primed.items() if not _has_columns(channels.get(name))}
        mine = self.folder / uuid.uuid4().hex[:8]
        private_folder(mine)
        terms = PartTerms(str(mine), channels, frozenset(streams), self.intake.terms.limits)
        primed = _primed(self.source.first_rows(parts), terms)
        if primed is None:
            return terms, {}
        if not is_again:
            # Rows of a wave that was begun ahead may have fixed more, which is not true of these.
            self.primed[primed.name] = primed
        before = channels.get(primed.name) or ChannelInfo.new(primed.name, "rows")
        return replace(terms, channels={**channels, primed.name: primed}), {primed.name: before}


@dataclass(frozen=True, slots=True)
class _Begun:
    """A wave whose parts are being checked."""

    terms: PartTerms
    unprimed: Mapping[str, ChannelInfo]
    found: Future[Found]

    def remove(self) -> None:
        """Remove the files of the wave."""
        shutil.rmtree(self.terms.folder, ignore_errors=True)


def waves_of(waves: Waves, parts: Iterable[Left] | None) -> Generator[Wave, None, None]:
    """Yield waves; while one is decided on, the next is checked.

    Args:
        waves: those of one intake.
        parts: the parts; None: all that the source has, which are one wave.
    """
    each = iter([[]]) if parts is None else _cut(iter(parts), _PARTS * waves.place.slots)
    # A job that runs when something fails is waited for: its tasks write in the folder that goes next.
    with ThreadPoolExecutor(1) as pool:
        ahead = _next(waves, each, pool)
        while ahead is not None:
            begun = ahead
            try:
                wave = waves.wave(begun)
                ahead = _next(waves, each, pool)
                yield wave
            finally:
                begun.remove()


def _cut(parts: Iterator[Left], count: int) -> Iterator[list[Left]]:
    while more := list(islice(parts, count)):
        yield more


def _next(waves: Waves, each: Iterator[list[Left]], pool: ThreadPoolExecutor) -> _Begun | None:
    parts = next(each, None)
    return None if parts is None else waves.begun(parts, pool)


def _has_columns(channel: ChannelInfo | None) -> bool:
    """Whether a channel has columns, and knows the types of all of them."""
    return channel is not None and channel.schema is not None and None not in channel.schema.values()


def _primed(table: RowTable | None, terms: PartTerms) -> ChannelInfo | None:
    """Return the channel of the first rows, with the columns that they fix; None where they fix nothing."""
    if table is None or not len(table.rows) or table.channel in terms.streams:
        return None
    channel = terms.channels.get(table.channel) or ChannelInfo.new(table.channel, "rows")
    if _has_columns(channel):
        return None
    try:
        return replace(channel, schema=fixed_schema(next(row_chunks(table)), channel))
    except XsclError:
        return None  # none of these rows is taken


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
