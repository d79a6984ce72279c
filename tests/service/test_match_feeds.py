"""Feeds of matches: what readers of feeds make of them, our own among them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import feedparser
import pytest
from atom_rules import faults
from lxml import etree

from xscl.answers.matches.feeds import atom_feed, json_feed
from xscl.answers.matches.listing import list_matches
from xscl.answers.matches.newest import newest_matches
from xscl.answers.recent_activity import latest_matches
from xscl.base.types import Event
from xscl.engine import Engine
from xscl.service.delivering.pages import next_page
from xscl.service.feed_pages import MOST_ENTRIES, FeedPages
from xscl.store.home import init_home

ATOM = "{http://www.w3.org/2005/Atom}"
URL = "http://127.0.0.1:8080/queries/same_story/feed.atom?limit=5"
SAME = "left->a[./title->t] JOIN {t = u, 2 days, ONCE} right->b[./title->u]"
TITLES = ["Storm & flood < now", "Zażółć gęślą jaźń", "A ]]> b", "'quoted' \"twice\""]

DOCUMENTS = [
    "<a xmlns='urn:d'><p:b xmlns:p='urn:p' p:c='1'/> t</a>",
    "<p:a xmlns:p='urn:p'><b/></p:a>",
    "<a><b/></a>",
    "<a:x xmlns:a='http://www.w3.org/2005/Atom'/>",
]


def feed(name: str, *titles: str) -> bytes:
    items = "".join(
        f"<item><guid>http://{name}.example/{n}</guid><link>http://{name}.example/{n}?a=1&amp;b=2</link>"
        f"<title>{title.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')}</title>"
        f"<pubDate>Mon, 01 Jun 2026 10:00:{n:02d} GMT</pubDate></item>"
        for n, title in enumerate(titles)
    )
    return (
        f"<rss version='2.0'><channel><title>The {name} &amp; more</title><link>http://{name}.example/</link>"
        f"<description>d</description>{items}</channel></rss>"
    ).encode()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("feeds")
    with Engine(init_home(folder / "home")) as engine:
        engine.register(SAME, name="same_story")
        engine.register("spaces->z", name="spaces")
        engine.register("S->b[./id->i] JOIN {i = j, 1 d, ONCE} S->c[./id->j]", name="many")
        for name in ("left", "right"):
            (folder / f"{name}.xml").write_bytes(feed(name, *TITLES))
            engine.ingest(folder / f"{name}.xml", channel=name)
        texts = [
            "<a xmlns='urn:d'><p:b xmlns:p='urn:p' p:c='1'/> t</a>",
            "<p:a xmlns:p='urn:p'><b/></p:a>",
            "<a><b/></a>",
        ]
        engine.ingest(Event("spaces", f"z{n}", n, xml=text) for n, text in enumerate(texts))
        engine.run_once()
        yield engine


def pages(engine: Engine, query: str = "same_story") -> tuple[bytes, bytes]:
    entries, _ = FeedPages(engine.home).entries(query, 50)
    return atom_feed(query, entries, URL), json_feed(query, entries, URL)


def test_atom_has_what_the_standard_wants(engine: Engine) -> None:
    root = etree.fromstring(pages(engine)[0])
    assert root.tag == f"{ATOM}feed"
    entries = root.findall(f"{ATOM}entry")
    assert len(entries) == len(TITLES)
    for element in (root, *entries):
        for once in ("id", "title", "updated"):
            assert len(element.findall(ATOM + once)) == 1, once
        assert len([link for link in element.findall(f"{ATOM}link") if link.get("rel") == "alternate"]) <= 1
        assert len(element.findall(f"{ATOM}source")) <= 1
    assert root.findtext(f"{ATOM}author/{ATOM}name") == "xscl"
    assert [link.get("href") for link in root.findall(f"{ATOM}link")] == [URL]
    ids = [entry.findtext(f"{ATOM}id") for entry in entries]
    assert (
        ids
        == [f"urn:xscl:match:{match.id}" for match in list_matches(engine.home, query="same_story", after="start")][
            ::-1
        ]
    )
    entry = entries[-1]
    links = ["http://left.example/0?a=1&b=2", "http://right.example/0?a=1&b=2"]
    assert [link.get("href") for link in entry.findall(f"{ATOM}link[@rel='via']")] == links
    stories = entry.findall("{urn:xscl:atom}story")
    assert [story.findtext(f"{ATOM}source/{ATOM}title") for story in stories] == ["The left & more", "The right & more"]
    assert [story.findtext(f"{ATOM}source/{ATOM}id") for story in stories] == [
        "http://left.example/",
        "http://right.example/",
    ]
    assert {story.findtext(f"{ATOM}title") for story in stories} == {TITLES[0]}


HOSTILE = [
    "<a><title>&lt;script&gt;alert(1)&lt;/script&gt;</title><link>javascript:alert(2)</link></a>",
    "<a><title>two\nlines \u0085 \ufdd0</title><link>http://a.example/with space</link></a>",
    "<a><title/><link>not a link</link></a>",
    '<a><link>http://a.example/"quoted"</link></a>',
    "<a><link>http://zażółć.example/gęślą?a=1&amp;b=2#c</link></a>",
    "<item xmlns='http://www.w3.org/2005/Atom'><source><id>no address</id><title>t</title></source></item>",
]


def test_feeds_keep_the_rules_of_the_validator(engine: Engine, tmp_path: Path) -> None:
    """``suites/test_atom_cases.py`` holds the rules to the validator's own cases."""
    for query in ("same_story", "spaces", "many"):
        assert faults(pages(engine, query)[0], URL) - {"MissingSourceElement"} == set(), query
    with Engine(init_home(tmp_path / "home")) as other:
        other.register("S", name="all")
        other.ingest(Event("S", f"urn:{n} <b>", n, xml=text) for n, text in enumerate(HOSTILE))
        other.run_once()
        atom, json_ = pages(other, "all")
        root = etree.fromstring(atom)
        assert len(root.findall(f"{ATOM}entry")) == len(HOSTILE)
        # Titles are texts; what looks like markup in them is no fault.
        assert faults(atom, URL) <= {"MissingSourceElement", "ContainsHTML"}
        wanted = "http://zażółć.example/gęślą?a=1&b=2#c"
        assert {link.get("href") for link in root.iter(f"{ATOM}link")} == {URL, wanted}
        assert {item.get("url") for item in json.loads(json_)["items"]} == {None, wanted}


def test_a_feed_tells_its_ids_again(engine: Engine) -> None:
    """Ids and times are the same whenever, and by whomever, a feed is asked for."""
    first, second = (etree.fromstring(pages(engine)[0]) for _ in range(2))
    told = [
        [(e.findtext(f"{ATOM}id"), e.findtext(f"{ATOM}updated")) for e in root.iter(f"{ATOM}entry")]
        for root in (first, second)
    ]
    assert told[0] == told[1] and len(set(told[0])) == len(TITLES)


@pytest.mark.parametrize("query", ["same_story", "spaces"])
def test_output_documents_are_whole(engine: Engine, query: str) -> None:
    root = etree.fromstring(pages(engine, query)[0])
    found = [entry.find(f"{ATOM}content") for entry in root.findall(f"{ATOM}entry")]
    matches = list(list_matches(engine.home, query=query, after="start"))[::-1]
    for content, match in zip(found, matches, strict=True):
        assert content is not None and content.get("type") == "text"
        assert content.text == match.document


def test_a_reader_of_others_understands_both(engine: Engine) -> None:
    atom, json_ = pages(engine)
    found = feedparser.parse(atom)
    assert not found.bozo
    assert found.version == "atom10"
    assert [entry.title for entry in found.entries[::-1]] == TITLES
    assert found.entries[-1].link == "http://right.example/0?a=1&b=2"
    assert found.entries[-1].source.title == "The right & more"
    told = json.loads(json_)
    assert told["version"] == "https://jsonfeed.org/version/1.1"
    assert [item["title"] for item in told["items"][::-1]] == TITLES
    assert [item["id"] for item in told["items"]] == [entry.id for entry in found.entries]


@pytest.mark.parametrize("kind", ["atom", "json"])
def test_another_home_subscribes_and_joins(engine: Engine, tmp_path: Path, kind: str) -> None:
    (tmp_path / f"feed.{kind}").write_bytes(pages(engine)[kind == "json"])
    (tmp_path / "third.xml").write_bytes(feed("third", "nothing", TITLES[1]))
    with Engine(init_home(tmp_path / "home")) as other:
        other.register("found->a[./title->t][./guid->g] JOIN {t = u, 2 days, ONCE} third->b[./title->u]", name="again")
        other.register("found", name="all")
        report = other.ingest(tmp_path / f"feed.{kind}", channel="found")
        assert (report.rejected, report.tolerant) == (0, 0)
        other.ingest(tmp_path / "third.xml", channel="third")
        other.run_once()
        assert len(other.matches("all")) == len(TITLES)
        (match,) = other.matches("again")
    ids = [each.id for each in list_matches(engine.home, query="same_story")]
    assert match.values["t"] == TITLES[1]
    assert match.values["g"].removeprefix("urn:xscl:match:") in ids


def test_pages_go_on_with_what_comes(engine: Engine) -> None:
    pages = FeedPages(engine.home)
    assert pages.entries("many", 10) == ([], None)
    for first in range(0, 120, 60):
        engine.ingest(
            Event("S", f"{kind}{n}", n, xml=f"<{kind}><id>{n}</id></{kind}>")
            for n in range(first, first + 60)
            for kind in ("b", "c")
        )
        engine.run_once()
        found, changed = pages.entries("many", MOST_ENTRIES)
        wanted = list(list_matches(engine.home, query="many", after="start"))[::-1][:MOST_ENTRIES]
        assert [entry.id for entry in found] == [match.id for match in wanted]
        assert changed is not None
        # Who asks for the first time gets the same.
        assert FeedPages(engine.home).entries("many", MOST_ENTRIES) == (found, changed)
        assert pages.entries("many", 7)[0] == found[:7]


def test_an_entry_that_was_replaced_is_gone(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register("left->a[./title->t]", name="all")
        pages = FeedPages(engine.home)
        for text in ("first words", "other words"):
            (tmp_path / "feed.xml").write_bytes(feed("left", text))
            engine.ingest(tmp_path / "feed.xml", channel="left")
            engine.run_once()
            (entry,) = pages.entries("all", 10)[0]
            assert text in entry.atom


def test_an_entry_that_was_taken_back_is_gone_until_it_is_found_again(tmp_path: Path) -> None:
    def event(channel: str, ts: int) -> Event:
        return Event(channel, f"{channel}{ts}", ts, xml="<e><k>1</k></e>")

    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register("A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]", name="q")
        pages, first = FeedPages(engine.home), FeedPages(engine.home)
        for event_, expected in ((event("A", 1), 0), (event("B", 20), 1), (event("B", 5), 0)):
            engine.ingest([event_])
            engine.run_once()
            found, changed = pages.entries("q", 10)
            assert len(found) == expected
            assert (changed is not None) == (expected > 0 or event_.id == "B5")
        assert first.entries("q", 10)[0] == []
        keys = set()
        for after in ("start", next_page(engine.home, "q", "start", most=1, most_bytes=1_000).cursor):
            page = next_page(engine.home, "q", after, most=1, most_bytes=1_000)
            assert len(page.cursors) == 1
            keys.add(page.cursors)
        assert len(keys) == 2, "a line that takes a match back is not taken for the match sent again"
        assert latest_matches(engine.home, "q", 10, str) == []


def test_entries_that_were_taken_back_make_room_for_earlier_ones(tmp_path: Path) -> None:
    def events(channel: str, *times: int) -> list[Event]:
        return [Event(channel, f"{channel}{ts}", ts, xml=f"<e><k>{ts % 1_000}</k></e>") for ts in times]

    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register("A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]", name="q")
        pages = FeedPages(engine.home)
        engine.ingest([*events("A", *range(MOST_ENTRIES + 20)), *events("B", 5_999)])
        engine.run_once()
        assert len(pages.entries("q", MOST_ENTRIES)[0]) == MOST_ENTRIES
        engine.ingest(
            [Event("B", f"late{ts}", ts + 1, xml=f"<e><k>{ts}</k></e>") for ts in range(50, MOST_ENTRIES + 20)]
        )
        engine.run_once()
        found, changed = pages.entries("q", MOST_ENTRIES)
        assert [entry.ts // 1_000_000 - 10 for entry in found] == list(range(49, -1, -1))
        assert [entry.id for entry in found] == [e.id for e in FeedPages(engine.home).entries("q", MOST_ENTRIES)[0]]
        assert changed is not None
        # Far more were taken back than are remembered besides the last ones.
        wanted = [match.id for match in engine.matches("q")][::-1]
        assert [match.id for match in newest_matches(engine.home, "q", "start", 1).matches] == wanted[:1]


def test_the_latest_matches_are_the_last_ones(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register("S->x", name="q")
        for first, last in ((0, 300), (300, 303)):
            engine.ingest(Event("S", f"e{n}", n, xml="<e/>") for n in range(first, last))
            engine.run_once()
        for query in ("q", None):
            shown = latest_matches(engine.home, query, 5, lambda match: match.events[0].id)
            assert shown == ["e302", "e301", "e300", "e299", "e298"]
