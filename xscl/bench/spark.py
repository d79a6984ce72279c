"""``xscl bench spark``: what batches of several sizes cost in this process and in tasks of Spark, side by side.

Two engines begin with copies of one home and take the same items, turn about, so both meet the same load of the
machine.  Costs are processor seconds of all processes.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xscl.bench.apart import watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Sizes, Variant, by_step, size
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import DRIVER, SPARK, Document, Run, new_base, open_engine, run_parts
from xscl.bench.plot import Axes
from xscl.bench.relations import all_digests, digest
from xscl.bench.report import Row, Value
from xscl.bench.workload import RSS, thesis_queries
from xscl.engine import Engine

__all__ = ["BENCH"]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(10_000, 500)
    items: int = size(12_000, 2_000)
    """Items of state before the first batch that is measured."""
    batches: tuple[int, ...] = size((10, 5_000, 25_000), (10, 1_000))
    """Items of a batch, by size."""
    rounds: int = size(9, 2)
    """Batches of each size; the first one of a size is not counted, because it makes what is made only once.  Files of
    events are merged beside one of eight batches, and those of join state beside each sixth, or third in tasks.
    """
    compared: int = size(10, 1_000)
    """Items of the largest batch whose answers are compared one by one; of larger ones their numbers are."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[list[list[Document]]]]:
    sizes = lab.sizes
    base, counts = new_base(lab, sizes.queries, thesis_queries(RSS, sizes.queries, seed=lab.seed))
    feed = ItemFeed(lab.seed)
    lab.say(f"taking in {sizes.items:,} items")
    with open_engine(base, lab.spark) as engine:
        run_parts(engine, RSS.channel, [list(feed.take(sizes.items))])
    parts = [list(feed.take(count)) for count in sizes.batches for _ in range(sizes.rounds)]
    yield Case(f"{sizes.queries:,} queries over {sizes.items:,} items", parts, counts, base)


def _measure(lab: Lab[_Sizes], case: Case[list[list[Document]]]) -> Outcome:
    assert case.home is not None
    homes = [shutil.copytree(case.home, lab.new_folder() / "home") for _ in range(2)]
    with open_engine(homes[0], lab.spark, DRIVER) as here, open_engine(homes[1], lab.spark, SPARK) as there:
        runs = [_round(lab, (here, there), part) for part in case.data]
        # Statements that compare all answers of a large batch would take longer than all batches.
        few = [each for each in runs if each.items <= lab.sizes.compared]
        digests = [all_digests(engine, *(each.runs[at] for each in few)) for at, engine in enumerate((here, there))]
    rows = [each.row(number, counted=number % lab.sizes.rounds > 0) for number, each in enumerate(runs)]
    agrees = digests[0] == digests[1] and all(each.agrees for each in runs)
    return Outcome(_figures(lab.sizes, runs), rows=rows, digest=digest(digests[0]), agrees=agrees)


@dataclass(frozen=True, slots=True)
class _Round:
    """A batch in both places."""

    items: int
    empty_job_s: float
    runs: tuple[Run, Run]

    @property
    def agrees(self) -> bool:
        """Whether both have found as much."""
        names = ("rout", "matches", "witnesses", "links")
        return all(self.runs[0].total(name) == self.runs[1].total(name) for name in names)

    def row(self, number: int, *, counted: bool) -> Row:
        """Return the row of the table."""
        here, there = self.runs
        return {
            "batch": number + 1,
            "items": self.items,
            "counted": counted,
            "cpu_s": here.cpu_s,
            "cpu_spark_s": there.cpu_s,
            "seconds": here.seconds,
            "seconds_spark": there.seconds,
            "spark_here_s": there.spent.here,
            "spark_java_s": there.spent.java,
            "spark_workers_s": there.spent.workers,
            "empty_job_s": self.empty_job_s,
            "jobs": there.jobs,
            "pairs": here.total("pairs"),
        }


def _round(lab: Lab[_Sizes], engines: tuple[Engine, Engine], part: list[Document]) -> _Round:
    lab.say(f"{len(part):,} items")
    with watched() as empty:
        lab.spark.range(1).collect()
    here, there = (run_parts(engine, RSS.channel, [part])[0] for engine in engines)
    return _Round(len(part), empty.seconds, (here, there))


def _figures(sizes: _Sizes, runs: Sequence[_Round]) -> dict[str, Value]:
    """Return for each size how many times the processor and the wall time of this process tasks take."""
    figures: dict[str, Value] = {}
    for count in sizes.batches:
        mine = [each for number, each in enumerate(runs) if each.items == count and number % sizes.rounds]
        cpu, seconds = (
            [sum(getattr(e.runs[at], name) for e in mine) for at in (0, 1)] for name in ("cpu_s", "seconds")
        )
        parts = ("here", "java", "workers")
        division = {name: statistics.fmean(getattr(each.runs[1].spent, name) for each in mine) for name in parts}
        empty = statistics.median(each.empty_job_s for each in mine)
        figures |= {
            f"cpu_ratio_{count}": cpu[1] / cpu[0],
            f"median_cpu_s_{count}": statistics.median(each.runs[0].cpu_s for each in mine),
            f"median_cpu_spark_s_{count}": statistics.median(each.runs[1].cpu_s for each in mine),
            **{f"{name}_spark_s_{count}": seconds for name, seconds in division.items()},
            f"seconds_ratio_{count}": seconds[1] / seconds[0],
            f"empty_jobs_{count}": statistics.median(each.runs[1].seconds for each in mine) / empty,
            f"jobs_{count}": max((each.runs[1].jobs or 0) for each in mine),
        }
    return figures


BENCH = Bench(
    name="spark",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("", _measure),),
    table=by_step,
    axes=Axes(
        "Batches in this process and in tasks of Spark, {s.queries:,} queries",
        x="batch",
        y="processor seconds of all processes",
        over="batch",
        lines={"this process": "cpu_s", "tasks of Spark": "cpu_spark_s"},
    ),
    notes=(
        "Of each size the first batch is not counted. `cpu_ratio_…` is the processor time of batches in tasks, all "
        "together, as a multiple of that in this process. `here_spark_s_…` is this process's share of a batch in "
        "tasks; `java_…` and `workers_…` are those of Java and of its Python workers. `empty_jobs_…` is the time of "
        "a batch as a multiple of `spark.range(1).collect()`, once before every batch.",
    ),
)
