"""The character encodings that documents, feeds and answers of strangers may name.

Python knows codecs besides that are no character encodings (``unicode_escape``, ``zlib_codec``), or that take quadratic
time (``punycode``, ``idna``); nobody outside chooses one of those.
"""

from __future__ import annotations

import codecs
import re

from xscl.base.errors import MalformedDocumentError
from xscl.base.shown import shortened

__all__ = ["character_encoding", "encoding_of", "utf8_document"]

_KNOWN = frozenset(
    {
        *("ascii", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"),
        *(f"iso8859-{part}" for part in range(1, 17)),
        *(f"cp{page}" for page in (*range(1250, 1259), 437, 850, 852, 855, 857, 858, 866, 874, 932, 949, 950)),
        *("koi8-r", "koi8-u", "koi8-t", "kz1048", "ptcp154", "tis-620", "viscii", "hp-roman8"),
        *("mac-roman", "mac-latin2", "mac-cyrillic", "mac-greek", "mac-turkish", "mac-iceland"),
        *("gb2312", "gbk", "gb18030", "big5", "big5hkscs"),
        *("euc_jp", "shift_jis", "shift_jisx0213", "shift_jis_2004", "iso2022_jp", "euc_kr", "johab"),
    }
)
"""Names as Python's codecs give them: the labels of the WHATWG, and code pages of older files."""
_LABELS = {
    "macintosh": "mac-roman",
    "x-mac-roman": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "x-sjis": "shift_jis",
    "x-gbk": "gbk",
    "x-x-big5": "big5",
    "x-euc-jp": "euc_jp",
    "windows-874": "cp874",
    "windows-31j": "cp932",
    "dos-874": "cp874",
    "unicode-1-1-utf-8": "utf-8",
    **{f"x-cp{page}": f"cp{page}" for page in range(1250, 1259)},
}
"""Labels of the WHATWG that Python does not know."""
_NAME = re.compile(r"[a-z0-9_.:-]{1,40}")
_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']""")
_BOMS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def character_encoding(name: str) -> str | None:
    """Find Python's name of a character encoding; None where the name is of none.

    >>> character_encoding("Latin-1"), character_encoding("x-sjis"), character_encoding("unicode_escape")
    ('iso8859-1', 'shift_jis', None)
    """
    label = name.strip().lower()
    if not _NAME.fullmatch(label):
        return None
    try:
        found = codecs.lookup(_LABELS.get(label, label)).name
    except LookupError:
        return None
    return found if found in _KNOWN else None


def utf8_document(content: str | bytes) -> bytes:
    """Return the document in UTF-8, whatever its declaration says."""
    text = content if isinstance(content, str) else _decoded(content)
    if isinstance(text, bytes):
        return text
    if not text.startswith("<"):
        text = text.removeprefix("\ufeff")
        # XML wants its declaration at the very start; lines are counted from there.
        stripped = text.lstrip()
        text = stripped if stripped.startswith("<?xml") else text
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MalformedDocumentError(
            "XSCL_MALFORMED_DOCUMENT",
            f"character {error.start} is half a surrogate pair, which XML cannot hold",
        ) from None


def _decoded(data: bytes) -> bytes | str:
    """Return the document's text, or the document if it says that it is UTF-8; libxml2 checks that."""
    name = encoding_of(data)
    if name is None:
        return data
    try:
        return data.decode(name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"line {line}: byte {error.start} of the document is not in the encoding {name}"
    except UnicodeError:
        message = f"line 1: the document is not in the encoding {name}"
    raise MalformedDocumentError("XSCL_MALFORMED_DOCUMENT", message)


def encoding_of(data: bytes) -> str | None:
    """Return the encoding of a document's beginning, by byte order mark or else declaration; None: UTF-8.

    Raises:
        MalformedDocumentError: there is none of that name.
    """
    if data.startswith(b"<"):
        declared = _ENCODING.match(data)
        if declared is None or declared[1].lower() in (b"utf-8", b"utf8"):
            return None
        name = declared[1].decode()
    else:
        marked = next((encoding for mark, encoding in _BOMS if data.startswith(mark)), None)
        if marked is None:
            return None
        name = marked
    known = character_encoding(name)
    if known is None:
        message = f"line 1: {shortened(name)} is no known character encoding"
        raise MalformedDocumentError("XSCL_MALFORMED_DOCUMENT", message)
    return known
