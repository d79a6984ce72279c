"""Channels with streams: blocks that name channels and streams, over events that several streams share."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers, rout
from oracle.nodes import NAMESPACES
from sqlite_relations import joined_columns, load, statement_rows
from strategies import Dice, many_block_query, plain_stream, with_copies

from xscl.base.errors import QueryError
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query

STREAMS = {"A": 1, "B": 2, "C": 3}
"""All of channel S; what is read beside it is channel T."""
FACTS = {name: ChannelFacts(channel="S", stream=number) for name, number in STREAMS.items()}
SPACES = {**NAMESPACES, "n": "urn:n"}


def workload(seed: int) -> tuple[list[str], list[Doc], list[list[Doc]]]:
    choose = Dice(seed)
    docs = with_copies(choose, plain_stream(choose, 8, 12, late=True), sorted(STREAMS))
    texts = {many_block_query(choose, ("A", "B", "C", "S", "A", "T"), least=1, most=3): None for _ in range(4)}
    ends = sorted({0, len(docs), *(choose.count(0, len(docs)) for _ in range(2))})
    return list(texts), docs, [docs[a:b] for a, b in pairwise(ends)]


@pytest.mark.parametrize("seed", range(examples(30)))
def test_blocks_name_channels_and_streams(seed: int, tmp_path: Path) -> None:
    texts, docs, batches = workload(seed)
    queries = {}
    for text in texts:
        try:
            queries[text] = compiled(text, FACTS)
        except QueryError as error:
            assert error.condition == "XSCL_UNSATISFIABLE_WINDOW", (text, error)
    sizes = ({}, {"pair_limit": -1, "hashes": 3}, {"pair_limit": 2})
    choose = Dice(-seed)
    engines = [
        UnitsEngine(tmp_path, queries, seed=choose.one(0, -1, 5), streams=STREAMS),
        *(LocalEngine(tmp_path, queries, streams=STREAMS, **size) for size in (sizes[choose.count(0, 2)],)),
    ]
    expected = {text: answers(parse_query(text), docs, namespaces=SPACES) for text in queries}
    for engine in engines:
        for batch in batches:
            engine.run(batch)
        for text in queries:
            assert engine.answers(text) == expected[text], (text, type(engine))
    statements = statement_rows(load(engines[0]), queries, own=True)
    ids = [doc.id for doc in docs]
    for text, query in queries.items():
        if query.joined_names:
            found = joined_columns(query, statements[text], ids)
            assert found == rout(parse_query(text), docs, query.joined_names, namespaces=SPACES), text


def test_some_answers_need_streams() -> None:
    """What the test above compares is not empty, and depends on streams."""
    found = depends = 0
    for seed in range(examples(150)):
        texts, docs, _ = workload(seed)
        for text in texts:
            answer = answers(parse_query(text), docs, namespaces=SPACES)
            everywhere = [replace(doc, streams=tuple(STREAMS)) for doc in docs if doc.whole and doc.channel == "S"]
            others = [doc for doc in docs if doc.channel != "S"]
            whole = answers(parse_query(text), [*everywhere, *others], namespaces=SPACES)
            found += bool(answer)
            depends += answer != whole
    assert found > 10 and depends > 3
