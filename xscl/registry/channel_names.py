"""Names of elements and attributes that a channel's documents have, from its schema or from some documents held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import XsclError
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.catalog.events import files_between
from xscl.catalog.intake_order import next_place
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import EVENT_IDS
from xscl.xpath.conditions.condition import name_parts
from xscl.xpath.nodes import DocumentNode

__all__ = ["ChannelNames", "DocumentNames", "add_names", "known_names", "row_names"]

_DOCUMENTS = 200
"""Most documents of a channel that are looked at."""
_CHARACTERS = 1_000_000
"""About the most characters of these documents in all."""
_FILES = 4
"""Most files that are read for them."""
_READ = 2_000
"""Most events of a file that are read."""
_AT_ONCE = 50
"""Events of a file that are read at a time."""
_SPREAD = 1_000
"""Events among which the files are chosen."""

Name = tuple[str, str]
"""URI and local name."""


@dataclass(slots=True)
class DocumentNames:
    """The names that some documents have."""

    elements: set[Name] = field(default_factory=set)
    attributes: set[Name] = field(default_factory=set)
    documents: int = 0
    """Number of documents that were looked at."""
    is_all: bool = True
    """True where there are no other documents, so other names do not occur."""
    is_schema: bool = False
    """True for the columns of rows."""


def add_names(names: DocumentNames, document: DocumentNode) -> None:
    """Note the names of one more document, if not enough were looked at."""
    if names.documents == _DOCUMENTS:
        names.is_all = False
        return
    names.documents += 1
    for element in document.root.iter("*"):
        names.elements.add(name_parts(str(element.tag)))
        names.attributes.update(name_parts(str(name)) for name in element.attrib)


def _names_in(contents: Iterable[str]) -> DocumentNames:
    """Return the names in some documents; those that cannot be read have none."""
    names = DocumentNames()
    for content in contents:
        with suppress(XsclError):  # whoever walks the document says what is wrong with it
            add_names(names, DocumentNode(parse_stored(content)))
    return names


def row_names(channel: ChannelInfo) -> DocumentNames | None:
    """Return the names in the documents of rows; None while nothing is known of the columns."""
    if channel.kind != "rows" or channel.schema is None:
        return None
    elements = {("", name) for name in (channel.element, *channel.schema)}
    return DocumentNames(elements, is_schema=True)


class ChannelNames:
    """The names of a home's channels; some documents of a channel are looked at, once in a process.

    A channel with fewer documents than are looked at is looked at again when something came after.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sampled: dict[str, tuple[int, DocumentNames]] = {}
        """Place up to which there were events, and the names found, by channel."""

    def of(self, connection: Connection, channel: str) -> DocumentNames | None:
        """Return the names in the documents held of a channel; None: nothing is held, or nothing can be read."""
        last = next_place(connection)
        known = self._sampled.get(channel)
        if known is None or known[1].documents < _DOCUMENTS and known[0] != last:
            known = self._sampled[channel] = last, self._sample(connection, channel)
        return known[1] if known[1].documents else None

    def _sample(self, connection: Connection, channel: str) -> DocumentNames:
        contents: list[str] = []
        characters = 0
        for content in self._contents(connection, channel):
            if len(contents) == _DOCUMENTS or characters > _CHARACTERS:
                break
            characters += len(content)
            contents.append(content)
        names = in_fresh_dictionary(_names_in, contents)
        events = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.channel == channel).limit(_DOCUMENTS + 1).subquery()
        names.is_all = names.documents == connection.scalar(sa.select(sa.func.count()).select_from(events))
        return names

    def _contents(self, connection: Connection, channel: str) -> Iterator[str]:
        """Yield documents of a channel, from a few files."""
        some = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.channel == channel).limit(_SPREAD)
        docids = sorted(set(connection.scalars(some)))
        chosen = {docids[place * (len(docids) - 1) // max(_FILES - 1, 1)] for place in range(_FILES)} if docids else ()
        files: dict[str, int] = {}
        for docid in sorted(chosen):
            for path in files_between(connection, docid, docid):
                files.setdefault(path, docid)
        share = _DOCUMENTS // max(len(files), 1) + 1
        for path in files:
            yield from self._of_file(path, channel, share)

    def _of_file(self, path: str, channel: str, most: int) -> Iterator[str]:
        import pyarrow as pa  # most registrations look at no documents
        import pyarrow.parquet as pq

        taken = seen = 0
        try:
            # Pages are checked as they are read; the whole file may be large, and only a little of it is wanted.
            with pq.ParquetFile(self._root / path, page_checksum_verification=True) as opened:
                for batch in opened.iter_batches(_AT_ONCE, columns=["channel", "content"]):
                    for row in batch.to_pylist():
                        if row["channel"] == channel and row["content"] is not None:
                            taken += 1
                            yield row["content"]
                            if taken == most:
                                return
                    seen += len(batch)
                    if seen >= _READ:
                        return
        except (OSError, pa.ArrowException):
            return  # whoever needs the file says what is wrong with it


def known_names(
    channels: Mapping[str, ChannelInfo], names: ChannelNames | None, connection: Connection, channel: str
) -> DocumentNames | None:
    """Return the names of a channel's schema, or of its documents; None where neither says anything."""
    info = channels.get(channel)
    if info is None:
        return None
    return row_names(info) or (None if names is None else names.of(connection, channel))
