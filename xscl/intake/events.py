"""Taking in events: each gets its place, its identity and its time, and becomes a row.

Most events are plain: documents of a channel that has no streams, with ids that nothing else has.
They are taken in runs, a column at a time.  Every other event is decided by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from xscl.base.errors import DocumentError, XsclError
from xscl.catalog.records import ChannelInfo
from xscl.catalog.removals import Removed, add_removals, removed_among
from xscl.ingest.records import Rejected
from xscl.ingest.rows import held_digest
from xscl.intake.checks import CheckedEvent, event_content, refused_event, resolved
from xscl.intake.identity import Identity, KnownEvent
from xscl.intake.new_events import EventRow
from xscl.intake.plain_events import PlainEvents
from xscl.intake.report import Outcome
from xscl.intake.transaction import Chunk
from xscl.templates.members import Membership

__all__ = ["take_events"]


def take_events(chunk: Chunk, checked: Sequence[CheckedEvent | Rejected]) -> list[Outcome]:
    """Take checked events, in their order; return the outcome of each."""
    if chunk.streams:
        checked = [resolved(item, chunk.streams) if isinstance(item, CheckedEvent) else item for item in checked]
    sound = [item for item in checked if isinstance(item, CheckedEvent)]
    place, received = chunk.places(len(sound))
    plain = PlainEvents(chunk)
    if len(sound) == len(checked) and plain.take_run(sound, place, received):
        return ["taken"] * len(sound)
    chunk.known.learn(sound, chunk.channels)
    outcomes: list[Outcome] = []
    for item in checked:
        if isinstance(item, Rejected):
            chunk.rejected.append(item)
            outcomes.append("rejected")
            continue
        outcome = plain.take(item, place, received)
        if outcome is None:
            plain.write()
            outcome = _take_alone(chunk, item, place, received)
        outcomes.append(outcome)
        place += 1
        received += 1
    plain.write()
    chunk.settle_feeds({item.event.channel for item in sound})
    return outcomes


def _take_alone(chunk: Chunk, item: CheckedEvent, place: int, received: int) -> Outcome:
    try:
        outcome = _take(chunk, item, place, received)
        chunk.report.count(outcome)
    except XsclError as error:
        chunk.rejected.append(refused_event(item.event, error, item.id, item.ts))
        return "rejected"
    return outcome


def _take(chunk: Chunk, item: CheckedEvent, docid: int, received: int) -> Outcome:
    channel = chunk.channel_of(item.event)
    if item.event.row is not None and item.event.digest is None:
        held = held_digest(item.event.row, channel.schema or {})
        # A row that was given in another form, as tables and exports give it, is the same row.
        item = item if held is None else item._replace(digest=held)
    try:
        identity = chunk.known.identify(item, channel, received)
    except DocumentError:
        event_content(channel, item, chunk.terms.limits)  # a row that can never be taken is told so, as among others
        raise
    if identity is None:
        return "duplicate"
    row, late_by = _row(chunk, item, channel, identity, docid, received)
    copied = identity.copied
    united = None if copied is None else _united(chunk, row, copied)
    if united is None:
        if item.stream is not None and item.stream.source is not None:
            chunk.placed.setdefault((row.channel, row.id), []).append((chunk.moves, len(chunk.rows)))
        chunk.rows.append(row)
    known = KnownEvent(
        id=identity.id,
        feed=identity.feed,
        stream=item.by,
        version=identity.version,
        docid=docid if united is None else united,
        item=row.item,
        digest=item.digest,
        ts=identity.ts,
        received=received,
        whole=copied is None,
    )
    chunk.known.add(row.channel, item.id, known)
    chunk.ids.append(known.row(row.channel, item.id, row.membership))
    if item.renews and identity.version == 2:
        _end_row(chunk, item, docid)
    if item.renews:
        chunk.known.of_channel(row.channel).forget_older(item.id, known.scope)
    if late_by is not None:
        chunk.note_late(row.channel, row.id, known.docid, identity.ts, received, late_by)
    if copied is not None:
        return "shared"
    return "version" if identity.version > 1 else "taken"


def _end_row(chunk: Chunk, item: CheckedEvent, docid: int) -> None:
    """Remove the first version of a row at the place of the second, if only a range has its id and so no version."""
    for first in chunk.known.of_channel(item.event.channel).known(item.id):
        if first.received is None and not removed_among(chunk.connection, [first.docid]):
            add_removals(chunk.connection, [Removed(first.docid, docid, item.event.channel, first.id, None)])


def _row(
    chunk: Chunk, item: CheckedEvent, channel: ChannelInfo, identity: Identity, docid: int, received: int
) -> tuple[EventRow, int | None]:
    """Return the row of an event, and what the clock showed if the event is late; its channel and clock learn of it.

    A copy has the id of the event that it is a copy of.
    """
    content, cells, channel = event_content(channel, item, chunk.terms.limits)
    chunk.put_channel(channel)
    late_by, behind = chunk.judged(channel, identity.ts, identity.feed)
    shown = identity.copied or identity
    row = EventRow(
        docid=docid,
        channel=channel.name,
        id=shown.id,
        version=shown.version,
        item=docid if identity.item is None else identity.item,
        ts=identity.ts,
        received=received,
        late=late_by is not None,
        behind=behind,
        declared=item.ts,
        time_source=item.event.time_source or ("received" if item.ts is None else "given"),
        content=content,
        cells=cells,
        membership=chunk.memberships.number(Membership(frozenset({item.by} - {0}), identity.copied is None)),
        start=item.start,
    )
    return row, late_by


def _united(chunk: Chunk, row: EventRow, copied: KnownEvent) -> int | None:
    """Return the docid of the row of this chunk that stands for a copy, too; None if the copy needs its own row.

    One row has one place in the intake order, at which it is judged late, and so is what is published for it.  Items
    that are equal in two feeds have documents of their own, which name the feeds.
    """
    for moves, place in chunk.placed.get((row.channel, copied.id), ()):
        placed = EventRow._make(chunk.rows[place])
        alike = (placed.late, placed.content, placed.cells) == (row.late, row.content, row.cells)
        if alike and (moves == chunk.moves or chunk.timeless):
            had, own = (chunk.memberships[each.membership] for each in (placed, row))
            number = chunk.memberships.number(had._replace(streams=had.streams | own.streams))
            chunk.rows[place] = placed._replace(membership=number)
            return placed.docid
    return None
