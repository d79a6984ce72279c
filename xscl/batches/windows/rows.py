"""Matches that windows are over, as they are kept from batch to batch: one file of the state for all of them.

A row is a match of parts of queries with windows, with the exact texts of its variables.  Parts that select from one
channel share a row, which has the numbers of those that have the match.  All queries that say something of a part's
matches share its rows, whatever their windows and conditions are.  Rows behind them are buckets, with the texts of
their columns, and the last answers of ``ONCE PER``, each a group of queries, the digest of a group of matches and a
time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xscl.base.docids import place_of
from xscl.base.failpoints import step
from xscl.base.number_order import each_once
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, write_sealed
from xscl.batches.windows.answers import Told
from xscl.batches.windows.buckets import Buckets
from xscl.catalog.records import ChannelInfo
from xscl.store.event_files import event_document, events_of
from xscl.store.home import Home
from xscl.store.parquet import rows_where
from xscl.store.state_files import StateFile, facts_of_held_file
from xscl.store.taken_events import TakenEvents
from xscl.templates.columns import Bools
from xscl.xpath.nodes import NodeNumbers, string_value

__all__ = [
    "KEPT_SCHEMA",
    "ROW_SCHEMA",
    "Found",
    "Kept",
    "in_order",
    "in_time",
    "keys_of",
    "members_of",
    "merged",
    "read_kept",
    "read_waits",
    "rows_of",
    "write_kept",
]

ROW_SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("key", pa.binary()),  # documents and nodes, by which matches of one time are ordered
        ("first", pa.int64()),  # least place of a member
        ("came", pa.int64()),  # greatest place of a member
        ("received", pa.int64()),
        ("name", pa.string()),  # channels and ids of the members
        ("texts", pa.list_(pa.string())),  # values of the variables
    ]
)
"""Columns of a match."""
KEPT_SCHEMA = pa.schema(
    [
        *ROW_SCHEMA,
        ("parts", pa.list_(pa.int64())),  # the groups that find it
        ("numbers", pa.list_(pa.int64())),  # places among all settled matches of each; -1: its time is not settled
    ]
)
_FILE_SCHEMA = KEPT_SCHEMA.append(pa.field("told", pa.int64()))
"""``told`` is the group of queries that told of the digest ``key``; null: the row is a match."""
_FACTS = b"xscl"
_WRITTEN: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": ["parts.list.element", "texts.list.element"],
    "write_statistics": False,
    "column_encoding": {
        **dict.fromkeys(("ts", "first", "came", "received", "numbers.list.element", "told"), "DELTA_BINARY_PACKED"),
        **dict.fromkeys(("key", "name"), "DELTA_BYTE_ARRAY"),
    },
    **PAGE_CHECKSUMS,
}
"""Options of its files: rows are in order, and little of one differs from the one before."""


@dataclass
class Kept:
    """Rows of all parts, and how far their windows are answered."""

    rows: dict[tuple[int, ...], pa.Table] = field(default_factory=dict)
    """Rows of parts that share them, by time and by the order of their documents."""
    answered: dict[int, int] = field(default_factory=dict)
    """Time up to which windows are answered, by part."""
    settled: dict[int, int] = field(default_factory=dict)
    """Number of matches that were settled, by part."""
    buckets: dict[tuple[int, str], Buckets] = field(default_factory=dict)
    """Buckets by part and ``key_of`` their shape."""
    told: dict[int, Told] = field(default_factory=dict)
    """Last answers, by group of queries."""
    waits: tuple[str, ...] = ()
    """Channels whose times end windows."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Return the number of rows, of rows of each part, and of buckets."""
        tables = self.rows.values()
        of_parts = sum(pc.sum(pc.list_value_length(table["parts"])).as_py() or 0 for table in tables)
        return sum(map(len, tables)), of_parts, sum(map(len, self.buckets.values()))

    @property
    def nbytes(self) -> int:
        """Return the bytes of all rows, about."""
        return sum(int(of.nbytes) for of in (*self.rows.values(), *self.buckets.values()))


class Found(NamedTuple):
    """Matches that were found for a part."""

    docs: Any
    """Documents of each, in block order."""
    nodes: Any
    """Result nodes of the documents, then the nodes of the variables, of each."""
    blocks: Sequence[int]
    """Block of each variable."""


def read_waits(path: Path) -> list[str]:
    """Return the channels whose times end the windows over the rows of a file."""
    facts = json.loads(pq.read_schema(check_file(path)).metadata[_FACTS])
    return list(facts["waits"])


def read_kept(path: Path | None) -> Kept:
    """Read the rows of a file; None: there are none."""
    if path is None:
        return Kept()
    table = pq.read_table(check_file(path), schema=_FILE_SCHEMA)
    facts = json.loads(pq.read_schema(path).metadata[_FACTS])
    rows, at = dict[tuple[int, ...], pa.Table](), 0
    for parts, count in facts["rows"]:
        rows[tuple(parts)] = table.slice(at, count).select(KEPT_SCHEMA.names)
        at += count
    buckets = dict[tuple[int, str], Buckets]()
    for part, key, until, names, count in facts["buckets"]:
        buckets[part, key] = _read_buckets(table.slice(at, count), until, names)
        at += count
    told: dict[int, Told] = {}
    answers = table.slice(at).select(["told", "first", "key", "ts"])
    for gid, since, key, ts in zip(*(column.to_pylist() for column in answers.columns), strict=True):
        told.setdefault(gid, {})[since, key.decode()] = ts
    answered = {int(part): time for part, time in facts["answered"].items()}
    settled = {int(part): count for part, count in facts["settled"].items()}
    return Kept(rows, answered, settled, buckets, told, tuple(facts["waits"]))


def write_kept(home: Home, tag: str, batch: int, kept: Kept) -> StateFile | None:
    """Write the rows that are kept after a batch; nothing names the file yet, whose name begins with ``tag``."""
    tables = [
        table.append_column("told", pa.nulls(table.num_rows, pa.int64())) for _, table in sorted(kept.rows.items())
    ]
    tables += [_bucket_rows(of) for _, of in sorted(kept.buckets.items())]
    table = pa.concat_tables([*tables, _told_rows(kept.told)]).combine_chunks()
    if not table.num_rows:
        return None
    counts = [(parts, of.num_rows) for parts, of in sorted(kept.rows.items())]
    buckets = [(*key, of.until, [*of.columns], len(of)) for key, of in sorted(kept.buckets.items())]
    facts = {
        "buckets": buckets,
        "answered": kept.answered,
        "settled": kept.settled,
        "waits": kept.waits,
        "rows": counts,
    }
    table = table.replace_schema_metadata({_FACTS: json.dumps(facts)})
    path = home.folder("witness") / f"{tag}-windows.parquet"
    made = write_sealed(path, lambda target: pq.write_table(table, target, **_WRITTEN))
    step("batch.windows")
    return facts_of_held_file(home.root, made, "windows", batch)


def _bucket_rows(buckets: Buckets) -> pa.Table:
    count, width = len(buckets), len(buckets.columns)
    flat = pa.concat_arrays([*buckets.columns.values()]).take(
        pa.array(np.arange(count * width).reshape(width, -1).T.ravel())
    )
    texts = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * width), flat)
    known = {"texts": texts, **{name: buckets.rows.column(name).combine_chunks() for name in buckets.rows.column_names}}
    columns = [known[one.name] if one.name in known else pa.nulls(count, one.type) for one in _FILE_SCHEMA]
    return pa.table(columns, schema=_FILE_SCHEMA)


def _read_buckets(table: pa.Table, until: int, names: Sequence[str]) -> Buckets:
    flat = table.column("texts").combine_chunks().flatten()
    columns = {name: flat.take(pa.array(np.arange(at, len(flat), len(names)))) for at, name in enumerate(names)}
    return Buckets(until, table.select(["ts", "first", "received"]).combine_chunks(), columns)


def _told_rows(told: Mapping[int, Told]) -> pa.Table:
    """Return answers of ``ONCE PER`` as rows; metadata of a file could not hold as many as there may be."""
    each = [(gid, since, key, ts) for gid, of in told.items() for (since, key), ts in of.items()]
    gids, places, keys, times = (list(column) for column in zip(*each, strict=True)) if each else ([], [], [], [])
    known = {"told": gids, "first": places, "key": [key.encode() for key in keys], "ts": times}
    columns = [pa.array(known.get(one.name, [None] * len(each)), one.type) for one in _FILE_SCHEMA]
    return pa.table(columns, schema=_FILE_SCHEMA)


def members_of(
    home: Home, found: Sequence[Found], tables: Sequence[pa.Table] = (), taken: TakenEvents | None = None
) -> pa.Table:
    """Return the documents of matches, as ``rows_of`` needs them.

    Args:
        home: the home, whose files have documents.
        found: the matches.
        tables: documents that no file has yet.
        taken: documents that need not be read.
    """
    texts = ["content", "cells"] if any(len(each.blocks) for each in found) else []
    columns = ["docid", "item", "channel", "id", "ts", "start", "late", "behind", "received", *texts]
    docs = each_once(np.concatenate([each.docs.reshape(-1) for each in found]))
    held = np.zeros(len(docs), dtype=np.bool_) if taken is None else taken.has(docs)
    if taken is None or not held.any():
        events = events_of(home, docs, columns, tables)
    else:
        events = taken.rows.select(columns)
        if int(held.sum()) < len(events):
            events = rows_where(events, np.isin(events.column("docid").to_numpy(), docs[held]))
        if not held.all():
            events = pa.concat_tables([events, events_of(home, docs[~held], columns, tables)])
    numbers = events.column("docid").to_numpy()
    return events if (numbers[1:] > numbers[:-1]).all() else events.sort_by("docid")


def in_time(found: Found, events: pa.Table) -> Bools:
    """Tell which matches have no late documents.

    Late documents serve queries of one block, or join when they are replayed, but windows are a question of order.
    """
    late = events.column("docid").to_numpy()[events.column("late").to_numpy()]
    return np.asarray(~np.isin(found.docs, late).any(axis=1)) if len(late) else np.ones(len(found.docs), dtype=np.bool_)


def rows_of(found: Found, events: pa.Table, channels: Mapping[str, ChannelInfo]) -> pa.Table:
    """Return matches that were found as rows, without late ones.

    Args:
        found: the matches.
        events: their documents, by ``members_of``.
        channels: the channels by name; one that a query has just published to is not among them.
    """
    blocks = list(found.blocks)
    numbers = events.column("docid").to_numpy()
    wanted = in_time(found, events)
    docs, nodes = (found.docs, found.nodes) if wanted.all() else (found.docs[wanted], found.nodes[wanted])
    at = np.searchsorted(numbers, docs)
    places = place_of(docs)
    texts = _texts(events, at[:, blocks], nodes[:, docs.shape[1] :], channels)
    columns_of = {
        "ts": events.column("ts").to_numpy()[at].max(axis=1),
        "key": keys_of(docs, nodes),
        "first": places.min(axis=1),
        "came": places.max(axis=1),
        "received": events.column("received").to_numpy()[at].max(axis=1),
        "name": _names(events, at),
        "texts": texts,
    }
    return pa.table(columns_of, schema=ROW_SCHEMA)


def keys_of(docs: Any, nodes: Any) -> pa.Array:
    """Return documents and nodes as bytes in whose order they are."""
    count, of_docs = docs.shape
    whole = np.empty((count, of_docs + nodes.shape[1]), dtype=">i8")
    whole[:, :of_docs], whole[:, of_docs:] = docs, nodes
    ends = pa.array(np.arange(count + 1) * whole[:1].nbytes).cast(pa.int32())  # fails where they are too many
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, ends.buffers()[1], pa.py_buffer(whole)])


def _names(events: pa.Table, at: Any) -> pa.Array:
    """Return channels and ids of members; neither has the character of the code 0."""
    each = pc.binary_join_element_wise(events.column("channel"), events.column("id"), "\0").combine_chunks()
    first, *others = (each.take(pa.array(at[:, block])) for block in range(at.shape[1]))
    return pc.binary_join_element_wise(first, *others, "\0") if others else first


def _texts(events: pa.Table, at: Any, nodes: Any, channels: Mapping[str, ChannelInfo]) -> pa.Array:
    """Return the string values of nodes; ``at`` are the places of their documents among some events."""
    count, width = nodes.shape
    if not width:
        return pa.array([[]] * count, pa.list_(pa.string()))
    quick = _of_cells(events, at, nodes)
    if quick is not None:
        return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * width), quick)
    which, flat = np.unique(np.stack([at.reshape(-1), nodes.reshape(-1)], axis=1), axis=0, return_inverse=True)
    wanted: dict[int, list[int]] = {}
    for place, node in which.tolist():
        wanted.setdefault(place, []).append(node)
    rows = events.select(["channel", "content", "cells"]).take(pa.array(list(wanted), pa.int64())).to_pylist()
    documents = [
        event_document(row["content"], row["cells"], channels.get(row["channel"]) or ChannelInfo.new(row["channel"]))
        for row in rows
    ]
    values = in_fresh_dictionary(_values, documents, list(wanted.values()))
    texts = pa.array(values, pa.string()).take(pa.array(flat.reshape(-1)))
    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * width), texts)


def _of_cells(events: pa.Table, at: Any, nodes: Any) -> pa.Array | None:
    """Return the string values of nodes of rows, all of one channel; None: they are no cells."""
    cells = events.column("cells").combine_chunks()
    if cells.null_count or not len(cells) or len(pc.unique(cells.value_lengths())) > 1:
        return None
    flat = cells.flatten()
    width = len(flat) // len(cells)
    # The elements of a row's document are its root, and one for each cell that has a value.
    wanted, rows = nodes.reshape(-1), at.reshape(-1)
    if (wanted < 1).any():
        return None
    if not flat.null_count:
        return None if (wanted > width).any() else flat.take(pa.array(rows * width + wanted - 1))
    there = flat.is_valid().to_numpy(zero_copy_only=False).reshape(-1, width)
    number = np.cumsum(there, axis=1)
    if (wanted > number[rows, -1]).any():
        return None
    column = (number[rows] < wanted[:, None]).sum(axis=1)
    return flat.take(pa.array(rows * width + column))


def _values(documents: Sequence[str], wanted: Sequence[Sequence[int]]) -> list[str]:
    found: list[str] = []
    for document, nodes in zip(documents, wanted, strict=True):
        numbers = NodeNumbers(parse_stored(document))
        found += [string_value(numbers.node(node)) for node in nodes]
    return found


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows by time and by the order of their documents."""
    if (np.diff(rows.column("ts").to_numpy()) > 0).all():
        return rows
    return rows.take(pc.sort_indices(rows, sort_keys=[("ts", "ascending"), ("key", "ascending")]))


def merged(old: pa.Table, new: pa.Table) -> pa.Table:
    """Return rows that are in order and new ones, in order."""
    if not new.num_rows:
        return old
    # Most rows are older than all that come.
    behind = int(np.searchsorted(old.column("ts").to_numpy(), pc.min(new.column("ts")).as_py()))
    return pa.concat_tables([old.slice(0, behind), in_order(pa.concat_tables([old.slice(behind), new]))])
