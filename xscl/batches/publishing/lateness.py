"""Lateness of published documents.

A published document is late by the clock of its channel as it stood at the document's place.  The clock shows the
greatest time of events taken in on its channels up to there, and of documents published to this channel at places
before.  With an idle time, it is at most so far behind the events taken in anywhere up to there (``clocks``).  A
published document makes no event late that is taken in: the intake settled that, perhaps before the match was found.

A channel without a lateness that only queries publish to has the watermark of the channels which these read
(``store.watermarks``).  A document of it is in time; but if it is older than the watermark right before the place at
which it is found, the join state may have done with some of its partners, and steps have gone on.

A document that waited until times were settled is judged by the watermark of its channel, whatever its clock shows.

A document is found at its place, or later: at the registration of a query that was answered from held events, or at a
replay of late events.  If a document is in time at its place and would be late where it is found, the join state has
done with some of its partners.  Such a document is late, and is taken again at once, as if in time (``late_replay``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import sqlalchemy as sa

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.docids import PUBLISHED, place_of, published_docid
from xscl.batches.publishing.documents import Output, PublishedEvent
from xscl.batches.ranges import BatchRange
from xscl.batches.settled import settled_times
from xscl.catalog.clocks import is_late
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import INTAKE_FILES
from xscl.store.home import Home
from xscl.store.parquet import checked_dataset
from xscl.templates.absence import NEVER

__all__ = ["Lateness", "judged"]

Numbers = npt.NDArray[np.int64]
_Shown = Iterator[int | None]


@dataclass(frozen=True, slots=True)
class Lateness:
    """Judgement of a published document."""

    late: bool
    again: bool
    """Whether it is taken again at once, because it is late only where it was found."""
    shown: int | None
    """Time that its channel's clock shows."""
    behind: int
    """Time by which the clock is beyond it."""


def judged(
    home: Home, span: BatchRange, events: Sequence[PublishedEvent], tables: Sequence[pa.Table]
) -> Iterator[tuple[PublishedEvent, Lateness]]:
    """Judge the documents that one level publishes; nothing is late in a channel without a lateness.

    ``tables`` are the documents that the batch published before.
    """
    by_channel: dict[str, list[PublishedEvent]] = {}
    for event in events:
        by_channel.setdefault(event.output.channel, []).append(event)
    for name, found in by_channel.items():
        channel = span.clocks.channels.get(name)
        if channel is None or channel.lateness is None:
            behinds = _behind_feeds(span, name, found, tables) if span.has_parts else [0] * len(found)
            yield from _by_watermark(found, behinds, _watermarks(span, name, found, tables))
            continue
        settled, found = (
            [each for each in found if _is_settled(each)],
            [each for each in found if not _is_settled(each)],
        )
        yield from _by_watermark(settled, [0] * len(settled), [span.state.watermarks.get(name)] * len(settled))
        if not found:
            continue
        channel = replace(channel, heartbeat=None)  # it speaks of events that are taken in
        columns = zip(*((each.output.place, each.output.came, each.output.ts) for each in found), strict=True)
        places, came, times = (np.array(column, dtype=np.int64) for column in columns)
        now = list(_shown(span, channel, came, times))
        then = now if (places == came).all() else _shown_then(home, span, channel, places, times)
        for event, ts, old, shown_now, shown_then in zip(found, times.tolist(), places < came, now, then, strict=True):
            late = is_late(channel, ts, shown_then if old else shown_now)
            again = bool(old) and not late and is_late(channel, ts, shown_now)
            shown = shown_then if old else shown_now
            behind = 0 if shown is None else max(0, shown - ts)
            yield event, Lateness(late or again, again, shown_now if again or not old else shown_then, behind)


def _is_settled(event: PublishedEvent) -> bool:
    return isinstance(event.output, Output) and event.output.is_settled


def _by_watermark(
    events: Sequence[PublishedEvent], behind: Sequence[int], watermarks: Sequence[int | None]
) -> Iterator[tuple[PublishedEvent, Lateness]]:
    """Judge documents, each by a watermark of its channel; one that is late is taken again at once."""
    for event, by, watermark in zip(events, behind, watermarks, strict=True):
        late = watermark is not None and event.output.ts < watermark
        yield event, Lateness(late, again=late, shown=watermark if late else None, behind=by)


def _watermarks(
    span: BatchRange, channel: str, events: Sequence[PublishedEvent], tables: Sequence[pa.Table]
) -> list[int | None]:
    """Return the watermark of a channel that queries feed, right before the place at which each document is found.

    Steps and absences have answered up to there, whichever batch the place is in.  Where there are none, the watermark
    is that before the batch: all that the batch has is joined together.
    """
    before = span.state.watermarks.get(channel)
    came = np.array([event.output.came for event in events], dtype=np.int64)
    settled = settled_times(span, [(channel, None)], tables)[channel, None].at(came - 1).tolist()
    known = (max(time, NEVER if before is None else before) for time in settled)
    return [None if time == NEVER else time for time in known]


def _behind_feeds(
    span: BatchRange, channel: str, events: Sequence[PublishedEvent], tables: Sequence[pa.Table]
) -> list[int]:
    """Return how far documents are behind the clocks of the channels that their publishers read."""
    columns = zip(*((each.output.place, each.output.ts) for each in events), strict=True)
    places, times = (np.array(column, dtype=np.int64) for column in columns)
    docids = [published_docid(place, 0) for place in places.tolist()]
    own = pa.table({"docid": pa.array(docids, pa.int64()), "channel": [channel] * len(events), "ts": times})
    shown = settled_times(span, [(channel, 0)], [*tables, own])[channel, 0].at(places - 1)
    # Documents of earlier places come by a replay, or for queries that are answered from held events.
    found: list[int] = np.where(places < span.first, 0, np.maximum(shown - times, 0)).tolist()
    return found


def _shown(span: BatchRange, channel: ChannelInfo, places: Numbers, times: Numbers) -> _Shown:
    """Yield the time that the channel's clock shows at places in the batch, with documents of these times there."""
    # Up to the batch, what was processed and published; in it, event by event.
    before = span.clocks.clocks()
    wanted = (ds.field("docid") >= span.first) & (ds.field("docid") <= int(places.max()))
    table = checked_dataset(span.paths, EVENT_SCHEMA).to_table(columns=["docid", "channel", "ts"], filter=wanted)
    docids, seen = table.column("docid").to_numpy(), table.column("ts").to_numpy()
    sharing = [info.name for info in span.clocks.channels.values() if info.clock == channel.clock]
    mine = pc.is_in(table.column("channel"), pa.array(sharing, pa.string())).to_numpy()
    own = _greatest_by(docids[mine], seen[mine], before.own(channel))(places, "right")
    published = _greatest_by(places, times, span.clocks.published.get(channel.name))(places, "left")
    any_channel = _greatest_by(docids, seen, before.greatest)(places, "right")
    return _latest(channel, own, published, any_channel)


def _shown_then(home: Home, span: BatchRange, channel: ChannelInfo, places: Numbers, times: Numbers) -> _Shown:
    """Yield the time that the channel's clock showed at earlier places, by the held events."""
    last = published_docid(int(places.max()) + 1, 0)
    with home.catalog.read() as connection:
        before = (
            INTAKE_FILES.c.first < last,
            (INTAKE_FILES.c.first <= places.max()) | (INTAKE_FILES.c.last >= PUBLISHED),
        )
        paths = home.paths(list(connection.scalars(sa.select(INTAKE_FILES.c.path).where(*before))))
    sharing = [info.name for info in span.clocks.channels.values() if info.clock == channel.clock] or [channel.name]
    of_clock = ds.field("channel").isin(pa.array(sharing, pa.string()))
    taken_in = (ds.field("docid") <= int(places.max())) & (of_clock | (channel.idle is not None))
    published = (ds.field("docid") >= PUBLISHED) & (ds.field("channel") == channel.name)
    table = checked_dataset(paths, EVENT_SCHEMA).to_table(
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


def _latest(
    channel: ChannelInfo, of_clock: Iterable[int | None], of_channel: Iterable[int | None], of_any: Iterable[int | None]
) -> _Shown:
    """Yield the greatest of the clock's time, the channel's, and that of any channel less the idle time."""
    for own, published, newest in zip(of_clock, of_channel, of_any, strict=True):
        behind = None if channel.idle is None or newest is None else newest - channel.idle
        yield max((time for time in (own, published, behind) if time is not None), default=None)


def _greatest_by(places: Numbers, times: Numbers, before: int | None) -> Callable[[Numbers, str], _Shown]:
    """Return a function: the greatest of ``before`` and of the times at the places below each of some.

    With side 'right', the times at the places themselves count as well, with 'left' they do not.
    """
    order = np.argsort(places, kind="stable")
    ordered, greatest = places[order], np.maximum.accumulate(times[order])

    def at(wanted: Numbers, side: str) -> _Shown:
        ends = np.searchsorted(ordered, wanted, side="left" if side == "left" else "right")
        for end in ends.tolist():
            known = before if end == 0 else int(greatest[end - 1])
            yield known if before is None or known is None else max(known, before)

    return at
