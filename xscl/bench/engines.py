"""Engines to measure: the two ways in which a batch is finished, homes that both start from, and timed batches."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from xscl.batch import BatchReport
from xscl.bench.load import require_all
from xscl.engine import Engine, connect
from xscl.settings import DEFAULT_SETTINGS
from xscl.tables import GROUPS, QUERIES, TEMPLATES
from xscl.types import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "MODES",
    "Mode",
    "Run",
    "copy_home",
    "count_queries",
    "open_engine",
    "queries_of_groups",
    "register",
    "run",
    "take",
]


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to finish a batch."""

    name: str
    suffix: str
    """Of the names of figures."""
    driver_rows: int | None
    """Up to how many rows the driver finishes a batch; None as the engine has it, 0: Spark's executors do all."""


MODES = (Mode("driver", "", None), Mode("executors", "_executors", 0))


def open_engine(
    home: Path, spark: SparkSession, *, driver_rows: int | None = None, cache_bytes: int | None = None
) -> Engine:
    """An engine on a home; None leaves a setting as it is without us.

    ``driver_rows``: as in ``Mode``; ``cache_bytes``: what the driver keeps of the join state at most.
    """
    given = {"driver_rows": driver_rows, "cache_bytes": cache_bytes}
    settings = replace(DEFAULT_SETTINGS, **{name: value for name, value in given.items() if value is not None})
    return connect(home=home, spark=spark, settings=settings)


def copy_home(base: Path, target: Path) -> Path:
    """Another home that is in the state of the first, so that variants start equal; nobody may have it open."""
    shutil.copytree(base, target)
    return target


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


def count_queries(engine: Engine) -> tuple[int, int]:
    """(templates, groups) of a home."""
    with engine.home.catalog.read() as connection:
        templates, groups = (
            connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0 for table in (TEMPLATES, GROUPS)
        )
    return templates, groups


def queries_of_groups(engine: Engine) -> dict[str, str]:
    """Of every query the one that stands for its group: the first that was registered."""
    firsts = sa.select(QUERIES.c.gid, sa.func.min(QUERIES.c.query).label("query")).group_by(QUERIES.c.gid).subquery()
    first = QUERIES.alias()
    statement = (
        sa.select(QUERIES.c.qid, first.c.qid.label("first"))
        .join(firsts, firsts.c.gid == QUERIES.c.gid)
        .join(first, first.c.query == firsts.c.query)
    )
    with engine.home.catalog.read() as connection:
        return {row.qid: row.first for row in connection.execute(statement)}


def take(engine: Engine, channel: str, documents: Iterable[tuple[int, str]]) -> float:
    """Take in documents (event time in seconds, XML), each with an id of its own; seconds, making them included."""
    began = time.perf_counter()
    first = engine.home.catalog.processed()[1]
    report = engine.ingest(
        Event(channel, f"d{first + place}", at, xml=xml) for place, (at, xml) in enumerate(documents, start=1)
    )
    assert not report.rejected and not report.duplicates, report
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Run:
    """One timed ``run_once``."""

    seconds: float
    """From its call to committed matches."""
    reports: Sequence[BatchReport]

    @property
    def first(self) -> int:
        """The first place of the intake order that it processed."""
        return self.reports[0].first

    @property
    def last(self) -> int:
        """The last place."""
        return self.reports[-1].last

    @property
    def prepare_s(self) -> float:
        """What went before documents were looked at: most of all planning, the first time."""
        return sum(report.prepare_s for report in self.reports)

    @property
    def jobs(self) -> int | None:
        """The most Spark jobs of a batch; None where Spark does not count them."""
        counts = [report.jobs for report in self.reports if report.jobs is not None]
        return max(counts, default=None)


def run(engine: Engine, batch_docs: int = 1_000_000) -> Run:
    """Process what was taken in, in one batch if nothing else is said."""
    began = time.perf_counter()
    reports = engine.run_once(batch_docs=batch_docs)
    return Run(time.perf_counter() - began, reports)
