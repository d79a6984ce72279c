"""The thesis' random queries: the counts of templates and of distinct queries that it states."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

import pytest
from local_engine import compiled

from xscl.bench.workload import RSS, SCHEMAS, Schema, Windows, thesis_queries, three_level, two_level

ATOM = re.compile(r"v(\d+) = w\1")
LEAF = re.compile(r"(\w+)->([vw]\d+)\]")


def joined(text: str) -> frozenset[tuple[str, str]]:
    """The pairs of leaves that a query joins."""
    leaf = {variable: name for name, variable in LEAF.findall(text)}
    return frozenset((leaf[f"v{i}"], leaf[f"w{i}"]) for i in ATOM.findall(text))


def templates(schema: Schema, number: int, **options: int) -> set[str]:
    return {compiled(text).template.id for _, text in thesis_queries(schema, number, **options)}


def test_the_same_seed_gives_the_same_queries() -> None:
    for schema in SCHEMAS.values():
        assert list(thesis_queries(schema, 50, seed=3)) == list(thesis_queries(schema, 50, seed=3))
        assert list(thesis_queries(schema, 50, seed=3)) != list(thesis_queries(schema, 50, seed=4))
        assert list(islice(thesis_queries(schema, seed=3), 50)) == list(thesis_queries(schema, 50, seed=3))


def test_texts() -> None:
    assert [list(thesis_queries(schema, 3, seed=2))[2] for schema in SCHEMAS.values()] == [
        (
            "q3",
            "S//item->v0[./leaf5->v1][./leaf2->v2] FOLLOWED BY {v1 = w1 AND v2 = w2} "
            "S//item->w0[./leaf5->w1][./leaf2->w2]",
        ),
        (
            "q3",
            "S//doc->v0[./part4->vpart4[./leaf4_2->v1]] FOLLOWED BY {v1 = w1} "
            "S//doc->w0[./part4->wpart4[./leaf4_1->w1]]",
        ),
        (
            "q3",
            "items//item->v0[./timestamp->v1][./title->v2] FOLLOWED BY {v1 = w1 AND v2 = w2} "
            "items//item->w0[./item_url->w1][./description->w2]",
        ),
    ]


@pytest.mark.parametrize("leaves", [1, 2, 6, 12])
def test_a_flat_schema_has_as_many_templates_as_leaves(leaves: int) -> None:
    assert len(templates(two_level(leaves), 40 * leaves)) == leaves


@pytest.mark.parametrize(("joins", "expected"), [(1, 1), (2, 2), (3, 7), (4, 31)])
def test_templates_of_the_three_level_schema(joins: int, expected: int) -> None:
    """With sides distinguished; the thesis counts mirror images as one."""
    found = templates(three_level(), 400, most_joins=joins)
    assert len(found) <= expected
    assert joins == 4 or len(found) == expected


def test_distinct_queries_of_the_rss_experiment() -> None:
    """25 + 200 + 600 + 600 + 120 ways to join different leaves."""
    seen = {joined(text) for _, text in thesis_queries(RSS, 100_000)}
    assert len(seen) == 1545
    assert Counter(map(len, seen)) == {1: 25, 2: 200, 3: 600, 4: 600, 5: 120}


def test_queries_that_join_the_same_are_one_group() -> None:
    found = [(joined(text), compiled(text).group.key) for _, text in thesis_queries(RSS, 800)]
    assert len({key for _, key in found}) == len({pairs for pairs, _ in found}) == len(set(found))


@pytest.mark.parametrize(("zipf", "expected"), [(0.0, [1 / 6] * 6), (0.8, [0.353, 0.203, 0.147, 0.116, 0.097, 0.084])])
def test_zipf(zipf: float, expected: list[float]) -> None:
    counts = Counter(len(joined(text)) for _, text in thesis_queries(two_level(), 6000, zipf=zipf))
    assert [counts[k] / 6000 for k in range(1, 7)] == pytest.approx(expected, abs=0.02)


def test_windows() -> None:
    def windows(text: str) -> set[str]:
        found = thesis_queries(two_level(), 200, windows=Windows.parse(text))
        return {compiled(text).normal.cases[0][0].hi // 1_000_000 for _, text in found}

    assert windows("7 days") == {604_800}
    assert windows("1 min..3 min") <= set(range(60, 181))
    assert len(windows("1 min..3 min")) > 60
    assert Windows.parse(" UNBOUNDED ") is None
    with pytest.raises(ValueError, match="greater"):
        Windows.parse("3 min..1 min")
