"""Facts of documents: all facts of a document together in the chain of one witness row.

A fact says that a definition with a condition on the whole document holds there; nothing but guards of queries asks for
it.  So it needs no row of its own, with a node, a value and a place: its variable is an entry of the document's chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xscl.base.arrow_schemas import CHAIN, WITNESS_SCHEMA
from xscl.xpath.runs import Int64s

__all__ = ["NO_FACTS", "FactVariables", "Facts", "fact_columns", "with_facts"]


class FactVariables(NamedTuple):
    """Variables of facts, and of the rows that have them."""

    facts: Int64s
    """Variables of facts, rising."""
    rows: Int64s
    """The variables of the rows that have each of them with all other facts of a document."""

    def numbers(self, variables: Int64s) -> Int64s:
        """Return the place of each variable among the facts; -1: it is none."""
        if not len(self.facts):
            return np.full(len(variables), -1)
        at = np.minimum(np.searchsorted(self.facts, variables), len(self.facts) - 1)
        return np.where(self.facts[at] == variables, at, -1)


NO_FACTS = FactVariables(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class Facts(NamedTuple):
    """Facts of documents, in columns."""

    documents: Int64s
    """Places of documents."""
    numbers: Int64s
    """Numbers of facts, as ``FactVariables`` has them."""


def fact_columns(known: FactVariables, parts: Sequence[Facts]) -> tuple[Int64s, list[pa.Array]]:
    """Return the rows of facts: the place of each row's document; and its columns from ``var`` on."""
    documents, numbers = (np.concatenate(column) for column in zip(*parts, strict=True))
    _, of_row = np.unique(known.rows, return_inverse=True)
    rows, facts = int(of_row.max(initial=0)) + 1, len(known.facts)
    # One number for each tells the row and then the fact, so that a plain sort brings all into order, if it has to.
    codes = (documents * rows + of_row[numbers]) * facts + numbers
    if (codes[1:] < codes[:-1]).any():
        codes = np.sort(codes)
    row, number = codes // facts, codes % facts
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    variables = known.facts[number]
    zeros = np.zeros(len(variables), dtype=np.int32)
    entries = pa.StructArray.from_arrays(
        [variables, np.zeros(len(variables), dtype=np.int64), zeros, zeros], fields=list(CHAIN.value_type)
    )
    offsets = np.append(starts, len(variables)).astype(np.int32)
    count = len(starts)
    return row[starts] // rows, [
        pa.array(known.rows[number[starts]]),
        pa.array(np.zeros(count, dtype=np.int32)),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.float64()),
        pa.array(np.zeros(count, dtype=np.int64)),
        pa.ListArray.from_arrays(pa.array(offsets), entries, type=CHAIN),
    ]


def with_facts(rows: pa.RecordBatch, known: FactVariables) -> list[pa.RecordBatch]:
    """Return witness rows with all facts of a document in the chain of one row, in place of rows of their own.

    A row that has a chain of its own is asked for by others, and stays.
    """
    numbers = known.numbers(rows.column("var").to_numpy())
    of = np.flatnonzero(numbers >= 0)
    if not len(of):
        return [rows]
    alone = np.zeros(rows.num_rows, dtype=np.bool_)
    alone[of] = np.diff(rows.column("chain").offsets.to_numpy())[of] == 0
    docids, first, which = np.unique(rows.column("docid").to_numpy()[of], return_index=True, return_inverse=True)
    documents, columns = fact_columns(known, [Facts(which, numbers[of])])
    lead = rows.take(pa.array(of[first][documents]))
    shared = [lead.column(name) for name in WITNESS_SCHEMA.names[: -len(columns)]]
    made = pa.RecordBatch.from_arrays([*shared, *columns], schema=WITNESS_SCHEMA)
    return [rows.filter(pa.array(~alone)), made]
