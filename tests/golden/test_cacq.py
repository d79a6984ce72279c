"""Conditions, joins, and queries that come and go, as in CACQ and PSoup.

G-C1 (Figure 5) and G-C4 (Figure 1) are examples of S. Madden, M. Shah, J. Hellerstein and V. Raman, *Continuously
Adaptive Continuous Queries over Streams*, 2002; G-P1 is Figure 2 of S. Chandrasekaran and M. Franklin, *PSoup: a system
for streaming queries over streaming data*, 2003.  The rest are rows of our own, for what these papers describe.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from both_sides import ids, side
from budget import examples
from local_engine import compiled
from oracle.evaluate import Doc
from strategies import Dice

import xscl
from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.catalog.queries import read_queries
from xscl.catalog.records import QueryInfo
from xscl.language.facts import ChannelFacts
from xscl.planning.planner import Planner
from xscl.store.join_state import held_state
from xscl.store.results import match_id
from xscl.templates.runs.rows import rows_of_run
from xscl.xpath.columns.conditions import alternatives
from xscl.xpath.columns.formulas import All
from xscl.xpath.relational import ChannelSplit, RowShape
from xscl.xpath.row_columns import RowColumns
from xscl.xpath.spans.index import SpanIndex

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


# -- G-C10: two windows over one state -----------------------------------------------------------------------------


def test_gc10_windows_over_one_state(rows_engine: Engine) -> None:
    import xscl

    def take(channel: str, ts: int) -> None:
        rows_engine.ingest([xscl.Event(channel, f"{channel[0].lower()}{ts}", ts, row={"loc": "L1"})])
        rows_engine.run_once()

    def light_rows() -> int:
        return sum(row == "Light" for row in held_channels(rows_engine))

    for channel in ("Light", "Temp", "Noise"):
        rows_engine.add_channel(channel, kind="rows", schema="loc string", lateness="0 s", clock="one")
    rows_engine.register("Light[./loc->a] JOIN {a = b, 2 s} Temp[./loc->b]", name="Q1")
    rows_engine.register("Light[./loc->a] JOIN {a = b, 5 s} Temp[./loc->b]", name="Q2")
    for ts in range(1, 7):
        take("Light", ts)
    take("Temp", 7)
    found: dict[str, set[tuple[str, ...]]] = {}
    for match in rows_engine.matches():
        found.setdefault(match.query, set()).add(tuple(event.id for event in match.events))
    assert found == {
        "Q1": {("l5", "t7"), ("l6", "t7")},
        "Q2": {("l2", "t7"), ("l3", "t7"), ("l4", "t7"), ("l5", "t7"), ("l6", "t7")},
    }
    assert light_rows() == 5, "one copy for both queries, and the first is purged"
    rows_engine.drop("Q2")
    take("Noise", 7)
    assert light_rows() == 2


LIGHTS = "Light->l[./loc->a] {op} {{a = b, LAST {n} OF l}} Temp[./loc->b]"


def light(ts: int) -> xscl.Event:
    return xscl.Event("Light", f"l{ts}", ts, row={"loc": "L1"})


def temp(ts: int) -> xscl.Event:
    return xscl.Event("Temp", f"t{ts}", ts, row={"loc": "L1"})


def rows_pairs(engine: Engine, name: str) -> list[tuple[str, ...]]:
    return sorted(tuple(event.id for event in match.events) for match in engine.matches(name))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_gc10_by_rows(rows_engine: Engine, size: int) -> None:
    """Without any lateness, the state has as many events as the longest window counts."""
    for channel in ("Light", "Temp", "Noise"):
        rows_engine.add_channel(channel, kind="rows", schema="loc string")
    for name, count in (("Q1", 2), ("Q2", 5)):
        rows_engine.register(LIGHTS.format(op="JOIN", n=count), name=name)
    events = [*map(light, range(1, 7)), temp(7)]
    for first in range(0, len(events), size):
        rows_engine.ingest(events[first : first + size])
        rows_engine.run_once()
    assert rows_pairs(rows_engine, "Q1") == [("l5", "t7"), ("l6", "t7")]
    assert rows_pairs(rows_engine, "Q2") == [(f"l{ts}", "t7") for ts in range(2, 7)]
    assert held_channels(rows_engine).count("Light") == 5
    rows_engine.drop("Q2")
    rows_engine.ingest([xscl.Event("Noise", "n", 8, row={"loc": "L1"})])
    rows_engine.run_once()
    assert held_channels(rows_engine).count("Light") == 2


@pytest.mark.parametrize("size", [1, 4, 9])
def test_gc16_rows_as_of_the_probe(rows_engine: Engine, size: int) -> None:
    """The newest are those when the last member came, and not those at the end of the batch."""
    rows_engine.register(LIGHTS.format(op="FOLLOWED BY", n=2), name="Q")
    events = [*map(light, range(1, 7)), temp(7), light(8), light(9)]
    for first in range(0, len(events), size):
        rows_engine.ingest(events[first : first + size])
        rows_engine.run_once()
    assert rows_pairs(rows_engine, "Q") == [("l5", "t7"), ("l6", "t7")]


def test_ga6_events_are_counted_before_conditions(rows_engine: Engine) -> None:
    """STREAM's ``S[Rows 2] where B > 10``: after 20, 5 and 7 nothing is left of it, and not 20."""
    rows_engine.register("S->s[./b > 10][./k->x] JOIN {x = y, LAST 2 OF s} T[./k->y]", name="rows")
    rows_engine.register("S->s[./b > 10][./k->x] JOIN {x = y, LAST 3 OF s} T[./k->y]", name="more")
    for ts, b in enumerate((20, 5, 7), start=1):
        rows_engine.ingest([xscl.Event("S", str(ts), ts, row={"b": b, "k": "k"})])
    rows_engine.ingest([xscl.Event("T", "probe", 4, row={"k": "k"})])
    rows_engine.run_once()
    assert rows_pairs(rows_engine, "rows") == []
    assert rows_pairs(rows_engine, "more") == [("1", "probe")]


def held_channels(engine: Engine) -> list[str]:
    """The channel of each witness row of the join state."""
    with engine.home.catalog.read() as connection:
        state = held_state(engine.home, connection)
    rows = pa.concat_tables([WITNESS_SCHEMA.empty_table(), *map(rows_of_run, state.runs())])
    if state.floors is not None:
        rows = rows.filter(pa.array(state.floors.keep(rows.column("var").to_numpy(), rows.column("ts").to_numpy())))
    return [place.partition("\0")[0] for place in rows.column("place").to_pylist()]


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


def test_gc11_what_takes_the_place_of_a_query_has_nothing_of_it(rows_engine: Engine) -> None:
    """As above, the third query under the name of the first, whose matches stay its own."""
    import xscl

    def take(*values: int) -> None:
        rows_engine.ingest(xscl.Event("S", str(value), value, row={"a": value}) for value in values)
        rows_engine.run_once()

    take(95)
    rows_engine.register("S[./a->x > 90]", name="Q1")
    take(96, 40)
    rows_engine.register("S[./a > 30]", name="Q2")
    take(97, 50)
    rows_engine.drop("Q1")
    take(99)
    rows_engine.register("S[./a > 98]", name="Q1")
    take(100)
    found = {(match.query, match.events[0].id, match.id) for match in rows_engine.matches()}
    first, second = (info for info in rows_engine.home.catalog.ask(read_queries, live_only=False) if info.name == "Q1")
    assert first.gid != second.gid and first.docid_until < second.docid_from

    def id_of(info: QueryInfo, value: int) -> str:
        return match_id(info.digest, [("S", str(value))], [0])

    assert {row for row in found if row[0] == "Q1"} == {
        ("Q1", "96", id_of(first, 96)),
        ("Q1", "97", id_of(first, 97)),
        ("Q1", "100", id_of(second, 100)),
    }


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
    planner = Planner(rows_engine.home.catalog, rows_engine.home.folder("programs"))
    plan = planner.plan(1, 10)
    assert plan is not None
    assert (len(plan.matchers["S"]), plan.matchers["S"].dimensions) == (3, 2)
    assert plan.walked == frozenset()
    planner.close()


def test_gc12_disjunctions(rows_engine: Engine) -> None:
    rows = [(4, 3), (3, 1), (3, 8), (0, 0), (8, 4)]
    queries = {"one": "(./a < 1 or ./a > 7) and ./b >= 3", "two": "(./a < 1 or ./b > 7) and ./b >= 3"}
    assert satisfied(rows_engine, queries, rows) == {"one": {5}, "two": {3}}


# -- PSoup's first example: queries and rows in any order ---------------------------------------------------------

CONDITIONS = {
    "q20": "./a > 0 and ./a <= 5",
    "q21": "./a > 4 and ./b = 3",
    "q22": "./b < 0 and ./b > 4",  # as it is printed, which nothing satisfies
    "q22b": "./b > 0 and ./b < 4",  # as it must have been meant
    "q23": "./a = 4 and ./b = 3",
    "q24": "./a <= 4 and ./b >= 3",
}
ROWS = {48: (4, 3), 49: (3, 1), 50: (3, 8), 51: (0, 0), 52: (8, 4)}
"""Row 49 has lost a value in print."""
MORE_ROWS = {53: (5, 3), 54: (4, 3)}
MATRIX = {"q20": {48, 49, 50}, "q21": set(), "q22": set(), "q22b": {48, 49}, "q23": {48}, "q24": {48, 50}}
MORE = {"q20": {53, 54}, "q21": {53}, "q22": set(), "q22b": {53, 54}, "q23": {54}, "q24": {54}}


def ask(engine: Engine, name: str, starting: str = "") -> None:
    engine.register(f"R[{CONDITIONS[name]}] {starting}", name=name)


def insert(engine: Engine, rows: dict[int, tuple[int, int]]) -> None:
    import xscl

    engine.ingest(xscl.Event("R", str(seq), seq, row={"a": a, "b": b}) for seq, (a, b) in rows.items())


def matrix(engine: Engine) -> dict[str, set[int]]:
    """Which rows each query has, each once."""
    found: dict[str, set[int]] = {query.name: set() for query in engine.queries()}
    for match in engine.matches():
        (event,) = match.events
        assert int(event.id) not in found[match.query]
        found[match.query].add(int(event.id))
    return found


def test_gp1_a_new_query_over_old_data(rows_engine: Engine) -> None:
    for name in MATRIX:
        if name != "q24":
            ask(rows_engine, name)
    insert(rows_engine, ROWS)
    rows_engine.run_once()
    ask(rows_engine, "q24", "STARTING ALL")
    rows_engine.run_once()
    assert matrix(rows_engine) == MATRIX


@pytest.mark.parametrize("batch_docs", [1, 3, 100])
def test_gp2_new_data_over_old_queries(rows_engine: Engine, batch_docs: int) -> None:
    insert(rows_engine, ROWS)
    for name in MATRIX:
        ask(rows_engine, name, "STARTING ALL")
    insert(rows_engine, MORE_ROWS)
    rows_engine.run_once(batch_docs=batch_docs)
    assert matrix(rows_engine) == {name: MATRIX[name] | MORE[name] for name in MATRIX}


@pytest.mark.parametrize("seed", range(examples(25)))
def test_gp3_the_order_of_queries_and_data_does_not_matter(rows_engine: Engine, seed: int) -> None:
    """With batches between them at random places, and of random sizes."""
    choose = Dice(seed)
    steps: list[object] = [*MATRIX, *ROWS.items(), *MORE_ROWS.items()]
    choose.random.shuffle(steps)
    for step in steps:
        if isinstance(step, str):
            ask(rows_engine, step, "STARTING ALL")
        else:
            seq, values = step
            insert(rows_engine, {seq: values})
        if choose.chance(20):
            rows_engine.run_once(batch_docs=choose.one(1, 2, 100))
    rows_engine.run_once(batch_docs=choose.one(1, 2, 3, 100))
    assert matrix(rows_engine) == {name: MATRIX[name] | MORE[name] for name in MATRIX}


def test_gp4_what_is_left_of_each_query() -> None:
    """PSoup counts down; our index looks up the rarest condition and asks for the others, to the same end."""
    queries = ("q20", "q21", "q23", "q24")
    clauses = [(name, clause) for name in queries for clause in CONDITIONS[name].split(" and ")]
    probe = RowColumns(pa.array([["4", "3"]], pa.list_(pa.string())), 2)

    def satisfied(conditions: Sequence[str]) -> set[int]:
        index = SpanIndex()
        for number, condition in enumerate(conditions):
            (spec,) = compiled(f"R[{condition}]", {"R": ChannelFacts("rows", frozenset("ab"))}).specs
            split = ChannelSplit(RowShape("R", ("a", "b")))
            split.put({spec.definition.key: [spec]})
            (asked,) = split.rows(spec.definition.key)
            index.add(number, alternatives(All(asked.guard)))
        return {int(number) for _, found in index.satisfied(probe) for number in found}

    hold = satisfied([clause for _, clause in clauses])
    remaining = Counter(name for name, _ in clauses)
    assert remaining == {"q20": 2, "q21": 2, "q23": 2, "q24": 2}
    after = []
    for column in "ab":
        remaining.subtract(name for at, (name, clause) in enumerate(clauses) if column in clause and at in hold)
        after.append(dict(remaining))
    assert after == [{"q20": 0, "q21": 2, "q23": 1, "q24": 1}, {"q20": 0, "q21": 1, "q23": 0, "q24": 0}]
    whole = satisfied([CONDITIONS[name] for name in queries])
    assert {queries[number] for number in whole} == {name for name in queries if not remaining[name]}


def test_gp5_a_join_over_old_and_new_data(rows_engine: Engine) -> None:
    import xscl

    def take(channel: str, column: str, rows: dict[int, int], names: Sequence[str]) -> None:
        rows_engine.ingest(
            xscl.Event(channel, name, ts, row={column: value})
            for name, (ts, value) in zip(names, rows.items(), strict=True)
        )
        rows_engine.run_once()

    def pairs() -> set[tuple[str, ...]]:
        found = [tuple(event.id for event in match.events) for match in rows_engine.matches("Q")]
        assert len(found) == len(set(found))
        return set(found)

    take("R", "a", {1: 4, 2: 3, 3: 7}, ["r1", "r2", "r3"])
    take("S", "b", {4: 2, 5: 3, 6: 1, 7: 5}, ["s1", "s2", "s3", "s4"])
    rows_engine.register("R[./a < 5][./a->x] JOIN {x > y} S[./b > 1][./b->y] STARTING ALL", name="Q")
    rows_engine.run_once()
    old = {("r1", "s1"), ("r1", "s2"), ("r2", "s1")}
    assert pairs() == old
    take("R", "a", {8: 5}, ["r4"])
    assert pairs() == old
    take("R", "a", {9: 4}, ["r5"])
    assert pairs() == old | {("r5", "s1"), ("r5", "s2")}


# -- G-P6, G-P7: windows of an invocation -------------------------------------------------------------------------

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


# -- G-P8: aggregates of an invocation ----------------------------------------------------------------------------

LEAVES = [3, 17, 20, 8, 15, 2, 19, 11, 5, 22, 7, 13, 21, 9, 4, 18, 6, 1, 14, 10, 16, 12, 23, 0]
EXCLUDED = (20, 15, 19, 22, 21)


def test_gp8_aggregates_over_a_window(rows_engine: Engine) -> None:
    import xscl

    conditions = "".join(f"[./v != {value}]" for value in EXCLUDED)
    rows_engine.register("S->r[./v->q]", name="A")
    rows_engine.register(f"S->r{conditions}[./v->q]", name="B")
    rows_engine.ingest(xscl.Event("S", f"t{ts}", ts, row={"v": value}) for ts, value in enumerate(LEAVES, start=1))
    rows_engine.run_once()
    asked = ["sum(q)", "min(q)", "max(q)", "avg(q)"]
    (of_a,) = rows_engine.count_matches("A", aggregates=asked, window="8..20").rows
    assert of_a == {"matches": 13, "sum(q)": 141, "min(q)": 1, "max(q)": 22, "avg(q)": 141 / 13}
    (of_b,) = rows_engine.count_matches("B", aggregates=["max(q)"], window="8..20").rows
    assert of_b["max(q)"] == 18
    assert rows_engine.count_matches(window="8..20").rows == [
        {"query": "A", "matches": 13},
        {"query": "B", "matches": 13 - sum(value in EXCLUDED for value in LEAVES[7:20])},
    ]


def test_distinct_values_of_an_invocation(rows_engine: Engine) -> None:
    """PSoup's ``SELECT a`` on the rows of G-P7, from the first to NOW = 15: the bag 3, 4, 2, 4, and DISTINCT."""
    import xscl
    from xscl.answers.matches.listing import with_other_documents

    rows_engine.register("SELECT <a>{x}</a> FROM S[./a < 5 and ./b > 2][./a->x]", name="Q")
    rows_engine.ingest(xscl.Event("S", f"t{ts}", ts, row={"a": a, "b": b}) for ts, a, b in SELECTED)
    rows_engine.run_once()
    matches = rows_engine.matches("Q", window="1..NOW", now=15 * S)
    assert [match.values["x"] for match in matches] == ["3", "4", "2", "4"]
    again = rows_engine.matches("Q", window="1..NOW", now=15 * S)
    assert [match.values["x"] for match in with_other_documents(again)] == ["3", "4", "2"]
    counted = rows_engine.count_matches("Q", aggregates=["count(x)", "count(DISTINCT x)"], window="1..NOW", now=15 * S)
    assert counted.rows == [{"matches": 4, "count(x)": 4, "count(DISTINCT x)": 3}]


# -- G-P11: three ways to answer -------------------------------------------------------------------------------------


def eager(condition: str, window: tuple[int, int | None, int | None]) -> str:
    """A query whose current answers are the rows of a window; ends that do not move with NOW are conditions."""
    length, begin, end = window
    ends = [f" and ./n >= {begin}"] if begin is not None else []
    ends += [f" and ./n <= {end}"] if end is not None else []
    selected = f"S[({condition}){''.join(ends)}][./n->n]"
    return f"SELECT n, count() AS c FROM {selected} WINDOW {length} s EVERY 1 s GROUP BY n"


def test_gp11_three_ways_to_answer_agree(rows_engine: Engine) -> None:
    """None (asked once), lazy (a listing with a window) and eager (windows): G-P7's cells and random queries."""
    import xscl

    choose = Dice(11)
    asked = {"gp7": "./a < 5 and ./b > 2"}
    for number in range(examples(1)):
        ops = [f"./{choose.one('a', 'b')} {choose.one('<', '>', '=', '!=')} {choose.count(0, 9)}" for _ in range(2)]
        asked[f"q{number}"] = f" {choose.one('and', 'or')} ".join(ops)
    ways = {SLIDING: (11, None, None), LANDMARK: (27, 2, None), SNAPSHOT: (27, 2, 12)}
    rows_engine.add_channel("S", kind="rows", schema="n bigint, a bigint, b bigint")
    for name, condition in asked.items():
        rows_engine.register(f"S[{condition}]", name=name)
        for number, of in enumerate(ways.values()):
            rows_engine.register(eager(condition, of), name=f"{name}_{number}")
    told: dict[tuple[str, int, int], set[int]] = {}
    rows = list(SELECTED)
    others = [(n, choose.count(0, 9), choose.count(0, 9)) for n in range(26) if n not in {row[0] for row in rows}]
    for now in sorted({now for now, _ in CELLS}):
        given = [row for row in rows + others if row[0] <= now]
        rows, others = [row for row in rows if row[0] > now], [row for row in others if row[0] > now]
        rows_engine.ingest(xscl.Event("S", str(n), n, row={"n": n, "a": a, "b": b}) for n, a, b in sorted(given))
        rows_engine.heartbeat("S", (now + 1) * S - 1)
        rows_engine.run_once()
        once = {m.ts // S for m in rows_engine.query_once(f"S[{asked['gp7']}]")}
        for name in asked:
            for number, window in enumerate(ways):
                begin, end = (now - 10, now) if window is SLIDING else (2, now if window is LANDMARK else 12)
                lazy = {m.ts // S for m in rows_engine.matches(name, window=window, now=now * S)}
                kept = {int(m.values["n"]) for m in rows_engine.matches(f"{name}_{number}", current=True)}
                assert lazy == kept, (name, window, now)
                told[name, begin, end] = lazy
                if name == "gp7":
                    assert lazy == {ts for ts in once if begin <= ts <= end}
                    assert lazy & {ts for ts, _, _ in SELECTED} == CELLS[now, window]
    for name, condition in asked.items():
        once = {m.ts // S for m in rows_engine.query_once(f"S[{condition}]")}
        assert all(lazy == {ts for ts in once if b <= ts <= e} for (of, b, e), lazy in told.items() if of == name)


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
