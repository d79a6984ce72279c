"""``xscl bench rows``: rows of sensors through thousands of standing conditions and one join."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import sqlalchemy as sa

from xscl.bench.apart import peak_memory
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_step, size
from xscl.bench.engines import Run, Watch, open_engine, register, run, watched
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.bench.sensors import CALIBRATIONS, JOIN, READINGS, SCHEMA, Condition, calibrations, conditions, readings
from xscl.catalog.tables import QUERIES
from xscl.engine import Engine
from xscl.ingest.records import RowOptions, RowTable
from xscl.templates.results import RESULT_SCHEMA

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
        intake.seconds, intake.cpu_s = intake.seconds + taken.seconds, intake.cpu_s + taken.cpu_s
        batch = run(engine, 2 * sizes.batch)
        runs.append(batch)
        matches += _single_matches(engine, batch)
        lab.say(
            f"{first - sizes.warm + count:,} rows: {count / batch.seconds:,.0f} a second, "
            f"{batch.cpu_s / count * 1e6:.2f} us of CPU a row; intake {count / taken.seconds:,.0f} a second, "
            f"{taken.cpu_s / count * 1e6:.2f} us; {peak_memory() / 1e6:,.0f} MB at most"
        )
    return runs, intake, matches


def _results(engine: Engine, of: Run) -> Iterator[pa.Table]:
    """Yield the rows of results of each batch of a run."""
    for report in of.reports:
        assert report.result_path is not None
        yield ds.dataset(engine.home.root / report.result_path, schema=RESULT_SCHEMA).to_table(
            ["relation", "class", "d1", "d2", "groups"]
        )


def _single_matches(engine: Engine, of: Run) -> int:
    """Count the pairs of a document and a query of one block."""
    return sum(
        table.filter((ds.field("relation") == "docs") & ds.field("d2").is_null()).num_rows
        for table in _results(engine, of)
    )


def _found(engine: Engine, of: Run) -> dict[str, Documents]:
    """Return the documents of each condition in a run, rising."""
    docs: dict[str, list[Documents]] = {}
    names = _names(engine)
    for table in _results(engine, of):
        single = table.filter((ds.field("relation") == "docs") & ds.field("d2").is_null())
        classes, docids = single.column("class").to_numpy(), single.column("d1").to_numpy()
        order = np.argsort(classes, kind="stable")
        classes, docids = classes[order], docids[order]
        meaning = table.filter(ds.field("relation") == "match")
        for number, groups in zip(
            meaning.column("class").to_pylist(), meaning.column("groups").to_pylist(), strict=True
        ):
            begin, end = np.searchsorted(classes, [number, number + 1])
            for gid in groups:
                for name in names[gid]:
                    docs.setdefault(name, []).append(docids[begin:end])
    return {name: np.unique(np.concatenate(parts)) for name, parts in docs.items()}


def _names(engine: Engine) -> dict[int, list[str]]:
    """Return the queries of each group."""
    found: dict[int, list[str]] = {}
    with engine.home.catalog.read() as connection:
        for row in connection.execute(sa.select(QUERIES.c.gid, QUERIES.c.qid)):
            found.setdefault(row.gid, []).append(row.qid)
    return found


def _baselines(
    lab: Lab[_Sizes], engine: Engine, asked: Sequence[Condition], last: Run
) -> tuple[dict[str, float], str, bool]:
    """Run one numpy filter, and one Spark statement, a query: seconds a batch, a digest, and whether they agree."""
    sizes, spark, few = lab.sizes, lab.spark, lab.sizes.filtered
    size = sizes.items % sizes.batch or min(sizes.batch, sizes.items)
    answers = _found(engine, last)
    columns, table = readings(lab.seed, sizes.warm + sizes.items - size, size)
    docids = last.span[0] + np.arange(size)  # readings come before what is calibrated
    sample = {name: column[:few] for name, column in columns.items()}
    began = time.perf_counter()
    masks = [np.flatnonzero(each.holds(sample)) for each in asked]
    numpy_s = (time.perf_counter() - began) * size / few
    lab.say(f"numpy, one filter a query: {numpy_s:,.3g} s a batch")
    none = np.empty(0, dtype=np.int64)
    ours, theirs = hashlib.sha256(), hashlib.sha256()
    for number, mask in enumerate(masks):
        own = answers.get(f"q{number}", none)
        ours.update(f"{number}:".encode() + own[own <= docids[min(few, size) - 1]].tobytes())
        theirs.update(f"{number}:".encode() + docids[mask].tobytes())
    numbers = np.random.default_rng(lab.seed).choice(
        len(asked), size=min(sizes.spark_sample, len(asked)), replace=False
    )
    frame = spark.createDataFrame(table).cache()
    frame.count()
    frame.createOrReplaceTempView("xscl_bench_readings")

    def count(number: int) -> int:
        statement = f"select count(*) from xscl_bench_readings where {asked[number].sql}"
        return int(spark.sql(statement).first()[0])  # type: ignore[index]

    count(numbers[0])  # what the first of all costs is no part of it
    began = time.perf_counter()
    counts = [count(number) for number in numbers]
    spark_s = (time.perf_counter() - began) * len(asked) / len(numbers)
    lab.say(f"Spark, one statement a query: {spark_s:,.3g} s a batch")
    spark.catalog.dropTempView("xscl_bench_readings")
    frame.unpersist()
    same = all(len(answers.get(f"q{number}", none)) == count for number, count in zip(numbers, counts, strict=True))
    seconds = {"numpy_filters": numpy_s, "spark_statements": spark_s}
    return seconds, ours.hexdigest()[:16], same and ours.digest() == theirs.digest()


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
