"""``xscl bench rows``: rows of sensors through thousands of standing conditions and one join."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import sqlalchemy as sa

from xscl.bench.apart import peak_memory
from xscl.bench.engines import Run, open_engine, register, run
from xscl.bench.plot import Plot
from xscl.bench.report import Report, Value, rounded
from xscl.bench.sensors import CALIBRATIONS, JOIN, READINGS, SCHEMA, Condition, calibrations, conditions, readings
from xscl.engine import Engine
from xscl.ingest.records import RowOptions, RowTable
from xscl.session import start_session
from xscl.tables import QUERIES
from xscl.templates.results import RESULT_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sizes", "measure"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: tuple[int, ...]
    items: int
    """Readings with the most queries."""
    growth_items: int
    """Readings with fewer queries."""
    batch: int
    compared: int
    """Readings of the last batch on which numpy filters are run for all queries."""
    spark_sample: int


_FULL = Sizes((100, 1_000, 10_000), 10_000_000, 1_000_000, 1_000_000, 50_000, 20)
_QUICK = Sizes((100, 1_000), 40_000, 20_000, 20_000, 10_000, 3)
Documents = npt.NDArray[np.int64]
_LATENESS = "10 s"
_COLUMNS = tuple(column.split()[0] for column in SCHEMA.split(", "))


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream of readings under so many queries; seconds are sums over batches."""

    queries: int
    items: int
    intake_s: float
    seconds: float
    intake_cpu_s: float
    """Of this process, as all that follows; Java has no part in it."""
    cpu_s: Sequence[float]
    """Of each batch, without its intake."""
    peak_bytes: int
    """The most memory that the process has had until then."""
    runs: Sequence[Run]
    matches: int
    """Of the conditions; those of the join are not counted."""

    @property
    def rows_per_s(self) -> float:
        """From taken in to committed."""
        return self.items / self.seconds

    @property
    def mean_met(self) -> float:
        return self.matches / self.items

    def total(self, name: str) -> float:
        return float(sum(getattr(report, name) for each in self.runs for report in each.reports))


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Run the stream under growing numbers of conditions.

    ``queries`` is the greatest number of them, ``items`` the length of the stream.
    """
    sizes = _QUICK if quick else _FULL
    counts = sizes.queries if queries is None else (*(n for n in sizes.queries if n < queries), queries)
    sizes = replace(sizes, queries=counts, items=items or sizes.items, batch=batch_docs or sizes.batch)
    sizes = replace(
        sizes, growth_items=min(sizes.growth_items, sizes.items), compared=min(sizes.compared, sizes.batch, sizes.items)
    )
    spark = start_session()
    asked = list(islice(conditions(seed), counts[-1]))
    streams: list[_Stream] = []
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        for count in counts:
            say(f"{count:,} queries")
            with open_engine(Path(folder) / f"{count}", spark) as engine:
                length = sizes.items if count == counts[-1] else sizes.growth_items
                streams.append(_stream(engine, asked[:count], length, sizes.batch, seed, say))
                if count == counts[-1]:
                    say("baselines")
                    found = _baselines(engine, streams[-1], asked, sizes, seed, spark, say)
    figures = _figures(streams, found, sizes)
    return Report(
        bench="rows",
        settings={**asdict(sizes), "queries": ", ".join(map(str, counts)), "seed": seed},
        figures=figures,
        table=tuple(_row(stream) for stream in streams),
        plot=Plot(
            title="Rows of sensors through standing conditions and a join",
            x="conditions",
            y="rows a second",
            lines={"driver": tuple((stream.queries, stream.rows_per_s) for stream in streams)},
            log_x=True,
        ),
        notes=(
            "Conditions of five kinds by turns, each met by one reading of 5,000: of fewer conditions less is found.",
            f"One numpy filter a query: all queries on {sizes.compared:,} readings of the last batch, typed columns in "
            "memory, multiplied up to a batch.",
            f"One Spark statement a query: {sizes.spark_sample} queries on the last batch, cached with typed columns, "
            "multiplied up to all queries.",
            "A batch of a tenth of the size goes before each stream; it plans, and is not counted.",
        ),
    )


class _Taken(NamedTuple):
    seconds: float
    cpu_s: float


def _take(engine: Engine, seed: int, first: int, count: int) -> _Taken:
    """Take in readings and what is calibrated in their time; what that takes, without making them."""
    _, rows = readings(seed, first, count)
    others = calibrations(seed, first, count)
    began, began_cpu = time.perf_counter(), time.process_time()
    tables = [
        RowTable(READINGS, rows, f"r{first}", options=RowOptions(columns=_COLUMNS, ts="ts", ts_format="us")),
        RowTable(
            CALIBRATIONS, others, f"c{first}", options=RowOptions(columns=("node", "offset"), ts="ts", ts_format="us")
        ),
    ]
    report = engine.ingest(tables)
    assert report.taken == len(rows) + len(others), report
    return _Taken(time.perf_counter() - began, time.process_time() - began_cpu)


def _stream(
    engine: Engine, asked: Sequence[Condition], items: int, batch: int, seed: int, say: Callable[[str], None]
) -> _Stream:
    engine.add_channel(READINGS, kind="rows", schema=SCHEMA, lateness=_LATENESS)
    engine.add_channel(CALIBRATIONS, kind="rows", schema="node int, offset double", lateness=_LATENESS)
    texts = ((f"q{number}", f"{READINGS}/{READINGS}{each.text}") for number, each in enumerate(asked))
    register(engine, [*texts, ("join", JOIN)])
    warm = max(batch // 10, 1)
    _take(engine, seed, 0, warm)
    say(f"registered; planned in {run(engine).prepare_s:.1f} s")
    intake_s, intake_cpu_s, cpu_s, runs, matches = 0.0, 0.0, [], [], 0
    for first in range(warm, warm + items, batch):
        count = min(batch, warm + items - first)
        taken = _take(engine, seed, first, count)
        intake_s, intake_cpu_s = intake_s + taken.seconds, intake_cpu_s + taken.cpu_s
        began = time.process_time()
        runs.append(run(engine, 2 * batch))
        cpu_s.append(time.process_time() - began)
        matches += _single_matches(engine, runs[-1])
        say(
            f"{first - warm + count:,} rows: {count / runs[-1].seconds:,.0f} a second, "
            f"{cpu_s[-1] / count * 1e6:.2f} us of CPU a row; intake {count / taken.seconds:,.0f} a second, "
            f"{taken.cpu_s / count * 1e6:.2f} us; {peak_memory() / 1e6:,.0f} MB at most"
        )
    seconds = sum(each.seconds for each in runs)
    return _Stream(len(asked), items, intake_s, seconds, intake_cpu_s, cpu_s, peak_memory(), runs, matches)


def _results(engine: Engine, of: Run) -> Iterator[pa.Table]:
    """The rows of results of each batch of a run."""
    for report in of.reports:
        assert report.result_path is not None
        yield ds.dataset(engine.home.root / report.result_path, schema=RESULT_SCHEMA).to_table(
            ["relation", "class", "d1", "d2", "groups"]
        )


def _single_matches(engine: Engine, of: Run) -> int:
    """How many pairs of a document and a query of one block there are."""
    return sum(
        table.filter((ds.field("relation") == "docs") & ds.field("d2").is_null()).num_rows
        for table in _results(engine, of)
    )


def _found(engine: Engine, of: Run) -> dict[str, Documents]:
    """The documents of each condition in the last batch, rising."""
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
    """The queries of each group."""
    found: dict[int, list[str]] = {}
    with engine.home.catalog.read() as connection:
        for row in connection.execute(sa.select(QUERIES.c.gid, QUERIES.c.qid)):
            found.setdefault(row.gid, []).append(row.qid)
    return found


@dataclass(frozen=True, slots=True)
class _Baselines:
    numpy_s: float
    """One filter a query, for a batch."""
    spark_s: float
    """One statement a query, for a batch."""
    digest: str
    equal: bool


def _baselines(
    engine: Engine,
    stream: _Stream,
    asked: Sequence[Condition],
    sizes: Sizes,
    seed: int,
    spark: SparkSession,
    say: Callable[[str], None],
) -> _Baselines:
    last = stream.runs[-1]
    size = sizes.items % sizes.batch or min(sizes.batch, sizes.items)
    first = max(sizes.batch // 10, 1) + sizes.items - size
    found = _found(engine, last)
    columns, table = readings(seed, first, size)
    docids = last.first + np.arange(size)  # readings come before what is calibrated
    few = {name: column[: sizes.compared] for name, column in columns.items()}
    began = time.perf_counter()
    masks = [np.flatnonzero(each.holds(few)) for each in asked]
    numpy_s = (time.perf_counter() - began) * size / sizes.compared
    say(f"numpy, one filter a query: {numpy_s:,.3g} s a batch")
    until = docids[min(sizes.compared, size) - 1]
    none = np.empty(0, dtype=np.int64)
    ours, theirs = hashlib.sha256(), hashlib.sha256()
    for number, mask in enumerate(masks):
        own = found.get(f"q{number}", none)
        ours.update(f"{number}:".encode() + own[own <= until].tobytes())
        theirs.update(f"{number}:".encode() + docids[mask].tobytes())
    sample = np.random.default_rng(seed).choice(len(asked), size=min(sizes.spark_sample, len(asked)), replace=False)
    frame = spark.createDataFrame(table).cache()
    frame.count()
    frame.createOrReplaceTempView("xscl_bench_readings")

    def count(number: int) -> int:
        statement = f"select count(*) from xscl_bench_readings where {asked[number].sql}"
        return int(spark.sql(statement).first()[0])  # type: ignore[index]

    count(sample[0])  # what the first of all costs is no part of it
    began = time.perf_counter()
    counts = [count(number) for number in sample]
    spark_s = (time.perf_counter() - began) * len(asked) / len(sample)
    say(f"Spark, one statement a query: {spark_s:,.3g} s a batch")
    spark.catalog.dropTempView("xscl_bench_readings")
    frame.unpersist()
    same = all(len(found.get(f"q{number}", none)) == count for number, count in zip(sample, counts, strict=True))
    return _Baselines(numpy_s, spark_s, ours.hexdigest()[:16], same and ours.digest() == theirs.digest())


# -- what is shown --------------------------------------------------------------------------------------------------


def _figures(streams: Sequence[_Stream], found: _Baselines, sizes: Sizes) -> Mapping[str, Value]:
    stream, least = streams[-1], streams[0]
    batch_s = stream.runs[-1].seconds
    jobs = [each.jobs for each in stream.runs if each.jobs is not None]
    return {
        "rows_per_s": rounded(stream.rows_per_s),
        "intake_rows_per_s": rounded(stream.items / stream.intake_s),
        "rows_with_intake_per_s": rounded(stream.items / (stream.seconds + stream.intake_s)),
        "stage1_s": rounded(stream.total("stage1_s")),
        "join_s": rounded(stream.total("join_s")),
        "commit_s": rounded(stream.total("commit_s")),
        "prepare_s": rounded(stream.total("prepare_s")),
        "cpu_us_per_row": rounded(1e6 * sum(stream.cpu_s) / stream.items),
        "intake_cpu_us_per_row": rounded(1e6 * stream.intake_cpu_s / stream.items),
        "cpu_last_batch_to_first": rounded(stream.cpu_s[-1] / stream.cpu_s[0]) if _whole(stream, sizes) else None,
        "peak_bytes": stream.peak_bytes,
        "jobs_per_batch": max(jobs, default=None),
        "mean_met": rounded(stream.mean_met),
        "growth_100_to_10k_conditions": rounded(least.rows_per_s / stream.rows_per_s)
        if (least.queries, stream.queries) == (100, 10_000)
        else None,
        "matches": int(stream.total("matches")),
        "joined": int(stream.total("matches")) - stream.matches,
        "state_rows": stream.runs[-1].reports[-1].state_rows,
        "numpy_filters_batch_s": rounded(found.numpy_s),
        "speedup_over_numpy_filters": rounded(found.numpy_s / batch_s),
        "spark_statements_batch_s": rounded(found.spark_s),
        "speedup_over_spark_statements": rounded(found.spark_s / batch_s),
        "last_batch_s": rounded(batch_s),
        "results_digest": found.digest,
        "digest_equal": found.equal,
    }


def _whole(stream: _Stream, sizes: Sizes) -> bool:
    """Whether its batches are equally long, and several."""
    return stream.items % sizes.batch == 0 and len(stream.runs) > 1


def _row(stream: _Stream) -> dict[str, Value]:
    return {
        "conditions": stream.queries,
        "rows": stream.items,
        "seconds": rounded(stream.seconds),
        "rows_per_s": rounded(stream.rows_per_s),
        "mean_met": rounded(stream.mean_met),
        "cpu_us_per_row": rounded(1e6 * sum(stream.cpu_s) / stream.items),
        "intake_s": rounded(stream.intake_s),
        "stage1_s": rounded(stream.total("stage1_s")),
        "join_s": rounded(stream.total("join_s")),
        "commit_s": rounded(stream.total("commit_s")),
        "jobs_per_batch": max((each.jobs or 0 for each in stream.runs), default=0),
    }
