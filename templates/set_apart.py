"""Matches that go in memory to the windows over them, in the batch that finds them; no file has them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.templates.columns import Bools, Int32s, Int64s

__all__ = ["SetApart", "classes_of", "of_relation", "parted", "parted_meanings"]

_Columns = TypeVar("_Columns", tuple[Int64s, Int64s, Int32s], tuple[Int64s, Int32s])
"""Documents of combinations by columns, and the class of each behind them."""


class SetApart(NamedTuple):
    """Combinations of documents that some groups alone have, and what their classes mean."""

    origin: int
    docs: Sequence[tuple[Int64s, Int32s]]
    """Rows of documents, -1 behind the only one, and the class of each row."""
    meant: pa.Table
    """Rows of results."""


def classes_of(meant: pa.Table, groups: Collection[int], count: int) -> Bools:
    """Tell which of so many classes have meanings, all of them for some groups.

    A class that has documents among the rows themselves is none of these.
    """
    named = meant.filter(meant.column("class").is_valid())
    of_docs = pc.equal(named.column("relation"), "docs")
    of_class, docs = named.filter(pc.invert(of_docs)), named.filter(of_docs)
    lists = of_class.column("groups").combine_chunks()
    owner = np.repeat(of_class.column("class").to_numpy(), lists.value_lengths().to_numpy())
    asked = np.isin(lists.flatten().to_numpy(), np.array(sorted(groups), dtype=np.int64))
    found = np.zeros(count, dtype=np.bool_)
    found[owner] = True
    found[owner[~asked]] = False
    found[docs.column("class").to_numpy()] = False
    return found


def of_relation(rows: pa.Table, relation: str) -> pa.Table:
    """Return the rows of results that are of a relation."""
    return rows.filter(pc.equal(rows.column("relation"), relation))


def parted_meanings(meant: pa.Table, apart: Bools) -> tuple[pa.Table, pa.Table]:
    """Return the rows of classes that are set apart, and all others but counts, which nobody reads."""
    number = meant.column("class").fill_null(-1).to_numpy()
    mine = (number >= 0) & apart[number]
    others = pc.and_(pa.array(~mine), pc.not_equal(meant.column("relation"), "pairs"))
    return meant.filter(pa.array(mine)), meant.filter(others)


def parted(found: Sequence[_Columns], apart: Bools) -> tuple[list[_Columns], list[_Columns]]:
    """Return the combinations whose classes are set apart, and all others."""
    mine: list[_Columns] = []
    others: list[_Columns] = []
    for columns in found:
        chosen = apart[columns[-1]]
        for some, wanted in ((mine, chosen), (others, ~chosen)):
            if wanted.all():
                some.append(columns)
            elif wanted.any():
                some.append(tuple(column[wanted] for column in columns))  # type: ignore[arg-type]
    return mine, others
