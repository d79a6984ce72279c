"""What Spark ships for stage 1: events in Arrow to witness rows in Arrow.  Nothing here needs Spark.

The automaton reaches a worker as a file named by its version and stays in the process between jobs.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from xscl.arrow import CHAIN
from xscl.errors import XsclError
from xscl.safexml import STORED_LIMITS, parse_xml
from xscl.xpath.automaton import Automaton, WitnessSpec
from xscl.xpath.witness import Witness, match_document

__all__ = ["REFUSED", "WITNESS_SCHEMA", "load_automaton", "save_specs", "witness_batches"]

REFUSED = 0
"""The variable of rows that say why a document was refused; no definition has this digest but by a miracle."""

WITNESS_SCHEMA = pa.schema(
    [
        ("docid", pa.int64()),
        ("ts", pa.int64()),  # event time, microseconds
        ("item", pa.int64()),  # docid of the item's first version: versions of one item never join
        ("place", pa.string()),  # channel and id, by which ONCE orders equal times
        ("late", pa.bool_()),
        ("var", pa.int64()),
        ("node", pa.int32()),
        ("fn", pa.string()),
        ("strval", pa.string()),
        ("num", pa.float64()),
        ("h", pa.int64()),
        ("chain", CHAIN),
    ]
)


def save_specs(specs: list[WitnessSpec], path: Path) -> None:
    """Write what a worker builds its automaton from."""
    path.write_bytes(pickle.dumps(specs, protocol=5))


@lru_cache(maxsize=2)
def load_automaton(path: str) -> Automaton:
    """The automaton of one version, built once per process."""
    specs: list[WitnessSpec] = pickle.loads(Path(path).read_bytes())
    return Automaton(specs)


def witness_batches(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows (docid, channel, id, item, ts, late, content) to rows of ``WITNESS_SCHEMA``.

    A document that cannot be matched gives one row of variable ``REFUSED`` with the reason as its value.
    """
    automaton = load_automaton(path)
    for batch in batches:
        columns: dict[str, list[object]] = {name: [] for name in WITNESS_SCHEMA.names}
        for event in batch.to_pylist():
            if automaton.start(event["channel"]) is None:
                continue
            shared = (
                event["docid"],
                event["ts"],
                event["item"],
                f"{event['channel']}\0{event['id']}",
                event["late"],
            )
            for row in _witnesses(automaton, event["channel"], event["content"]):
                chain = [
                    {"var1": var1, "var2": var2, "node1": node1, "node2": node2}
                    for var1, var2, node1, node2 in row.chain
                ]
                values = (*shared, row.var, row.node, row.function, row.value, row.number, row.hash, chain)
                for column, value in zip(columns.values(), values, strict=True):
                    column.append(value)
        yield pa.RecordBatch.from_pydict(columns, schema=WITNESS_SCHEMA)


def _witnesses(automaton: Automaton, channel: str, content: str) -> list[Witness]:
    try:
        return match_document(automaton, channel, parse_xml(content, limits=STORED_LIMITS))
    except Exception as error:  # whatever it is, it is this document's, and costs this document only
        reason = error.message if isinstance(error, XsclError) else f"{type(error).__name__}: {error}"
        return [Witness(REFUSED, 0, None, reason, None, 0, ())]
