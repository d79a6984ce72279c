"""Rows that a walk of held events has found and the join state lacks.

A row may be in the state already, because another query asks for the same or because only a part of the state was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.base.local_copies import near_file
from xscl.store.join_state import HeldState
from xscl.templates.many_blocks.runs import kept, rows_of
from xscl.templates.runs.files import open_run
from xscl.templates.runs.making import witness_keys
from xscl.templates.runs.rows import row_variables, rows_above, rows_of_run
from xscl.templates.runs.run import KEY_BITS
from xscl.templates.shapes import Shapes

__all__ = ["LackingRows"]

Int64s = npt.NDArray[np.int64]

_OF_ROW = ("var", "node", "fn", "chain")
"""Columns that tell the rows of a document apart: two rows of one node may have different chains."""


class LackingRows:
    """Tells witness rows, and rows of links, that the join state lacks."""

    def __init__(self, state: HeldState, reach: pa.Table) -> None:
        """``reach`` says how long rows are kept from now on; those that it does not name are not."""
        self._state = state
        is_link = reach.column("link").to_numpy(zero_copy_only=False)
        keys = reach.column("key").to_numpy()
        self._variables, self._links = np.unique(keys[~is_link]), np.unique(keys[is_link])
        self._shapes = Shapes()
        self._known_links: set[tuple[int, ...]] | None = None

    def rows(self, rows: pa.Table) -> pa.Table:
        """Return those of some witness rows that the state lacks."""
        wanted = np.isin(rows.column("var").to_numpy(), self._variables) & ~rows.column("late").to_numpy()
        rows = rows.filter(pa.array(wanted))
        if not rows.num_rows:
            return rows
        docids = rows.column("docid").to_numpy()
        known = self._known(int(docids.min()), int(docids.max()), np.unique(rows.column("var").to_numpy()))
        if not known.num_rows:
            return rows
        names = ("docid", *_OF_ROW)
        docid, code = self._codes(pa.concat_tables([known.select(names), rows.select(names)]))
        order = np.lexsort((code, docid))  # stable: of equal ones those that are known come first
        again = np.zeros(len(order), dtype=np.bool_)
        again[order[1:]] = (docid[order[1:]] == docid[order[:-1]]) & (code[order[1:]] == code[order[:-1]])
        return rows.filter(pa.array(~again[known.num_rows :]))

    def links(self, rows: pa.Table) -> pa.Table:
        """Return those of some rows of links that the state lacks."""
        rows = rows.filter(pa.array(np.isin(rows.column("link").to_numpy(), self._links)))
        if not rows.num_rows:
            return rows
        if self._known_links is None:
            self._known_links = {key for table in self._held_links() for key in _link_keys(table)}
        return rows.filter(pa.array([key not in self._known_links for key in _link_keys(rows)], pa.bool_()))

    def _known(self, first: int, last: int, variables: Int64s) -> pa.Table:
        """Read the rows in sight that the state has of some documents and variables."""
        tables = [WITNESS_SCHEMA.empty_table()]
        for file in self._state.files:
            if file.kind != "witness" or not file.held:
                continue
            if not ((file.docid_min or 0) <= last and first <= (file.docid_max or first)):
                continue
            run = open_run(str(near_file(self._state.root / file.path)))
            least, greatest = np.searchsorted(run.docs, [first, last + 1])
            begin, end = np.searchsorted(run.document_codes, [least << KEY_BITS, greatest << KEY_BITS])
            wanted = np.zeros(run.size, dtype=np.bool_)
            wanted[run.by_document[begin:end]] = True
            wanted &= np.isin(row_variables(run), variables)
            if self._state.floors is not None:
                wanted &= rows_above(run, self._state.floors)
            tables.append(rows_of_run(run, wanted))
        return pa.concat_tables(tables)

    def _held_links(self) -> Iterator[pa.Table]:
        """Yield the rows of links in sight."""
        floors = self._state.floors
        for run in self._state.links():
            yield rows_of(run, None if floors is None else kept(run, floors))

    def _codes(self, rows: pa.Table) -> tuple[Int64s, Int64s]:
        """Return the document of each row, and its variable, function, node and chain in one number."""
        _, keys = witness_keys(rows)
        nodes, chains = (rows.column(name).combine_chunks() for name in ("node", "chain"))
        return rows.column("docid").to_numpy(), keys << 32 | self._shapes.numbers(nodes, chains)


def _link_keys(rows: pa.Table) -> Iterator[tuple[int, ...]]:
    """Yield the values that tell rows of links apart."""
    for row in rows.select(["link", "members", "nodes"]).to_pylist():
        yield row["link"], *(member["docid"] for member in row["members"]), *row["nodes"]
