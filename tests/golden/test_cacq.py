"""Conditions, joins, and queries that come and go, of CACQ and PSoup: seeds/cacq-psoup.md, parts A4 and B4, by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from both_sides import ids, side
from oracle.evaluate import Doc

from xscl.planner import Planner

if TYPE_CHECKING:
    from xscl.engine import Engine

S = 1_000_000
EVERY_SIDE = pytest.mark.parametrize("name", ["oracle", "engine", "driver"])


def cut(docs: Sequence[Doc], batches: int) -> list[Sequence[Doc]]:
    """The documents in that many batches of one size."""
    size = len(docs) // batches
    return [docs[at : at + size] for at in range(0, len(docs), size)]


def answered(found: Iterable[object]) -> set[tuple[int, ...]]:
    return {tuple(map(int, row)) for row in ids(found)}  # type: ignore[arg-type]


# -- G-C8: three sources ------------------------------------------------------------------------------------------

SENSORS = [
    Doc(channel, str(seq), S, f"<{channel}><loc>{loc}</loc><t>1</t><v>{v}</v></{channel}>")
    for seq, channel, loc, v in [
        (1, "Light", "L1", 800),
        (2, "Temp", "L1", 30),
        (3, "Noise", "L1", 35),
        (4, "Light", "L2", 100),
        (5, "Temp", "L2", 28),
        (6, "Noise", "L2", 80),
        (7, "Temp", "L3", 20),
        (8, "Light", "L3", 900),
    ]
]
LIGHT, TEMP, NOISE = "Light[./loc->a][./t->b]", "Temp[./loc->c][./t->d]", "Noise[./loc->e][./t->f]"
SENSOR_QUERIES = {
    "QA": f"{LIGHT}[./v > 500] JOIN {{a = c AND b = d}} {TEMP}[./v > 25]",
    "QB": f"{TEMP}[./v > 25] JOIN {{c = e AND d = f}} {NOISE}[./v < 40]",
    "QC": f"{LIGHT} JOIN {{a = c AND b = d}} {TEMP} JOIN {{c = e AND d = f}} {NOISE}",
}
SENSOR_ANSWERS = {"QA": {2: {(1, 2)}}, "QB": {3: {(2, 3)}}, "QC": {3: {(1, 2, 3)}, 6: {(4, 5, 6)}}}
"""Which event completes which answers."""


@EVERY_SIDE
@pytest.mark.parametrize("batches", [1, 2, 4, 8])
def test_gc8_joins_of_three_sources_whole_and_in_part(name: str, batches: int, tmp_path: Path) -> None:
    after = side(name, tmp_path).ask(SENSOR_QUERIES, cut(SENSORS, batches))
    for number, found in enumerate(after, start=1):
        seen = number * len(SENSORS) // batches
        for query, completed in SENSOR_ANSWERS.items():
            expected = set().union(*(rows for seq, rows in completed.items() if seq <= seen))
            assert answered(found[query]) == expected, (query, seen)


# -- G-C9: both sides in one batch --------------------------------------------------------------------------------

KEYS = [Doc(channel, str(seq), seq * S, f"<{channel}>k</{channel}>") for seq, channel in enumerate("RSSR", start=1)]


@EVERY_SIDE
@pytest.mark.parametrize("batches", [1, 2, 4])
def test_gc9_each_pair_once_however_the_stream_is_cut(name: str, batches: int, tmp_path: Path) -> None:
    *_, found = side(name, tmp_path).ask({"Q": "R->r JOIN {r = s} S->s"}, cut(KEYS, batches))
    assert answered(found["Q"]) == {(1, 2), (1, 3), (4, 2), (4, 3)}
    assert len(found["Q"]) == 4


# -- G-C11: queries that come and go ------------------------------------------------------------------------------

CHANGES: list[int | tuple[str, str]] = [
    95,
    ("Q1", "S[./a > 90]"),
    96,
    40,
    ("Q2", "S[./a > 30]"),
    97,
    50,
    ("Q1", ""),
    99,
    ("Q3", "S[./a > 98]"),
    100,
]


@pytest.mark.parametrize("batch_docs", [1, 4, 100])
def test_gc11_queries_get_what_comes_while_they_are_there(engine: Engine, tmp_path: Path, batch_docs: int) -> None:
    lines: list[dict[str, object]] = []
    for change in CHANGES:
        if isinstance(change, int):
            lines.append({"channel": "S", "id": str(change), "ts": len(lines), "row": {"a": change}})
        elif change[1]:
            lines.append({"register": {"name": change[0], "text": change[1]}})
        else:
            lines.append({"drop": change[0]})
    stream = tmp_path / "stream.ndjson"
    stream.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = engine.ingest(stream)
    assert (report.taken, report.registered, report.dropped, report.rejected) == (7, 3, 1, 0)
    engine.run_once(batch_docs=batch_docs)
    found: dict[str, list[int]] = {}
    for match in engine.matches():
        (event,) = match.events
        found.setdefault(match.query, []).append(int(event.id))
    assert found == {"Q1": [96, 97], "Q2": [97, 50, 99, 100], "Q3": [100]}


# -- G-C1, G-C4, G-C12: conditions on the columns of rows -----------------------------------------------------------


@pytest.fixture
def rows_engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine that has no Spark."""
    import xscl

    with xscl.connect(home=tmp_path / "home") as opened:
        yield opened


def satisfied(engine: Engine, queries: dict[str, str], rows: Sequence[tuple[int, ...]]) -> dict[str, set[int]]:
    """The rows of S (columns a, b), by their places, that satisfy each query; rows come after all queries."""
    import xscl

    assert all(outcome.ok for outcome in engine.register_many((name, f"S[{text}]") for name, text in queries.items()))
    engine.ingest(
        xscl.Event("S", str(place), place, row=dict(zip("ab", row, strict=False)))
        for place, row in enumerate(rows, start=1)
    )
    engine.run_once()
    found: dict[str, set[int]] = {name: set() for name in queries}
    for match in engine.matches():
        (event,) = match.events
        assert int(event.id) not in found[match.query]
        found[match.query].add(int(event.id))
    return found


def test_gc1_a_grouped_filter(rows_engine: Engine) -> None:
    texts = (">1", ">7", ">11", "<3", "<5", "=6", "=8", "!=8", ">=8", "<=8")
    found = satisfied(rows_engine, {f"Q{place}": f"./a {text}" for place, text in enumerate(texts)}, [(8,)])
    assert {text for place, text in enumerate(texts) if found[f"Q{place}"]} == {">1", ">7", "=8", ">=8", "<=8"}


def test_gc4_a_filter_for_each_column(rows_engine: Engine) -> None:
    queries = {
        "Q1": "./a > 1 and ./b = 4",
        "Q2": "./a < 5 and ./b >= 2",
        "Q3": "./a = 3 and ./b < 9",
    }
    found = satisfied(rows_engine, queries, [(3, 4), (9, 4), (0, 2), (3, 9)])
    assert found == {"Q1": {1, 2}, "Q2": {1, 3, 4}, "Q3": {1}}
    planner = Planner(rows_engine.home)
    plan = planner.plan(1, 10)
    assert plan is not None
    assert (len(plan.matchers["S"]), plan.matchers["S"].dimensions) == (3, 2)
    assert plan.walked == frozenset()
    planner.close()


def test_gc12_disjunctions(rows_engine: Engine) -> None:
    rows = [(4, 3), (3, 1), (3, 8), (0, 0), (8, 4)]
    queries = {"one": "(./a < 1 or ./a > 7) and ./b >= 3", "two": "(./a < 1 or ./b > 7) and ./b >= 3"}
    assert satisfied(rows_engine, queries, rows) == {"one": {5}, "two": {3}}


# -- G-P1: the matrix of PSoup's first example, part B4 --------------------------------------------------------------


def test_gp1_queries_and_rows(rows_engine: Engine) -> None:
    """Query 24 is registered before the rows come; over rows that were there before it, it has no answers here."""
    queries = {
        "q20": "./a > 0 and ./a <= 5",
        "q21": "./a > 4 and ./b = 3",
        "q22": "./b < 0 and ./b > 4",  # as it is printed, which nothing satisfies
        "q22b": "./b > 0 and ./b < 4",  # as it must have been meant
        "q23": "./a = 4 and ./b = 3",
        "q24": "./a <= 4 and ./b >= 3",
    }
    found = satisfied(rows_engine, queries, [(4, 3), (3, 1), (3, 8), (0, 0), (8, 4)])
    assert found == {"q20": {1, 2, 3}, "q21": set(), "q22": set(), "q22b": {1, 2}, "q23": {1}, "q24": {1, 3}}


# -- G-P6, G-P7: windows of an invocation, part B4 -------------------------------------------------------------------

JOINED = [
    ("R", "r1", 1, {"a": 4}),
    ("R", "r2", 2, {"a": 3}),
    ("R", "r3", 3, {"a": 7}),
    ("S", "s1", 4, {"b": 2}),
    ("S", "s2", 5, {"b": 3}),
    ("S", "s3", 6, {"b": 1}),
    ("S", "s4", 7, {"b": 5}),
    ("R", "r4", 8, {"a": 5}),
    ("R", "r5", 9, {"a": 4}),
]


def test_gp6_windows_on_joins(rows_engine: Engine) -> None:
    import xscl

    rows_engine.register("R[./a->x] JOIN {x < 5 AND x > y AND y > 1} S[./b->y]", name="Q")
    rows_engine.ingest(xscl.Event(channel, id_, ts, row=row) for channel, id_, ts, row in JOINED)
    rows_engine.run_once()

    def found(window: str | None, now: int) -> set[tuple[str, ...]]:
        matches = rows_engine.matches("Q", window=window, now=now * S)
        return {tuple(event.id for event in match.events) for match in matches}

    five = {("r1", "s1"), ("r1", "s2"), ("r2", "s1"), ("r5", "s1"), ("r5", "s2")}
    assert found(None, 12) == five
    assert found("NOW-7..NOW", 9) == {("r2", "s1"), ("r5", "s1"), ("r5", "s2")}
    assert found("NOW-8..NOW", 12) == {("r5", "s1"), ("r5", "s2")}
    assert found("NOW-7..NOW", 12) == {("r5", "s2")}


SELECTED = [(1, 3, 4), (2, 7, 9), (4, 4, 3), (9, 1, 1), (12, 2, 8), (15, 4, 7)]
SELECTION = "S[./a < 5 and ./b > 2]"
SLIDING, LANDMARK, SNAPSHOT = "NOW-10..NOW", "2..NOW", "2..12"
CELLS: dict[tuple[int, str], set[int]] = {
    (5, SLIDING): {1, 4},
    (5, LANDMARK): {4},
    (5, SNAPSHOT): {4},
    (12, SLIDING): {4, 12},
    (12, LANDMARK): {4, 12},
    (12, SNAPSHOT): {4, 12},
    (14, SLIDING): {4, 12},
    (14, LANDMARK): {4, 12},
    (14, SNAPSHOT): {4, 12},
    (15, SLIDING): {12, 15},
    (15, LANDMARK): {4, 12, 15},
    (15, SNAPSHOT): {4, 12},
    (25, SLIDING): {15},
    (25, LANDMARK): {4, 12, 15},
    (25, SNAPSHOT): {4, 12},
    (26, SLIDING): set(),
    (26, LANDMARK): {4, 12, 15},
    (26, SNAPSHOT): {4, 12},
}


def test_gp7_windows_on_selections(rows_engine: Engine) -> None:
    """Every cell at its NOW, when nothing later has come, and again after all that came later."""
    import xscl

    def cell(now: int, window: str) -> set[int]:
        return {match.ts // S for match in rows_engine.matches("Q", now=now * S, window=window)}

    rows_engine.register(SELECTION, name="Q")
    rows = list(SELECTED)
    for now in sorted({now for now, _ in CELLS}):
        while rows and rows[0][0] <= now:
            ts, a, b = rows.pop(0)
            rows_engine.ingest([xscl.Event("S", str(ts), ts, row={"a": a, "b": b})])
        rows_engine.run_once()
        for (asked, window), expected in CELLS.items():
            if asked <= now:
                assert cell(asked, window) == expected, (asked, window, now)
    assert {match.ts // S for match in rows_engine.matches("Q")} == {1, 4, 12, 15}
    ids = [[match.id for match in rows_engine.matches(now=15 * S, window=SLIDING)] for _ in range(2)]
    assert ids[0] == ids[1] and len(ids[0]) == 2


def test_gp7_registered_fed_and_invoked_by_processes_of_their_own(tmp_path: Path) -> None:
    def xscl_(*arguments: str, given: str = "") -> str:
        command = [sys.executable, "-m", "xscl", *arguments]
        environment = {**os.environ, "XSCL_HOME": str(tmp_path / "home")}
        ran = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, check=True)
        return ran.stdout

    xscl_("init")
    xscl_("query", "add", "Q", SELECTION)
    rows = [{"channel": "S", "id": str(ts), "ts": ts, "row": {"a": a, "b": b}} for ts, a, b in SELECTED]
    xscl_("ingest", "-", given="".join(f"{json.dumps(row)}\n" for row in rows))
    xscl_("run", "--once")
    for now, window in ((15, SLIDING), (26, SLIDING), (15, SNAPSHOT)):
        listed = xscl_("match", "list", "Q", "--now", str(now), "--window", window)
        found = {int(json.loads(line)["events"][0]["id"]) for line in listed.splitlines()}
        assert found == CELLS[now, window]
