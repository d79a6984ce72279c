"""A home that lets events go, looks after itself and starts again answers as a home that keeps everything."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from absences import S, record
from budget import examples
from oracle.evaluate import Doc
from step_queries import CHANNELS, step_query, step_stream

import xscl
import xscl.store.state_merges
import xscl.upkeep.catalog_rows
import xscl.upkeep.events
import xscl.upkeep.results
import xscl.upkeep.upkeep
from xscl.base.errors import XsclError
from xscl.base.settings import Settings
from xscl.base.types import Event, Match
from xscl.batches.report import BatchReport
from xscl.catalog.retained_from import keep_times
from xscl.engine import Engine
from xscl.ingest.records import Heartbeat
from xscl.registry.channels import set_channel
from xscl.upkeep.health import examine_home

PUBLISHED = "P"
ROWS = "R"
NAMES = (*dict.fromkeys(CHANNELS), PUBLISHED, ROWS)
Shown = tuple[str, str | None, int, dict[str, object]]
"""The query, the document, the time and the values of a match."""


def join_query(choose: random.Random) -> str:
    """A random query of one to three blocks, which may be about absence, in windows, or published."""
    blocks = choose.choice([1, 2, 2, 3])
    text = ""
    for number in range(1, blocks + 1):
        block = (
            f"{choose.choice(NAMES)}->x{number}{choose.choice(['', '', '[./v > 1]'])}[./k->k{number}][./v->v{number}]"
        )
        before = choose.randrange(1, number) if number > 1 else 0
        atoms = f"k{before} = k{number}{choose.choice(['', f' AND v{before} != v{number}'])}"
        join = f" {choose.choice(['JOIN', 'FOLLOWED BY'])} {{{atoms}, {choose.randint(1, 6)}}} "
        text += (join if before else "") + block
    if choose.random() < 0.3:
        word, length = choose.choice(["WITHOUT", "NOT FOLLOWED BY"]), choose.randint(1, 4)
        text += f" {word} {{k1 = k9, {length}}} {choose.choice(NAMES)}->x9[./k->k9]"
    elif choose.random() < 0.2:
        return f"SELECT k1 AS k, count() AS n FROM {text} WINDOW {choose.randint(1, 4)} s GROUP BY k1"
    elif choose.random() < 0.2:
        return f"SELECT k1 AS k, sum(v1) AS v FROM {text} WINDOW {choose.randint(1, 4)} s EVERY 2 s GROUP BY k1"
    if choose.random() < 0.3:
        return f"SELECT <e><k>{{k1}}</k><v>2</v></e> FROM {text} PUBLISH {PUBLISHED}"
    return text


class Homes:
    """Two homes to which the same happens; the first lets events go, and the second keeps everything."""

    def __init__(self, folder: Path, choose: random.Random) -> None:
        self.choose = choose
        self.folder = folder
        self.engines = [xscl.connect(home=folder / name, settings=Settings(where="driver")) for name in ("a", "b")]
        latenesses = choose.choice([[0, 1, 3, 6], [2, 4], [0, 2, None]])
        for channel in NAMES:
            lateness = choose.choice(latenesses)
            for engine in self.engines:
                columns = {"kind": "rows", "schema": "k string, v double"} if channel == ROWS else {}
                engine.add_channel(channel, **columns, **({} if lateness is None else {"lateness": f"{lateness} s"}))
            self.retain(channel)
        self.live: list[str] = []
        self.names = 0
        self.cursors = ["start", "start"]
        self.seen: Counter[str] = Counter()

    def retain(self, channel: str) -> None:
        retention = self.choose.choice(["0 s", "1 s", "3 s", "20 s", "none"])
        set_channel(self.engines[0].home.catalog, channel, retention=None if retention == "none" else retention)

    def register(self) -> None:
        text = step_query(self.choose, with_absence=self.choose.random() < 0.3)
        text = text.replace("B->", f"{self.choose.choice(NAMES)}->")
        text = text if self.choose.random() < 0.4 else join_query(self.choose)
        if self.choose.random() < 0.3:
            text += self.choose.choice([" CONSISTENCY STRONG", " CONSISTENCY WEAK", " ON CHANGE RETRACT"])
        name = f"q{self.names}"
        refused = []
        for engine in self.engines:
            try:
                engine.register(text, name=name)
            except XsclError as error:
                refused.append(error.condition)
        if refused:
            assert len(refused) == 2 and refused[0] == refused[1], (text, refused)
            self.seen["refused"] += 1
            return
        self.names += 1
        self.live.append(name)

    def drop(self) -> None:
        name = self.live.pop(self.choose.randrange(len(self.live)))
        for engine in self.engines:
            engine.drop(name)

    def restart(self) -> None:
        self.engines[0].close()
        self.engines[0] = xscl.connect(home=self.folder / "a", settings=Settings(where="driver"))

    def take(self, items: Sequence[Doc | Heartbeat]) -> None:
        records = [self.record(item) if isinstance(item, Doc) else item for item in items]
        one, two = (engine.ingest(records) for engine in self.engines)
        assert (one.taken, one.late) == (two.taken, two.late)
        self.seen["late"] += one.late

    def record(self, doc: Doc) -> Event | Heartbeat:
        """Return an event as it is taken in; some become rows."""
        if self.choose.random() < 0.7:
            return record(doc)
        key, value = self.choose.choice("aab"), self.choose.choice([1.0, 2.0, 2.5, None])
        return Event(ROWS, doc.id, Decimal(doc.ts) / S, row={"k": key, "v": value})

    def run(self) -> None:
        """Run both homes up to here, and compare their answers."""
        size = self.choose.choice([1, 2, 5, 1_000])
        reports = [busily(self.engines[0], size), list(self.engines[1].run_once(batch_docs=size))]
        found, expected = (sum(report.published for report in of) for of in reports)
        lost = [each for report in reports[0] for each in report.rejected if each.condition == "XSCL_EVENT_GONE"]
        gone = any(each.query is not None for each in lost)
        assert found == expected or (gone and found < expected)
        with self.engines[0].home.catalog.read() as connection:
            kept = keep_times(connection)

        def is_kept(match: Match) -> bool:
            return all(event.ts >= kept.get(event.channel, event.ts) for event in match.events)

        listed, everything = (shown(list(engine.matches())) for engine in self.engines)
        still = {match.id for match in self.engines[1].matches() if is_kept(match)}
        assert listed == {id_: of for id_, of in everything.items() if id_ in still}
        self.seen["listed"] += len(listed)
        self.seen["gone"] += len(everything) - len(listed)
        told, all_told = (self.news(number) for number in (0, 1))
        assert told.keys() <= all_told.keys()
        assert not [key for key, match in all_told.items() if key not in told and is_kept(match)]
        self.seen["told"] += len(told)

    def news(self, number: int) -> dict[tuple[str, bool], Match]:
        """Return the changes since the last look at a home, by the match and whether it was taken back."""
        changes = self.engines[number].changes(after=self.cursors[number])
        found = {(match.id, match.retracted is not None): match for match in changes}
        self.cursors[number] = str(changes.cursor)
        return found


def busily(engine: Engine, size: int) -> list[BatchReport]:
    """Run batches beside an upkeep that does all that it may, at once."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (xscl.upkeep.events, xscl.upkeep.results):
            patch.setattr(module, "FANOUT", 2)
            patch.setattr(module, "SMALL", 2)
        for name, value in {"EVERY": 1, "_TRIMS": 1, "_CPU_S": 60}.items():
            patch.setattr(xscl.upkeep.upkeep, name, value)
        for name, value in {"_FILES": 2, "_SMALL": 4, "_FANOUT": 3}.items():
            patch.setattr(xscl.store.state_merges, name, value)
        patch.setattr(xscl.upkeep.catalog_rows, "FEWEST_DROPPED", 1)
        return list(engine.run_once(batch_docs=size))


def shown(matches: Sequence[Match]) -> dict[str, Shown]:
    """Return what a listing shows of matches, by their ids."""
    found = {match.id: (match.query, match.document, match.ts, dict(match.values)) for match in matches}
    assert len(found) == len(matches)
    return found


def play(homes: Homes, docs: Sequence[Doc]) -> None:
    """Let things happen to the homes, and compare their answers now and then."""
    choose = homes.choose
    often = choose.choice([0.2, 0.4, 0.8])
    waiting = list(docs)
    for _ in range(3):
        homes.register()
    while waiting:
        if choose.random() < 0.3 and homes.names < 9:
            homes.register()
        if choose.random() < 0.06 and homes.live:
            homes.drop()
        if choose.random() < 0.05:
            homes.retain(choose.choice(NAMES))
        part = waiting[: choose.randint(1, 5)]
        waiting = waiting[len(part) :]
        homes.take(part)
        if choose.random() < 0.15:
            homes.restart()
        if choose.random() < often:
            homes.run()
    homes.take([Heartbeat(channel, 500 * S, "test") for channel in NAMES])
    homes.run()


def test_what_goes_takes_no_answer_with_it(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(12)):
        choose = random.Random(seed)
        homes = Homes(tmp_path / str(seed), choose)
        play(homes, step_stream(choose, 40, disorder=5))
        assert not list(examine_home(homes.engines[0].home, deep=True).problems)
        for engine in homes.engines:
            engine.close()
        seen += homes.seen
    assert min(seen[kind] for kind in ("listed", "told", "late")) > 5, seen
