"""Current matches of queries, and notes on what is kept no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
from xscl.base.errors import EngineError
from xscl.registry.channels import set_channel

S = 1_000_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[xscl.Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        opened.add_channel("S", kind="rows", schema="k string, v bigint", lateness="0 s")
        yield opened


def take(engine: xscl.Engine, *rows: tuple[int, str, int]) -> None:
    engine.ingest(xscl.Event("S", str(ts), ts, row={"k": k, "v": v}) for ts, k, v in rows)
    engine.run_once()


def test_the_newest_of_each_group(engine: xscl.Engine) -> None:
    engine.register("S[./k->k][./v->v]", name="all")
    engine.register(
        "SELECT lower(k) AS g, last(v) AS v FROM S[./k->k][./v->v] WINDOW LAST 2 GROUP BY lower(k)", name="w"
    )
    engine.register("SELECT last(v) AS v FROM S[./k->k][./v->v] WINDOW 5 s EVERY 5 s GROUP BY k", name="e")
    take(engine, (1, "a", 1), (2, "b", 2), (3, "A", 3), (4, "b", 4), (6, "c", 5), (20, "d", 6))

    def found(query: str, **given: object) -> list[tuple[int, str]]:
        return sorted((m.ts // S, m.values["v"]) for m in engine.matches(query, current=True, **given))

    assert found("all") == [(20, "6")]
    assert found("all", by=["k"]) == [(1, "1"), (3, "3"), (4, "4"), (6, "5"), (20, "6")]
    assert found("all", by=["k"], until=3 * S) == [(1, "1"), (2, "2"), (3, "3")]
    assert found("w") == [(3, "3"), (4, "4"), (6, "5")]
    # From 10 to 20 nothing came.
    assert found("e") == []
    assert found("e", now=12 * S) == [(10, "5")]
    assert found("e", now=9 * S) == [(5, "1"), (5, "3"), (5, "4")]
    engine.end_input()
    engine.run_once()
    assert found("e") == [(25, "6")]
    assert found("w", limit=2) == [(3, "3"), (4, "4")] and len(engine.matches("w", current=True)) == 4


@pytest.mark.parametrize(
    ("query", "given", "condition"),
    [
        (None, {"current": True}, "XSCL_BAD_AGGREGATE"),
        ("untold", {"current": True}, "XSCL_BAD_AGGREGATE"),
        ("all", {"current": True, "by": ["z"]}, "XSCL_BAD_AGGREGATE"),
        ("all", {"by": ["k"]}, "XSCL_BAD_OPTION"),
        ("all", {"current": True, "after": "start"}, "XSCL_BAD_OPTION"),
    ],
)
def test_refusals(engine: xscl.Engine, query: str | None, given: dict[str, object], condition: str) -> None:
    engine.register("S[./k->k]", name="all")
    engine.register("SELECT count() AS n FROM S[./k->k] WINDOW LAST 2 GROUP BY k", name="untold")
    with pytest.raises(EngineError, match=condition):
        engine.matches(query, **given)


def test_d29_a_window_that_begins_before_what_is_kept(engine: xscl.Engine) -> None:
    set_channel(engine.home.catalog, "S", retention="100 s")
    engine.register("S[./k->k]", name="q")
    engine.register("SELECT k, count() AS n FROM S[./k->k] WINDOW LAST 2 GROUP BY k", name="w")
    for ts in (10, 60, 140, 150):
        take(engine, (ts, "a", ts))
    note = ("incomplete before 1970-01-01T00:00:50Z: older events of S are no longer kept",)
    listing = engine.matches("q", window="0..NOW", now=150 * S)
    assert [match.ts // S for match in listing] == [60, 140, 150] and listing.notes == note
    assert engine.count_matches("q", window="0..NOW", now=150 * S).notes == note
    assert engine.count_matches("q", ["k"], window="0..NOW", now=150 * S).notes == note
    assert engine.matches(since=0).notes == note
    # Answers of windows are kept, and nothing is missing where a listing has no beginning, or a later one.
    for listing in (engine.matches("w", since=0), engine.matches("q"), engine.matches("q", window="50..NOW")):
        assert not listing.notes
