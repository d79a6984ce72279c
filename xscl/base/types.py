"""The public records of the library: events going in, matches and outcomes coming out."""

from __future__ import annotations

import re
import reprlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from xscl.base.errors import CatalogError, EngineError, XsclError
from xscl.base.pickled import by_fields

__all__ = [
    "FIRST_TIME",
    "LAST_TIME",
    "MAX_NAME",
    "Event",
    "Match",
    "MatchCounts",
    "MatchEvent",
    "MatchSource",
    "QueryName",
    "QueryOutcome",
    "Retraction",
    "Scalar",
    "format_time",
    "is_name",
    "now_micros",
    "owner_text",
    "require_name",
    "time_bound",
    "to_micros",
    "with_fields",
]

_Options = TypeVar("_Options")

Scalar = bool | int | float | Decimal | str | datetime | date | None
"""A column of a row; a datetime without a zone is taken as UTC."""

MAX_NAME = 128
"""Characters of the name of a query or a channel."""

_NAME = re.compile(r"[^\W\d]\w*(?:(?:\.|-+)\w+)*\Z")
_DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_TIME = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""The least event time."""
LAST_TIME = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""The greatest event time."""


@dataclass(frozen=True, slots=True)
class Event:
    """One document or row for a channel.

    Exactly one of ``xml`` and ``row`` is given.  Without ``id``, XML gets a digest of its content and of its time if
    given.  Without ``ts`` the event time is the time of receipt.

    Example::

        Event("S", "d1", 1, xml="<book/>")                       # one second after the epoch
        Event("ticks", "t7", "2026-06-01T09:30:00Z", row={"sym": "IBM", "price": 101.5})
    """

    channel: str
    """The channel's name; unknown channels are created."""
    id: str | None = None
    """Unique in its channel."""
    ts: int | float | Decimal | str | datetime | None = None
    """Seconds since the epoch, ISO 8601 with a zone, or an aware datetime."""
    xml: str | bytes | None = None
    """One well-formed document."""
    row: Mapping[str, Scalar] | None = None
    """One row, seen as a flat two-level document."""
    source: str | None = None
    """Origin of the event (file, line, URL), for messages and for the ids of rows without one."""
    feed: str | None = None
    """Feed of a feed item.  Items with one id in one feed are versions of one item."""
    digest: str | None = None
    """Digest of a feed item as its publisher wrote it, without what belongs to the feed as a whole."""
    time_source: str | None = None
    """Date of a feed item that ``ts`` is: ``published``, ``updated``, ``feed``, or ``received`` where it has none."""
    start: int | float | Decimal | str | datetime | None = None
    """Time at which it began, at most ``ts``, which is when it ended; None: it is a point in time."""

    __reduce__ = by_fields


@dataclass(frozen=True, slots=True)
class MatchEvent:
    """A member of a match."""

    channel: str
    id: str
    ts: int
    """Event time in microseconds since the epoch, UTC."""


@dataclass(frozen=True, slots=True)
class MatchSource:
    """The documents that a match was found in."""

    documents: tuple[str, ...]
    """The members' documents, in block order."""
    results: tuple[int | str, ...]
    """The blocks' result nodes, named as in ``Match.nodes``."""
    selected: bool
    """Whether the query says by SELECT what the match outputs."""


@dataclass(frozen=True, slots=True)
class Retraction:
    """Reason for which a match no longer holds."""

    because: str
    """``late``, ``edited``, ``removed`` or ``replayed``."""
    by: tuple[str, str] | None
    """Channel and id of the event that did it."""


@dataclass(frozen=True, slots=True)
class Match:
    """One answer of a query: documents that satisfy it together, and what it outputs."""

    id: str
    """A digest of the query and of the members: the same in every home."""
    query: str
    ts: int
    """The greatest event time of the members, in microseconds."""
    events: tuple[MatchEvent, ...]
    """Members in block order."""
    nodes: Mapping[str, int | str]
    """Result nodes that have a variable: elements by number, other nodes as ``3/@href`` or ``3/text()[2]``."""
    values: Mapping[str, str]
    """String values of all variables that the query binds, in one witness; in the order of its text."""
    document: str
    """The output document."""
    replaces: str | None = None
    """The id of the match with the version that the newest version among the members replaces; None: there is none."""
    cursor: str = ""
    """The place right behind it in the order of commits."""
    source: MatchSource | None = field(default=None, repr=False, compare=False)
    """The members' documents; None of a match that was not listed, or that the order of commits takes back."""
    retracted: Retraction | None = None
    """Reason for which the match of this id holds no longer; None: it holds, in the order of commits from here on."""


@dataclass(frozen=True, slots=True)
class MatchCounts:
    """Rows of an answer, those with the most matches first."""

    columns: tuple[str, ...]
    rows: list[dict[str, object]]
    notes: tuple[str, ...] = ()
    """Sentences on values without a number, and on matches that are no longer kept."""


class QueryName(str):
    """The name of a query that was registered, with notes on it."""

    __slots__ = ("notes",)

    notes: tuple[str, ...]
    """Notes on what the query may not say as it was meant, as sentences."""

    def __new__(cls, name: str, notes: tuple[str, ...] = ()) -> QueryName:
        """Make a name with notes."""
        found = super().__new__(cls, name)
        found.notes = notes
        return found


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """Outcome of one statement of a bulk registration."""

    name: str | None
    error: XsclError | None = None
    line: int = 1
    """The line the statement starts at, 1-based."""
    action: str = field(default="registered")
    """``registered``, ``dropped``, ``declared`` or ``refused``."""
    notes: tuple[str, ...] = ()
    """Notes on what a registered query may not say as it was meant, as sentences."""

    @property
    def ok(self) -> bool:
        """Whether the statement was taken."""
        return self.error is None


def is_name(text: str) -> bool:
    """Whether a text can name a query or a channel (docs/reference/language.md, Statements, Limits).

    >>> is_name("items.raw"), is_name("x-"), is_name("1a")
    (True, False, False)
    """
    return len(text) <= MAX_NAME and _NAME.match(text) is not None


def require_name(name: str) -> None:
    """Refuse a name that no query or channel can have.

    Raises:
        CatalogError: ``XSCL_BAD_NAME``.
    """
    if not is_name(name):
        raise CatalogError(
            "XSCL_BAD_NAME",
            f"{name!r} is no name",
            hint=f"it begins with a letter or '_', and has letters, digits, '_', and inside '-' and '.'; at most "
            f"{MAX_NAME} characters",
        )


def owner_text(owner: object) -> str:
    """Return an owner as it is kept.

    Raises:
        CatalogError: ``XSCL_BAD_OWNER``.
    """
    if owner is None:
        return ""
    # Stores refuse NUL and halves of characters.
    if not isinstance(owner, str) or len(owner) > MAX_NAME or re.search("[\0\ud800-\udfff]", owner):
        raise CatalogError(
            "XSCL_BAD_OWNER",
            f"{reprlib.repr(owner)} is no owner",
            hint=f"any text of at most {MAX_NAME} characters, without U+0000",
        )
    return owner


def to_micros(value: int | float | Decimal | str | datetime) -> int:
    """Return an event time as whole microseconds since the epoch: ISO 8601 is cut, numbers of seconds are rounded.

    Raises:
        ValueError: not a time, a time without a zone, or one outside the years 1 to 9999.

    >>> to_micros("1970-01-01T00:00:01.5Z"), to_micros(1.0000005), to_micros("1970-01-01T01:00:00+01:00")
    (1500000, 1000000, 0)
    """
    if type(value) is int and FIRST_TIME <= value * 1_000_000 <= LAST_TIME:
        return value * 1_000_000
    if isinstance(value, bool):
        raise ValueError("a boolean is not a time")
    if isinstance(value, (int, float, Decimal)):
        seconds = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        # A product with the largest exponents would overflow, and so would abs(), which rounds.
        small = seconds.is_finite() and -LAST_TIME <= seconds <= LAST_TIME
        if not small or not FIRST_TIME <= seconds * 1_000_000 <= LAST_TIME:
            raise ValueError(f"{value} seconds since the epoch is not in the years 1 to 9999")
        return int((seconds * 1_000_000).to_integral_value())
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"{value!r} is not an ISO 8601 time") from None
    if not isinstance(value, datetime):
        raise ValueError(f"a value of type {type(value).__name__} is not a time")
    if value.tzinfo is None:
        shown = value.isoformat()
        raise ValueError(f"{shown} has no time zone; write {shown}Z for UTC, or an offset as in {shown}+02:00")
    since = value - _EPOCH
    micros = (since.days * _DAY_S + since.seconds) * 1_000_000 + since.microseconds
    if not FIRST_TIME <= micros <= LAST_TIME:
        raise ValueError(f"{value.isoformat()} is not in the years 1 to 9999 of UTC")
    return micros


def now_micros() -> int:
    """Return the time of the computer's clock in microseconds since the epoch."""
    return time.time_ns() // 1000


def format_time(micros: int) -> str:
    """Write a time as ISO 8601 in UTC, with as many fractional digits as needed.

    >>> format_time(1_000_000), format_time(1_500_000)
    ('1970-01-01T00:00:01Z', '1970-01-01T00:00:01.5Z')
    """
    moment = _EPOCH + timedelta(microseconds=micros)
    whole = moment.isoformat()[:19]
    return f"{whole}.{f'{moment.microsecond:06d}'.rstrip('0')}Z" if moment.microsecond else f"{whole}Z"


def time_bound(name: str, time: int | str | datetime | None) -> int | None:
    """Read the bound ``name`` of event times, in microseconds since the epoch.

    A whole number is microseconds, as times of matches are; seconds would be another unit than ``match.ts``.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: it is no whole number, no ISO 8601 text, and no datetime with a zone.
    """
    if time is None or (isinstance(time, int) and not isinstance(time, bool)):
        return time
    if not isinstance(time, (str, datetime)):
        raise EngineError(
            "XSCL_BAD_OPTION",
            f"{name}: {time!r} is {type(time).__name__}, and no time",
            hint="microseconds since 1970 as a whole number, an ISO 8601 text, or a datetime with a zone",
        )
    try:
        return to_micros(time)
    except ValueError as error:
        hint = "'2026-11-01T00:00:00Z'; a window such as window='NOW-7d..NOW' goes back from now"
        raise EngineError("XSCL_BAD_OPTION", f"{name}: {error}", hint=hint) from None


def with_fields(options: _Options, given: Mapping[str, Any]) -> _Options:
    """Return a record of options with other values of some fields.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: it has no field of a name.
    """
    known = [one.name for one in fields(options)]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            from difflib import get_close_matches  # rarely needed

            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"options are {', '.join(known)}"
            raise EngineError("XSCL_BAD_OPTION", f"there is no option {name!r}", hint=hint)
    return replace(options, **given)  # type: ignore[type-var]
