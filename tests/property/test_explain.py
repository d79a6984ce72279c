"""Random queries, shown and explained: what is shown is the same query in another home."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.evaluate import Doc
from strategies import many_block_workloads, one_block_queries, query_texts

from xscl.answers.explaining.explain import explain
from xscl.answers.explaining.text import explanation_text
from xscl.catalog.queries import read_query
from xscl.registry.canonical_text import canonical_text
from xscl.registry.registry import Registry
from xscl.store.home import init_home


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(many_block_workloads(), st.lists(st.one_of(one_block_queries(), query_texts()), max_size=5))
def test_what_is_shown_is_the_same_query_elsewhere(workload: tuple[list[str], list[Doc]], others: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        here, there = (init_home(Path(folder) / name).catalog for name in ("here", "there"))
        outcomes = Registry(here).register_many([*workload[0], *others])
        names = [str(outcome.name) for outcome in outcomes if outcome.ok]
        shown = [canonical_text(here.ask(read_query, name)) for name in names]
        assert all(outcome.ok for outcome in Registry(there).load("\n".join(shown)))
        for name, text in zip(names, shown, strict=True):
            mine, theirs = explain(here, name), explain(there, name)
            # Numbers of places and groups count what else was registered.
            assert replace(mine, place=0, group=0) == replace(theirs, place=0, group=0, text=mine.text)
            assert mine.canonical == text and text in explanation_text(mine)
        here.close()
        there.close()
