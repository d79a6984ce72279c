"""Windows of an invocation: forms, ends, what is refused, and which matches are in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from xscl.answers.matches.window import parse_window
from xscl.base.errors import EngineError
from xscl.base.types import Event

S = 1_000_000
DAY = 86_400 * S


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("NOW-7d..NOW", 93 * DAY, 100 * DAY),
        ("now - 7 days .. now", 93 * DAY, 100 * DAY),
        ("NOW-P1D..NOW-PT1S", 99 * DAY, 100 * DAY - S),
        ("NOW-10..NOW+1h", 100 * DAY - 10 * S, 100 * DAY),
        ("NOW+1..NOW+2", 100 * DAY + S, 100 * DAY),
        ("0..NOW", 0, 100 * DAY),
        ("-1.5..2.25", -1_500_000, 2_250_000),
        ("1970-01-02T00:00:00Z..1970-01-03T01:00:00+01:00", DAY, 2 * DAY),
        ("1970-01-02T00:00:00Z..NOW-1d", DAY, 99 * DAY),
        ("2..2", 2 * S, 2 * S),
        ("5..2026-01-01T00:00:00Z", 5 * S, 100 * DAY),
        ("1970-06-01T00:00:00Z..NOW", 151 * DAY, 100 * DAY),
    ],
)
def test_windows(text: str, begin: int, end: int) -> None:
    assert parse_window(text).at(100 * DAY) == (begin, end)


@pytest.mark.parametrize(
    "text",
    ["", "..", "NOW", "1", "1..", "..NOW", "NOW..NOW-1", "NOW-1h..NOW-2h", "3..2", "NOW*2..NOW", "NOW-..NOW"]
    + ["NOW-1 month..NOW", "yesterday..NOW", "2026-01-01T00:00:00..NOW", "1..2..3", "NOW--1..NOW", "1e999..NOW"]
    + ["2026-01-01T00:00:00Z..2025-01-01T00:00:00Z", "NOW-1h/NOW", "NOWHERE..NOW", "nan..NOW"],
)
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(EngineError) as caught:
        parse_window(text)
    assert caught.value.condition == "XSCL_BAD_WINDOW"


@given(st.integers(-100, 100), st.integers(-100, 100), st.integers(-100, 100))
def test_ends_are_included_and_nothing_is_later_than_now(begin: int, end: int, now: int) -> None:
    if begin <= end:
        assert parse_window(f"{begin}..{end}").at(now * S) == (begin * S, min(end, now) * S)


def test_all_members_are_in_the_window(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("S->a FOLLOWED BY {a = b} T->b", name="q")
        engine.ingest([Event("S" if ts % 2 else "T", f"e{ts}", ts, xml="<a>v</a>") for ts in range(1, 9)])
        engine.run_once()
        times = [tuple(event.ts // S for event in match.events) for match in engine.matches()]
        assert len(times) == 10
        for begin in range(10):
            for end in range(begin, 10):
                for now in (4, 9):
                    found = engine.matches(window=f"{begin}..{end}", now=now * S)
                    assert sorted(tuple(event.ts // S for event in match.events) for match in found) == sorted(
                        pair for pair in times if begin <= min(pair) and max(pair) <= min(end, now)
                    )
        # The bounds of a match's own time hold together with it.
        some = engine.matches(window="2..8", now=7 * S, since=5 * S, until=6 * S)
        assert sorted(tuple(event.ts // S for event in match.events) for match in some) == [(3, 6), (5, 6)]
        assert [m.ts for m in engine.matches(now=4 * S)] == [m.ts for m in engine.matches(until=4 * S)]
        # In the order of commits, too; the cursor is behind what is not in the window.
        listing = engine.matches(after="start", window="7..8")
        assert [tuple(event.ts // S for event in match.events) for match in listing] == [(7, 8)]
        assert list(engine.matches(after=listing.cursor)) == []
