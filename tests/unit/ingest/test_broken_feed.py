"""Feeds that are not well-formed."""

from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.safe_xml import parse_xml
from xscl.ingest.broken_feed import looks_like_feed, read_broken_feed
from xscl.ingest.expand import feed_events
from xscl.ingest.feed import read_tree


def broken(data, **options):
    document = read_broken_feed(data, **{"source": "f", **options})
    return [] if document is None else feed_events(document)


FEED = b"""<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>A &amp; B</title>
<link>https://example.org/</link><atom:link rel="self" href="https://example.org/f"/>
<item><title>One &lt;b&gt;1&lt;/b&gt;</title><link>https://example.org/1</link><guid>g1</guid><author>Ann</author>
<description>&lt;p&gt;d &lt;a href="/x/"&gt;x&lt;/a&gt;&lt;script&gt;no&lt;/script&gt;</description>
<pubDate>Mon, 01 Jun 2026 09:30:00 GMT</pubDate><category>c</category></item>
<item><title>Two</title><guid isPermaLink="false">g2</guid><pubDate>2016/6/29 15:07:41</pubDate></item>
</channel></rss>"""


def test_the_items_are_those_of_the_strict_way():
    found = broken(FEED.replace(b"A &amp; B", b"A & B"), source="f.xml", channel="news")
    strict = feed_events(read_tree(parse_xml(FEED), source="f.xml", channel="news"))[::2]
    assert [event.xml for event in found] == [event.xml for event in strict]
    for one, other in zip(found, strict, strict=True):
        assert (one.channel, one.id, one.ts, one.feed, one.source) == (
            other.channel,
            other.id,
            other.ts,
            other.feed,
            other.source,
        )


def test_dates_are_not_guessed():
    second = broken(FEED.replace(b"&amp;", b"&"))[1]
    assert second.ts is None and b"published" not in second.xml.encode()


def test_the_head_is_no_part_of_the_digest():
    first, changed = (broken(FEED.replace(b"A &amp; B", title))[0] for title in (b"A & B", b"C & D"))
    assert first.digest == changed.digest and first.xml != changed.xml


def test_nothing_is_opened(tmp_path):
    secret = tmp_path / "secret.xml"
    secret.write_bytes(FEED)
    assert broken(str(secret).encode()) == []
    entity = b'<!DOCTYPE r [<!ENTITY x SYSTEM "file://%s">]>' % str(secret).encode()
    (event,) = broken(entity + b"<rss><channel><item><title>a & &x; b</title></item></channel></rss>")
    assert "One" not in event.xml


def test_marks():
    assert (
        looks_like_feed(b"<?xml version='1.0'?><rss") and looks_like_feed(b" <feed") and looks_like_feed(b"<rdf:RDF ")
    )
    assert not looks_like_feed(b"<html>") and not looks_like_feed(b" " * 2048 + b"<rss")


@settings(deadline=None, max_examples=examples(20))
@given(st.binary() | st.binary().map(lambda data: b"<rss><channel><item><title>" + data))
def test_any_bytes(data):
    for event in broken(data):
        parse_xml(event.xml)


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(0, len(FEED)), st.binary(max_size=3))
def test_any_damage(place, data):
    for event in broken(FEED[:place] + data + FEED[place + 2 :]):
        parse_xml(event.xml)
