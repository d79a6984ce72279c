"""Steps of relations: each runs alone on a home with something for all of them, and has the columns that it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
import sample_home

from xscl.answers.sql.channel_views import channel_steps
from xscl.answers.sql.match_steps import count_steps, output_steps
from xscl.answers.sql.relation_steps import relation_steps
from xscl.answers.sql.relations import HomeRelations, home_relations
from xscl.answers.sql.sources import source_frame
from xscl.answers.sql.steps import Needs, Step, with_statement
from xscl.base.types import Event
from xscl.catalog.tables import CHANNELS
from xscl.engine import Engine, connect
from xscl.registry.feed_lateness import set_feed_lateness
from xscl.store.event_spans import EVERYTHING, Events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("steps")
    with connect(home=folder / "home", spark=spark) as engine:
        sample_home.fill(engine, folder)
        sample_home.more(engine, folder)
        engine.drop("all")
        engine.register(sample_home.LATER["all"], name="all")
        engine.heartbeat("ticks", 1)
        engine.register("A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]", name="unpaid")
        for channel, ts in (("A", 1), ("B", 20), ("B", 5)):  # the last takes back the answer that the second settled
            engine.ingest([Event(channel, f"{channel}{ts}", ts, xml="<e><k>1</k></e>")])
            engine.run_once()
        engine.retract("A", "A1")
        engine.add_channel("listed", lateness="auto")
        set_feed_lateness(engine.home.catalog, "listed", {"f": 2_000_000})
        with engine.home.catalog.begin() as connection:
            connection.execute(CHANNELS.update().where(CHANNELS.c.name == "S").values(kept_from=2_000_000))
        yield engine


def all_steps(relations: HomeRelations, needs: Needs) -> Iterator[tuple[str, list[Step]]]:
    shapes = sorted(relations.templates, key=lambda name: relations.templates[name].block_count)
    few = {"ch_news", "ch_wire"}
    many = {*shapes[:-2]} | {name for name in relations.listed - few if name.startswith("ch_")}
    for name in sorted(relations.listed - many):  # of the greatest template
        view = relations.view(name)
        if view is not None:
            yield name, channel_steps(name, view, Events(since=0))
        else:
            yield name, relation_steps(name, needs, relations.templates)
    yield "counts", count_steps()
    yield "outputs", output_steps(replace(needs, members=True))


@pytest.mark.thorough
def test_each_step_runs_alone(filled: Engine, spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    now: dict[str, str] = {}
    with home_relations(filled.home) as relations:
        needs = relations.needs(relations=["match_members", "r_doc"])
        flags = [field.name for field in fields(Needs) if field.name != "processed"]
        assert all(getattr(needs, flag) for flag in flags), f"the home has something for each step: {needs}"
        check_steps(relations, session, needs, now)
        # A home that has little needs as few steps as possible.
        check_steps(relations, session, replace(needs, **dict.fromkeys(flags, False)), now)


def check_steps(relations: HomeRelations, session: SparkSession, needs: Needs, now: dict[str, str]) -> None:
    """Run each step whose text is not that of a view of the session; ``now`` has the texts of these."""
    rows: dict[str, int] = {}
    arguments = {"query": None, "since": None, "until": None}
    for relation, steps in all_steps(relations, needs):
        for source in {source for each in steps for source in each.sources} - now.keys():
            source_frame(relations, session, source, EVERYTHING).cache().createOrReplaceTempView(source)
            now[source] = ""
        if all(now.get(each.name) == each.text for each in steps):
            continue
        named = [name.strip("`") for name in steps[-1].columns]
        assert session.sql(with_statement(steps), arguments).columns == named, relation
        changed = False
        for each in steps:
            assert each.about.endswith(".") and "previous_step" not in each.text
            changed |= now.get(each.name) != each.text
            if changed:
                frame = session.sql(each.text, arguments).cache()
                assert frame.columns == [name.strip("`") for name in each.columns], (relation, each.name)
                rows[each.name] = max(rows.get(each.name, 0), frame.count())
                frame.createOrReplaceTempView(each.name)
                now[each.name] = each.text
    assert [name for name, number in rows.items() if not number] == [], "each step has rows in this home"
