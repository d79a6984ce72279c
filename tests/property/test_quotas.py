"""A quota takes from the query that exceeds it, from the right place on, and nobody else notices."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from budget import examples
from hypothesis import event, given, settings
from hypothesis import strategies as st
from oracle.evaluate import Doc
from strategies import SECOND, Dice, dense_stream, sound_query

import xscl
from xscl.base.types import Event

GREEDY = ("{0}//*->v JOIN {{v = w, 9 s}} {1}//*->w", "{0}//*->v", "{0}//*->v FOLLOWED BY {{v = w, 9 s}} {0}//*->w")
INERT = "Nobody//nothing"
"""Takes the place of the greedy query in the intake order."""
OWNERS = ("", "ann", "bob")


class Asked(NamedTuple):
    """A query, and the number of documents before its registration."""

    name: str
    owner: str
    text: str
    at: int


class Told(NamedTuple):
    """What a home has told of its queries."""

    matches: dict[str, set[tuple[str, tuple[str, ...]]]]
    """Id and documents of the matches of each query."""
    suspended: dict[str, tuple[str, int, str]]
    """Owner, place and reason of each suspension."""
    places: dict[str, int]
    """The place of each document in the intake order."""


def told(docs: Sequence[Doc], asked: Sequence[Asked], ends: Sequence[int], quotas: Mapping[str, int]) -> Told:
    """Run a home with a batch up to each of ``ends``."""
    places: dict[str, int] = {}
    suspended = {}
    place = 0
    with tempfile.TemporaryDirectory() as folder, xscl.connect(home=Path(folder) / "home") as engine:
        engine.set_quotas(**quotas)

        def take(some: Sequence[Doc]) -> None:
            nonlocal place
            engine.ingest(Event(doc.channel, doc.id, doc.ts / SECOND, xml=doc.xml) for doc in some)
            places.update((doc.id, place + number) for number, doc in enumerate(some, start=1))
            place += len(some)

        for begin, end in pairwise([0, *ends]):
            taken = begin
            for query in sorted(asked, key=lambda query: query.at):
                if begin <= query.at < end:
                    take(docs[taken : query.at])
                    taken = query.at
                    engine.register(query.text, name=query.name, owner=query.owner)
                    place += 1
            take(docs[taken:end])
            for report in engine.run_once():
                suspended |= {each.query: (each.owner, each.place, each.reason) for each in report.suspended}
        matches: dict[str, set[tuple[str, tuple[str, ...]]]] = {query.name: set() for query in asked}
        for match in engine.matches():
            matches[match.query].add((match.id, tuple(event.id for event in match.events)))
    return Told(matches, suspended, places)


def programs(choose: Dice, docs: Sequence[Doc]) -> list[Asked]:
    """Random queries of some owners, a greedy one among them."""
    channels = sorted({doc.channel for doc in docs})
    texts = [choose.one(*GREEDY).format(choose.one(*channels), choose.one(*channels))]
    texts += [sound_query(choose) for _ in range(3)]
    return [
        Asked(
            f"q{number}" if number else "greedy",
            choose.one(*OWNERS),
            text,
            0 if choose.chance(60) else choose.count(0, len(docs) - 1),
        )
        for number, text in enumerate(texts)
    ]


def expected(plain: Told, docs: Sequence[Doc], asked: Sequence[Asked], ends: Sequence[int], most: int) -> Told:
    """Tell from a home without quotas what one with a quota of pairs tells."""
    number = {doc.id: place for place, doc in enumerate(docs)}
    told = Told({}, {}, plain.places)
    for query in asked:
        last = {match: max(number[id_] for id_ in match[1]) for match in plain.matches[query.name]}
        seen = len(docs)
        for batch, (begin, end) in enumerate(pairwise([0, *ends]), start=1):
            pairs = len({match[1] for match, place in last.items() if begin <= place < end})
            if pairs > most:
                reason = f"{pairs:,} combinations of documents (at most {most:,}) in batch {batch}"
                told.suspended[query.name] = query.owner, plain.places[docs[end - 1].id] + 1, reason
                seen = end
                break
        told.matches[query.name] = {match for match, place in last.items() if place < seen}
    return told


@settings(max_examples=examples(2), deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 12), st.integers(1, 40))
def test_a_quota_takes_from_who_exceeds_it_alone(seed: int, pairs: int, bindings: int) -> None:
    choose = Dice(seed)
    docs = sorted(dense_stream(choose), key=lambda doc: doc.ts)
    asked = programs(choose, docs)
    without = [query._replace(text=INERT) if query.name == "greedy" else query for query in asked]
    ends = sorted({*(choose.count(1, len(docs)) for _ in range(3)), len(docs)})
    plain = told(docs, asked, ends, {})
    limited = told(docs, asked, ends, {"pairs": pairs})
    assert limited == expected(plain, docs, asked, ends, pairs)
    event(f"suspended: {len(limited.suspended)}, others: {len(limited.suspended.keys() - {'greedy'})}")
    both = {"pairs": pairs, "bindings": bindings}
    mine, others = (told(docs, some, ends, both) for some in (asked, without))
    for query in without:
        if query.name != "greedy":
            assert mine.matches[query.name] == others.matches[query.name], query
            assert mine.suspended.get(query.name) == others.suspended.get(query.name), query
