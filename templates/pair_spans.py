"""Pairs of documents that are told by spans of lists, and never written down.

Documents with one value are a list, in the order of their times.  Another document that meets some of them meets a span
of the list.  So what a value that all documents share would make, a pair of every two of them, is as many spans as
there are documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xscl.templates.columns import Bools, Int32s, Int64s, gather

__all__ = ["SPAN_SCHEMA", "PairSpans", "expanded_spans", "span_parts", "span_table"]

SPAN_SCHEMA = pa.schema(
    [
        ("relation", pa.string()),  # list or span
        ("origin", pa.int64()),
        ("class", pa.int32()),  # span; list: its number, unique within its origin
        ("d1", pa.int64()),  # span: the document that meets the others, as left one
        ("d2", pa.int64()),  # or as right one
        ("docs", pa.list_(pa.int64())),  # list: its documents
        ("list", pa.int32()),  # span: the list, and where the span begins and ends there
        ("begin", pa.int64()),
        ("end", pa.int64()),
    ]
)


class PairSpans(NamedTuple):
    """Pairs of documents: each of some documents with those of a span of a list."""

    left: bool
    """Whether the documents are the left ones of their pairs."""
    docs: Int64s
    classes: Int32s
    which: Int64s
    """The list of each."""
    begin: Int64s
    """Begin of the span in the list, and its end."""
    end: Int64s
    lists: Int64s
    """Documents of all lists, one list after another."""
    starts: Int64s
    """The first document of each list, and the end."""

    def where(self, chosen: Bools) -> PairSpans:
        """Return some of the spans, with all lists."""
        return self._replace(
            docs=self.docs[chosen],
            classes=self.classes[chosen],
            which=self.which[chosen],
            begin=self.begin[chosen],
            end=self.end[chosen],
        )

    def pairs(self) -> tuple[Int64s, Int64s, Int32s]:
        """Return the left and right documents of all pairs, and their classes."""
        places, span = gather(self.starts[self.which] + self.begin, self.end - self.begin)
        mine, others = self.docs[span], self.lists[places]
        return (mine, others, self.classes[span]) if self.left else (others, mine, self.classes[span])


def span_table(origin: int, parts: Sequence[PairSpans]) -> pa.Table:
    """Return the rows of some spans and their lists."""
    tables, number = [], 0
    for part in parts:
        count = len(part.starts) - 1
        lists = pa.ListArray.from_arrays(pa.array(part.starts, pa.int32()), pa.array(part.lists))
        tables.append(_rows(count, relation="list", origin=origin, docs=lists, **{"class": np.arange(count) + number}))
        found = {"class": part.classes, "list": part.which + number, "begin": part.begin, "end": part.end}
        side = {"d1" if part.left else "d2": part.docs}
        tables.append(_rows(len(part.docs), relation="span", origin=origin, **found, **side))
        number += count
    return pa.concat_tables(tables)


def _rows(count: int, **columns: object) -> pa.Table:
    arrays = []
    for field in SPAN_SCHEMA:
        values = columns.get(field.name)
        if isinstance(values, (str, int)) or values is None:
            arrays.append(pa.repeat(pa.scalar(values, field.type), count))
        else:
            arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=SPAN_SCHEMA)


def expanded_spans(table: pa.Table, wanted: Callable[[Int64s, Int64s], Bools] | None = None) -> pa.Table:
    """Return the pairs of rows of ``SPAN_SCHEMA``: columns ``origin``, ``class``, ``d1`` and ``d2``.

    Args:
        table: rows; spans with all their lists.
        wanted: tells by origins and classes which spans are wanted; None: all.
    """
    relation = table.column("relation").combine_chunks().to_numpy(zero_copy_only=False)
    lists, spans = table.filter(pa.array(relation == "list")), table.filter(pa.array(relation == "span"))
    if wanted is not None:
        spans = spans.filter(pa.array(wanted(_numbers(spans, "origin"), _numbers(spans, "class"))))
    documents = lists.column("docs").combine_chunks()
    starts = documents.offsets.to_numpy().astype(np.int64)
    origins = np.unique(_numbers(lists, "origin"))
    known = np.searchsorted(origins, _numbers(lists, "origin")) << 32 | _numbers(lists, "class")
    order = np.argsort(known, kind="stable")
    asked = np.searchsorted(origins, _numbers(spans, "origin")) << 32 | _numbers(spans, "list")
    place = order[np.searchsorted(known, asked, sorter=order)]
    begin = _numbers(spans, "begin")
    places, span = gather(starts[place] + begin, _numbers(spans, "end") - begin)
    partners = documents.values.to_numpy(zero_copy_only=False)[places]
    columns = {name: pa.array(_numbers(spans, name)[span]) for name in ("origin", "class")}
    for name in ("d1", "d2"):
        of_span = _numbers(spans, name)[span]
        columns[name] = pa.array(np.where(of_span < 0, partners, of_span))
    return pa.table({**columns, "class": columns["class"].cast(pa.int32())})


def span_parts(table: pa.Table, most: int) -> Iterator[pa.Table]:
    """Yield rows of ``SPAN_SCHEMA`` in parts of some pairs each, at least those of one span, with all lists."""
    relation = table.column("relation").combine_chunks().to_numpy(zero_copy_only=False)
    lists, spans = table.filter(pa.array(relation == "list")), table.filter(pa.array(relation == "span"))
    filled = np.cumsum(_numbers(spans, "end") - _numbers(spans, "begin"))
    cuts = np.flatnonzero(np.diff(filled // most, prepend=-1)).tolist()
    for begin, end in zip(cuts, [*cuts[1:], spans.num_rows], strict=True):
        yield pa.concat_tables([lists, spans.slice(begin, end - begin)])


def _numbers(table: pa.Table, name: str) -> Int64s:
    """Return a column of numbers; -1 is NULL."""
    found: Int64s = table.column(name).cast(pa.int64()).fill_null(-1).to_numpy()
    return found
