"""Out-of-order arrival within the lateness gives the answers of ordered arrival, however batches are cut."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from budget import examples
from hypothesis import event, given, settings
from hypothesis import strategies as st
from oracle.evaluate import Doc, answers
from strategies import CHANNELS, NAMESPACES, SECOND, Dice, dense_stream, sound_query

import xscl
from xscl.answers.matches.listing import match_json
from xscl.base.types import Event
from xscl.language.syntax.parser import parse_query

SINGLE = ("S/a[./b = 1]", "T//b->x", "SELECT <out n='{x}'/> FROM S/a/c->x")


def sound_queries(choose: Dice) -> list[str]:
    """Three queries of two blocks or more whose windows can be satisfied, and one of a single block."""
    return [*(sound_query(choose) for _ in range(3)), choose.one(*SINGLE)]


def arrived(docs: Sequence[Doc], lateness: int, chance: random.Random) -> list[Doc]:
    """As events come that are under way for the lateness at most."""
    return sorted(docs, key=lambda doc: doc.ts + chance.randint(0, lateness))


def listed(
    texts: Sequence[str], docs: Sequence[Doc], lateness: int, cuts: Sequence[int]
) -> tuple[list[dict[str, object]], int]:
    """All that a home lists of these events in this order, with a batch after each of some; rows that were purged."""
    purged = 0
    with tempfile.TemporaryDirectory() as folder, xscl.connect(home=Path(folder) / "home") as engine:
        for channel in CHANNELS:
            engine.add_channel(channel, lateness=f"{lateness} us", clock="all")
        for number, text in enumerate(texts):
            engine.register(text, name=f"q{number}")
        begin = 0
        for end in [*sorted(cuts), len(docs)]:
            part = [Event(doc.channel, doc.id, doc.ts / SECOND, xml=doc.xml) for doc in docs[begin:end]]
            assert engine.ingest(part).late == 0
            purged += sum(report.purged for report in engine.run_once())
            begin = end
        return [match_json(match) for match in engine.matches()], purged


@settings(max_examples=examples(4), deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 6), st.randoms(use_true_random=False), st.data())
def test_answers_are_those_of_ordered_arrival(seed: int, late: int, chance: random.Random, data: st.DataObject) -> None:
    choose = Dice(seed)
    texts = sound_queries(choose)
    docs = sorted(dense_stream(choose), key=lambda doc: doc.ts)
    lateness = late * SECOND
    cut = st.lists(st.integers(0, len(docs)), max_size=8)
    expected, _ = listed(texts, docs, lateness, ())
    found, purged = listed(texts, arrived(docs, lateness, chance), lateness, data.draw(cut))
    event(f"purged: {purged > 0}, matches: {len(found) > 0}")
    assert found == expected, texts
    for number, text in enumerate(texts):
        members = [
            tuple((e["channel"], e["id"]) for e in match["events"])  # type: ignore[attr-defined]
            for match in found
            if match["query"] == f"q{number}"
        ]
        oracle = answers(parse_query(text), docs, namespaces=NAMESPACES)
        assert sorted(members) == sorted(members for members, _ in oracle), text
