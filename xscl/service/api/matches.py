"""Calls that list matches, and streams of them as they are committed."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from xscl.answers.matches.counts import count_matches
from xscl.answers.matches.listing import Listing, find_match, list_matches, match_json
from xscl.base.errors import XsclError
from xscl.base.types import Match
from xscl.service.access import holder_of
from xscl.service.api.calls import Limit, Name, Reader, Running, problems
from xscl.service.problems import Refused, problem_of
from xscl.service.runtime import Service

__all__ = ["Written", "open_stream", "read_page", "router"]

router = APIRouter(prefix="/v1", tags=["matches"])

_PART = 200
"""Matches that a stream reads together at most."""
_QUIET_S = 15.0
"""Seconds after which a stream without news sends a comment, so that nobody takes it for dead."""
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-Sent Events 'match' and 'retract': 'id' is the cursor behind one, 'data' its line.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

Written = Callable[[Match], dict[str, Any]]
"""Writes a match as a record of JSON, with the ``cursor`` behind it."""
_line: Written = partial(match_json, cursor=True)

_Cursor = Annotated[
    str, Query(max_length=500, description="Cursor behind which to go on; 'start' is before all matches.")
]  # fmt: skip
_From = Annotated[str | None, Query(max_length=500, description="As of the list; by default only what comes.")]
_LastSeen = Annotated[
    str | None, Header(alias="last-event-id", max_length=500, description="Goes before 'after'.")
]  # fmt: skip


class Matches(BaseModel):
    """A page of matches in the order in which they were committed."""

    matches: list[dict[str, Any]] = Field(description="Lines of matches, each with the cursor behind it.")
    cursor: str = Field(description="Value of 'after' that goes on behind this page.")


@router.get("/matches", response_model=Matches, responses=problems(400))
def all_matches(service: Running, holder: Reader, after: _Cursor = "start", limit: Limit = 100) -> Matches:
    """List the matches of all queries behind a cursor."""
    return _page(service, None, after, limit)


@router.get("/matches/stream", response_class=StreamingResponse, responses={**problems(400), **_EVENTS})
async def all_live(
    request: Request,
    service: Running,
    holder: Reader,
    after: _From = None,
    last_event_id: _LastSeen = None,
) -> StreamingResponse:
    """Stream the matches of all queries as they are committed."""
    return await open_stream(request, service, None, last_event_id or after)


class Counts(BaseModel):
    """Rows of counts, those with the most matches first."""

    columns: list[str]
    rows: list[list[Any]] = Field(description="Values by column.")
    notes: list[str] = Field(description="What the rows do not say, as sentences.")
    more: bool = Field(description="Whether the limit has cut rows off.")


@router.get("/matches/count", response_model=Counts, responses=problems(400, 404))
async def count(
    service: Running,
    holder: Reader,
    query: Annotated[str | None, Query(max_length=200, description="Only matches of this query.")] = None,
    by: Annotated[list[str] | None, Query(max_length=16, description="Variables whose values a row shares.")] = None,
    agg: Annotated[list[str] | None, Query(max_length=16, description="max(x), sum(x), count(DISTINCT x), …")] = None,
    since: Annotated[str | None, Query(max_length=100, description="Match time at or after (ISO 8601).")] = None,
    until: Annotated[str | None, Query(max_length=100, description="Match time at or before.")] = None,
    now: Annotated[str | None, Query(max_length=100, description="As it was then: no match of a later time.")] = None,
    window: Annotated[str | None, Query(max_length=200, description="With all members in it: NOW-7d..NOW.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Rows at most.")] = 1_000,
) -> Counts:
    """Count matches: of each query, or of one query by values of its variables, with aggregates of other values."""
    listing = Listing(query, since, until, now, window)
    async with service.turns.turn(holder.name, service.settings.sql_s):
        found = await run_in_threadpool(count_matches, service.home, listing, by or (), agg or ())
    rows = [[row[name] for name in found.columns] for row in found.rows[:limit]]
    return Counts(columns=list(found.columns), rows=rows, notes=list(found.notes), more=len(found.rows) > limit)


@router.get("/matches/{match}", responses=problems(404))
async def one_match(
    match: Annotated[str, Path(max_length=200, description="Id of a match, or its beginning.")],
    service: Running,
    holder: Reader,
) -> dict[str, Any]:
    """Show a match by its id, or by the beginning of its id; ``retracted`` says why one holds no longer."""
    # All matches are looked through, so few such calls run at a time.
    async with service.turns.turn(holder.name, service.settings.sql_s):
        found = await run_in_threadpool(find_match, service.home, match)
    return match_json(found)


@router.get("/queries/{name}/matches", response_model=Matches, responses=problems(400, 404))
def matches(name: Name, service: Running, holder: Reader, after: _Cursor = "start", limit: Limit = 100) -> Matches:
    """List the matches of a query behind a cursor, also of one that was dropped."""
    return _page(service, name, after, limit)


@router.get(
    "/queries/{name}/matches/stream", response_class=StreamingResponse, responses={**problems(400, 404), **_EVENTS}
)
async def live(
    request: Request,
    name: Name,
    service: Running,
    holder: Reader,
    after: _From = None,
    last_event_id: _LastSeen = None,
) -> StreamingResponse:
    """Stream the matches of a query as they are committed."""
    return await open_stream(request, service, name, last_event_id or after)


def _page(service: Service, query: str | None, after: str, limit: int) -> Matches:
    lines, cursor = read_page(service, query, after, limit, _line)
    return Matches(matches=lines, cursor=cursor)


def read_page(
    service: Service, query: str | None, after: str, limit: int, written: Written
) -> tuple[list[dict[str, Any]], str]:
    """Read the matches behind a cursor; return them, and the cursor that goes on behind them."""
    listing = list_matches(service.home, Listing(query=query, after=after, limit=limit))
    return [written(match) for match in listing], listing.cursor


class _LiveStream(StreamingResponse):
    """A stream of events of a holder, whose place among the open ones is free again behind it.

    A client may go before the first event, and then nothing asks for any; so the response itself frees the place.
    """

    def __init__(self, events: AsyncIterator[bytes], free: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._free = free

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._free()


async def open_stream(
    request: Request, service: Service, query: str | None, after: str | None, written: Written = _line
) -> StreamingResponse:
    """Open a stream of matches behind a cursor; by default of those that come from now on.

    Raises:
        Refused: ``XSCL_TOO_MANY_STREAMS``.
        XsclError: there is no such query, or no such cursor.
    """
    holder = holder_of(request).name
    _take_place(service, holder)
    try:
        begin = after if after else await run_in_threadpool(service.here)
        # A query or cursor that does not exist is refused before anything is sent.
        await run_in_threadpool(read_page, service, query, begin, 1, written)
    except BaseException:
        _free_place(service, holder)
        raise
    return _LiveStream(_events(service, query, begin, written), partial(_free_place, service, holder))


def _take_place(service: Service, holder: str) -> None:
    """Count one more open stream of a holder, before anything is waited for: others may be asked for meanwhile."""
    most = service.settings.streams
    if service.open_streams[holder] >= most:
        raise Refused(429, "XSCL_TOO_MANY_STREAMS", f"{most} streams of this token are open", after_s=5)
    service.open_streams[holder] += 1
    service.metrics.streams.inc()


def _free_place(service: Service, holder: str) -> None:
    service.open_streams[holder] -= 1
    service.metrics.streams.dec()


async def _events(service: Service, query: str | None, cursor: str, written: Written) -> AsyncIterator[bytes]:
    """Yield the matches behind a cursor as Server-Sent Events, until the service ends."""
    quiet_since = -_QUIET_S
    try:
        yield b"retry: 1000\n\n"
        while not service.is_ending:
            seen = service.commits
            key = query, written, cursor, seen
            page = await service.live_pages.page(key, partial(read_page, service, query, cursor, _PART, written))
            cursor = page.cursor
            if page.matches:
                yield page.text
                quiet_since = time.monotonic()
            if page.matches == _PART:
                continue
            if time.monotonic() >= quiet_since + _QUIET_S:
                # Who reads no more is noticed when something is sent.
                yield b": no news\n\n"
                quiet_since = time.monotonic()
            await service.committed(seen, _QUIET_S)
    except XsclError as error:
        # The client goes on behind the last match when it asks again.
        yield f"event: problem\ndata: {json.dumps(problem_of(error))}\n\n".encode()
