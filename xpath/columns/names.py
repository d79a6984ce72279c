"""Names and paths of many documents as numbers, which chunks of documents share.

A name is read from the bytes of a tag by words of eight bytes.  A tag's name means something by the namespaces in
scope, so a number stands for a scope and the letters together; Python sees each of these once.  A *path* is a chain of
names from the document node of a channel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from xscl.xpath.automaton.names import TEXT, attribute
from xscl.xpath.key_numbers import KeyNumbers, Keys
from xscl.xpath.runs import Int64s

__all__ = ["MOST_LETTERS", "NO_NAME", "ChunkNames", "leading_bytes"]

MOST_LETTERS = 256
"""Bytes of a name; a document with a longer one becomes a tree."""
NO_NAME = -1
"""Number of letters that are no name, or of a prefix that no declaration in scope explains."""

_MOST_HELD = 200_000
"""Names and paths that are kept from chunk to chunk."""
_LOW = np.array([(1 << 8 * length) - 1 for length in range(9)], dtype=np.uint64)
"""Masks that leave so many bytes of a word."""
_NAME = re.compile(r"[^\x00-\x40\x5b-\x5e\x60\x7b-\x7f][^\x00-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]*\Z")
_DECLARED = re.compile(rb'([^\s=]+)="([^"]*)"')
_XML = "http://www.w3.org/XML/1998/namespace"

Scope = dict[str, str]
"""Prefixes, '' for none, and their namespaces."""


def leading_bytes(lengths: Int64s) -> Keys:
    """Return masks that leave so many of a word's bytes, or all eight."""
    return _LOW[np.minimum(lengths, 8)]


class ChunkNames:
    """Numbers of names and paths; they stay until ``forget``."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, so that strangers' names do not fill memory."""
        self._words = KeyNumbers()
        self._chains = KeyNumbers()
        self._meanings = KeyNumbers()
        self._meant: Int64s = np.zeros(0, dtype=np.int64)
        """Number of the name that letters in a scope mean."""
        self._declaring: dict[int, bool] = {}
        self._scopes: dict[tuple[int, bytes], int] = {}
        self._spaces: list[Scope] = [{"xml": _XML}]
        self.names: list[str] = [TEXT]
        """Names by number: of elements in Clark's form, of attributes behind ``@``, and ``TEXT``."""
        self._numbers: dict[str, int] = {TEXT: 0}
        self._paths = KeyNumbers()
        self.parents: list[int] = []
        """The path above each path; -1 at a document node."""
        self.ends: list[int] = []
        """The number of each path's last name; at a document node, that of the channel."""
        self.levels: list[int] = []
        """The number of names of each path; 0 at a document node."""
        self.epoch = getattr(self, "epoch", 0) + 1
        """Changes when all numbers do."""

    def keep_in_bounds(self) -> None:
        """Forget everything if there is too much; to be called between chunks."""
        if len(self._words) + len(self._chains) + len(self._meanings) + len(self._paths) > _MOST_HELD:
            self.forget()

    # -- letters ---------------------------------------------------------------------------------------------------

    def letters(self, words: Keys, begins: Int64s, lengths: Int64s) -> Int64s:
        """Return a number for the bytes of each name, the same for the same bytes.

        ``words[i]`` are the eight bytes from byte ``i`` on.
        """
        firsts, _ = self._words.of(words[begins] & leading_bytes(lengths))
        found = 2 * firsts
        for done in range(8, int(lengths.max(initial=0)), 8):
            longer = np.flatnonzero(lengths > done)
            rest = words[begins[longer] + done] & leading_bytes(lengths[longer] - done)
            chained, _ = self._chains.of(_pairs(found[longer], self._words.of(rest)[0]))
            found[longer] = 2 * chained + 1
        return found

    def declares(self, letters: Int64s, begins: Int64s, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        """Tell which attributes declare a namespace."""
        distinct, first, which = np.unique(letters, return_index=True, return_inverse=True)
        for number, place in zip(distinct.tolist(), begins[first].tolist(), strict=True):
            if number not in self._declaring:
                self._declaring[number] = data[place : place + 6].tobytes() in (b"xmlns=", b"xmlns:")
        return np.array([self._declaring[number] for number in distinct.tolist()], dtype=np.bool_)[which]

    def scope(self, above: int, declared: bytes) -> int:
        """Return the number of a scope with some more declarations."""
        found = self._scopes.get((above, declared))
        if found is None:
            space = dict(self._spaces[above])
            for name, value in _DECLARED.findall(declared):
                if name == b"xmlns" or name.startswith(b"xmlns:"):
                    space[name[6:].decode()] = _plain(value.decode())
            found = self._scopes[above, declared] = len(self._spaces)
            self._spaces.append(space)
        return found

    def meant(
        self,
        scopes: Int64s | int,
        letters: Int64s,
        begins: Int64s,
        lengths: Int64s,
        data: npt.NDArray[np.uint8],
        *,
        attributes: bool,
    ) -> Int64s:
        """Return the numbers of the names of elements, or of attributes; ``NO_NAME`` for what is none."""
        keys = _pairs(np.broadcast_to(scopes, letters.shape), 2 * letters + attributes)
        found, fresh = self._meanings.of(keys)
        if len(fresh):
            scope = np.broadcast_to(scopes, letters.shape)
            new = []
            for place in fresh.tolist():
                raw = data[begins[place] : begins[place] + lengths[place]].tobytes()
                new.append(self._number(self._resolved(raw, int(scope[place]), attributes=attributes)))
            self._meant = np.concatenate([self._meant, np.array(new, dtype=np.int64)])
        return self._meant[found]

    def _resolved(self, raw: bytes, scope: int, *, attributes: bool) -> str | None:
        prefix, colon, local = raw.decode("utf-8", "replace").rpartition(":")
        if not all(_NAME.match(part) for part in ((prefix, local) if colon else (local,))):
            return None
        uri = self._spaces[scope].get(prefix, "" if not prefix else None) if colon or not attributes else ""
        if uri is None:
            return None
        clark = f"{{{uri}}}{local}" if uri else local
        return attribute(clark) if attributes else clark

    def _number(self, name: str | None) -> int:
        if name is None:
            return NO_NAME
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number

    # -- paths -----------------------------------------------------------------------------------------------------

    def roots(self, channels: Iterable[str]) -> Int64s:
        """Return the paths of the document nodes of channels."""
        # No element is called so.
        ends = np.array([self._number(f"\0{channel}") for channel in channels], dtype=np.int64)
        return self.paths(np.full(len(ends), -1), ends)

    def channel(self, path: int) -> str:
        """Return the channel of the path of a document node."""
        return self.names[self.ends[path]][1:]

    def paths(self, above: Int64s, names: Int64s) -> Int64s:
        """Return the paths that go on by one name."""
        found, fresh = self._paths.of(_pairs(above + 1, names))
        for place in fresh.tolist():
            parent = int(above[place])
            self.parents.append(parent)
            self.ends.append(int(names[place]))
            self.levels.append(self.levels[parent] + 1 if parent >= 0 else 0)
        return found


def _pairs(high: Int64s, low: Int64s) -> Keys:
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)


def _plain(value: str) -> str:
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#9;", "\t"), ("&#10;", "\n")):
        value = value.replace(entity, character)
    return value.replace("&#13;", "\r").replace("&amp;", "&")
