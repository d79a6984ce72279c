"""Rows that a walk of held events has found and the join state lacks.

A row may be in the state already, because another query asks for the same or because only a part of the state was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from xscl.base.sealed import check_file
from xscl.store.join_state import HeldState
from xscl.store.state_files import LINK_SCHEMA, Kind
from xscl.templates.slices import SliceCache
from xscl.xpath.witness_columns import WITNESS_SCHEMA

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
        self._keys = SliceCache(0)
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
            self._known_links = {key for table in self._kept("link", None) for key in _link_keys(table)}
        return rows.filter(pa.array([key not in self._known_links for key in _link_keys(rows)], pa.bool_()))

    def _known(self, first: int, last: int, variables: Int64s) -> pa.Table:
        """Read the rows that the state has of some documents and variables."""
        docid, var = ds.field("docid"), ds.field("var")
        wanted = (docid >= first) & (docid <= last) & var.isin(pa.array(variables)) & ~ds.field("late")
        columns = ["ts", "docid", *_OF_ROW]
        tables = list(self._kept("witness", wanted, columns, (first, last)))
        return pa.concat_tables(tables) if tables else WITNESS_SCHEMA.empty_table().select(columns)

    def _kept(
        self,
        kind: Kind,
        wanted: pc.Expression | None,
        columns: list[str] | None = None,
        docids: tuple[int, int] | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the rows in sight of the files of a kind."""
        floors = self._state.floors
        schema = WITNESS_SCHEMA if kind == "witness" else LINK_SCHEMA
        for file in self._state.files:
            if file.kind != kind or not file.held:
                continue
            if docids is not None and not (
                (file.docid_min or 0) <= docids[1] and docids[0] <= (file.docid_max or docids[0])
            ):
                continue
            source = ds.dataset(check_file(self._state.root / file.path), schema=schema)
            table = source.to_table(columns=columns, filter=wanted)
            if floors is not None and table.num_rows:
                if kind == "witness":
                    kept = floors.keep(table.column("var").to_numpy(), table.column("ts").to_numpy())
                else:
                    kept = floors.keep_links(*(table.column(name).to_numpy() for name in ("link", "ts1", "ts2")))
                table = table.filter(pa.array(kept))
            yield table

    def _codes(self, rows: pa.Table) -> tuple[Int64s, Int64s]:
        """Return the document of each row, and its variable, function, node and chain in one number."""
        keys = self._keys.keys_of(rows).astype(np.int64)
        nodes, chains = (rows.column(name).combine_chunks() for name in ("node", "chain"))
        return rows.column("docid").to_numpy(), keys << 32 | self._keys.shapes.numbers(nodes, chains)


def _link_keys(rows: pa.Table) -> Iterator[tuple[int, ...]]:
    """Yield the values that tell rows of links apart."""
    for row in rows.select(["link", "members", "nodes"]).to_pylist():
        yield row["link"], *(member["docid"] for member in row["members"]), *row["nodes"]
