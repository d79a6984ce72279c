"""Documents that are in the stored form already, told by their bytes.

``shredding`` takes documents that were checked when they were taken in.  Here a document is a stranger's, so nothing is
left open: a document that is found to be in the stored form is well-formed, and ``serialize`` would write it as it is.
Names with a colon or letters beyond ASCII, and namespaces, are left to a parser, as is every other form.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

import numpy as np

from xscl.xpath.columns.names import ChunkNames
from xscl.xpath.columns.shredding import OddError, Shredding, padded
from xscl.xpath.runs import Int64s

__all__ = ["in_stored_form"]

_MOST_LOOKS = 3
"""Looks at a run of documents; each leaves out those that are odd in one way."""
_NAME = re.compile(rb"(?!xmlns\Z)[A-Za-z_][A-Za-z0-9_.-]*\Z")
_OF_VALUES = [b"&quot;", b"&#9;", b"&#10;"]
"""Entities that are written in values of attributes alone."""
_NO_CHARACTERS = [0xBEBFEF, 0xBFBFEF]
"""The last two code points of the first plane, as little-endian bytes of UTF-8."""


class _Local(threading.local):
    """Names that a thread has seen, as numbers."""

    def __init__(self) -> None:
        self.names = ChunkNames()


_local = _Local()


def in_stored_form(documents: Sequence[bytes]) -> list[bool]:
    """Tell which documents, in UTF-8, surely are in the stored form.

    Where fewer than half are, hardly any is found.
    """
    found = np.zeros(len(documents), dtype=np.bool_)
    places = np.arange(len(documents))
    names = _local.names
    names.keep_in_bounds()
    for _ in range(_MOST_LOOKS):
        look = Shredding(*padded([documents[place] for place in places.tolist()]), 0 * places, names)
        try:
            look.markup()
            _check(look)
        except OddError as odd:
            places = places[~odd.documents]
            if 2 * len(places) < len(documents):
                break
            continue
        found[places] = True
        break
    told: list[bool] = found.tolist()
    return told


def _check(look: Shredding) -> None:
    """Check all that does not matter to shredding.

    Raises:
        OddError: some documents are not in the stored form.
    """
    look.refuse_at(_unnamed(look, look.letters, look.tag_begin, look.tag_length))
    if len(look.attribute_tag):
        look.refuse_at(_unnamed(look, look.name_letters, look.name_begin, look.name_length))
        known = np.sort(look.attribute_tag << 32 | look.name_letters)
        look.refuse_at(look.begin[known[1:][known[1:] == known[:-1]] >> 32])
    # An element without content has one tag.
    bare = look.opening[(look.closing == look.opening + 1) & (look.begin[look.closing] == look.end[look.opening] + 1)]
    look.refuse_at(look.begin[bare])
    if len(look.ampersands):
        tag = np.searchsorted(look.begin, look.ampersands, side="right") - 1
        look.refuse_at(_beginning(look, look.ampersands[look.ampersands > look.end[tag]], _OF_VALUES))
    high = np.flatnonzero(look.data == 0xEF)
    if len(high):
        look.refuse_at(high[np.isin(look.words[high] & np.uint64(0xFFFFFF), np.array(_NO_CHARACTERS, dtype=np.uint64))])


def _unnamed(look: Shredding, letters: Int64s, begins: Int64s, lengths: Int64s) -> Int64s:
    """Return where something stands for a name that is none, or not so plain."""
    some = np.full(int(letters.max(initial=-1)) + 1, -1)
    some[letters] = np.arange(len(letters))
    numbers = np.flatnonzero(some >= 0)
    each = zip(begins[some[numbers]].tolist(), lengths[some[numbers]].tolist(), strict=True)
    plain = np.array([_NAME.match(look.data[at : at + length].tobytes()) is not None for at, length in each], np.bool_)
    if plain.all():
        return begins[:0]
    some[numbers] = plain
    found: Int64s = begins[some[letters] == 0]
    return found


def _beginning(look: Shredding, places: Int64s, texts: Sequence[bytes]) -> Int64s:
    """Return those of some places where one of some texts stands."""
    word = look.words[places]
    found = np.zeros(len(places), dtype=np.bool_)
    for text in texts:
        mask = np.uint64((1 << 8 * len(text)) - 1)
        found |= (word & mask) == np.uint64(int.from_bytes(text, "little"))
    beginning: Int64s = places[found]
    return beginning
