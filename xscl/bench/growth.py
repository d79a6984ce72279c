"""``xscl bench growth``: what a batch takes as the state grows, when its answer does not."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from xscl.bench.baselines import Digests, digest, engine_digests
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import MODES, copy_home, count_queries, open_engine, queries_of_groups, register, run, take
from xscl.bench.plot import Plot
from xscl.bench.report import Report, Value, rounded
from xscl.bench.workload import RSS, Windows, thesis_queries
from xscl.engine import Engine
from xscl.session import start_session

__all__ = ["Sizes", "measure"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: int
    states: tuple[int, ...]
    """Items of the state."""
    batch: int
    warm: int
    batches: int
    load: int
    """Items of a batch in which the state is taken in."""


_FULL = Sizes(10_000, (10_000, 100_000, 1_000_000), 1_000, 5, 11, 25_000)
_QUICK = Sizes(300, (1_000, 4_000), 200, 1, 3, 4_000)


@dataclass(frozen=True, slots=True)
class _Level:
    """One size of the state in one mode; seconds are medians."""

    seconds: float
    jobs: int | None
    pairs: int
    digests: Digests


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Time batches over growing states; ``items`` is the greatest state."""
    sizes = _QUICK if quick else _FULL
    states = sizes.states if items is None else (*(n for n in sizes.states if n < items), items)
    sizes = replace(sizes, queries=queries or sizes.queries, states=states, batch=batch_docs or sizes.batch)
    spark = start_session()
    feed = ItemFeed(seed, reach=states[0])
    # As many items as the smallest state has: the answer of a batch is the same with every state.
    window = states[0] * feed.step_s * 1_000_000
    levels: dict[tuple[int, str], _Level] = {}
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        base = Path(folder) / "base"
        say(f"registering {sizes.queries:,} queries")
        with open_engine(base, spark) as engine:
            register(engine, thesis_queries(RSS, sizes.queries, seed=seed, windows=Windows(window, window)))
            templates, groups = count_queries(engine)
        for state in states:
            with open_engine(base, spark) as engine:
                say(f"taking in items up to {state:,}")
                take(engine, RSS.channel, feed.take(state - feed.made))
                run(engine, sizes.load)
            # The next items, which the base does not take in here.
            rest = list(deepcopy(feed).take(sizes.batch * (sizes.warm + sizes.batches)))
            for mode in MODES:
                say(f"{sizes.batches} batches over {state:,} items: {mode.name}")
                home = copy_home(base, Path(folder) / f"{state}{mode.suffix}")
                with open_engine(home, spark, driver_rows=mode.driver_rows) as engine:
                    levels[state, mode.suffix] = _level(engine, rest, sizes)
    figures: dict[str, Value] = {}
    for mode in MODES:
        seconds = {state: levels[state, mode.suffix].seconds for state in states}
        for state in states:
            figures[f"batch_at_{_short(state)}{mode.suffix}_s"] = rounded(seconds[state])
        for state in states[1:]:
            name = f"growth_{_short(states[0])}_to_{_short(state)}{mode.suffix}"
            figures[name] = rounded(seconds[state] / seconds[states[0]])
    figures |= {
        "templates": templates,
        "groups": groups,
        "digest_equal": all(
            len({digest(levels[state, mode.suffix].digests) for mode in MODES}) == 1 for state in states
        ),
    }
    return Report(
        bench="growth",
        settings={
            **asdict(sizes),
            "states": ", ".join(map(str, states)),
            "window_s": window // 1_000_000,
            "seed": seed,
        },
        figures=figures,
        table=tuple(
            {
                "state": state,
                "mode": mode.name,
                "seconds": rounded(levels[state, mode.suffix].seconds),
                "jobs": levels[state, mode.suffix].jobs,
                "pairs": levels[state, mode.suffix].pairs,
            }
            for state in states
            for mode in MODES
        ),
        plot=Plot(
            title=f"A batch of {sizes.batch:,} items under {sizes.queries:,} queries",
            x="items of state",
            y="seconds",
            lines={mode.name: tuple((state, levels[state, mode.suffix].seconds) for state in states) for mode in MODES},
            log_x=True,
        ),
        notes=(f"{sizes.warm} batches at each size go before those that are measured, and both grow the state.",),
    )


def _level(engine: Engine, items: list[tuple[int, str]], sizes: Sizes) -> _Level:
    runs = []
    for number in range(sizes.warm + sizes.batches):
        take(engine, RSS.channel, items[number * sizes.batch : (number + 1) * sizes.batch])
        runs.append(run(engine))
    asked = set(queries_of_groups(engine).values())
    last = runs[-1]
    return _Level(
        seconds=statistics.median(one.seconds for one in runs[sizes.warm :]),
        jobs=last.jobs,
        pairs=sum(report.pairs for report in last.reports),
        digests=engine_digests(engine, engine.home.catalog.shapes(), asked, last.first, last.last),
    )


def _short(number: int) -> str:
    """As names of figures have it.

    >>> _short(10_000), _short(1_000_000), _short(250)
    ('10k', '1m', '250')
    """
    for size, letter in ((1_000_000, "m"), (1_000, "k")):
        if number % size == 0:
            return f"{number // size}{letter}"
    return str(number)
