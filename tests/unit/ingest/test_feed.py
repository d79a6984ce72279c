"""Feeds of every format into normalised items and published entries."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from xscl.base.errors import DocumentLimitError, SourceError, XsclError
from xscl.base.safe_xml import parse_xml
from xscl.base.xml_runs import CanonicalDocument
from xscl.ingest import feed
from xscl.ingest.expand import feed_events
from xscl.ingest.feed import is_feed, read_entries, read_tree
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.item import Feed, Item, Resource, item_document
from xscl.store.event_content import stored_document

NS = (
    'xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    ' xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:media="http://search.yahoo.com/mrss/"'
    ' xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
    ' xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
)
ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"'


def rss(item, channel="<title>T</title><link>https://example.org/</link>"):
    return f'<rss version="2.0" {NS}><channel>{channel}<item>{item}</item></channel></rss>'


def atom(entry, head="<title>T</title>", attributes=""):
    return f"{ATOM} {attributes}>{head}<entry>{entry}</entry></feed>"


def split(text, source="f.xml", **options):
    return feed_events(read_tree(parse_xml(text), source=source, **options))


def one(text, **options):
    """The normalised item of a feed's only entry as (event, children)."""
    event, raw = split(text, **options)
    assert raw.channel == f"{event.channel}.raw"
    assert (raw.id, raw.ts, raw.feed, raw.digest, raw.source) == (
        event.id,
        event.ts,
        event.feed,
        event.digest,
        event.source,
    )
    root = parse_xml(event.xml)
    assert root.tag == "item" and not root.attrib
    return event, [(child.tag, child.text) for child in root]


def values(text, name, **options):
    return [text for tag, text in one(text, **options)[1] if tag == name]


RSS_FULL = rss(
    """<title>A &amp;amp; B</title><link> https://example.org/a?utm_source=x </link>
    <description><![CDATA[<p>Hello <b>w</b>orld</p><a href="/x#y">x</a><script>no()</script>]]></description>
    <content:encoded><![CDATA[<a href="http://Other.org/z/">z</a><a href="x">x</a>]]></content:encoded>
    <author>Ann</author><dc:creator>Bob</dc:creator><category>c1</category><category>c2</category>
    <guid isPermaLink="false"> tag:1 </guid><pubDate>Mon, 01 Jun 2026 09:30:00 EDT</pubDate>
    <atom:updated>2026-06-02</atom:updated><media:thumbnail url="https://example.org/t.png"/>
    <media:title>no</media:title>""",
    '<title>The  feed</title><link>https://example.org/</link><atom:link rel="self" href="/feed.xml"/>',
)


def test_all_fields_in_their_order():
    event, fields = one(RSS_FULL)
    assert fields == [
        ("item_url", "https://example.org/a?utm_source=x"),
        ("channel_url", "https://example.org/feed.xml"),
        ("channel_title", "The feed"),
        ("title", "A & B"),
        ("author", "Ann"),
        ("author", "Bob"),
        ("published", "2026-06-01T13:30:00Z"),
        ("updated", "2026-06-02T00:00:00Z"),
        ("description", "Hello world x"),
        ("category", "c1"),
        ("category", "c2"),
        ("guid", "tag:1"),
        ("link", "https://example.org/x"),
        ("link", "https://other.org/z"),
        ("content", "zx"),
        ("media", "https://example.org/t.png"),
    ]
    assert event.channel == "items" and event.id == "tag:1" and event.source == "f.xml"
    assert event.ts == datetime(2026, 6, 1, 13, 30, tzinfo=UTC)
    assert event.feed == "https://example.org/feed.xml"


def test_absent_fields_have_no_element():
    event, fields = one("<rss><channel><item><title> </title><link/></item></channel></rss>")
    assert fields == []
    assert event.ts is None and event.time_source == "received" and event.feed == "f.xml"


def test_atom():
    event, fields = one(
        f"""{ATOM} xml:base="https://example.org/blog/"><title type="html">A &amp;amp; &lt;i>B&lt;/i></title>
        <link rel="self" href="feed.atom"/><link href="/"/><updated>2026-06-05T00:00:00Z</updated>
        <author><name>Feed</name></author>
        <entry><id> tag:1 </id>
        <title>1 &lt; 2 &amp;amp; 3</title><link rel="edit" href="e"/><link href="one"/>
        <link rel="enclosure" href="x.mp3"/><published>2026-06-01T00:00:00+02:00</published>
        <updated>2026-06-02T00:00:00Z</updated><category term="c1" label="C1"/><category term="c2"/>
        <author><name>Ann</name><email>a@example.org</email></author><author><name>Bob</name></author>
        <summary type="html">&lt;p>Sum &lt;a href="s">s&lt;/a></summary>
        <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">Body <a href="c">c</a></div></content>
        </entry></feed>"""
    )
    assert fields == [
        ("item_url", "https://example.org/blog/one"),
        ("channel_url", "https://example.org/blog/feed.atom"),
        ("channel_title", "A & B"),
        ("title", "1 < 2 &amp; 3"),
        ("author", "Ann"),
        ("author", "Bob"),
        ("published", "2026-05-31T22:00:00Z"),
        ("updated", "2026-06-02T00:00:00Z"),
        ("description", "Sum s"),
        ("category", "c1"),
        ("category", "c2"),
        ("guid", "tag:1"),
        ("link", "https://example.org/blog/s"),
        ("link", "https://example.org/blog/c"),
        ("content", "Body c"),
        ("enclosure", "https://example.org/blog/x.mp3"),
    ]
    assert event.feed == "https://example.org/blog/feed.atom"


def test_rss_1():
    feed = f"""<rdf:RDF xmlns="http://purl.org/rss/1.0/" {NS}>
        <channel rdf:about="https://example.org/rdf"><title>T</title><link>https://example.org</link>
        <dc:date>2026-06-09</dc:date><items><rdf:Seq><rdf:li resource="urn:1"/></rdf:Seq></items></channel>
        <item rdf:about="urn:1"><title>One</title><link>https://example.org/1</link><dc:creator>Ann</dc:creator>
        <dc:date>2026-06-01T09:30+00:00</dc:date><dc:subject>s</dc:subject><description>d</description></item>
        <item rdf:about="urn:2"><title>Two</title></item></rdf:RDF>"""
    events = split(feed)
    assert [event.id for event in events] == ["urn:1", "urn:1", "urn:2", "urn:2"]
    assert [event.ts.day for event in events] == [1, 1, 9, 9]
    root = parse_xml(events[0].xml)
    assert [(child.tag, child.text) for child in root] == [
        ("item_url", "https://example.org/1"),
        ("channel_url", "https://example.org"),
        ("channel_title", "T"),
        ("title", "One"),
        ("author", "Ann"),
        ("published", "2026-06-01T09:30:00Z"),
        ("description", "d"),
        ("category", "s"),
        ("guid", "urn:1"),
    ]
    assert events[0].feed == "https://example.org T"


def test_rss_0_9x_and_namespaced_rss():
    old = '<rss version="0.91"><channel><title>T</title></channel><item><title>One</title></item></rss>'
    assert values(old, "title") == ["One"]
    spaced = '<rss xmlns="http://backend.userland.com/rss2"><channel><item><title>A</title></item></channel></rss>'
    assert values(spaced, "title") == ["A"]


def test_atom_0_3():
    feed = """<feed xmlns="http://purl.org/atom/ns#"><modified>2026-06-09T00:00:00Z</modified><entry>
        <title mode="escaped" type="text/html">&lt;b>T&lt;/b></title><issued>2026-06-01</issued>
        <modified>2026-06-02</modified><link rel="alternate" href="https://example.org/1"/></entry></feed>"""
    event, fields = one(feed)
    assert fields == [
        ("item_url", "https://example.org/1"),
        ("title", "T"),
        ("published", "2026-06-01T00:00:00Z"),
        ("updated", "2026-06-02T00:00:00Z"),
    ]
    assert event.id == "https://example.org/1"


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("<rss/>", True),
        (f"<rdf:RDF {NS}/>", True),
        (ATOM + "/>", True),
        ('<feed xmlns="http://purl.org/atom/ns#"/>', True),
        ("<feed/>", False),
        ("<RDF/>", False),
        ('<entry xmlns="http://www.w3.org/2005/Atom"/>', False),
        ('<html xmlns="http://www.w3.org/1999/xhtml"/>', False),
    ],
)
def test_is_feed(root, expected):
    assert is_feed(parse_xml(root)) is expected


@pytest.mark.parametrize("text", ["<a/>", "<rss/>", f"<rdf:RDF {NS}><rdf:Description/></rdf:RDF>"])
def test_what_cannot_be_split(text):
    with pytest.raises(SourceError) as caught:
        split(text)
    assert caught.value.condition == "XSCL_NOT_A_FEED" and "f.xml" in caught.value.message


def test_empty_feeds_are_feeds():
    assert split("<rss><channel/></rss>") == split(ATOM + "/>") == []


# Addresses


def test_item_url_is_resolved_against_the_base_or_the_feed():
    link = "<link>/a</link>"
    assert values(rss(link), "item_url") == ["https://example.org/a"]
    assert values(rss(link, '<atom:link rel="self" href="https://b.org/f"/>'), "item_url") == ["https://b.org/a"]
    assert values(rss('<link xml:base="https://c.org/">a</link>'), "item_url") == ["https://c.org/a"]
    assert values(rss(link, ""), "item_url") == ["/a"]
    assert values(rss(link, ""), "item_url", source="https://d.org/feed") == ["https://d.org/a"]


def test_item_url_is_as_published():
    url = "HTTP://Example.org:80/a/?utm_source=x#y"
    assert values(rss(f"<link>{url}</link>"), "item_url") == [url]


def test_item_url_falls_back():
    assert values(rss('<link/><atom:link rel="alternate" href="b"/>'), "item_url") == ["https://example.org/b"]
    assert values(rss('<atom:link rel="replies" href="b"/>'), "item_url") == []
    assert values(rss("<guid>https://example.org/g</guid>"), "item_url") == ["https://example.org/g"]
    assert values(rss('<guid isPermaLink="false">https://example.org/g</guid>'), "item_url") == []
    assert values(rss("<guid>g</guid>"), "item_url") == []
    assert values(atom('<link rel="self" href="https://example.org/s"/>'), "item_url") == []


def test_channel_url_is_the_self_link_else_the_home_page():
    assert values(rss("", "<link>https://example.org/</link>"), "channel_url") == ["https://example.org/"]
    relation = "http://www.iana.org/assignments/relation/self"
    head = f'<link>https://example.org/</link><atom:link rel="{relation}" href="https://example.org/f"/>'
    assert values(rss("", head), "channel_url") == ["https://example.org/f"]
    assert values(rss("", ""), "channel_url") == []
    assert values(atom("", '<link href="https://example.org/"/>'), "channel_url") == ["https://example.org/"]


def test_links_are_distinct_and_do_not_add_the_item_itself():
    body = '<a href="b">1</a><a href="/b/">2</a><a href="http://example.org/x/b">3</a><a href="mailto:a@b">4</a>'
    text = rss(f"<link>https://example.org/x/a</link><description><![CDATA[{body}]]></description>")
    assert values(text, "link") == ["https://example.org/x/b", "https://example.org/b"]


def test_links_follow_a_declared_base():
    content = '<link href="https://example.org/a/"/><content type="html">&lt;a href="b">b&lt;/a></content>'
    assert values(atom(content), "link") == ["https://example.org/a/b"]
    assert values(atom(content, attributes='xml:base="https://c.org/"'), "link") == ["https://c.org/b"]


def test_plain_atom_text_has_no_links():
    assert values(atom('<summary>&lt;a href="https://a.org">b&lt;/a></summary>'), "link") == []


# Texts


def test_description_falls_back_to_the_content():
    content = "<content:encoded><![CDATA[<p>c</p>]]></content:encoded>"
    assert values(rss("<description>d</description>" + content), "description") == ["d"]
    assert values(rss("<description>&lt;img src='x'></description>" + content), "description") == ["c"]
    assert values(atom('<summary>s</summary><content type="html">c</content>'), "description") == ["s"]
    assert values(atom('<content type="html">&lt;p>c&lt;/p>d</content>'), "description") == ["c d"]
    assert values(atom('<content type="image/png">AAAA</content>'), "description") == []
    assert values(atom('<content type="text/plain">a &lt; b</content>'), "description") == ["a < b"]


def test_inline_markup_in_rss():
    text = rss("<description>a <b xmlns='http://www.w3.org/1999/xhtml'>b</b><!-- no --> c</description>")
    assert values(text, "description") == ["a b c"]


def test_titles_are_plain_and_on_one_line():
    assert values(rss("<title> a \n &lt;em&gt;b&lt;/em&gt; &amp;mdash; c&amp;nbsp;</title>"), "title") == ["a b — c"]
    assert values(rss("<dc:title>d</dc:title>"), "title") == ["d"]


def test_characters_that_xml_cannot_hold():
    text = rss("<title>a&amp;#1;b&amp;#x1F;&lt;i>&amp;#xFFFF;&lt;/i></title>")
    assert len(values(text, "title")) == 1


def test_authors():
    assert values(rss("<itunes:author>I</itunes:author>"), "author") == ["I"]
    assert values(rss("<itunes:author>I</itunes:author><author>A</author>"), "author") == ["A"]
    assert values(rss("<dc:creator>C</dc:creator><dc:creator>C</dc:creator>"), "author") == ["C"]
    assert values(rss("<atom:author><atom:name>N</atom:name></atom:author>"), "author") == ["N"]
    head = "<author><name>F</name></author>"
    assert values(atom("", head), "author") == ["F"]
    assert values(atom("<author><name>E</name></author>", head), "author") == ["E"]
    assert values(atom(f"<source>{head.replace('F', 'S')}</source>", head), "author") == ["S"]
    assert values(atom("<author><email>e@example.org</email></author>"), "author") == []


def test_guids_keep_their_inner_text():
    assert values(rss("<guid>\n a  b </guid>"), "guid") == ["a  b"]


# Times


def test_half_dates_are_absent():
    event, fields = one(rss("<pubDate>2016/6/29 15:07:41</pubDate><title>t</title>", "<title>c</title>"))
    assert "published" not in dict(fields) and event.ts is None
    assert values(rss("<pubDate>soon</pubDate><dc:date>2026-06-01</dc:date>"), "published") == ["2026-06-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("item", "head", "day"),
    [
        ("<pubDate>01 Jun 2026 00:00 GMT</pubDate><atom:updated>2026-06-02</atom:updated>", "", 1),
        ("<atom:updated>2026-06-02</atom:updated>", "<pubDate>03 Jun 2026 00:00 GMT</pubDate>", 2),
        (
            "",
            "<lastBuildDate>04 Jun 2026 00:00 GMT</lastBuildDate><pubDate>03 Jun 2026 00:00 GMT</pubDate>",
            3,
        ),
        ("", "<lastBuildDate>04 Jun 2026 00:00 GMT</lastBuildDate>", 4),
        ("", "<dc:date>2026-06-05</dc:date>", 5),
        ("", "<atom:updated>2026-06-06</atom:updated>", 6),
    ],
)
def test_event_times(item, head, day):
    event, _ = one(rss(item, head))
    assert event.ts == datetime(2026, 6, day, tzinfo=UTC)


def test_event_time_of_atom_feeds():
    assert one(atom("", "<updated>2026-06-07T00:00:00Z</updated>"))[0].ts == datetime(2026, 6, 7, tzinfo=UTC)


# Identity and versions


def test_ids():
    assert one(rss("<guid>g</guid><link>https://example.org/a</link>"))[0].id == "g"
    assert one(rss("<link>https://example.org/a</link>"))[0].id == "https://example.org/a"
    nothing = [one(rss(f"<title>{title}</title>"))[0].id for title in "tut"]
    assert nothing[0] == nothing[2] != nothing[1]


def test_identity_of_the_feed():
    home = "<link>https://example.org/</link><title>T</title>"
    assert one(rss("", home))[0].feed == "https://example.org/ T"
    assert one(rss("", home + '<atom:link rel="self" href="/f"/>'))[0].feed == "https://example.org/f"
    assert one(rss("", "<title>T</title>"))[0].feed == "f.xml"


def test_a_change_of_the_head_is_no_new_version():
    item = "<title>t</title><dc:date>2026-06-01</dc:date>"
    before = one(rss(item))[0].digest
    assert one(rss(item, "<title>U</title><lastBuildDate>x</lastBuildDate>"))[0].digest == before
    assert one(rss(item).replace("<rss ", '<rss xmlns:new="urn:new" '))[0].digest == before
    assert one(rss(item.replace(">t<", ">u<")))[0].digest != before


def test_digest_of_entries_that_have_no_canonical_form():
    text = '<rss xmlns:r="relative"><channel><item r:a="1"/></channel></rss>'
    assert one(text)[0].digest != one(text.replace('"1"', '"2"'))[0].digest


def test_the_published_entry_keeps_its_namespaces():
    raw = split(rss("<title>t</title><dc:creator>c</dc:creator><media:x/>"), channel="news")[1]
    root = parse_xml(raw.xml)
    assert raw.channel == "news.raw"
    assert [child.tag for child in root] == [
        "title",
        "{http://purl.org/dc/elements/1.1/}creator",
        "{http://search.yahoo.com/mrss/}x",
    ]
    assert parse_xml(split(atom("<id>1</id>"))[1].xml).tag == "{http://www.w3.org/2005/Atom}entry"


def test_the_feed_is_not_changed():
    root = parse_xml(RSS_FULL)
    before = etree.tostring(root)
    feed_events(read_tree(root, source="f"))
    assert etree.tostring(root) == before


# Garbage

_NAMES = "title link description guid pubDate author category atom:link atom:content atom:author atom:id dc:date"
_PIECES = st.recursive(
    st.text("a<>&\"'/:?#[]@%\u00e9\n 1-", max_size=12).map(lambda text: text.replace("&", "&amp;").replace("<", "&lt;"))
    | st.sampled_from(
        [
            "https://[",
            "http://a b/",
            "2026-13-01",
            "&#13;",
            "<!-- c -->",
            "<?p i?>",
            "&lt;a href='http://[x'>",
        ]
    ),
    lambda inner: st.builds(
        lambda name, kind, parts: f'<{name} type="{kind}" href="{kind}" xml:base="{kind}">{"".join(parts)}</{name}>',
        st.sampled_from([*_NAMES.split(), "content:encoded", "x", "item", "atom:entry", "atom:name"]),
        st.sampled_from(["html", "xhtml", "text", "", "//", "http://[", "a/b", "\u00e9"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=examples(120))
@given(st.lists(_PIECES, max_size=4).map("".join), st.lists(_PIECES, max_size=3).map("".join))
def test_any_feed(item, head):
    for text in (rss(item, head), f"<atom:feed {NS}>{head}<atom:entry>{item}</atom:entry></atom:feed>"):
        try:
            events = split(text)
        except XsclError:
            continue
        for event in events:
            parse_xml(event.xml)
            assert event.id.strip()


@pytest.mark.parametrize(
    "text",
    [
        "<rss><channel><item/><item/><item/></channel></rss>",
        "<rss><channel><item/><item/><item/>&nbsp;</channel></rss>",
        '{"version": "https://jsonfeed.org/version/1", "title": "t", "items": [{}, {}, {}]}',
    ],
)
def test_the_entries_of_a_feed_are_counted(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_ENTRIES", 2)
    with pytest.raises(DocumentLimitError) as caught:
        read_feed(text.encode(), source="f")
    assert "3 entries" in caught.value.message


VALUES = st.one_of(st.none(), st.text(alphabet=st.sampled_from("ab<>&'\"=\r\n\t\x01é😀"), max_size=6))


@given(VALUES, VALUES, VALUES)
def test_items_are_canonical_or_say_nothing_of_it(title, guid, fact):
    media = (Resource("http://a.org/", (("type", fact),)),) if fact else ()
    text = item_document(Item(title=title, guid=guid, media=media), Feed("f"))
    assert not isinstance(text, CanonicalDocument) or stored_document(text) == text


def test_entries_as_published_are_canonical_unless_they_cannot_be_read_alone():
    root = parse_xml("<rss><channel><title>t</title><item><guid>1</guid></item></channel></rss>")
    document = read_tree(root, source="f")
    (entry,) = document.entries
    assert isinstance(next(read_entries([entry], document.feed))[1], CanonicalDocument)
    odd = replace(entry, raw="<item ><guid>1</guid></item>")
    assert type(next(read_entries([odd], document.feed))[1]) is str
