from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.ingest.fetch_policy import (
    DEFAULT_INTERVAL,
    HOST_MOST,
    LEAST_INTERVAL,
    MOST_INTERVAL,
    SPACING,
    Answer,
    HostState,
    Subscription,
    after_failure,
    after_success,
    host_after,
    host_key,
    lasting_move,
    spaced,
)
from xscl.ingest.poll_hints import NO_HINTS, Hints

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW = 1_780_000_000 * SECOND  # a Thursday, 20:26:40 UTC

FEED = Subscription("https://a.example/feed")
FEEDS = st.builds(
    Subscription,
    st.just("https://a.example/feed"),
    st.none() | st.integers(0, 10 * DAY),
    st.integers(0, 100),
)
CHANCES = st.floats(0, 1, exclude_max=True)
TIMES = st.integers(0, 4_000_000_000).map(lambda seconds: seconds * SECOND)
HINTS = st.builds(
    Hints,
    st.none() | st.integers(0, 400 * DAY),
    st.frozensets(st.integers(0, 23)),
    st.frozensets(st.integers(0, 6)),
)
SECONDS = st.integers(0, 10**7).map(str)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "cache-control": SECONDS.map("max-age={}".format)
        | st.sampled_from(["no-cache", "private, max-age=x", "max-age="]),
        "expires": st.sampled_from(["0", "-1", "Thu, 01 Dec 1994 16:00:00 GMT"]) | st.text(max_size=30),
        "retry-after": SECONDS | st.text(max_size=30),
        "etag": st.text(max_size=20),
        "last-modified": st.text(max_size=20),
    },
)
STATUSES = st.none() | st.integers(100, 599).filter(lambda status: status != 410)


def answer(status: int | None = 200, moved_to: str | None = None, **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, moved_to)


def when(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / SECOND, UTC)


def due(values: dict[str, object]) -> int:
    found = values["next_fetch"]
    assert isinstance(found, int)
    return found


@given(FEEDS, STATUSES, HEADERS, TIMES, CHANCES)
def test_the_next_poll_is_within_the_bounds(
    feed: Subscription, status: int | None, headers: dict[str, str], now: int, chance: float
) -> None:
    for values in (
        after_success(feed, Answer(status, headers), NO_HINTS, now, chance),
        after_failure(feed, Answer(status, headers), "no", now, chance),
    ):
        assert now + LEAST_INTERVAL <= due(values) <= now + MOST_INTERVAL + MOST_INTERVAL // 10


@given(FEEDS, HEADERS, HINTS, TIMES, CHANCES)
def test_no_poll_falls_in_a_skipped_hour_or_day(
    feed: Subscription, headers: dict[str, str], hints: Hints, now: int, chance: float
) -> None:
    moment = when(due(after_success(feed, Answer(200, headers), hints, now, chance)))
    if len(hints.skip_hours) < 24 and len(hints.skip_days) < 7:
        assert moment.hour not in hints.skip_hours
        assert moment.weekday() not in hints.skip_days


@given(FEEDS, HEADERS, TIMES, CHANCES)
def test_hints_never_make_polls_more_frequent(
    feed: Subscription, headers: dict[str, str], now: int, chance: float
) -> None:
    plain = due(after_success(feed, answer(), NO_HINTS, now, chance))
    assert due(after_success(feed, Answer(200, headers), NO_HINTS, now, chance)) >= plain
    assert due(after_success(feed, answer(), Hints(2 * HOUR), now, chance)) >= plain


@pytest.mark.parametrize(
    ("feed", "found", "hints", "expected"),
    [
        (FEED, answer(), NO_HINTS, DEFAULT_INTERVAL),
        (replace(FEED, interval=10 * MINUTE), answer(), NO_HINTS, 10 * MINUTE),
        (replace(FEED, interval=1), answer(), NO_HINTS, LEAST_INTERVAL),
        (FEED, answer(cache_control="public, max-age=7200"), NO_HINTS, 2 * HOUR),
        (FEED, answer(cache_control='max-age="7200"'), NO_HINTS, 2 * HOUR),
        (FEED, answer(cache_control="max-age=60"), NO_HINTS, HOUR),
        (FEED, answer(cache_control="no-cache, max-age=7200"), NO_HINTS, HOUR),
        (FEED, answer(cache_control="max-age=99999999999999999999"), NO_HINTS, DAY),
        (FEED, answer(expires=format_datetime(when(NOW + 3 * HOUR), usegmt=True)), NO_HINTS, 3 * HOUR),
        (FEED, answer(304, cache_control="max-age=7200"), NO_HINTS, 2 * HOUR),
        (FEED, answer(), Hints(90 * MINUTE), 90 * MINUTE),
        (FEED, answer(), Hints(30 * DAY), DAY),
    ],
)
def test_how_long_a_feed_is_left_alone(feed: Subscription, found: Answer, hints: Hints, expected: int) -> None:
    assert due(after_success(feed, found, hints, NOW, 0.0)) == NOW + expected
    assert NOW + expected < due(after_success(feed, found, hints, NOW, 0.99)) < NOW + expected * 1.1


def test_expires_is_counted_from_the_sender_s_own_time() -> None:
    wrong_clock = NOW - 30 * DAY
    found = answer(
        date=format_datetime(when(wrong_clock), usegmt=True),
        expires=format_datetime(when(wrong_clock + 5 * HOUR), usegmt=True),
    )
    assert due(after_success(FEED, found, NO_HINTS, NOW, 0.0)) == NOW + 5 * HOUR


def test_skipped_hours_end_with_a_spread() -> None:
    hints = Hints(None, frozenset({21, 22}), frozenset())
    assert when(due(after_success(FEED, answer(), hints, NOW, 0.0))).strftime("%H:%M") == "23:00"
    assert when(due(after_success(FEED, answer(), hints, NOW, 0.5))).strftime("%H:%M") == "23:05"


def test_skipped_days_may_pass_the_longest_interval() -> None:
    hints = Hints(None, frozenset(), frozenset({3, 4, 5}))
    assert when(due(after_success(FEED, answer(), hints, NOW, 0.0))).strftime("%a %H:%M") == "Sun 00:00"


def test_validators_are_those_of_the_content() -> None:
    values = after_success(FEED, answer(etag='W/"1"', last_modified="x"), NO_HINTS, NOW, 0.0)
    assert (values["etag"], values["modified"]) == ('W/"1"', "x")
    values = after_success(FEED, answer(), NO_HINTS, NOW, 0.0)
    assert (values["etag"], values["modified"]) == (None, None)
    for bad in ("", "a" * 1001, "ä", "a\nb"):
        assert after_success(FEED, answer(etag=bad), NO_HINTS, NOW, 0.0)["etag"] is None


def test_what_brings_no_content_leaves_validators_alone() -> None:
    assert not {"etag", "modified"} & set(after_success(FEED, answer(304, etag="other"), NO_HINTS, NOW, 0.0))
    assert not {"etag", "modified"} & set(after_failure(FEED, answer(200, etag="new"), "no feed", NOW, 0.0))
    assert not {"etag", "modified"} & set(after_failure(FEED, answer(500, etag="new"), "broken", NOW, 0.0))


def test_gone_is_never_asked_again() -> None:
    values = after_failure(FEED, answer(410), "gone", NOW, 0.5)
    assert (values["status"], values["next_fetch"]) == ("stopped", None)


@given(STATUSES, st.integers(0, 50), CHANCES)
def test_no_other_answer_stops_a_feed(status: int | None, failures: int, chance: float) -> None:
    values = after_failure(replace(FEED, failures=failures), answer(status), "no", NOW, chance)
    assert "status" not in values
    assert values["failures"] == failures + 1


def test_backoff_doubles_and_is_drawn() -> None:
    def wait(failures: int, chance: float) -> int:
        return due(after_failure(replace(FEED, failures=failures), answer(404), "no", NOW, chance)) - NOW

    assert [wait(failures, 0.0) for failures in range(4)] == [HOUR] * 4
    ends = [wait(failures, 0.999999) for failures in range(7)]
    assert [round(end / 1.1 / HOUR) for end in ends] == [2, 4, 8, 16, 24, 24, 24]


@given(st.lists(CHANCES, min_size=5, max_size=20, unique_by=lambda chance: round(chance, 3)), st.integers(0, 5))
def test_feeds_of_one_host_do_not_stay_together(chances: list[float], failures: int) -> None:
    feed = replace(FEED, failures=failures)
    for found in (answer(503), answer(429, retry_after="3600"), answer(None)):
        times = {due(after_failure(feed, found, "no", NOW, chance)) for chance in chances}
        assert len(times) == len(chances)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7200", 2 * HOUR),
        (format_datetime(when(NOW + 3 * HOUR), usegmt=True), 3 * HOUR),
        ("Thu, 01 Jan 1970 00:00:00 GMT", HOUR),
        ("99999999999", DAY),
        ("-5", HOUR),
        ("soon", HOUR),
    ],
)
def test_retry_after(text: str, expected: int) -> None:
    for status in (429, 503):
        assert due(after_failure(FEED, answer(status, retry_after=text), "no", NOW, 0.0)) == NOW + expected


def test_a_host_is_left_alone_after_refusals() -> None:
    state = HostState(0, 0)
    for status in (429, 500, 503, None):
        state = host_after(state, answer(status), NOW, 0.999999)
    assert state.failures == 4
    assert state.next_request == pytest.approx(NOW + SPACING * 2**4, rel=1e-9)
    assert host_after(state, answer(200), NOW + HOUR, 0.0) == HostState(NOW + HOUR + SPACING, 0)
    assert host_after(HostState(0, 0), answer(429, retry_after="600"), NOW, 0.0).next_request == NOW + 10 * MINUTE
    assert host_after(HostState(0, 0), answer(404), NOW, 0.0).failures == 0


@given(st.integers(0, 100), STATUSES, HEADERS, TIMES, CHANCES, st.integers(-DAY, DAY))
def test_a_host_s_time_keeps_the_spacing_and_never_goes_back(
    failures: int, status: int | None, headers: dict[str, str], now: int, chance: float, ahead: int
) -> None:
    before = HostState(max(0, now + ahead), failures)
    after = host_after(before, Answer(status, headers), now, chance)
    assert after.next_request >= max(now + SPACING, before.next_request)
    longest = max(HOST_MOST, MOST_INTERVAL + MOST_INTERVAL // 10)
    assert after.next_request <= max(now + longest, before.next_request)
    assert SPACING <= spaced(now, chance) - now <= SPACING * 3 // 2


def test_a_lasting_move_seen_twice_in_a_row_is_kept() -> None:
    target = "https://b.example/feed"
    first = after_success(FEED, answer(moved_to=target), NO_HINTS, NOW, 0.0)
    assert first["moved_to"] == target and lasting_move(FEED, answer(moved_to=target)) is None
    once = replace(FEED, moved_to=target)
    assert lasting_move(once, answer(moved_to=target)) == target
    assert after_success(once, answer(moved_to=target), NO_HINTS, NOW, 0.0)["moved_to"] is None
    assert lasting_move(once, answer(moved_to="https://c.example/")) is None
    assert lasting_move(once, answer()) is None
    assert after_success(once, answer(), NO_HINTS, NOW, 0.0)["moved_to"] is None


def test_a_move_that_gives_up_encryption_is_not_kept() -> None:
    target = "http://a.example/feed"
    assert lasting_move(replace(FEED, moved_to=target), answer(moved_to=target)) is None
    plain = Subscription("http://a.example/old", moved_to=target)
    assert lasting_move(plain, answer(moved_to=target)) == target


def test_hosts_are_told_apart_by_name_and_unusual_port() -> None:
    assert host_key("http://a.example/x") == host_key("https://a.example:443/y") == "a.example"
    assert host_key("http://a.example:443/") == "a.example:443"
    assert host_key("http://[2001:db8::1]:81/") == "2001:db8::1:81"
