"""Places of the next batch, asked as a batch asks for them."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from xscl.batches.ranges import next_range
from xscl.catalog.intake_order import read_last_places


def places_of_next(connection: Connection, batch_docs: int) -> tuple[int, int] | None:
    """First and last place of the next batch; None: there is nothing to do."""
    processed, taken_in = read_last_places(connection)
    if processed >= taken_in:
        return None
    found = next_range(connection, processed + 1, taken_in, batch_docs, publish=True)
    return found.first, found.last
