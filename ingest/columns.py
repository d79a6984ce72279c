"""Columns of tables as the cells of a row channel: ``rows.row_cells`` for whole columns, by Arrow and numpy.

A column as a whole tells most of its values for certain.  Other values are *doubtful*, and the caller looks at each of
them alone (``column_value``, then ``rows.fit_row``).  So a column costs no step of Python for a value that is as most
values are, and every value becomes what it would become alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.errors import SourceError
from xscl.base.types import Scalar
from xscl.base.values import column_text

__all__ = ["Cells", "column_cells", "column_type", "column_value", "text_type", "time_micros"]

Mask = npt.NDArray[np.bool_]

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 and 9999, since 1970
_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EXACT = 2**53
"""Whole numbers up to this are doubles."""

_NO_XML = "[^\t\n\r\\x{20}-\\x{D7FF}\\x{E000}-\\x{FFFD}\\x{10000}-\\x{10FFFF}]"
_DIGITS = r"^(?:0|-?[1-9][0-9]*)$"
_WHOLE = r"^(?:0|-?[1-9][0-9]{0,17})$"
# Up to fifteen digits, the text of a number is the shortest one that a double is read back from.
_SHORT = r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{0,14}[1-9])?$"
_NUMERAL = r"^-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?$"
_PLAIN = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?$"
_LEADING_ZERO = r"^-?0[0-9]"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{0,5}[1-9])?Z$"
_ANY_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})$"
_MOST_DIGITS = 1_000
_FEW = 100
"""Values that tell at little cost something of their column."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a column."""

    texts: pa.StringArray
    """NULL where the column is, and where it is doubtful."""
    doubtful: Mask | None = None
    """Places of values that have to be looked at; None: there are none."""


def column_type(type_: pa.DataType) -> str | None:
    """Return the type of a channel's column that takes an Arrow column; None for a column of NULLs only.

    Raises:
        SourceError: ``XSCL_COLUMN_TYPE``: no column is of such a type.

    >>> column_type(pa.int32()), column_type(pa.timestamp("ns")), column_type(pa.null())
    ('bigint', 'timestamp', None)
    """
    if pa.types.is_dictionary(type_):
        return column_type(type_.value_type)
    for tests, found in _TYPES:
        if any(test(type_) for test in tests):
            return found
    if pa.types.is_null(type_):
        return None
    raise SourceError(
        "XSCL_COLUMN_TYPE", f"a column of type {type_} has no place in a row", hint="leave it out, or make it a text"
    )


_TYPES: tuple[tuple[tuple[Callable[[pa.DataType], bool], ...], str], ...] = (
    ((pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view), "string"),
    ((pa.types.is_integer,), "bigint"),
    ((pa.types.is_floating,), "double"),
    ((pa.types.is_boolean,), "boolean"),
    ((pa.types.is_decimal,), "decimal"),
    ((pa.types.is_timestamp,), "timestamp"),
    ((pa.types.is_date,), "date"),
)

_FITS = {
    "string": {"string", "timestamp", "date", "decimal"},
    "bigint": {"bigint", "double", "decimal"},
    "double": {"double", "bigint", "decimal"},
    "decimal": {"decimal", "double", "bigint"},
    "boolean": {"boolean"},
    "timestamp": {"timestamp"},
    "date": {"date"},
}


def text_type(values: pa.StringArray) -> str | None:
    """Return the type of a column that is given by texts, as in CSV: what all of them are; None without values.

    Numbers with zeros in front (``007``) are texts; times have a zone, as ``2026-06-01T00:00:00Z``.

    >>> text_type(pa.array(["1", None])), text_type(pa.array(["1", "2.5"])), text_type(pa.array(["01"]))
    ('bigint', 'double', 'string')
    """
    if values.null_count == len(values):
        return None
    for pattern, found in (
        (_WHOLE, "bigint"),
        (_DIGITS, "decimal"),
        (_NUMERAL, "double"),
        (_ANY_TIME, "timestamp"),
        (_DATE, "date"),
    ):
        # Most columns show by some values that they are not of a type.
        if _all(pc.match_substring_regex(values[:_FEW], pattern)) and _all(pc.match_substring_regex(values, pattern)):
            if found == "double" and pc.any(pc.match_substring_regex(values, _LEADING_ZERO)).as_py():
                return "string"
            return found
    return "boolean" if _all(pc.is_in(values.drop_null(), pa.array(["true", "false"]))) else "string"


def _repeat(values: pa.Array) -> bool:
    """Whether each value seems to be there several times, as the names of some rooms are."""
    some = values[: len(values) // 10]
    return len(some) >= _FEW and 4 * len(some.unique()) < len(some)


def _all(found: pa.BooleanArray) -> bool:
    return bool(pc.all(found, skip_nulls=True).as_py())


def column_cells(values: pa.Array, expected: str, *, texts: bool = False) -> Cells:
    """Return the cells of a column for a channel's column of type ``expected``.

    Args:
        values: the column; NaN is taken as NULL, and whole numbers kept as floats are whole numbers.
        expected: a type of ``rows.COLUMN_TYPES``.
        texts: whether the column holds texts to be read as values, as in CSV.

    Raises:
        SourceError: ``XSCL_ROW_SCHEMA``: no value of the column can be of that type; ``XSCL_COLUMN_TYPE``.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    found = column_type(values.type)
    if found is None:
        return Cells(pa.nulls(len(values), pa.string()))
    if not texts and expected not in _FITS[found]:
        raise SourceError("XSCL_ROW_SCHEMA", f"expected {expected}, found {found}")
    if found in ("string", "double") and _repeat(values):
        coded = values.dictionary_encode()
        cells = _different_cells(coded.dictionary, found, expected)
        return Cells(cells.texts.take(coded.indices), _taken(cells.doubtful, coded.indices))
    return _different_cells(values, found, expected)


def _different_cells(values: pa.Array, found: str, expected: str) -> Cells:
    if found == "string":
        return _FROM_TEXT[expected](values.cast(pa.string()))
    return _FROM_VALUES[found](values, expected)


def column_value(value: object, expected: str, *, texts: bool = False) -> Scalar:
    """Return a value that was doubtful, as ``rows.fit_row`` takes it; a text that cannot be read stays one."""
    if texts and isinstance(value, str) and value.isascii() and "_" not in value:
        try:
            match expected:
                case "bigint":
                    return int(value) if value.strip().lstrip("+-").isdecimal() else value
                case "double":
                    return float(value)
                case "boolean":
                    return {"true": True, "false": False}.get(value.strip().lower(), value)
                case "timestamp" | "date" | "decimal":
                    return value.strip()
        except ValueError:
            pass
    if expected == "bigint" and isinstance(value, float | Decimal) and _is_whole(value):
        return int(value)
    if isinstance(value, bool | int | float | Decimal | str | datetime | date) or value is None:
        return value
    return str(value)


def _is_whole(value: float | Decimal) -> bool:
    """Whether a number is a whole one that may have 64 bits."""
    return -(2**63) <= value < 2**63 and value == int(value) if math.isfinite(value) else False


# -- from values -----------------------------------------------------------------------------------------------


def _from_integers(values: pa.Array, expected: str) -> Cells:
    doubtful = None
    if expected == "double" or pa.types.is_uint64(values.type):
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        most = _EXACT if expected == "double" else 2**63 - 1
        doubtful = numbers > most
        if not pa.types.is_unsigned_integer(values.type):
            doubtful |= numbers < -most
    return _cells(values.cast(pa.string()), doubtful)


def _from_floats(values: pa.Array, expected: str) -> Cells:
    numbers = values.cast(pa.float64())
    plain = numbers.fill_null(0.0).to_numpy(zero_copy_only=False)
    missing = np.isnan(plain)
    if missing.any():
        numbers = pc.if_else(pa.array(missing), pa.scalar(None, pa.float64()), numbers)
    doubtful = np.isinf(plain)
    if expected == "bigint":
        whole = (np.abs(np.where(missing, 0, plain)) <= _EXACT) & (np.floor(plain) == plain)
        doubtful |= ~whole & ~missing
    return _cells(_double_texts(numbers), doubtful)


def _double_texts(numbers: pa.DoubleArray) -> pa.StringArray:
    texts = pc.add(numbers, 0.0).cast(pa.string())  # -0.0 becomes 0.0
    return _rewritten(texts, pc.match_substring(texts, "e"), lambda text: column_text(float(text)))


def _rewritten(texts: pa.StringArray, which: pa.BooleanArray, rewrite: Callable[[str], str]) -> pa.StringArray:
    """Return the texts with some of them rewritten one by one."""
    if not pc.any(which).as_py():
        return texts
    which = which.fill_null(False)
    return pc.replace_with_mask(
        texts, which, pa.array([rewrite(text) for text in texts.filter(which).to_pylist()], pa.string())
    )


def _from_decimals(values: pa.Array, expected: str) -> Cells:
    if expected == "double":
        return _cells(pa.nulls(len(values), pa.string()), _present(values))
    texts = values.cast(pa.string())
    texts = _rewritten(texts, pc.match_substring(texts, "E"), lambda text: format(Decimal(text), "f"))
    texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+)(?:\.0*|(\.[0-9]*[1-9])0*)$", r"\1\2")
    texts = pc.if_else(pc.equal(texts, "-0"), "0", texts)
    if expected == "bigint":
        return _cells(texts, _places(pc.invert(pc.match_substring_regex(texts, _WHOLE))))
    return Cells(texts)


def _from_truths(values: pa.Array, expected: str) -> Cells:
    return Cells(values.cast(pa.string()))


def _from_times(values: pa.Array, expected: str) -> Cells:
    micros, doubtful = time_micros(values)
    plain = micros.fill_null(0).to_numpy(zero_copy_only=False)
    whole = not np.any(plain % 1_000_000)
    if whole:
        texts = pa.array(plain // 1_000_000, pa.timestamp("s")).cast(pa.string())
        texts = pc.binary_join_element_wise(pc.utf8_replace_slice(texts, 10, 11, "T"), "Z", "")
    else:
        texts = pa.array(plain, pa.timestamp("us")).cast(pa.string())
        texts = pc.replace_substring_regex(texts, r"^(.{10}) (.{8})(?:\.0*|(\.[0-9]*[1-9])0*)$", r"\1T\2\3Z")
    return _cells(_masked(texts, _places(micros.is_null())), doubtful)


def time_micros(values: pa.TimestampArray) -> tuple[pa.Int64Array, Mask]:
    """Return times in microseconds since the epoch, finer ones cut, and the places of other years than 1 to 9999."""
    per_second = _PER_SECOND[values.type.unit]
    counts = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = counts // per_second
    doubtful: Mask = (seconds < _FIRST_DAY * _DAY) | (seconds >= (_LAST_DAY + 1) * _DAY)
    seconds = np.where(doubtful, 0, seconds)
    rest = np.where(doubtful, 0, counts) - seconds * per_second
    micros = seconds * 1_000_000 + rest * 1_000_000 // per_second
    return pa.array(micros, pa.int64(), mask=_places(values.is_null()) | doubtful), doubtful


def _from_dates(values: pa.Array, expected: str) -> Cells:
    days = values.cast(pa.date32()).cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    doubtful = (days < _FIRST_DAY) | (days > _LAST_DAY)
    texts = pa.array(np.where(doubtful, 0, days), pa.date32(), mask=_places(values.is_null())).cast(pa.string())
    return _cells(texts, doubtful)


# -- from texts ------------------------------------------------------------------------------------------------


def _texts_as_strings(values: pa.StringArray) -> Cells:
    return _cells(values, _places(pc.match_substring_regex(values, _NO_XML)))


def _texts_as_integers(values: pa.StringArray) -> Cells:
    return _cells(values, _places(pc.invert(pc.match_substring_regex(values, _WHOLE))))


def _texts_as_doubles(values: pa.StringArray) -> Cells:
    short = pc.and_(
        pc.and_(pc.match_substring_regex(values, _SHORT), pc.less_equal(pc.binary_length(values), 16)),
        pc.not_equal(values, "-0"),
    )
    if _all(short):
        return Cells(values)
    # Longer ones may be no shortest text.
    numeral = pc.match_substring_regex(values, _NUMERAL)
    numbers = pc.if_else(numeral, values, None).cast(pa.float64())
    finite = np.isfinite(numbers.fill_null(0.0).to_numpy(zero_copy_only=False))
    return _cells(_double_texts(numbers), _places(pc.invert(numeral)) | ~finite)


def _texts_as_truths(values: pa.StringArray) -> Cells:
    known = pc.is_in(values, pa.array(["true", "false"]))
    return _cells(values, ~_places(known) & _present(values))


def _texts_as_decimals(values: pa.StringArray) -> Cells:
    plain = pc.and_(
        pc.and_(pc.match_substring_regex(values, _PLAIN), pc.less_equal(pc.binary_length(values), _MOST_DIGITS)),
        pc.not_equal(values, "-0"),
    )
    return _cells(values, _places(pc.invert(plain)))


def _texts_as_times(values: pa.StringArray) -> Cells:
    return _cells(values, _unread(values, _TIME, pa.timestamp("us", "UTC")))


def _texts_as_dates(values: pa.StringArray) -> Cells:
    return _cells(values, _unread(values, _DATE, pa.date32()))


def _unread(values: pa.StringArray, pattern: str, type_: pa.DataType) -> Mask:
    """Return the places of values that are not written as texts of a type are kept; of all if Arrow refuses one that
    is.
    """
    written = pc.match_substring_regex(values, pattern)
    # Arrow knows a year 0.
    written = pc.and_(written, pc.invert(pc.starts_with(values, "0000")))
    try:
        pc.if_else(written, values, None).cast(type_)
    except pa.ArrowInvalid:
        return _present(values)
    return _places(pc.invert(written))


_FROM_VALUES = {
    "bigint": _from_integers,
    "double": _from_floats,
    "decimal": _from_decimals,
    "boolean": _from_truths,
    "timestamp": _from_times,
    "date": _from_dates,
}
_FROM_TEXT = {
    "string": _texts_as_strings,
    "bigint": _texts_as_integers,
    "double": _texts_as_doubles,
    "boolean": _texts_as_truths,
    "decimal": _texts_as_decimals,
    "timestamp": _texts_as_times,
    "date": _texts_as_dates,
}


# -- masks -----------------------------------------------------------------------------------------------------


def _cells(texts: pa.StringArray, doubtful: Mask | None) -> Cells:
    if doubtful is None or not doubtful.any():
        return Cells(texts)
    return Cells(_masked(texts, doubtful), doubtful)


def _masked(texts: pa.StringArray, without: Mask) -> pa.StringArray:
    if not without.any():
        return texts
    return pc.if_else(pa.array(without), pa.scalar(None, pa.string()), texts)


def _places(found: pa.BooleanArray) -> Mask:
    """Return the mask of values for which a test holds; NULL fails it."""
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _taken(places: Mask | None, indices: pa.Int32Array) -> Mask | None:
    """Return the mask of values by that of the different values that they are; NULL is at no place."""
    return None if places is None else _places(pa.array(places).take(indices))


def _present(values: pa.Array) -> Mask:
    return _places(values.is_valid())
