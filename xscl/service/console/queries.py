"""Pages of queries: the list, and one query with its facts and its matches live."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response

from xscl.answers.explaining.explain import explain
from xscl.answers.explaining.text import explanation_text
from xscl.answers.recent_activity import latest_matches
from xscl.base.errors import CatalogError
from xscl.catalog.channels import read_facts
from xscl.catalog.queries import read_query
from xscl.registry.query_list import QueryFilter, count_queries, list_queries
from xscl.registry.recompile import compile_info
from xscl.service.api.calls import Name, Reader, Running, Writer
from xscl.service.console.drawing import query_drawing
from xscl.service.console.matches import card, cards
from xscl.service.console.pages import is_part, new_router, page
from xscl.service.runtime import Service

__all__ = ["router"]

router = new_router()

_PAGE = 50
_LATEST = 20

_Text = Annotated[str, Query(max_length=200)]


@router.get("/queries")
def queries(
    request: Request, service: Running, holder: Reader, like: _Text = "", channel: _Text = "", after: _Text = ""
) -> Response:
    """List queries by name, a page at a time."""
    # A word without signs of a pattern is looked for anywhere in names.
    pattern = like if set(like) & set("*?") else f"*{like}*"
    wanted = QueryFilter(
        like=pattern if like else None, channel=channel or None, after=after or None, limit=_PAGE + 1
    )  # fmt: skip
    found = list(list_queries(service.home.catalog, wanted))
    more = found[_PAGE - 1].name if len(found) > _PAGE else None
    count = count_queries(service.home.catalog)
    template = "part_queries.html" if is_part(request) else "queries.html"
    told = {"like": like, "channel": channel, "after": after}
    return page(request, template, told, queries=found[:_PAGE], more=more, count=count)


@router.get("/queries/{name}")
def query(request: Request, name: Name, service: Running, holder: Reader) -> Response:
    """Show a query: its text, its facts, and its matches as they are committed."""
    here = service.here()
    try:
        info = service.home.catalog.ask(read_query, name)
    except CatalogError:
        return _dropped(request, name, service, here)
    with service.registering:
        found = explain(service.home.catalog, name)
        compiled = compile_info(info, service.home.catalog.ask(read_facts))
    return page(
        request,
        "query.html",
        name=name,
        query=info,
        explained=found,
        explanation=explanation_text(found),
        drawing=query_drawing(compiled),
        cost=compiled.cost,
        cards=latest_matches(service.home, name, _LATEST, card),
        here_cursor=here,
    )


def _dropped(request: Request, name: str, service: Service, here: str) -> Response:
    """Show the matches of a query that was dropped; they stay.

    Raises:
        CatalogError: there was never one of that name.
    """
    found = latest_matches(service.home, name, _LATEST, card)
    if not found:
        cards(service, name, "start", 1)
    return page(request, "query.html", name=name, query=None, cards=found, here_cursor=here)


@router.post("/queries/{name}/drop")
def drop(name: Name, service: Running, holder: Writer) -> Response:
    """End a query; its matches stay."""
    with service.registering:
        service.engine.drop(name)
    service.wake()
    return RedirectResponse("/queries", status_code=303)


@router.post("/queries/{name}/resume")
def resume(request: Request, name: Name, service: Running, holder: Writer) -> Response:
    """Have a suspended query go on."""
    with service.registering:
        service.engine.resume(name)
    service.wake()
    return RedirectResponse(str(request.url.path).removesuffix("/resume"), status_code=303)
