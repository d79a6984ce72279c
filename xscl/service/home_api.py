"""Calls about what the home holds: channels, feeds, templates, batches and figures."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from xscl.answers.channel_listing import channel_rows
from xscl.answers.channel_paths import channel_paths
from xscl.answers.feed_listing import FeedFilter, feed_rows
from xscl.answers.status import batch_rows, state_notes, template_rows
from xscl.answers.template_text import template_facts
from xscl.base.types import now_micros
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.subscriptions import add_feed, drop_feed, import_outlines, parse_interval
from xscl.ingest.opml import read_opml
from xscl.registry.channels import ChannelOptions
from xscl.registry.query_list import count_queries
from xscl.service.calls import Admin, Body, Limit, Name, Reader, Running, problems
from xscl.service.problems import problem_of
from xscl.service.runtime import Service

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["home"])


class NewChannel(Body):
    """A channel to make, or a stream of one."""

    name: str = Field(max_length=200)
    kind: str | None = Field(None, description="xml or rows.")
    columns: str | None = Field(None, max_length=100_000, description="Columns of rows: 'room string, temp double'.")
    lateness: str | None = Field(None, max_length=100, description="Such as '1 h'.")
    retention: str | None = Field(None, max_length=100, description="Such as '30 days'.")
    of: str | None = Field(None, max_length=200, description="Channel of which this is a stream.")


class NewFeed(Body):
    """A feed to subscribe to."""

    url: str = Field(max_length=4_000)
    channel: str = Field("items", max_length=200, description="Channel of its items, or one of its streams.")
    interval: str | None = Field(None, max_length=100, description="Time between two polls: '30 min'.")
    folder: str | None = Field(None, max_length=400)


class Fetch(Body):
    """Feeds to ask now."""

    urls: list[str] = Field([], max_length=1_000, description="Only these, also before they are due.")
    all: bool = Field(False, description="All active feeds, also before they are due.")


@router.get("/channels", responses=problems())
def channels(service: Running, holder: Reader) -> dict[str, list[dict[str, Any]]]:
    """List channels and, behind each, its streams."""
    return {"channels": list(channel_rows(service.home.catalog))}


@router.post("/channels", status_code=201, responses=problems(400, 404, 409, 413, 422))
def add_channel(new: NewChannel, service: Running, holder: Admin) -> dict[str, str]:
    """Make a channel, or a stream of one."""
    options = ChannelOptions(
        kind=new.kind, schema=new.columns, lateness=new.lateness, retention=new.retention, of=new.of
    )  # fmt: skip
    service.engine.add_channel(new.name, options)
    return {"channel": new.name}


@router.delete("/channels/{channel}", status_code=204, responses=problems(404, 409, 422))
def drop_channel(channel: Name, service: Running, holder: Admin) -> None:
    """Remove a channel or a stream that holds no events and that nothing reads."""
    service.engine.drop_channel(channel)


@router.get("/channels/{channel}/paths", responses=problems(422))
def paths(channel: Name, service: Running, holder: Reader, limit: Limit = 200) -> dict[str, Any]:
    """List the paths that occur in the latest documents of a channel, the most frequent ones first."""
    found = channel_paths(service.home, channel, limit)
    return {"channel": channel, "paths": [{"path": path, "documents": count} for path, count in found]}


@router.get("/feeds", responses=problems(422))
def feeds(
    service: Running,
    holder: Reader,
    like: Annotated[str | None, Query(max_length=200, description="Addresses or titles that fit a pattern.")] = None,
    channel: Annotated[str | None, Query(max_length=200, description="Feeds whose items go to a channel.")] = None,
) -> dict[str, list[dict[str, Any]]]:
    """List feeds with their health, and what became of their last polls."""
    return {"feeds": list(feed_rows(service.home.catalog, FeedFilter(like, channel)))}


@router.post("/feeds", status_code=201, responses=problems(400, 404, 409, 413, 422))
def subscribe(new: NewFeed, service: Running, holder: Admin) -> dict[str, str]:
    """Subscribe to a feed, which the poller asks soon."""
    every = None if new.interval is None else parse_interval(new.interval)
    url = add_feed(
        service.home.catalog, new.url, now=now_micros(), channel=new.channel, interval=every, folder=new.folder
    )
    return {"feed": url}


@router.delete("/feeds", status_code=204, responses=problems(404, 422))
def unsubscribe(
    service: Running, holder: Admin, url: Annotated[str, Query(max_length=4_000, description="Address of the feed.")]
) -> None:
    """End a subscription; its items stay."""
    drop_feed(service.home.catalog, url)


@router.post(
    "/feeds/import",
    responses=problems(400, 413, 422),
    openapi_extra={"requestBody": {"required": True, "content": {"text/x-opml": {"schema": {"type": "string"}}}}},
)
async def import_feeds(
    request: Request,
    service: Running,
    holder: Admin,
    channel: Annotated[str, Query(max_length=200, description="Channel of the items.")] = "items",
) -> dict[str, Any]:
    """Subscribe to the feeds of a list in OPML; those that are subscribed already stay as they are."""
    body = await request.body()
    return await run_in_threadpool(_import, service, body, channel)


@router.post("/feeds/fetch", responses=problems(400, 404, 409, 413, 422))
def fetch(wanted: Fetch, service: Running, holder: Admin) -> dict[str, Any]:
    """Ask feeds now: those that are due, those that are named, or all."""
    report = service.engine.fetch_feeds(wanted.urls or None, everything=wanted.all, settings=service.polling)
    service.wake()
    told = {name: getattr(report, name) for name in ("feeds", "left", "requests", "events", "versions", "rejected")}
    return {**told, "problems": [{"feed": url, "message": message} for url, message in report.problems]}


@router.get("/templates", responses=problems())
def templates(service: Running, holder: Reader) -> dict[str, list[dict[str, Any]]]:
    """List query templates, those with most queries first."""
    return {"templates": template_rows(service.home.catalog)}


@router.get("/templates/{template}", responses=problems(404, 422))
def template(template: Name, service: Running, holder: Reader) -> dict[str, Any]:
    """Show a template: variables, joins, and how many queries have it."""
    return template_facts(service.home.catalog, template)


@router.get("/batches", responses=problems(422))
def batches(
    service: Running,
    holder: Reader,
    after: Annotated[int, Query(ge=0, le=2**62, description="Batches behind this number.")] = 0,
    limit: Limit = 100,
) -> dict[str, list[dict[str, Any]]]:
    """List what each batch did."""
    return {"batches": batch_rows(service.home.catalog, after=after, limit=limit)}


@router.get("/stats", responses=problems())
def stats(service: Running, holder: Reader) -> dict[str, Any]:
    """Tell what the home holds, and how far batches are behind the intake."""
    processed, last = service.home.catalog.ask(read_last_places)
    return {
        "queries": count_queries(service.home.catalog),
        "place": last,
        "processed": processed,
        "lag": last - processed,
        "running": service.is_running,
        "problem": None if service.problem is None else str(service.problem),
        "notes": list(state_notes(service.home)),
    }


def _import(service: Service, body: bytes, channel: str) -> dict[str, Any]:
    """Subscribe to the feeds of a list."""
    found = read_opml(body, source="the list")
    listed = []
    for outline, action, error in import_outlines(service.home.catalog, found, now=now_micros(), channel=channel):
        told = {"url": outline.url, "line": outline.line, "action": action}
        listed.append(told if error is None else {**told, "action": "refused", "problem": problem_of(error)})
    return {"feeds": listed, "refused": sum("problem" in each for each in listed)}
