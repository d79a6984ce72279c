"""Paths of elements and attributes that occur in the latest documents of a channel, as queries write them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import islice

from xscl.answers.document_listing import latest_documents
from xscl.base.errors import XsclError
from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.store.home import Home
from xscl.xpath.conditions.condition import name_parts
from xscl.xpath.nodes import DocumentNode

__all__ = ["channel_paths"]

_DOCUMENTS = 50
"""Documents that are looked at."""
_CHARACTERS = 1_000_000
"""About the most characters of these documents in all."""
_ELEMENTS = 20_000
"""Elements of a document that are looked at."""
_DEPTH = 12
"""Steps of a path at most."""
_KNOWN = {uri: prefix for prefix, uri in DEFAULT_NAMESPACES.items()}


def channel_paths(home: Home, channel: str, limit: int) -> list[tuple[str, int]]:
    """Return paths from the root on, with the number of documents in which each occurs, the most frequent ones first.

    A name of a namespace without a prefix of its own is written for all namespaces: ``*:name``.

    Args:
        home: where the documents are.
        channel: a channel, or a stream of one.
        limit: paths at most.
    """
    counted: Counter[str] = Counter()
    characters = 0
    for held in latest_documents(home, channel, _DOCUMENTS):
        characters += len(held.document)
        with suppress(XsclError):  # whoever walks the document says what is wrong with it
            counted.update(in_fresh_dictionary(_paths, held.document))
        if characters > _CHARACTERS:
            break
    found = sorted(counted.items(), key=lambda each: (-each[1], each[0].count("/"), each[0]))
    return found[:limit]


def _paths(text: str) -> set[str]:
    found: set[str] = set()
    above: dict[object, str] = {}
    for element in islice(DocumentNode(parse_stored(text)).root.iter("*"), _ELEMENTS):
        parent = element.getparent()
        path = f"{above.get(parent, '') if parent is not None else ''}/{_step(str(element.tag))}"
        above[element] = path
        if path.count("/") <= _DEPTH:
            found.add(path)
            found.update(f"{path}/@{_step(str(name))}" for name in element.attrib)
    return found


def _step(name: str) -> str:
    uri, local = name_parts(name)
    if not uri:
        return local
    return f"{_KNOWN.get(uri, '*')}:{local}"
