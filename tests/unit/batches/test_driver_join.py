"""Batches that are joined in the driver, on a real home and without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from oracle.evaluate import Doc, answers

from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.base.errors import EngineError
from xscl.base.settings import Settings
from xscl.base.types import Event
from xscl.batches import batch as batches
from xscl.batches import driver_match as driver_stage1
from xscl.batches.driver_join import Driver
from xscl.batches.ranges import next_batch
from xscl.batches.walking import Level
from xscl.engine import Engine, connect
from xscl.language.parser import parse_query
from xscl.planning.planner import Plan
from xscl.store.join_state import held_state
from xscl.xpath.witness import witness_rows

SECOND = 1_000_000
QUERIES = {
    "pairs": "S//a->x JOIN {x = y, 6 s} T//b->y",
    "unequal": "S->r[./a->x][./c->p] FOLLOWED BY {x = y AND p != q, 9 s} T->t[./b->y][./c->q]",
    "greater": "S//c->p JOIN {p > q, 3 s} T//c->q",
    "alone": "T//b->y[. = '2']",
    "once": "S//a->x[. = '1'] JOIN {x = y, 5 s, ONCE} S//b->y",
    "three": "S//a->x JOIN {x = y, 5 s} T//b->y JOIN {y = z, 5 s} S//a->z",
}
DOCS = [
    Doc(
        channel,
        f"{channel}{number}",
        number * SECOND,
        f"<r><a>{number % 3}</a><b>{number % 4}</b><c>{number % 5}</c></r>",
    )
    for number in range(14)
    for channel in "ST"
]
SIZES = {"nothing": 0, "little": 6_000, "everything": 1 << 30}


class NoSpark:
    """Stands where a session would, and gives itself away when it is used."""

    dataSource = SimpleNamespace(register=lambda source: None)  # every session is told of ours

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"Spark was asked for {name}")


def read_here(spark: object, state: Sequence[str], wanted: npt.NDArray[np.int64], column: str, most: int) -> pa.Table:
    """``read_state`` without Spark."""
    if not state:
        return WITNESS_SCHEMA.empty_table()
    chosen = ~ds.field("late") & ds.field(column).isin(wanted.tolist())
    return ds.dataset(list(state), schema=WITNESS_SCHEMA).to_table(filter=chosen).slice(0, most + 1)


class Asked(Exception):
    """Executors were asked for something."""


def asked(*_: object) -> None:
    raise Asked


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.batches.level.read_state", read_here)


def opened(home: Path, **sizes: int) -> Engine:
    return connect(home=home, spark=NoSpark(), settings=Settings(**sizes))  # type: ignore[arg-type]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with started(tmp_path / "home") as made:
        yield made


def started(home: Path, **sizes: int) -> Engine:
    made = opened(home, **sizes)
    for name, text in QUERIES.items():
        made.register(text, name=name)
    return made


def events(docs: Sequence[Doc]) -> list[Event]:
    return [Event(doc.channel, doc.id, doc.ts / SECOND, xml=doc.xml) for doc in docs]


def found(engine: Engine) -> dict[str, set[str]]:
    """Ids of matches by query; a match that is listed twice fails."""
    listed = [(match.query, match.id) for match in engine.matches()]
    assert len(listed) == len(set(listed)), "a match was emitted twice"
    return {name: {id_ for query, id_ in listed if query == name} for name in QUERIES}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What all documents in one batch come to, by the engine and by the oracle."""
    with started(tmp_path_factory.mktemp("expected") / "home") as engine:
        engine.ingest(events(DOCS))
        (report,) = engine.run_once()
        assert (report.joined_in, report.jobs) == ("driver", 0)
        members = {name: [tuple(e.id for e in m.events) for m in engine.matches(name)] for name in QUERIES}
        for name, text in QUERIES.items():
            by_oracle = [tuple(id_ for _, id_ in docs) for docs, _ in answers(parse_query(text), DOCS)]
            assert sorted(members[name]) == sorted(by_oracle) != [], name
        return found(engine)


@pytest.mark.parametrize("cache", SIZES)
@pytest.mark.parametrize("size", [1, 5, 11])
def test_any_cut_and_any_memory(size: int, cache: str, expected: dict[str, set[str]], tmp_path: Path) -> None:
    with started(tmp_path / "home", cache_bytes=SIZES[cache]) as engine:
        engine.ingest(events(DOCS))
        reports = engine.run_once(batch_docs=size)
        assert found(engine) == expected
    assert {report.joined_in for report in reports} == {"driver"}
    assert [report.jobs for report in reports].count(0) >= 1
    hits = [(report.slices_found, report.slices_asked) for report in reports]
    assert all(0 <= hit <= asked for hit, asked in hits) and sum(asked for _, asked in hits) > 0
    if cache == "everything":
        assert all(hit == asked for hit, asked in hits)
    if cache == "nothing" and size < 11:
        assert any(hit < asked for hit, asked in hits)
    assert sum(report.matches for report in reports) == sum(map(len, expected.values()))


def test_a_new_process_reads_the_state(expected: dict[str, set[str]], tmp_path: Path) -> None:
    started(tmp_path / "home").close()
    for number in range(0, len(DOCS), 9):
        with opened(tmp_path / "home") as engine:
            engine.ingest(events(DOCS[number : number + 9]))
            engine.run_once(batch_docs=5)
    with opened(tmp_path / "home") as engine:
        assert found(engine) == expected


def test_what_another_process_does_is_noticed(engine: Engine, expected: dict[str, set[str]], tmp_path: Path) -> None:
    with opened(tmp_path / "home") as other:
        for number in range(0, len(DOCS), 4):
            one = other if number // 4 % 3 == 1 else engine
            one.ingest(events(DOCS[number : number + 4]))
            one.run_once()
    assert found(engine) == expected


def test_a_batch_without_events_hides_nothing_that_was_done_elsewhere(
    engine: Engine, expected: dict[str, set[str]], tmp_path: Path
) -> None:
    with opened(tmp_path / "home") as other:
        for one, docs in ((engine, DOCS[:10]), (other, DOCS[10:20])):
            one.ingest(events(docs))
            one.run_once()
        other.register("S//nothing->n", name="later")
        (report,) = engine.run_once()
        assert report.events == 0
        engine.ingest(events(DOCS[20:]))
        engine.run_once()
    assert found(engine) == expected


def test_a_batch_without_events_keeps_what_is_remembered(
    engine: Engine, expected: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.ingest(events(DOCS[:10]))
    engine.run_once()
    monkeypatch.setattr(
        "xscl.batches.driver_join._held_rows", lambda *_: pytest.fail("the state is known and need not be read")
    )
    engine.register("S//nothing->n", name="later")
    engine.run_once()
    engine.ingest(events(DOCS[10:]))
    engine.run_once(batch_docs=7)
    assert found(engine) == expected


@pytest.mark.parametrize(
    "step", ["batch.commit_state", "attempt.next_state", "level.write_links", "driver_join.Driver.committed"]
)
def test_a_batch_that_fails_leaves_the_next_one_right(
    step: str, engine: Engine, expected: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.ingest(events(DOCS[:10]))
    engine.run_once()
    engine.ingest(events(DOCS[10:20]))
    before = sorted(engine.home.root.rglob("*.parquet"))
    with monkeypatch.context() as patch:

        def fail(*_: object, **__: object) -> None:
            raise OSError("the disk is full")

        patch.setattr(f"xscl.batches.{step}", fail)
        with pytest.raises(OSError, match="the disk is full"):
            engine.run_once()
    if step != "driver_join.Driver.committed":  # the batch is there then
        assert sorted(engine.home.root.rglob("*.parquet")) == before
    engine.run_once()
    engine.ingest(events(DOCS[20:]))
    engine.run_once()
    assert found(engine) == expected


def test_two_processes_at_once(engine: Engine, expected: dict[str, set[str]], tmp_path: Path) -> None:
    """One that was overtaken commits nothing, and goes on rightly."""
    engine.ingest(events(DOCS[:10]))
    engine.run_once()
    engine.ingest(events(DOCS[10:20]))
    planned = next_batch(engine.home, engine._planner, 100)
    assert planned is not None
    with opened(tmp_path / "home") as other:
        other.run_once(batch_docs=3)
    with pytest.raises(EngineError) as caught:
        batches.process_batch(engine.home, engine._driver, NoSpark, planned)  # type: ignore[arg-type]
    assert caught.value.condition == "XSCL_HOME_IN_USE"
    engine.ingest(events(DOCS[20:]))
    engine.run_once()
    assert found(engine) == expected


def test_more_rows_than_the_driver_may_hold_go_to_the_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("write_witnesses", "write_results"):
        monkeypatch.setattr(f"xscl.batches.level.{name}", asked)
    monkeypatch.setattr("xscl.spark.job_counter.Jobs.session", lambda self: None)
    with started(tmp_path / "home", driver_rows=40) as engine:
        engine.ingest(events(DOCS[:2]))
        assert [report.joined_in for report in engine.run_once()] == ["driver"]
        engine.ingest(events(DOCS[2:]))
        with pytest.raises(Asked):
            engine.run_once()


@pytest.mark.parametrize("sizes", [{"_FIRST": 2, "_PART": 3}, {"_FIRST": 1, "_PART_BYTES": 500}])
def test_documents_are_walked_in_parts(
    sizes: dict[str, int], expected: dict[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in sizes.items():
        monkeypatch.setattr(f"xscl.batches.driver_match.{name}", value)
    with started(tmp_path / "home") as engine:
        engine.ingest(events(DOCS))
        assert [(report.joined_in, report.jobs) for report in engine.run_once()] == [("driver", 0)]
        assert found(engine) == expected


def test_documents_that_would_take_long_go_to_the_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.batches.level.write_witnesses", asked)
    monkeypatch.setattr("xscl.spark.job_counter.Jobs.session", lambda self: None)
    for name, value in {"_FIRST": len(DOCS) - 1, "start_seconds": lambda: 0.0, "cores": lambda: 8}.items():
        monkeypatch.setattr(f"xscl.batches.driver_match.{name}", value)
    with started(tmp_path / "home") as engine:
        engine.ingest(events(DOCS[:-1]))
        assert [report.joined_in for report in engine.run_once()] == ["driver"], "the first ones are walked here"
        engine.ingest(events([Doc(doc.channel, f"{doc.id}-again", doc.ts, doc.xml) for doc in DOCS]))
        with pytest.raises(Asked):
            engine.run_once()


def test_what_was_walked_is_kept_when_the_rest_goes_to_the_executors(
    expected: dict[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []
    elsewhere = 0

    def counted(automaton: object, part: pa.RecordBatch) -> object:
        walked.extend(part.column("docid").to_pylist())
        return witness_rows(automaton, part)  # type: ignore[arg-type]

    def there(session: object, plan: Plan, level: Level, target: Path) -> None:
        nonlocal elsewhere
        elsewhere += 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver_stage1, "cores", lambda: 1)
            target.mkdir()
            pq.write_table(driver_stage1.driver_witnesses(plan, level, 1 << 40).rows, target / "part-0.parquet")

    monkeypatch.setattr("xscl.batches.level.write_witnesses", there)
    monkeypatch.setattr("xscl.spark.job_counter.Jobs.session", lambda self: None)
    for name, value in {"_FIRST": 2, "start_seconds": lambda: 0.0, "cores": lambda: 8, "witness_rows": counted}.items():
        monkeypatch.setattr(f"xscl.batches.driver_match.{name}", value)
    with started(tmp_path / "home") as engine:
        engine.ingest(events(DOCS))
        assert engine.run_once() and elsewhere == 1
        assert found(engine) == expected
    assert len(walked) == len(set(walked)) == len(DOCS)


def test_where_documents_are_walked_does_not_depend_on_the_time_on_the_wall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part takes an hour, of which this process has next to nothing."""
    hours = iter(range(0, 10**9, 3600))
    monkeypatch.setattr("xscl.batches.level.write_witnesses", asked)
    monkeypatch.setattr("xscl.batches.driver_match._FIRST", 1)
    monkeypatch.setattr("time.perf_counter", lambda: float(next(hours)))
    with started(tmp_path / "home") as engine:
        engine.ingest(events(DOCS))
        assert [report.jobs for report in engine.run_once()] == [0]


def test_what_is_remembered_is_read_anew_when_there_is_room_for_it(
    engine: Engine, expected: dict[str, set[str]]
) -> None:
    engine.ingest(events(DOCS[:10]))
    engine.run_once()
    assert engine._driver._finder is not None
    engine._driver._finder.cache.blind = True  # as after a long time in which much was left to the files
    engine.ingest(events(DOCS[10:20]))
    engine.run_once()
    assert engine._driver._finder is None
    engine.ingest(events(DOCS[20:]))
    (report,) = engine.run_once()
    assert report.slices_found == report.slices_asked and not engine._driver.is_blind
    assert found(engine) == expected


def test_more_rows_of_links_than_the_driver_may_hold_go_to_the_executors(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.ingest(events(DOCS[:10]))
    assert [report.joined_in for report in engine.run_once()] == ["driver"]
    monkeypatch.setattr("xscl.batches.driver_join._MOST_LINKS", 0)
    monkeypatch.setattr(Driver, "_load", lambda *_: pytest.fail("what cannot be joined here need not be read"))

    def executors(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("xscl.batches.level.write_results", executors)
    monkeypatch.setattr("xscl.spark.job_counter.Jobs.session", lambda self: None)
    for number in (10, 11):
        engine.ingest(events(DOCS[number : number + 1]))
        with pytest.raises(NotImplementedError):
            engine.run_once()


@pytest.mark.parametrize("cache", SIZES)
def test_purging_loses_no_match(cache: str, expected: dict[str, set[str]], tmp_path: Path) -> None:
    held = []
    for size in (1, 5, 100):
        with opened(tmp_path / f"{size}", cache_bytes=SIZES[cache]) as engine:
            for channel in "ST":
                engine.add_channel(channel, lateness="0 s", clock="one")
            for name, text in QUERIES.items():
                engine.register(text, name=name)
            reports = []
            for number in range(0, len(DOCS), 10):
                engine.ingest(events(DOCS[number : number + 10]))
                reports += engine.run_once(batch_docs=size)
            assert found(engine) == expected
            held.append(reports[-1].state_rows)
            if cache == "everything":
                assert engine._driver._finder is not None
                with engine.home.catalog.read() as connection:
                    files = held_state(engine.home, connection).files
                in_files = sum(file.held for file in files if file.kind == "witness")
                assert engine._driver._finder.cache.rows == in_files
            if size < 100:
                assert sum(report.purged for report in reports) > 0
    assert held[0] == held[1] == held[2]


@pytest.mark.parametrize("size", [1, 4, 100])
def test_rows(size: int, tmp_path: Path) -> None:
    """Definitions that Spark answers by columns, and those that need a walk."""
    asked = {
        "by_number": "ticks//price->p JOIN {p = q, 9 s} S//c->q",
        "by_text": "ticks/ticks->r[./sym->x] FOLLOWED BY {x = y, 9 s} ticks/ticks->r2[./sym->y]",
        "walked": "ticks//price->p[. > 2] JOIN {p > q, 9 s} S//c->q",
        "alone": "ticks//sym->x",
    }
    rows = [{"sym": "ab"[n % 2], "price": n % 4 + 0.5 * (n % 3)} for n in range(8)]
    docs = [
        Doc("ticks", f"t{n}", n * SECOND, "<ticks><sym>{sym}</sym><price>{price}</price></ticks>".format(**row))
        for n, row in enumerate(rows)
    ]
    others = [Doc("S", f"s{n}", n * SECOND + 1, f"<r><c>{n}.0</c></r>") for n in range(4)]
    with opened(tmp_path / "home", cache_bytes=2_000) as engine:
        engine.add_channel("ticks", kind="rows", schema="sym string, price double")
        for name, text in asked.items():
            engine.register(text, name=name)
        engine.ingest([Event("ticks", doc.id, doc.ts / SECOND, row=row) for doc, row in zip(docs, rows, strict=True)])
        engine.ingest([Event("S", doc.id, doc.ts / SECOND, xml=doc.xml) for doc in others])
        engine.run_once(batch_docs=size)
        for name, text in asked.items():
            columns = {"numeric": {"ticks": frozenset({"price"})}, "texts": {"ticks": frozenset({"sym"})}}
            by_oracle = [
                tuple(id_ for _, id_ in found) for found, _ in answers(parse_query(text), [*docs, *others], **columns)
            ]
            by_engine = [tuple(event.id for event in match.events) for match in engine.matches(name)]
            assert sorted(by_engine) == sorted(by_oracle) != [], name


@pytest.mark.parametrize("name", ["driver_rows", "cache_bytes"])
def test_settings_are_not_negative(name: str) -> None:
    with pytest.raises(EngineError) as caught:
        Settings(**{name: -1})
    assert caught.value.condition == "XSCL_BAD_OPTION"
