"""Counts and aggregates of matches as they are read: of all, or of those that share values (PSoup's aggregates).

Nothing is kept for them: whoever asks reads the matches of a window, and each asks for its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from xscl.answers.matches.listing import Listing, list_matches
from xscl.answers.matches.variables import check_variables
from xscl.base.errors import EngineError
from xscl.base.types import Match, MatchCounts
from xscl.base.values import number_text, to_number
from xscl.store.home import Home

__all__ = ["COUNT", "MOST_VALUES", "Aggregate", "aggregate_of", "count_listed", "count_matches"]

COUNT = "matches"
"""Column of the number of matches."""
MOST_VALUES = 1_000_000
"""Different combinations of values, and different values of ``DISTINCT``, that an answer keeps at most."""
_AGGREGATE = re.compile(r"\s*(count|sum|avg|min|max)\s*\(\s*(distinct\s+)?([^\s()]+)\s*\)\s*\Z", re.IGNORECASE)
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function over the values of a variable: ``count``, ``sum``, ``avg``, ``min`` or ``max``."""

    function: str
    variable: str
    distinct: bool = False

    @property
    def name(self) -> str:
        """Return its name as a column."""
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{self.variable})"


def aggregate_of(text: str) -> Aggregate:
    """Read an aggregate, such as ``max(price)`` or ``count(DISTINCT host)``.

    Raises:
        EngineError: ``XSCL_BAD_AGGREGATE``.
    """
    found = _AGGREGATE.match(text)
    if found is None or (found[2] and found[1].lower() != "count"):
        raise EngineError(
            "XSCL_BAD_AGGREGATE",
            f"{text!r} is no aggregate of a variable",
            hint="write max(x), min(x), sum(x), avg(x), count(x) or count(DISTINCT x)",
        )
    return Aggregate(found[1].lower(), found[3], bool(found[2]))


def count_matches(home: Home, listing: Listing, by: Sequence[str] = (), aggregates: Sequence[str] = ()) -> MatchCounts:
    """Count the matches of a listing; without a query, those of each query.

    Args:
        home: has the matches.
        listing: says which matches.
        by: variables of the query; a row has the matches that share values of all.
        aggregates: texts that ``aggregate_of`` reads.

    Raises:
        CatalogError: there was never a query of that name.
        EngineError: ``XSCL_BAD_AGGREGATE``: no aggregate, or no variable of the query; ``XSCL_COUNT_SIZE``; and as
            ``list_matches`` says.
    """
    asked = [aggregate_of(text) for text in aggregates]
    found = list_matches(home, listing)
    if not by and not asked:
        counted = (
            MatchCounts((COUNT,), [{COUNT: len(found)}]) if listing.query is not None else _of_queries(found.queries())
        )
        return replace(counted, notes=found.notes)
    check_variables(home, listing.query, [*by, *(each.variable for each in asked)])
    counted = count_listed(found, by, asked)
    return replace(counted, notes=(*found.notes, *counted.notes))


def _of_queries(counts: Mapping[str, int]) -> MatchCounts:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return MatchCounts(("query", COUNT), [{"query": query, COUNT: count} for query, count in ordered])


def count_listed(found: Iterable[Match], by: Sequence[str], aggregates: Sequence[Aggregate]) -> MatchCounts:
    """Count matches that share values, and aggregate their values.

    Raises:
        EngineError: ``XSCL_COUNT_SIZE``.
    """
    groups: dict[tuple[str | None, ...], _Group] = {}
    left_out: Counter[str] = Counter()
    values = 0
    wanted = {each.variable for each in aggregates if each.function != "count"}
    distinct = {each.variable for each in aggregates if each.distinct}
    for match in (one for one in found if one.retracted is None):
        key = tuple(match.values.get(name) for name in by)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(wanted, distinct)
            values += 1
        values += group.add(match.values, left_out)
        if values > MOST_VALUES:
            raise EngineError(
                "XSCL_COUNT_SIZE",
                f"the answer has more than {MOST_VALUES:,} different values",
                hint="ask for a shorter window, or count in SQL",
            )
    if not by and not groups:
        groups[()] = _Group(wanted, distinct)
    rows: list[Row] = []
    for key, group in sorted(groups.items(), key=lambda item: (-item[1].count, [part or "" for part in item[0]])):
        told = {each.name: group.value(each) for each in aggregates}
        rows.append({**dict(zip(by, key, strict=True)), COUNT: group.count, **told})
    notes = (f"values of {name} that are no numbers, and are left out: {n:,}" for name, n in left_out.items())
    return MatchCounts((*by, COUNT, *(each.name for each in aggregates)), rows, tuple(notes))


class _Group:
    """Matches that share values."""

    def __init__(self, numbers: Iterable[str], distinct: Iterable[str]) -> None:
        self.count = 0
        self.there: Counter[str] = Counter()
        self.numbers = {name: _Numbers() for name in numbers}
        self.distinct: dict[str, set[str]] = {name: set() for name in distinct}

    def add(self, values: Mapping[str, str], left_out: Counter[str]) -> int:
        """Add a match; return how many different values came with it."""
        self.count += 1
        self.there.update(values.keys())
        new = 0
        for name, numbers in self.numbers.items():
            if name in values and not numbers.add(values[name]):
                left_out[name] += 1
        for name, known in self.distinct.items():
            if name in values and values[name] not in known:
                known.add(values[name])
                new += 1
        return new

    def value(self, aggregate: Aggregate) -> int | float | None:
        """Return the value of an aggregate; None: there is nothing to make it of."""
        name = aggregate.variable
        if aggregate.function == "count":
            return len(self.distinct[name]) if aggregate.distinct else self.there[name]
        return self.numbers[name].value(aggregate.function)


class _Numbers:
    """Exact sum and bounds of some numbers."""

    def __init__(self) -> None:
        self.count = 0
        self.sum, self.least, self.greatest = Fraction(0), Fraction(0), Fraction(0)

    def add(self, text: str) -> bool:
        """Add the number of a text; tell whether it is one."""
        written = number_text(text)
        if written is None or to_number(text) is None:
            return False
        number = Fraction(written)
        self.least = number if not self.count else min(self.least, number)
        self.greatest = number if not self.count else max(self.greatest, number)
        self.sum += number
        self.count += 1
        return True

    def value(self, function: str) -> int | float | None:
        """Return a function of them: whole numbers exactly, others as the nearest double."""
        if not self.count:
            return None
        found = {"sum": self.sum, "avg": self.sum / self.count, "min": self.least, "max": self.greatest}[function]
        if found.denominator == 1:
            return int(found)
        try:
            return float(found)
        except OverflowError:
            return round(found)
