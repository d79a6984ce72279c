"""Relations of a home as files, the queries that stand for groups, and digests of answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.base.values import digest_text
from xscl.bench.engines import Run, queries_of_groups
from xscl.catalog.groups import read_templates, stored_rt
from xscl.catalog.tables import QUERIES
from xscl.engine import Engine
from xscl.templates.statements.relations import R_BIN, R_DOC, R_DOCTS, SUBSCRIBED, rt_table
from xscl.templates.template import Template

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "READ",
    "Digests",
    "Relations",
    "all_digests",
    "collected",
    "digest",
    "digest_select",
    "engine_digests",
    "row_columns",
    "sample_queries",
]

Digests = Mapping[str, tuple[int, int]]
"""Number of rows, and sum of their hashes (XXH64 of query, documents and nodes), of each query that has rows."""
READ = (R_DOCTS, R_DOC, R_BIN)
"""Relations that statements read beside R_T."""


@dataclass(frozen=True, slots=True)
class Relations:
    """The relations of a home as Parquet files in a folder, and one batch's places of the intake order."""

    folder: Path
    first: int
    last: int
    documents: int
    """Up to the end of the batch."""
    templates: tuple[Template, ...]
    rt: Mapping[str, pa.Table]
    """R_T by template: a row for each group; ``qid`` is the query that stands for it."""
    stands_for: Mapping[str, str]
    """Query that stands for the group, by query."""

    @classmethod
    def of(cls, engine: Engine, batch: Run, folder: Path) -> Relations:
        """Read the relations of a home and its last batch through its own views."""
        first, last = batch.span
        folder.mkdir(parents=True, exist_ok=True)
        for table in READ:
            rows = engine.sql(f"select {', '.join(table.columns.keys())} from {table.name} where docid <= {last}")
            rows.coalesce(2).write.parquet(str(folder / table.name))
        templates = tuple(
            sorted(engine.home.catalog.ask(read_templates), key=lambda template: (len(template.joins), template.id))
        )
        return cls(
            folder=folder,
            first=first,
            last=last,
            documents=pq.read_table(folder / "r_docts", columns=["docid"]).num_rows,
            templates=templates,
            rt={template.id: _rt(engine, template) for template in templates},
            stands_for=queries_of_groups(engine),
        )

    def batch(self) -> list[int]:
        """Return the documents of the batch."""
        docids: list[int] = pq.read_table(self.folder / "r_docts", columns=["docid"]).column("docid").to_pylist()
        return sorted(docid for docid in docids if docid >= self.first)

    def template_of(self) -> dict[str, Template]:
        """Return the template of each query that stands for a group."""
        return {qid: template for template in self.templates for qid in self.rt[template.id].column("qid").to_pylist()}


def _rt(engine: Engine, template: Template) -> pa.Table:
    """Return R_T with one row for each group and case."""
    stored = stored_rt(template)
    firsts = sa.select(sa.func.min(QUERIES.c.query)).group_by(QUERIES.c.gid)
    columns = [column for column in stored.c if column.name != "gid"]
    statement = (
        sa.select(QUERIES.c.qid, *(QUERIES.c[name] for name in SUBSCRIBED), *columns)
        .join(stored, stored.c.gid == QUERIES.c.gid)
        .where(QUERIES.c.query.in_(firsts))
        .order_by(QUERIES.c.query)
    )
    types = {
        sa.BigInteger: pa.int64(),
        sa.Boolean: pa.bool_(),
        sa.Double: pa.float64(),
        sa.Integer: pa.int32(),
        sa.String: pa.string(),
    }
    schema = pa.schema([(column.name, types[type(column.type)]) for column in rt_table(template).columns])
    with engine.home.catalog.read() as connection:
        rows = [dict(row._mapping) for row in connection.execute(statement)]
    return pa.Table.from_pylist(rows, schema=schema)


def sample_queries(relations: Relations, number: int, seed: int) -> list[str]:
    """Draw queries uniformly, each as the one that stands for its group; the same one may come again."""
    names = sorted(relations.stands_for)
    return [relations.stands_for[name] for name in random.Random(seed).choices(names, k=number)]


def digest(digests: Digests) -> str:
    """Digest digests."""
    return digest_text(*(repr(item) for item in sorted(digests.items())))


def row_columns(template: Template) -> list[str]:
    """Return the columns of a statement's rows, without the case."""
    documents = [f"docid{place}" for place in range(1, template.block_count + 1)]
    return ["qid", *documents, *(f"node{place}" for place in range(1, template.width + 1))]


def digest_select(template: Template, source: str) -> str:
    """Write the statement that digests the rows of a source, a query a row."""
    columns = ", ".join(row_columns(template))
    # Sums of decimals neither overflow nor depend on the order.
    hashed = f"cast(xxhash64(concat_ws(',', {columns})) as decimal(38, 0))"
    return f"select qid, count(*) as found, sum({hashed}) as total from {source} group by qid"


def engine_digests(
    engine: Engine,
    templates: Sequence[Template],
    qids: Iterable[str],
    first: int,
    last: int,
    documents: Sequence[int] | None = None,
) -> Digests:
    """Return what an engine has found for these queries with a right document of a range, through its views ``rout_…``.

    With ``documents`` only these count.
    """
    if not templates:
        return {}
    wanted = engine.spark.createDataFrame(pa.table({"qid": pa.array(sorted(set(qids)), pa.string())}))
    among = "" if documents is None else f" and docid2 in ({', '.join(map(str, documents))})"
    parts = [
        digest_select(
            template,
            f"(select * from rout_{template.id} where docid2 between {first} and {last}{among} "
            "and qid in (select qid from bench_queries))",
        )
        for template in templates
    ]
    return collected(engine.sql("\nunion all\n".join(parts), bench_queries=wanted))


def all_digests(engine: Engine, *runs: Run) -> Digests:
    """Return what an engine has found for all queries in successive runs."""
    templates = engine.home.catalog.ask(read_templates)
    span = runs[0].span[0], runs[-1].span[1]
    return engine_digests(engine, templates, queries_of_groups(engine).values(), *span)


def collected(frame: DataFrame) -> Digests:
    """Return the digests that a statement of ``digest_select`` gives."""
    return {row.qid: (row.found, int(row.total)) for row in frame.collect()}
