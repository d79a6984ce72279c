"""The examples of levels of consistency: a price that comes late, and what each level says of it meanwhile.

The next price after a piece of news is one without another price in between.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from xscl.base.types import Retraction
from xscl.engine import Engine

NEXT = "N->n FOLLOWED BY {1 h} P->p WITHOUT {BETWEEN} P"
S = 1_000_000
Told = list[tuple[int, str, str, str]]
"""Input behind which it was told, + or -, and ids of members."""

LEVELS = {
    "STRONG": [(4, "+", "n1", "p2")],
    "WEAK": [(2, "+", "n1", "p1")],
    "BLOCKING 2 s MEMORY 2 s": [(3, "+", "n1", "p2")],
    "BLOCKING 1 s MEMORY 2 s": [(3, "+", "n1", "p2")],
    "MIDDLE": [(2, "+", "n1", "p1"), (3, "+", "n1", "p2"), (3, "-", "n1", "p1")],
}


def play(engine: Engine) -> dict[str, Told]:
    """Take in the input of the example one by one; return what each level tells, and compare it with what holds."""

    def event(channel: str, id_: str, ts: int) -> list[xscl.Event]:
        return [xscl.Event(channel, id_, ts, xml="<e/>")]

    for level in LEVELS:
        engine.register(f"{NEXT} CONSISTENCY {level}", name=level.lower().replace(" ", "_"))
    told: dict[str, Told] = {level: [] for level in LEVELS}
    cursors = dict.fromkeys(LEVELS, "start")
    steps = [event("N", "n1", 1), event("P", "p1", 5), event("P", "p2", 3), 6, event("P", "p3", 8), 10]
    for number, given in enumerate(steps, start=1):
        if isinstance(given, int):
            for channel in "NP":
                engine.heartbeat(channel, given * S)
        else:
            engine.ingest(given)
        engine.run_once()
        for level in LEVELS:
            name = level.lower().replace(" ", "_")
            listing = engine.changes(name, after=cursors[level])
            found = [("-" if m.retracted else "+", *(event.id for event in m.events)) for m in listing]
            told[level] += [(number, sign, *ids) for sign, *ids in sorted(found)]  # type: ignore[misc]
            cursors[level] = listing.cursor
            net: set[tuple[str, ...]] = set()
            for _, sign, *ids in sorted(told[level], key=lambda row: (row[0], row[1] == "+")):
                (net.add if sign == "+" else net.remove)(tuple(ids))
            assert {tuple(event.id for event in match.events) for match in engine.matches(name)} == net
    return told


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    with xscl.connect(home=tmp_path_factory.mktemp("cedr") / "home") as engine:
        return play(engine)


@pytest.mark.parametrize("level", LEVELS)
def test_g_cedr_1_and_cedr_10(level: str, told: dict[str, Told]) -> None:
    """One query at several levels, side by side over one input."""
    assert told[level] == LEVELS[level]


@pytest.mark.parametrize("change", ["RETRACT", "KEEP"])
def test_g_edit_1(change: str, tmp_path: Path) -> None:
    """An item that said rain says sun now."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register(f"items->i[contains(./title, 'rain')] ON CHANGE {change}", name="q")
        for title in ("rain", "sun"):
            engine.ingest([xscl.Event("items", "1", 1, xml=f"<item><title>{title}</title></item>", feed="f")])
            engine.run_once()
        told = [match.retracted for match in engine.changes("q")]
        edited = [Retraction("edited", ("items", "1#2"))]
        assert told == [None, *(edited if change == "RETRACT" else [])]
        assert len(list(engine.matches("q"))) == (change == "KEEP")


@pytest.mark.parametrize("size", [1, 2, 7])
def test_g_cedr_2(size: int, tmp_path: Path) -> None:
    """The greatest price of each ten seconds: told once, when nothing can change it; what comes behind is late."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register(
            "SELECT max(p) AS top FROM P[./price->p] WINDOW 10 s EVERY 10 s CONSISTENCY STRONG", name="tops"
        )
        prices = [(1, 10), (12, 7), (4, 30)]
        events = [xscl.Event("P", f"p{ts}", ts, xml=f"<e><price>{price}</price></e>") for ts, price in prices]
        for first in range(0, len(events), size):
            engine.ingest(events[first : first + size])
            engine.run_once()
        assert list(engine.changes("tops")) == []
        engine.heartbeat("P", 20 * S)
        engine.run_once()
        final = [("30", 10 * S, None), ("7", 20 * S, None)]
        assert [(m.values["top"], m.ts, m.retracted) for m in engine.changes("tops")] == final
        report = engine.ingest([xscl.Event("P", "p5", 5, xml="<e><price>99</price></e>")])
        engine.run_once()
        assert report.late == 1
        assert [(m.values["top"], m.ts, m.retracted) for m in engine.changes("tops")] == final
