"""``xscl bench rss-patterns``: subscriptions to feed items, alone and in series (the thesis' Table 4.3, Figure 4.18).

A query is of a website and a popularity.  Series have at most 100 items of all websites from their first to their last
one.  A loop that knows the templates answers the same queries, and has to have the same answers.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from xscl.base.values import digest_text
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_variant, size, suffixed
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.bench.sharing import Work, answered

__all__ = ["BENCH", "TEMPLATES", "Feeds", "looped", "new_feeds"]

_WEBSITES, _CHANNELS, _POPULARITY, _LONGEST_S = 415, 4, 100, 100
_SKEW = 0.8
"""Exponent of the frequencies of websites."""
_SECOND = 1_000_000
_COMPARED = 20
TEMPLATES = ("stateless", "concatenation", "parameterization", "iteration")
"""Templates: an item; three of a website; three of a channel that rise; any number of these."""


def text_of(template: str, website: int, least: int) -> str:
    """Return the query of a template."""
    first = "items[./no->a][./website->w][./channel->k][./popularity->p]"
    within = f"FILTER {{DUR <= {_LONGEST_S} s}}"
    return {
        "stateless": f"SELECT a FROM items[./website = {website}][./popularity > {least}][./no->a]",
        "concatenation": f"SELECT a, b, c FROM {first} FILTER {{w = {website} AND p > {least}}}"
        f" NEXT {{w = v AND q > {least}}} items[./no->b][./website->v][./popularity->q]"
        f" NEXT {{w = u AND r > {least}}} items[./no->c][./website->u][./popularity->r] {within}",
        "parameterization": f"SELECT a, b, c FROM {first} FILTER {{w = {website}}}"
        " NEXT {k = l AND q > p} items[./no->b][./channel->l][./popularity->q]"
        f" NEXT {{k = m AND r > q}} items[./no->c][./channel->m][./popularity->r] {within}",
        "iteration": f"SELECT a, b FROM {first} FILTER {{w = {website}}}"
        f" FOLD {{k = l WHILE q > last(q, p)}} items[./no->b][./channel->l][./popularity->q] {within}",
    }[template]


@dataclass(frozen=True)
class Feeds:
    """Items, and what subscriptions of a template ask of them."""

    template: str
    website: list[int]
    channel: list[int]
    popularity: list[int]
    asked: list[tuple[int, int]]
    """Website and popularity of each query."""

    @property
    def compared(self) -> list[int]:
        """Queries whose answers are compared: those of the websites with the most items."""
        return sorted(range(len(self.asked)), key=self.asked.__getitem__)[:_COMPARED]

    def work(self) -> Work:
        """Return the queries over rows of one channel, an item a second."""
        numbers = np.arange(len(self.website))
        columns = {
            "no": numbers,
            "ts": numbers * _SECOND,
            "website": self.website,
            "channel": self.channel,
            "popularity": self.popularity,
        }
        texts = {f"q{number}": text_of(self.template, w, x) for number, (w, x) in enumerate(self.asked)}
        compared = tuple(f"q{number}" for number in self.compared)
        values = tuple(text_of(self.template, 0, 0).removeprefix("SELECT ").split(" FROM ")[0].split(", "))
        return Work({"items": pa.table(columns)}, texts, len(numbers), compared, values)


def new_feeds(template: str, queries: int, items: int, seed: int) -> Feeds:
    """Make items of websites, most of them of the first ones, and subscriptions to any."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, _WEBSITES + 1) ** -_SKEW
    website = random.choice(_WEBSITES, items, p=weights / weights.sum())
    channel = website * _CHANNELS + random.integers(0, _CHANNELS, items)
    popularity = random.integers(0, _POPULARITY, items)
    asked = np.stack([random.integers(0, most, queries) for most in (_WEBSITES, _POPULARITY)], axis=1)
    pairs = [(int(w), int(x)) for w, x in asked]
    return Feeds(template, website.tolist(), channel.tolist(), popularity.tolist(), pairs)


# -- a loop --------------------------------------------------------------------------------------------------------

_Told = Callable[[int, tuple[int, ...]], None]
"""Takes a query and the items of an answer."""


def looped(feeds: Feeds, tell: _Told) -> None:
    """Answer all queries item by item; queries of a website are found by it."""
    of_website: dict[int, list[tuple[int, int]]] = {}
    for query, (website, least) in enumerate(feeds.asked):
        of_website.setdefault(website, []).append((least, query))
    for queries in of_website.values():
        queries.sort()
    {
        "stateless": _stateless,
        "concatenation": _concatenation,
        "parameterization": _parameterization,
        "iteration": _iteration,
    }[feeds.template](feeds, of_website, tell)


_Queries = Mapping[int, list[tuple[int, int]]]
"""Popularity and number of the queries of each website, ascending."""


def _stateless(feeds: Feeds, queries: _Queries, tell: _Told) -> None:
    for item, (website, popularity) in enumerate(zip(feeds.website, feeds.popularity, strict=True)):
        mine = queries.get(website, [])
        for _, query in mine[: bisect_left(mine, (popularity, 0))]:
            tell(query, (item,))


def _concatenation(feeds: Feeds, queries: _Queries, tell: _Told) -> None:
    before: dict[int, tuple[int, ...]] = {}
    for item, (website, popularity) in enumerate(zip(feeds.website, feeds.popularity, strict=True)):
        mine = queries.get(website, [])
        for _, query in mine[: bisect_left(mine, (popularity, 0))]:
            series = (*before.get(query, ()), item)[-3:]
            before[query] = series
            if len(series) == 3 and item - series[0] <= _LONGEST_S:
                tell(query, series)


def _parameterization(feeds: Feeds, queries: _Queries, tell: _Told) -> None:
    begun: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for item, (website, channel, popularity) in enumerate(
        zip(feeds.website, feeds.channel, feeds.popularity, strict=True)
    ):
        if website not in queries:
            continue
        waiting: list[tuple[int, tuple[int, ...]]] = [(popularity, (item,))]
        for least, series in begun.get(channel, []):
            if item - series[0] > _LONGEST_S:
                continue
            if popularity <= least:
                waiting.append((least, series))
            elif len(series) == 1:
                waiting.append((popularity, (*series, item)))
            else:
                for _, query in queries[website]:
                    tell(query, (*series, item))
        begun[channel] = waiting


def _iteration(feeds: Feeds, queries: _Queries, tell: _Told) -> None:
    begun: dict[int, tuple[int, list[int]]] = {}
    for item, (website, channel, popularity) in enumerate(
        zip(feeds.website, feeds.channel, feeds.popularity, strict=True)
    ):
        if website not in queries:
            continue
        least, starts = begun.get(channel, (0, []))
        starts = [start for start in starts if popularity > least and item - start <= _LONGEST_S]
        for start in starts:
            for _, query in queries[website]:
                tell(query, (start, item))
        begun[channel] = popularity, [*starts, item]


# -- the bench -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((1_000, 10_000, 40_000), (100, 500))
    items: int = size(26_623, 1_500)


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[Feeds]]:
    for template in TEMPLATES:
        for count in lab.sizes.queries:
            feeds = new_feeds(template, count, lab.sizes.items, lab.seed)
            yield Case(f"{template}, {count:,} queries", feeds, {"template": template, "queries": count})


def _engine(lab: Lab[_Sizes], case: Case[Feeds]) -> Outcome:
    outcome = answered(lab, case.data.work(), "all")
    spent = outcome.figures["us_per_event"]
    assert isinstance(spent, float)
    return Outcome({**outcome.figures, "events_per_s": 1e6 / spent}, digest=outcome.digest)


def _loop(_: Lab[_Sizes], case: Case[Feeds]) -> Outcome:
    feeds, found, compared = case.data, list[tuple[object, ...]](), set(case.data.compared)
    count = 0

    def tell(query: int, series: tuple[int, ...]) -> None:
        nonlocal count
        count += 1
        if query in compared:
            found.append((f"q{query}", series[-1] * _SECOND, *map(str, series)))

    begin = time.process_time()
    looped(feeds, tell)
    us = 1e6 * (time.process_time() - begin) / len(feeds.website)
    figures = {"matches": len(found), "us_per_event": us, "events_per_s": 1e6 / us, "all_matches": count}
    return Outcome(figures, digest=digest_text(*map(repr, sorted(found))))


def _figures(_: _Sizes, results: Sequence[Result[Feeds]]) -> Row:
    """Take the rates with the most queries of each template."""
    last = {result.case.data.template: result.figures for result in results}
    names = ("events_per_s", "events_loop_per_s", "all_matches_loop")
    return {suffixed(name, f"_{template}"): of[name] for template, of in last.items() for name in names}


BENCH = Bench(
    name="rss-patterns",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("engine", _engine), Variant("loop", _loop, "_loop")),
    table=lambda results: [{**row, "line": f"{row['template']}: {row['mode']}"} for row in by_variant(results)],
    figures=_figures,
    axes=Axes(
        "Subscriptions to {s.items:,} feed items",
        x="queries",
        y="events a second of processor time",
        over="queries",
        lines={"": "events_per_s"},
        by="line",
        log_y=True,
        told=lambda _: {"thesis: iteration, more than": ((40_000, 100),)},
    ),
    notes=(
        "The first third of the items, which plans, is not counted for the engine, nor is the intake.",
        "The engine stores all matches; the loop counts them, and keeps those that are compared.",
    ),
    spark=False,
)
