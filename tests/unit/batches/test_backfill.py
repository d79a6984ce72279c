"""STARTING ALL or a time: what is answered from what is held, and what later events make with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
import sqlalchemy as sa
from budget import examples
from next_places import places_of_next

from xscl import Event
from xscl.base.errors import XsclError
from xscl.base.failpoints import hooked
from xscl.base.settings import Settings
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import BATCHES, EVENT_IDS, QUERIES
from xscl.engine import Engine, connect
from xscl.templates.joins.find import Finder

Open = Callable[..., Engine]

PAIR = "S//a->x[./k->p] FOLLOWED BY {p=q, 10} S//b->y[./k->q]"
ALIKE = "S//a->x[./k->p] JOIN {p=q} T//b->y[./k->q]"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    engines: list[Engine] = []

    def make(name: str = "home", **settings: int) -> Engine:
        engines.append(connect(home=tmp_path / name, settings=Settings(**settings)))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def a(id_: str, ts: float, key: str = "1", channel: str = "S") -> Event:
    return Event(channel, id_, ts, xml=f"<r><a><k>{key}</k></a></r>")


def b(id_: str, ts: float, key: str = "1", channel: str = "S") -> Event:
    return Event(channel, id_, ts, xml=f"<r><b><k>{key}</k></b></r>")


def found(engine: Engine, name: str) -> list[str]:
    """The ids of the members of each match, in order."""
    listed = ["-".join(event.id for event in match.events) for match in engine.matches(name)]
    assert len(listed) == len(set(listed)), "a match is listed twice"
    return sorted(listed)


def test_pairs_of_old_and_new_events(opened: Open) -> None:
    engine = opened()
    engine.ingest([a("1", 1), b("2", 2)])
    engine.register(PAIR + " STARTING ALL", name="Q")
    engine.ingest([b("3", 3), a("4", 4)])
    engine.run_once()
    engine.ingest([b("5", 5)])
    engine.run_once()
    assert found(engine, "Q") == ["1-2", "1-3", "1-5", "4-5"]


def test_a_back_fill_is_a_batch_of_its_own(opened: Open) -> None:
    engine = opened()
    engine.ingest([a("1", 1), b("2", 2)])
    engine.register("S//a->x", name="N")
    engine.register(PAIR + " STARTING ALL", name="Q1")
    engine.register("S//a->x", name="M")
    engine.register("S//a->x STARTING ALL", name="Q2")
    engine.ingest([b("3", 3)])
    with engine.home.catalog.read() as connection:
        assert places_of_next(connection, 100) == (1, 3)
    reports = engine.run_once()
    assert [(r.first, r.last, r.events, r.filled) for r in reports] == [(1, 3, 2, 0), (4, 6, 0, 2), (7, 7, 1, 0)]
    rows = engine.home.catalog.rows(BATCHES)
    assert [row["filled"] for row in rows] == [0, 2, 0]
    with engine.home.catalog.read() as connection:
        filled = connection.execute(sa.select(QUERIES.c.qid, QUERIES.c.filled).where(QUERIES.c.history < 0)).all()
    assert sorted(filled) == [("Q1", 2), ("Q2", 2)]
    assert (found(engine, "N"), found(engine, "M"), found(engine, "Q2")) == ([], [], ["1"])


def test_queries_of_one_group_see_what_they_ask_for(opened: Open) -> None:
    engine = opened()
    engine.register(PAIR, name="Before")
    engine.ingest([a("1", 1), b("2", 2)])
    engine.run_once()
    engine.register(PAIR, name="Now")
    engine.register(PAIR + " STARTING '1970-01-01T00:00:02Z'", name="Time")
    engine.ingest([a("3", 3)])
    engine.register(PAIR + " STARTING ALL", name="All")
    engine.ingest([b("4", 4)])
    engine.register(PAIR, name="Late")
    engine.register(PAIR + " STARTING ALL", name="All2")
    engine.ingest([b("5", 5), a("0", 1.5)])
    engine.ingest([b("6", 2.5)])
    engine.run_once()
    every = ["0-2", "0-4", "0-5", "0-6", "1-2", "1-4", "1-5", "1-6", "3-4", "3-5"]
    assert found(engine, "All") == found(engine, "All2") == found(engine, "Before") == every
    assert found(engine, "Now") == ["0-4", "0-5", "0-6", "3-4", "3-5"]
    assert found(engine, "Time") == ["3-4", "3-5"]
    assert found(engine, "Late") == ["0-5", "0-6"]


def test_a_time_speaks_of_all_members_whenever_received(opened: Open) -> None:
    engine = opened()
    engine.ingest([a("1", 1), a("2", 2), b("3", 3)])
    engine.register("S//a->x[./k->p] FOLLOWED BY {p=q} S//b->y[./k->q] STARTING '1970-01-01T00:00:02Z'", name="Q")
    engine.register("S//a->x STARTING '1970-01-01T00:00:02Z'", name="One")
    engine.ingest([a("0", 0), b("4", 4), a("5", 3)])
    engine.run_once()
    assert found(engine, "Q") == ["2-3", "2-4", "5-4"]
    assert found(engine, "One") == ["2", "5"]


def test_a_query_that_was_dropped_before_it_was_answered(opened: Open) -> None:
    engine = opened()
    engine.ingest([a("1", 1), b("2", 2)])
    engine.register(PAIR + " STARTING ALL", name="Q")
    engine.ingest([b("3", 3)])
    engine.drop("Q")
    engine.ingest([b("4", 4)])
    engine.register(PAIR + " STARTING ALL", name="R")
    engine.drop("R")
    engine.run_once()
    assert found(engine, "Q") == ["1-2", "1-3"]
    assert found(engine, "R") == ["1-2", "1-3", "1-4"]


def test_three_blocks(opened: Open) -> None:
    text = "S//a->x[./k->p] FOLLOWED BY {p=q} S//b->y[./k->q] FOLLOWED BY {q=s} S//c->z[./k->s]"
    engine = opened()
    c = [Event("S", f"c{n}", 10 + n, xml="<r><c><k>1</k></c></r>") for n in range(3)]
    engine.ingest([a("a1", 1), b("b1", 2), c[0]])
    engine.register("S//a->x[./k->p] FOLLOWED BY {p=q} S//b->y[./k->q] FOLLOWED BY {q=s, 99} S//c->z[./k->s]", name="N")
    engine.ingest([a("a2", 1), b("b2", 2)])
    engine.run_once()
    engine.register(text + " STARTING ALL", name="Q")
    engine.ingest([c[1]])
    engine.run_once()
    engine.ingest([a("a3", 3), b("b3", 4)])
    engine.ingest([c[2]])
    engine.run_once()
    pairs = [*product(("a1", "a2"), ("b1", "b2")), *((x, "b3") for x in ("a1", "a2", "a3"))]
    assert found(engine, "Q") == sorted(f"{x}-{y}-c{n}" for x, y in pairs for n in range(3))
    young = [("a2", "b2"), ("a2", "b3"), ("a3", "b3")]
    assert found(engine, "N") == sorted(f"{x}-{y}-c{n}" for x, y in young for n in (1, 2))


def test_a_query_without_values(opened: Open) -> None:
    text = "S JOIN {2} T STARTING ALL"
    engine = opened()
    engine.ingest([a("1", 1), a("2", 2), a("7", 7, channel="T")])
    engine.register(text, name="Q")
    engine.ingest([a("3", 3, channel="T"), a("6", 6)])
    engine.run_once()
    assert found(engine, "Q") == ["1-3", "2-3", "6-7"]


def test_what_is_published_for_old_matches(opened: Open) -> None:
    engine = opened()
    engine.register("C//a->x[./k->p] JOIN {p=q} S//b->y[./k->q]", name="Before")
    engine.ingest([b("0", 0), a("1", 1), b("2", 2)])
    engine.run_once()
    engine.register("C//a->x[./k->p] JOIN {p=q} S//b->y[./k->q] STARTING ALL", name="Reads")
    engine.register("S//a->x PUBLISH C STARTING ALL", name="Feeds")
    engine.register("C//a->x[./k->p] JOIN {p=q} S//b->y[./k->q]", name="After")
    engine.register("S//r->x[./a] PUBLISH C STARTING ALL", name="Feeds2")
    engine.ingest([b("3", 3), a("4", 4)])
    engine.run_once()
    engine.register("C//a->x[./k->p] JOIN {p=q} S//b->y[./k->q] STARTING ALL", name="Again")
    engine.run_once()

    def right(name: str) -> list[str]:
        return sorted(match.events[1].id for match in engine.matches(name))

    assert right("Reads") == right("Again") == sorted(["0", "2", "3"] * 4)
    assert right("Before") == sorted(["0", "2", "3"] * 4)
    assert right("After") == ["3", "3"]
    assert {m.id for m in engine.matches("Reads")}.isdisjoint({m.id for m in engine.matches("Again")})


def test_late_events_serve_queries_of_one_block(opened: Open) -> None:
    engine = opened()
    engine.add_channel("S", lateness="1 s")
    engine.ingest([a("1", 100), b("2", 101), a("3", 1), b("4", 2)])
    engine.register(PAIR + " STARTING ALL", name="Q")
    engine.register("S//a->x STARTING ALL", name="One")
    engine.ingest([b("5", 102)])
    engine.run_once()
    assert found(engine, "Q") == ["1-2", "1-5"]
    assert found(engine, "One") == ["1", "3"]


def test_replays_and_answers_at_neighbouring_places(opened: Open) -> None:
    """Each is a batch of its own, whichever comes first, with a drop, an event, or nothing between."""
    engine = opened()
    for channel in "ST":
        engine.add_channel(channel, lateness="1 s", clock="c")
    pair = "S//a->x[./k->p] JOIN {p=q, 9} T//b->y[./k->q]"
    engine.register(pair, name="Before")
    engine.register(pair, name="Dropped")
    engine.ingest([b("t", 100, channel="T"), a("far", 200, key="9")])
    late = [f"s{n}" for n in range(5)]
    engine.ingest([a(id_, 95 + n) for n, id_ in enumerate(late)])

    def again(*ids: str) -> int:
        place = engine.replay_late(ids=list(ids)).place
        assert place is not None
        return place

    def historical(name: str) -> int:
        engine.register(f"{pair} STARTING ALL", name=name)
        return engine.home.catalog.ask(read_queries, name=name)[0].docid_from

    first = again("s0")
    q1 = historical("Q1")
    second = again("s1")
    third = again("s2")
    engine.drop("Dropped")
    q2 = historical("Q2")
    historical("Q3")
    engine.drop("Q3")
    fourth = again("s3")
    engine.ingest([b("u", 201, channel="T")])
    fifth = again("s4")
    engine.ingest([b("v", 202, channel="T")])
    q4 = historical("Q4")
    assert [first, second, third] == [q1 - 1, q1 + 1, q1 + 2]
    reports = engine.run_once()
    kinds = [(r.first, r.replayed, r.filled) for r in reports if r.replayed or r.filled]
    expected = [(first, 1, 0), (q1, 0, 1), (second, 1, 0), (third, 1, 0), (q2, 0, 2), (fourth, 1, 0), (fifth, 1, 0)]
    assert kinds == [*expected, (q4, 0, 1)]
    assert [r.first for r in reports[1:]] == [r.last + 1 for r in reports[:-1]]
    every = [f"{id_}-t" for id_ in late]
    assert found(engine, "Before") == found(engine, "Q1") == found(engine, "Q2") == found(engine, "Q4") == every
    assert found(engine, "Dropped") == found(engine, "Q3") == every[:3]


def test_windows_longer_than_the_state_was_kept_for(opened: Open) -> None:
    engine = opened()
    engine.add_channel("S", lateness="0 s")
    engine.register(PAIR, name="Short")
    engine.ingest([a("1", 1), a("2", 50), b("3", 51)])
    engine.run_once()
    engine.register(PAIR.replace("10", "1000") + " STARTING ALL", name="Long")
    engine.ingest([b("4", 55)])
    engine.run_once()
    engine.ingest([b("5", 59), a("6", 60)])
    engine.run_once()
    engine.ingest([b("7", 2000)])
    engine.run_once()
    assert found(engine, "Short") == ["2-3", "2-4", "2-5"]
    assert found(engine, "Long") == ["1-3", "1-4", "1-5", "2-3", "2-4", "2-5"]


def test_what_is_held_for_others_only(opened: Open) -> None:
    """An event that its channel holds no more stays in the join state for a query that has been there; others that
    start with what is held do not see it, whoever else is registered.
    """
    listed = []
    for name in ("both", "alone"):
        engine = opened(name)
        engine.add_channel("S", lateness="0 s", retention="10 s")
        engine.register("S//a->x[./k->p] FOLLOWED BY {p=q, 1000} S//b->y[./k->q]", name="Kept")
        engine.ingest([a("1", 1), a("2", 95), b("3", 100)])
        engine.run_once()
        if name == "alone":
            engine.drop("Kept")
        for number, window in enumerate((1000, 2000)):
            # One of the group of the query that was there, and one of another.
            text = f"S//a->x[./k->p] FOLLOWED BY {{p=q, {window}}} S//b->y[./k->q] STARTING ALL"
            engine.register(text, name=f"Q{number}")
            engine.register(f"{text[:-13]} PUBLISH C{number} STARTING ALL", name=f"P{number}")
        engine.ingest([b("4", 101)])
        engine.run_once()
        # What came after the registration is seen, whatever becomes of it.
        engine.ingest([b("5", 150)])
        engine.run_once()
        engine.ingest([b("6", 151)])
        engine.run_once()
        kept = ["1-3", "1-4", "1-5", "1-6", "2-3", "2-4", "2-5", "2-6"]
        assert found(engine, "Kept") == (kept if name == "both" else ["1-3", "2-3"])
        listed.append([found(engine, name) for name in ("Q0", "Q1", "P0", "P1")])
        with engine.home.catalog.read() as connection:
            published = connection.scalar(sa.select(sa.func.count()).where(EVENT_IDS.c.channel.in_(["C0", "C1"])))
        assert published == 8
    assert listed == [[["2-3", "2-4", "2-5", "2-6"]] * 4] * 2


@pytest.mark.parametrize("where", ["fill.planned", "fill.part", "fill.rows", "fill.walked", "batch.commit"])
def test_a_back_fill_that_fails_leaves_nothing_and_runs_again(opened: Open, where: str) -> None:
    engine = opened()
    engine.register("C//a->x[./k->p] JOIN {p=q} S//b->y[./k->q]", name="Reads")
    engine.ingest([a("1", 1), b("2", 2)])
    engine.run_once()
    engine.register(PAIR + " STARTING ALL", name="Q")
    engine.register("S//a->x PUBLISH C STARTING ALL", name="Feeds")

    def files() -> list[Path]:
        names = ("events", "witness", "results")
        return sorted(path for name in names for path in engine.home.folder(name).rglob("*") if path.is_file())

    before = files()

    def fail(name: str) -> None:
        if name == where:
            raise OSError("no space left")

    with hooked(fail), pytest.raises((OSError, XsclError)):
        engine.run_once()
    assert files() == before
    engine.run_once()
    engine.ingest([b("3", 3)])
    engine.run_once()
    assert found(engine, "Q") == ["1-2", "1-3"]
    assert [match.events[1].id for match in engine.matches("Reads")] == ["2", "3"]


@pytest.mark.parametrize("seed", range(examples(4)))
def test_any_order_of_events_and_registrations(opened: Open, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query of any start has what a query that was there from the beginning has of the members that it sees."""
    chance = random.Random(seed)
    if seed % 2:
        # All edges have too many pairs: plans of one edge are resolved without looking at pairs.
        monkeypatch.setattr(Finder.__init__, "__defaults__", (lambda rows: 0.0, lambda rows: 0.0))
    texts = [
        PAIR,
        "S//a->x[./k->p] JOIN {p=q, 5} S//b->y[./k->q]",
        ALIKE,
        "S//a->x[./k->p] FOLLOWED BY {p!=q, 4} S//b->y[./k->q]",
        "S//b->x[./k->p][./k->o] FOLLOWED BY {p=q, 6} S//a->y[./k->q]",
        "S//a[./k->p] JOIN {p=q, 8} S//b->y[./k->q] JOIN {q=s, 8} T//b->z[./k->s]",
        "S FOLLOWED BY {3} T",
        "T//b->x",
    ]
    engine = opened()
    if chance.random() < 0.5:
        engine.add_channel("S", lateness="20 s", clock="one")
        engine.add_channel("T", lateness="20 s", clock="one")
    names = {f"whole{n}": n for n in range(len(texts))}
    for name, n in names.items():
        engine.register(texts[n], name=name)
    seen: dict[str, tuple[int, int, int, int | None]] = {}
    times: dict[str, int] = {}
    for step in range(40):
        if chance.random() < 0.3:
            n, start = chance.randrange(len(texts)), chance.choice(["NOW", "ALL", "ALL", "TIME"])
            since = chance.randrange(20)
            clause = f"'1970-01-01T00:00:{since:02d}Z'" if start == "TIME" else start
            name = f"q{step}"
            engine.register(f"{texts[n]} STARTING {clause}", name=name)
            seen[name] = n, step if start == "NOW" else -1, 1 << 30, since if start == "TIME" else None
        elif seen and chance.random() < 0.1:
            name = chance.choice(sorted(seen))
            if seen[name][2] == 1 << 30:
                engine.drop(name)
                seen[name] = (*seen[name][:2], step, seen[name][3])
        else:
            ts = chance.randrange(20)
            make = chance.choice([a, b])
            engine.ingest([make(str(step), ts, chance.choice("123"), chance.choice("ST"))])
            times[str(step)] = ts
        if chance.random() < 0.2:
            engine.run_once(batch_docs=chance.choice([1, 3, 100]))
    engine.run_once(batch_docs=chance.choice([1, 3, 100]))
    for name, (n, after, until, since) in seen.items():
        expected = []
        for match in engine.matches(f"whole{n}"):
            ids = [event.id for event in match.events]
            places = [int(id_) for id_ in ids]
            if min(places) > after and max(places) < until and (since is None or min(times[i] for i in ids) >= since):
                expected.append("-".join(ids))
        assert found(engine, name) == sorted(expected), (name, texts[n])
