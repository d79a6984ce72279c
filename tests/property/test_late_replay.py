"""Late events that are taken again give what they would have given in time: every match once, and no other."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa
from budget import examples
from hypothesis import event, given, settings
from hypothesis import strategies as st
from oracle.evaluate import Doc, answers
from oracle.lateness import Arrival, Terms, is_late
from strategies import CHANNELS, NAMESPACES, SECOND, Dice, dense_query, dense_stream

import xscl
from xscl.answers.matches.listing import match_json
from xscl.base.errors import CatalogError, QueryError
from xscl.base.types import Event
from xscl.catalog.tables import BATCHES, LATE
from xscl.ingest.records import RowOptions, RowTable
from xscl.language.compile import compile_query
from xscl.language.syntax.parser import parse_query
from xscl.store import late_events as late
from xscl.store.late_events import LateChoice, late_lines, late_rows

SINGLE = "S/a[./b = 1]"


def sound_query(choose: Dice) -> str:
    while True:
        text = dense_query(choose)
        try:
            compile_query(parse_query(text), text, namespaces=NAMESPACES)
        except QueryError:
            continue
        return text


@dataclass
class Asked:
    """A query, the places between which it lives, and whether it sees what was there before."""

    text: str
    begin: int
    everything: bool
    end: int = 1 << 40
    missed: frozenset[str] = frozenset()
    """Events that were late to its end."""


@settings(max_examples=examples(4), deadline=None)
@given(st.integers(0, 1 << 32), st.data())
def test_late_and_taken_again_is_in_time(seed: int, data: st.DataObject) -> None:
    choose = Dice(seed)
    lateness = choose.one(0, 1, 2) * SECOND
    terms = {channel: Terms("all", lateness) for channel in CHANNELS}
    docs = dense_stream(choose)
    arrivals = [Arrival(place, doc.channel, doc.ts) for place, doc in enumerate(docs)]
    late = {doc.id for doc, arrival in zip(docs, arrivals, strict=True) if is_late(arrival, arrivals, terms)}
    asked: dict[str, Asked] = {}
    waiting = set(late)  # that came, and were not taken again
    come: set[str] = set()
    shared = sound_query(choose)
    with tempfile.TemporaryDirectory() as folder, xscl.connect(home=Path(folder) / "home") as engine:
        for channel in CHANNELS:
            engine.add_channel(channel, lateness=f"{lateness} us", clock="all")

        def register(place: int) -> None:
            name, everything = f"q{len(asked)}", choose.chance(30)
            # Queries of one group, of which some are dropped, and some see what was there before.
            text = choose.one(shared, SINGLE, sound_query(choose))
            engine.register(text + (" STARTING ALL" if everything else ""), name=name)
            asked[name] = Asked(text, place, everything)

        for _ in range(3):
            register(0)
        for place, doc in enumerate(docs):
            report = engine.ingest([Event(doc.channel, doc.id, doc.ts / SECOND, xml=doc.xml)])
            assert report.late == (doc.id in late)
            come.add(doc.id)
            match choose.count(0, 9):
                case 0 | 1:
                    engine.run_once(batch_docs=choose.count(1, 9))
                case 2:
                    register(place + 1)
                case 3:
                    live = [name for name, query in asked.items() if query.end > place + 1]
                    if live:
                        name = choose.one(*live)
                        engine.drop(name)
                        asked[name] = replace(asked[name], end=place + 1, missed=frozenset(waiting))
                case 4 | 5:
                    mine = sorted(come & waiting)
                    some = data.draw(st.lists(st.sampled_from(mine), unique=True) if mine else st.just([]))
                    if some:
                        taken = engine.replay_late(ids=some)
                        assert (taken.events, taken.before) == (len(some), 0)
                        waiting -= set(some)
        if come & waiting:
            engine.replay_late()
        assert all(row["replayed"] for row in engine.home.catalog.rows(LATE))
        engine.run_once(batch_docs=choose.count(1, 9))
        total = 0
        for name, query in asked.items():
            seen = [
                replace(doc, late=doc.id in query.missed)
                for place, doc in enumerate(docs)
                if (query.everything or place >= query.begin) and place < query.end
            ]
            found = Counter(tuple((e.channel, e.id) for e in match.events) for match in engine.matches(name))
            expected = Counter(members for members, _ in answers(parse_query(query.text), seen, namespaces=NAMESPACES))
            assert found == expected, (name, query, late)
            total += sum(any(id_ in late for _, id_ in members) and len(members) > 1 for members in found)
        event(f"late in matches: {total > 0}")


A = "<a><k>{}</k></a>"


def test_a_replay_step_by_step(tmp_path: Path) -> None:
    """Partners that the join state has done with, queries of one block, who is there when, and what is said of it."""
    with xscl.connect(home=tmp_path / "home") as engine:
        for channel in "ST":
            engine.add_channel(channel, lateness="1 s", clock="c")
        pair = "S/a/k->x JOIN {x = y, 5 s} T/a/k->y"
        engine.register(pair, name="pair")
        engine.register(pair, name="dropped")
        engine.register("S/a", name="single")
        engine.register("S/a/k->x JOIN {x = y, 5 s} T/a/k->y PUBLISH pairs", name="publishes")
        engine.register("pairs//k", name="reads")
        engine.ingest([Event("T", "t", 10, xml=A.format(1)), Event("T", "far", 100, xml=A.format(2))])
        (report,) = engine.run_once()
        assert report.state_rows == 1, "only that of 'far' may have a partner yet"
        assert engine.ingest([Event("S", "s", 11, xml=A.format(1))]).late == 1
        engine.run_once()
        assert [match.query for match in engine.matches()] == ["single"]
        engine.register(pair, name="after")
        engine.drop("dropped")
        taken = engine.replay_late(channel="S", since=11 * SECOND, until=11 * SECOND)
        assert (taken.events, taken.before, taken.gone) == (1, 0, 0)
        engine.register(pair + " STARTING ALL", name="all")
        engine.register(pair, name="new")
        assert next(iter(late_rows(engine.home.catalog, LateChoice())))["replayed"] == taken.place
        reports = engine.run_once()
        assert [(r.replayed, r.filled, r.published) for r in reports if r.replayed or r.filled] == [
            (1, 0, 1),
            (0, 1, 0),
        ]
        found = Counter(match.query for match in engine.matches())
        assert found == {"single": 1, "pair": 1, "publishes": 1, "reads": 2, "all": 1}
        assert engine.replay_late().before == 1
        assert engine.run_once() == []
        # What comes later finds what it would have found without.
        engine.ingest([Event("T", "u", 99.5, xml=A.format(1)), Event("S", "v", 99.2, xml=A.format(2))])
        engine.run_once()
        again = Counter(match.query for match in engine.matches())
        assert again - found == {"single": 1, "pair": 1, "publishes": 1, "reads": 2, "all": 1}
        with pytest.raises(CatalogError, match="XSCL_LATE_NOT_FOUND"):
            engine.replay_late(ids=["t"])
        with pytest.raises(CatalogError, match="XSCL_UNKNOWN_CHANNEL"):
            engine.replay_late(channel="nobody")


def test_replayed_events_wait_for_partners(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        for channel in "STU":
            engine.add_channel(channel, lateness="3 s", clock="c")
        engine.register("S/a/k->x JOIN {x = y, 60 s} T/a/k->y JOIN {y = z, 60 s} U/a/k->z", name="q")
        engine.ingest(
            [
                Event("T", "t", 10, xml=A.format(1)),
                Event("S", "clock", 20, xml=A.format(9)),
                Event("S", "s", 9, xml=A.format(1)),
            ]
        )
        engine.run_once()
        engine.replay_late()
        engine.run_once()
        assert not list(engine.matches())
        engine.ingest([Event("U", "u", 21, xml=A.format(1))])
        engine.run_once()
        assert [[e.id for e in match.events] for match in engine.matches()] == [["s", "t", "u"]]


def test_what_is_published_of_replayed_events_meets_pairs_with_them(tmp_path: Path) -> None:
    early, first, last = (
        xscl.Event("S", name, ts, xml=f"<{name}><k/></{name}>") for name, ts in (("a", 5), ("t", 9), ("b", 10))
    )
    found = []
    for number, order in enumerate([(early, first, last), (first, last, early)]):
        with xscl.connect(home=tmp_path / str(number)) as engine:
            engine.add_channel("S", lateness="0 s")
            engine.register("S/a JOIN {1 h} S/t PUBLISH P", name="published")
            engine.register("S/a/k JOIN {1 h} P JOIN {MAXWINDOW 1 h} S/b/k", name="three")
            for each in order:
                engine.ingest([each])
                engine.run_once()
            engine.replay_late()
            engine.run_once()
            found.append([[member.id for member in match.events] for match in engine.matches("three")])
    assert found[0] == found[1] and len(found[0]) == 1


def test_late_rows_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in bulk are known by their places, so they can be taken again; each once, in another home too."""
    table = pa.table({"id": ["1", "2", "3", "4"], "t": [10.0, 50.0, 11.0, 12.5], "k": [1.5, 2.0, 1.5, None]})
    rows = RowTable("R", table, "table", options=RowOptions(("k",), ts="t", id="id"))
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("R", kind="rows", lateness="1 s")
        engine.register("R[./k->x] JOIN {x = y, ONCE, 5 s} R[./k->y]", name="q")
        assert engine.ingest([rows]).late == 2
        engine.run_once()
        lines = list(late_lines(engine.home, LateChoice()))
        monkeypatch.setattr(late, "_PAGE", 1)
        assert list(late_lines(engine.home, LateChoice())) == lines
        assert lines == [
            {"channel": "R", "id": "3", "ts": "1970-01-01T00:00:11Z", "row": {"k": 1.5}},
            {"channel": "R", "id": "4", "ts": "1970-01-01T00:00:12.5Z", "row": {"k": None}},
        ]
        assert engine.replay_late(ids=["3"]).events == 1
        engine.run_once()
        assert [[e.id for e in match.events] for match in engine.matches("q")] == [["1", "3"]]
        with engine.home.catalog.begin() as connection:
            connection.execute(LATE.update().where(LATE.c.id == "4").values(docid=None))
        with pytest.raises(CatalogError, match="XSCL_LATE_GONE"):
            engine.replay_late(ids=["4"])
        assert engine.home.catalog.rows(BATCHES)[-1]["replayed"] == 1


def test_what_is_replayed_is_found_whatever_the_driver_holds(tmp_path: Path) -> None:
    """The matches of a home in which nothing came late, with their ids and documents."""
    docs = [Doc("S" if n % 2 else "T", f"e{n}", (n * 7 % 20) * SECOND, A.format(n % 2)) for n in range(20)]
    text = "S/a/k->x FOLLOWED BY {x != y, 9 s} T/a/k->y"
    listed = []
    for number, lateness in enumerate(("none", "0 s")):
        with xscl.connect(home=tmp_path / str(number)) as engine:
            for channel in "ST":
                engine.add_channel(channel, lateness=lateness, clock="c")
            engine.register(text, name="q")
            for start in range(0, len(docs), 4):
                part = docs[start : start + 4]
                engine.ingest([Event(doc.channel, doc.id, doc.ts / SECOND, xml=doc.xml) for doc in part])
                engine.run_once()
            if number:
                with engine.home.catalog.read() as connection:
                    late = connection.scalar(sa.select(sa.func.count()).select_from(LATE))
                assert engine.replay_late().events == late and late
                engine.run_once()
            listed.append([match_json(match) for match in engine.matches()])
    assert listed[0] == listed[1] and len(listed[0]) > 5
