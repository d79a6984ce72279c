"""The runner of benches: cases, variants, digests, and how figures and tables are put together."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from xscl.base.errors import EngineError
from xscl.bench import apart
from xscl.bench.apart import run_apart, spent, watched
from xscl.bench.bench import (
    Bench,
    Case,
    Lab,
    Options,
    Outcome,
    Sizes,
    Variant,
    by_case,
    by_variant,
    run_bench,
    side_by_side,
    size,
)
from xscl.bench.plot import Axes, of_value, times_line


@dataclass(frozen=True)
class Made(Sizes):
    queries: tuple[int, ...] = size((1, 10), (1,))
    batch: int = size(3)
    """The same with ``--quick``."""


def prepare(lab: Lab[Made]) -> Iterator[Case[int]]:
    for queries in lab.sizes.queries:
        assert not list(lab.new_folder().iterdir())
        yield Case(f"{queries} queries", queries, {"queries": queries})


def slow(lab: Lab[Made], case: Case[int]) -> Outcome:
    rows = [{"batch": number, "seconds": case.data / number} for number in range(1, lab.sizes.batch + 1)]
    return Outcome({"whole_s": case.data / 7, "jobs": 2}, rows, digest=f"{case.data}")


def fast(lab: Lab[Made], case: Case[int]) -> Outcome:
    outcome = slow(lab, case)
    return replace(outcome, figures={**outcome.figures, "only": True}, agrees=True)


AXES = Axes("{s.batch} a batch", "queries", "seconds", over="queries", lines={"slow": "whole_s"})
BENCH = Bench(
    name="made up",
    sizes=Made(),
    prepare=prepare,
    variants=(Variant("slow", slow), Variant("fast", fast, "_fast")),
    table=by_case,
    axes=AXES,
    notes=("{s.batch} documents",),
    spark=False,
)


def test_a_bench() -> None:
    said: list[str] = []
    report = run_bench(BENCH, Options(batch=2, seed=5), said.append)
    last = {"queries": 10, "whole_s": 1.429, "jobs": 2, "whole_fast_s": 1.429, "jobs_fast": 2, "only_fast": True}
    assert report.figures == {**last, "results_digest": "10", "digest_equal": True}
    assert [row["queries"] for row in report.table] == [1, 10]
    assert report.table[-1] == report.figures
    assert report.settings == {"queries": "1, 10", "batch": 2, "seed": 5}
    assert report.plots[0].lines == {"slow": ((1, 0.1429), (10, 1.429))}
    assert (report.plots[0].title, report.notes) == ("2 a batch", ("2 documents",))
    assert said == ["1 queries: slow", "1 queries: fast", "10 queries: slow", "10 queries: fast"]


def test_plots_beside_the_first() -> None:
    """One has some rows alone, and a line that others tell of."""
    told = times_line("elsewhere", "slow", 3)
    other = replace(AXES, title="{s.batch} again", chosen=of_value("queries", 10), told=told)
    first, second = run_bench(replace(BENCH, beside=(other,)), Options(batch=2), print).plots
    assert first.lines == {"slow": ((1, 0.1429), (10, 1.429))} and not first.told
    assert second.lines == {"slow": ((10, 1.429),)} and second.title == "2 again"
    assert second.told == {"elsewhere": ((10, pytest.approx(4.287)),)}


def test_tables() -> None:
    table = run_bench(replace(BENCH, table=side_by_side), Options(quick=True), print).table
    assert table[1] == {"batch": 2, "seconds": 0.5, "seconds_fast": 0.5}
    table = run_bench(replace(BENCH, table=by_variant), Options(quick=True), print).table
    assert [(row["mode"], row["only"]) for row in table] == [("slow", None), ("fast", True)]


@pytest.mark.parametrize("other", [{"digest": "else"}, {"agrees": False}])
def test_different_answers_are_told(other: dict[str, object]) -> None:
    def wrong(lab: Lab[Made], case: Case[int]) -> Outcome:
        return replace(fast(lab, case), **other) if case.data == 1 else fast(lab, case)

    bench = replace(BENCH, variants=(Variant("slow", slow), Variant("wrong", wrong, "_wrong")))
    report = run_bench(bench, Options(), print)
    assert report.figures["digest_equal"] is False
    assert [row["digest_equal"] for row in report.table] == [False, True]


def test_nothing_is_said_of_answers_that_are_not_compared() -> None:
    bench = replace(BENCH, variants=(Variant("one", lambda lab, case: Outcome({"s": 1.0})),))
    assert run_bench(bench, Options(), print).figures == {"queries": 10, "s": 1.0}


def test_a_run_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run_bench(BENCH, Options(), print)
    assert not list(tmp_path.iterdir())


def test_processor_time_has_that_of_descendants() -> None:
    # A child that starts another, which computes until it has taken half a second, and waits.
    busy = "import time\nwhile time.process_time() < 0.5: pass\nprint('done', flush=True)\ninput()"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    before, own = spent().total, time.process_time()
    child = subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "done\n"
    alive = spent().total
    assert 0.4 < alive - before - (time.process_time() - own) < 5
    child.communicate("\n")
    assert spent().total >= alive - 0.05


def test_a_watch_does_not_count_its_own_look_at_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> dict[int, apart._Process]:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        return {}

    monkeypatch.setattr(apart, "_processes", slow)
    with watched() as watch:
        pass
    assert watch.cpu_s < 0.05


def test_workers_that_have_ended_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def processes(**ticks: int) -> dict[int, apart._Process]:
        names = {"java": (900_001, os.getpid()), "daemon": (900_002, 900_001), "worker": (900_003, 900_002)}
        found = {names[name][0]: apart._Process(name, names[name][1], count) for name, count in ticks.items()}
        return {os.getpid(): apart._Process("python", 1, 0), **found}

    # Other tests of this process may have had workers.
    for known in ("_workers", "_ended_workers"):
        monkeypatch.setattr(apart, known, {})
    tick = 1 / os.sysconf("SC_CLK_TCK")
    seen = []
    for now in (processes(java=5, daemon=1, worker=7), processes(java=6, daemon=1), processes(java=6, daemon=2)):
        monkeypatch.setattr(apart, "_processes", lambda now=now: now)
        seen.append(spent())
    first, *later = seen
    assert (first.java, first.workers) == pytest.approx((5 * tick, 8 * tick))
    assert [each.workers for each in later] == pytest.approx([8 * tick, 9 * tick])


def test_a_process_that_fails_is_told() -> None:
    with pytest.raises(EngineError, match="TypeError"):
        run_apart(run_apart, {"nothing": 1}, lambda text: None)
