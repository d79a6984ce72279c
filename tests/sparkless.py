"""Batches of documents without Spark: ``process_batch`` with its stages done by the kernels in this process."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import sqlalchemy as sa
from local_engine import _CHECKED, _MATCHED, LocalEngine, _equal, _matched_schema, _meets, _single

from xscl.home import Home
from xscl.ingest.rows import cells_document
from xscl.intake import EVENT_SCHEMA
from xscl.planner import Plan
from xscl.tables import BATCHES
from xscl.templates.probe import probe_batches
from xscl.templates.resolve import result_batches
from xscl.templates.results import RESULT_SCHEMA
from xscl.xpath.witness import WITNESS_SCHEMA
from xscl.xpath.worker import witness_batches


@contextmanager
def without_spark() -> Iterator[None]:
    """Inside, an engine's batches need no session."""
    stages = {"_stage1": _stage1, "_stage2": _stage2, "_join_links": _join_links}
    with mock.patch("xscl.engine.start_session", lambda: None), mock.patch.multiple("xscl.batch", **stages):
        yield


def _stage1(
    spark: None, plan: Plan, paths: list[str], channels: Collection[str], target: Path, where: str = "true"
) -> None:
    events = ds.dataset(paths, schema=EVENT_SCHEMA).to_table()
    if where != "true":
        first, last = map(int, re.findall(r"\d+", where))
        events = events.filter((pa.compute.field("docid") >= first) & (pa.compute.field("docid") <= last))
    rows = [{**row, "content": row["content"] or _row_document(row, plan)} for row in events.to_pylist()]
    columns = [EVENT_SCHEMA.field(name) for name in ("docid", "channel", "id", "item", "ts", "late", "content")]
    documents = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    walked = witness_batches(str(plan.specs_path), documents.to_batches())
    # What columns answer on Spark.
    answered = witness_batches(str(plan.answered_path), documents.to_batches())
    _write(target, [*walked, *answered], WITNESS_SCHEMA)


def _row_document(row: dict[str, Any], plan: Plan) -> str:
    shape = plan.shapes[row["channel"]]
    return cells_document(row["cells"], list(shape.columns), element=shape.element)


def _stage2(home: Home, spark: None, plan: Plan, own: Sequence[str], fresh_path: Path, target: Path) -> None:
    fresh = ds.dataset(fresh_path, schema=WITNESS_SCHEMA).to_table()
    earlier = _rows(home, WITNESS_SCHEMA, BATCHES.c.witness_path, own)
    new = fresh.to_pylist()
    program = str(plan.program_path)
    probe = [row for batch in probe_batches(program, fresh.to_batches()) for row in batch.to_pylist()]
    # A document that was there before is below any number, a new one above.
    pairs = [
        (p, w) for p in probe for side, below in ((earlier, 1 << 63), (new, -1)) for w in side if _meets(p, w, below)
    ]
    equal = [_equal(p, w) for p, w in pairs]
    matched = [_single(p) for p in probe if p["single"]]
    matched += [{name: row[name] for name in _MATCHED} for row in equal]
    twin: Any = SimpleNamespace(program=program, witness=[*earlier, *new])
    checked = [{name: row[name] for name in _CHECKED} for row in equal if row["checked"]]
    matched += LocalEngine._unequal(twin, checked)
    matched.sort(key=lambda row: (row["d1"], -1 if row["d2"] is None else row["d2"]))
    table = pa.Table.from_pylist(matched, schema=_matched_schema())
    _write(target, result_batches(program, table.to_batches()), RESULT_SCHEMA)


def _join_links(home: Home, spark: None, plan: Plan, own: Sequence[str], fresh_path: Path, target: Path) -> None:
    earlier = _rows(home, RESULT_SCHEMA, BATCHES.c.result_path, own)
    kept, new = (
        [row for row in rows if row["relation"] == "link"]
        for rows in (earlier, ds.dataset(fresh_path, schema=RESULT_SCHEMA).to_table().to_pylist())
    )
    twin: Any = SimpleNamespace(program=str(plan.program_path), links=kept, results=[])
    LocalEngine._assemble(twin, new)
    _write(target, pa.Table.from_pylist(twin.results, schema=RESULT_SCHEMA).to_batches(), RESULT_SCHEMA)


def _rows(home: Home, schema: pa.Schema, column: sa.Column[Any], own: Sequence[str]) -> list[dict[str, Any]]:
    with home.catalog.read() as connection:
        committed = connection.scalars(sa.select(column).where(column.is_not(None))).all()
    return [
        row for path in home.paths([*committed, *own]) for row in ds.dataset(path, schema=schema).to_table().to_pylist()
    ]


def _write(target: Path, batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch], schema: pa.Schema) -> None:
    target.mkdir(parents=True)
    pq.write_table(pa.Table.from_batches(batches, schema=schema), target / "part.parquet")
