"""Absence: the engine answers as the oracle does, however batches are cut, who shares a group, and who comes when."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from absences import S, add_channels, answers, question, record
from budget import examples
from oracle.absence import Beat, Intake, Question, Terms, decided
from oracle.evaluate import Doc

import xscl
from xscl.answers.status import batch_rows
from xscl.base.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = {
    "A->x[./k->a] NOT FOLLOWED BY {a = b, 4} B->y[./k->b]": (
        "A->x[./k->a]",
        ["A->x[./k->a] FOLLOWED BY {a = b, 4} B->y[./k->b]"],
        False,
    ),
    "SELECT x FROM A->x[./k->a] NOT FOLLOWED BY {a = b, 0..3} A->y[./k->b]": (
        "SELECT x FROM A->x[./k->a]",
        ["A->x[./k->a] FOLLOWED BY {a = b, 0..3} A->y[./k->b]"],
        False,
    ),
    "A->x[./k->a] WITHOUT {a != b, y - x IN [-2, 3]} B->y[./k->b]": (
        "A->x[./k->a]",
        ["A->x[./k->a] JOIN {a != b, y - x IN [-2, 3]} B->y[./k->b]"],
        False,
    ),
    "A[./k->a] FOLLOWED BY {a = c, 6} B[./k->c] WITHOUT {a = b, BETWEEN} C[./k->b]": (
        "A[./k->a] FOLLOWED BY {a = c, 6} B[./k->c]",
        ["(A[./k->a] FOLLOWED BY {a = c, 6} B[./k->c]) JOIN {a = b} C[./k->b]"],
        True,
    ),
    "A[./k->a] JOIN {a = c, 5} B[./k->c] WITHOUT {BETWEEN} C": (
        "A[./k->a] JOIN {a = c, 5} B[./k->c]",
        ["(A[./k->a] JOIN {a = c, 5} B[./k->c]) JOIN {} C"],
        True,
    ),
    "A[./k->a] FOLLOWED BY {a = c, 6} B->z[./k->c] NOT FOLLOWED BY {c = b, 3} C[./k->b]": (
        "A[./k->a] FOLLOWED BY {a = c, 6} B->z[./k->c]",
        ["(A[./k->a] FOLLOWED BY {a = c, 6} B->z[./k->c]) FOLLOWED BY {c = b, 3} C[./k->b]"],
        False,
    ),
    "A->x[./k->a] NOT FOLLOWED BY {a = b, 3} B[./k->b] WITHOUT {a = c, z - x IN (-3, 1]} C->z[./k->c]": (
        "A->x[./k->a]",
        [
            "A->x[./k->a] FOLLOWED BY {a = b, 3} B[./k->b]",
            "A->x[./k->a] JOIN {a = c, z - x IN (-3, 1]} C->z[./k->c]",
        ],
        False,
    ),
}
"""Texts, each with what is wanted, that joined with what is forbidden, and whether it is between."""


class Home:
    """A home and the same for the oracle, item by item."""

    def __init__(self, folder: Path, choose: random.Random, settings: Settings, spark: SparkSession | None) -> None:
        self.choose = choose
        self.terms = {
            name: Terms(choose.choice([None, 2 * S, 5 * S]), choose.choice([None, "one"]), choose.choice([None, 6 * S]))
            for name in "ABC"
        }
        self.engine = xscl.connect(home=folder, settings=settings, spark=spark)
        add_channels(self.engine, self.terms)
        self.text = choose.choice([*CASES])
        self.events: dict[Doc, int] = {}
        self.beats: dict[int, Beat] = {}
        self.asked: dict[str, Question] = {}
        self.live: list[str] = []
        self.place = 0

    def register(self) -> None:
        """Register the text under a new name."""
        name = f"q{len(self.asked)}"
        self.engine.register(self.text, name=name)
        wanted, forbidden, between = CASES[self.text]
        asked = question(wanted, *forbidden, between=between)
        self.place += 1
        self.asked[name] = Question(asked.wanted, asked.forbidden, self.place)
        self.live.append(name)

    def drop(self) -> None:
        """Drop one of the queries."""
        name = self.live.pop(self.choose.randrange(len(self.live)))
        self.engine.drop(name)
        self.place += 1
        asked = self.asked[name]
        self.asked[name] = Question(asked.wanted, asked.forbidden, asked.since, self.place)

    def take(self, number: int) -> None:
        """Take in an event or a heartbeat."""
        choose = self.choose
        channel, ts = choose.choice("AABBC"), (number // 2 + choose.choice([0, 0, 0, 1, -1, -2, -4, -6])) * S
        self.place += 1
        if choose.random() < 0.2:
            self.beats[self.place] = Beat(channel, ts - 2 * S)
            assert not self.engine.ingest([record(self.beats[self.place])]).rejected
            return
        keys = "".join(f"<k>{choose.randint(1, 2)}</k>" for _ in range(choose.choice([1, 1, 1, 2])))
        doc = Doc(channel, f"e{number}", ts, f"<e>{keys}</e>")
        self.events[doc] = self.place
        assert self.engine.ingest([record(doc)]).taken == 1

    def check(self) -> int:
        """Compare all answers; return how many there are."""
        intake = Intake(self.events, self.beats, self.terms)
        count = 0
        for name, asked in self.asked.items():
            found = [([id_ for _, id_ in each.answer[0]], each.ts) for each in decided(asked, intake)]
            assert answers(self.engine, name) == sorted(found, key=lambda row: (row[1], row[0])), (name, self.text)
            count += len(found)
        return count


def play(folder: Path, seed: int, settings: Settings, spark: SparkSession | None = None, items: int = 30) -> int:
    """Play one random stream; return the number of answers."""
    choose = random.Random(seed)
    home = Home(folder, choose, settings, spark)
    with home.engine:
        home.register()
        often = choose.choice([0.05, 0.3, 1])
        for number in range(items):
            chance = choose.random()
            if chance < 0.05 and len(home.asked) < 4:
                home.register()
            elif chance < 0.08 and home.live:
                home.drop()
            else:
                home.take(number)
            if choose.random() < often:
                home.engine.run_once()
        home.engine.run_once()
        return home.check()


@pytest.mark.parametrize("part", range(4))
def test_absence_is_what_the_oracle_says(tmp_path: Path, part: int) -> None:
    found = [play(tmp_path / str(seed), 1_000 * part + seed, Settings(where="driver")) for seed in range(examples(10))]
    assert any(found)


def test_tasks_answer_as_the_driver_does(tmp_path: Path, spark: SparkSession) -> None:
    assert play(tmp_path / "home", 0, Settings(where="spark"), spark, items=14) > 0
    with xscl.connect(home=tmp_path / "home", spark=spark) as engine:
        rows = engine.sql("SELECT match, qid, ts_max FROM matches ORDER BY ts_max, qid, match").collect()
        assert [tuple(row) for row in rows] == [(match.id, match.query, match.ts) for match in engine.matches()]
        assert "spark" in {report["joined_in"] for report in batch_rows(engine.home.catalog)}
