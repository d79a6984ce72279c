"""Channels with streams: blocks that name channels and streams, over events that several streams share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from local_engine import DriverEngine, LocalEngine, compiled
from oracle.evaluate import Doc, answers, rout
from oracle.nodes import NAMESPACES
from sqlite_relations import joined_columns, load, statement_rows
from strategies import Dice, many_block_query, plain_stream

from xscl.base.errors import QueryError
from xscl.language.compile import ChannelFacts
from xscl.language.parser import parse_query

STREAMS = {"A": 1, "B": 2, "C": 3}
"""All of channel S; what is read beside it is channel T."""
FACTS = {name: ChannelFacts(channel="S", stream=number) for name, number in STREAMS.items()}
SPACES = {**NAMESPACES, "n": "urn:n"}


def with_copies(choose: Dice, docs: Sequence[Doc]) -> list[Doc]:
    """The documents of S as events of streams, some with copies that come by another stream later."""
    found: list[Doc] = []
    waiting: list[Doc] = []
    for doc in docs:
        if doc.channel == "S":
            names = [name for name in sorted(STREAMS) if choose.chance(50)]
            first = tuple(names[: choose.count(0, len(names))])
            # Copies are of one item with the event, like versions.
            doc = replace(doc, streams=first, item=doc.item or f"item of {doc.id}")
            late = [replace(doc, streams=(name,), whole=False, late=choose.chance(10)) for name in names[len(first) :]]
            waiting += late if first else []
        found.append(doc)
        while waiting and choose.chance(40):
            found.append(waiting.pop(choose.count(0, len(waiting) - 1)))
    return found + waiting


def workload(seed: int) -> tuple[list[str], list[Doc], list[list[Doc]]]:
    choose = Dice(seed)
    docs = with_copies(choose, plain_stream(choose, 8, 12, late=True))
    texts = {many_block_query(choose, ("A", "B", "C", "S", "A", "T"), least=1, most=3): None for _ in range(4)}
    ends = sorted({0, len(docs), *(choose.count(0, len(docs)) for _ in range(2))})
    return list(texts), docs, [docs[a:b] for a, b in pairwise(ends)]


@pytest.mark.parametrize("seed", range(60))
def test_blocks_name_channels_and_streams(seed: int, tmp_path: Path) -> None:
    texts, docs, batches = workload(seed)
    queries = {}
    for text in texts:
        try:
            queries[text] = compiled(text, FACTS)
        except QueryError as error:
            assert error.condition == "XSCL_UNSATISFIABLE_WINDOW", (text, error)
    sizes = ({}, {"cache_bytes": 0, "pair_limit": -1, "hashes": 3, "forgetful": True}, {"cache_bytes": 2_000})
    choose = Dice(-seed)
    engines = [
        LocalEngine(tmp_path, queries, unselective=choose.one(0, -1, 5), streams=STREAMS),
        *(DriverEngine(tmp_path, queries, streams=STREAMS, **size) for size in (sizes[choose.count(0, 2)],)),
    ]
    expected = {text: answers(parse_query(text), docs, namespaces=SPACES) for text in queries}
    for engine in engines:
        for batch in batches:
            engine.run(batch)
        for text in queries:
            assert engine.answers(text) == expected[text], (text, type(engine))
    statements = statement_rows(load(engines[0]), queries)
    ids = [doc.id for doc in docs]
    for text, query in queries.items():
        if query.joined_names:
            found = joined_columns(query, statements[text], ids)
            assert found == rout(parse_query(text), docs, query.joined_names, namespaces=SPACES), text


def test_some_answers_need_streams() -> None:
    """What the test above compares is not empty, and depends on streams."""
    found = depends = 0
    for seed in range(60):
        texts, docs, _ = workload(seed)
        for text in texts:
            answer = answers(parse_query(text), docs, namespaces=SPACES)
            everywhere = [replace(doc, streams=tuple(STREAMS)) for doc in docs if doc.whole and doc.channel == "S"]
            others = [doc for doc in docs if doc.channel != "S"]
            whole = answers(parse_query(text), [*everywhere, *others], namespaces=SPACES)
            found += bool(answer)
            depends += answer != whole
    assert found > 30 and depends > 10
