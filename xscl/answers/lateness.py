"""Lateness that channels would need: how far behind their clocks the events came that are held.

Feeds differ most.  One that is read for the first time brings items of years, which no lateness is for, so the items
that are taken together with a feed's first one are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlalchemy as sa

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.docids import PUBLISHED
from xscl.base.durations import UNITS, format_duration
from xscl.base.shown import counted
from xscl.catalog.channels import read_channels
from xscl.catalog.feed_clocks import read_feed_clocks
from xscl.catalog.records import ChannelInfo
from xscl.catalog.suggestions import how_created, no_channel
from xscl.catalog.tables import EVENT_IDS, FEEDS, INTAKE_FILES
from xscl.registry.channels import set_channel
from xscl.registry.feed_lateness import set_feed_lateness
from xscl.store.home import Home
from xscl.store.parquet import codes, int64s, joined, read_columns, rows_where
from xscl.templates.columns import Int64s

__all__ = ["ENOUGH", "Suggestion", "declare_suggested", "round_up", "suggestion_rows", "suggestions"]

_COLUMNS = "docid", "channel", "ts"
ENOUGH = 1_000
"""Events of a channel from which on its suggestion says something."""
_NEARLY_ALL = 0.999
_NEVER = -(1 << 62)
"""A time before all events, also with the longest durations taken from it."""
_STEPS = tuple(
    count * UNITS[unit]
    for unit, counts in {
        "ms": (1, 10, 100),
        "s": (1, 2, 5, 10, 20, 30),
        "min": (1, 2, 5, 10, 15, 20, 30),
        "h": (1, 2, 3, 6, 12),
        "d": (1, 2, 3),
        "w": (1, 2, 4),
    }.items()
    for count in counts
)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Distances by which the events of a channel, or of one of its feeds, came behind; microseconds."""

    channel: str
    feed: str | None
    """Address or title of the feed; None: these are all events of the channel."""
    events: int
    behind: int
    """Number of those that came behind the clock."""
    p50: int
    """Distance that half of all events keep."""
    p999: int
    """Distance that 999 of 1,000 events keep."""
    longest: int
    lateness: int | None
    """The lateness of now, of the channel or of the feed."""
    auto: bool = False
    """Whether feeds of the channel have a lateness of their own."""
    identity: str | None = None
    """Identity of the feed."""

    @property
    def suggested(self) -> int | None:
        """Return a round lateness that 999 of 1,000 events would have kept; None where no event says."""
        return round_up(self.p999) if self.events else None


def round_up(time: int) -> int:
    """Return the least round time from a time on.

    >>> [round_up(time) for time in (0, 1, 840_000_000, 5_000_000_000_000)]
    [0, 1000, 900000000, 7257600000000]
    """
    if time <= 0:
        return 0
    longest = _STEPS[-1]
    return next((step for step in _STEPS if step >= time), -(-time // longest) * longest)


def suggestion_rows(home: Home, name: str | None = None) -> list[tuple[dict[str, object], Suggestion]]:
    """Return rows of a listing of suggestions, for one channel or for all, with what they are made of.

    Raises:
        CatalogError: ``XSCL_UNKNOWN_CHANNEL``.
    """
    if name is not None:
        with home.catalog.read() as connection:
            if name not in read_channels(connection):
                raise no_channel(connection, name, how_created(name))
    return [(_row(each), each) for each in suggestions(home) if name is None or each.channel == name]


def declare_suggested(home: Home, found: Sequence[Suggestion], name: str | None = None) -> Iterator[str]:
    """Declare what is suggested, for one channel, or for all with enough events; yield what was done, as sentences."""
    for each in (one for one in found if one.feed is None):
        suggested = each.suggested
        if each.auto:
            mine = (one for one in found if one.channel == each.channel)
            of_feeds = {one.identity: time for one in mine if one.identity and (time := one.suggested) is not None}
            set_feed_lateness(home.catalog, each.channel, of_feeds)
            yield f"channel {each.channel}: lateness of {counted(len(of_feeds), 'feed')}"
        elif suggested is None:
            yield f"channel {each.channel}: no event says how late others come, so its lateness stays"
        elif name is None and each.events < ENOUGH:
            command = f"'xscl channel suggest {each.channel} --apply'"
            yield f"channel {each.channel}: too few events; {command} sets {format_duration(suggested)}"
        elif each.lateness != suggested:
            told = format_duration(suggested)
            set_channel(home.catalog, each.channel, lateness=told)
            yield f"channel {each.channel}: lateness {told}"


def _row(one: Suggestion) -> dict[str, object]:
    return {
        "channel": one.channel,
        "feed": one.feed,
        "events": one.events,
        "behind": one.behind,
        **{name: _time_text(getattr(one, name)) if one.events else None for name in ("p50", "p999", "longest")},
        "lateness": _lateness(one),
        "suggested": None if one.suggested is None else format_duration(one.suggested),
    }


def _lateness(one: Suggestion) -> str:
    if one.auto and one.feed is None:
        return "auto"
    return "no limit" if one.lateness is None else format_duration(one.lateness)


def _time_text(time: int) -> str:
    """Return a time of three digits and more, rounded up: in days where that is a hundred of them, else in hours, and
    so on; seconds also where they are fewer.

    >>> _time_text(840_000_000), _time_text(1_500), _time_text(23_490_069_000_000)
    ('14 min', '2 ms', '272 d')
    """
    large = (UNITS[name] for name in ("d", "h", "min") if time >= 100 * UNITS[name])
    unit = next(large, UNITS["s"] if time >= UNITS["s"] else UNITS["ms"])
    return format_duration(-(-time // unit) * unit)


def suggestions(home: Home) -> Iterator[Suggestion]:
    """Yield what is suggested for channels with events, each followed by its feeds."""
    with home.catalog.read() as connection:
        channels = read_channels(connection)
        files = connection.scalars(sa.select(INTAKE_FILES.c.path).order_by(INTAKE_FILES.c.first)).all()
        of_feed = connection.execute(
            sa.select(EVENT_IDS.c.docid, EVENT_IDS.c.feed, EVENT_IDS.c.received)
            .where(EVENT_IDS.c.feed != "", EVENT_IDS.c.published.is_(None))
            .order_by(EVENT_IDS.c.docid)
        ).all()
        listed = connection.execute(sa.select(FEEDS.c.identity, FEEDS.c.url, FEEDS.c.title)).all()
        declared = {name: read_feed_clocks(connection, name) for name, channel in channels.items() if channel.auto}
    shown = {row.identity: row.url or row.title or row.identity for row in listed}
    schema = pa.schema([EVENT_SCHEMA.field(name) for name in _COLUMNS])
    events = joined([read_columns(path, EVENT_SCHEMA, _COLUMNS) for path in home.paths(files)], schema)
    # Published documents make no event late that is taken in.
    taken = int64s(events.column("docid")) < PUBLISHED
    events = rows_where(events, taken).sort_by("docid")
    places, times = int64s(events.column("docid")), int64s(events.column("ts"))
    numbers, found = codes(events.column("channel"))
    feeds = _Feeds([tuple(row) for row in of_feed], places)
    behind = _behind([channels.get(str(name), ChannelInfo.new(str(name))) for name in found], numbers, times)
    for name in sorted(map(str, found)):
        lateness = channels[name].lateness if name in channels else None
        mine = numbers == found.index(name)
        auto = name in declared
        yield replace(_suggestion_for(name, None, behind[mine & ~feeds.first], lateness), auto=auto)
        for feed in np.unique(feeds.number[mine & (feeds.number >= 0)]).tolist():
            # A feed is judged by its own times.
            own = mine & (feeds.number == feed)
            distance = np.maximum(_before(times[own]) - times[own], 0)[~feeds.first[own]]
            if len(distance):
                identity = feeds.names[feed]
                clock = declared[name].get(identity) if auto else None
                told = _suggestion_for(
                    name, shown.get(identity, identity), distance, clock.lateness if clock else lateness
                )
                yield replace(told, auto=auto, identity=identity)


def _suggestion_for(channel: str, feed: str | None, behind: Int64s, lateness: int | None) -> Suggestion:
    ordered = np.sort(behind)

    def kept_by(part: float) -> int:
        return int(ordered[max(0, int(np.ceil(part * len(ordered))) - 1)]) if len(ordered) else 0

    count, late = len(ordered), int((ordered > 0).sum())
    return Suggestion(channel, feed, count, late, kept_by(0.5), kept_by(_NEARLY_ALL), kept_by(1), lateness)


def _behind(channels: Sequence[ChannelInfo], numbers: Int64s, times: Int64s) -> Int64s:
    """Return how far each event came behind what its channel's clock showed before it."""
    found = np.zeros(len(times), dtype=np.int64)
    for number, channel in enumerate(channels):
        mine = numbers == number
        together = np.isin(numbers, [at for at, other in enumerate(channels) if other.clock == channel.clock])
        shown = np.full(len(times), _NEVER)
        shown[together] = _before(times[together])
        if channel.idle is not None:
            shown = np.maximum(shown, _before(times) - channel.idle)
        found[mine] = np.maximum(shown[mine] - times[mine], 0)
    return found


def _before(times: Int64s) -> Int64s:
    """Return the greatest time before each."""
    return np.maximum.accumulate(np.append(_NEVER, times))[:-1]


class _Feeds:
    """Feeds of events, and whether an event was taken together with the first one of its feed."""

    def __init__(self, rows: Sequence[tuple[int, str, int | None]], places: Int64s) -> None:
        """``rows`` are (number of an event, feed, time of receipt); ``places`` the numbers of all events, ascending."""
        self.names = list(dict.fromkeys(feed for _, feed, _ in rows))
        self.number: Int64s = np.full(len(places), -1, dtype=np.int64)
        self.first: npt.NDArray[np.bool_] = np.zeros(len(places), dtype=np.bool_)
        known = {name: number for number, name in enumerate(self.names)}
        begun: dict[str, int | None] = {}
        for docid, feed, received in rows:
            at = int(np.searchsorted(places, docid))
            if at < len(places) and places[at] == docid:
                self.number[at] = known[feed]
                # Times of receipt grow with the numbers of events that are taken together.
                since = None if received is None else received - docid
                self.first[at] = since == begun.setdefault(feed, since)
