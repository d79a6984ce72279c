"""The engine's kernels against the oracle: random queries, random documents, random cuts into batches."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_engine import LocalEngine, compiled
from oracle.evaluate import Doc, answers
from oracle.nodes import NAMESPACES
from strategies import event_streams, one_block_queries, two_block_queries

from xscl.parser import parse_query

RELAXED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def cut(docs: list[Doc], places: list[int]) -> list[list[Doc]]:
    ends = sorted({0, len(docs), *(place % (len(docs) + 1) for place in places)})
    return [docs[a:b] for a, b in pairwise(ends)]


@RELAXED
@given(
    texts=st.lists(two_block_queries(), min_size=1, max_size=4),
    docs=event_streams(late=True),
    places=st.lists(st.integers(0, 20), max_size=3),
)
def test_two_blocks(
    texts: list[str], docs: list[Doc], places: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(texts, docs, places, tmp_path_factory.mktemp("engine"))


@RELAXED
@given(
    texts=st.lists(one_block_queries(), min_size=1, max_size=5),
    docs=event_streams(late=True),
    places=st.lists(st.integers(0, 20), max_size=3),
)
def test_one_block(
    texts: list[str], docs: list[Doc], places: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(texts, docs, places, tmp_path_factory.mktemp("engine"))


def check(texts: list[str], docs: list[Doc], places: list[int], folder: Path) -> None:
    engine = LocalEngine(folder, {text: compiled(text) for text in texts})
    for batch in cut(docs, places):
        engine.run(batch)
    for text in texts:
        assert engine.answers(text) == answers(parse_query(text), docs, namespaces={**NAMESPACES, "n": "urn:n"}), text
