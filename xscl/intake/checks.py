"""Checks on single events: id, time and size, and their content against the columns of their channels."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, cast

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import DocumentError, DocumentLimitError, XsclError
from xscl.base.pickled import by_fields
from xscl.base.safe_xml import parse_stored
from xscl.base.types import FIRST_TIME, LAST_TIME, MAX_NAME, Event, format_time, is_name, to_micros
from xscl.base.values import digest_text
from xscl.catalog.home_channels import whose_rows
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.records import ChannelInfo, StreamInfo
from xscl.ingest.records import Rejected
from xscl.ingest.rows import cells_document, fit_row, infer_schema, row_cells, row_digest
from xscl.language.facts import is_made
from xscl.store.event_content import document_digest, stored_documents

__all__ = [
    "CheckedEvent",
    "KeptDocument",
    "check_channel_name",
    "check_events",
    "checked_event",
    "event_content",
    "refused_event",
    "require_kind",
    "require_start",
    "resolved",
    "taken_id",
]

_NAMELESS = re.compile(r"-:.*|item [0-9]+", re.DOTALL)
"""Sources without a name that would tell one input from the next: lines of standard input, items of an iterable."""

_CHECKED = attrgetter("channel", "id", "ts", "row", "start", "digest")
_FIRST_SECOND, _LAST_SECOND = -(-FIRST_TIME // 1_000_000), LAST_TIME // 1_000_000
_LONG_ROW = 40_000
"""Characters; documents of longer rows are parsed when they are taken in, because parsers bound names and texts."""


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """A document that a task has checked and keeps in a file; equal documents are equal."""

    at: int = field(compare=False)
    """Its place in the file."""
    digest: str

    __reduce__ = by_fields


class CheckedEvent(NamedTuple):
    """An event whose content is sound."""

    event: Event
    id: str
    ts: int | None
    content: bytes | KeptDocument | None
    """The document as it is kept; None for a row, which becomes one when its channel's columns are known."""
    digest: str
    """Digest of the content, by which an id seen again is told from an id reused."""
    stream: StreamInfo | None = None
    """Stream that the event named, if it named one (``resolved``)."""
    renews: bool = False
    """Whether it is a newer version of what has its id, also in a channel that is of no feed."""
    start: int | None = None
    """Time at which it began; None: it is a point in time."""

    @property
    def by(self) -> int:
        """The number of its stream, 0 without one."""
        return 0 if self.stream is None else self.stream.number


def check_channel_name(name: object) -> None:
    """Refuse what is no name of a channel.

    Raises:
        DocumentError: ``XSCL_BAD_CHANNEL_NAME``.
    """
    if not isinstance(name, str) or not _is_name(name):
        raise DocumentError(
            "XSCL_BAD_CHANNEL_NAME",
            f"{name!r} is no name for a channel; one begins with a letter or '_', and has letters, digits, '_', "
            f"and inside '-' and '.', at most {MAX_NAME} characters",
        )
    # Of a feed the items have one of these names, and their entries the other.
    base = name.removesuffix(".raw")
    if is_made(base):
        what = "for what queries find: the answers of windows, and those of queries in parentheses"
        raise DocumentError("XSCL_BAD_CHANNEL_NAME", f"{name} is {what}")
    if (reason := whose_rows(base)) is not None:
        raise DocumentError("XSCL_BAD_CHANNEL_NAME", reason)


_is_name = lru_cache(maxsize=1_024)(is_name)


def check_events(events: Sequence[Event], limits: Limits = DEFAULT_LIMITS) -> list[CheckedEvent | Rejected]:
    """Check events by themselves, as far as nothing else has to be known; ``limits`` are of a document."""
    contents = stored_documents([event.xml for event in events if event.xml is not None], limits)
    if (plain := _all_plain(events, contents)) is not None:
        return plain
    documents = iter(contents)
    return [checked_event(event, None if event.xml is None else next(documents)) for event in events]


def _all_plain(events: Sequence[Event], contents: Sequence[bytes | XsclError]) -> list[CheckedEvent | Rejected] | None:
    """Check sound documents with ids in ASCII and times, all together; None where some event is another."""
    if len(events) != len(contents) or set(map(type, contents)) != {bytes}:
        return None
    names, ids, given_times, rows, starts, given = zip(*map(_CHECKED, events), strict=True)
    if set(map(type, names)) != {str} or set(map(type, ids)) != {str}:
        return None
    together = "".join(ids)
    sound = all(ids) and together.isascii() and "\0" not in together
    if not (sound and rows.count(None) == starts.count(None) == len(events)):
        return None
    try:
        for name in set(names):
            check_channel_name(name)
    except DocumentError:
        return None
    if (times := _all_times(given_times)) is None:
        return None
    documents = cast("Sequence[bytes]", contents)
    digests = [
        document_digest(content) if digest is None else digest for content, digest in zip(documents, given, strict=True)
    ]
    columns = (events, ids, times, documents, digests, repeat(None), repeat(False), starts)
    return [*map(CheckedEvent._make, zip(*columns, strict=False))]


def _all_times(given: Sequence[object]) -> Sequence[int | None] | None:
    """Return the times of events; None unless all are whole seconds, or each is a moment or missing."""
    kinds = set(map(type, given))
    if kinds == {int}:
        seconds = cast("Sequence[int]", given)
        in_time = min(seconds) >= _FIRST_SECOND and max(seconds) <= _LAST_SECOND
        return [second * 1_000_000 for second in seconds] if in_time else None
    if not kinds <= {datetime, type(None)}:
        return None
    moments = cast("Sequence[datetime | None]", given)
    try:
        micros = {moment: None if moment is None else to_micros(moment) for moment in set(moments)}
    except ValueError:
        return None
    return [micros[moment] for moment in moments]


def checked_event(event: Event, content: bytes | KeptDocument | XsclError | None) -> CheckedEvent | Rejected:
    """Check an event whose document was checked; ``content`` is what became of that, None for a row."""
    ts: int | None = None
    try:
        check_channel_name(event.channel)
        id_ = _checked_id(event.id)
        if id_ is not event.id:
            event = replace(event, id=id_)
        if (event.xml is None) == (event.row is None):
            raise DocumentError("XSCL_BAD_EVENT", "an event has either 'xml' or 'row'")
        start = None
        if event.ts is not None or event.start is not None:
            try:
                ts = None if event.ts is None else to_micros(event.ts)
                start = None if event.start is None else to_micros(event.start)
            except ValueError as error:
                raise DocumentError("XSCL_BAD_EVENT_TIME", str(error)) from None
            require_start(start, ts)
        if isinstance(content, XsclError):
            raise content.with_traceback(None)
    except XsclError as error:
        return refused_event(event, error, event.id, ts)
    digest = event.digest
    if digest is None:
        if isinstance(content, bytes):
            digest = document_digest(content)
        else:
            digest = row_digest(event.row or {}) if content is None else content.digest
    return CheckedEvent(event, event.id or _own_id(event, ts, digest), ts, content, digest, start=start)


def require_start(start: int | None, ts: int | None) -> None:
    """Refuse an event that begins behind its end, or has no end.

    Raises:
        DocumentError: ``XSCL_BAD_EVENT_START``.
    """
    if start is None or ts is not None and start <= ts:
        return
    if ts is None:
        raise DocumentError("XSCL_BAD_EVENT_START", "an event that began has a time, at which it ended")
    told = f"it begins at {format_time(start)}, and ends at {format_time(ts)}"
    raise DocumentError("XSCL_BAD_EVENT_START", f"{told}; an event begins at its time at the latest")


def resolved(item: CheckedEvent, streams: Mapping[str, StreamInfo]) -> CheckedEvent:
    """Return an event of its channel, where it named a stream; ``streams`` are all streams by name."""
    channel, stream = resolve_stream(streams, item.event.channel)
    return item if stream is None else item._replace(event=replace(item.event, channel=channel), stream=stream)


def require_kind(channel: ChannelInfo, event: Event) -> None:
    """Refuse a row for a channel of documents, and the reverse.

    Raises:
        DocumentError: ``XSCL_CHANNEL_KIND``.
    """
    if channel.kind != ("xml" if event.row is None else "rows"):
        wanted, came = ("documents", "a row") if channel.kind == "xml" else ("rows", "a document")
        raise DocumentError("XSCL_CHANNEL_KIND", f"the channel {channel.name} takes {wanted}, and this is {came}")


def event_content(
    channel: ChannelInfo, item: CheckedEvent, limits: Limits = DEFAULT_LIMITS
) -> tuple[bytes | KeptDocument | None, list[str | None] | None, ChannelInfo]:
    """Return the event's document, or the cells of its row; and the channel with what the event says of its columns.

    Raises:
        DocumentError: the row does not fit its channel, XML cannot hold it, or its document would be over a limit.
    """
    if item.content is not None:
        return item.content, None, channel
    assert item.event.row is not None
    schema = dict(channel.schema) if channel.schema is not None else infer_schema(item.event.row)
    row, fitted = fit_row(item.event.row, schema)
    cells = row_cells(row, element=channel.element)
    _check_cells(dict(zip(row, cells, strict=True)), limits)
    if sum(map(len, row)) + sum(len(cell) for cell in cells if cell is not None) > _LONG_ROW:
        parse_stored(cells_document(cells, list(row), element=channel.element))
    return None, cells, channel if fitted == channel.schema else replace(channel, schema=fitted)


def _check_cells(cells: Mapping[str, str | None], limits: Limits) -> None:
    """Hold a row to the limits of its document, in words of columns."""
    if len(cells) > limits.max_names:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT", f"{len(cells):,} columns; the limit max_names is {limits.max_names:,}"
        )
    for name, cell in cells.items():
        if cell is not None and len(cell) > limits.max_text:
            raise DocumentLimitError(
                "XSCL_DOCUMENT_LIMIT",
                f"column {name}: {len(cell):,} characters; the limit max_text is {limits.max_text:,}",
            )
    size = sum(len(cell.encode()) for cell in cells.values() if cell is not None)
    if size > limits.max_bytes:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT", f"the row has {size:,} bytes; the limit max_bytes is {limits.max_bytes:,}"
        )


def _own_id(event: Event, ts: int | None, digest: str) -> str:
    """Make the id of an event without one: of XML by content and time if given, of rows by source and line."""
    if event.row is not None:
        if event.source and not _NAMELESS.fullmatch(event.source):
            return event.source
        return f"row-{uuid.uuid4().hex}"  # places in an input without a name occur in the next one, too
    return digest if ts is None or event.feed is not None else digest_text(digest, str(ts))


def taken_id(id_: str, channel: str, *, is_place: bool) -> str:
    """Say that other content has an id; ``is_place`` says that it was made of the row's place."""
    why = (
        "; the id is file name and line (of a table, its name and key): give --id COLUMN, or another file name"
        if is_place
        else ""
    )
    return f"the id {id_!r} is taken by other content in channel {channel}{why}"


def _checked_id(value: object) -> str | None:
    """Return an event's id; a whole number is taken as its digits, as in event files."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, str) and value and "\0" not in value and _is_unicode(value)):
        return value
    raise DocumentError("XSCL_BAD_EVENT_ID", "an event's id is a text of at least one character without NUL")


def _is_unicode(text: str) -> bool:
    """Whether a text can be stored: half a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def refused_event(event: Event, error: XsclError, id_: str | None, ts: int | None) -> Rejected:
    """Return the record of an event that was refused with ``error``, without a channel or an id that is no text."""
    channel = event.channel if isinstance(event.channel, str) else None
    shown_id = id_ if isinstance(id_, str) else None
    return Rejected(event.source or "", error.condition, error.message, channel, shown_id, ts)
