"""What stage 2 hands out: rows of R_out, matches and rows of links, in one relation.

Stored rows carry the set of groups that they satisfy; windows, the only thing that groups of one instance differ in,
are tested here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import pyarrow as pa

from xscl.arrow import MEMBER
from xscl.places import place_of
from xscl.templates.program import LiveGroup

__all__ = ["MAX_BINDINGS", "RESULT_SCHEMA", "Admitted", "Member", "ResultColumns", "admitted", "different"]

RESULT_SCHEMA = pa.schema(
    [
        ("relation", pa.string()),  # 'rout', 'match', 'link', 'refused', or 'pairs' with the number of pairs in docs
        ("instance", pa.int32()),  # rout, match
        ("link", pa.int64()),  # link: its key
        ("docs", pa.list_(pa.int64())),  # in block order
        ("nodes", pa.list_(pa.int32())),  # rout: meta-variables; match: result and SELECT nodes; link: its nodes
        ("witness", pa.list_(pa.int32())),  # match: the meta-variables of one row of R_out
        ("groups", pa.list_(pa.int64())),  # rout, match
        ("cases", pa.list_(pa.int32())),  # the case of each group
        ("members", pa.list_(MEMBER)),  # link, refused: the documents
    ]
)


MAX_BINDINGS = 100_000
"""Of one query in one combination of documents: variables that bind equal nodes multiply."""


class Member(NamedTuple):
    """A document as windows see it."""

    docid: int
    item: int
    """docid of the item's first version: versions of one item never join."""
    ts: int
    place: str
    """Channel and id, by which equal times are ordered."""


class Admitted(NamedTuple):
    """Groups whose windows some members satisfy, and the case of each that does."""

    groups: tuple[int, ...]
    cases: tuple[int, ...]


def different(members: Sequence[Member]) -> bool:
    """Whether no two members are one document, or versions of one item."""
    return len({member.item for member in members}) == len(members)


def admitted(
    groups: Sequence[LiveGroup], members: Sequence[Member], links: tuple[tuple[int, int], ...] | None = None
) -> Admitted:
    """The groups that see all members and whose windows they satisfy; cases are disjoint, so there is one for each.

    With ``links`` only cases that link these pairs of blocks count.
    """
    oldest = min(place_of(member.docid) for member in members)
    newest = max(place_of(member.docid) for member in members)
    pairs = [(b.ts - a.ts, (a.ts, a.place) < (b.ts, b.place)) for a, b in combinations(members, 2)]
    found = [
        (live.gid, number)
        for live in groups
        if live.first <= oldest and newest <= live.last
        for number, case in enumerate(live.group.cases, start=1)
        if (links is None or live.group.links[number - 1] == links)
        and all(bounds.admits(*pair) for bounds, pair in zip(case, pairs, strict=True))
    ]
    return Admitted(tuple(gid for gid, _ in found), tuple(case for _, case in found))


class ResultColumns:
    """Collects rows of ``RESULT_SCHEMA`` and hands them out as Arrow batches."""

    _BATCH = 10_000

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []

    def add_rout(self, instance: int, docs: Sequence[int], nodes: Sequence[int], by: Admitted) -> None:
        """A row of R_out."""
        self.rows.append(("rout", instance, None, docs, nodes, None, by.groups, by.cases, None))

    def add_match(
        self, instance: int, docs: Sequence[int], results: Sequence[int], witness: Sequence[int], by: Admitted
    ) -> None:
        """A match with the row of R_out that shows it."""
        self.rows.append(("match", instance, None, docs, results, witness, by.groups, by.cases, None))

    def add_link(self, key: int, members: Sequence[Member], nodes: Sequence[int]) -> None:
        """A row of a link."""
        docs = [member.docid for member in members]
        rows = [member._asdict() for member in members]
        self.rows.append(("link", None, key, docs, nodes, None, None, None, rows))

    def add_refused(self, members: Sequence[Member]) -> None:
        """Documents whose bindings are too many."""
        docs = [member.docid for member in members]
        rows = [member._asdict() for member in members]
        self.rows.append(("refused", None, None, docs, None, None, None, None, rows))

    def add_count(self, pairs: int) -> None:
        """How many pairs of documents were looked at."""
        self.rows.append(("pairs", None, None, [pairs], None, None, None, None, None))

    def full(self) -> Iterator[pa.RecordBatch]:
        """A batch, if there is enough for one."""
        if len(self.rows) >= self._BATCH:
            yield self.take()

    def take(self) -> pa.RecordBatch:
        """What there is."""
        columns = zip(*self.rows, strict=True) if self.rows else [[] for _ in RESULT_SCHEMA]
        arrays = [pa.array(c, type=f.type) for c, f in zip(columns, RESULT_SCHEMA, strict=True)]
        self.rows = []
        return pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)
