"""The statement of each template on SQLite against the engine's kernels and the oracle, for random queries."""

from __future__ import annotations

from pathlib import Path

import pytest
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_engine import UnitsEngine, compiled
from oracle.evaluate import Doc, rout
from oracle.nodes import NAMESPACES
from sqlite_relations import joined_columns, load, statement_rows
from strategies import event_streams, one_block_queries, two_block_queries

from xscl.language.syntax.parser import parse_query


@settings(
    max_examples=examples(24),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    texts=st.lists(two_block_queries() | one_block_queries(), min_size=1, max_size=4, unique=True),
    docs=event_streams(late=True),
)
def test_statements_equal_the_engine(
    texts: list[str], docs: list[Doc], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("statements")
    engine = UnitsEngine(folder, {text: compiled(text) for text in texts})
    engine.run(docs)
    found = statement_rows(load(engine), engine.queries)
    ids = [doc.id for doc in docs]
    for text, query in engine.queries.items():
        count = query.template.block_count
        as_ids = {(*(ids[row[i]] for i in range(count)), *row[count:]) for row in found[text]}
        assert as_ids == engine.rout(text), text
        if query.joined_names and all(name.isidentifier() for name in query.joined_names):
            expected = rout(parse_query(text), docs, query.joined_names, namespaces={**NAMESPACES, "n": "urn:n"})
            assert joined_columns(query, found[text], ids) == expected, text


@settings(
    max_examples=examples(24),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    texts=st.lists(two_block_queries() | one_block_queries(), min_size=1, max_size=4, unique=True),
    docs=event_streams(late=True),
    draw=st.data(),
)
def test_statements_see_what_a_query_starts_with(
    texts: list[str], docs: list[Doc], draw: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    times = st.none() | st.sampled_from(sorted({doc.ts + more for doc in docs for more in (0, 1)} or {0}))
    sees = {text: draw.draw(st.tuples(st.integers(-1, len(docs)), times)) for text in texts}
    engine = UnitsEngine(tmp_path_factory.mktemp("statements"), {text: compiled(text) for text in texts})
    engine.run(docs)
    found = statement_rows(load(engine), engine.queries, sees, own=True)
    for text, query in engine.queries.items():
        if query.joined_names and all(name.isidentifier() for name in query.joined_names):
            after, since = sees[text]
            seen = [doc for doc in docs[after + 1 :] if since is None or doc.ts >= since]
            expected = rout(parse_query(text), seen, query.joined_names, namespaces={**NAMESPACES, "n": "urn:n"})
            assert joined_columns(query, found[text], [doc.id for doc in docs]) == expected, (text, sees[text])
