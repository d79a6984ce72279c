"""Steps as this process remembers them from batch to batch: who asks for them, and which queries share them.

Nothing of it decides an answer: who asks is what the catalogue says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xscl.base.docids import place_of
from xscl.batches.ranges import BatchRange
from xscl.batches.steps.files import Member
from xscl.batches.steps.rows import Layout, layout_of, numbered_nodes
from xscl.batches.steps.sharing import Sharing, sharing_of
from xscl.catalog.catalog import Catalog
from xscl.catalog.query_state import QueryState
from xscl.catalog.steps import Stepped, SteppedQueries, read_stepped
from xscl.catalog.windows import Reader
from xscl.language.outlines.steps import known_shape
from xscl.language.steps.shapes import Number, filled, step_id
from xscl.language.steps.terms import Node, StepsDefinition, Without
from xscl.templates.columns import Bools, Int64s, gather

__all__ = ["AskedSteps", "Members", "Readers", "SharedStep", "StepMemory"]

_MOST_TOGETHER = 8
"""Sequences of members of a step that are remembered; members seldom come and go."""


@dataclass(frozen=True, slots=True)
class Readers:
    """Queries of the groups of a step by columns, in the order of the groups."""

    number: Int64s
    gid: Int64s
    member: Int64s
    """Member of the step that a query is, as it sees events now; -1: none."""
    since: Int64s
    until: Int64s
    order: Int64s
    """Order by members."""

    @classmethod
    def of(cls, members: Sequence[Member], queries: Mapping[int, Sequence[Reader]]) -> Readers:
        """Return the queries of the groups of some members."""
        place = {member: at for at, member in enumerate(members)}
        found = [
            (reader.number, gid, place.get((gid, reader.since), -1), reader.since, reader.until)
            for gid in sorted({gid for gid, _ in members})
            for reader in queries[gid]
        ]
        columns = np.array(found, dtype=np.int64).reshape(-1, 5).T
        number, gid, member, since, until = columns
        return cls(number, gid, member, since, until, np.argsort(member, kind="stable"))

    def of_members(self, members: Int64s) -> Int64s:
        """Return the places of the queries that are some members, rising."""
        return np.sort(self.order[_within(self.member[self.order], members)])

    def of_groups(self, groups: Int64s) -> Int64s:
        """Return the places of all queries of some groups, which rise."""
        return _within(self.gid, groups)

    def sees(self, docs: Sequence[int]) -> Bools:
        """Tell which queries see all of some documents."""
        places = [place_of(doc) for doc in docs]
        found: Bools = (self.since < min(places)) & (max(places) < self.until)
        return found

    def mask(self, places: Int64s) -> Bools:
        """Tell which queries are those at some places."""
        found = np.zeros(len(self.number), dtype=np.bool_)
        found[places] = True
        return found


def _within(column: Int64s, values: Int64s) -> Int64s:
    """Return the places of some values in a column that rises."""
    begins, ends = (np.searchsorted(column, values, side) for side in ("left", "right"))
    return gather(begins, ends - begins)[0]


@dataclass(frozen=True)
class Members:
    """Members of a step whose rows are moved together."""

    members: Sequence[Member]
    since: Int64s
    """Place after which each of them sees events."""
    by_part: Sequence[Mapping[int, Int64s]]
    """Members by the group that finds the matches of a part for them, for each part of the step."""
    keys: Mapping[int, str]
    """Digest of each group's text."""
    root: Node
    """Steps with all numbers that the members have in common."""
    layout: Layout
    readers: Readers
    _sharing: Sharing

    def sharing(self) -> Sharing:
        """Return how they share the steps, without sets of them but that of all."""
        return self._sharing.anew()


@dataclass(frozen=True)
class SharedStep:
    """A step that groups of queries share."""

    name: str
    definition: StepsDefinition
    """Its shape."""
    layout: Layout
    channels: tuple[tuple[str, ...], ...]
    """Channels that each part reads."""
    distances: tuple[int | None, int | None]
    """Distances behind clocks up to which it answers, and remembers events."""
    level: int
    """Level of the batch behind which all its parts' matches are found."""
    queries: Mapping[int, Sequence[Reader]]
    """Queries by group, those of other steps and those that have gone included."""
    first: int
    """Place from which on queries are there that are members."""
    groups: dict[int, Stepped] = field(default_factory=dict)
    numbers: dict[int, tuple[Number, ...]] = field(default_factory=dict)
    """Numbers of the conditions of each group."""
    _together: dict[tuple[Member, ...], Members] = field(default_factory=dict)

    @property
    def corrects(self) -> bool:
        """Whether it answers before answers are final."""
        return self.distances[0] != self.distances[1]

    @cached_property
    def parts(self) -> frozenset[int]:
        """Groups that find the matches of its parts."""
        return frozenset(part for group in self.groups.values() for part in group.parts)

    @cached_property
    def looks_back(self) -> Sequence[int]:
        """Places of the numbers that say how long before a match a document is that forbids it."""
        absences = (node for node in numbered_nodes(self.definition.root) if isinstance(node, Without))
        return [slot for node in absences if (slot := node.skip.least_slot) is not None]

    def of_group(self, gid: int) -> StepsDefinition:
        """Return the steps with the numbers of a group."""
        return replace(self.definition, root=filled(self.definition.root, self.numbers[gid]))

    @cached_property
    def members(self) -> Mapping[tuple[int, ...], Sequence[Member]]:
        """Members by the groups that find the matches of their parts."""
        found: dict[tuple[int, ...], list[Member]] = {}
        for gid, group in self.groups.items():
            since = {reader.since for reader in self.queries[gid] if reader.until > self.first}
            found.setdefault(group.parts, []).extend((gid, place) for place in since)
        return found

    def together(self, members: Sequence[Member]) -> Members:
        """Return some members as those whose rows are moved together."""
        key = tuple(members)
        if key not in self._together:
            if len(self._together) >= _MOST_TOGETHER:
                self._together.clear()
            self._together[key] = self._members(key)
        return self._together[key]

    def _members(self, members: Sequence[Member]) -> Members:
        sharing, root = sharing_of(self.definition.root, [self.numbers[gid] for gid, _ in members])
        by_part: list[dict[int, list[int]]] = [{} for _ in self.channels]
        for at, (gid, _) in enumerate(members):
            for of, part in zip(by_part, self.groups[gid].parts, strict=True):
                of.setdefault(part, []).append(at)
        return Members(
            members,
            np.array([since for _, since in members], dtype=np.int64),
            [{part: np.array(each) for part, each in of.items()} for of in by_part],
            {gid: self.groups[gid].key for gid, _ in members},
            root,
            replace(self.layout, dimensions=len(sharing.dimension)),
            Readers.of(members, self.queries),
            sharing,
        )


class AskedSteps(NamedTuple):
    """Steps that somebody asks for, by name, and who does, by group."""

    steps: Mapping[str, SharedStep] = {}
    readers: Mapping[int, Sequence[Reader]] = {}


@dataclass
class StepMemory:
    """Memory of one process that works on a home."""

    _state: QueryState | None = None
    """State of the catalogue in which was read who asks."""
    _queries: SteppedQueries = field(default_factory=SteppedQueries)
    _levels: Sequence[frozenset[str]] = ()
    """Channels of each level of publishing."""
    _asked: AskedSteps | None = None

    def asked(self, catalog: Catalog, span: BatchRange, levels: Sequence[frozenset[str]]) -> AskedSteps:
        """Return the steps that somebody asks for in a range of places, and who does."""
        first = span.first
        if span.queries != self._state or not self._queries.range.has(first, span.last):
            with catalog.read() as connection:
                self._queries = read_stepped(connection, first, span.last)
            self._state, self._asked = span.queries, None
        if self._asked is None or self._levels != levels:
            self._levels, self._asked = levels, AskedSteps(_steps(self._queries, first, levels), self._queries.readers)
        return self._asked


def _steps(stepped: SteppedQueries, first: int, levels: Sequence[frozenset[str]]) -> dict[str, SharedStep]:
    """Return the steps of queries that are there from a place on, by name."""
    found: dict[str, SharedStep] = {}
    # Shapes of texts of one outline are one object; digesting it takes longer than all else.
    names: dict[tuple[object, ...], tuple[StepsDefinition, str]] = {}
    for each in stepped.groups:
        shape, numbers = known_shape(each.text, tuple(sorted(each.namespaces.items())))
        key = id(shape), each.channels, each.distances
        if key not in names:
            names[key] = shape, step_id(shape, each.channels, each.distances)
        name = names[key][1] + (f"_{each.gid}" if each.is_alone else "")
        if name not in found:
            read = {channel for channels in each.channels for channel in channels}
            level = max((number for number, of in enumerate(levels, 1) if of & read), default=0)
            facts = each.channels, each.distances, level
            found[name] = SharedStep(name, shape, layout_of(shape), *facts, stepped.readers, first)
        found[name].groups[each.gid], found[name].numbers[each.gid] = each, numbers
    return found
