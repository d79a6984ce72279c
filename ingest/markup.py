"""The markup of strangers as plain text and as links.  Nothing is fetched, nothing is run, nothing raises.

A *fragment* is either text that holds HTML, parsed by ``parse_html``, or an element of a feed with XHTML
inside; both are read in the same way, by local names.  HTML nested deeper than libxml2 allows (256) is cut
there.  Plain HTML is read without a tree, which gives the same.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from lxml import etree

from xscl.base.values import canonical_url
from xscl.base.xml_characters import NO_CHARACTER
from xscl.ingest.plain_html import plain_html

__all__ = [
    "MAX_ADDRESS",
    "NOTHING",
    "Markup",
    "absolute_url",
    "clean",
    "collapse",
    "fragment_text",
    "has_scheme",
    "is_web",
    "links",
    "parse_html",
    "read_fragment",
    "read_html",
    "split_name",
    "split_tag",
]

MAX_ADDRESS = 2_000
"""Characters of an address that others are completed with, inclusive: each of them repeats it."""

_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r")
_SILENT = frozenset({"script", "style", "template", "noembed", "noframes"})
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "br", "dd", "details", "dialog", "div", "dl", "dt", "fieldset"),
        *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main"),
        *(
            "nav",
            "ol",
            "option",
            "p",
            "pre",
            "section",
            "summary",
            "table",
            "tbody",
            "td",
            "tfoot",
            "th",
            "thead",
            "tr",
        ),
        "ul",
    }
)
_TAG = re.compile("</?([^ \t\n/>]+)[^>]*>")
_COMMENT = re.compile("<!--.*?-->", re.DOTALL)
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")


def clean(text: str) -> str:
    r"""Return ``text`` without the characters that XML cannot hold.

    >>> clean("a\x01b")
    'ab'
    """
    if text.isprintable():
        return text
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return NO_CHARACTER.sub("", text)
    whole = len(data.translate(None, _CONTROLS)) == len(data) and b"\xef\xbf" not in data
    return text if whole else NO_CHARACTER.sub("", text)


def collapse(text: str) -> str:
    r"""Return a text as one line: every run of white space, no-break spaces included, is one space; none at the ends.

    >>> collapse(" a \n\u00a0b ")
    'a b'
    """
    if text.isprintable() and "  " not in text:  # a space is the only white space in it
        return text.strip(" ")
    return " ".join(clean(text).split())


def split_name(node: etree._Element) -> tuple[str, str]:
    """Return the namespace and the local name of an element; both empty for comments and processing instructions."""
    tag = node.tag
    return split_tag(tag) if isinstance(tag, str) else ("", "")


@lru_cache(maxsize=512)
def split_tag(tag: str) -> tuple[str, str]:
    """Return the namespace and the local name of a tag."""
    namespace, _, name = tag.rpartition("}")
    return namespace[1:], name


def _effect(node: etree._Element) -> str:
    """Tell the effect of an element of HTML on its text: ``silent``, ``block`` or neither."""
    return _effect_of(node.tag) if isinstance(node.tag, str) else ""


@lru_cache(maxsize=512)
def _effect_of(tag: str) -> str:
    name = split_tag(tag)[1].lower()
    return "silent" if name in _SILENT else "block" if name in _BLOCKS else ""


class Markup(NamedTuple):
    """Text and links of a fragment."""

    text: str
    """Its text on one line."""
    hrefs: Sequence[str]
    """References of its links (``<a href>``), in document order."""


NOTHING = Markup("", ())


class _Local(threading.local):
    """One parser for each thread: to make one takes as long as a short text."""

    def __init__(self) -> None:
        self.parser = etree.HTMLParser(
            encoding="utf-8", no_network=True, recover=True, remove_pis=True, huge_tree=False
        )


_local = _Local()


def parse_html(text: str) -> etree._Element | None:
    """Return the tree of an HTML fragment; None where nothing is left of it."""
    return _tree(clean(text))


def _tree(text: str) -> etree._Element | None:
    """Do what ``parse_html`` does for a text without the characters that XML cannot hold."""
    try:
        # The element in front keeps leading text and white space where they are.
        return etree.fromstring(b"<div>" + text.encode("utf-8"), _local.parser)
    except (etree.LxmlError, ValueError):
        return None


def read_html(text: str) -> Markup:
    """Read a text that holds HTML.

    >>> read_html('<p>a</p><p><a href="/b">b</a></p>')
    Markup(text='a b', hrefs=['/b'])
    """
    text = clean(text)
    if (plain := plain_html(text)) is not None:
        return Markup(collapse(plain[0]), plain[1])
    tree = _tree(text)
    return NOTHING if tree is None else read_fragment(tree)


def read_fragment(fragment: etree._Element) -> Markup:
    """Read a fragment that is a tree."""
    return Markup(fragment_text(fragment), [node.get("href") or "" for node in fragment.iter("{*}a", "{*}A")])


def fragment_text(fragment: etree._Element) -> str:
    """Return the text of a fragment on one line; words of different blocks stay apart, scripts and styles go.

    >>> fragment_text(parse_html("<p>a &amp; <b>b</b>c</p><p>d</p><script>e</script>"))
    'a & bc d'
    """
    if len(fragment) == 0 and _effect(fragment) != "silent":
        return collapse(fragment.text or "")
    text = _html_text(fragment) if fragment.tag == "html" else None
    return collapse("".join(_pieces(fragment)) if text is None else text)


def _html_text(root: etree._Element) -> str | None:
    """Return the text of what ``parse_html`` gave, from its markup; None where that has silent elements or references.

    libxml2 writes ``<`` and ``>`` for nothing but tags and comments.
    """
    markup: str = etree.tostring(root, encoding="unicode")
    if "<!--" in markup:
        markup = _COMMENT.sub("", markup)
    parts = _TAG.split(markup)
    names = parts[1::2]
    if "&#" in markup or not _SILENT.isdisjoint(names):
        return None
    parts[1::2] = [" " if name in _BLOCKS else "" for name in names]
    return "".join(parts).replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")


def _pieces(fragment: etree._Element) -> Iterator[str]:
    walker = etree.iterwalk(fragment, events=("start", "end", "comment", "pi"))
    for event, node in walker:
        effect = _effect(node)
        if effect == "block":
            yield " "
        if event == "start":
            if effect == "silent":
                walker.skip_subtree()
            else:
                yield node.text or ""
        elif node is not fragment:
            yield node.tail or ""


def links(hrefs: Iterable[str], base: str) -> Iterator[str]:
    """Yield the canonical address of every reference to a web page, in their order, repeated as found.

    References within the page itself (``#note``) are no links.
    """
    for href in hrefs:
        reference = href.strip()
        if reference and not reference.startswith("#") and (address := _web_address(absolute_url(base, reference))):
            yield address


def _web_address(target: str) -> str | None:
    """Return the canonical address of a web page; None for another address."""
    return _known_address(target) if len(target) <= MAX_ADDRESS else _address(target)


def _address(target: str) -> str | None:
    return canonical_url(target) if is_web(target) else None


_known_address = lru_cache(maxsize=4_096)(_address)
"""The same; pages of a site have many in common."""


def absolute_url(base: str, reference: str) -> str:
    """Complete ``reference`` by ``base``, stripped; leave it where the two make no address or ``base`` is too long.

    >>> absolute_url("http://example.org/a/b", "../c"), absolute_url("", "c"), absolute_url("http://[", "c")
    ('http://example.org/c', 'c', 'c')
    """
    reference = collapse(reference)
    if not reference or len(base) > MAX_ADDRESS or has_scheme(reference):
        return reference
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def has_scheme(reference: str) -> bool:
    """Whether a reference is absolute, so that no base completes it."""
    return _SCHEME.match(reference) is not None


def is_web(address: str) -> bool:
    """Whether this is an absolute address of the web."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.netloc)
