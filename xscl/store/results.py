"""Stored matches: combinations of documents by columns, and what the class of each means for queries.

A row of the results is shared by all groups that have it, and often by thousands of combinations, so combinations are
chosen and sorted as numbers first, and what they mean is looked up for the chosen ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.docids import place_of
from xscl.base.number_order import each_once
from xscl.base.sealed import CHECKED_PAGES
from xscl.base.values import digest_text
from xscl.catalog.records import QueryInfo
from xscl.language.facts import unnumbered
from xscl.store.parquet import codes, int64s, joined, list_parts, read_columns, rows_where
from xscl.templates.columns import Bools, Int64s, within
from xscl.templates.origins import batch_of, origin_of
from xscl.templates.pair_spans import SPAN_SCHEMA, expanded_spans
from xscl.templates.results import RESULT_SCHEMA, SPANS_FILE
from xscl.templates.set_apart import SetApart, of_relation

__all__ = [
    "NO_DOC",
    "Combinations",
    "Meaning",
    "Meanings",
    "Results",
    "StoredMatch",
    "answer_id",
    "files_with",
    "match_id",
    "member_digests",
    "stored_matches",
]

NO_DOC = -1
"""Behind the documents of a combination that has fewer than others."""
_ID_LENGTH = 32
_REMEMBERED = 10_000
"""Classes of one folder whose meanings, and names whose digests, are kept."""
_SMALL = 20_000
"""Bytes of a file whose rows are read once, and kept as long as what reads it."""
_ALL_BATCHES = (0, 1 << 38)
_MEMBERS = ("d1", "d2", "docs.list.element")
"""Columns of files with numbers of documents."""
_MEANT = "nodes", "witness", "groups", "exchange", "later"


def match_id(query_digest: str, members: Sequence[tuple[str, str]], nodes: Sequence[int]) -> str:
    """Return a match's id: a digest of the query's name and text, the members' channels and ids, and the result nodes.

    Written so that Spark SQL computes the same (``views``): digests of fixed length side by side, then the nodes.
    """
    return _sha(query_digest + member_digests(members) + ",".join(map(str, nodes)))[:_ID_LENGTH]


def answer_id(key: str, ts: int, of: Sequence[str], document: str) -> str:
    """Return the id of an answer, which is the same in every home, whoever else asks.

    Args:
        key: what its group asks for, as the catalogue has it.
        ts: its time.  Ids of members come again after a retention, but then their times are others.
        of: what it is of: ids of members with their channels, nodes, values of a group, or the end of a window.
        document: its document.
    """
    return digest_text(key, str(ts), *of, document)


def member_digests(members: Iterable[tuple[str, str]]) -> str:
    """Return the part of a match's id that is of its members' channels and ids."""
    return "".join(_sha(unnumbered(channel)) + _sha(id_) for channel, id_ in members)


@lru_cache(_REMEMBERED)
def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredMatch:
    """A row of the results: a match with the groups that it satisfies."""

    docids: tuple[int, ...]
    nodes: tuple[int, ...]
    witness: tuple[int, ...]
    groups: frozenset[int]
    exchange: int | None
    """Place of an exchange that a query must not see, as in ``ClassRow``."""
    later: int
    """Time from the newest member to the match, microseconds."""
    batch: int
    """Batch that found it."""

    def is_seen_by(self, query: QueryInfo) -> bool:
        """Whether a query has it, as far as places tell; what times tell says ``QueryInfo.admits``.

        A query that was answered from what was held has the matches found for it then (``history``), and of its group
        those of later levels and batches, whose members may be older than the query.
        """
        places = [place_of(docid) for docid in self.docids]
        if max(places) >= query.docid_until or (query.ended is not None and self.batch > query.ended):
            return False
        if self.exchange is not None and query.sees_from < self.exchange:
            return False
        if query.history is not None and query.history in self.groups:
            return True
        waits = query.filled is None and query.sees_from < query.docid_from
        later = not waits and (query.filled is None or self.batch >= query.filled)
        return query.gid in self.groups and later and query.sees_from < min(places)


class Meaning(NamedTuple):
    """A match that every combination of a class has."""

    nodes: tuple[int, ...]
    witness: tuple[int, ...]
    groups: frozenset[int]
    exchange: int | None
    later: int


class Combinations(NamedTuple):
    """Combinations of documents, by columns."""

    origin: Int64s
    number: Int64s
    """Number of the class, in its origin."""
    docs: npt.NDArray[np.int64]
    """A row each, in block order, filled up with ``NO_DOC``."""

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Return the combinations of rows ``docs``."""
        lengths, more = list_parts(table.column("docs"))
        width = max(2, int(lengths.max(initial=0)))
        docs = np.full((table.num_rows, width), NO_DOC, dtype=np.int64)
        for place, name in enumerate(("d1", "d2")):
            docs[:, place] = int64s(table.column(name), NO_DOC)
        docs[np.arange(width) < lengths[:, None]] = more
        return cls(int64s(table.column("origin")), int64s(table.column("class")), docs)

    @classmethod
    def set_apart(cls, found: Iterable[SetApart]) -> list[Self]:
        """Return the combinations that no file has."""
        return [
            cls(np.full(len(classes), each.origin), classes.astype(np.int64), docs)
            for each in found
            for docs, classes in each.docs
        ]

    @classmethod
    def together(cls, parts: list[Self]) -> Self:
        """Return all combinations of some parts, one at least."""
        width = max(part.docs.shape[1] for part in parts)
        filled = [
            np.pad(part.docs, ((0, 0), (0, width - part.docs.shape[1])), constant_values=NO_DOC) for part in parts
        ]
        return cls(
            np.concatenate([part.origin for part in parts]),
            np.concatenate([part.number for part in parts]),
            np.concatenate(filled),
        )

    def where(self, chosen: Bools | Int64s) -> Self:
        """Return some of them."""
        return type(self)(self.origin[chosen], self.number[chosen], self.docs[chosen])

    def docids(self, row: int) -> tuple[int, ...]:
        """Return the documents of one, in block order."""
        return tuple(doc for doc in self.docs[row].tolist() if doc != NO_DOC)


class Results:
    """The results of the batches from ``first`` to ``last`` in some files, whichever others are there too."""

    def __init__(
        self,
        files: Iterable[str | Path],
        first: int = _ALL_BATCHES[0],
        last: int = _ALL_BATCHES[1],
        apart: Sequence[SetApart] = (),
    ) -> None:
        """``apart`` are results of these batches that no file has."""
        self._files, self._apart = list(files), apart
        self._held: dict[str | Path, pa.Table] = {}
        """Rows of small files, which are read once."""
        self._first, self._last = origin_of(first, 0), origin_of(last + 1, 0) - 1

    def combinations(self, meanings: Meanings | None = None) -> Combinations:
        """Return the combinations of documents; with ``meanings`` those that have a match."""
        found = Combinations.of(self._rows("docs", ["d1", "d2", "docs"]))
        if meanings is not None:
            found = found.where(meanings.have(found))
        parts = [self._span_pairs(file, meanings) for file in self._files if Path(file).name == SPANS_FILE]
        own = Combinations.set_apart(self._apart)
        parts += own if meanings is None else [each.where(meanings.have(each)) for each in own]
        return Combinations.together([found, *parts]) if parts else found

    def classes(self) -> Combinations:
        """Return the class of each combination, without its documents."""
        rows = self._rows("docs", [])
        origin, number = int64s(rows.column("origin")), int64s(rows.column("class"))
        parts = [self._span_pairs(file, None) for file in self._files if Path(file).name == SPANS_FILE]
        parts += Combinations.set_apart(self._apart)
        origins = np.concatenate([origin, *(each.origin for each in parts)])
        numbers = np.concatenate([number, *(each.number for each in parts)])
        return Combinations(origins, numbers, np.empty((len(origins), 0), dtype=np.int64))

    def _span_pairs(self, file: str | Path, meanings: Meanings | None) -> Combinations:
        """Return the pairs of a file of spans; only those that are wanted are made."""

        def wanted(origin: Int64s, number: Int64s) -> Bools:
            chosen: Bools = (self._first <= origin) & (origin <= self._last)
            if meanings is not None:
                chosen &= meanings.have(Combinations(origin, number, np.empty((len(origin), 0), dtype=np.int64)))
            return chosen

        pairs = expanded_spans(read_columns(file, SPAN_SCHEMA, SPAN_SCHEMA.names, "origin", self._may_have), wanted)
        origin, number, left, right = (int64s(pairs.column(name)) for name in pairs.column_names)
        return Combinations(origin, number, np.stack([left, right], axis=1))

    def meanings(self, groups: Collection[int] | Int64s | None = None) -> Meanings:
        """Read the meanings of their classes, for some groups, which rise if they are an array, or for all."""
        return Meanings(self._rows("match", [*_MEANT]), groups)

    def class_groups(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return columns (origin, class, group, ``ClassRow.exchange`` or -1) with a row for each group that has a match
        in a class.
        """
        rows = self._rows("match", ["groups", "exchange"])
        lengths, groups = list_parts(rows.column("groups"))
        names = "origin", "class", "exchange"
        origin, number, exchange = (np.repeat(int64s(rows.column(name), -1), lengths) for name in names)
        return origin, number, groups, exchange

    def later(self, found: Combinations) -> Int64s:
        """Return the time from the newest member to the match, for some combinations; a class has one."""
        rows = self._rows("match", ["later"])
        known = int64s(rows.column("later"), 0)
        rows, known = rows_where(rows, known != 0), known[known != 0]
        later = np.zeros(len(found.origin), dtype=np.int64)
        if len(known):
            origins = np.unique(int64s(rows.column("origin")))
            keys = np.searchsorted(origins, int64s(rows.column("origin"))) << 32 | int64s(rows.column("class"))
            order = np.argsort(keys, kind="stable")
            place = np.minimum(np.searchsorted(origins, found.origin), len(origins) - 1)
            wanted = place << 32 | found.number
            at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
            there = (keys[order[at]] == wanted) & (origins[place] == found.origin)
            later[there] = known[order[at[there]]]
        return later

    def refused(self) -> tuple[Combinations, Int64s, Int64s]:
        """Return the combinations that a limit refused, numbered in an origin of their own, and (row, group) for each
        group that one was refused to.
        """
        names = "relation", "docs", "groups"
        found = []
        for file in self._written:
            table = self._table(file, names)
            numbers, values = codes(table.column("relation"))
            if "refused" in values:
                found.append(rows_where(table, numbers == values.index("refused")).drop_columns(["relation"]))
        rows = joined(found, pa.schema([RESULT_SCHEMA.field(name) for name in names[1:]]))
        lengths, groups = list_parts(rows.column("groups"))
        row = np.arange(rows.num_rows)
        empty = pa.chunked_array([pa.nulls(rows.num_rows, pa.int64())])
        columns = {"origin": empty, "class": pa.chunked_array([pa.array(row)]), "d1": empty, "d2": empty}
        docs = Combinations.of(pa.table({**columns, "docs": rows.column("docs")}))
        return docs, np.repeat(row, lengths), groups

    def _rows(self, relation: str, columns: list[str]) -> pa.Table:
        names = ["relation", "origin", "class", *columns]
        found = []
        for file in self._written:
            table = self._table(file, names, "origin")
            numbers, values = codes(table.column("relation"))
            if relation not in values:
                continue
            origin = int64s(table.column("origin"))
            chosen = (numbers == values.index(relation)) & (self._first <= origin) & (origin <= self._last)
            found.append(rows_where(table, chosen).drop_columns(["relation"]))
        schema = pa.schema([RESULT_SCHEMA.field(name) for name in names[1:]])
        found += [of_relation(each.meant, relation).select(schema.names) for each in self._apart]
        return joined(found, schema)

    def _table(self, file: str | Path, names: Sequence[str], key: str | None = None) -> pa.Table:
        """Return columns of a file's rows; with a ``key``, large files may leave out rows of other batches."""
        if file in self._held:
            return self._held[file].select(names)
        if Path(file).stat().st_size > _SMALL:
            return read_columns(file, RESULT_SCHEMA, names, key, self._may_have if key else None)
        self._held[file] = read_columns(file, RESULT_SCHEMA, RESULT_SCHEMA.names)
        return self._held[file].select(names)

    @property
    def _written(self) -> list[str | Path]:
        """Files of ``RESULT_SCHEMA``."""
        return [file for file in self._files if Path(file).name != SPANS_FILE]

    def _may_have(self, least: int, greatest: int) -> bool:
        return least <= self._last and self._first <= greatest


class Meanings:
    """The matches of classes; one object of each that is asked for."""

    def __init__(self, rows: pa.Table, groups: Collection[int] | Int64s | None) -> None:
        if groups is not None:
            lengths, values = list_parts(rows.column("groups"))
            owner = np.repeat(np.arange(rows.num_rows), lengths)
            chosen = np.zeros(rows.num_rows, dtype=np.bool_)
            wanted = groups if isinstance(groups, np.ndarray) else np.array(sorted(groups), dtype=np.int64)
            chosen[owner[within(values, wanted)]] = True
            rows = rows_where(rows, chosen)
        self._origin, self._number = int64s(rows.column("origin")), int64s(rows.column("class"))
        self._columns = [rows.column(name).combine_chunks() for name in _MEANT]
        self._known: dict[tuple[int, int], list[Meaning]] = {}
        self.size = sum(int(column.nbytes) for column in self._columns) + 300 * len(self._origin)
        """Bytes, about."""

    def __bool__(self) -> bool:
        return bool(len(self._origin))

    @cached_property
    def _places(self) -> Mapping[tuple[int, int], Sequence[int]]:
        """Rows of each class."""
        found: dict[tuple[int, int], list[int]] = {}
        for place, key in enumerate(zip(self._origin.tolist(), self._number.tolist(), strict=True)):
            found.setdefault(key, []).append(place)
        return found

    def have(self, combinations: Combinations) -> Bools:
        """Tell the combinations that have a match."""
        origins = each_once(self._origin)
        known = within(combinations.origin, origins)
        mine = np.searchsorted(origins, self._origin) << 32 | self._number
        place = np.searchsorted(origins, combinations.origin)
        return known & within(place << 32 | combinations.number, each_once(mine))

    def columns(self) -> tuple[Int64s, Int64s, list[pa.Array]]:
        """Return the origin and the number of their classes, and lists: nodes, witness and groups."""
        return self._origin, self._number, self._columns[:3]

    def of(self, origin: int, number: int) -> list[Meaning]:
        """Return the matches of a class."""
        key = (origin, number)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = [self._meaning(place) for place in self._places.get(key, ())]
        return self._known[key]

    def _meaning(self, place: int) -> Meaning:
        nodes, witness, groups, exchange, later = (column[place].as_py() for column in self._columns)
        return Meaning(tuple(nodes), tuple(witness), frozenset(groups), exchange, later or 0)


def files_with(files: Iterable[str], docs: Int64s) -> list[str]:
    """Return the files of a batch's results that tell of some documents, as far as their statistics say.

    Args:
        files: of one batch, or of several in one folder.
        docs: numbers of the documents, ascending.
    """
    found, told = [], False
    for file in files:
        with pq.ParquetFile(file, **CHECKED_PAGES) as opened:
            has = _may_tell(opened.metadata, docs)
            alone = "groups" not in opened.schema_arrow.names  # others say what pairs mean
        told |= has
        if has or not alone:
            found.append(file)
    return found if told else []


def _may_tell(meta: pq.FileMetaData, docs: Int64s) -> bool:
    for group in map(meta.row_group, range(meta.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            known = column.statistics if column.path_in_schema in _MEMBERS else None
            if column.path_in_schema not in _MEMBERS or (known is not None and known.null_count == column.num_values):
                continue
            if known is None or not known.has_min_max:
                return True
            at = int(np.searchsorted(docs, known.min))
            if at < len(docs) and docs[at] <= known.max:
                return True
    return False


def stored_matches(files: Iterable[str | Path], groups: Collection[int] | None = None) -> Iterator[StoredMatch]:
    """Iterate over the matches in some files of results, of some groups or of all."""
    results = Results(files)
    meanings = results.meanings(groups)
    if not meanings:
        return
    found = results.combinations(meanings)
    for row, (origin, number) in enumerate(zip(found.origin.tolist(), found.number.tolist(), strict=True)):
        docids = found.docids(row)
        for meaning in meanings.of(origin, number):
            yield StoredMatch(docids, *meaning, batch_of(origin))
