"""Bindings of queries about absence: what the levels of a batch have found for their parts, by columns.

A class of documents may be found for thousands of groups, and a group in thousands of classes.  So rows of documents,
classes and parts are put together by sorting, without a step for each class or group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from xscl.base.docids import place_of
from xscl.base.number_order import each_once
from xscl.catalog.parts import PartRow
from xscl.catalog.tables import NOTHING_FORBIDDEN
from xscl.store.parquet import list_parts
from xscl.store.results import NO_DOC, Combinations, Meanings, Results
from xscl.templates.absence import KILL_SCHEMA
from xscl.templates.columns import Bools, Int64s, gather, numbered, within

__all__ = [
    "Bindings",
    "Kind",
    "Parts",
    "bindings",
    "groups_of",
    "keys_of",
    "kills_of",
    "of_meanings",
    "remembered",
    "unasked_matches",
]


Kind = tuple[str | None, int, int | None, int | None]
"""End of the time of what is forbidden, shown nodes, blocking and memory, as in ``Bindings``."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Rows of table ``parts`` by columns, in the order of groups."""

    gid: Int64s
    part: Int64s
    kind: Int64s
    """Number of the kind of each."""
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, rows: Iterable[PartRow]) -> Parts:
        """Return rows as columns."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, ()).plus(rows)

    def plus(self, rows: Iterable[PartRow]) -> Parts:
        """Return them with rows of later groups."""
        kinds = {kind: number for number, kind in enumerate(self.kinds)}
        found = []
        for gid, number, part, ends, shown, blocking, memory, _ in rows:
            kind = (ends, shown, blocking, memory) if number == 0 else (None, 0, None, memory)
            found.append((gid, part, kinds.setdefault(kind, len(kinds))))
        both = zip((self.gid, self.part, self.kind), np.array(found, dtype=np.int64).reshape(-1, 3).T, strict=True)
        gids, parts, codes = (np.concatenate(each) for each in both)
        return Parts(gids, parts, codes, tuple(kinds))

    def __len__(self) -> int:
        return len(self.gid)

    def where(self, chosen: Bools | Int64s) -> Parts:
        """Return some of them."""
        return Parts(self.gid[chosen], self.part[chosen], self.kind[chosen], self.kinds)

    def asking(self) -> Parts:
        """Return those of groups that ask what is not there."""
        good = np.array([kind[0] != NOTHING_FORBIDDEN for kind in self.kinds], dtype=np.bool_)
        return self if good.all() else self.where(good[self.kind])

    @property
    def finders(self) -> Int64s:
        """Groups that find what they ask, rising."""
        return each_once(self.part)

    @property
    def has_memory(self) -> bool:
        """Whether some group remembers less than its channels do."""
        return any(memory is not None for *_, memory in self.kinds)


@dataclass(frozen=True, slots=True)
class Bindings:
    """Bindings with equally many documents and nodes, of parts of groups about absence."""

    ends: str | None
    """End of the time of what is forbidden, as table ``parts`` has it; None: these are of what is forbidden."""
    shown: int
    """Number of nodes behind those of the members that make a match."""
    blocking: int | None
    """Time behind clocks of answers, as table ``parts`` has it."""
    memory: int | None
    """Time behind clocks of events, as table ``parts`` has it."""
    groups: Int64s
    """The group about absence of each."""
    docs: Int64s
    """Documents of each, in block order."""
    nodes: Int64s
    """Result nodes of the documents, and selected nodes, of each."""
    meant: Int64s
    """Place of each one's meaning."""
    witnesses: pa.Array
    """Witness of each meaning."""

    @property
    def witness(self) -> pa.Array:
        """Return the witness of each."""
        return self.witnesses.take(pa.array(self.meant))

    def where(self, chosen: Bools) -> Bindings:
        """Return some of them."""
        some = self.groups[chosen], self.docs[chosen], self.nodes[chosen], self.meant[chosen]
        return Bindings(self.ends, self.shown, self.blocking, self.memory, *some, self.witnesses)


def bindings(found: Combinations, meanings: Meanings, asked: Parts) -> Iterator[Bindings]:
    """Yield the bindings of what was found, for what groups ask."""
    of, meant, part = _pairs(found, meanings, asked)
    _, _, (nodes, witness, _) = meanings.columns()
    lengths, values = list_parts(pa.chunked_array([nodes]))
    begins = np.cumsum(lengths) - lengths
    width = (found.docs != NO_DOC).sum(axis=1)
    _, first, number = numbered((asked.kind[part] << 40) + (width[of] << 32) + lengths[meant])
    for shape, one in enumerate(first.tolist()):
        kind, documents, count = int(asked.kind[part[one]]), int(width[of[one]]), int(lengths[meant[one]])
        mine = np.flatnonzero(number == shape)
        ends, shown, blocking, memory = asked.kinds[kind]
        rows = meant[mine]
        yield Bindings(
            ends,
            shown,
            blocking,
            memory,
            asked.gid[part[mine]],
            found.docs[of[mine], :documents],
            values[begins[rows, None] + np.arange(count)],
            rows,
            witness,
        )


def of_meanings(found: Combinations, meanings: Meanings) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
    """Yield what was found as columns (documents, nodes, number of the meaning), for each size of these by itself."""
    lengths, values = list_parts(pa.chunked_array([meanings.columns()[2][0]]))
    begins = np.cumsum(lengths) - lengths
    width = (found.docs != NO_DOC).sum(axis=1)
    meant, of = _of_classes(found, meanings, np.arange(len(lengths)))
    _, first, number = numbered((width[of] << 32) + lengths[meant])
    for shape, one in enumerate(first.tolist()):
        mine = np.flatnonzero(number == shape)
        documents, count, rows = int(width[of[one]]), int(lengths[meant[one]]), meant[mine]
        yield found.docs[of[mine], :documents], values[begins[rows, None] + np.arange(count)], rows


def groups_of(meanings: Meanings) -> tuple[Int64s, Int64s]:
    """Return the number of a meaning, and a group that has it, for each of its groups."""
    lengths, groups = list_parts(pa.chunked_array([meanings.columns()[2][2]]))
    return np.repeat(np.arange(len(lengths)), lengths), groups


def remembered(part: Bindings, docids: Int64s, behind: Int64s) -> Bindings:
    """Return the bindings all of whose documents came in time for their groups.

    Args:
        part: the bindings.
        docids: their documents, ascending.
        behind: how far behind its clock each came.
    """
    if part.memory is None or not behind.any():
        return part
    in_time: Bools = np.all(behind[np.searchsorted(docids, part.docs)] <= part.memory, axis=1)
    return part.where(in_time)


def kills_of(part: Bindings) -> pa.Table:
    """Return bindings with forbidden documents as rows of ``KILL_SCHEMA``."""
    members, other = part.docs[:, :-1], part.docs[:, -1]
    own = np.delete(part.nodes, members.shape[1], axis=1)
    columns = {
        "gid": part.groups,
        "members": keys_of(members, members[:, :0]),
        "key": keys_of(members, own),
        "place": place_of(other),
        "other": other,
    }
    return pa.table(columns, schema=KILL_SCHEMA)


def keys_of(docs: Int64s, nodes: Int64s) -> pa.Array:
    """Return members and nodes of bindings as bytes."""
    whole = np.ascontiguousarray(np.concatenate([docs, nodes], axis=1), dtype=np.int64)
    width = whole.shape[1] * 8
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(docs), [None, pa.py_buffer(whole.tobytes())])
    return fixed.cast(pa.binary())


def _pairs(found: Combinations, meanings: Meanings, asked: Parts) -> tuple[Int64s, Int64s, Int64s]:
    """Return combinations, matches of their class, and parts whose group has these, by their numbers."""
    meant, values = groups_of(meanings)
    of_group, part = _equal(values, asked.part)
    meant = meant[of_group]
    of_class, of = _of_classes(found, meanings, meant)
    return of, meant[of_class], part[of_class]


def unasked_matches(results: Results, are_unasked: Callable[[Int64s], Bools]) -> int:
    """Count the matches that only groups have which no query asks for, as a function tells of groups."""
    meanings = results.meanings()
    meant, values = groups_of(meanings)
    origin, number, _ = meanings.columns()
    alone = np.ones(len(origin), dtype=np.bool_)
    alone[meant[~are_unasked(values)]] = False
    if not alone.any():
        return 0
    found, keys = results.classes(), _class_keys(origin)
    known = within(found.origin, each_once(origin))
    wanted, of = np.sort(keys(origin, number)[alone]), keys(found.origin, found.number)[known]
    begins, ends = np.searchsorted(wanted, of, "left"), np.searchsorted(wanted, of, "right")
    return int((ends - begins).sum())


def _of_classes(found: Combinations, meanings: Meanings, meant: Int64s) -> tuple[Int64s, Int64s]:
    """Return pairs of places: matches among those that are given, and combinations that have them."""
    origin, number, _ = meanings.columns()
    keys = _class_keys(origin)
    return _equal(keys(origin, number)[meant], keys(found.origin, found.number))


def _class_keys(origins: Int64s) -> Callable[[Int64s, Int64s], Int64s]:
    """Return a function that makes one number of an origin, which is one of some, and the number of a class."""
    known = each_once(origins)
    return lambda origin, number: np.searchsorted(known, origin) << 32 | number


def _equal(left: Int64s, right: Int64s) -> tuple[Int64s, Int64s]:
    """Return the pairs of places with equal values.

    >>> [places.tolist() for places in _equal(np.array([7, 5, 6]), np.array([5, 7, 5]))]
    [[0, 1, 1], [1, 0, 2]]
    """
    order = np.argsort(right, kind="stable")
    begins = np.searchsorted(right, left, "left", order)
    counts = np.searchsorted(right, left, "right", order) - begins
    at, which = gather(begins, counts)
    return which, order[at]
