"""Queries that start with what is held, against the oracle: random homes in which documents, registrations of all
kinds, drops and batches come in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path

import sqlalchemy as sa
from budget import examples
from oracle.evaluate import Answer, Doc, answers
from oracle.history import NO_RULES, Rules, Standing, marked_late
from oracle.publish import published
from property.test_publishing import by_query, canonical, listed, sound_query
from strategies import NAMESPACES, Dice, plain_stream

import xscl
from xscl.base.settings import Settings
from xscl.base.types import format_time
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.tables import LATE, QUERIES
from xscl.engine import Engine
from xscl.language.syntax.parser import parse_query
from xscl.store.results import match_id

SECOND = 1_000_000


@dataclass(frozen=True)
class Register:
    """A registration."""

    name: str
    text: str


@dataclass(frozen=True)
class Drop:
    """The end of the query of that name."""

    name: str


@dataclass(frozen=True)
class Run:
    """Batches of so many events until nothing waits; they change no answer."""

    batch_docs: int


Step = Doc | Register | Drop | Run
DECLARED = "DECLARE NAMESPACE n = 'urn:n'; "


@dataclass(frozen=True)
class Truth:
    """What a home is to list."""

    ids: Mapping[str, set[str]]
    """Of the matches of each name."""
    documents: Mapping[tuple[str, str], str]
    """What is published: channel and id to content."""


def prepare(engine: Engine, rules: Rules) -> None:
    """Declare the channels S and T as the rules have them."""
    for name in ("S", "T"):
        if name in {*rules.lateness, *rules.clocks}:
            lateness = rules.lateness.get(name)
            engine.add_channel(
                name, lateness=None if lateness is None else f"{lateness} us", clock=rules.clocks.get(name)
            )


def take(engine: Engine, steps: Sequence[Step]) -> dict[Doc, int]:
    """Take in steps in order; the documents with the places that the home gave them."""
    taken: dict[Doc, int] = {}
    for is_doc, some in groupby(steps, key=lambda step: isinstance(step, Doc)):
        if is_doc:
            docs = [step for step in some if isinstance(step, Doc)]
            _, last = engine.home.catalog.ask(read_last_places)
            engine.ingest([xscl.Event(doc.channel, doc.id, doc.ts / 1e6, xml=doc.xml) for doc in docs])
            taken |= {doc: place for place, doc in enumerate(docs, start=last + 1)}
            continue
        for step in some:
            match step:
                case Register(name, text):
                    engine.register(DECLARED + text, name=name)
                case Drop(name):
                    engine.drop(name)
                case Run(batch_docs):
                    engine.run_once(batch_docs=batch_docs)
    return taken


def truth(engine: Engine, taken: Mapping[Doc, int], rules: Rules) -> Truth:
    """What the oracle says of all registrations of a home, of which some may have one name."""
    with engine.home.catalog.read() as connection:
        rows = connection.execute(sa.select(QUERIES).order_by(QUERIES.c.query)).all()
    registered = {str(row.query): Standing(parse_query(row.text), row.docid_from, row.docid_until) for row in rows}
    digests = {str(row.query): row.digest for row in rows}

    def named(number: str, answer: Answer) -> str:
        return match_id(digests[number], *answer)

    events = marked_late(taken, rules)
    found = published(registered, events, named, rules=rules, namespaces=NAMESPACES)
    ids: dict[str, set[str]] = {row.qid: set() for row in rows}
    for row in rows:
        ids[row.qid] |= {named(str(row.query), answer) for answer in found.answers[str(row.query)]}
    return Truth(ids, {(doc.channel, doc.id): doc.xml for doc in found.documents})


def check(
    folder: Path, steps: Sequence[Step], rules: Rules = NO_RULES, *, settings: Settings | None = None
) -> tuple[Truth, dict[str, list[tuple[str, tuple[tuple[str, str], ...], str]]]]:
    """Take in everything, process it, and hold what is listed against the oracle."""
    with xscl.connect(home=folder, settings=settings or Settings()) as engine:
        prepare(engine, rules)
        taken = take(engine, steps)
        engine.run_once()
        expected = truth(engine, taken, rules)
        found = listed(engine)
        for name, ids in expected.ids.items():
            rows = found.get(name, [])
            assert {id_ for id_, _, _ in rows} == ids, (name, steps, rules)
            assert len(rows) == len(ids), ("listed twice", name, steps)
        publishes = {step.name: parse_query(step.text).publish for step in steps if isinstance(step, Register)}
        outputs = {(publishes[name], id_): document for name, rows in found.items() for id_, _, document in rows}
        for key, document in expected.documents.items():
            assert canonical(outputs[key]) == canonical(document)
        return expected, found


# -- random homes ----------------------------------------------------------------------------------------------


def starting(choose: Dice, docs: Sequence[Doc]) -> str:
    """A STARTING clause, or none."""
    time = format_time(choose.one(*docs).ts + choose.one(0, 0, 1))
    return choose.one("", " STARTING NOW", *[" STARTING ALL"] * 6, *[f" STARTING '{time}'"] * 2)


def telling_query(choose: Dice, docs: Sequence[Doc], channels: Sequence[str], most: int) -> str:
    """A query of two or more blocks that has answers if all that is published is like the documents."""
    alike = [replace(doc, channel=channel) for doc in docs for channel in {doc.channel: 0, **dict.fromkeys(channels)}]
    for _ in range(20):
        text = sound_query(choose, channels, most)
        if answers(parse_query(text), alike, namespaces=NAMESPACES):
            break
    return text


def texts_of(choose: Dice, docs: Sequence[Doc]) -> Iterator[str]:
    """Queries of one to three blocks in up to four levels of published channels."""
    yield telling_query(choose, docs, ("S",), 2) + " PUBLISH T"
    yield f"S/a PUBLISH {choose.one('P', 'P', 'O')}"
    yield choose.one("S//b->x", "T//b[. = '1']", "S/a[./b and not(./c)]", "T/a//text()")
    yield telling_query(choose, docs, ("S", "T"), 2) + f" PUBLISH {choose.one('P', 'Q')}"
    yield telling_query(choose, docs, ("S", "T"), 3)
    yield telling_query(choose, docs, ("P", "T", "P"), 2) + " PUBLISH Q"
    yield telling_query(choose, docs, ("P", "S", "P"), 3)
    yield telling_query(choose, docs, ("Q", "P"), 2)
    yield choose.one("P/a->x[./b->y] JOIN {y = z, 6 s} S/a[./b->z]", "T/a/b->x FOLLOWED BY {x = y, 3 s} P/a/b->y")
    yield "Q//b PUBLISH R"
    yield "R"


def workload(seed: int) -> tuple[list[Step], Rules]:
    """Documents of S and T with queries registered, dropped and registered again at random places, and batches."""
    choose = Dice(seed)
    docs = [Doc(doc.channel, doc.id, doc.ts, doc.xml) for doc in plain_stream(choose, 6, 9)]
    steps: list[Step] = list(docs)
    for number, text in enumerate(texts_of(choose, docs)):
        if choose.chance(25):
            continue
        register = Register(f"q{number}", text + starting(choose, docs))
        at = choose.count(0, len(steps))
        steps.insert(at, register)
        if choose.chance(25):
            at = choose.count(at + 1, len(steps))
            steps.insert(at, Drop(register.name))
            if choose.chance(60):
                steps.insert(choose.count(at + 1, len(steps)), register)
    for _ in range(choose.one(0, 0, 1, 2, 3, 5)):
        steps.insert(choose.count(0, len(steps)), Run(choose.one(1, 2, 3, 100)))
    rules = NO_RULES
    if choose.chance(50):
        # What is published to T would be judged by its lateness too; without one T's partners may go before T's events.
        published = any(isinstance(step, Register) and " PUBLISH T" in step.text for step in steps)
        lateness = {name: choose.one(0, 1, 2, 4) * SECOND for name in ("S" if published else "ST") if choose.chance(70)}
        if published:
            lateness["T"] = 100 * SECOND
        rules = Rules(lateness, {}, {"S": "both", "T": "both"} if choose.chance(40) else {})
    return steps, rules


def test_random_homes(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(2 * examples(30)):
        steps, rules = workload(seed)
        expected, _ = check(tmp_path / str(seed), steps, rules)
        counts["matches"] += sum(map(len, expected.ids.values()))
        counts.update(channel for channel, _ in expected.documents)
    assert counts["matches"] > 20 and all(counts[channel] > 1 for channel in "PQ"), counts


def readers_that_go(seed: int) -> tuple[list[Step], Rules]:
    """Documents of S and T, many of them late, with queries over what is published of them that are soon dropped."""
    choose = Dice(seed)
    docs = [Doc(doc.channel, doc.id, doc.ts, doc.xml) for doc in plain_stream(choose, 7, 10)]
    texts = [
        f"S{choose.one('/a', '', '//b')} PUBLISH P",
        telling_query(choose, docs, ("P", "P", "T"), 2) + " PUBLISH Q",
    ]
    texts.append(choose.one("P//b", "Q//b", telling_query(choose, docs, ("P", "Q"), 2)) + " PUBLISH R")
    readers = [telling_query(choose, docs, choose.one(("P", "P", "S"), ("Q", "P"), ("R", "T")), 3) for _ in range(3)]
    steps: list[Step] = [Register(f"p{number}", text) for number, text in enumerate(texts)]
    steps += [*docs, Run(choose.one(1, 2, 3, 100))]
    if choose.chance(30):
        # What is published of what was held is late only where it is found.
        steps.insert(choose.count(1, len(steps)), replace(steps.pop(0), text=f"{texts[0]} STARTING ALL"))
    for number, text in enumerate(readers):
        at = choose.count(0, 6)
        steps.insert(at, Register(f"q{number}", text + choose.one("", "", " STARTING ALL")))
        steps.insert(choose.count(at + 4, len(steps)), Drop(f"q{number}"))
    if choose.chance(60):
        at = next(place for place, step in enumerate(steps) if isinstance(step, Register) and step.name == "p1")
        steps.insert(choose.count(at + 4, len(steps)), Drop("p1"))
    for _ in range(choose.one(0, 0, 1, 2)):
        steps.insert(choose.count(0, len(steps)), Run(choose.one(1, 2, 3, 100)))
    return steps, Rules({"S": choose.one(0, 1) * SECOND, "T": choose.one(0, 1, 4) * SECOND}, {}, {})


def test_readers_have_what_was_published_too_late_before_they_go(tmp_path: Path) -> None:
    count = 0
    for seed in (1, 5, 14, 17, *range(30, 170))[: examples(16)]:
        expected, _ = check(tmp_path / str(seed), *readers_that_go(seed))
        count += sum(len(ids) for name, ids in expected.ids.items() if name.startswith("q"))
    assert count > 3, count


def test_standing_historical_and_asked_once(tmp_path: Path) -> None:
    """One text: registered before, between and behind the documents, and asked without being registered."""
    count = 0
    for seed in range(examples(20)):
        choose = Dice(2_000 + seed)
        docs = [Doc(doc.channel, doc.id, doc.ts, doc.xml) for doc in plain_stream(choose, 8, 12)]
        lateness = {name: choose.one(1, 2, 4) * SECOND for name in ("S", "T") if choose.chance(50)}
        rules = Rules(lateness, {}, {})
        texts = [telling_query(choose, docs, ("S", "T"), 3) for _ in range(3)]
        texts.append(choose.one("S//b->x", "T/a[./b]", "S//@k"))
        time = format_time(choose.one(*docs).ts)
        texts = [text + choose.one(" STARTING ALL", f" STARTING '{time}'") for text in texts]
        registrations: list[Step] = [Register(f"q{number}", text) for number, text in enumerate(texts)]
        middle = choose.count(1, len(docs) - 1)
        orders: list[list[Step]] = [
            [*registrations, *docs],
            [*docs, *registrations],
            [*docs[:middle], Run(2), *registrations, *docs[middle:]],
        ]
        seen = []
        for number, steps in enumerate(orders):
            _, found = check(tmp_path / f"{seed}-{number}", steps, rules)
            seen.append({name: sorted(rows) for name, rows in found.items()})
        with xscl.connect(home=tmp_path / f"{seed}-once") as engine:
            prepare(engine, rules)
            take(engine, docs)
            if choose.chance(50):
                engine.run_once(batch_docs=3)
            asked = (engine.query_once(DECLARED + text, name=f"q{number}") for number, text in enumerate(texts))
            seen.append({name: sorted(rows) for name, rows in by_query(chain.from_iterable(asked)).items()})
        assert all(found == seen[0] for found in seen), (seed, docs, texts)
        count += sum(map(len, seen[0].values()))
    assert count > 25, count


def test_a_dropped_query_has_nothing_of_what_is_published_later(tmp_path: Path) -> None:
    """It shares a group with a live one, and what is published of what was held takes places from before the drop."""
    docs = [Doc("S", f"e{number}", number * SECOND, f"<a><k>{number % 2}</k></a>") for number in range(4)]
    reader = "P/a/k->x JOIN {x = y, 1 h} S/a/k->y"
    steps: list[Step] = [Register("live", reader), Register("ended", reader), Register("too", f"{reader} PUBLISH Q")]
    steps += [*docs, Drop("ended"), Drop("too"), Run(100), Register("held", "S/a PUBLISH P STARTING ALL")]
    expected, found = check(tmp_path, steps)
    assert set(found) == {"live", "held"}
    assert {channel for channel, _ in expected.documents} == {"P"}


def test_a_query_that_is_registered_again_publishes_nothing_twice(tmp_path: Path) -> None:
    docs = [Doc("S", f"e{number}", number * SECOND, f"<a><k>{number % 2}</k></a>") for number in range(4)]
    again = Register("held", "S/a PUBLISH P STARTING ALL")
    steps: list[Step] = [Register("reader", "P/a"), *docs[:2], again, Run(1), docs[2], Drop("held"), docs[3], again]
    expected, found = check(tmp_path, steps)
    assert len(expected.documents) == 4 == len(found["held"])


def test_what_is_published_of_what_was_held_meets_pairs_of_held_documents(tmp_path: Path) -> None:
    docs = [Doc("S", f"e{number}", number * SECOND, f"<a><k>{number}</k></a>") for number in range(3)]
    pairs = "S/a/k->x JOIN {x = y, 1 s} P/a/k->y JOIN {MAXWINDOW 5 s} S/a STARTING ALL"
    steps: list[Step] = [*docs, Register("held", "S/a PUBLISH P STARTING ALL"), Register("pairs", pairs)]
    _, found = check(tmp_path, steps)
    assert len(found["pairs"]) == 6


def test_any_order_of_queries_documents_and_batches(tmp_path: Path) -> None:
    """Queries that start with all that is held, in random orders with random batches: one answer, the same ids."""
    count = 0
    for seed in range(examples(4)):
        choose = Dice(1_000 + seed)
        docs = [Doc(doc.channel, doc.id, doc.ts, doc.xml) for doc in plain_stream(choose, 5, 7)]
        steps: list[Step] = list(docs)
        steps += [Register(f"q{number}", f"{text} STARTING ALL") for number, text in enumerate(texts_of(choose, docs))]
        seen = []
        for number in range(4):
            order = list(steps)
            if number:
                choose.random.shuffle(order)
            for _ in range(choose.count(0, 4)):
                order.insert(choose.count(0, len(order)), Run(choose.one(1, 2, 3, 100)))
            expected, found = check(tmp_path / f"{seed}-{number}", order)
            seen.append({name: {id_ for id_, _, _ in rows} for name, rows in found.items()})
            count += sum(map(len, expected.ids.values()))
        assert all(found == seen[0] for found in seen), (seed, steps)
    assert count > 20, count


def late_texts(choose: Dice, docs: Sequence[Doc]) -> list[str]:
    """Each channel has one publisher: what comes to it first decides what is late behind it."""
    first = choose.one("S/a", telling_query(choose, docs, ("S", "T"), 2))
    return [
        f"{first} PUBLISH P",
        telling_query(choose, docs, ("P", "T"), 2) + " PUBLISH Q",
        "Q//b",
        telling_query(choose, docs, ("P", "P", "S"), 2),
        telling_query(choose, docs, ("P", "Q", "T"), 3),
        choose.one("P/a->x[./b->y] JOIN {y = z, 6 s} S/a[./b->z]", "Q/a/b->x JOIN {x = y, 3 s} P/a/b->y"),
        choose.one("P->x JOIN {9 s, ONCE} P->y", "Q->x FOLLOWED BY {9 s} P->y"),
    ]


def test_lateness_of_what_is_published(tmp_path: Path) -> None:
    """What is published of what was held is late where it would have been if the queries had been there from the first;
    the same matches come of it in any order of registrations and batches."""
    counts: Counter[str] = Counter()
    for seed in range(examples(8)):
        choose = Dice(3_000 + seed)
        docs = [Doc(doc.channel, doc.id, doc.ts, doc.xml) for doc in plain_stream(choose, 7, 10)]
        queries = [
            Register(f"q{number}", f"{text} STARTING ALL") for number, text in enumerate(late_texts(choose, docs))
        ]
        terms = {
            name: (f"{choose.one(0, 0, 1, 2)} s", choose.one(name, "S"), choose.one(None, None, "1 s"))
            for name in ("P", "Q", *(["S"] if choose.chance(40) else []), *(["T"] if choose.chance(40) else []))
        }
        middle = choose.count(1, len(docs) - 1)
        orders: list[list[Step]] = [
            [*queries, *docs],
            [*docs, *queries],
            [*docs, Run(2), *queries[:3], Run(3), *queries[3:]],
            [*docs[:middle], Run(2), *queries, *docs[middle:]],
            [*docs[:middle], *queries[:2], *docs[middle:], *queries[2:]],
        ]
        seen = []
        for number, order in enumerate(orders):
            with xscl.connect(home=tmp_path / f"{seed}-{number}") as engine:
                for name, (lateness, clock, idle) in terms.items():
                    engine.add_channel(name, lateness=lateness, clock=clock, idle=idle)
                take(engine, order)
                engine.run_once(batch_docs=choose.one(2, 100))
                notes = engine.home.catalog.rows(LATE)
                counts["again"] += sum(note["replayed"] is not None for note in notes)
                late = sorted((str(note["channel"]), str(note["id"])) for note in notes if note["replayed"] is None)
                counts["late"] += sum(channel in "PQ" for channel, _ in late)
                counts["matches"] += len(matches := sorted((match.query, match.id) for match in engine.matches()))
                seen.append((late, matches))
        for number, found in enumerate(seen):
            assert found == seen[0], (seed, number, terms, docs, queries)
    assert counts["again"] > 1 and min(counts["late"], counts["matches"]) > 5, counts
