"""Counts that outlive the rows that they are of (table ``totals``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED, serial_of
from xscl.catalog.tables import TOTALS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["REMOVED_EVENTS", "SUMMED", "add_to_total", "free_serial", "note_removed_docids", "put_total", "total"]

REMOVED_EVENTS = "removed events"
"""Number of events that retention has removed."""
SUMMED = ("purged",)
"""Columns of ``batches`` whose sums are kept when rows are removed."""
_FREE_SERIAL = "free serial"


def total(connection: Connection, name: str) -> int:
    """Return the count of a name; 0 if there is none."""
    return connection.scalar(sa.select(TOTALS.c.count).where(TOTALS.c.name == name)) or 0


def add_to_total(connection: Connection, name: str, count: int) -> None:
    """Count more under a name."""
    if count:
        put_total(connection, name, total(connection, name) + count)


def put_total(connection: Connection, name: str, count: int) -> None:
    """Know another number under a name."""
    if not connection.execute(TOTALS.update().where(TOTALS.c.name == name).values(count=count)).rowcount:
        connection.execute(TOTALS.insert().values(name=name, count=count))


def free_serial(connection: Connection) -> int:
    """Return a serial number that no removed published document had, nor any number above it.

    Matches that are stored may name documents that were removed; another document with such a number would be taken for
    their member.
    """
    return total(connection, _FREE_SERIAL)


def note_removed_docids(connection: Connection, docids: npt.NDArray[np.int64]) -> None:
    """Take note of published documents among these, in the transaction in which their ids go."""
    published = docids[docids >= PUBLISHED]
    if len(published):
        put_total(connection, _FREE_SERIAL, max(free_serial(connection), int(serial_of(published).max()) + 1))
