"""Pages of the home: the overview, channels, feeds, templates and batches."""

from __future__ import annotations

from collections import Counter

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from xscl.answers.channel_listing import channel_rows
from xscl.answers.feed_listing import feed_rows
from xscl.answers.recent_activity import activity, latest_matches, recent_batches, recent_losses
from xscl.answers.status import state_notes
from xscl.answers.template_text import template_facts
from xscl.base.types import now_micros
from xscl.catalog.event_counts import event_count
from xscl.catalog.groups import read_template, read_template_use
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.subscriptions import add_feed, parse_interval
from xscl.registry.query_list import QueryFilter, count_queries
from xscl.service.calls import Admin, Name, Reader, Running
from xscl.service.console_drawing import sparkline, template_drawing
from xscl.service.console_matches import card
from xscl.service.console_pages import Form, is_part, new_router, page
from xscl.service.runtime import Service

__all__ = ["router"]

router = new_router()

_HOUR = 3_600_000_000
_PARTS = 60
_MATCHES, _BATCHES, _LOSSES = 8, 100, 10


@router.get("/")
def overview(request: Request, service: Running, holder: Reader) -> Response:
    """Show how the service does."""
    figures = _figures(service)
    if is_part(request):
        return page(request, "part_figures.html", figures)
    here = service.here()
    found = latest_matches(service.home, None, _MATCHES, card)
    return page(request, "overview.html", figures, cards=found, here_cursor=here)


def _figures(service: Service) -> dict[str, object]:
    catalog = service.home.catalog
    processed, last = catalog.ask(read_last_places)
    now = now_micros()
    counted = activity(catalog, now, _HOUR, _PARTS)
    batches = recent_batches(catalog, 5)
    with catalog.read() as connection:
        events = event_count(connection)
    health = Counter(str(row["health"]) for row in feed_rows(catalog))
    return {
        "running": service.is_running,
        "problem": None if service.problem is None else str(service.problem),
        "queries": count_queries(catalog),
        "suspended": count_queries(catalog, QueryFilter(suspended=True)),
        "events": events,
        "lag": last - processed,
        "hour": {name: sum(figures) for name, figures in counted.items()},
        "lines": {name: sparkline(figures) for name, figures in counted.items()},
        "batches": batches,
        "losses": recent_losses(catalog, _LOSSES),
        "health": dict(health),
        "notes": list(state_notes(service.home)),
    }


@router.get("/channels")
def channels(request: Request, service: Running, holder: Reader) -> Response:
    """List channels and their streams."""
    return page(request, "channels.html", channels=list(channel_rows(service.home.catalog)))


@router.get("/feeds")
def feeds(request: Request, service: Running, holder: Reader) -> Response:
    """List feeds with their health."""
    return page(request, "feeds.html", feeds=list(feed_rows(service.home.catalog)))


@router.post("/feeds")
def subscribe(request: Request, form: Form, service: Running, holder: Admin) -> Response:
    """Subscribe to a feed."""
    interval = form.get("interval", "").strip()
    every = parse_interval(interval) if interval else None
    channel = form.get("channel", "").strip() or "items"
    add_feed(
        service.home.catalog,
        form.get("url", "").strip(),
        now=now_micros(),
        channel=channel,
        interval=every,
        folder=None,
    )
    return RedirectResponse("/feeds", status_code=303)


@router.get("/templates")
def templates(request: Request, service: Running, holder: Reader) -> Response:
    """List the templates of queries."""
    return page(request, "templates.html", templates=service.home.catalog.ask(read_template_use))


@router.get("/templates/{template}")
def one_template(request: Request, template: Name, service: Running, holder: Reader) -> Response:
    """Show a template, drawn."""
    facts = template_facts(service.home.catalog, template)
    drawing = template_drawing(service.home.catalog.ask(read_template, template))
    return page(request, "template.html", facts=facts, drawing=drawing)


@router.get("/batches")
def batches(request: Request, service: Running, holder: Reader) -> Response:
    """List the latest batches."""
    found = recent_batches(service.home.catalog, _BATCHES)
    return page(request, "batches.html", batches=found, notes=list(state_notes(service.home)))
