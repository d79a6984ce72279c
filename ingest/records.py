"""Records that readers yield: events, and the other things an event file may hold, in their order.

``source`` is where a record came from: ``path`` or ``path:line``, lines counted from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from xscl.base.errors import XsclError
from xscl.base.pickled import by_fields
from xscl.base.types import Event, Scalar
from xscl.ingest.item import Feed, Item

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = [
    "Control",
    "Drop",
    "Entry",
    "FeedDocument",
    "Flush",
    "Heartbeat",
    "Noted",
    "Poll",
    "Position",
    "Record",
    "Register",
    "Rejected",
    "Removal",
    "RowOptions",
    "RowTable",
    "Withdrawn",
    "rejected",
]


@dataclass(frozen=True, slots=True)
class Position:
    """Position up to which an input that grows was read, kept once everything before it is committed."""

    source: str
    position: str
    """Position as JSON; its reader knows the meaning."""


@dataclass(frozen=True, slots=True)
class Register:
    """A query to register at this place of the intake order; ``name`` is None where the service names it."""

    text: str
    name: str | None
    source: str
    position: Position | None = None
    """Position of its input when this was done."""
    owner: str | None = None
    """Who registers it; None: nobody says."""


@dataclass(frozen=True, slots=True)
class Drop:
    """A query to drop at this place of the intake order."""

    name: str
    source: str
    position: Position | None = None
    """Position of its input when this was done."""


@dataclass(frozen=True, slots=True)
class Flush:
    """A batch ends here."""

    source: str
    position: Position | None = None
    """Position of its input when this was done."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """All events of a channel up to a time are in."""

    channel: str
    ts: int
    """Event time, microseconds since the epoch."""
    source: str
    position: Position | None = None
    """Position of its input when this was done."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Events of a channel are taken out: matches with them hold no longer for queries with ON CHANGE RETRACT."""

    channel: str
    ids: tuple[str, ...]
    source: str
    position: Position | None = None
    """Position of its input when this was done."""


Control = Register | Drop | Flush | Heartbeat | Removal
"""A record that is a transaction of its own."""


@dataclass(frozen=True, slots=True)
class Noted:
    """Something about an input that its reader should hear of; nothing was refused."""

    source: str
    text: str
    of_times: bool = False
    """Whether it is about event times, which count only where events are stored."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Something that could not be taken, and why; what stands around it was taken.

    ``channel``, ``id`` and ``ts`` (microseconds since the epoch) are given as far as they could be read.
    """

    source: str
    condition: str
    message: str
    channel: str | None = None
    id: str | None = None
    ts: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a feed: what tells it from others, and its item, or what that is made of when it is wanted."""

    guid: str | None
    link: str | None
    """Its address, as in ``item_url``."""
    content: str
    """A digest of title and content as published, without guid, link and dates; empty where there are none."""
    published: str | None
    """The date as published, and ``updated`` that of the last change."""
    updated: str | None
    digest: str
    """Digest of the publisher's text of this entry, without what belongs to the feed as a whole."""
    body: str
    """The same without the guid, wherever it stands: it tells versions where guids are no good."""
    raw: str | None
    """The entry element as published; None where the feed is no well-formed XML."""
    item: Item | None = None
    """None: ``feed.entry_item`` reads it from ``raw``."""

    __reduce__ = by_fields


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """An entry that its feed has withdrawn (``deleted-entry``)."""

    guid: str
    when: int
    """Time of the withdrawal, microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Values for the row of a subscription, written once the content of the fetch is committed."""

    subscription: int
    """``feeds.number``."""
    values: Mapping[str, object]
    """Values by columns of ``feeds``: validators, times, counters."""
    address: str = ""
    """Address of the answer, behind all redirects."""
    told: Mapping[str, Scalar] = field(default_factory=dict)
    """Row about the poll, without the number of new items."""


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """A feed as it was read once: which items its entries are is decided where earlier polls are known."""

    feed: Feed
    entries: tuple[Entry, ...]
    """Entries in document order."""
    channel: str
    """Channel of the normalised items, or one of its streams."""
    source: str
    poll: Poll | None = None
    flaw: str | None = None
    """Why it was read tolerantly, with the place; None: it is well-formed."""
    content: bytes | None = None
    """The feed as it was published, where the reading keeps it."""
    withdrawn: tuple[Withdrawn, ...] = ()


@dataclass(frozen=True, slots=True)
class RowOptions:
    """Options of the rows of a table."""

    columns: tuple[str, ...] | None = None
    """The columns to take; None: all."""
    id: str | None = None
    """The column of the rows' ids; None: their source and number."""
    ts: str | None = None
    """The column of event times, or several, by white space, whose texts are joined; None: the time of receipt."""
    ts_format: str | None = None
    """Format of times: as for ``strptime``, or the unit of numbers since 1970 (``s``, ``ms``, ``us``, ``ns``).

    None: ISO 8601, or seconds.
    """
    ts_zone: str = "UTC"
    """Zone of times without one."""
    op: str | None = None
    """Column that says of each row whether it comes or goes; it is no column of the row.  None: all rows come."""
    start: str | None = None
    """Column, or several, of the times at which rows begin, beside those of ``ts``; None: rows are points in time."""

    @property
    def of_starts(self) -> RowOptions | None:
        """Return the options by which starts are read as event times are; None: there are none."""
        return None if self.start is None else replace(self, ts=self.start)


@dataclass(frozen=True, slots=True)
class RowTable:
    """Rows of one channel, a column at a time."""

    channel: str
    rows: pa.Table
    source: str
    """Source of the rows; with their numbers it makes the rows' places, and ids of rows without one."""
    numbers: npt.NDArray[np.int64] | None = None
    """A number of each row, growing, such as its line; None: from 1."""
    texts: bool = False
    """Whether values are texts that are to be read as the channel's columns say, as in CSV."""
    options: RowOptions = field(default_factory=RowOptions)
    schema: Mapping[str, str] | None = None
    """Columns and types of the channel, if it has none yet; None: those of the table."""
    named: bool = True
    """Whether the source is the same when it is read again; else ids are made that nothing else has."""
    problems: tuple[Rejected, ...] = ()
    """Refusals of what stood between the rows and could not be read."""
    position: Position | None = None
    """Position that is kept in the transaction of the last of the rows."""
    exact: Mapping[int, Mapping[str, int | Decimal]] = field(default_factory=dict)
    """Numbers that the rows' types do not hold, by row number and column; of a decimal the rows have the nearest
    double, and NULL of a whole number."""


Record = Event | FeedDocument | RowTable | Control | Rejected | Noted | Position


def rejected(source: str, error: XsclError, channel: str | None = None) -> Rejected:
    """Return the record for an input that was refused with ``error``; what to do stands behind what is wrong."""
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    return Rejected(source, error.condition, message, channel)
