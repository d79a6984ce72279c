"""Queries that make batches fail as nobody foresaw: they are suspended, and all others have their answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import xscl
from xscl import Event
from xscl.base.errors import EngineError, XsclError
from xscl.batches.deciding import steps
from xscl.batches.failing_queries import FailingQueriesError, evaluating
from xscl.batches.windows import answers
from xscl.catalog.queries import read_query
from xscl.cli import app as command_line
from xscl.engine import Engine, running

WINDOWS = {
    "sum": "SELECT k, sum(v) AS s FROM a/x[./k->k][./v->v] WINDOW 4 s EVERY 2 s GROUP BY k",
    "max": "SELECT k, max(v) AS m FROM a/x[./k->k][./v->v] WINDOW 4 s EVERY 2 s GROUP BY k",
    "last": "SELECT k, last(v) AS m FROM a/x[./k->k][./v->v] WINDOW LAST 2 GROUP BY k",
}
STEPS = {
    f"next{number}": f"a/x[./k->k][./v->v] NEXT {{k = l AND w > v, {number} s}} a/x[./k->l][./v->w]"
    for number in (2, 3, 5, 9)
}
OTHERS = {
    "join": "a/x[./k->k] JOIN {k = l, 3 s} a/x[./k->l]",
    "made": "SELECT <y>{k}</y> FROM a/x[./k->k][./v->v] NEXT {k = l, 2 s} a/x[./k->l] PUBLISH b",
    "reads": "b/y[./k->k] JOIN {k = l, 9 s} a/x[./k->l]",
    "absent": "a/x[./k->k] NOT FOLLOWED BY {k = l, 2 s} a/x[./k->l]",
}
QUERIES = {**WINDOWS, **STEPS, **OTHERS}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        yield opened


def begin(engine: Engine, queries: dict[str, str]) -> None:
    engine.add_channel("a", lateness="0 s")
    for name, text in queries.items():
        engine.register(text, name=name)


def play(engine: Engine, numbers: range) -> list[xscl.BatchReport]:
    texts = (f"<x><k>{'uvv'[number % 3]}</k><v>{number * 7 % 5}</v></x>" for number in numbers)
    engine.ingest(Event("a", f"e{number}", number, xml=text) for number, text in zip(numbers, texts, strict=True))
    return engine.run_once()


def listed(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    return sorted((match.id, match.ts, match.document) for match in engine.matches(query))


def fail_windows(engine: Engine, names: str, patch: pytest.MonkeyPatch) -> None:
    gids = {engine.home.catalog.ask(read_query, name).gid for name in names.split()}
    told: Callable[..., Any] = answers._chosen
    values = answers._told

    def chosen(member: Any, *rest: Any) -> Any:
        def fail(*given: Any) -> Any:
            if member.gid in gids:
                raise IndexError("there is no \x1b[31mplace\x07 9")
            return values(*given)

        with patch.context() as within:
            within.setattr(answers, "_told", fail)
            return told(member, *rest)

    patch.setattr(answers, "_chosen", chosen)


def fail_steps(engine: Engine, name: str, patch: pytest.MonkeyPatch) -> None:
    gid = engine.home.catalog.ask(read_query, name).gid
    moved = steps.Steps._moved_together

    def fail(self: Any, step: Any, look: Any, members: Any, settled: Any) -> Any:
        if gid in {mine for mine, _ in members}:
            raise KeyError(9)
        return moved(self, step, look, members, settled)

    patch.setattr(steps.Steps, "_moved_together", fail)


@pytest.mark.parametrize(
    ("name", "fail"), [("max", fail_windows), ("last", fail_windows), ("next3", fail_steps), ("next9", fail_steps)]
)
def test_one_that_fails_is_suspended_and_no_other_is(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fail: Callable[[Engine, str, pytest.MonkeyPatch], None],
) -> None:
    begin(engine, QUERIES)
    play(engine, range(9))
    before = listed(engine, name)
    assert before
    with monkeypatch.context() as patch:
        fail(engine, name, patch)
        (report,) = play(engine, range(9, 18))
        (suspension,) = report.suspended
        assert (suspension.query, suspension.place, suspension.condition) == (name, report.first, "XSCL_QUERY_FAILED")
        assert "Error" in suspension.reason and "test_failing_queries.py, line" in suspension.reason
        assert suspension.reason.isprintable()
        (report,) = play(engine, range(18, 27))
        assert not report.suspended
    info = engine.home.catalog.ask(read_query, name)
    assert info.is_suspended and info.suspended == suspension.reason
    assert listed(engine, name) == before
    with xscl.connect(home=tmp_path / "without") as other:
        begin(other, {other_name: text for other_name, text in QUERIES.items() if other_name != name})
        for first in (0, 9, 18):
            play(other, range(first, first + 9))
        for each in QUERIES.keys() - {name}:
            assert listed(engine, each) == listed(other, each), each
            assert listed(engine, each), each
    # Once the fault is gone, the query goes on from where it is resumed.
    engine.resume(name)
    play(engine, range(27, 45))
    assert len(listed(engine, name)) > len(before)


def test_all_queries_of_the_group_are_suspended_and_the_first_batch_may_fail(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(engine, {**WINDOWS, "same": WINDOWS["sum"].replace("a/x", "a/x->whole")})
    with monkeypatch.context() as patch:
        fail_windows(engine, "sum last", patch)
        reports = play(engine, range(9))
    found = sorted((each.query, each.place) for report in reports for each in report.suspended)
    assert [query for query, _ in found] == ["last", "same", "sum"] and len({place for _, place in found}) == 1
    assert listed(engine, "max") and not listed(engine, "sum") and not listed(engine, "last")


def test_a_replay_may_fail(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(engine, STEPS)
    play(engine, range(9))
    engine.ingest([Event("a", "late", 3, xml="<x><k>u</k><v>9</v></x>")])
    engine.run_once()
    replayed = engine.replay_late()
    with monkeypatch.context() as patch:
        fail_steps(engine, "next3", patch)
        (report,) = engine.run_once()
    (suspension,) = report.suspended
    assert (suspension.query, suspension.place, report.replayed) == ("next3", replayed.place, 1)
    (report,) = play(engine, range(9, 18))
    assert report.matches and not report.suspended


def test_suspensions_are_told_also_where_the_batch_fails_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(engine, STEPS)
    process, tries = running.process_batch, itertools.count()

    def full(*given: Any) -> Any:
        if next(tries) == 1:
            raise OSError(28, "No space left on device")
        return process(*given)

    with monkeypatch.context() as patch:
        fail_steps(engine, "next3", patch)
        patch.setattr(running, "process_batch", full)
        with pytest.raises(XsclError, match="XSCL_DISK_FULL") as raised:
            play(engine, range(9))
        assert any("query next3 is suspended" in note for note in raised.value.__notes__)
        (report,) = engine.run_once()
    assert [each.query for each in report.suspended] == ["next3"]
    (report,) = play(engine, range(9, 18))
    assert not report.suspended


def test_commands_tell_what_was_done_before_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = EngineError("XSCL_DISK_FULL", "there is no room")
    error.add_note("query \x1b[31mq is suspended")

    def fail() -> None:
        raise error

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(SystemExit):
        command_line.main()
    told = capsys.readouterr().err
    assert "[XSCL_DISK_FULL]" in told and "q is suspended" in told and "\x1b" not in told


def test_a_failure_of_what_queries_share_fails_the_batch(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(engine, STEPS)
    moved = steps.Steps._moved_together

    def fail(self: Any, step: Any, look: Any, members: Any, settled: Any) -> Any:
        if len(members) > 1:
            raise ZeroDivisionError("together")
        return moved(self, step, look, members, settled)

    with monkeypatch.context() as patch:
        patch.setattr(steps.Steps, "_moved_together", fail)
        with pytest.raises(ZeroDivisionError, match="together"):
            play(engine, range(9))
    assert not any(info.is_suspended for info in engine.queries())
    (report,) = engine.run_once()
    assert report.matches


@pytest.mark.parametrize("error", [EngineError("XSCL_BATCH", "Spark"), OSError("disk"), MemoryError(), EOFError()])
def test_what_is_foreseen_blames_no_query(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, evaluating({1}):
        raise error
    assert raised.value is error


def test_what_is_not_names_the_groups() -> None:
    with pytest.raises(FailingQueriesError, match="KeyError") as raised, evaluating({1, 2}):
        {}["a"]
    assert raised.value.groups == {1, 2}


@pytest.mark.parametrize("kind", ["windows", "steps", "one of both"])
def test_all_that_fail_cost_one_attempt_more(engine: Engine, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = range(3, 23)
    windows = {f"w{n}": WINDOWS["sum"].replace("WINDOW 4 s", f"WINDOW {n} s") for n in lengths}
    chains = {f"s{n}": STEPS["next2"].replace("2 s", f"{n} s") for n in lengths}
    fails = {"windows": [*windows], "steps": [*chains], "one of both": ["w3", "s3"]}[kind]
    begin(engine, {**windows, **chains, **OTHERS})
    process, tries = running.process_batch, itertools.count(1)

    def counted(*given: Any) -> Any:
        next(tries)
        return process(*given)

    with monkeypatch.context() as patch:
        patch.setattr(running, "process_batch", counted)
        fail_windows(engine, " ".join(name for name in fails if name in windows), patch)
        for name in fails:
            if name in chains:
                fail_steps(engine, name, patch)
        (report,) = play(engine, range(30))
    assert sorted(each.query for each in report.suspended) == sorted(fails)
    # Windows and steps are evaluated one after the other.
    assert next(tries) - 1 == (3 if kind == "one of both" else 2)
    assert all(listed(engine, name) for name in {**windows, **chains, **OTHERS}.keys() - fails)
