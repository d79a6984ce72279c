"""NEXT and FOLD in batches: cuts, crashes, queries that come and go, what is published, and what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import xscl
from xscl.base.failpoints import crash_at, hooked
from xscl.store.join_state import files_by_kind
from xscl.templates.sequences import fold_rounds
from xscl.upkeep.health import examine_home

FALLS = """SELECT p, q FROM a->x[./k->k][./v->p] FOLD {k = l WHILE q < last(q, p)} a->y[./k->l][./v->q]"""
KEPT = """SELECT k, count() AS n, sum(q, p) AS total FROM a[./k->k][./v->p]
FOLD {k = l WHILE q < last(q, p), LONGEST} a[./k->l][./v->q]"""
PAIRS = "a->x[./k->k] NEXT {k = l, 5 s} b->y[./k->l]"


def event(channel: str, number: int, ts: int, value: int, key: str = "k") -> xscl.Event:
    return xscl.Event(channel, f"{channel}{number}", ts, xml=f"<r><k>{key}</k><v>{value}</v></r>")


def prices() -> list[xscl.Event]:
    values = [90, 85, 83, 88, 70, 60, 75]
    return [event("a", ts, ts, value) for ts, value in enumerate(values)] + [event("a", 99, 10_000, 1, "other")]


@contextmanager
def home(folder: Path, lateness: str = "0 s") -> Iterator[xscl.Engine]:
    with xscl.connect(home=folder) as engine:
        if not [*engine.queries()]:
            for channel in ("a", "b"):
                engine.add_channel(channel, lateness=lateness)
        yield engine


def run(engine: xscl.Engine, events: Iterable[xscl.Event], size: int = 100) -> None:
    each = list(events)
    for first in range(0, len(each), size):
        engine.ingest(each[first : first + size])
        engine.run_once()


def members(engine: xscl.Engine, query: str) -> list[list[str]]:
    return sorted([each.id for each in match.events] for match in engine.matches(query))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_falls(tmp_path: Path, size: int) -> None:
    with home(tmp_path / "home") as engine:
        engine.register(FALLS, name="q")
        engine.register(KEPT, name="kept")
        run(engine, prices(), size)
        assert members(engine, "q") == [
            ["a0", "a1"],
            ["a0", "a2"],
            ["a1", "a2"],
            ["a3", "a4"],
            ["a3", "a5"],
            ["a4", "a5"],
        ]
        told = sorted((match.ts // 1_000_000, *match.values.values()) for match in engine.matches("kept"))
        assert told == [(2, "k", "2", "258"), (5, "k", "2", "218")]
        assert [dict(match.values) for match in engine.query_once(KEPT)] == [
            {"k": "k", "n": "2", "total": "258"},
            {"k": "k", "n": "2", "total": "218"},
        ]
        assert sorted([e.id for e in match.events] for match in engine.query_once(FALLS)) == members(engine, "q")


@pytest.mark.parametrize("where", ["batch.stepped", "batch.steps", "batch.before", "batch.commit", "batch.committed"])
def test_a_batch_that_ends_at_any_step_tells_all_once(tmp_path: Path, where: str) -> None:
    class Ended(Exception):
        pass

    def end() -> None:
        raise Ended

    with home(tmp_path / "home") as engine:
        engine.register(FALLS, name="q")
        run(engine, prices()[:3])
        engine.ingest(prices()[3:])
        with pytest.raises(Ended), hooked(crash_at(where, end)):
            engine.run_once()
    with home(tmp_path / "home") as engine:
        engine.run_once()
        assert len(members(engine, "q")) == 6
        assert not list(examine_home(engine.home, deep=True).problems)


def test_g_seam_1(tmp_path: Path) -> None:
    """Who came later sees another competitor, where order was disturbed around it."""
    with home(tmp_path / "home", "10 s") as engine:
        engine.register("a NEXT b", name="early")
        run(engine, [event("b", 1, 5, 0)])
        engine.register("a NEXT b", name="late")
        run(engine, [event("a", 1, 1, 0), event("b", 2, 6, 0), event("a", 9, 100, 0), event("b", 9, 100, 0)])
        assert members(engine, "early") == [["a1", "b1"]]
        assert members(engine, "late") == [["a1", "b2"]]


def test_a_query_has_what_is_decided_before_it_goes(tmp_path: Path) -> None:
    with home(tmp_path / "home", "10 s") as engine:
        engine.register(PAIRS, name="stays")
        engine.register(PAIRS, name="goes")
        run(engine, [event("a", 1, 1, 0), event("b", 1, 2, 0), event("a", 2, 20, 0), event("b", 2, 21, 0)])
        assert members(engine, "goes") == [["a1", "b1"]]
        engine.drop("goes")
        run(engine, [event("a", 3, 90, 0), event("b", 3, 90, 0)])
        assert members(engine, "stays") == [["a1", "b1"], ["a2", "b2"]]


def test_what_is_decided_is_published(tmp_path: Path) -> None:
    with home(tmp_path / "home", "10 s") as engine:
        engine.register(f"SELECT <pair k='{{k}}'/> FROM {PAIRS} PUBLISH pairs", name="q")
        engine.register("SELECT n FROM pairs[./@k->n]", name="r")
        events = [
            event(name, ts, ts + late, 0, str(ts)) for ts in range(0, 40, 4) for name, late in (("a", 0), ("b", 1))
        ]
        run(engine, [*events, event("a", 99, 90, 0), event("b", 99, 90, 0)], 3)
        assert len(members(engine, "q")) == len(members(engine, "r")) == 10


def test_what_nothing_can_reach_is_not_kept(tmp_path: Path) -> None:
    with home(tmp_path / "home") as engine:
        engine.register(PAIRS, name="q")
        sizes = []
        for ts in range(0, 100, 2):
            run(engine, [event("a", ts, ts, 0, str(ts)), event("b", ts, ts, 0, str(ts))])
            with engine.home.catalog.read() as connection:
                sizes.append(sum(file.rows for file in files_by_kind(connection).get("steps", ())))
        assert 0 < max(sizes[20:]) <= 10


def test_runs_that_are_cut_off_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_rounds, "MOST_ROUNDS", 3)
    with home(tmp_path / "home") as engine:
        engine.register("a FOLD {} a", name="q")
        engine.ingest([*(event("a", ts, ts, 0) for ts in range(6)), event("a", 99, 100, 0)])
        (report,) = engine.run_once()
        rejected = report.rejected
        assert [(each.id, each.condition) for each in rejected] == [
            (f"a{number}", "XSCL_RUN_LIMIT") for number in range(3)
        ]
        assert ["a0", "a3"] in members(engine, "q") and ["a0", "a4"] not in members(engine, "q")


@pytest.mark.parametrize("size", [1, 2, 100])
def test_parts_of_longer_matches_go_on_where_these_end(tmp_path: Path, size: int) -> None:
    with home(tmp_path / "home") as engine:
        engine.register("a FOLD {MAXWINDOW 4 s, LONGEST} a", name="q")
        run(engine, [event("a", ts, ts, 0) for ts in (4, 6, 7, 10, 99)], size)
        assert members(engine, "q") == [["a4", "a7"], ["a6", "a10"]]


def test_queries_with_numbers_of_their_own_are_answered_as_alone(tmp_path: Path) -> None:
    with home(tmp_path / "home") as engine:
        for factor in (1, 2, 3):
            engine.register(f"SELECT p, q FROM a[./v->p] NEXT {{q >= {factor} * p, 5 s}} a[./v->q]", name=f"q{factor}")
            run(engine, [event("a", 10 * factor, 10 * factor, 50)])
        run(engine, [event("a", ts, ts, value) for ts, value in ((40, 10), (41, 15), (42, 25), (43, 70), (99, 1))], 2)
        assert members(engine, "q1") == [["a40", "a41"], ["a41", "a42"], ["a42", "a43"]]
        assert members(engine, "q2") == [["a40", "a42"], ["a41", "a43"], ["a42", "a43"]]
        assert members(engine, "q3") == [["a40", "a43"], ["a41", "a43"]]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_near_the_greatest_double_are_compared(tmp_path: Path) -> None:
    great = 17 * 10**307
    with home(tmp_path / "home") as engine:
        engine.register("a[./k->k][./v->p] NEXT {k = l AND q > p} a[./k->l][./v->q]", name="rises")
        engine.register("a[./k->k][./v->p] NEXT {k = l AND 2 * q = 2 * p} a[./k->l][./v->q]", name="alike")
        events = [event("a", ts, ts, value) for ts, value in enumerate([great, great, -great, great + 1])]
        run(engine, [*events, event("a", 99, 10_000, 1, "other")], 1)
        assert members(engine, "rises") == [["a0", "a3"], ["a1", "a3"], ["a2", "a3"]]
        assert members(engine, "alike") == [["a0", "a1"]]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_no_two_members_are_versions_of_one_item(tmp_path: Path, size: int) -> None:
    def entry(item: str, ts: int, value: int) -> xscl.Event:
        return xscl.Event("a", item, ts, feed="f", xml=f"<r><k>k</k><v>{value}</v></r>")

    # The first entry is edited at once, and again when a run has gone on from it.
    entries = [entry(*each) for each in [("x", 0, 1), ("x", 1, 2), ("y", 2, 3), ("x", 3, 4), ("z", 4, 5), ("y", 5, 6)]]
    texts = {
        "next": "a[./k->k] NEXT {k = l} a[./k->l]",
        "next_is_greater": "a[./k->k][./v->p] NEXT {k = l AND q > p} a[./k->l][./v->q]",
        "run": "a[./v = 1][./k->k] FOLD {k = l} a[./k->l]",
        "longest": "SELECT k, count() AS n FROM a[./k->k] FOLD {k = l, 9 s, LONGEST} a[./k->l]",
        "right": "a[./k->k] NEXT {k = l} (a[./k->l] FOLD {l = m, AT MOST 1} a[./k->m])",
        "without": "a[./k->k] NEXT {k = l} a[./k->l] WITHOUT {l = m, BETWEEN} a[./k->m]",
    }
    with home(tmp_path / "home") as engine:
        for name, text in texts.items():
            engine.register(text, name=name)
        run(engine, [*entries, event("a", 99, 10_000, 1, "other")], size)
        pairs = [["x", "y"], ["x#2", "y"], ["x#3", "z"], ["y", "x#3"], ["z", "y#2"]]
        assert members(engine, "next") == members(engine, "next_is_greater") == pairs
        assert members(engine, "run") == [["x", "y"], ["x", "z"]]
        assert sorted(match.values["n"] for match in engine.matches("longest")) == ["2", "2", "2", "2"]
        # The runs behind x and x#2 begin with an item x, or take one, but for that from z to y#2.
        ends = [["x", "z", "y#2"], ["x#2", "z", "y#2"], ["x#3", "z", "y#2"], ["y", "x#3", "z"]]
        assert members(engine, "right") == ends
        # Between x and y is x#2, which is the same item and forbids nothing.
        assert members(engine, "without") == pairs
        for name in ("next", "next_is_greater", "run", "right", "without"):
            once = engine.query_once(texts[name])
            assert sorted([each.id for each in match.events] for match in once) == members(engine, name), name
