"""What went is out of sight in SQL as well, and merged results are read once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import xscl
import xscl.upkeep.events
import xscl.upkeep.results
import xscl.upkeep.upkeep
from xscl.base.types import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_relations_show_what_is_kept(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.upkeep.upkeep, "EVERY", 1)
    for module in (xscl.upkeep.events, xscl.upkeep.results):
        monkeypatch.setattr(module, "FANOUT", 3)
    with xscl.connect(home=tmp_path / "home", spark=spark) as engine:
        engine.add_channel("S", lateness="1 s", retention="10 s")
        engine.register("SELECT * FROM S//a->x FOLLOWED BY {x = y, 5 s} S//a->y", name="Q")
        engine.register("S//a->x", name="R")
        for number in range(24):
            engine.ingest([Event("S", f"e{number}", number, xml=f"<a>{number % 3}</a>")])
            engine.run_once()
        listed = {match.id for match in engine.matches()}
        assert {row.match for row in engine.sql("select match from matches").collect()} == listed
        # Kept from 13 on: eleven events, of which eight have one three before them.
        assert len(listed) == 11 + 8
        assert engine.sql("select id from events").count() == engine.sql("select docid from r_docts").count() == 11
        (template,) = {row.template for row in engine.sql("select template from queries where qid = 'Q'").collect()}
        assert engine.sql(f"select * from rout_{template} where qid = 'Q'").count() == 8
