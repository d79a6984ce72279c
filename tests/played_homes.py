"""Homes that are played item by item, and the same for an oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from absences import S, add_channels, record
from oracle.absence import Asked, Beat, Intake, Terms
from oracle.evaluate import Doc

import xscl
from xscl.base.settings import Settings
from xscl.catalog.intake_order import read_last_places
from xscl.engine import Engine
from xscl.language.syntax.parser import parse_query
from xscl.registry.channels import set_channel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Replays:
    """A home that may take late events again."""

    choose: random.Random
    engine: Engine
    place: int
    again: dict[Doc, int]
    """Places at which late documents were replayed."""

    def intake(self) -> Intake:
        """Tell the oracle what came."""
        raise NotImplementedError

    def replay(self) -> None:
        """Take some late events again."""
        late = [doc for doc in self.intake().judged() if doc.late]
        waiting = [doc for each in late if (doc := replace(each, late=False)) not in self.again]
        if not waiting:
            return
        chosen = self.choose.sample(waiting, self.choose.randint(1, len(waiting)))
        self.place += 1
        assert self.engine.replay_late(ids=[doc.id for doc in chosen]).events == len(chosen)
        self.again |= dict.fromkeys(chosen, self.place)


class PlayedHome(Replays):
    """A home with channels A and B, whose queries come and go between events and heartbeats."""

    chance_of_another: ClassVar[float]
    """Chance that an item is a registration."""
    chance_of_a_drop: ClassVar[float]
    most_queries: ClassVar[int]
    chance_of_a_replay: ClassVar[float] = 0.0
    chance_of_a_change: ClassVar[float] = 0.0
    """Chance that an item is another lateness of a channel."""
    chance_of_a_version: ClassVar[float] = 0.0
    """Chance that a document is a newer version of one that came before."""
    latenesses: ClassVar[Sequence[int | None]] = (0, 2 * S, 6 * S)

    def __init__(self, folder: Path, choose: random.Random, spark: SparkSession | None = None) -> None:
        """Make a home; with a session of Spark its tasks work."""
        self.choose = choose
        self.terms = {
            name: Terms(choose.choice(self.latenesses), choose.choice([None, "one"]), choose.choice([None, 6 * S]))
            for name in "AB"
        }
        self.engine = xscl.connect(
            home=folder, settings=Settings(where="driver" if spark is None else "spark"), spark=spark
        )
        add_channels(self.engine, self.terms)
        self.texts = self.some_texts()
        self.events: dict[Doc, int] = {}
        self.beats: dict[int, Beat] = {}
        self.asked: dict[str, Asked] = {}
        self.live: list[str] = []
        self.place = 0
        self.again: dict[Doc, int] = {}
        """Places at which late documents were replayed."""
        self.former: dict[str, list[tuple[int, int | None]]] = {}
        """Places up to which a channel had another lateness, with that lateness."""

    def some_texts(self) -> Sequence[str]:
        """Choose the texts that queries have."""
        raise NotImplementedError

    def register(self) -> None:
        """Register one of the texts under a new name."""
        name, text = f"q{len(self.asked)}", self.choose.choice(self.texts)
        self.engine.register(text, name=name)
        self.place += 1
        self.asked[name] = Asked(parse_query(text), self.place)
        self.live.append(name)

    def drop(self) -> None:
        """Drop some query."""
        name = self.live.pop(self.choose.randrange(len(self.live)))
        self.engine.drop(name)
        self.place += 1
        self.asked[name] = replace(self.asked[name], until=self.place)

    def change(self) -> None:
        """Give a channel another lateness, or none."""
        name, catalog = self.choose.choice("AB"), self.engine.home.catalog
        terms, lateness = self.terms[name], self.choose.choice([None, 0, S, 3 * S, 5 * S, 9 * S])
        if lateness != terms.lateness:
            self.former.setdefault(name, []).append((self.place, terms.lateness))
            self.terms[name] = replace(terms, lateness=lateness)
            set_channel(catalog, name, lateness="none" if lateness is None else f"{lateness} us")
            # A heartbeat may have taken a place.
            self.place = catalog.ask(read_last_places)[1]

    def take(self, number: int) -> None:
        """Take an event or a heartbeat."""
        channel, ts = self.channel(), (number // 2 + self.choose.choice([0, 0, 0, 1, -1, -3, -5])) * S
        if self.choose.random() < 0.1:
            self.beat(channel, ts - 2 * S)
            return
        self.place += 1
        doc = self.document(channel, f"e{number}", ts)
        if not self.chance_of_a_version:
            assert self.engine.ingest([record(doc)]).taken == 1
        else:
            doc = self.versioned(doc)
            assert self.engine.ingest([replace(record(doc), id=doc.item, feed="f")]).taken == 1
        self.events[doc] = self.place

    def versioned(self, doc: Doc) -> Doc:
        """Return a document as the first of its item, or as a newer version of another item."""
        items = sorted({each.item for each in self.events if each.channel == doc.channel and each.item is not None})
        choose = random.Random(f"{doc.id} {doc.ts} {doc.xml}")
        if not items or choose.random() >= self.chance_of_a_version:
            return replace(doc, item=doc.id)
        item = choose.choice(items)
        count = sum((each.channel, each.item) == (doc.channel, item) for each in self.events)
        xml = doc.xml.replace("</e>", f"<n>{len(self.events)}</n></e>")
        return replace(doc, id=f"{item}#{count + 1}", item=item, xml=xml)

    def beat(self, channel: str, ts: int) -> None:
        """Take a heartbeat."""
        self.place += 1
        self.beats[self.place] = Beat(channel, ts)
        assert not self.engine.ingest([record(self.beats[self.place])]).rejected

    def intake(self) -> Intake:
        """Tell the oracle what came."""
        return Intake(self.events, self.beats, self.terms, before=self.former, again=self.again)

    def channel(self) -> str:
        """Choose the channel of an item."""
        raise NotImplementedError

    def document(self, channel: str, id_: str, ts: int) -> Doc:
        """Make a document."""
        raise NotImplementedError

    def compared(self, name: str, asked: Asked, intake: Intake) -> int:
        """Compare all that a query tells with the oracle; return the number of its answers."""
        raise NotImplementedError

    def compare(self) -> int:
        """Process what there is, and compare all queries; return the number of their answers."""
        self.engine.run_once()
        intake = self.intake()
        return sum(self.compared(name, asked, intake) for name, asked in self.asked.items())

    def play(self, items: int = 30) -> int:
        """Play a random stream; return the number of answers at its end."""
        with self.engine:
            self.register()
            often = self.choose.choice([0.05, 0.2, 1])
            for number in range(items):
                chance = self.choose.random()
                if chance < self.chance_of_another and len(self.asked) < self.most_queries:
                    self.register()
                elif chance < self.chance_of_another + self.chance_of_a_drop and self.live:
                    self.drop()
                elif self.chance_of_a_replay and self.choose.random() < self.chance_of_a_replay:
                    self.replay()
                elif self.chance_of_a_change and self.choose.random() < self.chance_of_a_change:
                    self.change()
                else:
                    self.take(number)
                if self.choose.random() < often:
                    self.compare()
            self.compare()
            # Nothing else comes, so nothing is left open.
            for channel in self.terms:
                self.beat(channel, 2 * items * S)
            if self.chance_of_a_replay:
                self.compare()
                self.replay()
            return self.compare()
