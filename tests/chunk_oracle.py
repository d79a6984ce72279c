"""The nodes of documents as columns, and the same nodes by lxml."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from lxml import etree

from xscl.base.safe_xml import parse_stored
from xscl.xpath.automaton.names import attribute
from xscl.xpath.columns.chunk import ColumnChunk
from xscl.xpath.columns.names import ChunkNames
from xscl.xpath.columns.shredding import shred
from xscl.xpath.columns.texts import attribute_values, string_values, text_values
from xscl.xpath.nodes import AttributeNode, NodeNumbers, TextNode, string_value, text_nodes

__all__ = ["check", "nodes_of", "shredded", "walked"]

Node = tuple[object, ...]


def shredded(texts: Sequence[str], names: ChunkNames | None = None) -> ColumnChunk:
    names = names or ChunkNames()
    return shred(pa.array(texts, pa.string()), names.roots(["S"] * len(texts)), names)


def chain(names: ChunkNames, path: int) -> tuple[str, ...]:
    if names.parents[path] < 0:
        return (names.channel(path),)
    return (*chain(names, names.parents[path]), names.names[names.ends[path]])


def nodes_of(chunk: ColumnChunk) -> list[list[Node]]:
    """By document: number, path and string value of each node, with what is around an element."""
    found: list[list[Node]] = [[] for _ in chunk.places]
    values = string_values(chunk, np.arange(len(chunk.path))).to_pylist()
    for row, document in enumerate(chunk.document.tolist()):
        first = int(chunk.first[document])
        parent = int(chunk.parent[row])
        around = parent - first if parent >= 0 else -1, int(chunk.last[row]) - first, int(chunk.level[row])
        found[document].append((row - first, chain(chunk.names, int(chunk.path[row])), values[row], *around))
    for numbers, owner, path, texts in (
        (chunk.attribute_numbers, chunk.attributes.owner, chunk.attribute_path, attribute_values(chunk)),
        (chunk.text_numbers, chunk.texts.owner, chunk.text_path, text_values(chunk)),
    ):
        rows = zip(numbers.tolist(), owner.tolist(), path.tolist(), texts.to_pylist(), strict=True)
        for number, row, end, text in rows:
            document = int(chunk.document[row])
            found[document].append((number, chain(chunk.names, end), text, row - int(chunk.first[document])))
    return [sorted(each, key=lambda node: node[0]) for each in found]  # type: ignore[arg-type, return-value]


def walked(root: etree._Element) -> list[Node]:
    """The same by lxml."""
    numbers = NodeNumbers(root)
    elements = list(numbers.elements())
    number = {element: place for place, element in enumerate(elements)}
    found: list[Node] = []
    for place, element in enumerate(elements):
        above = [str(each.tag) for each in element.iterancestors()][::-1]
        path = ("S", *above, str(element.tag))
        inside = len(list(element.iterdescendants(etree.Element)))
        parent = element.getparent()
        around = number[parent] if parent is not None else -1, place + inside, len(path) - 1
        found.append((place, path, string_value(element), *around))
        beside = [AttributeNode(element, str(name)) for name in element.attrib]
        for node in (*beside, *text_nodes(element)):
            last = "text()" if isinstance(node, TextNode) else attribute(node.name)
            found.append((numbers.of(place, node), (*path, last), string_value(node), place))
    return sorted(found, key=lambda node: node[0])  # type: ignore[arg-type, return-value]


def check(texts: Sequence[str], names: ChunkNames | None = None) -> int:
    """Compare all documents that are columns; how many these are."""
    chunk = shredded(texts, names)
    for place, nodes in zip(chunk.places.tolist(), nodes_of(chunk), strict=True):
        assert nodes == walked(parse_stored(texts[place])), texts[place]
    return len(chunk.places)
