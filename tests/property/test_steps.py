"""Steps: the engine tells what the oracle does, however batches are cut, and who comes when."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from absences import S
from budget import examples
from oracle.absence import FOR_EVER, Asked, Intake
from oracle.evaluate import Doc
from oracle.steps import Stepped, at_last, stepped
from played_homes import PlayedHome
from step_queries import other_numbers, step_query, step_stream

from xscl.base.errors import QueryError
from xscl.batches.steps import meeting as step_meeting
from xscl.batches.steps import own_values as step_own_values
from xscl.batches.steps import sharing as step_sharing
from xscl.language.steps.steps import steps_of
from xscl.language.syntax.format import format_query
from xscl.language.syntax.parser import parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEVELS = {
    "STRONG": 0,
    "MIDDLE": 0,
    "WEAK": 0,
    "BLOCKING 0 s MEMORY 2 s": 2 * S,
    "BLOCKING 1 s MEMORY 2 s": 2 * S,
    "BLOCKING 2 s MEMORY 2 s": 2 * S,
    "BLOCKING 1 s MEMORY 5 s": 5 * S,
}
"""Levels of consistency with what they remember."""


class Home(PlayedHome):
    """A home with steps over documents of two channels."""

    chance_of_another, chance_of_a_drop, most_queries = 0.14, 0.03, 7
    chance_of_a_version = 0.15

    def some_texts(self) -> list[str]:
        first = _text(self.choose)
        return [first, _text(self.choose), *(_other(self.choose, first) for _ in range(3))]

    def channel(self) -> str:
        return self.choose.choice("AAAAB")

    def document(self, channel: str, id_: str, ts: int) -> Doc:
        choose = self.choose
        keys = "".join(f"<k>{choose.choice('aaaaabA')}</k>" for _ in range(choose.choice([1, 1, 1, 2])))
        value = choose.choice(["1", "2", "2.5", "3", "4", "x"])
        start = ts - choose.choice([1, 1, 2, 4]) * S if choose.random() < 0.3 else None
        return Doc(channel, id_, ts, f"<e>{keys}<v>{value}</v></e>", start=start)

    def compared(self, name: str, asked: Asked, intake: Intake) -> int:
        matches = [*self.engine.matches(name)]
        expected = stepped(asked, intake)
        if steps_of(asked.query, "").has_values:
            told = Counter((match.ts, tuple(match.values.items())) for match in matches)
            distinct = {(each.answer, each.values, each.ts) for each in expected}
            assert told == Counter((ts, values) for _, values, ts in distinct), format_query(asked.query)
            return len(matches)
        found = Counter((match.ts, tuple((e.channel, e.id) for e in match.events)) for match in matches)
        assert found == Counter(map(_row, {each.answer: each for each in expected}.values())), (
            name,
            format_query(asked.query),
        )
        return len(matches)


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
    """A random query that can be registered, and has answers over random events."""
    events = step_stream(choose, 25)
    while True:
        text = step_query(choose, with_absence=choose.random() < 0.3)
        try:
            steps_of(parse_query(text), text)
        except QueryError:
            continue
        if at_last(parse_query(text), events):
            return text


class Replayed(Home):
    """The same with late events that are taken again; the log tells each change."""

    causes: ClassVar[set[str]] = {"replayed"}
    chance_of_a_replay = 0.12

    def __init__(self, folder: Path, choose: random.Random, spark: SparkSession | None = None) -> None:
        super().__init__(folder, choose, spark)
        self.holding: set[str] = set()
        self.cursor = "start"
        self.taken_back = 0

    def compare(self) -> int:
        """Compare what holds with what the log says."""
        found = super().compare()
        changes = self.engine.changes(after=self.cursor)
        for match in changes:
            assert (match.retracted is None) == (match.id not in self.holding)
            self.holding ^= {match.id}
            if match.retracted is not None:
                self.taken_back += 1
                assert match.retracted.because in self.causes and match.retracted.by is not None
        self.cursor = changes.cursor
        assert self.holding == {match.id for match in self.engine.matches()}
        return found


class Corrected(Replayed):
    """The same with queries of all levels of consistency, whose answers late events correct."""

    chance_of_a_replay, chance_of_another = 0.04, 0.08
    latenesses = 3 * S, 6 * S, 9 * S, None
    causes: ClassVar[set[str]] = {"replayed", "late"}

    def some_texts(self) -> list[str]:
        longest = min(FOR_EVER if terms.lateness is None else terms.lateness for terms in self.terms.values())
        levels = [level for level, memory in LEVELS.items() if memory <= longest]
        return [
            f"{text} CONSISTENCY {level}" for text in super().some_texts() for level in self.choose.sample(levels, 2)
        ]


class Changed(Corrected):
    """The same while channels get other latenesses, which may be shorter than what queries remember."""

    chance_of_a_change = 0.12

    def register(self) -> None:
        """Register one of the texts whose memory no lateness is shorter than."""
        longest = min(FOR_EVER if terms.lateness is None else terms.lateness for terms in self.terms.values())
        texts = self.texts
        self.texts = [text for text in texts if LEVELS[text.partition(" CONSISTENCY ")[2]] <= longest]
        if self.texts:
            super().register()
        self.texts = texts


class Longest(Corrected):
    """The same with matches of LONGEST; runs between the same events may end at different times."""

    def some_texts(self) -> list[str]:
        choose = self.choose
        skip = choose.choice(["", "", " AND q != sum(q, p)", " AND sum(q, p) < 9", " AND q > {n} * p", " AND q != {n}"])
        holds = choose.choice(
            ["q < 4", "q > last(q, p)", "q != last(q, p)", "count() < {n}", "q < {n} * last(q, p)", "q != p + {n}"]
        )
        limits = choose.choice(["", "", ", 4", ", MAXWINDOW 6"])
        fold = f"FOLD {{l = k{skip}{limits} WHILE {holds}, LONGEST}} A[./k->l][./v->q]"
        behind = choose.choice(
            [
                "",
                "",
                " NEXT {k = m} A[./k->m]",
                " NEXT {k = m, {n}} A[./k->m]",
                " NEXT {k = m AND r > {n} * q} A[./k->m][./v->r]",
                " WITHOUT {k = m, 2} B[./k->m]",
                " FILTER {DUR > 2}",
                " FILTER {count() >= {n}}",
                " FILTER {q > {n} * p}",
                " FILTER {sum(q) = {n} + q}",
            ]
        )
        selected = choose.choice(["k, p, q", "k, q", "q, count() AS n"])
        left = f"A[./k->k][./v->p]{choose.choice(['', '[./v > {n}]'])}"
        made = f"SELECT {selected} FROM {left} {fold}{behind}"
        texts = {made.replace("{n}", number) for number in choose.sample(["1", "2", "3", "0.5"], 2)}
        longest = min(FOR_EVER if terms.lateness is None else terms.lateness for terms in self.terms.values())
        levels = [level for level, memory in LEVELS.items() if memory <= longest]
        return [f"{text} CONSISTENCY {level}" for level in choose.sample(levels, 2) for text in sorted(texts)]


class Together(Longest):
    """The same with four queries that differ in a number alone."""

    chance_of_another = 0.0

    def some_texts(self) -> list[str]:
        holds = self.choose.choice(["q < {n} * last(q, p)", "q > {n} * last(q, p)", "q != p + {n}", "count() < {n}"])
        limits = self.choose.choice(["", "", ", 4", ", MAXWINDOW 6"])
        skip = self.choose.choice(["", "", " AND q != {n}"])
        left = self.choose.choice(["", "", " FILTER {p >= {n}}", " NEXT {k = o AND r >= {n} * p} A[./k->o][./v->r]"])
        fold = f"FOLD {{l = k{skip}{limits} WHILE {holds}, LONGEST}} A[./k->l][./v->q]"
        text = f"SELECT k, p, q FROM A[./k->k][./v->p]{left} {fold}"
        level = self.choose.choice(["STRONG", "MIDDLE"])
        return [f"{text.replace('{n}', number)} CONSISTENCY {level}" for number in ("0.5", "1", "2", "3")]

    def register(self) -> None:
        """Register all texts."""
        texts = self.texts
        for text in texts:
            self.texts = [text]
            super().register()
        self.texts = texts


class Heard(Corrected):
    """The same with queries that publish, and one that reads what they publish and takes it back."""

    causes: ClassVar[set[str]] = {"replayed", "late", "removed"}

    def register(self) -> None:
        if not self.asked:
            self.engine.register("P->x ON CHANGE RETRACT", name="reader")
            self.place += 1
        super().register()

    def some_texts(self) -> list[str]:
        return [text.replace(" CONSISTENCY ", " PUBLISH P CONSISTENCY ") for text in super().some_texts()]

    def compare(self) -> int:
        found = super().compare()
        assert len(self.engine.matches("reader")) == found
        return found


def play(folder: Path, seed: int) -> int:
    """Play one random stream; return the number of answers."""
    return Home(folder, random.Random(seed)).play()


def test_steps_are_what_the_oracle_says(tmp_path: Path) -> None:
    found = [play(tmp_path / str(seed), seed) for seed in range(14, 14 + examples(12))]
    assert sum(found) > 20


def test_replayed_events_correct_steps(tmp_path: Path) -> None:
    homes = [Replayed(tmp_path / str(seed), random.Random(seed)) for seed in range(40, 40 + examples(2))]
    assert sum(home.play() for home in homes) > 20
    assert sum(home.taken_back for home in homes) > 3


def test_late_events_correct_steps(tmp_path: Path) -> None:
    kinds = Heard, Corrected, Longest
    homes = [kinds[seed % 3](tmp_path / str(seed), random.Random(seed)) for seed in range(55, 55 + examples(3))]
    assert sum(home.play() for home in homes) > 10
    assert sum(home.taken_back for home in homes) > 3


def test_longest_matches_of_queries_that_share_steps(tmp_path: Path) -> None:
    homes = [Together(tmp_path / str(seed), random.Random(seed)) for seed in range(29, 29 + examples(11))]
    assert sum(home.play() for home in homes) > 10


def test_steps_over_channels_that_change_are_corrected_alike(tmp_path: Path) -> None:
    homes = [Changed(tmp_path / str(seed), random.Random(seed)) for seed in range(60, 60 + examples(11))]
    assert sum(home.play() for home in homes) > 5


def test_steps_over_what_tasks_find_are_corrected_alike(tmp_path: Path, spark: SparkSession) -> None:
    home = Corrected(tmp_path / "home", random.Random(19), spark)
    home.texts = ["A->x[./k->k] NEXT {k = l} A->y[./k->l] CONSISTENCY MIDDLE"]
    assert home.play(12) > 0 and home.taken_back > 0


def test_queries_that_are_moved_in_halves_are_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (step_meeting, step_sharing):
        monkeypatch.setattr(module, "MOST_ROWS", 0)
    monkeypatch.setattr(step_own_values, "MOST_MEMBERS", 0)
    assert sum(play(tmp_path / str(seed), seed) for seed in (3, 19)) > 15
    home = Together(tmp_path / "together", random.Random(32))
    home.texts = [f"A[./k->k] FILTER {{k != '{text}'}} NEXT {{k = l}} A[./k->l] CONSISTENCY MIDDLE" for text in "abA"]
    home.texts += [f"A[./k->k] NEXT {{l = '{text}'}} A[./k->l] CONSISTENCY MIDDLE" for text in "ab"]
    assert home.play(12) > 3
