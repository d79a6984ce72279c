"""Calls that give a query's matches as feeds that others subscribe to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from xscl.answers.matches.feeds import FeedEntry, atom_feed, json_feed
from xscl.ingest.http_times import http_date
from xscl.service.api.calls import Name, Reader, Running, problems
from xscl.service.feed_pages import MOST_ENTRIES
from xscl.service.runtime import Service

__all__ = ["router"]

router = APIRouter(prefix="/queries", tags=["deliveries"])

_ATOM, _JSON = "application/atom+xml", "application/feed+json"
_SECOND = 1_000_000

_Most = Annotated[int, Query(ge=1, le=MOST_ENTRIES, description="Entries at most, the newest ones.")]
_Tags = Annotated[str | None, Header(max_length=2_000, description="Tags of what the reader has.")]
_Since = Annotated[str | None, Header(max_length=100, description="Time of what the reader has.")]


def _answers(kind: str, shape: str) -> dict[int | str, dict[str, Any]]:
    return {
        **problems(404),
        200: {"description": "The feed.", "content": {kind: {"schema": {"type": shape}}}},
        304: {"description": "The reader has the newest entries."},
    }


@router.get("/{name}/feed.atom", response_class=Response, responses=_answers(_ATOM, "string"))
def atom(
    request: Request,
    name: Name,
    service: Running,
    holder: Reader,
    limit: _Most = 50,
    if_none_match: _Tags = None,
    if_modified_since: _Since = None,
) -> Response:
    """Give the newest matches of a query as an Atom feed."""
    return _feed(service, request, name, limit, atom_feed, _ATOM, if_none_match, if_modified_since)


@router.get("/{name}/feed.json", response_class=Response, responses=_answers(_JSON, "object"))
def json_(
    request: Request,
    name: Name,
    service: Running,
    holder: Reader,
    limit: _Most = 50,
    if_none_match: _Tags = None,
    if_modified_since: _Since = None,
) -> Response:
    """Give the newest matches of a query as a JSON Feed."""
    return _feed(service, request, name, limit, json_feed, _JSON, if_none_match, if_modified_since)


def _feed(
    service: Service,
    request: Request,
    query: str,
    limit: int,
    write: Callable[[str, Sequence[FeedEntry], str], bytes],
    kind: str,
    tags: str | None,
    since: str | None,
) -> Response:
    entries, changed = service.feed_pages.entries(query, limit)
    body = write(query, entries, str(request.url))
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if changed is not None:
        headers["Last-Modified"] = formatdate(changed // _SECOND, usegmt=True)
    if _has_it(tag, changed, tags, since):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=kind, headers=headers)


def _has_it(tag: str, changed: int | None, tags: str | None, since: str | None) -> bool:
    """Tell whether a reader has what it asks for; a time counts only where it sends no tags."""
    if tags is not None:
        return any(each.strip().removeprefix("W/") in (tag, "*") for each in tags.split(","))
    moment = None if since is None else http_date(since)
    return moment is not None and changed is not None and changed // _SECOND <= moment // _SECOND
