"""A late event that is replayed corrects the answers of steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
from xscl.base.failpoints import hooked
from xscl.batches.deciding import step_replay
from xscl.batches.deciding.step_replay import complete_since
from xscl.batches.steps import tree as step_tree
from xscl.catalog.tables import REMOVALS
from xscl.language.steps.steps import steps_of
from xscl.language.syntax.parser import parse_query
from xscl.templates.sequences import fold_rounds
from xscl.templates.sequences.lanes import FAR

NEXT = "a->x[./k->k] NEXT {k = l} b->y[./k->l]"
RISES = "a->x[./k->k][./v->p] FOLD {k = l WHILE q > last(q, p)} a->y[./k->l][./v->q]"
COUNTED = "SELECT p, count() AS n, max(q, p) AS top FROM a[./k->k][./v->p] FOLD {k = l WHILE q > p} a[./k->l][./v->q]"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[xscl.Engine]:
    with xscl.connect(home=tmp_path / "home") as made:
        for channel in "abc":
            made.add_channel(channel, lateness="2 s", clock="one")
        yield made


def take(engine: xscl.Engine, *events: tuple[str, int, int]) -> None:
    """Take events in, each told by its channel, its time and its value, and run a batch."""
    made = (xscl.Event(name, f"{name}{ts}", ts, xml=f"<r><k>1</k><v>{v}</v></r>") for name, ts, v in events)
    assert not engine.ingest(made).rejected
    engine.run_once()


def replay(engine: xscl.Engine, *ids: str) -> None:
    assert engine.replay_late(ids=[*ids]).events == len(ids)
    engine.run_once()


def held(engine: xscl.Engine, name: str = "q") -> list[str]:
    return [" ".join(event.id for event in match.events) for match in engine.matches(name)]


def log(engine: xscl.Engine, name: str = "q") -> list[str]:
    return [
        f"+ {' '.join(event.id for event in match.events)}"
        if match.retracted is None
        else f"- {match.retracted.because} {match.retracted.by[1] if match.retracted.by else None}"
        for match in engine.changes(name, after="start")
    ]


def test_the_next_one_was_late(engine: xscl.Engine) -> None:
    engine.register(NEXT, name="q")
    take(engine, ("a", 1, 0), ("b", 9, 0), ("a", 20, 0))
    take(engine, ("b", 5, 0), ("b", 7, 0))
    assert held(engine) == ["a1 b9"]
    replay(engine, "b7")
    assert held(engine) == ["a1 b7"]
    replay(engine, "b5")
    assert held(engine) == ["a1 b5"]
    # Of one batch the order is that of the numbers of documents.
    assert log(engine) == ["+ a1 b9", "- replayed b7", "+ a1 b7", "+ a1 b5", "- replayed b5"]
    assert [match.query for match in engine.matches()] == ["q"]


def test_a_replay_of_both_sides_and_what_is_open(engine: xscl.Engine) -> None:
    engine.register(NEXT, name="q")
    take(engine, ("a", 1, 0), ("b", 9, 0), ("a", 20, 0))
    take(engine, ("a", 12, 0), ("a", 15, 0), ("b", 14, 0))
    replay(engine, "a12", "a15", "b14")
    assert held(engine) == ["a1 b9", "a12 b14"]
    # What is open goes on, with the replayed events and with those that waited before.
    take(engine, ("b", 21, 0), ("b", 30, 0))
    assert held(engine) == ["a1 b9", "a12 b14", "a15 b21", "a20 b21"]


def test_who_came_later_or_has_gone(engine: xscl.Engine) -> None:
    engine.register(NEXT, name="gone")
    engine.register(NEXT, name="q")
    take(engine, ("a", 1, 0), ("b", 9, 0), ("a", 20, 0))
    engine.drop("gone")
    take(engine, ("b", 5, 0))
    engine.register(NEXT, name="later")
    replay(engine, "b5")
    assert held(engine) == ["a1 b5"] and held(engine, "gone") == ["a1 b9"] and held(engine, "later") == []


@pytest.mark.parametrize("some_at_a_time", [1, 3, 50_000])
def test_runs(engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch, some_at_a_time: int) -> None:
    monkeypatch.setattr(step_replay, "_SLICE", some_at_a_time)
    engine.register(RISES, name="q")
    engine.register(f"{RISES} FILTER {{DUR >= 4}}", name="long")
    engine.register(COUNTED, name="counted")
    take(engine, ("a", 1, 1), ("a", 3, 2), ("a", 6, 5), ("a", 20, 0), ("a", 40, 0))
    assert held(engine) == ["a1 a3", "a3 a6", "a1 a6"] and held(engine, "long") == ["a1 a6"]
    assert [[*match.values.values()] for match in engine.matches("counted")] == [
        ["1", "1", "2"],
        ["1", "2", "5"],
        ["2", "1", "5"],
    ]
    take(engine, ("a", 4, 0))
    replay(engine, "a4")
    # It ends the runs from 1 and from 3, and begins one.
    assert held(engine) == ["a1 a3", "a4 a6"] and held(engine, "long") == []
    assert [[*match.values.values()] for match in engine.matches("counted")] == [["1", "1", "2"], ["0", "1", "5"]]
    assert log(engine)[3:] == ["- replayed a4", "- replayed a4", "+ a4 a6"]


def test_answers_of_absences_have_the_time_of_their_own_windows(engine: xscl.Engine) -> None:
    ends = {f"q{window}": window for window in (3, 5, 9)}
    for name, window in ends.items():
        engine.register(f"{NEXT} WITHOUT {{k = m, {window}}} c->z[./k->m]", name=name)
    take(engine, ("a", 20, 0), ("b", 24, 0), ("b", 40, 0))
    take(engine, ("c", 30, 0), ("b", 60, 0))

    def times(name: str) -> list[int]:
        return [match.ts // 1_000_000 for match in engine.matches(name)]

    assert {name: times(name) for name in ends} == {name: [24 + window] for name, window in ends.items()}
    replay(engine, "c30")  # only the longest window has it
    assert [len(held(engine, name)) for name in ends] == [1, 1, 0]
    assert [log(engine, name)[1:] for name in ends] == [[], [], ["- replayed c30"]]


def test_documents_go_with_answers(engine: xscl.Engine) -> None:
    engine.register(f"SELECT <pair>{{x}}</pair> FROM {NEXT} PUBLISH pairs", name="q")
    engine.register("pairs/pair", name="read")
    take(engine, ("a", 1, 0), ("b", 9, 0), ("a", 20, 0))
    take(engine, ("b", 5, 0))
    replay(engine, "b5")
    assert [row["channel"] for row in engine.home.catalog.rows(REMOVALS)] == ["pairs"]
    assert len(engine.matches("read")) == 2  # a reader keeps what it has


def test_a_crash_in_a_replay_changes_nothing(engine: xscl.Engine) -> None:
    engine.register(NEXT, name="q")
    take(engine, ("a", 1, 0), ("b", 9, 0), ("a", 20, 0))
    take(engine, ("b", 5, 0))

    def fail(at: str) -> None:
        if at == "batch.commit":
            raise OSError(at)

    with hooked(fail), pytest.raises(OSError, match=r"batch\.commit"):
        replay(engine, "b5")
    engine.run_once()
    assert held(engine) == ["a1 b5"] and log(engine) == ["+ a1 b9", "- replayed b5", "+ a1 b5"]


def test_what_is_no_longer_retained_stays_as_it_is(engine: xscl.Engine) -> None:
    engine.add_channel("r", lateness="2 s", clock="one", retention="12 s")
    engine.register("a->x[./k->k] NEXT {k = l} r->y[./k->l]", name="q")
    take(engine, ("a", 1, 0), ("r", 6, 0), ("a", 14, 0), ("r", 17, 0), ("a", 21, 0))
    take(engine, ("r", 12, 0), ("r", 16, 0), ("a", 24, 0))
    assert held(engine) == ["a14 r17"]  # the other has gone with its event
    replay(engine, "r16")
    assert held(engine) == ["a14 r16"]


@pytest.mark.parametrize(
    ("text", "kept", "since"),
    [
        (NEXT, {}, -(1 << 62)),
        (NEXT, {"a": 5, "b": 9}, 9),
        (f"{NEXT} WITHOUT {{k = m, 3}} c->z[./k->m]", {"c": 7}, 7 + 3_000_000),
        (f"{NEXT} NOT FOLLOWED BY {{k = m, 3}} c->z[./k->m]", {"c": 7}, 7),
        (f"{NEXT} WITHOUT {{k = m, BETWEEN}} c->z[./k->m]", {"c": 7}, 7),
        (f"{NEXT} WITHOUT {{k = m, z - x IN [-2, 3]}} c->z[./k->m]", {"c": 7}, 7 + 2_000_000),
        ("a[./k->k] FOLD {k = l, LONGEST} b[./k->l]", {"a": 5}, FAR),
        ("a[./k->k] FOLD {k = l, LONGEST} b[./k->l]", {}, -(1 << 62)),
    ],
)
def test_from_where_on_all_is_there(text: str, kept: dict[str, int], since: int) -> None:
    definition = steps_of(parse_query(text), text)
    channels = [part.channels for part in definition.parts]
    assert complete_since(definition, channels, kept) == since


@pytest.mark.parametrize("made", ["", "SELECT count() AS n, l FROM "])
def test_a_replay_that_cuts_runs_off_takes_their_answers_back_by_that_limit(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.setattr(step_tree, "folded", lambda *args: fold_rounds.folded(*args[:-1], 4))
    engine.register(f"{made}a->x[./k->k] FOLD {{k = l}} b->y[./k->l] CONSISTENCY MIDDLE", name="q")
    take(engine, ("a", 10, 0), ("b", 20, 0), ("b", 21, 0), ("b", 22, 0))
    take(engine, ("a", 11, 0), ("a", 12, 0), ("a", 13, 0), ("a", 14, 0))
    assert len(engine.matches("q")) == 3
    assert engine.replay_late(ids=["a11", "a12", "a13", "a14"]).events == 4
    rejected = [(each.query, each.id, each.condition) for report in engine.run_once() for each in report.rejected]
    assert rejected == [("q", f"a{ts}", "XSCL_RUN_LIMIT") for ts in range(10, 15)]
    gone = [match.retracted for match in engine.changes("q", after="start") if match.retracted is not None]
    assert len(engine.matches("q")) == 5
    assert [(each.because, each.by) for each in gone] == [("limit", ("a", "a10"))] * 2
