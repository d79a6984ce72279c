"""Where feeds, documents and rows meet in one query: chains of postings out of feeds, and news before quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

import xscl
from xscl.base.types import LAST_TIME
from xscl.engine import Engine

SIZES = pytest.mark.parametrize("size", [1, 2, 7, 100])
S = 1_000_000
BEGIN = 1_700_000_000
Posting = tuple[str, ...]
"""A site, the name of a posting, and the names that it cites."""


def feeds(folder: Path, postings: Sequence[Posting]) -> Iterator[Path]:
    """Write a document of RSS for each posting, a second after the one before, and yield the files."""
    for ts, (site, name, *cited) in enumerate(postings, start=1):
        links = "".join(f'&lt;a href="http://posts.example/{each}"&gt;there&lt;/a&gt; ' for each in cited)
        item = (
            f"<item><guid>{name}</guid><title>{name}</title><link>http://posts.example/{name}</link>"
            f"<description>As told: {links}</description>"
            f"<pubDate>{format_datetime(datetime.fromtimestamp(BEGIN + ts, UTC))}</pubDate></item>"
        )
        file = folder / f"{ts}.xml"
        channel = f"<channel><title>{site}</title><link>http://{site}.example/</link>{item}</channel>"
        file.write_text(f"<rss version='2.0'>{channel}</rss>")
        yield file


def chains(folder: Path, text: str, postings: Sequence[Posting], size: int) -> list[tuple[str, str, int]]:
    """Return the names of the first and the last posting of each match, and the second of the last."""
    with xscl.connect(home=folder / "home") as engine:
        engine.register(text, name="q")
        for number, file in enumerate(feeds(folder, postings), start=1):
            engine.ingest(file)
            if number % size == 0:
                engine.run_once()
        engine.heartbeat("items", LAST_TIME)
        engine.run_once()
        found = [(match.values["u"], match.values["v"], match.ts // S - BEGIN) for match in engine.matches("q")]
        return sorted((first.rpartition("/")[2], last.rpartition("/")[2], ts) for first, last, ts in found)


SUBSCRIBED = "items[./channel_title = 'site1' or ./channel_title = 'site2'][./item_url->v][./link->c]"


@SIZES
def test_meet_4_postings_that_cite_a_site(size: int, tmp_path: Path) -> None:
    """The first part of G-CAY-9, out of documents of RSS."""
    postings = [
        ("apple", "L1"),
        ("site1", "L2"),
        ("site2", "L3", "L1"),
        ("site1", "L4", "L1", "L3"),
        ("apple", "L5"),
        ("other", "L6", "L5"),
        ("site1", "L7", "L5"),
    ]
    text = f"SELECT u, v FROM items[./channel_title = 'apple'][./item_url->u] NEXT {{url(c) = url(u)}} {SUBSCRIBED}"
    assert chains(tmp_path, text, postings, size) == [("L1", "L3", 3), ("L5", "L7", 7)]


@SIZES
def test_meet_4_chains_of_citations(size: int, tmp_path: Path) -> None:
    """The second part of G-CAY-9, out of documents of RSS."""
    postings = [
        ("site1", "R"),
        ("site2", "P1", "R"),
        ("site1", "P2", "R"),
        ("site2", "P3", "P1"),
        ("site1", "P4", "P2"),
        ("other", "P5", "P3"),
        ("site1", "P6", "P3"),
    ]
    text = f"SELECT u, v FROM items[./title = 'R'][./item_url->u] FOLD {{url(c) = url(last(v, u))}} {SUBSCRIBED}"
    assert chains(tmp_path, text, postings, size) == [("R", "P1", 2), ("R", "P3", 4), ("R", "P6", 7)]


MIXED = (
    "SELECT t, p, q FROM items[./title->t] FOLLOWED BY {t = n, 10 s} stock[./name->n][./price->p]"
    " NEXT {n = m AND q > p} stock[./name->m][./price->q]"
)
NEWS = [("IBM", 1), ("Dell", 2), ("IBM", 20)]
QUOTES = [
    ("IBM", 80, 3),
    ("MSFT", 25, 4),
    ("IBM", 79, 5),
    ("Dell", 22, 5),
    ("IBM", 82, 8),
    ("IBM", 90, 9),
    ("IBM", 95, 12),
    ("Dell", 22, 13),
    ("IBM", 70, 29),
    ("IBM", 71, 31),
]


def mixed(engine: Engine, size: int) -> list[tuple[str, str, str, int]]:
    """Take news and quotes in by their times, so many a batch; return the matches, with their seconds."""
    engine.add_channel("stock", kind="rows", schema="name string, price double")
    engine.register(MIXED, name="q")
    events = [
        xscl.Event("items", f"{title}@{ts}", ts, xml=f"<item><title>{title}</title></item>", feed="f")
        for title, ts in NEWS
    ]
    events += [
        xscl.Event("stock", f"{at}", ts, row={"name": name, "price": float(price)})
        for at, (name, price, ts) in enumerate(QUOTES)
    ]
    events.sort(key=lambda event: event.ts)
    for first in range(0, len(events), size):
        engine.ingest(events[first : first + size])
        engine.run_once()
    for channel in ("items", "stock"):
        engine.heartbeat(channel, LAST_TIME)
    engine.run_once()
    matches = [(match.values, match.ts // S) for match in engine.matches("q")]
    return sorted((values["t"], values["p"], values["q"], ts) for values, ts in matches)


BY_HAND = [
    ("IBM", "70", "71", 31),
    ("IBM", "79", "82", 8),
    ("IBM", "80", "82", 8),
    ("IBM", "82", "90", 9),
    ("IBM", "90", "95", 12),
]
"""News of IBM at 1 has quotes of the next ten seconds at 3, 5, 8 and 9; that at 20 has the one at 29.

The first quotes above these are those at 8, 8, 9, 12 and 31.  Dell has no quote above its first.
"""


@SIZES
def test_g_mix_1(size: int, tmp_path: Path) -> None:
    """News of a name, any quote of it within ten seconds, and the next one that is higher."""
    with xscl.connect(home=tmp_path / "home") as engine:
        assert mixed(engine, size) == BY_HAND


def test_g_mix_1_in_tasks(executor_engine: Engine) -> None:
    """Tasks of Spark answer as this process does."""
    assert mixed(executor_engine, 7) == BY_HAND
