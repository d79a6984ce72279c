"""Which events are late, against an oracle that looks back over everything: random channels, clocks, lateness, idle
times and changes of them, with all that can be taken in, and with what queries publish.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.lateness import Arrival, Terms, clock, is_late, settled_before

import xscl
from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.docids import PUBLISHED, place_of
from xscl.base.durations import parse_duration
from xscl.base.types import Event, format_time
from xscl.catalog.channels import read_channels, read_newest
from xscl.catalog.clocks import Clocks
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import INTAKE_FILES, LATE
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.records import Record, RowOptions, RowTable
from xscl.intake.intake import Intake
from xscl.registry.channels import add_channel, set_channel
from xscl.store.home import Home, init_home

S = 1_000_000
START = 1_780_272_000 * S  # 2026-06-01
DOCUMENTS, ROWS, FEEDS = ("S", "T", "s1"), ("P", "Q"), ("items",)
CHANNELS = ("S", "T", "P", "Q", "items", "items.raw")

seconds = st.integers(0, 30)
ids = st.sampled_from("abcdefgh")
durations = st.sampled_from(["none", "0 s", "1 s", "3 s", "10 s", "1000 s"])
documents = st.tuples(st.just("event"), st.sampled_from(DOCUMENTS), ids, seconds | st.none(), st.integers(1, 2))
malformed = st.tuples(st.just("malformed"), st.sampled_from(DOCUMENTS), ids, st.just(900), st.just(1))
tables = st.tuples(
    st.just("rows"), st.sampled_from(ROWS), st.lists(st.tuples(ids, seconds | st.none(), st.integers(1, 2)), min_size=1)
)
feeds = st.tuples(
    st.just("feed"), st.sampled_from(FEEDS), st.lists(st.tuples(ids, seconds | st.just(900), st.integers(1, 2)))
)
changes = st.tuples(
    st.just("set"),
    st.sampled_from(CHANNELS),
    st.none() | durations,
    st.none() | st.sampled_from([*CHANNELS[:3], "both"]),
    st.none() | durations,
)
steps = st.lists(documents | tables | feeds | changes | malformed, max_size=14)
beginnings = st.lists(changes, min_size=1, max_size=6)
Step = tuple[object, ...]


def record(step: Step) -> Record:
    match step:
        case ("event" | "malformed" as kind, str(channel), str(id_), ts, number):
            xml = f"<a><k>{number}</k></a>" if kind == "event" else "<a"
            when = None if ts is None else START // S + ts
            return Event(channel, id_, when, xml=xml)
        case ("rows", str(channel), list(given_rows)):
            columns = {
                "id": pa.array([row[0] for row in given_rows], pa.string()),
                "t": pa.array([None if row[1] is None else START // S + row[1] for row in given_rows], pa.float64()),
                "v": pa.array([row[2] for row in given_rows], pa.int64()),
            }
            return RowTable(channel, pa.table(columns), "table", options=RowOptions(("v",), ts="t", id="id"))
        case ("feed", str(channel), list(entries)):
            made = "".join(
                f"<item><guid>{guid}</guid><title>{number}</title><pubDate>{_date(ts)}</pubDate></item>"
                for guid, ts, number in entries
            )
            text = f"<rss><channel><title>T</title>{made}</channel></rss>"
            document = read_feed(text.encode(), source="f.xml", channel=channel)
            assert document is not None
            return document
    raise AssertionError(step)


def _date(ts: int) -> str:
    return format_datetime(datetime.fromtimestamp(START // S + ts, UTC))


def stored(home: Home) -> list[dict[str, object]]:
    """Everything taken in and published, in the order of the places."""
    paths = home.paths([str(row["path"]) for row in home.catalog.rows(INTAKE_FILES)])
    rows = [row for path in paths for row in pq.read_table(path, schema=EVENT_SCHEMA).to_pylist()]
    return sorted(rows, key=lambda row: (place_of(row["docid"]), row["docid"]))


def terms_of(channels: dict[str, ChannelInfo]) -> dict[str, Terms]:
    return {name: Terms(info.clock, info.lateness, info.idle) for name, info in channels.items()}


def change(home: Home, step: Step) -> None:
    _, name, lateness, clock_name, idle = step
    set_channel(home.catalog, str(name), lateness=lateness, clock=clock_name, idle=idle)  # type: ignore[arg-type]


def hold(home: Home, epochs: Sequence[tuple[int, dict[str, Terms]]], fed: Collection[str] = ()) -> Counter[str]:
    """Compare what is marked late, and noted, with the oracle.

    Args:
        home: where it was taken in.
        epochs: settings from a place on.
        fed: channels that queries publish to.
    """
    rows = stored(home)
    arrivals = [Arrival(place_of(r["docid"]), r["channel"], r["ts"], r["docid"] >= PUBLISHED) for r in rows]  # type: ignore[arg-type, type-var, operator]
    noted = {row["docid"]: row for row in home.catalog.rows(LATE)}
    seen: Counter[str] = Counter()
    for row, arrival in zip(rows, arrivals, strict=True):
        terms = [held for place, held in epochs if place <= arrival.place][-1]
        others = {channel.channel: Terms(channel.channel) for channel in arrivals}
        terms = others | terms
        all_terms = [(place, others | held) for place, held in epochs]
        beat = None if arrival.channel in fed else settled_before(arrival, arrivals, all_terms)
        late = is_late(arrival, arrivals, terms) or (beat is not None and arrival.ts < beat)
        assert row["late"] == late, (row, terms)
        assert (row["docid"] in noted) == late
        if late:
            before = [other for other in arrivals if other.place < arrival.place]
            told = noted[row["docid"]]
            assert (told["channel"], told["id"], told["ts"]) == (row["channel"], row["id"], row["ts"])
            if not arrival.published:
                shown = clock(arrival, before, terms)
                if str(told["message"]).startswith("not behind the heartbeat of"):
                    assert beat is not None and arrival.ts < beat
                else:
                    assert shown is not None and str(told["message"]).endswith(f"behind {format_time(shown)}")
            own = terms[arrival.channel]
            alone = Terms(own.clock, own.lateness)
            seen["late"] += 1
            seen["published"] += arrival.published
            seen["idle"] += not is_late(arrival, arrivals, {**terms, arrival.channel: alone})
    return seen


def made(folder: str, opening: Sequence[Step]) -> Home:
    home = init_home(Path(folder) / "home")
    for name in CHANNELS:
        add_channel(home.catalog, name, kind="rows" if name in ROWS else "xml")
    add_channel(home.catalog, "s1", of="S", source="one")
    for step in opening:
        change(home, step)
    return home


@settings(max_examples=examples(32), deadline=None)
@given(beginnings, steps)
def test_what_is_taken_in(opening: list[Step], given_steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = made(folder, opening)
        epochs = [(0, terms_of(home.catalog.ask(read_channels)))]
        now = START
        together: list[Record] = []
        for number, step in enumerate([*given_steps, ("set", "S", None, None, None)]):
            if step[0] != "set":
                together.append(record(step))
                continue
            # Runs of records come in one transaction each.
            now += 20 * S * (number + 1)
            Intake(home, now=lambda now=now: now).take(together)  # type: ignore[misc]
            together = []
            change(home, step)
            epochs.append((home.catalog.ask(read_last_places)[1] + 1, terms_of(home.catalog.ask(read_channels))))
        hold(home, epochs)
        home.catalog.close()


published_steps = st.lists(
    st.tuples(st.just("event"), st.sampled_from("ST"), st.uuids().map(str), seconds, st.integers(1, 2))
    | st.tuples(
        st.just("set"),
        st.sampled_from(["S", "T", "echo", "both", "S"]),
        st.none() | durations,
        st.none() | st.sampled_from(["S", "echo", "c"]),
        st.none() | durations,
    )
    | st.just(("run",)),
    min_size=4,
    max_size=16,
)


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(durations, min_size=6, max_size=6), st.sampled_from(["echo", "S", "c"]), published_steps)
def test_what_queries_publish(times: list[str], clock_name: str, given_steps: list[Step]) -> None:
    """Settings change while nothing waits: what is published is judged by those that hold when its batch runs."""
    with tempfile.TemporaryDirectory() as folder, xscl.connect(home=Path(folder) / "home") as engine:
        home = engine.home
        for name, lateness, idle in zip(("S", "T", "echo"), times[:3], times[3:], strict=True):
            known = clock_name if name == "echo" else None
            engine.add_channel(name, lateness=lateness, idle=idle, clock=known)
        engine.add_channel("both", lateness=times[0])
        engine.register("S/a/k->x FOLLOWED BY {x = y, 10 s} T/a/k->y PUBLISH echo", name="e")
        engine.register("S PUBLISH both", name="b")
        engine.register("echo/a JOIN {20 s} S/a", name="after")
        epochs = [(0, terms_of(home.catalog.ask(read_channels)))]
        for step in [*given_steps, ("run",)]:
            if step[0] == "event":
                engine.ingest([record(step)])
                continue
            engine.run_once(batch_docs=3)
            if step[0] == "set":
                change(home, step)
                epochs.append((home.catalog.ask(read_last_places)[1] + 1, terms_of(home.catalog.ask(read_channels))))
        hold(home, epochs, {"echo", "both"})


def test_a_clock_shows_the_times_of_the_channels_that_it_has(tmp_path: Path) -> None:
    """A channel that leaves a clock takes its own times along, and nothing else."""
    home = init_home(tmp_path / "home")
    for name in "ST":
        add_channel(home.catalog, name, clock="both", lateness="1 s")
    take = Intake(home).take
    assert take([Event("S", "1", 100, xml="<a/>"), Event("T", "2", 99, xml="<a/>")]).late == 0
    set_channel(home.catalog, "S", clock="S")
    assert take([Event("T", "3", 98, xml="<a/>")]).late == 1, "settled up to 99 by the clock of before"
    (late,) = home.catalog.rows(LATE)
    assert late["message"] == "not behind the heartbeat of 1970-01-01T00:01:38.999999Z"
    assert (
        Clocks(home.catalog.ask(read_channels).values(), home.catalog.ask(read_newest)).own(
            home.catalog.ask(read_channels)["T"]
        )
        == 99 * S
    )
    set_channel(home.catalog, "T", clock="S")
    assert take([Event("T", "4", 98.5, xml="<a/>")]).late == 1, "by 100 again"
    home.catalog.close()


def test_an_idle_channel_is_set_aside(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    add_channel(home.catalog, "S", lateness="2 s", idle="10 s")
    add_channel(home.catalog, "P", kind="rows")
    take = Intake(home).take
    assert (
        take([Event("S", "1", 100, xml="<a/>"), Event("T", "2", 110, xml="<a/>"), Event("S", "3", 98, xml="<a/>")]).late
        == 0
    )
    table = pa.table({"t": [111.0, 111.5]})
    assert take([RowTable("P", table, "table", options=RowOptions(ts="t"))]).late == 0
    report = take([Event("S", "4", 99.5, xml="<a/>"), Event("S", "5", 99.4, xml="<a/>")])
    assert report.late == 1, "by 111.5 - 10 - 2"
    (late,) = home.catalog.rows(LATE)
    assert (late["id"], late["message"]) == ("5", "more than the channel's lateness behind 1970-01-01T00:01:41.5Z")
    assert home.catalog.ask(read_channels)["S"].idle == parse_duration("10 s")
    home.catalog.close()
