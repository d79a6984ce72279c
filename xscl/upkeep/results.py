"""Upkeep of results: folders of many batches become one, and matches with an event that is gone leave.

Rows say themselves which batch found them (``origin``), so folders are merged by putting their rows one after another,
in the order of batches, each batch's rows in the order they had.  Rows that nobody reads after their batch (links,
counts of pairs, refusals) stay behind, as do meanings of classes without a combination of documents, and what only
windows were over: each batch takes its matches into the state.  Sizes go by tiers, as sizes of events do (``events``).

Column ``result_path`` of a batch then names the folder that it shares with others, or nothing.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.base.failpoints import step
from xscl.base.sealed import PAGE_CHECKSUMS, seal_folder
from xscl.base.types import now_micros
from xscl.catalog.batches import move_results
from xscl.catalog.state_files import retire_files
from xscl.catalog.tables import BATCHES
from xscl.catalog.windows import groups_of_windows_alone
from xscl.store.compaction import neighbours, tier_of
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.inventory import changed_elsewhere, removed_unless_named
from xscl.store.parquet import codes, int64s, joined, list_parts, read_columns, rows_where
from xscl.templates.pair_spans import SPAN_SCHEMA, expanded_spans
from xscl.templates.results import FEW_COMBINATIONS, RESULT_SCHEMA, SPANS_FILE, without_empty_columns

__all__ = ["ResultFolder", "ResultUpkeep"]

FANOUT = 8
SMALL = 1_000
"""Rows of the greatest folder of the lowest tier."""
LARGE = 2_000_000
"""Rows from which on folders are not merged."""
_TIMES = 17
_ROW_GROUP = 64_000
_FACTS = b"xscl.members"
_MEANING = ("match", "rout")
_COMBINATION = pa.schema([RESULT_SCHEMA.field(name) for name in ("relation", "origin", "class", "d1", "d2", "docs")])
"""Columns of combinations of documents."""
_MERGED = "merged.parquet"
_MEANINGS = "meanings.parquet"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ResultFolder:
    """A folder of results, and the batches that have it."""

    path: str
    batches: int
    first: int
    """The number of the first of them."""
    last: int
    last_place: int
    """The last place of the last of them."""
    matches: int


_Facts = list[tuple[int, list[tuple[str, list[int]]]]]
"""Number of combinations of documents by the channels of their members, and of each member the channel and some of its
times in order, at equal distances.
"""


@dataclass(frozen=True, slots=True)
class _Left:
    """Rows of some folders that are left."""

    meant: pa.Table
    """Meanings of classes."""
    docs: pa.Table
    """Combinations of documents (``_COMBINATION``)."""
    spans: pa.Table
    """Spans of pairs."""
    facts: _Facts | None
    """Facts of the combinations; None: nothing has gone, and nobody has looked at them."""


class ResultUpkeep:
    """Looks after the results of a home; what it learns of folders it remembers."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._rows: dict[str, int] = {}
        self._facts: dict[str, _Facts | None] = {}

    def folders(self) -> list[ResultFolder]:
        """Return the folders of results in the order of batches."""
        first = sa.func.min(BATCHES.c.batch)
        statement = (
            sa.select(
                BATCHES.c.result_path,
                sa.func.count(),
                first,
                sa.func.max(BATCHES.c.batch),
                sa.func.max(BATCHES.c.last),
                sa.func.sum(BATCHES.c.matches + BATCHES.c.rout),
            )
            .where(BATCHES.c.result_path.is_not(None))
            .group_by(BATCHES.c.result_path)
            .order_by(first)
        )
        with self._home.catalog.read() as connection:
            found = [ResultFolder(*row) for row in connection.execute(statement)]
        there = {folder.path for folder in found}
        self._rows = {path: rows for path, rows in self._rows.items() if path in there}
        self._facts = {path: facts for path, facts in self._facts.items() if path in there}
        return found

    def work(self, kept: Mapping[str, int], oldest: int) -> Iterator[int]:
        """Replace folders until none is left to replace; yield after each replacement how many folders it took.

        Args:
            kept: from which time on events of a channel are kept.
            oldest: a place before which no event is kept.
        """
        folders = self.folders()
        empty = [folder for folder in folders if not folder.matches or self._is_gone(folder, kept, oldest)]
        if empty:
            self._replace(empty, None)
            yield len(empty)
        gone = {folder.path for folder in empty}
        left = [folder for folder in folders if folder.path not in gone]
        for folder in left if kept else ():
            if self._lost_part(folder, kept) >= 0.5:
                self._merge([folder], kept)
                yield 1
        held = [folder for folder in self.folders() if folder.matches]
        for inputs in neighbours(
            held, lambda folder: _tier(self._size(folder)), lambda folder: (self._size(folder),), (LARGE,), FANOUT
        ):
            self._merge(inputs, kept)
            yield len(inputs)

    # -- what folders hold -------------------------------------------------------------------------------------

    def _is_gone(self, folder: ResultFolder, kept: Mapping[str, int], oldest: int) -> bool:
        """Whether no match of a folder is left: each has a member that came with its batch."""
        if not kept:
            return False
        return folder.last_place < oldest or self._lost_part(folder, kept) == 1

    def _lost_part(self, folder: ResultFolder, kept: Mapping[str, int]) -> float:
        """Estimate which part of a folder's matches is gone: exact if all are, 0 where it is not known yet."""
        facts = self._facts_of(folder)
        if not facts:
            return 0.0
        gone = whole = 0.0
        for rows, members in facts:
            parts = [bisect_left(times, kept[name]) / len(times) for name, times in members if name in kept]
            gone, whole = gone + rows * max(parts, default=0.0), whole + rows
        return gone / whole

    def _facts_of(self, folder: ResultFolder) -> _Facts | None:
        if folder.path not in self._facts:
            merged = [file for file in self._home.results([folder.path]) if Path(file).name == _MERGED]
            written = (pq.read_schema(merged[0]).metadata or {}).get(_FACTS) if merged else None
            self._facts[folder.path] = None if written is None else json.loads(written)
        return self._facts[folder.path]

    def _size(self, folder: ResultFolder) -> int:
        if folder.path not in self._rows:
            files = self._home.results([folder.path])
            self._rows[folder.path] = sum(pq.read_metadata(file).num_rows for file in files)
        return self._rows[folder.path]

    # -- merging -----------------------------------------------------------------------------------------------

    def _merge(self, inputs: Sequence[ResultFolder], kept: Mapping[str, int]) -> None:
        """Write what is left of some folders into one."""
        home = self._home
        left = self._left(inputs, kept)
        if not left.docs.num_rows and not left.spans.num_rows:
            self._replace(inputs, None)
            return
        name = f"results/{inputs[0].first:08d}-{inputs[-1].last:08d}-{uuid.uuid4().hex[:8]}"
        with removed_unless_named(home, BATCHES.c.result_path) as written:
            written.append(name)
            _write(home.root / name / "0", left)
            seal_folder(home.root / name)
            step("upkeep.results")
            self._replace(inputs, name)
            step("upkeep.folders")

    def _left(self, inputs: Sequence[ResultFolder], kept: Mapping[str, int]) -> _Left:
        """Return what is left of some folders."""
        home = self._home
        files = home.results([folder.path for folder in inputs])
        told = [file for file in files if Path(file).name == SPANS_FILE]
        spans = joined([read_columns(file, SPAN_SCHEMA, SPAN_SCHEMA.names) for file in told], SPAN_SCHEMA)
        read = [_meanings_and_docs(file) for file in files if file not in told]
        meant = joined([rows for rows, _ in read], RESULT_SCHEMA)
        docs = joined([rows for _, rows in read], _COMBINATION)
        with home.catalog.read() as connection:
            asked = _has_others(meant, groups_of_windows_alone(connection))
        if not asked.all():
            meant = rows_where(meant, asked)
            docs, spans = rows_where(docs, _has_class(docs, meant)), _spans_of(spans, meant)
        facts: _Facts | None = None
        if kept:
            # Which pairs are left is told one by one.
            docs, facts = _remaining_combinations(home, _with_pairs(docs, spans), kept)
            spans = spans.slice(0, 0)
        # Where nothing has gone, each class has what it had.
        if kept or not asked.all():
            told_of = spans.filter(pc.equal(spans.column("relation"), "span"))
            meant = meant.filter(pa.array(_has_class(meant, docs, told_of)))
        return _Left(meant, docs, spans, facts)

    def _replace(self, inputs: Sequence[ResultFolder], path: str | None) -> None:
        """Have the batches of some folders name another one, or none."""
        with self._home.catalog.begin() as connection:
            batches = move_results(connection, [folder.path for folder in inputs], path)
            for folder in inputs:
                if batches.get(folder.path) != folder.batches:
                    raise changed_elsewhere(folder.path)
            retire_files(connection, [folder.path for folder in inputs], now_micros())


def _write(folder: Path, left: _Left) -> None:
    """Write a folder that is not there yet: a few combinations stand with what they mean, as in those of batches."""
    folder.mkdir(parents=True)
    meant, docs = left.meant, left.docs
    if docs.num_rows <= FEW_COMBINATIONS:
        meant, docs = meant.slice(0, 0), pa.concat_tables([meant, docs], promote_options="default")
    if left.facts is not None:
        docs = docs.replace_schema_metadata({_FACTS: json.dumps(left.facts, ensure_ascii=False).encode()})
    for name, rows in ((_MEANINGS, meant), (_MERGED, docs), (SPANS_FILE, left.spans)):
        if rows.num_rows:
            options = {"compression": "zstd", "row_group_size": _ROW_GROUP, **PAGE_CHECKSUMS}
            pq.write_table(without_empty_columns(rows), folder / name, **options)


def _tier(rows: int) -> int | None:
    """Return the tier of a folder by its rows; None: it is large enough."""
    return None if rows >= LARGE else tier_of(rows, SMALL, FANOUT)


# -- members ---------------------------------------------------------------------------------------------------


def _remaining_combinations(home: Home, docs: pa.Table, kept: Mapping[str, int]) -> tuple[pa.Table, _Facts]:
    """Return the combinations whose members are all kept, and their facts."""
    rows, members = _members(docs)
    events = events_of(home, set(np.unique(members).tolist()), ["docid", "channel", "ts"])
    docids = events.column("docid").to_numpy()
    order = np.argsort(docids)
    docids = docids[order]
    channels = events.column("channel").combine_chunks().dictionary_encode()
    names = channels.dictionary.to_pylist()
    codes = channels.indices.to_numpy(zero_copy_only=False).astype(np.int64)[order]
    ts = events.column("ts").to_numpy()[order]
    bounds = np.array([kept.get(name, -(1 << 63)) for name in names], np.int64)
    at = np.minimum(np.searchsorted(docids, members), max(len(docids) - 1, 0))
    alive = (
        np.zeros(len(members), np.bool_) if not len(docids) else (docids[at] == members) & (ts[at] >= bounds[codes[at]])
    )
    stays = np.ones(docs.num_rows, np.bool_)
    stays[rows[~alive]] = False
    inside = stays[rows]
    rows, at = rows[inside], at[inside]
    return docs.filter(pa.array(stays)), _facts(rows, codes[at], ts[at], names) if len(rows) else []


def _members(docs: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (row, document) of every member, row by row and in block order."""
    many = docs.column("docs").combine_chunks()
    own = np.arange(docs.num_rows, dtype=np.int64)
    found = [(own[~pc.is_null(docs.column(name)).to_numpy()], docs.column(name).drop_null()) for name in ("d1", "d2")]
    listed = pc.list_parent_indices(many).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.concatenate([*(rows for rows, _ in found), listed])
    values = np.concatenate([*(column.to_numpy() for _, column in found), pc.list_flatten(many).to_numpy()])
    order = np.argsort(rows, kind="stable")
    return rows[order], values[order]


def _facts(
    rows: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], ts: npt.NDArray[np.int64], names: Sequence[str]
) -> _Facts:
    """Return the facts of combinations of documents; ``rows`` is the combination of each member."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    lengths = np.diff(np.append(starts, len(rows)))
    kinds: dict[tuple[int, ...], list[int]] = {}
    for length in np.unique(lengths).tolist():
        mine = starts[lengths == length]
        signatures = codes[mine[:, None] + np.arange(length)]
        distinct, which = np.unique(signatures, axis=0, return_inverse=True)
        for number, signature in enumerate(distinct.tolist()):
            kinds[tuple(signature)] = mine[which.reshape(-1) == number].tolist()
    facts: _Facts = []
    for signature, begins in kinds.items():
        members = []
        for place, code in enumerate(signature):
            times = np.sort(ts[np.array(begins) + place])
            members.append((names[code], times[np.linspace(0, len(times) - 1, _TIMES).astype(np.int64)].tolist()))
        facts.append((len(begins), members))
    return facts


def _with_pairs(docs: pa.Table, spans: pa.Table) -> pa.Table:
    """Return combinations with the pairs that spans tell of."""
    if not spans.num_rows:
        return docs
    pairs = expanded_spans(spans)
    pairs = pairs.append_column("relation", pa.repeat("docs", pairs.num_rows))
    return pa.concat_tables([docs, pairs], promote_options="default").select(_COMBINATION.names)


def _meanings_and_docs(file: str) -> tuple[pa.Table, pa.Table]:
    """Read the meanings of classes and the combinations of documents that a file has."""
    rows = read_columns(file, RESULT_SCHEMA, RESULT_SCHEMA.names)
    return rows_where(rows, _is_of(rows, *_MEANING)), rows_where(rows.select(_COMBINATION.names), _is_of(rows, "docs"))


def _is_of(rows: pa.Table, *relations: str) -> Mask:
    """Tell which rows are of some relations."""
    numbers, names = codes(rows.column("relation"))
    found: Mask = np.isin(numbers, [number for number, name in enumerate(names) if name in relations])
    return found


def _has_others(meant: pa.Table, groups: Sequence[int]) -> Mask:
    """Tell which rows have other groups than some."""
    lengths, values = list_parts(meant.column("groups"))
    found: Mask = np.zeros(meant.num_rows, np.bool_)
    found[np.repeat(np.arange(meant.num_rows), lengths)[~np.isin(values, np.array(groups, np.int64))]] = True
    return found


def _spans_of(spans: pa.Table, meant: pa.Table) -> pa.Table:
    """Return the spans whose class rows have, with all lists if there are any."""
    of_lists = pc.equal(spans.column("relation"), "list")
    lists, found = spans.filter(of_lists), spans.filter(pc.invert(of_lists))
    found = found.filter(pa.array(_has_class(found, meant)))
    return pa.concat_tables([lists, found]) if found.num_rows else found


def _has_class(rows: pa.Table, *others: pa.Table) -> Mask:
    """Tell which rows have a class that one of others has."""
    tables = (rows, *others)
    origins = np.concatenate([int64s(table.column("origin")) for table in tables])
    _, dense = np.unique(origins, return_inverse=True)
    classes = np.concatenate([int64s(table.column("class")) for table in tables])
    keys = dense.reshape(-1).astype(np.int64) << 32 | classes
    found: Mask = np.isin(keys[: rows.num_rows], keys[rows.num_rows :])
    return found
