"""Answers about absence that nothing makes final: rows in runs are those that came, less those that went."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from absences import S, answers
from strategies import Dice

import xscl
from xscl.batches import answered
from xscl.batches.answered import Runs
from xscl.batches.bindings import keys_of
from xscl.catalog.tables import OLD_FILES, STATE_FILES
from xscl.engine import Engine
from xscl.templates.absence import PENDING_SCHEMA

Members = tuple[int, ...]


def table(rows: list[tuple[int, Members, int]]) -> pa.Table:
    """Rows of (group, members, place of what killed them)."""
    made = [
        {
            "gid": gid,
            "members": keys_of(np.array([docs]), np.zeros((1, 0), np.int64))[0].as_py(),
            "key": keys_of(np.array([docs]), np.array([[1]]))[0].as_py(),
            "docs": docs,
            "nodes": [1],
            "witness": [1],
            "waits": '[["B"], 0]',
            "ends": [7],
            "killed": killed,
            **dict.fromkeys(("ts", "later", "came", "answered"), 5),
        }
        for gid, docs, killed in rows
    ]
    return pa.Table.from_pylist(made, schema=PENDING_SCHEMA)


def told(rows: pa.Table) -> list[tuple[int, Members, int]]:
    return sorted((row["gid"], tuple(row["docs"]), row["killed"]) for row in rows.to_pylist())


@pytest.mark.parametrize("seed", range(12))
def test_runs_have_what_came_less_what_went(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = Dice(seed)
    for name, value in {"_SMALL": 2, "_FAN": choose.count(2, 3), "_READ_TOGETHER": 2, "_LARGEST": 30}.items():
        monkeypatch.setattr(answered, name, value)
    runs, model, gone = Runs(tmp_path, ()), dict[Members, list[tuple[int, Members, int]]](), set[int]()

    def kept(rows: pa.Table) -> np.ndarray:
        return ~np.isin(rows.column("gid").to_numpy(), list(gone))

    for batch in range(30):
        asked = {(choose.count(1, 6), *[choose.count(7, 9)] * choose.count(0, 1)) for _ in range(choose.count(0, 4))}
        sought = table([(1, docs, 0) for docs in asked]).column("members").combine_chunks()
        read = runs.of(sought)
        alive = [row for row in told(read) if row[0] not in gone]
        assert alive == sorted(row for docs in asked for row in model.get(docs, ()) if row[0] not in gone)
        left = [(gid, docs, batch) for gid, docs, _ in alive if choose.chance(50)]
        for docs in {docs for _, docs, _ in told(read)}:
            model[docs] = [row for row in left if row[1] == docs]
        new = [
            (choose.count(1, 4), (choose.count(1, 6), 9)[: choose.count(1, 2)], -1) for _ in range(choose.count(0, 5))
        ]
        new = [row for row in dict.fromkeys(new) if row[0] not in gone]
        for row in new:
            model.setdefault(row[1], []).append(row)
        runs = runs.after(table([*left, *new]), read, tmp_path / f"{batch}-answered.parquet", batch, kept)
        expected = sorted(row for rows in model.values() for row in rows if row[0] not in gone)
        assert [row for row in told(runs.rows()) if row[0] not in gone] == expected
        if choose.chance(5):
            gone.add(choose.count(1, 4))
    assert len(runs.files) < 12


def event(channel: str, number: int, value: int) -> xscl.Event:
    return xscl.Event(channel, f"{channel}{number}", number, xml=f"<e><k>{value}</k></e>")


def test_what_a_batch_writes_does_not_grow_with_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered, "_SMALL", 20)
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]", name="q")
        written, seen = [], set[str]()
        for batch in range(36):
            first = 20 * batch
            engine.ingest([event("A", 100 * batch + number, first + number) for number in range(20)])
            engine.ingest([event("B", 100 * batch + 60, -1)])
            if batch:
                # One of the answers from before is taken back.
                engine.ingest([event("B", 100 * (batch // 2) + 5, 20 * (batch // 2))])
            engine.run_once()
            written.append(_written(engine, seen))
        early, late = sum(written[6:18]), sum(written[24:36])
        assert late < 1.5 * early
        assert len(answers(engine, "q")) == 36 * 20 - len({batch // 2 for batch in range(1, 36)})
        with engine.home.catalog.read() as connection:
            held = sa.select(sa.func.sum(STATE_FILES.c.rows)).where(STATE_FILES.c.kind == "answered")
            assert connection.scalar(held) > 650
        # Heartbeats settle the times, and nothing is left to wait for.
        engine.heartbeat("B", 10_000 * S)
        engine.run_once()
        with engine.home.catalog.read() as connection:
            kinds = STATE_FILES.c.kind.in_(("answered", "pending"))
            assert connection.scalar(sa.select(sa.func.count()).where(kinds)) == 0
        assert len(answers(engine, "q")) == 36 * 20 - len({batch // 2 for batch in range(1, 36)})


def _written(engine: Engine, seen: set[str]) -> int:
    """Bytes of files of answers that were not there before."""
    with engine.home.catalog.read() as connection:
        paths = {*connection.scalars(sa.select(STATE_FILES.c.path)), *connection.scalars(sa.select(OLD_FILES.c.path))}
    new = {path for path in paths if "answered" in path or "pending" in path} - seen
    seen |= new
    return sum((engine.home.root / path).stat().st_size for path in new)
