"""Selections below joins that are shared: guards, as in CACQ (G-C2, G-C3, G-C13) and Juggler (G12).

G-C2 is Figure 2 of S. Madden, M. Shah, J. Hellerstein and V. Raman, *Continuously Adaptive Continuous Queries over
Streams*, 2002; G-C13 has the shape of its section 5.  The rows of G-C3, G-C13 and G12 are of our own.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers

import xscl
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query
from xscl.planning.planner import Planner
from xscl.store.join_state import held_state
from xscl.templates.runs.files import open_run
from xscl.templates.runs.rows import rows_of_run

S = 1_000_000
FACTS = {name: ChannelFacts("rows", numeric=frozenset("abcdv"), texts=frozenset("k")) for name in "SR"}
PARTNER = "T/t->p"
MASKS = {
    "Q1": "S[./a > 10][./b = 5][./k->q] JOIN {q = p, 1 h} " + PARTNER,
    "Q2": "S[./c > 7][./k->q] JOIN {q = p, 1 h} " + PARTNER,
    "Q3": "R[./d > 1][./k->q] JOIN {q = p, 1 h} " + PARTNER,
}


def row(channel: str, id_: str, **cells: object) -> Doc:
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in cells.items())
    return Doc(channel, id_, S, f"<{channel}>{inner}</{channel}>")


def told(engine: LocalEngine, name: str) -> int:
    return len(engine.answers(name))


def test_gc2_masks_have_the_literals_of_each_query() -> None:
    """Query 1 has two operators over S, query 2 the third; a row of R carries what its own query asks."""
    queries = {name: compiled(text, FACTS) for name, text in MASKS.items()}
    (first,), (second,), (third,) = (query.group.guards[0].alternatives for query in queries.values())  # type: ignore[union-attr]
    assert (len(first), len(second), len(third)) == (2, 1, 1)
    of_s, of_r = {*first, *second}, {*third}
    assert len(of_s) == 3
    assert {each.variable for each in of_s}.isdisjoint(each.variable for each in of_r)
    assert queries["Q1"].group.instance.key == queries["Q2"].group.instance.key


@pytest.mark.parametrize("kind", [UnitsEngine, LocalEngine])
def test_gc3_a_row_goes_to_the_query_whose_mask_it_fills(kind: type[LocalEngine], tmp_path: Path) -> None:
    orders = ["".join(order) for order in permutations(["[./a > 10]", "[./b = 5]"])]
    texts = {name: text for name, text in MASKS.items() if name != "Q1"}
    texts |= {f"Q1{place}": MASKS["Q1"].replace("[./a > 10][./b = 5]", order) for place, order in enumerate(orders)}
    queries = {name: compiled(text, FACTS) for name, text in texts.items()}
    assert queries["Q10"].group.key == queries["Q11"].group.key, "the order of filters is no part of a query"
    engine = kind(tmp_path, queries)
    docs = [row("S", "s", a=12, b=5, c=3, k="x"), row("R", "r", d=0, k="x"), Doc("T", "t", S, "<t>x</t>")]
    engine.run(docs)
    assert {name: told(engine, name) for name in texts} == {"Q10": 1, "Q11": 1, "Q2": 0, "Q3": 0}
    numeric = {name: frozenset("abcd") for name in "SR"}
    assert all(
        engine.answers(name) == answers(parse_query(text), docs, numeric=numeric) for name, text in texts.items()
    )


def test_gc13_selections_below_a_shared_join_without_copies(tmp_path: Path) -> None:
    """100 stocks, 3 articles each, four thresholds: 80 rows in state, 240 pairs, 600 answers."""
    with xscl.connect(home=tmp_path / "home") as engine:
        for least in (20, 40, 60, 80):
            engine.register(
                f"stocks[./price > {least}][./symbol->s] JOIN {{s = t, 1 h}} articles/article/symbol->t",
                name=f"q{least}",
            )
        article = "<article><symbol>s{}</symbol></article>".format
        engine.ingest([xscl.Event("articles", f"{i}-{n}", i, xml=article(i)) for i in range(1, 101) for n in range(3)])
        engine.run_once()
        engine.ingest([xscl.Event("stocks", str(i), 200, row={"symbol": f"s{i}", "price": i}) for i in range(1, 101)])
        (report,) = engine.run_once()
        assert report.pairs == 240
        matches = [match.query for match in engine.matches()]
        assert len(matches) == 600
        assert [matches.count(f"q{least}") for least in (20, 40, 60, 80)] == [240, 180, 120, 60]
        catalog = engine.home.catalog
        with catalog.read() as connection:
            paths = held_state(engine.home, connection).paths("witness")
        held = pa.concat_tables([rows_of_run(open_run(path)) for path in paths])
        stocks = held.filter(pc.starts_with(held.column("place"), "stocks"))
        plan = Planner(catalog, tmp_path).plan(0, 1 << 40)
        assert plan is not None
        (instance,) = plan.program.instances.values()
        joined = stocks.filter(
            pc.is_in(stocks.column("var"), pa.array([edge.key.lvar for edge in plan.program.edges.values()]))
        )
        assert joined.num_rows == 80, "one row for each stock that some query may ask for, however many do"
        assert len(instance.groups) == 4


def test_g12_a_thousand_thresholds_are_one_list(tmp_path: Path) -> None:
    texts = {f"q{c}": f"S[./v > {c}][./k->q] JOIN {{q = p, 1 h}} {PARTNER}" for c in range(1024)}
    queries = {name: compiled(text, FACTS) for name, text in texts.items()}
    engine = LocalEngine(tmp_path, queries)
    guards = engine.live_program.guards
    assert len(guards.compared) == 1, "one number of each row is compared"
    assert len(guards.facts_read) == 0
    assert len(engine.live_program.instances) == 1
    engine.run([Doc("T", "t", S, "<t>x</t>")])
    for value, count in (("700.5", 701), ("700", 700)):
        before = sum(told(engine, name) for name in texts)
        engine.run([row("S", value, v=value, k="x")])
        assert sum(told(engine, name) for name in texts) - before == count
