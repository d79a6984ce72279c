"""Calls for the command line: matches with all options of a listing and with documents, and texts about queries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, StreamingResponse

from xscl.answers.explaining.explain import explain
from xscl.answers.explaining.text import explanation_text
from xscl.answers.matches.listing import Listing, MatchListing, find_match, list_matches
from xscl.base.types import Match
from xscl.catalog.queries import read_query
from xscl.registry.canonical_text import canonical_text
from xscl.service.api.calls import Name, Reader, Running, problems
from xscl.service.match_lines import match_lines

__all__ = ["router"]

router = APIRouter(prefix="/v1")

_LINES = "application/x-ndjson"
_ANSWERS: dict[int | str, dict[str, Any]] = {
    **problems(400, 404),
    200: {"description": "Lines of matches; the last line has the cursor.", "content": {_LINES: {"schema": {}}}},
}


@router.get("/matches.ndjson", tags=["matches"], response_class=StreamingResponse, responses=_ANSWERS)
def listing(
    service: Running,
    holder: Reader,
    match: Annotated[str | None, Query(max_length=200, description="Only the match whose id begins so.")] = None,
    query: Annotated[str | None, Query(max_length=200, description="Only matches of this query.")] = None,
    since: Annotated[str | None, Query(max_length=100, description="Match time at or after (ISO 8601).")] = None,
    until: Annotated[str | None, Query(max_length=100, description="Match time at or before.")] = None,
    now: Annotated[str | None, Query(max_length=100, description="As it was then: no match of a later time.")] = None,
    window: Annotated[str | None, Query(max_length=200, description="With all members in it: NOW-7d..NOW.")] = None,
    after: Annotated[str | None, Query(max_length=500, description="As they were committed, behind this.")] = None,
    limit: Annotated[int | None, Query(ge=0, le=2**62, description="At most this many.")] = None,
    current: Annotated[bool, Query(description="Only the newest match of each group.")] = False,
    by: Annotated[list[str] | None, Query(max_length=16, description="Variables whose values make the groups.")] = None,
) -> StreamingResponse:
    """List matches by time, or behind a cursor, with the members' documents, as lines without an end of pages."""
    found: Iterable[Match]
    if match is not None:
        found = [find_match(service.home, match)]
    else:
        found = list_matches(service.home, Listing(query, since, until, now, window, after, limit, current, by or ()))
    return StreamingResponse(_lines(found), media_type=_LINES)


@router.get("/queries/{name}/text", tags=["queries"], response_class=PlainTextResponse, responses=problems(404))
def query_text(name: Name, service: Running, holder: Reader) -> PlainTextResponse:
    """Give a query in canonical text, which other homes take."""
    return PlainTextResponse(canonical_text(service.home.catalog.ask(read_query, name)))


@router.get("/queries/{name}/explanation", tags=["queries"], response_class=PlainTextResponse, responses=problems(404))
def explanation(name: Name, service: Running, holder: Reader) -> PlainTextResponse:
    """Explain a query, as a text for people."""
    return PlainTextResponse(explanation_text(explain(service.home.catalog, name)))


def _lines(found: Iterable[Match]) -> Iterator[str]:
    yield from match_lines(found)
    end, notes = (found.cursor, found.notes) if isinstance(found, MatchListing) else (None, ())
    yield json.dumps({"end": end, **({"notes": notes} if notes else {})}) + "\n"
