"""Batches on clusters of one worker, two and four on this machine: the time by the clock, and processor time.

    python tests/bench/workers.py [--workers 1,2,4] [--items 25000] [--batches 6] [--queries 10000]

Every cluster (``local-cluster``: workers are processes of their own, of one core) begins with a copy of one home and
gets the same batches; the first one, in which workers load the queries, does not count.  This process alone goes
before them.  The script ends with 1 if answers differ.  No more workers than cores are any faster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xscl.base.settings import Settings
from xscl.bench.apart import run_apart
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import register, run_parts
from xscl.bench.workload import RSS, thesis_queries
from xscl.engine import connect

_STATE = 12_000
"""Items of state before the first batch."""


def measure(_: Callable[[str], None], *, home: str, workers: int, items: int, batches: int) -> dict[str, Any]:
    """Process batches, on a cluster of so many workers; 0: in this process."""
    feed = ItemFeed(1)
    list(feed.take(_STATE))
    master = f"local-cluster[{workers},1,1024]" if workers else None
    settings = Settings("spark" if workers else "driver")
    with connect(home=Path(home), settings=settings, master=master) as engine:
        if workers:
            # All workers are there before the first batch.
            engine.spark.range(0, workers, 1, workers).collect()
        runs = run_parts(engine, RSS.channel, (list(feed.take(items)) for _ in range(batches + 1)))
    return {
        "seconds": statistics.median(each.seconds for each in runs[1:]),
        "cpu_s": statistics.median(each.cpu_s for each in runs[1:]),
        "matches": [each.total("matches") for each in runs],
        "jobs": runs[-1].jobs,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--items", type=int, default=25_000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--queries", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        with connect(home=base, settings=Settings("driver")) as engine:
            register(engine, thesis_queries(RSS, options.queries, seed=1))
            run_parts(engine, RSS.channel, [list(ItemFeed(1).take(_STATE))])
        found = {}
        for workers in (0, *map(int, options.workers.split(","))):
            home = shutil.copytree(base, Path(folder, f"home{workers}"))
            settings = {"home": str(home), "workers": workers, "items": options.items, "batches": options.batches}
            told = found[workers] = run_apart(measure, settings, lambda _: None)
            first = found.get(1, told)["seconds"]
            print(
                f"{workers or 'no'} workers: {told['seconds']:.3f} s, {told['cpu_s']:.3f} s of processor time, "
                f"{told['jobs'] or 0} jobs, {first / told['seconds']:.2f} times as fast as one",
                flush=True,
            )
            shutil.rmtree(home)
    return len({tuple(each["matches"]) for each in found.values()}) > 1


if __name__ == "__main__":
    # The processes that measure find this module by its name.
    measure.__module__ = Path(__file__).stem
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    sys.exit(main())
