"""Events of a batch in memory: they are read once, and answers are those of files that are read by whoever asks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xscl
from xscl.batches import ranges, settled, walking
from xscl.ingest.records import RowOptions, RowTable
from xscl.store import taken_events
from xscl.store.home import Home

SCHEMA = "no bigint, k string, v bigint"
OPTIONS = RowOptions(columns=("no", "k", "v"), id="no", ts="ts", ts_format="us")
QUERIES = (
    "SELECT k, sum(v) AS n FROM a[./k->k][./v->v] WINDOW 5 s EVERY 1 s GROUP BY k",
    "SELECT k, sum(v) AS n FROM a[./k->k][./v->v][./v > 3] WINDOW LAST 3 GROUP BY k HAVING sum(v) > 5",
    "SELECT k, count() AS n FROM a[./k->k] JOIN {k = l, 3 s} b[./k->l] WINDOW 5 s GROUP BY k",
    "a->x[./v > 8]",
    "a[./k->k] NEXT {k = l, 2 s} b[./k->l]",
    "a[./k->k] JOIN {k = l, 3 s} d//m[./k->l]",
    "d//m->x[./k = 'y']",
)


def rows(choose: random.Random, first: int, count: int) -> pa.Table:
    """Rows in nearly their order, some of them late, and some without a value."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "no": pa.array(numbers),
            "ts": pa.array(
                [max(0, 200_000 * number - choose.choice([0, 0, 0, 900_000, 4_000_000])) for number in numbers]
            ),
            "k": pa.array([choose.choice(["x", "y", "z", None]) for _ in numbers], pa.string()),
            "v": pa.array([choose.randrange(10) for _ in numbers]),
        }
    )


def take(engine: xscl.Engine, name: str, table: pa.Table) -> None:
    engine.ingest([RowTable(name, table, f"{name}-{table['no'][0]}", options=OPTIONS)])


def played(folder: Path, seed: int) -> list[tuple[object, ...]]:
    """Matches of all queries over random rows of two channels, in batches of several intakes."""
    choose = random.Random(seed)
    with xscl.connect(home=folder) as engine:
        for name in "ab":
            engine.add_channel(name, kind="rows", schema=SCHEMA, lateness="1 s")
        for number, text in enumerate(QUERIES):
            engine.register(text, name=f"q{number}")
        for first in range(0, 120, 40):
            for name in choose.choice(["ab", "ba", "a"]):
                for begin in range(first, first + 40, 20):
                    take(engine, name, rows(choose, begin, 20))
            engine.ingest(
                xscl.Event(
                    channel, f"{channel}{number}", number / 5, xml=f"<d><m><k>{choose.choice('xyz')}</k></m></d>"
                )
                for number in range(first, first + 40)
                for channel in choose.choice(["de", "d", "e"])
            )
            engine.run_once(batch_docs=choose.choice([30, 1_000]))
        engine.end_input()
        engine.run_once()
        return sorted((match.query, match.id, match.ts, str(match.values)) for match in engine.matches())


def test_answers_do_not_depend_on_what_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []
    read = taken_events.written_events

    def counted(*args: Any) -> taken_events.TakenEvents | None:
        held.append((found := read(*args)) is not None)
        return found

    monkeypatch.setattr(ranges, "written_events", counted)
    monkeypatch.setattr(taken_events, "_written", {})
    found = played(tmp_path / "memory", 1)
    assert found and not held[0] and all(held[1:]) and len(held) > 3
    assert not taken_events._written
    held.clear()
    monkeypatch.setattr(taken_events, "_MOST_WRITTEN", 0)
    assert played(tmp_path / "read", 1) == found
    monkeypatch.setattr(taken_events, "_MOST_BYTES", 0)
    assert played(tmp_path / "files", 1) == found
    assert held and not any(held)


def test_a_process_without_batches_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_events, "_written", {})
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.ingest([xscl.Event("d", "1", 1, xml="<d/>")])
        assert not taken_events._written


def test_the_newest_events_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_events, "_asked", {tmp_path})
    monkeypatch.setattr(taken_events, "_written", {})
    table = pa.table({field.name: pa.nulls(10, field.type) for field in taken_events.EVENT_SCHEMA})
    table = table.set_column(0, "docid", pa.array(range(10)))
    monkeypatch.setattr(taken_events, "_MOST_WRITTEN", 2 * table.nbytes)
    for name in "abc":
        taken_events.keep_written(tmp_path / name, table)
    assert list(taken_events._written) == [str(tmp_path / name) for name in "bc"]
    found = taken_events.written_events([str(tmp_path / "b")], 2, 5)
    assert found is not None and found.rows.column("docid").to_pylist() == [2, 3, 4, 5]
    assert taken_events.written_events([str(tmp_path / name) for name in "bc"], 6, 9) is not None
    assert taken_events.written_events([str(tmp_path / "b")], 6, 9) is None


def test_a_batch_of_rows_under_windows_reads_its_events_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []
    reads = pq.ParquetFile.read_row_groups

    def counted(file: pq.ParquetFile, groups: list[int], columns: list[str], **options: Any) -> pa.Table:
        read.append(columns)
        return reads(file, groups, columns=columns, **options)

    def refused(*_: object) -> None:
        raise AssertionError("events are read again")

    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", kind="rows", schema=SCHEMA, lateness="1 s")
        for number in range(2):
            engine.register(QUERIES[number], name=f"q{number}")
        for first in range(0, 200, 100):
            take(engine, "a", rows(random.Random(first), first, 100))
            monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
            monkeypatch.setattr(walking, "_dataset", refused)
            monkeypatch.setattr(settled, "checked_dataset", refused)
            engine.run_once()
            monkeypatch.undo()
        assert engine.matches()
    assert [columns for columns in read if "docid" in columns and "ts" in columns] == [
        [name for name in columns if name not in ("version", "declared", "time_source")]
        for columns in [taken_events.EVENT_SCHEMA.names]  # those of the second batch are still in memory
    ]


def test_events_of_a_range_are_those_between_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", kind="rows", schema=SCHEMA)
        for first in range(0, 60, 20):
            take(engine, "a", rows(random.Random(first), first, 20))
        home: Home = engine.home
        paths = sorted(str(path) for path in (home.root / "events").glob("*.parquet"))
    found = taken_events.taken_events(paths, 15, 44)
    assert found is not None
    assert found.rows.column("docid").to_pylist() == list(range(15, 45))
    assert found.rows.column("id").to_pylist() == [str(number) for number in range(14, 44)]
    assert found.has(found.rows.column("docid").to_numpy() + 1).tolist() == [True] * 29 + [False]
    monkeypatch.setattr(taken_events, "_MOST_BYTES", 100)
    assert taken_events.taken_events(paths, 15, 44) is None


def test_a_level_is_cut_alike_by_events_in_memory_and_by_files(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        for name in "ab":
            engine.add_channel(name, kind="rows", schema=SCHEMA)
        for name in "abba":
            take(engine, name, rows(random.Random(1), 20 * len(list(tmp_path.glob("home/events/*"))), 20))
        paths = sorted(str(path) for path in (engine.home.root / "events").glob("*.parquet"))
    found = taken_events.taken_events(paths, 11, 75)
    assert found is not None
    for read in ("a", "ab"):
        asked = walking.Asked(frozenset(read), frozenset(), {})
        level = walking.Level(0, 11, 75, {"a": 25, "b": 40}, paths)
        parts = walking.cut(asked, level, 3)
        assert walking.cut(asked, level, 3, found) == parts
        assert len(parts) == 3 and (parts[0].first, parts[-1].last) == (11, 75)
        counts = [walking.count_documents(asked, part) for part in parts]
        assert sum(counts) == (65 if read == "ab" else 25) and max(counts) - min(counts) <= 1
