"""Ends of an engine: loops that are started twice, homes that are closed while batches run, calls within calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_for

import xscl
from xscl.base.errors import CatalogError, EngineError
from xscl.batches.report import BatchReport

LIMIT_S = 60


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[xscl.Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        opened.register("S//a->x[./b->y] FOLLOWED BY {y=z, 1 h} S//c->w[./b->z]", name="q")
        fill(opened, 0)
        yield opened


def fill(engine: xscl.Engine, first: int, count: int = 60) -> None:
    engine.ingest([xscl.Event("S", f"{n}", n, xml="<a><b>1</b></a>") for n in range(first, first + count)])


def ended(thread: threading.Thread) -> None:
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_a_second_loop_is_refused_while_the_first_goes_on(engine: xscl.Engine) -> None:
    first = engine.start(every="1 h", name="mine")
    with pytest.raises(CatalogError, match="the loop mine of this engine runs batches") as caught:
        engine.start(every="1 h")
    assert caught.value.condition == "XSCL_HOME_IN_USE" and "stop()" in str(caught.value.hint)
    assert first.isActive
    first.stop()
    second = engine.start(every="1 h")
    assert second.isActive and second is not first
    second.stop()


def test_a_loop_that_failed_may_be_started_anew_where_that_is_told(engine: xscl.Engine) -> None:
    again: list[xscl.RunHandle] = []

    def then(report: BatchReport) -> None:
        raise KeyboardInterrupt

    first = engine.start(every="1 h", then=then, failed=lambda error: again.append(engine.start(every="1 h")))
    wait_for(lambda: not first.isActive)
    (second,) = again
    assert second.isActive
    second.stop()


def test_closing_ends_the_loop(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        handle = engine.start(every="1 h")
    assert not handle.isActive and handle.exception() is None
    with pytest.raises(EngineError, match="XSCL_ENGINE_CLOSED"):
        engine.start()
    with xscl.connect(home=tmp_path / "home") as other:
        other.run_once()


@pytest.mark.parametrize("way", ["stop", "close"])
def test_a_loop_may_be_ended_by_what_it_calls(engine: xscl.Engine, way: str) -> None:
    handles: list[xscl.RunHandle] = []
    given = threading.Event()
    told: list[BaseException] = []

    def then(report: BatchReport) -> None:
        given.wait(LIMIT_S)
        with pytest.raises(EngineError, match="XSCL_OWN_CALL"):
            handles[0].awaitTermination()
        with pytest.raises(EngineError, match="XSCL_OWN_CALL"):
            engine.run_once()
        handles[0].stop() if way == "stop" else engine.close()

    handles.append(engine.start(every="1 h", batch_docs=10, then=then, failed=told.append))
    given.set()
    assert handles[0].awaitTermination(LIMIT_S)
    assert not told and handles[0].status == {"message": "stopped", "isActive": False}
    assert len(handles[0].recentProgress) == 1, "the loop ends behind the batch"


def test_closing_waits_for_the_batch_of_another_thread(engine: xscl.Engine) -> None:
    between, closing = threading.Event(), threading.Event()
    found: list[list[BatchReport]] = []
    faults: list[BaseException] = []

    def then(report: BatchReport) -> None:
        between.set()
        closing.wait(LIMIT_S)
        time.sleep(0.2)

    def run() -> None:
        try:
            found.append(engine.run_once(batch_docs=10, then=then))
        except BaseException as error:
            faults.append(error)

    running = threading.Thread(target=run)
    running.start()
    assert between.wait(LIMIT_S)
    closing.set()
    engine.close()
    assert engine._planner._plan is None
    ended(running)
    assert not faults
    assert [len(reports) for reports in found] == [1]
    engine.close()


def test_closing_at_any_time_ends_cleanly(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("S//a->x[./b->y] FOLLOWED BY {y=z, 1 h} S//c->w[./b->z]", name="q")
        fill(engine, 0, 200)
    for number in range(8):
        faults: list[BaseException] = []
        engine = xscl.connect(home=tmp_path / "home")

        def run(engine: xscl.Engine = engine, faults: list[BaseException] = faults) -> None:
            try:
                while True:
                    engine.run_once(batch_docs=5)
            except EngineError as error:
                if error.condition != "XSCL_ENGINE_CLOSED":
                    faults.append(error)
            except BaseException as error:
                faults.append(error)

        running = threading.Thread(target=run)
        running.start()
        time.sleep(0.01 * number)
        engine.close()
        ended(running)
        assert not faults, faults
