"""Quotas count in tasks of Spark as they count in this process."""

from __future__ import annotations

from pathlib import Path

from greedy import TEXTS, document
from pyspark.sql import SparkSession

import xscl
from xscl.base.settings import Settings


def test_queries_are_suspended_alike_in_either_place(tmp_path: Path, spark: SparkSession) -> None:
    found = {}
    for name, settings in (("driver", Settings()), ("spark", Settings("spark"))):
        with xscl.connect(home=tmp_path / name, spark=spark, settings=settings) as engine:
            engine.ingest(document(number) for number in range(4))
            for number, text in enumerate(TEXTS):
                engine.register(text, name=f"q{number}")
            engine.register("SELECT x FROM S/d[./b->x] PUBLISH P", name="maker")
            engine.register("P/result[./b->x] JOIN {x = y, 1 h} P/result[./b->y]", name="reader")
            engine.ingest(document(number) for number in range(4, 7))
            engine.register(TEXTS[0], name="later")
            engine.ingest(document(number) for number in range(7, 10))
            engine.set_quotas(bindings=0, pairs=0)
            reports = engine.run_once()
            assert {report.joined_in for report in reports if report.events} == {name}
            found[name] = [str(each) for report in reports for each in report.suspended]
    assert found["driver"] == found["spark"] and len(found["driver"]) == len(TEXTS) + 3
    assert any("18 bindings" in reason for reason in found["driver"])
