"""The body of an answer into a feed document, with what the feed asks of those who poll it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.encodings import character_encoding
from xscl.base.errors import MalformedDocumentError, SourceError, XsclError
from xscl.base.safe_xml import in_fresh_dictionary, parse_xml
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.markup import absolute_url, is_web, parse_html
from xscl.ingest.poll_hints import NO_HINTS, Hints, read_hints
from xscl.ingest.records import FeedDocument

__all__ = ["FetchedFeed", "feed_links", "read_fetched"]

_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml"})
_HTML = re.compile(
    # Possessive: each comment is read in one way, else time doubles with each that comes before no page.
    rb"\s*+(?:<\?xml[^>]*+>\s*+)?(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_HINT_WORDS = (b"ttl", b"skipHours", b"skipDays", b"updatePeriod")
_HEAD = 200_000
"""Bytes of a page in which links to feeds are looked for."""
_MOST_LINKS = 20
_MAX_HEADER = 200


@dataclass(frozen=True, slots=True)
class FetchedFeed:
    """A feed as it was fetched."""

    document: FeedDocument
    hints: Hints


def read_fetched(
    body: bytes, *, url: str, channel: str, content_type: str = "", limits: Limits = DEFAULT_LIMITS
) -> FetchedFeed:
    """Read a body as a feed.

    A document says itself how it is encoded; the header's ``charset``, which is often wrong, is tried where the
    document cannot be read so.

    Raises:
        XsclError: ``XSCL_NOT_A_FEED``, which for a page of HTML names the feeds it links to; or the document is not
            well-formed or over a limit.
    """
    return in_fresh_dictionary(_read, body, url, channel, content_type, limits)


def _read(body: bytes, url: str, channel: str, content_type: str, limits: Limits) -> FetchedFeed:
    found: FeedDocument | None = None
    problem = f"{url} is XML of another kind"
    try:
        found = read_feed(body, source=url, channel=channel, limits=limits)
    except MalformedDocumentError as error:
        problem = f"{url}: {error.message}"
    if found is None and _HTML.match(body[:_HEAD]):
        raise _page(body, url)
    if (found is None or found.flaw) and (recoded := _recoded(body, content_type)) is not None:
        found = _read_recoded(recoded, url, channel, limits) or found
    if found is None:
        raise SourceError("XSCL_NOT_A_FEED", problem)
    return FetchedFeed(found, _hints(body, limits))


def _read_recoded(body: bytes, url: str, channel: str, limits: Limits) -> FeedDocument | None:
    """Return the feed, if it is well-formed now."""
    try:
        found = read_feed(body, source=url, channel=channel, limits=limits)
    except XsclError:
        return None
    return found if found is not None and found.flaw is None else None


def _hints(body: bytes, limits: Limits) -> Hints:
    if not any(word in body for word in _HINT_WORDS):
        return NO_HINTS
    try:
        return read_hints(parse_xml(body.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n"), limits=limits))
    except XsclError:
        return NO_HINTS


def _recoded(body: bytes, content_type: str) -> bytes | None:
    """Return the body in UTF-8, read as the header says; None where it says nothing that helps."""
    if len(content_type) > _MAX_HEADER or "*" in content_type:  # which would name a codec for the name
        return None
    header = Message()
    header["content-type"] = content_type
    charset = character_encoding(header.get_content_charset() or "")
    if charset is None:
        return None
    try:
        text = body.decode(charset)
    except ValueError:
        return None
    # What the document says of its encoding is wrong now.
    return re.sub(r"^\s*<\?xml.*?\?>", "", text, count=1, flags=re.DOTALL).encode("utf-8", "surrogatepass")


def _page(body: bytes, url: str) -> SourceError:
    found = list(feed_links(body, url))
    hint = f"add one of its feeds: {', '.join(found)}" if found else "it links to no feed"
    return SourceError("XSCL_NOT_A_FEED", f"{url} is a page of HTML", hint=hint)


def feed_links(body: bytes, url: str) -> Iterator[str]:
    """Yield the addresses of the feeds that a page of HTML names (``link rel=alternate``), each once."""
    tree = parse_html(body[:_HEAD].decode("utf-8", "replace"))
    seen: set[str] = set()
    for link in [] if tree is None else tree.iter("link"):
        kind = (link.get("type") or "").partition(";")[0].strip().lower()
        if "alternate" not in (link.get("rel") or "").lower().split() or kind not in _FEED_TYPES:
            continue
        target = absolute_url(url, link.get("href") or "")
        if is_web(target) and target not in seen and len(seen) < _MOST_LINKS:
            seen.add(target)
            yield target
