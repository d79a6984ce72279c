"""Events that come older than their channels keep: no listing has them, and whoever runs the batch is told.

A channel with a lateness tells such events as late (relation ``late``).  On others the events are joined by the batch
that processes them, and then are gone like all that old (docs/reference/housekeeping.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.types import format_time
from xscl.batches.ranges import BatchRange
from xscl.batches.refusals import Rejection
from xscl.store.parquet import read_columns
from xscl.store.watermarks import EventTimes

__all__ = ["old_arrivals"]

_NAMED = 5
"""Events of a channel that are named."""


def old_arrivals(span: BatchRange, times: EventTimes) -> Iterator[Rejection]:
    """Yield what to tell of a range's events that came older than their channels keep, a channel at a time.

    Late events are left out, and so are events of channels that no query reads.

    Args:
        span: the range.
        times: of its events.
    """
    read: Collection[str] = () if span.plan is None else span.plan.walked | span.plan.answered
    for channel, kept in sorted(span.clocks.kept.items()):
        if channel in read and times.oldest.get(channel, kept) < kept:
            old = pa.concat_tables([_older(path, span, channel, kept) for path in span.paths])
            if old.num_rows:
                yield _told(channel, kept, old)


def _older(path: str, span: BatchRange, channel: str, kept: int) -> pa.Table:
    """Return ``id`` and ``ts`` of the events of a range in a file that are not late, and older than a time."""
    columns = ["docid", "channel", "id", "ts", "late"]
    events = read_columns(
        path, EVENT_SCHEMA, columns, "docid", lambda least, most: least <= span.last and most >= span.first
    )
    old = (pc.field("channel") == channel) & (pc.field("ts") < kept) & ~pc.field("late")
    here = (pc.field("docid") >= span.first) & (pc.field("docid") <= span.last)
    return events.filter(old & here).select(["id", "ts"])


def _told(channel: str, kept: int, old: pa.Table) -> Rejection:
    """Tell of old events of a channel; the first of them names the refusal."""
    first, *others = old.column("id").slice(0, _NAMED).to_pylist()
    more = [*map(repr, others), *([f"{old.num_rows - _NAMED:,} more"] if old.num_rows > _NAMED else [])]
    also = f", and so have {', '.join(more)}" if more else ""
    message = (
        f"it came older than what the channel keeps, from {format_time(kept)} on{also}: no listing has their "
        "matches, and later batches publish none; a longer retention keeps more"
    )
    return Rejection(None, channel, first, old.column("ts")[0].as_py(), "XSCL_EVENT_GONE", message, "retention")
