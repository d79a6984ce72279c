"""The event times of a table's rows, a column at a time.

Pandas is let in and imported where it is needed: most commands do without, and it takes as long as all the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.errors import SourceError
from xscl.base.pandas_later import let_pandas_in
from xscl.base.types import to_micros
from xscl.ingest.columns import time_micros
from xscl.ingest.dates import parse_date
from xscl.ingest.records import RowOptions

__all__ = ["as_array", "check_times", "day_read_as_seconds", "event_times", "time_columns"]

Mask = npt.NDArray[np.bool_]
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DIGITS = r"^-?[0-9]{1,18}$"
_NUMBER = r"^-?[0-9]+(?:\.[0-9]*)?$"
_DAY = r"^(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])$"
_LOOKED_AT = 1_000
_A_NUMBER = re.compile(_NUMBER)
_ZONED = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})$"


def check_times(ts_format: str | None, ts_zone: str) -> None:
    """Refuse what is no zone and no format of times.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``.
    """
    try:
        ZoneInfo(ts_zone)
    except (ValueError, OSError, LookupError):
        raise SourceError(
            "XSCL_BAD_OPTION", f"there is no time zone {ts_zone!r}", hint="zones are named as Europe/Berlin or UTC"
        ) from None
    if ts_format is None or ts_format in _PER_SECOND:
        return
    hint = "as of strptime: '%m/%d/%Y %H:%M:%S.%f'; or s, ms, us, ns since 1970"
    if "%" not in ts_format:
        raise SourceError("XSCL_BAD_OPTION", f"the format of times {ts_format!r} has no directives", hint=hint)
    let_pandas_in()
    import pandas as pd  # type: ignore[import-untyped]

    try:
        pd.to_datetime(["1970"], format=ts_format, errors="coerce")
    except ValueError as error:
        raise SourceError("XSCL_BAD_OPTION", f"the format of times {ts_format!r}: {error}", hint=hint) from None


def time_columns(names: Sequence[str], ts: str) -> list[str]:
    """Name the columns that ``ts`` stands for in a table of these columns.

    >>> time_columns(["Date Time"], "Date Time"), time_columns(["Date", "Time"], "Date Time")
    (['Date Time'], ['Date', 'Time'])
    """
    # A name without a letter is no column either, and is refused as such.
    return [ts] if ts in names else ts.split() or [ts]


def event_times(rows: pa.Table, options: RowOptions) -> tuple[pa.Int64Array, Mask]:
    """Return times in microseconds since the epoch, NULL where there is none, and the places of values that are no
    times.

    Raises:
        KeyError: a column is not there.
        SourceError: ``XSCL_BAD_OPTION``: no such zone, a format for a column that has none, a column without times.
    """
    nothing = np.zeros(len(rows), dtype=np.bool_)
    check_times(options.ts_format, options.ts_zone)
    if options.ts is None:
        return pa.nulls(len(rows), pa.int64()), nothing
    names = time_columns(rows.column_names, options.ts)
    columns = [as_array(rows.column(name)) for name in names]
    if len(columns) > 1:
        columns = [pc.binary_join_element_wise(*(column.cast(pa.string()) for column in columns), " ")]
    return _times(columns[0], options)


def day_read_as_seconds(rows: pa.Table, options: RowOptions) -> str | None:
    """Return a time that looks like a day, ``20260301``, where the first rows have nothing else in their column."""
    if options.ts is None or options.ts_format is not None or options.ts not in rows.column_names:
        return None
    column = rows.column(options.ts).slice(0, _LOOKED_AT)
    if not pa.types.is_string(column.type) and not pa.types.is_integer(column.type):
        return None
    texts = pc.drop_null(column.cast(pa.string()))
    are_days = len(texts) > 0 and pc.all(pc.match_substring_regex(texts, _DAY)).as_py()
    return str(texts[0].as_py()) if are_days else None


def as_array(column: pa.ChunkedArray) -> pa.Array:
    """Make one piece of a column, without a dictionary."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _times(values: pa.Array, options: RowOptions) -> tuple[pa.Int64Array, Mask]:
    type_ = values.type
    if pa.types.is_timestamp(type_):
        return time_micros(_in_zone(values, options.ts_zone))
    if pa.types.is_date(type_):
        return time_micros(_in_zone(values.cast(pa.timestamp("s")), options.ts_zone))
    if pa.types.is_null(type_):
        return pa.nulls(len(values), pa.int64()), np.zeros(len(values), dtype=np.bool_)
    if options.ts_format in _PER_SECOND or (options.ts_format is None and _holds_numbers(values)):
        return _counted(values, options.ts_format or "s")
    if not pa.types.is_string(type_) and not pa.types.is_large_string(type_):
        written = "" if options.ts_format is None else f" written {options.ts_format!r}"
        raise SourceError(
            "XSCL_BAD_OPTION",
            f"column {options.ts!r} of type {type_} has no times{written}",
            hint="times are timestamps, dates, numbers or texts",
        )
    return _written(values.cast(pa.string()), options)


def _holds_numbers(values: pa.Array) -> bool:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return bool(pc.all(pc.match_substring_regex(values, _NUMBER)).as_py())
    type_ = values.type
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _counted(values: pa.Array, unit: str) -> tuple[pa.Int64Array, Mask]:
    """Read numbers of seconds, or of parts of a second, rounded to microseconds as ``types.to_micros`` does."""
    if pa.types.is_string(values.type) and pc.all(pc.match_substring_regex(values, _DIGITS)).as_py():
        values = values.cast(pa.int64())
    if pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
        return time_micros(values.cast(pa.int64()).cast(pa.timestamp(unit)))
    micros = np.zeros(len(values), dtype=np.int64)
    bad = np.zeros(len(values), dtype=np.bool_)
    for place, value in enumerate(values.to_pylist()):
        if value is not None:
            try:
                micros[place] = to_micros(Decimal(str(value).strip()) / _PER_SECOND[unit])
            except (ValueError, TypeError, ArithmeticError):
                bad[place] = True
    return pa.array(micros, pa.int64(), mask=_missing(values) | bad), bad


def _written(values: pa.StringArray, options: RowOptions) -> tuple[pa.Int64Array, Mask]:
    # Many rows often share a time, and few texts are read sooner.
    coded = values.dictionary_encode()
    texts = coded.dictionary
    micros, _ = _iso(texts, options.ts_zone) if options.ts_format is None else _formatted(texts, options)
    taken = micros.take(coded.indices)
    bad = _mask(taken.is_null()) & ~_missing(values)
    return taken, bad


def _iso(texts: pa.StringArray, zone: str) -> tuple[pa.Int64Array, Mask]:
    zoned = pc.match_substring_regex(texts, _ZONED)
    try:
        with_zone = pc.if_else(zoned, texts, None).cast(pa.timestamp("us", "UTC"))
        without = _in_zone(pc.if_else(zoned, None, texts).cast(pa.timestamp("us")), zone)
        return time_micros(pc.coalesce(with_zone, without))
    except pa.ArrowInvalid:
        pass
    micros = [_moment(text, zone) for text in texts.to_pylist()]
    return pa.array(micros, pa.int64()), np.zeros(len(micros), dtype=np.bool_)


def _moment(text: str, zone: str) -> int | None:
    """Read one time: ISO 8601, RFC 822 as in feeds, or a number of seconds; None of anything else.

    A reader that guesses would take ``03/04/2026`` for another day than ``13/04/2026``.
    """
    text = " ".join(text.split())
    try:
        if _A_NUMBER.match(text):
            return to_micros(Decimal(text))
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            # These have a zone.
            if (feed := parse_date(text)) is None:
                return None
            found = feed
        return to_micros(found if found.tzinfo is not None else _placed(found, zone))
    except (ValueError, OverflowError):
        return None


def _placed(time: datetime, zone: str) -> datetime:
    """Place a time in a zone, as ``_in_zone`` does."""
    if zone.upper() == "UTC":
        return time.replace(tzinfo=UTC)
    let_pandas_in()
    import pandas as pd

    placed: datetime = pd.Timestamp(time).tz_localize(zone, ambiguous=True, nonexistent="shift_forward").to_pydatetime()
    return placed


def _formatted(texts: pa.StringArray, options: RowOptions) -> tuple[pa.Int64Array, Mask]:
    let_pandas_in()
    import pandas as pd

    try:
        read = pd.to_datetime(texts.to_pandas(), format=options.ts_format, errors="coerce", utc=False)
    except ValueError as error:
        raise SourceError("XSCL_BAD_OPTION", f"the format of times {options.ts_format!r}: {error}") from None
    if read.dtype == object:  # zones differ
        read = pd.to_datetime(read, errors="coerce", utc=True)
    return time_micros(_in_zone(pa.Array.from_pandas(read), options.ts_zone))


def _in_zone(values: pa.TimestampArray, zone: str) -> pa.TimestampArray:
    """Place times without a zone in a zone: an hour that comes twice is the first, one left out the one after."""
    if values.type.tz is not None or zone.upper() == "UTC":
        return values
    return pc.assume_timezone(values, zone, ambiguous="earliest", nonexistent="latest")


def _mask(found: pa.BooleanArray) -> Mask:
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _missing(values: pa.Array) -> Mask:
    return _mask(values.is_null())
