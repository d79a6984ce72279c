"""PUBLISH … AS ROWS: columns and types of what queries publish, its times, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle.evaluate import Doc
from step_answers import doc

import xscl
from xscl.base.errors import CatalogError, QueryError
from xscl.catalog.channels import read_channels
from xscl.engine import Engine
from xscl.language.published_columns import published_columns
from xscl.language.syntax.parser import parse_query

CPU = "SELECT p AS pid, avg(l) AS load FROM cpu[./pid->p][./load->l] WINDOW 5 s GROUP BY p"
LOADS = [(1, 0, 10), (1, 5, 12), (1, 10, 28), (1, 15, 60), (1, 20, 96), (1, 25, 40)]
LOADS += [(2, 0, 50), (2, 5, 55), (2, 10, 50), (2, 15, 95), (2, 20, 99)]


@pytest.fixture
def home(tmp_path: Path) -> Engine:
    return xscl.connect(home=tmp_path / "home")


def schema_of(engine: Engine, name: str) -> dict[str, str | None]:
    found = engine.home.catalog.ask(read_channels)[name]
    assert found.kind == "rows" and found.schema is not None
    return dict(found.schema)


def values(engine: Engine, query: str) -> list[tuple[str, ...]]:
    return sorted((*match.values.values(), f"{match.ts // 1_000_000}") for match in engine.matches(query))


def load(engine: Engine, size: int) -> None:
    events = [
        xscl.Event("cpu", f"{pid}@{ts}", ts, row={"pid": pid, "load": float(value)})
        for pid, ts, value in sorted(LOADS, key=lambda each: each[1])
    ]
    events.append(xscl.Event("cpu", "end", 100, row={"pid": 9, "load": 1.0}))
    for first in range(0, len(events), size):
        engine.ingest(events[first : first + size])
        engine.run_once()


@pytest.mark.parametrize("size", [1, 2, 100])
def test_rumors_first_query_over_a_published_channel(home: Engine, size: int) -> None:
    """The smoothed loads are points; what rises from below 20 to above 70 spans its members."""
    home.add_channel("cpu", kind="rows", schema="pid bigint, load double", lateness="0s")
    home.register(f"{CPU} PUBLISH smoothed AS ROWS", name="smooth")
    home.register(
        "SELECT p AS pid, a AS low, b AS high FROM smoothed[./load < 20][./pid->p][./load->a]"
        " FOLD {p = q WHILE b > last(b, a)} smoothed[./pid->q][./load->b] FILTER {b > 70}"
        " PUBLISH ramps SPANNING AS ROWS",
        name="ramp",
    )
    home.register("SELECT h FROM ramps[./high->h] FILTER {DUR > 15 s}", name="long")
    assert schema_of(home, "smoothed") == {"pid": "bigint", "load": "decimal"}
    assert schema_of(home, "ramps") == {"pid": "bigint", "low": "decimal", "high": "decimal"}
    load(home, size)
    assert values(home, "ramp") == [("1", "10", "1", "78", "20"), ("1", "11", "1", "78", "20")]
    assert values(home, "long") == [("78", "20")]


def test_a_join_of_documents_and_rows(home: Engine) -> None:
    """Texts of documents are texts; a column keeps its type, and rows compare as numbers."""
    home.add_channel("rooms", kind="rows", schema="room string, temp double, at timestamp")
    home.register(
        "SELECT n/title AS title, t AS temp, w FROM news->n[./room->a] JOIN {a = b, 1 h} rooms[./room->b][./temp->t]"
        "[./at->w] PUBLISH hot AS ROWS",
        name="pairs",
    )
    home.register("SELECT t FROM hot[./temp > 20][./title->t][./w > '2026-01-01']", name="read")
    assert schema_of(home, "hot") == {"title": "string", "temp": "double", "w": "timestamp"}
    told = "<e><room>r</room><title>one</title></e>", "<e><room>r</room><title>a</title><title>b</title></e>"
    events = [xscl.Event("news", f"n{n}", n, xml=xml) for n, xml in enumerate(told)]
    rows = {"room": "r", "temp": 21.50, "at": "2026-06-01T00:00:00Z"}
    home.ingest([*events, xscl.Event("rooms", "r1", 5, row=rows)])
    (report,) = home.run_once()
    assert [match.values["t"] for match in home.matches("read")] == ["one"]
    (refused,) = report.rejected
    assert refused.condition == "XSCL_ROW_SCHEMA" and "'title': a row has one value" in refused.message


def test_texts_that_are_no_values_of_their_columns(home: Engine) -> None:
    """A channel that was there before has types; a text that does not fit costs its own row, and no match."""
    home.add_channel("typed", kind="rows", schema="n bigint, sure boolean, x double")
    home.register("SELECT n, sure, x FROM S[./n->n][./sure->sure][./x->x] PUBLISH typed AS ROWS", name="feeder")
    home.register("SELECT a, b, c FROM typed[./n->a][./sure->b][./x->c]", name="reader")
    rows = [
        ("1", "true", "2.5"),
        ("1.5", "true", "1"),
        ("y", "true", "1"),
        ("3", "maybe", "1"),
        ("4", "0", "much"),
        ("5", " 0 ", "7"),
        (" ", "1", "3"),
    ]
    home.ingest(
        xscl.Event("S", f"s{at}", at, xml=f"<e><n>{n}</n><sure>{sure}</sure><x>{x}</x></e>")
        for at, (n, sure, x) in enumerate(rows)
    )
    (report,) = home.run_once()
    assert [(each.condition, each.message) for each in report.rejected] == [
        ("XSCL_ROW_SCHEMA", "column 'n': expected bigint, found '1.5'"),
        ("XSCL_ROW_SCHEMA", "column 'n': expected bigint, found 'y'"),
        ("XSCL_ROW_SCHEMA", "column 'sure': expected boolean, found string 'maybe'"),
        ("XSCL_ROW_SCHEMA", "column 'x': expected double, found 'much'"),
    ]
    assert len([*home.matches("feeder")]) == len(rows)
    # A text without a number is NULL, which no pattern meets.
    assert [(*match.values.values(),) for match in home.matches("reader")] == [
        ("1", "true", "2.5"),
        ("5", "false", "7"),
    ]


def test_spanning_and_points(home: Engine) -> None:
    home.register(
        "SELECT x FROM A[./k->x] NEXT {x = y} B[./k->y] PUBLISH long SPANNING AS ROWS CONSISTENCY STRONG", name="one"
    )
    home.register(
        "SELECT x FROM A[./k->x] NEXT {x = y} B[./k->y] PUBLISH points AS ROWS CONSISTENCY STRONG", name="two"
    )
    home.register("A[./k->x] NEXT {x = y} B[./k->y] PUBLISH whole SPANNING CONSISTENCY STRONG", name="three")
    for name in ("long", "points", "whole"):
        home.register(f"{name} FILTER {{DUR = 8 s}}", name=f"spans_{name}")
    events: list[Doc] = [doc("A", 4, 2, k=1), doc("B", 10, k=1)]
    home.ingest([xscl.Event(one.channel, one.id, one.ts / 1e6, xml=one.xml, start=start(one)) for one in events])
    home.run_once()
    home.heartbeat("A", 100_000_000)
    home.heartbeat("B", 100_000_000)
    home.run_once()
    assert [len([*home.matches(f"spans_{name}")]) for name in ("long", "points", "whole")] == [1, 0, 1]


def start(event: Doc) -> float | None:
    return None if event.start is None else event.start / 1e6


def refusal(engine: Engine, text: str) -> CatalogError | QueryError:
    with pytest.raises((CatalogError, QueryError)) as caught:
        engine.register(text)
    return caught.value


def test_what_is_refused(home: Engine) -> None:
    home.register("SELECT x AS a, y AS b FROM S[./x->x][./y->y] PUBLISH c AS ROWS", name="first")
    home.register("SELECT x AS b, y AS a FROM S[./x->x][./y->y] PUBLISH c AS ROWS", name="same")
    other = refusal(home, "SELECT x AS a, y AS z FROM S[./x->x][./y->y] PUBLISH c AS ROWS")
    assert other.condition == "XSCL_PUBLISH_COLUMNS" and "b is only on one side" in other.message
    assert other.column == 54
    assert refusal(home, "S PUBLISH c").condition == "XSCL_CHANNEL_KIND"
    home.register("S PUBLISH documents", name="documents")
    assert refusal(home, "SELECT x FROM S[./x->x] PUBLISH documents AS ROWS").condition == "XSCL_CHANNEL_KIND"
    for text, message in (
        ("S PUBLISH d AS ROWS", "there is no SELECT"),
        ("SELECT <a/> FROM S PUBLISH d AS ROWS", "SELECT makes an element"),
        ("SELECT x, x FROM S[./x->x] PUBLISH d AS ROWS", "two columns have the name x"),
        ("SELECT x' FROM S[./x->x'] PUBLISH d AS ROWS", "x' is no name of a column"),
    ):
        error = refusal(home, text)
        assert error.condition == "XSCL_PUBLISH_COLUMNS" and message in error.message, text


def test_readers_that_are_there_before_the_columns(home: Engine) -> None:
    home.add_channel("cpu", kind="rows", schema="pid bigint, load double", lateness="0s")
    home.register("c[./load->x] JOIN {x = y, 1 h} cpu[./load->y]", name="reader")
    home.register(f"{CPU} PUBLISH c AS ROWS", name="feeder")
    load(home, 100)
    assert len([*home.matches("reader")]) == 3  # 50 twice at 0 and 10, and 10 once: they compare as numbers


def test_types_of_columns() -> None:
    text = "SELECT a, q, n, m, count() AS c FROM S[./x->a] FOLD {last(n, 0) + 1 AS n, a AS m} S[./x->q]"
    assert published_columns(parse_query(text), text, None, {}, {}) == {
        "a": "string",
        "q": "string",
        "n": "decimal",
        "m": "string",
        "c": "bigint",
    }
