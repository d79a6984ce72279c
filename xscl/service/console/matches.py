"""Pages of matches: cards as they are committed, and one match with its documents side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from xscl.answers.document_listing import held_document, latest_documents
from xscl.answers.headline import Headline, headline
from xscl.answers.marked_document import Piece, marked_document
from xscl.answers.matches.cards import named_values
from xscl.answers.matches.listing import find_match
from xscl.answers.matches.nodes import joined_nodes
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.base.types import Match, MatchEvent
from xscl.service.api.calls import Name, Reader, Running
from xscl.service.api.matches import open_stream, read_page
from xscl.service.console.pages import new_router, page, part
from xscl.service.runtime import Service
from xscl.xpath.nodes import AttributeNode, DocumentNode, TextNode, node_at

__all__ = ["Card", "ShownMember", "card", "cards", "router", "shown_match"]

router = new_router()

_PAGE = 25
_LATEST = 20
_COLOURS = 6
"""Characters of a value on a card."""

_After = Annotated[str | None, Query(max_length=500)]


@dataclass(frozen=True, slots=True)
class CardMember:
    """A member of a match in a few words."""

    event: MatchEvent
    headline: Headline


@dataclass(frozen=True, slots=True)
class Card:
    """A match in a few words."""

    id: str
    query: str
    ts: int
    members: tuple[CardMember, ...]
    values: tuple[tuple[str, str, bool], ...]
    """Variables, equal ones together, their value, and whether they are several."""
    cursor: str


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A match that a line of the log takes back, in a few words."""

    id: str
    query: str
    ts: int
    because: str
    by: tuple[str, str] | None
    """Channel and id of the event that took it back."""


@dataclass(frozen=True, slots=True)
class ShownMember:
    """A member of a match with its document, in which joined values are marked."""

    event: MatchEvent
    headline: Headline
    pieces: list[Piece]


def card(match: Match) -> Card:
    """Tell a match in a few words."""
    assert match.source is not None
    places = zip(match.events, match.source.documents, match.source.results, strict=True)
    members = tuple(CardMember(event, in_fresh_dictionary(_headline, text, place)) for event, text, place in places)
    named = in_fresh_dictionary(lambda: list(named_values(match)))
    # Values that members share go first, in their colours.
    named.sort(key=lambda each: len(each[0]) == 1)
    values = tuple((" = ".join(names), value, len(names) > 1) for names, value in named)
    return Card(match.id, match.query, match.ts, members, values, match.cursor)


def cards(service: Service, query: str | None, after: str, limit: int) -> tuple[list[Card | TakenBack], str]:
    """Return the cards of the matches behind a cursor, and of those taken back, and the cursor behind them."""
    lines, cursor = read_page(
        service, query, after, limit, lambda match: {"card": _card_of_line(match), "cursor": match.cursor}
    )  # fmt: skip
    return [line["card"] for line in lines], cursor


def _card_of_line(match: Match) -> Card | TakenBack:
    if match.retracted is None:
        return card(match)
    return TakenBack(match.id, match.query, match.ts, match.retracted.because, match.retracted.by)


def shown_match(
    match: Match, nodes: list[dict[str, int | str]]
) -> tuple[list[ShownMember], list[tuple[str, str, int]]]:
    """Return the members of a match with their documents, and its variables with values and colours.

    Args:
        match: the match, with its documents.
        nodes: joined nodes of each member by variable.
    """
    assert match.source is not None
    colours: dict[str, int] = {}
    for name in (name for member in nodes for name in member):
        colours.setdefault(match.values.get(name, ""), len(colours) % _COLOURS + 1)
    members = []
    places = zip(match.events, match.source.documents, match.source.results, nodes, strict=True)
    for event, document, result, found in places:
        marks = {place: str(colours[match.values.get(name, "")]) for name, place in found.items()}
        told = in_fresh_dictionary(_headline, document, result)
        members.append(ShownMember(event, told, marked_document(document, marks)))
    joined = {name for member in nodes for name in member}
    values = [(name, value, colours[value] if name in joined else 0) for name, value in match.values.items()]
    return members, values


def _headline(document: str, place: int | str) -> Headline:
    node = node_at(parse_stored(document), place)
    if isinstance(node, (AttributeNode, TextNode)):
        return headline(node.owner)
    return headline(node.root if isinstance(node, DocumentNode) else node)


@router.get("/matches")
def all_matches(request: Request, service: Running, holder: Reader, after: _After = None) -> Response:
    """Show the matches of all queries in the order of commits, a page at a time."""
    found, cursor = cards(service, None, after or "start", _PAGE)
    return page(request, "matches.html", cards=found, after=after, cursor=cursor, more=len(found) == _PAGE)


@router.get("/matches/stream")
async def all_live(
    request: Request,
    service: Running,
    holder: Reader,
    after: _After = None,
    last_event_id: Annotated[str | None, Header(max_length=500)] = None,
) -> StreamingResponse:
    """Stream the cards of all queries' matches as they are committed."""
    return await open_stream(request, service, None, last_event_id or after, _live)


@router.get("/queries/{name}/stream")
async def live(
    request: Request,
    name: Name,
    service: Running,
    holder: Reader,
    after: _After = None,
    last_event_id: Annotated[str | None, Header(max_length=500)] = None,
) -> StreamingResponse:
    """Stream the cards of a query's matches as they are committed."""
    return await open_stream(request, service, name, last_event_id or after, _live)


def _live(match: Match) -> dict[str, Any]:
    if match.retracted is not None:
        return {"cursor": match.cursor, "retract": match.id}
    return {"cursor": match.cursor, "html": part("part_card.html", card=card(match), fresh=True)}


@router.get("/matches/{match}")
async def one_match(request: Request, match: Name, service: Running, holder: Reader) -> Response:
    """Show a match, its documents side by side and its joined values marked."""
    # All matches are looked through, so few such calls run at a time.
    async with service.turns.turn(holder.name, service.settings.sql_s):
        found = await run_in_threadpool(find_match, service.home, match)
    return await run_in_threadpool(_one_match, request, service, found)


def _one_match(request: Request, service: Service, found: Match) -> Response:
    """Show a match that was found."""
    with service.registering:
        nodes = joined_nodes(service.home, found)
    members, values = shown_match(found, nodes)
    output = marked_document(found.document)
    return page(request, "match.html", match=found, members=members, values=values, output=output)


@router.get("/document")
def document(
    request: Request,
    service: Running,
    holder: Reader,
    channel: Annotated[str, Query(max_length=200)],
    id: Annotated[str, Query(max_length=4_000)],
) -> Response:
    """Show a document that the home holds."""
    found = held_document(service.home, channel, id)
    told = in_fresh_dictionary(_headline, found.document, 0)
    return page(request, "document.html", document=found, headline=told, pieces=marked_document(found.document))


@router.get("/channels/{channel}")
def channel_page(request: Request, channel: Name, service: Running, holder: Reader) -> Response:
    """Show the latest documents of a channel."""
    found = [
        (each, in_fresh_dictionary(_headline, each.document, 0))
        for each in latest_documents(service.home, channel, _LATEST)
    ]
    return page(request, "channel.html", channel=channel, documents=found)
