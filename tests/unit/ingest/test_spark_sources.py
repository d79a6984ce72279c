"""The data sources' readers as Spark calls them, without Spark."""

import json
import os
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StringType, StructField, StructType

from xscl.base.errors import SourceError
from xscl.ingest.fetch import Fetched
from xscl.ingest.fetch_policy import Answer
from xscl.ingest.file_offsets import BEGIN, Changed, after, groups, listing
from xscl.ingest.spark_sources import FeedSource, XmlSource

SCHEMA = StructType([StructField(name, StringType()) for name in ("id", "xml", "source", "error")])


def source(kind=XmlSource, **options):
    return kind(CaseInsensitiveDict({key: str(value) for key, value in options.items()}))


def rows(reader, parts):
    return [row for part in parts for row in reader.read(pickle.loads(pickle.dumps(part)))]


def stream(folder, **options):
    return source(path=folder, settleSeconds=0, **options).streamReader(SCHEMA)


def write(folder, name, text):
    (folder / name).write_text(text)
    # Times of files advance in steps of the kernel.
    while (folder / name).stat().st_ctime_ns <= write.last:
        (folder / name).write_text(text)
    write.last = (folder / name).stat().st_ctime_ns


write.last = 0


def test_batches(tmp_path):
    write(tmp_path, "a.xml", "<a id='1'/>")
    write(tmp_path, "b.xml", "<b")
    for options in ({"path": tmp_path}, {"paths": json.dumps([f"file://{tmp_path}"])}):
        reader = source(id="@id", **options).reader(SCHEMA)
        first, second = sorted(rows(reader, reader.partitions()), key=lambda row: row[2])
        assert first == ("1", '<a id="1"/>', f"{tmp_path}/a.xml", None)
        assert second[:3] == (None, None, f"{tmp_path}/b.xml") and "XSCL_MALFORMED" in second[3]
    reader = source(path=tmp_path / "none").reader(SCHEMA)
    assert "XSCL_SOURCE_UNREADABLE" in rows(reader, reader.partitions())[0][3]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"path": "s3://bucket/x"},
        {"path": "x", "mode": "SOMETIMES"},
        {"path": "x", "maxBytes": "many"},
        {"path": "x", "maxNodes": "inf"},
        {"path": "x", "maxFilesPerTrigger": "1e400"},
        {"path": "x", "settleSeconds": "1e300"},
        {"path": "x", "maxFilesPerTrigger": "0"},
        {"path": "x", "split": "a[1]"},
        {"path": "x", "url": "http://a.example/"},
    ],
)
def test_options_that_are_refused(options):
    with pytest.raises(SourceError):
        reader = source(**options).reader(SCHEMA)
        rows(reader, reader.partitions())
        source(**options).streamReader(SCHEMA)


def test_an_option_that_a_source_does_not_have_is_answered_by_the_nearest():
    for make in (source(path="x", splitt="//a").reader, source(path="x", splitt="//a").streamReader):
        with pytest.raises(SourceError, match="xscl-xml has no option 'splitt'") as refused:
            make(SCHEMA)
        assert refused.value.hint == "did you mean split?"


def test_streams_advance_and_replay(tmp_path):
    reader = stream(tmp_path)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start == BEGIN
    write(tmp_path, "b.xml", "<b/>")
    write(tmp_path, "a.xml", "<a/>")
    middle = reader.latestOffset(start, ReadMaxFiles(1))
    end = json.loads(json.dumps(reader.latestOffset(middle, ReadMaxFiles(1))))
    assert end == reader.latestOffset(start, ReadAllAvailable()) != middle != start
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    write(tmp_path, "c.xml", "<c/>")
    for again in (reader, stream(tmp_path)):
        assert [row[1] for row in rows(again, again.partitions(start, middle))] == ["<b/>"]
        assert [row[1] for row in rows(again, again.partitions(middle, end))] == ["<a/>"]
        assert [row[1] for row in rows(again, again.partitions(start, end))] == ["<b/>", "<a/>"]
        assert again.partitions(end, end) == []
    # What changes moves on, and is not lost.
    write(tmp_path, "b.xml", "<b2/>")
    last = reader.latestOffset(end, ReadAllAvailable())
    assert [row[1] for row in rows(reader, reader.partitions(end, last))] == ["<c/>", "<b2/>"]


def test_what_is_moved_in_counts_from_then(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write(tmp_path, "old.xml", "<old/>")
    os.utime(tmp_path / "old.xml", (1, 1))
    write(folder, "new.xml", "<new/>")
    reader = stream(folder)
    first = reader.latestOffset(BEGIN, ReadAllAvailable())
    while not folder.joinpath("old.xml").exists() or listing([str(folder)])[-1].path.endswith("new.xml"):
        if folder.joinpath("old.xml").exists():
            (folder / "old.xml").rename(tmp_path / "old.xml")
        (tmp_path / "old.xml").rename(folder / "old.xml")
    second = reader.latestOffset(first, ReadAllAvailable())
    assert [row[1] for row in rows(reader, reader.partitions(first, second))] == ["<old/>"]


def test_files_settle_first(tmp_path):
    write(tmp_path, "a.xml", "<a/>")
    reader = source(path=tmp_path, settleSeconds=1000).streamReader(SCHEMA)
    assert reader.latestOffset(BEGIN, ReadAllAvailable()) == BEGIN


def test_available_now_takes_no_more(tmp_path):
    write(tmp_path, "a.xml", "<a/>")
    reader = stream(tmp_path, maxFilesPerTrigger=7)
    assert reader.getDefaultReadLimit() == ReadMaxFiles(7)
    assert isinstance(stream(tmp_path).getDefaultReadLimit(), ReadAllAvailable)
    reader.prepareForTriggerAvailableNow()
    write(tmp_path, "b.xml", "<b/>")
    end = reader.latestOffset(BEGIN, ReadAllAvailable())
    assert [row[1] for row in rows(reader, reader.partitions(BEGIN, end))] == ["<a/>"]
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_addresses_need_a_spool_to_be_streamed(tmp_path):
    with pytest.raises(SourceError, match="spool"):
        source(FeedSource, url="https://example.org/f").streamReader(SCHEMA)
    with pytest.raises(SourceError, match="path"):
        source(FeedSource, url="https://example.org/f", path=tmp_path, spool=tmp_path).streamReader(SCHEMA)


def test_addresses_of_a_list(tmp_path):
    (tmp_path / "l.opml").write_text(
        "<opml version='2.0'><body><outline text='a' xmlUrl='https://a.example/'/>"
        "<outline text='b' xmlUrl='https://b.example/'/></body></opml>"
    )
    found = source(FeedSource, opml=tmp_path / "l.opml", url="https://b.example/ https://c.example/").urls
    assert found == ["https://b.example/", "https://c.example/", "https://a.example/"]
    with pytest.raises(SourceError, match=r"none\.opml"):
        source(FeedSource, opml=tmp_path / "none.opml").reader(SCHEMA).partitions()


def test_private_addresses_are_not_asked(tmp_path):
    reader = source(FeedSource, url="http://127.0.0.1:9/f").reader(SCHEMA)
    (row,) = rows(reader, reader.partitions())
    assert "127.0.0.1" in row[3]


FILES = st.lists(st.builds(Changed, st.integers(0, 5), st.sampled_from("abcdef"), st.integers(0, 9)), max_size=8)


@settings(deadline=None)
@given(FILES, st.integers(1, 3), st.integers(0, 20))
def test_offsets_lose_nothing(files, most, size):
    files = sorted({(file.time, file.path): file for file in files if file.time}.values())
    start, found = BEGIN, []
    while part := after(files, start, most=most):
        end = part[-1].offset()
        assert after(files, start, until=end) == part
        found += part
        start = end
    assert found == files
    packed = groups(files, most_bytes=size)
    assert [path for group in packed for path in group] == [file.path for file in files]
    sizes = iter(files)
    for group in packed:
        assert group
        total = sum(next(sizes).size for _ in group)
        assert len(group) == 1 or total <= size


def test_addresses_are_polled_into_the_spool(tmp_path, monkeypatch):
    asked = []
    feed = b"<rss><channel><title>T</title><item><guid>%d</guid></item></channel></rss>"

    def fetch(self, wanted):
        asked.extend(one.url for one in wanted)
        return [Fetched(Answer(200, {}), one.url, feed % len(asked), None, 1, 9) for one in wanted]

    monkeypatch.setattr(FeedSource, "fetch", fetch)
    options = {"url": "https://a.example/f", "spool": tmp_path / "spool", "settleSeconds": 0, "channel": "news"}
    reader = source(FeedSource, **options).streamReader(SCHEMA)
    end = reader.latestOffset(BEGIN, ReadAllAvailable())
    assert end != BEGIN and asked == ["https://a.example/f"]
    # Not due yet: nothing is sent, and the offset stays.
    assert reader.latestOffset(end, ReadAllAvailable()) == end and len(asked) == 1
    for again in (reader, source(FeedSource, **options).streamReader(SCHEMA)):
        ((id_, xml, where, error),) = rows(again, again.partitions(BEGIN, end))
        assert (id_, where, error) == ("1", "https://a.example/f", None) and "<guid>1</guid>" in xml
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(BEGIN, ReadAllAvailable()) == end and len(asked) == 1


def test_addresses_in_a_batch(monkeypatch):
    refused = SourceError("XSCL_HTTP_STATUS", "gone")

    def fetch(self, wanted):
        return [Fetched(Answer(410, {}), one.url, None, refused, 1, 0) for one in wanted]

    monkeypatch.setattr(FeedSource, "fetch", fetch)
    reader = source(FeedSource, url="https://a.example/f").reader(SCHEMA)
    assert rows(reader, reader.partitions()) == [(None, None, "https://a.example/f", "[XSCL_HTTP_STATUS] gone")]
