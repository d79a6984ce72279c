"""Listings of matches, by time or in the order of commits, with values and documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar, overload

from xscl.answers.matches.current import current_of
from xscl.answers.matches.cursors import START, Cursor, parse_cursor, refuse_ahead
from xscl.answers.matches.growing_parts import growing_parts
from xscl.answers.matches.kept_notes import incomplete_notes
from xscl.answers.matches.reader import FoundMatch, MatchReader
from xscl.answers.matches.replacements import Replacements
from xscl.answers.matches.times import Times
from xscl.base.errors import CatalogError, EngineError
from xscl.base.notebook import table_html
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.base.system_errors import named_file_faults
from xscl.base.types import Match, MatchSource, Retraction, format_time, time_bound, with_fields
from xscl.base.values import digest_text
from xscl.base.ways import way
from xscl.batches.match_documents import Shown, Wanted, match_outputs, shown_of
from xscl.catalog.channels import all_facts, read_channels, read_streams
from xscl.catalog.records import ChannelInfo
from xscl.store.event_files import event_document, events_of
from xscl.store.home import Home

__all__ = [
    "ALL_MATCHES",
    "Listing",
    "MatchListing",
    "built_matches",
    "find_match",
    "list_matches",
    "match_json",
    "named_matches",
    "with_other_documents",
]


_KEPT = 20_000
"""Matches, without documents, that a listing keeps from counting them."""
_SHOWN = 10
"""Matches that a listing shows of itself."""
_Item = TypeVar("_Item")
_COLUMNS = ("query", "ts", "events", "values", "document")


class MatchListing(Iterator[Match]):
    """Matches one by one, and the cursor to go on from."""

    def __init__(
        self,
        find: Callable[[], Iterator[FoundMatch]],
        build: Callable[[Iterator[FoundMatch]], Iterator[Match]],
        begin: Cursor | None,
        end: Cursor,
        limit: int | None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._find, self._build = find, build
        self.notes = notes
        """Sentences on what the listing may lack."""
        self._limit = limit
        self._length: int | None = None
        self._kept: list[FoundMatch] | None = None
        self._matches: Iterator[Match] | None = None
        self._in_order = begin is not None
        self._end = str(end)
        self._left = limit
        self.cursor = str(begin or START)
        """Behind the last match that was handed out in the order of commits; where the listing began, while matches
        come in another order; behind all that was committed when the listing was asked for, once it has ended."""

    def __next__(self) -> Match:
        if self._left == 0:
            raise StopIteration
        if self._matches is None:
            self._matches = self._read()
        try:
            match = next(self._matches)
        except StopIteration:
            self.cursor = self._end
            raise
        if self._left is not None:
            self._left -= 1
        if self._in_order:
            self.cursor = match.cursor
        return match

    def __len__(self) -> int:
        """Count the matches, whatever was handed out of them; no document is read."""
        if self._length is None:
            # list() asks for the length first, and then for the same matches; none behind the limit is looked at.
            found = islice(self._find(), self._limit)
            kept = list(islice(found, _KEPT + 1))
            self._length = len(kept) + sum(1 for _ in found)
            self._kept = kept if self._length <= _KEPT else None
        return self._length

    def queries(self) -> Counter[str]:
        """Count the matches by query, whatever was handed out of them; no document is read."""
        return Counter(item.query.name for item in islice(self._find(), self._limit))

    def _read(self) -> Iterator[Match]:
        return self._build(self._find() if self._kept is None else iter(self._kept))

    def __bool__(self) -> bool:
        return next(islice(self._read(), self._limit), None) is not None

    @overload
    def __getitem__(self, place: int) -> Match: ...
    @overload
    def __getitem__(self, place: slice) -> list[Match]: ...
    def __getitem__(self, place: int | slice) -> Match | list[Match]:
        """Give a match, or a list of some, by their places in the listing, whatever was handed out of it."""
        if isinstance(place, slice):
            first, last, step = place.indices(len(self)) if _needs_length(place) else (place.start or 0, place.stop, 1)
            if step < 0:
                return list(self._part(last + 1, first + 1))[::step]
            return list(self._part(first, last))[::step]
        wanted = place if place >= 0 else place + len(self)
        found = next(self._part(wanted, wanted + 1), None) if wanted >= 0 else None
        if found is None:
            raise IndexError(f"the listing has no match {place}")
        return found

    def _part(self, first: int, last: int) -> Iterator[Match]:
        end = last if self._limit is None else min(last, self._limit)
        return islice(self._read(), first, max(first, end))

    def __repr__(self) -> str:
        some = self[: _SHOWN + 1]
        lines = [f"  {match.query}  {format_time(match.ts)}  {_events_of(match)}" for match in some[:_SHOWN]]
        more = ["  …"] if len(some) > _SHOWN else []
        return "\n".join(["<matches" if lines else "<matches: none", *lines, *more]) + ">"

    def _repr_html_(self) -> str:
        some = self[: _SHOWN + 1]
        rows = [
            (match.query, format_time(match.ts), _events_of(match), dict(match.values), match.document)
            for match in some[:_SHOWN]
        ]
        more = [["…"] * len(_COLUMNS)] if len(some) > _SHOWN else []
        return table_html("matches", _COLUMNS, [*rows, *more])


def _needs_length(place: slice) -> bool:
    negative = any(bound is not None and bound < 0 for bound in (place.start, place.stop, place.step))
    return negative or place.stop is None or place.step not in (None, 1)


def _events_of(match: Match) -> str:
    return ", ".join(f"{event.channel}/{event.id}" for event in match.events)


@dataclass(frozen=True, slots=True)
class Listing:
    """Options of a listing of matches; all of them hold together.

    Times are whole numbers of microseconds since the epoch (as ``Match.ts`` is), texts in ISO 8601, or datetimes with a
    zone.  Only numbers within ``window`` are seconds.  All bounds are included.
    """

    query: str | None = None
    """Name of the query, also of one that was dropped; by default of all queries."""
    since: int | str | datetime | None = None
    """Earliest event time of a match."""
    until: int | str | datetime | None = None
    """Latest event time of a match."""
    now: int | str | datetime | None = None
    """Moment of the listing: it has no matches of a later time.  By default NOW is the time of the call, and only a
    window is cut off there."""
    window: str | None = None
    """Window with all members of a match: ``NOW-7d..NOW``, ``2026-01-01T00:00:00Z..NOW``, ``2..12``."""
    after: str | None = None
    """Cursor before the first match, in the order of commits; ``start`` is before all."""
    limit: int | None = None
    """Number of matches at most, 0 or more."""
    current: bool = False
    """Whether only the newest match of each group of the query is listed; of windows with EVERY, what the last window
    that is settled has."""
    by: Sequence[str] = ()
    """Variables whose values make groups of ``current``; by default those that the query groups by."""


ALL_MATCHES = Listing()


def list_matches(home: Home, listing: Listing = ALL_MATCHES, **given: Any) -> MatchListing:
    """Return the matches of the batches that are committed now; ``given`` are fields of ``listing``.

    They are sorted by (ts, query, match); with ``after`` in the order in which they were committed, which is the same
    for ever.

    Raises:
        CatalogError: there was never a query of that name.
        EngineError: ``XSCL_BAD_WINDOW``, ``XSCL_BAD_CURSOR``, ``XSCL_BAD_OPTION``; ``XSCL_BAD_AGGREGATE``: ``current``
            without groups.
    """
    asked = with_fields(listing, given)
    after, limit = asked.after, asked.limit
    since, until, now = (time_bound(name, getattr(asked, name)) for name in ("since", "until", "now"))
    times = Times.of(since, until, now, asked.window)
    least = times.least  # notes speak of the bounds that were asked for
    begin = None if after is None else parse_cursor(after)
    _refuse_wrong(asked)
    current = current_of(home, asked.query, asked.by, times, now) if asked.current else None
    if current is not None:
        times = current.times
    with named_file_faults(home.root):
        reader = MatchReader(home, asked.query, times, first=0 if begin is None else begin.batch)
        if begin is not None:
            refuse_ahead(begin, reader.committed.last)

    def find() -> Iterator[FoundMatch]:
        found = named_matches(home, reader.by_time() if begin is None else reader.by_commit(begin))
        return found if current is None else current.among(found, build)

    def build(found: Iterator[FoundMatch]) -> Iterator[Match]:
        return named_matches(home, built_matches(home, found))

    notes = incomplete_notes(home, reader.committed.kept, least, reader.asked)
    return MatchListing(find, build, begin, Cursor(reader.committed.last + 1), limit, notes)


def _refuse_wrong(asked: Listing) -> None:
    """Refuse options that exclude each other, and a limit below 0."""
    if asked.limit is not None and asked.limit < 0:
        raise EngineError(
            "XSCL_BAD_OPTION", f"limit: {asked.limit} is less than 0", hint="leave it out to have all matches"
        )
    if asked.current and asked.after is not None:
        raise EngineError("XSCL_BAD_OPTION", "current: matches behind a cursor are all that came", hint="leave out one")
    if asked.by and not asked.current:
        raise EngineError(
            "XSCL_BAD_OPTION",
            "by: groups are those of current matches",
            hint=f"ask for current ones by {way('--current', 'current=True')}",
        )


def named_matches(home: Home, matches: Iterator[_Item]) -> Iterator[_Item]:
    """Yield the same; faults of files on the way get their names."""
    with named_file_faults(home.root):
        yield from matches


def with_other_documents(matches: Iterable[Match]) -> Iterator[Match]:
    """Yield matches, of several with the same document only the first."""
    seen: set[str] = set()
    for match in matches:
        key = digest_text(match.document)
        if key not in seen:
            seen.add(key)
            yield match


def find_match(home: Home, match: str) -> Match:
    """Find the match whose id is, or begins with, ``match``; one that was taken back has the reason.

    Raises:
        CatalogError: there is none, or more than one.
    """
    found: dict[str, FoundMatch] = {}
    with named_file_faults(home.root):
        for item in MatchReader(home, None, Times()).by_time(all_ever=True):
            # One that was taken back may have been found again.
            if item.id.startswith(match) and (item.id not in found or item.retracted is None):
                found[item.id] = item
    if len(found) != 1 or not match:
        some = ", ".join(id_[:12] for id_ in islice(found, 5))
        what = f"{len(found)} matches begin with {match!r}: {some} …" if found else f"there is no match {match!r}"
        listed = way("xscl match list", "engine.matches()")
        raise CatalogError("XSCL_MATCH_NOT_FOUND", what, hint=f"list them with {listed}")
    (one,) = found.values()
    return replace(next(built_matches(home, iter([one._replace(retracted=None)]))), retracted=one.retracted)


def match_json(match: Match, *, cursor: bool = False) -> dict[str, object]:
    """Give a match as the JSON object that listings print; if wanted, with the cursor behind it.

    A match that the order of commits takes back has an object of its own kind.  A match with documents says itself that
    it holds no longer.
    """
    behind = {"cursor": match.cursor} if cursor else {}
    why = None if match.retracted is None else _reason_json(match.retracted)
    if why is not None and match.source is None:
        return {"retract": match.id, "query": match.query, **why, **behind}
    return {
        "match": match.id,
        "query": match.query,
        "ts": format_time(match.ts),
        "events": [{"channel": e.channel, "id": e.id, "ts": format_time(e.ts)} for e in match.events],
        "nodes": dict(match.nodes),
        "values": dict(match.values),
        "document": match.document,
        **({} if match.replaces is None else {"replaces": match.replaces}),
        **({} if why is None else {"retracted": why}),
        **behind,
    }


def _reason_json(why: Retraction) -> dict[str, object]:
    by = {} if why.by is None else {"by": {"channel": why.by[0], "id": why.by[1]}}
    return {"because": why.because, **by}


def built_matches(home: Home, found: Iterator[FoundMatch]) -> Iterator[Match]:
    """Build matches with their documents."""
    with home.catalog.read() as connection:
        channels, streams = read_channels(connection), read_streams(connection)
    facts = all_facts(channels, streams)
    replacements = Replacements(home)
    shown: dict[int, Shown] = {}
    for part in growing_parts(found):
        documents = _documents(home, part, channels)
        # A match whose events have gone since it was found is not listed.
        whole = [item for item in part if all(docid in documents for docid in item.match.docids)]
        there = [item for item in whole if item.retracted is None]
        wanted = []
        for _, query, _, match, _, _ in there:
            if query.query not in shown:
                shown[query.query] = shown_of(query, facts)
            wanted.append(Wanted(query, shown[query.query], match))
        outputs = in_fresh_dictionary(match_outputs, wanted, documents)
        replaced = replacements.of(there)
        listed = iter(zip(wanted, outputs, strict=True))
        for item in whole:
            if item.retracted is not None:
                yield _taken_back(item)
                continue
            one, (nodes, values, document, results) = next(listed)
            yield Match(
                id=item.id,
                query=item.query.name,
                ts=item.ts,
                events=tuple(member.event for member in item.members),
                nodes=nodes,
                values=values,
                document=document,
                replaces=replaced.get(item.id),
                cursor=str(item.cursor),
                source=MatchSource(
                    tuple(documents[docid] for docid in item.match.docids), results, one.shown.selection is not None
                ),
            )


def _documents(home: Home, found: Iterable[FoundMatch], channels: Mapping[str, ChannelInfo]) -> dict[int, str]:
    """Return the documents of all events of some matches, by number."""
    docids = {docid for item in found for docid in item.match.docids}
    events = events_of(home, docids, ["docid", "channel", "content", "cells"]).to_pylist()
    return {row["docid"]: event_document(row["content"], row["cells"], channels[row["channel"]]) for row in events}


def _taken_back(item: FoundMatch) -> Match:
    events = tuple(member.event for member in item.members)
    cursor = str(item.cursor)
    return Match(item.id, item.query.name, item.ts, events, {}, {}, "", cursor=cursor, retracted=item.retracted)
