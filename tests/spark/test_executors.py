"""Every kind of join in Spark's executors, whatever is enumerated and whatever is verified, against the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from local_engine import UnitsEngine, compiled
from oracle.evaluate import Doc, answers
from oracle.nodes import NAMESPACES

from xscl.batches import executors
from xscl.language.parser import parse_query
from xscl.store.state_files import link_rows
from xscl.templates.order import JoinOrder, join_order
from xscl.templates.program import Program
from xscl.templates.program_files import load_program
from xscl.templates.results import RESULT_SCHEMA, origin_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P, Q, R = ("S/i->{}[./t->{}][./c->{}][./n->{}]".format(*names) for names in ("pabx", "qdey", "rghz"))
TWO_BLOCKS = {
    "one selective": f"{P} JOIN {{a = d, 1 min, ONCE}} {Q}",
    "one unselective": f"{P} FOLLOWED BY {{b = e, 9 s}} {Q}",
    "both": f"{P} FOLLOWED BY {{a = d AND b = e}} {Q}",
    "crossed": f"{P} JOIN {{a = e AND b = d}} {Q}",
    "unequal": f"{P} JOIN {{a = d AND b != e, 1 min}} {Q}",
    "less": f"{P} JOIN {{b = e AND x < 0.5 * y + 1}} {Q}",
    "equal numbers": f"{P} JOIN {{a = d AND x = 2 * y}} {Q}",
    "by time": f"{P} FOLLOWED BY {{3 s}} {Q}",
    "by time and unequal": f"{P} FOLLOWED BY {{a != d AND x >= y, 5 s}} {Q}",
    "one block": "S/i[./t]",
}
THREE_BLOCKS = {
    "one order or two": "S/i->p[./t->a][./n = 1] JOIN {a = d, 9 s, ONCE} S/i->q[./t->d]",
    "three": f"{P} JOIN {{a = d AND b = e, 9 s}} {Q} FOLLOWED BY {{b != h AND y > z, 9 s}} {R}",
    "triangle": f"{P} JOIN {{a = d, 1 min}} {Q} JOIN {{d = g AND b = h, 1 min}} {R}",
}


def documents() -> list[Doc]:
    """Titles that few share, channels that many share, numbers; some documents have several titles, some are late."""
    docs = []
    for n in range(14):
        several = dict.fromkeys([f"t{n % 5}", *(["t1", "c0"] if n % 6 == 4 else [])])
        titles = "".join(f"<t>{title}</t>" for title in several)
        xml = f"<i>{titles}<c>c{n % 2}</c><n>{(n * 7) % 5}.0</n></i>"
        docs.append(Doc("S", f"d{n}", n * 1_000_000, xml, late=n == 7))
    return docs


@dataclass
class SparkEngine(UnitsEngine):
    """The same with every join on Spark."""

    spark: Any = None
    jobs: list[int] = field(default_factory=list)
    """Of each batch, but for stage 1, which is not Spark's here."""
    paths: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)

    def _stage2(self, fresh: pa.Table, first: int) -> list[dict[str, object]]:
        context = self.spark.sparkContext
        context.setJobGroup(f"{self.folder} {self.batches}", "")
        plan = SimpleNamespace(program=load_program(self.program), program_path=Path(self.program))
        path, target = (self.folder / f"{name}-{self.batches}" for name in ("fresh.parquet", "results"))
        pq.write_table(fresh, path)
        origin = origin_of(self.batches, 0)
        executors.write_results(self.spark, plan, path, self.paths, target, origin)
        self.paths.append(str(path))
        found = ds.dataset(target, schema=RESULT_SCHEMA).to_table().to_pylist()
        if any(row["relation"] == "link" for row in found):
            joined = self.folder / f"joined-{self.batches}"
            executors.write_assembled(self.spark, plan, target, self.stored, joined, origin + (1 << 15))
            self.stored.append(str(joined.with_suffix(".parquet")))
            pq.write_table(link_rows(self._links(found)), self.stored[-1])
            found += ds.dataset(joined, schema=RESULT_SCHEMA).to_table().to_pylist()
        self.jobs.append(len(context.statusTracker().getJobIdsForGroup(f"{self.folder} {self.batches}")))
        context.setLocalProperty("spark.jobGroup.id", None)
        return found

    def _links(self, found: list[dict[str, object]]) -> pa.Table:
        rows = [{name: row[name] for name in ("link", "members", "nodes")} for row in found if row["link"] is not None]
        schema = pa.schema([RESULT_SCHEMA.field(name) for name in ("link", "members", "nodes")])
        return pa.Table.from_pylist(rows, schema=schema)

    def _assemble(self, new: list[dict[str, object]]) -> None:
        """Done."""


@pytest.mark.parametrize(
    ("texts", "many", "size"),
    [
        (TWO_BLOCKS | THREE_BLOCKS, "some", 5),
        (TWO_BLOCKS | THREE_BLOCKS, "all", 20),
        (TWO_BLOCKS, "all", 8),
    ],
)
def test_executors_equal_the_oracle_whatever_is_verified(
    texts: Mapping[str, str],
    many: str,
    size: int,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(program: Program, _pairs: object, _spare: float) -> JoinOrder:
        bits = {"all": -1, "some": 0x2D2D}[many]
        return join_order(program, {edge: edge + (1_000 if bits >> edge & 1 else 1) for edge in program.edges}, 0)

    monkeypatch.setattr(executors, "join_order", chosen)
    docs = documents()
    engine = SparkEngine(tmp_path, {name: compiled(text) for name, text in texts.items()}, spark=spark)
    for start in range(0, len(docs), size):
        engine.run(docs[start : start + size])
    for name, text in texts.items():
        expected = answers(parse_query(text), docs, namespaces=NAMESPACES)
        assert expected, "every query must find something"
        assert engine.answers(name) == expected, name
    # One sends new witnesses to all executors, one does everything else, one puts three blocks together.
    assert set(engine.jobs) == {3 if texts.keys() > TWO_BLOCKS.keys() else 2}
