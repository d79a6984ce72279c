"""Quotas: who is suspended, where, why; and that nobody else notices."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from greedy import GREEDY, MODEST, TEXTS, document
from typer.testing import CliRunner

import xscl
from xscl import CatalogError, Event
from xscl.answers.consistency import consistency_rows
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.queries import read_query
from xscl.cli.app import app
from xscl.engine import Engine
from xscl.planning.subscribers import Subscribers


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        yield opened


def listed(engine: Engine, query: str) -> list[str]:
    return sorted(match.id for match in engine.matches(query))


def states(engine: Engine) -> dict[str, str]:
    return {info.name: "suspended" if info.is_suspended else "live" for info in engine.queries()}


# -- bindings and pairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quotas", "reason"),
    [
        ({"bindings": 35}, "36 bindings (at most 35) in batch 1"),
        ({"pairs": 29}, "30 combinations of documents (at most 29) in batch 1"),
        (
            {"bindings": 20, "pairs": 0},
            "36 bindings (at most 20) and 30 combinations of documents (at most 0) in batch 1",
        ),
    ],
)
def test_who_exceeds_a_quota_is_suspended_behind_the_batch(engine: Engine, quotas: dict[str, int], reason: str) -> None:
    engine.register(GREEDY, name="greedy", owner="ann")
    engine.set_quotas(**quotas)
    engine.ingest(document(number, a=6) for number in range(6))
    (report,) = engine.run_once()
    # Each of 6 documents has 6 bindings; a query that names one definition twice has them once.
    (suspension,) = report.suspended
    assert (suspension.query, suspension.owner, suspension.place) == ("greedy", "ann", report.last + 1)
    assert suspension.reason == reason
    assert str(suspension).startswith(f"query greedy is suspended from place {report.last + 1} on: [XSCL_QUOTA] 3")
    info = engine.home.catalog.ask(read_query, "greedy")
    assert (info.is_suspended, info.docid_until, info.suspended) == (True, report.last + 1, reason)
    # The answers of the batch stay, and none comes after it.
    before = listed(engine, "greedy")
    assert len(before) == 30
    engine.ingest(document(number, a=6) for number in range(6, 9))
    (report,) = engine.run_once()
    assert not report.suspended and listed(engine, "greedy") == before


@pytest.mark.parametrize("quotas", [{}, {"bindings": 36}, {"pairs": 30}, {"queries": 1}])
def test_who_is_within_its_quota_is_not(engine: Engine, quotas: dict[str, int]) -> None:
    engine.register(GREEDY, name="greedy")
    engine.set_quotas(**quotas)
    engine.ingest(document(number, a=6) for number in range(6))
    assert not engine.run_once()[0].suspended
    assert states(engine) == {"greedy": "live"}


def test_a_document_of_a_query_of_one_block_counts_once(engine: Engine) -> None:
    engine.register("S//a", name="one")
    engine.set_quotas(pairs=4)
    engine.ingest(document(number, a=50) for number in range(4))
    assert not engine.run_once()[0].suspended
    engine.ingest(document(number, a=1) for number in range(4, 9))
    assert engine.run_once()[0].suspended[0].reason == "5 combinations of documents (at most 4) in batch 2"


def test_matches_that_windows_are_over_count(engine: Engine) -> None:
    """Nobody else asks for them, and no file has them."""
    engine.add_channel("S", lateness="0 s")
    engine.register("SELECT a, count() AS n FROM S/d[./a->a] WINDOW 1 h EVERY 1 h GROUP BY a", name="windows")
    engine.set_quotas(pairs=4)
    engine.ingest(document(number) for number in range(4))
    assert not engine.run_once()[0].suspended
    engine.ingest(document(number) for number in range(4, 9))
    assert engine.run_once()[0].suspended[0].reason == "5 combinations of documents (at most 4) in batch 2"


ABSENT = "S/d->x[./b->b] NOT FOLLOWED BY {b = c, 1 s} T/d[./b->c] CONSISTENCY MIDDLE"


@pytest.mark.parametrize("others", [[], ["S//a", "T/d"]], ids=["alone", "beside others"])
def test_answers_about_absence_count_whoever_else_asks(engine: Engine, others: list[str]) -> None:
    engine.register(ABSENT, name="absent")
    for text in others:
        engine.register(text)
    engine.set_quotas(pairs=4)
    for first in (0, 3):
        engine.ingest(document(number, a=0) for number in range(first, first + 3))
        assert not engine.run_once()[0].suspended
    engine.ingest([Event("T", "t", 60, xml="<d/>")])
    (report,) = engine.run_once()
    assert [str(each) for each in report.suspended] == [
        f"query absent is suspended from place {report.last + 1} on: [XSCL_QUOTA] "
        "6 combinations of documents (at most 4) in batch 3"
    ]


def test_a_node_counts_once_for_all_that_a_query_is_made_of(engine: Engine) -> None:
    """What is wanted, and what is forbidden with it, ask for the same nodes."""
    text = "S/d[./b->b] FOLLOWED BY {b = e, 1 h} S/d[./b->e] WITHOUT {b = c, 1 h} T/d[./b->c] CONSISTENCY MIDDLE"
    engine.register(text, name="absent")
    engine.set_quotas(bindings=3)
    engine.ingest(Event(channel, f"{channel}{n}", n, xml=f"<d><b>{n}</b></d>") for n in range(4) for channel in "ST")
    (suspension,) = engine.run_once()[0].suspended
    assert suspension.reason == "8 bindings (at most 3) in batch 1"


def test_what_others_share_with_a_query_is_not_counted_for_it(engine: Engine) -> None:
    """Counts depend on the query and the documents alone, whoever asks for the same nodes, and since when."""
    engine.register(MODEST, name="old")
    engine.register("S/d[./a->x][./b->z] JOIN {x = y AND z = w, 1 h} S/d[./a->y][./b->w]", name="other")
    engine.ingest(document(number) for number in range(10))
    engine.register(MODEST, name="new")
    engine.ingest(document(number) for number in range(10, 16))
    engine.set_quotas(bindings=12, pairs=6)
    (report,) = engine.run_once()
    # b: 16 of old, of which new sees 6; 8 pairs of old, of which new sees 3; other asks for a and b.
    assert {each.query: each.reason for each in report.suspended} == {
        "old": "16 bindings (at most 12) and 8 combinations of documents (at most 6) in batch 1",
        "other": "64 bindings (at most 12) and 16 combinations of documents (at most 6) in batch 1",
    }


def test_a_document_that_is_walked_in_parts_counts_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.register("S/d[./a->x][./b->z] JOIN {x = y AND z = w, 1 h} S/d[./a->y][./b->w]", name="one")
    engine.register("S/d->r[./a->x] JOIN {x = y, 1 h} S/d->s[./a->y]", name="two")
    engine.set_quotas(bindings=0)
    engine.ingest(document(number) for number in range(2))
    alone = {each.query: each.reason for each in engine.run_once()[0].suspended}
    monkeypatch.setattr("xscl.xpath.automaton.chains.MAX_CHAIN_ENTRIES", 6)
    for name in ("one", "two"):
        engine.resume(name)
    engine.ingest(document(number) for number in range(2, 4))
    again = {each.query: each.reason.replace("batch 2", "batch 1") for each in engine.run_once()[0].suspended}
    assert again == alone


def test_an_answer_from_what_is_held_counts_as_a_batch(engine: Engine) -> None:
    engine.ingest(document(number) for number in range(8))
    engine.run_once()
    engine.set_quotas(bindings=23, pairs=3)
    engine.register(f"{GREEDY} STARTING ALL", name="all")
    engine.register(f"{MODEST} STARTING ALL", name="few")
    engine.register(GREEDY, name="now")
    (report,) = engine.run_once()
    assert [(each.query, each.reason) for each in report.suspended] == [
        ("all", "24 bindings (at most 23) and 56 combinations of documents (at most 3) in batch 2"),
        ("few", "4 combinations of documents (at most 3) in batch 2"),
    ]
    assert len(listed(engine, "all")) == 56 and len(listed(engine, "few")) == 4
    engine.ingest([document(8)])
    engine.run_once()
    assert len(listed(engine, "all")) == 56 and not listed(engine, "now")


def test_three_blocks_and_what_is_published_count(engine: Engine) -> None:
    three = "S/d->p[./b->x] FOLLOWED BY {x = y, 1 h} S/d->q[./b->y] FOLLOWED BY {y = z, 1 h} S/d->r[./b->z]"
    engine.register(three, name="three")
    engine.register("SELECT x FROM S/d[./b->x] PUBLISH P", name="maker")
    engine.register("P/result/b", name="reader")
    engine.set_quotas(pairs=3)
    events = (Event("S", f"d{n}", n, xml="<d><b>1</b></d>") for n in range(4))
    engine.ingest(events)
    (report,) = engine.run_once()
    assert {each.query: each.reason[0] for each in report.suspended} == {"maker": "4", "reader": "4", "three": "4"}
    engine.ingest([Event("S", "d9", 9, xml="<d><b>1</b></d>")])
    assert engine.run_once()[0].published == 0


def test_published_channels_are_counted_as_others(engine: Engine) -> None:
    engine.register("SELECT x FROM S/d[./b->x] PUBLISH P", name="maker")
    engine.register("P/result[./b->x] JOIN {x = y, 1 h} P/result[./b->y]", name="reader")
    engine.ingest(document(number) for number in range(4))
    engine.register("P/result[./b->x] JOIN {x = y, 1 h} P/result[./b->y]", name="later")
    engine.ingest(document(number) for number in range(4, 10))
    engine.set_quotas(bindings=6, pairs=6)
    (report,) = engine.run_once()
    # One b in each of ten outputs, of which later sees six.
    assert report.published == 10
    assert {each.query: each.reason for each in report.suspended} == {
        "maker": "10 bindings (at most 6) and 10 combinations of documents (at most 6) in batch 1",
        "reader": "10 bindings (at most 6) and 10 combinations of documents (at most 6) in batch 1",
    }
    # Nobody publishes any more, so that nothing comes for the one that is live.
    before = listed(engine, "later")
    engine.ingest(document(number) for number in range(10, 14))
    (report,) = engine.run_once()
    assert (report.published, report.suspended, listed(engine, "later")) == (0, (), before) and len(before) == 6


def test_late_events_count_in_the_batch_that_takes_them_again(engine: Engine) -> None:
    engine.add_channel("S", lateness="0 s")
    engine.register(GREEDY, name="greedy")
    engine.register(MODEST, name="modest")
    engine.ingest(document(number) for number in (7, 8))
    assert engine.ingest(document(number) for number in range(5)).late == 5
    engine.run_once()
    engine.set_quotas(bindings=14, pairs=9)
    engine.replay_late()
    (report,) = engine.run_once()
    # Three bindings in each late document: they pair with each other and with the two that were in time.
    assert (report.events, report.replayed) == (0, 5)
    assert {each.query: each.reason for each in report.suspended} == {
        "greedy": "15 bindings (at most 14) and 40 combinations of documents (at most 9) in batch 2"
    }
    assert len(listed(engine, "greedy")) == 42 and len(listed(engine, "modest")) == 2
    # Late events that are taken again later are not for it, and are for the other.
    assert engine.ingest(document(number) for number in (5, 6)).late == 2
    engine.replay_late()
    assert not engine.run_once()[0].suspended
    assert len(listed(engine, "greedy")) == 42 and len(listed(engine, "modest")) == 4


# -- suspended queries -----------------------------------------------------------------------------------------


@pytest.fixture
def suspended(engine: Engine) -> Engine:
    engine.register(GREEDY, name="greedy", owner="ann")
    engine.register(MODEST, name="modest", owner="bob")
    engine.set_quotas(pairs=10)
    engine.ingest(document(number) for number in range(6))
    engine.run_once()
    assert states(engine) == {"greedy": "suspended", "modest": "live"}
    return engine


def test_a_suspended_query_goes_on_from_where_it_is_resumed(suspended: Engine) -> None:
    engine = suspended
    before = listed(engine, "greedy")
    engine.set_quotas(pairs=None)
    engine.ingest(document(number) for number in range(6, 8))
    resumed = engine.resume("greedy")
    assert resumed.missed == 2
    engine.ingest(document(number) for number in range(8, 10))
    engine.run_once()
    found = listed(engine, "greedy")
    # d8 and d9 in both orders; ids are those that the text has anyway.
    assert len(found) == len(before) + 2 and set(before) < set(found)
    every = {match.id for match in engine.query_once(GREEDY, name="greedy")}
    assert set(found) < every and len(every) == 90
    info = engine.home.catalog.ask(read_query, "greedy")
    assert info.live and info.owner == "ann" and states(engine) == {"greedy": "live", "modest": "live"}


def test_a_query_that_starts_with_all_is_resumed_from_now(engine: Engine) -> None:
    text = f"{MODEST} STARTING ALL"
    engine.register(text, name="all")
    engine.set_quotas(pairs=0)
    engine.ingest(document(number) for number in range(2))
    engine.run_once()
    engine.set_quotas(pairs=None)
    engine.ingest(document(number) for number in range(2, 4))
    engine.resume("all")
    engine.ingest(document(number) for number in range(4, 6))
    engine.run_once()
    assert len(listed(engine, "all")) == 2
    assert engine.home.catalog.ask(read_query, "all").text == text


@pytest.mark.parametrize(
    "text",
    [
        "S/d->x[./b->b] NOT FOLLOWED BY {b = c, 1 s} T/d->y[./b->c] CONSISTENCY MIDDLE",
        "S/d->x[./b->b] NEXT {b = c} T/d->y[./b->c] CONSISTENCY MIDDLE",
        "(SELECT b FROM S/d[./b->b])->x[./b->b] JOIN {b = c, 1 h} T/d->y[./b->c]",
    ],
    ids=["absence", "steps", "parentheses"],
)
def test_all_events_that_a_query_missed_are_told(engine: Engine, text: str) -> None:
    engine.register(text, name="query")
    engine.set_quotas(bindings=1)
    engine.ingest(document(number) for number in range(4))
    assert [each.query for each in engine.run_once()[0].suspended] == ["query"]
    engine.set_quotas(bindings=None)
    engine.ingest(Event(channel, f"e{ts}", ts, xml="<d><b>1</b></d>") for ts, channel in enumerate("SSTU", start=5))
    assert engine.resume("query").missed == 3


def test_the_consistency_of_a_suspended_query_with_steps_is_listed(engine: Engine) -> None:
    """No live query has its steps."""
    engine.add_channel("S", lateness="1 s")
    engine.register("S[./b->x] NEXT {x = y} S[./b->y]", name="steps")
    engine.set_quotas(pairs=0)
    engine.ingest(document(number) for number in range(6))
    assert [each.query for each in engine.run_once()[0].suspended] == ["steps"]
    (row,) = consistency_rows(engine.home)
    assert (row["query"], row["memory"], row["inserts"]) == ("steps", "1 s", len(engine.matches("steps")))


def test_only_what_is_suspended_is_resumed(suspended: Engine) -> None:
    for name, condition in (("modest", "XSCL_NOT_SUSPENDED"), ("nobody", "XSCL_QUERY_NOT_FOUND")):
        with pytest.raises(CatalogError) as caught:
            suspended.resume(name)
        assert caught.value.condition == condition
    suspended.resume("greedy")
    with pytest.raises(CatalogError) as caught:
        suspended.resume("greedy")
    assert caught.value.condition == "XSCL_NOT_SUSPENDED"


def test_the_name_of_a_suspended_query_is_taken_until_it_is_dropped(suspended: Engine) -> None:
    with pytest.raises(CatalogError) as caught:
        suspended.register("S//a", name="greedy")
    assert caught.value.condition == "XSCL_NAME_TAKEN"
    before = listed(suspended, "greedy")
    suspended.drop("greedy")
    assert states(suspended) == {"modest": "live"}
    suspended.register("S//a", name="greedy")
    assert states(suspended) == {"greedy": "live", "modest": "live"}
    assert listed(suspended, "greedy") == before


def test_planners_learn_of_suspensions_whoever_made_them(engine: Engine) -> None:
    """One that has read queries before goes on by what has changed, as one that reads them all does."""
    catalog, numbers = engine.home.catalog, itertools.count()
    texts = [GREEDY, MODEST, "S//b", MODEST]
    for number, text in enumerate(texts):
        engine.register(text, name=f"q{number}")
    chance = random.Random(4)
    known = [Subscribers(), Subscribers()]
    for _ in range(40):
        match chance.randrange(4):
            case 0:
                engine.set_quotas(pairs=chance.choice([0, 1, 5]))
            case 1:
                engine.set_quotas(pairs=None)
            case 2:
                for info in engine.queries(suspended=True):
                    (engine.drop if chance.random() < 0.2 else engine.resume)(info.name)
            case 3:
                engine.register(chance.choice(texts))
        # A batch that waits behind others is not at the end of the intake order.
        engine.ingest(document(next(numbers)) for _ in range(4))
        first = catalog.ask(read_last_places)[0] + 1
        fresh = Subscribers()
        with catalog.read() as connection:
            fresh.move(connection, first, first + 3)
            for each in known:
                if chance.random() < 0.7:
                    each.move(connection, first, first + 3)
                    assert {gid: each.span(gid) for gid in each} == {gid: fresh.span(gid) for gid in fresh}
        engine.run_once(batch_docs=2, stop=lambda: chance.random() < 0.4)


def test_a_suspended_query_outlives_the_removal_of_dropped_ones(
    suspended: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xscl.upkeep.catalog_rows.FEWEST_DROPPED", 0)
    suspended.set_quotas(bindings=0)
    suspended.register("S//zzz->x JOIN {x = y, 1 h} S//b->y", name="idle")
    suspended.ingest([document(50, a=0)])
    suspended.run_once()
    assert states(suspended)["idle"] == "suspended"
    for number in range(3):
        suspended.ingest([document(60 + number)])
        suspended.run_once()
    assert suspended.resume("idle").name == "idle"


def test_who_had_answers_keeps_them_when_batches_run_again(suspended: Engine) -> None:
    """After a repair batches are cut anew: nobody is suspended for what was given out before."""
    from xscl.upkeep.repair import repair_home

    home = suspended.home
    suspended.set_quotas(pairs=3)
    found = {name: listed(suspended, name) for name in ("greedy", "modest")}
    for path in (home.root / "results").rglob("*.parquet"):
        path.unlink()
    repair_home(home)
    suspended.ingest([document(100)])
    suspended.run_once(batch_docs=1)
    assert {name: listed(suspended, name) for name in ("greedy", "modest")} == found
    assert states(suspended) == {"greedy": "suspended", "modest": "live"}


# -- others ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch_docs", "greedy"), [(1, GREEDY), (4, TEXTS[5]), (4, GREEDY), (100, TEXTS[5])])
def test_others_answers_are_those_without_the_greedy_query(tmp_path: Path, batch_docs: int, greedy: str) -> None:
    def answers(home: str, prepare: Callable[[Engine], None]) -> tuple[dict[str, list[str]], list[str]]:
        with xscl.connect(home=tmp_path / home) as engine:
            engine.ingest(document(number) for number in range(4))
            prepare(engine)
            for number, text in enumerate(TEXTS):
                engine.register(text, name=f"q{number}")
            engine.ingest(document(number) for number in range(4, 9))
            engine.register(MODEST, name="late")
            engine.ingest(document(number) for number in range(9, 14))
            reports = engine.run_once(batch_docs=batch_docs)
            names = [f"q{number}" for number in range(len(TEXTS))] + ["late"]
            suspended = [each.query for report in reports for each in report.suspended]
            return {name: listed(engine, name) for name in names}, suspended

    def with_greedy(engine: Engine) -> None:
        engine.register(greedy, name="greedy")

    plain, _ = answers("plain", lambda engine: None)
    beside, suspended = answers("beside", with_greedy)
    assert beside == plain and not suspended
    # A quota that some of them exceed takes from these only, and only what comes later.
    with_quota, suspended = answers("quota", lambda engine: (with_greedy(engine), engine.set_quotas(bindings=3))[0])
    assert ("greedy" in suspended) == (batch_docs > 3)
    for name, found in with_quota.items():
        assert set(found) <= set(plain[name])
        assert found == plain[name] or name in suspended


# -- queries of owners -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seam", [False, True], ids=["shared", "alone"])
def test_runs_of_a_fold_count(engine: Engine, seam: bool) -> None:
    """The parts of both queries are the same five events; FOLD makes every run of them."""
    engine.add_channel("S", lateness="1 s")
    engine.set_quotas(pairs=9)
    engine.register("S[./k->a] NEXT {a = b} S[./k->b]", name="modest")
    for name in ("early", "greedy"):
        engine.register("S[./k->a] FOLD {a = b} S[./k->b]", name=name)
        if name == "early" and seam:
            engine.ingest([Event("S", "e0", 0, xml="<e><k>1</k></e>")])  # only who came before it sees it
    engine.ingest(Event("S", f"e{ts}", ts, xml="<e><k>1</k></e>") for ts in range(1, 8))
    (report,) = engine.run_once()
    # Of five settled events there are 10 runs, of six 15.
    runs = {"early": 15 if seam else 10, "greedy": 10}
    assert {each.query: each.reason for each in report.suspended} == {
        name: f"{count} combinations of documents (at most 9) in batch 1" for name, count in runs.items()
    }
    assert states(engine)["modest"] == "live"
    assert {name: len(listed(engine, name)) for name in runs} == runs


def test_an_owner_has_so_many_live_queries(engine: Engine, tmp_path: Path) -> None:
    engine.set_quotas(queries=2)
    engine.register("S//a", name="a1", owner="ann")
    outcomes = engine.load("CREATE QUERY a2 AS S//a;\nCREATE QUERY a3 AS S//a;\nDROP QUERY a1;\nS//b;", owner="ann")
    assert [outcome.action for outcome in outcomes] == ["registered", "refused", "dropped", "registered"]
    error = outcomes[1].error
    assert isinstance(error, CatalogError) and error.condition == "XSCL_TOO_MANY_QUERIES"
    assert (error.line, "'ann'" in error.message, "2 of one owner" in error.message) == (2, True, True)
    # Others have their own two; queries without an owner are counted together.
    made = engine.register_many(["S//a", "S//b", "S//c"], owner="bob") + engine.register_many(["S//a"] * 3)
    assert [outcome.ok for outcome in made] == [True, True, False] * 2
    line = '{"register": {"name": "x", "text": "S//a", "owner": "%s"}}\n'
    (tmp_path / "events.ndjson").write_text(line % "carl" + (line % "bob").replace("x", "y"))
    report = engine.ingest(tmp_path / "events.ndjson")
    assert (report.registered, report.rejected) == (1, 1)
    assert [info.name for info in engine.queries(owner="carl")] == ["x"]
    assert len(list(engine.queries(owner=""))) == len(list(engine.queries(owner="bob"))) == 2


def test_a_suspended_query_is_not_live(engine: Engine) -> None:
    engine.set_quotas(queries=1, bindings=0)
    engine.register("S//b", name="first", owner="ann")
    engine.ingest([document(1)])
    engine.run_once()
    engine.register("S//b", name="second", owner="ann")
    with pytest.raises(CatalogError) as caught:
        engine.resume("first")
    assert caught.value.condition == "XSCL_TOO_MANY_QUERIES"
    engine.drop("second")
    engine.resume("first")


def test_owners_are_exact(engine: Engine) -> None:
    for number, owner in enumerate([" ann", "ann", "\x1b[31mred", "Ä\u202e", "a'b\"; --", "", None]):
        engine.register("S//a", name=f"n{number}", owner=owner)
        assert engine.home.catalog.ask(read_query, f"n{number}").owner == (owner or "")
    for bad in ("\0", "\ud800", "x" * 129, 7):
        with pytest.raises(CatalogError) as caught:
            engine.register("S//a", owner=bad)  # type: ignore[arg-type]
        assert caught.value.condition == "XSCL_BAD_OWNER"


@pytest.mark.parametrize("bad", [-1, 1.5, "7", True, 1 << 63])
def test_quotas_are_whole_numbers(engine: Engine, bad: object) -> None:
    with pytest.raises(CatalogError) as caught:
        engine.set_quotas(pairs=bad)  # type: ignore[arg-type]
    assert caught.value.condition == "XSCL_BAD_OPTION"
    assert engine.quotas == engine.set_quotas()


def test_eval_names_no_command_for_its_home_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "q.xscl").write_text(f"CREATE QUERY greedy AS {GREEDY};")
    for number in range(3):
        (tmp_path / f"{number}.xml").write_text(str(document(number).xml))
    paths = [str(tmp_path / name) for name in ("q.xscl", "0.xml", "1.xml", "2.xml")]
    ran = CliRunner().invoke(app, ["eval", *paths, "--channel", "S", "--bindings", "1"])
    assert ran.exit_code == 3 and "suspended: query greedy" in ran.stderr and "xscl query" not in ran.stderr


@pytest.mark.parametrize("limit", ["MAX_STEPS", "MAX_MATCHES"])
def test_refused_combinations_count_as_others(engine: Engine, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """A query cannot have much work done, and stay, because its answers exceed a limit."""
    monkeypatch.setattr(f"xscl.templates.joins.solve.{limit}", 1)
    text = "SELECT v, w FROM S/d[./a->x][./b->v] JOIN {x = y, 1 h} S/d[./a->y][./b->w]"
    engine.register(text, name="greedy")
    engine.register(MODEST, name="modest")
    engine.set_quotas(pairs=5)
    engine.ingest(
        Event("S", f"d{number}", number, xml=f"<d><a>1</a><a>2</a><b>{number}</b><b>x{number}</b></d>")
        for number in range(3)
    )
    (report,) = engine.run_once()
    assert len(report.rejected) == 3 and not listed(engine, "greedy")
    (suspension,) = report.suspended
    assert (suspension.query, suspension.reason) == (
        "greedy",
        "6 combinations of documents (at most 5) in batch 1",
    )
