"""Runs of rows of links: immutable columns in which the rows of a document are found by binary search.

Rows lie in the order of (link, left document, right document), and a permutation has them in the order of (link, right
document, left document).  Documents stand in a table of their own, once each, so that a row has their places there.
A run is made in memory, or lies in a file that is mapped (``mapped_columns``) and never read as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import MEMBER
from xscl.base.number_order import each_once
from xscl.base.values import value_hashes
from xscl.templates.columns import Bools, Int32s, Int64s, gather, within
from xscl.templates.retention import Floors
from xscl.templates.runs.mapped_columns import open_columns, save_columns

__all__ = [
    "LINK_SCHEMA",
    "NO_DOCUMENTS",
    "Documents",
    "LinkRun",
    "MetRows",
    "counted",
    "kept",
    "merged_links",
    "rows_of",
]

LINK_SCHEMA = pa.schema(
    [
        ("link", pa.int64()),
        ("ts1", pa.int64()),  # event time of the left member
        ("ts2", pa.int64()),
        ("members", pa.list_(MEMBER)),
        ("nodes", pa.list_(pa.int32())),
    ]
)
"""Rows of links as a table."""
_LINK_BITS = 32
"""Bits of a document's place in a key of ``LinkRun.lefts``."""
_DOCUMENTS = "documents."
"""Begins the names of the documents' columns in a file."""
_PLACE = _DOCUMENTS + "place"


class Documents(NamedTuple):
    """Documents as windows see them, by docid."""

    docid: Int64s
    """Docids, which rise."""
    item: Int64s
    ts: Int64s
    membership: Int32s
    place: pa.Array
    """Channels and ids as ``Member.place``, large strings."""
    hash: Int64s
    """Hashes of the places."""

    def found(self, docids: Int64s) -> tuple[Int64s, Bools]:
        """Return where documents stand, and which of them are here."""
        if not len(self.docid):
            return np.zeros(len(docids), np.int64), np.zeros(len(docids), np.bool_)
        at = np.minimum(np.searchsorted(self.docid, docids), len(self.docid) - 1)
        return at, self.docid[at] == docids

    def chosen(self, at: Int64s) -> Documents:
        """Return some of them; ``at`` rises."""
        docid, item, ts, membership, place, hashes = self
        return Documents(docid[at], item[at], ts[at], membership[at], place.take(pa.array(at)), hashes[at])

    @classmethod
    def together(cls, parts: Sequence[Documents]) -> Documents:
        """Return the documents of all parts, each once."""
        columns = list(zip(*parts, strict=True))
        docid, item, ts, membership, hashes = (np.concatenate(columns[n]) for n in (0, 1, 2, 3, 5))
        every = cls(docid, item, ts, membership, pa.concat_arrays(columns[4]), hashes)
        order = np.argsort(docid, kind="stable")
        new = np.ones(len(order), np.bool_)
        new[1:] = docid[order[1:]] != docid[order[:-1]]
        return every.chosen(order[new])


NO_DOCUMENTS = Documents(
    *(np.zeros(0, np.int64),) * 3, np.zeros(0, np.int32), pa.array([], pa.large_string()), np.zeros(0, np.int64)
)


class MetRows(NamedTuple):
    """Some rows of links in columns."""

    link: Int64s
    docid: tuple[Int64s, Int64s]
    """Left and right members."""
    item: tuple[Int64s, Int64s]
    ts: tuple[Int64s, Int64s]
    widths: Int64s
    """Numbers of nodes."""
    nodes: Int32s
    """Nodes of all rows, one row after another."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkRun:
    """Rows of links, and where each link's and each document's rows begin."""

    links: Int64s
    """Keys of the links, which rise."""
    starts: Int64s
    """First row of each link, and the number of all rows."""
    widths: Int64s
    """Number of nodes of each row of a link."""
    node_starts: Int64s
    """Place of each link's first node."""
    spans: Int64s
    """Event times of each link: least and greatest of left members, least and greatest of right ones."""
    left: Int32s
    """Place of the left member of each row among the documents."""
    right: Int32s
    nodes: Int32s
    lefts: Int64s
    """Place of a link, above ``_LINK_BITS``, and of a left member: each with a row, rising."""
    left_starts: Int64s
    """First row of each of ``lefts``, and the number of all rows."""
    by_right: Int32s
    """Rows in the order of (link, right member, left member)."""
    rights: Int64s
    """Keys like ``lefts``, of right members."""
    right_starts: Int64s
    """First place in ``by_right`` of each of ``rights``, and the number of all rows."""
    by_hash: Int32s
    """Documents in the order of the hashes of their places."""
    documents: Documents

    def __len__(self) -> int:
        return len(self.left)

    @classmethod
    def of(cls, rows: pa.Table) -> LinkRun:
        """Make a run of rows (link, members, nodes) in any order."""
        members, nodes = (rows.column(name).combine_chunks() for name in ("members", "nodes"))
        flat = members.flatten()
        docid, item, ts, membership = (flat.field(name).to_numpy() for name in ("docid", "item", "ts", "membership"))
        places = flat.field("place").cast(pa.large_string())
        distinct = each_once(docid)
        first = np.empty(len(distinct), np.int64)
        first[np.searchsorted(distinct, docid)[::-1]] = np.arange(len(docid) - 1, -1, -1)
        place = places.take(pa.array(first))
        hashes = value_hashes(place.to_pylist())
        documents = Documents(distinct, item[first], ts[first], membership[first], place, hashes)
        counts = pc.list_value_length(nodes).to_numpy().astype(np.int64)
        return _made(_Rows(rows.column("link").to_numpy(), docid[0::2], docid[1::2], counts, _ints(nodes)), documents)

    def save(self, path: Path) -> None:
        """Write the run as a file."""
        times = self.spans.reshape(4, -1)
        of_times = {"ts_min": int(times[[0, 2]].min()), "ts_max": int(times[[1, 3]].max())} if len(self) else {}
        save_columns(path, self.columns(), {"rows": len(self), "documents": len(self.documents.docid), **of_times})

    def columns(self) -> dict[str, Any]:
        """Return the columns as a file has them."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "documents"}
        return own | {_DOCUMENTS + name: column for name, column in self.documents._asdict().items()}

    @classmethod
    def open(cls, path: Path) -> LinkRun:
        """Open a file; its columns stay there."""
        return cls.read(open_columns(path)[0])

    @classmethod
    def read(cls, columns: Mapping[str, pa.Array]) -> LinkRun:
        """Make a run of the columns of a file."""
        numbers: dict[str, Any] = {name: _ints(column) for name, column in columns.items() if name != _PLACE}
        documents = {name: numbers.pop(_DOCUMENTS + name) for name in Documents._fields if _DOCUMENTS + name != _PLACE}
        return cls(**numbers, documents=Documents(**documents, place=columns[_PLACE]))

    @property
    def times(self) -> tuple[int, int] | None:
        """Least and greatest event time; None without rows."""
        return (int(self.spans.min()), int(self.spans.max())) if len(self) else None

    def rows(self, at: Int64s) -> MetRows:
        """Return some rows."""
        which = np.searchsorted(self.starts, at, side="right") - 1
        widths = self.widths[which]
        nodes, _ = gather(self.node_starts[which] + (at - self.starts[which]) * widths, widths)
        ends = self.left[at], self.right[at]
        _, item, ts, *_ = told = self.documents
        docids, items, times = ((column[ends[0]], column[ends[1]]) for column in (told.docid, item, ts))
        return MetRows(self.links[which], docids, items, times, widths, self.nodes[nodes])

    def keys(self, links: Int64s, docids: Int64s) -> tuple[Int64s, Bools]:
        """Return the keys, as in ``lefts``, of documents with links; and which of both are here."""
        link = np.minimum(np.searchsorted(self.links, links), max(len(self.links) - 1, 0))
        document, there = self.documents.found(docids)
        if len(self.links):
            there &= self.links[link] == links
        return link << _LINK_BITS | document, there

    def of_left(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Return the spans of rows of some keys."""
        return _spans(self.lefts, self.left_starts, keys)

    def of_right(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Return the spans of some keys in ``by_right``."""
        return _spans(self.rights, self.right_starts, keys)

    def meeting(self, links: Int64s, docids: Int64s, *, left: bool) -> tuple[Int64s, Int64s]:
        """Return which of some links have rows with which of some documents as left members, or as right ones.

        Links and documents rise; both are told by their places.
        """
        keys = self.lefts if left else self.rights
        known = np.flatnonzero(within(links, self.links))
        document, there = self.documents.found(docids)
        here = np.flatnonzero(there)
        link, document = np.searchsorted(self.links, links[known]), document[here]
        if len(link) * len(document) < len(keys):
            wanted = (link[:, np.newaxis] << _LINK_BITS | document).reshape(-1)
            found = np.flatnonzero(within(wanted, keys))
            return known[found // max(len(document), 1)], here[found % max(len(document), 1)]
        of_link, of_document = np.full(len(self.links), -1), np.full(len(self.documents.docid), -1)
        of_link[link], of_document[document] = known, here
        one, other = of_link[keys >> _LINK_BITS], of_document[keys & ((1 << _LINK_BITS) - 1)]
        some = (one >= 0) & (other >= 0)
        return one[some], other[some]

    def of_both(self, keys: Int64s, docids: Int64s) -> tuple[Int64s, Int64s]:
        """Return the spans of rows of some keys of left members, with right members."""
        starts, counts = self.of_left(keys)
        right, there = self.documents.found(docids)
        ends = starts + np.where(there, counts, 0)
        begin = _first_from(self.right, starts, ends, right)
        return begin, _first_from(self.right, begin, ends, right + 1) - begin

    def documents_of(self, hashes: Int64s) -> tuple[Int64s, Int64s]:
        """Return spans in ``by_hash`` of the documents of events, told by the hashes of their places."""
        of_documents = self.documents.hash
        begin = np.searchsorted(of_documents, hashes, side="left", sorter=self.by_hash)
        return begin, np.searchsorted(of_documents, hashes, side="right", sorter=self.by_hash) - begin


class _Rows(NamedTuple):
    """Rows of links in columns, in any order."""

    link: Int64s
    left: Int64s
    """Docids of left members."""
    right: Int64s
    counts: Int64s
    """Numbers of nodes."""
    nodes: Int32s


def _made(rows: _Rows, documents: Documents) -> LinkRun:
    """Make a run of rows whose members are among some documents."""
    documents = documents.chosen(documents.found(each_once(np.concatenate((rows.left, rows.right))))[0])
    left, right = (documents.found(docids)[0].astype(np.int32) for docids in (rows.left, rows.right))
    links, which = np.unique(rows.link, return_inverse=True)
    order = np.lexsort((right, left, which))
    left, right, which, counts = left[order], right[order], which[order], rows.counts[order]
    starts = np.searchsorted(which, np.arange(len(links) + 1))
    widths = counts[starts[:-1]]
    assert (counts == widths[which]).all(), "rows of one link have the same nodes"
    nodes, _ = gather((np.cumsum(rows.counts) - rows.counts)[order], counts)
    node_starts = np.cumsum(np.concatenate(([0], widths * np.diff(starts))))[:-1]
    by_right = np.lexsort((left, right, which))
    lefts, left_starts = _distinct(which << _LINK_BITS | left)
    rights, right_starts = _distinct((which << _LINK_BITS | right)[by_right])
    times = documents.ts[left], documents.ts[right]
    spans = [edge.reduceat(ts, starts[:-1]) for ts in times for edge in (np.minimum, np.maximum)] if len(left) else []
    return LinkRun(
        links=links,
        starts=starts,
        widths=widths,
        node_starts=node_starts,
        spans=np.concatenate(spans) if spans else np.empty(0, np.int64),
        left=left,
        right=right,
        nodes=rows.nodes[nodes],
        lefts=lefts,
        left_starts=left_starts,
        by_right=by_right.astype(np.int32),
        rights=rights,
        right_starts=right_starts,
        by_hash=np.argsort(documents.hash, kind="stable").astype(np.int32),
        documents=documents,
    )


def _distinct(keys: Int64s) -> tuple[Int64s, Int64s]:
    """Return the different ones of rising keys, and the first place of each, the number of all behind them."""
    new = np.ones(len(keys), np.bool_)
    new[1:] = keys[1:] != keys[:-1]
    return keys[new], np.append(np.flatnonzero(new), len(keys))


def _spans(keys: Int64s, starts: Int64s, wanted: Int64s) -> tuple[Int64s, Int64s]:
    """Return the span of each wanted key, an empty one where there is none."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    first = starts[at]
    return first, np.where(keys[at] == wanted, starts[at + 1] - first, 0)


def _first_from(values: Int32s, begin: Int64s, end: Int64s, least: Int64s) -> Int64s:
    """Return the first place in each span whose value is not below the least one wanted; values rise in a span."""
    begin, end = begin.copy(), end.copy()
    while (wide := begin < end).any():
        middle = (begin + end) >> 1
        below = wide & (values[np.minimum(middle, len(values) - 1)] < least)
        begin = np.where(below, middle + 1, begin)
        end = np.where(wide & ~below, middle, end)
    return begin


def _ints(column: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a column of numbers, or of lists of numbers, where they lie."""
    values = column.flatten() if pa.types.is_list(column.type) else column
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=True)
    return found


# -- rows as tables, and rows that are kept ------------------------------------------------------------------------


def rows_of(run: LinkRun, mask: Bools | None = None) -> pa.Table:
    """Return the rows of a run, or some of them, in ``LINK_SCHEMA``."""
    at = np.arange(len(run)) if mask is None else np.flatnonzero(mask)
    rows, documents = run.rows(at), run.documents
    ends = np.stack((run.left[at], run.right[at]), axis=1).reshape(-1)
    columns = {name: pa.array(getattr(documents, name)[ends]) for name in ("docid", "item", "ts", "membership")}
    columns["place"] = documents.place.take(pa.array(ends)).cast(pa.string())
    members = pa.StructArray.from_arrays([columns[field.name] for field in MEMBER], fields=list(MEMBER))
    offsets = pa.array(np.arange(len(at) + 1, dtype=np.int32) * 2)
    node_offsets = pa.array(np.concatenate(([0], np.cumsum(rows.widths))).astype(np.int32))
    made = [
        pa.array(rows.link),
        *map(pa.array, rows.ts),
        pa.ListArray.from_arrays(offsets, members),
        pa.ListArray.from_arrays(node_offsets, pa.array(rows.nodes)),
    ]
    return pa.table(dict(zip(LINK_SCHEMA.names, made, strict=True))).cast(LINK_SCHEMA)


def merged_links(runs: Sequence[LinkRun], masks: Sequence[Bools | None]) -> LinkRun:
    """Return one run of the rows of several, or of those that masks tell."""
    parts = []
    for run, mask in zip(runs, masks, strict=True):
        met = run.rows(np.arange(len(run)) if mask is None else np.flatnonzero(mask))
        parts.append(_Rows(met.link, *met.docid, met.widths, met.nodes))
    rows = _Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return _made(rows, Documents.together([run.documents for run in runs]))


def kept(run: LinkRun, floors: Floors, before: Floors | None = None) -> Bools:
    """Tell which rows some floors keep, and earlier ones too."""
    every, some = _sure(run, floors, before)
    mask = np.repeat(every, np.diff(run.starts))
    for link in np.flatnonzero(some & ~every):
        rows = slice(run.starts[link], run.starts[link + 1])
        mask[rows] = np.logical_and(*_kept_of(run, int(link), floors, before))
    return mask


def counted(run: LinkRun, floors: Floors, before: Floors | None = None) -> tuple[int, bool]:
    """Return the number of rows that are kept, and whether floors have fallen below rows that were out of sight.

    Only links are looked at whose rows are kept in part.
    """
    every, some = _sure(run, floors, before)
    held, lower = int(np.diff(run.starts)[every].sum()), False
    for link in np.flatnonzero(some & ~every):
        now, earlier = _kept_of(run, int(link), floors, before)
        held += int((now & earlier).sum())
        lower |= bool((now & ~earlier).any())
    return held, lower


def _sure(run: LinkRun, floors: Floors, before: Floors | None) -> tuple[Bools, Bools]:
    """Tell by their times the links whose every row is kept, and the links some of whose rows may be."""
    if not len(run):
        return np.zeros(0, np.bool_), np.zeros(0, np.bool_)
    left, left_most, right, right_most = run.spans.reshape(4, -1)
    every = floors.keep_links(run.links, left, right)
    if before is not None:
        every = every & before.keep_links(run.links, left, right)
    return every, floors.keep_links(run.links, left_most, right_most)


def _kept_of(run: LinkRun, link: int, floors: Floors, before: Floors | None) -> tuple[Bools, Bools]:
    """Tell which rows of a link some floors keep, and which ones earlier floors."""
    rows = slice(run.starts[link], run.starts[link + 1])
    left, right = (run.documents.ts[end[rows]] for end in (run.left, run.right))
    keys = np.full(len(left), run.links[link])
    now = floors.keep_links(keys, left, right)
    return now, np.ones(len(now), np.bool_) if before is None else before.keep_links(keys, left, right)
