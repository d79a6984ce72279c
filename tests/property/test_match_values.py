"""The values of a match's variables: those of one witness, by the oracle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest
from budget import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracle.evaluate import Doc, Row, bindings_rows, selected_variables
from oracle.nodes import NAMESPACES, Node, parse
from strategies import event_streams, one_block_queries, two_block_queries

from xscl.base.safe_xml import parse_xml
from xscl.batches.match_documents import MatchOutput, Wanted, match_outputs, shown_of
from xscl.catalog.records import QueryInfo
from xscl.language import block_patterns
from xscl.language.block_patterns import block_pattern, one_assignment
from xscl.language.compile import compile_query
from xscl.language.normalize import normalize
from xscl.language.query_rows import names_json
from xscl.language.syntax.parser import parse_query
from xscl.store.results import StoredMatch
from xscl.xpath.conditions.condition import Memo
from xscl.xpath.nodes import DocumentNode, node_at

KNOWN = {**NAMESPACES, "n": "urn:n"}
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def query_info(text: str) -> QueryInfo:
    compiled = compile_query(parse_query(text), text, namespaces=KNOWN)
    names = json.loads(names_json(compiled))
    return QueryInfo(1, "Q", text, KNOWN, 1, "t", "", names, 1, 2, 0, None, "NOW", 1, None, None, None)


def every(document: Node) -> Iterator[Node]:
    for node in document.branch():
        yield from (node, *node.attributes)


def shown(info: QueryInfo, row: Row, contents: dict[int, str]) -> MatchOutput:
    """A stored match of these nodes, as it is listed."""
    selected = selected_variables(parse_query(info.text).select)
    nodes = (*row.results, *(row.nodes[name] for name in selected))
    # A witness has nodes without a name as well, for which the oracle has no number.
    witness = tuple(row.nodes.get(name or "", -1) for name in info.names["meta"])
    match = StoredMatch(tuple(contents), nodes, witness, frozenset(), None, 0, 1)
    (found,) = match_outputs([Wanted(info, shown_of(info, {}), match)], contents)
    return found


@RELAXED
@given(st.one_of(one_block_queries(), two_block_queries()), event_streams(), st.randoms(use_true_random=False))
def test_values_are_those_of_one_witness(text: str, docs: Sequence[Doc], random: object) -> None:
    info = query_info(text)
    # The oracle gives no node for a path behind a variable (``x//a = y``).
    assume(not any("/" in (name or "") for name in info.names["meta"]))
    rows = list(bindings_rows(parse_query(text), docs, namespaces=KNOWN))
    assume(rows)
    row = random.choice(rows)  # type: ignore[attr-defined]
    contents = {number: doc.xml for number, doc in enumerate(row.docs)}
    trees = [{node.id: node.string() for node in every(parse(xml))} for xml in contents.values()]
    found = shown(info, row, contents)
    variables = shown_of(info, {}).variables
    assert set(row.nodes) <= set(found.values) == set(variables)
    fixed = {name for name in (*info.names["meta"], *info.names["results"]) if name in row.nodes}

    def values(other: Row) -> dict[str, str]:
        return {name: trees[variables[name][0]][node] for name, node in other.nodes.items()}

    mine = {name: found.values[name] for name in row.nodes}
    like = [r for r in rows if r.docs == row.docs and r.results == row.results]
    assert mine in [values(r) for r in like if all(r.nodes[name] == row.nodes[name] for name in fixed)]


def test_variables_of_other_items_are_not_mixed_in() -> None:
    text = "S/rss//item->i[./guid->g][./title->t][./author->a] FOLLOWED BY {g = h, 1 h} S//item[./guid->h][./@n->n]"
    items = "".join(f"<item n='{n}'><guid>{n}</guid><title>T{n}</title><author>A</author></item>" for n in range(3))
    xml = f"<rss><channel>{items}</channel></rss>"
    docs = [Doc("S", "a", 0, xml), Doc("S", "b", 1_000_000, xml)]
    rows = [row for row in bindings_rows(parse_query(text), docs) if row.docs == tuple(docs)]
    found = [shown(query_info(text), row, {0: xml, 1: xml}).values for row in rows]
    assert [list(values) for values in found] == [["i", "g", "t", "a", "h", "n"]] * 3
    assert sorted((v["g"], v["t"], v["h"], v["n"]) for v in found) == [
        (str(n), f"T{n}", str(n), str(n)) for n in range(3)
    ]


def test_matches_that_name_all_variables_walk_no_document() -> None:
    assert shown_of(query_info("S//a->x[./b->y] JOIN {y = z, 1 h} S//c->z"), {}).patterns == {}
    assert set(shown_of(query_info("S//a->x[./b->y][./d->u] JOIN {y = z, 1 h} S//c->z"), {}).patterns) == {0}


def test_steps_tried_grow_with_the_pattern_and_the_depth_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested elements of one name have thousands of assignments; each node of the pattern tries each of them once."""
    depth, steps = 60, 6
    text = f"S{'//a' * steps}->x[./b->y]"
    root = parse_xml("<a>" * depth + "<b>1</b><c><b>2</b></c>" + "</a>" * depth)
    normal = normalize(parse_query(text), text)
    block, y = normal.variables["y"]
    pattern = block_pattern(normal, block, {}, [node for _, node in normal.variables.values()])
    asked = []
    select = block_patterns.select
    monkeypatch.setattr(block_patterns, "select", lambda *given: asked.append(1) or select(*given))
    found = one_assignment(pattern, DocumentNode(root), Memo(), {y: node_at(root, depth)})
    assert found is not None and found[normal.variables["x"][1]] == node_at(root, depth - 1)
    assert len(asked) <= (depth + 1) * (steps + 1)
