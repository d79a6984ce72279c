"""Names of channels in SQL, and the event times that a statement asks them for."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.answers.sql.channel_views import ChannelNames
from xscl.answers.sql.guard import judge
from xscl.answers.sql.times import asked_times
from xscl.answers.sql.tokens import Dialect
from xscl.base.types import now_micros, to_micros
from xscl.store.event_spans import EVERYTHING, Events

DAY = 86_400_000_000


@settings(max_examples=examples(100))
@given(st.lists(st.text("aB_.-", min_size=1, max_size=4).map(lambda text: f"c{text}d"), unique=True, max_size=8))
def test_no_two_channels_have_one_relation(channels: list[str]) -> None:
    names = ChannelNames.of(channels)
    assert sorted(names.listed.values()) == sorted(names.full.values()) == sorted(channels)
    for name, channel in [*names.listed.items(), *names.full.items()]:
        assert name == name.lower() and name.isidentifier()
        assert names.channel(name) == channel
        # A channel that comes later never takes a name over.
        for other in channels:
            assert ChannelNames.of([channel, other]).channel(name) in (channel, None)
    assert not names.shared.keys() & names.listed.keys()


def test_a_relation_is_named_after_its_channel() -> None:
    names = ChannelNames.of(["S", "news.raw", "a-b", "a.b", "Café"])
    listed = {channel: name for name, channel in names.listed.items()}
    assert (listed["S"], listed["news.raw"], listed["Café"]) == ("ch_s", "ch_news_raw", "ch_café")
    assert names.shared == {"ch_a_b": ("a-b", "a.b")} and names.channel("ch_a_b") is None
    assert listed["a-b"] != listed["a.b"] and listed["a-b"].startswith("ch_a_b_")
    taken = ChannelNames.of(["S", "s", listed["a-b"].removeprefix("ch_"), "a-b", "a.b"])
    assert len(taken.listed) == 5


def times(statement: str) -> Events:
    tree = Dialect().parser().parse(Dialect().tokenize(statement), statement)[0]
    assert tree is not None
    return asked_times(tree, ["ch_a", "ch_b"]).get("ch_a", EVERYTHING)


JAN = to_micros("2026-01-05T00:00:00Z")


@pytest.mark.parametrize(
    ("condition", "since", "until"),
    [
        ("ts >= '2026-01-05'", JAN, None),
        ("(x.TS > timestamp'2026-01-05 00:00:01' and y = 1)", JAN + 1_000_000, None),
        ("ts < timestamp '2026-01-05T00:00:00.5Z' and ts >= date'2026-01-05'", JAN, JAN + 500_000),
        ("'2026-01-05' <= ts and ts = cast('2026-01-06' as timestamp)", JAN + DAY, JAN + DAY),
        ("ts between '2026-01-05' and '2026-01-06'", JAN, JAN + DAY),
        ("ts >= '2026-01-05' or y = 1", None, None),
        ("not (ts >= '2026-01-05')", None, None),
        ("b.ts >= '2026-01-05'", None, None),
        ("ts >= cast('2026-01-05 10:00:00' as date)", None, None),
        ("ts >= '2026-01-05 10:00 Europe/Berlin'", None, None),
        ("ts >= '2026-99-05'", None, None),
        ("ts <> '2026-01-05'", None, None),
        ("ts >= (select max(ts) from ch_b)", None, None),
        ("ts >= concat('2026', '-01-05')", None, None),
        ("ts <= current_timestamp() - interval 7 days", None, None),
    ],
)
def test_times_of_conditions(condition: str, since: int | None, until: int | None) -> None:
    found = times(f"select 1 from ch_a x join ch_b b on true where {condition}")
    wanted = (EVERYTHING.since if since is None else since, EVERYTHING.until if until is None else until)
    assert (found.since, found.until) == wanted


def test_times_of_a_relation_that_is_read_twice() -> None:
    both = "select 1 from ch_a where ts >= '2026-01-06' union select 1 from ch_a as a where a.ts >= '2026-01-05'"
    assert times(both).since == JAN
    assert times(f"{both} union select 1 from ch_a") == EVERYTHING
    for whole in (
        "select 1 from ch_a as a(ts, b) where ts >= '2026-01-05'",
        "select 1 from ch_a tablesample (5 rows) where ts >= '2026-01-05'",
        "select 1 from ch_a unpivot (ts for n in (a, b)) where ts >= '2026-01-05'",
        "select 1 from (select * from ch_a) where ts >= '2026-01-05'",
        "select 1 from ch_b left join ch_a on ch_a.ts >= '2026-01-05'",
        "select ts from ch_a group by ts having ts >= '2026-01-05'",
    ):
        assert times(whole) == EVERYTHING, whole


def test_times_before_now() -> None:
    for now in ("now()", "current_timestamp()", "current_timestamp"):
        found = times(f"select 1 from ch_a where ts > {now} - interval '7' day and ts < {now} + interval 1 day")
        assert found.until == EVERYTHING.until and 0 <= now_micros() - 7 * DAY - found.since < 60_000_000


@settings(max_examples=examples(100))
@given(st.data())
def test_no_row_that_a_condition_admits_is_out_of_its_times(data: st.DataObject) -> None:
    """SQLite says which rows a condition admits; texts of one length stand in the order of the times."""
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 9)]
    written = st.sampled_from([f"'{day:%Y-%m-%d}'" for day in days])
    leaf = st.one_of(
        st.builds("ts {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), written),
        st.builds("{} {} ts".format, written, st.sampled_from(["<", "<=", ">", ">=", "="])),
        st.builds("ts between {} and {}".format, written, written),
        st.just("k = 1"),
    )
    condition = data.draw(
        st.recursive(
            leaf,
            lambda inner: st.one_of(
                st.builds("({} and {})".format, inner, inner),
                st.builds("({} or {})".format, inner, inner),
                st.builds("not ({})".format, inner),
            ),
            max_leaves=5,
        )
    )
    found = times(f"select 1 from ch_a where {condition}")
    with sqlite3.connect(":memory:") as table:
        table.execute("create table ch_a (ts text, k int)")
        table.executemany("insert into ch_a values (?, ?)", [(f"{day:%Y-%m-%d}", k) for day in days for k in (0, 1)])
        admitted = [row[0] for row in table.execute(f"select ts from ch_a where {condition}")]
    for text in admitted:
        assert found.since <= to_micros(f"{text}T00:00:00Z") <= found.until, condition


def test_the_guard_tells_times() -> None:
    judged = judge("WITH q AS (SELECT * FROM ch_a WHERE ts >= '2026-01-05') SELECT * FROM q", ["ch_a"])
    assert judged.times == {"ch_a": Events(since=JAN)}
