"""One document of many records into its records, read as a stream.

Expat finds where records begin and end; what lies between is a document of its own, which is parsed like any other,
with all limits (``xscl.base.safe_xml``).  Nothing but the record that is being read is held in memory.  Expat reads
nothing outside the document, a document that declares entities is refused, and expat's own memory is bounded.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from xscl.base.document_limits import Limits
from xscl.base.encodings import encoding_of
from xscl.base.errors import DocumentLimitError, MalformedDocumentError, SourceError, XsclError
from xscl.ingest.paths import SplitPath

__all__ = ["SplitRecord", "split_records"]

_STEP = 64 * 1024
_DECLARATION = 256
"""Bytes by which the encoding shows."""
_MAX_TOKEN = 4 * 1024 * 1024
"""Bytes of one tag, comment or instruction, which expat looks at again in whole with each step."""
_MAX_REPEATED = 64 * 1024 * 1024
_MOST_TIMES = 16
"""Records may get namespaces of so many times the document's bytes, and ``_MAX_REPEATED`` more."""
_BLANKS = b" \t\r\n"
_START_TAG = re.compile(rb"""<[^\s/>]+(?>[^>"']+|"[^"]*"|'[^']*')*>""")
_POSITION = re.compile(r": line \d+, column \d+$")


@dataclass(frozen=True, slots=True)
class SplitRecord:
    """A record, and where it begins."""

    line: int
    content: bytes | XsclError
    """A document in UTF-8, not yet parsed, with the namespaces of prefixes that it writes; or why it is refused."""


def split_records(content: io.BufferedIOBase, path: SplitPath, *, source: str, limits: Limits) -> Iterator[SplitRecord]:
    """Yield the records of a document, in its order; of records within records the outermost.

    Args:
        content: the document; blanks before its declaration are forgiven.
        path: which elements are records.
        source: for messages.
        limits: of each record; depth and number of names are those of the whole document.

    Raises:
        MalformedDocumentError: the document is not well-formed there; records before were given.
        DocumentLimitError: it nests too deeply, has too many names, or something longer than can be held.
        SourceError: ``XSCL_NO_RECORDS``: no element is a record; or what ``content`` raises.
    """
    splitter = _Splitter(path, limits)
    found = False
    for data in chain(_utf8_chunks(content), (None,)):
        try:
            if data is None:
                splitter.close()
            else:
                splitter.feed(data)
        except expat.ExpatError as error:
            yield from splitter.take()
            raise _malformed(error) from None
        except XsclError:
            yield from splitter.take()
            raise
        for record in splitter.take():
            found = True
            yield record
    if not found:
        raise SourceError("XSCL_NO_RECORDS", f"{source}: no element is at {path.text}")


def _utf8_chunks(content: io.BufferedIOBase) -> Iterator[bytes]:
    head = b""
    while len(head.lstrip(_BLANKS)) < _DECLARATION and len(head) < _STEP:
        data = content.read1(_STEP)
        if not data:
            break
        head += data
    # Lines are counted with those that go before the declaration.
    blank = head[: len(head) - len(head.lstrip(_BLANKS))]
    head = head[len(blank) :] if head[len(blank) :].startswith(b"<?xml") else head
    name = encoding_of(head)
    if name is None:
        yield head.removeprefix(codecs.BOM_UTF8)
        while data := content.read1(_STEP):
            yield data
        return
    decoder = codecs.getincrementaldecoder(name)()
    data = head
    try:
        while True:
            text = decoder.decode(data, final=not data)
            yield text.removeprefix("\ufeff").encode()
            if not data:
                return
            data = content.read1(_STEP)
    except UnicodeError:
        raise MalformedDocumentError("XSCL_MALFORMED_DOCUMENT", f"what follows is not in the encoding {name}") from None


class _Splitter:
    """Expat's handlers, and the bytes from the record that is open on."""

    def __init__(self, path: SplitPath, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        # Without a dictionary of names that would outlive them.
        self._parser = expat.ParserCreate("utf-8", None, None)
        self._parser.specified_attributes = True
        self._parser.EntityDeclHandler = self._entity
        self._parser.StartDoctypeDeclHandler = self._start_doctype
        self._parser.EndDoctypeDeclHandler = self._end_doctype
        self._outside()
        self._waiting = bytearray()
        """Bytes that expat has not seen."""
        self._unread = 0
        """Bytes of the token that expat has seen the beginning of."""
        self._fed = 0
        self._reached = 0
        """Offset up to which expat has come."""
        self._base = 0
        """Offset in the document at which ``_held`` begins."""
        self._held = bytearray()
        self._done: list[tuple[int, bytes, bytes, bytes] | SplitRecord] = []
        """(line, start of the tag, namespaces, the rest): put together one by one, because namespaces may be long."""
        self._repeated = 0
        """Bytes of namespaces that records were given."""
        self._names: set[str] = set()
        self._depth = 0
        self._made = [path.begin()]
        self._scopes: list[dict[str, tuple[str, bytes]]] = [{}]
        """Namespaces by prefix, and the bytes that declare them, for each open element."""
        self._in_doctype = False
        # Of the record that is open:
        self._begin: int | None = None
        self._line = 0
        self._record_depth = 0
        self._declared: Collection[str] = ()
        """Prefixes that it declares itself."""
        self._name_size = 0
        self._too_long = False

    def take(self) -> Iterator[SplitRecord]:
        """Yield the records that have ended since."""
        done, self._done = self._done, []
        for record in done:
            yield record if isinstance(record, SplitRecord) else SplitRecord(record[0], b"".join(record[1:]))

    def feed(self, data: bytes) -> None:
        self._held += data
        self._fed += len(data)
        self._waiting += data
        # Expat looks at an open token from its beginning again: so only when as much as it has seen is new.
        if self._unread > _STEP and len(self._waiting) < self._unread and self._unread < _MAX_TOKEN:
            return
        seen, self._waiting = self._waiting, bytearray()
        self._parser.Parse(bytes(seen), False)
        # Newer expats put off a token that is open for long, and tell no offset meanwhile.
        self._reached = max(self._parser.CurrentByteIndex, self._reached)
        self._unread = self._fed - self._reached
        if self._unread > _MAX_TOKEN:
            raise self._limit(f"a tag or comment of more than {_MAX_TOKEN:,} bytes")
        if self._in_doctype and self._fed > self._limits.max_declaring_bytes:
            raise self._limit(f"more than {self._limits.max_declaring_bytes:,} bytes of declarations")
        if self._begin is not None and self._fed - self._begin > self._limits.max_bytes + _STEP:
            self._too_long = True
        keep = self._reached if self._begin is None or self._too_long else self._begin
        del self._held[: keep - self._base]
        self._base = keep

    def close(self) -> None:
        self._parser.Parse(bytes(self._waiting), True)

    def _outside(self) -> None:
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count(name, attributes)
        scope = self._scopes[-1]
        declared = {key[6:]: value for key, value in attributes.items() if key == "xmlns" or key.startswith("xmlns:")}
        if declared:
            scope = {**scope, **{key: (uri, self._declaration(key, uri)) for key, uri in declared.items()}}
            if len(scope) > self._limits.max_namespaces:
                most = self._limits.max_namespaces
                raise self._limit(f"{len(scope):,} namespaces in scope; the limit max_namespaces is {most:,}")
        prefix, _, local = name.rpartition(":")
        made = self._path.follow(self._made[-1], scope.get(prefix, _NO_NAMESPACE)[0], local)
        if not self._path.is_record(made):
            self._made.append(made)
            self._scopes.append(scope)
            return
        self._begin = self._parser.CurrentByteIndex
        self._line = self._parser.CurrentLineNumber
        self._record_depth = self._depth
        self._name_size = 1 + len(name.encode())
        self._declared = declared.keys()
        self._too_long = False
        self._parser.StartElementHandler = self._start_inside
        self._parser.EndElementHandler = self._end_inside

    def _declaration(self, prefix: str, uri: str) -> bytes:
        if len(uri) > self._limits.max_namespace:
            most = self._limits.max_namespace
            raise self._limit(f"{len(uri):,} characters in one namespace; the limit max_namespace is {most:,}")
        return f" xmlns{':' if prefix else ''}{prefix}={quoteattr(uri, _ESCAPES)}".encode()

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._made.pop()
        self._scopes.pop()

    def _start_inside(self, name: str, attributes: dict[str, str]) -> None:
        self._count(name, attributes)

    def _end_inside(self, name: str) -> None:
        self._depth -= 1
        if self._depth >= self._record_depth:
            return
        self._end_record(self._parser.CurrentByteIndex)
        self._begin = None
        self._outside()

    def _end_record(self, index: int) -> None:
        assert self._begin is not None
        size = index - self._begin
        if self._too_long or size > self._limits.max_bytes:
            limit = self._limits.max_bytes
            message = f"the record has {size:,} bytes; the limit max_bytes is {limit:,}"
            self._done.append(SplitRecord(self._line, DocumentLimitError("XSCL_DOCUMENT_LIMIT", message)))
            return
        first = self._begin - self._base
        last = index - self._base
        spaces = self._spaces(first, last)
        self._repeated += len(spaces)
        if self._repeated > _MAX_REPEATED + _MOST_TIMES * self._fed:
            raise self._limit(
                f"the namespaces in scope, repeated on each record, have more than {_MOST_TIMES} times the"
                " bytes of the document"
            )
        # An end tag is reported where it begins, the end of an empty element where that is over.
        empty = False
        if self._held[last - 2 : last] == b"/>":
            tag = _START_TAG.match(self._held, first)
            empty = tag is not None and tag.end() == last
        if not empty:
            last = self._held.index(b">", last) + 1
        name_end = first + self._name_size
        self._done.append((self._line, bytes(self._held[first:name_end]), spaces, bytes(self._held[name_end:last])))

    def _spaces(self, first: int, last: int) -> bytes:
        """Declare what the record between two places of ``_held`` takes from around it.

        A prefix that is written nowhere between is not used, neither in a name nor in a text.
        """
        held, declared = self._held, self._declared
        prefixed = held.find(b":", first, last) >= 0
        return b"".join(
            text
            for prefix, (uri, text) in self._scopes[-1].items()
            if uri
            and (not prefix or (prefixed and held.find(f"{prefix}:".encode(), first, last) >= 0))
            and prefix not in declared
        )

    def _count(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > self._limits.max_depth:
            raise self._limit(f"{self._depth:,} levels of elements; the limit max_depth is {self._limits.max_depth:,}")
        self._names.add(name)
        if attributes:
            self._names.update(attributes)
        if len(self._names) > self._limits.max_names:
            raise self._limit(f"{len(self._names):,} distinct names; the limit max_names is {self._limits.max_names:,}")

    def _limit(self, what: str) -> DocumentLimitError:
        return DocumentLimitError("XSCL_DOCUMENT_LIMIT", f"line {self._parser.CurrentLineNumber}: {what}")

    def _start_doctype(self, *_: object) -> None:
        self._in_doctype = True

    def _end_doctype(self) -> None:
        self._in_doctype = False

    def _entity(self, name: str, *_: object) -> None:
        raise MalformedDocumentError(
            "XSCL_MALFORMED_DOCUMENT",
            f"line {self._parser.CurrentLineNumber}: the document declares the entity {name}; a document that is split"
            " has none of its own",
        )


_NO_NAMESPACE = ("", b"")
_ESCAPES = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def _malformed(error: expat.ExpatError) -> MalformedDocumentError:
    reason = _POSITION.sub("", str(error))
    return MalformedDocumentError(
        "XSCL_MALFORMED_DOCUMENT",
        f"line {error.lineno}, column {error.offset + 1}: {reason}; nothing from there on is taken",
    )
