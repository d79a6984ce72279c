"""Calls about webhooks: listing, adding and ending deliveries, and sending again."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from xscl.answers.deliveries import add_webhook, delivery_lags, delivery_rows, send_again
from xscl.catalog.deliveries import drop_delivery
from xscl.service.api.calls import BODY, Admin, Body, Name, Running, problems

__all__ = ["router"]

router = APIRouter(prefix="/v1/deliveries", tags=["deliveries"])


class NewDelivery(Body):
    """A webhook to add."""

    name: str = Field(max_length=200)
    query: str = Field(max_length=200, description="Query whose matches are sent.")
    url: str = Field(max_length=4_000, description="Address that takes them; a public one.")
    after: str | None = Field(
        None, max_length=500, description="Cursor behind which to begin; 'start' sends all; by default what comes."
    )


class AddedDelivery(BaseModel):
    """A webhook that was added."""

    name: str
    secret: str = Field(description="Key of the signatures, which is told only now.")


class Replay(Body):
    """Matches to send again."""

    after: str | None = Field(
        None, max_length=500, description="Cursor behind which all are sent again; by default what was given up."
    )


@router.get("", responses=problems())
def deliveries(service: Running, holder: Admin) -> dict[str, list[dict[str, Any]]]:
    """List deliveries: how far they are, what fails, and what was given up; secrets are not told."""
    lags = delivery_lags(service.home, service.deliverer.place)
    return {"deliveries": [{**row, "lag": lags[str(row["delivery"])].batches} for row in delivery_rows(service.home)]}


@router.post("", status_code=201, response_model=AddedDelivery, responses=problems(*BODY, 404, 409))
def add(new: NewDelivery, service: Running, holder: Admin) -> AddedDelivery:
    """Add a webhook; folders and private addresses are given at the command line of the service's machine."""
    secret = add_webhook(service.home, new.name, new.query, new.url, after=new.after)
    service.deliverer.wake()
    return AddedDelivery(name=new.name, secret=secret)


@router.delete("/{name}", status_code=204, responses=problems(404))
def drop(name: Name, service: Running, holder: Admin) -> None:
    """End a delivery."""
    with service.home.catalog.begin() as connection:
        drop_delivery(connection, name)


@router.post("/{name}/replay", responses=problems(*BODY, 404))
def replay(name: Name, wanted: Replay, service: Running, holder: Admin) -> dict[str, int | str]:
    """Send again what was given up, or all matches behind a cursor."""
    told = send_again(service.home, name, wanted.after)
    service.deliverer.wake()
    return told
