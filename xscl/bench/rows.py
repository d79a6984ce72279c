"""``xscl bench rows``: rows of sensors through thousands of standing conditions and one join."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import sqlalchemy as sa

from xscl.bench.apart import Watch, peak_memory, watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_step, size
from xscl.bench.engines import Run, open_engine, register, run
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.bench.sensors import (
    CALIBRATIONS,
    JOIN,
    READINGS,
    SCHEMA,
    Condition,
    calibrations,
    conditions,
    readings,
)
from xscl.catalog.tables import QUERIES
from xscl.engine import Engine
from xscl.ingest.records import RowOptions, RowTable
from xscl.templates.results import RESULT_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BENCH"]

Documents = npt.NDArray[np.int64]
_LATENESS = "10 s"
_COLUMNS = tuple(column.split()[0] for column in SCHEMA.split(", "))
_PARTS = ("stage1_s", "join_s", "commit_s", "prepare_s")


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((100, 1_000, 10_000), (100, 1_000))
    items: int = size(10_000_000, 40_000)
    """Readings with the most queries."""
    growth_items: int = size(1_000_000, 20_000)
    """Readings with fewer queries, at most."""
    batch: int = size(1_000_000, 20_000)
    compared: int = size(50_000, 10_000)
    """Readings of the last batch, at most, on which numpy filters are run for all queries."""
    spark_sample: int = size(20, 3)

    @property
    def warm(self) -> int:
        """Readings of the first batch, which plans, and is not counted."""
        return max(self.batch // 10, 1)

    @property
    def filtered(self) -> int:
        """Readings on which numpy filters are run."""
        return min(self.compared, self.batch, self.items)


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[list[Condition]]]:
    for count in lab.sizes.queries:
        yield Case(f"{count:,} queries", list(islice(conditions(lab.seed), count)))


def _measure(lab: Lab[_Sizes], case: Case[list[Condition]]) -> Outcome:
    """Run the stream; with the most queries also the baselines."""
    sizes, asked = lab.sizes, case.data
    with_baselines = len(asked) == sizes.queries[-1]
    items = sizes.items if with_baselines else min(sizes.growth_items, sizes.items)
    with open_engine(lab.new_folder() / "home", lab.spark) as engine:
        runs, intake, matches = _stream(lab, engine, asked, items)
        seconds, cpu_s = (sum(getattr(each, name) for each in runs) for name in ("seconds", "cpu_s"))
        jobs = [each.jobs for each in runs if each.jobs is not None]
        parts = {name: sum(each.total(name) for each in runs) for name in _PARTS}
        row = {
            "conditions": len(asked),
            "rows": items,
            "seconds": seconds,
            "rows_per_s": items / seconds,
            "mean_met": matches / items,
            "cpu_us_per_row": 1e6 * cpu_s / items,
            "intake_s": intake.seconds,
            **parts,
            "jobs_per_batch": max(jobs, default=None),
        }
        if not with_baselines:
            return Outcome(row, [row])
        stored = int(sum(each.total("matches") for each in runs))
        equal_batches = items % sizes.batch == 0 and len(runs) > 1
        figures = {
            "intake_rows_per_s": items / intake.seconds,
            "rows_with_intake_per_s": items / (seconds + intake.seconds),
            "intake_cpu_us_per_row": 1e6 * intake.cpu_s / items,
            "cpu_last_batch_to_first": runs[-1].cpu_s / runs[0].cpu_s if equal_batches else None,
            "peak_bytes": peak_memory(),
            "matches": stored,
            "joined": stored - matches,
            "state_rows": runs[-1].reports[-1].state_rows,
            "last_batch_s": runs[-1].seconds,
        }
        baselines, digest, agree = _baselines(lab, engine, asked, runs[-1])
    for name, baseline_s in baselines.items():
        figures |= {f"{name}_batch_s": baseline_s, f"speedup_over_{name}": baseline_s / runs[-1].seconds}
    return Outcome({**row, **figures}, [row], digest, agree)


def _take(engine: Engine, seed: int, first: int, count: int) -> Watch:
    """Take in readings and the calibrations in their time, and time that without making them."""
    _, rows = readings(seed, first, count)
    others = calibrations(seed, first, count)
    tables = [
        RowTable(channel, table, name, options=RowOptions(columns=columns, ts="ts", ts_format="us"))
        for channel, table, name, columns in (
            (READINGS, rows, f"r{first}", _COLUMNS),
            (CALIBRATIONS, others, f"c{first}", ("node", "offset")),
        )
    ]
    with watched() as watch:
        report = engine.ingest(tables)
    assert report.taken == len(rows) + len(others), report
    return watch


def _stream(lab: Lab[_Sizes], engine: Engine, asked: Sequence[Condition], items: int) -> tuple[list[Run], Watch, int]:
    """Run the stream batch by batch: the batches, the intake of all, and the matches of conditions without the join."""
    sizes = lab.sizes
    engine.add_channel(READINGS, kind="rows", schema=SCHEMA, lateness=_LATENESS)
    engine.add_channel(CALIBRATIONS, kind="rows", schema="node int, offset double", lateness=_LATENESS)
    texts = ((f"q{number}", f"{READINGS}/{READINGS}{each.text}") for number, each in enumerate(asked))
    register(engine, [*texts, ("join", JOIN)])
    _take(engine, lab.seed, 0, sizes.warm)
    lab.say(f"registered; planned in {run(engine).total('prepare_s'):.1f} s")
    runs, intake, matches = [], Watch(), 0
    for first in range(sizes.warm, sizes.warm + items, sizes.batch):
        count = min(sizes.batch, sizes.warm + items - first)
        taken = _take(engine, lab.seed, first, count)
        intake += taken
        batch = run(engine, 2 * sizes.batch)
        runs.append(batch)
        matches += sum(single.num_rows for single, _ in _results(engine, batch))
        lab.say(
            f"{first - sizes.warm + count:,} rows: {count / batch.seconds:,.0f} a second, "
            f"{batch.cpu_s / count * 1e6:.2f} us of CPU a row; intake {count / taken.seconds:,.0f} a second, "
            f"{taken.cpu_s / count * 1e6:.2f} us; {peak_memory() / 1e6:,.0f} MB at most"
        )
    return runs, intake, matches


def _results(engine: Engine, of: Run) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield the matches of one block, and the meaning of their classes, of each batch of a run."""
    columns = ["relation", "class", "d1", "d2", "groups"]
    for report in of.reports:
        assert report.result_path is not None
        table = ds.dataset(engine.home.root / report.result_path, schema=RESULT_SCHEMA).to_table(columns)
        single = (ds.field("relation") == "docs") & ds.field("d2").is_null()
        yield table.filter(single), table.filter(ds.field("relation") == "match")


def _found(engine: Engine, of: Run) -> dict[str, Documents]:
    """Return the documents of each condition in a run, rising."""
    docs: dict[str, list[Documents]] = defaultdict(list)
    names: dict[int, list[str]] = defaultdict(list)
    with engine.home.catalog.read() as connection:
        for row in connection.execute(sa.select(QUERIES.c.gid, QUERIES.c.qid)):
            names[row.gid].append(row.qid)
    for single, meaning in _results(engine, of):
        single = single.select(["class", "d1"]).sort_by("class")
        classes, docids = single.column("class").to_numpy(), single.column("d1").to_numpy()
        for row in meaning.select(["class", "groups"]).to_pylist():
            begin, end = np.searchsorted(classes, [row["class"], row["class"] + 1])
            for gid in row["groups"]:
                for name in names[gid]:
                    docs[name].append(docids[begin:end])
    return {name: np.unique(np.concatenate(parts)) for name, parts in docs.items()}


def _baselines(
    lab: Lab[_Sizes], engine: Engine, asked: Sequence[Condition], last: Run
) -> tuple[dict[str, float], str, bool]:
    """Run one numpy filter, and one Spark statement, a query: seconds a batch, a digest, and whether they agree."""
    sizes = lab.sizes
    size = sizes.items % sizes.batch or min(sizes.batch, sizes.items)
    found = _found(engine, last)
    answers = [found.get(f"q{number}", np.empty(0, dtype=np.int64)) for number in range(len(asked))]
    columns, table = readings(lab.seed, sizes.warm + sizes.items - size, size)
    few = min(sizes.filtered, size)
    numpy_s, places = _numpy_filters(asked, {name: column[:few] for name, column in columns.items()})
    docids = last.span[0] + np.arange(few)  # readings come before what is calibrated
    digest = _digest(own[own <= docids[-1]] for own in answers)
    agree = digest == _digest(docids[some] for some in places)
    numbers = np.random.default_rng(lab.seed).choice(
        len(asked), size=min(sizes.spark_sample, len(asked)), replace=False
    )
    spark_s, counts = _spark_statements(lab.spark, [asked[number] for number in numbers], table)
    agree &= counts == [len(answers[number]) for number in numbers]
    seconds = {"numpy_filters": numpy_s * size / few, "spark_statements": spark_s * len(asked) / len(numbers)}
    for name, baseline_s in seconds.items():
        lab.say(f"{name.replace('_', ' ')}, one a query: {baseline_s:,.3g} s a batch")
    return seconds, digest[:16], agree


def _numpy_filters(asked: Sequence[Condition], columns: dict[str, npt.NDArray[Any]]) -> tuple[float, list[Documents]]:
    """Filter the columns for each condition: seconds, and the places that meet it."""
    began = time.perf_counter()
    places = [np.flatnonzero(each.holds(columns)) for each in asked]
    return time.perf_counter() - began, places


def _spark_statements(spark: SparkSession, asked: Sequence[Condition], table: pa.Table) -> tuple[float, list[int]]:
    """Count the rows that meet each condition with a statement of its own: seconds, and the counts."""
    frame = spark.createDataFrame(table).cache()
    frame.count()
    frame.createOrReplaceTempView("xscl_bench_readings")

    def count(condition: Condition) -> int:
        statement = f"select count(*) from xscl_bench_readings where {condition.sql}"
        return int(spark.sql(statement).first()[0])  # type: ignore[index]

    count(asked[0])  # what the first of all costs is no part of it
    began = time.perf_counter()
    counts = [count(each) for each in asked]
    seconds = time.perf_counter() - began
    spark.catalog.dropTempView("xscl_bench_readings")
    frame.unpersist()
    return seconds, counts


def _digest(documents: Iterable[Documents]) -> str:
    """Digest the documents of each query."""
    digest = hashlib.sha256()
    for number, docids in enumerate(documents):
        digest.update(f"{number}:".encode() + docids.tobytes())
    return digest.hexdigest()


def _figures(_: _Sizes, results: Sequence[Result[list[Condition]]]) -> Row:
    least, most = results[0].figures, results[-1].figures
    is_whole = (least["conditions"], most["conditions"]) == (100, 10_000)
    return {**most, "growth_100_to_10k_conditions": least["rows_per_s"] / most["rows_per_s"] if is_whole else None}


BENCH = Bench(
    name="rows",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("driver", _measure),),
    table=by_step,
    figures=_figures,
    axes=Axes(
        "Rows of sensors through standing conditions and a join",
        x="conditions",
        y="rows a second",
        over="conditions",
        lines={"driver": "rows_per_s"},
        log_x=True,
    ),
    notes=(
        "Conditions of five kinds by turns, each met by one reading of 5,000: of fewer conditions less is found.",
        "One numpy filter a query: all queries on {s.filtered:,} readings of the last batch, typed columns in memory, "
        "multiplied up to a batch.",
        "One Spark statement a query: {s.spark_sample} queries on the last batch, cached with typed columns, "
        "multiplied up to all queries.",
        "A batch of a tenth of the size goes before each stream; it plans, and is not counted.",
    ),
)
