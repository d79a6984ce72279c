"""Rows of links that pairs of documents come to, and links that are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xscl.base.docids import place_of
from xscl.base.number_order import each_once
from xscl.templates.columns import Int64s
from xscl.templates.joins.signatures import Signature
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.plans import LinkPlan
from xscl.templates.program import Program
from xscl.templates.results import Member, Refusal, ResultColumns

__all__ = ["LinkRows", "add_link_rows", "link_rows"]


class LinkRows(NamedTuple):
    """Rows of one link: each of some bindings of its nodes for each of some pairs of documents."""

    link: int
    """Key of the link."""
    left: Int64s
    right: Int64s
    nodes: Sequence[Sequence[int]]
    """Nodes of each binding."""

    @property
    def size(self) -> int:
        """Number of the rows."""
        return len(self.left) * len(self.nodes)


def link_rows(
    signature: Signature, pairs: MatchedPairs, documents: Documents, program: Program, out: ResultColumns
) -> Iterator[LinkRows]:
    """Iterate over the rows of links of the pairs of a signature; what is refused is told."""
    for solved in signature.links:
        plan, solution = solved.plan, solved.solution
        assert isinstance(plan, LinkPlan)
        # The plan that was solved may be older than the program, which other queries have widened since.
        bounds = program.links[plan.key].bounds
        difference = pairs.ts_r - pairs.ts_l
        at = np.flatnonzero((difference >= bounds.lo) & (difference <= bounds.hi))
        left, right = pairs.left[at], pairs.right[at]
        if solution.refusals:
            for pair in zip(left.tolist(), right.tolist(), strict=True):
                _refuse(program, plan.key, documents.members(*pair), solution.refusals, out)
        if len(at) and solution.rows:
            yield LinkRows(plan.key, left, right, [row.nodes for row in solution.rows])


def add_link_rows(rows: Sequence[LinkRows], documents: Documents, out: ResultColumns) -> None:
    """Add rows of links, and look each of their members up once."""
    if not rows:
        return
    assert documents.linked is not None
    ends = [np.repeat(np.stack((each.left, each.right), axis=1), len(each.nodes), axis=0) for each in rows]
    docs = np.concatenate(ends).reshape(-1)
    distinct = each_once(docs)
    members = documents.linked(distinct).take(pa.array(np.searchsorted(distinct, docs)))
    counts = [each.size for each in rows]
    widths = np.repeat([len(each.nodes[0]) for each in rows], counts)
    nodes = [np.tile(np.array(each.nodes, np.int32), (len(each.left), 1)).reshape(-1) for each in rows]
    columns = {
        "link": pa.array(np.repeat(np.array([each.link for each in rows], np.int64), counts)),
        "members": pa.ListArray.from_arrays(pa.array(np.arange(0, len(docs) + 1, 2, dtype=np.int32)), members),
        "nodes": pa.ListArray.from_arrays(_offsets(widths), pa.array(np.concatenate(nodes))),
    }
    out.add_links(pa.table(columns))


def _offsets(widths: Int64s) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(widths))).astype(np.int32))


def _refuse(
    program: Program, key: int, members: Sequence[Member], refusals: Sequence[Refusal], out: ResultColumns
) -> None:
    places = [place_of(member.docid) for member in members]
    groups = {
        live.gid
        for number, _ in program.starts.get(key, ())
        for live in program.assemblies[number].groups.values()
        if live.first <= min(places) and max(places) <= live.last
    }
    for reason in refusals:
        out.add_refused(members, sorted(groups), reason)
