"""Rows of many classes of results that differ in their groups alone, in columns.

Guards cut the pairs of a signature into as many classes as documents have different sets of groups.  These classes have
the same nodes of the same instances, so these are told once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa

from xscl.templates.columns import Int32s, Int64s

__all__ = ["ClassColumns", "class_batch"]


class ClassColumns(NamedTuple):
    """A row of R_out, or a match, that each of some classes has, for groups of its own."""

    relation: Literal["rout", "match"]
    instance: int
    nodes: Sequence[int]
    witness: Sequence[int] | None
    others: Sequence[Sequence[int]] | None
    """The same as in ``ClassRow``."""
    classes: Int64s
    """Numbers of the classes."""
    starts: Int64s
    """The first group of each class, and the end."""
    groups: Int64s
    cases: Int32s
    """The case of each group."""

    @property
    def size(self) -> int:
        """The number of rows that it stands for."""
        return 1 if self.others is None else prod(map(len, self.others))

    def numbered(self, numbers: Int64s) -> Self:
        """Return the same for classes that have other numbers."""
        return self._replace(classes=numbers[self.classes])


def class_batch(origin: int, parts: Sequence[ClassColumns], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of all classes of an origin, as results have them."""
    counts = [len(part.classes) for part in parts]
    which = pa.array(np.repeat(np.arange(len(parts)), counts))
    ends = np.cumsum([len(part.groups) for part in parts])
    starts = [part.starts[:-1] + end - len(part.groups) for part, end in zip(parts, ends.tolist(), strict=True)]
    offsets = pa.array(np.append(np.concatenate(starts), ends[-1]).astype(np.int32))
    columns = {
        "origin": pa.array(np.full(len(which), origin, dtype=np.int64)),
        "class": pa.array(np.concatenate([part.classes for part in parts]).astype(np.int32)),
        "groups": pa.ListArray.from_arrays(offsets, pa.array(np.concatenate([part.groups for part in parts]))),
        "cases": pa.ListArray.from_arrays(offsets, pa.array(np.concatenate([part.cases for part in parts]))),
    }
    for name in ("relation", "instance", "nodes", "witness", "others"):
        of_parts = pa.array([getattr(part, name) for part in parts], schema.field(name).type)
        columns[name] = of_parts.take(which)
    arrays = [columns.get(field.name, pa.nulls(len(which), field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
