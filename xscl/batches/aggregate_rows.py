"""Matches that windows are over, as they are kept from batch to batch: one file of the state for all of them.

A row is a match of a part of queries with windows, with the exact texts of its variables.  All queries that say
something of the part's matches share its rows, whatever their windows and conditions are.  Rows behind them are the
last answers of ``ONCE PER``, each a group of queries, the digest of a group of matches and a time.
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
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, write_sealed
from xscl.batches.aggregate_answers import Told
from xscl.catalog.records import ChannelInfo
from xscl.store.event_files import event_document, events_of
from xscl.store.home import Home
from xscl.store.state_files import StateFile, facts_of_file
from xscl.templates.columns import rising
from xscl.xpath.nodes import NodeNumbers, string_value

__all__ = [
    "ROW_SCHEMA",
    "Found",
    "Kept",
    "in_order",
    "members_of",
    "merged",
    "numbered_rows",
    "read_kept",
    "read_waits",
    "rows_of",
    "write_kept",
]

ROW_SCHEMA = pa.schema(
    [
        ("part", pa.int64()),  # the group that finds it
        ("ts", pa.int64()),
        ("key", pa.binary()),  # documents and nodes, by which matches of one time are ordered
        ("first", pa.int64()),  # least place of a member
        ("came", pa.int64()),  # greatest place of a member
        ("received", pa.int64()),
        ("name", pa.string()),  # channels and ids of the members
        ("texts", pa.list_(pa.string())),  # values of the variables
        ("number", pa.int64()),  # place among all settled matches of the part; null: its time is not settled
        ("told", pa.int64()),  # the group of queries that told of the digest ``key``; null: the row is a match
    ]
)
_FACTS = b"xscl"
_WRITTEN: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": ["part", "texts.list.element"],
    "write_statistics": False,
    "column_encoding": {
        **dict.fromkeys(("ts", "first", "came", "received", "number", "told"), "DELTA_BINARY_PACKED"),
        **dict.fromkeys(("key", "name"), "DELTA_BYTE_ARRAY"),
    },
    **PAGE_CHECKSUMS,
}
"""Options of its files: rows are in order, and little of one differs from the one before."""


@dataclass
class Kept:
    """Rows of all parts, and how far their windows are answered."""

    rows: pa.Table = field(default_factory=ROW_SCHEMA.empty_table)
    """Rows by part, by time and by the order of their documents."""
    answered: dict[int, int] = field(default_factory=dict)
    """Time up to which windows are answered, by part."""
    settled: dict[int, int] = field(default_factory=dict)
    """Number of matches that were settled, by part."""
    told: dict[int, Told] = field(default_factory=dict)
    """Last answers, by group of queries."""
    waits: tuple[str, ...] = ()
    """Channels whose times end windows."""

    def of(self, part: int) -> pa.Table:
        """Return the rows of a part."""
        begin, end = np.searchsorted(self.rows.column("part").to_numpy(), [part, part + 1]).tolist()
        return self.rows.slice(begin, end - begin)


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
    table = pq.read_table(check_file(path), schema=ROW_SCHEMA)
    facts = json.loads(pq.read_schema(path).metadata[_FACTS])
    matches = table.column("told").null_count  # the answers are behind them
    told: dict[int, Told] = {}
    answers = table.slice(matches).select(["told", "first", "key", "ts"])
    for gid, since, key, ts in zip(*(column.to_pylist() for column in answers.columns), strict=True):
        told.setdefault(gid, {})[since, key.decode()] = ts
    answered = {int(part): time for part, time in facts["answered"].items()}
    settled = {int(part): count for part, count in facts["settled"].items()}
    return Kept(table.slice(0, matches), answered, settled, told, tuple(facts["waits"]))


def write_kept(home: Home, tag: str, batch: int, kept: Kept) -> StateFile | None:
    """Write the rows that are kept after a batch; nothing names the file yet, whose name begins with ``tag``."""
    table = pa.concat_tables([kept.rows, _told_rows(kept.told)])
    if not table.num_rows:
        return None
    facts = {"answered": kept.answered, "settled": kept.settled, "waits": kept.waits}
    table = table.replace_schema_metadata({_FACTS: json.dumps(facts)})
    path = home.folder("witness") / f"{tag}-windows.parquet"
    made = write_sealed(path, lambda target: pq.write_table(table, target, **_WRITTEN))
    found = facts_of_file(home.root, str(made.relative_to(home.root)), "windows", batch)
    step("batch.windows")
    return StateFile(**{**found.row(), "held": found.rows})  # type: ignore[arg-type]


def _told_rows(told: Mapping[int, Told]) -> pa.Table:
    """Return answers of ``ONCE PER`` as rows; metadata of a file could not hold as many as there may be."""
    each = [(gid, since, key, ts) for gid, of in told.items() for (since, key), ts in of.items()]
    gids, places, keys, times = (list(column) for column in zip(*each, strict=True)) if each else ([], [], [], [])
    known = {"told": gids, "first": places, "key": [key.encode() for key in keys], "ts": times}
    columns = [pa.array(known.get(one.name, [None] * len(each)), one.type) for one in ROW_SCHEMA]
    return pa.table(columns, schema=ROW_SCHEMA)


def members_of(home: Home, found: Sequence[Found], tables: Sequence[pa.Table] = ()) -> pa.Table:
    """Read the documents of matches, as ``rows_of`` needs them; ``tables`` are documents that no file has yet."""
    texts = ["content", "cells"] if any(len(each.blocks) for each in found) else []
    columns = ["docid", "channel", "id", "ts", "start", "late", "received", *texts]
    docs = rising(np.concatenate([each.docs.reshape(-1) for each in found]))
    events = events_of(home, docs, columns, tables)
    numbers = events.column("docid").to_numpy()
    return events if (numbers[1:] > numbers[:-1]).all() else events.sort_by("docid")


def rows_of(part: int, found: Found, events: pa.Table, channels: Mapping[str, ChannelInfo]) -> pa.Table:
    """Return matches that were found for a part as rows.

    Args:
        part: the group that found them.
        found: the matches.
        events: their documents, by ``members_of``.
        channels: the channels by name; one that a query has just published to is not among them.
    """
    blocks = list(found.blocks)
    numbers = events.column("docid").to_numpy()
    # Late documents serve queries of one block, or join when they are replayed, but windows are a question of order.
    docs, nodes, late = found.docs, found.nodes, numbers[events.column("late").to_numpy()]
    if len(late):
        wanted = ~np.isin(docs, late).any(axis=1)
        docs, nodes = docs[wanted], nodes[wanted]
    at = np.searchsorted(numbers, docs)
    places = place_of(docs)
    texts = _texts(events, at[:, blocks], nodes[:, docs.shape[1] :], channels)
    columns_of = {
        "part": np.full(len(docs), part),
        "ts": events.column("ts").to_numpy()[at].max(axis=1),
        "key": _keys(docs, nodes),
        "first": places.min(axis=1),
        "came": places.max(axis=1),
        "received": events.column("received").to_numpy()[at].max(axis=1),
        "name": _names(events, at),
        "texts": texts,
        "number": pa.nulls(len(docs), pa.int64()),
        "told": pa.nulls(len(docs), pa.int64()),
    }
    return pa.table(columns_of, schema=ROW_SCHEMA)


def _keys(docs: Any, nodes: Any) -> pa.Array:
    """Return documents and nodes as bytes in whose order they are."""
    whole = np.ascontiguousarray(np.concatenate([docs, nodes], axis=1), dtype=">i8")
    width = whole.shape[1] * 8
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(docs), [None, pa.py_buffer(whole.tobytes())])
    return fixed.cast(pa.binary())


def _names(events: pa.Table, at: Any) -> pa.Array:
    """Return channels and ids of members; neither has the character of the code 0."""
    each = pc.binary_join_element_wise(events.column("channel"), events.column("id"), "\0").combine_chunks()
    return pc.binary_join_element_wise(*(each.take(pa.array(at[:, block])) for block in range(at.shape[1])), "\0")


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


def numbered_rows(rows: pa.Table, now: int, settled: int) -> tuple[pa.Table, int]:
    """Give rows whose time is settled their numbers, which go on behind those of before.

    Args:
        rows: rows of a part, in order.
        now: the time up to which times are settled.
        settled: how many matches of the part were settled before.

    Returns:
        The rows, and how many are settled now.
    """
    numbers = rows.column("number").fill_null(-1).to_numpy().copy()
    new = np.flatnonzero((numbers < 0) & (rows.column("ts").to_numpy() < now))
    if not len(new):
        return rows, settled
    numbers[new] = settled + np.arange(len(new))
    place = rows.schema.get_field_index("number")
    column = pa.array(numbers, pa.int64(), mask=numbers < 0)
    return rows.set_column(place, ROW_SCHEMA.field(place), column), settled + len(new)
