"""Places of the events that row windows count, from batch to batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.types import Event
from xscl.catalog.event_places import event_places
from xscl.intake.intake import Intake
from xscl.planning import row_places
from xscl.planning.row_places import RowPlaces
from xscl.store.home import init_home
from xscl.templates.columns import Int64s


def test_a_batch_that_could_not_be_read_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = init_home(tmp_path)
    Intake(home).take([Event(channel, str(n), n, xml="<a/>") for n in range(4) for channel in ("S", "T")])
    counts, read = {"S": 3, "T": 3}, event_places
    places = RowPlaces(whole=False)
    with home.catalog.read() as connection:
        places.move(connection, counts, 1, 4)

        def read_once(connection: Connection, channel: str, first: int, last: int) -> Int64s:
            if channel == "T":
                raise CatalogError("XSCL_CATALOG_UNREACHABLE", "gone for a moment")
            return read(connection, channel, first, last)

        with monkeypatch.context() as patched, pytest.raises(CatalogError):
            patched.setattr(row_places, "event_places", read_once)
            places.move(connection, counts, 5, 6)
        again = places.move(connection, counts, 5, 6)
    assert {channel: found.tolist() for channel, found in again.items()} == {"S": [1, 3, 5], "T": [2, 4, 6]}
