"""Identity of events: one ingested before, a version of one, a copy by another stream, or a new one.

Items of different feeds, and events of different streams, are different, even where they share a guid: the first keeps
the guid as its id, the others get their feed or stream behind it.  Equal events of streams of one source are one event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import DocumentError
from xscl.catalog.events import EventId, IdRow, find_event_ids
from xscl.catalog.id_ranges import rows_by_id
from xscl.catalog.memberships import Memberships
from xscl.catalog.records import ChannelInfo, StreamInfo
from xscl.catalog.removals import removed_among
from xscl.catalog.tables import EVENT_IDS
from xscl.ingest.rows import cells_digest
from xscl.intake.checks import CheckedEvent, taken_id
from xscl.store.home import Home

__all__ = ["Identity", "IdsOfChannel", "KnownEvent", "KnownEvents"]


class KnownEvent(NamedTuple):
    """An event that was taken in, by one of the ways it came."""

    id: str
    """Id in ``event_ids``."""
    feed: str
    stream: int
    version: int
    docid: int
    item: int
    digest: str
    ts: int | None
    received: int | None
    """Time when the event was first seen; None if that is not kept."""
    whole: bool
    """Whether it is the event itself, and not a copy of an event that another stream brought."""

    @property
    def scope(self) -> tuple[str, int]:
        """Scope within which an id is of one item: the feed, else the stream, else the channel."""
        return _scope(self.feed, self.stream)

    @property
    def event(self) -> tuple[int, str, int | None]:
        """Return the key that copies have in common."""
        return self.item, self.digest, self.ts

    def row(self, channel: str, base: str, membership: int) -> IdRow:
        """Return its row of ``event_ids``; ``base`` is its id without feed and version."""
        who = (channel, self.id, base, self.feed, self.version, self.docid)
        return (*who, self.item, self.digest, self.ts, self.received, membership)


class Identity(NamedTuple):
    """Identity of an event that its stream did not have before."""

    id: str
    """Unique in its channel, in ``event_ids``."""
    feed: str
    version: int
    item: int | None
    """Number of the item's first version; None for the event's own."""
    ts: int
    copied: KnownEvent | None = None
    """The event that it is a copy of, by another stream."""


class IdsOfChannel:
    """Ids of a channel as a transaction knows them."""

    def __init__(self) -> None:
        self.versions: dict[str, list[KnownEvent]] = {}
        """Events by id without feed and version."""
        self.taken: set[str] = set()
        """Ids with feed and version."""
        self.asked: set[str] = set()
        """Ids that were read."""
        self.free: set[str] = set()
        """Ids that no event had before this transaction."""
        self.removed: set[int] = set()
        """Numbers of events that were read and are removed."""
        self._new: dict[str, IdRow] = {}
        """Events of this transaction that are the only ones with their ids."""

    def known(self, base: str) -> Sequence[KnownEvent]:
        """Return the events of an id without feed and version."""
        if (new := self._new.pop(base, None)) is not None:
            self.add(base, _known(EventId._make(new), 0, True))
        return self.versions.get(base, ())

    def is_taken(self, id_: str) -> bool:
        """Whether an id with feed and version is taken."""
        return id_ in self._new or id_ in self.taken

    def has(self, id_: str) -> bool:
        """Whether an id stands for any event, with feed and version or without."""
        return id_ in self._new or id_ in self.taken or id_ in self.versions

    def has_any(self, ids: Set[str]) -> bool:
        """Whether one of some ids stands for an event, with feed and version or without."""
        return not all(known.isdisjoint(ids) for known in (self._new.keys(), self.taken, self.versions.keys()))

    def add(self, base: str, known: KnownEvent) -> None:
        """Note an event; ``base`` is its id without feed and version."""
        self.known(base)
        self.taken.add(known.id)
        self.versions.setdefault(base, []).append(known)

    def forget_older(self, base: str, scope: tuple[str, int]) -> None:
        """Forget the versions of an item between its first and its last, which no change of a row asks about."""
        versions = self.versions[base]
        if len(versions) > 2:
            between = [known for known in versions[1:-1] if known.scope != scope]
            self.versions[base] = [versions[0], *between, versions[-1]]

    def add_new(self, rows: Iterable[IdRow]) -> None:
        """Note events with ids that no event had, and that came by no stream."""
        new = {row[1]: row for row in rows}
        self._new |= new
        self.asked.update(new)


def _known(row: EventId, stream: int, whole: bool) -> KnownEvent:
    what = (row.version, row.docid, row.item, row.digest, row.ts, row.received)
    return KnownEvent(row.id, row.feed, stream, *what, whole)


class KnownEvents:
    """Ids as a transaction knows them: ids from before it, each read once, and ids that it adds.

    Args:
        connection: of the transaction.
        home: where files of rows lie.
        streams: all by name.
        memberships: by which streams an event came.
    """

    def __init__(
        self, connection: Connection, home: Home, streams: Mapping[str, StreamInfo], memberships: Memberships
    ) -> None:
        self._connection = connection
        self._home = home
        self._streams = streams
        self._memberships = memberships
        self._channels: dict[str, IdsOfChannel] = {}

    def of_channel(self, channel: str) -> IdsOfChannel:
        """Return the ids of a channel."""
        if (found := self._channels.get(channel)) is None:
            found = self._channels[channel] = IdsOfChannel()
        return found

    def learn(self, items: Sequence[CheckedEvent], channels: Mapping[str, ChannelInfo]) -> None:
        """Read what is known of the ids of these events."""
        wanted: dict[str, set[str]] = {}
        of_rows: dict[str, set[str]] = {}
        for item in items:
            channel = item.event.channel
            if (ids := wanted.get(channel)) is None:
                ids = wanted[channel] = set()
            ids.add(item.id)
            if item.event.row is not None:
                of_rows.setdefault(channel, set()).add(item.id)
        for channel, ids in wanted.items():
            asked = self.of_channel(channel).asked
            ids -= asked
            if channel in of_rows:
                of_rows[channel] -= asked
            asked |= ids
            self._read(channel, ids)
        for channel, row in rows_by_id(self._connection, self._home.root, of_rows):
            digest = cells_digest(channels[channel].schema or {}, row.cells)
            known = KnownEvent(row.id, "", 0, 1, row.docid, row.docid, digest, None, None, whole=True)
            self.add(channel, row.id, known)
            self._learn_removed(channel, [row.docid])
        self._learn_next(items)

    def _learn_next(self, items: Sequence[CheckedEvent]) -> None:
        """Read which ids are taken of those that items of feeds get where events have their own ids already."""
        wanted: dict[str, set[str]] = {}
        for item in items:
            feed, channel = item.event.feed, item.event.channel
            if feed is not None and (known := self.of_channel(channel).known(item.id)):
                mine = [row for row in known if row.scope == _scope(feed, item.by)]
                if not any(row.digest == item.digest for row in mine):
                    wanted.setdefault(channel, set()).add(_next_id(item, feed, known, mine))
        for channel, ids in wanted.items():
            ids -= self.of_channel(channel).asked
            taken = {row.id for row in find_event_ids(self._connection, channel, ids)} if ids else set()
            self.of_channel(channel).taken |= taken
            self.of_channel(channel).free |= ids - taken

    def _read(self, channel: str, bases: set[str]) -> None:
        found: dict[str, list[KnownEvent]] = {}
        taken = self.of_channel(channel).taken
        for row in find_event_ids(self._connection, channel, bases):
            taken.add(row.id)
            if row.base not in bases:
                continue  # not all its versions were read
            streams, whole = self._memberships[row.membership]
            known = _known(row, next(iter(streams), 0), whole)
            found.setdefault(row.base, []).append(known)
        self._learn_removed(channel, [known.docid for versions in found.values() for known in versions])
        for versions in found.values():
            versions.sort(key=lambda known: (known.docid, not known.whole))
        self.of_channel(channel).versions |= found

    def _learn_removed(self, channel: str, docids: Sequence[int]) -> None:
        self.of_channel(channel).removed |= removed_among(self._connection, docids).keys()

    def add(self, channel: str, base: str, known: KnownEvent) -> None:
        """Note an event; ``base`` is its id without feed and version."""
        self.of_channel(channel).add(base, known)

    def add_new(self, rows: Sequence[IdRow]) -> None:
        """Note events with ids that no event had, and that came by no stream."""
        # Rows of a feed's channel and of its raw channel stand by turns.
        by_channel: dict[str, list[IdRow]] = {}
        for row in rows:
            by_channel.setdefault(row[0], []).append(row)
        for channel, some in by_channel.items():
            self.of_channel(channel).add_new(some)

    def identify(self, item: CheckedEvent, channel: ChannelInfo, received: int) -> Identity | None:
        """Identify an event that was learnt of; None for one that is known already.

        Raises:
            DocumentError: ``XSCL_EVENT_ID_REUSED``: the id is taken by other content.
        """
        event = item.event
        known = self.of_channel(event.channel).known(item.id)
        feed = event.feed or ""
        if event.feed is None and channel.feed and known:
            # An event that was not read from a feed, but has the id of an item: a version of that item.
            feed = next((row.feed for row in known if row.stream == item.by or not item.by), "")
        scope = _scope(feed, item.by)
        mine = [row for row in known if row.scope == scope]
        ts = received if item.ts is None else item.ts
        if event.feed is not None:
            ts = min(ts, _first_seen(item, mine, known, received))
        if not known:
            return Identity(self._free_id(item, item.id), feed, 1, None, ts)
        copied = self._copied(known, mine, item, ts)
        if copied is None:
            removed = self.of_channel(event.channel).removed
            # An item that was removed comes back with the next event, and not with the old text of a feed.
            held = mine if event.feed is not None else [row for row in mine if row.docid not in removed]
            # Of changes the last one counts: a value that comes back is new.
            same = held[-1:] if item.renews else held
            if any(row.digest == item.digest for row in same):
                return None
            if held and not channel.feed and not item.renews:
                raise DocumentError(
                    "XSCL_EVENT_ID_REUSED",
                    taken_id(item.id, event.channel, is_place=event.row is not None and item.id == event.source),
                    hint="only items of feeds have versions",
                )
        id_ = _next_id(item, feed, known, mine)
        if not mine:
            return Identity(self._free_id(item, id_), feed, 1, None if copied is None else copied.item, ts, copied)
        if copied is not None and copied in mine:
            # One feed in two streams: its items are counted once.
            return Identity(self._free_id(item, f"{copied.id}~"), feed, copied.version, copied.item, ts, copied)
        version = max(row.version for row in mine) + 1
        return Identity(self._free_id(item, id_), feed, version, mine[0].item, ts, copied)

    def _copied(
        self, known: Sequence[KnownEvent], mine: Sequence[KnownEvent], item: CheckedEvent, ts: int
    ) -> KnownEvent | None:
        """Find the equal event of another stream of the source, which the event's own stream has not had yet."""
        if item.stream is None or item.stream.source is None:
            return None
        sharing = {stream.number for stream in self._streams.values() if stream.source == item.stream.source}
        had = {row.event for row in known if row.stream == item.by}
        for row in known:
            equal = row.whole and (row.digest, row.ts) == (item.digest, ts) and row.stream in sharing
            # Versions of one item never join with each other, so an item stays one item.
            if equal and row.event not in had and all(row.item == own.item for own in mine):
                return row
        return None

    def _free_id(self, item: CheckedEvent, id_: str) -> str:
        """Return the id; where a publisher's own id looks like one of ours (``guid#2``), with a mark behind it."""
        channel = item.event.channel
        of_channel = self.of_channel(channel)
        while of_channel.is_taken(id_) or (id_ != item.id and self._is_taken(channel, id_)):
            id_ += "~"
        return id_

    def _is_taken(self, channel: str, id_: str) -> bool:
        """Tell whether an id is taken, by asking the catalogue; ``learn`` has asked for events' own ids already."""
        if id_ in self.of_channel(channel).free:
            return False
        statement = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.channel == channel, EVENT_IDS.c.id == id_)
        return self._connection.execute(statement).first() is not None


def _next_id(item: CheckedEvent, feed: str, known: Sequence[KnownEvent], mine: Sequence[KnownEvent]) -> str:
    """Return the id of a further event whose own id is known; ``mine`` are the known events that it is a version of."""
    base = item.id
    if known[0].scope != _scope(feed, item.by):
        base = f"{item.id} ({feed or (item.event.channel if item.stream is None else item.stream.name)})"
    return f"{base}#{max(row.version for row in mine) + 1}" if mine else base


def _scope(feed: str, stream: int) -> tuple[str, int]:
    return feed, 0 if feed else stream


def _first_seen(item: CheckedEvent, mine: Sequence[KnownEvent], known: Sequence[KnownEvent], received: int) -> int:
    """Bound a feed item's date: a date in the future becomes the time when the item was first seen.

    ``published`` dates the item, every other date the version.
    """
    if item.event.time_source != "published" or not mine:
        return received
    seen = (row.received for row in known if row.item == mine[0].item and row.received is not None)
    return min([received, *seen])
