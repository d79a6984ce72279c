"""Events that come older than their channels keep: the batch that processes them names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from xscl.base.types import Event
from xscl.catalog.tables import LATE
from xscl.engine import Engine, connect

NEW = 1_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with connect(home=tmp_path / "home") as opened:
        yield opened


def begin(engine: Engine, **settings: str) -> None:
    """Let a channel of documents and one of rows lose what is older than ``NEW`` - 10, and ask for both, and for T."""
    engine.add_channel("S", retention="10 s", **settings)
    engine.add_channel("R", kind="rows", schema="k string", retention="10 s", **settings)
    engine.add_channel("unread", retention="10 s", **settings)
    ingest(engine, {"S": [0, NEW], "R": [0, NEW], "unread": [0, NEW]})
    engine.register("S/a->x JOIN {x = y} T/a->y", name="pairs")
    engine.register("R[./k = 'k']", name="rows")


def ingest(engine: Engine, times: dict[str, Sequence[int]]) -> list[tuple[str | None, str, str, str, str]]:
    """Ingest events and process them; return what the batch refused."""
    events = [
        Event(channel, f"{channel}{ts}", ts, row={"k": "k"})
        if channel == "R"
        else Event(channel, f"{channel}{ts}", ts, xml="<a>k</a>")
        for channel, of in times.items()
        for ts in of
    ]
    engine.ingest(events)
    (report,) = engine.run_once()
    return [(each.query, each.channel, each.id, each.condition, each.message) for each in report.rejected]


def test_older_events_are_named_a_channel_at_a_time(engine: Engine) -> None:
    begin(engine)
    kept = "from 1970-01-01T00:16:30Z on"
    end = "no listing has their matches, and later batches publish none; a longer retention keeps more"
    told = ingest(engine, {"S": [NEW + 1, *range(1, 8), NEW - 10], "R": [NEW - 11, NEW + 1], "unread": [3, NEW + 1]})
    assert told == [
        (None, "R", f"R{NEW - 11}", "XSCL_EVENT_GONE", f"it came older than what the channel keeps, {kept}: {end}"),
        (
            None,
            "S",
            "S1",
            "XSCL_EVENT_GONE",
            f"it came older than what the channel keeps, {kept}, and so have 'S2', 'S3', 'S4', 'S5', 2 more: {end}",
        ),
    ]


def test_their_matches_are_found_and_in_no_listing(engine: Engine) -> None:
    begin(engine)
    (told,) = ingest(engine, {"S": [5, NEW + 1]})
    assert told[:3] == (None, "S", "S5")
    engine.ingest([Event("T", "t", 5, xml="<a>k</a>")])
    (report,) = engine.run_once()
    assert report.matches == 2
    assert [[event.id for event in match.events] for match in engine.matches("pairs")] == [[f"S{NEW + 1}", "t"]]


def test_late_events_are_told_as_late(engine: Engine) -> None:
    begin(engine, lateness="0 s")
    assert not ingest(engine, {"S": [5, NEW + 1], "R": [5, NEW + 1]})
    with engine.home.catalog.read() as connection:
        late = [(row.channel, row.id) for row in connection.execute(sa.select(LATE.c.channel, LATE.c.id))]
    assert sorted(late) == [("R", "R5"), ("S", "S5")]
