"""Data frames and tables of other libraries as what the intake and the registry take; none of them is imported before
there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeGuard

from xscl.base.errors import EngineError
from xscl.ingest.frames import DOCUMENT_COLUMNS, document_records
from xscl.ingest.records import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["arrow_table", "frame_events", "frame_texts", "has_documents"]


def has_documents(source: object) -> TypeGuard[DataFrame]:
    """Whether this is a DataFrame of Spark with a column ``xml``."""
    return hasattr(source, "toArrow") and "xml" in source.columns  # type: ignore[attr-defined]


def frame_texts(frame: Any) -> Iterator[tuple[str | None, str]]:
    """(name, text) of the rows of a DataFrame of pandas or Spark."""
    if "text" not in frame.columns:
        raise EngineError("XSCL_BAD_FRAME", "the DataFrame has no column text", hint="needed: text; if wanted: name")
    wanted = [name for name in ("text", "name") if name in frame.columns]
    if hasattr(frame, "toLocalIterator"):
        rows = frame.select(*wanted).toLocalIterator()
    else:
        rows = frame[wanted].itertuples(index=False, name=None)
    for text, *name in rows:
        # What is missing is None in Spark and NaN in pandas.
        yield name[0] if name and isinstance(name[0], str) else None, text if isinstance(text, str) else ""


def arrow_table(source: Any) -> pa.Table | None:
    """Return the table of a pyarrow, pandas or Spark object; None of anything else."""
    if hasattr(source, "toArrow"):
        return source.toArrow()
    # What is no table needs neither library.
    for library, make in (("pyarrow", _of_arrow), ("pandas", _of_pandas)):
        if type(source).__module__.partition(".")[0] == library:
            return make(source)
    return None


def _of_arrow(source: Any) -> pa.Table | None:
    import pyarrow as pa

    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    return pa.Table.from_batches([source]) if isinstance(source, pa.RecordBatch) else source


def _of_pandas(source: Any) -> pa.Table | None:
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(source, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise EngineError("XSCL_BAD_FRAME", f"the DataFrame is no table of columns: {error}") from None


def frame_events(frame: DataFrame, channel: str | None) -> Iterator[Record]:
    """Yield the records of a DataFrame with a column ``xml``; ``channel`` is for rows that name none.

    Raises:
        EngineError: ``XSCL_BAD_FRAME``: it has no column ``channel``, and none is given.
    """
    missing = {"xml", *(() if channel else ("channel",))} - set(frame.columns)
    if missing:
        raise EngineError(
            "XSCL_BAD_FRAME",
            f"the DataFrame has no column {', '.join(sorted(missing))}",
            hint="needed: channel, xml",
        )
    wanted = [name for name in DOCUMENT_COLUMNS if name in frame.columns]
    for row in frame.select(*wanted).toLocalIterator():
        yield from document_records(row.asDict(), channel)
