"""The rows of feeds in the catalogue as intake reads and writes them, in its transaction.

A feed that is read, from a file or an address, has one row, found by its identity.  A subscription has its row before
it was read first, and keeps the identity it had then, so that a feed that is renamed brings nothing anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.feeds import add_feed_row, merge_feed, update_feed
from xscl.catalog.prepared import prepared
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import FEEDS
from xscl.ingest.fetch_policy import host_key
from xscl.ingest.identity import Memory, Policy, memory_json, read_memory
from xscl.ingest.records import FeedDocument
from xscl.intake.report import Outcome

__all__ = ["FeedState", "FeedStates"]

_COLUMNS = ("number", "identity", "url", "policy", "reason", "memory")


@dataclass(slots=True)
class FeedState:
    """A feed as intake finds it, and what this transaction adds.

    ``items`` counts the entries that brought its channel something new, ``versions`` those of them that are newer
    versions, ``rejected`` the events of entries that were refused.
    """

    number: int
    """``feeds.number``."""
    identity: str
    memory: Memory
    url: str | None = None
    """Address at which it is subscribed; None: it was only read from files."""
    subscriptions: dict[int, dict[str, object]] = field(default_factory=dict)
    """Values that polls leave in the rows they were made for, by number."""
    values: dict[str, object] = field(default_factory=dict)
    """Values that the feed states of itself."""
    polls: Counter[int] = field(default_factory=Counter)
    """Documents that were read, by the row of the subscription that they came by, or of the feed."""
    items: int = 0
    versions: int = 0
    rejected: int = 0

    def is_strange(self, connection: Connection, document: FeedDocument) -> bool:
        """Tell whether a document was fetched from another host than that of the feed which it says it is.

        Such a feed may bring items to this one, but withdraws none and moves no clock.
        """
        poll = document.poll
        if poll is None:
            return False  # whoever gives a file says what feed it is of
        host = _host(poll.address or document.feed.address)
        if host is not None and host == _host(self.identity):
            return False
        if poll.subscription == self.number or (host is not None and host == _host(self.url or "")):
            # Another subscription may be the feed that this one only said it was, and said so first.
            true = FEEDS.c.url == self.identity, FEEDS.c.number != self.number
            return connection.execute(sa.select(FEEDS.c.number).where(*true)).first() is not None
        return True

    def note(self, document: FeedDocument) -> None:
        """Count a document, and take over what it says of its feed and what its poll leaves."""
        said = {"title": document.feed.title, "home": document.feed.home}
        self.values |= {name: value for name, value in said.items() if value}
        if document.poll is None:
            self.polls[self.number] += 1
            return
        number = document.poll.subscription
        self.polls[number] += 1
        values = self.subscriptions.setdefault(number, {})
        values |= document.poll.values
        if number != self.number:
            values |= self.values | {"reason": f"the same feed as {self.url or self.identity}, which counts the items"}

    def count(self, outcomes: Collection[Outcome]) -> None:
        """Count what became of the events of one entry."""
        self.items += bool({"taken", "version"} & set(outcomes))
        self.versions += "version" in outcomes
        self.rejected += sum(outcome == "rejected" for outcome in outcomes)


class FeedStates:
    """The feeds of a transaction, which ends with ``write``."""

    def __init__(self, connection: Connection, now: int) -> None:
        self._connection = connection
        self._now = now
        self._by_identity: dict[str, FeedState] = {}
        self._by_subscription: dict[int, FeedState] = {}

    def of(self, document: FeedDocument) -> FeedState:
        """Return the feed of a document."""
        if document.poll is None:
            states, key = self._by_identity, document.feed.identity
            if (state := states.get(key)) is None:
                state = states[key] = self._read(document)
            return state
        number = document.poll.subscription
        if (state := self._by_subscription.get(number)) is None:
            # Its row may take in that of a feed that was read from a file.
            self.write()
            state = self._by_subscription[number] = self._read(document)
        return state

    def _read(self, document: FeedDocument) -> FeedState:
        state = _feed_state(self._connection, document, self._now)
        return next((other for other in self._all() if other.number == state.number), state)

    def _all(self) -> Iterator[FeedState]:
        yield from self._by_identity.values()
        yield from self._by_subscription.values()

    def write(self) -> None:
        """Write what was found out of feeds, and what polls left."""
        for state in {state.number: state for state in self._all()}.values():
            _write(self._connection, state)
        self._by_identity.clear()
        self._by_subscription.clear()


def _feed_state(connection: Connection, document: FeedDocument, now: int) -> FeedState:
    """Return the feed of a document; a feed that was never read gets its row."""
    identity = document.feed.identity
    row: sa.Row[Any] | None = None
    if document.poll is not None:
        row = connection.execute(*_of_number(document.poll.subscription)).first()
        if row is not None and row.identity is None:
            row = _first_read(connection, row.number, identity) or row
    if row is None:
        row = connection.execute(*_of_identity(identity)).first()
    if row is None:
        add_feed_row(connection, {"identity": identity, "channel": document.channel, "added": now})
        number = connection.execute(*_of_identity(identity)).one().number
        return FeedState(number, identity, Memory())
    policy = cast(Policy, row.policy)
    memory = (
        read_stored(FEEDS.c.memory, row.memory, lambda text: read_memory(text, policy, row.reason))
        if row.memory
        else Memory(policy, row.reason)
    )
    return FeedState(row.number, row.identity or identity, memory, row.url)


@prepared
def _of_identity(identity: str) -> sa.Select[Any]:
    return sa.select(*_columns()).where(FEEDS.c.identity == identity)


@prepared
def _of_number(number: int) -> sa.Select[Any]:
    return sa.select(*_columns()).where(FEEDS.c.number == number)


def _columns() -> list[sa.ColumnElement[Any]]:
    return [FEEDS.c[name] for name in _COLUMNS]


def _first_read(connection: Connection, number: int, identity: str) -> sa.Row[Any] | None:
    """Give a subscription the identity of the feed that was read; the row that has it already, where one has.

    A row that was only read from files becomes part of the subscription.
    """
    other = connection.execute(*_of_identity(identity)).first()
    if other is not None and other.url is not None:
        return other  # the same feed at two addresses: one memory
    merge_feed(connection, number, identity, None if other is None else other.number)
    return connection.execute(*_of_identity(identity)).first()


def _host(text: str) -> str | None:
    """Return the host of an address, or of the home page that an identity begins with."""
    address = text.partition(" ")[0]
    try:
        return host_key(address) if "://" in address else None
    except ValueError:
        return None


def _write(connection: Connection, state: FeedState) -> None:
    memory = state.memory
    counts = {name: getattr(state, name) for name in ("items", "versions", "rejected")}
    found = {"policy": memory.policy, "reason": memory.reason, "memory": memory_json(memory)}
    update_feed(connection, state.number, {**state.values, **found}, counts)
    for number in state.polls:
        update_feed(connection, number, state.subscriptions.get(number, {}), {"polls": state.polls[number]})
