"""Ids of matches, and matches read back without Spark from results written by hand."""

from __future__ import annotations

import hashlib

import pytest
from stored_by_hand import store

from xscl.answers.matches import reader
from xscl.answers.matches.listing import find_match, list_matches, match_json
from xscl.answers.matches.reader import MatchReader
from xscl.base.errors import CatalogError
from xscl.base.types import Event, MatchEvent
from xscl.catalog.queries import read_queries
from xscl.catalog.retractions import add_retractions
from xscl.intake.intake import Intake
from xscl.registry.registry import Registry
from xscl.store.home import Home
from xscl.store.results import match_id

S = 1_000_000
TEXT = "S//a->r[./b->x] FOLLOWED BY {x = y, 1 h} T/c/@k->y"
A, C = "<z><a>1<b>v</b></a></z>", "<c k='v'/>"


@pytest.fixture
def filled(home: Home) -> Home:
    """A query, then a pair of documents at places 2 and 3, and another at 4 and 5."""
    Registry(home.catalog).register(TEXT, name="q")
    Intake(home).take(
        [Event("S", "s", 1, xml=A), Event("T", "t", 2, xml=C), Event("S", "s2", 5, xml=A), Event("T", "t2", 9, xml=C)]
    )
    return home


# -- ids -------------------------------------------------------------------------------------------------------


def test_the_id_of_a_match_stays() -> None:
    assert match_id("d", [("S", "a"), ("T", "b")], [0, 3]) == "77799acf4011ac33af4ddad271ca536d"


def test_the_id_of_a_match_by_its_definition() -> None:
    sha = [hashlib.sha256(text.encode()).hexdigest() for text in ("S", "a")]
    assert (
        match_id("digest", [("S", "a")], [7])
        == hashlib.sha256(("digest" + "".join(sha) + "7").encode()).hexdigest()[:32]
    )


def test_everything_makes_an_id() -> None:
    ids = {
        match_id("d", [("S", "a"), ("T", "b")], [0, 3]),
        match_id("e", [("S", "a"), ("T", "b")], [0, 3]),
        match_id("d", [("S", "b"), ("T", "a")], [0, 3]),
        match_id("d", [("T", "b"), ("S", "a")], [0, 3]),
        match_id("d", [("S", "a"), ("T", "b")], [3, 0]),
        match_id("d", [("S", "a"), ("T", "b")], [0]),
        match_id("d", [("S", "aT"), ("", "b")], [0, 3]),
        match_id("d", [("S", "a")], [0, 3]),
    }
    assert len(ids) == 8
    assert {len(id_) for id_ in ids} == {32}


# -- reading ---------------------------------------------------------------------------------------------------


def test_a_list_finds_its_matches_once(filled: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    store(filled, ("q", (2, 3), (1, 1), (2, 1)))
    calls = []
    by_time = MatchReader.by_time
    monkeypatch.setattr(MatchReader, "by_time", lambda self: calls.append(1) or by_time(self))
    found = list_matches(filled)
    assert [match.query for match in list(found)] == ["q"] and len(calls) == 1
    assert len(found) == 1 and [match.query for match in found[:5]] == ["q"] and len(calls) == 1
    many = list_matches(filled)
    monkeypatch.setattr("xscl.answers.matches.listing._KEPT", 0)
    assert len(many) == 1 and [match.query for match in many] == ["q"] and len(calls) == 3


@pytest.mark.parametrize("kept", [0, 100])
def test_a_list_looks_at_no_match_behind_its_limit(filled: Home, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    store(filled, ("q", (2, 3), (1, 1), (2, 1)), ("q", (2, 3), (2, 1), (2, 1)))
    seen = []
    by_time = MatchReader.by_time
    monkeypatch.setattr(MatchReader, "by_time", lambda self: (seen.append(item) or item for item in by_time(self)))
    monkeypatch.setattr("xscl.answers.matches.listing._KEPT", kept)
    assert len(list_matches(filled, limit=1)) == 1 and len(seen) == 1
    assert len(list_matches(filled, limit=0)) == 0 and len(list_matches(filled, limit=5)) == 2


def test_a_match_that_was_taken_back_is_not_listed_after_a_failure_either(
    filled: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(filled, ("q", (2, 3), (1, 1), (2, 1)))
    store(filled)  # the batch that takes the match back
    (query,) = filled.catalog.ask(read_queries)
    row = {"batch": 2, "gid": query.gid, "docs": "[2, 3]", "nodes": "1,1", "members": "", "first": 2, "last": 3}
    row |= {"later": 0, "place": 5, "because": "late"}
    with filled.catalog.begin() as connection:
        add_retractions(connection, [row])
    found = list_matches(filled)

    def fails(*_: object) -> None:
        raise CatalogError("XSCL_CATALOG_UNREACHABLE", "gone for a moment")

    with monkeypatch.context() as patched, pytest.raises(CatalogError):
        patched.setattr(reader, "read_retractions", fails)
        len(found)
    assert len(found) == 0 and list(found) == []


def test_a_match(filled: Home) -> None:
    store(filled, ("q", (2, 3), (1, 1), (2, 1)))
    (found,) = list_matches(filled)
    digest = hashlib.sha256(f"q\0{TEXT}".encode()).hexdigest()
    assert found.id == match_id(digest, [("S", "s"), ("T", "t")], [1, 1])
    assert (found.query, found.ts) == ("q", 2 * S)
    assert found.events == (MatchEvent("S", "s", S), MatchEvent("T", "t", 2 * S))
    assert found.nodes == {"r": 1, "y": "0/@k"}
    assert found.values == {"r": "1v", "x": "v", "y": "v"}
    assert found.document == '<result><a>1<b>v</b></a><result k="v"/></result>'
    assert match_json(found) == {
        "match": found.id,
        "query": "q",
        "ts": "1970-01-01T00:00:02Z",
        "events": [
            {"channel": "S", "id": "s", "ts": "1970-01-01T00:00:01Z"},
            {"channel": "T", "id": "t", "ts": "1970-01-01T00:00:02Z"},
        ],
        "nodes": {"r": 1, "y": "0/@k"},
        "values": {"r": "1v", "x": "v", "y": "v"},
        "document": found.document,
    }
    assert find_match(filled, found.id) == find_match(filled, found.id[:8]) == found


def members(home: Home, **wanted: object) -> list[tuple[str, ...]]:
    return [(m.query, *(e.id for e in m.events)) for m in list_matches(home, **wanted)]  # type: ignore[arg-type]


def test_matches_are_sorted_and_cut_by_time(filled: Home) -> None:
    store(filled, ("q", (4, 5), (1, 1), (2, 1)), ("q", (2, 5), (1, 1), (2, 1)))
    store(filled, ("q", (2, 3), (1, 1), (2, 1)))
    everything = members(filled)
    assert everything[0] == ("q", "s", "t")
    assert sorted(everything[1:]) == [("q", "s", "t2"), ("q", "s2", "t2")]
    assert members(filled, until=2 * S) == [("q", "s", "t")]
    assert members(filled, since=2 * S + 1) == everything[1:]
    assert members(filled, since=9 * S, until=9 * S) == everything[1:]


def test_queries_of_one_group_see_their_own_part(filled: Home) -> None:
    registry = Registry(filled.catalog)
    registry.register(TEXT.replace("->r", "->other"), name="later")  # place 6
    Intake(filled).take([Event("S", "s3", 20, xml=A), Event("T", "t3", 21, xml=C)])  # 7 and 8
    registry.drop("q")  # 9
    Intake(filled).take([Event("T", "t4", 22, xml=C)])  # 10
    store(filled, *(("q", docids, (1, 1), (2, 1)) for docids in ((2, 3), (2, 8), (7, 8), (7, 10))))
    assert sorted(members(filled, query="q")) == [("q", "s", "t"), ("q", "s", "t3"), ("q", "s3", "t3")]
    assert sorted(members(filled, query="later")) == [("later", "s3", "t3"), ("later", "s3", "t4")]
    assert len(members(filled)) == 5
    assert {next(iter(m.nodes)) for m in list_matches(filled, query="later")} == {"other"}


def test_a_query_of_one_block(home: Home) -> None:
    Registry(home.catalog).register("S//a/text()", name="q")
    Intake(home).take([Event("S", "s", 1, xml=A)])
    store(home, ("q", (2,), (3,), (3,)))
    (found,) = list_matches(home)
    assert (found.nodes, found.values, found.document) == ({}, {}, "<result>1</result>")


def test_no_matches(filled: Home) -> None:
    assert members(filled) == []
    with pytest.raises(CatalogError) as caught:
        members(filled, query="nobody")
    assert caught.value.condition == "XSCL_QUERY_NOT_FOUND"


def test_finding_needs_one_match(filled: Home) -> None:
    store(filled, ("q", (2, 3), (1, 1), (2, 1)), ("q", (4, 5), (1, 1), (2, 1)))
    for start in ("", "zz"):
        with pytest.raises(CatalogError) as caught:
            find_match(filled, start)
        assert caught.value.condition == "XSCL_MATCH_NOT_FOUND"
