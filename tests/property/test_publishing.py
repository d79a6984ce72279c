"""Published channels against the oracle: random queries over one another's output, whatever the cut into batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa
from budget import examples
from local_engine import compiled
from lxml import etree
from oracle.evaluate import Answer, Doc
from oracle.history import Standing
from oracle.publish import Published, published
from strategies import NAMESPACES, Dice, many_block_query, plain_stream

import xscl
from xscl.base.errors import QueryError
from xscl.base.settings import Settings
from xscl.base.types import Match
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import QUERIES
from xscl.engine import Engine
from xscl.language.syntax.parser import parse_query
from xscl.store.results import match_id

Step = Doc | tuple[str, str] | str
"""What a home takes in: a document, a registration (name, text), or the name of a query that is dropped."""


def take(engine: Engine, steps: Sequence[Step]) -> tuple[dict[str, Standing], dict[Doc, int]]:
    """Take in steps in order; queries and documents with the places that the home gave them."""
    taken: dict[Doc, int] = {}
    texts: dict[str, str] = {}
    for step in steps:
        match step:
            case Doc():
                _, last = engine.home.catalog.ask(read_last_places)
                engine.ingest([xscl.Event(step.channel, step.id, step.ts / 1e6, xml=step.xml)])
                taken[step] = last + 1
            case (name, text):
                engine.register(f"DECLARE NAMESPACE n = 'urn:n'; {text}", name=name)
                texts[name] = text
            case name:
                engine.drop(name)
    with engine.home.catalog.read() as connection:
        rows = connection.execute(sa.select(QUERIES.c.qid, QUERIES.c.docid_from, QUERIES.c.docid_until)).all()
    return {row.qid: Standing(parse_query(texts[row.qid]), row.docid_from, row.docid_until) for row in rows}, taken


def expected(engine: Engine, standing: Mapping[str, Standing], taken: Mapping[Doc, int]) -> Published:
    digests = {info.name: info.digest for info in engine.home.catalog.ask(read_queries, live_only=False)}

    def named(name: str, answer: Answer) -> str:
        return match_id(digests[name], *answer)

    return published(standing, taken, named, namespaces=NAMESPACES)


def listed(engine: Engine) -> dict[str, list[tuple[str, tuple[tuple[str, str], ...], str]]]:
    """Query to the id, members and output of its matches."""
    return by_query(engine.matches())


def by_query(matches: Iterable[Match]) -> dict[str, list[tuple[str, tuple[tuple[str, str], ...], str]]]:
    """The same of some matches."""
    found: dict[str, list[tuple[str, tuple[tuple[str, str], ...], str]]] = {}
    for match in matches:
        members = tuple((event.channel, event.id) for event in match.events)
        found.setdefault(match.query, []).append((match.id, members, match.document))
    return found


def check(folder: Path, steps: Sequence[Step], runs: Sequence[tuple[int, Settings]]) -> Counter[str]:
    """Take in everything, run it in several cuts with several settings, and hold each against the oracle; documents
    published by channel.
    """
    counts: Counter[str] = Counter()
    seen = []
    for number, (size, settings) in enumerate(runs):
        with xscl.connect(home=folder / str(number), settings=settings) as engine:
            standing, taken = take(engine, steps)
            reports = engine.run_once(batch_docs=size)
            truth = expected(engine, standing, taken)
            found = listed(engine)
            digests = {info.name: info.digest for info in engine.home.catalog.ask(read_queries, live_only=False)}
            for name, answers in truth.answers.items():
                ids = {match_id(digests[name], *answer) for answer in answers}
                rows = found.get(name, [])
                assert {id_ for id_, _, _ in rows} == ids and len(rows) == len(ids), (name, size, steps)
            outputs = {
                (standing[name].query.publish, id_): document
                for name, rows in found.items()
                for id_, _, document in rows
            }
            for doc in truth.documents:
                assert canonical(outputs[doc.channel, doc.id]) == canonical(doc.xml)
            assert sum(report.published for report in reports) == len(truth.documents)
            seen.append(found)
        counts = Counter(doc.channel for doc in truth.documents)
    assert all(found == seen[0] for found in seen), "matches and their ids do not depend on the cut"
    return counts


def canonical(xml: str) -> str:
    return etree.tostring(etree.fromstring(xml.encode()), method="c14n", exclusive=True).decode()


def sound_query(choose: Dice, channels: Sequence[str], most: int) -> str:
    """A query of two or more blocks whose windows can be satisfied."""
    while True:
        text = many_block_query(choose, channels, least=2, most=most, constructors=True)
        try:
            compiled(text)
        except QueryError:
            continue
        return text


def workload(seed: int) -> list[Step]:
    """Documents of S and T with queries of up to four levels, registered and dropped at random places."""
    choose = Dice(seed)
    steps: list[Step] = [Doc(doc.channel, doc.id, doc.ts, doc.xml) for doc in plain_stream(choose, 7, 9)]
    texts = [
        sound_query(choose, ("S",), 2) + " PUBLISH T",
        "S/a PUBLISH P",
        sound_query(choose, ("S", "T"), 2) + f" PUBLISH {choose.one('P', 'Q')}",
        sound_query(choose, ("P", "T", "P"), 2) + " PUBLISH Q",
        sound_query(choose, ("Q", "P", "T"), 3),
        sound_query(choose, ("Q", "Q", "S"), 2),
        "Q//b PUBLISH R",
        "R",
    ]
    for number, text in enumerate(texts):
        at = 0 if choose.chance(60) else choose.count(0, len(steps) // 2)
        steps.insert(at, (f"q{number}", text))
        if choose.chance(15):
            steps.insert(choose.count(at + 1, len(steps)), f"q{number}")
    return steps


def test_levels_meet_each_other_and_what_was_there_before(tmp_path: Path) -> None:
    steps: list[Step] = [
        ("whole", "S/a PUBLISH P"),
        ("met", "P/a/k->x JOIN {x = y, 1 h} S/a/k->y PUBLISH Q"),
        ("last", "Q//k->x JOIN {x = y, 1 h} P/a/k->y JOIN {x = z AND y != w, 1 h} S/a[./k->z][./m->w]"),
    ]
    steps += [Doc("S", f"e{n}", n * 1_000_000, f"<a><k>{n % 2}</k><m>{n}</m></a>") for n in range(8)]
    assert check(tmp_path, steps, ((2, Settings()), (3, Settings()))) == {"P": 8, "Q": 32}


def test_random_queries_over_published_channels(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(examples(20)):
        runs = ((1 + seed % 3, Settings()), (100, Settings()))
        found = check(tmp_path / str(seed), workload(seed), runs)
        counts += found
    assert all(counts[channel] > 3 for channel in "TPQR"), counts
