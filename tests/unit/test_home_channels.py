"""The home as channels: rows about batches, polls and refusals, which queries read like any others."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import xscl
from xscl.base.errors import XsclError
from xscl.base.types import now_micros
from xscl.catalog.channels import read_channels
from xscl.catalog.home_channels import HOME_BATCHES, HOME_REJECTED
from xscl.catalog.intake_order import repeat_all
from xscl.engine import Engine
from xscl.store.home_rows import tell_home
from xscl.upkeep.event_export import export_events


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return xscl.connect(home=tmp_path / "home")


def documents(*ids: str) -> list[xscl.Event]:
    return [xscl.Event("S", id_, 1, xml="<a/>") for id_ in ids]


def told(engine: Engine, name: str) -> list[str]:
    """The documents of a query's matches."""
    engine.run_once()
    return [match.document for match in engine.matches(name)]


def test_a_batch_is_told_to_who_reads_it_and_rows_about_batches_end(engine: Engine) -> None:
    engine.register("S//a", name="q")
    engine.ingest(documents("d0"))
    engine.run_once()
    assert HOME_BATCHES not in engine.home.catalog.ask(read_channels), "nobody reads it"
    engine.register("SELECT n, e FROM xscl.batches[./batch->n][./events->e]", name="batches")
    engine.ingest(documents("d1", "d2"))
    first = engine.run_once()
    # The batch of the row about it adds no row.
    assert [report.events for report in first] == [2, 1]
    assert engine.run_once() == []
    assert told(engine, "batches") == ["<result><batch>2</batch><events>2</events></result>"]
    engine.drop("batches")
    engine.ingest(documents("d3"))
    assert [report.events for report in engine.run_once()] == [1], "nobody reads it any more"


def test_the_mean_of_a_column_crosses_a_number(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT avg(s) AS seconds FROM xscl.batches[./join_s->s] WINDOW 5 min HAVING avg(s) > 0.25 ON CROSSING"
    engine.register(query, name="slow")
    with engine.home.catalog.begin() as connection:
        path = engine.home.folder("events") / "rows.parquet"
        rows = [{"batch": 1, "join_s": 0.2}, {"batch": 2, "join_s": 0.4}]
        assert tell_home(connection, HOME_BATCHES, rows, now_micros(), path)
    monkeypatch.setattr("xscl.batches.walls.now_micros", lambda: now_micros() + 10_000_000)
    assert told(engine, "slow") == ["<result><seconds>0.3</seconds></result>"]


def test_refusals_are_told(engine: Engine) -> None:
    engine.register("SELECT c, m FROM xscl.rejected[./condition->c][./message->m]", name="refused")
    engine.ingest([xscl.Event("S", "bad", 1, xml="<a>"), xscl.Event("S", "d1", 1, xml="<a/>")])
    (document,) = told(engine, "refused")
    assert "<condition>XSCL_MALFORMED_DOCUMENT</condition>" in document


def test_nothing_from_outside_is_about_the_home(engine: Engine) -> None:
    engine.register("xscl.batches[./batch->n]", name="batches")
    report = engine.ingest([xscl.Event(HOME_BATCHES, "1", 1, row={"batch": 7})])
    assert (report.taken, report.rejected) == (0, 1)
    refusals = (
        lambda: engine.register("S//a PUBLISH xscl.rejected", name="p"),
        lambda: engine.add_channel(HOME_REJECTED),
        lambda: engine.heartbeat(HOME_BATCHES, 1),
    )
    for refused in refusals:
        with pytest.raises(XsclError) as caught:
            refused()
        assert caught.value.condition == "XSCL_BAD_NAME"


def test_rows_about_the_home_are_in_no_event_file_and_no_repair_repeats_them(engine: Engine) -> None:
    engine.register("xscl.batches[./batch->n]", name="batches")
    engine.ingest(documents("d1"))
    engine.run_once()
    stream = io.BytesIO()
    assert export_events(engine.home, stream).events == 1
    assert HOME_BATCHES not in stream.getvalue().decode().replace("FROM xscl", "").partition("batch->n")[2]
    with engine.home.catalog.begin() as connection:
        repeat_all(connection)
    assert [report.events for report in engine.run_once()] == [2], "the row that is there, and no new one"


def test_what_strangers_wrote_is_made_sound(engine: Engine) -> None:
    engine.register("SELECT m FROM xscl.rejected[./message->m]", name="refused")
    with engine.home.catalog.begin() as connection:
        path = engine.home.folder("events") / "rows.parquet"
        tell_home(connection, HOME_REJECTED, [{"message": "a\x1b[31m<b>\x00"}], now_micros(), path)
    assert told(engine, "refused") == ["<result><message>a\ufffd[31m&lt;b&gt;\ufffd</message></result>"]
