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
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

from lxml import etree

from xscl.base.document_limits import (
    DEFAULT_LIMITS,
    Limits,
    check_nodes,
    check_tree,
    may_be_over,
    may_have_long_text,
    over_limit,
)
from xscl.base.encodings import utf8_document
from xscl.base.errors import DocumentLimitError, MalformedDocumentError
from xscl.base.shown import shortened
from xscl.base.xml_bounds import (
    has_few_names,
    without_sections,
)

__all__ = [
    "EMPTY_SECTION",
    "in_fresh_dictionary",
    "parse_faultless",
    "parse_stored",
    "parse_xml",
    "serialize",
    "work_time",
]

P = ParamSpec("P")
T = TypeVar("T")


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
_POSITION = re.compile(r",? line \d+, column \d+\s*$")
EMPTY_SECTION = b"<![CDATA[]]>"
_UTF8_BOM = b"\xef\xbb\xbf"
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
    return None if _hidden_errors(parser) else root


def _hidden_errors(parser: etree.XMLParser) -> list[etree._LogEntry]:
    """Return the errors of what a parser has just taken.

    lxml looks at the last message only: a warning hides the error of a namespace before it.
    """
    log = parser.error_log
    return list(log.filter_from_errors()) if len(log) else []


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
        raise over_limit(None, len(content), unit, limits.max_bytes, "max_bytes")
    data = utf8_document(content)
    if isinstance(content, str) and len(data) > limits.max_bytes:
        raise over_limit(None, len(data), "bytes", limits.max_bytes, "max_bytes")
    try:
        return _parsed(data, limits)
    except etree.XMLSyntaxError as error:
        raise _refusal(*error.position, error.msg or "not well-formed") from None


def _parsed(data: bytes, limits: Limits) -> etree._Element:
    declaring = b"<!DOCTYPE" in data
    markup = data if declaring else without_sections(data)
    tags, values = markup.count(b"<"), markup.count(b"=")
    if declaring and _DECLARES.match(data.removeprefix(_UTF8_BOM)):
        if len(data) > limits.max_declaring_bytes:
            what = "bytes, and declarations of its own"
            raise over_limit(None, len(data), what, limits.max_declaring_bytes, "max_declaring_bytes")
    elif tags + values > limits.max_nodes:
        check_nodes(data, limits)
    parser = _local.parser
    root: etree._Element = etree.fromstring(data, parser)
    for hidden in _hidden_errors(parser):
        raise _refusal(hidden.line, hidden.column, hidden.message)
    if (
        declaring
        or tags + values > limits.max_nodes
        or (tags + values > limits.max_names and not has_few_names(markup, limits.max_names))
        or (len(data) > limits.max_text and may_have_long_text(markup, root, limits.max_text))
        or may_be_over(markup, root, limits)
    ):
        check_tree(root, limits)
    if declaring:
        for entity in root.iter(etree.Entity):
            name = shortened(str(entity.text))
            raise MalformedDocumentError(
                "XSCL_MALFORMED_DOCUMENT",
                f"line {entity.sourceline}: {name} is not declared in the document; external entities are not read",
            )
    if declaring or EMPTY_SECTION in data:
        _drop_empty_texts(root)
    return root


def _drop_empty_texts(root: etree._Element) -> None:
    """Remove texts without a character, which empty sections and entities leave: XML has no such nodes."""
    for element in root.iter("*"):
        if element.text == "" and not len(element):
            element.text = None


def _refusal(line: int, column: int, message: str) -> MalformedDocumentError | DocumentLimitError:
    reason = _POSITION.sub("", message).strip()
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
