"""The content of events as files keep it: canonical documents, and the digests that tell contents apart."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import DocumentLimitError, XsclError
from xscl.base.safe_xml import parse_xml, serialize
from xscl.base.xml_runs import canonical_documents
from xscl.xpath.columns.stored_form import in_stored_form

__all__ = ["document_digest", "stored_document", "stored_documents", "stored_texts"]

_DOCUMENT = blake2b(b"\0\0\0\0\0\0\0\3xml", digest_size=16)
"""State of ``digest_text("xml", …)`` before the document."""


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


def stored_documents(contents: Sequence[str | bytes], limits: Limits = DEFAULT_LIMITS) -> list[bytes | XsclError]:
    """Return what ``stored_document`` does for each document, in UTF-8, or why it is refused."""
    found = canonical_documents(contents, limits, in_stored_form)
    return [_alone(contents[n], limits) if text is None else text for n, text in enumerate(found)]


def stored_texts(contents: Sequence[str]) -> list[str | XsclError]:
    """Return what ``stored_document`` does for each document, or why it is refused."""
    return [each.decode() if isinstance(each, bytes) else each for each in stored_documents(contents)]


def _alone(xml: str | bytes, limits: Limits) -> bytes | XsclError:
    try:
        return stored_document(xml, limits).encode()
    except XsclError as error:
        return error.with_traceback(None)


def document_digest(content: bytes) -> str:
    """Return the digest of a stored document, by which an id seen again is told from an id reused."""
    state = _DOCUMENT.copy()
    state.update(len(content).to_bytes(8, "big"))
    state.update(content)
    return state.hexdigest()
