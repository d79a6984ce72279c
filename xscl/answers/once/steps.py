"""Answers of steps over matches of parts that were found once in held events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xscl.base.docids import place_of
from xscl.base.errors import XsclError
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.base.types import LAST_TIME, Match, MatchEvent, MatchSource
from xscl.batches.deciding.made_answers import MEMBER_COLUMNS, member_names
from xscl.batches.deciding.step_parts import remembered, versions_of, with_replayed
from xscl.batches.steps.documents import step_documents, step_values
from xscl.batches.steps.matches import answer_nodes, part_rows
from xscl.batches.steps.rows import Layout, Rows, layout_of, of_members
from xscl.batches.steps.tree import Tree
from xscl.batches.windows.answers import Frontier
from xscl.batches.windows.rows import Found, in_order, members_of, rows_of
from xscl.catalog.channels import read_channels
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import NEVER
from xscl.language.facts import ANSWERS
from xscl.language.outlines.steps import known_steps
from xscl.language.steps.terms import StepsDefinition
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.results import StoredMatch, answer_id, match_id
from xscl.templates.sequences.fold_rounds import MOST_INSTANCES, MOST_ROUNDS

__all__ = ["Stepped"]

_NEVER = -(1 << 62)


class Stepped:
    """Answers of a query with steps, as if nothing came any more."""

    def __init__(self, home: Home, info: QueryInfo, parts: Sequence[Sequence[StoredMatch]], memory: int | None) -> None:
        """Decide them.

        Args:
            home: the home.
            info: the query.
            parts: matches of its parts.
            memory: how far behind their clocks events may have come, in microseconds; None: as far as the lateness.
        """
        self.home, self.info = home, info
        self.definition: StepsDefinition = known_steps(info.text, tuple(sorted(info.namespaces.items())))
        self.layout: Layout = layout_of(self.definition)
        rows, versions = list[Rows](), dict[int, int]()
        for number, found in enumerate(parts):
            of, newer = _rows(home, self.definition, self.layout, number, found, memory)
            rows.append(of)
            versions |= newer
        last = max((int(place_of(doc)) for found in parts for match in found for doc in match.docids), default=0)
        settled = Frontier(_NEVER, np.array([last]), np.array([LAST_TIME + 1]))
        tree = Tree(self.layout, self.definition.root, [settled] * len(rows), {}, versions=versions)
        self.rows = of_members(tree.move(rows), self.layout, self.definition)
        self.cut = sum(map(len, tree.too_long))
        """Number of runs that were cut off."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on runs that were cut off."""
        limits = f"{MOST_ROUNDS:,} iterations or matches at once of one run, {MOST_INSTANCES:,} of all"
        return (f"runs from {self.cut:,} events end early: {limits}",) * bool(self.cut)

    def matches(self) -> list[StoredMatch]:
        """Return answers that are matches of the events, each once."""
        found = {}
        nodes = map(tuple, answer_nodes(self.definition, self.layout, self.rows).tolist())
        later = (self.rows.ts - self.rows.times.max(axis=1)).tolist() if len(self.rows) else []
        for docs, node, behind in zip(map(tuple, self.rows.docs.tolist()), nodes, later, strict=True):
            found[docs, node] = StoredMatch(docs, node, (), frozenset(), None, behind, 0)
        return list(found.values())

    def made(self, key: str) -> Iterator[Match | XsclError]:
        """Yield answers that are documents of their own, or why one is none; ``key`` is what its group asks for."""
        order = np.lexsort((np.arange(len(self.rows)), self.rows.ts)).tolist()
        asked = self.definition, self.layout, self.rows, order
        documents, told = in_fresh_dictionary(step_documents, *asked), step_values(*asked)
        nodes, docs = answer_nodes(self.definition, self.layout, self.rows).tolist(), self.rows.docs.tolist()
        members = member_names(events_of(self.home, np.unique(self.rows.docs), MEMBER_COLUMNS))
        seen = set()
        for at, document, values in zip(order, documents, told, strict=True):
            if isinstance(document, XsclError):
                yield document
                continue
            names = (members.get(doc, (str(doc), 0))[0] for doc in docs[at])
            id_ = answer_id(key, int(self.rows.ts[at]), (*names, repr(nodes[at])), document)
            if id_ not in seen:
                seen.add(id_)
                values = values if self.definition.element is None else {}
                yield _match(self.info, id_, int(self.rows.ts[at]), values, document)


def _rows(
    home: Home,
    definition: StepsDefinition,
    layout: Layout,
    number: int,
    found: Sequence[StoredMatch],
    memory: int | None,
) -> tuple[Rows, dict[int, int]]:
    """Return the matches of a part as rows, of events that came in time for a memory, and versions among these."""
    if not found:
        return Rows.empty(layout), {}
    with home.catalog.read() as connection:
        channels = read_channels(connection)
    docs = np.array([match.docids for match in found], dtype=np.int64)
    nodes = np.array([match.nodes for match in found], dtype=np.int64)
    whole = Found(docs, nodes, definition.parts[number].blocks)
    events = with_replayed(home, members_of(home, [whole]), NEVER)
    rows = part_rows(definition, layout, number, in_order(rows_of(whole, events, channels)), events)
    blocks, _ = layout.of_parts(frozenset([number]))
    return rows.take(remembered(rows.docs[:, blocks], events, memory)), versions_of(events)


def _match(info: QueryInfo, id_: str, ts: int, values: dict[str, str], document: str) -> Match:
    return Match(
        match_id(info.digest, [(ANSWERS, id_)], (0,)),
        info.name,
        ts,
        (MatchEvent(ANSWERS, id_, ts),),
        {},
        values,
        document,
        source=MatchSource((document,), (0,), False),
    )
