"""Which events a query sees, and which are late, by the rules as they are told.

These are in docs/how-to/history.md, Retained events, and in docs/explanation/time.md, Clocks and lateness.

Everything is a function of the intake order: events, registrations and drops at places that grow.  Knows nothing of
batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from oracle.evaluate import Doc

from xscl.language.syntax import ast

FOR_EVER = 1 << 40
"""A place that nothing has."""


@dataclass(frozen=True)
class Standing:
    """A query that was registered at place ``since`` of the intake order and dropped at ``until``."""

    query: ast.Query
    since: int = -1
    until: int = FOR_EVER

    def sees(self, doc: Doc, place: int, known: int | None = None, *, held: bool = True) -> bool:
        """Whether a document may be a member of its matches.

        Args:
            doc: the document.
            place: its place in the intake order; that of the last member of its match, if a query published it.
            known: from which place on it is there: its own, or where the query was registered that published it of
                what was held.
            held: whether it was held at the registration, if it was there.
        """
        known = place if known is None else known
        if max(place, known) >= self.until:
            return False
        starting = self.query.starting
        if starting == "NOW":
            return place > self.since
        if starting != "ALL" and doc.ts < micros(starting):
            return False
        return known > self.since or held


def micros(time: str) -> int:
    """Microseconds since the epoch of an ISO 8601 time with its zone."""
    since = datetime.fromisoformat(time) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@dataclass(frozen=True)
class Rules:
    """What is declared of channels: durations in microseconds, by channel; those that are not named have none."""

    lateness: Mapping[str, int]
    retention: Mapping[str, int]
    clocks: Mapping[str, str]
    """Each channel has its own where it is not named."""

    def clock(self, channel: str) -> str:
        return self.clocks.get(channel, f"own {channel}")

    def greatest(self, channel: str, events: Mapping[Doc, int], place: int) -> int | None:
        """The greatest event time before a place on the channel's clock."""
        mine = [d.ts for d, at in events.items() if at < place and self.clock(d.channel) == self.clock(channel)]
        return max(mine, default=None)

    def is_late(self, doc: Doc, events: Mapping[Doc, int]) -> bool:
        """Whether an event was late when it came."""
        greatest = self.greatest(doc.channel, events, events[doc])
        lateness = self.lateness.get(doc.channel)
        return lateness is not None and greatest is not None and doc.ts < greatest - lateness

    def is_held(self, doc: Doc, events: Mapping[Doc, int], place: int) -> bool:
        """Whether an event is held at a place; its own time of receipt is far later than any event's time."""
        retention = self.retention.get(doc.channel)
        greatest = self.greatest(doc.channel, events, place)
        return retention is None or greatest is None or doc.ts >= greatest - retention


NO_RULES = Rules({}, {}, {})


def marked_late(events: Mapping[Doc, int], rules: Rules) -> dict[Doc, int]:
    """The same events, those that came late marked so."""
    return {replace(doc, late=rules.is_late(doc, events)): place for doc, place in events.items()}
