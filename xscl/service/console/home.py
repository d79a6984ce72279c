"""Pages of the home: the overview, channels, templates and batches."""

from __future__ import annotations

from collections import Counter

from fastapi import Request
from fastapi.responses import Response

from xscl.answers.channel_listing import channel_rows
from xscl.answers.deliveries import delivery_rows
from xscl.answers.explaining.templates import template_facts
from xscl.answers.feed_listing import feed_rows
from xscl.answers.recent_activity import activity, latest_matches, recent_batches, recent_losses, waits
from xscl.answers.status import state_notes
from xscl.base.types import now_micros
from xscl.catalog.event_counts import event_count
from xscl.catalog.groups import read_template, read_template_use
from xscl.catalog.intake_order import read_last_places
from xscl.registry.query_list import QueryFilter, count_queries
from xscl.service.api.calls import Name, Reader, Running
from xscl.service.console.drawing import template_drawing
from xscl.service.console.matches import card
from xscl.service.console.pages import is_part, new_router, page
from xscl.service.console.plots import sparkline
from xscl.service.runtime import Service

__all__ = ["router"]

router = new_router()

_HOUR = 3_600_000_000
_PARTS = 60
_RATE = 5
"""Minutes over which rates are taken."""
_MATCHES, _BATCHES, _LOSSES = 8, 100, 10
_TIMES = ("prepare_s", "stage1_s", "join_s", "commit_s")
_SHOWN, _PLOTTED = 5, 60
"""Batches in the table of the overview, and in its plots."""


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
    waited = waits(catalog, now, _HOUR, _PARTS)
    batches = recent_batches(catalog, _PLOTTED)
    oldest_first = batches[::-1]
    seconds = [sum(float(str(batch[part])) for part in _TIMES) for batch in oldest_first]
    rows = [int(str(batch["state_rows"])) for batch in oldest_first]
    deliveries = Counter(str(row["state"]) for row in delivery_rows(service.home))
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
        "rates": {name: sum(figures[-_RATE:]) / _RATE for name, figures in counted.items()},
        "lines": {
            **{name: sparkline(figures) for name, figures in counted.items()},
            "waits": sparkline(waited),
            "seconds": sparkline(seconds),
            "rows": sparkline(rows),
        },
        "wait": {"greatest": max(waited), "now": waited[-1]},
        "seconds": seconds[-1] if seconds else None,
        "state_rows": rows[-1] if rows else 0,
        "batches": batches[:_SHOWN],
        "deliveries": deliveries,
        "losses": recent_losses(catalog, _LOSSES),
        "health": dict(health),
        "notes": list(state_notes(service.home)),
    }


@router.get("/channels")
def channels(request: Request, service: Running, holder: Reader) -> Response:
    """List channels and their streams."""
    return page(request, "channels.html", channels=list(channel_rows(service.home.catalog)))


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
