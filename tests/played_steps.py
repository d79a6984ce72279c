"""A random query with steps over random events: what the steps decide, and what the oracle does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
from absences import S
from oracle.absence import FOR_EVER, Asked, Intake, Terms
from oracle.evaluate import Doc, bindings_rows
from oracle.steps import _nodes, stepped
from step_queries import step_query, step_stream

from xscl.batches.steps.documents import step_values
from xscl.batches.steps.matches import answer_nodes
from xscl.batches.steps.rows import Layout, Rows, layout_of, of_members
from xscl.batches.steps.sharing import Sharing
from xscl.batches.steps.tree import Tree
from xscl.batches.windows.answers import Frontier
from xscl.language.steps.parts import parts_of
from xscl.language.steps.steps import steps_of
from xscl.language.steps.terms import Node
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.templates.sequences.lanes import FAR

Found = tuple[tuple[tuple[str, str], ...], tuple[int, ...], tuple[str, ...], int, int]
"""Members, nodes, values, time and place of an answer."""


def _versions(choose: Random, docs: Sequence[Doc]) -> Iterator[Doc]:
    """Make some documents newer versions of others of their channels."""
    items: dict[str, list[str]] = {name: [] for name in "AB"}
    for doc in docs:
        known = items[doc.channel]
        item = choose.choice(known) if known and choose.random() < 0.2 else doc.id
        known.append(item)
        yield replace(doc, item=item)


class Played:
    """A random query over random events."""

    def __init__(self, seed: int, text: str | None = None, *, with_absence: bool = False) -> None:
        choose = Random(seed)
        self.text = step_query(choose, steps=3, with_absence=with_absence)
        if text is not None:
            self.text = text
        self.query = parse_query(self.text)
        self.definition = steps_of(self.query, self.text)
        self.layout = layout_of(self.definition)
        docs = [*_versions(choose, step_stream(choose, choose.randrange(4, 18)))]
        terms = {name: Terms(choose.choice([0, 2 * S, 5 * S, None])) for name in "AB"}
        self.intake = Intake({doc: at for at, doc in enumerate(docs)}, {}, terms, ends=True)
        self.docs = [doc for doc in self.intake.judged() if not doc.late]
        self.place = {doc: self.intake.judged()[doc] for doc in self.docs}
        firsts = {doc.id: at for at, doc in enumerate(docs)}
        self.items = {place: firsts[doc.item] for doc, place in self.place.items() if doc.item is not None}
        """Item of each document, by places."""
        self.parts = [self.rows(number, part) for number, part in enumerate(parts_of(self.query))]
        self.cuts = sorted({*choose.sample(range(len(docs) + 1), 3), len(docs)})
        self.is_longest = "LONGEST" in self.text

    def rows(self, number: int, part: ast.Query) -> Rows:
        """All matches of a part."""
        names = self.definition.parts[number].names
        found = [*bindings_rows(ast.Query(part.source), self.docs)]
        rows, layout = Rows.empty(self.layout, len(found)), self.layout
        blocks = ast.blocks(part.source)
        bound = {name: at for at, block in enumerate(blocks) for name in names if self.block(number, name) == at}
        for at, row in enumerate(found):
            places = [self.place[doc] for doc in row.docs]
            rows.ts[at] = max(doc.ts for doc in row.docs)
            rows.start[at] = min(doc.ts if doc.start is None else doc.start for doc in row.docs)
            rows.place[at], rows.first[at] = max(places), min(places)
            for block, doc in enumerate(row.docs):
                rows.docs[at, layout.block(number, block)] = self.place[doc]
                rows.times[at, layout.block(number, block)] = doc.ts
                rows.nodes[at, layout.block(number, block)] = row.results[block]
            for place, name in enumerate(names):
                node = _nodes(row.docs[bound[name]].xml)[row.nodes[name]]
                rows.nodes[at, layout.blocks[-1] + layout.variable(number, place)] = node.id
                rows.texts[at, layout.variable(number, place)] = node.string()
        return rows

    def block(self, number: int, name: str) -> int:
        part = self.definition.parts[number]
        return part.blocks[part.names.index(name)]

    def frontier(self, number: int, before: int, places: Sequence[int]) -> Frontier:
        channels = self.definition.parts[number].channels
        times = [min(self.intake.settled(channel, place) for channel in channels) for place in places]
        return Frontier(before, np.array(places), np.maximum.accumulate(np.array([before, *times]))[1:])

    def play(self, cuts: Sequence[int]) -> list[Found]:
        """Decide batch by batch."""
        found = self.decided(cuts, self.parts, self.layout, self.definition.root, Sharing())
        return [self.told(rows, at) for rows in found for at in range(len(rows))]

    def decided(
        self, cuts: Sequence[int], parts: Sequence[Rows], layout: Layout, root: Node, sharing: Sharing
    ) -> Iterator[Rows]:
        """What each batch decides over the matches of parts."""
        state: dict[str, Rows] = {}
        now = [-FAR] * len(self.parts)
        versions = {place: item for place, item in self.items.items() if place != item}
        for first, last in zip([0, *cuts], [*cuts, FOR_EVER + 1], strict=True):
            ends = last > FOR_EVER
            places = [*range(first, len(self.intake.events) if ends else last), *([FOR_EVER] * ends)]
            if not places:
                continue
            frontiers = [self.frontier(number, now[number], places) for number in range(len(self.parts))]
            now = [each.now for each in frontiers]
            new = [rows.take((rows.place >= first) & (rows.place < last)) for rows in parts]
            tree = Tree(layout, root, frontiers, state, sharing, versions=versions)
            yield of_members(tree.move(new), layout, self.definition)
            state = tree.state

    def told(self, rows: Rows, at: int) -> Found:
        by_place = {place: (doc.channel, doc.id) for doc, place in self.place.items()}
        members = tuple(by_place[place] for place in rows.docs[at].tolist())
        nodes = tuple(answer_nodes(self.definition, self.layout, rows)[at].tolist())
        values = tuple(step_values(self.definition, self.layout, rows, [at])[0].values())
        if self.definition.has_values:
            nodes = nodes[: self.layout.blocks[len(self.definition.members)]]
        return members, nodes, values, int(rows.ts[at]), int(rows.place[at])

    def expected(self) -> set[Found]:
        has_values = self.definition.has_values
        return {
            (*each.answer, tuple(value for _, value in each.values) if has_values else (), each.ts, each.place)
            for each in stepped(Asked(self.query), self.intake)
        }
