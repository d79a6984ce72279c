"""The catalogue's own promises; what is registered and taken in has tests beside its modules."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from local_engine import compiled
from waiting import wait_for

from xscl.base.errors import CatalogError
from xscl.catalog.catalog import Catalog, open_catalog
from xscl.catalog.channels import put_channel, read_channels
from xscl.catalog.groups import read_rt_rows, read_template, read_template_use, stored_rt
from xscl.catalog.intake_order import read_last_places, take_places
from xscl.catalog.queries import drop_query, read_queries, read_query
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import CHANNELS, HOME, METADATA, TEMPLATES, VARIABLES
from xscl.language.forms import Prepared
from xscl.language.query_rows import names_json
from xscl.registry.loading import Loading
from xscl.registry.memory import Known
from xscl.store.home import init_home, open_home
from xscl.templates.statements.relations import rt_table, var_name

JOIN = "S//a->x JOIN {x = y, 1 h} T//p->y"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", create=True)
    yield opened
    opened.close()


def add(catalog: Catalog, connection: sa.Connection, name: str, text: str = JOIN) -> int:
    """Write a query; returns its place in the intake order."""
    query = compiled(text)
    loading = Loading(connection, Known())
    loading.add(name, text, "{}", Prepared(query, names_json(query)))
    loading.flush()
    return next(info.docid_from for info in read_queries(connection) if info.name == name)


def test_creating_again_keeps_what_is_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'catalog.db'}"
    with pytest.raises(CatalogError) as caught:
        open_catalog(url)
    assert caught.value.condition == "XSCL_NO_CATALOG"
    first = open_catalog(url, create=True)
    with first.begin() as connection:
        add(first, connection, "q")
    first.close()
    for create in (True, False):
        again = open_catalog(url, create=create)
        assert [info.name for info in again.ask(read_queries)] == ["q"]
        again.close()


def test_catalogues_of_other_versions(catalog: Catalog) -> None:
    with catalog.begin() as connection:
        connection.execute(HOME.update().values(schema_version=99))
    with pytest.raises(CatalogError) as caught:
        open_catalog(str(catalog.engine.url))
    assert caught.value.condition == "XSCL_CATALOG_VERSION"


def test_a_transaction_is_one_change(catalog: Catalog) -> None:
    def failing() -> None:
        with catalog.begin() as connection:
            add(catalog, connection, "q")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert catalog.ask(read_queries) == []
    assert catalog.ask(read_template_use) == []
    assert set(sa.inspect(catalog.engine).get_table_names()) == set(METADATA.tables)
    with catalog.begin() as connection:
        add(catalog, connection, "q")
        assert catalog.ask(read_queries) == [], "readers do not see it yet"
    assert len(catalog.ask(read_queries)) == 1


def test_a_statement_that_is_stopped_gives_the_lock_back(catalog: Catalog) -> None:
    """Also while something, as a notebook does, keeps the traceback."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept, catalog.begin() as connection:
        connection.execute(HOME.update().values(schema_version=99))
        sa.event.listen(connection, "after_cursor_execute", stop)
        connection.execute(sa.select(HOME)).all()
    other = sqlite3.connect(str(catalog.engine.url.database), timeout=0)
    other.execute("begin immediate")
    other.rollback()
    other.close()
    assert kept.value.__traceback__ is not None
    assert catalog.ask(catalog.version) != 99


@pytest.mark.parametrize("closed", [False, True])
def test_a_transaction_that_was_left_without_its_end_does_not_lock_its_own_thread_out(
    catalog: Catalog, *, closed: bool
) -> None:
    """As where Ctrl-C comes between the last statement of the transaction and its end, and a traceback is kept."""
    left = catalog.begin()
    left.__enter__().execute(HOME.update().values(schema_version=99))
    if closed:
        catalog.close()
        other = sqlite3.connect(str(catalog.engine.url.database), timeout=0)
        other.execute("begin immediate")
        other.close()
    with catalog.begin() as connection:
        add(catalog, connection, "q")
    del left  # what is left of it undoes nothing more
    gc.collect()
    assert len(catalog.ask(read_queries)) == 1
    assert catalog.ask(catalog.version) != 99


@pytest.mark.parametrize("now", [5, 0, 100])
def test_places_and_times_of_the_intake_order(catalog: Catalog, now: int) -> None:
    with catalog.begin() as connection:
        place, received = take_places(connection, 3, 10)
        assert (place, received) == (1, 10)
        assert take_places(connection, 2, now) == (4, max(now, 13))
        assert take_places(connection, 0, 0)[0] == 6
        assert take_places(connection, 1, 0) == (6, max(now, 13) + 2)
    assert catalog.ask(read_last_places) == (0, 6)


def test_queries_are_listed_by_name(catalog: Catalog) -> None:
    with catalog.begin() as connection:
        for name in ("c", "a", "b"):
            add(catalog, connection, name)
        drop_query(connection, "a", 1)
        add(catalog, connection, "a")
    assert [info.name for info in catalog.ask(read_queries)] == ["a", "b", "c"]
    assert [info.live for info in catalog.ask(read_queries, live_only=False, name="a")] == [False, True]
    with pytest.raises(CatalogError):
        catalog.ask(read_query, "z")


def test_variables_are_stored_once(catalog: Catalog) -> None:
    with catalog.begin() as connection:
        add(catalog, connection, "p")
        add(catalog, connection, "q", JOIN.replace("1 h", "2 h"))
    rows = catalog.rows(VARIABLES)
    assert sorted((str(row["definition"]), row["channel"], row["example"]) for row in rows) == [
        ("S//a", "S", "x"),
        ("T//p", "T", "y"),
    ]
    assert all(row["var"] == var_name(int(str(row["key"]))) for row in rows)


def test_two_definitions_of_one_digest(catalog: Catalog) -> None:
    key = compiled(JOIN).definitions["x"].key
    with catalog.begin() as connection:
        connection.execute(VARIABLES.insert().values(key=key, var=var_name(key), channel="S", definition="S//other"))
    with catalog.begin() as connection, pytest.raises(CatalogError) as caught:
        add(catalog, connection, "q")
    assert caught.value.condition == "XSCL_DIGEST_COLLISION"


def test_templates_come_back_as_they_were(catalog: Catalog) -> None:
    template = compiled(JOIN).template
    with catalog.begin() as connection:
        add(catalog, connection, "q")
    assert catalog.ask(read_template, template.id) == template
    assert catalog.ask(read_template_use) == [(template, 1, 1)]
    with pytest.raises(CatalogError) as caught:
        catalog.ask(read_template, "t9")
    assert caught.value.condition == "XSCL_TEMPLATE_NOT_FOUND"


def test_the_beginning_of_an_id_names_a_template_that_no_other_shares_it_with(catalog: Catalog) -> None:
    template = compiled(JOIN).template
    with catalog.begin() as connection:
        add(catalog, connection, "q")
        row = connection.execute(sa.select(TEMPLATES)).one()._mapping
        connection.execute(TEMPLATES.insert().values(**{**row, "template": template.id[:-1] + "_"}))
    assert catalog.ask(read_template, template.id) == template
    assert catalog.ask(read_template, template.id[:-1] + "_").id != template.id
    for name, told in ((template.id[:4], f"several templates begin with '{template.id[:4]}': "), ("", "no template")):
        with pytest.raises(CatalogError, match=told) as caught:
            catalog.ask(read_template, name)
        assert caught.value.condition == "XSCL_TEMPLATE_NOT_FOUND"
    with catalog.begin() as connection:
        connection.execute(TEMPLATES.delete().where(TEMPLATES.c.template.endswith("_", autoescape=True)))
    assert catalog.ask(read_template, template.id[:4]) == template
    with pytest.raises(CatalogError):
        catalog.ask(read_template, template.id[:2] + "%")


def test_rows_of_rt(catalog: Catalog) -> None:
    query = compiled(JOIN)
    with catalog.begin() as connection:
        place = add(catalog, connection, "q")
        add(catalog, connection, "dropped", JOIN.replace("1 h", "2 h"))
        drop_query(connection, "dropped", 1)
    (row,) = catalog.ask(read_rt_rows, query.template)
    assert set(row) == {column.name for column in rt_table(query.template).columns}
    assert (row["qid"], row["sees_from"], row["hi_1_2"], row["once_1_2"]) == ("q", place, 3_600_000_000, False)
    with catalog.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(stored_rt(query.template))) == 2


def test_rows_of_a_table(catalog: Catalog) -> None:
    with catalog.begin() as connection:
        connection.execute(CHANNELS.insert().values(name="S", kind="xml", feed=False, clock="S"))
    assert catalog.ask(read_channels)["S"].element == "S"
    assert [row["name"] for row in catalog.rows(CHANNELS)] == ["S"]
    assert [row for row in catalog.rows(CHANNELS) if row["name"] == "T"] == []


def test_homes(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        open_home(tmp_path)
    assert caught.value.condition == "XSCL_NO_HOME"
    home = init_home(tmp_path / "home")
    home.catalog.close()
    assert open_home(tmp_path / "home").root == home.root
    assert {path.name for path in home.root.iterdir()} >= {"catalog.db", "events", "witness", "results", "programs"}


def test_a_reader_reads_one_moment(catalog: Catalog) -> None:
    with catalog.read() as connection:
        before = read_channels(connection)
        with catalog.begin() as other:
            put_channel(other, ChannelInfo.new("S", "xml"))
        assert read_channels(connection) == before == {}
    assert [*catalog.ask(read_channels)] == ["S"]


def test_many_who_wait_for_the_lock_keep_no_reader_waiting(catalog: Catalog) -> None:
    def write() -> None:
        with catalog.begin() as connection:
            take_places(connection, 1, 0)

    with ThreadPoolExecutor(20) as pool:
        with catalog.begin():
            waiting = [pool.submit(write) for _ in range(20)]
            wait_for(lambda: catalog.engine.pool.checkedout() == 21)
            assert catalog.ask(read_last_places) == (0, 0)
        assert [each.result() for each in waiting] == [None] * 20
    assert catalog.ask(read_last_places) == (0, 20)


def test_too_many_at_once_are_told_so(catalog: Catalog) -> None:
    catalog.engine.pool = sa.pool.QueuePool(catalog.engine.pool._creator, pool_size=1, max_overflow=0, timeout=0.01)
    with catalog.read(), pytest.raises(CatalogError, match="XSCL_CATALOG_BUSY"):
        catalog.ask(read_last_places)
