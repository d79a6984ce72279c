"""Dates of feeds: whole ones are read, half ones are not."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.base.types import format_time, to_micros
from xscl.ingest.dates import parse_date


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mon, 01 Jun 2026 09:30:00 GMT", "2026-06-01T09:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 +0200", "2026-06-01T07:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 +02:00", "2026-06-01T07:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 -0000", "2026-06-01T09:30:00Z"),
        ("Monday, 1 June 2026 9:30 UT", "2026-06-01T09:30:00Z"),
        ("01 Jun 26 09:30 Z", "2026-06-01T09:30:00Z"),
        ("01 Jun 99 09:30 Z", "1999-06-01T09:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 +0000 (UTC)", "2026-06-01T09:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 EST", "2026-06-01T14:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 EDT", "2026-06-01T13:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 CST", "2026-06-01T15:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 CDT", "2026-06-01T14:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 MST", "2026-06-01T16:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 MDT", "2026-06-01T15:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 PST", "2026-06-01T17:30:00Z"),
        ("Mon, 01 Jun 2026 09:30:00 PDT", "2026-06-01T16:30:00Z"),
        ("Mon, 01 Jan 0001 00:00:01 +0000", "0001-01-01T00:00:01Z"),
        ("2026-06-01", "2026-06-01T00:00:00Z"),
        ("2026-06-01T09:30Z", "2026-06-01T09:30:00Z"),
        (" 2026-06-01t09:30:00.25z\n", "2026-06-01T09:30:00.25Z"),
        ("2026-06-01T09:30:00.1234567-05:00", "2026-06-01T14:30:00.123456Z"),
        ("2026-06-01T09:30:00+0530", "2026-06-01T04:00:00Z"),
        ("2026-06-01T09:30:00", "2026-06-01T09:30:00Z"),
        ("2026-06-01 09:30:00 UTC", "2026-06-01T09:30:00Z"),
        ("2026-06-01 09:30:00 +0200", "2026-06-01T07:30:00Z"),
    ],
)
def test_whole_dates(text, expected):
    assert format_time(to_micros(parse_date(text))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2016/6/29 15:07:41",
        "2026",
        "2026-06",
        "20260601",
        "2026-06-01T",
        "2026-06-01T09",
        "2026-06-31",
        "2026-06-01T25:00:00Z",
        "2026-06-01T09:30:00 CET",
        "Mon, 01 Jun 2026",
        "Mon, 01 Jun 2026 09:30:00",
        "Mon, 01 Jun 2026 09:30:00 CET",
        "Mon, 31 Jun 2026 09:30:00 GMT",
        "Mon, 01 Foo 2026 09:30:00 GMT",
        "Mo, 01 Jun 2026 09:30:00 GMT",
        "lun., 01 juin 2026 09:30:00 GMT",
        "Mon, 01 Jun 2026 09:30:00 GMT+2",
        "Mon, 01 Jun 2026 09:30:00 GMT and more",
        "0001-01-01T00:00:00+14:00",
        "0001-01-01T00:00:00Z",
        "٢٠٢٦-06-01",
        "1748770200",
    ],
)
def test_half_dates_are_no_dates(text):
    assert parse_date(text) is None


@given(st.text() | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,]{5,12}([+-][0-9:]{4,6}|Z)?)?"))
def test_any_text(text):
    moment = parse_date(text)
    assert moment is None or moment.tzinfo is UTC


@given(st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC)))
def test_iso_dates_come_back(moment: datetime):
    assert parse_date(moment.isoformat()) == moment
