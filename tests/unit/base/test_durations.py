"""Durations, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.base.durations import UNITS, format_duration, iso_duration, parse_duration, parse_pause, parse_wait, scaled

S = 1_000_000
DAY = 86_400 * S


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("7 days", 7 * DAY),
        ("90s", 90 * S),
        ("1.5 h", 5400 * S),
        ("30", 30 * S),
        ("0.5", S // 2),
        (" 2 Weeks ", 14 * DAY),
        ("3 ms", 3_000),
        ("4 us", 4),
        ("0.9 us", 0),
        ("1 MIN", 60 * S),
        ("2 mins", 120 * S),
        ("PT5M", 300 * S),
        ("P1DT2H", DAY + 7200 * S),
        ("P2W", 14 * DAY),
        ("pt0.5s", S // 2),
        ("0", 0),
    ],
)
def test_texts(text: str, micros: int) -> None:
    assert parse_duration(text) == micros


@pytest.mark.parametrize("text", ["", "s", "-5 s", "5 parsecs", "1e3 s", "P", "PT", "P1Y", "P1M", "1 h 30 min", "P1H"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration; "):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0", "0s", "999 us", "PT0S"])
def test_a_pause_is_no_busy_loop(text: str) -> None:
    assert parse_wait(text) < 1e-3
    with pytest.raises(ValueError, match="leaves no time between two looks; 1 ms is the least, and 1s is often enough"):
        parse_pause(text)


@pytest.mark.parametrize("text", ["9" * 17 + " w", "9" * 900 + " s"])
def test_a_wait_is_no_longer_than_clocks_of_processes_have(text: str) -> None:
    assert parse_pause("1 ms") == 1e-3
    assert parse_pause(text) == parse_wait(text) == 30 * 365 * 86_400


def test_units_have_long_names() -> None:
    assert UNITS["us"] == UNITS["microseconds"] == 1
    assert UNITS["s"] == UNITS["sec"] == UNITS["secs"] == UNITS["second"] == UNITS["seconds"] == S
    assert UNITS["min"] == UNITS["mins"] == UNITS["minute"] == UNITS["minutes"] == 60 * S
    assert scaled("2", "DAYS") == 2 * DAY


@given(st.integers(0, 10**18))
def test_what_is_written_reads_back(micros: int) -> None:
    assert parse_duration(format_duration(micros)) == micros
    assert format_duration(-micros) == ("-" if micros else "") + format_duration(micros)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 400))
def test_iso_parts_add_up(days: int, hours: int, seconds: int) -> None:
    assert iso_duration(f"P{days}DT{hours}H{seconds}S") == days * DAY + hours * 3600 * S + seconds * S
