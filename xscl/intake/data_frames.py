"""Data frames and tables of other libraries as what the intake and the registry take; none of them is imported before
there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xscl.base.errors import EngineError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_table", "frame_texts", "is_spark_frame"]


def is_spark_frame(source: object) -> bool:
    """Whether this is a DataFrame of Spark."""
    return hasattr(source, "mapInArrow") and hasattr(source, "toArrow")


def frame_texts(frame: Any) -> Iterator[tuple[str | None, str]]:
    """Yield (name, text) of the rows of a DataFrame of pandas or Spark."""
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
