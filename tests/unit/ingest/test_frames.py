"""Rows of Spark's data sources, without Spark."""

from datetime import UTC, datetime

import pytest

from xscl.base.document_limits import DEFAULT_LIMITS
from xscl.base.errors import SourceError
from xscl.base.types import Event
from xscl.ingest.frames import FEED_COLUMNS, XML_COLUMNS, chosen, document_records, feed_rows, xml_rows
from xscl.ingest.reading import Reading
from xscl.ingest.records import Flush, Rejected
from xscl.ingest.sources import read_paths

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def names(columns):
    return [column.split()[0] for column in columns.split(", ")]


def test_documents():
    records = [
        Event("S", "1", 1, xml="<?xml version='1.0'?><!DOCTYPE a><a  b='1'/>", source="x:1"),
        Event("S", xml=b"\xef\xbb\xbf<a/>"),
        Event("S", "3", "2026-06-01T12:00:00Z", xml="<a>", source="x:3"),
        Event("S", "4", row={"a": 1}, source="x:4"),
        Flush("x:5"),
        Rejected("x:6", "XSCL_BAD_EVENT_TIME", "no", "S", "6"),
    ]
    rows = list(xml_rows(records, DEFAULT_LIMITS))
    assert rows[0] == {
        "channel": "S", "id": "1", "ts": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "xml": '<a b="1"/>', "source": "x:1"
    }  # fmt: skip
    assert rows[1]["xml"] == "<a/>"
    assert [row.get("error", "").partition("]")[0] for row in rows[2:]] == [
        "[XSCL_MALFORMED_DOCUMENT",
        "[XSCL_UNKNOWN_FORMAT",
        "[XSCL_UNKNOWN_FORMAT",
        "[XSCL_BAD_EVENT_TIME",
    ]
    assert rows[5] == {"channel": "S", "id": "6", "source": "x:6", "error": "[XSCL_BAD_EVENT_TIME] no"}
    assert {name for row in rows for name in row} <= set(names(XML_COLUMNS))


def test_feeds(tmp_path):
    file = tmp_path / "f.xml"
    file.write_text(
        "<feed xmlns='http://www.w3.org/2005/Atom'><id>urn:f</id><title>F</title>"
        "<entry><id>urn:1</id><title>One</title><published>2026-06-01T12:00:00Z</published><author><name>N</name>"
        "</author></entry><entry><id>urn:2</id></entry><entry><id>urn:1</id><title>One</title>"
        "<published>2026-06-01T12:00:00Z</published><author><name>N</name></author></entry></feed>"
    )
    other = tmp_path / "g.xml"
    other.write_text("<a/>")
    rows = list(feed_rows(read_paths([tmp_path], Reading(channel="news"))))
    assert [row.get("id") for row in rows] == ["urn:1", "urn:2", None]
    first = rows[0]
    assert (first["title"], first["published"], first["authors"], first["channel"]) == ("One", NOON, ["N"], "news")
    assert first["ts"] == NOON and first["time_source"] == "published" and first["raw"].startswith("<entry")
    assert rows[1]["ts"] is None and rows[1]["categories"] == []
    assert rows[2]["error"].startswith("[XSCL_NOT_A_FEED]") and rows[2]["source"] == str(other)
    assert {name for row in rows for name in row} == set(names(FEED_COLUMNS))


def test_modes():
    rows = [{"xml": "<a/>"}, {"error": "[XSCL_X] no\nmore", "source": "f"}, {"xml": "<b/>"}]
    assert list(chosen(rows, "PERMISSIVE")) == rows
    assert list(chosen(rows, "DROPMALFORMED")) == [rows[0], rows[2]]
    found = chosen(rows, "FAILFAST")
    assert next(found) == rows[0]
    with pytest.raises(SourceError) as refused:
        next(found)
    assert (refused.value.condition, refused.value.message) == ("XSCL_X", "f: no\nmore")


def test_rows_of_dataframes():
    assert list(document_records({"xml": "<a/>"}, "S")) == [Event("S", xml="<a/>")]
    assert list(document_records({"xml": "<a/>", "channel": "T", "id": "1", "ts": 5}, "S")) == [
        Event("T", "1", 5, xml="<a/>")
    ]
    local = NOON.astimezone().replace(tzinfo=None)
    (event,) = document_records({"xml": "<a/>", "ts": local}, "S")
    assert event.ts == NOON
    assert list(document_records({"error": "[XSCL_X] no", "source": "f", "id": "1"}, "S")) == [
        Rejected("f", "XSCL_X", "no", "S", "1")
    ]
    assert next(document_records({"error": "what?"}, None)) == Rejected("", "XSCL_BAD_EVENT", "what?")


def test_times_that_the_local_zone_does_not_have_are_refused_alone():
    early = datetime(1, 1, 1)
    (refused,) = document_records({"xml": "<a/>", "id": "1", "source": "f", "ts": early}, "S")
    assert (refused.source, refused.condition, refused.id) == ("f", "XSCL_BAD_EVENT_TIME", "1")
    assert refused.message.startswith("0001-01-01T00:00:00")
    (event,) = document_records({"xml": "<a/>", "ts": early.replace(tzinfo=UTC)}, "S")
    assert event.ts == early.replace(tzinfo=UTC)


def test_a_feed_is_the_same_through_rows(tmp_path):
    from xscl.ingest.expand import feed_events

    (tmp_path / "f.xml").write_text("<rss><channel><title>T</title><item><guid>g</guid></item></channel></rss>")
    (document,) = read_paths([tmp_path / "f.xml"])
    (row,) = feed_rows([document])
    assert list(document_records(row, None)) == feed_events(document)
