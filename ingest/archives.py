"""Compressed and archived input as streams, told by their first bytes: nothing is unpacked to disk, or whole in memory.

gzip, bzip2, xz and zstd; tar archives, in any of them or in none, one member after the other.  ``Budget`` bounds the
unpacked bytes of an input over all its layers.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from xscl.base.errors import SourceError
from xscl.ingest.lines import ByteStream

__all__ = [
    "MAX_LAYERS",
    "MAX_MEMBERS",
    "MAX_UNPACKED_BYTES",
    "Budget",
    "first_character",
    "is_tar",
    "members",
    "peeled",
    "unreadable",
]

MAX_UNPACKED_BYTES = 4 * 1024**3
"""Bytes that one compressed input may unpack to, all its layers and members together; inclusive."""
MAX_MEMBERS = 1_000_000
"""Members of one archive, with those that are passed over; inclusive."""
MAX_LAYERS = 4
"""Compressions and archives within each other; inclusive."""

_HEAD_BYTES = 4096
"""Bytes in which the content must show behind white space."""
_TAR_HEADER = 512
_TAR_MAGIC = slice(257, 262)
_MEMBER_HEAD = 1024 * 1024
"""Bytes between two members of a tar archive, with long names; tarfile would hold any number of them."""
_LONGEST_NAME = 4096
_XZ_MEMORY = 256 * 1024 * 1024
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_BLANKS = b" \t\r\n"
_CHUNK = 64 * 1024


class Budget:
    """Limits of one input, counted down."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.bytes = MAX_UNPACKED_BYTES
        self.members = MAX_MEMBERS
        self.layers = MAX_LAYERS

    @property
    def used_up(self) -> bool:
        """Whether a limit was passed, so that nothing more of the input is read."""
        return self.bytes < 0 or self.members < 0

    def spend(self, size: int) -> None:
        """Count bytes that were unpacked.

        Raises:
            SourceError: ``XSCL_SOURCE_LIMIT``.
        """
        self.bytes -= size
        if self.bytes < 0:
            raise SourceError("XSCL_SOURCE_LIMIT", f"{self.source} unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")

    def count_member(self) -> None:
        """Count a member of an archive.

        Raises:
            SourceError: ``XSCL_SOURCE_LIMIT``.
        """
        self.members -= 1
        if self.members < 0:
            raise SourceError("XSCL_SOURCE_LIMIT", f"{self.source} has more than {MAX_MEMBERS:,} members")


class _Packed(Protocol):
    """A decompressor of the standard library."""

    @property
    def eof(self) -> bool:
        """Whether the compressed data has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether there is nothing to give without more of it."""

    @property
    def unused_data(self) -> bytes:
        """Bytes behind the end of the compressed data."""

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        """Return at most ``max_length`` bytes of what ``data``, and what was given before, unpack to."""


class _Unpacking(io.RawIOBase):
    """Content of a compressed stream, or of several behind each other.

    The standard library's files of this kind set no bound to the memory that a stream asks for.
    """

    def __init__(self, make: Callable[[], _Packed], stream: ByteStream) -> None:
        self._make = make
        self._stream = stream
        self._unpacker = make()
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while True:
            if self._unpacker.eof:
                # Archives may be filled up with zeros.
                rest = (self._unpacker.unused_data or self._stream.read1(_CHUNK)).lstrip(b"\0")
                if not rest:
                    return 0
                self._unpacker, self._waiting = self._make(), rest
            elif self._unpacker.needs_input and not self._waiting:
                self._waiting = self._stream.read1(_CHUNK)
                if not self._waiting:
                    raise EOFError("the compressed data ends before its end was reached")
            data = self._unpacker.decompress(self._waiting, len(buffer))
            self._waiting = b""
            if data:
                buffer[: len(data)] = data
                return len(data)


def _gunzip(stream: io.BufferedIOBase) -> ByteStream:
    return gzip.GzipFile(fileobj=stream, mode="rb")


def _bunzip(stream: io.BufferedIOBase) -> ByteStream:
    return io.BufferedReader(_Unpacking(bz2.BZ2Decompressor, stream))


def _unxz(stream: io.BufferedIOBase) -> ByteStream:
    return io.BufferedReader(_Unpacking(lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), stream))


def _unzstd(stream: io.BufferedIOBase) -> ByteStream:
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd"))


_KINDS: tuple[tuple[bytes, Callable[[io.BufferedIOBase], ByteStream]], ...] = (
    (b"\x1f\x8b", _gunzip),
    (b"BZh", _bunzip),
    (b"\xfd7zXZ\0", _unxz),
    (b"\x28\xb5\x2f\xfd", _unzstd),
)


def is_tar(head: bytes) -> bool:
    """Whether a tar archive begins so."""
    return head[_TAR_MAGIC] == b"ustar"


def peeled(stream: ByteStream, budget: Budget) -> tuple[bytes, io.BufferedIOBase, bool]:
    """Return (first bytes, up to where the content shows; the content from its start; whether it is a tar archive).

    Raises:
        SourceError: ``XSCL_SOURCE_UNREADABLE`` or ``XSCL_SOURCE_LIMIT``, here or when the content is read.
    """
    rest = _Rest(b"", stream, budget, count=False)
    while True:
        head = _head(rest)
        content = io.BufferedReader(_Rest(head, rest, budget, count=False), _CHUNK)
        unpack = next((unpack for magic, unpack in _KINDS if head.startswith(magic)), None)
        if unpack is None:
            if is_tar(head):
                _enter(budget)
            return head, content, is_tar(head)
        _enter(budget)
        rest = _Rest(b"", unpack(content), budget, count=True)


def members(content: io.BufferedIOBase, budget: Budget) -> Iterator[tuple[str, io.BufferedIOBase]]:
    """Yield (name, content) of the regular files in a tar archive, in their order; each is read before the next is
    asked for.

    Links, devices, sparse files, hidden files, and names that lead outside (``/etc/x``, ``../x``) or are longer than
    paths can be are passed over.

    Raises:
        SourceError: ``XSCL_SOURCE_UNREADABLE`` or ``XSCL_SOURCE_LIMIT``.
    """
    bounded = _BoundedHeads(content)
    member: tarfile.TarInfo | None
    try:
        archive = tarfile.open(fileobj=bounded, mode="r|", bufsize=_CHUNK)  # noqa: SIM115 - the stream is the caller's
        member = archive.next()
        while member is not None:
            budget.count_member()
            if member.isreg() and not member.issparse() and _is_inside(member.name):
                file = cast("ByteStream | None", archive.extractfile(member))
                assert file is not None
                bounded.left = None
                stream = io.BufferedReader(_Rest(b"", file, budget, count=False), _CHUNK)
                yield member.name, stream
                while stream.read1(_CHUNK):
                    pass
            bounded.left = None if member.isreg() else _MEMBER_HEAD
            member = _next_member(archive, bounded)
    except SourceError:
        raise
    except Exception as error:  # hostile headers make tarfile raise nearly anything
        raise unreadable(budget.source, error) from None


def _next_member(archive: tarfile.TarFile, bounded: _BoundedHeads) -> tarfile.TarInfo | None:
    """Return the next member; ``TarFile.next`` would keep a list of them, and take a broken header for the end."""
    stream = archive.fileobj
    assert stream is not None
    stream.seek(archive.offset)
    bounded.left = _MEMBER_HEAD
    try:
        return tarfile.TarInfo.fromtarfile(archive)
    except (tarfile.EOFHeaderError, tarfile.EmptyHeaderError):  # type: ignore[attr-defined]
        return None


def _is_inside(name: str) -> bool:
    parts = name.split("/")
    return (
        len(name) <= _LONGEST_NAME
        and not name.startswith("/")
        and not any(part.startswith(".") and part != "." for part in parts)
    )


def _enter(budget: Budget) -> None:
    budget.layers -= 1
    if budget.layers < 0:
        raise SourceError(
            "XSCL_SOURCE_LIMIT", f"{budget.source} is packed more than {MAX_LAYERS} times", hint="unpack it before"
        )


class _BoundedHeads(io.RawIOBase):
    """Stream for tarfile; ``left`` bytes may come before the next member's content, None for any number."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.left: int | None = _MEMBER_HEAD

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        if self.left is not None:
            self.left -= len(data)
            if self.left < 0:
                raise SourceError("XSCL_SOURCE_LIMIT", f"more than {_MEMBER_HEAD:,} bytes of header before a member")
        return data


class _Rest(io.RawIOBase):
    """A stream as it was before its head was read; what cannot be unpacked becomes a ``SourceError``."""

    def __init__(self, head: bytes, stream: ByteStream | _Rest, budget: Budget, *, count: bool) -> None:
        self._head = head
        self._stream = stream
        self._budget = budget
        self._count = count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read1(self, size: int = -1, /) -> bytes:
        """Read what is there, at most ``size`` bytes; nothing at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        try:
            data = self._stream.read1(size)
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, tarfile.TarError) as error:
            if isinstance(error, SourceError):
                raise
            raise unreadable(self._budget.source, error) from None
        if self._count:
            self._budget.spend(len(data))
        return data


def _head(stream: _Rest) -> bytes:
    # No more than what is there, so that a pipe that is still being written is read no further than needed.
    head = b""
    while len(head) < _HEAD_BYTES:
        first = first_character(head)
        # Whether an object of JSON is a line or more shows where it ends.
        shows = first == "<" or (first == "{" and head.rstrip().endswith(b"}"))
        if shows or (first not in ("", "{") and len(head) >= _TAR_HEADER):
            break
        data = stream.read1(_HEAD_BYTES - len(head))
        if not data:
            break
        head += data
    return head


def first_character(head: bytes) -> str:
    """Return the first character that is not white space; '' where there is none in ``head``."""
    if head.startswith(_UTF16_BOMS):
        text = head.decode("utf-16", "ignore")  # the last character may be there by half
    else:
        text = head.removeprefix(_UTF8_BOM).lstrip(_BLANKS)[:4].decode("utf-8", "replace")
    return text.lstrip(" \t\r\n")[:1]


def unreadable(source: str, error: Exception) -> SourceError:
    """Return the refusal of an input that could not be read."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return SourceError("XSCL_SOURCE_UNREADABLE", f"{source}: {reason}")
