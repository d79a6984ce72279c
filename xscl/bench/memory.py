"""``xscl bench memory``: what a process that starts needs, in time and memory, as the state that it finds grows.

Each state is met by a process of its own, which opens the home, takes items in and joins them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xscl.base.errors import EngineError
from xscl.base.settings import Settings
from xscl.bench.apart import private_memory, run_apart
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_case, size
from xscl.bench.engines import Document, open_engine, run, run_parts, take
from xscl.bench.growth import growing_base
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.bench.workload import RSS
from xscl.engine import connect
from xscl.planning.planner import Planner
from xscl.store.join_state import held_state
from xscl.upkeep.upkeep import Upkeep

__all__ = ["BENCH", "join_first"]

_UPKEEP_CPU_S = 600
"""Seconds of processor time in which upkeep does all that a loaded home has left to do."""


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(1_000, 100)
    items: tuple[int, ...] = size((20_000, 100_000, 500_000, 2_000_000), (1_000, 4_000))
    """Items of the state.  Each has five rows of state."""
    batch: int = size(100)
    batches: int = size(5, 2)
    """Batches of the process that starts."""
    load: int = size(25_000, 4_000)
    """Items of a batch in which the state is taken in."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[list[list[Document]]]]:
    """Let one state grow from case to case; the items of a case are part of the next one's state."""
    sizes = lab.sizes
    feed, base, counts = growing_base(lab, sizes.queries, sizes.items[0])
    for state in sizes.items:
        with open_engine(base, lab.spark) as engine:
            lab.say(f"taking in items up to {state:,}")
            while feed.made < state:
                take(engine, RSS.channel, feed.take(min(sizes.load, state - feed.made)))
                run(engine)
            # A loaded home has upkeep to do, which is none of a process that starts.
            home = engine.home
            Upkeep(home, Planner(home.catalog, home.folder("programs"))).work(_UPKEEP_CPU_S)
        parts = [list(feed.take(sizes.batch)) for _ in range(sizes.batches)]
        yield Case(f"a process over {state:,} items", parts, {**counts, "state": state}, base)


def _measure(lab: Lab[_Sizes], case: Case[list[list[Document]]]) -> Outcome:
    parts = lab.new_folder() / "parts.json"
    parts.write_text(json.dumps(case.data), encoding="utf-8")
    return Outcome(run_apart(join_first, {"home": str(case.home), "parts": str(parts)}, lab.say))


def join_first(_: Callable[[str], None], *, home: str, parts: str) -> dict[str, Any]:
    """Open a home, open its state, and process batches; seconds, and bytes of this process alone after the first batch
    and after that with the most.

    Raises:
        EngineError: a batch has found no rows to join with.
    """
    began = time.process_time()
    with connect(home=Path(home), settings=Settings("driver")) as engine:
        opened = time.process_time()
        with engine.home.catalog.read() as connection:
            state = held_state(engine.home, connection)
        runs = state.runs()
        state_s, open_s = time.process_time() - opened, opened - began
        runs.clear()
        done, private = [], []
        for part in json.loads(Path(parts).read_text(encoding="utf-8")):
            done += run_parts(engine, RSS.channel, [part])
            private.append(private_memory())
        if not done[-1].total("pairs"):
            raise EngineError("XSCL_BENCH", "a process that starts has joined nothing")
        return {
            "state_rows": done[-1].reports[-1].state_rows,
            "state_bytes": done[-1].reports[-1].state_bytes,
            "open_s": open_s,
            "state_s": state_s,
            "first_batch_s": done[0].cpu_s,
            "next_batch_s": min(each.cpu_s for each in done[1:]),
            "private_bytes": private[0],
            "most_private_bytes": max(private),
        }


def _figures(_: _Sizes, results: Sequence[Result[list[list[Document]]]]) -> Row:
    """Return those of the greatest state, and by how much they are more than with the smallest."""
    least, most = results[0].figures, results[-1].figures
    growing = ("state_rows", "private_bytes", "next_batch_s")
    return {**most, **{f"growth_of_{name}": most[name] / least[name] for name in growing}}


BENCH = Bench(
    name="memory",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("", _measure),),
    table=by_case,
    figures=_figures,
    axes=Axes(
        "A process that starts and joins {s.batches} batches of {s.batch} items",
        x="rows of state",
        y="bytes of the process alone",
        over="state_rows",
        lines={"after its first batch": "private_bytes", "at most": "most_private_bytes"},
        log_x=True,
    ),
    notes=(
        "Files of the state are mapped: their pages belong to the system, and all processes share them. A batch that "
        "merges files holds the merged rows meanwhile, two million at most.",
    ),
)
