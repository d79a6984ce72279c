"""Steps: the engine tells what the oracle does, however batches are cut, and who comes when."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from absences import S, add_channels, record
from budget import examples
from oracle.absence import Beat, Intake, Terms
from oracle.evaluate import Doc
from oracle.steps import Asked, Stepped, stepped
from step_queries import other_numbers, step_query

import xscl
from xscl.base.errors import QueryError
from xscl.base.settings import Settings
from xscl.batches import step_meeting
from xscl.language.format import format_query
from xscl.language.parser import parse_query
from xscl.language.steps import steps_of


class Home:
    """A home and the same for the oracle, item by item."""

    def __init__(self, folder: Path, choose: random.Random) -> None:
        self.choose = choose
        self.terms = {
            name: Terms(choose.choice([0, 2 * S, 6 * S]), choose.choice([None, "one"]), choose.choice([None, 6 * S]))
            for name in "AB"
        }
        self.engine = xscl.connect(home=folder, settings=Settings(where="driver"))
        add_channels(self.engine, self.terms)
        first = _text(choose)
        self.texts = [first, _text(choose), *(_other(choose, first) for _ in range(3))]
        self.events: dict[Doc, int] = {}
        self.beats: dict[int, Beat] = {}
        self.asked: dict[str, Asked] = {}
        self.live: list[str] = []
        self.place = 0

    def register(self) -> None:
        name, text = f"q{len(self.asked)}", self.choose.choice(self.texts)
        self.engine.register(text, name=name)
        self.place += 1
        self.asked[name] = Asked(parse_query(text), self.place)
        self.live.append(name)

    def drop(self) -> None:
        name = self.live.pop(self.choose.randrange(len(self.live)))
        self.engine.drop(name)
        self.place += 1
        self.asked[name] = replace(self.asked[name], until=self.place)

    def take(self, number: int) -> None:
        choose = self.choose
        channel, ts = choose.choice("AAAAB"), (number // 2 + choose.choice([0, 0, 0, 1, -1, -3, -5])) * S
        self.place += 1
        if choose.random() < 0.1:
            self.beats[self.place] = Beat(channel, ts - 2 * S)
            assert not self.engine.ingest([record(self.beats[self.place])]).rejected
            return
        keys = "".join(f"<k>{choose.choice('aaaaabA')}</k>" for _ in range(choose.choice([1, 1, 1, 2])))
        value = choose.choice(["1", "2", "2.5", "3", "4", "x"])
        start = ts - choose.choice([1, 1, 2, 4]) * S if choose.random() < 0.3 else None
        doc = Doc(channel, f"e{number}", ts, f"<e>{keys}<v>{value}</v></e>", start=start)
        self.events[doc] = self.place
        assert self.engine.ingest([record(doc)]).taken == 1

    def compare(self) -> int:
        """Compare all that each query tells; of LONGEST once nothing comes any more."""
        self.engine.run_once()
        intake = Intake(self.events, self.beats, self.terms)
        count = 0
        for name, asked in self.asked.items():
            matches = [*self.engine.matches(name)]
            count += len(matches)
            if "LONGEST" in format_query(asked.query):
                continue
            expected = stepped(asked, intake)
            if steps_of(asked.query, "").has_values:
                told = Counter((match.ts, tuple(match.values.items())) for match in matches)
                distinct = {(each.answer, each.values, each.ts) for each in expected}
                assert told == Counter((ts, values) for _, values, ts in distinct), format_query(asked.query)
                continue
            found = Counter((match.ts, tuple((e.channel, e.id) for e in match.events)) for match in matches)
            assert found == Counter(map(_row, {each.answer: each for each in expected}.values())), (
                name,
                format_query(asked.query),
            )
        return count


def _row(each: Stepped) -> tuple[int, tuple[tuple[str, str], ...]]:
    return each.ts, each.answer[0]


def _other(choose: random.Random, text: str) -> str:
    """A query of the same shape, where there are others that can be registered."""
    found = other_numbers(choose, text)
    try:
        steps_of(parse_query(found), found)
    except QueryError:
        return text
    return found


def _text(choose: random.Random) -> str:
    """A random query that can be registered."""
    while True:
        text = step_query(choose, with_absence=choose.random() < 0.3)
        try:
            steps_of(parse_query(text), text)
        except QueryError:
            continue
        return text


def play(folder: Path, seed: int, items: int = 30) -> int:
    """Play one random stream; return the number of answers."""
    choose = random.Random(seed)
    home = Home(folder, choose)
    with home.engine:
        home.register()
        often = choose.choice([0.05, 0.2, 1])
        for number in range(items):
            chance = choose.random()
            if chance < 0.14 and len(home.asked) < 7:
                home.register()
            elif chance < 0.17 and home.live:
                home.drop()
            else:
                home.take(number)
            if choose.random() < often:
                home.compare()
        return home.compare()


def test_steps_are_what_the_oracle_says(tmp_path: Path) -> None:
    found = [play(tmp_path / str(seed), seed) for seed in (7, 3, 9, *range(10, 10 + examples(4)))]
    assert sum(found) > 20


def test_queries_that_are_moved_in_halves_are_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_meeting, "_MOST_ROWS", 0)
    assert sum(play(tmp_path / str(seed), seed) for seed in (3, 531)) > 15
