"""The bench of stage 1, at a size that takes little time."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa
import pytest
from lxml import etree

from xscl.base.arrow_schemas import REFUSED, WITNESS_SCHEMA
from xscl.base.errors import EngineError
from xscl.bench import matching
from xscl.bench.bench import Options, run_bench
from xscl.bench.grammar import CHANNEL, block_spec, documents, patterns, random_grammar
from xscl.bench.matching import block_paths, event_batches, feed_items, matched, selected, xpath_of
from xscl.bench.stage1 import BENCH
from xscl.bench.workload import FEED_ITEMS, thesis_queries
from xscl.xpath.automaton.automaton import Automaton

FIGURES = {
    "parse_us_per_doc", "stage1_us_per_doc", "ratio_to_parse", "ratio_to_parse_1k_queries",
    "growth_1k_to_100k_queries", "growth_10_to_100k_queries", "xpath_us_per_doc", "speedup_over_xpath_per_query",
    "distinct_queries", "mean_item_bytes", "witnesses_per_item", "first_batch_us_per_item", "distinct_patterns",
    "mean_matched_patterns", "witnesses_per_doc", "us_per_witness", "patterns_parse_us_per_doc",
    "patterns_stage1_us_per_doc", "patterns_allowed_us_per_doc", "patterns_ratio_to_allowed",
    "patterns_documents_per_s", "patterns_first_batch_us_per_doc", "patterns_unseen_us_per_doc",
    "patterns_unseen_ratio_to_allowed", "patterns_speedup_over_xpath", "mean_document_bytes", "node_visits_per_doc",
    "growth_of_node_visits", "build_s", "add_1000_ms", "remove_1000_ms", "batch_after_add", "batch_after_remove",
    "load_s", "automaton_rss_bytes", "warm_rss_bytes", "peak_rss_bytes", "automaton_bytes", "automaton_states",
    "automaton_moves", "digest_equal",
}  # fmt: skip
UNMEASURED = {"growth_1k_to_100k_queries", "growth_10_to_100k_queries"}


@pytest.mark.usefixtures("items_of_one_feed_only")
def test_figures() -> None:
    said: list[str] = []
    report = run_bench(BENCH, Options(quick=True, queries=1200, items=12, batch=5, seed=3), said.append)
    figures = report.figures
    assert set(figures) == FIGURES
    assert {name for name, value in figures.items() if value is None} == UNMEASURED
    assert figures["digest_equal"] is True
    assert figures["distinct_patterns"] == 1200
    assert 100 < figures["distinct_queries"] < 1200
    assert 3 < figures["witnesses_per_item"] <= 5
    assert 300 < figures["mean_item_bytes"] < 10_000
    assert 1 < figures["mean_matched_patterns"] <= figures["witnesses_per_doc"]
    # Fewer patterns lead a walk into fewer elements, but 1,000 of them lead nearly everywhere.
    assert 1 <= figures["growth_of_node_visits"] < 1.1
    assert figures["automaton_states"] > 1200
    assert figures["peak_rss_bytes"] > figures["automaton_rss_bytes"]
    for name in FIGURES - UNMEASURED - {"digest_equal", "automaton_rss_bytes", "warm_rss_bytes", "us_per_witness"}:
        assert figures[name] > 0, name
    assert [(row["workload"], row["queries"]) for row in report.table] == [
        *(("feed items", count) for count in (10, 1000, 1200)),
        *(("distinct", count) for count in (1000, 1200)),
    ]
    assert {len(points) for points in report.plots[0].lines.values()} == {3, 2}
    assert report.settings["item_batch"] == 5
    assert said


def test_feed_items_are_those_of_the_intake() -> None:
    found = feed_items(7, seed=1)
    assert len(found) == 7
    assert found == feed_items(9, seed=1)[:7] != feed_items(7, seed=2)
    fields = {child.tag for text in found for child in etree.fromstring(text)}
    assert {leaf for (leaf,) in FEED_ITEMS.leaves} <= fields
    many = feed_items(12_000, seed=1)
    assert len(many) == 12_000 > len(set(many)) > 5_000


def test_batches_hold_every_document_once() -> None:
    batches = event_batches("S", ["<a/>", "<b/>", "<c/>"], 2)
    assert [batch.num_rows for batch in batches] == [2, 1]
    table = pa.Table.from_batches(batches)
    assert table["docid"].to_pylist() == [1, 2, 3]
    assert table["content"].to_pylist() == ["<a/>", "<b/>", "<c/>"]


def test_blocks_as_xpath() -> None:
    item = etree.fromstring("<item><title>x</title><description>y</description></item>")
    for _, text in thesis_queries(FEED_ITEMS, 200):
        left, right = block_paths(text)
        for path, side in ((left, "v"), (right, "w")):
            # One bracket a value join, and the item only where all the fields are there.
            assert path.count("[./") == text.count(" = ")
            assert f"->{side}0" in text
            fields = {field for (field,) in FEED_ITEMS.leaves if f"./{field}]" in path}
            assert etree.XPath(path)(item) == ([item] if fields <= {"title", "description"} else [])


def test_lxml_selects_the_same_nodes_and_a_difference_is_seen() -> None:
    grammar = random_grammar(4)
    walks = list(islice(patterns(grammar, seed=4), 500))
    texts = list(islice(documents(grammar, seed=4), 4))
    expected, seconds = xpath_of(walks, texts)
    assert seconds > 0
    batches = event_batches(CHANNEL, texts, 3)
    machine = Automaton(map(block_spec, walks))
    assert selected(machine, batches[:1]) == {row for row in expected if row[0] <= 3} != expected
    found = matched(machine, batches)
    assert found.rows == len(expected)
    assert found.patterns == len({row[:2] for row in expected})
    matching_keys = {key for _, key, _ in expected}
    fewer = [walk for walk in walks if walk.key != min(matching_keys)]
    assert selected(Automaton(map(block_spec, fewer)), batches) < expected


def test_a_refused_document_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {**dict.fromkeys(WITNESS_SCHEMA.names), "docid": 1, "var": REFUSED, "node": 0}
    refusal = pa.RecordBatch.from_pylist([row], schema=WITNESS_SCHEMA)
    monkeypatch.setattr(matching, "witness_rows", lambda automaton, batch: iter([refusal]))
    with pytest.raises(EngineError) as caught:
        matched(Automaton([]), event_batches("S", ["<a/>"], 1))
    assert caught.value.condition == "XSCL_BENCH"
