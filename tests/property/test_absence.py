"""Absence: the engine answers as the oracle does, however batches are cut, who shares a group, who comes when, and by
which level of consistency; and it tells each change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from absences import S, add_channels, answers, question, record
from budget import examples
from oracle.absence import FOR_EVER, Beat, Decided, Intake, Question, Terms, decided, too_late
from oracle.evaluate import Doc
from played_homes import Replays

import xscl
from xscl.answers.status import batch_rows
from xscl.base.settings import Settings
from xscl.catalog.channels import read_channels
from xscl.catalog.intake_order import read_last_places
from xscl.registry.channels import set_channel

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
OWN = "", "", "[./s = '1']", "[./s = '2']", "[not(./s = '1')]", "[./n > 2]", "[./n > 4 or ./s = '3']"
"""Selections in which queries of one text differ: guards of the block that is wanted first."""
LEVELS: dict[str, tuple[int | None, int | None]] = {
    "STRONG": (None, None),
    "MIDDLE": (0, None),
    "WEAK": (0, 0),
    "BLOCKING 0 s MEMORY 2 s": (0, 2 * S),
    "BLOCKING 1 s MEMORY 3 s": (S, 3 * S),
    "BLOCKING 2 s MEMORY 2 s": (2 * S, 2 * S),
}
"""Levels of consistency, each with how far behind clocks it answers, and how far behind them events come."""


class Home(Replays):
    """A home and the same for the oracle, item by item."""

    changes = False
    """Whether there are newer versions and removals, and queries that these correct."""

    def __init__(self, folder: Path, choose: random.Random, settings: Settings, spark: SparkSession | None) -> None:
        self.choose = choose
        self.terms = {
            name: Terms(
                choose.choice([None, None, 3 * S, 8 * S]), choose.choice([None, "one"]), choose.choice([None, 6 * S])
            )
            for name in "ABC"
        }
        self.engine = xscl.connect(home=folder, settings=settings, spark=spark)
        add_channels(self.engine, self.terms)
        self.text = choose.choice([*CASES])
        self.events: dict[Doc, int] = {}
        self.beats: dict[int, Beat] = {}
        self.asked: dict[str, Question] = {}
        self.told: dict[str, tuple[str, set[Decided]]] = {}
        """Cursor up to which changes were compared, and the answers there, by query."""
        self.corrected = 0
        self.live: list[str] = []
        self.place = 0
        self.retracts = False
        self.out: dict[Doc, int] = {}
        """Places at which documents were taken out."""
        self.again: dict[Doc, int] = {}
        """Places at which late documents were replayed."""
        self.former: dict[str, list[tuple[int, int | None]]] = {}
        """Places up to which a channel had another lateness, with that lateness."""

    def register(self) -> None:
        """Register the text under a new name."""
        name = f"q{len(self.asked)}"
        level = self.choose.choice([*(level for level in LEVELS if self.takes(level)), "MIDDLE", None])
        own = self.choose.choice(OWN)
        text, wanted, *forbidden = self.said([_selecting(own, each) for each in (self.text, *_plain(CASES[self.text]))])
        said = text if level is None else f"{text} CONSISTENCY {level}"
        self.retracts = self.changes and self.choose.random() < 0.8
        self.engine.register(f"{said} ON CHANGE RETRACT" if self.retracts else said, name=name)
        asked = question(wanted, *forbidden, between=CASES[self.text][2])
        self.place += 1
        given = LEVELS["STRONG" if self.is_settled() else "MIDDLE"] if level is None else LEVELS[level]
        self.asked[name] = Question(asked.wanted, asked.forbidden, self.place, FOR_EVER + 1, *given, self.retracts)
        self.told[name] = "start", set()
        self.live.append(name)

    def said(self, texts: list[str]) -> list[str]:
        """The text, and those of what is wanted and of what is forbidden, as a query has them."""
        return texts

    def takes(self, level: str) -> bool:
        """Whether no channel that the text names has a lateness shorter than the memory of a level."""
        memory = LEVELS[level][1] or 0
        return all(memory <= lateness for name in self.named() if (lateness := self.terms[name].lateness) is not None)

    def named(self) -> set[str]:
        """The channels that the text names."""
        return set(re.findall(r"\b[ABC]\b", self.text))

    def is_settled(self) -> bool:
        """Whether something settles the times of all channels that the text names."""
        with self.engine.home.catalog.read() as connection:
            beaten = {name for name, info in read_channels(connection).items() if info.heartbeat is not None}
        return all(self.terms[name].lateness is not None or name in beaten for name in self.named())

    def drop(self) -> None:
        """Drop one of the queries."""
        name = self.live.pop(self.choose.randrange(len(self.live)))
        self.engine.drop(name)
        self.place += 1
        asked = self.asked[name]
        self.asked[name] = replace(asked, until=self.place)

    def change(self) -> None:
        """Give a channel another lateness, or none."""
        name = self.choose.choice("ABC")
        terms, lateness = self.terms[name], self.choose.choice([None, S, 5 * S, 9 * S])
        if lateness != terms.lateness:
            self.former.setdefault(name, []).append((self.place, terms.lateness))
            self.terms[name] = replace(terms, lateness=lateness)
            told = "none" if lateness is None else f"{lateness // S} s"
            set_channel(self.engine.home.catalog, name, lateness=told)
            # A heartbeat may have taken a place.
            self.place = self.engine.home.catalog.ask(read_last_places)[1]

    def intake(self) -> Intake:
        """What came, for the oracle."""
        return Intake(self.events, self.beats, self.terms, before=self.former, out=self.out, again=self.again)

    def take(self, number: int) -> None:
        """Take in an event or a heartbeat."""
        choose = self.choose
        channel, ts = choose.choice("AAABBBC"), (number // 2 + choose.choice([0, 0, 0, 1, -1, -3, -5, -6])) * S
        self.place += 1
        if choose.random() < 0.15:
            self.beats[self.place] = Beat(channel, ts - 2 * S)
            assert not self.engine.ingest([record(self.beats[self.place])]).rejected
            return
        keys = "".join(f"<k>{choose.randint(1, 3)}</k>" for _ in range(choose.choice([1, 1, 1, 2])))
        facts = f"<s>{choose.randint(1, 3)}</s><n>{choose.randint(1, 6)}</n>"
        item = f"e{number}" if self.changes else None
        self.give(Doc(channel, f"e{number}", ts, f"<e>{keys}{facts}</e>", item=item))

    def give(self, doc: Doc) -> None:
        """Take in an event at the last place."""
        self.events[doc] = self.place
        event = record(doc if doc.item is None else replace(doc, id=doc.item))
        report = self.engine.ingest([replace(event, feed="f") if self.changes else event])
        assert report.taken == 1, report

    def run(self) -> None:
        """Process what came, and compare what each query tells of it with what has changed."""
        reports = self.engine.run_once()
        intake = self.intake()
        for info in self.engine.queries():
            assert info.late_for == len(too_late(self.asked[info.name], intake, self.named())), (info.name, self.text)
        for name, asked in self.asked.items():
            after, before = self.told[name]
            now = {replace(each, place=0) for each in decided(asked, intake)}
            listing = self.engine.changes(name, after=after)
            told = [(match.retracted is None, [event.id for event in match.events], match.ts) for match in listing]
            expected = [(True, ids, ts) for ids, ts in _told(now - before)]
            expected += [(False, ids, ts) for ids, ts in _told(before - now)]
            # A replay is a batch of its own, which takes back what one before it has told.
            told = _left(told) if len(reports) > 1 else told
            assert sorted(told) == sorted(expected), (name, self.text, asked.blocking, asked.memory)
            assert answers(self.engine, name) == _told(now), (name, self.text, asked.blocking, asked.memory)
            self.told[name] = listing.cursor, now
            self.corrected += len(before - now)


class OwnWindows(Home):
    """The same with other queries of the text in a bulk, which differ in windows and in a number that is forbidden."""

    def said(self, texts: list[str]) -> list[str]:
        """The texts with lengths of windows of their own; others like them are known by then."""
        others = [self._with_lengths(texts, more, number) for more, number in [(1, 9), (0, 8), (2, 5), (4, 7)]]
        names = {f"o{len(self.asked)}x{at}": found[0] for at, found in enumerate(others)}
        for name, text in names.items():
            self.engine.register(text, name=name)
        for name in names:
            self.engine.drop(name)
        self.place += 2 * len(names)
        return self._with_lengths(texts, self.choose.randint(0, 4), self.choose.randint(2, 6))

    def _with_lengths(self, texts: list[str], more: int, number: int) -> list[str]:
        def length(found: re.Match[str]) -> str:
            return f"{int(found[0]) + more} s" if found[0] != "0" else "0 s"

        longer = [re.sub(r"(?<![<>] )(?<=[ (\[.-])\d(?=[,}\]]|\.\.)", length, text) for text in texts]
        return [re.sub(r"(\b[BC](?:->\w)?)\[./k->b\]", rf"\1[./k->b][./n < {number}]", text) for text in longer]


class Corrected(Home):
    """The same with newer versions and removals."""

    changes = True

    def take(self, number: int) -> None:
        """Take in an event, a newer version of one, a removal, or a heartbeat."""
        choose = self.choose
        there = [doc for doc in self.events if doc not in self.out]
        if not there or choose.random() < 0.8:
            super().take(number)
            return
        old = choose.choice(there)
        base, _, version = old.id.partition("#")
        self.place += 1
        self.out[old] = self.place
        if choose.random() < 0.6:
            assert self.engine.retract(old.channel, base).removed == int(version or 1)
            return
        ts = (number // 2 + choose.choice([0, 0, 1, -1, -3])) * S
        xml = f"<e><k>{choose.randint(1, 3)}</k><s>1</s><n>{choose.randint(1, 6)}</n><m>{number}</m></e>"
        self.give(Doc(old.channel, f"{base}#{int(version or 1) + 1}", ts, xml, item=base))


def _plain(case: tuple[str, list[str], bool]) -> list[str]:
    """The texts of a case: what is wanted, and that with what is forbidden."""
    return [case[0], *case[1]]


def _selecting(own: str, text: str) -> str:
    """A text with a selection in its first block."""
    return text.replace("[./k->a]", f"{own}[./k->a]")


def _left(told: Iterable[tuple[bool, list[str], int]]) -> list[tuple[bool, list[str], int]]:
    """Leave the changes out that later ones undo."""
    left: list[tuple[bool, list[str], int]] = []
    for comes, ids, ts in told:
        if (not comes, ids, ts) in left:
            left.remove((not comes, ids, ts))
        else:
            left.append((comes, ids, ts))
    return left


def _told(found: Iterable[Decided]) -> list[tuple[list[str], int]]:
    rows = [([id_ for _, id_ in each.answer[0]], each.ts) for each in found]
    return sorted(rows, key=lambda row: (row[1], row[0]))


def play(
    folder: Path,
    seed: int,
    settings: Settings,
    spark: SparkSession | None = None,
    items: int = 26,
    kind: type[Home] = Home,
) -> tuple[int, int]:
    """Play one random stream; return the numbers of answers and of corrections."""
    choose = random.Random(seed)
    home = kind(folder, choose, settings, spark)
    with home.engine:
        home.register()
        often = choose.choice([0.1, 0.2, 1])
        for number in range(items):
            chance = choose.random()
            if chance < 0.1 and len(home.asked) < 5:
                home.register()
            elif chance < 0.13 and home.live:
                home.drop()
            elif chance < 0.18:
                home.change()
            elif chance < 0.24:
                home.replay()
            else:
                home.take(number)
            if choose.random() < often:
                home.run()
        home.run()
        return sum(len(now) for _, now in home.told.values()), home.corrected


@pytest.mark.parametrize("part", range(4))
def test_absence_is_what_the_oracle_says(tmp_path: Path, part: int) -> None:
    found = [play(tmp_path / str(seed), 1_000 * part + seed, Settings(where="driver")) for seed in range(examples(5))]
    assert any(answered for answered, _ in found)


def test_queries_that_are_filled_in_answer_as_the_oracle_says(tmp_path: Path) -> None:
    seeds = range(300, 300 + examples(40))
    found = [play(tmp_path / str(seed), seed, Settings(where="driver"), kind=OwnWindows) for seed in seeds]
    assert any(answered for answered, _ in found)


def test_newer_versions_and_removals_change_answers(tmp_path: Path) -> None:
    seeds = range(2, 2 + examples(9))
    found = [play(tmp_path / str(seed), seed, Settings(where="driver"), kind=Corrected) for seed in seeds]
    assert sum(corrected for _, corrected in found) > 0


def test_tasks_answer_as_the_driver_does(tmp_path: Path, spark: SparkSession) -> None:
    assert play(tmp_path / "home", 11, Settings(where="spark"), spark, items=14)[0] > 0
    with xscl.connect(home=tmp_path / "home", spark=spark) as engine:
        rows = engine.sql("SELECT match, qid, ts_max FROM matches ORDER BY ts_max, qid, match").collect()
        assert [tuple(row) for row in rows] == [(match.id, match.query, match.ts) for match in engine.matches()]
        assert "spark" in {report["joined_in"] for report in batch_rows(engine.home.catalog)}
