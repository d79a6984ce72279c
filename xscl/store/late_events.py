"""Late events: which there are, and asking for them to be taken again (docs/explanation/time.md)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.types import format_time, now_micros
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_channels, read_streams
from xscl.catalog.intake_order import take_places
from xscl.catalog.late import replay_late
from xscl.catalog.suggestions import no_channel
from xscl.catalog.tables import CHANNELS, LATE
from xscl.store.home import Home

__all__ = ["LateChoice", "Taken", "late_lines", "late_rows", "take_again"]

_PAGE = 1_000
_COLUMNS = ("docid", "channel", "id", "version", "ts", "content", "cells", "membership")


@dataclass(frozen=True, slots=True)
class LateChoice:
    """Some late events; all that is given holds together."""

    channel: str | None = None
    since: int | None = None
    """Event time at or after it, microseconds."""
    until: int | None = None
    """Event time at or before it."""
    ids: tuple[str, ...] = ()
    """Ids of events; empty: all."""

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions on rows of relation ``late``, but for the ids."""
        found = [] if self.channel is None else [LATE.c.channel == self.channel]
        found += [] if self.since is None else [LATE.c.ts >= self.since]
        return found if self.until is None else [*found, LATE.c.ts <= self.until]


@dataclass(frozen=True, slots=True)
class Taken:
    """Counts of late events that were to be taken again."""

    events: int
    """Events that the next batch takes."""
    place: int | None
    """Their place in the intake order; None if there is none."""
    before: int
    """Taken again before."""
    gone: int
    """Events that are no longer held."""


def late_rows(catalog: Catalog, choice: LateChoice) -> Iterator[dict[str, object]]:
    """Iterate over the chosen late events in the order in which they came; times are ISO 8601.

    Raises:
        CatalogError: ``XSCL_UNKNOWN_CHANNEL``.
    """
    for row in _read_pages(catalog, choice):
        yield {
            "channel": row.channel,
            "id": row.id,
            "ts": format_time(row.ts),
            "received": format_time(row.received),
            "message": row.message,
            "replayed": row.replayed,
        }


def late_lines(home: Home, choice: LateChoice) -> Iterator[dict[str, object]]:
    """Iterate over the chosen late events that are still there, as lines of an event file."""
    from xscl.catalog.memberships import stored_memberships
    from xscl.store.event_files import events_of
    from xscl.store.event_lines import EventLines

    with home.catalog.read() as connection:
        lines = EventLines(home, read_channels(connection), read_streams(connection), stored_memberships(connection))
    rows = _read_pages(home.catalog, choice)
    while part := [row.docid for row in itertools.islice(rows, _PAGE)]:
        for event in sorted(
            events_of(home, set(part) - {None}, _COLUMNS).to_pylist(), key=lambda event: int(event["docid"])
        ):
            yield from (line for _, line in lines.of_event(event))


def take_again(home: Home, choice: LateChoice) -> Taken:
    """Give late events a place at which they are taken as if they had been in time; a batch does that.

    Raises:
        CatalogError: ``XSCL_UNKNOWN_CHANNEL``; ``XSCL_LATE_NOT_FOUND``: there is no late event of one of the ids;
            ``XSCL_LATE_GONE``: none of those chosen is there any more.
    """
    catalog = home.catalog
    with catalog.begin() as connection:
        _check(connection, choice)
        chosen, before, gone = _retained(connection, choice)
        if not chosen and gone:
            raise CatalogError(
                "XSCL_LATE_GONE",
                f"{gone:,} late events are no longer retained",
                hint="take them in again with an id of their own, while the channel's lateness allows it",
            )
        place = None
        if chosen:
            place, _ = take_places(connection, 1, now_micros())
            replay_late(connection, chosen, place)
    return Taken(len(set(chosen)), place, before, gone)


def _retained(connection: Connection, choice: LateChoice) -> tuple[list[int], int, int]:
    """Return the chosen events that are retained, and how many were replayed before or are gone.

    Raises:
        CatalogError: ``XSCL_LATE_NOT_FOUND``.
    """
    kept = dict(connection.execute(sa.select(CHANNELS.c.name, CHANNELS.c.kept_from)).all())
    chosen: list[int] = []
    found: set[str] = set()
    before = gone = 0
    for row in _rows(connection, choice):
        found.add(row.id)
        least = kept.get(row.channel)
        if row.replayed is not None:
            before += 1
        elif row.docid is None or (least is not None and row.ts < least):
            gone += 1
        else:
            chosen.append(row.docid)
    missing = [id_ for id_ in choice.ids if id_ not in found]
    if missing:
        raise CatalogError(
            "XSCL_LATE_NOT_FOUND",
            f"there is no late event {missing[0]!r}" + (f", nor {len(missing) - 1} others" if missing[1:] else ""),
            hint="'xscl late list' and the relation late have them",
        )
    return chosen, before, gone


def _check(connection: Connection, choice: LateChoice) -> None:
    if choice.channel is not None and choice.channel not in read_channels(connection):
        raise no_channel(connection, choice.channel)


def _read_pages(catalog: Catalog, choice: LateChoice) -> Iterator[sa.Row[tuple[object, ...]]]:
    """Yield rows of relation ``late``, a page at a time."""
    after = 0
    with catalog.read() as connection:
        _check(connection, choice)
    while True:
        with catalog.read() as connection:
            page = list(_rows(connection, choice, after, _PAGE))
        yield from page
        if not page:
            return
        after = page[-1].number


def _rows(
    connection: Connection, choice: LateChoice, after: int = 0, most: int | None = None
) -> Iterator[sa.Row[tuple[object, ...]]]:
    """Yield rows of relation ``late`` in the order in which they were noted."""
    wanted = sa.select(LATE).where(*choice.conditions(), LATE.c.number > after).order_by(LATE.c.number).limit(most)
    if choice.ids:
        wanted = wanted.where(LATE.c.id.in_(choice.ids))
    yield from connection.execute(wanted)
