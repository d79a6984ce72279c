"""Queries in parentheses: the engine answers as the oracle does, however batches are cut, and who comes and goes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from absences import S, add_channels, record
from budget import examples
from lxml import etree
from oracle.absence import FOR_EVER, Beat, Intake, Terms
from oracle.evaluate import Doc
from oracle.sub_queries import Answered, answered

import xscl
from xscl.base.settings import Settings
from xscl.catalog.intake_order import read_last_places
from xscl.language.syntax.parser import parse_query
from xscl.registry.registry import Registry

KINDS = (
    "{a}",
    "{a}",
    "{a} FOLLOWED BY {{k1 = k2, {n}}} {b}",
    "{a} JOIN {{v1 {op} v2, {n}}} {b}",
    "{a} NOT FOLLOWED BY {{k1 = k2, {n}}} {b}",
    "{a} WITHOUT {{k1 = k2, x2 - x1 IN [-2, {n}]}} {b}",
    "{a} NEXT {{k1 = k2}} {b}",
    "{a} NEXT {{v2 {op} v1}} {b}",
    "{a} FOLD {{k1 = k2 WHILE v2 {op} last(v2, v1)}} {b}",
    "{a} FOLD {{k1 = k2, {n}, AT MOST 2}} {b}",
    "{a} WINDOW {n} s EVERY 2 s GROUP BY k1",
    "{a} WINDOW {n} s GROUP BY k1",
    "{a} WINDOW LAST 2 GROUP BY k1",
)
"""Queries of one or two blocks; the last one goes by the order of its matches, which equal times leave open for what is
published at one place."""
VALUES = {"FOLD": ("count()", "sum(v2, v1)", "v2"), "WINDOW": ("count()", "max(v1)", "avg(v1)", "count(DISTINCT v1)")}
"""Values that queries with these words may list."""


def query(choose: random.Random, depth: int) -> str:
    """A random query, whose blocks may be queries in parentheses down to a depth."""
    kind = choose.choice(KINDS if depth == 0 else KINDS[:-1])
    one, two = (block(choose, number, depth) for number in (1, 2))
    text = kind.format(a=one, b=two, n=choose.choice([2, 3, 4]), op=choose.choice(["<", ">", "=", "!="]))
    word = next((word for word in VALUES if f" {word} " in kind), None)
    is_there = "{b}" in kind and "NOT" not in kind and "WITHOUT" not in kind
    value = choose.choice(VALUES[word]) if word else choose.choice(["v1", "v2"] if is_there else ["v1"])
    return f"SELECT k1 AS k, {value} AS v FROM {text}"


def block(choose: random.Random, number: int, depth: int) -> str:
    """A block that binds a key and a value."""
    condition = choose.choice(["", "", "[./v > 1]"])
    bound = f"->x{number}{condition}[./k->k{number}][./v->v{number}]"
    if depth == 0 or choose.random() < 0.4:
        return choose.choice("AAB") + bound
    if choose.random() < 0.15:
        one, two = (block(choose, at, depth - 1) for at in (1, 2))
        return f"({one} FOLLOWED BY {{k1 = k2, 3}} {two})->x{number}[.//k->k{number}][.//v->v{number}]"
    return f"({query(choose, depth - 1)}){bound}"


def text_of(choose: random.Random) -> str:
    """A random query with queries in parentheses that can be registered."""
    while True:
        text = query(choose, 2)
        if text.count("SELECT") > 1 and len(text) < 900:
            return text


class Home:
    """A home and the same for the oracle, item by item."""

    def __init__(self, folder: Path, choose: random.Random, latenesses: Sequence[int | None]) -> None:
        self.choose = choose
        self.terms = {name: Terms(choose.choice(latenesses)) for name in "AB"}
        self.engine = xscl.connect(home=folder, settings=Settings(where="driver"))
        add_channels(self.engine, self.terms)
        # Without a lateness all is answered when the channels end.
        self.registry = Registry(self.engine.home.catalog, ends=latenesses == [None])
        self.texts = [text_of(choose) for _ in range(2)]
        self.events: dict[Doc, int] = {}
        self.beats: dict[int, Beat] = {}
        self.asked: dict[str, tuple[str, int, int]] = {}
        """Text of each query, and the places at which it was registered and dropped."""
        self.live: list[str] = []

    @property
    def place(self) -> int:
        """The last place of the intake order."""
        return self.engine.home.catalog.ask(read_last_places)[1]

    def register(self) -> None:
        name, text = f"q{len(self.asked)}", self.choose.choice(self.texts)
        self.registry.register(text, name=name)
        self.asked[name] = text, self.place, FOR_EVER + 1
        self.live.append(name)

    def drop(self) -> None:
        name = self.live.pop(self.choose.randrange(len(self.live)))
        before = self.place
        self.engine.drop(name)
        text, since, _ = self.asked[name]
        self.asked[name] = text, since, before + 1

    def settled(self, channel: str) -> int:
        """The least time that an event of a channel may have."""
        lateness = self.terms[channel].lateness
        beaten = [beat.ts + S for beat in self.beats.values() if beat.channel == channel]
        shown = [] if lateness is None else [doc.ts - lateness for doc in self.events if doc.channel == channel]
        return max((*beaten, *shown), default=-FOR_EVER)

    def take(self, number: int) -> None:
        choose = self.choose
        channel = choose.choice("AAB")
        # No event is late: joins take what a late one publishes again, in a batch of its own.
        ts = max((number // 2 + choose.choice([0, 0, 0, 1, -1, -3, -5])) * S, self.settled(channel))
        if choose.random() < 0.1 and self.terms[channel].lateness is not None:
            beat = Beat(channel, ts - 2 * S)
            assert not self.engine.ingest([record(beat)]).rejected
            self.beats[self.place] = beat
            return
        keys = "".join(f"<k>{choose.choice('aab')}</k>" for _ in range(choose.choice([1, 1, 1, 2])))
        start = ts - choose.choice([1, 2]) * S if choose.random() < 0.2 else None
        doc = Doc(
            channel, f"e{number}", ts, f"<e>{keys}<v>{choose.choice(['1', '2', '2.5', '10'])}</v></e>", start=start
        )
        assert self.engine.ingest([record(doc)]).taken == 1
        self.events[doc] = self.place

    def compare(self) -> int:
        """Compare all that each query tells."""
        self.engine.run_once()
        intake = Intake(self.events, self.beats, self.terms)
        count = 0
        for name, (text, since, until) in self.asked.items():
            expected = Counter(map(_told, answered(parse_query(text), intake, since, until)))
            found = Counter((each.ts, _listed(each.document)) for each in self.engine.matches(name))
            assert found == expected, (name, text, since, until, found - expected, expected - found)
            count += found.total()
        return count


def _told(each: Answered) -> tuple[int, tuple[tuple[str, str], ...]]:
    return each.ts, each.values


def _listed(document: str) -> tuple[tuple[str, str], ...]:
    return tuple((part.tag, part.text or "") for part in etree.fromstring(document))


def play(folder: Path, seed: int, items: int = 24) -> int:
    """Play one random stream; return the number of answers."""
    choose = random.Random(seed)
    home = Home(folder, choose, [0, 2 * S, 5 * S])
    with home.engine:
        home.register()
        often = choose.choice([0, 0.15, 0.5])
        for number in range(items):
            chance = choose.random()
            if chance < 0.12 and len(home.asked) < 5:
                home.register()
            elif chance < 0.16 and home.live:
                home.drop()
            else:
                home.take(number)
            if choose.random() < often:
                home.engine.run_once()
        return home.compare()


def test_queries_in_parentheses_are_what_the_oracle_says(tmp_path: Path) -> None:
    found = [play(tmp_path / str(seed), seed) for seed in range(1, 1 + examples(4))]
    assert sum(found) > 0


def play_once(folder: Path, seed: int) -> int:
    """Compare what a text is answered by ``xscl eval`` and ``xscl query run``: all events are in, and nothing comes."""
    choose = random.Random(seed)
    home = Home(folder, choose, [None])
    with home.engine:
        home.register()
        for number in range(choose.choice([4, 12, 20])):
            home.take(number)
        home.engine.end_input()
        home.engine.run_once(batch_docs=choose.choice([1, 5, 100]))
        intake, count = Intake(home.events, {}, {}, ends=True), 0
        for text in home.texts:
            expected = Counter(map(_told, answered(parse_query(text), intake)))
            found = [home.engine.query_once(text)]
            found += [home.engine.matches(name) for name, (asked, _, _) in home.asked.items() if asked == text]
            for matches in found:
                told = Counter((each.ts, _listed(each.document)) for each in matches)
                assert told == expected, (text, matches is found[0], told - expected, expected - told)
            count += expected.total()
        return count


def test_texts_are_answered_once_as_the_oracle_says(tmp_path: Path) -> None:
    assert sum(play_once(tmp_path / str(seed), seed) for seed in range(1, 1 + examples(4))) > 0
