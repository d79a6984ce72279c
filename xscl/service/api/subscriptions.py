"""Calls about feeds: subscriptions, asking feeds, and feeds pushed as they were published."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from xscl.answers.feed_health import Health
from xscl.answers.feed_listing import FeedFilter, feed_rows, one_listed
from xscl.answers.item_listing import ItemFilter, item_rows
from xscl.base.errors import SourceError
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.base.types import now_micros
from xscl.catalog.subscriptions import add_feed, drop_feed, import_outlines, outlines, parse_interval, set_feed
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.opml import read_opml, write_opml
from xscl.ingest.records import FeedDocument
from xscl.service.api.calls import BODY, Admin, Body, Name, Reader, Running, Writer, problems
from xscl.service.api.events import Taken, plain_body, taken_in
from xscl.service.api.request_checks import check_type, media_type
from xscl.service.problems import Refused, problem_of
from xscl.service.runtime import Service

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["feeds"])

_NEWEST = 5
"""Items that are shown with a feed."""
_NO_NUL = r"^[^\x00]*$"
"""Texts that every database stores."""
_OPML = "text/x-opml"
_FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json")
_ALSO_FEEDS = ("application/xml", "text/xml", "application/json")
_ALSO_OPML = ("application/x-opml", "application/xml", "text/xml")

_Address = Annotated[str, Query(max_length=4_000, description="Address of the feed.")]
_Part = Annotated[str, Query(max_length=4_000, description="Address of a feed, or a part of its address or title.")]
_Into = Annotated[str, Query(max_length=200, description="Channel of the items.")]


def _text_body(*kinds: str) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


class NewFeed(Body):
    """A feed to subscribe to."""

    url: str = Field(max_length=4_000)
    channel: str = Field("items", max_length=200, description="Channel of its items, or one of its streams.")
    interval: str | None = Field(None, max_length=100, description="Time between two polls: '30 min'.")
    folder: str | None = Field(None, max_length=400, pattern=_NO_NUL)


class FeedChange(Body):
    """Settings of a subscription; one that is null stays as it is."""

    channel: str | None = Field(None, max_length=200, description="Channel of new items.")
    interval: str | None = Field(None, max_length=100, description="Time between two polls; 'none' for the default.")
    folder: str | None = Field(
        None, max_length=400, pattern=_NO_NUL, description="Where lists have it; '' for the top."
    )
    status: Literal["active", "paused"] | None = Field(None, description="Whether it is asked.")


class TakenFeed(Taken):
    """Outcome of a feed that was pushed."""

    flaw: str | None = Field(description="Why it was read tolerantly; null: it is well-formed.")


class Fetch(Body):
    """Feeds to ask now."""

    urls: list[str] = Field([], max_length=1_000, description="Only these, also before they are due.")
    all: bool = Field(False, description="All active feeds, also before they are due.")


@router.get("/feeds", responses=problems())
def feeds(
    service: Running,
    holder: Reader,
    like: Annotated[str | None, Query(max_length=200, description="Addresses or titles that fit a pattern.")] = None,
    channel: Annotated[str | None, Query(max_length=200, description="Feeds whose items go to a channel.")] = None,
    folder: Annotated[str | None, Query(max_length=400, description="Feeds in a folder and inside it.")] = None,
    health: Annotated[Health | None, Query(description="Only feeds in this state.")] = None,
) -> dict[str, list[dict[str, Any]]]:
    """List feeds with their health, and what became of their last polls."""
    return {"feeds": list(feed_rows(service.home.catalog, FeedFilter(like, channel, folder, health)))}


@router.post("/feeds", status_code=201, responses=problems(*BODY, 404, 409))
def subscribe(new: NewFeed, service: Running, holder: Admin) -> dict[str, str]:
    """Subscribe to a feed, which the poller asks soon."""
    every = None if new.interval is None else parse_interval(new.interval)
    url = add_feed(
        service.home.catalog, new.url, now=now_micros(), channel=new.channel, interval=every, folder=new.folder
    )
    return {"feed": url}


@router.patch("/feeds", responses=problems(*BODY, 404))
def change(changed: FeedChange, service: Running, holder: Admin, url: _Address) -> dict[str, str]:
    """Change a subscription."""
    set_feed(
        service.home.catalog,
        url,
        now=now_micros(),
        channel=changed.channel,
        interval=changed.interval,
        folder=changed.folder,
        status=changed.status,
    )
    return {"feed": url}


@router.delete("/feeds", status_code=204, responses=problems(404))
def unsubscribe(service: Running, holder: Admin, url: _Address) -> None:
    """End a subscription; its items stay."""
    drop_feed(service.home.catalog, url)


@router.get("/feeds/one", responses=problems(404))
def one_feed(service: Running, holder: Reader, feed: _Part) -> dict[str, Any]:
    """Show a feed: all that is known of it, and its newest items."""
    row, identity = one_listed(service.home.catalog, feed)
    newest = [] if identity is None else islice(item_rows(service.home, ItemFilter(feed=identity)), _NEWEST)
    return {"feed": row, "items": list(newest)}


@router.get(
    "/feeds/list.opml",
    response_class=Response,
    responses={**problems(), 200: {"description": "The list.", "content": {_OPML: {"schema": {"type": "string"}}}}},
)
def list_opml(service: Running, holder: Reader) -> Response:
    """Give the subscriptions as a list in OPML 2.0, which 'import' takes."""
    return Response(write_opml(outlines(service.home.catalog)), media_type=_OPML)


@router.post("/feeds/import", responses=problems(*BODY), openapi_extra=_text_body(_OPML))
async def import_feeds(request: Request, service: Running, holder: Admin, channel: _Into = "items") -> dict[str, Any]:
    """Subscribe to the feeds of a list in OPML; those that are subscribed already stay as they are."""
    check_type(request, (_OPML, *_ALSO_OPML), suffix="+xml")
    body = await plain_body(request)
    return await run_in_threadpool(_import, service, body, channel)


@router.post("/feeds/fetch", responses=problems(*BODY, 404, 409))
def fetch(wanted: Fetch, service: Running, holder: Admin) -> dict[str, Any]:
    """Ask feeds now: those that are due, those that are named, or all."""
    report = service.engine.fetch_feeds(wanted.urls or None, everything=wanted.all, settings=service.polling)
    service.wake()
    names = ("feeds", "left", "requests", "received", "statuses", "events", "versions", "rejected", "seconds", "notes")
    told = {name: getattr(report, name) for name in names}
    return {**told, "problems": [{"feed": url, "message": message} for url, message in report.problems]}


@router.post(
    "/channels/{channel}/feed",
    status_code=202,
    response_model=TakenFeed,
    responses=problems(*BODY),
    openapi_extra=_text_body(*_FEED_TYPES),
)
async def push_feed(
    request: Request,
    channel: Name,
    service: Running,
    holder: Writer,
    source: Annotated[
        str,
        Query(
            min_length=1, max_length=4_000, pattern=_NO_NUL, description="Address or file that the feed was read from."
        ),
    ],
) -> TakenFeed:
    """Push a feed as it was published: RSS, RDF, Atom or JSON Feed, whose entries become items.

    Entries that the channel has already are known, so a feed may be pushed again.  ``source`` tells a feed without an
    address of its own from others, and completes relative links if it is an address.
    """
    if not media_type(request.headers).endswith("+xml"):
        check_type(request, (*_FEED_TYPES, *_ALSO_FEEDS), suffix="+json")
    body = await plain_body(request)
    return await run_in_threadpool(_take_feed, service, body, channel, source)


def _take_feed(service: Service, body: bytes, channel: str, source: str) -> TakenFeed:
    limits = service.intake.terms.limits

    def read() -> FeedDocument | None:
        return read_feed(body, source=source, channel=channel, limits=limits)

    try:
        document = in_fresh_dictionary(read)
    except SourceError as error:
        raise Refused(422, error.condition, error.message, hint=error.hint) from None
    if document is None:
        hint = f"push documents to /v1/channels/{channel}/events"
        raise Refused(422, "XSCL_NOT_A_FEED", "this is a document, and no feed", hint=hint)
    service.admit()
    report = service.intake.take([document])
    taken = taken_in(service, report)
    return TakenFeed(**taken.model_dump(), flaw=document.flaw)


def _import(service: Service, body: bytes, channel: str) -> dict[str, Any]:
    """Subscribe to the feeds of a list."""
    found = read_opml(body, source="the list")
    listed = []
    for outline, action, error in import_outlines(service.home.catalog, found, now=now_micros(), channel=channel):
        told = {"url": outline.url, "line": outline.line, "action": action}
        listed.append(told if error is None else {**told, "action": "refused", "problem": problem_of(error)})
    return {"feeds": listed, "refused": sum("problem" in each for each in listed)}
