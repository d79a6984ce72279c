"""Rows of links that pairs of documents come to, and links that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xscl.base.docids import place_of
from xscl.base.number_order import each_once
from xscl.templates.columns import Int32s, Int64s, gather, stacked
from xscl.templates.joins.signatures import Signature, SolvedLinks
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.plans import LinkPlan
from xscl.templates.program import Program
from xscl.templates.results import Member, Refusal, ResultColumns

__all__ = ["LinkRows", "add_link_rows", "link_rows"]


class LinkRows(NamedTuple):
    """Rows of links in columns: the nodes of a link in a pair of documents."""

    link: Int64s
    """The key of the link of each."""
    left: Int64s
    right: Int64s
    width: Int64s
    """The number of its nodes."""
    nodes: Int32s
    """Nodes of all rows, one row after another."""


def link_rows(
    signature: Signature, pairs: MatchedPairs, documents: Documents, program: Program, out: ResultColumns
) -> LinkRows | None:
    """Return the rows of links of the pairs of a signature, None if there are none; what is refused is told."""
    if not signature.links:
        return None
    difference = pairs.ts_r - pairs.ts_l
    for solved in signature.links:
        if solved.solution.refusals:
            assert isinstance(solved.plan, LinkPlan)
            bounds = program.links[solved.plan.key].bounds
            at = np.flatnonzero((difference >= bounds.lo) & (difference <= bounds.hi))
            for pair in zip(pairs.left[at].tolist(), pairs.right[at].tolist(), strict=True):
                _refuse(program, solved.plan.key, documents.members(*pair), solved.solution.refusals, out)
    if signature.solved_links is None:
        signature.solved_links = _solved_links(signature, program)
    table = signature.solved_links
    later = difference[:, np.newaxis]
    at, row = np.nonzero((later >= table.lo) & (later <= table.hi))
    width = np.diff(table.starts)[row]
    places, _ = gather(table.starts[row], width)
    return LinkRows(table.link[row], pairs.left[at], pairs.right[at], width, table.nodes[places])


def _solved_links(signature: Signature, program: Program) -> SolvedLinks:
    plans = [(solved.plan, solved.solution) for solved in signature.links]
    rows = [(plan.key, row.nodes) for plan, found in plans if isinstance(plan, LinkPlan) for row in found.rows]
    keys = np.array([key for key, _ in rows], dtype=np.int64)
    # The plan that was solved may be older than the program, which other queries have widened since.
    bounds = [program.links[key].bounds for key in keys.tolist()]
    lo, hi = (np.array([getattr(each, name) for each in bounds], dtype=np.int64) for name in ("lo", "hi"))
    starts = np.cumsum([0, *(len(nodes) for _, nodes in rows)])
    return SolvedLinks(keys, lo, hi, starts, np.array([node for _, nodes in rows for node in nodes], dtype=np.int32))


def add_link_rows(rows: Sequence[LinkRows], documents: Documents, out: ResultColumns) -> None:
    """Add rows of links, and look each of their members up once."""
    if not rows:
        return
    assert documents.linked is not None
    every = stacked(rows)
    docs = np.stack((every.left, every.right), axis=1).reshape(-1)
    distinct = each_once(docs)
    members = documents.linked(distinct).take(pa.array(np.searchsorted(distinct, docs)))
    columns = {
        "link": pa.array(every.link),
        "members": pa.ListArray.from_arrays(pa.array(np.arange(0, len(docs) + 1, 2, dtype=np.int32)), members),
        "nodes": pa.ListArray.from_arrays(_offsets(every.width), pa.array(every.nodes)),
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
