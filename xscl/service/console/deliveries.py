"""Pages of deliveries: how far each is, what fails, what was given up; adding, ending, replaying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response

from xscl.answers.deliveries import add_webhook, delivery_lags, delivery_rows, send_again
from xscl.base.errors import XsclError
from xscl.catalog.deliveries import DeadLetter, drop_delivery, read_dead_letters
from xscl.service.api.calls import Admin, Name, Running
from xscl.service.console.pages import Form, new_router, page
from xscl.service.problems import problem_of, status_of
from xscl.service.runtime import Service

__all__ = ["router"]

router = new_router()

_LETTERS = 20
"""Dead letters of a delivery that are shown, the last ones."""


@router.get("/deliveries")
def deliveries(
    request: Request,
    service: Running,
    holder: Admin,
    query: Annotated[str, Query(max_length=200, description="Query of a new delivery.")] = "",
) -> Response:
    """List deliveries, and show the form of a new one."""
    return _page(request, service, {"query": query})


@router.post("/deliveries")
def add(request: Request, form: Form, service: Running, holder: Admin) -> Response:
    """Add a webhook; its key is on the page that answers, and nowhere else."""
    name, query, url = (form.get(field, "").strip() for field in ("name", "query", "url"))
    begin = form.get("after", "").strip()
    try:
        secret = add_webhook(service.home, name, query, url, after=begin or None)
    except XsclError as error:
        return _page(request, service, form, status=status_of(error), problem=problem_of(error))
    service.deliverer.wake()
    return _page(request, service, {}, status=201, added=name, secret=secret)


@router.post("/deliveries/{name}/drop")
def drop(name: Name, service: Running, holder: Admin) -> Response:
    """End a delivery."""
    with service.home.catalog.begin() as connection:
        drop_delivery(connection, name)
    return RedirectResponse("/deliveries", status_code=303)


@router.post("/deliveries/{name}/replay")
def replay(name: Name, form: Form, service: Running, holder: Admin) -> Response:
    """Send again what was given up, or everything behind a cursor."""
    send_again(service.home, name, form.get("after", "").strip() or None)
    service.deliverer.wake()
    return RedirectResponse("/deliveries", status_code=303)


def _page(
    request: Request, service: Service, form: Mapping[str, str], *, status: int = 200, **told: object
) -> Response:
    rows = delivery_rows(service.home)
    values = {"problem": None, "added": None, "secret": None, **told}
    given = {field: form.get(field, "") for field in ("name", "query", "url", "after")}
    return page(
        request,
        "deliveries.html",
        values,
        status=status,
        rows=rows,
        lags=delivery_lags(service.home, service.deliverer.place),
        letters={str(row["delivery"]): _letters(service, str(row["delivery"])) for row in rows if row["dead_letters"]},
        form=given,
    )


def _letters(service: Service, name: str) -> list[DeadLetter]:
    return service.home.catalog.ask(read_dead_letters, name)[-_LETTERS:]
