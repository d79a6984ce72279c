"""String values of nodes in columns: intervals of the documents' bytes become texts of Arrow.

The text of an element with one text node is copied once, by Arrow; no string of Python is made.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.xpath.columns.chunk import Beside, Bools, ColumnChunk
from xscl.xpath.runs import Int64s, gather

__all__ = ["attribute_values", "string_values", "text_values"]

_ENTITIES = (
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", '"'),
    ("&#9;", "\t"),
    ("&#10;", "\n"),
    ("&#13;", "\r"),
    ("&amp;", "&"),  # last: what it leaves is no entity
)


def string_values(chunk: ColumnChunk, elements: Int64s) -> pa.StringArray:
    """Return the string values of elements, by their rows."""
    first = chunk.text_first[elements]
    counts = chunk.text_end[elements] - first
    if (counts == 1).all():
        return text_values(chunk, first)
    at, _ = gather(first, counts)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(offsets, text_values(chunk, at)), "")


def text_values(chunk: ColumnChunk, texts: Int64s | None = None) -> pa.StringArray:
    """Return the string values of text nodes."""
    return _values(chunk, chunk.texts, texts)


def attribute_values(chunk: ColumnChunk, attributes: Int64s | None = None) -> pa.StringArray:
    """Return the string values of attributes."""
    return _values(chunk, chunk.attributes, attributes)


def _values(chunk: ColumnChunk, nodes: Beside, at: Int64s | None) -> pa.StringArray:
    if at is None:
        at = np.arange(len(nodes.begin))
    if not len(at):
        return pa.array([], pa.string())
    # Between two intervals lies one that nobody asks for.
    offsets = np.empty(2 * len(nodes.begin), dtype=np.int32)
    offsets[::2], offsets[1::2] = nodes.begin, nodes.end
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(chunk.data)]
    every = pa.StringArray.from_buffers(len(offsets) - 1, buffers[1], buffers[2])
    found = every.take(pa.array(2 * at))
    coded = nodes.coded[at]
    return _decoded(found, coded) if coded.any() else found


def _decoded(texts: pa.StringArray, coded: Bools) -> pa.StringArray:
    """Return texts with the characters that entities stand for."""
    mask = pa.array(coded)
    plain = texts.filter(mask)
    for entity, character in _ENTITIES:
        plain = pc.replace_substring(plain, pattern=entity, replacement=character)
    return pc.replace_with_mask(texts, mask, plain)
