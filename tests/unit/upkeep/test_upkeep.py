"""Upkeep: what is kept no more leaves, what is small becomes large, and nothing else changes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import xscl.store.retired_files
import xscl.upkeep.catalog_rows
import xscl.upkeep.events
import xscl.upkeep.results
import xscl.upkeep.upkeep
from xscl.answers.status import state_notes
from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.errors import QueryError
from xscl.base.failpoints import hooked
from xscl.base.types import Event
from xscl.batches.report import BatchReport
from xscl.catalog.event_counts import channel_counts, event_count
from xscl.catalog.intake_order import read_processed
from xscl.catalog.queries import read_queries
from xscl.catalog.retained_from import keep_times
from xscl.catalog.tables import (
    BATCHES,
    CHANNELS,
    EVENT_IDS,
    GROUPS,
    INSTANCES,
    INTAKE_FILES,
    LATE,
    OLD_FILES,
    PARTS,
    QUERIES,
    REJECTED,
    ROW_RANGES,
    VARIABLES,
)
from xscl.engine import Engine
from xscl.registry.channels import set_channel
from xscl.store.home import Home, init_home, open_home
from xscl.upkeep.events import EventUpkeep, Kept
from xscl.upkeep.health import examine_home
from xscl.upkeep.results import ResultFolder, ResultUpkeep

SECOND = 1_000_000
PAIRS = "SELECT * FROM S//a->x FOLLOWED BY {x = y, 5 s} S//a->y"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(xscl.upkeep.upkeep, "EVERY", 1)
    monkeypatch.setattr(xscl.upkeep.upkeep, "_TRIMS", 1)
    monkeypatch.setattr(xscl.upkeep.upkeep, "_CPU_S", 60.0)
    for module in (xscl.upkeep.events, xscl.upkeep.results):
        monkeypatch.setattr(module, "FANOUT", 3)
        monkeypatch.setattr(module, "SMALL", 4)
    monkeypatch.setattr(xscl.store.retired_files, "GRACE", -1)
    with Engine(init_home(tmp_path / "home")) as engine:
        yield engine


def document(number: int, ts: float, channel: str = "S") -> Event:
    return Event(channel, f"e{number}", ts=ts, xml=f"<a>{number % 3}</a>")


def events(home: Home) -> list[dict[str, object]]:
    paths = home.paths([str(row["path"]) for row in home.catalog.rows(INTAKE_FILES)])
    if not paths:
        return []
    return ds.dataset(paths, schema=EVENT_SCHEMA).to_table(columns=["docid", "id", "ts"]).sort_by("docid").to_pylist()


def files(home: Home, folder: str) -> int:
    return sum(1 for _ in home.folder(folder).rglob("*.parquet"))


def listed(engine: Engine) -> list[tuple[str, ...]]:
    return [tuple(event.id for event in match.events) for match in engine.matches()]


def run(engine: Engine, numbers: range, step: float = 1.0) -> None:
    for number in numbers:
        engine.ingest([document(number, number * step)])
        engine.run_once()


def test_small_files_become_few(engine: Engine) -> None:
    engine.register(PAIRS)
    run(engine, range(60))
    assert [row["id"] for row in events(engine.home)] == [f"e{n}" for n in range(60)]
    assert len(engine.home.catalog.rows(INTAKE_FILES)) < 12
    assert files(engine.home, "events") < 12 and files(engine.home, "results") < 15
    assert sorted(listed(engine)) == sorted((f"e{n - 3}", f"e{n}") for n in range(3, 60))


@pytest.mark.parametrize("few", [0, 10_000])
def test_merged_results_are_what_batches_wrote(engine: Engine, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Many combinations have a file of their own, without the columns that they do not have."""
    monkeypatch.setattr(xscl.upkeep.results, "FEW_COMBINATIONS", few)
    engine.register(PAIRS)
    engine.register("(S//a->k JOIN {k = l, 9 s} S//a->l) JOIN {l = m, 9 s} S//a->m")
    run(engine, range(24))
    whole = [(match.query, match.id, match.document) for match in engine.matches()]
    written = [pq.read_schema(file).names for file in engine.home.folder("results").glob("*-*-*/*/*.parquet")]
    assert {"groups" in names for names in written} == ({True} if few else {True, False})
    assert {"d1" in names and "docs" in names for names in written if "groups" not in names} <= {True}
    with Engine(init_home(engine.home.root.parent / "other")) as other:
        for query in engine.queries():
            other.register(query.text, name=query.name)
        other.ingest([document(number, number) for number in range(24)])
        other.run_once()
        assert sorted(whole) == sorted((match.query, match.id, match.document) for match in other.matches())


def test_files_go_out_of_use_when_they_are_replaced(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge may take longer than readers are given: their time begins when it ends."""
    monkeypatch.setattr(xscl.store.retired_files, "GRACE", 1 << 60)
    written: list[int] = []

    def hook(name: str) -> None:
        if name == "upkeep.events":
            written.append(time.time_ns() // 1000)

    with hooked(hook):
        run(engine, range(6))
    replaced = [
        int(str(row["replaced"])) for row in engine.home.catalog.rows(OLD_FILES) if "events/" in str(row["path"])
    ]
    assert written and replaced and min(replaced) >= written[0]


def test_events_leave_when_nothing_may_join_them(engine: Engine) -> None:
    engine.add_channel("S", lateness="1 s")
    set_channel(engine.home.catalog, "S", retention="10 s")
    engine.register(PAIRS)
    run(engine, range(60))
    kept = engine.home.catalog.rows(CHANNELS)[0]["kept_from"]
    assert kept == 49 * SECOND
    assert sorted(listed(engine)) == sorted((f"e{n - 3}", f"e{n}") for n in range(52, 60))
    with engine.home.catalog.read() as connection:
        left = len(events(engine.home))
        assert 11 <= left <= 25 and event_count(connection) == left == len(engine.home.catalog.rows(EVENT_IDS))
    assert len({row["result_path"] for row in engine.home.catalog.rows(BATCHES)}) < 12
    # Windows that are longer than the retention keep what they may need.
    engine.register("SELECT * FROM S//a->x FOLLOWED BY {x = y, 30 s} S//a->y")
    run(engine, range(60, 85))
    assert engine.home.catalog.rows(CHANNELS)[0]["kept_from"] == (84 - 1 - 30) * SECOND


def test_matches_stay_while_batches_are_within_a_file(engine: Engine) -> None:
    engine.add_channel("S", lateness="1 s")
    set_channel(engine.home.catalog, "S", retention="10 s")
    engine.register(PAIRS)
    engine.ingest([document(number, number) for number in range(60)])
    assert len(engine.home.catalog.rows(INTAKE_FILES)) == 1
    asked = iter(range(61))
    engine.run_once(batch_docs=1, stop=lambda: next(asked) == 40)
    assert engine.home.catalog.rows(CHANNELS)[0]["kept_from"] == 29 * SECOND
    assert sorted(listed(engine)) == sorted((f"e{n - 3}", f"e{n}") for n in range(32, 40))


def test_places_before_which_no_event_is_kept(engine: Engine) -> None:
    engine.register(PAIRS)
    engine.ingest([document(number, number) for number in range(4)])
    engine.run_once()
    upkeep, all_gone = EventUpkeep(engine.home), Kept({"S": 100 * SECOND})
    assert upkeep.oldest_kept(Kept({})) == upkeep.oldest_kept(Kept({"S": 1 * SECOND})) == 2
    # A batch may find matches of later events while upkeep goes on with what it has found here.
    assert upkeep.oldest_kept(all_gone) == 6
    engine.ingest([document(number, number) for number in range(4, 8)])
    assert upkeep.oldest_kept(all_gone) == 6
    engine.run_once(batch_docs=3, stop=lambda: engine.home.catalog.ask(read_processed) > 5)
    assert upkeep.oldest_kept(all_gone) == 6, "the file has an event that no batch has processed"


def test_a_look_that_a_stopped_call_has_left_is_waited_for(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = threading.Lock()

    def work(*_: object) -> Iterator[int]:
        assert looking.acquire(blocking=False)
        time.sleep(0.05)
        looking.release()
        yield 0

    monkeypatch.setattr(EventUpkeep, "work", work)
    with ThreadPoolExecutor(2) as pool:
        for ended in [pool.submit(engine._upkeep.work, 60.0) for _ in range(2)]:
            ended.result()


def test_no_batch_waits_for_upkeep(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are merged beside the first batch, which ends meanwhile, and so does the next one."""
    with monkeypatch.context() as patch:
        patch.setattr(xscl.upkeep.upkeep, "EVERY", 1 << 40)  # the files are there when the first look begins
        run(engine, range(3))
    engine.ingest([document(number, number) for number in range(3, 5)])
    ended, waits = threading.Event(), []

    def hook(name: str) -> None:
        if name == "upkeep.events":
            waits.append(ended.wait(60))

    reports: list[BatchReport] = []

    def then(report: BatchReport) -> None:
        reports.append(report)
        if len(reports) == 2:
            ended.set()

    with hooked(hook):
        engine.run_once(batch_docs=1, then=then)
    assert waits and all(waits), "a batch waited until upkeep gave up"
    assert [row["id"] for row in events(engine.home)] == [f"e{number}" for number in range(5)]


def test_a_channel_without_a_lateness_keeps_what_may_be_joined(engine: Engine) -> None:
    engine.add_channel("S")
    set_channel(engine.home.catalog, "S", retention="10 s")
    engine.register(PAIRS)
    run(engine, range(30))
    assert len(events(engine.home)) == 30 and engine.home.catalog.rows(CHANNELS)[0]["held_from"] == 19 * SECOND
    engine.drop("q1")
    run(engine, range(30, 32))
    assert len(events(engine.home)) < 25


def test_members_of_open_steps_are_kept_longer_than_their_channel_holds(engine: Engine) -> None:
    """A match of steps is published whole, however old its first member is, and then its members go."""
    engine.add_channel("A", lateness="0 s", retention="1 s")
    engine.register("A->x[./k = '1'][./k->a] NEXT {a = b} A->y[./k->b] PUBLISH P", name="q")
    engine.register("P->p", name="reader")

    def take(ts: int, value: int) -> None:
        engine.ingest([Event("A", f"e{ts}", ts, xml=f"<e><k>{value}</k></e>")])
        engine.run_once()

    def kept_from() -> int | None:
        with engine.home.catalog.read() as connection:
            return keep_times(connection).get("A")

    for ts, value in ((1, 0), (10, 1), (20, 0), (30, 0), (40, 0), (50, 0)):
        take(ts, value)
    assert kept_from() == 10_000_000
    take(60, 1)
    take(70, 0)  # settles that nothing comes between the two
    (found,) = engine.matches("reader")
    assert found.document is not None and found.document.count("<k>1</k>") == 2
    assert kept_from() == 60_000_000, "the other member waits for another one"


def test_an_id_that_is_gone_is_a_new_event(engine: Engine) -> None:
    engine.add_channel("S", lateness="0 s")
    set_channel(engine.home.catalog, "S", retention="2 s")
    run(engine, range(20))
    assert engine.ingest([document(0, 20)]).taken == 1
    assert engine.ingest([document(19, 19)]).duplicates == 1


def test_rows_in_ranges(engine: Engine) -> None:
    engine.add_channel("R", kind="rows", schema="t timestamp, v double")
    engine.add_channel("S")
    set_channel(engine.home.catalog, "R", retention="100 s")
    for start in range(0, 400, 50):
        numbers = list(range(start, start + 50))
        table = pa.table({"t": pa.array([n * SECOND for n in numbers], pa.timestamp("us", "UTC")), "v": [1.0] * 50})
        engine.ingest(table, channel="R", ts="t")
        engine.ingest([document(start, start)])
        engine.run_once()
    home = engine.home
    with home.catalog.read() as connection:
        counts = channel_counts(connection)
        assert counts["S"] == 8 and 101 <= counts["R"] <= 201
        assert sum(counts.values()) == len(events(home)) == event_count(connection)
    spans = home.catalog.rows(ROW_RANGES)
    assert sum(int(str(row["last_docid"])) - int(str(row["docid"])) + 1 for row in spans) == counts["R"]


def test_dropped_queries_go_with_their_matches(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.upkeep.catalog_rows, "FEWEST_DROPPED", 3)
    engine.add_channel("S", lateness="0 s", retention="4 s")
    other = Engine(engine.home)  # remembers numbers of groups that go meanwhile
    for number in range(12):
        other.register(f"S//a->x[. = '{number % 3}'][. != 'n{number}']", name=f"n{number}")
        engine.ingest([document(number, number)])
        engine.run_once()
        engine.drop(f"n{number}")
    for number in range(12, 16):
        engine.ingest([document(number, number)])
        engine.run_once()
    home = engine.home
    names = [row["qid"] for row in home.catalog.rows(QUERIES)]
    assert 1 <= len(names) < 8 and "n11" in names  # whose number is not given out again
    assert len(home.catalog.rows(GROUPS)) <= len(names) and len(home.catalog.rows(INSTANCES)) <= len(names)
    assert len(home.catalog.rows(VARIABLES)) <= len(names)
    # The same text again: its group is made anew, and its number is another one.
    other.register("S//a->x[. = '1'][. != 'n1']", name="again")
    engine.ingest([document(16, 16)])
    engine.run_once()
    assert ("e16",) in listed(engine)
    assert {info.gid for info in home.catalog.ask(read_queries)} <= {row["gid"] for row in home.catalog.rows(GROUPS)}
    assert listed(engine) == [("e16",)] and home.catalog.rows(VARIABLES)


def test_nothing_is_planned_for_a_query_that_was_removed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.upkeep.catalog_rows, "FEWEST_DROPPED", 1)
    for name in ("goes", "stays"):
        engine.register(f"S//{name}->x JOIN {{x = y, 1 d}} S//b->y", name=name)
    run(engine, range(2))
    engine.drop("goes")
    engine.run_once()  # no batch: nothing else has come
    assert [row["qid"] for row in engine.home.catalog.rows(QUERIES)] == ["stays"]
    engine.ingest([Event("S", "e2", 2, xml="<goes>1</goes>")])
    (report,) = engine.run_once()
    assert report.witnesses == 0


def test_variables_of_queries_that_stay_are_kept(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dropped query with a match and a suspended one speak of their variables as before."""
    monkeypatch.setattr(xscl.upkeep.catalog_rows, "FEWEST_DROPPED", 1)
    engine.register("S//a->x[./@k]", name="answered")
    engine.register("S//a[./f = '2'][./@k->k] JOIN {k = l, 3} S//a[./@k->l] WITHOUT {BETWEEN} S//b", name="parted")
    engine.register("S//a->x[./c->k] JOIN {k = l, 9 s} S//a->y[./c->l]", name="greedy")
    fold = "S->x[./g->k][./w->u] FOLD {k = l WHILE v < last(v, u)} S->y[./v > 1][./f->l][./v->v]"
    engine.register(f"SELECT k, count() AS n FROM {fold}", name="folded")
    engine.register("S//z->x[./f]", name="never")
    told = {str(row["definition"]) for row in engine.home.catalog.rows(VARIABLES)}
    engine.set_quotas(pairs=9)
    engine.ingest([Event("S", f"m{n}", n, xml="<a k='1'><c/></a>") for n in range(5)])
    two = [Event("S", f"f{n}", n, xml="<a k='2'><f>2</f></a>") for n in (9, 10)]
    engine.ingest([*two, Event("S", "later", 20, xml="<d/>")])
    assert [each.query for report in engine.run_once() for each in report.suspended] == ["greedy"]
    for name in ("answered", "parted", "never"):
        engine.drop(name)
    run(engine, range(5, 6))  # a plan without them is made
    for number in range(6):
        engine.register(f"S//n{number}", name=f"n{number}")
        engine.drop(f"n{number}")
    engine.register("S//last", name="last")
    run(engine, range(6, 8))
    assert {row["qid"] for row in engine.home.catalog.rows(QUERIES)} == {
        "answered",
        "parted",
        "greedy",
        "folded",
        "last",
    }
    stay = {str(row["definition"]) for row in engine.home.catalog.rows(VARIABLES)}
    assert stay >= {"S//last"} | told - {"S//z[./f]"}
    assert not list(examine_home(engine.home, deep=True).problems)


def test_variables_stay_where_a_dropped_text_no_longer_compiles(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of its channels may have become known since it was dropped."""

    def refuse(*_: object, **__: object) -> None:
        raise QueryError("XSCL_NEVER_HOLDS", "the column k is a number")

    monkeypatch.setattr(xscl.upkeep.catalog_rows, "FEWEST_DROPPED", 1)
    monkeypatch.setattr(xscl.upkeep.catalog_rows, "compile_query", refuse)
    for name in ("answered", "gone", "last"):
        engine.register(f"S//{'a' if name == 'answered' else name}", name=name)
    run(engine, range(1))
    engine.drop("answered")
    engine.drop("gone")
    run(engine, range(1, 3))
    assert {row["qid"] for row in engine.home.catalog.rows(QUERIES)} == {"answered", "last"}
    assert len(engine.home.catalog.rows(VARIABLES)) == 3


def test_a_group_that_stood_without_a_query_has_its_variables_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are not given out again, so the group with the greatest one stays."""
    monkeypatch.setattr(xscl.upkeep.catalog_rows, "FEWEST_DROPPED", 1)
    text = "S//z[./@k->k] NOT FOLLOWED BY {k = l, 9} S//z[./f][./@k->l]"
    for name, each in (("one", "S//a"), ("gone", text), ("two", "S//a")):
        engine.register(each, name=name)
    run(engine, range(1))
    engine.drop("gone")
    run(engine, range(1, 2))  # a plan without it is made
    engine.register("S//a", name="three")
    engine.drop("three")
    engine.register("S//a", name="four")
    run(engine, range(2, 4))
    assert {row["qid"] for row in engine.home.catalog.rows(QUERIES)} == {"one", "two", "three", "four"}
    assert not any("S//z" in str(row["definition"]) for row in engine.home.catalog.rows(VARIABLES))
    engine.register(text, name="again")
    assert any("S//z" in str(row["definition"]) for row in engine.home.catalog.rows(VARIABLES))
    assert not list(examine_home(engine.home, deep=True).problems)


def test_homes_whose_queries_about_absence_went_are_sound(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results still have matches of a part, and nothing says any longer that it was one."""
    monkeypatch.setattr(xscl.upkeep.catalog_rows, "FEWEST_DROPPED", 1)
    engine.register("S//a[./@k->k] NOT FOLLOWED BY {k = l, 9} S//b[./@k->l]", name="parted")
    engine.register("S//b", name="other")
    engine.ingest([Event("S", "a", 1, xml="<a k='1'/>"), Event("S", "b", 2, xml="<b k='1'/>")])
    engine.run_once()
    engine.drop("parted")
    engine.register("S//last", name="last")
    run(engine, range(20, 23))
    assert {row["qid"] for row in engine.home.catalog.rows(QUERIES)} == {"other", "last"}
    assert not engine.home.catalog.rows(PARTS)
    assert not list(examine_home(engine.home, deep=True).problems)


def test_totals_stay_true(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.upkeep.catalog_rows, "MOST_REJECTED", 3)
    monkeypatch.setattr(xscl.upkeep.catalog_rows, "MOST_BATCHES", 4)
    engine.add_channel("S", lateness="0 s", retention="4 s")
    for number in range(12):
        late = Event("S", f"late{number}", number - 1, xml="<a/>")
        engine.ingest([document(number, number), late, Event("S", "bad", number, xml="<a>")])
        engine.run_once()
    home = engine.home
    assert len(home.catalog.rows(REJECTED)) == 3 and len(home.catalog.rows(LATE)) < 8
    assert len(home.catalog.rows(BATCHES)) == 4
    assert any("late 12, rejected 12" in note for note in state_notes(home))


def test_upkeep_may_end_anywhere(engine: Engine) -> None:
    class Ended(Exception):
        pass

    ends = Counter({f"upkeep.{step}": 0 for step in ("events", "ids", "swapped", "results", "folders")})

    def hook(name: str) -> None:
        if name == wanted:
            ends[name] += 1
            raise Ended

    engine.add_channel("S", lateness="1 s")
    set_channel(engine.home.catalog, "S", retention="10 s")
    engine.register(PAIRS)
    for number in range(80):
        engine.ingest([document(number, number)])
        # Ended where it ended least often, at all but every third batch.
        wanted = min(ends, key=ends.__getitem__) if number % 3 else ""
        with suppress(Ended), hooked(hook):
            engine.run_once()
    engine.run_once()
    assert min(ends.values()) >= 2
    assert sorted(listed(engine)) == sorted((f"e{n - 3}", f"e{n}") for n in range(72, 80))
    ids = [row["id"] for row in events(engine.home)]
    assert len(ids) == len(set(ids)) and {f"e{n}" for n in range(69, 80)} <= set(ids)


@pytest.mark.parametrize("looked_after", [False, True])
def test_what_is_kept_no_more_is_not_replayed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, looked_after: bool
) -> None:
    if not looked_after:
        monkeypatch.setattr(xscl.upkeep.upkeep.Upkeep, "beside", lambda _: nullcontext(lambda: None))
    engine.add_channel("S", lateness="2 s", retention="10 s")
    engine.register(f"{PAIRS} PUBLISH P", name="pairs")
    engine.register("SELECT * FROM S//a PUBLISH Q", name="each")
    engine.ingest([document(0, 100), document(1, 120), document(3, 112)])
    assert [report.published for report in engine.run_once()] == [3]
    # The batch of the first of these makes the replay come too late; the second comes too old, and serves its batch.
    engine.ingest([document(2, 140)])
    assert engine.replay_late(ids=["e3"]).events == 1
    engine.ingest([document(6, 90)])
    reports = engine.run_once()
    assert [(report.first, report.last, report.replayed, report.published) for report in reports] == [
        (6, 6, 0, 1),
        (7, 7, 0, 0),
        (8, 8, 0, 1),
        (9, 9, 1, 0),  # the document published at 90 s is late in Q, whose time goes on with that of S
    ]
    assert [match.query for match in engine.matches()] == ["each"]


# -- what is gone stays gone -----------------------------------------------------------------------------------


def test_numbers_of_published_documents_that_went_are_not_given_out_again(engine: Engine) -> None:
    """Matches that are stored may name them."""
    engine.add_channel("P", retention="1 s")
    engine.register("S/a PUBLISH P", name="a")
    engine.register("P", name="reader")
    for number in range(4):
        engine.ingest([document(number, 10.0 * number)])
        list(engine.run_once())
    listed = [(match.id, match.document) for match in engine.matches("reader")]
    assert len(listed) == 1
    engine.register("SELECT <secret>{x}</secret> FROM S/a->x PUBLISH O STARTING ALL", name="c")
    list(engine.run_once())
    assert [(match.id, match.document) for match in engine.matches("reader")] == listed
    assert len(list(engine.matches("c"))) == 4


def test_a_channel_whose_events_went_can_be_dropped(engine: Engine) -> None:
    engine.add_channel("S", retention="1 s", clock="c")
    engine.add_channel("T", clock="c")
    engine.register("S/a", name="q")
    engine.register("T/a", name="r")
    for events in ([document(0, 1.0), document(1, 1.0, "T")], [document(2, 50.0, "T")], [document(3, 51.0, "T")]):
        engine.ingest(events)
        list(engine.run_once())
    engine.drop("q")
    engine.drop_channel("S")
    assert [match.events[0].id for match in engine.matches()] == ["e1", "e2", "e3"]


def test_an_id_that_went_and_came_again_is_not_published_again(engine: Engine) -> None:
    """Its match has the id of the earlier one; that is told."""
    engine.add_channel("S", retention="1 s")
    engine.register("S/a PUBLISH P", name="a")
    engine.register("P", name="reader")
    for number, ts in enumerate((1.0, 20.0, 40.0)):
        engine.ingest([document(number, ts)])
        list(engine.run_once())
    engine.ingest([Event("S", "e0", ts=41.0, xml="<a>new</a>")])
    list(engine.run_once())
    assert [match.document for match in engine.matches("a")] == ["<a>2</a>", "<a>new</a>"]
    assert [match.document for match in engine.matches("reader")] == [f"<a>{n}</a>" for n in range(3)]
    (told,) = engine.home.catalog.rows(REJECTED)
    assert (told["channel"], told["condition"]) == ("P", "XSCL_EVENT_ID_REUSED")


def late_joiners(engine: Engine, lateness: str | None) -> list[BatchReport]:
    """Register two joins when a channel has let events go, and ingest an older event and then its partner."""
    engine.add_channel("S", retention="10 s", lateness=lateness)
    engine.register("S/c", name="c")

    def ingest(name: str, ts: float) -> list[BatchReport]:
        engine.ingest([Event("S", f"{name}{ts:g}", ts, xml=f"<{name}>k</{name}>")])
        return list(engine.run_once())

    ingest("c", 1000.0)
    ingest("c", 1900.0)
    engine.register("S/a->x FOLLOWED BY {x = y, 1 h} S/b->y PUBLISH P", name="published")
    engine.register("S/a->x JOIN {x = y, 1 h} S/b->y", name="listed")
    return [
        report
        for name, ts in (("a", 1001.0), ("c", 1901.0), ("c", 1902.0), ("b", 1903.0))
        for report in ingest(name, ts)
    ]


def test_an_event_in_time_is_kept_for_queries_that_came_after_the_retention_began(engine: Engine) -> None:
    *_, last = late_joiners(engine, "2000 s")
    assert (last.published, last.rejected) == (1, ())
    for query in ("published", "listed"):
        assert [[event.id for event in match.events] for match in engine.matches(query)] == [["a1001", "b1903"]]


def test_a_match_with_an_event_that_came_older_than_its_channel_retains_is_told(engine: Engine) -> None:
    """Whether upkeep has taken the event by then makes no difference."""
    came, *_, last = late_joiners(engine, None)
    (old,) = came.rejected
    assert (old.query, old.channel, old.id, old.condition) == (None, "S", "a1001", "XSCL_EVENT_GONE")
    assert last.published == 0 and list(engine.matches("published")) == list(engine.matches("listed")) == []
    (refused,) = last.rejected
    assert (refused.query, refused.channel, refused.id, refused.condition) == (
        "published",
        "S",
        "b1903",
        "XSCL_EVENT_GONE",
    )


def test_merged_results_leave_out_what_only_windows_were_over(engine: Engine) -> None:
    engine.add_channel("R", kind="rows", schema="k string", lateness="0 s")
    engine.register("SELECT k, count() AS n FROM R[./k->k] WINDOW 2 s EVERY 2 s GROUP BY k", name="counts")
    engine.register(
        "SELECT k, count() AS n FROM R[./k->k] JOIN {k = l, 0 s} R[./k->l] WINDOW 2 s EVERY 2 s GROUP BY k",
        name="of_pairs",
    )
    engine.register("R->x[./k->k][./k = 'b']", name="alone")
    expected = []
    for number in range(12):
        rows = [{"k": "ab"[(number + n) % 2]} for n in range(4)]
        engine.ingest([Event("R", f"{number}-{n}", number, row=row) for n, row in enumerate(rows)])
        engine.run_once()
        expected = sorted((each.query, each.id) for each in engine.matches())
    assert Counter(query for query, _ in expected).keys() == {"counts", "of_pairs", "alone"}
    batches = [files for files in (engine.home.root / "results").iterdir() if "-" in files.name]
    merged = pa.concat_tables([ds.dataset(each).to_table(columns=["relation"]) for each in batches])
    assert merged.num_rows and sorted((each.query, each.id) for each in engine.matches()) == expected


def test_a_look_at_results_compares_no_folder_with_another(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.register("S//a", name="q")
    for number in range(4):
        run(engine, range(number, number + 1))
    engine.drop("q")
    run(engine, range(4, 5))
    with engine.home.catalog.begin() as connection:
        rows = {"first": 0, "last": 0, "result_path": "results/none", "batch": 900}
        needed = {column.name: 0 for column in BATCHES.c if not column.nullable}
        connection.execute(BATCHES.insert().values({**needed, **rows}))
    compared: list[object] = []
    monkeypatch.setattr(ResultFolder, "__eq__", lambda one, other: compared.append(other) or one is other)
    assert list(ResultUpkeep(engine.home).work({}, 0))[0] == 1
    assert not compared


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("once", [False, True])
def test_row_windows_over_what_is_held_do_not_depend_on_upkeep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool, rows: bool
) -> None:
    """An event that was older than its channel retains when it came is the newest no longer, whether it is there."""
    for module in (xscl.upkeep.events, xscl.upkeep.results):
        monkeypatch.setattr(module, "FANOUT", 3)
        monkeypatch.setattr(module, "SMALL", 4)
    text = "S//k->x FOLLOWED BY {x = y, 1 h, LAST 1 OF x} T//k->y"
    found = []
    for looks in (0, 3):
        with Engine(init_home(tmp_path / f"{looks}")) as engine:
            engine.add_channel("S", lateness="5 s", kind="rows" if rows else "xml", schema="k bigint" if rows else None)
            set_channel(engine.home.catalog, "S", retention="10 s")
            engine.add_channel("T", lateness="5 s")
            for number, (channel, ts, key) in enumerate(
                (("S", 100, 1), ("S", 1, 1), ("T", 102, 1), ("S", 103, 2), ("T", 120, 2))
            ):
                if channel == "S" and rows:
                    table = pa.table({"id": [f"{number}"], "k": [key], "t": [ts]})
                    engine.ingest(table, channel="S", id="id", ts="t", columns=["k"])
                else:
                    document = f"<a><k>{key}</k></a>"
                    engine.ingest([Event(channel, f"{number}", ts, xml=document)])
            engine.run_once()
            for _ in range(looks):
                engine._upkeep.work(60.0)
            assert len(events(engine.home)) == (4 if looks else 5)
            if once:
                found.append(sorted(tuple(e.id for e in match.events) for match in engine.query_once(text)))
            else:
                engine.register(f"{text} STARTING ALL", name="q")
                engine.run_once()
                found.append(sorted(listed(engine)))
    assert found == [[("0", "2"), ("3", "4")]] * 2


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("looks", [0, 1])
def test_row_windows_count_what_was_beyond_its_retention_after_a_restart(
    tmp_path: Path, looks: int, count: int
) -> None:
    times = ("T", 95), ("S", 99), ("S", 1), ("T", 101), ("S", 102), ("T", 103)
    taken = [Event(channel, str(number), ts, xml="<a><k>1</k></a>") for number, (channel, ts) in enumerate(times)]
    home = init_home(tmp_path / "home")
    with Engine(home) as engine:
        for channel in "ST":
            engine.add_channel(channel, lateness="5 s", retention="10 s")
        engine.register(f"S//k->x FOLLOWED BY {{x = y, 5 s, LAST {count} OF x}} T//k->y", name="q")
        for event in taken[:3]:
            engine.ingest([event])
        engine.run_once()
        for _ in range(looks):
            engine._upkeep.work(60.0)
    with Engine(open_home(tmp_path / "home")) as engine:
        engine.ingest(taken[3:])
        engine.run_once()
        assert listed(engine) == [("1", "3")] * (count > 1) + [("4", "5")]
        # The newest events have come; the others go.
        engine._upkeep.work(60.0)
        there = {row["id"] for row in events(engine.home)}
        assert "4" in there and ("2" in there) == (count > 1)


def test_nothing_goes_before_it_is_known_what_row_windows_count(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.add_channel("S", lateness="0 s", retention="1 s")
        engine.add_channel("T", lateness="0 s")
        engine.register("S//a->x FOLLOWED BY {x = y, 1 s, LAST 1 OF x} T//a->y", name="q")
        for event in (document(0, 99, "T"), document(3, 100), document(6, 1)):
            engine.ingest([event])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(xscl.upkeep.upkeep, "EVERY", 1 << 40)
            engine.run_once()
    with Engine(open_home(tmp_path / "home")) as engine:
        # The first batch of this process has no events, so nothing is planned for it.
        engine.register("T//a", name="other")
        engine.run_once()
        engine.ingest([document(9, 101, "T")])
        engine.run_once()
        assert not [match for match in engine.matches() if match.query == "q"]
