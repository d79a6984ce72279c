"""Places of the next batch, asked as a batch asks for them."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from xscl.batches.ranges import next_range


def places_of_next(connection: Connection, batch_docs: int) -> tuple[int, int] | None:
    """First and last place of the next batch; None: there is nothing to do."""
    found = next_range(connection, batch_docs, publish=True)
    return None if found is None else (found.first, found.last)
