"""Functions of one's own in tasks of Spark: they travel with the tasks, and fail there as they do in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import xscl
from xscl.engine import Engine

QUERIES = {
    "walked": "S[first_word(./t) = 'IBM']",
    "negated": "S[not(first_word(./t) = 'IBM')]",
    "joined": "S[./t->t] FOLLOWED BY {first_word(t) = n, 1 h} R[./name->n]",
    "rows": "R[first_word(./name) = 'IBM']",
    "counted": "SELECT first_word(t) AS w, count() AS n FROM S/d/t->t WINDOW 1 h EVERY 1 h GROUP BY first_word(t)",
    "next": "SELECT t, u FROM S/d/t->t NEXT {first_word(t) = first_word(u)} S/d/t->u",
}
TEXTS = ["IBM falls", "Apple", "bad one", "IBM rises", ""]


@xscl.function
def first_word(text: str) -> str | None:
    """Fail on one text."""
    return word(text) or None


def word(text: str) -> str:
    """Return the first word; tasks get this function, too."""
    if text == "bad one":
        raise ValueError("no word")
    return text.partition(" ")[0]


def found(engine: Engine) -> tuple[set[object], set[object]]:
    """Return all answers, and all that was rejected."""
    for name, text in QUERIES.items():
        engine.register(text, name=name)
    engine.ingest(xscl.Event("S", f"d{n}", n, xml=f"<d><t>{text}</t></d>") for n, text in enumerate(TEXTS))
    engine.ingest(
        [xscl.Event("R", f"r{n}", 10, row={"name": name}) for n, name in enumerate(["IBM", "Apple", "bad one"])]
    )
    engine.ingest([xscl.Event("S", "last", 8_000, xml="<d/>")])
    for channel in "SR":
        engine.heartbeat(channel, 8_000_000_000)
    reports = engine.run_once()
    told = {(each.query, each.channel, each.id, each.condition) for report in reports for each in report.rejected}
    return {(match.query, match.document) for match in engine.matches()}, told


@pytest.mark.parametrize("where", ["driver", "spark"])
def test_tasks_have_the_functions(where: xscl.base.settings.Where, tmp_path: Path, spark: SparkSession) -> None:
    settings = xscl.Settings(where)
    with xscl.connect(home=tmp_path / "home", spark=spark, settings=settings, functions=[first_word]) as engine:
        answers, told = found(engine)
    by_query: dict[object, int] = {}
    for query, _ in answers:  # type: ignore[misc]
        by_query[query] = by_query.get(query, 0) + 1
    assert by_query == {"walked": 2, "negated": 3, "joined": 3, "rows": 1, "counted": 2, "next": 1}, answers
    assert {each[:3] for each in told if "xscl" not in each[1]} == {  # type: ignore[index]
        *((name, "S", "d2") for name in ("walked", "negated", "joined", "counted", "next")),
        ("rows", "R", "r2"),
    }
    assert {each[0] for each in told} == {"walked", "negated", "joined", "rows", "counted", "next"}  # type: ignore[index]
    assert {each[3] for each in told} == {"XSCL_FUNCTION_FAILED"}  # type: ignore[index]
