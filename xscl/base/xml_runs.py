"""Many small documents of strangers checked and written canonically by one parse.

The documents of a run stand between processing instructions in one element.  No document has an instruction of its own.
So if the root has all of them as children, each stands where no tag, comment or section of a document is open, and what
lies between two of them is well-formed.  With as many elements as documents and nothing else, that is one element each.

A run that gives anything else is parsed in parts.  Documents of the least such part are for ``safe_xml``, which also
knows why it refuses one.

Whoever can tell that documents are canonical as they are spares them the parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from lxml import etree

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.safe_xml import EMPTY_SECTION, parse_faultless, parse_stored
from xscl.base.xml_bounds import may_have_long_namespace

__all__ = ["CanonicalDocument", "canonical_documents", "parsed_again"]


class CanonicalDocument(str):
    """A well-formed document as ``serialize`` writes it; whether it is within limits is to be seen."""

    __slots__ = ()


_RUN = 500
"""Documents that are parsed together at most."""
_RUN_BYTES = 1 << 20
_LOOK = 1_000
"""Documents that are looked at together; so few that what is found of them stays in the processor's caches."""
_SAMPLE = 100
"""Documents that are looked at first; where most of them are not canonical, the others are not looked at."""
_FEW = 50
"""Documents that are parsed sooner than looked at."""
_PARTS = 8
"""Parts of a run in which something is wrong; a run of so many documents is not parted."""
_LONG = 1 << 16
"""Bytes; a longer document gains nothing by others beside it."""
_BETWEEN = b"<?x?>"
_OPEN, _QUESTION, _EXCLAMATION = b"<?!"
_SPACE = b" \t\r\n"  # XML's; bytes.strip() would take more
_ARE_WHOLE = etree.XPath("count(*) = $n and count(processing-instruction()) = $n - 1 and not(text() or comment())")
_DECLARATION = re.compile(
    rb"""<\?xml[ \t\r\n]+version=(?:"1\.0"|'1\.0')(?:[ \t\r\n]+encoding=(?:"[uU][tT][fF]-8"|'[uU][tT][fF]-8'))?"""
    rb"""[ \t\r\n]*\?>"""
)


def canonical_documents(
    contents: Sequence[str | bytes],
    limits: Limits = DEFAULT_LIMITS,
    are_canonical: Callable[[Sequence[bytes]], Sequence[bool]] | None = None,
) -> list[bytes | None]:
    """Return each document as ``serialize`` writes it, in UTF-8; None for each that has to be looked at alone.

    Nothing that ``parse_xml`` would refuse gets a text.  ``are_canonical`` tells which documents surely are as
    ``serialize`` writes them, without a namespace.
    """
    bounds = _Bounds(limits)
    found: list[bytes | None] = [None] * len(contents)
    if are_canonical is not None:
        found = _canonical(contents, bounds, are_canonical)
        if None not in found:
            return found
    run: list[tuple[int, bytes]] = []
    size = 0
    for place, content in enumerate(contents):
        if found[place] is not None:
            continue
        if isinstance(content, CanonicalDocument):
            written = content.encode()
            if bounds.hold(written) and (b"xmlns" not in written or bounds.hold_namespaces(written)):
                found[place] = written
            continue
        data = _plain(content)
        if data is None or len(data) > _LONG or not bounds.hold(data):
            continue
        run.append((place, data))
        size += len(data)
        if len(run) == _RUN or size >= _RUN_BYTES:
            _fill(found, _weeded(run, bounds), limits.max_bytes)
            run, size = [], 0
    _fill(found, _weeded(run, bounds), limits.max_bytes)
    return found


def _canonical(
    contents: Sequence[str | bytes], bounds: _Bounds, are_canonical: Callable[[Sequence[bytes]], Sequence[bool]]
) -> list[bytes | None]:
    """Return the texts that are canonical as they came, and within limits."""
    found: list[bytes | None] = [None] * len(contents)
    if len(contents) < _FEW or not set(map(type, contents)) <= {str, bytes}:
        return found
    try:
        texts = [content.encode() if isinstance(content, str) else content.decode().encode() for content in contents]
    except UnicodeError:
        return found
    texts = [text if text[:2] != b"<?" and text[-1:] == b">" else _plain(text) or text for text in texts]
    for places in _looks(bounds.held(texts), texts):
        told = are_canonical([texts[place] for place in places])
        for place, is_canonical in zip(places, told, strict=True):
            if is_canonical:
                found[place] = texts[place]
        if 2 * sum(told) < len(told):
            break  # so are the others, likely
    return found


def _looks(places: Sequence[int], texts: Sequence[bytes]) -> Iterator[Sequence[int]]:
    """Part the places of texts into those that are looked at together, first a few."""
    sums = np.cumsum([len(texts[place]) for place in places])
    begin = done = 0
    while begin < len(places):
        most = _LOOK if begin else _SAMPLE
        end = min(begin + most, int(np.searchsorted(sums, done + _RUN_BYTES)) + 1, len(places))
        yield places[begin:end]
        begin, done = end, int(sums[end - 1])


def _plain(content: str | bytes) -> bytes | None:
    """Return a document in UTF-8 without its declaration and the space around it; None for one that is not so plain."""
    if isinstance(content, str):
        try:
            data = content.encode()
        except UnicodeEncodeError:  # half a surrogate pair
            return None
    else:
        data = content
    if data[:2] == b"<?":
        # It stands at the very start, or the document is none.
        declaration = _DECLARATION.match(data)
        if declaration is None:
            return None
        data = data[declaration.end() :]
    if data[:1] != b"<" or data[-1:] != b">":
        data = data.strip(_SPACE)
    return data if data[:1] == b"<" and data[-1:] == b">" else None


class _Bounds:
    """Counts that no document over one of some limits is under."""

    def __init__(self, limits: Limits) -> None:
        self._longest = min(limits.max_text, limits.max_bytes)
        self._tags = 2 * limits.max_depth  # each level has two, but for the lowest, which may have one
        self._nodes = min(limits.max_nodes, limits.max_names)
        self._values = limits.max_attributes
        self._namespaces = limits.max_namespaces
        self._namespace = limits.max_namespace
        # Two tags take seven bytes at least, one node four, one attribute five.
        self._short = min(7 * limits.max_depth, 4 * self._nodes, 5 * self._values, self._longest)

    def hold(self, data: bytes) -> bool:
        """Whether a document is surely within the limits, but for those of namespaces."""
        size = len(data)
        if size <= self._short:
            return True
        if size > self._longest:
            return False
        tags, values = data.count(b"<"), data.count(b"=")
        return tags <= self._tags and tags + values <= self._nodes and values <= self._values

    def held(self, texts: Sequence[bytes]) -> Sequence[int]:
        """Return the places of documents that are surely within the limits, and not long."""
        if max(map(len, texts)) <= min(self._short, _LONG):
            return range(len(texts))
        return [place for place, text in enumerate(texts) if len(text) <= _LONG and self.hold(text)]

    def hold_namespaces(self, data: bytes) -> bool:
        """Whether a document is surely within the limits of namespaces."""
        return data.count(b"xmlns") <= self._namespaces and not may_have_long_namespace(data, self._namespace)


def _weeded(run: list[tuple[int, bytes]], bounds: _Bounds) -> list[tuple[int, bytes]]:
    """Leave out documents with instructions, a document type, empty sections, or more namespaces than are surely
    allowed.
    """
    joined = b"".join([data for _, data in run])
    if _may_have_instructions(joined):
        run = [(place, data) for place, data in run if b"<?" not in data and b"<!D" not in data]
    if EMPTY_SECTION in joined:
        run = [(place, data) for place, data in run if EMPTY_SECTION not in data]
    if b"xmlns" in joined:
        run = [(place, data) for place, data in run if bounds.hold_namespaces(data)]
    return run


def _may_have_instructions(joined: bytes) -> bool:
    """Whether documents may have instructions or a document type; a search for these would stop at each ``<``."""
    codes = np.frombuffer(joined, np.uint8)
    after = codes[np.flatnonzero(codes[:-1] == _OPEN) + 1]
    return bool(np.any(after == _QUESTION) or (np.any(after == _EXCLAMATION) and b"<!D" in joined))


def _fill(found: list[bytes | None], run: Sequence[tuple[int, bytes]], most: int) -> None:
    """Put the canonical texts of a run of documents in their places; ``most`` are the bytes that one may have."""
    if not run:
        return
    texts = _canonical_texts([data for _, data in run])
    if texts is not None:
        for (place, _), text in zip(run, texts, strict=True):
            if len(text) <= most:
                found[place] = text
        return
    if len(run) > _PARTS:
        part = -(-len(run) // _PARTS)
        for start in range(0, len(run), part):
            _fill(found, run[start : start + part], most)


def _canonical_texts(run: Sequence[bytes]) -> list[bytes] | None:
    """Return the canonical texts of documents; None where one of them may be none."""
    found = _parsed(run)
    return None if found is None else found[1]


def _parsed(run: Sequence[bytes]) -> tuple[etree._Element, list[bytes]] | None:
    """Return the element around documents, and their canonical texts; None where one of them may be none."""
    root = parse_faultless(b"<c>" + _BETWEEN.join(run) + b"</c>")
    if root is None or not _ARE_WHOLE(root, n=len(run)):
        return None
    texts: list[bytes] = etree.tostring(root, encoding="UTF-8", with_tail=False)[3:-4].split(_BETWEEN)
    return (root, texts) if len(texts) == len(run) else None


def parsed_again(texts: Sequence[str]) -> Iterator[tuple[etree._Element, str]]:
    """Yield the root of each document that ``serialize`` wrote, and its text, as ``CanonicalDocument`` if it is one."""
    for run in _runs(texts):
        written = [text.encode("utf-8", "surrogatepass") for text in run]
        found = None if _may_have_instructions(b"".join(written)) else _parsed(written)
        if found is None:
            yield from ((parse_stored(text), text) for text in run)
            continue
        for root, text, data, canonical in zip(found[0].iterchildren("*"), run, written, found[1], strict=True):
            yield root, CanonicalDocument(text) if canonical == data else text


def _runs(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Part texts into runs."""
    begin = size = 0
    for place, text in enumerate(texts):
        if place - begin == _RUN or size >= _LONG:  # trees of more do not fit in the processor's caches
            yield texts[begin:place]
            begin, size = place, 0
        size += len(text)
    if begin < len(texts):
        yield texts[begin:]
