"""Listing queries in pages and with filters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
import sqlalchemy as sa

import xscl.registry.query_list
from xscl.catalog.catalog import Catalog, open_catalog
from xscl.catalog.tables import GROUPS, NEVER, QUERIES
from xscl.registry.query_list import QueryFilter, count_queries, list_queries
from xscl.registry.registry import Registry

TEXTS = ("S//a", "S//b", "T//a", "S//a->x JOIN {x = y, 1 h} T//p->y", "S//a->x JOIN {x = y, 1 h} U//p->y", "S//a->u")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    opened = open_catalog(f"sqlite:///{tmp_path_factory.mktemp('queries') / 'catalog.db'}", create=True)
    registry = Registry(opened)
    names = [
        f"{first}{second}_{i}" for i, (first, second) in enumerate(itertools.product("aAzä", ("", "-x", "_", "é")))
    ]
    registry.register_many(
        list(zip([*names, "dropped"], itertools.cycle(TEXTS), strict=False))  # type: ignore[arg-type]
    )
    registry.drop("dropped")
    yield opened
    opened.close()


def listed(catalog: Catalog, **wanted: object) -> list[str]:
    return [info.name for info in list_queries(catalog, QueryFilter(**wanted))]  # type: ignore[arg-type]


def test_all_in_the_order_of_names(catalog: Catalog) -> None:
    names = listed(catalog)
    assert len(names) == 16
    assert names == sorted(names)
    assert count_queries(catalog) == 16


@pytest.mark.parametrize("size", [1, 3, 5, 16, 100])
def test_pages(catalog: Catalog, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = listed(catalog)
    found: list[str] = []
    while page := listed(catalog, after=found[-1] if found else None, limit=size):
        assert len(page) <= size
        found += page
    assert found == everything
    assert [name for i in range(0, 16, size) for name in listed(catalog, offset=i, limit=size)] == everything
    monkeypatch.setattr(xscl.registry.query_list, "_PAGE", size)
    assert listed(catalog) == everything
    assert listed(catalog, offset=2, limit=7) == everything[2:9]
    assert listed(catalog, limit=0) == []
    assert listed(catalog, offset=16) == []


@pytest.mark.parametrize(
    "pattern", ["*", "a*", "A*", "ä*", "*_1*", "a?x*", "?_*", "a_*", "*é*", "zz*", "a-x_1", "[a]*", "%"]
)
def test_patterns(catalog: Catalog, pattern: str) -> None:
    expected = [name for name in listed(catalog) if fnmatchcase(name, pattern.replace("[", "[[]"))]
    assert listed(catalog, like=pattern) == expected
    assert count_queries(catalog, QueryFilter(like=pattern)) == len(expected)


def test_templates_and_groups(catalog: Catalog) -> None:
    infos = list(list_queries(catalog))
    assert len({info.template for info in infos}) == 2
    for name in {info.template for info in infos}:
        assert listed(catalog, template=name) == [info.name for info in infos if info.template == name]
    for gid in {info.gid for info in infos}:
        assert listed(catalog, group=gid) == [info.name for info in infos if info.gid == gid]
    assert listed(catalog, template="nope") == listed(catalog, group=99) == []


@pytest.mark.parametrize("few", [0, 10_000])
def test_channels(catalog: Catalog, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.registry.query_list, "_FEW", few)
    infos = list(list_queries(catalog))
    for channel in "STU":
        expected = [info.name for info in infos if f"{channel}//" in info.text]
        assert expected
        assert listed(catalog, channel=channel) == expected
        assert listed(catalog, channel=channel, like="a*", limit=2) == [n for n in expected if n.startswith("a")][:2]
        assert count_queries(catalog, QueryFilter(channel=channel)) == len(expected)
    assert listed(catalog, channel="V") == []


def test_filters_hold_together(catalog: Catalog) -> None:
    wanted = QueryFilter(like="a*", channel="S", after="a-x_1")
    assert [i.name for i in list_queries(catalog, wanted)] == [
        i.name for i in list_queries(catalog) if i.name[0] == "a" and "S//" in i.text and i.name > "a-x_1"
    ]
    assert count_queries(catalog, replace(wanted, limit=1)) == len(list(list_queries(catalog, wanted)))


def test_listing_does_not_sort(catalog: Catalog) -> None:
    """At a million queries a page is read from an index in its order."""
    after, live = QUERIES.c.qid > "a", QUERIES.c.docid_until == NEVER
    for condition, index in (
        (sa.true(), "queries_name"),
        (QUERIES.c.template == "t", "queries_template"),
        (QUERIES.c.gid == 1, "queries_group"),
        (sa.exists().where(GROUPS.c.gid == QUERIES.c.gid, GROUPS.c.channels.in_(["a", "b"])), "queries_name"),
    ):
        statement = sa.select(QUERIES).where(live, after, condition).order_by(QUERIES.c.qid).limit(100)
        with catalog.read() as connection:
            text = statement.compile(connection, compile_kwargs={"literal_binds": True})
            plan = " ".join(row[3] for row in connection.exec_driver_sql(f"explain query plan {text}"))
        assert f"USING INDEX {index}" in plan and "TEMP B-TREE" not in plan


def test_live_names_are_unique_by_the_database(catalog: Catalog) -> None:
    with catalog.begin() as connection:
        row = dict(connection.execute(sa.select(QUERIES).limit(1)).one()._mapping)
        with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():
            connection.execute(QUERIES.insert().values(**{**row, "query": 999}))
        connection.rollback()
