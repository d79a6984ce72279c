"""Quotas of queries: how much of a batch each query has had, and the suspension of those that had more than allowed.

A count depends on the query and on the documents of the batch alone.  Counts are the same wherever the work is done,
whatever other queries share with the query: nodes and combinations of documents are counted, each once, and only
those that come after the query's registration.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import place_of
from xscl.batches.suspensions import Culprit, Suspension, suspend
from xscl.catalog.intake_order import read_repeated
from xscl.catalog.parts import asking_of, parts_of
from xscl.catalog.quotas import Quotas, read_quotas
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import NEVER, QUERIES, in_parts
from xscl.planning.planned import PlannedGroup, Value
from xscl.store.results import NO_DOC, Combinations, Results

__all__ = ["BindingCount", "PairCount", "Usage", "sight_cuts", "suspend_queries"]


# -- bindings --------------------------------------------------------------------------------------------------


class BindingCount:
    """Counts the bindings of a batch by variable and function.

    ``cuts`` are the places of ``sight_cuts``; None: the home had no quota of bindings, and nothing is counted.
    """

    def __init__(self, cuts: npt.NDArray[np.int64] | None = None) -> None:
        self._cuts = cuts
        self._counts: defaultdict[Value, Counter[int]] = defaultdict(Counter)
        """Bindings of each value by the number of cuts before the document."""

    @property
    def total(self) -> int:
        """Number of all bindings, which no query exceeds."""
        return sum(counts.total() for counts in self._counts.values())

    def clear(self) -> None:
        """Forget what was counted."""
        self._counts.clear()

    @property
    def is_on(self) -> bool:
        """Whether bindings are counted."""
        return self._cuts is not None

    def add(self, rows: pa.Table) -> None:
        """Count the rows of ``binding_rows``."""
        if self._cuts is None:
            return
        before = np.searchsorted(self._cuts, place_of(rows.column("docid").to_numpy()))
        table = rows.select(["var", "fn", "guards"]).append_column("before", pa.array(before))
        for row in table.group_by(["before", "var", "fn", "guards"]).aggregate([([], "count_all")]).to_pylist():
            self._counts[row["var"], row["fn"], row["guards"]][row["before"]] += row["count_all"]

    def count(self, values: Collection[Value], sees_from: int = -1) -> int:
        """Return the bindings of some variables and functions in documents after a place."""
        least = 0 if self._cuts is None else int(np.searchsorted(self._cuts, sees_from, side="right"))
        found = (self._counts[value] for value in values if value in self._counts)
        return sum(count for counts in found for before, count in counts.items() if before >= least)


def sight_cuts(connection: Connection, first: int, last: int) -> npt.NDArray[np.int64] | None:
    """Read the places within a range behind which queries begin to see documents; None without a quota of bindings.

    Queries that see nothing of the range have its last place in common, also those that are registered later.
    """
    if read_quotas(connection).bindings is None:
        return None
    within = sa.select(QUERIES.c.sees_from).where(QUERIES.c.sees_from.between(first, last - 1)).distinct()
    return np.array(sorted({*connection.scalars(within), last}), dtype=np.int64)


# -- pairs -----------------------------------------------------------------------------------------------------


class PairCount:
    """Counts the combinations of documents in which queries have a match, or a refused one, in a batch's results."""

    def __init__(self, results: Results) -> None:
        origin, number, self._gids, self._exchange = results.class_groups()
        refused, which, groups = results.refused()
        self._found = Combinations.together([results.combinations(), refused])
        # Each refused combination is a class of its own.
        origin, number = (
            np.concatenate([origin, refused.origin[which]]),
            np.concatenate([number, refused.number[which]]),
        )
        self._gids = np.concatenate([self._gids, groups])
        self._exchange = np.concatenate([self._exchange, np.full(len(groups), NO_DOC)])
        known = np.unique(np.concatenate([origin, self._found.origin]))

        def key(origins: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            return np.searchsorted(known, origins) << 32 | numbers

        self._classes, self._class_of = np.unique(key(self._found.origin, self._found.number), return_inverse=True)
        classes = key(origin, number)
        there = np.isin(classes, self._classes)
        self._gids, self._exchange = self._gids[there], self._exchange[there]
        self._class = np.searchsorted(self._classes, classes[there])
        docs = self._found.docs
        self._oldest = np.where(docs == NO_DOC, NEVER, place_of(docs)).min(axis=1, initial=NEVER)
        exchanges = self._exchange[self._exchange >= 0]
        self._first = int(min(self._oldest.min(initial=NEVER), exchanges.min(initial=NEVER)))
        self._counted: dict[tuple[frozenset[int], int], int] = {}

    def most(self) -> dict[int, int]:
        """Return a number for each group that its combinations do not exceed."""
        sizes = np.bincount(self._class_of, minlength=len(self._classes))
        gids, which = np.unique(self._gids, return_inverse=True)
        counts = np.zeros(len(gids), dtype=np.int64)
        np.add.at(counts, which, sizes[self._class])
        return dict(zip(gids.tolist(), counts.tolist(), strict=True))

    def count(self, groups: Collection[int], sees_from: int = -1) -> int:
        """Return the different combinations of some groups, all of whose documents come after a place.

        A combination that ``ONCE`` leaves out for a query that sees documents after the place does not count.
        """
        key = frozenset(groups), sees_from if sees_from >= self._first else -1
        if key not in self._counted:
            mine = np.zeros(len(self._classes), dtype=np.bool_)
            mine[self._class[np.isin(self._gids, list(key[0])) & (self._exchange <= key[1])]] = True
            docs = self._found.docs[mine[self._class_of] & (self._oldest > key[1])]
            names = [str(block) for block in range(docs.shape[1])]
            table = pa.table({name: docs[:, block] for block, name in enumerate(names)})
            self._counted[key] = table.group_by(names).aggregate([]).num_rows
        return self._counted[key]

    def above(self, own: Collection[int], parts: Iterable[int], sees_from: int, most: int) -> int:
        """Return the combinations of a query's own groups, or of its parts, where one of these has more than ``most``.

        Combinations of several that do count once; where none does, the number is 0.
        """
        alone = [own, *([part] for part in parts)]
        return self.count([gid for some in alone if self.count(some, sees_from) > most for gid in some], sees_from)


# -- queries ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    """The counts of a batch."""

    bindings: Sequence[tuple[BindingCount, Mapping[int, PlannedGroup]]]
    """Bindings of each of its works, and the groups of the work's plan."""
    combinations: int
    """Number of matches and of refused combinations, which no query's combinations exceed."""
    results: Callable[[], Results]
    """Asked only where pairs are counted."""
    filled: Sequence[QueryInfo] = field(default=())
    """Queries that the batch has answered from retained events, as they are after it."""

    def bindings_of(self, groups: Iterable[int], sees_from: int = -1) -> int:
        """Return the bindings of some groups together in documents after a place, each once."""
        mine, found = list(groups), 0
        for count, planned in self.bindings:
            values = {value for gid in mine if gid in planned for value in planned[gid].values}
            found += count.count(values, sees_from)
        return found


def suspend_queries(connection: Connection, usage: Usage, batch: int, last: int) -> list[Suspension]:
    """Suspend the live queries that have exceeded a quota in a batch, from its last place on, in its transaction.

    Batches that run again after a repair suspend nothing: what they have found was given out already.
    """
    quotas = read_quotas(connection)
    is_off = quotas.bindings is None and quotas.pairs is None
    if is_off or last <= read_repeated(connection):
        return []
    exceeding = [
        Culprit(info.query, info.name, info.owner, f"{' and '.join(parts)} in batch {batch}")
        for info, parts in _exceeding(connection, quotas, usage, last)
    ]
    return suspend(connection, exceeding, last + 1, "XSCL_QUOTA")


class _Subscriber(NamedTuple):
    query: int
    name: str
    owner: str
    own: tuple[int, ...]
    """Its group, and what stands for it in answers that only it has."""
    parts: tuple[int, ...]
    """Groups that it is made of."""
    sees_from: int


def _exceeding(
    connection: Connection, quotas: Quotas, usage: Usage, last: int
) -> Iterator[tuple[_Subscriber, list[str]]]:
    """Yield the queries that exceed a quota, each with the excess in words, by name."""
    groups: set[int] = set()
    count_bindings = quotas.bindings is not None and sum(c.total for c, _ in usage.bindings) > quotas.bindings
    if count_bindings:
        asked = {gid for _, planned in usage.bindings for gid in planned}
        counts = {gid: usage.bindings_of([gid]) for gid in asked}
        groups |= _above(connection, counts, quotas.bindings or 0, add)
    pairs = PairCount(usage.results()) if quotas.pairs is not None and usage.combinations > quotas.pairs else None
    if pairs is not None:
        groups |= _above(connection, pairs.most(), quotas.pairs or 0, max)
    if not count_bindings and pairs is None:
        return
    for info in sorted(_live(connection, groups, usage.filled, last), key=lambda info: info.name):
        parts = []
        if quotas.bindings is not None and count_bindings:
            found = usage.bindings_of((*info.parts, *info.own), info.sees_from)
            if found > quotas.bindings:
                parts.append(f"{found:,} bindings (at most {quotas.bindings:,})")
        if quotas.pairs is not None and pairs is not None:
            found = pairs.above(info.own, info.parts, info.sees_from, quotas.pairs)
            if found > quotas.pairs:
                parts.append(f"{found:,} combinations of documents (at most {quotas.pairs:,})")
        if parts:
            yield info, parts


def _above(
    connection: Connection, counts: Mapping[int, int], most: int, with_part: Callable[[int, int], int]
) -> set[int]:
    """Return the groups, and what stands for queries, whose counts may be above a quota.

    ``with_part`` puts the count of a group together with that of a part of it.
    """
    sums = Counter({gid: count for gid, count in counts.items() if count})
    for part, gids in asking_of(connection, [gid for gid in sums if gid > 0]).items():
        for gid in gids:
            sums[gid] = with_part(sums[gid], counts[part])
    for some in in_parts(sorted(-gid for gid in sums if gid < 0)):
        columns = sa.select(QUERIES.c.query, QUERIES.c.gid)
        for query, gid in connection.execute(columns.where(QUERIES.c.query.in_(some))).all():
            sums[-query] += counts.get(gid, 0)
    return {gid for gid, count in sums.items() if count > most}


def _live(
    connection: Connection, groups: Collection[int], filled: Sequence[QueryInfo], last: int
) -> Iterator[_Subscriber]:
    """Yield the live queries of some groups, and those that were answered from retained events."""
    numbers = {info.query for info in filled}
    live = QUERIES.c.docid_until == NEVER, QUERIES.c.docid_from <= last
    columns = QUERIES.c.query, QUERIES.c.qid, QUERIES.c.owner, QUERIES.c.gid, QUERIES.c.sees_from
    wanted = [QUERIES.c.gid.in_(some) for some in in_parts(sorted(gid for gid in groups if gid > 0))]
    wanted += [QUERIES.c.query.in_(some) for some in in_parts(sorted(-gid for gid in groups if gid < 0))]
    for mine in wanted:
        rows = connection.execute(sa.select(*columns).where(mine, *live)).all()
        parts = parts_of(connection, {row.gid for row in rows})
        for row in rows:
            if row.query not in numbers:
                numbers.add(row.query)
                own = row.gid, -row.query
                yield _Subscriber(row.query, row.qid, row.owner, own, parts.get(row.gid, ()), row.sees_from)
    for info in filled:
        if info.live:
            yield _Subscriber(info.query, info.name, info.owner, tuple(info.groups), (), info.sees_from)
