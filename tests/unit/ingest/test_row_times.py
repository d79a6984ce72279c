"""Event times of columns."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.errors import SourceError
from xscl.base.types import to_micros
from xscl.ingest.records import RowOptions
from xscl.ingest.row_times import event_times

S = 1_000_000


def times(values: pa.Array, **options: str) -> list[int | None]:
    """The times, with -1 for those that are none."""
    found, bad = event_times(pa.table({"t": values}), RowOptions(ts="t", **options))
    assert not any(wrong and value is not None for wrong, value in zip(bad, found.to_pylist(), strict=True))
    return [-1 if wrong else value for wrong, value in zip(bad, found.to_pylist(), strict=True)]


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (pa.array([1, None]), {}, [S, None]),
        (pa.array([1.5, 0.0000005, None]), {}, [1_500_000, 0, None]),
        (pa.array([Decimal("1.5")]), {}, [1_500_000]),
        (pa.array([1500]), {"ts_format": "ms"}, [1_500_000]),
        (pa.array(["1500", "1500.5", "x"]), {"ts_format": "ms"}, [1_500_000, 1_500_500, -1]),
        (pa.array(["15", None]), {"ts_format": "us"}, [15, None]),
        (pa.array([1999]), {"ts_format": "ns"}, [1]),
        (pa.array(["1", "2.5"]), {}, [S, 2_500_000]),
        (pa.array([0, 1], pa.timestamp("s")), {"ts_zone": "Europe/Berlin"}, [-3600 * S, -3599 * S]),
        (pa.array([0], pa.timestamp("s", "Asia/Tokyo")), {"ts_zone": "Europe/Berlin"}, [0]),
        (pa.array([1], pa.date32()), {}, [86_400 * S]),
        (pa.array(["1970-01-01T00:00:01Z", "1970-01-01 00:00:02", None]), {}, [S, 2 * S, None]),
        (pa.array(["1970-01-01T01:00:00+01:00", "soon"]), {"ts_zone": "Europe/Berlin"}, [0, -1]),
        (pa.array(["1970-01-01 01:00:03", "soon"]), {"ts_zone": "Europe/Berlin"}, [3 * S, -1]),
        (pa.array(["01/02/1970", "13/13/1970"]), {"ts_format": "%m/%d/%Y"}, [86_400 * S, -1]),
        (pa.nulls(2), {}, [None, None]),
        (pa.array([2**62]), {}, [-1]),
    ],
)
def test_columns_of_times(values, options, expected) -> None:
    assert times(values, **options) == expected


@pytest.mark.parametrize(
    "text", ["03/04/2026", "13/04/2026 10:00", "1/2/26", "Apr 3 2026", "now", "today", "10:00", "2026-03", "5 May"]
)
def test_no_time_is_guessed(text: str) -> None:
    assert times(pa.array([text])) == times(pa.array([text]), ts_zone="Europe/Berlin") == [-1]
    # Neighbours are what they are without it.
    assert times(pa.array(["1970-01-01T00:00:01Z", text, "1970-01-01 00:00:02"])) == [S, -1, 2 * S]


def test_times_of_feeds_and_numbers_beside_others_are_taken() -> None:
    texts = pa.array(
        ["Thu, 01 Jan 1970 01:00:01 +0100", "2", "-1.5", "1970-01-01T00:00:03,5Z", "19700101T000004Z", "?"]
    )
    expected = [S, 2 * S, -1_500_000, 3_500_000, 4 * S, -1]
    assert times(texts) == times(texts, ts_zone="Asia/Tokyo") == expected


def test_hours_that_come_twice_or_never() -> None:
    local = pa.array(["2026-10-25 02:30:00", "2026-03-29 02:30:00"])
    early, after = (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 3, 29, 1, 0, tzinfo=UTC))
    expected = [to_micros(early), to_micros(after)]
    assert times(local, ts_zone="Europe/Berlin") == expected
    # One by one, because of the first.
    assert times(pa.array(["?", *local.to_pylist()]), ts_zone="Europe/Berlin") == [-1, *expected]


def test_times_in_two_columns() -> None:
    table = pa.table({"Date": ["03/10/2014"], "Time": ["05:46:13.604"]})
    options = RowOptions(ts="Date Time", ts_format="%m/%d/%Y %H:%M:%S.%f", ts_zone="Australia/Sydney")
    assert event_times(table, options)[0].to_pylist() == [to_micros("2014-03-09T18:46:13.604Z")]


@given(st.lists(st.none() | st.datetimes(timezones=st.just(UTC)), max_size=5), st.booleans())
@settings(deadline=None)
def test_iso_times_are_those_of_events(values, with_bad) -> None:
    texts = [None if value is None else value.isoformat() for value in values] + ["never"] * with_bad
    expected = [None if value is None else to_micros(value) for value in values] + [-1] * with_bad
    assert times(pa.array(texts, pa.string())) == expected


@pytest.mark.parametrize(
    "options",
    [RowOptions(ts="t", ts_zone="../x"), RowOptions(ts="t", ts_format="%m")],
)
def test_options_that_do_not_fit(options) -> None:
    with pytest.raises(SourceError):
        event_times(pa.table({"t": [1.5]}), options)
