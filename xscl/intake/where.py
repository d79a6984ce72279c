"""The place where inputs are read and checked: this process, or tasks of Spark, by counted work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from xscl.base.errors import EngineError
from xscl.base.settings import WHERE, Where
from xscl.catalog.channels import read_streams
from xscl.catalog.removals import has_removals
from xscl.ingest.file_parts import estimated_seconds, file_parts
from xscl.ingest.reading import Reading
from xscl.ingest.records import Noted, Record
from xscl.intake.intake import Intake
from xscl.intake.report import IntakeReport
from xscl.spark.places import HERE, OnSpark, Place, slots_of
from xscl.spark.start_cost import cores, start_seconds

__all__ = ["chosen_place", "take_files"]

_SURPLUS = 1.25
"""Tasks cost more processor time than this process by so much: what was checked is kept in files and read again."""
_WORTH = 0.8
"""Tasks are asked if they end within such a part of the time that this process needs."""


def take_files(
    intake: Intake,
    paths: Sequence[str | Path],
    reading: Reading,
    *,
    where: Where,
    session: Callable[[], Any],
    records: Callable[[], Iterable[Record]],
) -> IntakeReport:
    """Take in files and directories, wherever that ends sooner; the outcome is the same.

    Args:
        intake: where to.
        paths: files and directories; with ``-`` among them this process reads, and in a home whose streams share a
            source, or in which something was removed, or where rows are changes.
        reading: options of reading.
        where: the choice.
        session: gives the session of Spark, and starts one if there is none.
        records: gives the records of the same paths, for this process.
    """
    with intake.catalog.read() as connection:
        # Copies of one event in a transaction become one row, so transactions have to be those of one reading.
        shared = any(stream.source is not None for stream in read_streams(connection).values())
        # Removed rows may come back, which is decided row by row.
        shared |= has_removals(connection)
    # Changes are taken in their order.
    alone = shared or reading.rows.op is not None or any(str(path) == "-" for path in paths)
    place = HERE if alone else chosen_place(where, paths, reading, session)
    if place is HERE:
        return intake.take(records())
    if len(paths) == 1 and not Path(paths[0]).is_dir():
        # The columns of the one file that is named can be asked for.
        next((record for record in records() if not isinstance(record, Noted)), None)
    # This process does most work by itself.
    from xscl.intake.part_intake import take_parts
    from xscl.intake.task_faults import named_task_faults

    with named_task_faults(intake.home.root):
        return take_parts(intake, file_parts(paths, reading, place), reading, place)


def chosen_place(where: Where, paths: Sequence[str | Path], reading: Reading, session: Callable[[], Any]) -> Place:
    """Return the place where files are read and checked.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: there is no such choice.
    """
    if where not in WHERE:
        raise EngineError("XSCL_BAD_OPTION", f"where is {where!r}; it is one of {', '.join(WHERE)}")
    if where == "driver":
        return HERE
    if where == "spark":
        return OnSpark(session, slots_of(session()))
    slots, start = cores(), start_seconds()
    least = _WORTH - _SURPLUS / slots
    if least <= 0 or estimated_seconds(paths, reading, start / least) < start / least:
        return HERE
    found = session()
    # Tasks on other machines need not see the files.
    is_here = str(found.conf.get("spark.master", "")).startswith("local")
    return OnSpark(session, slots_of(found)) if is_here else HERE
