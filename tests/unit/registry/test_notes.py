"""Notes on queries that are taken: names that nothing has, and what is written otherwise than it is meant."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from xscl.base.errors import CatalogError
from xscl.base.types import Event
from xscl.catalog.catalog import Catalog
from xscl.catalog.queries import read_query
from xscl.catalog.suggestions import no_channel, no_query
from xscl.engine import connect
from xscl.intake.intake import Intake
from xscl.registry import channel_names
from xscl.registry.channel_names import ChannelNames
from xscl.registry.channels import add_channel
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home

ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'><entry id='e'><title>t</title><u:v xmlns:u='urn:u'/></entry></feed>"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = init_home(tmp_path / "home")
    add_channel(opened.catalog, "ticks", kind="rows", schema="sym string, price double")
    add_channel(opened.catalog, "stream", of="blogs")
    events = [Event("S", "1", 1, xml="<book lang='en'><title>a</title><author><name/></author></book>")]
    events += [Event("A", "1", 1, xml=ATOM), Event("later", "1", 1, row={"a": None})]
    Intake(opened).take(events)
    yield opened
    opened.catalog.close()


def notes(home: Home, text: str) -> tuple[str, ...]:
    return Registry(home.catalog, ChannelNames(home.root)).register(text).notes


NO_ELEMENT = "no document of channel S so far has an element "
NO_WINDOW = "no window: unlimited time; join state is kept for ever; write a window such as 7 days, or UNBOUNDED"
NOTED = [
    ("S//book->b[./title][@lang = 'en'][.//name]", ()),
    ("S//*[text() = 'a']//@*", ()),
    ("S//titel", (f"{NO_ELEMENT}titel; did you mean title?",)),
    ("S//book[not(./Author) or ./b]", (f"{NO_ELEMENT}b", f"{NO_ELEMENT}Author; did you mean author?")),
    ("S//book[contains(./titel, 'x')][count(.//titel) > 1]", (f"{NO_ELEMENT}titel; did you mean title?",)),
    ("S//zebra[./zebra]", (f"{NO_ELEMENT}zebra",)),
    ("S//book[./lang = 'en']", (f"{NO_ELEMENT}lang; did you mean @lang?",)),
    ("S//book[@title]", ("no document of channel S so far has an attribute @title; did you mean title?",)),
    ("S//author.name", (f"{NO_ELEMENT}author.name; did you mean author/name?",)),
    ("S//book->b JOIN {b/titel = c, 1 h} S//title->c", (f"{NO_ELEMENT}titel; did you mean title?",)),
    ("A//entry", ("no document of channel A so far has an element entry; did you mean atom:entry?",)),
    ("A//atom:entry[./atom:title][*:v][@id]", ()),
    ("A//atom:titel", ("no document of channel A so far has an element atom:titel; did you mean atom:title?",)),
    ("A//dc:title", ("no document of channel A so far has an element dc:title; did you mean atom:title?",)),
    ("A//v", ("no document of channel A so far has an element v; did you mean {urn:u}v?",)),
    ("DECLARE NAMESPACE u = 'urn:u'; A//v", ("no document of channel A so far has an element v; did you mean u:v?",)),
    ("A//rss:*", ("no document of channel A so far has an element rss:*",)),
    ("ticks[./sym = 'IBM']/price", ()),
    ("ticks/ticks/*->v JOIN {v = w, 1 h} S//title->w", ()),
    ("ticks/ticks/price->v JOIN {v = w, 1 h} S//title->w", ()),
    (
        "ticks[./price < 0 and ./price > 4]",
        (
            "the query finds nothing, whatever comes: the column price, which has one value in a row, cannot satisfy "
            "this and the conditions before (./price > 4)",
        ),
    ),
    ("ticks/ticks[./prize > 5]", ("the rows of channel ticks have no column prize; did you mean price?",)),
    ("ticks[@sym = 'IBM']", ("the rows of channel ticks have no column @sym; did you mean sym?",)),
    ("later[./a]", ()),
    ("stream//anything", ()),
    ("tick//a", ("there is no channel 'tick' yet; its first event will create it; did you mean 'ticks'?",)),
    ("nowhere JOIN {1 h} nowhere", ("there is no channel 'nowhere' yet; its first event will create it",)),
    ("strem//a", ("there is no channel 'strem' yet; its first event will create it; did you mean 'stream'?",)),
    ("S[.//title > '100']", ("'100' in quotes is compared as the number 100; write it without quotes",)),
    ("S[.//title = '100']", ()),
    ("S[.//title > 100]", ()),
    ("S//title->x JOIN {x > '07', 1 h} S", ("'07' in quotes is compared as the number 7; write it without quotes",)),
    ("S JOIN {7} A", ("a window of 7 is 7 seconds; write one of 7 s, 7 min, 7 h, 7 days",)),
    ("S JOIN {0} A", ()),
    ("S JOIN {7 s} A", ()),
    ("S JOIN {1 h, MAXWINDOW 60} A", ("a window of 60 is 60 seconds; write one of 60 s, 60 min, 60 h, 60 days",)),
    ("S FOLLOWED BY {1 s..20} A", ("a window of 20 is 20 seconds; write one of 20 s, 20 min, 20 h, 20 days",)),
    ("S//title->x FOLLOWED BY {x = y} S//title->y", (NO_WINDOW,)),
    ("S//title->x JOIN {x = y, ONCE} S//title->y", (NO_WINDOW,)),
    ("S//title->x JOIN {x = y} S//title->y FOLLOWED BY {1 h} S", (NO_WINDOW,)),
    ("S//title->x JOIN {x = y, UNBOUNDED} S//title->y", ()),
    ("S//title->x JOIN {x = y} S//title->y FOLLOWED BY {MAXWINDOW 1 h} S", ()),
    ("S//title->x JOIN {x = y} S//title->y FOLLOWED BY {z - x IN [0 s, 1 h], z - y IN [0 s, 1 h]} S->z", ()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), NOTED)
def test_notes(home: Home, text: str, expected: tuple[str, ...]) -> None:
    assert notes(home, text) == expected


def test_notes_are_those_of_each_query_of_one_form(home: Home) -> None:
    registry = Registry(home.catalog, ChannelNames(home.root))
    texts = ["S//titel->x JOIN {x = y, 7} S//title->y", "S//titel->a JOIN {a = b, 7 s} S//title->b"]
    many = registry.register_many([*texts, texts[0]])
    loaded = registry.load(";".join(texts))
    singly = [registry.register(text).notes for text in texts]
    told = [outcome.notes for outcome in (*many, *loaded)]
    assert told == [*singly, singly[0], *singly]
    assert [len(each) for each in singly] == [2, 1]


def test_nothing_is_announced_of_a_refused_statement(home: Home) -> None:
    registry = Registry(home.catalog, ChannelNames(home.root))
    outcomes = registry.load("CREATE QUERY a AS nowhere//[;\nCREATE QUERY b AS elsewhere//a;\nnowhere[. > 'x']")
    assert [outcome.ok for outcome in outcomes] == [False, True, False]
    assert [outcome.notes for outcome in outcomes] == [
        (),
        ("there is no channel 'elsewhere' yet; its first event will create it",),
        (),
    ]


def test_channels_that_queries_publish_to_are_there(home: Home) -> None:
    outcomes = Registry(home.catalog).load("S//title PUBLISH out; out//a; ouT//a")
    assert [outcome.notes for outcome in outcomes] == [
        (),
        (),
        ("there is no channel 'ouT' yet; its first event will create it; did you mean 'out'?",),
    ]


def test_documents_of_a_channel_are_looked_at_once_and_only_some(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Intake(home).take(Event("big", f"{n}", n, xml=f"<a><b{n}/></a>") for n in range(500))
    names = ChannelNames(home.root)
    parsed, threads = 0, set[threading.Thread]()
    parse = channel_names.parse_stored

    def counted(text: str) -> object:
        nonlocal parsed
        parsed += 1
        threads.add(threading.current_thread())
        return parse(text)

    monkeypatch.setattr(channel_names, "parse_stored", counted)
    registry = Registry(home.catalog, names)
    (note,) = registry.register("big//c").notes
    assert note.startswith("no document of channel big so far has an element c (") and "were looked at" in note
    assert 50 < parsed <= 200
    assert len(threads) == 1  # a thread for each document would cost more than to read it
    before = parsed
    registry.register_many([f"big//c{n}" for n in range(50)])
    assert parsed == before


def test_what_came_since_is_known(home: Home) -> None:
    registry = Registry(home.catalog, ChannelNames(home.root))
    assert registry.register("S//isbn").notes == (f"{NO_ELEMENT}isbn",)
    Intake(home).take([Event("S", "2", 2, xml="<book><isbn/></book>")])
    assert registry.register("S//isbn").notes == ()


def test_events_that_cannot_be_read_give_no_notes(home: Home) -> None:
    for file in home.folder("events").iterdir():
        file.write_bytes(b"no parquet")
    assert notes(home, "S//titel") == ()


def test_names_that_are_alike_among_many(home: Home) -> None:
    catalog: Catalog = home.catalog
    Registry(catalog).register_many([(f"a{n:05}", "S//title") for n in range(3_000)] + [("zulu", "S//title")])
    with catalog.read() as connection:
        assert (
            no_query(connection, "zullu").hint
            == "did you mean 'zulu'? list them with 'xscl query list' or engine.queries()"
        )
        assert no_query(connection, "?").hint == "list them with 'xscl query list' or engine.queries()"
        assert no_channel(connection, "TICKS", "so").hint == "did you mean 'ticks'? so"
    for call in (lambda: catalog.ask(read_query, "zullu"), lambda: Registry(catalog).drop("zullu")):
        with pytest.raises(CatalogError, match="did you mean 'zulu'"):
            call()


@pytest.mark.parametrize(
    ("window", "starting", "noted"), [("ONCE", "ALL", True), ("ONCE", "NOW", False), ("1 d", "ALL", False)]
)
def test_once_over_retained_events_of_streams_is_noted(tmp_path: Path, window: str, starting: str, noted: bool) -> None:
    """An older query of the text has (a, b), the new one neither that nor (b, a): a note tells of the loss."""
    text = f"A//i[./t->at] JOIN {{at = bt, 1 d, {window}}} B//i[./t->bt]".replace("1 d, 1 d", "1 d")
    with connect(home=tmp_path / "home") as engine:
        engine.add_channel("S", retention="1 h", lateness="1 d")
        for stream in "AB":
            engine.add_channel(stream, of="S", source="x")
        engine.register(text, name="older")
        assert not engine.register(f"{text} STARTING {starting}", name="early").notes
        for stream, id_, seconds in (("A", "a", 0), ("B", "b", 36_000), ("A", "b", 36_000)):
            engine.ingest([Event(stream, id_, seconds, xml="<i><t>1</t></i>")])
            engine.run_once()
        notes = engine.register(f"{text} STARTING {starting}", name="new").notes
        assert [note.partition(" are")[0] for note in notes] == (
            ["events of S from before 1970-01-01T09:00:00Z"] if noted else []
        )
        engine.run_once()
        engine.ingest([Event("B", "a", 0, xml="<i><t>1</t></i>")])
        engine.run_once()
        found = {tuple(event.id for event in match.events) for match in engine.matches("new")}
        assert found == ({("b", "a")} if window != "ONCE" else set())
