"""Publishing: matches of publishing queries become events of their channels.

The rules are in docs/reference/language.md, Published channels.  Channels are published to level by level
(``publish_levels``), and a published document takes the place of the last member of its match in the intake order.
Nothing here needs Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.docids import PUBLISHED, place_of, published_docid
from xscl.base.errors import DocumentError, EngineError, XsclError
from xscl.base.failpoints import step
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.batches.match_documents import selection_of
from xscl.batches.publishing.documents import Content, Made, Output, PublishedEvent, Told, output_documents
from xscl.batches.publishing.lateness import judged
from xscl.batches.publishing.removals import published_numbers, removals_of
from xscl.batches.publishing.rows import Publication, publication_of
from xscl.batches.ranges import BatchRange
from xscl.batches.refusals import Rejection, refused_document
from xscl.batches.taking_back import Retraction
from xscl.catalog.channels import put_channel
from xscl.catalog.counters import free_serial
from xscl.catalog.events import PublishedId, add_event_files, add_published_ids
from xscl.catalog.late import add_late, return_number
from xscl.catalog.queries import replay_place
from xscl.catalog.records import ChannelInfo, QueryInfo
from xscl.catalog.removals import Removed, add_removals
from xscl.catalog.retained_from import keep_times
from xscl.catalog.tables import CHANNELS, EVENT_IDS
from xscl.language.facts import ANSWERS
from xscl.language.selection import Selection
from xscl.language.syntax.ast import STRONG
from xscl.language.syntax.format import format_level
from xscl.registry.query_list import of_groups
from xscl.store.event_files import event_document, events_of, write_event_file
from xscl.store.home import Home
from xscl.store.results import StoredMatch, match_id

__all__ = ["PublishedFile", "Publisher"]

_STRONG = format_level(STRONG)
_CHUNK = 1_000
"""Documents made together."""


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
    """Publishes the matches of one batch, level by level; its files count when ``commit`` names them.

    After each level of the batch ``found`` is told its matches.
    """

    def __init__(self, home: Home, span: BatchRange, tag: str) -> None:
        """Begin with nothing found; names of files begin with ``tag``."""
        assert span.publishing is not None
        self._home = home
        self._span = span
        self._answered = {info.query: info for info in span.waiting}
        """Queries that the batch answers from held events, as they are after it."""
        self._came: dict[int, int] = {}
        """Places at which the documents that the batch published were found."""
        self._published = span.publishing
        self._tag = tag
        self._first = span.first
        self._waiting: dict[str, list[tuple[QueryInfo, Told]]] = {}
        """Matches to publish, by channel."""
        self._subscribers: dict[int, dict[int, QueryInfo]] = {}
        """Queries that publish, by group and number."""
        self._selections: dict[int, Selection | None] = {}
        self._publications: dict[int, Publication] = {}
        self._serials: Counter[int] = Counter()
        """The next serial number at each place, after those of earlier batches too."""
        self._free = 0
        """A serial number above those of documents that have gone."""
        self._old_serials = True
        """Whether those of earlier batches are still to be read, if need be."""
        self._tables: list[pa.Table] = []
        self._files: list[dict[str, object]] = []
        self._ids: list[PublishedId] = []
        self._made = 0
        """Documents that were made of many matches, which no query publishes."""
        self._late: list[dict[str, object]] = []
        self._again: set[int] = set()
        """Late documents that are taken again at once, by number."""
        self.newest: dict[str, int] = {}
        """Greatest event time of published documents, by channel."""
        self.removed: dict[int, Removed] = {}
        """Removals of published documents, by the numbers of these: their matches hold no longer."""
        self.rejected: list[Rejection] = []
        """Output documents that are no events."""

    @property
    def groups(self) -> frozenset[int]:
        """Groups whose matches it is to be told: a query of theirs publishes."""
        histories = (info.history for info in self._answered.values() if info.publish is not None)
        return self._published.groups.union(gid for gid in histories if gid is not None)

    @property
    def tables(self) -> Sequence[pa.Table]:
        """Return the documents that it has published."""
        return self._tables

    @property
    def count(self) -> int:
        """Number of published documents."""
        return len(self._ids) - self._made

    @property
    def decided(self) -> Mapping[int, int]:
        """Level behind which the answers of groups that publish are decided, by groups that are made of others."""
        return self._published.decided

    def found(self, matches: Iterable[StoredMatch], places: Iterable[int] | None = None) -> None:
        """Take note of new matches; only those of ``groups`` matter.

        ``places`` are those at which they were decided; None: at those of their last members.
        """
        self.told(map(Told, matches, repeat(None) if places is None else places))

    def told(self, matches: Iterable[Told]) -> None:
        """Take note of new matches, as ``found`` does."""
        publishing = self.groups
        mine = [(told, told.match.groups & publishing) for told in matches]
        self._learn({gid for _, groups in mine for gid in groups})
        for told, groups in mine:
            for gid in groups:
                for info in self._subscribers.get(gid, {}).values():
                    if told.match.is_seen_by(info):
                        assert info.publish is not None
                        self._waiting.setdefault(info.publish, []).append((info, told))

    def take_back(self, retracted: Sequence[Retraction]) -> None:
        """Remove the documents of matches of earlier batches that hold no longer."""
        publishing = self.groups
        mine = [each for each in retracted if not publishing.isdisjoint(each.groups)]
        if mine:
            self._learn({gid for each in mine for gid in each.groups} & publishing)
            self.removed |= removals_of(self._home, self._span, mine, self._subscribers, self._tables)

    def _learn(self, groups: Collection[int]) -> None:
        """Read the queries of some groups that publish."""
        new = groups - self._subscribers.keys()
        for info in (*of_groups(self._home.catalog, new), *self._answered.values()):
            if info.publish is not None and info.docid_until > self._first:
                now = self._answered.get(info.query, info)
                for gid in new.intersection(now.groups):
                    self._subscribers.setdefault(gid, {})[info.query] = now

    @property
    def levels(self) -> tuple[frozenset[str], ...]:
        """The channels to publish to, one level after another."""
        return self._published.levels

    def level(self, channels: Collection[str]) -> PublishedFile | None:
        """Publish to these channels; None if nothing came to them."""
        waiting = [item for channel in sorted(channels) for item in self._waiting.pop(channel, ())]
        outputs = self._new(waiting) if waiting else []
        events = self._events(outputs) if outputs else []
        if not events:
            return None
        path, first, last = self._write(events)
        for event in events:
            name, ts = event.output.channel, event.output.ts
            self.newest[name] = max(ts, self.newest.get(name, ts))
        return PublishedFile(path, first, last, Counter(event.output.channel for event in events))

    def make(self, made: Sequence[Made]) -> list[int]:
        """Keep documents that were made of many matches, and return their numbers."""
        events = [PublishedEvent(self._number(each.place), each, each.content) for each in made]
        if events:
            self._write(sorted(events, key=lambda event: event.docid))
            self._made += len(events)
        return [event.docid for event in events]

    def _number(self, place: int) -> int:
        """Give out a number that no other document at a place has, or has had."""
        serial = max(self._serials[place], self._free if place < self._first else 0)
        self._serials[place] = serial + 1
        return published_docid(place, serial)

    def _write(self, events: Sequence[PublishedEvent]) -> tuple[Path, int, int]:
        """Write a file of events that are in the order of their numbers, and return it with the first and the last."""
        table = pa.Table.from_pylist([event.row() for event in events], schema=EVENT_SCHEMA)
        path = self._home.folder("events") / f"{self._tag}-{len(self._files) + 1}.parquet"
        step("batch.publish")
        path = write_event_file(path, table)
        step("batch.published")
        self._tables.append(table)
        first, last = events[0].docid, events[-1].docid
        self._files.append({"path": f"events/{path.name}", "first": first, "last": last, "rows": len(events)})
        self._ids += [event.published_id(self._span.last) for event in events]
        return path, first, last

    def discard(self) -> None:
        """Remove its files: the batch has failed."""
        for file in self._home.folder("events").glob(f"{self._tag}-*.parquet"):
            file.unlink()

    def commit(self, connection: Connection, now: int) -> None:
        """Name the published documents, in the transaction of the batch; ``now`` is in microseconds since the epoch.

        Raises:
            EngineError: an id was taken in since the level was published.
        """
        for channel in sorted({row.channel for row in self._ids}):
            there = connection.execute(sa.select(CHANNELS.c.name).where(CHANNELS.c.name == channel)).first()
            if there is None:
                put_channel(connection, ChannelInfo.new(channel))
        late = [row for row in self._late if not _taken_again(connection, row)]
        again = [row for row in late if row["docid"] in self._again]
        if again:
            place = replay_place(connection, self._span.last, now)
            for row in again:
                row["replayed"] = place
        try:
            add_event_files(connection, self._files)
            add_published_ids(connection, self._ids)
            add_late(connection, late)
            add_removals(connection, [*self.removed.values()])
        except sa.exc.IntegrityError as error:
            raise EngineError(
                "XSCL_BATCH",
                f"an id that a query publishes was taken in meanwhile: {error.orig}",
                hint="nothing of the batch is visible, and it runs again next time",
            ) from error

    # -- one level ---------------------------------------------------------------------------------------------

    def _new(self, waiting: Sequence[tuple[QueryInfo, Told]]) -> list[Output]:
        """Return the matches whose ids are not taken in their channels, in the order of places, channels and ids."""
        members = self._members({docid for _, told in waiting for docid in told.match.docids})
        found: dict[tuple[str, str], Output] = {}
        lost: dict[Rejection, None] = {}
        for info, told in waiting:
            rows = [members[docid] for docid in told.match.docids if docid in members]
            if len(rows) < len(told.match.docids):
                lost[_without_members(info, rows)] = None
            elif info.admits((row["channel"], place_of(row["docid"]), row["ts"]) for row in rows):
                output = self._output(info, told, rows)
                found[output.channel, output.id] = output
        self.rejected += lost
        with self._home.catalog.read() as connection:
            taken = published_numbers(connection, found)
            for key, docid in taken.items():
                if place_of(docid) != found[key].place and _has_gone(connection, docid):
                    self.rejected.append(found[key].reused())
        return sorted(
            (output for key, output in found.items() if key not in taken), key=lambda o: (o.place, o.channel, o.id)
        )

    def _members(self, docids: Collection[int]) -> dict[int, Mapping[str, Any]]:
        """Read the documents of matches that are in sight, by number; others may be there until upkeep removes them."""
        with self._home.catalog.read() as connection:
            kept = keep_times(connection)
        columns = ["docid", "channel", "id", "ts", "start", "received"]
        return {
            row["docid"]: row
            for row in events_of(self._home, docids, columns, self._tables).to_pylist()
            if place_of(row["docid"]) >= self._first or row["ts"] >= kept.get(row["channel"], row["ts"])
        }

    def _output(self, info: QueryInfo, told: Told, rows: Sequence[Mapping[str, Any]]) -> Output:
        """Return a match as it is to be published; ``rows`` are its members in block order."""
        match = told.match
        id_ = match_id(info.digest, [(row["channel"], row["id"]) for row in rows], match.nodes)
        last = max(rows, key=lambda row: place_of(row["docid"]))
        place = place_of(last["docid"]) if told.place is None else told.place
        came = max(
            self._first, info.docid_from, place, *(self._came.get(docid, place_of(docid)) for docid in match.docids)
        )
        ts = max(row["ts"] for row in rows) + match.later
        is_settled = info.level == _STRONG or rows[0]["channel"] == ANSWERS
        # Nothing is taken back from a dropped query.
        end = told.end if told.end is not None and told.end < info.docid_until else None
        start = None
        if self._publication(info).spanning:
            start = min(row["ts"] if row["start"] is None else row["start"] for row in rows)
        return Output(id_, info, match, place, came, ts, last["received"], is_settled, end, start)

    def _events(self, outputs: Sequence[Output]) -> list[PublishedEvent]:
        """Make the documents that are within the limits, in the order of their numbers."""
        events: list[PublishedEvent] = []
        if self._old_serials and any(output.place < self._first for output in outputs):
            with self._home.catalog.read() as connection:
                self._serials.update(_serials(connection))
                self._free = free_serial(connection)
            self._old_serials = False
        for start in range(0, len(outputs), _CHUNK):
            part = outputs[start : start + _CHUNK]
            for output, content in zip(part, self._documents(part), strict=True):
                if isinstance(content, XsclError):
                    self.rejected.append(output.refused(content))
                    continue
                docid = self._number(output.place)
                self._came[docid] = output.came
                if output.end is not None:
                    self.removed[docid] = Removed(docid, output.end, output.channel, output.id, None)
                columns = None if isinstance(content, str) else self._channel(output.channel).schema
                events.append(PublishedEvent(docid, output, content, columns))
        made = []
        for event, lateness in judged(self._home, self._span, events, self._tables):
            if lateness.again:
                self._again.add(event.docid)
            if lateness.late and lateness.shown is not None:
                self._late.append(event.late_row(lateness.shown, again=lateness.again))
            made.append(replace(event, late=lateness.late, behind=lateness.behind))
        return sorted(made, key=lambda event: event.docid)

    def _publication(self, info: QueryInfo) -> Publication:
        if info.query not in self._publications:
            self._publications[info.query] = publication_of(info)
        return self._publications[info.query]

    def _documents(self, outputs: Sequence[Output]) -> list[Content | XsclError]:
        """Make the output documents and rows as they are stored, or say why they are refused."""
        docids = {docid for output in outputs for docid in output.match.docids}
        columns = ["docid", "channel", "content", "cells"]
        documents = {
            row["docid"]: event_document(row["content"], row["cells"], self._channel(row["channel"]))
            for row in events_of(self._home, docids, columns, self._tables).to_pylist()
        }
        for output in outputs:
            if output.query.query not in self._selections:
                self._selections[output.query.query] = selection_of(output.query)
                self._publication(output.query)
        channels = {output.channel: self._channel(output.channel) for output in outputs}
        return in_fresh_dictionary(output_documents, outputs, self._selections, self._publications, documents, channels)

    def _channel(self, name: str) -> ChannelInfo:
        return self._span.clocks.channels.get(name) or ChannelInfo.new(name)


def _without_members(info: QueryInfo, there: Sequence[Mapping[str, Any]]) -> Rejection:
    """Tell that events of a match have gone: they were older, when they came, than their channels retain.

    ``there`` are its members that are still there; the newest of them names the match.
    """
    none: Mapping[str, Any] = {"channel": info.publish, "id": "", "ts": 0}
    newest = max(there, key=lambda row: place_of(row["docid"]), default=none)
    message = "its match with an event that came older than its channel retains is neither listed nor published"
    error = DocumentError("XSCL_EVENT_GONE", message)
    return refused_document(info.name, newest["channel"], newest["id"], newest["ts"], error)


def _has_gone(connection: Connection, docid: int) -> bool:
    """Return whether this is a published document whose place has lost its event."""
    there = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.docid == place_of(docid)).limit(1)
    return docid >= PUBLISHED and connection.execute(there).first() is None


def _taken_again(connection: Connection, row: Mapping[str, object]) -> bool:
    """Give a late event its number back if it was taken again before a repair ran all batches, and say so."""
    return return_number(connection, str(row["channel"]), str(row["id"]), int(str(row["docid"])))


def _serials(connection: Connection) -> dict[int, int]:
    """Read the least serial number that is free at each place with documents."""
    docids = connection.scalars(sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.docid >= PUBLISHED))
    greatest: dict[int, int] = {}
    for docid in docids:
        place, serial = place_of(docid), docid - published_docid(place_of(docid), 0)
        greatest[place] = max(serial + 1, greatest.get(place, 0))
    return greatest
