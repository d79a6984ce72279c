"""``xscl bench recovery``: how soon a process that follows a killed one has committed its first batch."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from xscl.bench.documents import ItemFeed
from xscl.bench.engines import count_queries, register, run, take
from xscl.bench.latency import shaped_queries
from xscl.bench.plot import Plot
from xscl.bench.report import Report, Value, rounded
from xscl.bench.workload import RSS
from xscl.driver import Driver
from xscl.engine import Engine, connect
from xscl.errors import EngineError
from xscl.state import HeldState
from xscl.steps import VARIABLE, hooked

__all__ = ["Sizes", "child", "measure"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: int
    state: int
    """Items before the batch in which a process is killed."""
    batch: int
    """Items of that batch."""
    large: int
    """Items of the batches in which the state is taken in."""
    times: int
    """Processes that are killed."""


_FULL = Sizes(1_000, 100_000, 100, 25_000, 3)
_QUICK = Sizes(100, 2_000, 100, 1_000, 1)
_PARTS = ("python", "imports", "open", "tidy", "plan", "match", "load", "join", "commit")
"""What the time consists of, one after the other."""
_CHILD = (
    "import time; began = time.time(); import sys; from xscl.bench.recovery import child; child(sys.argv[1], began)"
)


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Kill a process in the middle of a batch and time the next one; ``items`` is the size of the state."""
    sizes = _QUICK if quick else _FULL
    sizes = replace(
        sizes, queries=queries or sizes.queries, state=items or sizes.state, batch=batch_docs or sizes.batch
    )
    feed = ItemFeed(seed)
    found: list[Mapping[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        home = Path(folder) / "home"
        say(f"registering {sizes.queries:,} queries and taking in {sizes.state:,} items")
        with connect(home=home) as engine:
            register(engine, shaped_queries(sizes.queries, seed))
            templates, groups = count_queries(engine)
            take(engine, RSS.channel, feed.take(sizes.state))
            run(engine, sizes.large)
            steady = []
            for _ in range(6):
                take(engine, RSS.channel, feed.take(sizes.batch))
                batch = run(engine)
                steady.append(batch.seconds)
            state = batch.reports[-1]
            for number in range(1, sizes.times + 1):
                say(f"process {number} of {sizes.times} that is killed in a batch, and the one after it")
                take(engine, RSS.channel, feed.take(sizes.batch))
                before = engine.home.catalog.processed()
                _killed(home)
                if engine.home.catalog.processed() != before:
                    raise EngineError("XSCL_BENCH", "a process was to be killed before its batch was committed")
                found.append(_recovered(home))
                if engine.home.catalog.processed()[0] != before[1]:
                    raise EngineError("XSCL_BENCH", "the process after the killed one did not run its batch")
    parts = {part: statistics.median(each[part] for each in found) for part in _PARTS}
    whole = statistics.median(sum(each.values()) for each in found)
    warm = statistics.median(steady[1:])
    figures: dict[str, Value] = {
        "recovery_s": rounded(whole),
        **{f"{part}_s": rounded(seconds) for part, seconds in parts.items()},
        "steady_batch_s": rounded(warm),
        "ratio_to_steady_batch": rounded(whole / warm),
        "state_rows": state.state_rows,
        "state_bytes": state.state_bytes,
        "templates": templates,
        "groups": groups,
    }
    return Report(
        bench="recovery",
        settings={**asdict(sizes), "seed": seed},
        figures=figures,
        table=tuple({"part": part, "seconds": rounded(seconds)} for part, seconds in parts.items()),
        plot=Plot(
            title=f"From the start of a process to its first batch, over {sizes.state:,} items",
            x="part",
            y="seconds since the start",
            lines={
                "recovery": tuple((n + 1, sum(list(parts.values())[: n + 1])) for n in range(len(parts))),
            },
        ),
    )


def _killed(home: Path) -> None:
    """A process that is killed when its batch has written its files, and a part of its rows."""
    ended = _child(home, {VARIABLE: "batch.state"})
    if ended.returncode != -signal.SIGKILL:
        raise EngineError("XSCL_BENCH", f"a process was to be killed and ended with {ended.returncode}: {ended.stderr}")


def _recovered(home: Path) -> dict[str, float]:
    """Seconds of each part of the process that goes on."""
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

    load = Driver._load

    def timed(driver: Driver, state: HeldState) -> None:
        at = time.time()
        load(driver, state)
        times["load"] += time.time() - at

    Driver._load = timed  # type: ignore[assignment, method-assign]
    with connect(home=home) as engine:
        times["opened"] = time.time()
        if os.environ.get(VARIABLE):
            engine.run_once()  # the hook that kills it is there already
        else:
            with hooked(note):
                _run(engine)
    print(json.dumps(times))  # noqa: T201


def _run(engine: Engine) -> None:
    (report,) = engine.run_once()
    if report.joined_in != "driver":
        raise EngineError("XSCL_BENCH", "the state does not fit into the driver", hint="take fewer items")
