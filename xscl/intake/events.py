"""Taking in events one by one: each gets its place, its identity and its time, and becomes a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xscl.base.errors import DocumentError, XsclError
from xscl.ingest.records import Rejected
from xscl.intake.checks import CheckedEvent, event_content, refused_event, resolved
from xscl.intake.identity import Identity, KnownEvent
from xscl.intake.report import Outcome
from xscl.intake.transaction import Chunk
from xscl.templates.members import Membership

__all__ = ["take_events"]


def take_events(chunk: Chunk, checked: Sequence[CheckedEvent | Rejected]) -> list[Outcome]:
    """Take what was checked; what became of each."""
    if chunk.streams:
        checked = [resolved(item, chunk.streams) if isinstance(item, CheckedEvent) else item for item in checked]
    sound = [item for item in checked if isinstance(item, CheckedEvent)]
    place, received = chunk.places(len(sound))
    chunk.known.learn(sound, chunk.channels)
    outcomes: list[Outcome] = []
    for item in checked:
        if isinstance(item, Rejected):
            chunk.rejected.append(item)
            outcomes.append("rejected")
            continue
        try:
            outcome = _take(chunk, item, place, received)
            chunk.report.count(outcome)
        except XsclError as error:
            chunk.rejected.append(refused_event(item.event, error, item.id, item.ts))
            outcome = "rejected"
        outcomes.append(outcome)
        place += 1
        received += 1
    return outcomes


def _take(chunk: Chunk, item: CheckedEvent, docid: int, received: int) -> Outcome:
    channel = chunk.channel_of(item.event)
    try:
        identity = chunk.known.identify(item, channel, received)
    except DocumentError:
        event_content(channel, item, chunk.terms.limits)  # a row that can never be taken is told so, as among others
        raise
    if identity is None:
        return "duplicate"
    content, cells, channel = event_content(channel, item, chunk.terms.limits)
    chunk.put_channel(channel)
    late_by = chunk.late_by(channel, identity.ts)
    of_content = {"channel": channel.name, "late": late_by is not None, "content": content, "cells": cells}
    row = _row(chunk, item, identity, docid, received) | of_content
    copied = identity.copied
    united = None if copied is None else _united(chunk, row, copied)
    if united is None:
        chunk.rows.append(row)
        if item.stream is not None and item.stream.source is not None:
            chunk.placed.setdefault((channel.name, row["id"]), []).append((chunk.moves, row))
    known = KnownEvent(
        id=identity.id,
        feed=identity.feed,
        stream=item.by,
        version=identity.version,
        docid=docid if united is None else united,
        item=row["item"],
        digest=item.digest,
        ts=identity.ts,
        received=received,
        whole=copied is None,
    )
    chunk.known.add(channel.name, item.id, known)
    chunk.ids.append(known.row(channel.name, item.id, row["membership"]))
    if late_by is not None:
        chunk.note_late(channel, row["id"], known.docid, identity.ts, received, late_by)
    if copied is not None:
        return "shared"
    return "version" if identity.version > 1 else "taken"


def _row(chunk: Chunk, item: CheckedEvent, identity: Identity, docid: int, received: int) -> dict[str, Any]:
    """Return the row of an event without its content; a copy has the id of the event that it is a copy of."""
    shown = identity.copied or identity
    return {
        "docid": docid,
        "id": shown.id,
        "version": shown.version,
        "item": docid if identity.item is None else identity.item,
        "ts": identity.ts,
        "received": received,
        "declared": item.ts,
        "time_source": item.event.time_source or ("received" if item.ts is None else "given"),
        "membership": chunk.memberships.number(Membership(frozenset({item.by} - {0}), identity.copied is None)),
    }


def _united(chunk: Chunk, row: dict[str, Any], copied: KnownEvent) -> int | None:
    """Return the docid of the row of this chunk that holds a copy too from now on; None if it needs its own row.

    One row has one place in the intake order, at which it is judged late, and so is what is published for it.  Items
    that are equal in two feeds have documents of their own, which name the feeds.
    """
    for moves, placed in chunk.placed.get((row["channel"], copied.id), ()):
        alike = all(placed[name] == row[name] for name in ("late", "content", "cells"))
        if alike and (moves == chunk.moves or chunk.timeless):
            had, own = (chunk.memberships[each["membership"]] for each in (placed, row))
            placed["membership"] = chunk.memberships.number(had._replace(streams=had.streams | own.streams))
            return int(placed["docid"])
    return None
