"""Asking once: what counts, what it is called, and that nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
from xscl.answers.once.once import query_once
from xscl.base.errors import CatalogError, QueryError
from xscl.base.settings import DEFAULT_SETTINGS
from xscl.base.types import to_micros
from xscl.catalog.tables import METADATA
from xscl.engine import Engine, connect

PAIR = "S//k->x FOLLOWED BY {x = y, 10 s} S//k->y"


def no_spark() -> None:
    raise AssertionError("Spark is not needed")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with connect(home=tmp_path / "home") as opened:
        opened.ingest(xscl.Event("S", f"e{ts}", ts, xml=f"<k>{ts % 2}</k>") for ts in range(1, 6))
        yield opened


def members(engine: Engine, text: str, **asked: object) -> list[str]:
    answer = query_once(engine.home, DEFAULT_SETTINGS, no_spark, text, **asked)  # type: ignore[arg-type]
    return ["-".join(event.id[1:] for event in match.events) for match in answer.matches]


def test_processed_or_not(engine: Engine) -> None:
    expected = ["1-3", "2-4", "1-5", "3-5"]
    assert sorted(members(engine, PAIR)) == sorted(expected)
    engine.run_once()
    assert sorted(members(engine, PAIR)) == sorted(expected)


@pytest.mark.parametrize(
    ("clause", "since", "expected"),
    [
        ("", None, ["1", "2", "3", "4", "5"]),
        ("STARTING NOW", None, ["1", "2", "3", "4", "5"]),
        ("STARTING '1970-01-01T00:00:04Z'", None, ["4", "5"]),
        ("", 5, ["5"]),
        ("STARTING '1970-01-01T00:00:04Z'", 2, ["2", "3", "4", "5"]),
    ],
)
def test_since_when(engine: Engine, clause: str, since: int | None, expected: list[str]) -> None:
    begin = None if since is None else to_micros(since)
    assert members(engine, f"S//k {clause}", since=begin) == expected


def test_names_and_ids(engine: Engine) -> None:
    engine.register(f"{PAIR} STARTING ALL", name="mine")
    engine.run_once()
    standing = list(engine.matches("mine"))
    asked = list(engine.query_once(f"{PAIR} STARTING ALL", name="mine"))
    assert [(m.id, m.query, m.document) for m in asked] == [(m.id, m.query, m.document) for m in standing]
    assert {m.query for m in engine.query_once("CREATE QUERY told AS S//k")} == {"told"}
    assert {m.query for m in engine.query_once("DECLARE NAMESPACE n = 'urn:n'; S//k")} == {"once"}
    with pytest.raises(CatalogError, match="told"):
        engine.query_once("CREATE QUERY told AS S//k", name="other")


def test_bad_texts_are_refused_at_once(engine: Engine) -> None:
    for text in ("S//k[", "S//k; S//k", "DROP QUERY a", ""):
        with pytest.raises(QueryError):
            engine.query_once(text)


def test_nothing_is_written(engine: Engine) -> None:
    engine.register("S//k PUBLISH P", name="publishes")

    def contents() -> dict[str, object]:
        rows = (path for suffix in ("parquet", "run") for path in engine.home.root.rglob(f"*.{suffix}"))
        files = {str(path): path.stat().st_mtime_ns for path in rows}
        tables = {table.name: engine.home.catalog.rows(table) for table in METADATA.sorted_tables}
        return {**tables, "files": files}

    before = contents()
    assert len(members(engine, f"{PAIR} PUBLISH Q")) == 4
    assert contents() == before


def test_what_is_still_to_be_published_is_said(engine: Engine) -> None:
    engine.register("S//k PUBLISH P STARTING ALL", name="publishes")
    answer = query_once(engine.home, DEFAULT_SETTINGS, no_spark, "P/k")
    assert list(answer.matches) == [] and "P has nothing yet" in answer.notes[0]
    assert query_once(engine.home, DEFAULT_SETTINGS, no_spark, "S//k").notes == ()
    engine.run_once()
    answer = query_once(engine.home, DEFAULT_SETTINGS, no_spark, "P/k")
    assert len(list(answer.matches)) == 5 and answer.notes == ()


def test_an_answer_is_an_iterator_that_says_what_it_may_lack(engine: Engine) -> None:
    engine.register("S//k PUBLISH P STARTING ALL", name="publishes")
    answer = engine.query_once("P/k")
    assert isinstance(answer, xscl.Answer)
    assert len(answer.notes) == 1 and "P has nothing yet" in answer.notes[0]
    assert next(answer, None) is None
    answer = engine.query_once("S//k")
    assert answer.notes == ()
    first = next(answer)
    assert len([first, *answer]) == 5 and list(answer) == []
    assert engine.query_once("T//k").notes == ("there is no channel 'T'",)


def test_while_another_process_runs_batches(engine: Engine) -> None:
    with engine.alone():
        assert len(members(engine, PAIR)) == 4
