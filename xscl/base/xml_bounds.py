"""Bounds from above of nodes and names, by the bytes of a document without declarations, which cost less than counting.

A document is in UTF-8.  If it is not well-formed, bounds say nothing; then its parser refuses it.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["has_few_names", "longest_tag", "may_have_long_namespace", "most_values", "without_sections"]

_TAG_NAME = re.compile(rb"<\??([^\s<>/!?]+)")
_MAY_BE_NAME = re.compile(rb"[A-Za-z_:\x80-\xff][A-Za-z0-9._:\x80-\xff-]*")
_DECLARATION = re.compile(rb"""xmlns(?::[^\s=]+)?\s*=\s*(?:"[^"]*"|'[^']*')""")
_ENDS = {b"<!--": b"-->", b"<![C": b"]]>"}


def without_sections(data: bytes) -> bytes:
    """Blank comments and sections of a document, and every ``<`` within its instructions; no byte moves.

    A comment keeps its ``<``, because it parts texts; a section does not.

    >>> without_sections(b"<a><![CDATA[<b>]]><!--<c>--><?d <e>?></a>")
    b'<a>               <         <?d  e>?></a>'
    """
    if b"<!" not in data and data.find(b"<?", 1) < 0:
        return data
    import numpy as np  # most documents are as they are

    codes = np.frombuffer(data, np.uint8)
    tags = np.flatnonzero(codes[:-1] == ord("<"))
    after = codes[tags + 1]
    kept: list[bytes] = []
    done = 0
    for begin in tags[(after == ord("!")) | (after == ord("?"))].tolist():
        if begin < done:
            continue
        mark = _ENDS.get(data[begin : begin + 4], b"?>")
        end = data.find(mark, begin + 4 if mark == b"-->" else begin + 2)
        end = len(data) if end < 0 else end + len(mark)
        kept.append(data[done:begin])
        if mark == b"?>":
            kept.append(b"<" + data[begin + 1 : end].replace(b"<", b" "))
        else:
            kept.append((b"<" if mark == b"-->" else b" ").ljust(end - begin))
        done = end
    kept.append(data[done:])
    return b"".join(kept)


def has_few_names(markup: bytes, most: int) -> bool:
    """Whether a document has surely at most so many distinct names.

    A prefix may stand for several namespaces, so names as they are written count for each declaration.
    """
    tags = set(_TAG_NAME.findall(markup))
    before = {words[-1] for part in markup.split(b"=") if (words := part.rsplit(None, 1))}
    attributes = sum(1 for word in before if _MAY_BE_NAME.fullmatch(word))
    declared = set(_DECLARATION.findall(markup)) if b"xmlns" in markup else set()
    return (len(tags) + attributes) * (len(declared) + 1) <= most


def longest_tag(markup: bytes) -> int:
    """Return the most bytes from one ``<`` to the next, which no tag is longer than, and no text without sections."""
    import numpy as np  # most documents are short

    starts = np.flatnonzero(np.frombuffer(markup, np.uint8) == ord("<"))
    return int(np.diff(starts, append=len(markup)).max(initial=0))


def most_values(markup: bytes) -> int:
    """Return the most ``=`` from one ``<`` to the next, which no tag has more values than."""
    import numpy as np  # most documents have few

    codes = np.frombuffer(markup, np.uint8)
    of_tags = np.searchsorted(np.flatnonzero(codes == ord("<")), np.flatnonzero(codes == ord("=")))
    return int(np.bincount(of_tags).max(initial=0))


def may_have_long_namespace(data: bytes, length: int) -> bool:
    """Whether a document may have a namespace of more bytes than these."""
    if len(data) <= length:
        return False
    pattern = _long_namespace(length)
    found = data.find(b"xmlns", 1)
    while found > 0:
        if pattern.match(data, found - 1):
            return True
        found = data.find(b"xmlns", found + 5)
    return False


@lru_cache(maxsize=8)
def _long_namespace(length: int) -> re.Pattern[bytes]:
    """Find what may be a declaration of a namespace of more bytes than these; no byte is looked at twice."""
    return re.compile(rb"""\sxmlns(?::[^\s=<>"']*+)?\s*+=\s*+(?:"[^"<]{%d}|'[^'<]{%d})""" % (length + 1, length + 1))
