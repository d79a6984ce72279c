"""Ids of answers that are documents of their own: the same in every home, whoever else asks, and asked once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
import xscl.upkeep.upkeep
from xscl.batches.deciding.made_answers import shown_name
from xscl.engine import Engine
from xscl.registry.channels import set_channel

FOLD = "FROM s[./k->k] FOLD {k = l, 5 s, AT MOST 3} s[./k->l]"
TEXTS = {
    "window": "SELECT k, count(DISTINCT v) AS n FROM s[./k->k][./v->v] WINDOW 10 s GROUP BY k",
    "every": "SELECT k, count(DISTINCT v) AS n FROM s[./k->k][./v->v] WINDOW 4 s EVERY 4 s GROUP BY k",
    "last": "SELECT k, max(v) AS most FROM s[./k->k][./v->v] WINDOW LAST 3 GROUP BY k",
    "fold": f"SELECT k, count() AS n {FOLD}",
    "made": f"SELECT <runs n='{{count()}}'/> {FOLD}",
}
"""Queries whose answers are documents of their own."""


@xscl.function
def fails_on_two(text: str) -> str:
    if text == "2":
        raise ValueError("two")
    return text


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        opened.add_channel("s", lateness="0 s")
        yield opened


def events(seconds: range, begin: int = 0) -> list[xscl.Event]:
    return [xscl.Event("s", f"e{n}", begin + n, xml=f"<r><k>x</k><v>{n % 2}</v></r>") for n in seconds]


def ids(engine: Engine, name: str) -> list[tuple[str, str]]:
    return sorted((match.id, match.events[0].id) for match in engine.matches(name))


@pytest.mark.parametrize("name", TEXTS)
def test_ids_are_the_same_whoever_else_asks(tmp_path: Path, name: str) -> None:
    found = []
    for others in (0, 2):
        with xscl.connect(home=tmp_path / str(others)) as engine:
            engine.add_channel("s", lateness="0 s")
            for number in range(others):
                engine.register(TEXTS[name], name=f"q{number}")
                engine.ingest(events(range(number, number + 1)))
            engine.register(TEXTS[name], name="asked")
            engine.ingest([*events(range(2, 7)), *events(range(90, 91))])
            engine.run_once()
            found.append(ids(engine, "asked"))
    assert found[0] == found[1] and found[0]


@pytest.mark.parametrize("name", TEXTS)
def test_a_question_gives_the_ids_of_a_registered_query(engine: Engine, name: str) -> None:
    engine.register(TEXTS[name], name="asked")
    engine.ingest(events(range(7)))
    engine.end_input()
    engine.run_once()
    once = sorted((match.id, match.events[0].id) for match in engine.query_once(TEXTS[name], name="asked"))
    assert once == ids(engine, "asked") and once


def test_an_answer_comes_once_whoever_else_has_it(engine: Engine) -> None:
    """Two matches of one event end windows with the same values, which another query sees for one of them alone."""
    text = "SELECT k, count(DISTINCT v) AS n FROM s[./k->k][./v->v] WINDOW LAST 2 GROUP BY k"
    engine.register(text, name="sooner")
    engine.ingest([xscl.Event("s", "first", 1, xml="<r><k>x</k><v>1</v></r>")])
    engine.register(text, name="later")
    engine.ingest([xscl.Event("s", "twice", 2, xml="<r><k>x</k><k>x</k><v>2</v></r>"), *events(range(90, 91))])
    engine.run_once()
    for name, expected in (("sooner", ["1", "2", "1"]), ("later", ["1"])):
        assert [match.values["n"] for match in engine.matches(name)] == expected
        assert len({match.id for match in engine.matches(name)}) == len(expected)


@pytest.mark.parametrize("name", TEXTS)
def test_ids_of_events_that_went_come_again(engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for attribute, value in {"EVERY": 1, "_TRIMS": 1, "_CPU_S": 60.0}.items():
        monkeypatch.setattr(xscl.upkeep.upkeep, attribute, value)
    set_channel(engine.home.catalog, "s", retention="1 s")
    engine.register(TEXTS[name], name="asked")
    for begin in (0, 100, 200):
        for seconds in (range(3), range(60, 61), range(90, 91)):
            assert engine.ingest(events(seconds, begin)).taken == len(seconds)
            engine.run_once()
    found = ids(engine, "asked")
    assert len({of for _, of in found}) == len(found) >= 6


def test_refusals_name_the_events(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home", functions=[fails_on_two]) as engine:
        engine.add_channel("s", lateness="0 s")
        part = "s[./k->k] FOLLOWED BY {k = l, 5 s} s[./k->l][./v->v]"
        engine.register(f"SELECT k, max(fails_on_two(v)) AS most FROM {part} WINDOW 5 s GROUP BY k", name="value")
        for second, value in enumerate((1, 2, 1)):
            engine.ingest([xscl.Event("s", f"e{second}", second, xml=f"<r><k>x</k><v>{value}</v></r>")])
        engine.ingest(events(range(90, 91)))
        rejected = [each for report in engine.run_once() for each in report.rejected]
        assert {(each.query, each.channel, each.id) for each in rejected} == {("value", "s", "e1")}


def test_what_tells_answers_from_others_can_be_read() -> None:
    assert shown_name("orders\0o1\0payments\0p1") == "orders:o1, payments:p1"
    assert shown_name("1780272000000000") == "1780272000000000"
