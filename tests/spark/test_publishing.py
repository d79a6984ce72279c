"""Published channels on Spark: the same documents and matches for all cuts, and the relations that show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import xscl
from xscl.base.settings import Settings
from xscl.catalog.groups import read_templates
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.sql import cq_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = """
CREATE QUERY pairs AS SELECT <pair k="{x}">{y}</pair> FROM S/a/k->x FOLLOWED BY {x = y, 1 h} S/b/k->y PUBLISH P;
CREATE QUERY plain AS S/a/k PUBLISH P;
CREATE QUERY met AS P/pair/@k->x JOIN {x = y, 1 h} T/k->y PUBLISH Q;
CREATE QUERY last AS Q//k->x JOIN {x = y, 1 h} P//k->y JOIN {y = z, 1 h} T/k->z;
CREATE QUERY unequal AS Q//k->x JOIN {x = y AND x != z, 1 h} S/*[./k->y][./m->z];
"""
LATER = "CREATE QUERY later AS P//k->x FOLLOWED BY {x = y, 0 s..UNBOUNDED} P//k->y; DROP QUERY plain;"


def document(channel: str, id_: int, xml: str) -> xscl.Event:
    return xscl.Event(channel, f"{channel}{id_}", id_, xml=xml)


def test_levels_and_relations_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    seen = []
    for batch_docs, settings in ((100, Settings("spark")), (3, Settings())):
        with xscl.connect(home=tmp_path / str(batch_docs), spark=spark, settings=settings) as engine:
            assert all(outcome.ok for outcome in engine.load(QUERIES))
            engine.ingest([document("S", 1, "<a><k>v</k></a>"), document("T", 2, "<k>v</k>")])
            engine.ingest([document("S", 3, "<b><k>v</k><m>w</m></b>")])
            assert all(outcome.ok for outcome in engine.load(LATER))
            engine.ingest([document("S", 4, "<b><k>v</k></b>"), document("T", 5, "<k>v</k>")])
            engine.ingest([document("S", 6, "<a><k>v</k></a>"), document("S", 7, "<b><k>v</k></b>")])
            reports = engine.run_once(batch_docs=batch_docs)
            matches = list(engine.matches())
            seen.append([(m.query, m.id, m.document) for m in matches])
            assert {m.query for m in matches} == {"pairs", "plain", "met", "last", "unequal", "later"}
            assert {report.joined_in for report in reports} == {"spark" if settings.where == "spark" else "driver"}
            assert sum(report.published for report in reports) == 4 + 1 + 4 * 2
            if settings.where == "auto":
                continue  # relations show the same whoever joined
            published = engine.sql(
                "SELECT e.id, e.batch, m.batch AS of, e.ts, m.ts_max, e.received, m.received_max, q.publish, e.channel "
                "FROM events e JOIN matches m ON m.match = e.id JOIN queries q ON q.qid = m.qid"
            ).collect()
            assert len(published) == 4 + 1 + 4 * 2
            assert engine.sql("SELECT sum(published) AS n FROM batches").collect()[0].n == len(published)
            for row in published:
                assert (row.batch, row.ts, row.publish) == (row.of, row.ts_max, row.channel)
                assert row.received == row.received_max
            assert {row.match for row in engine.sql("SELECT match FROM matches").collect()} == {m.id for m in matches}
            live = {row.qid for row in engine.sql("SELECT qid FROM queries WHERE docid_until > 1e18").collect()}
            for template in engine.home.catalog.ask(read_templates)[::2]:
                stored = engine.sql(f"SELECT * FROM rout_{template.id}").drop("batch").collect()
                assert {tuple(row) for row in stored if row.qid in live} == {
                    tuple(row) for row in engine.sql(spark_text(cq_statement(template))).collect()
                }
    assert seen[0] == seen[1], "matches, their ids and documents depend neither on the cut nor on who joins"
