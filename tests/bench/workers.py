"""Large batches on one, two and four executors of one core each: how the time falls.

    python tests/bench/workers.py [--items 100000] [--batch-docs 25000] [--workers 1,2,4]

Each cluster works on a copy of the same home, in a process of its own.  The first batch warms its workers; of the
others the time on the wall and the processor time are told, and how many times as fast they are as on the first
cluster.  The script ends with 1 if clusters find different numbers of rows.  A machine with fewer free cores than
executors shows no more than it has.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from xscl.base.settings import Settings
from xscl.base.types import Event
from xscl.bench.apart import watched
from xscl.bench.documents import ItemFeed
from xscl.bench.workload import RSS, require_all, thesis_queries
from xscl.engine import connect


def make_home(home: Path, queries: int, items: int) -> None:
    with connect(home=home) as engine:
        require_all(engine.register_many(thesis_queries(RSS, queries)))
        feed = ItemFeed(1)
        engine.ingest(Event(RSS.channel, f"i{n}", ts, xml=xml) for n, (ts, xml) in enumerate(feed.take(items)))


def work(home: str, master: str, batch_docs: int) -> dict[str, list[float]]:
    """Run the batches of a home on a cluster."""
    found: dict[str, list[float]] = {"wall_s": [], "cpu_s": [], "rows": []}
    with connect(home=home, master=master, settings=Settings(where="spark")) as engine:
        engine.spark.range(1).count()
        while True:
            only_one = chain([False], repeat(True))
            with watched() as watch:
                reports = engine.run_once(batch_docs=batch_docs, stop=lambda given=only_one: next(given))
            if not reports:
                return found
            for name, value in (("wall_s", watch.seconds), ("cpu_s", watch.cpu_s), ("rows", reports[0].rout)):
                found[name].append(value)
            print(f"{master}: {reports[0].rout} rows, {watch.seconds:.1f} s, cpu {watch.cpu_s:.1f} s", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--batch-docs", type=int, default=25_000)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--on", nargs=2, metavar=("HOME", "MASTER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.on:
        print(json.dumps(work(*given.on, given.batch_docs)))
        return 0
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        make_home(base, given.queries, given.items)
        for number in given.workers.split(","):
            home, master = Path(folder, number), f"local-cluster[{number},1,1024]"
            shutil.copytree(base, home)
            command = [sys.executable, __file__, "--batch-docs", str(given.batch_docs), "--on", str(home), master]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results[number] = json.loads(done.stdout.splitlines()[-1])
    first = next(iter(results.values()))
    for number, found in results.items():
        wall, cpu = sum(found["wall_s"][1:]), sum(found["cpu_s"][1:])
        faster = sum(first["wall_s"][1:]) / max(wall, 1e-9)
        print(f"{number} executors: {wall:.1f} s, cpu {cpu:.1f} s, {faster:.2f} times as fast as the first")
    return 0 if all(found["rows"] == first["rows"] for found in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
