"""Subscriptions to feed items: loops against definitions, and equal answers of the engine."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from xscl.bench.bench import Options, run_bench
from xscl.bench.rss_patterns import BENCH, TEMPLATES, Feeds, looped, new_feeds


def expected(feeds: Feeds, query: int) -> set[tuple[int, ...]]:
    """Answers of a query by the definition of its template."""
    website, least = feeds.asked[query]
    of = [item for item, each in enumerate(feeds.website) if each == website]
    popular = [item for item in of if feeds.popularity[item] > least]
    match feeds.template:
        case "stateless":
            return {(item,) for item in popular}
        case "concatenation":
            found = set(zip(popular, popular[1:], popular[2:], strict=False))
        case "parameterization":
            found = {
                (a, b, c)
                for a, b, c in combinations(of, 3)
                if b == following(feeds, of, a) and c == following(feeds, of, b)
            }
        case _:
            found = {(a, b) for a, b in combinations(of, 2) if rises(feeds, of, a, b)}
    return {each for each in found if each[-1] - each[0] <= 100}


def following(feeds: Feeds, of: list[int], item: int) -> int | None:
    """The first item behind one that is of its channel and more popular."""
    return next(
        (
            each
            for each in of
            if each > item
            and feeds.channel[each] == feeds.channel[item]
            and feeds.popularity[each] > feeds.popularity[item]
        ),
        None,
    )


def rises(feeds: Feeds, of: list[int], first: int, last: int) -> bool:
    """Whether all items of a channel from one to another rise."""
    if feeds.channel[first] != feeds.channel[last]:
        return False
    run = [feeds.popularity[e] for e in of if first <= e <= last and feeds.channel[e] == feeds.channel[first]]
    return all(one < other for one, other in zip(run, run[1:], strict=False))


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_loop_answers_as_the_template_says(template: str) -> None:
    feeds = new_feeds(template, 60, 1_200, seed=4)
    feeds = replace(feeds, asked=[(number % 9, 5 * (number % 20)) for number in range(60)])
    found: dict[int, list[tuple[int, ...]]] = {}
    looped(feeds, lambda query, series: found.setdefault(query, []).append(series))
    assert len(found) > 3
    for query in range(60):
        mine = found.get(query, [])
        assert len(mine) == len(set(mine)) and set(mine) == expected(feeds, query), query


def test_the_engine_answers_as_the_loop() -> None:
    report = run_bench(BENCH, Options(quick=True, queries=100, items=600), lambda _: None)
    assert report.figures["digest_equal"] is True
    assert {row["template"] for row in report.table} == {*TEMPLATES}
    assert all(row["matches"] for row in report.table)
    assert {"events_iteration_per_s", "events_loop_stateless_per_s"} <= set(report.figures)
