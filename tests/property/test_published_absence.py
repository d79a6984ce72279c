"""Answers about absence that are published: the engine answers as the oracle does, however batches are cut.

Queries over them are joins, queries about absence that publish in turn, and queries that forbid such answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa
from absences import S, add_channels, question, record
from budget import examples
from oracle.absence import FOR_EVER, Beat, Decided, Fed, Intake, Question, Terms, decided, decided_rows
from oracle.evaluate import Doc, Row, answers, bindings_rows
from oracle.publish import output

import xscl
from xscl.base.docids import place_of
from xscl.base.settings import Settings
from xscl.base.types import Match
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import EVENT_IDS, LATE, REMOVALS
from xscl.engine import Engine
from xscl.language.syntax.parser import parse_query
from xscl.store.results import match_id

PUBLISHERS = {
    "A->x[./k->a] NOT FOLLOWED BY {a = b, 4} B->y[./k->b]": (
        "A->x[./k->a]",
        ["A->x[./k->a] FOLLOWED BY {a = b, 4} B->y[./k->b]"],
        "AB",
    ),
    "A->x[./k->a] WITHOUT {a = b, y - x IN [-2, 3]} B->y[./k->b]": (
        "A->x[./k->a]",
        ["A->x[./k->a] JOIN {a = b, y - x IN [-2, 3]} B->y[./k->b]"],
        "AB",
    ),
    "A[./k->a] FOLLOWED BY {a = c, 6} C->z[./k->c] NOT FOLLOWED BY {c = b, 3} B[./k->b]": (
        "A[./k->a] FOLLOWED BY {a = c, 6} C->z[./k->c]",
        ["(A[./k->a] FOLLOWED BY {a = c, 6} C->z[./k->c]) FOLLOWED BY {c = b, 3} B[./k->b]"],
        "ABC",
    ),
}
"""Queries that publish to M, each with what is wanted, that joined with what is forbidden, and what it reads."""
SECOND = {
    "M->m[.//k->a] NOT FOLLOWED BY {a = b, 3} A->y[./k->b]": (
        "M->m[.//k->a]",
        ["M->m[.//k->a] FOLLOWED BY {a = b, 3} A->y[./k->b]"],
        "MA",
    ),
    "C->x[./k->a] NOT FOLLOWED BY {a = b, 5} M->m[.//k->b]": (
        "C->x[./k->a]",
        ["C->x[./k->a] FOLLOWED BY {a = b, 5} M->m[.//k->b]"],
        "CM",
    ),
}
"""Queries about absence over M, which publish to N."""
JOINS = (
    "M->m[.//k->a] FOLLOWED BY {a = b, 5} B->y[./k->b]",
    "N->n[.//k->a] JOIN {a = b, 6} M->m[.//k->b]",
    "N",
)


class Home:
    """A home, and the same for the oracle."""

    are_final = True
    """Whether answers are published that nothing takes back."""

    def __init__(self, folder: Path, choose: random.Random) -> None:
        self.choose = choose
        self.terms = {name: Terms(choose.choice([2 * S, 5 * S]), choose.choice([None, "one"])) for name in "ABC"}
        self.engine = xscl.connect(home=folder, settings=Settings(where="driver"))
        if self.are_final and choose.random() < 0.3:
            # These answers are late in no channel, whatever its clock shows.
            self.terms["M"] = Terms(0, "A")
        add_channels(self.engine, self.terms)
        self.place = 0
        self.events: dict[Doc, int] = {}
        self.beats: dict[int, Beat] = {}
        self.asked: dict[str, tuple[str, Question]] = {}
        """Text and question of each query about absence, by name."""
        self.joins: dict[str, tuple[str, int, int]] = {}
        """Text of each join, and the places at which it came and went."""

    def register(self, name: str, text: str, publish: str | None = None) -> None:
        """Register a query."""
        known = {**PUBLISHERS, **SECOND}.get(text)
        said = text if publish is None else f"{text} PUBLISH {publish}"
        self.engine.register(said + (" CONSISTENCY STRONG" if known else ""), name=name)
        self.place += 1
        if known is None:
            self.joins[name] = text, self.place, FOR_EVER
        else:
            asked = question(known[0], *known[1])
            wanted = replace(asked.wanted, publish=publish)
            self.asked[name] = text, replace(asked, wanted=wanted, since=self.place, until=FOR_EVER + 1)

    def drop(self, name: str) -> None:
        """Drop a query."""
        self.engine.drop(name)
        self.place = self.engine.home.catalog.ask(read_last_places)[1]
        if name in self.joins:
            text, since, _ = self.joins[name]
            self.joins[name] = text, since, self.place
        else:
            text, asked = self.asked[name]
            self.asked[name] = text, replace(asked, until=self.place)

    def take(self, number: int) -> None:
        """Take in an event or a heartbeat."""
        choose = self.choose
        channel, ts = choose.choice("AAABBC"), (number // 2 + choose.choice([0, 0, 0, 1, -1, -2, -4])) * S
        self.place += 1
        if choose.random() < 0.12:
            self.beats[self.place] = Beat(channel, ts - S)
            assert not self.engine.ingest([record(self.beats[self.place])]).rejected
            return
        doc = Doc(channel, f"e{number}", ts, f"<e><k>{choose.randint(1, 3)}</k></e>")
        self.events[doc] = self.place
        assert self.engine.ingest([record(doc)]).taken == 1

    def expected(self) -> tuple[dict[str, list[tuple[int, str]]], dict[tuple[str, str], tuple[int, int]]]:
        """The answers of each query, and what is published with time and place, by the oracle."""
        fed: dict[str, list[Fed]] = {}
        for text, asked in self.asked.values():
            if asked.wanted.publish is not None:
                sources = frozenset({**PUBLISHERS, **SECOND}[text][2])
                fed.setdefault(asked.wanted.publish, []).append(Fed(sources, asked.since, asked.until))
        digests = {info.name: info.digest for info in self.engine.home.catalog.ask(read_queries, live_only=False)}
        intake = Intake(dict(self.events), self.beats, self.terms, fed=fed)
        found: dict[str, list[tuple[int, str]]] = {}
        made: dict[tuple[str, str], tuple[int, int]] = {}
        for level in (PUBLISHERS, SECOND):
            new: dict[Doc, int] = {}
            for name, (text, asked) in self.asked.items():
                if text in level:
                    rows: dict[Decided, Row] = dict(decided_rows(asked, intake))
                    found[name] = sorted((one.ts, match_id(digests[name], *one.answer)) for one in rows)
                    for one, row in rows.items() if asked.wanted.publish else ():
                        id_ = match_id(digests[name], *one.answer)
                        new[Doc(asked.wanted.publish or "", id_, one.ts, output(asked.wanted, row))] = one.place
            made |= {(doc.channel, doc.id): (doc.ts, place) for doc, place in new.items()}
            intake = replace(intake, events={**intake.events, **new})
        judged = intake.judged()
        assert not any(doc.late for doc in judged if doc.channel in "MN")
        times = {(doc.channel, doc.id): doc.ts for doc in judged}
        for name, (text, since, until) in self.joins.items():
            rows_of = answers(parse_query(text), [doc for doc, place in judged.items() if since < place < until])
            found[name] = sorted(
                (max(times[doc] for doc in each[0]), match_id(digests[name], *each)) for each in rows_of
            )
        return found, made


def listed(matches: Iterable[Match], names: Iterable[str]) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    for match in matches:
        found[match.query].append((match.ts, match.id))
    return {name: sorted(rows) for name, rows in found.items()}


def published(engine: Engine) -> Mapping[tuple[str, str], int]:
    """Places of published documents; none of them is late."""
    with engine.home.catalog.read() as connection:
        assert not connection.execute(sa.select(LATE).where(LATE.c.channel.in_(("M", "N")))).all()
        rows = connection.execute(sa.select(EVENT_IDS).where(EVENT_IDS.c.channel.in_(("M", "N")))).all()
    return {(row.channel, row.id): place_of(row.docid) for row in rows}


def play(folder: Path, seed: int) -> int:
    """Play one random stream; return the number of documents that were published."""
    choose = random.Random(seed)
    home = Home(folder, choose)
    with home.engine:
        home.register("p0", choose.choice([*PUBLISHERS]), "M")
        live = ["p0"]
        later = [("s0", choose.choice([*SECOND]), "N"), *((f"j{n}", text, None) for n, text in enumerate(JOINS))]
        later.append(("p1", choose.choice([*PUBLISHERS]), "M"))
        often = choose.choice([0.1, 0.3, 1])
        for number in range(34):
            if later and choose.random() < 0.4:
                name, text, publish = later.pop(choose.randrange(len(later)))
                home.register(name, text, publish)
                live.append(name)
            elif choose.random() < 0.04 and live:
                home.drop(live.pop(choose.randrange(len(live))))
            else:
                home.take(number)
            if choose.random() < often:
                home.engine.run_once()
        home.engine.run_once()
        found, made = home.expected()
        assert listed(home.engine.matches(), found) == found, seed
        assert published(home.engine) == {key: place for key, (_, place) in made.items()}, seed
        return len(made)


def test_published_absence_is_what_the_oracle_says(tmp_path: Path) -> None:
    assert sum(play(tmp_path / str(seed), seed) for seed in range(examples(8))) > 5


# -- answers that are taken back -------------------------------------------------------------------------------


LEVELS: Mapping[str, tuple[int, int | None]] = {"MIDDLE": (0, None), "BLOCKING 1 s MEMORY 2 s": (S, 2 * S)}
"""Levels of consistency that take answers back, each with how far behind clocks they answer and remember."""
FOLLOWERS = (
    ("M->m[.//k->a] FOLLOWED BY {a = b, 5} B->y[./k->b]", None),
    ("M->m[.//k->a] JOIN {a = b, 6} A->y[./k->b]", "N"),
    ("N->n[.//k->a] JOIN {a = b, 6} M->m[.//k->b]", None),
    ("N", None),
)
"""Queries that take matches back, and the channels that they publish to."""


class Corrected(Home):
    """The same for answers that are taken back, and for queries that take back what they made of these."""

    are_final = False

    def __init__(self, folder: Path, choose: random.Random) -> None:
        super().__init__(folder, choose)
        self.silent: dict[str, Question] = {}

    def drop(self, name: str) -> None:
        """Drop a query."""
        if name not in self.silent:
            super().drop(name)
            return
        self.engine.drop(name)
        self.place = self.engine.home.catalog.ask(read_last_places)[1]
        self.silent[name] = replace(self.silent[name], until=self.place)

    def ask(self, text: str, level: str) -> None:
        """Register a query about absence that publishes to M."""
        name = f"p{len(self.asked)}"
        self.engine.register(f"{text} PUBLISH M CONSISTENCY {level}", name=name)
        self.place += 1
        asked = question(PUBLISHERS[text][0], *PUBLISHERS[text][1])
        since = replace(asked, since=self.place, until=FOR_EVER + 1)
        self.asked[name] = text, replace(since, blocking=LEVELS[level][0], memory=LEVELS[level][1])

    def follow(self, name: str, text: str, publish: str | None) -> None:
        """Register a query that takes matches back."""
        self.engine.register(f"{text}{f' PUBLISH {publish}' if publish else ''} ON CHANGE RETRACT", name=name)
        self.place += 1
        self.joins[name] = text, self.place, FOR_EVER

    def correct(self, name: str, text: str, level: str) -> None:
        """Register a query about absence of what is published, whose answers removals change."""
        self.engine.register(f"{text} CONSISTENCY {level} ON CHANGE RETRACT", name=name)
        self.place += 1
        asked = question(SECOND[text][0], *SECOND[text][1])
        since = replace(asked, since=self.place, until=FOR_EVER + 1)
        blocking, memory = {**LEVELS, "STRONG": (None, None)}[level]
        self.silent[name] = replace(since, blocking=blocking, memory=memory)

    def absent(self, name: str, digests: Mapping[str, str], at: int) -> list[tuple[int, str]]:
        """Time and id of the answers that such a query has, with everything up to a place."""
        asked = self.silent[name]
        last = min(at, asked.until - 1)
        made = [each for publisher in self.asked for each in self.holding(publisher, digests, last)]
        feeds = [
            Fed(frozenset(PUBLISHERS[text][2]), each.since, each.until, each.blocking)
            for text, each in self.asked.values()
        ]
        docs = {**self.events, **{doc: place for _, _, doc, place in made}}
        intake = Intake(docs, self.beats, self.terms, fed={"M": feeds}).until(last)
        return sorted({(one.ts, match_id(digests[name], *one.answer)) for one in decided(asked, intake)})

    def holding(self, name: str, digests: Mapping[str, str], at: int) -> list[tuple[int, str, Doc, int]]:
        """Time, id, document and place of the matches that a query has, with everything up to a place."""
        intake = Intake(self.events, self.beats, self.terms)
        found: dict[str, tuple[int, str, Doc, int]] = {}
        if name in self.asked:
            text, asked = self.asked[name]
            for one, row in decided_rows(asked, intake.until(min(at, asked.until - 1))):
                id_ = match_id(digests[name], *one.answer)
                found[id_] = one.ts, id_, Doc("M", id_, one.ts, output(asked.wanted, row)), one.place
            return sorted(found.values(), key=lambda each: each[:2])
        text, since, until = self.joins[name]
        last, query = min(at, until - 1), parse_query(text)
        docs = {doc: place for doc, place in intake.judged().items() if place <= last}
        for publisher, channel in self.publishers():
            if text == channel or f"{channel}->" in text:
                docs |= {doc: place for _, _, doc, place in self.holding(publisher, digests, last)}
        for row in bindings_rows(query, [doc for doc, place in docs.items() if since < place]):
            id_ = match_id(digests[name], [(doc.channel, doc.id) for doc in row.docs], row.results)
            ts, place = max(doc.ts for doc in row.docs), max(docs[doc] for doc in row.docs)
            found[id_] = ts, id_, Doc("N", id_, ts, output(query, row)), place
        return sorted(found.values(), key=lambda each: each[:2])

    def publishers(self) -> list[tuple[str, str]]:
        """Queries that publish, and their channels."""
        return [*((name, "M") for name in self.asked), *((name, "N") for name in self.joins if name == "f1")]


def play_corrected(folder: Path, seed: int) -> tuple[int, int]:
    """Play one random stream; return the numbers of documents that are there, and that were removed."""
    choose = random.Random(seed)
    home = Corrected(folder, choose)
    with home.engine:
        for text in choose.sample([*PUBLISHERS], 2):
            home.ask(text, choose.choice([*LEVELS]))
        live, later = ["p0"], [(f"f{number}", *each) for number, each in enumerate(FOLLOWERS)]
        later += [(f"s{number}", text, None) for number, text in enumerate(SECOND)]
        often = choose.choice([0.1, 0.3, 1])
        for number in range(50):
            if later and choose.random() < 0.4:
                name, text, publish = later.pop(choose.randrange(len(later)))
                if text in SECOND:
                    home.correct(name, text, choose.choice([*LEVELS, "STRONG"]))
                else:
                    home.follow(name, text, publish)
                live.append(name)
            elif choose.random() < 0.03 and live:
                home.drop(live.pop(choose.randrange(len(live))))
            else:
                home.take(number)
            if choose.random() < often:
                home.engine.run_once()
        home.engine.run_once()
        digests = {info.name: info.digest for info in home.engine.home.catalog.ask(read_queries, live_only=False)}
        truth = {name: home.holding(name, digests, FOR_EVER) for name in (*home.asked, *home.joins)}
        found = {name: [each[:2] for each in rows] for name, rows in truth.items()}
        found |= {name: home.absent(name, digests, FOR_EVER) for name in home.silent}
        assert listed(home.engine.matches(), found) == found, seed
        with home.engine.home.catalog.read() as connection:
            removed = set(connection.execute(sa.select(REMOVALS.c.channel, REMOVALS.c.id)).all())
        there = {key: place for key, place in published(home.engine).items() if key not in removed}
        made = {(channel, each[1]): each[3] for name, channel in home.publishers() for each in truth[name]}
        assert there == made, seed
        return len(made), len(removed)


def test_readers_take_back_what_is_taken_back(tmp_path: Path) -> None:
    counts = [play_corrected(tmp_path / str(seed), seed) for seed in range(3, 3 + examples(8))]
    assert all(sum(each) > 0 for each in zip(*counts, strict=True)), counts
