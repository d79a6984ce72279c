"""What is said of queries that events were skipped for."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from xscl.answers import status
from xscl.answers.status import skipped_notes
from xscl.catalog.intake_order import read_last_places


@pytest.fixture
def monitored(tmp_path: Path) -> xscl.Engine:
    engine = xscl.connect(home=tmp_path / "home")
    engine.ingest([xscl.Event("S", "1", 1, xml="<a/>"), xscl.Event("T", "1", 1, xml="<a/>")])
    return engine


def notes(engine: xscl.Engine, first: int = 1) -> list[str]:
    return [note.removeprefix("note: ").partition(";")[0] for note in skipped_notes(engine.home.catalog, first)]


def test_queries_that_events_were_skipped_for(monitored: xscl.Engine) -> None:
    with monitored as engine:
        engine.register("S//a", name="s")
        engine.register("U//a", name="elsewhere")
        engine.register("S//a STARTING ALL", name="all")
        engine.register("S//a", name="gone")
        engine.drop("gone")
        engine.ingest([xscl.Event("S", "2", 2, xml="<a/>")])
        engine.register("S//b JOIN {x = y} T//a->y".replace("b", "b->x"), name="both")
        place = engine.home.catalog.ask(read_last_places)[1]
        engine.register("T//a", name="a")
        assert notes(engine) == [
            "1 older event skipped for query a",
            "3 older events skipped for query both",
            "1 older event skipped for query s",
        ]
        assert notes(engine, place) == []
        engine.run_once()
        assert notes(engine, place + 1) == []


def test_however_many_queries_there_are(monitored: xscl.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monitored as engine:
        engine.register_many([(f"q{number:04d}", "U//a") for number in range(1_200)])
        engine.register("S//a", name="z")
        assert notes(engine) == ["1 older event skipped for query z"]
        engine.register_many([(f"r{number}", "S//a") for number in range(30)])
        monkeypatch.setattr(status, "_NOTES", 2)
        assert notes(engine) == [
            "1 older event skipped for query r0",
            "1 older event skipped for query r1",
            "events were skipped for 29 more queries that are newer than they",
        ]


def test_published_documents_are_skipped(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("S//a PUBLISH P", name="p")
        engine.ingest([xscl.Event("S", "1", 1, xml="<a/>")])
        engine.run_once()
        engine.register("P//a", name="q")
        assert notes(engine) == ["1 older event skipped for query q"]
