"""Plans of registered queries: operators told from texts, and plans as rows, text and graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
from xscl import Engine, EngineError
from xscl.answers.explaining.plan import plan_rows, query_plan
from xscl.templates.statements.picture import GraphFormat

PAIRS = "cpu->x[./load < {}][./pid->p] FOLLOWED BY {{p = q, {}}} cpu->y[./load > 70][./pid->q]"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as engine:
        yield engine


def facts(engine: Engine, rules: str = "all") -> list[tuple[str, str | None, tuple[str, ...], int]]:
    return [(r["text"], r["rule"], tuple(r["inputs"]), r["streams"]) for r in engine.plan(rules=rules).rows()]


def test_joins_that_differ_in_windows_and_conditions_are_one(engine: Engine) -> None:
    engine.register(PAIRS.format(20, "5 min"), name="low")
    engine.register(PAIRS.format(10, "10 min"), name="lower")
    assert facts(engine) == [
        ("index load < {10, 20}; load > 70", "s_σ", ("cpu",), 3),
        ("followed by pid = pid within {10 min, 5 min}", "c_⋈", ("m1",), 2),
    ]
    assert [len(facts(engine, rules)) for rules in ("none", "s", "all")] == [6, 3, 2]
    assert [row["queries"] for row in engine.plan("lower").rows()] == [1, 1]


def test_words_that_are_no_variables_stay(engine: Engine) -> None:
    engine.register(
        "a->x[./k->s][./n->lower] FOLLOWED BY {lower(s) = t/lower AND lower > 2, 1 s..2 min} b->y[./m->t]", name="q"
    )
    assert facts(engine)[-1][0] == "FOLLOWED BY {lower(k) = m/lower AND n > 2, 1 s..2 min}"


def test_joins_in_parentheses_are_told_too(engine: Engine) -> None:
    inner = "(b->y[./k->q] JOIN {{q = r, {}}} c->z[./k->r])"
    for window in ("2 h", "3 h"):
        engine.register("a->x[./k->p] FOLLOWED BY {p = q, 1 h} " + inner.format(window))
    (join,) = [each for each in engine.plan().mops if each.kind == "join"]
    assert [each.text for each in join.operators] == [
        "FOLLOWED BY {k = k, 1 h} (JOIN {k = k, 2 h})",
        "FOLLOWED BY {k = k, 1 h} (JOIN {k = k, 3 h})",
    ]


def test_joins_of_one_m_op_are_one_instance(engine: Engine) -> None:
    texts = [PAIRS.format(20, "5 min"), PAIRS.format(10, "1 h"), PAIRS.format(10, "1 h").replace("p = q", "p != q")]
    for text in texts:
        engine.register(text)
    joins = [each for each in engine.plan().mops if each.kind == "join"]
    with engine.home.catalog.read() as connection:
        from xscl.catalog.tables import INSTANCES

        stored = {row.key for row in connection.execute(INSTANCES.select())}
    assert {operator.shape for each in joins for operator in each.operators} == stored
    assert sorted(len(each.operators) for each in joins) == [1, 2]


def test_windows_over_the_same_matches_are_one(engine: Engine) -> None:
    for text in (
        "SELECT p, avg(l) AS load FROM cpu[./pid->p][./load->l] WINDOW 5 s GROUP BY p",
        "SELECT p, avg(l) AS load FROM cpu[./pid->p][./load->l] WINDOW 5 s GROUP BY p HAVING avg(l) > 70",
        "SELECT p, avg(l) AS load FROM cpu[./pid->p][./load->l] WINDOW 5 s GROUP BY p HAVING avg(l) > 80",
        "SELECT p, max(l) AS load FROM cpu[./pid->p][./load->l] WINDOW 1 min EVERY 10 s GROUP BY p PUBLISH loads",
    ):
        engine.register(text)
    alpha, having = engine.plan().mops
    assert (alpha.rule, alpha.inputs, len(alpha.operators), alpha.streams) == ("s_α", ("cpu",), 4, 2)
    assert having.rule == "s_σ"
    assert engine.plan().rows()[0]["publishes"] == ["loads"]
    assert [row["text"] for row in engine.plan().rows()][1] == "index avg(load) > {70, 80}"


def test_operators_of_queries_in_parentheses(engine: Engine) -> None:
    """Who comes at another place has a stream of its own; one m-op makes both."""
    inner = "(SELECT v AS w FROM (SELECT l AS v FROM cpu[./load->l])[./v > {}][./v->v])"
    for name, least in (("q", 1), ("copy", 1), ("other", 2)):
        engine.register(f"{inner.format(least)}[./w->x] JOIN {{x = y, 1 h}} disk[./load->y]", name=name)
    assert facts(engine) == [
        ("every event", "s_σ", ("cpu",), 1),
        ("index v > {1, 2}", "s_σ", ("m1",), 2),
        ("join w = load within 1 h", "s_⋈", ("m2", "disk"), 1),
        ("join w = load within 1 h", None, ("m2", "disk"), 1),
    ]
    engine.ingest([xscl.Event("cpu", "1", 1, xml="<e/>")])
    engine.register(f"{inner.format(1)}[./w->x] JOIN {{x = y, 1 h}} disk[./load->y]", name="later")
    assert [row[1:] for row in facts(engine)] == [
        ("s_σ", ("cpu",), 2),
        ("s_σ", ("m1",), 2),
        (None, ("m1",), 1),
        ("s_⋈", ("m2", "disk"), 1),
        (None, ("m3", "disk"), 1),
        (None, ("m2", "disk"), 1),
    ]
    assert [len(facts(engine, rules)) for rules in ("none", "s")] == [12, 6]
    with engine.home.catalog.read() as connection:
        assert len(plan_rows(connection)) == 6
    assert engine.plan("xscl.sub.*").queries == 5


def test_absence_and_steps(engine: Engine) -> None:
    engine.register("orders/order/no->x NOT FOLLOWED BY {x = y, 30 min} payments/payment/no->y", name="unpaid")
    step = "cpu[./load->a][./pid->p] NEXT {p = q} cpu[./load->b][./pid->q] FILTER {b > 1.5 * a}"
    engine.register(step, name="rises")
    engine.register(step, name="too")
    rows = engine.plan().rows()
    assert [(row["kind"], row["rule"]) for row in rows] == [
        ("next", "s_;"),
        ("select", None),
        ("select", None),
        ("select", "s_σ"),
        ("join", None),
        ("absence", None),
    ]
    assert rows[0]["text"] == "next pid = pid" and rows[3]["text"] == "index load > 1.5 * load"


def test_a_plan_as_text_and_graphs(engine: Engine) -> None:
    engine.register(PAIRS.replace("<", "=").format("'<\"&'", "5 min"), name="odd")
    found = query_plan(engine.home.catalog, "o*")
    assert found.text().splitlines()[-1] == "2 m-ops for 3 operators of 1 query"
    dot = found.graph(GraphFormat.dot)
    assert dot.startswith("digraph plan {") and '\\"' in dot and '  m1 -> m2 [label="C"];' in dot
    assert "&lt;&quot;&amp;" in found.graph(GraphFormat.mermaid)
    with engine.home.catalog.read() as connection:
        assert plan_rows(connection)[1]["inputs"] == "m1"


def test_an_unknown_rule_and_too_many_queries_are_refused(engine: Engine) -> None:
    with pytest.raises(EngineError) as refused:
        engine.plan(rules="s,s_nothing")
    assert refused.value.condition == "XSCL_BAD_OPTION" and "s_select" in str(refused.value.hint)
    engine.register(PAIRS.format(20, "5 min"))
    with pytest.raises(EngineError, match="XSCL_PLAN_LIMIT"):
        query_plan(engine.home.catalog, most=0)
