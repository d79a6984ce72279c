"""Published documents: output documents of matches, as events of their channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xscl.base.errors import DocumentError, XsclError
from xscl.base.safe_xml import parse_stored
from xscl.base.types import LAST_TIME, format_time
from xscl.base.values import digest_text
from xscl.batches.match_documents import match_document, match_nodes
from xscl.batches.publishing.rows import Publication, match_cells
from xscl.batches.refusals import Rejection, refused_document
from xscl.catalog.events import PublishedId
from xscl.catalog.records import ChannelInfo, QueryInfo
from xscl.ingest.rows import cells_digest
from xscl.language.selection import Selection
from xscl.store.event_content import stored_document
from xscl.store.results import StoredMatch
from xscl.xpath.nodes import NodeNumbers

__all__ = ["Content", "Made", "Output", "PublishedEvent", "Told", "output_documents"]


Content = str | tuple[str | None, ...]
"""A document, or the cells of a row."""


@dataclass(frozen=True, slots=True)
class Told:
    """A match that queries publish, if some of them do that have it."""

    match: StoredMatch
    place: int | None = None
    """Place at which it was decided; None: that of its last member."""
    end: int | None = None
    """Place in the batch from which on it holds no longer; None: it does."""


@dataclass(frozen=True, slots=True)
class Output:
    """A match that is to be published."""

    id: str
    query: QueryInfo
    match: StoredMatch
    place: int
    came: int
    """Place at which it was found: its own, or a later one where held events were searched."""
    ts: int
    received: int
    is_settled: bool = False
    """Whether it waited until the times of its channels were settled, so that it is late nowhere."""
    end: int | None = None
    """Place from which on it holds no longer; None: it does."""
    start: int | None = None
    """Time at which it begins; None: it is a point in time."""

    @property
    def channel(self) -> str:
        """Channel that gets its document."""
        assert self.query.publish is not None
        return self.query.publish

    def refused(self, error: XsclError) -> Rejection:
        """Tell why its document is no event."""
        return refused_document(self.query.name, self.channel, self.id, self.ts, error)

    def reused(self) -> Rejection:
        """Tell that another match had the same id."""
        message = f"{self.channel} holds a document of an earlier match of events with the same ids, which went since"
        return self.refused(DocumentError("XSCL_EVENT_ID_REUSED", message))


@dataclass(frozen=True, slots=True)
class Made:
    """A document that was made of many matches."""

    channel: str
    id: str
    place: int
    ts: int
    received: int
    content: str
    start: int | None = None
    """Time at which the first of the matches began; None: it is a point in time."""

    @property
    def came(self) -> int:
        """Place at which it was found."""
        return self.place


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """A published document."""

    docid: int
    output: Output | Made
    content: Content
    columns: Mapping[str, str | None] | None = None
    """Columns of the row with their types; None: it is a document."""
    late: bool = False
    behind: int = 0
    """Time by which its channel's clock was beyond it at its place."""

    def row(self) -> dict[str, object]:
        """Return a row of ``EVENT_SCHEMA``."""
        return {
            "docid": self.docid,
            "channel": self.output.channel,
            "id": self.output.id,
            "version": 1,
            "item": self.docid,
            "ts": self.output.ts,
            "received": self.output.received,
            "late": self.late,
            "behind": self.behind,
            "content": self.content if self.columns is None else None,
            "cells": None if self.columns is None else list(self.content),
            "membership": 0,
            "start": self.output.start,
        }

    def published_id(self, last: int) -> PublishedId:
        """Return its id, published by a batch with this last place."""
        channel, id_, docid = self.output.channel, self.output.id, self.docid
        return PublishedId(channel, id_, id_, "", 1, docid, docid, self._digest, last)

    @property
    def _digest(self) -> str:
        if isinstance(self.content, str):
            return digest_text("xml", self.content)
        assert self.columns is not None
        return cells_digest(self.columns, self.content)

    def late_row(self, clock: int, *, again: bool) -> dict[str, object]:
        """Return a row of relation ``late``."""
        # Behind the heartbeat of the last time there is, a channel is settled up to the time after it.
        why = f"more than the channel's lateness behind {format_time(min(clock, LAST_TIME))}"
        return {
            "channel": self.output.channel,
            "id": self.output.id,
            "docid": self.docid,
            "ts": self.output.ts,
            "received": self.output.received,
            "condition": "XSCL_LATE",
            "message": f"{why} when it came to be; it is taken again, because at its place it is not" if again else why,
            "replayed": None,
        }


def output_documents(
    outputs: Sequence[Output],
    selections: Mapping[int, Selection | None],
    publications: Mapping[int, Publication],
    documents: Mapping[int, str],
    channels: Mapping[str, ChannelInfo],
) -> list[Content | XsclError]:
    """Make the documents or rows of some outputs as they are stored, or say why one is refused.

    Args:
        outputs: the outputs.
        selections: of each query, by number.
        publications: the same.
        documents: of members, by number.
        channels: to which they go, by name.
    """
    numbered = {docid: NodeNumbers(parse_stored(document)) for docid, document in documents.items()}
    found: list[Content | XsclError] = []
    for output in outputs:
        number, to, match = output.query.query, channels[output.channel], output.match
        try:
            columns = publications[number].columns
            if (to.kind == "rows") is not (columns is not None):
                message = f"the channel {to.name} takes {'rows' if to.kind == 'rows' else 'documents'}"
                raise DocumentError("XSCL_CHANNEL_KIND", message)
            if columns is None:
                document = match_document(output.query, selections[number], match.docids, match.nodes, numbered)
                found.append(stored_document(document))
                continue
            nodes, results = match_nodes(output.query, match.docids, match.nodes, numbered)
            found.append(match_cells(columns, selections[number], nodes, results, to))
        except XsclError as error:
            found.append(error)
    return found
