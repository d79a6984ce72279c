"""Settled times within a batch: an answer about absence is the same however the intake is cut into batches."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from absences import Found, answers

import xscl
from xscl.catalog.tables import LATE
from xscl.engine import Engine
from xscl.registry.channels import set_channel


def event(channel: str, ts: int, value: str = "1") -> xscl.Event:
    return xscl.Event(channel, f"{channel}{ts}", ts, xml=f"<e><k>{value}</k></e>")


def cut(engine: Engine, place: int, cuts: Collection[int]) -> None:
    if place in cuts:
        engine.run_once()


@pytest.mark.parametrize("cuts", [(), (2,), (3,), (1, 2, 3, 4)])
def test_a_lowered_lateness_says_nothing_of_events_before(tmp_path: Path, cuts: Collection[int]) -> None:
    """The second payment came in time, by the lateness of then, though it would be late by that of now."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("paid", lateness="1h")
        engine.register("order->x[./k->a] NOT FOLLOWED BY {a = b, 10} paid[./k->b]", name="q")
        came = [event("order", 1000), event("paid", 2000, "2"), event("paid", 1005), event("order", 2000, "2")]
        for place, each in enumerate(came, 1):
            engine.ingest([each])
            cut(engine, place, cuts)
        set_channel(engine.home.catalog, "paid", lateness="1s")
        assert engine.ingest([event("paid", 2020, "3")]).taken == 1
        assert by_runs(engine) == [(["order2000"], 2_010_000_000)]


@pytest.mark.parametrize("cuts", [(), (2,), (1, 2, 3, 4)])
@pytest.mark.parametrize("lateness", [None, "1s"])
@pytest.mark.parametrize("gone", ["view", "q"])
def test_published_channels_are_settled_by_place(
    tmp_path: Path, gone: str, lateness: str | None, cuts: Collection[int]
) -> None:
    """The second event settles the time of the first, whatever is dropped then, and comes to the channel itself."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("B", lateness="1s")
        if lateness is not None:
            engine.add_channel("P", lateness=lateness)
        engine.register("B PUBLISH P", name="view")
        engine.register("A->x NOT FOLLOWED BY {2} P CONSISTENCY STRONG", name="q")
        engine.ingest([event("A", 1)])
        cut(engine, 1, cuts)
        engine.ingest([event("B", 10)])
        cut(engine, 2, cuts)
        engine.drop(gone)
        cut(engine, 3, cuts)
        engine.ingest([event("P", 20)])
        cut(engine, 4, cuts)
        # Where nothing settles the channel any more, nothing is said of later events.
        engine.ingest([event("A", 12), event("B", 30)])
        later = [(["A12"], 14_000_000)] if gone == "view" and lateness is not None else []
        assert by_runs(engine) == [(["A1"], 3_000_000), *later]


def by_runs(engine: Engine) -> Found:
    """What the query says after another batch."""
    engine.run_once()
    return answers(engine, "q")


@pytest.mark.parametrize("after", ["1h", "none"])
def test_a_raised_lateness_has_a_place(tmp_path: Path, after: str) -> None:
    """Answers of then stay, for whoever was there, and no event is let in that batches may have done with."""
    found = []
    for cuts in ((), (2,), (1, 2, 3), (1, 2, 3, 4, 5)):
        with xscl.connect(home=tmp_path / "-".join(map(str, ("home", *cuts)))) as engine:
            engine.add_channel("paid", lateness="5s")
            engine.register("order->x[./k->a] NOT FOLLOWED BY {a = b, 10} paid[./k->b]", name="q")
            engine.register("order->x[./k->a] NOT FOLLOWED BY {a = b, 10} paid[./k->b]", name="gone")
            engine.ingest([event("order", 1000)])
            cut(engine, 1, cuts)
            engine.ingest([event("paid", 1020, "2")])  # settles the first order
            cut(engine, 2, cuts)
            engine.drop("gone")
            cut(engine, 3, cuts)
            set_channel(engine.home.catalog, "paid", lateness=after)
            cut(engine, 4, cuts)
            report = engine.ingest([event("paid", 1005), event("order", 1012, "3"), event("paid", 1016, "3")])
            assert (report.taken, report.late) == (3, 1)
            engine.heartbeat("paid", 1_030_000_000)
            cut(engine, 5, cuts)
            engine.run_once()
            by_query = {name: answers(engine, name) for name in ("q", "gone")}
            assert by_query == {name: [(["order1000"], 1_010_000_000)] for name in ("q", "gone")}
            found.append([(row["id"], row["message"]) for row in engine.home.catalog.rows(LATE)])
    assert found == [[("paid1005", "not behind the heartbeat of 1970-01-01T00:16:54.999999Z")]] * 4
