"""Homes with queries that start with what is held: the views say what ``match list`` says, and CQ_T what R_out says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from property.test_history import Drop, Register, prepare, take, workload

import xscl
from xscl.catalog.groups import read_templates
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import NEVER, QUERIES
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.sql import cq_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_views_say_what_the_list_says(spark: SparkSession, tmp_path: Path) -> None:
    steps, rules = workload(6)
    with xscl.connect(home=tmp_path / "home", spark=spark) as engine:
        prepare(engine, rules)
        take(engine, steps)
        engine.run_once()
        again = next(info for info in engine.queries() if info.filled is not None)
        take(engine, [Drop(again.name), Register(again.name, again.text)])
        engine.run_once()
        every = [(match.query, match.id, len(match.events)) for match in engine.matches()]
        # As if channels had held no more than what came last when these queries were registered.
        newest = max(event.ts for match in engine.matches() for event in match.events)
        held = QUERIES.update().where(QUERIES.c.filled.is_not(None))
        with engine.home.catalog.begin() as connection:
            connection.execute(held.values(held_from=json.dumps({"S": newest, "P": newest})))
        listed = [(match.query, match.id, len(match.events)) for match in engine.matches()]
        assert 0 < len(listed) < len(every)
        statement = "SELECT qid, match, docids, nodes, ts_min, ts_max FROM matches"
        rows = engine.sql(statement).collect()
        assert Counter((row.qid, row.match, len(row.docids)) for row in rows) == Counter(listed)
        times = {match.id: [event.ts for event in match.events] for match in engine.matches()}
        assert all((row.ts_min, row.ts_max) == (min(times[row.match]), max(times[row.match])) for row in rows)
        queries = engine.home.catalog.ask(read_queries, live_only=False)
        kinds = Counter((info.starting[:1], info.docid_until == NEVER, info.publish is not None) for info in queries)
        assert len(kinds) > 2 and listed, (kinds, [step for step in steps if isinstance(step, Register)])
        with engine.home.catalog.begin() as connection:
            connection.execute(held.values(held_from=None))
        pairs = [match.query for match in engine.matches() if len(match.events) == 2]
        live = {info.name: info for info in queries if info.docid_until == NEVER and info.name in pairs}
        asked = live[max(sorted(live), key=pairs.count)].template
        templates = {each.id: each for each in engine.home.catalog.ask(read_templates)}
        template = templates[asked]
        columns = [f"docid{i + 1}" for i in range(template.block_count)]
        columns += [f"node{i + 1}" for i in range(template.width)]
        found = engine.sql(f"SELECT qid, {', '.join(columns)} FROM rout_{asked}").collect()
        by_statement = engine.sql(spark_text(cq_statement(template))).select("qid", *columns).collect()
        rows_of_live = {tuple(row) for row in found if row.qid in live}
        assert rows_of_live and rows_of_live == {tuple(row) for row in by_statement}
