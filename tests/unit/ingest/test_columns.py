"""Whole columns become what their values become one by one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xscl.base.errors import DocumentError, MalformedDocumentError, SourceError
from xscl.ingest.columns import column_cells, column_type, column_value, text_type, time_micros
from xscl.ingest.rows import fit_row, row_cells

_DOUBLES = st.floats(allow_nan=False, allow_infinity=True) | st.integers(-(10**17), 10**17).map(lambda n: n / 100)
_VALUES = {
    "string": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), _DOUBLES),
    "boolean": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(38, 12), st.decimals(-(10**20), 10**20, places=12)),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(UTC)) | st.integers(0, 10**9).map(lambda s: datetime.fromtimestamp(s, UTC)),
    ),
    "date": (pa.date32(), st.dates()),
}
_NUMERALS = st.from_regex(r"\A-?[0-9]{0,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,3})?\Z")
_TEXTS = {
    "bigint": _NUMERALS | st.integers(-(10**20), 10**20).map(str),
    "double": _NUMERALS | _DOUBLES.map(repr),
    "boolean": st.sampled_from(["true", "false", "TRUE", "False", " true", "1", "x", ""]),
    "decimal": _NUMERALS,
    "timestamp": st.datetimes(timezones=st.just(UTC)).map(lambda t: t.isoformat().replace("+00:00", "Z"))
    | st.sampled_from(["2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "2026-01-01T00:00:00.50Z", "x", "2026-01-01"])
    | st.sampled_from(["2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00", "2026-01-01T24:00:00Z"]),
    "date": st.dates().map(str) | st.sampled_from(["2026-02-30", "0000-01-01", "2026-1-1", "x"]),
    "string": _VALUES["string"][1],
}
many = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


def alone(value, expected):
    """The cell of one value; an error's condition if it has none."""
    try:
        row, _ = fit_row({"c": value}, {"c": expected})
        return row_cells(row, element="r")[0]
    except (DocumentError, MalformedDocumentError) as error:
        return (error.condition,)


def check(values, expected, array, *, texts=False):
    found = column_cells(array, expected, texts=texts)
    assert len(found.texts) == len(values)
    doubtful = [False] * len(values) if found.doubtful is None else found.doubtful.tolist()
    for value, text, doubt in zip(values, found.texts.to_pylist(), doubtful, strict=True):
        if not doubt:
            given_value = column_value(value, expected, texts=texts)
            assert text == alone(given_value, expected), value
        else:
            assert value is not None
            assert text is None
    if len(values):
        times = 1_000 // len(values) + 1
        repeated = column_cells(pa.concat_arrays([array] * times), expected, texts=texts)
        assert repeated.texts.to_pylist() == found.texts.to_pylist() * times
        assert doubtful * times == (
            [False] * len(repeated.texts) if repeated.doubtful is None else repeated.doubtful.tolist()
        )


@many
@given(st.data(), st.sampled_from(sorted(_VALUES)))
def test_columns_of_values(data, expected):
    type_, one = _VALUES[expected]
    values = data.draw(st.lists(st.none() | one, max_size=8))
    check(values, expected, pa.array(values, type_))


@many
@given(st.data(), st.sampled_from(sorted(_TEXTS)))
def test_columns_of_texts(data, expected):
    values = data.draw(st.lists(st.none() | _TEXTS[expected], max_size=8))
    check(values, expected, pa.array(values, pa.string()), texts=True)


@many
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=8), st.sampled_from(["double", "decimal"]))
def test_integers_in_other_columns(values, expected):
    check(values, expected, pa.array(values, pa.int64()))


@many
@given(st.lists(st.none() | _DOUBLES, max_size=8))
def test_floats_in_decimal_columns(values):
    check(values, "decimal", pa.array(values, pa.float64()))


def test_most_values_are_not_doubtful() -> None:
    """A column that is doubtful as a whole would be right, and slow."""
    columns = {
        "string": pa.array(["a", "é<", "\U0001f600", None]),
        "bigint": pa.array([1, -(2**63), None]),
        "double": pa.array([1.5, 1e300, -0.0, float("nan"), None]),
        "decimal": pa.array([Decimal("1.50"), None]),
        "timestamp": pa.array([datetime(2026, 1, 1), None], pa.timestamp("ns")),
        "date": pa.array([date(2026, 1, 1), None]),
        "boolean": pa.array([True, None]),
    }
    for expected, values in columns.items():
        assert column_cells(values, expected).doubtful is None, expected
    texts = {
        "bigint": ["7", "-7", None],
        "double": ["101.50", "1e-7", "10.357019999999999", None],
        "decimal": ["12345678901234567890.5"],
        "timestamp": ["2013-01-01T10:00:00Z", "2013-01-01T10:00:00.5Z"],
        "date": ["2013-01-01"],
        "boolean": ["true"],
    }
    for expected, written in texts.items():
        assert column_cells(pa.array(written), expected, texts=True).doubtful is None, expected


def test_floats_that_are_whole_numbers_are_taken_as_such() -> None:
    found = column_cells(pa.array([1.0, None, float("nan"), 1.5, -0.0]), "bigint")
    assert found.texts.to_pylist() == ["1", None, None, None, "0"]
    assert found.doubtful is not None
    assert found.doubtful.tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_finer_times_are_cut(unit) -> None:
    values = pa.array([-1, 0, 1, None], pa.timestamp(unit))
    micros, doubtful = time_micros(values)
    scale = {"s": 1_000_000, "ms": 1000, "us": 1}.get(unit)
    assert micros.to_pylist() == ([-1, 0, 0, None] if scale is None else [-scale, 0, scale, None])
    assert not doubtful.any()


def test_times_outside_the_years_are_doubtful() -> None:
    far = pa.array([2**62, -(2**62), 253402300799], pa.timestamp("s"))
    micros, doubtful = time_micros(far)
    assert doubtful.tolist() == [True, True, False]
    assert micros.to_pylist() == [None, None, 253402300799_000000]
    assert datetime(1970, 1, 1) + timedelta(microseconds=253402300799_000000) == datetime(9999, 12, 31, 23, 59, 59)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([None, None], None),
        (["1", "-2", None], "bigint"),
        (["1", "2.5"], "double"),
        (["1e3"], "double"),
        (["007"], "string"),
        (["007.5"], "string"),
        (["0.5", "0"], "double"),
        (["true", None, "false"], "boolean"),
        (["2013-01-01T10:00:00Z", "2013-01-01 11:00+01:00"], "timestamp"),
        (["2013-01-01T10:00:00"], "string"),
        (["2013-01-01"], "date"),
        (["N14228", "1"], "string"),
        (["123456789012345678901"], "decimal"),
        (["1"] * 1_000 + ["1.5"], "double"),
        (["1"] * 1_000 + ["x"], "string"),
    ],
)
def test_types_of_texts(texts, expected) -> None:
    assert text_type(pa.array(texts, pa.string())) == expected


def test_columns_of_no_type() -> None:
    for type_ in (pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.binary()):
        with pytest.raises(SourceError, match="no place in a row"):
            column_type(type_)
    with pytest.raises(SourceError, match="expected bigint, found string"):
        column_cells(pa.array(["1"]), "bigint")
