"""JSON Feed, versions 1 and 1.1: the same entries as from XML.

The entry goes to ``C.raw`` as XML, because channels take documents: the root is ``item``, each member of the
JSON object is a child element of its name without a namespace, an object has its members inside, an array is its
element repeated, and true, false and numbers are written as in JSON.  null, and members whose name is no XML name, are
left out, as are those whose name has more than 200 characters, because an array repeats it.

    {"id": "1", "tags": ["a", "b"], "author": {"name": "Ann"}}
    <item><id>1</id><tags>a</tags><tags>b</tags><author><name>Ann</name></author></item>
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from xscl.base.document_limits import Limits
from xscl.base.errors import DocumentLimitError, SourceError
from xscl.base.values import digest_text
from xscl.ingest.dates import parse_date
from xscl.ingest.feed import check_entries, check_entry_size
from xscl.ingest.item import Feed, Item, Resource, bounded, distinct, feed_identity
from xscl.ingest.markup import absolute_url, clean, collapse, is_web, links, read_html
from xscl.ingest.records import Entry, FeedDocument

__all__ = ["looks_like_json_feed", "read_json_feed"]

_VERSION = re.compile(rb'"version"\s*:\s*"https?:\\?/\\?/(?:www\.)?jsonfeed\.org\\?/version\\?/')
_NAME = re.compile(r"[^\W\d][\w.-]{0,199}")

_Object = Mapping[str, object]


def looks_like_json_feed(head: bytes) -> bool:
    """Whether the beginning of a file that starts with ``{`` says that it is a JSON Feed.

    >>> looks_like_json_feed(b'{"version": "https://jsonfeed.org/version/1", "title"')
    True
    """
    return _VERSION.search(head) is not None


def read_json_feed(data: bytes, *, source: str, channel: str = "items", limits: Limits) -> FeedDocument:
    """Return the feed and its entries, in order.

    Raises:
        SourceError: ``XSCL_NOT_A_FEED``: it is no JSON, or no JSON Feed; the message has the place.
        DocumentLimitError: ``XSCL_DOCUMENT_LIMIT``: more bytes, or deeper, than a document may be.
    """
    if len(data) > limits.max_bytes:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT",
            f"the document has {len(data):,} bytes; the limit max_bytes is {limits.max_bytes:,}",
        )
    root = _root(data, source)
    items = root.get("items")
    if not isinstance(items, list):
        raise SourceError("XSCL_NOT_A_FEED", f"{source}: a JSON Feed has an array of items")
    feed = _feed(root, source)
    check_entries(len(items))
    entries: list[Entry] = []
    size = 0
    for item in items:
        if isinstance(item, dict):
            raw = ["<item>"]
            for piece in _elements(item, limits.max_depth - 1):
                raw.append(piece)
                size += len(piece)
                check_entry_size(size)
            entries.append(_entry(item, feed, "".join([*raw, "</item>"])))
    return FeedDocument(feed, tuple(entries), channel, source)


def _root(data: bytes, source: str) -> _Object:
    try:
        root = json.loads(data.decode("utf-8-sig", "replace"))
    except json.JSONDecodeError as error:
        place = f"{source}: line {error.lineno}, column {error.colno}"
        raise SourceError("XSCL_NOT_A_FEED", f"{place}: no JSON Feed, because it is no JSON: {error.msg}") from None
    except RecursionError:
        raise DocumentLimitError("XSCL_DOCUMENT_LIMIT", f"{source}: the JSON nests too deeply") from None
    except ValueError:
        raise SourceError("XSCL_NOT_A_FEED", f"{source}: a number has more digits than can be read") from None
    if not isinstance(root, dict):
        raise SourceError("XSCL_NOT_A_FEED", f"{source}: a JSON Feed is one object")
    return root


def _feed(root: _Object, source: str) -> Feed:
    address = source if is_web(source) else ""
    home = absolute_url(address, _text(root, "home_page_url")) or None
    url = absolute_url(home or address, _text(root, "feed_url")) or None
    title = _line(root, "title")
    identity = feed_identity(url, home, title, source)
    return bounded(Feed(identity, url or home, title, None, _authors(root), home, _line(root, "language"), address))


def _entry(item: dict[str, object], feed: Feed, raw: str) -> Entry:
    guid = clean(_text(item, "id")).strip() or None
    written = [_text(item, name) for name in ("title", "summary", "content_html", "content_text")]
    made = _item(item, feed, guid)
    return Entry(
        guid,
        made.item_url,
        digest_text(*written) if any(written) else "",
        _line(item, "date_published"),
        _line(item, "date_modified"),
        digest_text(json.dumps(item, sort_keys=True)),
        digest_text(json.dumps({name: value for name, value in item.items() if name != "id"}, sort_keys=True)),
        raw,
        made,
    )


def _item(item: _Object, feed: Feed, guid: str | None) -> Item:
    url = absolute_url(feed.url or feed.address, _text(item, "url") or _text(item, "external_url"))
    if not url and guid and is_web(guid):
        url = guid
    base = url or feed.url or feed.address
    html = read_html(_text(item, "content_html"))
    content = html.text or _line(item, "content_text")
    summary = _line(item, "summary")
    return Item(
        url or None,
        _line(item, "title"),
        _authors(item) or feed.authors,
        parse_date(_text(item, "date_published")),
        parse_date(_text(item, "date_modified")),
        summary or content or None,
        distinct([collapse(tag) for tag in _list(item, "tags") if isinstance(tag, str)]),
        guid,
        distinct(links(html.hrefs, base)),
        content if summary and content != summary else None,
        _line(item, "language") or feed.language,
        None,
        _attachments(item, base),
        _images(item, base),
    )


def _attachments(item: _Object, base: str) -> tuple[Resource, ...]:
    found = []
    for one in _list(item, "attachments"):
        if isinstance(one, dict) and (url := absolute_url(base, _text(one, "url"))):
            facts = (("type", _text(one, "mime_type")), ("length", _number(one.get("size_in_bytes"))))
            found.append(Resource(url, tuple((name, collapse(text)) for name, text in facts if text)))
    return tuple(dict.fromkeys(found))


def _images(item: _Object, base: str) -> tuple[Resource, ...]:
    urls = distinct([absolute_url(base, _text(item, name)) for name in ("image", "banner_image")])
    return tuple(Resource(url, (("medium", "image"),)) for url in urls)


def _authors(fields: _Object) -> tuple[str, ...]:
    # Version 1 has one author, 1.1 a list.
    people = [*_list(fields, "authors"), fields.get("author")]
    return distinct([collapse(_text(person, "name")) for person in people if isinstance(person, dict)])


def _elements(fields: _Object, depth: int) -> Iterator[str]:
    for name, value in fields.items():
        if _NAME.fullmatch(name):
            for one in value if isinstance(value, list) else [value]:
                yield from _element(name, one, depth)


def _element(name: str, value: object, depth: int) -> Iterator[str]:
    if value is None or depth == 0:
        return
    if isinstance(value, dict):
        yield f"<{name}>"
        yield from _elements(value, depth - 1)
        yield f"</{name}>"
    elif isinstance(value, list):
        for one in value:
            yield from _element(name, one, depth - 1)
    else:
        yield f"<{name}>{escape(clean(value if isinstance(value, str) else json.dumps(value)))}</{name}>"


def _text(fields: _Object, name: str) -> str:
    """Return a text of the object; an ``id`` may be a number, as some write it."""
    value = fields.get(name)
    return value if isinstance(value, str) else _number(value)


def _number(value: object) -> str:
    return json.dumps(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


def _line(fields: _Object, name: str) -> str | None:
    return collapse(_text(fields, name)) or None


def _list(fields: _Object, name: str) -> list[object]:
    value = fields.get(name)
    return value if isinstance(value, list) else []
