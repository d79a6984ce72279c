"""PUBLISH … AS ROWS: chains of queries over one another's rows answer as the oracle does, however batches are cut."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from absences import S, record
from budget import examples
from lxml import etree
from oracle.absence import FOR_EVER, Asked, Beat, Intake, Terms
from oracle.evaluate import Doc
from oracle.sub_queries import Answered, chained, columns_of

import xscl
from xscl.base.settings import Settings
from xscl.catalog.intake_order import read_last_places
from xscl.language.syntax.parser import parse_query

KINDS = (
    "{a}",
    "{a} FOLLOWED BY {{k1 = k2, {n}}} {b}",
    "{a} JOIN {{v1 {op} v2, {n}}} {b}",
    "{a} JOIN {{k1 = k2 AND v1 {op} 2 * v2 - 1, {n}}} {b}",
    "{a} NOT FOLLOWED BY {{k1 = k2, {n}}} {b}",
    "{a} WITHOUT {{k1 = k2, x2 - x1 IN [-2, {n}]}} {b}",
    "{a} NEXT {{k1 = k2}} {b}",
    "{a} NEXT {{v2 {op} v1}} {b} FILTER {{DUR <= {n}}}",
    "{a} FOLD {{k1 = k2 WHILE v2 {op} last(v2, v1)}} {b}",
    "{a} FOLD {{k1 = k2, {n}, AT MOST 2}} {b}",
    "{a} FOLD {{k1 = k2, {n}, last(w, 0) + v2 AS w, LONGEST}} {b}",
    "{a} WINDOW {n} s EVERY 2 s GROUP BY k1",
    "{a} WINDOW {n} s EVERY {n} s GROUP BY k1 HAVING max(v1) {op} 2",
    "{a} WINDOW {n} s GROUP BY k1",
)
"""Queries of one or two blocks."""
ORDERED = (
    "{a} WINDOW {n} s GROUP BY k1 HAVING count() >= 2 ON CROSSING",
    "{a} WINDOW {n} s GROUP BY k1 ONCE PER 2 s",
    "{a} WINDOW LAST 2 GROUP BY k1",
)
"""Those that go by the order of their matches, which equal times leave open for what is published at one place."""
VALUES = {
    "LONGEST": ("w", "w", "count()"),
    "FOLD": ("count()", "sum(v2, v1)", "v2"),
    "WINDOW": ("count()", "max(v1)", "avg(v1)", "min(v1)", "sum(2 * v1)", "count(DISTINCT v1)"),
}
"""Values that queries with these words may list."""
NUMBERS = {"A": ("1", "2", "2.5", "2.50", "10", "-0.1", "x"), "B": ("1", "2", "2.5", "10", "-0.1")}
"""Values of documents and of rows."""


def text_of(choose: random.Random, channels: Sequence[str]) -> str:
    """A random query over some channels, most often over the last one."""
    kind = choose.choice((*KINDS, *ORDERED) if channels[-1] == "B" else KINDS)
    one, two = (block(choose, number, channels) for number in (1, 2))
    # Steps compare texts by = and !=, also those of columns of numbers, which the oracle takes for numbers.
    ops = ["<", ">"] if "NEXT" in kind or "FOLD" in kind else ["<", ">", "=", "!="]
    text = kind.format(a=one, b=two, n=choose.choice([2, 3, 4]), op=choose.choice(ops))
    word = next((word for word in VALUES if word in kind), None)
    is_there = "{b}" in kind and "NOT" not in kind and "WITHOUT" not in kind
    value = choose.choice(VALUES[word]) if word else choose.choice(["v1", "v2"] if is_there else ["v1"])
    return f"SELECT k1 AS k, {value} AS v FROM {text}"


def block(choose: random.Random, number: int, channels: Sequence[str]) -> str:
    """A block that binds a key and a value."""
    channel = channels[-1] if choose.random() < 0.6 else choose.choice(channels)
    condition = choose.choice(["", "", "[./v > 1]", "[./k = 'a']"])
    return f"{channel}->x{number}{condition}[./k->k{number}][./v->v{number}]"


@dataclass
class Play:
    """What comes to a home, in order: queries and those that are dropped, events and heartbeats."""

    choose: random.Random
    terms: dict[str, Terms]
    queries: list[str]
    steps: list[int | str | Doc | Beat] = field(default_factory=list)
    """Number of a query that is registered, name of one that is dropped, or what is taken in."""

    def fill(self, count: int) -> None:
        """Choose all that comes."""
        choose = self.choose
        # Those that are registered later may come before the ones that they read.
        waiting = choose.sample(range(len(self.queries)), len(self.queries))
        live: list[int] = []
        for number in range(count):
            while waiting and choose.random() < (0.6 if number == 0 else 0.15):
                live.append(waiting.pop())
                self.steps.append(live[-1])
            if live and choose.random() < 0.04:
                self.steps.append(f"q{live.pop(choose.randrange(len(live)))}")
            self.steps.append(self.item(number))
        self.steps += waiting
        self.steps += [Beat(channel, 2 * count * S) for channel in "AB"]

    def item(self, number: int) -> Doc | Beat:
        """Choose an event that is in time, or a heartbeat."""
        choose, channel = self.choose, self.choose.choice("AAB")
        ts = max((number // 2 + choose.choice([0, 0, 0, 1, -1, -3])) * S, self.settled(channel))
        if choose.random() < 0.1:
            return Beat(channel, ts - 2 * S)
        keys = "".join(
            f"<k>{choose.choice('aab')}</k>" for _ in range(choose.choice([1, 1, 2] if channel == "A" else [1]))
        )
        value = choose.choice(NUMBERS[channel])
        start = ts - choose.choice([1, 2]) * S if choose.random() < 0.2 else None
        return Doc(channel, f"e{number}", ts, f"<e>{keys}<v>{value}</v></e>", start=start)

    def settled(self, channel: str) -> int:
        """The least time that an event of a channel may have."""
        mine = [step for step in self.steps if isinstance(step, Doc | Beat) and step.channel == channel]
        lateness = self.terms[channel].lateness or 0
        return max((step.ts + S if isinstance(step, Beat) else step.ts - lateness for step in mine), default=-FOR_EVER)


def play_of(seed: int) -> Play:
    """A random play of one to three queries over documents A and rows B."""
    choose = random.Random(seed)
    channels, queries = ["A", "B"], []
    for number in range(choose.choice([1, 2, 3, 3])):
        spanning = choose.choice(["", " SPANNING"])
        text = f"{text_of(choose, channels)} PUBLISH R{number}{spanning} AS ROWS"
        # Who reads them keeps what it makes of them, so what waits for a time gives final answers.
        waits = any(word in text for word in ("NEXT", "FOLD", "NOT ", "WITHOUT"))
        queries.append(f"{text} CONSISTENCY STRONG" if waits else text)
        channels.append(f"R{number}")
    terms = {channel: Terms(choose.choice([0, 2 * S, 5 * S])) for channel in "AB"}
    play = Play(choose, terms, queries)
    play.fill(24)
    return play


def row_of(doc: Doc) -> xscl.Event:
    """A document as a row."""
    cells = {part.tag: part.text or "" for part in etree.fromstring(doc.xml)}
    return replace(record(doc), xml=None, row={"k": cells["k"], "v": float(cells["v"])})


def compare(folder: Path, play: Play, cut: random.Random, often: float) -> Counter[str] | None:
    """Play all in one cut, and compare it with the oracle; ids of matches.

    None: an answer was published behind the watermark of its channel, and a batch replayed it.  The oracle knows late
    documents alone, and no replay of what is published.
    """
    types: dict[str, dict[str, bool]] = {"B": {"k": False, "v": True}}
    events: dict[Doc, int] = {}
    beats: dict[int, Beat] = {}
    asked = [Asked(parse_query(text), FOR_EVER, FOR_EVER) for text in play.queries]
    reports = []
    with xscl.connect(home=folder, settings=Settings(where="driver")) as engine:
        for name, each in play.terms.items():
            rows = {"kind": "rows", "schema": "k string, v double"} if name == "B" else {}
            engine.add_channel(name, lateness=f"{each.lateness} us", **rows)
        for step in play.steps:
            match step:
                case int():
                    engine.register(play.queries[step], name=f"q{step}")
                    place = engine.home.catalog.ask(read_last_places)[1]
                    asked[step] = replace(asked[step], since=place, until=FOR_EVER + 1)
                    types[asked[step].query.publish or ""] = dict(columns_of(asked[step].query, types))
                case str():
                    number = int(step[1:])
                    asked[number] = replace(asked[number], until=engine.home.catalog.ask(read_last_places)[1] + 1)
                    engine.drop(step)
                case Doc() | Beat():
                    came = row_of(step) if isinstance(step, Doc) and step.channel == "B" else record(step)
                    assert not engine.ingest([came]).rejected
                    place = engine.home.catalog.ask(read_last_places)[1]
                    if isinstance(step, Doc):
                        events[step] = place
                    else:
                        beats[place] = step
            if cut.random() < often:
                reports += engine.run_once()
        reports += engine.run_once()
        if any(report.replayed for report in reports):
            return None
        truth = chained(asked, Intake(events, beats, play.terms), types)
        ids: Counter[str] = Counter()
        for number, answers in enumerate(truth):
            matches = [*engine.matches(f"q{number}")]
            found = Counter((match.ts, listed(match.document)) for match in matches)
            expected = Counter(map(told, answers))
            assert found == expected, (number, play.queries, play.steps, found - expected, expected - found)
            ids.update(match.id for match in matches)
    return ids


def told(each: Answered) -> tuple[int, tuple[tuple[str, str], ...]]:
    return each.ts, each.values


def listed(document: str) -> tuple[tuple[str, str], ...]:
    return tuple((part.tag, part.text or "") for part in etree.fromstring(document))


def test_chains_of_published_rows_are_what_the_oracle_says(tmp_path: Path) -> None:
    counts = []
    for seed in range(1, 1 + examples(40)):
        play = play_of(seed)
        one, other = (compare(tmp_path / f"{seed}-{often}", play, random.Random(seed), often) for often in (0.1, 0.6))
        assert one == other, "neither ids of matches nor replays depend on the cut"
        counts.append(0 if one is None else len(one))
    assert sum(counts) > 0
