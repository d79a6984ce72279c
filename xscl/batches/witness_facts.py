"""Figures of new witness rows, taken where the rows are made: what quotas count, and what stage 1 refused."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import REFUSED
from xscl.templates.joins.document_facts import facts_of_rows
from xscl.templates.joins.guarded import AnyGuard
from xscl.templates.program_guards import ProgramGuards

__all__ = ["binding_rows", "refusal_rows"]


def binding_rows(witnesses: pa.Table, guards: ProgramGuards) -> pa.Table:
    """Return the bindings of new witness rows (docid, var, node, fn, guards): each node of a variable with a function.

    A binding has a row without guards, and a row for each set of guards (``guard_set``) with one that holds in its
    document.  All rows of a document are among the witness rows.
    """
    keys = ["docid", "var", "node", "fn"]
    rows = witnesses.select(keys).filter(pc.not_equal(witnesses.column("var"), REFUSED)).group_by(keys).aggregate([])
    every = rows.append_column("guards", pa.repeat(pa.scalar(""), rows.num_rows))
    asked: defaultdict[frozenset[int], list[int]] = defaultdict(list)
    for variable, numbers in guards.sets():
        asked[numbers].append(variable)
    if not asked:
        return every
    docids, variables = rows.column("docid").to_numpy(), rows.column("var").to_numpy()
    docs = np.unique(witnesses.column("docid").to_numpy())
    facts = facts_of_rows(witnesses, docs, guards)
    parts = [every]
    for numbers, guarded in asked.items():
        holds = AnyGuard.of(guards.table, np.array(sorted(numbers), dtype=np.int64)).holds(facts)
        of = rows.filter(pa.array(holds[np.searchsorted(docs, docids)] & np.isin(variables, guarded)))
        parts.append(of.append_column("guards", pa.repeat(pa.scalar(guards.names(numbers)), of.num_rows)))
    return pa.concat_tables(parts)


def refusal_rows(witnesses: pa.Table) -> list[dict[str, Any]]:
    """Return the witness rows that say what stage 1 refused in new documents."""
    columns = ["docid", "place", "ts", "strval", "chain"]
    found: list[dict[str, Any]] = (
        witnesses.select(columns).filter(pc.equal(witnesses.column("var"), REFUSED)).to_pylist()
    )
    return found
