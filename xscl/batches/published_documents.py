"""Published documents: output documents of matches, as events of their channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xscl.base.errors import DocumentError, XsclError
from xscl.base.safe_xml import parse_stored
from xscl.base.types import format_time
from xscl.base.values import digest_text
from xscl.batches.match_documents import match_document
from xscl.batches.refusals import Rejection
from xscl.catalog.records import QueryInfo
from xscl.language.selection import Selection
from xscl.store.event_content import stored_document
from xscl.store.results import StoredMatch
from xscl.xpath.nodes import NodeNumbers

__all__ = ["Made", "Output", "PublishedEvent", "output_documents"]


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

    @property
    def channel(self) -> str:
        """Channel that gets its document."""
        assert self.query.publish is not None
        return self.query.publish

    def refused(self, error: XsclError) -> Rejection:
        """Tell why its document is no event."""
        name = self.query.name
        return Rejection(name, self.channel, self.id, self.ts, error.condition, error.message, f"query {name}")

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

    @property
    def came(self) -> int:
        """Place at which it was found."""
        return self.place


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """A published document."""

    docid: int
    output: Output | Made
    content: str
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
            "content": self.content,
            "membership": 0,
        }

    def id_row(self) -> dict[str, object]:
        """Return a row of ``EVENT_IDS``."""
        return {
            "channel": self.output.channel,
            "id": self.output.id,
            "base": self.output.id,
            "feed": "",
            "version": 1,
            "docid": self.docid,
            "item": self.docid,
            "digest": digest_text("xml", self.content),
        }

    def late_row(self, clock: int, *, again: bool) -> dict[str, object]:
        """Return a row of relation ``late``."""
        why = f"more than the channel's lateness behind {format_time(clock)}"
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
    documents: Mapping[int, str],
    kinds: Mapping[str, str],
) -> list[str | XsclError]:
    """Make the documents of some outputs as they are stored, or say why one is refused.

    Args:
        outputs: the outputs.
        selections: of each query, by number.
        documents: of members, by number.
        kinds: of channels.
    """
    numbered = {docid: NodeNumbers(parse_stored(document)) for docid, document in documents.items()}
    found: list[str | XsclError] = []
    for output in outputs:
        try:
            if kinds[output.channel] != "xml":
                raise DocumentError("XSCL_CHANNEL_KIND", f"the channel {output.channel} takes rows")
            selection = selections[output.query.query]
            document = match_document(output.query, selection, output.match.docids, output.match.nodes, numbered)
            found.append(stored_document(document))
        except XsclError as error:
            found.append(error)
    return found
