"""Families of documents, each of a size, whose cost must grow with that size and no faster.

Each family repeats one thing that XML allows at one place of a document: before, in or behind the root element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

__all__ = ["DOCUMENTS", "FEEDS", "Family"]

Family = Callable[[int], bytes]
"""A number of repeated things to a document."""


def _joined(thing: str, size: int) -> str:
    """Write a thing so many times, each with its number for ``#``."""
    return "".join(thing.replace("#", str(n)) for n in range(size))


DECLARATIONS = _joined("xmlns:p#='u#' ", 190)


def _inside(thing: str, root: str = "r", attributes: str = "") -> Family:
    return lambda size: f"<{root} {attributes}>{thing * size}</{root}>".encode()


def _numbered(thing: str, root: str = "<r>{}</r>", most: int = 9_000) -> Family:
    """Things that differ by a number of at most ``most``."""
    return lambda size: root.format("".join(thing.replace("#", str(n % most)) for n in range(size))).encode()


def _deep(start: str, end: str, levels: int = 190) -> Family:
    """Towers of elements beside each other, with ``size`` elements altogether."""
    return lambda size: f"<r>{(start * levels + end * levels) * (size // levels + 1)}</r>".encode()


def _declaring(declared: str, thing: str) -> Family:
    return lambda size: f"<!DOCTYPE r [{declared}]><r>{thing * min(size, 120_000)}</r>".encode()


DOCUMENTS: Mapping[str, Family] = MappingProxyType(
    {
        "comments before": lambda size: b"<!--a-->" * size + b"<r/>",
        "instructions before": lambda size: b"<?a b?>" * size + b"<r/>",
        "both before and behind": lambda size: b"<?a?><!--b-->" * size + b"<r>x</r>" + b"<!--a--><?b?>" * size,
        "comments behind": lambda size: b"<r/>" + b"<!--a-->" * size,
        "instructions behind": lambda size: b"<r/>" + b"<?a b?>" * size,
        "blanks before": lambda size: b"\n" * size + b"<r/>",
        "blanks behind": lambda size: b"<r/>" + b" \n" * size,
        "elements": _inside("<a/>"),
        "elements with text": _inside("<a>x</a>y"),
        "comments": _inside("<!--a-->"),
        "comments and text": _inside("x<!--a-->"),
        "instructions": _inside("<?a?>"),
        "comments in elements": _inside("<a><!--b--></a>"),
        "elements and comments": _inside("<a/><!--b-->"),
        "CDATA": _inside("<![CDATA[a]]>"),
        "CDATA and text": _inside("a<![CDATA[a]]>"),
        "references": _inside("&amp;&#65;"),
        "one long text": _inside("aaaaaaaa"),
        "signs of equality": _inside("a=b "),
        "one long comment": lambda size: b"<r><!--" + b"ab - " * size + b"--></r>",
        "one long value": lambda size: b"<r a='" + b"&lt;b " * size + b"'/>",
        "attributes": _inside("<a b='1' c='2'/>"),
        "many attributes": lambda size: _inside("<a " + _joined("b#='#' ", 1_000) + "/>")(size // 1_000 + 1),
        "distinct elements": _numbered("<a#/>"),
        "distinct attributes": _numbered("<a b#='1'/>"),
        "distinct instructions": _numbered("<?a# b?>"),
        "long names": _inside(f"<{'a' * 5_000}/>"),
        "long names of attributes": _inside(f"<a {'b' * 5_000}='1'/>"),
        "deep": _deep("<a>", "</a>"),
        "deep with text": _deep("<a>x", "y</a>"),
        "deep with comments": _deep("<a><!--x-->", "<!--y--></a>"),
        "deep, a declaration a level": _deep("<a xmlns='u'>", "</a>"),
        "broad below deep": lambda size: b"<a>" * 190 + b"<b c='1'>x</b>" * size + b"</a>" * 190,
        "declarations": _inside("<a xmlns='u'/>"),
        "declarations that differ": _numbered("<a xmlns='u#'/>", most=190),
        "prefixes": _inside("<p:a p:b='1'/>", attributes="xmlns:p='u'"),
        "prefixes that differ": _numbered("<p#:a/>", f"<r {DECLARATIONS}>{{}}</r>", most=190),
        "elements below declarations": _inside("<a b='1'/>", attributes=DECLARATIONS),
        "declarations below declarations": _inside("<a xmlns:q='v'/>", attributes=DECLARATIONS),
        "a long namespace": _inside("<p:a/>", attributes=f"xmlns:p='{'u' * 490}'"),
        "a long namespace of attributes": _inside("<a p:b='1'/>", attributes=f"xmlns:p='{'é' * 490}'"),
        "an entity": _declaring("<!ENTITY e 'x'>", "&e;"),
        "an entity of elements": _declaring("<!ENTITY e '<a>x</a>'>", "&e;"),
        "an entity in attributes": _declaring("<!ENTITY e 'x'>", "<a b='&e;'/>"),
        "entities": lambda size: (
            "<!DOCTYPE r [" + _joined("<!ENTITY e# 'x'>", min(size, 30_000)) + "]><r>&e0;</r>"
        ).encode(),
        "comments in declarations": lambda size: f"<!DOCTYPE r [{'<!--a-->' * min(size, 120_000)}]><r/>".encode(),
        "declarations of attributes": lambda size: (
            "<!DOCTYPE r [" + _joined("<!ATTLIST r a# CDATA 'x'>", min(size, 20_000)) + "]><r/>"
        ).encode(),
        "a document type and comments": lambda size: b"<!DOCTYPE r SYSTEM '<!--'>" + b"<!--a-->" * size + b"<r/>",
        "texts that look like markup": _inside("<!--<a b='1'>--><![CDATA[<a>]]>"),
    }
)
"""Well-formed documents within all limits, up to some 200,000 repeated things."""

_ITEM = "<item><title>a</title><guid>g#</guid><link>http://example.org/#</link></item>"
_ENTRY = "<entry><id>g#</id><title>t</title><link href='http://example.org/#'/></entry>"


def _rss(items: str, head: str = "", root: str = "") -> bytes:
    return f"<rss version='2.0' {root}><channel><title>f</title>{head}{items}</channel></rss>".encode()


def _rss_of(item: str, head: str = "", root: str = "") -> Family:
    return lambda size: _rss(_joined(item, size), head, root)


def _one_item(thing: str, root: str = "") -> Family:
    """A feed of one item in which things repeat."""
    return lambda size: _rss(f"<item><guid>g</guid>{_joined(thing, size)}</item>", root=root)


_DC = "http://purl.org/dc/elements/1.1/"
_MEDIA = "xmlns:media='http://search.yahoo.com/mrss/'"
_ATOM = "xmlns='http://www.w3.org/2005/Atom'"

FEEDS: Mapping[str, Family] = MappingProxyType(
    {
        "items": _rss_of(_ITEM),
        "entries": lambda size: f"<feed {_ATOM}><title>f</title>{_joined(_ENTRY, size)}</feed>".encode(),
        "items below declarations": _rss_of(_ITEM, root=DECLARATIONS),
        "items below comments": lambda size: b"<!--a-->" * size + _rss_of(_ITEM)(size),
        "comments between items": _rss_of(_ITEM + "<!--a-->"),
        "comments in one item": _one_item("<!--a-->"),
        "texts in one item": _one_item("x<b/>"),
        "titles in one item": _one_item("<title/>"),
        "dates in one item": _one_item("<pubDate>never</pubDate>"),
        "categories in one item": _one_item("<category>c#</category>"),
        "authors in one item": _one_item("<author>c#</author>"),
        "enclosures in one item": _one_item("<enclosure url='u#' type='t'/>"),
        "guids in one item": _one_item("<guid isPermaLink='false'></guid>"),
        "media in one item": _one_item("<media:content url='u#'/>", _MEDIA),
        "media below deep": lambda size: _one_item(
            "<a xml:base='b/'>" * 180 + _joined("<media:content url='u#'/>", size) + "</a>" * 180, _MEDIA
        )(1),
        "links of HTML": _one_item("<description>&lt;a href='x#'&gt;</description>"),
        "deep HTML": lambda size: _rss(f"<item><guid>g</guid><description>{'&lt;b&gt;x' * size}</description></item>"),
        "named characters": _one_item("<description>&amp;eacute;</description>"),
        "a long title of the feed": lambda size: _rss(
            _joined("<item><guid>#</guid></item>", size), f"<dc:title xmlns:dc='{_DC}'>{'t' * size}</dc:title>"
        ).replace(b"<title>f</title>", b""),
        "a long base": lambda size: _one_item("<enclosure url='u#'/>", f"xml:base='http://a.org/{'b/' * size}'")(size),
        "many authors of the feed": lambda size: (
            f"<feed {_ATOM}><title>f</title>{_joined('<author><name>a#</name></author>', size)}"
            f"{_joined(_ENTRY, size)}</feed>".encode()
        ),
        "items in items of CDF": lambda size: (
            f"<CHANNEL>{('<ITEM>' * 150 + '</ITEM>' * 150) * (size // 150 + 1)}</CHANNEL>".encode()
        ),
        "not closed": lambda size: b"<rss><channel>" + b"<item><title>x" * size,
        "comments not closed": lambda size: b"<rss><channel>" + b"<item><title>x</title></item><!--" * size,
        "instructions not closed": lambda size: b"<rss><channel><item><title>x</title></item>" + b"<?" * size,
        "sections not closed": lambda size: b"<rss><channel><item><title>x</title></item>" + b"<![CDATA[" * size,
        "a long word in a broken feed": lambda size: (
            b"<rss><channel><item><author>" + b"a" * size * 40 + b"</author><b></item></channel></rss>"
        ),
        "blanks before a broken feed": lambda size: b"\n" * size * 40 + b"<rss><channel><item><title>a</item>",
        "names that nobody declared": lambda size: (
            b"<rss><channel>" + b"<item><title>&eacute;&nope;</title></item>" * size + b"</channel></rss>"
        ),
        "a page after comments": lambda size: b"<!--a-->" * size + b"<page/>",
        "blanks before a page": lambda size: b" " * size + b"<page/>",
        "entities of declarations": lambda size: (
            b"<!DOCTYPE rss [" + b"<!ENTITY a 'b'>" * size + b"]><rss><channel><item/></channel></rss>"
        ),
    }
)
"""Bodies of answers that are taken for feeds, well-formed or not."""
