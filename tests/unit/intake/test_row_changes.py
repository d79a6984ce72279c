"""Rows that are changes, against a dictionary to which the same changes are made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import xscl
from xscl.base.errors import SourceError
from xscl.catalog.channels import read_channels
from xscl.engine import Engine

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
