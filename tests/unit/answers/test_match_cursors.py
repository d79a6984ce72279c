"""Cursors: pages never skip and never repeat, whatever is committed, put together or dropped between them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_by_hand import StoredRow, compact, store

from xscl.answers.matches.cursors import Cursor, parse_cursor
from xscl.answers.matches.listing import list_matches, match_json
from xscl.answers.matches.reader import named_queries
from xscl.base.errors import EngineError
from xscl.base.types import Event, Match
from xscl.catalog.records import QueryInfo
from xscl.intake.intake import Intake
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home

S = 1_000_000
TWO = "S//a->r[./b->x] FOLLOWED BY {x = y} T/c/@k->y"
THREE = f"{TWO} FOLLOWED BY {{y = z}} S//a->s[./b->z]"
ONE = "S//a"
A, C = "<z><a>1<b>v</b></a><a>2<b>v</b></a></z>", "<c k='v'/>"
EVENTS = 6
"""Pairs of events, whose times go up and down: S at even numbers, T at odd ones, from 5 on."""


def new_home(folder: Path) -> Home:
    """Queries one, two, three, and another that asks what two asks; then events."""
    home = init_home(folder)
    registry = Registry(home.catalog)
    for name, text in (("one", ONE), ("two", TWO), ("again", TWO), ("three", THREE)):
        registry.register(text, name=name)
    for number in range(EVENTS):
        ts = (number * 7) % EVENTS + 10
        Intake(home).take([Event("S", f"s{number}", ts, xml=A), Event("T", f"t{number}", ts, xml=C)])
    return home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = new_home(tmp_path / "home")
    yield opened
    opened.catalog.close()


def s(number: int) -> int:
    return 5 + 2 * number


def t(number: int) -> int:
    return 6 + 2 * number


def pair(left: int, right: int, node: int = 1) -> StoredRow:
    return "two", (s(left), t(right)), (node, 1), (node + 1, 1)


def single(number: int, node: int = 1) -> StoredRow:
    return "one", (s(number),), (node,), (node,)


def triple(left: int, middle: int, right: int) -> StoredRow:
    return "three", (s(left), t(middle), s(right)), (1, 1, 1), (2, 1, 2)


def pages(home: Home, size: int, **wanted: object) -> list[Match]:
    """All matches, a page at a time, each by the cursor of the one before it."""
    found: list[Match] = []
    cursor = "start"
    while True:
        listing = list_matches(home, after=cursor, limit=size, **wanted)  # type: ignore[arg-type]
        page = list(listing)
        found += page
        if not page:
            return found
        cursor = listing.cursor


def names(found: list[Match]) -> list[str]:
    return [f"{match.query}:{'-'.join(event.id for event in match.events)}" for match in found]


def test_the_order_is_that_of_commits(home: Home) -> None:
    store(home, pair(4, 5), single(0))
    store(home, pair(0, 1), triple(0, 1, 2))
    found = list(list_matches(home, after="start"))
    assert names(found) == ["one:s0", "two:s4-t5", "again:s4-t5", "two:s0-t1", "again:s0-t1", "three:s0-t1-s2"]
    assert sorted(match.id for match in found) == sorted(match.id for match in list_matches(home))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages(home: Home, size: int) -> None:
    store(home, pair(4, 5), single(0), single(0, node=3))
    store(home)
    store(home, pair(0, 1), triple(0, 1, 2), pair(0, 1, node=3))
    assert pages(home, size) == list(list_matches(home, after="start"))
    assert names(pages(home, size, query="again")) == ["again:s4-t5", "again:s0-t1", "again:s0-t1"]


def test_each_match_has_the_cursor_behind_it(home: Home) -> None:
    store(home, pair(4, 5), single(0))
    store(home, pair(0, 1), triple(0, 1, 2))
    found = list(list_matches(home, after="start"))
    for number, match in enumerate(found, start=1):
        assert list(list_matches(home, after=match.cursor)) == found[number:]
    assert {match.id: match.cursor for match in list_matches(home)} == {match.id: match.cursor for match in found}


def test_the_cursor_of_a_listing(home: Home) -> None:
    listing = list_matches(home, after="start")
    assert (list(listing), listing.cursor) == ([], "c1")
    store(home, pair(0, 1))
    first = list_matches(home, after=listing.cursor, query="three")
    # What it has seen and not listed lies behind its end.
    assert (list(first), first.cursor) == ([], "c2")
    by_time = list_matches(home)
    assert by_time.cursor == "c0"
    assert next(by_time)
    assert by_time.cursor == "c0"
    assert len(list(by_time)) == 1
    assert by_time.cursor == "c2"
    listing = list_matches(home, after="start")
    store(home, pair(1, 2))
    assert len(list(listing)) == 2, "a listing ends with what was committed when it was asked for"
    assert names(list(list_matches(home, after=listing.cursor))) == ["two:s1-t2", "again:s1-t2"]


def test_a_query_that_comes_later_begins_with_its_own(home: Home) -> None:
    store(home, pair(0, 1))
    listing = list_matches(home, after="start")
    assert len(list(listing)) == 2
    Registry(home.catalog).register(TWO, name="late")  # place 17
    Intake(home).take([Event("S", "s9", 50, xml=A), Event("T", "t9", 51, xml=C)])  # 18, 19
    store(home, pair(0, 2), ("two", (18, 19), (1, 1), (2, 1)))
    found = names(list(list_matches(home, after=listing.cursor)))
    assert found == ["two:s0-t2", "again:s0-t2", "two:s9-t9", "again:s9-t9", "late:s9-t9"]


def test_a_cursor_passes_no_batch_with_a_query_that_came_while_it_was_made(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(home.catalog)

    def others_work() -> None:
        registry.drop("one")
        registry.register("S//a->x", name="one")  # place 18
        Intake(home).take([Event("S", "s9", 50, xml=A)])  # 19
        store(home, ("one", (19,), (1,), (1,)))

    def meanwhile(home: Home, query: str) -> list[QueryInfo]:
        found = named_queries(home, query)
        if not done:
            done.append(True)
            others_work()
        return found

    done: list[bool] = []
    monkeypatch.setattr("xscl.answers.matches.reader.named_queries", meanwhile)
    listing = list_matches(home, query="one", after="start")
    assert names(list(listing)) == []
    assert names(list(list_matches(home, query="one", after=listing.cursor))) == ["one:s9"]


@pytest.mark.parametrize("text", ["", "c", "1", "x3", "c1.2", "c1.2.3", "c1.2.3.4.5", "c١", "c-1", "c1.a.1.1"])
def test_what_is_no_cursor(home: Home, text: str) -> None:
    with pytest.raises(EngineError) as caught:
        list_matches(home, after=text)
    assert caught.value.condition == "XSCL_BAD_CURSOR"


def test_a_cursor_of_another_home(home: Home) -> None:
    store(home, pair(0, 1))
    assert list(list_matches(home, after="c2")) == []
    with pytest.raises(EngineError, match="ahead"):
        list_matches(home, after="c3")


@given(
    st.integers(0, 9), st.lists(st.integers(1, 1 << 62), min_size=1), st.integers(0, 9), st.lists(st.integers(-1, 9))
)
def test_a_cursor_is_its_text(batch: int, docids: list[int], query: int, nodes: list[int]) -> None:
    cursor = Cursor(batch, tuple(docids), query, tuple(nodes))
    assert parse_cursor(str(cursor)) == cursor


def test_json_with_its_cursor(home: Home) -> None:
    store(home, single(0))
    (match,) = list_matches(home, after="start")
    assert match_json(match, cursor=True) == {**match_json(match), "cursor": match.cursor}


numbers = st.integers(0, EVENTS - 1)
rows = st.one_of(
    st.builds(pair, numbers, numbers, st.sampled_from([1, 3])),
    st.builds(single, numbers, st.sampled_from([1, 3])),
    st.builds(triple, numbers, numbers, numbers).filter(lambda row: row[1][0] != row[1][2]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.lists(rows, max_size=4, unique_by=lambda row: row[:3])),
        st.tuples(st.just("page"), st.integers(0, 3)),
        st.tuples(st.just("compact"), st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 9))),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(16), deadline=None)
@given(steps, st.sampled_from([None, "two", "three"]))
def test_a_consumer_gets_everything_once(steps: list[tuple[str, object]], query: str | None) -> None:
    """However pages, commits and compactions interleave; matches are told apart by what they are made of."""
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder) / "home")
        got: list[Match] = []
        cursor, batches = "start", 0
        for action, what in steps:
            if action == "store":
                batches = store(home, *what)  # type: ignore[misc]
            elif action == "compact":
                first, last, order = what  # type: ignore[misc]
                some = range(min(first, last), min(max(first, last), batches) + 1)
                if len(some) > 1 and not (home.folder("results") / f"together-{'-'.join(map(str, some))}").exists():
                    compact(home, some, [order])
            else:
                listing = list_matches(home, query=query, after=cursor, limit=what)  # type: ignore[arg-type]
                got += listing
                cursor = listing.cursor
        got += list_matches(home, query=query, after=cursor)
        assert [match.cursor for match in got] == [m.cursor for m in list_matches(home, query=query, after="start")]
        assert sorted(m.cursor for m in got) == sorted(m.cursor for m in list_matches(home, query=query))
        home.catalog.close()
