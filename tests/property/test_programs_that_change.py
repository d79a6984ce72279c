"""Joins against the oracle while queries come and go, edges become unselective, and state is purged."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from budget import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from local_engine import LocalEngine, compiled
from oracle.evaluate import Doc, answers
from oracle.nodes import NAMESPACES
from strategies import event_streams, many_block_workloads, one_block_queries, two_block_queries

from xscl.base.errors import UnsatisfiableWindowError
from xscl.language.syntax.parser import parse_query
from xscl.templates.plans import GroupChange, LiveGroup
from xscl.templates.program import Program
from xscl.templates.retention import Floors, floors
from xscl.xpath.spec_files import SpecFiles

NEVER = 1 << 40
Span = tuple[int, int]
"""The first and the last document that a query sees."""


class ChangingEngine(LocalEngine):
    """Has the queries of a batch in its program that see some document of it."""

    def begin(self, spans: Mapping[str, Span]) -> None:
        self.spans = spans
        self.changing = Program()

    def change(self, first: int, last: int) -> None:
        """Go to the batch of these documents; drops that are still to come are not known."""
        wanted: dict[int, LiveGroup] = {}
        for name, query in self.queries.items():
            start, end = self.spans[name]
            if start <= last and end >= first:
                gid = self.gid[name]
                seen = start, (end if end <= last else NEVER)
                wanted[gid] = LiveGroup(gid, self.iid[name], query.group, *seen, query.channels)
        known = self.changing.groups
        kept = [live for gid, live in wanted.items() if gid in known]
        spans = [
            (a.gid, a.first, a.last, -1) for a in kept if (a.first, a.last) != (known[a.gid].first, known[a.gid].last)
        ]
        added = tuple(live for gid, live in wanted.items() if gid not in known)
        self.changing.change(GroupChange(tuple(gid for gid in known if gid not in wanted), added, tuple(spans)))
        specs = [s for name, query in self.queries.items() if self.gid[name] in wanted for s in query.specs]
        self.specs = str(SpecFiles(f"specs-{first}").version(specs, self.folder))

    def pass_over(self, batch: list[Doc]) -> None:
        """Documents that no query sees."""
        for doc in batch:
            versions = [
                n for n, d in enumerate(self.docs) if doc.item and (d.channel, d.item) == (doc.channel, doc.item)
            ]
            self.items.append(self.items[versions[0]] if versions else len(self.docs))
            self.docs.append(doc)

    @property
    def live_program(self) -> Program:
        return self.changing

    def _floors(self, lateness: Mapping[str, int]) -> Floors:
        newest = max(doc.ts for doc in self.docs)
        reach = self.reach.table(self.changing, len(self.docs) - 1)
        return floors(reach, {channel: newest - late for channel, late in lateness.items()})


def judged(docs: list[Doc], lateness: int | None) -> list[Doc]:
    """The same, late where they are."""
    if lateness is None:
        return docs
    found: list[Doc] = []
    for doc in docs:
        newest = max((earlier.ts for earlier in docs[: len(found)]), default=doc.ts)
        found.append(replace(doc, late=doc.ts < newest - lateness))
    return found


RELAXED = settings(
    max_examples=examples(24),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
LATENESS = st.sampled_from([None, 0, 2_000_000])


@RELAXED
@given(
    texts=st.lists(two_block_queries() | two_block_queries() | one_block_queries(), min_size=2, max_size=5),
    docs=event_streams(least=6, most=12),
    lateness=LATENESS,
    draw=st.data(),
)
def test_programs_that_change(
    texts: list[str],
    docs: list[Doc],
    lateness: int | None,
    draw: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    check(texts, judged(docs, lateness), lateness, tmp_path_factory.mktemp("engine"), draw)


@RELAXED
@given(workload=many_block_workloads(), lateness=LATENESS, draw=st.data())
def test_programs_of_many_blocks_that_change(
    workload: tuple[list[str], list[Doc]],
    lateness: int | None,
    draw: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    texts, docs = workload
    check(texts, judged(docs, lateness), lateness, tmp_path_factory.mktemp("engine"), draw)


def check(texts: list[str], docs: list[Doc], lateness: int | None, folder: Path, draw: st.DataObject) -> None:
    """Register and drop the queries anywhere and have edges found to be unselective."""
    queries = {}
    for text in texts:
        with suppress(UnsatisfiableWindowError):  # random windows may exclude each other
            query = compiled(text)
            queries[query.group.key] = text, query
    assume(queries)
    spans = {}
    for text, _ in queries.values():
        start = draw.draw(st.just(0) | st.integers(0, len(docs) - 1))
        spans[text] = start, draw.draw(st.just(NEVER) | st.integers(start, len(docs) - 1))
    engine = ChangingEngine(
        folder,
        dict(queries.values()),
        lateness=None if lateness is None else dict.fromkeys("ST", lateness),
    )
    engine.begin(spans)
    limits = []
    while len(engine.docs) < len(docs):
        first = len(engine.docs)
        batch = docs[first : first + draw.draw(st.integers(1, 3))]
        limits.append(draw.draw(st.sampled_from([-1, 0, 2, 1 << 40])))
        engine.pair_limit = limits[-1]
        engine.change(first, first + len(batch) - 1)
        if engine.changing.groups:
            engine.run(batch)
        else:
            engine.pass_over(batch)
    for text, (start, end) in spans.items():
        expected = answers(parse_query(text), docs[start : end + 1], namespaces={**NAMESPACES, "n": "urn:n"})
        assert engine.answers(text) == expected, (text, start, end, limits)
