"""The oracle of lateness (docs/explanation/time.md, Clocks and lateness): looks back over everything for each event
anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Terms:
    """The settings of a channel; times in any one unit."""

    clock: str
    lateness: int | None = None
    idle: int | None = None


@dataclass(frozen=True)
class Arrival:
    """An event at its place; ``published``: a query made it of a match whose last member has this place."""

    place: int
    channel: str
    ts: int
    published: bool = False


def clock(event: Arrival, before: Sequence[Arrival], terms: Mapping[str, Terms]) -> int | None:
    """What the clock shows for an event, by those that came before it; None: nothing."""
    own = terms[event.channel].clock
    shown = [other.ts for other in before if terms[other.channel].clock == own and not other.published]
    shown += [other.ts for other in before if other.channel == event.channel and other.published]
    idle = terms[event.channel].idle
    if idle is not None:
        shown += [other.ts - idle for other in before if not other.published]
    return max(shown, default=None)


def is_late(event: Arrival, arrivals: Sequence[Arrival], terms: Mapping[str, Terms]) -> bool:
    """Whether an event is late among all arrivals, with the settings that hold when it comes.

    What queries publish comes with an event that is taken in, and is behind it.
    """
    before = [
        other
        for other in arrivals
        if other.place < event.place or (event.published and not other.published and other.place == event.place)
    ]
    shown, lateness = clock(event, before, terms), terms[event.channel].lateness
    return shown is not None and lateness is not None and event.ts < shown - lateness


def settled_before(
    event: Arrival, arrivals: Sequence[Arrival], epochs: Sequence[tuple[int, Mapping[str, Terms]]]
) -> int | None:
    """The time below which all was late at some change of settings before an event; None: nothing ever was.

    ``epochs`` are settings, each with the place from which on they hold.
    """
    found = []
    for (_, old), (end, new) in pairwise(epochs):
        before = [other for other in arrivals if other.place < end]
        for terms in (old, new) if end <= event.place else ():
            shown, lateness = clock(event, before, terms), terms[event.channel].lateness
            if lateness is not None and shown is not None:
                found.append(shown - lateness)
    return max(found, default=None)
