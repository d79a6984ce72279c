"""Figures of new witness rows, taken where the rows are made: what quotas count, and what stage 1 refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import REFUSED

__all__ = ["binding_rows", "refusal_rows"]


def binding_rows(witnesses: pa.Table) -> pa.Table:
    """Return the bindings of new witness rows (docid, var, node, fn): each node of a variable with a function once.

    All rows of a document are among them.
    """
    keys = ["docid", "var", "node", "fn"]
    return witnesses.select(keys).filter(pc.not_equal(witnesses.column("var"), REFUSED)).group_by(keys).aggregate([])


def refusal_rows(witnesses: pa.Table) -> list[dict[str, Any]]:
    """Return the witness rows that say what stage 1 refused in new documents."""
    columns = ["docid", "place", "ts", "strval", "chain"]
    found: list[dict[str, Any]] = (
        witnesses.select(columns).filter(pc.equal(witnesses.column("var"), REFUSED)).to_pylist()
    )
    return found
