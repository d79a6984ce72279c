"""The oracle of streams: which event each copy is, by the rules as they are told (docs/reference/channels.md), one by
one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Copy:
    """What comes: ``name`` is a channel or a stream, ``feed`` the feed that it was read from."""

    name: str
    id: str
    ts: int
    content: str
    feed: str | None = None


@dataclass(frozen=True)
class Stream:
    """A stream of the one channel that there is."""

    source: str | None


@dataclass
class Event:
    """An event, with the places of the copies by which each stream has it; that of the channel is the first."""

    number: int
    id: str
    item: int
    ts: int
    content: str
    by: dict[str | None, int] = field(default_factory=dict)


def events(copies: Sequence[Copy], streams: Mapping[str, Stream], *, feeds: bool) -> tuple[list[Event], list[int]]:
    """The events of a channel, and the places of the copies that are refused; ``feeds``: ids have versions."""
    found: list[Event] = []
    scopes: dict[tuple[str, str, str], list[Event]] = {}
    first_scope: dict[str, tuple[str, str, str]] = {}
    refused = []
    for place, copy in enumerate(copies):
        stream = copy.name if copy.name in streams else None
        way = ("feed", copy.feed) if copy.feed else ("stream", stream) if stream else ("channel", "")
        scope = (*way, copy.id)
        mine = scopes.get(scope, [])
        others = [event for key, of in scopes.items() if key[2] == copy.id for event in of]
        others.sort(key=lambda event: event.number)
        source = streams[stream].source if stream else None
        twin = next(
            (
                event
                for event in others
                if source is not None
                and (event.ts, event.content) == (copy.ts, copy.content)
                and stream not in event.by
                and (first := next(iter(event.by))) is not None
                and streams[first].source == source
                and all(own.item == event.item for own in mine)
            ),
            None,
        )
        if twin is not None:
            twin.by[stream] = place
            if twin not in mine:
                scopes.setdefault(scope, []).append(twin)
            first_scope.setdefault(copy.id, scope)
            continue
        if any(event.content == copy.content for event in mine):
            continue
        if mine and not feeds:
            refused.append(place)
            continue
        base = copy.id
        if first_scope.setdefault(copy.id, scope) != scope:
            base = f"{copy.id} ({way[1] or copy.name})"
        id_ = base if not mine else f"{base}#{len(mine) + 1}"
        event = Event(place, id_, mine[0].item if mine else place, copy.ts, copy.content, {stream: place})
        found.append(event)
        scopes.setdefault(scope, []).append(event)
    return found, refused
