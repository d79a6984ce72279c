"""Pages of feeds: the list with its OPML, and one feed with its history and its newest items."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response

from xscl.answers.feed_listing import feed_rows, feed_summary, one_listed
from xscl.answers.item_listing import ItemFilter, item_rows, received_by_day
from xscl.base.errors import XsclError
from xscl.base.types import now_micros
from xscl.catalog.subscriptions import (
    add_feed,
    drop_feed,
    import_outlines,
    outlines,
    parse_interval,
    set_feed,
)
from xscl.ingest.opml import read_opml, write_opml
from xscl.service.api.calls import Admin, Reader, Running
from xscl.service.console.pages import Form, new_router, page
from xscl.service.console.plots import sparkline
from xscl.service.problems import Refused, problem_of, status_of
from xscl.service.runtime import Service

__all__ = ["router"]

router = new_router()

_ITEMS, _DAYS = 20, 30

_Address = Annotated[str, Query(max_length=4_000, description="Address of a feed, or a part of it.")]


@router.get("/feeds")
def feeds(request: Request, service: Running, holder: Reader) -> Response:
    """List feeds with their health."""
    return _page(request, service, {})


@router.post("/feeds")
def subscribe(request: Request, form: Form, service: Running, holder: Admin) -> Response:
    """Subscribe to a feed."""
    interval, channel = form.get("interval", "").strip(), form.get("channel", "").strip()
    try:
        url = add_feed(
            service.home.catalog,
            form.get("url", "").strip(),
            now=now_micros(),
            channel=channel or "items",
            interval=parse_interval(interval) if interval else None,
            folder=None,
        )
    except XsclError as error:
        return _page(request, service, form, status=status_of(error), problem=problem_of(error))
    return _page(request, service, {}, status=201, told=[f"{url} is asked soon."])


@router.post("/feeds/fetch")
def fetch(request: Request, form: Form, service: Running, holder: Admin) -> Response:
    """Ask one feed now, or all that are active."""
    url = form.get("feed", "")
    report = service.engine.fetch_feeds([url] if url else None, everything=not url, settings=service.polling)
    service.wake()
    told = [f"Asked {report.feeds:,}: {report.events:,} events came, {report.versions:,} of them new versions."]
    if report.left:
        told.append(f"{report.left:,} are left for later; their hosts want a pause.")
    faults = [message if url in message else f"{url}: {message}" for url, message in report.problems]
    return _page(request, service, {}, told=told, faults=faults)


@router.post("/feeds/import")
def import_list(request: Request, form: Form, service: Running, holder: Admin) -> Response:
    """Subscribe to the feeds of a list in OPML, from a file or as a text."""
    text = form.get("file", "") or form.get("opml", "").strip()
    channel = form.get("into", "").strip() or "items"
    try:
        if not text:
            raise Refused(422, "XSCL_BAD_REQUEST", "there is no list", hint="choose a file, or paste its text")
        found = read_opml(text.encode("utf-8", "surrogateescape"), source="the list")
        listed = list(import_outlines(service.home.catalog, found, now=now_micros(), channel=channel))
    except XsclError as error:
        return _page(request, service, form, status=status_of(error), problem=problem_of(error))
    counted = {action: sum(each == action for _, each, _ in listed) for action in ("added", "known", "refused")}
    told = [f"{counted['added']:,} added, {counted['known']:,} known already, {counted['refused']:,} refused."]
    faults = [f"{outline.url}: {error}" for outline, _, error in listed if error is not None]
    return _page(request, service, {}, told=told, faults=faults)


@router.get("/feeds/subscriptions.opml")
def export_list(service: Running, holder: Reader) -> Response:
    """Give the subscriptions as a list in OPML."""
    headers = {"Content-Disposition": 'attachment; filename="subscriptions.opml"'}
    return Response(write_opml(outlines(service.home.catalog)), media_type="text/x-opml", headers=headers)


@router.get("/feeds/feed")
def one_feed(request: Request, service: Running, holder: Reader, feed: _Address) -> Response:
    """Show a feed: what is known of it, what came of it by days, and its newest items."""
    row, identity = one_listed(service.home.catalog, feed)
    items, days = [], [0] * _DAYS
    if identity is not None:
        items = list(islice(item_rows(service.home, ItemFilter(feed=identity)), _ITEMS))
        days = received_by_day(service.home.catalog, identity, now_micros(), _DAYS)
    return page(request, "feed.html", feed=row, items=items, received=sum(days), line=sparkline(days))


@router.post("/feeds/set")
def change(form: Form, service: Running, holder: Admin) -> Response:
    """Pause a feed, have it asked again, or end the subscription."""
    url, action = form.get("feed", ""), form.get("action", "")
    if action == "drop":
        drop_feed(service.home.catalog, url)
    elif action in ("pause", "resume"):
        status = "paused" if action == "pause" else "active"
        set_feed(service.home.catalog, url, now=now_micros(), status=status)
    else:
        raise Refused(422, "XSCL_BAD_REQUEST", f"action: {action!r} is none of pause, resume, drop")
    return RedirectResponse("/feeds", status_code=303)


def _page(
    request: Request, service: Service, form: Mapping[str, str], *, status: int = 200, **told: object
) -> Response:
    rows = list(feed_rows(service.home.catalog))
    values = {"problem": None, "told": [], "faults": [], **told}
    given = {field: form.get(field, "") for field in ("url", "channel", "interval", "opml", "into")}
    # People who see a page have no command line at hand.
    summary = feed_summary(rows, now_micros()).replace(" ('xscl feed fetch')", "") if rows else ""
    return page(request, "feeds.html", values, status=status, feeds=rows, summary=summary, form=given)
