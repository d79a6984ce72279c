"""Baselines of stage 2 on the same witnesses: the thesis' statements, and one query after another.

All read the relations of the home (``r_doc``, ``r_bin``, ``r_docts``, ``rt_<template>``) with the statement of the
template (``templates/statements/sql.py``).  The thesis joins the relations of a batch, W, with those of all documents:
the right side of a statement reads the batch only.  R_T has one row for each *group*: what many queries ask alike is
asked once, here too.
"""

from __future__ import annotations

import random
import re
import sqlite3
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from xscl.base.values import value_hash
from xscl.bench.relations import (
    READ,
    Digests,
    Relations,
    collected,
    digest_select,
    engine_digests,
    row_columns,
    sample_queries,
)
from xscl.engine import Engine
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.relations import rt_table
from xscl.templates.statements.sql import cq_statement
from xscl.templates.template import Template

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BASELINES", "SAMPLED", "Estimate", "Prepared", "Samples", "SparkRelations", "measure_baselines"]

_BUDGET = 4_000_000
"""Rows of R_T times documents up to which a statement is run whole: it looks at every combination of them."""


# -- statements on Spark -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time and answers of a baseline."""

    seconds: float
    measured: int
    """Statements that were run whole."""
    digests: Digests
    asked: frozenset[str]
    """Queries that were asked, and that the digests are of."""

    def agrees(self, engine: Digests) -> bool:
        """Tell whether an engine has the same rows of the queries that were asked."""
        return all(self.digests.get(qid) == engine.get(qid) for qid in self.asked)


def delta_text(template: Template) -> str:
    """Return the statement with the batch's relations (``r_docw``, ``r_binw``, ``r_doctsw``) on the right side."""
    return _with_batch(template, spark_text(cq_statement(template, streams=False, exchanges=False, guards=False)))


def _with_batch(template: Template, text: str) -> str:
    aliases = {f"b{place + 1}": "r_bin" for place, block in enumerate(template.blocks) if block == 1}
    for number, (left, right, _) in enumerate(template.joins, start=1):
        aliases |= {
            f"{side}{number}": "r_doc" for side, place in (("l", left), ("r", right)) if template.blocks[place] == 1
        }
    aliases["d2"] = "r_docts"
    for alias, name in aliases.items():
        text = re.sub(rf"\b{name} AS {alias}\b", f"{name}w AS {alias}", text)
    return text


class SparkRelations:
    """The relations as cached tables of a Spark session of their own."""

    def __init__(self, spark: SparkSession, relations: Relations) -> None:
        self.relations = relations
        self.session = spark.newSession()
        self._made: list[str] = []
        for table in READ:
            whole = self.session.read.parquet(str(relations.folder / table.name))
            self._cache(table.name, whole)
            self._cache(f"{table.name}w", whole.where(whole.docid.between(relations.first, relations.last)))

    def _cache(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(name)
        self.session.catalog.cacheTable(name)
        self.session.table(name).count()
        self._made.append(name)

    def materialise(self, name: str, text: str) -> int:
        """Make a cached table of a statement over the others; its number of rows."""
        self._cache(name, self.session.sql(text))
        return self.session.table(name).count()

    def close(self) -> None:
        """Give the memory back."""
        for name in self._made:
            self.session.catalog.uncacheTable(name)

    def _with_rt(self, template: Template, rows: pa.Table, text: str, repetitions: int) -> tuple[float, Digests]:
        """Set R_T of a template, and return median seconds after a first run, and digests, of a statement."""
        name = f"rt_{template.id}"
        if name in self._made:
            self.session.catalog.uncacheTable(name)
            self._made.remove(name)
        self._cache(name, self.session.createDataFrame(rows))
        _, *runs = (self.timed(text) for _ in range(1 + repetitions))
        return statistics.median(seconds for seconds, _ in runs), runs[-1][1]

    def timed(self, text: str) -> tuple[float, Digests]:
        """Execute a statement of digests; return its seconds and the digests."""
        began = time.perf_counter()
        found = collected(self.session.sql(text))
        return time.perf_counter() - began, found

    def statements(self, texts: Mapping[str, str], *, repetitions: int, most: int | None) -> Estimate:
        """Run one statement for each template, by template id; times are medians after one run that is not counted.

        R_T of a large template is cut to what ``_BUDGET`` allows, and the time extrapolated along a line through that
        of half as many rows and of as many; of templates with equally many joins ``most`` are measured and stand for
        the others (None: all).  Digests are of the queries that were asked.
        """
        seconds: dict[int, list[float]] = defaultdict(list)
        count: dict[int, int] = defaultdict(int)
        found: dict[str, tuple[int, int]] = {}
        asked: set[str] = set()
        measured = 0
        for template in self.relations.templates:
            joins = len(template.joins)
            count[joins] += 1
            if most is not None and len(seconds[joins]) >= most:
                continue
            rows = self.relations.rt[template.id]
            text = digest_select(template, f"({texts[template.id]})")
            fitting = max(2, _BUDGET // self.relations.documents)
            part = rows.slice(0, fitting)
            spent, digests = self._with_rt(template, part, text, repetitions)
            found |= digests
            asked.update(part.column("qid").to_pylist())
            if rows.num_rows > fitting:
                less, _ = self._with_rt(template, rows.slice(0, fitting // 2), text, repetitions)
                a_row = max(0.0, spent - less) / (fitting - fitting // 2)
                spent += a_row * (rows.num_rows - fitting)
            else:
                measured += 1
            seconds[joins].append(spent)
        total = sum(statistics.fmean(seconds[joins]) * number for joins, number in count.items())
        return Estimate(total, measured, found, frozenset(asked))

    def plain_statements(self, *, repetitions: int, most: int | None) -> Estimate:
        """Run the statement as it is defined, for each template."""
        texts = {template.id: delta_text(template) for template in self.relations.templates}
        return self.statements(texts, repetitions=repetitions, most=most)

    def one_by_one(self, qids: Sequence[str], queries: int) -> Estimate:
        """Execute one statement for each of these queries, with its row of R_T written into it; estimate the seconds of
        ``queries``.
        """
        templates = self.relations.template_of()
        spent = []
        found: dict[str, tuple[int, int]] = {}
        for place, qid in enumerate([qids[0], *qids]):
            template = templates[qid]
            rows = self.relations.rt[template.id]
            (row,) = rows.filter(pa.compute.equal(rows.column("qid"), qid)).to_pylist()
            constants = ", ".join(f"{_literal(value)} as `{name}`" for name, value in row.items())
            name = f"rt_{template.id} AS rt"
            text = delta_text(template).replace(name, f"(select {constants}) AS rt")
            assert name not in text
            seconds, digests = self.timed(digest_select(template, f"({text})"))
            found |= digests
            if place:  # the first run warms up
                spent.append(seconds)
        return Estimate(statistics.fmean(spent) * queries, 0, found, frozenset(qids))


def _literal(value: object) -> str:
    match value:
        case None:
            return "cast(null as double)"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case float():
            return f"cast({value!r} as double)"
    return f"cast({value} as bigint)"


# -- prepared statements in this process ------------------------------------------------------------------------------


class Prepared:
    """The relations in SQLite, in memory and indexed: a statement for each template, prepared once, with parameters."""

    _INDEXES = (
        "create index r_doc_value on r_doc (strval, fn, docid, node)",
        "create index r_doc_node on r_doc (docid, node, fn, strval)",
        "create index r_bin_lower on r_bin (docid, node2, var1, var2, node1)",
        "create index r_bin_vars on r_bin (docid, var1, var2, node1, node2)",
        "create unique index r_docts_docid on r_docts (docid)",
    )

    def __init__(self, relations: Relations) -> None:
        self.relations = relations
        self.database = sqlite3.connect(":memory:", cached_statements=1_000)
        for table in READ:
            self._create(table, pq.read_table(relations.folder / table.name))
        for template in relations.templates:
            self._create(rt_table(template), relations.rt[template.id])
            self.database.execute(f"create unique index rt_{template.id}_qid on rt_{template.id} (qid, `case`)")
        for statement in self._INDEXES:
            self.database.execute(statement)
        self.database.execute("analyze")

    def _create(self, table: sa.Table, rows: pa.Table) -> None:
        types = {column.name: column.type.compile(sqlite.dialect()) for column in table.columns}
        declared = ", ".join(f"`{column}` {types[column]}" for column in rows.column_names)
        self.database.execute(f"create table {table.name} ({declared})")
        places = ", ".join("?" * rows.num_columns)
        values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        self.database.executemany(f"insert into {table.name} values ({places})", values)

    def close(self) -> None:
        """Give the memory back."""
        self.database.close()

    def text(self, template: Template) -> str:
        """Return the statement for one query (``:qid``) and one new document (``:docid``)."""
        one = cq_statement(template, streams=False, exchanges=False, guards=False).where(
            sa.text(r"rt.qid = \:qid AND d2.docid = \:docid")
        )
        return str(one.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))

    def one_by_one(self, qids: Sequence[str], documents: Sequence[int], queries: int, batch: int) -> Estimate:
        """Run the statements of these queries for these new documents: seconds for ``queries`` on ``batch`` documents.

        The first round is not counted, and each query and document is asked once in the second.
        """
        templates = self.relations.template_of()
        distinct = list(dict.fromkeys(qids))
        texts = {qid: self.text(templates[qid]) for qid in distinct}
        found: dict[str, tuple[int, int]] = {}
        for qid in distinct:
            places = [0, *range(2, len(row_columns(templates[qid])) + 1)]  # without the case
            rows = [
                row
                for docid in documents
                for row in self.database.execute(texts[qid], {"qid": qid, "docid": docid}).fetchall()
            ]
            if rows:
                total = sum(value_hash(",".join(str(row[place]) for place in places)) for row in rows)
                found[qid] = len(rows), total
        began = time.perf_counter()
        for docid in documents:
            for qid in qids:
                self.database.execute(texts[qid], {"qid": qid, "docid": docid}).fetchall()
        seconds = time.perf_counter() - began
        each = seconds / (len(qids) * len(documents))
        return Estimate(each * queries * batch, 0, found, frozenset(qids))


# -- all of them -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Samples:
    """Sizes of the samples on which baselines are run."""

    statements: int | None
    """Templates with equally many joins whose statement is measured; None: all."""
    spark_queries: int
    """Queries that are measured one after another on Spark."""
    prepared_queries: int
    """Queries that are measured one after another in this process."""
    prepared_documents: int
    """New documents for which they are measured."""


SAMPLED = (
    "Sequential on Spark is a sample of {s.samples.spark_queries} queries, drawn uniformly, times the number of "
    "queries; sequential prepared one of {s.samples.prepared_queries} queries on {s.samples.prepared_documents} of the "
    "batch's documents, times queries and documents."
)
"""Note of a bench whose sizes have ``samples``."""
BASELINES = ("statements", "sequential_spark", "sequential_prepared")


def measure_baselines(
    engine: Engine, relations: Relations, samples: Samples, queries: int, seed: int
) -> tuple[dict[str, Estimate], bool]:
    """Run the baselines for so many queries on a batch; and whether they give what the engine gave."""
    spark = SparkRelations(engine.spark, relations)
    statements = spark.plain_statements(repetitions=1, most=samples.statements)
    on_spark = spark.one_by_one(sample_queries(relations, samples.spark_queries, seed), queries)
    spark.close()
    documents = relations.batch()
    some = random.Random(seed).sample(documents, min(samples.prepared_documents, len(documents)))
    asked = sample_queries(relations, samples.prepared_queries, seed)
    database = Prepared(relations)
    prepared = database.one_by_one(asked, some, queries, len(documents))
    database.close()
    span = relations.first, relations.last
    whole = engine_digests(engine, relations.templates, statements.asked | on_spark.asked, *span)
    part = engine_digests(engine, relations.templates, asked, *span, some)
    equal = statements.agrees(whole) and on_spark.agrees(whole) and prepared.agrees(part)
    return dict(zip(BASELINES, (statements, on_spark, prepared), strict=True)), equal
