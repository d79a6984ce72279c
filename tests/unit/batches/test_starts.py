"""Events with a start: lines, checks, what is exported, and what steps make of them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import xscl
from xscl.upkeep.event_export import export_events

EVENTS = [
    {"channel": "A", "id": "e1", "ts": 3, "start": 1, "xml": "<e><n>e1</n></e>"},
    *(
        {"channel": "B", "id": f"e{n}", "ts": ts, "start": start, "xml": f"<e><n>e{n}</n></e>"}
        for n, (start, ts) in enumerate([(2, 4), (4, 9), (5, 7), (8, 10)], 2)
    ),
]


def test_intervals_of_events(tmp_path: Path) -> None:
    """Of what begins behind the end, the one that ends first (G-CAY-3)."""
    with xscl.connect(home=tmp_path / "home") as engine:
        for channel in "AB":
            engine.add_channel(channel, lateness="100 s")
        engine.register("SELECT a, b FROM A[./n->a] NEXT B[./n->b]", name="q")
        engine.register("SELECT a, b FROM A[./n->a] NEXT B[./n->b] FILTER {DUR = 6 s}", name="six")
        assert not engine.ingest(EVENTS).rejected
        for channel in "AB":
            engine.heartbeat(channel, 100_000_000)
        engine.run_once()
        for name in ("q", "six"):
            assert [[event.id for event in match.events] for match in engine.matches(name)] == [["e1", "e4"]]


def test_a_start_is_at_most_the_time(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        given = [
            {"channel": "A", "id": "a", "ts": 3, "start": 4, "xml": "<e/>"},
            {"channel": "A", "id": "b", "start": 4, "xml": "<e/>"},
            {"channel": "A", "id": "c", "ts": 3, "start": "x", "xml": "<e/>"},
            {"channel": "A", "id": "d", "ts": 3, "start": "1970-01-01T00:00:03Z", "row": {"n": 1}},
        ]
        report = engine.ingest(given)
        assert [(each.id, each.condition) for each in report.problems] == [
            ("a", "XSCL_BAD_EVENT_START"),
            ("b", "XSCL_BAD_EVENT_START"),
            ("c", "XSCL_BAD_EVENT_LINE"),
        ]


def test_starts_are_exported(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.ingest([*EVENTS[:1], {"channel": "A", "id": "p", "ts": 5, "xml": "<e/>"}])
        engine.ingest([{"channel": "R", "id": "r", "ts": 5, "start": 4.5, "row": {"n": 1}}])
        engine.run_once()
        told = io.BytesIO()
        export_events(engine.home, told)
        found = [json.loads(line) for line in told.getvalue().splitlines() if b"channel" in line]
        assert [line.get("start") for line in found] == ["1970-01-01T00:00:01Z", None, "1970-01-01T00:00:04.5Z"]
