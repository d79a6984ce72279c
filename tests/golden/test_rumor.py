"""The examples of RUMOR: plans, and answers that are the same under any rules and cuts of batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from step_answers import by_engine as step_answers
from step_answers import by_oracle, doc

import xscl
from xscl import Engine
from xscl.base.settings import Settings
from xscl.base.types import LAST_TIME
from xscl.batches.windows.rows import read_kept
from xscl.catalog.tables import OF_WINDOWS, PARTS, STATE_FILES
from xscl.ingest.records import Heartbeat

Row = dict[str, object]
Taken = tuple[str, int, Row]
"""Channel, time in seconds, and columns."""
SIZES = pytest.mark.parametrize("size", [1, 2, 7, 100])
RULES = ("none", "s", "all")


def play(
    folder: Path, texts: Mapping[str, str], schemas: Mapping[str, str], rows: Sequence[Taken], size: int, rules: str
) -> tuple[dict[str, list[tuple[str, ...]]], dict[str, int]]:
    """Answers of each query as values with their times, and the number of m-ops under some rules."""
    with xscl.connect(home=folder, settings=Settings(where="driver", rules=rules)) as engine:
        for name, schema in schemas.items():
            engine.add_channel(name, kind="rows", schema=schema, lateness="0 s")
        assert all(outcome.ok for outcome in engine.register_many(list(texts.items())))
        events = [xscl.Event(channel, f"{at}", ts, row=row) for at, (channel, ts, row) in enumerate(rows)]
        for first in range(0, len(events), size):
            engine.ingest(events[first : first + size])
            engine.run_once()
        engine.ingest([Heartbeat(name, LAST_TIME, "test") for name in schemas])
        engine.run_once()
        found = {name: answers(engine, name) for name in texts}
        return found, {each: len(engine.plan(rules=each).mops) for each in RULES}


def answers(engine: Engine, name: str) -> list[tuple[str, ...]]:
    return sorted((*map(str, match.values.values()), f"{match.ts // 1_000_000}") for match in engine.matches(name))


# -- G-RUM-1: Example 21 -------------------------------------------------------------------------------------------

COUNTED = "SELECT count() AS n FROM S[./v {}][./k->k] WINDOW 100 s EVERY 100 s GROUP BY k"
EXAMPLE_21 = {"q1": COUNTED.format("> 10"), "q2": COUNTED.format("< 30")}
VALUES: list[Taken] = [("S", 5 * at, {"v": v, "k": "a"}) for at, v in enumerate((5.0, 20.0, 40.0))]


@SIZES
@pytest.mark.parametrize("rules", RULES)
def test_g_rum_1(tmp_path: Path, size: int, rules: str) -> None:
    """Two counts of one stream with different conditions."""
    found, plans = play(tmp_path / "home", EXAMPLE_21, {"S": "v double, k string"}, VALUES, size, rules)
    assert [[row[0] for row in found[name]] for name in ("q1", "q2")] == [["2"], ["2"]]
    assert plans == {"none": 4, "s": 3, "all": 2}


@pytest.mark.parametrize(("rules", "rows"), [("s", 4), ("all", 3)])
def test_g_rum_1_rows_of_both_streams_are_stored_once(tmp_path: Path, rules: str, rows: int) -> None:
    """The example's channel: 5 is in the second stream, 40 in the first, and 20 in both."""
    home = tmp_path / "home"
    with xscl.connect(home=home, settings=Settings(where="driver", rules=rules)) as engine:
        engine.add_channel("S", kind="rows", schema="v double, k string", lateness="0 s")
        assert all(outcome.ok for outcome in engine.register_many(list(EXAMPLE_21.items())))
        engine.ingest([xscl.Event("S", f"{at}", ts, row=row) for at, (_, ts, row) in enumerate(VALUES)])
        engine.run_once()
        (file,) = (row["path"] for row in engine.home.catalog.rows(STATE_FILES) if row["kind"] == "windows")
        kept = read_kept(engine.home.root / file)
        assert kept.size == (rows, 4, 0)
        assert sorted(kept.settled.values()) == [1, 2]
        if rules == "all":
            (shared,) = kept.rows.values()
            one, other = sorted(kept.settled)
            assert shared.column("parts").to_pylist() == [[other], [one, other], [one]]


# -- G-RUM-2: Query 1 ----------------------------------------------------------------------------------------------

SMOOTH = "(SELECT p AS pid, avg(l) AS load FROM cpu[./pid->p][./load->l] WINDOW 5 s GROUP BY p)"
RAMPS = {
    f"ramp{below}": f"SELECT p AS pid, a AS low, b AS high FROM {SMOOTH}[./load < {below}][./pid->p][./load->a]"
    f" FOLD {{p = q WHILE b > last(b, a)}} {SMOOTH}[./pid->q][./load->b] FILTER {{b > 70}}"
    for below in ("20", "11.5", "10.5")
}
LOADS = {1: (10, 12, 28, 60, 96, 40), 2: (50, 55, 50, 95, 99)}
CPU = sorted((5 * at, pid, float(load)) for pid, of in LOADS.items() for at, load in enumerate(of))
LOADED: list[Taken] = [("cpu", ts, {"pid": pid, "load": load}) for ts, pid, load in CPU]


def running(engine: Engine) -> tuple[int, int]:
    """Number of groups of queries whose windows run, and of channels that they publish to."""
    with engine.home.catalog.read() as connection:
        made = sa.select(sa.func.count()).select_from(PARTS).where(PARTS.c.ends == OF_WINDOWS)
        return connection.scalar(made) or 0, len(list(engine.queries(like="xscl.sub.*")))


@pytest.mark.parametrize(("rules", "size", "windows"), [("none", 100, 3), ("s", 7, 1), ("all", 2, 1)])
def test_g_rum_2(tmp_path: Path, rules: str, size: int, windows: int) -> None:
    """A load that rises from below a constant beyond 70: three queries over one smoothed load."""
    home = tmp_path / "home"
    found, plans = play(home, RAMPS, {"cpu": "pid bigint, load double"}, LOADED, size, rules)
    both, one = [("1", "10", "1", "78", "20"), ("1", "11", "1", "78", "20")], [("1", "10", "1", "78", "20")]
    assert found == {"ramp20": both, "ramp11.5": both, "ramp10.5": one}
    with xscl.connect(home=home) as engine:
        assert running(engine) == (windows, windows)
        alpha, *others = engine.plan(rules=rules).mops
    if rules != "none":
        assert plans == {"none": 12, "s": 8, "all": 4}
        assert alpha.inputs == ("cpu",) and alpha.rule == "s_α" and alpha.streams == 1
    else:
        assert plans["none"] == 12 and len(others) == 11
    if rules == "all":
        assert [(each.rule, each.inputs, each.streams) for each in others] == [
            ("s_σ", (1,), 3),
            ("c_μ", (2, 1), 3),
            ("c_σ", (3,), 3),
        ]


# -- G-RUM-4 and 5 -------------------------------------------------------------------------------------------------

TRADE = (
    "SELECT s AS company, p AS maxp, q AS minp, r AS finalp"
    " FROM stock[./volume > 10000][./name->s][./price->p]"
    " FOLD {s = t WHILE q < last(q, p)} stock[./name->t][./price->q]"
    " FILTER {DUR >= 10 min} NEXT {s = u} stock[./name->u][./price->r] FILTER {r > 1.05 * q}"
)
MINUTES = [(0, "IBM", 90, 15000), (5, "IBM", 85, 7000), (7, "Dell", 40, 11000), (11, "IBM", 81, 8000)]
TRADES = [*MINUTES, (13, "MSFT", 25, 6000), (14, "IBM", 91, 9000)]


def test_g_rum_4() -> None:
    """A plan of operators answers as the automaton, here the declarative oracle, does."""
    docs = [
        doc("stock", 60 * at, name=name, price=price, volume=volume, id=f"{name}@{at}")
        for at, name, price, volume in TRADES
    ]
    expected = by_oracle(TRADE, docs)
    assert expected == [("IBM", "90", "81", "91", "0", "840")]
    assert step_answers(TRADE, docs) == [(*row[:-2], row[-1]) for row in expected]


def test_g_rum_4_equal_prefixes_are_one(tmp_path: Path) -> None:
    """Patterns that differ in their last condition alone share the step and one index."""
    with xscl.connect(home=tmp_path / "home") as engine:
        for factor in ("1.05", "1.5"):
            engine.register(TRADE.replace("1.05", factor))
        assert [(each.kind, each.rule) for each in engine.plan().mops] == [
            ("select", "s_σ"),
            ("fold", "s_μ"),
            ("select", "s_σ"),
            ("next", "s_;"),
            ("select", "s_σ"),
        ]


def test_g_rum_5(tmp_path: Path) -> None:
    """A sequence whose right side is a sequence is one plan."""
    one, two, three = (
        f"stock[./name = '{name}'][./price->{v}]" for name, v in (("IBM", "a"), ("MSFT", "b"), ("Dell", "c"))
    )
    text = f"SELECT a, b, c FROM {one} NEXT ({two} NEXT {three})"
    docs = [
        doc("stock", ts, name=name, price=price)
        for ts, (name, price) in enumerate([("IBM", 80), ("MSFT", 50), ("MSFT", 49), ("Dell", 24)], 1)
    ]
    assert step_answers(text, docs) == [("80", "49", "24", "4"), ("80", "50", "24", "4")]
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register(text)
        index, inner, outer = engine.plan().mops
        assert (index.kind, inner.inputs, outer.inputs) == ("select", (1,), (1, 2))


# -- where feeds, documents and rows meet --------------------------------------------------------------------------

NEWS: list[Taken] = [
    ("news", 1, {"ticker": "IBM"}),
    ("stock", 2, {"name": "MSFT"}),
    *(("stock", ts, {"name": "IBM"}) for ts in (5, 9, 12)),
]
TICKER = "news->n[./ticker->x] {} stock->s[./name->y]"


@SIZES
def test_meet_1(tmp_path: Path, size: int) -> None:
    """FOLLOWED BY has all that follow in time, and NEXT the first."""
    texts = {"all": TICKER.format("FOLLOWED BY {x = y, 10 s}"), "first": TICKER.format("NEXT {x = y, 10 s}")}
    schemas = {"news": "ticker string", "stock": "name string"}
    found, _ = play(tmp_path / "home", texts, schemas, NEWS, size, "all")
    assert [[row[-1] for row in found[name]] for name in ("all", "first")] == [["5", "9"], ["5"]]


def test_meet_2(tmp_path: Path) -> None:
    """Queries of one shape over ten feeds are one template and one join, and each sees its own feeds."""
    feeds = [f"f{number}" for number in range(10)]
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("items", kind="rows", schema="author string")
        for feed in feeds:
            engine.add_channel(feed, of="items", source="feeds")
        for number in range(100):
            left, right = feeds[number % 10], feeds[number // 10]
            text = f"{left}->x[./author->a] FOLLOWED BY {{a = b, {number + 1} min}} {right}->y[./author->b]"
            engine.register(text, name=f"q{number}")
        (join,) = engine.plan().mops
        assert (join.kind, join.rule, len(join.queries)) == ("join", "c_⋈", 100)
        engine.ingest([xscl.Event("f1", "1", 0, row={"author": "A"}), xscl.Event("f2", "2", 30, row={"author": "A"})])
        engine.run_once()
        assert {match.query for match in engine.matches()} == {"q21"}


@SIZES
def test_meet_3(tmp_path: Path, size: int) -> None:
    """A join publishes pairs, a pattern over these publishes, and a join reads that, all in the same batch."""
    texts = {
        "pairs": "SELECT x, l FROM news[./ticker->x] FOLLOWED BY {x = y, 10 s} stock[./name->y][./load->l]"
        " PUBLISH pairs SPANNING AS ROWS",
        "calm": "SELECT x, l, m FROM pairs[./x->x][./l->l] NEXT {m < l} cpu[./load->m] PUBLISH calm AS ROWS",
        "top": "calm[./x->x][./m->m] FOLLOWED BY {x = y, 10 s} news[./ticker->y]",
    }
    schemas = {"news": "ticker string", "stock": "name string, load double", "cpu": "load double"}
    rows: list[Taken] = [
        ("news", 1, {"ticker": "IBM"}),
        ("stock", 3, {"name": "IBM", "load": 50.0}),
        ("cpu", 4, {"load": 60.0}),
        ("cpu", 6, {"load": 40.0}),
        ("news", 9, {"ticker": "IBM"}),
        ("news", 20, {"ticker": "IBM"}),
    ]
    found, _ = play(tmp_path / "home", texts, schemas, rows, size, "all")
    assert [row[-1] for row in found["pairs"]] == ["3"]
    assert [row[-1] for row in found["calm"]] == ["6"]
    assert [row[-1] for row in found["top"]] == ["9"]
