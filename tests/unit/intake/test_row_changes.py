"""Rows that are changes, against a dictionary to which the same changes are made."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

import xscl
from xscl.base.errors import SourceError
from xscl.catalog.channels import read_channels
from xscl.engine import Engine
from xscl.ingest.records import Rejected
from xscl.intake import removals, rows
from xscl.intake.checks import CheckedEvent
from xscl.intake.transaction import Chunk

COMES = ["c", "INSERT", "r", "update", "U", "+I", "+U", "update_postimage"]
GOES = ["d", "DELETE", "-D"]
QUERY = 'SELECT <r no="{n}">{v}</r> FROM T[./no->n][./v->v]'


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as made:
        made.add_channel("T", kind="rows", schema="no string, v bigint")
        made.register(f"{QUERY} ON CHANGE RETRACT", name="now")
        made.register(QUERY, name="ever")
        yield made


def held(engine: Engine, name: str = "now") -> list[str]:
    engine.run_once()
    return sorted(str(match.document) for match in engine.matches(name))


def expected(state: dict[str, int]) -> list[str]:
    return sorted(f'<r no="{no}"><v>{v}</v></r>' for no, v in state.items())


@pytest.mark.parametrize("seed", range(3))
def test_changes_lead_to_what_a_dictionary_has(engine: Engine, tmp_path: Path, seed: int) -> None:
    choose, state = random.Random(seed), dict[str, int]()
    # Numbers that grow are ids of a range, until the first change of one.
    first = {"no": ["1", "2", "3"], "v": [7, 8, 9]}
    engine.ingest(pa.table(first), channel="T", id="no")
    state |= dict(zip(first["no"], first["v"], strict=True))  # type: ignore[arg-type]
    for number in range(4):
        lines = ["op,no,v"]
        removed = missing = 0
        for _ in range(12):
            no, v = str(choose.randint(1, 6)), choose.randint(1, 3)
            if choose.random() < 0.4:
                lines.append(f"{choose.choice(GOES)},{no},")
                removed, missing = removed + (no in state), missing + (no not in state)
                state.pop(no, None)
            else:
                lines.append(f"{choose.choice(COMES)},{no},{v}")
                state[no] = v
            if choose.random() < 0.2:
                lines.append(f"-U,{no},9")
        path = tmp_path / f"changes{number}.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        report = engine.ingest(path, channel="T", id="no", op="op")
        assert (report.rejected, report.missing) == (0, missing)
        if choose.random() < 0.7:
            assert held(engine) == expected(state)
    assert held(engine) == expected(state)
    assert set(expected(state)) <= set(held(engine, "ever"))


def test_changes_that_cannot_be_taken(engine: Engine) -> None:
    rows = pa.table({"op": ["c", "x", None, "d", "u"], "no": ["1", "2", "3", None, "1"], "v": [1, 2, 3, 4, 5]})
    report = engine.ingest(rows, channel="T", id="no", op="op")
    assert (report.taken, report.versions, report.rejected) == (2, 1, 3)
    assert [problem.condition for problem in report.problems] == ["XSCL_BAD_EVENT"] * 2 + ["XSCL_BAD_EVENT_ID"]
    assert held(engine) == expected({"1": 5})
    with pytest.raises(SourceError, match="XSCL_NO_COLUMN"):
        engine.ingest(rows, channel="T", id="no", op="change")
    with pytest.raises(SourceError, match="XSCL_BAD_OPTION"):
        engine.ingest(rows, channel="T", op="op")


def test_a_table_is_a_new_channel_without_the_column_of_changes(engine: Engine) -> None:
    rows = pa.table({"op": ["c", "d", "c"], "no": [1, 1, 1], "v": ["a", None, "a"]})
    assert engine.ingest(rows, channel="made", id="no", op="op").taken == 2
    with engine.home.catalog.read() as connection:
        assert list(read_channels(connection)["made"].schema or {}) == ["no", "v"]


def test_rows_go_one_by_one_where_one_comes_back(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    singly: list[int] = []
    take = rows.take_events

    def counted(chunk: Chunk, events: Sequence[CheckedEvent | Rejected]) -> None:
        singly.append(len(events))
        take(chunk, events)

    monkeypatch.setattr(rows, "take_events", counted)
    count = 600

    def ingest(first: int) -> int:
        table = pa.table({"no": [str(first + n) for n in range(count)], "v": [1] * count})
        return engine.ingest(table, channel="T", id="no").taken

    assert ingest(0) == count
    assert engine.retract("T", ["7"]).removed == 1
    assert ingest(1_000) == count and not singly
    assert ingest(0) == 1 and singly == [count]
    assert engine.retract("T", ["7"]).removed == 1
    assert ingest(2_000) == count and ingest(7) == 8 and singly == [count, count]
    assert len(held(engine)) == 3 * count + 7


def test_an_item_that_comes_and_goes_is_read_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    among = removals.removed_among

    def counted(connection: sa.Connection, docids: Collection[int]) -> dict[int, int]:
        asked.append(len(docids))
        return among(connection, docids)

    monkeypatch.setattr(removals, "removed_among", counted)
    count = 60
    changes = {"op": ["c", "d"] * count, "no": ["hot"] * (2 * count), "v": list(range(2 * count))}
    for number in range(2):
        asked.clear()
        report = engine.ingest(pa.table(changes), channel="T", id="no", op="op")
        assert (report.taken, report.removed, report.missing) == (count, count, 0)
        # Each time those that came since, and once those of before.
        assert sum(asked) == count + number * count
    assert held(engine) == []


def test_a_long_word_is_cut_where_it_is_refused(engine: Engine) -> None:
    rows = pa.table({"op": ["z" * 100_000], "no": ["1"], "v": [1]})
    (problem,) = engine.ingest(rows, channel="T", id="no", op="op").problems
    assert "is no change of a row" in problem.message and len(problem.message) < 500
