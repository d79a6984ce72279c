"""Spans of rows that are handed out as they are, because all of their pairs are of one class for each layout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xscl.templates.columns import Bools, Int32s, Int64s, gather
from xscl.templates.joins.edge_sets import Plans
from xscl.templates.joins.matched_edges import MatchedEdges
from xscl.templates.joins.resolve import LOOK, Resolver
from xscl.templates.pair_spans import PairSpans
from xscl.templates.results import ResultColumns
from xscl.templates.runs.view import RunView

__all__ = ["RowSpans", "tell_spans"]

_MOST_LAYOUTS = 16
"""Shapes of rows that spans are told apart by."""


class RowSpans(NamedTuple):
    """Spans of rows of another run that new rows meet by one edge, which is all that plans ask for."""

    edge: int
    new_left: bool
    """Whether the new rows are the left ones."""
    row: Int64s
    """The new row of each."""
    begin: Int64s
    end: Int64s


def tell_spans(
    new: RunView, other: RunView, spans: RowSpans, resolver: Resolver, plans: Plans, out: ResultColumns
) -> Bools:
    """Hand out the spans whose pairs no time, no stream and no guard tells apart; return which these are.

    Args:
        new: the new rows.
        other: the rows that they meet, of documents of other items.
        spans: what they meet; windows admit all of it.
        resolver: tells classes.
        plans: what is asked of the edge.
        out: gets spans and classes.
    """
    run = other.run
    _, which = np.unique(run.slices_of(spans.begin), return_inverse=True)
    first, last = np.full(int(which.max()) + 1, run.size), np.zeros(int(which.max()) + 1, dtype=np.int64)
    np.minimum.at(first, which, spans.begin)
    np.maximum.at(last, which, spans.end)
    rows, _ = gather(first, last - first)
    starts = np.concatenate([[0], np.cumsum(last - first)])
    lists, shapes = run.docs[run.doc[rows]], run.shape[rows]
    layouts = np.unique(shapes)
    if len(layouts) > _MOST_LAYOUTS:
        return np.zeros(len(which), dtype=np.bool_)
    docs = new.run.docs[new.run.doc[spans.row]]
    places = min(int(docs.min()), int(lists.min())), max(int(docs.max()), int(lists.max()))
    before = starts[which] - first[which]
    told, parts = np.ones(len(which), dtype=np.bool_), []
    for layout in layouts.tolist():
        # Rows of this layout before each place.
        count = np.concatenate([[0], np.cumsum(shapes == layout)])
        begin, end = count[spans.begin + before], count[spans.end + before]
        mine, of_mine = np.unique(new.shapes(new.run.shape[spans.row]), return_inverse=True)
        edges = _edges(spans, mine, int(other.shapes(np.array([layout]))[0]))
        classes = resolver.whole_classes(edges, places, out, plans)[of_mine]
        told &= (begin == end) | (classes != LOOK)
        begin, end = begin - count[starts[which]], end - count[starts[which]]
        part = PairSpans(spans.new_left, docs, classes, which, begin, end, lists[shapes == layout], count[starts])
        parts.append(part)
    for part in parts:
        out.add_spans(part.where(told & (part.begin < part.end) & (part.classes >= 0)))
    return told


def _edges(spans: RowSpans, mine: Int32s, theirs: int) -> MatchedEdges:
    """Return the matched edges of some shapes of new rows with one shape of the other ones."""
    other = np.full(len(mine), theirs, dtype=np.int32)
    left, right = (mine, other) if spans.new_left else (other, mine)
    return MatchedEdges(np.full(len(mine), spans.edge, dtype=np.int32), left, right)
