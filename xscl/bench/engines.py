"""Engines to measure: the places in which a batch is finished, homes that variants start from, and timed batches."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa

from xscl.base.settings import Settings, Where
from xscl.base.types import Event
from xscl.batches.report import BatchReport
from xscl.bench.apart import Spent, watched
from xscl.bench.bench import Case, Lab, Outcome, Sizes, Variant
from xscl.bench.report import Value
from xscl.bench.workload import RSS, count_queries, require_all
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.tables import QUERIES
from xscl.engine import Engine, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DRIVER",
    "MODES",
    "SPARK",
    "Document",
    "Mode",
    "Run",
    "in_modes",
    "new_base",
    "on_copy",
    "open_engine",
    "queries_of_groups",
    "register",
    "run",
    "run_parts",
    "take",
]

S = TypeVar("S", bound=Sizes)
D = TypeVar("D")
Document = tuple[int, str]
"""Event time in seconds, and XML."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A place in which batches are finished."""

    name: str
    suffix: str
    where: Where


DRIVER, SPARK = MODES = Mode("driver", "", "driver"), Mode("spark", "_spark", "spark")


def open_engine(home: Path, spark: SparkSession, mode: Mode = DRIVER) -> Engine:
    """Open an engine on a home."""
    return connect(home=home, spark=spark, settings=Settings(mode.where))


def on_copy(mode: Mode, measure: Callable[[Lab[S], Case[D], Engine], Outcome]) -> Variant[S, D]:
    """Make a variant that measures an engine on a copy of the case's home."""

    def measure_copy(lab: Lab[S], case: Case[D]) -> Outcome:
        assert case.home is not None
        home = shutil.copytree(case.home, lab.new_folder() / "home")
        with open_engine(home, lab.spark, mode) as engine:
            return measure(lab, case, engine)

    return Variant(mode.name, measure_copy, mode.suffix)


def in_modes(measure: Callable[[Lab[S], Case[D], Engine], Outcome]) -> tuple[Variant[S, D], ...]:
    """Make the two variants that every batch has: worked on in this process, and in tasks of Spark."""
    return tuple(on_copy(mode, measure) for mode in MODES)


def register(engine: Engine, texts: Iterable[tuple[str, str]]) -> float:
    """Register all of them; seconds.

    Raises:
        EngineError: one was refused.
    """
    began = time.perf_counter()
    outcomes = engine.register_many(texts)
    seconds = time.perf_counter() - began
    require_all(outcomes)
    return seconds


def new_base(
    lab: Lab[S], queries: int, texts: Iterable[tuple[str, str]], lateness: str | None = None
) -> tuple[Path, dict[str, Value]]:
    """Register queries in a new home, and return its folder and the figures ``templates``, ``groups``, ``register_s``.

    ``lateness`` is that of the channel of feed items.
    """
    lab.say(f"registering {queries:,} queries")
    base = lab.new_folder() / "base"
    with open_engine(base, lab.spark) as engine:
        if lateness is not None:
            engine.add_channel(RSS.channel, lateness=lateness)
        register_s = register(engine, texts)
        return base, {**engine.home.catalog.ask(count_queries), "register_s": register_s}


def queries_of_groups(engine: Engine) -> dict[str, str]:
    """Return the query that stands for the group of each query: the first that was registered."""
    first = sa.func.first_value(QUERIES.c.qid).over(partition_by=QUERIES.c.gid, order_by=QUERIES.c.query)
    statement = sa.select(QUERIES.c.qid, first.label("first"))
    with engine.home.catalog.read() as connection:
        return {row.qid: row.first for row in connection.execute(statement)}


def take(engine: Engine, channel: str, documents: Iterable[Document]) -> float:
    """Take documents in, each with an id of its own; seconds, making them included."""
    began = time.perf_counter()
    first = engine.home.catalog.ask(read_last_places)[1]
    report = engine.ingest(
        Event(channel, f"d{first + place}", at, xml=xml) for place, (at, xml) in enumerate(documents, start=1)
    )
    assert not report.rejected and not report.duplicates, report
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Run:
    """One timed ``run_once``."""

    seconds: float
    """Seconds from its call to committed matches."""
    reports: Sequence[BatchReport]
    spent: Spent = Spent()
    """Processor time meanwhile."""

    @property
    def cpu_s(self) -> float:
        """Processor time of all processes."""
        return self.spent.total

    @property
    def span(self) -> tuple[int, int]:
        """First and last place of the intake order that it processed."""
        return self.reports[0].first, self.reports[-1].last

    @property
    def jobs(self) -> int | None:
        """Most Spark jobs of a batch; None where Spark does not count them."""
        return max((report.jobs for report in self.reports if report.jobs is not None), default=None)

    def total(self, name: str) -> float:
        """Sum up a number of the batches' reports; ``prepare_s`` is planning, most of all, the first time."""
        return float(sum(getattr(report, name) for report in self.reports))


def run(engine: Engine, batch_docs: int = 1_000_000) -> Run:
    """Process everything that was taken in, in one batch if nothing else is said."""
    with watched() as watch:
        reports = engine.run_once(batch_docs=batch_docs)
    return Run(watch.seconds, reports, watch.spent)


def run_parts(engine: Engine, channel: str, parts: Iterable[Iterable[Document]]) -> list[Run]:
    """Take in one part after another, and process each in a batch."""
    runs = []
    for part in parts:
        take(engine, channel, part)
        runs.append(run(engine))
    return runs
