"""Calls about the items of feeds: listing them, and showing one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from xscl.answers.item_listing import ItemFilter, find_item, item_page
from xscl.answers.matches.window import parse_moment
from xscl.base.errors import EngineError
from xscl.base.types import now_micros
from xscl.service.api.calls import Limit, Reader, Running, problems

__all__ = ["router"]

router = APIRouter(prefix="/v1/items", tags=["items"])

_Feed = Annotated[
    str | None, Query(max_length=4_000, description="Address of a feed, or a part of its address or title.")
]


class Items(BaseModel):
    """A page of items, the newest first."""

    items: list[dict[str, Any]]
    after: str | None = Field(description="Value of 'after' for the next page; null at the end.")


class ItemField(BaseModel):
    """A field of an item's document."""

    name: str
    text: str


class Item(BaseModel):
    """An item."""

    item: dict[str, Any] = Field(description="When it came and from where, and its document.")
    fields: list[ItemField] = Field(description="Fields of the document, in their order.")


@router.get("", response_model=Items, responses=problems(400, 404))
def items(
    service: Running,
    holder: Reader,
    feed: _Feed = None,
    channel: Annotated[str | None, Query(max_length=200, description="Items of this channel.")] = None,
    since: Annotated[str | None, Query(max_length=100, description="Dated at or after (ISO 8601, NOW-7d).")] = None,
    until: Annotated[str | None, Query(max_length=100, description="Dated at or before.")] = None,
    like: Annotated[str | None, Query(max_length=200, description="Titles or links that fit a pattern.")] = None,
    after: Annotated[str | None, Query(max_length=100, description="Items behind this cursor.")] = None,
    limit: Limit = 100,
) -> Items:
    """List items of feeds, the newest first, each in its newest version, a page at a time."""
    wanted = ItemFilter(feed, channel, _moment("since", since), _moment("until", until), like, after)
    found, behind = item_page(service.home, wanted, limit)
    return Items(items=found, after=behind)


@router.get("/one", response_model=Item, responses=problems(404))
def one_item(
    service: Running,
    holder: Reader,
    item: Annotated[str, Query(max_length=4_000, description="Its id, or a part of its id, title or link.")],
    feed: _Feed = None,
) -> Item:
    """Show an item: when it came and from where, and the fields of its document."""
    found, fields = find_item(service.home, item, feed)
    return Item(item=found, fields=[ItemField(name=name, text=text) for name, text in fields])


def _moment(name: str, text: str | None) -> int | None:
    """Read a time of a parameter.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``.
    """
    try:
        return None if text is None else parse_moment(text, now_micros())
    except ValueError as error:
        raise EngineError("XSCL_BAD_OPTION", f"{name}: {error}") from None
