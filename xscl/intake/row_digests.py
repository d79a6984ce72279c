"""Digests of many rows, a column at a time: for each row what ``ingest.rows.cells_digest`` says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from xscl.ingest.rows import TEXT_TYPES

__all__ = ["row_digests"]

_PART = 10_000
"""Rows whose texts are joined at once."""
_SIZE = 8
"""Bytes that say how long a text is, as in ``digest_text``."""


def row_digests(schema: Mapping[str, str | None], cells: Sequence[pa.StringArray], count: int) -> list[str]:
    """Return the digests of ``count`` rows.

    Args:
        schema: columns with their types.
        cells: a column each, in the same order.
        count: how many rows there are.
    """
    columns = sorted(zip(schema.items(), cells, strict=True), key=lambda column: column[0][0])
    begins = [f"{name} {'text' if kind in TEXT_TYPES else 'value'} ".encode() for (name, kind), _ in columns]
    head = len(b"row").to_bytes(_SIZE, "big") + b"row"
    found: list[str] = []
    for start in range(0, count, _PART):
        texts = [
            _with_length(begin, column.slice(start, _PART)) for begin, (_, column) in zip(begins, columns, strict=True)
        ]
        joined = pc.binary_join_element_wise(head, *texts, b"", null_handling="replace", null_replacement=b"")
        found += [blake2b(row, digest_size=16).hexdigest() for row in joined.to_pylist()]
    return found


def _with_length(begin: bytes, texts: pa.StringArray) -> pa.BinaryArray:
    """Put the length of each text and its column before it; NULL stays NULL."""
    lengths = pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False).astype("int64") + len(begin)
    written = pa.py_buffer(lengths.astype(">u8").tobytes())
    sizes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_SIZE), len(texts), [None, written])
    return pc.binary_join_element_wise(sizes.cast(pa.binary()), begin, texts.cast(pa.binary()), b"")
