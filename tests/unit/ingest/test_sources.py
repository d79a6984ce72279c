"""Files, directories and standard input, told apart by their content."""

import gzip
import io
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.document_limits import Limits
from xscl.base.types import Event
from xscl.ingest import archives, sources
from xscl.ingest.expand import feed_events
from xscl.ingest.reading import Reading
from xscl.ingest.records import FeedDocument, Flush, Rejected
from xscl.ingest.sources import read_paths

LINES = b'{"channel": "S", "id": "d1", "xml": "<a/>"}\n{"flush": true}\n'
FEED = b"<rss><channel><title>T</title><item><guid>g</guid></item></channel></rss>"
BROKEN = FEED.replace(b"T", b"A & B")


def read(data, **options):
    return list(read_paths(["-"], Reading(**options), stdin=io.BytesIO(data)))


def channels(data, **options):
    return [getattr(record, "condition", None) or record.channel for record in expanded(read(data, **options))]


def expanded(records):
    for record in records:
        yield from feed_events(record) if isinstance(record, FeedDocument) else [record]


def check_rejected(data, condition, *words, **options):
    (record,) = read(data, **options)
    assert isinstance(record, Rejected) and record.condition == condition and record.source == "-"
    for word in words:
        assert word in record.message


def test_event_files():
    assert read(LINES) == [Event("S", "d1", xml="<a/>", source="-:1"), Flush("-:2")]
    assert read(LINES, channel="other")[0].channel == "S"


def test_lines_are_numbered_from_the_start_of_the_file():
    assert read(b"\n \r\n" + LINES)[0].source == "-:3"


@pytest.mark.parametrize(
    "data",
    [
        b"<a/>",
        b"<?xml version='1.0'?><a/>",
        b"\xef\xbb\xbf<a/>",
        b" \r\n\t<a/>",
        b"\n\n" * 1500 + b"<a/>",
        "<?xml version='1.0' encoding='utf-16'?><a/>".encode("utf-16"),
        b"\xfe\xff" + "<a/>".encode("utf-16-be"),
        b"\xff\xfe" + "\n<a/>".encode("utf-16-le"),
    ],
)
def test_documents(data):
    assert read(data) == [Event("documents", xml=data, source="-")]
    assert read(data, channel="S") == [Event("S", xml=data, source="-")]


def test_blanks_before_a_declaration_are_forgiven():
    (event,) = read(b"\n <?xml version='1.0'?><a/>")
    assert event.xml == b"<?xml version='1.0'?><a/>"


def test_feeds_are_split_unless_taken_whole():
    assert channels(FEED) == ["items", "items.raw"]
    assert channels(FEED, channel="news") == ["news", "news.raw"]
    assert read(FEED, whole=True) == [Event("documents", xml=FEED, source="-")]


@pytest.mark.parametrize(
    ("data", "kind", "options"),
    [
        (LINES, "it is an event file", {}),
        (b"a,b\n1,2\n", "it has rows", {"format": "csv", "channel": "t"}),
        (b'{"a": 1}\n', "it has rows", {"channel": "t"}),
        (b'{"version": "https://jsonfeed.org/version/1.1", "items": []}', "it is a JSON Feed", {}),
    ],
)
def test_inputs_without_elements_are_not_taken_where_elements_are_asked_for(data, kind, options):
    check_rejected(data, "XSCL_BAD_OPTION", f"-: {kind}", "--split", "without --split", split="//a", **options)
    assert not any(isinstance(record, Rejected) for record in read(data, **options))


def test_broken_feeds_give_items_only():
    assert channels(BROKEN) == ["items"]
    assert channels(BROKEN, channel="news") == ["news"]
    assert channels(BROKEN, whole=True) == ["XSCL_MALFORMED_DOCUMENT"]
    check_rejected(b"<rss><channel><title>A & B", "XSCL_MALFORMED_DOCUMENT", "line 1")


def test_a_broken_document_over_a_limit_is_no_broken_feed():
    check_rejected(b"<rss><channel>" + b"<a>" * 300 + b"</a>" * 300 + b"</channel></rss>", "XSCL_DOCUMENT_LIMIT")


def test_rdf_without_items_is_not_lost_in_silence():
    rdf = b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><r:Description/></r:RDF>'
    check_rejected(rdf, "XSCL_NOT_A_FEED", "whole")
    assert channels(rdf, whole=True) == ["documents"]


def test_malformed_documents():
    check_rejected(b"<a><b></a>", "XSCL_MALFORMED_DOCUMENT", "line 1, column")
    assert read(b"<a", channel="S")[0].channel == "S"


@pytest.mark.parametrize("data", [b"", b" \n ", b"a,b\n1,2\n", b"[1]", b"\x00<a/>", b"PK\x03\x04", b"\xff\xfea\x00"])
def test_unknown_formats(data):
    check_rejected(data, "XSCL_UNKNOWN_FORMAT", "-", "XML", "event files", "gzip")


def test_blank_files_are_told_from_empty_ones():
    check_rejected(b"", "XSCL_UNKNOWN_FORMAT", "is empty")
    check_rejected(b"\n" * 100_000 + b"<a/>", "XSCL_UNKNOWN_FORMAT", "4,096 blank bytes")


def test_gzip_whatever_the_name(tmp_path):
    for name, data in (("a.txt", LINES), ("b", FEED), ("c.gz", b"<a/>")):
        (tmp_path / name).write_bytes(gzip.compress(data))
    records = list(read_paths([tmp_path]))
    assert [getattr(record, "channel", "flush") for record in expanded(records)] == [
        "S",
        "flush",
        "items",
        "items.raw",
        "documents",
    ]
    assert read(gzip.compress(b"<a/>") + gzip.compress(b"\n"))[0].xml == b"<a/>\n"


def test_truncated_gzip():
    whole = gzip.compress(os.urandom(1000).hex().join(["<a>", "</a>"]).encode())
    for size in (2, 5, 12, len(whole) // 2, len(whole) - 1):
        check_rejected(whole[:size], "XSCL_SOURCE_UNREADABLE", "-")
    packed = gzip.compress(LINES * 2000)
    records = read(packed[: len(packed) - 1])
    assert isinstance(records[0], Event) and records[-1].condition == "XSCL_SOURCE_UNREADABLE"
    check_rejected(whole[:20] + b"\xff" * 50, "XSCL_SOURCE_UNREADABLE")


def test_limit_on_what_is_unpacked(monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(sources, "MAX_DOCUMENT_BYTES", 1000)
    fits = b"<a>" + b"x" * 993 + b"</a>"
    assert channels(fits) == channels(gzip.compress(fits)) == ["documents"]
    bomb = fits.replace(b"x", b"xx", 1)
    check_rejected(gzip.compress(bomb), "XSCL_SOURCE_LIMIT", "1,000")
    check_rejected(bomb, "XSCL_SOURCE_LIMIT", "1,000")
    assert channels(gzip.compress(b"{}\n" * 1000))[-1] == "XSCL_SOURCE_LIMIT"
    assert len(channels(b"{}\n" * 1000)) == 1000


def test_event_files_are_read_line_by_line():
    class Endless(io.BytesIO):
        """A pipe whose writer goes on."""

        def read(self, size=-1, /):
            raise AssertionError("a pipe must be read no further than it was written")

        def read1(self, size=-1, /):
            return b'{"flush": true}\n'

    records = read_paths(["-"], stdin=Endless())
    assert [next(records) for _ in range(3)] == [Flush("-:1"), Flush("-:2"), Flush("-:3")]


def test_missing_files_do_not_stop_the_others(tmp_path):
    good = tmp_path / "good.xml"
    good.write_bytes(b"<a/>")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    bad = [tmp_path / "missing", "a\0b", loop, "x" * 5000]
    records = list(read_paths([*bad, good]))
    assert [getattr(record, "condition", None) for record in records] == ["XSCL_SOURCE_UNREADABLE"] * 4 + [None]
    assert records[0].source == str(bad[0]) and "No such file" in records[0].message
    assert records[-1].source == str(good)


def test_directories_are_read_in_order_and_stay_inside(tmp_path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    for folder in (home / "b", home / ".hidden", outside):
        folder.mkdir(parents=True)
    for path in (home / "c.xml", home / "a.xml", home / "b" / "z.xml", home / "b" / "a.xml"):
        path.write_bytes(b"<a/>")
    for path in (home / ".x.xml", home / ".hidden" / "y.xml", outside / "o.xml"):
        path.write_bytes(b"<no/>")
    (home / "out").symlink_to(outside)
    (home / "out.xml").symlink_to(outside / "o.xml")
    (home / "in.xml").symlink_to(home / "c.xml")
    (home / "loop").symlink_to(home)
    (home / "gone.xml").symlink_to(home / "nothing")
    os.mkfifo(home / "pipe")
    names = [os.path.relpath(record.source, home) for record in read_paths([home])]
    assert names == ["a.xml", "b/a.xml", "b/z.xml", "c.xml", "in.xml"]


def test_hidden_files_and_links_are_read_when_named(tmp_path):
    (tmp_path / ".x").write_bytes(b"<a/>")
    (tmp_path / "y").symlink_to(tmp_path / ".x")
    assert len(list(read_paths([str(tmp_path / ".x"), tmp_path / "y"]))) == 2


def test_sources_can_be_stored_whatever_files_are_called(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.xml")).write_bytes(b"<a/>")
    (event,) = read_paths([tmp_path])
    assert event.source.encode("utf-8").endswith(b"/\\udcff.xml")


def test_paths_are_read_lazily_and_in_order(tmp_path):
    first = tmp_path / "1.xml"
    first.write_bytes(b"<a/>")
    records = read_paths([first, tmp_path / "2.xml", "-"], stdin=io.BytesIO(b"<b/>"))
    assert next(records).xml == b"<a/>"
    (tmp_path / "2.xml").write_bytes(b"<c/>")
    assert [record.xml for record in records] == [b"<c/>", b"<b/>"]


@settings(deadline=None)
@given(
    st.binary(),
    st.sampled_from(
        [b"", b"<", b"{", b"\xff\xfe<\0", b"\xef\xbb\xbf<", b"<rss><channel><item>", b"\x1f\x8b\x08", LINES]
    ),
    st.booleans(),
)
def test_any_bytes(data, head, packed):
    content = gzip.compress(head + data) if packed else head + data
    for record in read(content):
        if isinstance(record, Rejected):
            assert record.condition.startswith("XSCL_")
            record.message.encode("utf-8")


def test_feeds_whose_entries_repeat_long_namespaces():
    spaces = " ".join(f'xmlns:a{n}="{"u" * 490}{n}"' for n in range(190))
    used = "".join(f"<a{n}:b/>" for n in range(190))
    feed = f"<rss {spaces}><channel>{f'<item><title>t</title>{used}</item>' * 700}</channel></rss>".encode()
    check_rejected(feed, "XSCL_DOCUMENT_LIMIT", "entries")


def test_limits_may_be_others():
    document = b"<a><b/></a>"
    assert len(read(document, limits=Limits(max_nodes=2))) == 1
    check_rejected(document, "XSCL_DOCUMENT_LIMIT", "max_nodes is 1", limits=Limits(max_nodes=1))
