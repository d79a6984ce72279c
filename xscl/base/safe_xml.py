"""Parsing XML from strangers: no external entities, no network, and a limit on everything that takes memory or time.

A leaf module used wherever bytes from outside become a tree, so that there is one place to look at.

The cheapest sufficient check decides about a document.  Counting ``<`` and ``=`` bounds its nodes, names and depth
from above; nearly every document passes by that.  A document with more of them than nodes are allowed is counted by
its markup before a tree is built, because the tree takes the memory.  The other limits are checked on the tree.

lxml keeps the names of elements and attributes in a dictionary for each thread, which never forgets one and ends with
the thread and its last tree.  ``in_fresh_dictionary`` bounds it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

from lxml import etree

from xscl.base.encodings import utf8_document
from xscl.base.errors import DocumentLimitError, MalformedDocumentError
from xscl.base.settings import DEFAULT_MAX_BYTES, DEFAULT_MAX_NODES
from xscl.base.shown import shortened
from xscl.base.xml_bounds import (
    has_few_names,
    longest_tag,
    may_have_long_namespace,
    most_values,
    without_sections,
)

__all__ = [
    "DEFAULT_LIMITS",
    "Limits",
    "in_fresh_dictionary",
    "parse_faultless",
    "parse_stored",
    "parse_xml",
    "serialize",
    "work_time",
]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one document, all inclusive.

    Whatever is set here, libxml2 takes no more than 256 levels, 10,000,000 bytes of one text or value and 50,000 of one
    name, and lets entities make a document at most five times as long (or 1,000,000 bytes).
    """

    max_bytes: int = DEFAULT_MAX_BYTES
    max_depth: int = 200
    """Levels of elements; fewer than libxml2's, so that what a query makes of the document can be parsed again."""
    max_nodes: int = DEFAULT_MAX_NODES
    """Elements, attributes, namespace declarations, comments and processing instructions; a tree takes up to
    some 400 bytes for each, with the texts beside it."""
    max_attributes: int = 1_000
    """Attributes and namespace declarations of one element: lxml's time to read them grows with their square."""
    max_text: int = 1024 * 1024
    """Characters of one text, attribute value, comment or processing instruction in the root element; written out, a
    character may take six bytes, and libxml2 would not take back what has more than its 10,000,000."""
    max_names: int = 10_000
    """Distinct names of elements, attributes and processing instructions."""
    max_namespace: int = 500
    """Characters of one namespace: each name in it is read with all of them."""
    max_namespaces: int = 200
    """Distinct declarations of namespaces: the time to look one up grows with their number."""
    max_declaring_bytes: int = 1024 * 1024
    """Bytes of a document with declarations of its own (``<!DOCTYPE a [...]>``), because its entities may make it five
    times as long before anything of it can be counted."""


DEFAULT_LIMITS = Limits()

_OPTIONS: dict[str, Any] = {
    # The encoding is settled before, so libxml2 never picks one in which "<" is another byte.
    "encoding": "utf-8",
    # Entities that the document itself declares are expanded under libxml2's own limit on amplification; external ones
    # are never looked at.  Comments stay, because they separate text nodes; so do processing instructions.
    "resolve_entities": "internal",
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    "attribute_defaults": False,
    "huge_tree": False,
    "collect_ids": False,
    "remove_comments": False,
    "remove_pis": False,
    "strip_cdata": True,
    "recover": False,
}
_WIDER = etree.XPath("boolean(//*[count(@*) > $than])")
_LONGER = etree.XPath(
    " or ".join(
        f"boolean(/descendant::{node}[string-length() > $than])"
        for node in ("text()", "*/@*", "comment()", "processing-instruction()")
    )
)

_POSITION = re.compile(r",? line \d+, column \d+\s*$")
_UTF8_BOM = b"\xef\xbb\xbf"
_MARKUP = re.compile(
    rb"""<(?:
        (?P<comment>!--.*?(?:-->|\Z))
        | !\[CDATA\[.*?(?:\]\]>|\Z)
        | (?P<pi>\?.*?(?:\?>|\Z))
        | !DOCTYPE(?>[^>"']+|"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))*
        | (?P<tag>[^\s/>!?<](?>[^<>"']+|"[^"<]*"|'[^'<]*')*)
    )""",
    re.DOTALL | re.VERBOSE,
)
_VALUE = re.compile(rb""""[^"]*"|'[^']*'""")
_DECLARES = re.compile(
    rb"""\s*(?>(?:<\?.*?\?>|<!--.*?-->)\s*)*<!DOCTYPE(?>[^\[>"']+|"[^"]*"|'[^']*')*\[""",
    re.DOTALL,
)


class _NoOutside(etree.Resolver):
    """Answers every request for something outside the document with an empty text, so that nothing is opened."""

    def resolve(self, system_url: str | None, public_id: str | None, context: Any) -> Any:
        return self.resolve_string("", context)


class _Local(threading.local):
    """One parser for each thread: its names go to the dictionary of the thread that made it."""

    def __init__(self) -> None:
        self.parser = etree.XMLParser(**_OPTIONS)
        # Without this libxml2 opens a DTD that the document names, though it was told not to load any.
        self.parser.resolvers.add(_NoOutside())


_local = _Local()


def parse_stored(content: str | bytes) -> etree._Element:
    """Return the root element of a document that ``serialize`` wrote (as UTF-8, if bytes) after ``parse_xml``.

    Nothing is counted; what ``parse_xml`` says of things outside holds.

    Raises:
        MalformedDocumentError: it was not taken before.
    """
    try:
        root: etree._Element = etree.fromstring(
            content.encode() if isinstance(content, str) else content, _local.parser
        )
    except (etree.XMLSyntaxError, UnicodeEncodeError):
        return parse_xml(content)  # which says what is wrong
    return root


def parse_faultless(data: bytes) -> etree._Element | None:
    """Return the root element of a document in UTF-8, uncounted; None if anything is wrong with it."""
    parser = _local.parser
    try:
        root: etree._Element = etree.fromstring(data, parser)
    except etree.XMLSyntaxError:
        return None
    # lxml looks at the last message only: a warning hides the error of a namespace before it.
    return None if len(parser.error_log.filter_from_errors()) else root


def parse_xml(content: str | bytes, *, limits: Limits = DEFAULT_LIMITS) -> etree._Element:
    """Return the root element of one document.

    A ``str`` is taken as decoded: an encoding named in its XML declaration is ignored.  Bytes have the encoding of
    their byte order mark, else of their declaration, else UTF-8.

    Raises:
        MalformedDocumentError: not well-formed (line and column are in the message), or it refers to an entity that it
            does not declare itself.
        DocumentLimitError: over one of ``limits``; the message gives limit, line, figure and what is allowed.
    """
    if len(content) > limits.max_bytes:
        unit = "bytes" if isinstance(content, bytes) else "characters"
        raise _over(None, len(content), unit, limits.max_bytes, "max_bytes")
    data = utf8_document(content)
    if isinstance(content, str) and len(data) > limits.max_bytes:
        raise _over(None, len(data), "bytes", limits.max_bytes, "max_bytes")
    try:
        return _parsed(data, limits)
    except etree.XMLSyntaxError as error:
        raise _refusal(error) from None


def _parsed(data: bytes, limits: Limits) -> etree._Element:
    declaring = b"<!DOCTYPE" in data
    markup = data if declaring else without_sections(data)
    tags, values = markup.count(b"<"), markup.count(b"=")
    if declaring and _DECLARES.match(data.removeprefix(_UTF8_BOM)):
        if len(data) > limits.max_declaring_bytes:
            what = "bytes, and declarations of its own"
            raise _over(None, len(data), what, limits.max_declaring_bytes, "max_declaring_bytes")
    elif tags + values > limits.max_nodes:
        _check_nodes(data, limits)
    root: etree._Element = etree.fromstring(data, _local.parser)
    if (
        declaring
        or tags + values > limits.max_nodes
        or (tags + values > limits.max_names and not has_few_names(markup, limits.max_names))
        or (len(data) > limits.max_text and _may_have_long_text(markup, root, limits.max_text))
        or _may_be_over(markup, root, limits)
    ):
        _count(_events_of(root), limits)
    if declaring:
        for entity in root.iter(etree.Entity):
            name = shortened(str(entity.text))
            raise MalformedDocumentError(
                "XSCL_MALFORMED_DOCUMENT",
                f"line {entity.sourceline}: {name} is not declared in the document; external entities are not read",
            )
    return root


def _may_have_long_text(markup: bytes, root: etree._Element, most: int) -> bool:
    """Whether a text, value, comment or instruction of a document may have more characters than these."""
    return longest_tag(markup) > most and bool(_LONGER(root, than=most))


def _may_be_over(markup: bytes, root: etree._Element, limits: Limits) -> bool:
    """Whether a document of few nodes and short texts may nest too deeply, or have an element with too much in it."""
    # Each level has two tags, but for the lowest, which may have one.
    if markup.count(b"<") > 2 * limits.max_depth and _below(limits.max_depth)(root):
        return True
    declared = markup.count(b"xmlns")
    if declared > limits.max_namespaces or (declared and may_have_long_namespace(markup, limits.max_namespace)):
        return True
    if markup.count(b"=") <= limits.max_attributes or most_values(markup) <= limits.max_attributes:
        return False
    # XPath sees no declarations of namespaces as attributes; all of the document's may be in one element.
    return bool(_WIDER(root, than=limits.max_attributes - declared))


def _check_nodes(data: bytes, limits: Limits) -> None:
    """Count the nodes that the markup of a document without declarations makes, before memory is taken for them.

    Raises:
        DocumentLimitError: there are more than ``max_nodes``.
    """
    nodes = 0
    for found in _MARKUP.finditer(data):
        kind, tag = found.lastgroup, found["tag"]
        if kind is None:
            continue  # text between "<![CDATA[" and "]]>", or a document type
        nodes += 1
        if tag and b"=" in tag:
            nodes += len(_VALUE.findall(tag))
        if nodes > limits.max_nodes:
            line = data.count(b"\n", 0, found.start()) + 1
            raise _over(line, nodes, "elements, attributes and other nodes", limits.max_nodes, "max_nodes")


def _events_of(root: etree._Element) -> Iterator[tuple[str, Any]]:
    """List the nodes of a tree, comments and instructions last: among elements, lxml takes quadratic time for them."""
    yield from etree.iterwalk(root, events=("start", "end", "start-ns"))
    yield from (("comment", node) for node in root.iter(etree.Comment))
    yield from (("pi", node) for node in root.iter(etree.ProcessingInstruction))
    yield "end", root


def _count(events: Iterable[tuple[str, Any]], limits: Limits) -> None:
    """Count the nodes of a document in its order.

    Raises:
        DocumentLimitError: over a limit, at the first node that is.
    """
    nodes = depth = 0
    spaces: list[str] = []
    names: set[str] = set()
    declared: set[tuple[str, str]] = set()
    before: tuple[str, Any] | None = None
    for event, node in events:
        if event == "start-ns":  # comes before its element
            spaces.append(node[1])
            declared.add(node)
            continue
        line = node.sourceline
        if before is not None:
            # The text between two events is complete with the second one.
            text = before[1].text if before[0] == "start" else before[1].tail
            _check_text(line, text, limits)
        before = event, node
        if event == "end":
            depth -= 1
            continue
        nodes += 1
        if event == "start":
            depth += 1
            if depth > limits.max_depth:
                raise _over(line, depth, "levels of elements", limits.max_depth, "max_depth")
            attributes = len(spaces) + len(node.attrib)
            nodes += attributes
            if attributes > limits.max_attributes:
                what = "attributes of one element"
                raise _over(line, attributes, what, limits.max_attributes, "max_attributes")
            names.add(node.tag)
            if attributes:
                names.update(node.keys())
                for value in node.values():
                    _check_text(line, value, limits)
            if spaces:
                longest = max(map(len, spaces))
                if longest > limits.max_namespace:
                    raise _over(line, longest, "characters in one namespace", limits.max_namespace, "max_namespace")
                if len(declared) > limits.max_namespaces:
                    what = "declarations of namespaces"
                    raise _over(line, len(declared), what, limits.max_namespaces, "max_namespaces")
                spaces.clear()
        else:
            _check_text(line, node.text, limits)
            if event == "pi":
                names.add(node.target)
        if len(names) > limits.max_names:
            raise _over(line, len(names), "distinct names", limits.max_names, "max_names")
        if nodes > limits.max_nodes:
            raise _over(line, nodes, "elements, attributes and other nodes", limits.max_nodes, "max_nodes")


def _check_text(line: int | None, text: str | None, limits: Limits) -> None:
    if text is not None and len(text) > limits.max_text:
        raise _over(line, len(text), "characters in one text or value", limits.max_text, "max_text")


def _over(line: int | None, found: int, what: str, allowed: int, name: str) -> DocumentLimitError:
    """Make a refusal; ``found`` is what was counted up to the line."""
    place = "the document has" if line is None else f"line {line}:"
    return DocumentLimitError("XSCL_DOCUMENT_LIMIT", f"{place} {found:,} {what}; the limit {name} is {allowed:,}")


@lru_cache(maxsize=8)
def _below(depth: int) -> etree.XPath:
    """Whether a document has elements below a depth."""
    return etree.XPath(f"boolean({'/*' * (depth + 1)})")


def _refusal(error: etree.XMLSyntaxError) -> MalformedDocumentError | DocumentLimitError:
    line, column = error.position
    reason = _POSITION.sub("", error.msg or "not well-formed").strip()
    text = reason.lower()
    # libxml2's advice is for programmers.
    limit = None
    if "excessive depth" in text:
        limit = "more than 256 levels of elements, which no limit can allow"
    elif "too long" in text or "too big" in text or "xml_parse_huge" in text or "huge" in text:
        limit = "more than 10,000,000 bytes in one text or value, or 50,000 in one name, which no limit can allow"
    elif "amplification" in text:
        limit = "its entities make it more than five times as long, which no limit can allow"
    elif "entity" in text and "loop" in text:
        limit = "its entities contain themselves, which no limit can allow"
    elif text.startswith("entity ") and text.endswith(" not defined"):
        reason += "; entities are taken from the document's own declarations only, and external ones are not read"
    if limit is not None:
        return DocumentLimitError("XSCL_DOCUMENT_LIMIT", f"line {line}, column {column}: {limit}")
    return MalformedDocumentError("XSCL_MALFORMED_DOCUMENT", f"line {line}, column {column}: {reason}")


def in_fresh_dictionary(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread of its own, so that names it parsed are forgotten afterwards; return its result.

    For processes that live long: a call costs some 40 µs, so make one for many documents.  Return what you found, not
    trees (a tree keeps its whole dictionary), and a list where you would have yielded::

        for batch in batches:
            yield from in_fresh_dictionary(lambda batch: list(rows_of(batch)), batch)

    The caller waits meanwhile.  The function must not use what is bound to the caller's thread (a SQLite connection).
    """
    results: list[T] = []
    errors: list[BaseException] = []
    seconds = 0.0

    def run() -> None:
        nonlocal seconds
        try:
            results.append(function(*args, **kwargs))
        except BaseException as error:
            errors.append(error)
        seconds = work_time()

    thread = threading.Thread(target=copy_context().run, args=(run,), name="xscl-parse")
    thread.start()
    thread.join()
    _ended.seconds = _ended_seconds() + seconds
    if errors:
        raise errors.pop()
    return results.pop()


def work_time() -> float:
    """Return the processor seconds of this thread so far, with those of all ``in_fresh_dictionary`` that it called."""
    return time.thread_time() + _ended_seconds()


def _ended_seconds() -> float:
    return float(getattr(_ended, "seconds", 0.0))


_ended = threading.local()
"""Attribute ``seconds``: processor time of threads that this one has waited for."""


def serialize(node: etree._Element) -> str:
    """Return the text of an element with the namespaces it needs, without what follows it."""
    return etree.tostring(node, encoding="unicode", with_tail=False)
