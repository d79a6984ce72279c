"""Events: the one module that writes tables ``intake_files``, ``event_ids`` and ``row_ranges``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED
from xscl.catalog.tables import EVENT_IDS, INTAKE_FILES, ROW_RANGES, in_parts

__all__ = [
    "add_event_files",
    "add_event_ids",
    "add_row_ranges",
    "files_between",
    "forget_published",
    "ranges_of_file",
    "remove_event_file",
    "remove_event_ids",
    "remove_ids_between",
    "spans",
]

Row = Mapping[str, object]


# -- files -----------------------------------------------------------------------------------------------------


def spans(first: int, last: int) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Return the conditions that a file may hold an event with a number from ``first`` to ``last``."""
    return INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last


def files_between(connection: Connection, first: int, last: int) -> list[str]:
    """Return the paths of the files that may hold an event with a number from ``first`` to ``last``, in their order."""
    statement = sa.select(INTAKE_FILES.c.path).where(*spans(first, last)).order_by(INTAKE_FILES.c.first)
    return list(connection.scalars(statement))


def add_event_files(connection: Connection, rows: Sequence[Row]) -> None:
    """Name files of events: ``path``, ``first``, ``last``, ``rows``."""
    if rows:
        connection.execute(INTAKE_FILES.insert(), rows)


def remove_event_file(connection: Connection, path: str, *, rows: int | None = None) -> bool:
    """Name a file of events no longer, nor its ranges of ids; return whether it was named, with so many ``rows``."""
    mine = [INTAKE_FILES.c.path == path] if rows is None else [INTAKE_FILES.c.path == path, INTAKE_FILES.c.rows == rows]
    if connection.execute(INTAKE_FILES.delete().where(*mine)).rowcount != 1:
        return False
    connection.execute(ROW_RANGES.delete().where(ROW_RANGES.c.path == path))
    return True


# -- ids -------------------------------------------------------------------------------------------------------


def add_event_ids(connection: Connection, rows: Sequence[Row]) -> None:
    """Add ids of events."""
    if rows:
        connection.execute(EVENT_IDS.insert(), rows)


def add_row_ranges(connection: Connection, rows: Sequence[Row]) -> None:
    """Add ranges of ids of rows."""
    if rows:
        connection.execute(ROW_RANGES.insert(), rows)


def ranges_of_file(connection: Connection, path: str) -> Iterator[sa.Row[tuple[object, ...]]]:
    """Iterate over the ranges of ids of a file's rows."""
    yield from connection.execute(sa.select(ROW_RANGES).where(ROW_RANGES.c.path == path))


def remove_ids_between(connection: Connection, first: int, last: int) -> None:
    """Remove the ids of events with numbers from ``first`` to ``last``."""
    connection.execute(EVENT_IDS.delete().where(EVENT_IDS.c.docid.between(first, last)))


def remove_event_ids(connection: Connection, docids: Iterable[int]) -> None:
    """Remove the ids of events with these numbers."""
    for part in in_parts(sorted(docids)):
        connection.execute(EVENT_IDS.delete().where(EVENT_IDS.c.docid.in_(part)))


def forget_published(connection: Connection) -> None:
    """Forget all published documents."""
    connection.execute(INTAKE_FILES.delete().where(INTAKE_FILES.c.first >= PUBLISHED))
    connection.execute(EVENT_IDS.delete().where(EVENT_IDS.c.docid >= PUBLISHED))
