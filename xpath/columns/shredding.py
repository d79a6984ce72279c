"""Shredding: the stored texts of many documents become arrays of their nodes, by arithmetic on bytes.

``xscl.base.safe_xml.serialize`` writes one form of a document: ``<`` and ``>`` stand in markup alone, values stand in
``"``, one blank precedes each attribute, and seven entities occur.  So the places of a few bytes tell all nodes of
many documents at once, and no step of Python is made for a node.  A document in any other form, be it well-formed or
not, is left out; whoever asks makes a tree of it.

The law, tested: elements, attributes and text nodes are those of a walk through the parsed document, with the numbers
of ``xscl.xpath.nodes``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from xscl.xpath.columns.chunk import Beside, Bools, Bytes, ColumnChunk
from xscl.xpath.columns.names import MOST_LETTERS, NO_NAME, ChunkNames, leading_bytes
from xscl.xpath.key_numbers import Keys
from xscl.xpath.runs import Int64s, starts

__all__ = ["OddError", "Shredding", "padded", "shred"]

_MOST_LEVELS = 250
"""Levels of elements; a document with more becomes a tree."""
_PADDING = 16
"""Bytes behind the last document that may be read."""
_ENTITIES = [b"&lt;", b"&gt;", b"&amp;", b"&quot;", b"&#9;", b"&#10;", b"&#13;"]


def shred(contents: pa.Array, roots: Int64s, names: ChunkNames) -> ColumnChunk:
    """Return the nodes of the documents that are in the stored form; ``roots`` are the paths of document nodes.

    ``contents`` are texts or bytes, without NULL.
    """
    places = np.arange(len(contents))
    while True:
        found = Shredding(*_texts(contents), roots[places], names).shredded(places)
        if isinstance(found, ColumnChunk):
            return found
        # Each look finds all documents that are odd in one way, so there are few.
        contents = contents.filter(pa.array(~found))
        places = places[~found]


def _texts(contents: pa.Array) -> tuple[Bytes, Int64s]:
    """Return the bytes of a column of texts, with zeros behind them, and where each begins and the last one ends."""
    if not len(contents):
        return np.zeros(_PADDING, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    _, offsets, data = contents.buffers()
    places = np.frombuffer(offsets, dtype=np.int32)[contents.offset : contents.offset + len(contents) + 1]
    texts = np.frombuffer(b"" if data is None else data, dtype=np.uint8)[places[0] : places[-1]]
    return np.concatenate([texts, np.zeros(_PADDING, dtype=np.uint8)]), places.astype(np.int64) - places[0]


def padded(texts: Sequence[bytes]) -> tuple[Bytes, Int64s]:
    """Return the bytes of some texts, with zeros behind them, and where each begins and the last one ends."""
    data = np.frombuffer(b"".join([*texts, bytes(_PADDING)]), dtype=np.uint8)
    return data, np.concatenate([[0], np.cumsum(list(map(len, texts)), dtype=np.int64)])


class OddError(Exception):
    """Some documents are not in the stored form."""

    def __init__(self, documents: Bools) -> None:
        super().__init__()
        self.documents = documents


class Shredding:
    """One look at some documents; odd ones end it."""

    def __init__(self, data: Bytes, offsets: Int64s, roots: Int64s, names: ChunkNames) -> None:
        """Take ``data`` and ``offsets`` as ``padded`` returns them."""
        self.names = names
        self.roots = roots
        self.data = data
        self.offsets = offsets
        self.words: Keys = np.ndarray(shape=(len(data) - 8,), dtype="<u8", buffer=data, strides=(1,))

    def shredded(self, places: Int64s) -> ColumnChunk | Bools:
        """Return the nodes; or which documents are not in the stored form."""
        try:
            self.markup()
            self._paths()
            return self._chunk(places)
        except OddError as odd:
            return odd.documents

    def markup(self) -> None:
        """Find all tags, attributes and the letters of names.

        Raises:
            OddError: some documents are not in the stored form.
        """
        self._tags()
        self._levels()
        self._attributes()
        self._letters()
        self._check_bytes()

    def _refuse(self, documents: Int64s) -> None:
        """Leave documents out, if there are any."""
        if len(documents):
            odd = np.zeros(len(self.roots), dtype=np.bool_)
            odd[documents] = True
            raise OddError(odd)

    def refuse_at(self, bytes_: Int64s) -> None:
        """Leave the documents of some bytes out."""
        if len(bytes_):
            self._refuse(np.searchsorted(self.offsets, bytes_, side="right") - 1)

    def _tags(self) -> None:
        """Find the tags: in turns, ``<`` and ``>``."""
        data, offsets = self.data, self.offsets
        marks = np.flatnonzero((data & 0xFD) == ord("<"))
        of_document = np.searchsorted(marks, offsets)
        is_end = data[marks] == ord(">")
        if is_end[::2].any() or not is_end[1::2].all() or (of_document & 1).any():
            document = np.repeat(np.arange(len(self.roots)), np.diff(of_document))
            turn = (np.arange(len(marks)) - of_document[document]) & 1
            odd = (np.diff(of_document) & 1).astype(np.bool_)
            odd[document[turn != is_end]] = True
            self._refuse(np.flatnonzero(odd))
        self.begin, self.end = marks[::2], marks[1::2]
        self.tag_first = of_document // 2
        self._refuse(np.flatnonzero(np.diff(self.tag_first) == 0))
        self.second = data[self.begin + 1]
        self.refuse_at(self.begin[(self.second == ord("!")) | (self.second == ord("?"))])
        first, last = self.begin[self.tag_first[:-1]], self.end[self.tag_first[1:] - 1]
        self._refuse(np.flatnonzero((first != offsets[:-1]) | (last + 1 != offsets[1:])))

    def _levels(self) -> None:
        """Find the level of each tag, the end of each element, and the rows of elements."""
        ends = self.second == ord("/")
        self.empty = (self.data[self.end - 1] == ord("/")) & ~ends
        step = np.where(ends, -1, np.where(self.empty, 0, 1))
        depth = np.cumsum(step)
        lasts = self.tag_first[1:] - 1
        outside = np.flatnonzero(depth <= 0)
        if len(outside) != len(lasts) or (outside != lasts).any() or (depth[lasts] != 0).any():
            before = np.concatenate([[0], depth[lasts]])[:-1]
            document = np.repeat(np.arange(len(lasts)), np.diff(self.tag_first))
            inner = depth - before[document]
            inner[lasts] = np.where(inner[lasts] == 0, 1, 0)
            self._refuse(np.unique(document[inner <= 0]))
        level = depth + (step != 1)
        if level.max(initial=0) > _MOST_LEVELS:
            self.refuse_at(self.begin[level > _MOST_LEVELS])
        opening, closing = np.flatnonzero(step == 1), np.flatnonzero(ends)
        # Of one level, the first start belongs to the first end.
        short = level.astype(np.uint8)
        opening = opening[np.argsort(short[opening], kind="stable")]
        closing = closing[np.argsort(short[closing], kind="stable")]
        partner = np.arange(len(level))
        partner[opening] = closing
        partner[closing] = opening
        self.opening, self.closing, self.partner = opening, closing, partner
        self.is_open = step == 1
        self.tags = np.flatnonzero(~ends)
        self.row = np.cumsum(~ends) - 1
        """The row of each tag's element; at an end, of the last element before it."""
        self.level = level[self.tags]

    def _attributes(self) -> None:
        """Find attributes, and the end of each tag's name."""
        data, begin = self.data, self.begin
        ends = self.end - self.empty
        quotes = np.flatnonzero(data == ord('"'))
        tag = np.searchsorted(begin, quotes, side="right") - 1
        inside = quotes < self.end[tag]
        quotes, tag = quotes[inside], tag[inside]
        counts = np.bincount(tag, minlength=len(begin))
        self.refuse_at(begin[(counts & 1).astype(np.bool_)])
        opened, closed, self.attribute_tag = quotes[::2], quotes[1::2], tag[::2]
        first = np.diff(self.attribute_tag, prepend=-1) != 0
        last = np.diff(self.attribute_tag, append=-1) != 0
        self.letters_end = ends
        holders = self.attribute_tag[first]
        if len(holders):
            self.letters_end = ends.copy()
            self.letters_end[holders] = self._blanks(begin[holders] + 1)
        names = np.empty(len(opened), dtype=np.int64)
        names[first] = self.letters_end[holders] + 1
        names[~first] = closed[np.flatnonzero(~first) - 1] + 2
        behind = np.where(last, ends[self.attribute_tag] == closed + 1, data[closed + 1] == ord(" "))
        lengths = opened - 1 - names
        good = behind & (data[opened - 1] == ord("=")) & (lengths > 0) & (lengths <= MOST_LETTERS)
        good &= ~(self.second == ord("/"))[self.attribute_tag]
        self.refuse_at(opened[~good])
        self.name_begin, self.name_length = names, lengths
        self.value_begin, self.value_end = opened + 1, closed

    def _blanks(self, places: Int64s) -> Int64s:
        """Return the first blank from each place on."""
        found = np.full(len(places), -1, dtype=np.int64)
        waiting = np.arange(len(places))
        ones, tops = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
        for done in range(0, MOST_LETTERS, 8):
            at = np.minimum(places[waiting] + done, len(self.words) - 1)
            word = self.words[at] ^ (ones * np.uint64(ord(" ")))
            zero = (word - ones) & ~word & tops
            here = zero != 0
            # Below the lowest bit that is set, all are: their number is eight times that of the bytes before.
            lowest = zero[here] & (~zero[here] + np.uint64(1))
            found[waiting[here]] = at[here] + (np.bitwise_count(lowest - np.uint64(1)).astype(np.int64) >> 3)
            waiting = waiting[~here]
            if not len(waiting):
                break
        self.refuse_at(places[waiting])
        return found

    def _letters(self) -> None:
        """Read the names of elements, and compare those of their ends."""
        begin = self.begin + 1 + (self.second == ord("/"))
        length = self.letters_end - begin
        self.refuse_at(self.begin[(length <= 0) | (length > MOST_LETTERS)])
        opening, closing = self.opening, self.closing
        self.refuse_at(self.begin[opening[length[opening] != length[closing]]])
        for done in range(0, int(length[opening].max(initial=0)), 8):
            if done:
                longer = length[opening] > done
                opening, closing = opening[longer], closing[longer]
            differ = self.words[begin[opening] + done] ^ self.words[begin[closing] + done]
            self.refuse_at(self.begin[opening[(differ & leading_bytes(length[opening] - done)) != 0]])
        self.tag_begin, self.tag_length = begin[self.tags], length[self.tags]
        self.letters = self.names.letters(self.words, self.tag_begin, self.tag_length)
        self.name_letters = self.names.letters(self.words, self.name_begin, self.name_length)

    def _check_bytes(self) -> None:
        """Check entities and control characters."""
        data = self.data[: self.offsets[-1]]
        self.ampersands = np.flatnonzero(data == ord("&"))
        if len(self.ampersands):
            word = self.words[self.ampersands]
            known = np.zeros(len(word), dtype=np.bool_)
            for entity in _ENTITIES:
                mask = np.uint64((1 << 8 * len(entity)) - 1)
                known |= (word & mask) == np.uint64(int.from_bytes(entity, "little"))
            self.refuse_at(self.ampersands[~known])
        low = np.flatnonzero(data < 0x20)
        if len(low):
            which = data[low]
            tag = np.searchsorted(self.begin, low, side="right") - 1
            odd = (which != ord("\n")) & (which != ord("\t")) | (low < self.end[tag])
            self.refuse_at(low[odd])

    def _paths(self) -> None:
        """Find parents and paths, level by level, with the namespaces in scope."""
        order = np.argsort(self.level.astype(np.uint8), kind="stable")
        bounds = starts(np.bincount(self.level, minlength=2))
        bounds = np.append(bounds, len(order))
        rows = len(order)
        self.parent = np.full(rows, -1, dtype=np.int64)
        self.path = np.empty(rows, dtype=np.int64)
        scopes = self._declared()
        name = np.empty(rows, dtype=np.int64)
        if scopes is None:
            name = self._meant(np.arange(rows), 0)
        scope = np.zeros(rows, dtype=np.int64)
        above = order[:0]
        for level in range(1, len(bounds) - 1):
            here = order[bounds[level] : bounds[level + 1]]
            up = self.roots
            if level > 1:
                parent = self.parent[here] = above[np.searchsorted(above, here) - 1]
                up = self.path[parent]
                scope[here] = scope[parent]
            if scopes is not None:
                for row in here[self.declaring[here]].tolist():
                    scope[row] = self.names.scope(int(scope[row]), scopes[row])
                name[here] = self._meant(here, scope[here])
            self.path[here] = self.names.paths(up, name[here])
            above = here
        self.attribute_owner = self.row[self.attribute_tag]
        meant = self.names.meant(
            scope[self.attribute_owner],
            self.name_letters,
            self.name_begin,
            self.name_length,
            self.data,
            attributes=True,
        )
        self.refuse_at(self.name_begin[meant == NO_NAME])
        self.attribute_path = self.names.paths(self.path[self.attribute_owner], meant)
        twice = np.sort((self.attribute_owner << 32) | self.attribute_path)
        self.refuse_at(self.tag_begin[twice[1:][twice[1:] == twice[:-1]] >> 32])

    def _declared(self) -> dict[int, bytes] | None:
        """Take the declarations of namespaces out of the attributes: the bytes of them, by element; None: there are
        none.
        """
        if not len(self.attribute_tag) or b"xmlns" not in self.data.tobytes():
            return None
        declares = self.names.declares(self.name_letters, self.name_begin, self.data)
        if not declares.any():
            return None  # a text or a value has the letters
        owner = self.row[self.attribute_tag[declares]]
        rows, first = np.unique(owner, return_index=True)
        last = np.append(first[1:], len(owner)) - 1
        begins = self.name_begin[declares][first].tolist()
        ends = (self.value_end[declares][last] + 1).tolist()
        self.declaring = np.zeros(len(self.tags), dtype=np.bool_)
        self.declaring[rows] = True
        raw = self.data.tobytes()
        kept = ~declares
        for name in ("attribute_tag", "name_begin", "name_length", "name_letters", "value_begin", "value_end"):
            setattr(self, name, getattr(self, name)[kept])
        return {row: raw[begin:end] for row, begin, end in zip(rows.tolist(), begins, ends, strict=True)}

    def _meant(self, rows: Int64s, scopes: Int64s | int) -> Int64s:
        begins, lengths = self.tag_begin[rows], self.tag_length[rows]
        found = self.names.meant(scopes, self.letters[rows], begins, lengths, self.data, attributes=False)
        self.refuse_at(begins[found == NO_NAME])
        return found

    def _chunk(self, places: Int64s) -> ColumnChunk:
        tags = self.tags
        between = self.begin[1:] > self.end[:-1] + 1
        holding = np.flatnonzero(between)
        before = np.concatenate([[0], np.cumsum(between)])
        # Behind a start stands a text of its element, behind an end one of the element above.
        closed = self.row[np.where(self.is_open | self.empty, np.arange(len(self.begin)), self.partner)][holding]
        owner = np.where(self.is_open[holding], self.row[holding], self.parent[closed])
        text_begin, text_end = self.end[holding] + 1, self.begin[1:][holding]
        first = self.row[self.tag_first[:-1]] if len(places) else np.zeros(0, dtype=np.int64)
        first = np.append(first, len(tags))
        document = np.repeat(np.arange(len(places)), np.diff(first))
        return ColumnChunk(
            names=self.names,
            data=self.data,
            places=places,
            roots=self.roots,
            first=first,
            document=document,
            path=self.path,
            level=self.level,
            parent=self.parent,
            last=self.row[self.partner[tags]],
            text_first=before[tags],
            text_end=before[self.partner[tags]],
            attributes=self._beside(self.attribute_owner, self.value_begin, self.value_end),
            attribute_path=self.attribute_path,
            texts=self._beside(owner, text_begin, text_end),
        )

    def _beside(self, owner: Int64s, begin: Int64s, end: Int64s) -> Beside:
        coded = np.zeros(len(begin), dtype=np.bool_)
        if len(self.ampersands) and len(begin):
            at = np.searchsorted(begin, self.ampersands, side="right") - 1
            coded[at[(at >= 0) & (self.ampersands < end[at])]] = True
        return Beside(owner, begin, end, coded)
