"""Exchanges: matches that have the same events with two of them in each other's place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xscl.templates.plans import Assembly
from xscl.templates.results import Member

__all__ = ["exchanges"]


def exchanges(assembly: Assembly, members: Sequence[Member]) -> Iterator[tuple[str, ...]]:
    """Iterate over the events by block, told by ``Member.place``, of matches that may have come in an earlier batch.

    They have the same events with two exchanged, between blocks that read different streams: a stream may bring its
    copy of an event in a later batch, so the two orders of two events are not always complete together.
    """
    for i, j in sorted(assembly.crossings):
        places = [member.place for member in members]
        places[i], places[j] = places[j], places[i]
        yield tuple(places)
