"""Calls that push events."""

from __future__ import annotations

import asyncio
import io
import uuid
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import count
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from xscl.base.errors import SourceError
from xscl.base.types import Event
from xscl.base.values import digest_text
from xscl.catalog.intake_order import read_last_places
from xscl.ingest.csv_files import read_csv
from xscl.ingest.event_file import read_event_lines
from xscl.ingest.reading import Reading
from xscl.ingest.records import Noted, Record, Rejected, Removal, rejected
from xscl.intake.pushes import Pushed
from xscl.intake.report import IntakeReport
from xscl.service.access import needs
from xscl.service.api.calls import BODY, Body, Name, Running, Writer, problems
from xscl.service.api.request_checks import check_type, media_type
from xscl.service.problems import Refused
from xscl.service.runtime import Service

__all__ = ["DocumentRoute", "Taken", "plain_body", "router", "taken_in"]

router = APIRouter(tags=["events"])

_PATH = "/v1/channels/{channel}/events"
_SHORT = 100
"""Bytes of a path, and of parameters, that are within all limits, however they are written."""
_SMALL = 64 * 1024
"""Bodies up to this size are read where requests are served; larger ones in a thread."""
_SHOWN = 1_000
"""Refusals that an answer lists."""
_PROCESS, _PUSHES = uuid.uuid4().hex[:20], count()
"""Digits of this process and numbers of pushes, which make names for them that never come again."""
_XML = ("application/xml", "text/xml")
_LINES = ("application/x-ndjson", "application/jsonl", "application/json")
_CSV = "text/csv"
_may_write = needs("write")


class RejectedEvent(BaseModel):
    """An event that was not taken; the others were."""

    line: int | None = Field(description="Line of the body, from 1; of a single document none.")
    condition: str
    message: str


class Taken(BaseModel):
    """Outcome of a push, whose events are kept from now on whatever happens to the service."""

    taken: int = Field(description="Events that are new.")
    known: int = Field(description="Events that the home had already.")
    rejected: list[RejectedEvent] = Field(description="Events that were refused, the first thousand of them.")
    refused: int = Field(description="Number of events that were refused.")
    place: int = Field(description="Place of the intake order up to which all events of the push stand.")
    versions: int = Field(default=0, description="Of the new events those that are newer versions of known ones.")
    removed: int = Field(default=0, description="Events that lines with retract, or rows that are deleted, took out.")
    missing: int = Field(default=0, description="Ids of such lines that no event has, or none any more.")


_BODIES: dict[str, Any] = {
    "required": True,
    "content": {
        "application/xml": {"schema": {"type": "string"}, "example": "<book><author>Danny Ayers</author></book>"},
        "application/x-ndjson": {
            "schema": {"type": "string"},
            "example": '{"id": "t7", "ts": "2026-06-01T09:30:00Z", "row": {"sym": "IBM", "price": 101.5}}\n',
        },
        _CSV: {"schema": {"type": "string"}, "example": "sym,price\nIBM,101.5\n"},
    },
}


class Beat(Body):
    """A time up to which all events of a channel are in."""

    ts: str = Field(max_length=100, description="Event time (ISO 8601).")


class Place(BaseModel):
    """Place of the intake order."""

    place: int


@router.post("/v1/channels/{channel}/heartbeat", status_code=202, responses=problems(*BODY, 404))
def heartbeat(beat: Beat, channel: Name, service: Running, holder: Writer) -> Place:
    """Say that all events of a channel up to a time are in: later ones of that time and before it are late."""
    place = service.engine.heartbeat(channel, beat.ts, strict=service.settings.strict)
    service.took(place)
    return Place(place=place)


@router.post(
    _PATH,
    status_code=202,
    response_model=Taken,
    responses=problems(*BODY),
    openapi_extra={"requestBody": _BODIES},
)
async def push(
    request: Request,
    channel: Name,
    service: Running,
    holder: Writer,
    id: Annotated[str | None, Query(max_length=1_000, description="Id of the document; of CSV the column.")] = None,
    ts: Annotated[
        str | None, Query(max_length=100, description="Event time (ISO 8601 or seconds); of CSV the column.")
    ] = None,
    ts_format: Annotated[
        str | None, Query(max_length=100, description="Of CSV: format of times, as for strptime, or s, ms, us, ns.")
    ] = None,
    ts_zone: Annotated[str, Query(max_length=100, description="Of CSV: zone of times that have none.")] = "UTC",
    columns: Annotated[
        str | None, Query(max_length=20_000, description="Of CSV: only these columns, by commas.")
    ] = None,
    op: Annotated[
        str | None,
        Query(max_length=200, description="Of CSV: column that says whether a row is inserted, updated or deleted."),
    ] = None,
    start: Annotated[
        str | None, Query(max_length=200, description="Of CSV: column of the times at which rows begin.")
    ] = None,
    idempotency_key: Annotated[
        str | None, Header(max_length=255, description="Makes a repeated push add nothing, also rows without ids.")
    ] = None,
) -> Taken:
    """Push events: one XML document, event lines, or CSV with a header.

    The answer comes once the events are kept.  Documents without an id get one made of their content; rows without one
    get one made of the Idempotency-Key and their line, so a push that is repeated with its key adds nothing.
    """
    kind = media_type(request.headers)
    if not _is_xml(kind):
        check_type(request, (*_XML, *_LINES, _CSV))
    if kind != _CSV and (ts_format, ts_zone, columns, op, start) != (None, "UTC", None, None, None):
        raise Refused(400, "XSCL_BAD_OPTION", "ts_format, ts_zone, columns, op and start are of CSV alone")
    body = await plain_body(request)
    # Names what the push brought, in ids of rows and in the relation ``rejected``.
    source = _new_name()
    if idempotency_key is not None:
        source = f"push-{digest_text(holder.name, channel, idempotency_key)}"
    if _is_xml(kind):
        return await _take_document(service, Event(channel, id, _time(ts), xml=body, source=source))
    if kind in _LINES:
        if id is not None or ts is not None:
            raise Refused(400, "XSCL_BAD_OPTION", "id and ts of events stand in their lines")
        return await _take_lines(service, body, channel, source)
    reading = Reading(channel, id=id, ts=ts, ts_format=ts_format, ts_zone=ts_zone, columns=columns, op=op, start=start)
    return await run_in_threadpool(_take_csv, service, body, reading, channel, source)


_ROUTE = router.routes[-1]


async def plain_body(request: Request) -> bytes:
    """Read a body that is not packed.

    Raises:
        Refused: ``XSCL_MEDIA_TYPE``.
    """
    packed = request.headers.get("content-encoding", "identity")
    if packed != "identity":
        raise Refused(415, "XSCL_MEDIA_TYPE", f"the body is packed ({packed})", hint="send it as it is")
    return await request.body()


class DocumentRoute(Route):
    """Short way of single documents: the same call, without the work that its other forms need.

    A request that has anything but a body of XML and plain values of ``id`` and ``ts`` goes the other way.
    """

    def __init__(self) -> None:
        super().__init__(_PATH, _push_document, methods=["POST"], include_in_schema=False)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether a request goes this way."""
        match, found = super().matches(scope)
        return (match, found) if match is Match.FULL and _is_plain(scope) else (Match.NONE, {})


def _is_plain(scope: Scope) -> bool:
    if len(scope["path"]) > _SHORT or len(scope["query_string"]) > _SHORT:
        return False
    headers = Headers(scope=scope)
    if not _is_xml(media_type(headers)) or "content-encoding" in headers or "idempotency-key" in headers:
        return False
    names = [each.partition(b"=")[0] for each in scope["query_string"].split(b"&") if each]
    return names in ([], [b"id"], [b"ts"], [b"id", b"ts"], [b"ts", b"id"])


async def _push_document(request: Request) -> Response:
    await _may_write(request)
    request.scope["route"] = _ROUTE
    given = request.query_params
    channel, id, ts = request.path_params["channel"], given.get("id"), given.get("ts")
    try:
        body = await request.body()
    except ClientDisconnect:
        raise Refused(400, "XSCL_BAD_REQUEST", "the body ended before its end") from None
    event = Event(channel, id, _time(ts), xml=body, source=_new_name())
    taken = await _take_document(request.app.state.service, event)
    return Response(taken.model_dump_json(), status_code=202, media_type="application/json")


async def _take_document(service: Service, event: Event) -> Taken:
    assert isinstance(event.xml, bytes)
    pushed = await _pushed(service, [event], len(event.xml))
    if pushed.rejected:
        first = pushed.rejected[0]
        raise Refused(422, first.condition, first.message)
    return _taken(pushed)


async def _take_lines(service: Service, body: bytes, channel: str, source: str) -> Taken:
    """Take event lines; long bodies, and those with removals, are work for a thread."""
    if len(body) <= _SMALL:
        records = _event_lines(body, channel, source)
    else:
        records = await run_in_threadpool(_event_lines, body, channel, source)
    if len(events := [record for record in records if not isinstance(record, Removal)]) < len(records):
        return await run_in_threadpool(_take_records, service, records)
    return _taken(await _pushed(service, events, len(body)))


def _is_xml(kind: str) -> bool:
    return kind in _XML or kind.endswith("+xml")


def _new_name() -> str:
    return f"push-{_PROCESS}{next(_PUSHES):012x}"


def _time(text: str | None) -> str | Decimal | None:
    """Read an event time: a number of seconds, or a text, which the intake judges."""
    if text is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


def _event_lines(body: bytes, channel: str, source: str) -> list[Event | Rejected | Removal]:
    """Read event lines; lines that are no events and no removals are refused."""
    records: list[Event | Rejected | Removal] = []
    for record in read_event_lines(body.split(b"\n"), source=source, channel=channel):
        if isinstance(record, (Event, Rejected, Removal)):
            records.append(record)
        else:
            told = "a push has events and removals only; queries are registered at POST /v1/queries"
            records.append(Rejected(str(getattr(record, "source", source)), "XSCL_BAD_EVENT_LINE", told, channel))
    return records


async def _pushed(service: Service, push: Sequence[Event | Rejected], size: int) -> Pushed:
    if not push:
        raise Refused(422, "XSCL_NO_RECORDS", "the body has no events")
    service.admit()
    pushed = await asyncio.wrap_future(service.arrivals.put(push, size))
    _count(service, pushed.taken, pushed.known, len(pushed.rejected))
    return pushed


def _count(service: Service, taken: int, known: int, refused: int) -> None:
    for outcome, number in (("taken", taken), ("known", known), ("refused", refused)):
        service.metrics.events.labels(outcome).inc(number)


def _taken(pushed: Pushed) -> Taken:
    return _answer(pushed.taken, pushed.known, pushed.rejected, len(pushed.rejected), pushed.place)


def _answer(taken: int, known: int, problems: Sequence[Rejected], refused: int, place: int) -> Taken:
    listed = [
        RejectedEvent(line=_line(problem.source), condition=problem.condition, message=problem.message)
        for problem in problems[:_SHOWN]
    ]
    return Taken(taken=taken, known=known, rejected=listed, refused=refused, place=place)


def _line(source: str) -> int | None:
    """Return the line of a place ``source:line``."""
    line = source.rpartition(":")[2]
    return int(line) if line.isdigit() else None


def _take_csv(service: Service, body: bytes, reading: Reading, channel: str, source: str) -> Taken:
    """Take rows of CSV; what was taken before a fault of the text stays taken, and the answer tells of both."""

    def records() -> Iterator[Record]:
        try:
            for record in read_csv(io.BytesIO(body), channel=channel, source=source, reading=reading):
                if not isinstance(record, Noted):
                    yield record
        except SourceError as error:
            yield rejected(source, error, channel)

    return _take_records(service, records(), source)


def _take_records(service: Service, records: Iterable[Record], source: str | None = None) -> Taken:
    """Take records in their order; ``source`` names the whole of them, where it may be at fault."""
    service.admit()
    report = service.intake.take(records)
    first = report.problems[0] if report.problems else None
    if first is not None and first.source == source and not report.taken and not report.duplicates + report.shared:
        _count(service, 0, 0, report.rejected)
        raise Refused(422, first.condition, first.message)
    return taken_in(service, report)


def taken_in(service: Service, report: IntakeReport) -> Taken:
    """Return the outcome of a push that the intake took in; batches learn of it."""
    known = report.duplicates + report.shared
    _count(service, report.taken, known, report.rejected)
    place = service.home.catalog.ask(read_last_places)[1]
    service.took(place)
    answer = _answer(report.taken, known, report.problems, report.rejected, place)
    counted = {"versions": report.versions, "removed": report.removed, "missing": report.missing}
    return answer.model_copy(update=counted)
