"""Real feeds beside the repository: the joins whose answers their README states, and a sample of the news by truth."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lxml import etree

import xscl

if TYPE_CHECKING:
    from xscl.engine import Engine

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # what XML cannot hold
FIELDS = ("item_url", "channel_url", "title", "author")


def items(path: Path, channel: str) -> Iterator[xscl.Event]:
    """The items of a corpus as documents, those that have a date."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            record = json.loads(line)
            if not record["published"]:
                continue
            item = etree.Element("item")
            for name in FIELDS:
                if record[name]:
                    etree.SubElement(item, name).text = CONTROLS.sub("", record[name])
            yield xscl.Event(
                channel, f"{number}", datetime.fromisoformat(record["published"]), xml=etree.tostring(item)
            )


def same(channel: str, fields: tuple[str, ...], window: str) -> str:
    """Pairs of items of different feeds that agree on some fields."""
    sides = ["".join(f"[./{f}->{f}{n}]" for f in (*fields, "channel_url")) for n in "12"]
    atoms = " AND ".join(f"{f}1 = {f}2" for f in fields)
    atoms += " AND channel_url1 != channel_url2"
    return f"{channel}->a{sides[0]} JOIN {{{atoms}, {window}, ONCE}} {channel}->b{sides[1]}"


EXPECTED = {
    ("sympy", ("title",)): {"1 h": 107, "1 day": 111, "7 days": 113},
    ("sympy", ("author", "title")): {"1 h": 102, "1 day": 105, "7 days": 106},
    ("trending", ("item_url",)): {"1 h": 3454, "1 day": 3454, "7 days": 3454},
    ("blogs", ("title",)): {"1 h": 249, "1 day": 257, "7 days": 259},
    ("blogs", ("item_url",)): {"1 h": 180, "1 day": 184, "7 days": 184},
}
FILES = {"sympy": "planet-sympy", "trending": "github-trending", "blogs": "ai-blogs"}


def test_pairs_of_items_as_the_corpora_state_them(engine: Engine, shared_data: Path) -> None:
    expected = {}
    for (channel, fields), counts in EXPECTED.items():
        for window, count in counts.items():
            name = engine.register(same(channel, fields, window))
            expected[name] = count
    for channel, file in FILES.items():
        report = engine.ingest(items(shared_data / "feeds" / f"{file}.jsonl.gz", channel))
        assert report.rejected == 0
    engine.run_once(batch_docs=5_000)
    found = {row.qid: row.n for row in engine.sql("SELECT qid, count(*) AS n FROM matches GROUP BY qid").collect()}
    assert found == expected


@pytest.mark.parametrize("name", ["all_hour", "all_day"])
def test_earthquakes_split_into_items_and_entries(engine: Engine, shared_data: Path, name: str) -> None:
    report = engine.ingest(shared_data / "xml" / "usgs" / f"{name}.atom.gz")
    assert report.taken == {"all_hour": 40, "all_day": 1010}[name]
    assert engine.ingest(shared_data / "xml" / "usgs" / f"{name}.atom.gz").duplicates == report.taken
