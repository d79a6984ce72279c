"""The content of events as files keep it: canonical documents, and the digests that tell contents apart."""

from __future__ import annotations

from xscl.base.errors import DocumentLimitError
from xscl.base.safe_xml import DEFAULT_LIMITS, Limits, parse_xml, serialize
from xscl.base.types import Event
from xscl.base.values import digest_text
from xscl.ingest.rows import row_digest

__all__ = ["content_digest", "stored_document"]


def stored_document(xml: str | bytes, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the document as it is kept: without declaration and DTD, with its own entities expanded.

    Raises:
        DocumentError: it is not well-formed, or over a limit.
    """
    content = serialize(parse_xml(xml, limits=limits))
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > limits.max_bytes:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT",
            f"the document has {size:,} bytes when written out; the limit max_bytes is {limits.max_bytes:,}",
        )
    return content


def content_digest(event: Event, content: str | None) -> str:
    """Return the digest of an event's document or row, by which an id seen again is told from an id reused."""
    if content is not None:
        return digest_text("xml", content)
    assert event.row is not None
    return row_digest(event.row)
