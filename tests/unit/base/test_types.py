"""Times as microseconds, and the public records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.base.errors import CatalogError
from xscl.base.types import Event, QueryOutcome, format_time, to_micros

OFFSET = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        (0, 0),
        (1, 1_000_000),
        (-1, -1_000_000),
        (1.5, 1_500_000),
        (0.1, 100_000),
        (1.0000005, 1_000_000),
        (1780272000.123456, 1_780_272_000_123_456),
        (Decimal("0.0000015"), 2),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.0000019Z", 1),
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("19700101T000001Z", 1_000_000),
        (" 2026-06-01T05:30:00+05:30\n", 1_780_272_000_000_000),
        (datetime(1970, 1, 1, 5, 30, 1, tzinfo=OFFSET), 1_000_000),
    ],
)
def test_times(value: int | float | Decimal | str | datetime, micros: int) -> None:
    assert to_micros(value) == micros


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2026-06-01T00:00:00", "no time zone"),
        ("2026-06-01", "write 2026-06-01T00:00:00Z for UTC"),
        (datetime(2026, 6, 1), "no time zone"),
        ("", "not an ISO 8601 time"),
        ("yesterday", "not an ISO 8601 time"),
        ("2026-13-01T00:00:00Z", "not an ISO 8601 time"),
        ("10000-01-01T00:00:00Z", "not an ISO 8601 time"),
        (float("nan"), "not in the years 1 to 9999"),
        (float("-inf"), "not in the years 1 to 9999"),
        (1e18, "not in the years 1 to 9999"),
        (10**400, "not in the years 1 to 9999"),
        (Decimal("1e999999"), "not in the years 1 to 9999"),
        (Decimal("1e99999999"), "not in the years 1 to 9999"),
        (Decimal("NaN"), "not in the years 1 to 9999"),
        (True, "boolean"),
        ([1], "type list is not a time"),
        (b"2026-06-01T09:30:00Z", "type bytes is not a time"),
    ],
)
def test_what_is_no_time(value: int | float | Decimal | str | datetime, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_micros(value)


@pytest.mark.parametrize("value", [399_999_999_999, "0001-01-01T00:00:00+14:00"])
def test_times_outside_the_calendar_are_refused(value: int | str) -> None:
    with pytest.raises(ValueError, match="year"):
        to_micros(value)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_500_000, "1970-01-01T00:00:01.5Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (253402300799999999, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_text_of_a_time(micros: int, text: str) -> None:
    assert format_time(micros) == text


@given(st.datetimes(timezones=st.just(UTC)))
def test_text_of_a_time_reads_back(moment: datetime) -> None:
    micros = to_micros(moment)
    assert to_micros(format_time(micros)) == micros


def test_records_are_frozen_and_have_defaults() -> None:
    event = Event("S", xml="<a/>")
    assert (event.id, event.ts, event.row) == (None, None, None)
    with pytest.raises(AttributeError):
        event.id = "x"  # type: ignore[misc]


def test_an_outcome_is_good_without_an_error() -> None:
    assert QueryOutcome("q").ok
    assert not QueryOutcome("q", CatalogError("XSCL_NAME_TAKEN", "no")).ok
