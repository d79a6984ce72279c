"""Rules of Atom (RFC 4287) under the names that the feed validator of the W3C has for what breaks them.

The validator itself cannot be installed here.  Its cases say which of these names a feed deserves, and
``suites/test_atom_cases.py`` holds these rules to the cases; ``service/test_match_feeds.py`` holds our feeds to the
rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from lxml import etree

ATOM = "{http://www.w3.org/2005/Atom}"
_META = {"author", "category", "contributor", "generator", "icon", "id", "link", "logo", "rights", "subtitle"} | {
    "title",
    "updated",
}
_MAY = {
    "feed": {*_META, "entry"},
    "source": _META,
    "entry": {"author", "category", "content", "contributor", "id", "link", "published", "rights", "source", "summary"}
    | {"title", "updated"},
    "author": {"name", "uri", "email"},
    "contributor": {"name", "uri", "email"},
}
_ONCE = {
    "feed": {"generator", "icon", "id", "logo", "rights", "subtitle", "title", "updated"},
    "source": {"generator", "icon", "id", "logo", "rights", "subtitle", "title", "updated"},
    "entry": {"content", "id", "published", "rights", "source", "summary", "title", "updated"},
    "author": {"name", "uri", "email"},
    "contributor": {"name", "uri", "email"},
}
_MUST = {"feed": ("id", "title", "updated"), "entry": ("id", "title", "updated"), "author": ("name",)} | {
    "contributor": ("name",)
}
_TEXTS = {"title", "subtitle", "summary", "rights"}
_RELATIONS = {
    "alternate",
    "current",
    "edit",
    "edit-media",
    "enclosure",
    "first",
    "last",
    "license",
    "next",
    "payment",
} | {
    *("next-archive", "prev-archive", "previous", "related", "replies", "self", "service", "up", "via", "hub", "prev"),
    *("start", "contents", "index", "bookmark", "help", "nofollow", "copyright", "glossary", "describedby", "search"),
}
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_IRI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):[^\s<>\"{}|\\^`]+")
_REFERENCE = re.compile(r"[^\s<>\"{}|\\^`]*")
_URN = re.compile(r"urn:[a-z0-9][a-z0-9-]{0,31}:\S+", re.IGNORECASE)
_MARKUP = re.compile(r"</?[a-z][a-z0-9]*(\s[^>]*)?/?>|&[a-z]+;|&#\w+;", re.IGNORECASE)

WARNINGS = frozenset({"MissingSourceElement", "MissingSelf", "SelfDoesntMatchLocation", "ContainsHTML"})
"""Names of what is good advice, and no fault."""
NAMES = WARNINGS | {
    *("SAXError", "MissingNamespace", "MissingElement", "DuplicateElement", "UndefinedElement", "InvalidRFC3339Date"),
    *("NotBlank", "InvalidLink", "InvalidFullLink", "InvalidURN", "DuplicateAtomLink", "DuplicateIds", "MissingHref"),
    *("UnregisteredAtomLinkRel", "InvalidTextType", "MissingContentOrAlternate", "AttrNotBlank", "UnexpectedText"),
}
"""Names of all rules."""


def faults(data: bytes, url: str | None = None) -> set[str]:
    """Names of the rules that a feed breaks; ``url`` is its address."""
    try:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError:
        return {"SAXError"}
    if not str(root.tag).startswith(ATOM):
        return {"MissingNamespace"}
    return set(_of(root, url))


def _of(root: etree._Element, url: str | None) -> Iterator[str]:
    for element in root.iter("*"):
        if str(element.tag).startswith(ATOM) and not _is_foreign(element):
            yield from _element(element)
    kind = _name(root)
    if kind == "feed":
        entries = root.findall(f"{ATOM}entry")
        if len({(each.findtext(f"{ATOM}id"), each.findtext(f"{ATOM}updated")) for each in entries}) < len(entries):
            yield "DuplicateIds"
        own = [link.get("href", "") for link in root.findall(f"{ATOM}link[@rel='self']")]
        if not own:
            yield "MissingSelf"
        if own and url is not None and url not in own:
            yield "SelfDoesntMatchLocation"


def _is_foreign(element: etree._Element) -> bool:
    """Whether an element stands in one that Atom does not know, or in a text: extensions mean what they want."""
    above = [str(each.tag) for each in element.iterancestors()]
    return any(not tag.startswith(ATOM) or tag.removeprefix(ATOM) in (*_TEXTS, "content") for tag in above)


def _element(element: etree._Element) -> Iterator[str]:
    name = _name(element)
    parent = element.getparent()
    if parent is not None and _name(parent) in _MAY and name not in _MAY[_name(parent)]:
        yield "UndefinedElement"
    if name in _MAY:
        yield from _container(element, name)
    if name in ("updated", "published"):
        yield from _date(element.text or "")
    if name in ("id", "name") and not (element.text or "").strip():
        yield "NotBlank" if name == "name" or parent is None or _name(parent) == "entry" else "InvalidFullLink"
    elif name == "id":
        yield from _identity(element.text or "")
    if name in ("icon", "logo", "uri") and not _REFERENCE.fullmatch((element.text or "").strip()):
        yield "InvalidLink"
    if name == "name" and _MARKUP.search(element.text or ""):
        yield "ContainsHTML"
    if name == "generator" and (uri := element.get("uri")) is not None and not _IRI.fullmatch(uri):
        yield "InvalidLink"
    if name == "link":
        yield from _link(element)
    if name in _TEXTS:
        yield from _text(element)
    if name == "content" and element.get("type", "text") in ("text", "text/plain") and element.get("src") is None:
        if len(element.findall("*")):
            yield "UndefinedElement"
        if not len(element) and not (element.text or "").strip():
            yield "NotBlank"


def _container(element: etree._Element, name: str) -> Iterator[str]:
    children = Counter(_name(child) for child in element.findall("*") if str(child.tag).startswith(ATOM))
    if any(children[each] > 1 for each in _ONCE[name]):
        yield "DuplicateElement"
    if any(not children[each] for each in _MUST.get(name, ())):
        yield "MissingElement"
    if name == "source" and any(not children[each] for each in ("id", "title", "updated")):
        yield "MissingSourceElement"
    if any(not str(child.tag).startswith("{") for child in element.findall("*")):
        yield "UndefinedElement"
    if "".join([element.text or "", *(child.tail or "" for child in element)]).strip():
        yield "UnexpectedText"
    alternates = [link for link in element.findall(f"{ATOM}link") if link.get("rel", "alternate") == "alternate"]
    kinds = Counter((link.get("type"), link.get("hreflang")) for link in alternates)
    if any(count > 1 for count in kinds.values()):
        yield "DuplicateAtomLink"
    if name == "entry":
        above = [element, element.find(f"{ATOM}source"), element.getparent()]
        if not any(each is not None and each.findall(f"{ATOM}author") for each in above):
            yield "MissingElement"
        if not alternates and not children["content"]:
            yield "MissingContentOrAlternate"


def _date(text: str) -> Iterator[str]:
    found = _DATE.fullmatch(text)
    try:
        datetime.fromisoformat(text.replace("Z", "+00:00") if found else "")
    except ValueError:
        yield "InvalidRFC3339Date"


def _identity(text: str) -> Iterator[str]:
    if not _IRI.fullmatch(text):
        yield "InvalidLink"
        yield "InvalidFullLink"
    if text.lower().startswith("urn:") and not _URN.fullmatch(text):
        yield "InvalidURN"


def _link(element: etree._Element) -> Iterator[str]:
    href, relation = element.get("href"), element.get("rel", "alternate")
    if href is None:
        yield "MissingHref"
    elif not _REFERENCE.fullmatch(href):
        yield "InvalidLink"
    if ":" not in relation and relation.lower() not in _RELATIONS:
        yield "UnregisteredAtomLinkRel"
    if _MARKUP.search(element.get("title", "")):
        yield "ContainsHTML"


def _text(element: etree._Element) -> Iterator[str]:
    kind = element.get("type", "text")
    if not kind:
        yield "AttrNotBlank"
    elif kind not in ("text", "html", "xhtml"):
        yield "InvalidTextType"
    if kind == "text" and len(element.findall("*")):
        yield "UndefinedElement"
    if kind == "text" and _MARKUP.search(element.text or ""):
        yield "ContainsHTML"


def _name(element: etree._Element) -> str:
    return str(element.tag).removeprefix(ATOM)
