"""Every kind of join in Spark's executors, whatever is enumerated and whatever is verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from oracle.evaluate import Doc, answers
from oracle.nodes import NAMESPACES

import xscl
import xscl.executors
from xscl.parser import parse_query

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
    "three": f"{P} JOIN {{a = d AND b = e, 9 s}} {Q} FOLLOWED BY {{b != h AND y > z, 9 s}} {R}",
    "triangle": f"{P} JOIN {{a = d, 1 min}} {Q} JOIN {{d = g AND b = h, 1 min}} {R}",
}


def documents() -> list[Doc]:
    """Titles that few share, channels that many share, numbers; some documents have two titles."""
    docs = []
    for n in range(14):
        several = dict.fromkeys([f"t{n % 5}", *(["t1", "c0"] if n % 6 == 4 else [])])
        titles = "".join(f"<t>{title}</t>" for title in several)
        docs.append(Doc("S", f"d{n}", n * 1_000_000, f"<i>{titles}<c>c{n % 2}</c><n>{(n * 7) % 5}.0</n></i>"))
    return docs


@pytest.mark.parametrize(("batch_docs", "unselective"), [(4, "some"), (4, "all"), (100, "all"), (100, "none")])
def test_executors_equal_the_oracle_whatever_is_verified(
    batch_docs: int, unselective: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(counts: dict[int, float], _limit: float) -> frozenset[int]:
        bits = {"none": 0, "all": -1, "some": 0x2D2D}[unselective]
        return frozenset(edge for edge in counts if bits >> edge & 1)

    monkeypatch.setattr(xscl.executors, "unselective_edges", chosen)
    docs = documents()
    texts = TWO_BLOCKS | THREE_BLOCKS
    expected = {name: answers(parse_query(text), docs, namespaces=NAMESPACES) for name, text in texts.items()}
    assert all(expected.values()), "every query must find something"
    with xscl.connect(home=tmp_path / "home", spark=spark) as engine:
        assert all(outcome.ok for outcome in engine.register_many(texts.items()))
        engine.ingest([xscl.Event(doc.channel, doc.id, doc.ts / 1e6, xml=doc.xml) for doc in docs])
        reports = engine.run_once(batch_docs=batch_docs)
        found = {name: {tuple((e.channel, e.id) for e in m.events) for m in engine.matches(name)} for name in texts}
        counts = {name: sum(1 for _ in engine.matches(name)) for name in texts}
    assert found == {name: {members for members, _ in answer} for name, answer in expected.items()}
    assert counts == {name: len(answer) for name, answer in expected.items()}
    assert [report.jobs for report in reports] == [4 if report.links else 3 for report in reports]
