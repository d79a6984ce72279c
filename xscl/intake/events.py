"""Taking in events one by one: each gets its place, its identity and its time, and becomes a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xscl.base.errors import DocumentError, XsclError
from xscl.ingest.records import Rejected
from xscl.intake.checks import CheckedEvent, event_content, refused_event, resolved
from xscl.intake.identity import KnownEvent
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
    event = item.event
    channel = chunk.channel_of(event)
    try:
        identity = chunk.known.identify(item, channel, received)
    except DocumentError:
        event_content(channel, item, chunk.terms.limits)  # a row that can never be taken is told so, as among others
        raise
    if identity is None:
        return "duplicate"
    content, cells, channel = event_content(channel, item, chunk.terms.limits)
    chunk.put_channel(channel)
    ts, copied = identity.ts, identity.copied
    late_by = chunk.late_by(channel, ts)
    row: dict[str, Any] = {
        "docid": docid,
        "channel": channel.name,
        "id": identity.id if copied is None else copied.id,
        "version": identity.version if copied is None else copied.version,
        "item": docid if identity.item is None else identity.item,
        "ts": ts,
        "received": received,
        "late": late_by is not None,
        "declared": item.ts,
        "time_source": event.time_source or ("received" if item.ts is None else "given"),
        "content": content,
        "cells": cells,
        "membership": chunk.memberships.number(Membership(frozenset({item.by} - {0}), copied is None)),
    }
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
        item=docid if identity.item is None else identity.item,
        digest=item.digest,
        ts=ts,
        received=received,
        whole=copied is None,
    )
    chunk.known.add(channel.name, item.id, known)
    chunk.ids.append(
        {
            "channel": channel.name,
            "id": known.id,
            "base": item.id,
            "feed": known.feed,
            "version": known.version,
            "docid": known.docid,
            "item": known.item,
            "digest": item.digest,
            "ts": ts,
            "received": received,
            "membership": row["membership"],
        }
    )
    if late_by is not None:
        chunk.note_late(channel, row["id"], known.docid, ts, received, late_by)
    if copied is not None:
        return "shared"
    return "version" if identity.version > 1 else "taken"


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
