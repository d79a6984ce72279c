"""Batches on a real home, in this process and in tasks, without Spark: tasks are called as they are unpickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from oracle.evaluate import Doc, answers

from xscl.base.errors import EngineError
from xscl.base.settings import Settings, Where
from xscl.base.types import Event
from xscl.batches import batch as batches
from xscl.batches.level import BatchWork
from xscl.batches.ranges import next_batch
from xscl.engine import Engine, connect
from xscl.language.syntax.parser import parse_query
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.fact_rows import FactVariables
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


class NoSpark:
    """Stands where a session would, and gives itself away when it is used."""

    dataSource = SimpleNamespace(register=lambda source: None)  # every session is told of ours
    sparkContext = SimpleNamespace(_jsc=object())  # nobody has stopped it

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"Spark was asked for {name}")


class Tasks(NamedTuple):
    """A place as tasks of Spark are: what they get and return is pickled."""

    session: object
    slots: int

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        calls.append(len(items))
        packed = [pickle.dumps((work, item)) for item in items]
        return [pickle.loads(pickle.dumps(work(item))) for work, item in map(pickle.loads, packed)]


calls: list[int] = []
"""The tasks of each call of ``map``."""


@pytest.fixture(autouse=True)
def tasks_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.batches.level.OnSpark", Tasks)
    monkeypatch.setattr("xscl.batches.level.slots_of", lambda session: 3)
    calls.clear()


def opened(home: Path, where: Where = "auto") -> Engine:
    return connect(home=home, spark=NoSpark(), settings=Settings(where))  # type: ignore[arg-type]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with started(tmp_path / "home") as made:
        yield made


def started(home: Path, where: Where = "auto") -> Engine:
    made = opened(home, where)
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


@pytest.mark.parametrize("where", ["driver", "spark"])
@pytest.mark.parametrize("size", [1, 5, 11])
def test_any_cut_in_either_place(size: int, where: Where, expected: dict[str, set[str]], tmp_path: Path) -> None:
    with started(tmp_path / "home", where) as engine:
        engine.ingest(events(DOCS))
        reports = engine.run_once(batch_docs=size)
        assert found(engine) == expected
    assert {report.joined_in for report in reports} == {where}
    assert sum(report.matches for report in reports) == sum(map(len, expected.values()))
    if where == "spark":
        # Few documents are walked by every task, so one job is enough.
        assert len(calls) == len(reports) and set(calls) == {1}


def test_a_few_documents_meet_a_state_of_many_runs_in_several_tasks(
    expected: dict[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xscl.batches.level._RUNS", 1)
    with started(tmp_path / "home", "spark") as engine:
        engine.ingest(events(DOCS))
        reports = engine.run_once(batch_docs=4)
        assert found(engine) == expected
    assert len(calls) == len(reports) and max(calls) == 3


@pytest.mark.parametrize(("seconds", "jobs"), [(0.0, 2), (1.0, 1)])
def test_many_documents_are_walked_and_joined_in_tasks(
    seconds: float, jobs: int, expected: dict[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of documents of different tasks are found in tasks where they cost more than a job, and here otherwise."""
    for name, value in {"_SMALL": 0, "_PART": 2, "_JOB_SECONDS": seconds}.items():
        monkeypatch.setattr(f"xscl.batches.level.{name}", value)
    with started(tmp_path / "home", "spark") as engine:
        engine.ingest(events(DOCS))
        reports = engine.run_once(batch_docs=15)
        assert found(engine) == expected
    assert len(calls) == jobs * len(reports) and calls[0] == 3
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


def files_of(engine: Engine) -> list[Path]:
    return sorted(path for path in engine.home.root.rglob("*") if path.suffix in (".parquet", ".run"))


@pytest.mark.parametrize(
    "step", ["batch.commit_state", "attempt.next_state", "link_work.write_run", "memory.driver.Driver.committed"]
)
def test_a_batch_that_fails_leaves_the_next_one_right(
    step: str, engine: Engine, expected: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.ingest(events(DOCS[:10]))
    engine.run_once()
    engine.ingest(events(DOCS[10:20]))
    before = files_of(engine)
    with monkeypatch.context() as patch:

        def fail(*_: object, **__: object) -> None:
            raise OSError("the disk is full")

        patch.setattr(f"xscl.batches.{step}", fail)
        with pytest.raises(OSError, match="the disk is full"):
            engine.run_once()
    if step != "memory.driver.Driver.committed":  # the batch is there then
        assert files_of(engine) == before
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


@pytest.mark.parametrize("sizes", [{"_FIRST": 2, "_PART": 3}, {"_FIRST": 1, "_PART": 9, "_PART_BYTES": 500}])
def test_documents_are_walked_in_parts(
    sizes: dict[str, int], expected: dict[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in sizes.items():
        monkeypatch.setattr(f"xscl.batches.walking.{name}", value)
    with started(tmp_path / "home") as engine:
        engine.ingest(events(DOCS))
        assert [(report.joined_in, report.jobs) for report in engine.run_once()] == [("driver", 0)]
        assert found(engine) == expected


def test_few_documents_in_memory_are_walked_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []

    def counted(automaton: Automaton, part: pa.RecordBatch, known: FactVariables) -> object:
        parts.append(part.num_rows)
        return witness_rows(automaton, part, known)

    monkeypatch.setattr("xscl.batches.walking.witness_rows", counted)
    monkeypatch.setattr("xscl.batches.walking._FIRST", 1)
    monkeypatch.setattr("xscl.batches.walking._PART", 4)
    with started(tmp_path / "home") as engine:
        for batch, count in enumerate((4, 4, 5)):
            engine.ingest(Event("S", f"{batch}-{n}", n, xml="<a/>") for n in range(count))
            engine.run_once()
    # A process keeps what it ingests from its first batch on.
    assert parts == [1, 3, 4, 1, 4]


def test_levels_in_different_places_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published documents are joined in tasks with events that were joined in this process, in one batch."""
    joins = iter(range(100))
    monkeypatch.setattr(BatchWork, "_join_seconds", lambda *_: 1e6 * (next(joins) % 2))
    with opened(tmp_path / "home") as engine:
        engine.register("S/a PUBLISH P", name="whole")
        engine.register("P/a/k->x JOIN {x = y, 1 h} S/a/k->y", name="met")
        for number in range(3):
            engine.ingest([Event("S", f"e{number}", number, xml="<a><k>1</k></a>")])
            (report,) = engine.run_once()
            assert report.joined_in == "spark"
        assert len(list(engine.matches("met"))) == 9
    with opened(tmp_path / "home", "driver") as engine:
        engine.ingest([Event("S", "later", 9, xml="<a><k>1</k></a>")])
        engine.run_once()
        assert len(list(engine.matches("met"))) == 16


def test_walked_documents_stay_walked_when_the_rest_goes_to_tasks(
    expected: dict[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []

    def counted(automaton: Automaton, part: pa.RecordBatch, known: FactVariables) -> object:
        walked.extend(part.column("docid").to_pylist())
        return witness_rows(automaton, part, known)

    monkeypatch.setattr("xscl.batches.walking._FIRST", 2)
    monkeypatch.setattr("xscl.batches.walking._PART", 8)
    monkeypatch.setattr("xscl.batches.walking.witness_rows", counted)
    for name, value in {"start_seconds": lambda: 0.0, "cores": lambda: 8}.items():
        monkeypatch.setattr(f"xscl.batches.memory.driver.{name}", value)
    monkeypatch.setattr("xscl.batches.level.start_seconds", lambda: 0.0)
    with started(tmp_path / "home") as engine:
        engine.ingest(events(DOCS))
        assert [report.joined_in for report in engine.run_once()] == ["spark"]
        assert found(engine) == expected
    assert len(calls) == 1 and len(walked) == len(set(walked)) == len(DOCS)


def test_where_documents_are_walked_does_not_depend_on_the_time_on_the_wall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part takes an hour, of which this process has next to nothing."""
    hours = iter(range(0, 10**9, 3600))
    monkeypatch.setattr("xscl.batches.walking._FIRST", 1)
    monkeypatch.setattr("xscl.batches.walking._PART", 8)
    monkeypatch.setattr("time.perf_counter", lambda: float(next(hours)))
    with started(tmp_path / "home") as engine:
        engine.ingest(events(DOCS))
        assert [report.joined_in for report in engine.run_once()] == ["driver"]
    assert calls == []


@pytest.mark.parametrize("where", ["driver", "spark"])
def test_purging_loses_no_match(where: Where, expected: dict[str, set[str]], tmp_path: Path) -> None:
    held = []
    for size in (1, 5, 100):
        with opened(tmp_path / f"{size}", where) as engine:
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
    with opened(tmp_path / "home") as engine:
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


def test_places_of_work_have_names() -> None:
    with pytest.raises(EngineError, match="auto, driver, spark") as caught:
        Settings("executors")  # type: ignore[arg-type]
    assert caught.value.condition == "XSCL_BAD_OPTION"
