"""What the join state drops is what no later event can join: purged engines against the oracle, for all cuts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers
from oracle.lateness import Arrival, Terms, is_late
from strategies import CHANNELS, NAMESPACES, SECOND, Dice, dense_query, dense_stream, many_block_query

import xscl.store.state_merges
from xscl.base.errors import QueryError
from xscl.base.types import Event
from xscl.engine import Engine
from xscl.language.compiled import CompiledQuery
from xscl.language.syntax.parser import parse_query
from xscl.store.home import init_home


def settings(choose: Dice) -> dict[str, Terms]:
    """Lateness, clocks and idle times of channels."""
    together = choose.chance(50)
    return {
        channel: Terms(
            "both" if together else channel,
            choose.one(0, 0, 1, 1, 2, 4) * SECOND if choose.chance(80) else None,
            choose.one(0, 1, 2, 4) * SECOND if choose.chance(40) else None,
        )
        for channel in CHANNELS
    }


def judged(docs: Sequence[Doc], terms: Mapping[str, Terms]) -> list[Doc]:
    """Which events are late, by the intake order."""
    arrivals = [Arrival(place, doc.channel, doc.ts) for place, doc in enumerate(docs)]
    late = [is_late(arrival, arrivals, terms) for arrival in arrivals]
    return [replace(doc, late=found) for doc, found in zip(docs, late, strict=True)]


def cuts(choose: Dice, docs: Sequence[Doc]) -> list[list[list[Doc]]]:
    """Everything at once, each event by itself, and something between."""
    places = sorted({0, len(docs), *(choose.count(0, len(docs)) for _ in range(4))})
    return [[list(docs)], [[doc] for doc in docs], [list(docs[a:b]) for a, b in pairwise(places)]]


def queries(choose: Dice, *, others: int = 20) -> dict[str, CompiledQuery]:
    """A few queries; in so many cases of a hundred not one of this module."""
    found = {}
    while len(found) < 3:
        text = many_block_query(choose, CHANNELS) if choose.chance(others) else dense_query(choose)
        try:
            found[text] = compiled(text)
        except QueryError as error:
            assert error.condition == "XSCL_UNSATISFIABLE_WINDOW", (text, error)
    return found


@pytest.mark.parametrize("whole", [False, True], ids=["units", "whole"])
def test_purging_loses_no_match(whole: bool, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(7, 7 + examples(40)) if whole else range(examples(40)):
        choose = Dice(seed)
        asked = queries(choose)
        terms = settings(choose)
        docs = judged(dense_stream(choose), terms)
        clocks = {name: of.clock for name, of in terms.items()}
        lateness = {name: of.lateness for name, of in terms.items() if of.lateness is not None}
        idle = {name: of.idle for name, of in terms.items() if of.idle is not None}
        expected = {text: answers(parse_query(text), docs, namespaces=NAMESPACES) for text in asked}
        held = []
        for number, batches in enumerate(cuts(choose, docs)):
            folder = tmp_path / f"{seed}-{number}"
            folder.mkdir()
            kind = LocalEngine if whole else UnitsEngine
            engine = kind(folder, asked, lateness=lateness, clocks=clocks, idle=idle)
            for batch in batches:
                engine.run(batch)
            for text, answer in expected.items():
                assert engine.answers(text) == answer, (text, seed, terms, number)
            held.append((engine.documents_held(), engine.rows_held))
            seen["purged"] += engine.purged
        assert held[0] == held[1] == held[2], "what is held depends on the cut"
        seen["late"] += sum(doc.late for doc in docs)
        seen["matches"] += sum(map(len, expected.values()))
    assert seen["purged"] > 450 and seen["late"] > 4 and seen["matches"] > 40, seen


def test_homes_that_purge_answer_as_the_oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a home, from intake to matches, with files merged early and engines that begin with a cold cache."""
    for name, value in {"_FILES": 3, "_FANOUT": 3, "_SMALL": 40}.items():
        monkeypatch.setattr(xscl.store.state_merges, name, value)
    seen: Counter[str] = Counter()
    for seed in range(100, 100 + examples(20)):
        choose = Dice(seed)
        asked = list(queries(choose, others=0))
        terms = settings(choose)
        docs = judged(dense_stream(choose), terms)
        home = tmp_path / str(seed)
        with Engine(init_home(home)) as engine:
            for channel in CHANNELS:
                of = terms[channel]
                late, idle = (None if time is None else f"{time} us" for time in (of.lateness, of.idle))
                engine.add_channel(channel, lateness=late, clock=of.clock, idle=idle)
            for number, text in enumerate(asked):
                engine.register(text, name=f"q{number}")
        waiting = list(docs)
        while waiting:
            with Engine(init_home(home)) as engine:
                for _ in range(choose.count(1, 3)):
                    part = waiting[: choose.count(1, 9)]
                    waiting = waiting[len(part) :]
                    events = [Event(doc.channel, doc.id, doc.ts / SECOND, xml=doc.xml) for doc in part]
                    seen["late"] += (taken := engine.ingest(events)).late
                    assert taken.late == sum(doc.late for doc in part)
                    # What is taken in and not processed yet is no reason to purge.
                    if choose.chance(70):
                        seen["purged"] += sum(r.purged for r in engine.run_once(batch_docs=choose.count(1, 9)))
        with Engine(init_home(home)) as engine:
            engine.run_once()
            for number, text in enumerate(asked):
                found = Counter(tuple((e.channel, e.id) for e in m.events) for m in engine.matches(f"q{number}"))
                expected = answers(parse_query(text), docs, namespaces=NAMESPACES)
                assert found == Counter(members for members, _ in expected), (text, seed)
                seen["matches"] += found.total()
    assert seen["purged"] > 70 and seen["late"] > 3 and seen["matches"] > 80, seen
