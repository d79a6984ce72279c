"""Counts and aggregates of matches, against plain Python and SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from strategies import Dice

from xscl import Engine, Event
from xscl.answers.matches import counts as match_counts
from xscl.answers.matches.counts import Aggregate, aggregate_of, count_listed
from xscl.base.errors import EngineError
from xscl.base.types import Match
from xscl.store.home import init_home


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(init_home(tmp_path / "home")) as opened:
        opened.register("S//a[./k->k][./p->p]", name="Q")
        opened.register("S//b", name="none")
        yield opened


def listed(rows: Sequence[dict[str, str]]) -> Iterator[Match]:
    for number, values in enumerate(rows):
        yield Match(str(number), "Q", number, (), {}, values, "")


def test_counts_are_those_of_sqlite() -> None:
    functions = ["count(p)", "count(DISTINCT p)", "sum(p)", "avg(p)", "min(p)", "max(p)"]
    wanted = [aggregate_of(text) for text in functions]
    for seed in range(20):
        choose = Dice(seed)
        keys = [choose.one("x", "y", "z") for _ in range(choose.count(1, 60))]
        rows = [{"k": key, "p": str(choose.count(-9, 9))} for key in keys]
        database = sqlite3.connect(":memory:")
        database.execute("create table m (k text, p integer)")
        database.executemany("insert into m values (:k, :p)", rows)
        columns = ", ".join(f'{text} as "{text}"' for text in functions)
        statement = f"select k, count(*) as matches, {columns} from m group by k order by matches desc, k"
        found = database.execute(statement)
        names = [column[0] for column in found.description]
        expected = [dict(zip(names, row, strict=True)) for row in found]
        counted = count_listed(listed(rows), ["k"], wanted)
        assert counted.columns == tuple(names)
        assert [{**row, "avg(p)": pytest.approx(row["avg(p)"])} for row in counted.rows] == expected


def test_sums_are_exact_and_texts_are_left_out_and_told() -> None:
    rows = [{"p": "0.1"}, {"p": "0.2"}, {"p": "rain"}, {}, {"p": "9007199254740993"}, {"p": "-9007199254740993"}]
    counted = count_listed(listed(rows), [], [aggregate_of("sum(p)"), aggregate_of("count(p)"), aggregate_of("max(p)")])
    assert counted.rows == [{"matches": 6, "sum(p)": 0.3, "count(p)": 5, "max(p)": 9007199254740993}]
    assert counted.notes == ("values of p that are no numbers, and are left out: 1",)


def test_nothing_has_no_sum() -> None:
    counted = count_listed(iter(()), [], [aggregate_of("max(p)"), aggregate_of("count(DISTINCT p)")])
    assert counted.rows == [{"matches": 0, "max(p)": None, "count(DISTINCT p)": 0}]
    assert count_listed(iter(()), ["p"], []).rows == []


def test_forms_of_aggregates() -> None:
    assert aggregate_of(" Count( distinct  x ) ") == Aggregate("count", "x", True)
    assert aggregate_of("MAX(x)").name == "max(x)"
    for text in ("max", "max()", "median(x)", "sum(DISTINCT x)", "max(x) y", "max(x", ""):
        with pytest.raises(EngineError, match="XSCL_BAD_AGGREGATE"):
            aggregate_of(text)


def test_counts_of_a_home(engine: Engine) -> None:
    for number, (key, price) in enumerate([("i", 3), ("i", 5), ("d", 4)]):
        engine.ingest([Event("S", f"e{number}", number, xml=f"<a><k>{key}</k><p>{price}</p></a>")])
    engine.run_once()
    assert engine.count_matches().rows == [{"query": "Q", "matches": 3}]
    assert engine.count_matches("none").rows == [{"matches": 0}]
    counted = engine.count_matches("Q", by=["k"], aggregates=["max(p)"])
    assert counted.rows == [{"k": "i", "matches": 2, "max(p)": 5}, {"k": "d", "matches": 1, "max(p)": 4}]
    assert engine.count_matches("Q", by=["k"], until=0).rows == [{"k": "i", "matches": 1}]
    engine.drop("Q")
    assert engine.count_matches("Q", by=["k"]).rows[0] == {"k": "i", "matches": 2}


@pytest.mark.parametrize(
    ("query", "by", "hint"), [("Q", ["z"], "it binds k, p"), (None, ["k"], "name the query"), ("none", ["k"], "none")]
)
def test_variables_are_those_of_the_query(engine: Engine, query: str | None, by: list[str], hint: str) -> None:
    with pytest.raises(EngineError, match="XSCL_BAD_AGGREGATE") as caught:
        engine.count_matches(query, by=by)
    assert caught.value.hint is not None and hint in caught.value.hint


def test_an_answer_keeps_so_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_counts, "MOST_VALUES", 5)
    rows = [{"p": str(number % 7)} for number in range(20)]
    with pytest.raises(EngineError, match="XSCL_COUNT_SIZE"):
        count_listed(listed(rows), ["p"], [])
    with pytest.raises(EngineError, match="XSCL_COUNT_SIZE"):
        count_listed(listed(rows), [], [aggregate_of("count(DISTINCT p)")])
