"""Current matches: the newest of each group of a query, and of windows with EVERY the answers of the last window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from xscl.answers.matches.reader import FoundMatch, named_queries
from xscl.answers.matches.times import Times
from xscl.answers.matches.variables import check_variables
from xscl.base.errors import EngineError
from xscl.base.types import LAST_TIME, Match
from xscl.catalog.channels import read_streams, read_watermarks
from xscl.catalog.records import QueryInfo
from xscl.language.aggregates import definition_of, part_of
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.language.terms import Term
from xscl.store.home import Home

__all__ = ["Current", "current_of"]

_PART = 500
"""Matches whose values are read together."""
_Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Current:
    """Groups of a query whose newest matches are current."""

    by: tuple[str, ...] | None
    """Variables whose values a group shares; None: each match has a group of its own."""
    times: Times
    """Bounds of the matches among which these are."""
    of_newest: bool
    """Whether only matches with the time of the newest match are current."""

    def among(
        self, found: Iterator[FoundMatch], build: Callable[[Iterator[FoundMatch]], Iterable[Match]]
    ) -> Iterator[FoundMatch]:
        """Yield the current matches among some that come by time; ``build`` reads their values."""
        newest: dict[_Key, FoundMatch] = {}
        ts = None
        while part := list(islice(found, _PART)):
            items = {item.id: item for item in part}
            for match in build(iter(part)):
                if self.of_newest and match.ts != ts:
                    newest.clear()
                    ts = match.ts
                key = (match.id,) if self.by is None else tuple(match.values.get(name) for name in self.by)
                newest.pop(key, None)
                newest[key] = items[match.id]
        yield from newest.values()


def current_of(home: Home, query: str | None, by: Sequence[str], times: Times, now: int | None) -> Current:
    """Return what is current of a query.

    Args:
        home: has the query.
        query: its name.
        by: variables whose values groups share; none: those that it groups by.
        times: bounds of matches.
        now: the moment of the question, in microseconds since the epoch; None: the last commit.

    Raises:
        CatalogError: there was never a query of that name.
        EngineError: ``XSCL_BAD_AGGREGATE``: no query, no variable of it, or groups that its answers do not tell.
    """
    check_variables(home, query, by)
    assert query is not None
    info = max(named_queries(home, query), key=lambda each: each.query)
    parsed = parse_query(info.text)
    aggregate = parsed.aggregate
    if aggregate is None:
        return Current(tuple(by), times, of_newest=False)
    if aggregate.every is None:
        return Current(tuple(by) or _told_groups(info, parsed), times, of_newest=False)
    assert aggregate.window is not None
    groups = tuple(by) or None
    settled = _settled_time(home, parsed) if info.live else None
    if settled is None or (settled > LAST_TIME and now is None):
        return Current(groups, times, of_newest=True)
    limit = settled if now is None else min(settled, now)
    end = min((limit - aggregate.window) // aggregate.every * aggregate.every + aggregate.window, LAST_TIME)
    since = end if times.since is None else max(times.since, end)
    until = end if times.until is None else min(times.until, end)
    return Current(groups, replace(times, since=since, until=until), of_newest=False)


def _settled_time(home: Home, query: ast.Query) -> int | None:
    """Return the time below which the channels of a query are settled; None: some are not."""
    with home.catalog.read() as connection:
        streams, watermarks = read_streams(connection), read_watermarks(connection)
    names = {block.channel for block in ast.blocks(part_of(query).source)}
    times = [watermarks.get(streams[name].channel if name in streams else name) for name in names]
    known = [time for time in times if time is not None]
    return min(known) if len(known) == len(times) else None


def _told_groups(info: QueryInfo, query: ast.Query) -> tuple[str, ...]:
    """Return the values of answers that tell their groups."""
    definition = definition_of(query, info.text, info.namespaces)
    named = {term: name for name, term in definition.columns}
    found = [named.get(Term("group", place)) for place in range(len(definition.group))]
    told = tuple(name for name in found if name is not None)
    if len(told) < len(found):
        raise EngineError(
            "XSCL_BAD_AGGREGATE",
            f"the answers of the query {info.name} do not say all that it groups by",
            hint="name values that tell groups apart with --by, or SELECT what it groups by",
        )
    return told
