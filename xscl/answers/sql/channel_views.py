"""Channels as relations: their names in SQL, their columns, and the steps that show their events.

The relation of a channel is ``ch_`` and the channel's name in small letters, with ``_`` for each ``.`` and ``-``.
SQL cannot tell ``a.b`` from ``a_b``, nor ``S`` from ``s``: such channels have their relations under full names only,
which end with a digest of the channel's name.  Every channel can be asked for under its full name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from xscl.answers.sql.steps import Step, quoted
from xscl.base.docids import place_sql
from xscl.base.values import digest_text
from xscl.catalog.channels import read_channels
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.memberships import member_names
from xscl.catalog.records import RAW, ChannelInfo
from xscl.catalog.retained_from import keep_times
from xscl.ingest.channel_columns import (
    EVENT_COLUMNS,
    ChannelColumn,
    document_columns,
    item_columns,
    row_columns,
)
from xscl.store.event_spans import EVERYTHING, Events

__all__ = ["ChannelNames", "ChannelView", "channel_columns", "channel_steps", "read_views"]

_EVENT = "docid id version ts received membership"


def channel_columns(channel: ChannelInfo) -> tuple[ChannelColumn, ...]:
    """Name the columns of a channel beside those of every event."""
    if channel.kind == "rows":
        return row_columns(channel.schema or {})
    return item_columns() if channel.feed and not channel.name.endswith(RAW) else document_columns()


@dataclass(frozen=True, slots=True)
class ChannelView:
    """A channel as a relation, as of one moment."""

    channel: str
    columns: tuple[ChannelColumn, ...]
    kept_from: int | None
    """Event time before which processed events are no longer shown; None: there is none."""
    processed: int
    """Last place that a batch has committed."""
    streams: Mapping[int, tuple[str, ...]]
    """Names of the streams of each membership."""
    copies: frozenset[int]
    """Memberships of later copies of events, which are no rows."""

    @property
    def as_stored(self) -> tuple[str, ...]:
        """Columns that are those of event files."""
        return tuple(column.name for column in self.columns if column.field is None)

    @property
    def stored(self) -> tuple[str, ...]:
        """Columns of event files that its own columns come from."""
        return tuple(dict.fromkeys(column.stored for column in self.columns))


def read_views(connection: Connection) -> dict[str, ChannelView]:
    """Read all channels as relations, by the channels' names."""
    kept, processed = keep_times(connection), read_last_places(connection)[0]
    streams: dict[str, dict[int, tuple[str, ...]]] = {}
    copies: dict[str, set[int]] = {}
    for number, channel, _, names, whole in member_names(connection):
        streams.setdefault(channel, {})[number] = tuple(names)
        if not whole:
            copies.setdefault(channel, set()).add(number)
    return {
        name: ChannelView(
            name,
            channel_columns(info),
            kept.get(name),
            processed,
            streams.get(name, {}),
            frozenset(copies.get(name, ())),
        )
        for name, info in read_channels(connection).items()
    }


# -- names ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChannelNames:
    """Names of the relations of channels."""

    listed: Mapping[str, str]
    """The channel of each relation, under the shortest name that it has."""
    full: Mapping[str, str]
    """The channel of each relation under its full name."""
    shared: Mapping[str, tuple[str, ...]]
    """Channels that have to go without a short name, by that name."""

    @classmethod
    def of(cls, channels: Iterable[str]) -> ChannelNames:
        """Name the relations of these channels.

        >>> ChannelNames.of(["S", "news.raw"]).listed
        {'ch_s': 'S', 'ch_news_raw': 'news.raw'}
        """
        short: dict[str, list[str]] = {}
        for channel in channels:
            short.setdefault(_short(channel), []).append(channel)
        full = {_full(channel): channel for those in short.values() for channel in those}
        # A channel may be called as the relation of another one is.
        clear = {name: those[0] for name, those in short.items() if len(those) == 1 and name not in full}
        rest = {name: channel for name, channel in full.items() if _short(channel) not in clear}
        shared = {name: tuple(those) for name, those in short.items() if len(those) > 1}
        return cls({**clear, **rest}, full, shared)

    def channel(self, relation: str) -> str | None:
        """Return the channel of a relation; None if there is no such relation."""
        return self.listed.get(relation) or self.full.get(relation)


def _short(channel: str) -> str:
    return f"ch_{re.sub('[.-]', '_', channel).lower()}"


def _full(channel: str) -> str:
    return f"{_short(channel)}_{digest_text('channel', channel, size=4)}"


# -- steps ---------------------------------------------------------------------------------------------------------


def channel_steps(name: str, view: ChannelView, wanted: Events, columns: Collection[str] | None = None) -> list[Step]:
    """Define the relation of a channel.

    Args:
        name: of the relation.
        view: the channel.
        wanted: event times that are asked for.
        columns: names that the statement mentions, in small letters; None: all.
    """
    own = [f"`{column.name}`" for column in view.columns]
    source, stream = quoted(f"xscl_{name}"), _names("e.membership", view)
    shown = _EVENT.split()
    steps = [
        Step(
            "channel_events",
            "Events of the channel, without later copies of them.",
            (*shown, *own),
            f"select {', '.join([*shown, *own])} from {source}{_where(view, wanted)}",
        )
    ]
    joined = ""
    if view.copies and (columns is None or "stream" in columns):
        steps.append(_copied(source, view))
        joined = "\nleft join streams_of_copies c on c.id = e.id"
        stream = f"array_sort(array_union({stream}, coalesce(c.names, cast(array() as array<string>))))"
    texts = {
        "ts": "timestamp_micros(e.ts) as ts",
        "received": "timestamp_micros(e.received) as received",
        "stream": f"{stream} as stream",
    }
    selected = [texts.get(column, f"e.{column}") for column in (*EVENT_COLUMNS.names, *own)]
    text = f"select {', '.join(selected)}\nfrom channel_events e{joined}"
    return [*steps, Step(name, "Rows of the channel.", (*EVENT_COLUMNS.names, *own), text)]


def _where(view: ChannelView, wanted: Events) -> str:
    found = []
    if view.copies:
        found.append(f"membership not in ({_numbers(view.copies)})")
    if view.kept_from is not None:
        found.append(f"(ts >= {view.kept_from} or {place_sql('docid')} > {view.processed})")
    if wanted.since != EVERYTHING.since:
        found.append(f"ts >= {wanted.since}")
    if wanted.until != EVERYTHING.until:
        found.append(f"ts <= {wanted.until}")
    return f"\nwhere {' and '.join(found)}" if found else ""


def _copied(source: str, view: ChannelView) -> Step:
    return Step(
        "streams_of_copies",
        "The streams that brought copies of an event, which have its id.",
        ("id", "names"),
        f"select id, flatten(collect_list({_names('membership', view)})) as names from {source}\n"
        f"where membership in ({_numbers(view.copies)}) group by id",
    )


def _names(membership: str, view: ChannelView) -> str:
    """Write the names of the streams of a membership."""
    none = "cast(array() as array<string>)"
    if not view.streams:
        return none
    lists = {number: ", ".join(f"'{name}'" for name in names) for number, names in sorted(view.streams.items())}
    cases = [f"when {number} then array({names})" for number, names in lists.items()]
    return f"case {membership} {' '.join(cases)} else {none} end"


def _numbers(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
