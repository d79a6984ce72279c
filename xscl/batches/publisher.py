"""What a batch publishes: the matches of publishing queries become events of their channels.

The rules are in docs/reference/language.md, Published channels.

Channels are published to in levels: those of a level are fed by queries over channels of levels before it, so a channel
is complete before it is read, and every match of the batch is found in the level of its last document.  A published
document takes the place of the last member of its match in the intake order.  Nothing here needs Spark.

Lateness: a published document is late by the clock of its channel as it stood at the document's place, which is the
greatest time of what was taken in on the channels of the clock up to there, and of what was published to this channel
at places before; with an idle time, it is at most so far behind what was taken in anywhere up to there (``clocks``).
It makes nothing late that is taken in: that was settled by the intake, perhaps before the match was found.

A document comes to be at its place, or later: where a query that was answered from what is held was registered, or late
events were taken again.  If it is in time at its place and would be late where it comes to be, the join state has done
with some of its partners.  It is late then, and is taken again at once, as if it had been in time (``late_batch``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED, place_of, published_docid
from xscl.base.errors import DocumentError, EngineError, XsclError
from xscl.base.failpoints import step
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.base.types import format_time
from xscl.base.values import digest_text
from xscl.batches.match_documents import match_document, selection_of
from xscl.batches.refusals import Rejection
from xscl.catalog.catalog import ChannelInfo, QueryInfo
from xscl.catalog.clocks import Clocks, is_late
from xscl.catalog.counters import free_serial
from xscl.catalog.tables import CHANNELS, EVENT_IDS, GROUPS, HOME, INTAKE_FILES, LATE, QUERIES, in_parts
from xscl.language.selection import Selection
from xscl.registry.query_list import of_groups
from xscl.store.event_content import stored_document
from xscl.store.event_files import EVENT_SCHEMA, event_document, events_of, write_event_file
from xscl.store.home import Home
from xscl.store.results import StoredMatch, match_id
from xscl.xpath.nodes import NodeNumbers

__all__ = ["PublishedFile", "Publisher", "Publishing", "acyclic_end", "channel_levels", "publishing"]

_CHUNK = 1_000
"""Documents made together."""

Step = tuple[frozenset[str], str]
"""Channels that a query reads, and the one it publishes to."""


# -- levels ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publishing:
    """What the queries publish that see some event of a range of the intake order."""

    levels: tuple[frozenset[str], ...]
    """The channels that are published to, each after those that it is made of."""
    groups: frozenset[int]
    """Groups with a query that publishes."""


def publishing(connection: Connection, first: int, last: int) -> Publishing | None:
    """What is published while the events of a range are processed; None if no query publishes."""
    steps = _steps(connection, first, last)
    if not steps:
        return None
    levels = channel_levels(steps)
    assert levels is not None, "a range ends before its queries would feed themselves (acyclic_end)"
    found = tuple(
        frozenset(name for name, level in levels.items() if level == number)
        for number in range(1, max(levels.values()) + 1)
    )
    groups = sa.select(QUERIES.c.gid).where(*_publishing(first, last))
    return Publishing(found, frozenset(connection.scalars(groups)))


def channel_levels(steps: Iterable[Step]) -> dict[str, int] | None:
    """The level of each channel that is published to, from 1; None if channels feed themselves.

    >>> channel_levels([(frozenset({"a"}), "b"), (frozenset({"a", "b"}), "c"), (frozenset({"a"}), "c")])
    {'b': 1, 'c': 2}
    """
    sources: dict[str, set[str]] = {}
    for channels, target in steps:
        sources.setdefault(target, set()).update(channels)
    levels: dict[str, int] = {}
    waiting = {target: channels & sources.keys() for target, channels in sources.items()}
    level = 1
    while waiting:
        ready = sorted(target for target, channels in waiting.items() if not channels & waiting.keys())
        if not ready:
            return None
        for target in ready:
            levels[target] = level
            del waiting[target]
        level += 1
    return levels


def acyclic_end(connection: Connection, first: int, last: int) -> int:
    """The last place of a batch from ``first`` on, at most ``last``, so that its queries do not feed themselves.

    Live queries never do.  Those of a range may, where one was registered after another was dropped; then the batch
    ends at the first registration of a query that publishes, which as any cut changes no answer.
    """
    if channel_levels(_steps(connection, first, last)) is not None:
        return last
    statement = sa.select(sa.func.min(QUERIES.c.docid_from)).where(
        QUERIES.c.publish.is_not(None), QUERIES.c.docid_from > first
    )
    return min(last, connection.scalar(statement) or last)


def _publishing(first: int, last: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Queries that publish and see some event of a range."""
    return QUERIES.c.publish.is_not(None), QUERIES.c.docid_from < last, QUERIES.c.docid_until > first


def _steps(connection: Connection, first: int, last: int) -> list[Step]:
    """What they read and publish to, each once."""
    joined = sa.select(GROUPS.c.channels, QUERIES.c.publish).join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
    rows = connection.execute(joined.where(*_publishing(first, last)).distinct())
    return [(frozenset(json.loads(row.channels)), row.publish) for row in rows]


# -- documents -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Output:
    """A match that is to be published."""

    id: str
    query: QueryInfo
    match: StoredMatch
    place: int
    came: int
    """The place at which it came to be: its own, or a later one where what was held was searched."""
    ts: int
    received: int

    @property
    def channel(self) -> str:
        assert self.query.publish is not None
        return self.query.publish


@dataclass(frozen=True, slots=True)
class _Event:
    """A published document."""

    docid: int
    output: _Output
    content: str
    late: bool = False

    def row(self) -> dict[str, object]:
        """A row of ``EVENT_SCHEMA``."""
        return {
            "docid": self.docid,
            "channel": self.output.channel,
            "id": self.output.id,
            "version": 1,
            "item": self.docid,
            "ts": self.output.ts,
            "received": self.output.received,
            "late": self.late,
            "content": self.content,
            "membership": 0,
        }

    def id_row(self) -> dict[str, object]:
        """A row of ``EVENT_IDS``."""
        return {
            "channel": self.output.channel,
            "id": self.output.id,
            "base": self.output.id,
            "feed": "",
            "version": 1,
            "docid": self.docid,
            "item": self.docid,
            "digest": digest_text("xml", self.content),
        }


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """The events that were published to the channels of a level, in a file in the shape of ``EVENT_SCHEMA``."""

    path: Path
    first: int
    """The least docid."""
    last: int
    channels: Mapping[str, int]
    """Events of each channel."""


class Publisher:
    """Publishes what one batch finds, level by level; what it wrote counts when ``commit`` names it.

    After each level of the batch ``found`` is told its matches.
    """

    def __init__(self, home: Home, published: Publishing, tag: str, answered: Collection[QueryInfo] = ()) -> None:
        """``answered`` are the queries that the batch answers from what was held, as they are to be after it."""
        self._home = home
        self._answered = {info.query: info for info in answered}
        self._came: dict[int, int] = {}
        """Where the documents that the batch published came to be."""
        self._published = published
        self._tag = tag
        self._channels = home.catalog.channels()
        self._waiting: dict[str, list[tuple[QueryInfo, StoredMatch]]] = {}
        """By the channel they are published to."""
        self._subscribers: dict[int, dict[int, QueryInfo]] = {}
        """Of each group those that publish, by number."""
        self._selections: dict[int, Selection | None] = {}
        self._serials: Counter[int] = Counter()
        """The next serial number at each place, after those of earlier batches too."""
        self._free = 0
        """A serial number that no document from before the batch has that is there no more."""
        self._first = home.catalog.processed()[0] + 1
        """The place at which the batch begins."""
        self._old_serials = True
        """Whether those of earlier batches are still to be read, if need be."""
        self._tables: list[pa.Table] = []
        self._files: list[dict[str, object]] = []
        self._ids: list[dict[str, object]] = []
        self._late: list[dict[str, object]] = []
        self._again: set[int] = set()
        """Those of the late ones that are taken again at once."""
        self.newest: dict[str, int] = {}
        """By channel the greatest event time of what was published."""
        self.rejected: list[Rejection] = []
        """Output documents that are no events."""

    @property
    def groups(self) -> frozenset[int]:
        """Groups with a query that publishes: whose matches it is to be told."""
        histories = (info.history for info in self._answered.values() if info.publish is not None)
        return self._published.groups.union(gid for gid in histories if gid is not None)

    @property
    def count(self) -> int:
        """How many documents were published."""
        return len(self._ids)

    def found(self, matches: Iterable[StoredMatch]) -> None:
        """Take note of new matches; only those of ``groups`` matter."""
        publishing = self.groups
        mine = [(match, match.groups & publishing) for match in matches]
        new = {gid for _, groups in mine for gid in groups} - self._subscribers.keys()
        for info in (*of_groups(self._home.catalog, new), *self._answered.values()):
            if info.publish is not None and info.docid_until > self._first:
                now = self._answered.get(info.query, info)
                for gid in new.intersection(now.groups):
                    self._subscribers.setdefault(gid, {})[info.query] = now
        for match, groups in mine:
            for gid in groups:
                for info in self._subscribers.get(gid, {}).values():
                    if match.is_seen_by(info):
                        assert info.publish is not None
                        self._waiting.setdefault(info.publish, []).append((info, match))

    @property
    def levels(self) -> tuple[frozenset[str], ...]:
        """The channels to publish to, one level after another."""
        return self._published.levels

    def level(self, channels: Collection[str]) -> PublishedFile | None:
        """Publish to these channels; None if nothing came to them."""
        waiting = [item for channel in sorted(channels) for item in self._waiting.pop(channel, ())]
        events = self._events(self._new(waiting)) if waiting else []
        if not events:
            return None
        table = pa.Table.from_pylist([event.row() for event in events], schema=EVENT_SCHEMA)
        path = self._home.folder("events") / f"{self._tag}-{len(self._files) + 1}.parquet"
        step("batch.publish")
        path = write_event_file(path, table)
        step("batch.published")
        self._tables.append(table)
        first, last = events[0].docid, events[-1].docid
        self._files.append({"path": f"events/{path.name}", "first": first, "last": last, "rows": len(events)})
        self._ids += [event.id_row() for event in events]
        for event in events:
            name, ts = event.output.channel, event.output.ts
            self.newest[name] = max(ts, self.newest.get(name, ts))
        return PublishedFile(path, first, last, Counter(event.output.channel for event in events))

    def discard(self) -> None:
        """Remove what was written: the batch has failed."""
        for file in self._home.folder("events").glob(f"{self._tag}-*.parquet"):
            file.unlink()

    def commit(self, connection: Connection, now: int) -> None:
        """Name what was published, in the transaction of the batch; ``now`` is in microseconds since the epoch.

        Raises:
            EngineError: an id was taken in since the level was published.
        """
        for channel in sorted({str(row["channel"]) for row in self._ids}):
            there = connection.execute(sa.select(CHANNELS.c.name).where(CHANNELS.c.name == channel)).first()
            if there is None:
                self._home.catalog.put_channel(connection, ChannelInfo.new(channel))
        late = [row for row in self._late if not _taken_again(connection, row)]
        again = [row for row in late if row["docid"] in self._again]
        if again:
            place, _ = self._home.catalog.take_places(connection, 1, now)
            for row in again:
                row["replayed"] = place
        try:
            for table, rows in ((INTAKE_FILES, self._files), (EVENT_IDS, self._ids), (LATE, late)):
                if rows:
                    connection.execute(table.insert(), rows)
        except sa.exc.IntegrityError as error:
            raise EngineError(
                "XSCL_BATCH",
                f"an id that a query publishes was taken in meanwhile: {error.orig}",
                hint="nothing of the batch is visible, and it runs again next time",
            ) from error

    # -- one level ---------------------------------------------------------------------------------------------

    def _new(self, waiting: Sequence[tuple[QueryInfo, StoredMatch]]) -> list[_Output]:
        """The matches whose ids are not taken in their channels, in the order of places, channels and ids."""
        docids = {docid for _, match in waiting for docid in match.docids}
        columns = ["docid", "channel", "id", "ts", "received"]
        members = {row["docid"]: row for row in events_of(self._home, docids, columns, self._tables).to_pylist()}
        found: dict[tuple[str, str], _Output] = {}
        for info, match in waiting:
            if not all(docid in members for docid in match.docids):
                continue  # an event that came older than its channel holds may be gone; the match is not listed either
            rows = [members[docid] for docid in match.docids]
            if not info.admits((row["channel"], place_of(row["docid"]), row["ts"]) for row in rows):
                continue
            id_ = match_id(info.digest, [(row["channel"], row["id"]) for row in rows], match.nodes)
            last = max(match.docids, key=place_of)
            came = max(
                self._first, info.docid_from, *(self._came.get(docid, place_of(docid)) for docid in match.docids)
            )
            output = _Output(
                id_, info, match, place_of(last), came, max(row["ts"] for row in rows), members[last]["received"]
            )
            found[output.channel, id_] = output
        with self._home.catalog.read() as connection:
            taken = _taken(connection, found)
            for key, docid in taken.items():
                if place_of(docid) != found[key].place and _has_gone(connection, docid):
                    self.rejected.append(_refused(found[key], _reused(found[key])))
        return sorted(
            (output for key, output in found.items() if key not in taken), key=lambda o: (o.place, o.channel, o.id)
        )

    def _events(self, outputs: Sequence[_Output]) -> list[_Event]:
        """Those whose documents are within the limits, in the order of their numbers."""
        events: list[_Event] = []
        if self._old_serials and any(output.place < self._first for output in outputs):
            with self._home.catalog.read() as connection:
                self._serials.update(_serials(connection))
                self._free = free_serial(connection)
            self._old_serials = False
        for start in range(0, len(outputs), _CHUNK):
            part = outputs[start : start + _CHUNK]
            for output, content in zip(part, self._documents(part), strict=True):
                if isinstance(content, XsclError):
                    self.rejected.append(_refused(output, content))
                    continue
                docid = self._docid(output.place)
                self._came[docid] = output.came
                events.append(_Event(docid, output, content))
        return sorted(self._judged(events), key=lambda event: event.docid)

    def _docid(self, place: int) -> int:
        """A number for a document at this place that none has, or has had."""
        serial = max(self._serials[place], self._free if place < self._first else 0)
        self._serials[place] = serial + 1
        return published_docid(place, serial)

    def _documents(self, outputs: Sequence[_Output]) -> list[str | XsclError]:
        """The output documents as they are stored, or why they are refused."""
        docids = {docid for output in outputs for docid in output.match.docids}
        columns = ["docid", "channel", "content", "cells"]
        documents = {
            row["docid"]: event_document(row["content"], row["cells"], self._channel(row["channel"]))
            for row in events_of(self._home, docids, columns, self._tables).to_pylist()
        }
        for output in outputs:
            if output.query.query not in self._selections:
                self._selections[output.query.query] = selection_of(output.query)
        kinds = {output.channel: self._channel(output.channel).kind for output in outputs}
        return in_fresh_dictionary(_documents, outputs, self._selections, documents, kinds)

    def _channel(self, name: str) -> ChannelInfo:
        return self._channels.get(name) or ChannelInfo.new(name)

    # -- lateness ----------------------------------------------------------------------------------------------

    def _judged(self, events: Sequence[_Event]) -> Iterator[_Event]:
        """The same, those that are late marked and noted."""
        by_channel: dict[str, list[_Event]] = {}
        for event in events:
            by_channel.setdefault(event.output.channel, []).append(event)
        for name, found in by_channel.items():
            channel = self._channel(name)
            if channel.lateness is None:
                yield from found
                continue
            places = np.array([event.output.place for event in found], dtype=np.int64)
            came = np.array([event.output.came for event in found], dtype=np.int64)
            times = np.array([event.output.ts for event in found], dtype=np.int64)
            now = list(self._shown(channel, came, times))
            then = now if (places == came).all() else self._shown_then(channel, places, times)
            for event, shown_now, shown_then in zip(found, now, then, strict=True):
                ts, old = event.output.ts, event.output.place < event.output.came
                late = is_late(channel, ts, shown_then if old else shown_now)
                again = old and not late and is_late(channel, ts, shown_now)
                shown = shown_now if again or not old else shown_then
                if again:
                    self._again.add(event.docid)
                if shown is not None and (late or again):
                    self._late.append(_late_row(event, shown, again=again))
                yield replace(event, late=late or again)

    def _shown_then(
        self, channel: ChannelInfo, places: npt.NDArray[np.int64], times: npt.NDArray[np.int64]
    ) -> Iterator[int | None]:
        """What the channel's clock showed at these places, of what this level publishes to it with these event times;
        by the events that are held.
        """
        last = published_docid(int(places.max()) + 1, 0)
        with self._home.catalog.read() as connection:
            before = (
                INTAKE_FILES.c.first < last,
                (INTAKE_FILES.c.first <= places.max()) | (INTAKE_FILES.c.last >= PUBLISHED),
            )
            paths = self._home.paths(list(connection.scalars(sa.select(INTAKE_FILES.c.path).where(*before))))
        sharing = [info.name for info in self._channels.values() if info.clock == channel.clock] or [channel.name]
        of_clock = ds.field("channel").isin(pa.array(sharing, pa.string()))
        taken_in = (ds.field("docid") <= int(places.max())) & (of_clock | (channel.idle is not None))
        published = (ds.field("docid") >= PUBLISHED) & (ds.field("channel") == channel.name)
        table = ds.dataset(paths, schema=EVENT_SCHEMA).to_table(
            columns=["docid", "channel", "ts"], filter=taken_in | published
        )
        docids, seen = table.column("docid").to_numpy(), table.column("ts").to_numpy()
        made = docids >= PUBLISHED
        mine = pc.is_in(table.column("channel"), pa.array(sharing, pa.string())).to_numpy() & ~made
        own = _greatest_by(docids[mine], seen[mine], None)(places, "right")
        all_places, all_times = np.append(place_of(docids[made]), places), np.append(seen[made], times)
        of_channel = _greatest_by(all_places, all_times, None)(places, "left")
        any_channel = _greatest_by(docids[~made], seen[~made], None)(places, "right")
        return _latest(channel, own, of_channel, any_channel)

    def _shown(
        self, channel: ChannelInfo, places: npt.NDArray[np.int64], times: npt.NDArray[np.int64]
    ) -> Iterator[int | None]:
        """What the channel's clock shows at these places, where what this level publishes to it comes to be, with these
        event times.
        """
        last = int(places.max())
        with self._home.catalog.read() as connection:
            rows = {row.name: row for row in connection.execute(sa.select(CHANNELS))}
            processed = connection.scalar(sa.select(HOME.c.processed)) or 0
            files = sa.select(INTAKE_FILES.c.path).where(INTAKE_FILES.c.last > processed, INTAKE_FILES.c.first <= last)
            paths = self._home.paths(list(connection.scalars(files)))
        # Up to the batch, what was processed and published; in it, event by event.
        before = Clocks(self._channels.values(), {name: row.processed for name, row in rows.items()})
        earlier = rows[channel.name].published if channel.name in rows else None
        wanted = (ds.field("docid") > processed) & (ds.field("docid") <= last)
        table = ds.dataset(paths, schema=EVENT_SCHEMA).to_table(columns=["docid", "channel", "ts"], filter=wanted)
        docids, seen = table.column("docid").to_numpy(), table.column("ts").to_numpy()
        sharing = [info.name for info in self._channels.values() if info.clock == channel.clock]
        mine = pc.is_in(table.column("channel"), pa.array(sharing, pa.string())).to_numpy()
        own = _greatest_by(docids[mine], seen[mine], before.own(channel))(places, "right")
        published = _greatest_by(places, times, earlier)(places, "left")
        any_channel = _greatest_by(docids, seen, before.greatest)(places, "right")
        return _latest(channel, own, published, any_channel)


def _documents(
    outputs: Sequence[_Output],
    selections: Mapping[int, Selection | None],
    documents: Mapping[int, str],
    kinds: Mapping[str, str],
) -> list[str | XsclError]:
    numbered = {docid: NodeNumbers(parse_stored(document)) for docid, document in documents.items()}
    found: list[str | XsclError] = []
    for output in outputs:
        try:
            if kinds[output.channel] != "xml":
                raise DocumentError("XSCL_CHANNEL_KIND", f"the channel {output.channel} takes rows")
            selection = selections[output.query.query]
            document = match_document(output.query, selection, output.match.docids, output.match.nodes, numbered)
            found.append(stored_document(document))
        except XsclError as error:
            found.append(error)
    return found


def _taken(connection: Connection, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The docids of those (channel, id) that events have."""
    wanted: dict[str, list[str]] = {}
    for channel, id_ in keys:
        wanted.setdefault(channel, []).append(id_)
    taken: dict[tuple[str, str], int] = {}
    for channel, ids in wanted.items():
        for part in in_parts(ids):
            mine = EVENT_IDS.c.channel == channel, EVENT_IDS.c.id.in_(part)
            rows = connection.execute(sa.select(EVENT_IDS.c.id, EVENT_IDS.c.docid).where(*mine))
            taken.update(((channel, row.id), row.docid) for row in rows)
    return taken


def _has_gone(connection: Connection, docid: int) -> bool:
    """Whether this is a published document, and the event at whose place it came is there no more."""
    there = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.docid == place_of(docid)).limit(1)
    return docid >= PUBLISHED and connection.execute(there).first() is None


def _latest(
    channel: ChannelInfo, of_clock: Iterable[int | None], of_channel: Iterable[int | None], of_any: Iterable[int | None]
) -> Iterator[int | None]:
    """What counts of the times of its clock, of what was published to it, and of any channel."""
    for own, published, newest in zip(of_clock, of_channel, of_any, strict=True):
        behind = None if channel.idle is None or newest is None else newest - channel.idle
        yield max((time for time in (own, published, behind) if time is not None), default=None)


def _greatest_by(
    places: npt.NDArray[np.int64], times: npt.NDArray[np.int64], before: int | None
) -> Callable[[npt.NDArray[np.int64], str], Iterator[int | None]]:
    """A function: the greatest of ``before`` and of the times at the places below each of some.

    With side 'right', those at the places themselves count as well, with 'left' they do not.
    """
    order = np.argsort(places, kind="stable")
    ordered, greatest = places[order], np.maximum.accumulate(times[order])

    def at(wanted: npt.NDArray[np.int64], side: str) -> Iterator[int | None]:
        ends = np.searchsorted(ordered, wanted, side="left" if side == "left" else "right")
        for end in ends.tolist():
            known = before if end == 0 else int(greatest[end - 1])
            yield known if before is None or known is None else max(known, before)

    return at


def _taken_again(connection: Connection, row: Mapping[str, object]) -> bool:
    """Whether a late event was taken again before a repair had all batches run anew; it gets its number back then."""
    same = LATE.c.channel == row["channel"], LATE.c.id == row["id"]
    waiting = LATE.c.replayed.is_not(None), LATE.c.docid.is_(None)
    return bool(connection.execute(LATE.update().where(*waiting, *same).values(docid=row["docid"])).rowcount)


def _serials(connection: Connection) -> dict[int, int]:
    """The least serial number that no document of each place has, of places with documents."""
    docids = connection.scalars(sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.docid >= PUBLISHED))
    greatest: dict[int, int] = {}
    for docid in docids:
        place, serial = place_of(docid), docid - published_docid(place_of(docid), 0)
        greatest[place] = max(serial + 1, greatest.get(place, 0))
    return greatest


def _reused(output: _Output) -> DocumentError:
    return DocumentError(
        "XSCL_EVENT_ID_REUSED",
        f"{output.channel} holds a document of an earlier match of events with the same ids, which went since",
    )


def _refused(output: _Output, error: XsclError) -> Rejection:
    """Why an output document is no event."""
    name = output.query.name
    return Rejection(name, output.channel, output.id, output.ts, error.condition, error.message, f"query {name}")


def _late_row(event: _Event, clock: int, *, again: bool) -> dict[str, object]:
    """A row of relation ``late``."""
    why = f"more than the channel's lateness behind {format_time(clock)}"
    output = event.output
    return {
        "channel": output.channel,
        "id": output.id,
        "docid": event.docid,
        "ts": output.ts,
        "received": output.received,
        "condition": "XSCL_LATE",
        "message": f"{why} when it came to be; it is taken again, because at its place it is not" if again else why,
        "replayed": None,
    }
