"""Joins of two to four blocks: the engine's kernels and the statements of templates against the oracle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from both_sides import Engine, channel_facts
from budget import THOROUGH, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_engine import UnitsEngine, compiled
from oracle.evaluate import Answer, Doc, answers, rout
from sqlite_relations import joined_columns, load, statement_rows
from strategies import (
    CHANNELS,
    NAMESPACES,
    NUMERIC,
    TEXTS,
    Dice,
    many_block_query,
    many_block_workloads,
    plain_stream,
    row_stream,
)

from xscl.base.errors import QueryError
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query

CONSTRUCTORS = hasattr(ast, "Constructor")
FACTS = channel_facts(NUMERIC, TEXTS)
KINDS = ("documents", "rows")
DRIVERS: tuple[dict[str, int], ...] = (
    {},
    {"pair_limit": 4},
    {"pair_limit": -1, "hashes": 5},
)
"""Sizes that change no answer."""


def workload(kind: str, choose: Dice, queries: int, *, halves: bool = False) -> tuple[list[str], list[Doc]]:
    """Distinct queries and documents of one kind."""
    if kind == "documents":
        channels, docs = CHANNELS, plain_stream(choose, late=True)
    else:
        channels, docs = ("R", "Q", "R", "Q", "S"), row_stream(choose, least=16, most=22)
    texts = {many_block_query(choose, channels, halves=halves, constructors=CONSTRUCTORS): None for _ in range(queries)}
    return list(texts), docs


def expected_answers(texts: Sequence[str], docs: Sequence[Doc]) -> dict[str, set[Answer]]:
    """Answers by the oracle of the queries that can be registered; those whose times have no solution have none."""
    found = {}
    for text in texts:
        answer = answers(parse_query(text), docs, numeric=NUMERIC, texts=TEXTS, namespaces=NAMESPACES)
        try:
            compiled(text, FACTS)
        except QueryError as error:
            assert error.condition == "XSCL_UNSATISFIABLE_WINDOW", (text, error)
            assert not answer, text
        else:
            found[text] = answer
    return found


def cut(docs: Sequence[Doc], places: Sequence[int]) -> list[list[Doc]]:
    ends = sorted({0, len(docs), *(place % (len(docs) + 1) for place in places)})
    return [list(docs[a:b]) for a, b in pairwise(ends)]


def check(
    expected: Mapping[str, set[Answer]],
    batches: Sequence[Sequence[Doc]],
    folder: Path,
    note: object,
    seed: int = 0,
    driver: Mapping[str, int] = DRIVERS[0],
) -> None:
    """All queries in one run of each engine; the twins themselves refuse a match emitted twice."""
    queries = {text: text for text in expected}
    for engine in (Engine(folder, NUMERIC, TEXTS, seed), Engine(folder, NUMERIC, TEXTS, driver=driver)):
        *_, found = engine.ask(queries, batches)
        for text, answer in expected.items():
            assert found[text] == answer, (text, note, engine.driver)


@pytest.mark.parametrize("kind", KINDS)
def test_many_blocks_in_several_cuts(kind: str, tmp_path: Path) -> None:
    matches: Counter[int] = Counter()
    refused = 0
    for seed in range(7, 7 + examples(60)):  # from where few examples find matches of each number of blocks
        choose = Dice(seed)
        texts, docs = workload(kind, choose, 8)
        expected = expected_answers(texts, docs)
        refused += len(texts) - len(expected)
        for text, answer in expected.items():
            matches[len(ast.blocks(parse_query(text).source))] += len(answer)
        cuts = ([], [choose.count(0, 22), choose.count(0, 22)], [choose.count(0, 22) for _ in range(8)])
        for number, places in enumerate(cuts):
            if not THOROUGH and number == seed % len(cuts):
                continue  # other seeds have it
            driver = DRIVERS[(number + seed) % len(DRIVERS)]
            check(expected, cut(docs, places), tmp_path, (seed, places), seed, driver)
    assert refused > 0 and all(matches[blocks] >= 10 for blocks in (2, 3, 4)), (refused, matches)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(found=many_block_workloads(), places=st.lists(st.integers(0, 10), max_size=3), driver=st.sampled_from(DRIVERS))
def test_many_blocks(
    found: tuple[list[str], list[Doc]],
    places: list[int],
    driver: dict[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    texts, docs = found
    batches = cut(docs, places)
    check(expected_answers(texts, docs), batches, tmp_path_factory.mktemp("engine"), places, driver=driver)


@pytest.mark.parametrize("kind", KINDS)
def test_statements_of_many_blocks(kind: str, tmp_path: Path) -> None:
    """Statements compare numbers as doubles, so these queries and rows keep to numbers that doubles hold."""
    count = 0
    for seed in range(1002, 1002 + examples(14)):
        texts, docs = workload(kind, Dice(seed), 6, halves=True)
        docs = [Doc(d.channel, d.id, d.ts, re.sub(r"\d{16}", "7", d.xml), d.late, d.item) for d in docs]
        queries = {text: compiled(text, FACTS) for text in expected_answers(texts, docs)}
        engine = UnitsEngine(tmp_path, queries)
        engine.run(docs)
        found = statement_rows(load(engine), queries, own=seed == 1002)
        ids = [doc.id for doc in docs]
        for text, query in queries.items():
            blocks = query.template.block_count
            as_ids = {(*(ids[row[i]] for i in range(blocks)), *row[blocks:]) for row in found[text]}
            assert as_ids == engine.rout(text), (text, seed)
            count += len(as_ids)
            # A path after a variable has a variable of its own, which the oracle knows nothing of.
            if all("/" not in name for name in query.joined_names):
                expected = rout(
                    parse_query(text), docs, query.joined_names, numeric=NUMERIC, texts=TEXTS, namespaces=NAMESPACES
                )
                assert joined_columns(query, found[text], ids) == expected, (text, seed)
    assert count > 25, "the workload must find something"
