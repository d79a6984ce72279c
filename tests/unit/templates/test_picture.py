"""Templates as people see them."""

from __future__ import annotations

import pytest

from xscl.language.compile import compile_query
from xscl.language.syntax.parser import parse_query
from xscl.templates.statements.picture import GraphFormat, datalog, join_graph
from xscl.templates.template import Template

Q1 = (
    "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 7 days} "
    "S//blog->x4[./author->x5][./title->x6]"
)
MIXED = "A->x[./k->k] JOIN {k != l AND m <= 2 * k} B->y[./l->l][./m->m] JOIN {y = z} C->z"


def template(text: str) -> Template:
    return compile_query(parse_query(text), text).template


def test_the_graph_as_text() -> None:
    assert join_graph(template(Q1)).splitlines() == [
        "block 1",
        "  var1",
        "    var2         e1 EQ var5",
        "    var3         e2 EQ var6",
        "block 2",
        "  var4",
        "    var5         e1 EQ var2",
        "    var6         e2 EQ var3",
    ]


@pytest.mark.parametrize("text", [Q1, MIXED, "S//a"])
def test_every_drawing_has_every_node_and_edge(text: str) -> None:
    found = template(text)
    for format_ in GraphFormat:
        drawn = join_graph(found, format_)
        for place in range(found.width):
            assert f"var{place + 1}" in drawn
        for edge, (_, _, kind) in enumerate(found.joins, start=1):
            assert f"e{edge} {kind}" in drawn
    assert join_graph(found, GraphFormat.dot).count("->") == len(found.tree_edges) + len(found.joins)
    mermaid = join_graph(found, GraphFormat.mermaid)
    assert (mermaid.count("-->"), mermaid.count("-. ")) == (len(found.tree_edges), len(found.joins))
    assert mermaid.count("subgraph") == mermaid.count("  end") == found.block_count


def test_the_rule_of_the_thesis() -> None:
    assert datalog(template(Q1)).splitlines() == [
        "R_out(qid, case, docid1, docid2, node1, node2, node3, node4, node5, node6) :-",
        "  R_T(qid, case, var1, var2, var3, var4, var5, var6, fn_l_1, fn_r_1, fn_l_2, fn_r_2, lo_1_2, hi_1_2, "
        "stream1, stream2),",
        "  R_bin(docid1, var1, var2, node1, node2),",
        "  R_bin(docid1, var1, var3, node1, node3),",
        "  R_bin(docid2, var4, var5, node4, node5),",
        "  R_bin(docid2, var4, var6, node4, node6),",
        "  R_doc(docid1, node2, fn_l_1, s1), R_doc(docid2, node5, fn_r_1, s1),",
        "  R_doc(docid1, node3, fn_l_2, s2), R_doc(docid2, node6, fn_r_2, s2),",
        "  R_docTS(docid1, ts1), R_docTS(docid2, ts2),",
        "  R_docM(docid1, stream1), R_docM(docid2, stream2),",
        "  lo_1_2 <= ts2 - ts1 <= hi_1_2.",
    ]


def test_rules_of_other_kinds_and_more_blocks() -> None:
    rule = datalog(template(MIXED))
    kinds = {kind: number for number, (_, _, kind) in enumerate(template(MIXED).joins, start=1)}
    ne, band, eq = kinds["NE"], kinds["BAND"], kinds["EQ"]
    assert f"s{ne} != t{ne}" in rule
    assert f"s{band} op_{band} f_{band} * t{band} + add_{band}" in rule and f"f_{band}, add_{band}, op_{band}" in rule
    assert rule.count(f", s{eq})") == 2 and f", t{eq})" not in rule
    assert [line for line in rule.splitlines() if "<=" in line] == [
        "  lo_1_2 <= ts2 - ts1 <= hi_1_2,",
        "  lo_1_3 <= ts3 - ts1 <= hi_1_3,",
        "  lo_2_3 <= ts3 - ts2 <= hi_2_3.",
    ]
    assert "R_bin(docid3, var5, var5, node5, node5)" in rule


def test_the_rule_of_one_block_has_no_times() -> None:
    assert datalog(template("S//a")) == (
        "R_out(qid, case, docid1, node1) :-\n  R_T(qid, case, var1, stream1),\n"
        "  R_bin(docid1, var1, var1, node1, node1),\n  R_docM(docid1, stream1)."
    )
