"""``xscl bench recovery``: how soon a process that follows a killed one has committed its first batch."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from xscl.base.errors import EngineError
from xscl.base.failpoints import VARIABLE, hooked
from xscl.base.terminal import write_data
from xscl.bench.bench import Bench, Case, Lab, Outcome, Sizes, Variant, by_step, size
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import register, run, run_parts, take
from xscl.bench.plot import Axes
from xscl.bench.workload import RSS, count_queries, shaped_queries
from xscl.catalog.intake_order import read_last_places
from xscl.engine import Engine, connect
from xscl.store.join_state import HeldState
from xscl.templates.runs.run import Run

__all__ = ["BENCH", "child"]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(1_000, 100)
    items: int = size(100_000, 2_000)
    """Items before the batch in which a process is killed."""
    batch: int = size(100)
    """Items of that batch."""
    large: int = size(25_000, 1_000)
    """Items of the batches in which the state is taken in."""
    times: int = size(3, 1)
    """Processes that are killed."""


_PARTS = ("python", "imports", "open", "tidy", "plan", "match", "load", "join", "commit")
"""Parts of the time, one after the other."""
_CHILD = (
    "import time; began = time.time(); import sys; from xscl.bench.recovery import child; child(sys.argv[1], began)"
)


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[Path]]:
    home = lab.folder / "home"
    with connect(home=home) as engine:
        register(engine, shaped_queries(lab.sizes.queries, lab.seed))
        counts = engine.home.catalog.ask(count_queries)
    yield Case(f"{lab.sizes.queries:,} queries", home, counts)


def _measure(lab: Lab[_Sizes], case: Case[Path]) -> Outcome:
    """Time batches of an engine that has the state in memory, and then processes that follow a killed one."""
    sizes, home, feed, recovered = lab.sizes, case.data, ItemFeed(lab.seed), []
    with connect(home=home) as engine:
        lab.say(f"taking in {sizes.items:,} items")
        take(engine, RSS.channel, feed.take(sizes.items))
        run(engine, sizes.large)
        steady = run_parts(engine, RSS.channel, (feed.take(sizes.batch) for _ in range(6)))
        for number in range(1, sizes.times + 1):
            lab.say(f"process {number} of {sizes.times} that is killed in a batch, and the one after it")
            take(engine, RSS.channel, feed.take(sizes.batch))
            before = engine.home.catalog.ask(read_last_places)
            _killed(home)
            if engine.home.catalog.ask(read_last_places) != before:
                raise EngineError("XSCL_BENCH", "a process was to be killed before its batch was committed")
            recovered.append(_recovered(home))
            if engine.home.catalog.ask(read_last_places)[0] != before[1]:
                raise EngineError("XSCL_BENCH", "the process after the killed one did not run its batch")
    warm = statistics.median(batch.seconds for batch in steady[1:])
    parts = {part: statistics.median(each[part] for each in recovered) for part in _PARTS}
    whole = statistics.median(sum(each.values()) for each in recovered)
    return Outcome(
        figures={
            "recovery_s": whole,
            **{f"{part}_s": seconds for part, seconds in parts.items()},
            "steady_batch_s": warm,
            "ratio_to_steady_batch": whole / warm,
            "state_rows": steady[-1].reports[-1].state_rows,
            "state_bytes": steady[-1].reports[-1].state_bytes,
        },
        rows=[
            {"place": n, "part": part, "seconds": parts[part], "since_start_s": sum(parts[of] for of in _PARTS[:n])}
            for n, part in enumerate(_PARTS, start=1)
        ],
    )


def _killed(home: Path) -> None:
    """Run a process that is killed when its batch has written its files, and a part of its rows."""
    ended = _child(home, {VARIABLE: "batch.state"})
    if ended.returncode != -signal.SIGKILL:
        raise EngineError("XSCL_BENCH", f"a process was to be killed and ended with {ended.returncode}: {ended.stderr}")


def _recovered(home: Path) -> dict[str, float]:
    """Run the process that goes on, and return the seconds of each of its parts."""
    started = time.time()
    ended = _child(home, {})
    if ended.returncode:
        raise EngineError("XSCL_BENCH", f"the process after the killed one failed: {ended.stderr}")
    told = json.loads(ended.stdout)
    at = [started, *(told[name] for name in ("began", "imported", "opened", "tidied", "planned", "matched"))]
    spans = [after - before for before, after in zip(at, at[1:], strict=False)]
    joined = told["joined"] - told["matched"] - told["load"]
    return dict(zip(_PARTS, [*spans, told["load"], joined, told["committed"] - told["joined"]], strict=True))


def _child(home: Path, more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **more, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _CHILD, str(home)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def child(home: str, began: float) -> None:
    """Run one batch on a home, and print when it came where; times in seconds since the epoch."""
    times = {"began": began, "imported": time.time(), "load": 0.0}
    names = {
        "run.tidied": "tidied",
        "batch.planned": "planned",
        "batch.witnesses": "matched",
        "batch.joined": "joined",
        "batch.committed": "committed",
    }

    def note(step: str) -> None:
        if step in names:
            times.setdefault(names[step], time.time())

    load = HeldState.runs

    def timed(state: HeldState) -> list[Run]:
        at = time.time()
        runs = load(state)
        times["load"] += time.time() - at
        return runs

    HeldState.runs = timed  # type: ignore[assignment, method-assign]
    with connect(home=home) as engine:
        times["opened"] = time.time()
        if os.environ.get(VARIABLE):
            engine.run_once()  # the hook that kills it is there already
        else:
            with hooked(note):
                _run(engine)
    write_data(json.dumps(times) + "\n")


def _run(engine: Engine) -> None:
    engine.run_once()


BENCH = Bench(
    name="recovery",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("", _measure),),
    table=by_step,
    axes=Axes(
        "From the start of a process to its first batch, over {s.items:,} items",
        x="part",
        y="seconds since the start",
        over="place",
        lines={"recovery": "since_start_s"},
    ),
)
