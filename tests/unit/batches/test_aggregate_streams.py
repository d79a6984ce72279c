"""Rows that parts share: which of them have a row, their numbers, and what is left when parts come and go."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

import xscl
from xscl.base.settings import Settings
from xscl.batches.windows import buckets as aggregate_buckets
from xscl.batches.windows.rows import KEPT_SCHEMA, read_kept
from xscl.batches.windows.streams import Streams, of_parts
from xscl.catalog.tables import STATE_FILES


def rows(lists: list[list[int]], numbers: list[list[int]]) -> pa.Table:
    count = len(lists)
    columns = {
        "ts": range(count),
        "key": [b"%08d" % number for number in range(count)],
        "first": range(count),
        "came": range(count),
        "received": [0] * count,
        "name": [str(number) for number in range(count)],
        "texts": [[str(number)] for number in range(count)],
        "parts": lists,
        "numbers": numbers,
    }
    return pa.table({name: list(values) for name, values in columns.items()}, schema=KEPT_SCHEMA)


def shown(table: pa.Table) -> list[tuple[int, list[int], list[int]]]:
    return list(zip(*(table.column(name).to_pylist() for name in ("ts", "parts", "numbers")), strict=True))


def test_each_part_numbers_its_own_rows() -> None:
    streams = Streams(rows([[3], [3, 5], [5], [3, 5]], [[7], [-1, 2], [-1], [-1, -1]]))
    one, other = streams.of(3), streams.of(5)
    assert (one.rows.tolist(), other.rows.tolist()) == ([0, 1, 3], [1, 2, 3])
    assert streams.number(one, 3, 8) == 9 and streams.number(other, 3, 3) == 4
    assert streams.numbers.tolist() == [7, 8, 2, 3, -1, -1]
    assert streams.matches(one).order[:2].tolist() == [7, 8]
    assert streams.matches(one).order[2] > 1 << 60, "its time is not settled"
    assert streams.of(4).rows.tolist() == []


def test_a_row_stays_as_long_as_a_part_needs_it() -> None:
    streams = Streams(rows([[3], [3, 5], [5], [3, 5]], [[0], [1, 0], [1], [2, 2]]))
    streams.kept[streams.of(3).places[1:]] = True
    streams.kept[streams.of(5).places[2:]] = True
    assert shown(streams.kept_rows()) == [(1, [3], [1]), (3, [3, 5], [2, 2])]
    assert shown(Streams(rows([], [])).kept_rows()) == []


def test_parts_take_their_rows_along() -> None:
    kept = {(3, 5): rows([[3], [3, 5]], [[0], [1, 0]]), (7,): rows([[7]], [[4]])}
    assert of_parts(kept, (3, 5)) is kept[3, 5]
    assert shown(of_parts(kept, (5,))) == [(1, [5], [0])]
    assert shown(of_parts(kept, (3, 7, 9))) == [(0, [3], [0]), (0, [7], [4]), (1, [3], [1])]
    assert shown(of_parts(kept, (9,))) == []


TEXTS = {
    "low": "SELECT k, count() AS n, sum(v) AS s FROM R[./k->k][./v->v][./v < 6] WINDOW 20 s EVERY 10 s GROUP BY k",
    "high": "SELECT k, first(v) AS f, max(v) AS s FROM R[./k->k][./v->v][./v > 2] WINDOW LAST 3 GROUP BY k",
    "all": "SELECT k, count() AS n, avg(v) AS s FROM R[./k->k][./v->v] WINDOW 15 s GROUP BY k",
    "other": "SELECT k, count() AS n, min(v) AS s FROM R[./k->k][./v->v][./v > 3] WINDOW 30 s EVERY 30 s GROUP BY k",
}


def told(folder: Path, rules: list[str], drop: str | None = None) -> list[tuple[object, ...]]:
    """Answers where an engine with other rules does each batch; the last query comes with the second batch."""
    for batch, chosen in enumerate(rules):
        with xscl.connect(home=folder, settings=Settings(where="driver", rules=chosen)) as engine:
            if not batch:
                engine.add_channel("R", kind="rows", schema="k string, v bigint", lateness="0 s")
            for name in {0: ("low", "high", "all"), 1: ("other",)}.get(batch, ()):
                engine.register(TEXTS[name], name=name)
            if drop is not None and batch == 2:
                engine.drop(drop)
            events = [
                xscl.Event("R", f"{at}", 3 * at, row={"k": "ab"[at % 3 == 0], "v": (at * 7) % 10})
                for at in range(12 * batch, 12 * batch + 12)
            ]
            engine.ingest(events)
            engine.run_once()
            found = [(each.query, each.ts, *each.values.items()) for each in engine.matches() if each.query != drop]
    return sorted(found)


@pytest.mark.parametrize("rules", [["s", "all", "none", "all"], ["all", "s_σ,c_α", "c", "s"]])
def test_rows_are_shared_and_not_as_rules_change(tmp_path: Path, rules: list[str]) -> None:
    expected = told(tmp_path / "all", ["all"] * 4)
    assert {each[0] for each in expected} == {*TEXTS} and len(expected) > 60
    assert told(tmp_path / "others", rules) == expected


def test_a_query_that_goes_leaves_the_rows_of_others(tmp_path: Path) -> None:
    expected = [each for each in told(tmp_path / "all", ["all"] * 4) if each[0] != "low"]
    assert told(tmp_path / "without", ["all"] * 4, drop="low") == expected


def test_buckets_are_read_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = told(tmp_path / "matches", ["all"] * 4)
    for name in ("LEAST_ROWS", "FEWER", "OLDER"):
        monkeypatch.setattr(aggregate_buckets, name, 0)
    assert told(tmp_path / "buckets", ["all"] * 4) == expected
    with xscl.connect(home=tmp_path / "buckets") as engine, engine.home.catalog.read() as connection:
        (path,) = connection.scalars(sa.select(STATE_FILES.c.path).where(STATE_FILES.c.kind == "windows"))
        kept = read_kept(engine.home.root / path)
    assert len(kept.buckets) == 2 and all(map(len, kept.buckets.values()))
