"""Queries with steps answer before answers are final, and correct them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import xscl
from xscl.answers.consistency import consistency_rows
from xscl.answers.explaining.explain import explain
from xscl.answers.explaining.step_templates import step_rows
from xscl.answers.explaining.text import explanation_text
from xscl.base.errors import CatalogError
from xscl.base.failpoints import crash_at, hooked
from xscl.batches.steps import tree as step_tree
from xscl.registry.channels import set_channel
from xscl.store.join_state import files_by_kind
from xscl.templates.sequences import fold_rounds
from xscl.upkeep.health import examine_home

NEXT = "a->x[./k->k] NEXT {k = l} b->y[./k->l]"
SUMS = (
    "SELECT count() AS n, sum(q, p) AS total FROM a[./k->k][./v->p] FOLD {k = l WHILE q > last(q, p)} a[./k->l][./v->q]"
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[xscl.Engine]:
    with xscl.connect(home=tmp_path / "home") as made:
        for channel in "ab":
            made.add_channel(channel, lateness="10 s", clock="one")
        yield made


def event(channel: str, ts: int, value: int = 0) -> xscl.Event:
    return xscl.Event(channel, f"{channel}{ts}", ts, xml=f"<r><k>1</k><v>{value}</v></r>")


def take(engine: xscl.Engine, *events: xscl.Event) -> None:
    """Take events in, and run a batch."""
    assert not engine.ingest(events).rejected
    engine.run_once()


def held(engine: xscl.Engine, name: str = "q") -> list[str]:
    return [" ".join(event.id for event in match.events) for match in engine.matches(name)]


def log(engine: xscl.Engine, name: str = "q") -> list[str]:
    return sorted(
        f"+ {' '.join(event.id for event in match.events)}"
        if match.retracted is None
        else f"- {match.retracted.because} {match.retracted.by[1] if match.retracted.by else None}"
        for match in engine.changes(name, after="start")
    )


def test_an_earlier_one_comes_late(engine: xscl.Engine) -> None:
    engine.register(f"{NEXT} CONSISTENCY MIDDLE", name="q")
    engine.register(NEXT, name="waits")
    take(engine, event("a", 1), event("b", 9))
    assert held(engine) == ["a1 b9"] and held(engine, "waits") == []
    take(engine, event("b", 5))
    assert held(engine) == ["a1 b5"]
    take(engine, event("b", 30))
    assert held(engine) == held(engine, "waits") == ["a1 b5"]
    assert log(engine) == ["+ a1 b5", "+ a1 b9", "- late b5"]
    assert log(engine, "waits") == ["+ a1 b5"]


@pytest.mark.parametrize(
    ("level", "first", "then", "last"),
    [
        ("WEAK", [], ["a1 b9"], ["a1 b9"]),
        ("BLOCKING 2 s MEMORY 2 s", [], ["a1 b7"], ["a1 b7"]),
        ("BLOCKING 0 s MEMORY 4 s", ["a1 b9"], ["a1 b7"], ["a1 b7"]),
        ("BLOCKING 2 s MEMORY 10 s", [], ["a1 b5"], ["a1 b5"]),
    ],
)
def test_levels(
    engine: xscl.Engine, level: str, first: Sequence[str], then: Sequence[str], last: Sequence[str]
) -> None:
    """Events come 2 and 7 s behind the clock."""
    engine.register(f"{NEXT} CONSISTENCY {level}", name="q")
    take(engine, event("a", 1), event("b", 9))
    assert held(engine) == first
    take(engine, event("b", 7), event("a", 12), event("b", 5))
    assert held(engine) == then
    take(engine, event("a", 40))
    assert held(engine) == last


def test_what_is_forgotten_is_counted(engine: xscl.Engine) -> None:
    text = f"{NEXT} CONSISTENCY BLOCKING 1 s MEMORY 3 s"
    engine.register(text, name="q")
    take(engine, event("a", 1), event("b", 9), event("b", 5), event("b", 7), event("a", 30))
    assert held(engine) == ["a1 b7"]
    assert [query.late_for for query in engine.queries()] == [1]
    assert [" ".join(event.id for event in match.events) for match in engine.query_once(text)] == ["a1 b7"]


def test_answers_of_absences_have_the_time_of_their_own_windows(engine: xscl.Engine) -> None:
    for window in (1, 3, 8):
        text = f"{NEXT} WITHOUT {{k = m, {window}}} b->z[./c->m] CONSISTENCY MIDDLE"
        engine.register(text, name=f"q{window}")
    take(engine, event("a", 20), event("b", 21), event("a", 31))

    def times(window: int) -> list[int]:
        return [match.ts // 1_000_000 for match in engine.matches(f"q{window}")]

    assert [times(window) for window in (1, 3, 8)] == [[22], [24], [29]]
    take(engine, xscl.Event("b", "late", 27, xml="<r><c>1</c></r>"))
    assert [times(window) for window in (1, 3, 8)] == [[22], [24], []]


def test_values_of_a_run_change(engine: xscl.Engine) -> None:
    engine.register(f"{SUMS} CONSISTENCY MIDDLE", name="q")
    take(engine, event("a", 1, 10), event("a", 9, 30))
    assert [dict(match.values) for match in engine.matches("q")] == [{"n": "1", "total": "40"}]
    take(engine, event("a", 5, 20))
    told = sorted(match.values["total"] for match in engine.matches("q"))
    assert told == ["30", "50", "60"]  # 10 20, 20 30, and 10 20 30 instead of 10 30
    assert sum(match.retracted is not None for match in engine.changes("q", after="start")) == 1


RISING = "a->x[./k->k][./v->p] FOLD {k = l WHILE q > last(q, p), LONGEST} b->y[./k->l][./v->q]"


def test_a_longer_run_takes_a_shorter_one_back(engine: xscl.Engine) -> None:
    engine.register(f"{RISING} CONSISTENCY MIDDLE", name="q")
    engine.register(f"{RISING} CONSISTENCY STRONG", name="waits")
    take(engine, event("a", 1, 1), event("b", 3, 2), event("b", 5, 1))
    assert held(engine) == ["a1 b3"] and held(engine, "waits") == []
    take(engine, event("b", 4, 3))
    assert held(engine) == ["a1 b4"]
    take(engine, event("b", 2, 0))  # ends the run before it has begun
    assert held(engine) == []
    take(engine, event("a", 30))
    assert held(engine) == held(engine, "waits") == []
    assert log(engine) == ["+ a1 b3", "+ a1 b4", "- late b2", "- late b4"]


@pytest.mark.parametrize("made", ["", "SELECT p, q FROM ", "SELECT count() AS n, max(q) AS most FROM "])
@pytest.mark.parametrize(("level", "goes_on"), [("STRONG", False), ("MIDDLE", False), ("MIDDLE", True)])
def test_runs_between_the_same_ends_are_one_answer(engine: xscl.Engine, level: str, goes_on: bool, made: str) -> None:
    """Runs over b1 and over b2, which are at one time, end at different ones; so do the answers that both are."""
    text = "a->x[./k->k][./v->p] FOLD {k = l AND q != sum(q, p) WHILE q < 6, LONGEST} b->y[./k->l][./v->q]"
    engine.register(f"{made}{text} CONSISTENCY {level}", name="q")
    one, two = (xscl.Event("b", f"b{n}", 2, xml=f"<r><k>1</k><v>{n}</v></r>") for n in (1, 2))
    take(engine, event("a", 1), one, two, event("b", 3, 5))
    take(engine, event("b", 4, 6), event("b", 6, 9))  # the run over b2 ends here, and then that over b1
    take(engine, event("a", 15))
    assert len(engine.matches("q")) == 1  # that over b2 is final
    if goes_on:
        take(engine, event("b", 5, 4))  # that over b1 does not end there
    take(engine, event("a", 40))
    told = list(engine.changes("q", after="start"))
    assert len(engine.matches("q")) == len(told) == 1 + goes_on and not any(match.retracted for match in told)


def test_documents_go_with_answers(engine: xscl.Engine) -> None:
    engine.register("SELECT p FROM pairs/pair->p ON CHANGE RETRACT", name="read")
    engine.register(f"SELECT <pair>{{y}}</pair> FROM {NEXT} PUBLISH pairs CONSISTENCY MIDDLE", name="q")
    take(engine, event("a", 1), event("b", 9))
    assert len(engine.matches("read")) == 1
    before = {match.id for match in engine.matches("read")}
    take(engine, event("b", 5))
    assert len(engine.matches("read")) == 1 and before.isdisjoint(match.id for match in engine.matches("read"))
    told = [match.retracted and match.retracted.because for match in engine.changes("read", after="start")]
    assert sorted(map(str, told)) == ["None", "None", "removed"]


def test_who_keeps_matches_reads_no_such_documents(engine: xscl.Engine) -> None:
    engine.register(f"{NEXT} PUBLISH pairs CONSISTENCY MIDDLE", name="q")
    engine.register(f"{NEXT} PUBLISH others CONSISTENCY BLOCKING 1 s MEMORY 1 s", name="final")
    with pytest.raises(CatalogError, match="query q publishes to pairs and may take its matches back"):
        engine.register("pairs->x NEXT a->y", name="keeps")
    engine.register("others->x NEXT a->y", name="reads")
    with pytest.raises(CatalogError, match="query reads would keep"):
        engine.register(f"{NEXT} PUBLISH others CONSISTENCY MIDDLE", name="more")


def test_runs_that_are_cut_off_before_they_are_final_are_told_once(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_rounds, "MOST_ROUNDS", 3)
    engine.register("a FOLD {} a CONSISTENCY MIDDLE", name="q")
    rejected = []
    for ts in (1, 2, 3, 4, 5, 6, 40):
        engine.ingest([event("a", ts)])
        rejected += [each.id for report in engine.run_once() for each in report.rejected]
    assert rejected == ["a1", "a2", "a3", "a4"]


RUNS = "a->x[./k->k] FOLD {k = l} b->y[./k->l]"


@pytest.fixture
def few_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a FOLD make few instances in a batch before its runs are cut off."""
    monkeypatch.setattr(step_tree, "folded", lambda *args: fold_rounds.folded(*args[:-1], 4))


@pytest.mark.usefixtures("few_instances")
@pytest.mark.parametrize("made", ["", "SELECT count() AS n, l FROM "])
def test_answers_of_runs_that_are_cut_off_later_go_by_that_limit(engine: xscl.Engine, made: str) -> None:
    """Events that come in order begin so many runs that the first one is cut off; no event forbids its answers."""
    engine.register(f"{made}{RUNS} CONSISTENCY MIDDLE", name="q")
    take(engine, event("a", 1), event("b", 6), event("b", 7), event("b", 8))
    assert len(engine.matches("q")) == 3
    engine.ingest(event("a", ts) for ts in (2, 3, 4, 5))
    rejected = [(each.query, each.id, each.condition) for report in engine.run_once() for each in report.rejected]
    assert rejected == [("q", f"a{ts}", "XSCL_RUN_LIMIT") for ts in range(1, 6)]
    assert len(engine.matches("q")) == 5
    gone = [match.retracted for match in engine.changes("q", after="start") if match.retracted is not None]
    assert [(each.because, each.by) for each in gone] == [("limit", ("a", "a1"))] * 2
    take(engine, event("a", 60))
    assert len(engine.matches("q")) == 5 and len(list(engine.changes("q", after="start"))) == 9


@pytest.mark.usefixtures("few_instances")
@pytest.mark.parametrize("level", ["MIDDLE", "STRONG"])
@pytest.mark.parametrize(
    ("dropped", "told"),
    [("in an earlier batch", False), ("before the events that cut runs off", False), ("later", True)],
)
def test_who_goes_in_a_batch_that_cuts_runs_off_is_told_of_it(
    engine: xscl.Engine, level: str, dropped: str, told: bool
) -> None:
    for name in ("goes", "stays"):
        engine.register(f"{RUNS} CONSISTENCY {level}", name=name)
    before, cutting = [1, 2, 3, 4, 5], [2, 3, 4, 5]
    if level == "STRONG":
        engine.ingest(event("a", ts) for ts in before)  # their runs are decided when times are settled
        cutting = [60]
    else:
        engine.ingest([event("a", 1)])
    take(engine, *(event("b", ts) for ts in (6, 7, 8)))
    if dropped == "in an earlier batch":
        engine.drop("goes")
        engine.register("a", name="other")
        take(engine, event("b", 9))
    engine.ingest([event("c", 1)])
    if dropped.startswith("before"):
        engine.drop("goes")
    engine.ingest(event("a", ts) for ts in cutting)
    if dropped == "later":
        engine.drop("goes")
    engine.ingest([event("c", 2)])
    (report,) = engine.run_once()
    assert {each.condition for each in report.rejected} == {"XSCL_RUN_LIMIT"}
    by = {name: [each.id for each in report.rejected if each.query == name] for name in ("goes", "stays")}
    assert by["stays"] == [f"a{ts}" for ts in range(1, 6)]
    assert by["goes"] == (by["stays"] if told else [])


@pytest.mark.usefixtures("few_instances")
def test_a_time_that_moves_on_may_cut_runs_off(engine: xscl.Engine) -> None:
    """No event of the batch has to do with the answers that go, and other queries have theirs."""
    engine.register(f"{RUNS} CONSISTENCY BLOCKING 2 s MEMORY 10 s", name="q")
    engine.register(f"{NEXT} CONSISTENCY MIDDLE", name="other")
    take(engine, event("a", 1), event("b", 3), event("b", 4), event("b", 5), event("b", 7))
    assert held(engine) == ["a1 b3", "a1 b4"]
    take(engine, *(xscl.Event("a", f"x{number}", 7.5, xml="<r><k>1</k></r>") for number in range(4)), event("b", 8))
    assert held(engine) == ["a1 b3", "a1 b4", "a1 b5"]
    engine.heartbeat("a", 10_500_000)
    engine.heartbeat("b", 10_500_000)
    rejected = [each.id for report in engine.run_once() for each in report.rejected if each.query == "q"]
    assert rejected == ["a1", "x0", "x1", "x2", "x3"]
    assert len(held(engine)) == 5 and "a1 b3" in held(engine)
    assert {line for line in log(engine) if line.startswith("-")} == {"- limit a1"}
    assert len(held(engine, "other")) == 5


def test_a_query_that_names_no_level_waits_where_times_are_settled(engine: xscl.Engine) -> None:
    engine.add_channel("c")
    runs = "c[./v->p] FOLD {WHILE q > last(q, p), LONGEST} c[./v->q]"
    texts = {"waits": NEXT, "next": "c->x NEXT c->y", "runs": runs, "both": "a->x NEXT c->y", "read": "P->x NEXT a->y"}
    engine.register(f"{NEXT} PUBLISH P", name="publishes")
    for name, text in texts.items():
        engine.register(text, name=name)
    levels = {info.name: info.level for info in engine.queries()}
    assert [levels[name] for name in texts] == ["STRONG", "MIDDLE", "MIDDLE", "MIDDLE", "STRONG"]
    take(engine, event("c", 1), event("c", 9))
    assert held(engine, "next") == ["c1 c9"]
    take(engine, event("c", 5))
    assert held(engine, "next") == ["c1 c5", "c5 c9"]
    set_channel(engine.home.catalog, "c", lateness="1 s")
    engine.register("c->x NEXT c->y", name="late")
    assert {info.name: info.level for info in engine.queries()} == {**levels, "late": "STRONG"}


def test_limits(engine: xscl.Engine) -> None:
    with pytest.raises(CatalogError, match="nothing to remember for 20 s"):
        engine.register(f"{NEXT} CONSISTENCY BLOCKING 1 s MEMORY 20 s", name="q")


def test_a_query_keeps_what_it_has_when_it_goes(engine: xscl.Engine) -> None:
    for name in ("stays", "goes"):
        engine.register(f"{NEXT} CONSISTENCY MIDDLE", name=name)
    take(engine, event("a", 1), event("b", 9))
    engine.ingest([event("b", 7)])
    engine.drop("goes")
    engine.ingest([event("b", 5)])
    engine.run_once()
    assert held(engine, "stays") == ["a1 b5"] and held(engine, "goes") == ["a1 b7"]


@pytest.mark.parametrize("where", ["batch.stepped", "batch.steps", "batch.before", "batch.commit", "batch.committed"])
def test_a_batch_that_ends_at_any_step_corrects_once(tmp_path: Path, engine: xscl.Engine, where: str) -> None:
    class Ended(Exception):
        pass

    def end() -> None:
        raise Ended

    engine.register(f"{NEXT} CONSISTENCY MIDDLE", name="q")
    take(engine, event("a", 1), event("b", 9))
    engine.ingest([event("b", 5)])
    with pytest.raises(Ended), hooked(crash_at(where, end)):
        engine.run_once()
    engine.close()
    with xscl.connect(home=tmp_path / "home") as again:
        again.run_once()
        assert log(again) == ["+ a1 b5", "+ a1 b9", "- late b5"]
        assert not list(examine_home(again.home, deep=True).problems)


def test_what_is_kept_does_not_grow(engine: xscl.Engine) -> None:
    engine.register(f"{NEXT} CONSISTENCY MIDDLE", name="q")
    sizes = []
    for ts in range(0, 64, 2):
        take(engine, event("a", ts), event("b", ts + 1))
        with engine.home.catalog.read() as connection:
            sizes.append(sum(file.rows for file in files_by_kind(connection).get("steps", ())))
    assert 0 < max(sizes[20:]) <= max(sizes[8:14]) <= 30


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "batches"])
def test_queries_that_end_at_different_places_share_their_documents(engine: xscl.Engine, together: bool) -> None:
    for name in ("gone", "stays"):
        engine.register(f"{SUMS} CONSISTENCY MIDDLE", name=name)
    for ts in (1, 3, 5):
        engine.ingest([event("a", ts, ts)])
        if not together:
            engine.run_once()
        if ts == 3:
            engine.drop("gone")
    take(engine, event("a", 30))
    told = {name: [match.document for match in engine.matches(name)] for name in ("gone", "stays")}
    assert told["gone"] == told["stays"][:1] and len(told["stays"]) == 3


def test_queries_whose_runs_are_cut_off_share_their_documents(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_rounds, "MOST_ROUNDS", 1)
    for name in ("q", "same"):
        engine.register(f"{SUMS} CONSISTENCY MIDDLE", name=name)
    take(engine, *(event("a", ts, ts) for ts in (1, 3, 5)))
    assert len(held(engine)) == 2 and held(engine) == held(engine, "same")


def test_levels_are_steps_of_their_own(engine: xscl.Engine) -> None:
    engine.register(f"{NEXT} CONSISTENCY MIDDLE", name="q")
    engine.register(f"{NEXT} CONSISTENCY MIDDLE", name="same")
    engine.register(f"{NEXT} CONSISTENCY STRONG", name="waits")
    engine.register(NEXT, name="too")
    steps = [row for row in step_rows(engine.home.catalog) if str(row["template"]).startswith("s3_")]
    assert sorted((row["queries"], row["groups"]) for row in steps) == [(2, 1), (2, 1)]


def test_people_see_what_is_not_final(engine: xscl.Engine) -> None:
    engine.add_channel("c")
    middle = engine.register("c->x NEXT c->y CONSISTENCY MIDDLE", name="open")
    assert "may be taken back" in middle.notes[0] and "no answer" not in middle.notes[0]
    engine.register(f"{NEXT} CONSISTENCY BLOCKING 0 s MEMORY 4 s", name="q")
    engine.register(NEXT, name="waits")
    take(engine, event("a", 1), event("b", 9), event("b", 7), event("b", 3))
    rows = {row["query"]: [*row.values()] for row in consistency_rows(engine.home)}
    assert rows["q"] == ["q", "BLOCKING 0 s MEMORY 4 s", "0 s", "4 s", 1, 0, 1, 3, 1]
    assert rows["waits"] == ["waits", "STRONG", "10 s", "10 s", 0, 0, 0, 4, 0]
    told = explanation_text(explain(engine.home.catalog, "q"))
    assert "Steps; answered by the channel's clock, and certain as far as the query remembers" in told
    assert "answered once" in explanation_text(explain(engine.home.catalog, "waits"))
