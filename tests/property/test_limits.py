"""A query's answers never depend on what other queries ask, whatever limits these exceed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc
from strategies import event_streams, one_block_queries, two_block_queries

LIMITS = {
    "xscl.xpath.automaton.chains.MAX_CHAIN_ENTRIES": (1, 3, 8, 30),
    "xscl.xpath.automaton.chains.MAX_VALUE_CHARACTERS": (5, 20, 100),
    "xscl.xpath.automaton.walk.MAX_WAYS": (2, 8, 100),
    "xscl.templates.joins.solve.MAX_MATCHES": (1, 2, 5),
    "xscl.templates.joins.solve.MAX_ROUT": (1, 2, 5),
    "xscl.templates.joins.solve.MAX_STEPS": (5, 20, 100),
    "xscl.templates.many_blocks.once.MAX_MATCHES": (1, 2),
    "xscl.templates.joins.verify.MAX_COMPARED": (1, 4),
    "xscl.templates.joins.matched_edges.MAX_MATCHED": (1, 2),
}
GREEDY = (
    "SELECT o FROM {left}//*[.//*->v]//*->o JOIN {{v = w, 9 s}} {right}//*[.//*->w]",
    "SELECT v, w FROM {left}//*[.//*->v] JOIN {{v = w, 9 s}} {right}//*[.//*->w]",
    "{left}//*//*//*->v JOIN {{v = w AND v != w, 9 s}} {right}//*->w",
    "{left}//*->v",
)


@pytest.mark.parametrize("engine_type", [UnitsEngine, LocalEngine])
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(one_block_queries() | two_block_queries(), min_size=1, max_size=3, unique=True),
    docs=event_streams(),
    places=st.lists(st.integers(0, 20), max_size=2),
    data=st.data(),
)
def test_a_greedy_query_costs_no_other_its_answers(
    texts: list[str],
    docs: list[Doc],
    places: list[int],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    engine_type: type[UnitsEngine],
) -> None:
    left, right = (data.draw(st.sampled_from(sorted({doc.channel for doc in docs}))) for _ in "lr")
    greedy = data.draw(st.sampled_from(GREEDY)).format(left=left, right=right)
    chosen = data.draw(st.sets(st.sampled_from(sorted(LIMITS)), min_size=1))
    limits = {name: data.draw(st.sampled_from(LIMITS[name])) for name in sorted(chosen)}
    texts = [text for text in texts if text != greedy]
    ends = sorted({0, len(docs), *(place % (len(docs) + 1) for place in places)})

    def answers(asked: list[str]) -> list[object]:
        engine = engine_type(tmp_path_factory.mktemp("limits"), {text: compiled(text) for text in asked})
        with pytest.MonkeyPatch.context() as patched:
            for name, limit in limits.items():
                patched.setattr(name, limit)
            for a, b in pairwise(ends):
                engine.run(docs[a:b])
        return [(text, engine.answers(text), engine.rout(text), _refused(engine, text)) for text in texts]

    assert answers([*texts, greedy]) == answers(texts)
    assert answers([greedy, *reversed(texts)]) == answers(texts)


def _refused(engine: UnitsEngine, text: str) -> set[tuple[object, ...]]:
    """What stage 2 refused a query."""
    return {
        (*(member["place"] for member in row["members"]), row["reason"])  # type: ignore[attr-defined]
        for row in engine.results
        if row["relation"] == "refused" and engine.gid[text] in row["groups"]  # type: ignore[operator]
    }
