"""What a query's blocks find when it is tried on a document, against the oracle."""

from __future__ import annotations

from budget import examples
from hypothesis import HealthCheck, given, settings
from oracle.evaluate import Doc, witnesses
from strategies import NAMESPACES, one_block_queries, small_documents

from xscl.answers.try_query import RESULT, DryRun
from xscl.base.safe_xml import parse_xml
from xscl.base.types import Event
from xscl.catalog.records import QueryInfo
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.xpath.nodes import NodeNumbers


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(one_block_queries(channels=["S"]), small_documents())
def test_a_trial_finds_the_witnesses(text: str, xml: str) -> None:
    info = QueryInfo(1, "Q", text, NAMESPACES, 1, "t", "", {}, 1, 2, 0, None, "NOW", 1, None, None, None)
    dry_run = DryRun(info, {})
    found = list(dry_run.witnesses([Event("S", "d", xml=xml)]))
    bound = [{name: b.node for name, b in witness.bindings.items()} for witness in found]
    assert len({tuple(row.items()) for row in bound}) == len(bound), "each once"
    variables = {tuple(sorted((name, node) for name, node in row.items() if name != RESULT)) for row in bound}
    (block,) = ast.blocks(parse_query(text).source)
    root = parse_xml(xml)
    expected = witnesses(block, Doc("S", "d", 0, xml), namespaces=NAMESPACES)
    numbers = NodeNumbers(root)
    assert variables == {tuple(sorted((name, numbers.locator(node)) for name, node in row.items())) for row in expected}
