"""Real feeds: as many items as the collection says, where it is there (``corpora``)."""

import gzip
import io
import json
import re
import tarfile

import pytest
from corpora import DATA, lacks

from xscl.base.safe_xml import parse_xml
from xscl.ingest.expand import feed_events
from xscl.ingest.feed import read_tree
from xscl.ingest.records import Rejected
from xscl.ingest.sources import read_paths


def need(path):
    if not path.exists():
        pytest.skip(lacks(path))
    return path


def events_of(path, **options):
    (document,) = read_paths([path], **options)
    return feed_events(document)


def test_smallweb_has_the_items_of_its_manifest():
    folder = need(DATA / "raw" / "smallweb")
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    assert len(manifest) == 103
    total = 0
    for entry in manifest:
        (record,) = read_paths([folder / entry["file"]])
        if not entry["items"]:
            assert isinstance(record, Rejected) and record.condition == "XSCL_MALFORMED_DOCUMENT"
            continue
        total += len(record.entries)
        assert len(record.entries) == entry["items"], entry["file"]
        # The manifest's parser leaves some titles escaped twice.
        assert re.sub(r"\W|amp;", "", record.feed.title or "") == re.sub(r"\W|amp;", "", entry["channel_title"] or "")
        assert bool(record.flaw) == entry["bozo"] == all(one.raw is None for one in record.entries), entry["file"]
        events = feed_events(record)
        assert all(event.id for event in events)
        repeated = len(record.entries) - len({event.id for event in events})
        assert repeated == (9 if "Al-Monitor" in (record.feed.title or "") else 0), entry["file"]
    assert total == 2595


@pytest.mark.parametrize(("name", "count"), [("hour", 20), ("day", 505), ("week", 4727)])
def test_earthquakes(name, count):
    path = need(DATA / "xml" / "usgs" / f"all_{name}.atom.gz")
    records = events_of(path)
    items, raw = records[::2], records[1::2]
    assert len(items) == len(raw) == count
    assert {record.channel for record in items} == {"items"} and {record.channel for record in raw} == {"items.raw"}
    assert len({record.id for record in items}) == count
    assert all(record.ts is not None for record in items)


def test_earthquake_digests_tell_versions():
    paths = [need(DATA / "xml" / "usgs" / f"all_{name}.atom.gz") for name in ("hour", "week")]
    hour, week = ({record.id: record for record in events_of(path)} for path in paths)
    shared = hour.keys() & week.keys()
    assert shared
    for id in shared:
        same_time = hour[id].ts == week[id].ts
        assert (hour[id].digest == week[id].digest) <= same_time


def test_trending_repositories():
    path = need(DATA / "raw" / "github-trending.tar.xz")
    documents = 0
    with tarfile.open(path, "r|xz") as archive:
        for member in archive:
            if not member.isfile():
                continue
            documents += 1
            root = parse_xml(archive.extractfile(member).read())
            events = feed_events(read_tree(root, source=member.name))
            assert len(events) == 2 * len(root.findall("channel/item")), member.name
            assert all(event.id and event.id.startswith("https://github.com/") for event in events)
            # The items have no date of their own.
            assert {event.ts for event in events} <= {events[0].ts if events else None}
    assert documents == 274


def test_planet_items_are_told_apart():
    path = need(DATA / "raw" / "planet-sympy.tar.xz")
    with tarfile.open(path, "r|xz") as archive:
        member = next(member for member in archive if member.isfile())
        data = archive.extractfile(member).read()
    records = events_of("-", stdin=io.BytesIO(gzip.compress(data)))
    items = records[::2]
    assert len(items) == len(parse_xml(data).findall("{*}entry")) and len({record.id for record in items}) == len(items)
