"""A home with something of everything: channels of all kinds, queries of all kinds, late events, what waits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

from xscl.base.types import Event
from xscl.engine import Engine
from xscl.ingest.records import Drop, Flush, Record, Register

Step = Callable[[Engine, Path], None]

FIRST = {
    "loud": "ticks/ticks[./price > 100]/sym",
    "author": "S//book->b[./author->a] FOLLOWED BY {a = c, 10 s} S//blog->d[./author->c]",
    "author_again": "S//book->x[./author->y] FOLLOWED BY {y = z, 10 s} S//blog->v[./author->z]",
    "author_long": "S//book->b[./author->a] FOLLOWED BY {a = c, 7 days} S//blog->d[./author->c]",
    "once": "S//book->b[./author->a] JOIN {a = c, 1 h, ONCE} S//blog->d[./author->c]",
    "three": "S//book->x[./author->a] FOLLOWED BY {a = b, 1 h} S//blog->y[./author->b] "
    "FOLLOWED BY {b = c, 1 h} S//note->z[./author->c]",
    "price": "ticks->t[./price->p] FOLLOWED BY {p = q, 1 h} ticks->u[./price->q]",
    "seen": "S//book->b[./author->a] FOLLOWED BY {a = c, 1 h} S//blog->d[./author->c] PUBLISH echoes",
    "echo": "SELECT <again>{a}</again> FROM echoes->e//author->a PUBLISH louder",
    "loudest": "louder->l FOLLOWED BY {10 s} S//note->n",
    "wires": "left//title->x JOIN {x = y, 1 h} right//title->y",
    "wire": "wire//title->x FOLLOWED BY {x = y, 1 h} S//note/author->y",
    "items": "news->i[./title->t] JOIN {t = u, 2 days} news->j[./title->u]",
    "raw": "news.raw//item/title",
    "hot": "rooms->r[./temp > 30][./room->a] FOLLOWED BY {a = b, 1 h} rooms->s[./temp < 10][./room->b]",
}
LATER = {
    "all": "S//book->b[./author->a] FOLLOWED BY {a = c, 7 days} S//blog->d[./author->c] STARTING ALL",
    "since": "S//blog//author STARTING '1970-01-01T00:00:04Z'",
    "late_comer": "S//book->b[./author->a] FOLLOWED BY {a = c, 7 days} S//blog->d[./author->c] STARTING NOW",
}
"""Registered between events."""


def _doc(kind: str, id_: str, ts: float, author: str) -> Event:
    return Event("S", id_, ts, xml=f"<{kind}><author>{author}</author><title>{id_}</title></{kind}>")


def _wire(stream: str, id_: str, ts: int, title: str) -> Event:
    return Event(stream, id_, ts, xml=f"<item><title>{title}</title></item>")


def _tick(id_: str, ts: float, price: object) -> Event:
    return Event("ticks", id_, ts, row={"sym": "IBM", "price": price})  # type: ignore[dict-item]


def _feed(entries: list[tuple[str, str, int]]) -> str:
    items = "".join(
        f"<item><guid>{guid}</guid><title>{title}</title>"
        f"<pubDate>Thu, 01 Jan 1970 00:00:{second:02d} GMT</pubDate></item>"
        for guid, title, second in entries
    )
    return f"<rss version='2.0'><channel><title>T</title><link>http://f.example/</link>{items}</channel></rss>"


def channels(engine: Engine, folder: Path) -> None:
    engine.add_channel("S", lateness="20 s")
    engine.add_channel("ticks", kind="rows", schema="sym string, price double", lateness="5 s", clock="market")
    engine.add_channel("rooms", kind="rows", schema="seq bigint, room string, temp double", element="reading")
    engine.add_channel("left", of="wire", source="agency")
    engine.add_channel("right", of="wire", source="agency")
    for name, text in FIRST.items():
        engine.register(text, name=name)


def one(engine: Engine, folder: Path) -> None:
    records: list[Record] = [
        _doc("book", "d1", 1, "A"),
        _doc("book", "d2", 2, "B"),
        _doc("blog", "d3", 4, "A"),
        Event("S", "bad", 5, xml="<book>"),
        Register("S//note[./author = 'A']", "short_lived", "fill"),
        _doc("note", "d4", 6, "A"),
        Drop("author_again", "fill"),
        _tick("t1", 1, 101.5),
        _tick("t2", 2, "high"),
        _tick("t3", 3, 101.5),
        _tick("t4", 4, None),
        _wire("left", "w1", 1, "x"),
        _wire("right", "w1", 1, "x"),
        _wire("right", "w2", 2, "x"),
        _wire("left", "w2", 3, "y"),
        Flush("fill"),
        _doc("blog", "d5", 7, "B"),
    ]
    engine.ingest(records)
    (folder / "news.xml").write_text(_feed([("g1", "one", 1), ("g2", "two", 2), ("g3", "one", 3)]))
    engine.ingest(folder / "news.xml", channel="news")
    (folder / "rooms.csv").write_text("seq,room,temp\n1,a,35\n2,b,36\n3,c,20\n")
    engine.ingest(folder / "rooms.csv", channel="rooms", id="seq", ts="seq", format="csv")
    engine.run_once(batch_docs=6)


def two(engine: Engine, folder: Path) -> None:
    for name, text in LATER.items():
        engine.register(text, name=name)
    engine.drop("short_lived")
    log = folder / "log.ndjson"
    log.write_text('{"channel": "S", "id": "d6", "ts": 30, "xml": "<blog><author>A</author></blog>"}\n')
    for _ in islice(engine.follow(log, every="0.01 s"), 2):
        pass
    (folder / "news.xml").write_text(_feed([("g1", "one", 1), ("g2", "one", 5), ("g4", "four", 6)]))
    engine.ingest(folder / "news.xml", channel="news")
    engine.ingest(
        [
            _doc("book", "d7", 31, "B"),
            _doc("book", "late", 3, "A"),
            _doc("blog", "d8", 32, "B"),
            _doc("note", "d9", 100, "B"),
            _wire("right", "w3", 4, "B"),
        ]
    )
    (folder / "rooms.csv").write_text("seq,room,temp\n4,a,5\n5,b,25\n")
    engine.ingest(folder / "rooms.csv", channel="rooms", id="seq", ts="seq", format="csv")
    engine.run_once(batch_docs=4)
    # What is taken in and waits for a batch.
    engine.ingest([_doc("book", "d10", 101, "C"), Flush("fill"), _doc("blog", "d11", 102, "C")])


def more(engine: Engine, folder: Path) -> None:
    """Take in events that meet those of ``fill``."""
    engine.run_once()
    with (folder / "log.ndjson").open("a") as log:
        log.write('{"channel": "S", "id": "d12", "ts": 103, "xml": "<blog><author>B</author></blog>"}\n')
    for _ in islice(engine.follow(folder / "log.ndjson", every="0.01 s"), 2):
        pass
    engine.ingest(
        [
            _doc("note", "d13", 104, "C"),
            _doc("book", "d14", 105, "B"),
            _doc("blog", "d15", 106, "B"),
            _doc("book", "d7", 31, "B"),
            _doc("blog", "too_late", 20, "A"),
            _tick("t5", 5, 101.5),
            _wire("left", "w4", 5, "x"),
            _wire("left", "w3", 4, "B"),
        ]
    )
    (folder / "news.xml").write_text(_feed([("g1", "new", 1), ("g5", "one", 7), ("g4", "four", 6)]))
    engine.ingest(folder / "news.xml", channel="news")
    (folder / "rooms.csv").write_text("seq,room,temp\n5,b,25\n6,b,1\n")
    engine.ingest(folder / "rooms.csv", channel="rooms", id="seq", ts="seq", format="csv")
    engine.register("S//note//author", name="fresh")
    engine.run_once()
    engine.ingest([_doc("note", "d16", 107, "B")])
    engine.run_once(batch_docs=2)


STEPS: tuple[Step, ...] = (channels, one, two)


def fill(engine: Engine, folder: Path) -> None:
    """Take in everything, in two batches; ``folder`` gets the files that are read."""
    for step in STEPS:
        step(engine, folder)
