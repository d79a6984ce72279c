"""Homes whose queries were registered with some rules of sharing alone: what is derived is checked by these rules."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

import xscl
from xscl.base.settings import Settings
from xscl.catalog.tables import GROUPS, QUERIES
from xscl.upkeep.derived_rows import derived_differences
from xscl.upkeep.health import examine_home

JOIN = "S//a->x[./b->y][./n > {n}] FOLLOWED BY {{y=z, 1 h}} S//c->w[./b->z]"
STEPS = "S//a->x[./n->n] NEXT {x = y AND n < m} S//a->y[./m->m]"
TEXTS = [
    "S//a[./n > 5]",
    JOIN.format(n=1),
    JOIN.format(n=2),
    "S//a->x NOT FOLLOWED BY {x = y, 30 min} T//b->y",
    STEPS,
    "SELECT p AS pid, count(q) AS n FROM S//a[./n->p][./b->q] WINDOW 5 s GROUP BY p",
    "SELECT p AS pid, count(q) AS n FROM S//a[./n->p][./b->q] WINDOW 9 s GROUP BY p HAVING count(q) > 2",
]


@pytest.fixture(params=["all", "none", "s", "c", "s_σ", "s_α,c_α", "s_⋈", "s_⋈,c_⋈", "s_;,s_μ", "s_∖", "c_;,c_μ,s_σ"])
def engine(request: pytest.FixtureRequest, tmp_path: Path):
    with xscl.connect(home=tmp_path / "home", settings=Settings(rules=request.param)) as opened:
        for number, text in enumerate(TEXTS):
            for twin in "ab":
                opened.register(text, name=f"q{number}{twin}")
        opened.drop("q0a")
        opened.register(TEXTS[0], name="q0a")
        yield opened


def test_a_sound_home_has_no_differences(engine: xscl.Engine) -> None:
    assert examine_home(engine.home, deep=True).derived == ()
    with engine.home.catalog.begin() as connection:
        assert list(derived_differences(connection, mends=True)) == []


def test_damage_is_found_and_mended(engine: xscl.Engine) -> None:
    home = engine.home
    with home.catalog.begin() as connection:
        before = [connection.execute(sa.select(table)).all() for table in (GROUPS, QUERIES)]
        connection.execute(QUERIES.update().where(QUERIES.c.qid == "q1b").values(names="{}"))
        connection.execute(GROUPS.update().where(GROUPS.c.channels.like("%T%")).values(channels="[]"))
    found = examine_home(home, deep=True).derived
    assert any("names" in fault for fault in found) and any("groups differ" in fault for fault in found)
    with home.catalog.begin() as connection:
        assert list(derived_differences(connection, mends=True))
        assert [connection.execute(sa.select(table)).all() for table in (GROUPS, QUERIES)] == before
