"""The crash matrix: ``python tests/bench/crash.py``, or ``make crash``.

A run of fifty batches, with queries added and dropped between them, is ended at random steps: in this process, where
everything in memory is thrown away and the home is opened again, and by SIGKILL in processes of its own.  It must come
to what the run comes to that nobody ends: the same matches with the same ids and documents, events, late and rejected
events, none lost and none twice.  Equal seeds, equal points.  It exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from crashes import Run, crashed, differences, killed, outcome_of, reached, workload

import xscl
from xscl.base.settings import Settings
from xscl.catalog.tables import BATCHES


@dataclass
class Matrix:
    """Points at which runs of one kind were ended, and what was wrong."""

    kind: str
    seed: int
    rounds: int
    settings: Settings
    folder: Path
    hits: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    runs: int = 0
    seconds: float = 0.0

    def go(self, points: int, at_most: int, arguments: list[str]) -> None:
        """End runs at so many points, at most so many of them in one run."""
        began = time.perf_counter()
        rounds = workload(self.seed, self.rounds)
        steady = Run(self.folder / "steady", rounds, self.settings)
        counts = reached(steady)
        self.seconds = time.perf_counter() - began
        batches, expected = self._batches(steady), outcome_of(steady)
        print(
            f"{self.kind}: a run has {batches} batches and {sum(counts.values()):,} steps of {len(counts)} kinds, ",
            end="",
        )
        print(f"{len(expected['matches']):,} matches, and takes {self.seconds:.1f} s", flush=True)
        generator = random.Random(f"{self.seed} {self.kind}")
        end: Callable[[Run, str, int], bool] = crashed
        if self.kind == "killed":
            end = lambda run, at, times: killed(run, at, times, arguments)  # noqa: E731
        while sum(self.hits.values()) < points:
            self.runs += 1
            run = Run(self.folder / f"run-{self.runs}", rounds, self.settings)
            ended = []
            for _ in range(min(at_most, points - sum(self.hits.values()))):
                at = generator.choice(sorted(counts))
                times = generator.randint(1, max(1, counts[at] // at_most))
                if not end(run, at, times):
                    break
                ended.append(f"{at}:{times}")
                self.hits[at] += 1
            run.play()
            wrong = differences(expected, outcome_of(run))
            if wrong:
                self.failures.append(f"{self.kind}, seed {self.seed}, {' '.join(ended)}: {'; '.join(wrong)}")
                print(self.failures[-1], flush=True)
            else:
                shutil.rmtree(run.folder)
            if self.runs % 5 == 0:
                print(f"  {self.hits.total()} points in {self.runs} runs", flush=True)
        self.seconds = time.perf_counter() - began

    def _batches(self, run: Run) -> int:
        with xscl.connect(home=run.folder / "home") as engine:
            return len(engine.home.catalog.rows(BATCHES))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the workload and the points")
    parser.add_argument("--rounds", type=int, default=50, help="batches of a run, about")
    parser.add_argument("--points", type=int, default=180, help="points in this process, where the driver joins")
    parser.add_argument("--spark", type=int, default=20, help="points where tasks of Spark join, in a shorter run")
    parser.add_argument("--kills", type=int, default=20, help="points at which a process is killed")
    parser.add_argument("--together", type=int, default=8, help="points in one run at most")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="xscl-crash-"))
    short = max(2, given.rounds // 10)
    kinds = [
        (Matrix("driver", given.seed, given.rounds, Settings(), folder / "d"), given.points, given.together),
        (
            Matrix("spark", given.seed, short, Settings("spark"), folder / "e"),
            given.spark,
            given.together,
        ),
        (Matrix("killed", given.seed, given.rounds, Settings(), folder / "k"), given.kills, min(4, given.together)),
    ]
    for matrix, points, together in kinds:
        if points:
            matrix.folder.mkdir()
            matrix.go(points, together, ["--seed", str(given.seed), "--rounds", str(matrix.rounds)])
    names = sorted(set().union(*(matrix.hits for matrix, *_ in kinds)))
    width = max(map(len, names))
    print(f"\n{'step':{width}} {' '.join(f'{matrix.kind:>9}' for matrix, *_ in kinds)}")
    for name in [*names, "all"]:
        hits = [matrix.hits.total() if name == "all" else matrix.hits[name] for matrix, *_ in kinds]
        print(f"{name:{width}} {' '.join(f'{hit:9}' for hit in hits)}")
    for matrix, *_ in kinds:
        print(f"{matrix.kind}: {matrix.hits.total()} points in {matrix.runs} runs, ", end="")
        print(f"{len(matrix.failures)} runs with another outcome, {matrix.seconds:.0f} s")
    failures = [failure for matrix, *_ in kinds for failure in matrix.failures]
    if failures:
        print(f"what failed is kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
