"""Statements of templates for one query, as they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from xscl.answers.explaining.templates import template_sql_text
from xscl.base.errors import CatalogError
from xscl.catalog.queries import read_query
from xscl.engine import Engine
from xscl.store.home import init_home
from xscl.templates.statements.dialect import Dialect

SAME = "S//book->b[./author->a] FOLLOWED BY {a = c, 7 days} S//blog->g[./author->c]"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(init_home(tmp_path / "home"))
    engine.register(SAME, name="same")
    engine.register(SAME.replace("7 days", "2 hours"), name="soon")
    engine.register("S//book", name="books")
    return engine


@pytest.mark.parametrize("dialect", Dialect)
def test_constants_stand_in_place_of_the_relation(engine: Engine, dialect: Dialect) -> None:
    catalog = engine.home.catalog
    template = catalog.ask(read_query, "same").template
    of_all = template_sql_text(catalog, template, None, dialect)
    same, soon = (template_sql_text(catalog, template, name, dialect) for name in ("same", "soon"))
    assert f"rt_{template}" in of_all and "rt." not in same
    assert "'same' AS qid" in same
    # One week in microseconds, and two hours; what is settled is left out.
    assert str(7 * 86_400_000_000) in same and str(2 * 3_600_000_000) in soon
    assert "ts_from" not in same and "IS NULL" not in same and "r_guard" not in same


def test_a_query_of_another_template(engine: Engine) -> None:
    catalog = engine.home.catalog
    template = catalog.ask(read_query, "same").template
    with pytest.raises(CatalogError, match="XSCL_TEMPLATE_NOT_FOUND") as caught:
        template_sql_text(catalog, template, "books", Dialect.spark)
    assert "--query books" in str(caught.value)
    with pytest.raises(CatalogError, match="XSCL_QUERY_NOT_FOUND"):
        template_sql_text(catalog, template, "nothing", Dialect.spark)


def test_a_statement_about_absence_says_that_it_has_the_joins_alone(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register("A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]", name="absent")
        engine.register("A->x[./k->a]", name="plain")
        catalog = engine.home.catalog
        template = catalog.ask(read_query, "absent").template
        absent, plain = (template_sql_text(catalog, template, name, Dialect.sqlite) for name in ("absent", "plain"))
        assert "what must not be there" in absent.splitlines()[0]
        assert "what must not be there" not in plain and len(absent.splitlines()) == len(plain.splitlines()) + 1
