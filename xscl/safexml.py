"""Parsing XML from strangers: no external entities, no network, limits on size, depth, nodes and attributes.

A leaf module used wherever bytes from outside become a tree, so that there is one place to look at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lxml import etree

from xscl.errors import DocumentLimitError, MalformedDocumentError

__all__ = ["DEFAULT_LIMITS", "STORED_LIMITS", "Limits", "parse_xml", "serialize"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may be; all limits are inclusive."""

    max_bytes: int = 16 * 1024 * 1024
    max_depth: int = 200
    max_nodes: int = 500_000
    """Elements and attributes together."""


DEFAULT_LIMITS = Limits()
STORED_LIMITS = Limits(max_bytes=1 << 30, max_depth=256, max_nodes=1 << 40)
"""For what was checked when it was taken in."""

_POSITION = re.compile(r",? line \d+, column \d+\s*$")


class _NoOutside(etree.Resolver):
    """Answers every request for something outside the document with an empty text, so that nothing is opened."""

    def resolve(self, system_url: str | None, public_id: str | None, context: Any) -> Any:
        return self.resolve_string("", context)


def _parser() -> etree.XMLParser:
    # Entities that the document itself declares are expanded under libxml2's own limit on amplification; external ones
    # are never looked at.  Comments stay, because they separate text nodes; so do processing instructions.
    parser = etree.XMLParser(
        resolve_entities="internal",
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        collect_ids=False,
        remove_comments=False,
        remove_pis=False,
        strip_cdata=True,
        recover=False,
    )
    # Without this libxml2 opens a DTD that the document names, though it was told not to load any.
    parser.resolvers.add(_NoOutside())
    return parser


def parse_xml(content: str | bytes, *, limits: Limits = DEFAULT_LIMITS) -> etree._Element:
    """The root element of one document.

    A ``str`` is taken as decoded: an encoding named in its XML declaration is ignored.

    Raises:
        MalformedDocumentError: not well-formed (line and column are in the message), or it refers to an entity that it
            does not declare itself.
        DocumentLimitError: over one of ``limits``.
    """
    data = _as_bytes(content)
    if len(data) > limits.max_bytes:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT", f"the document has {len(data):,} bytes, the limit is {limits.max_bytes:,}"
        )
    parser = _parser()
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise _refusal(error) from None
    except (ValueError, LookupError) as error:  # an encoding that does not exist, for one
        raise MalformedDocumentError("XSCL_MALFORMED_DOCUMENT", str(error)) from None
    if root is None:
        raise MalformedDocumentError("XSCL_MALFORMED_DOCUMENT", "the document is empty")
    _check(root, limits)
    return root


def _as_bytes(content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        text = content.removeprefix("\ufeff").lstrip()
        if text.startswith("<?xml"):
            # The declaration speaks of bytes that were decoded already.
            text = text[text.find("?>") + 2 :] if "?>" in text else text
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise MalformedDocumentError(
            "XSCL_MALFORMED_DOCUMENT",
            f"character {error.start} is half a surrogate pair, which XML cannot hold",
        ) from None


def _refusal(error: etree.XMLSyntaxError) -> MalformedDocumentError | DocumentLimitError:
    line, column = error.position
    reason = _POSITION.sub("", error.msg or "not well-formed").strip()
    message = f"line {line}, column {column}: {reason}"
    text = reason.lower()
    # libxml2's advice is for programmers.
    if "excessive depth" in text:
        message = f"line {line}, column {column}: the depth of elements is over 256"
    elif "xml_parse_huge" in text or "text node too long" in text:
        message = f"line {line}, column {column}: a text or a name of more than 10 MB"
        text = "huge"
    elif "amplification" in text:
        message = f"line {line}, column {column}: its entities expand to many times its size"
    if "huge" in text or "amplification" in text or "entity loop" in text or "excessive depth" in text:
        return DocumentLimitError("XSCL_DOCUMENT_LIMIT", message)
    return MalformedDocumentError("XSCL_MALFORMED_DOCUMENT", message)


def _check(root: etree._Element, limits: Limits) -> None:
    nodes = depth = 0
    for event, node in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        if event == "start":
            nodes += 1 + len(node.attrib)
            depth += 1
            if depth > limits.max_depth:
                raise DocumentLimitError(
                    "XSCL_DOCUMENT_LIMIT",
                    f"line {node.sourceline}: elements nest deeper than {limits.max_depth}",
                )
            if nodes > limits.max_nodes:
                raise DocumentLimitError(
                    "XSCL_DOCUMENT_LIMIT",
                    f"line {node.sourceline}: more than {limits.max_nodes:,} elements and attributes",
                )
        elif event == "end":
            depth -= 1
    for entity in root.iter(etree.Entity):
        raise MalformedDocumentError(
            "XSCL_MALFORMED_DOCUMENT",
            f"line {entity.sourceline}: {entity.text} is not declared in the document; external entities are not read",
        )


def serialize(node: etree._Element) -> str:
    """The text of an element with the namespaces it needs, without what follows it."""
    return etree.tostring(node, encoding="unicode", with_tail=False)
