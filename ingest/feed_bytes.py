"""The bytes of a feed of any format into its entries: strictly where it is well-formed, else tolerantly, and said so.

HTML's names of characters (``&eacute;``) are declared in no feed, and a DTD that a feed names is never opened, so they
are put in by their standard meaning.  A feed that is otherwise not well-formed is read by ``broken_feed``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html.entities import name2codepoint

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import MalformedDocumentError, SourceError
from xscl.base.safe_xml import parse_xml
from xscl.ingest.broken_feed import looks_like_feed, read_broken_feed
from xscl.ingest.feed import is_feed, read_tree
from xscl.ingest.json_feed import looks_like_json_feed, read_json_feed
from xscl.ingest.records import FeedDocument

__all__ = ["read_feed", "with_named_characters"]

_HEAD = 4096
_OWN = ("amp", "lt", "gt", "quot", "apos")
# What is no markup is passed over, to the end if it has none; a reference is there only outside of it.
_NAMED = re.compile(
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|&([A-Za-z][A-Za-z0-9]*+);", re.DOTALL
)
_DECLARED = re.compile(rb"<!ENTITY\s+([A-Za-z][A-Za-z0-9]*)\s")
_OUTSIDE = re.compile(rb"<!DOCTYPE\s+[^\s\[>]+\s+(?:PUBLIC|SYSTEM)\s")


def read_feed(
    data: bytes, *, source: str, channel: str = "items", limits: Limits = DEFAULT_LIMITS
) -> FeedDocument | None:
    """Return the feed; None if this is a well-formed document of another kind.

    Call it in ``safexml.in_fresh_dictionary`` where a process goes on.

    Args:
        data: the whole content, unpacked.
        source: the path or address it was read from; an address serves to complete relative links.
        channel: the channel of the normalised items.
        limits: what a document may be.

    Raises:
        SourceError: ``XSCL_NOT_A_FEED``: JSON that is no feed, or a feed's root without a channel and items.
        DocumentError: ``XSCL_MALFORMED_DOCUMENT``: not well-formed, and nothing could be made out of it;
            ``XSCL_DOCUMENT_LIMIT``.  The message has the place.
    """
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if start.startswith(b"{"):
        if looks_like_json_feed(start[:_HEAD]):
            return read_json_feed(start, source=source, channel=channel, limits=limits)
        raise SourceError("XSCL_NOT_A_FEED", f"{source}: JSON whose beginning gives no version of JSON Feed")
    if start.startswith(b"<?xml"):
        # XML wants its declaration at the very start; publishers leave blank lines before it.
        data = start
    try:
        return _strict(data, source, channel, limits)
    except MalformedDocumentError as error:
        if not looks_like_feed(data):
            raise
        found = _tolerant(data, source, channel, limits)
        if found is None:
            raise
        # libxml2 quotes the text it stumbled over, over many lines.
        return replace(found, flaw=error.message.partition("\n")[0][:300])


def _strict(data: bytes, source: str, channel: str, limits: Limits) -> FeedDocument | None:
    if _OUTSIDE.search(data[:_HEAD]):
        # What is declared outside, in the DTD of RSS 0.91, is HTML's names.
        data = with_named_characters(data)
    root = parse_xml(data, limits=limits)
    return read_tree(root, source=source, channel=channel) if is_feed(root) else None


def _tolerant(data: bytes, source: str, channel: str, limits: Limits) -> FeedDocument | None:
    # Something may stand before the declaration, such as a blank line or a warning of the program that wrote it.
    start = max(data.find(b"<?xml"), 0)
    try:
        found = _strict(with_named_characters(data[start:]), source, channel, limits)
    except MalformedDocumentError:
        found = None
    return found or read_broken_feed(data, source=source, channel=channel)


def with_named_characters(data: bytes) -> bytes:
    """Return an XML document with HTML's named characters written as numbers, but for names that it declares itself.

    >>> with_named_characters(b"<a>&eacute; &amp; <![CDATA[&eacute;]]></a>")
    b'<a>&#233; &amp; <![CDATA[&eacute;]]></a>'
    """
    declared = set(_DECLARED.findall(data)) if b"<!ENTITY" in data else set()

    def number(found: re.Match[bytes]) -> bytes:
        name = found[1]
        if name is None or name in declared or name.decode() in _OWN:
            return found[0]
        code = name2codepoint.get(name.decode())
        return b"&#%d;" % code if code else found[0]

    return _NAMED.sub(number, data)
