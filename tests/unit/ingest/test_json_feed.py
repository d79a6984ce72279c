"""JSON Feed: the same items, and its entries as XML."""

from __future__ import annotations

import json

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.document_limits import Limits
from xscl.base.errors import DocumentLimitError, SourceError, XsclError
from xscl.base.safe_xml import parse_xml
from xscl.ingest.expand import feed_events
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.json_feed import looks_like_json_feed

HEAD = {
    "version": "https://jsonfeed.org/version/1.1",
    "title": "The feed",
    "home_page_url": "https://example.org/",
    "feed_url": "/feed.json",
    "language": "de",
    "authors": [{"name": "Feed"}],
}
ITEM = {
    "id": "1",
    "url": "a",
    "title": "A & B",
    "content_html": '<p>Hello <b>w</b>orld <a href="/x/">x</a></p>',
    "summary": "Short",
    "date_published": "2026-06-01T09:30:00+02:00",
    "date_modified": "2026-06-02",
    "tags": ["t", "u"],
    "author": {"name": "Ann"},
    "image": "/i.png",
    "attachments": [{"url": "/a.mp3", "mime_type": "audio/mpeg", "size_in_bytes": 12}],
}


def read(*items, **head):
    return read_feed(json.dumps({**HEAD, **head, "items": list(items)}).encode(), source="f.json")


def test_all_fields():
    document = read(ITEM)
    event, raw = feed_events(document)
    assert [(child.tag, child.text) for child in parse_xml(event.xml)] == [
        ("item_url", "https://example.org/a"),
        ("channel_url", "https://example.org/feed.json"),
        ("channel_title", "The feed"),
        ("title", "A & B"),
        ("author", "Ann"),
        ("published", "2026-06-01T07:30:00Z"),
        ("updated", "2026-06-02T00:00:00Z"),
        ("description", "Short"),
        ("category", "t"),
        ("category", "u"),
        ("guid", "1"),
        ("link", "https://example.org/x"),
        ("content", "Hello world x"),
        ("language", "de"),
        ("enclosure", "https://example.org/a.mp3"),
        ("media", "https://example.org/i.png"),
    ]
    assert (event.id, event.time_source, event.feed) == ("1", "published", "https://example.org/feed.json")
    assert dict(parse_xml(event.xml).find("enclosure").attrib) == {"type": "audio/mpeg", "length": "12"}
    root = parse_xml(raw.xml)
    assert raw.channel == "items.raw" and root.tag == "item"
    assert [tag.text for tag in root.findall("tags")] == ["t", "u"]
    assert root.findtext("author/name") == "Ann" and root.findtext("attachments/size_in_bytes") == "12"


def test_ids_may_be_numbers_and_authors_the_feeds():
    (event, _) = feed_events(read({"id": 7, "content_text": "t"}))
    root = parse_xml(event.xml)
    assert event.id == "7" and root.findtext("author") == "Feed" and root.findtext("description") == "t"


def test_the_order_of_members_is_no_change():
    one, other = (read(item).entries[0] for item in (ITEM, dict(reversed(ITEM.items()))))
    assert one.digest == other.digest != read({**ITEM, "title": "C"}).entries[0].digest


def test_names_that_xml_cannot_have_are_left_out():
    (_, raw) = feed_events(read({"id": "1", "a b": 1, "_x": None, "y": [[1, True], {"z": "<&\u0001"}]}))
    assert parse_xml(raw.xml).xpath("string()") == "11true<&"


@pytest.mark.parametrize("data", [b"{", b'{"version": "https://jsonfeed.org/version/1", ', b"{}", b'{"version": "1"}'])
def test_what_is_no_feed(data):
    with pytest.raises(SourceError) as caught:
        read_feed(data, source="f.json")
    assert caught.value.condition == "XSCL_NOT_A_FEED" and "f.json" in caught.value.message


def test_what_is_told_of_bad_json():
    data = json.dumps({**HEAD, "items": []}, indent=1).encode()[:-4]
    with pytest.raises(SourceError, match=r"line \d+, column \d+"):
        read_feed(data, source="f.json")


def test_feeds_over_the_limit():
    with pytest.raises(DocumentLimitError):
        read_feed(json.dumps({**HEAD, "items": []}).encode(), source="f", limits=Limits(max_bytes=10))


def test_event_files_are_no_feeds():
    assert not looks_like_json_feed(b'{"channel": "S", "xml": "<a/>"}')
    assert not looks_like_json_feed(json.dumps({"channel": "S", "xml": json.dumps(HEAD)}).encode())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["https://a.org/", "http://["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*ITEM, "name", "é", "a:b"]), inner),
    max_leaves=10,
)


@settings(deadline=None, max_examples=examples(80))
@given(
    st.lists(st.dictionaries(st.sampled_from(list(ITEM)), JSON) | JSON, max_size=3),
    st.dictionaries(st.sampled_from(list(HEAD)), JSON),
)
def test_any_json(items, head):
    data = {**HEAD, **head, "items": items}
    data["version"] = HEAD["version"]
    document = read_feed(json.dumps({"version": data.pop("version"), **data}).encode(), source="f")
    for event in feed_events(document):
        parse_xml(event.xml)
        assert event.id


@settings(deadline=None)
@given(st.binary(), st.integers(0, 200))
def test_any_damage(data, place):
    text = json.dumps({**HEAD, "items": [ITEM]}).encode()
    try:
        document = read_feed(text[:place] + data + text[place:], source="f")
    except XsclError:
        return
    assert document is None or feed_events(document) is not None
