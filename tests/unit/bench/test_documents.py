"""Documents to join: how often they agree."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from lxml import etree

from xscl.bench.documents import ItemFeed, family_documents, schema_document, thesis_pair
from xscl.bench.workload import RSS, Schema, three_level, two_level


def leaves(text: str) -> dict[str, str]:
    return {element.tag: element.text or "" for element in etree.fromstring(text).iter() if len(element) == 0}


def test_a_document_has_the_paths_of_its_schema() -> None:
    for schema in (two_level(5), three_level(3, 2), RSS):
        root = etree.fromstring(schema_document(schema, [f"value {place}" for place in range(len(schema.leaves))]))
        assert root.tag == schema.root
        assert [root.findtext("/".join(path)) for path in schema.leaves] == [
            f"value {place}" for place in range(len(schema.leaves))
        ]
        assert len(list(root.iter())) == 1 + len({path[:depth] for path in schema.leaves for depth in (1, 2)})


def test_a_pair_agrees_leaf_by_leaf_and_nowhere_else() -> None:
    first, second = (leaves(text) for text in thesis_pair(three_level(), 1))
    assert first == second and len(set(first.values())) == 16
    assert not set(first.values()) & set(leaves(thesis_pair(three_level(), 2)[0]).values())


def documents(schema: Schema, number: int, seed: int, run: str) -> list[dict[str, str]]:
    return [leaves(text) for text in family_documents(schema, number, families=20, seed=seed, run=run)]


def test_documents_of_a_family_agree_in_all_leaves_or_in_some() -> None:
    found = documents(three_level(), 600, 1, "a")
    assert found == documents(three_level(), 600, 1, "a")
    assert found != documents(three_level(), 600, 2, "a")
    agreeing = Counter(sum(one[name] == other[name] for name in one) for one, other in combinations(found, 2))
    pairs = sum(agreeing.values())
    related = pairs - agreeing[0]
    assert 0.04 < related / pairs < 0.06  # one family in twenty, nearly all of whose pairs share something
    assert 0.2 < agreeing[16] / related < 0.3
    assert min(agreeing[count] for count in range(3, 10)) > 0
    # No two leaves are ever equal, but the same leaf of two documents.
    where: dict[str, set[str]] = {}
    for document in found:
        for name, value in document.items():
            where.setdefault(value, set()).add(name)
    assert all(len(names) == 1 for names in where.values())
    other = {value for document in documents(three_level(), 100, 1, "b") for value in document.values()}
    assert all(value.startswith("family ") for value in other & set(where))


def test_items_have_the_frequencies_of_the_corpus() -> None:
    feed = ItemFeed(3, channels=20)
    items = list(feed.take(4_000))
    assert feed.made == 4_000
    fields = [leaves(text) for _, text in items]
    assert set(fields[0]) == {path[0] for path in RSS.leaves}
    assert set(Counter(item["channel_url"] for item in fields).values()) == {200}
    assert {item["channel_url"] for item in fields[:20]} == {item["channel_url"] for item in fields}
    assert len({item["item_url"] for item in fields}) == 4_000
    assert 0.005 < 1 - len({item["title"] for item in fields}) / 4_000 < 0.015
    assert 0.08 < 1 - len({item["description"] for item in fields}) / 4_000 < 0.12
    assert [at for at, _ in items] == [int(item["timestamp"]) for item in fields]
    assert {b - a for (a, _), (b, _) in zip(items, items[1:], strict=False)} == {60}
    assert 400 < sum(len(text) for _, text in items) / 4_000 < 700


def test_items_repeat_no_older_ones_than_they_are_told() -> None:
    fields = [leaves(text) for _, text in ItemFeed(1, reach=50).take(3_000)]
    seen: dict[str, int] = {}
    repeated = 0
    for place, item in enumerate(fields):
        value = item["description"]
        if value in seen:
            repeated += 1
            assert place - seen[value] <= 50
        seen[value] = place
    assert repeated > 200


def test_a_feed_goes_on() -> None:
    feed, again = ItemFeed(1), ItemFeed(1)
    parts = [*feed.take(30), *feed.take(500)]
    assert [at for at, _ in parts] == [at for at, _ in again.take(530)]
    assert len({leaves(text)["item_url"] for _, text in parts}) == 530
    assert set(Counter(leaves(text)["channel_url"] for _, text in parts[:418]).values()) == {1}
