"""Clocks of feeds (``--lateness auto``), against a model that judges each item by the items of its feed before it."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from budget import examples

import xscl
from xscl.answers.channel_listing import channel_rows
from xscl.answers.frontiers import frontiers
from xscl.base.errors import CatalogError
from xscl.catalog.intake_order import read_heartbeats
from xscl.catalog.tables import LATE
from xscl.engine import Engine
from xscl.registry.feed_lateness import set_feed_lateness
from xscl.upkeep.event_export import export_events

S = 1_000_000
QUERIES = [
    "items[./k->a] NOT FOLLOWED BY {a = b, 5} items[./k->b] CONSISTENCY STRONG",
    "other[./k->a] NOT FOLLOWED BY {a = b, 4} items[./k->b] CONSISTENCY MIDDLE",
    "items[./k->a] JOIN {a = b, 3} other[./k->b]",
]


@dataclass
class Model:
    """Clocks of feeds, and what they say; seconds."""

    idle: int | None
    lateness: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    greatest: int | None = None
    beat: int | None = None
    """All items before it are in."""
    late: set[str] = field(default_factory=set)

    def shown(self, feed: str) -> int | None:
        """Time of the clock of a feed."""
        times = [self.newest[feed]] if feed in self.newest else []
        times += [] if self.idle is None or self.greatest is None else [self.greatest - self.idle]
        return max(times, default=None)

    def take(self, events: Sequence[xscl.Event]) -> None:
        """Judge what comes together."""
        for event in events:
            assert isinstance(event.ts, int) and event.id is not None
            if event.feed is not None:
                shown = self.shown(event.feed)
                late = (
                    event.feed in self.lateness and shown is not None and event.ts < shown - self.lateness[event.feed]
                )
                if late or (self.beat is not None and event.ts < self.beat):
                    self.late.add(event.id)
                self.newest[event.feed] = max(event.ts, self.newest.get(event.feed, event.ts))
            self.greatest = max(event.ts, self.greatest or event.ts)
        if any(event.feed is not None for event in events):
            self.settle()

    def settle(self) -> None:
        """Move on how far all is in."""
        times = [shown - late for feed, late in self.lateness.items() if (shown := self.shown(feed)) is not None]
        if times:
            self.beat = max(min(times), self.beat or min(times))


def steps(choose: random.Random) -> Iterator[list[xscl.Event] | dict[str, int]]:
    """Documents of feeds, events of another channel, and lateness that is declared."""
    time = 100
    for number in range(26):
        time += choose.choice([0, 1, 1, 4])
        if number in (4, 15):
            yield {feed: choose.choice([0, 2, 6]) for feed in choose.sample("fgh", 2)}
        feed = choose.choice([None, "f", "f", "g", "h"])
        many = choose.choice([1, 1, 3])
        behind = [choose.choice([0, 0, 1, 3, 9]) for _ in range(many)]
        yield [
            xscl.Event(
                "other" if feed is None else "items",
                f"e{number}-{n}",
                time - each,
                xml=f"<e><k>{choose.randint(1, 2)}</k><n>{number}-{n}</n></e>",
                feed=feed,
            )
            for n, each in enumerate(behind)
        ]


def answers(engine: Engine) -> list[tuple[str, str, int]]:
    return sorted((match.query, match.id, match.ts) for match in engine.matches())


def play(folder: Path, seed: int, often: float) -> list[tuple[str, str, int]]:
    """Play a stream, with batches as often, and return the answers."""
    choose, cuts = random.Random(seed), random.Random(seed)
    model = Model(choose.choice([None, 8]))
    with xscl.connect(home=folder) as engine:
        engine.add_channel("items", lateness="auto", idle=None if model.idle is None else f"{model.idle} s")
        for number, text in enumerate(QUERIES):
            engine.register(text, name=f"q{number}")
        for step in steps(choose):
            if isinstance(step, dict):
                set_feed_lateness(engine.home.catalog, "items", {feed: late * S for feed, late in step.items()})
                model.lateness |= step
                model.settle()
            else:
                engine.ingest(step)
                model.take(step)
            with engine.home.catalog.read() as connection:
                beats = [ts for _, channel, ts in read_heartbeats(connection)]
            assert (beats[-1] + 1 if beats else None) == (None if model.beat is None else model.beat * S)
            if cuts.random() < often:
                engine.run_once()
        engine.run_once()
        assert {row["id"] for row in engine.home.catalog.rows(LATE)} == model.late
        with engine.home.catalog.read() as connection:
            (items,) = (each for each in frontiers(engine.home, connection) if each.channel == "items")
        assert model.beat is not None
        assert (items.watermark, items.source) == (model.beat * S, "feeds")
        return answers(engine)


@pytest.mark.parametrize("seed", range(examples(3)))
def test_items_are_judged_by_their_feed_and_cuts_change_nothing(tmp_path: Path, seed: int) -> None:
    assert play(tmp_path / "often", seed, 0.6) == play(tmp_path / "once", seed, 0)


def test_what_is_told_of_it(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("items", lateness="auto")
        (row,) = channel_rows(engine.home.catalog)
        assert row["lateness"] == "auto"
        engine.ingest([xscl.Event("items", "a", 100, xml="<a/>", feed="f")])
        set_feed_lateness(engine.home.catalog, "items", {"f": 5 * S})
        engine.ingest([xscl.Event("items", "b", 90, xml="<b/>", feed="f")])
        (late,) = engine.home.catalog.rows(LATE)
        assert late["message"] == "not behind the heartbeat of 1970-01-01T00:01:34.999999Z"
        stream = io.BytesIO()
        replay = export_events(engine.home, stream)
        assert replay.channels == ("xscl channel add items --lateness auto",)
        assert "by their feeds" in replay.notes[0]
        assert [json.loads(line).get("heartbeat") for line in stream.getvalue().splitlines()][1] is not None
        with pytest.raises(CatalogError, match="XSCL_BAD_CHANNEL"):
            engine.add_channel("rows", kind="rows", lateness="auto")
