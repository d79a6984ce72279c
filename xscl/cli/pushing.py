"""Records pushed to a service: as event lines, in requests of bounded size, in their order."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import DocumentError, SourceError, XsclError
from xscl.base.types import Event, format_time, is_name, to_micros
from xscl.catalog.records import ChannelInfo
from xscl.cli.client import Client, quoted
from xscl.cli.pushed_changes import change_parameters, change_parts
from xscl.ingest.records import (
    Control,
    Drop,
    FeedDocument,
    Flush,
    Heartbeat,
    Noted,
    Position,
    Record,
    Register,
    Rejected,
    Removal,
    RowTable,
    rejected,
)
from xscl.intake.checks import check_channel_name, checked_event
from xscl.intake.report import IntakeReport
from xscl.intake.row_batch import fixed_schema, read_batch, settle
from xscl.intake.rows import row_chunks
from xscl.store.event_content import stored_document
from xscl.store.event_lines import value_of_cell

__all__ = ["Pusher", "listed_channel"]

_LINES, _BYTES = 1_000, 1024 * 1024
"""Lines and bytes of a request, unless a single event has more; of more refusals an answer does not tell."""
_ENCODING = re.compile(rb"""\s*<\?xml[^>]*\sencoding\s*=\s*["'](?!utf-8["'])""", re.IGNORECASE)
_OF_CONTENT = frozenset({"XSCL_BODY_LIMIT", "XSCL_DOCUMENT_LIMIT", "XSCL_MALFORMED_DOCUMENT", "XSCL_NOT_A_FEED"})
"""Conditions of a feed that no service takes; other conditions are of the call."""
_OF_JSON = frozenset({"string", "bigint", "double", "boolean", None})
"""Types that a channel finds by itself in the values of its first rows."""
_LINE_TYPE = {"content-type": "application/x-ndjson"}


@dataclass(slots=True)
class _Part:
    """Events of one channel that wait for their request."""

    lines: list[bytes] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    """Place of each line, for what the service says of it."""
    size: int = 0


class Pusher:
    """Takes records as an intake does, and has a service take them."""

    def __init__(
        self, client: Client, limits: Limits = DEFAULT_LIMITS, keep: Callable[[Position], None] | None = None
    ) -> None:
        """``keep`` is called with each position once all before it is taken."""
        self.report = IntakeReport()
        self._keep = keep or (lambda position: None)
        self._machine = "" if client.is_here else f"{socket.gethostname()}:"
        """Begins the places that stand for ids: other machines have files of the same names."""
        self._client = client
        self._limits = limits
        self._parts: dict[str, _Part] = {}
        self._channels: dict[str, ChannelInfo] | None = None
        self._ordered: bool | None = None

    def take(self, record: Record) -> bool:
        """Take a record; False: no call takes such a record, or a home at hand takes it as it is meant."""
        match record:
            case Event():
                self._take_event(record)
            case RowTable(position=None) if record.options.op is None:
                for part in row_chunks(record):
                    self._take_rows(part)
            case RowTable(position=None) if not self._client.is_found:
                self.send()
                for part in row_chunks(record):
                    self._take_changes(part)
            case Register() | Drop() | Flush() | FeedDocument() if self._client.is_found:
                return False
            case FeedDocument(content=bytes(content)):
                self.send()
                self._take_feed(record, content)
            case Register(owner=None) | Drop():
                self.send()
                self._act(record)
            case Heartbeat():
                self.send()
                self._beat(record)
            case Removal():
                for id_ in record.ids:
                    self._wait(record.channel, {"retract": {"id": id_}}, record.source)
                if record.position is not None:
                    self.send()
            case Flush():
                self.report.note_input(f"{record.source}: a service ends its batches by itself, flush means nothing")
            case Position():
                self.send()
                self._keep(record)
            case Rejected():
                self.report.note(record)
            case Noted():
                self.report.note_input(f"{record.source}: {record.text}")
            case _:
                return False
        if isinstance(record, Control) and record.position is not None:
            self._keep(record.position)
        return True

    def refuse(self, record: Record) -> None:
        """Refuse a record that no call takes."""
        told = "a service registers queries for the holder of the token, and for no other owner"
        if isinstance(record, RowTable):
            told = "rows that are changes are not followed by a service: --op and --follow go together without --url"
        self.report.note(Rejected(str(getattr(record, "source", "")), "XSCL_NEEDS_HOME", told))

    def send(self) -> None:
        """Send what waits."""
        for channel in [*self._parts]:
            self._send(channel)

    # -- events ------------------------------------------------------------------------------------------------

    def _take_event(self, event: Event) -> None:
        try:
            check_channel_name(event.channel)
            line = _line_of(event, self._limits, self._machine)
        except XsclError as error:
            self.report.note(rejected(event.source or "", error, event.channel))
            return
        self._wait(event.channel, line, event.source or "")

    def _wait(self, channel: str, line: Mapping[str, object], source: str) -> None:
        """Have a line wait for the next request to its channel."""
        text = _json(line)
        if channel not in self._parts and self._parts and self._is_ordered():
            self.send()
        part = self._parts.setdefault(channel, _Part())
        if part.lines and part.size + len(text) > _BYTES:
            self._send(channel)
            part = self._parts.setdefault(channel, _Part())
        part.lines.append(text)
        part.sources.append(source)
        part.size += len(text)
        if len(part.lines) >= _LINES:
            self._send(channel)

    def _send(self, channel: str) -> None:
        part = self._parts.pop(channel)
        try:
            told = self._client.call_patiently(
                "POST", f"/v1/channels/{quoted(channel)}/events", content=b"".join(part.lines), headers=_LINE_TYPE
            )
        except XsclError as error:
            if error.condition != "XSCL_BODY_LIMIT" or len(part.lines) > 1:
                raise
            self.report.note(rejected(part.sources[0], error, channel))
            return
        self._count(told, dict(enumerate(part.sources, start=1)), channel)

    def _count(self, told: Mapping[str, Any], sources: Mapping[int, str], channel: str) -> None:
        """Count what became of a push, whose lines have their places."""
        self.report.taken += told["taken"]
        self.report.versions += told["versions"]
        self.report.duplicates += told["known"]
        self.report.removed += told["removed"]
        self.report.missing += told["missing"]
        for problem in told["rejected"]:
            source = sources.get(problem["line"], "")
            self.report.note(Rejected(source, problem["condition"], problem["message"], channel))

    def _take_feed(self, feed: FeedDocument, content: bytes) -> None:
        path = f"/v1/channels/{quoted(feed.channel)}/feed"
        kind = "application/feed+json" if content.lstrip().startswith(b"{") else "application/rss+xml"
        try:
            told = self._client.call_patiently(
                "POST",
                path,
                params={"source": f"{self._machine}{feed.source}"},
                content=content,
                headers={"content-type": kind},
            )
        except XsclError as error:
            if error.condition not in _OF_CONTENT:
                raise
            self.report.note(rejected(feed.source, error, feed.channel))
            return
        self.report.taken += told["taken"]
        self.report.versions += told["versions"]
        self.report.duplicates += told["known"]
        if told["flaw"] is not None:
            self.report.note_flaw(f"{feed.source}: {told['flaw']}")
        for problem in told["rejected"]:
            self.report.note(Rejected(feed.source, problem["condition"], problem["message"], feed.channel))

    # -- rows --------------------------------------------------------------------------------------------------

    def _take_rows(self, table: RowTable) -> None:
        for problem in table.problems:
            self.report.note(problem)
        if not len(table.rows):
            return
        try:
            check_channel_name(table.channel)
            channel = self._row_channel(table)
            batch, refusals = read_batch(table, channel, self._limits)
            named = replace(table, source=f"{self._machine}{table.source}")
            batch, others = settle(named, batch, self._limits)
        except XsclError as error:
            self._refuse_rows(table, error)
            return
        for refusal in (*refusals, *others):
            self.report.note(refusal)
        assert table.numbers is not None
        batch, numbers = batch.only_kept(), table.numbers[batch.kept].tolist()
        times, starts, types = batch.times.to_pylist(), batch.starts, batch.channel.schema or {}
        for place, (number, id_) in enumerate(zip(numbers, batch.ids.texts.to_pylist(), strict=True)):
            cells = (column[place].as_py() for column in batch.cells)
            row = {name: value_of_cell(kind, cell) for (name, kind), cell in zip(types.items(), cells, strict=True)}
            line = _line(id_, times[place], None if starts is None else starts[place].as_py())
            self._wait(table.channel, line | {"row": row}, f"{table.source}:{number}")

    def _take_changes(self, table: RowTable) -> None:
        for problem in table.problems:
            self.report.note(problem)
        if not len(table.rows):
            return
        try:
            check_channel_name(table.channel)
            self._row_channel(table)
            params, parts = change_parameters(table), change_parts(table)
            for content, numbers in parts:
                told = self._client.call_patiently(
                    "POST",
                    f"/v1/channels/{quoted(table.channel)}/events",
                    # Changes that are made twice are more than the changes.
                    is_repeatable=False,
                    params=params,
                    content=content,
                    headers={"content-type": "text/csv"},
                )
                sources = {line: f"{table.source}:{number}" for line, number in numbers.items()}
                self._count(told, sources, table.channel)
        except (SourceError, DocumentError) as error:
            self._refuse_rows(table, error)

    def _row_channel(self, table: RowTable) -> ChannelInfo:
        """Return the channel of a table's rows, which is made where the rows alone would not tell its types."""
        known = self._known_channels()
        channel = known.get(table.channel) or ChannelInfo.new(table.channel, "rows")
        if channel.schema is None:
            channel = replace(channel, schema=fixed_schema(table, channel))
            types = channel.schema or {}
            # Each part of changes is CSV of its own.
            as_they_are = table.options.op is None and _OF_JSON.issuperset(types.values())
            if table.channel not in known and not as_they_are and types:
                columns = ", ".join(f"{name} {kind}" for name, kind in types.items() if kind is not None)
                made = {"name": table.channel, "kind": "rows", "columns": columns}
                self._client.call_patiently("POST", "/v1/channels", json=made)
            known[table.channel] = channel
        return channel

    def _refuse_rows(self, table: RowTable, error: XsclError) -> None:
        """Refuse all rows of a table for one reason."""
        assert table.numbers is not None
        first, last, count = table.numbers[0], table.numbers[-1], len(table.rows)
        where = f"{table.source}:{first}" if count == 1 else f"{table.source}:{first}-{last}"
        self.report.note(rejected(where, error, table.channel if is_name(table.channel) else None))
        self.report.rejected += count - 1

    def _known_channels(self) -> dict[str, ChannelInfo]:
        """Return the channels and streams of the service, asked once."""
        if self._channels is None:
            told = self._client.call_patiently("GET", "/v1/channels")["channels"]
            self._channels = {row["channel"]: listed_channel(row) for row in told}
        return self._channels

    def _is_ordered(self) -> bool:
        """Whether events of one channel may not be sent before earlier ones of another: clocks are shared."""
        if self._ordered is None:
            try:
                known = self._known_channels().values()
                self._ordered = any(channel.clock != channel.name or channel.idle is not None for channel in known)
            except XsclError as error:
                # Without the right to read, nothing is known.
                if error.condition != "XSCL_FORBIDDEN":
                    raise
                self._ordered = True
        return self._ordered

    def _beat(self, record: Heartbeat) -> None:
        try:
            self._client.send_heartbeat(record.channel, format_time(record.ts))
        except XsclError as error:
            if error.condition in ("XSCL_NO_ANSWER", "XSCL_BUSY"):
                raise
            self.report.note(rejected(record.source, error, record.channel))

    # -- queries -----------------------------------------------------------------------------------------------

    def _act(self, record: Register | Drop) -> None:
        try:
            if isinstance(record, Register):
                query = {"name": record.name, "text": record.text}
                self._client.call_patiently("POST", "/v1/queries", is_repeatable=False, json=query)
                self.report.registered += 1
            else:
                self._client.call_patiently("DELETE", f"/v1/queries/{quoted(record.name)}", is_repeatable=False)
                self.report.dropped += 1
        except XsclError as error:
            if error.condition in ("XSCL_NO_ANSWER", "XSCL_BUSY"):
                raise
            self.report.note(rejected(record.source, error))


def _line_of(event: Event, limits: Limits, machine: str) -> dict[str, object]:
    """Return an event as a line; a row without an id has the one that a home would give it, behind ``machine``.

    Raises:
        DocumentError: the time is none, or the document is in another encoding and not well-formed.
    """
    try:
        ts = None if event.ts is None else to_micros(event.ts)
    except ValueError as error:
        raise DocumentError("XSCL_BAD_EVENT_TIME", str(error)) from None
    if event.row is not None:
        checked = checked_event(event, None)
        # Whatever is wrong with it the service says.
        id_ = event.id if isinstance(checked, Rejected) else checked.id
        if event.id is None and id_ == event.source:
            id_ = f"{machine}{id_}"
        return _line(id_, ts) | {"row": event.row}
    assert event.xml is not None
    return _line(event.id, ts) | {"xml": _text(event.xml, limits)}


def _line(id_: str | None, ts: int | None, start: int | None = None) -> dict[str, object]:
    line: dict[str, object] = {} if id_ is None else {"id": id_}
    line |= {} if start is None else {"start": format_time(start)}
    return line if ts is None else line | {"ts": format_time(ts)}


def _text(xml: str | bytes, limits: Limits) -> str:
    if isinstance(xml, str):
        return xml
    if not _ENCODING.match(xml[:1_000]):
        try:
            return xml.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
    return stored_document(xml, limits)


def _json(line: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        # Half a surrogate pair, which the service refuses.
        return json.dumps(line).encode() + b"\n"
    except TypeError:
        return _written(line).encode() + b"\n"


def _written(value: object) -> str:
    """Return a value as JSON, which may hold decimals."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)}: {_written(cell)}' for key, cell in value.items())}}}"
    return json.dumps(value)


def listed_channel(row: Mapping[str, Any]) -> ChannelInfo:
    """Return a channel as far as a listing tells of it."""
    types: dict[str, str | None] | None = None
    if row["schema"]:
        words = [part.rsplit(" ", 1) for part in row["schema"].split(", ")]
        types = {name: None if kind == "unknown" else kind for name, kind in words}
    name = row["channel"]
    made = ChannelInfo.new(name, row["kind"])
    clock = name if row["of"] is not None and row["clock"] == row["of"] else row["clock"]
    return replace(made, schema=types, clock=clock, idle=None if row["idle"] is None else 0)
