"""Files as users name them: how they are read, and directories that grow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xscl.durations import parse_duration
from xscl.errors import EngineError
from xscl.ingest.following import Follower, source_name
from xscl.ingest.paths import ValuePath, split_path, value_path
from xscl.ingest.row_files import row_options
from xscl.ingest.rows import is_column
from xscl.ingest.sources import Reading
from xscl.intake import Intake, IntakeReport
from xscl.namespaces import DEFAULT_NAMESPACES
from xscl.positions import positions_in
from xscl.safexml import DEFAULT_LIMITS, Limits

__all__ = ["follow_paths", "reading_of"]


def reading_of(
    *,
    channel: str | None = None,
    whole: bool = False,
    split: str | None = None,
    id: str | None = None,
    ts: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **rows: Any,
) -> Reading:
    """How to read, with paths as text; they know the prefixes that queries need not declare.

    ``id`` and ``ts`` are the names of columns where there are rows; ``rows`` are more options of those
    (``row_files.row_options``).

    Raises:
        SourceError: ``XSCL_BAD_OPTION`` or ``XSCL_UNDECLARED_PREFIX``: a path is not understood.
    """
    return Reading(
        channel,
        whole,
        limits,
        None if split is None else split_path(split, DEFAULT_NAMESPACES),
        _value_path(id),
        _value_path(ts),
        row_options(id=id, ts=ts, **rows),
    )


def _value_path(text: str | None) -> ValuePath | None:
    """A path, or None of what can only be columns (``Date Time``)."""
    columns = [] if text is None else text.split()
    if text is None or (len(columns) > 1 and all(map(is_column, columns))):
        return None
    return value_path(text, DEFAULT_NAMESPACES)


def follow_paths(
    intake: Intake, paths: Sequence[str | Path], reading: Reading, *, every: str
) -> Iterator[IntakeReport]:
    """Take in what is there, then what is added; a report a look, without end.

    Args:
        intake: where to.
        paths: files and directories.
        reading: how files are read.
        every: time between two looks.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: standard input, or no duration.
    """
    try:
        pause = parse_duration(every) / 1e6
    except ValueError as error:
        raise EngineError("XSCL_BAD_OPTION", f"every: {error}") from None
    if any(str(path) == "-" for path in paths):
        raise EngineError("XSCL_BAD_OPTION", "standard input is read until it ends without being followed")
    known: dict[str, str] = {}
    with intake.catalog.read() as connection:
        for path in paths:
            known |= positions_in(connection, source_name(path))
    follower = Follower([Path(path) for path in paths], reading, known, every_s=pause)
    return _looks(intake, follower, pause)


def _looks(intake: Intake, follower: Follower, pause: float) -> Iterator[IntakeReport]:
    while True:
        began = time.monotonic()
        yield intake.take(follower.look())
        time.sleep(max(0.0, pause - (time.monotonic() - began)))
