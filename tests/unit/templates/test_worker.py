"""Matched edges in Arrow to results, some rows at a time: a pair is never torn apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from local_engine import LocalEngine, compiled
from oracle.evaluate import Doc, answers

from xscl.language.parser import parse_query
from xscl.templates import worker
from xscl.templates.probe import MATCHED_SCHEMA

TEXTS = (
    "S//a->x JOIN {x = y} S//b->y",
    "S->r[./a->x][./c->p] JOIN {x = y AND p = q} S->t[./b->y][./c->q]",
    "S//a->x[. = '1']",
)
DOCS = [
    Doc("S", f"e{n}", n * 1_000_000, f"<r><a>{n % 2}</a><b>{n % 2}</b><b>{n % 3}</b><c>{n % 2}</c></r>")
    for n in range(7)
]


@pytest.mark.parametrize("most", [1, 4, 20])
@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_pairs_are_never_torn_apart(most: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in TEXTS})
    seen: list[Counter[tuple[int, int | None]]] = []
    resolve, batches_of = worker._resolve, worker.result_batches

    def recorded(resolver: object, table: pa.Table, out: object) -> None:
        seen.append(Counter(zip(*(table.column(name).to_pylist() for name in ("d1", "d2")), strict=True)))
        resolve(resolver, table, out)  # type: ignore[arg-type]

    rows: list[pa.Table] = []

    def cut(path: str, batches: list[pa.RecordBatch], origin: int) -> list[pa.RecordBatch]:
        table = pa.Table.from_batches(batches, MATCHED_SCHEMA).combine_chunks()
        rows.append(table)
        return list(batches_of(path, table.to_batches(max_chunksize=size), origin))

    monkeypatch.setattr(worker, "_resolve", recorded)
    monkeypatch.setattr(worker, "_MANY", most)
    monkeypatch.setattr("local_engine.result_batches", cut)
    engine.run(DOCS)
    (table,) = rows
    pairs = [pair for part in seen for pair in part]
    assert len(pairs) == len(set(pairs)), "a pair was resolved twice"
    assert sum(seen, Counter()) == Counter(zip(table["d1"].to_pylist(), table["d2"].to_pylist(), strict=True))
    if size < 1_000:
        assert len(seen) > 1
        assert all(part.total() < most + size + max(map(max, (p.values() for p in seen))) for part in seen)
    counted = [row["docs"][0] for row in engine.results if row["relation"] == "pairs"]
    assert sum(counted) == len(pairs)
    for text in TEXTS:
        assert engine.answers(text) == answers(parse_query(text), DOCS) != set()


def test_no_rows(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path, {TEXTS[0]: compiled(TEXTS[0])})
    empty = MATCHED_SCHEMA.empty_table().to_batches()
    assert list(worker.result_batches(engine.program, [], 1)) == []
    assert list(worker.result_batches(engine.program, empty, 1)) == []


def test_shapes_are_forgotten_when_they_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_MANY_SHAPES", 3)
    engine = LocalEngine(tmp_path, {TEXTS[0]: compiled(TEXTS[0])})
    for doc in DOCS:
        engine.run([doc])
        assert len(worker._resolver(engine.program).shapes) <= 3
    assert engine.answers(TEXTS[0]) == answers(parse_query(TEXTS[0]), DOCS) != set()
