"""Witness rows that differ from others in their event alone: one of each kind is made, and of the rest events are told.

Queries of one block ask of a row channel for the same node of each event that satisfies them.  Nothing meets such rows,
so nobody needs a row of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import WITNESS_SCHEMA

__all__ = ["OF_EVENT", "AlikeRows", "LoneRows", "event_columns"]

OF_EVENT = ("docid", "ts", "item", "place", "late", "membership")
"""Columns of ``WITNESS_SCHEMA`` that all rows of an event share: the first ones."""
_Int64s = npt.NDArray[np.int64]


class AlikeRows(NamedTuple):
    """Rows of some kinds."""

    events: pa.RecordBatch
    """Events as ``event_columns`` takes them."""
    event: _Int64s
    """Place of each row's event."""
    kind: _Int64s
    """Place of each row's kind."""
    kinds: pa.RecordBatch
    """The columns of ``WITNESS_SCHEMA`` from ``var`` on, for each kind."""

    def witnesses(self) -> pa.RecordBatch:
        """Return all rows."""
        event, kind = pa.array(self.event), pa.array(self.kind)
        columns = [column.take(event) for column in event_columns(self.events)]
        columns += [column.take(kind) for column in self.kinds.columns]
        return pa.RecordBatch.from_arrays(columns, schema=WITNESS_SCHEMA)


@dataclass
class LoneRows:
    """Rows that nothing meets."""

    variables: frozenset[int] = frozenset()
    """Variables that have such rows alone."""
    found: list[AlikeRows] = field(default_factory=list)


def event_columns(events: pa.RecordBatch) -> list[pa.Array]:
    """Return the columns that all rows of an event share: ``OF_EVENT``.

    ``events`` has (docid, channel, id, item, ts, late), and ``membership`` unless all have 0.
    """
    place = pc.binary_join_element_wise(events.column("channel"), events.column("id"), "\0")
    told = {"place": place, "membership": pa.repeat(pa.scalar(0, pa.int32()), events.num_rows)}
    told |= {name: events.column(name) for name in OF_EVENT if name in events.schema.names}
    return [told[name] for name in OF_EVENT]
