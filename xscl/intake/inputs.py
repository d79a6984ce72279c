"""Files as users name them: how they are read, and directories that grow."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xscl.base.durations import parse_duration
from xscl.base.errors import EngineError, XsclError
from xscl.base.failpoints import step
from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.base.safe_xml import DEFAULT_LIMITS, Limits
from xscl.catalog.source_offsets import positions_in
from xscl.ingest.following import Follower, source_name
from xscl.ingest.paths import split_path, value_path
from xscl.ingest.row_format import row_options
from xscl.ingest.sources import Reading
from xscl.intake.intake import Intake, IntakeReport

__all__ = ["follow_paths", "reading_of"]

_AT_ONCE = 20_000
"""Records for one report."""


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

    ``id`` and ``ts`` are columns in rows and paths in documents; ``rows`` are the other options of ``row_options``.

    Raises:
        SourceError: an option is not understood.
    """
    rows_too = row_options(id=id, ts=ts, **rows)
    reading = Reading(
        channel, whole, limits, None if split is None else split_path(split, DEFAULT_NAMESPACES), rows=rows_too
    )
    try:
        return replace(
            reading,
            id=None if id is None else value_path(id, DEFAULT_NAMESPACES),
            ts=None if ts is None else value_path(ts, DEFAULT_NAMESPACES),
        )
    except XsclError as error:
        if split is not None:
            raise  # records are documents
        return replace(reading, no_paths=error)


def follow_paths(
    intake: Intake, paths: Sequence[str | Path], reading: Reading, *, every: str
) -> Iterator[IntakeReport]:
    """Take in what is there, then what is added, without end.

    There is a report for some thousand records at most, and an empty one behind each look.

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
        records = follower.look()
        for first in records:
            report = intake.take(itertools.chain([first], itertools.islice(records, _AT_ONCE - 1)))
            step("follow.taken")
            yield report
        yield IntakeReport()
        time.sleep(max(0.0, pause - (time.monotonic() - began)))
