"""Files of join state: what is held, what is merged, what goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from budget import examples
from strategies import Dice

import xscl.store.join_state
import xscl.store.kept_rows
import xscl.store.state_files
from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.base.sealed import seal
from xscl.base.types import Event
from xscl.catalog.tables import BATCHES, CHANNELS, HOME, OLD_FILES
from xscl.engine import Engine
from xscl.registry.channels import add_channel, set_channel
from xscl.store.home import Home, init_home
from xscl.store.join_state import (
    HeldState,
    StateChange,
    commit_state,
    discard_change,
    held_state,
    next_state,
    same_state,
)
from xscl.store.retired_files import unlink_old
from xscl.store.state_files import write_links
from xscl.store.watermarks import EventTimes, channel_clocks, event_times, next_watermarks
from xscl.templates.retention import REACH_SCHEMA

MINUTE = 60_000_000
GRACE = 11 * MINUTE
Row = tuple[int, int, int, bool]
"""docid, ts, var, late."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = init_home(tmp_path / "home")
    for channel in "ST":
        add_channel(home.catalog, channel, lateness="0 s", clock="c")
    yield home
    home.catalog.close()


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a few hundred rows go through all tiers, and row groups are many."""
    for name, value in {"_FANOUT": 3, "_SMALL": 20, "_LARGE": 2000, "_SORTED": 100}.items():
        monkeypatch.setattr(xscl.store.join_state, name, value)
    monkeypatch.setattr(xscl.store.state_files, "ROW_GROUP", 16)
    monkeypatch.setattr(xscl.store.kept_rows, "_READ", 16)


def reach_table(*rows: tuple[bool, int, str, int, int]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(REACH_SCHEMA)
    return pa.table(dict(zip(REACH_SCHEMA.names, columns, strict=True)), schema=REACH_SCHEMA)


def write_rows(home: Home, path: str, rows: Sequence[Row]) -> None:
    table = [
        {"docid": docid, "ts": ts, "item": docid, "place": f"S\0{docid}", "late": late, "var": var, "node": 0,
         "fn": "", "strval": "v", "num": None, "h": 1, "chain": [{"var1": 1, "var2": 2, "node1": 0, "node2": docid}]}
        for docid, ts, var, late in rows
    ]  # fmt: skip
    (home.root / path).parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(table, schema=WITNESS_SCHEMA), home.root / path, row_group_size=16)


def state_of(home: Home) -> HeldState:
    with home.catalog.read() as connection:
        return held_state(home, connection)


def changed(
    home: Home,
    before: HeldState,
    *,
    last: int,
    newest: Mapping[str, int],
    published: Mapping[str, int] = MappingProxyType({}),
    **options: Any,
) -> StateChange:
    """Return the state after a batch with these event times."""
    with home.catalog.read() as connection:
        watermarks = next_watermarks(channel_clocks(home, connection), last, newest, published)
    return next_state(home, before, watermarks=watermarks, **options)


def commit(home: Home, change: StateChange, now: int) -> None:
    with home.catalog.begin() as connection:
        commit_state(connection, change, now)
    unlink_old(home, now)


def visible(state: HeldState) -> Counter[tuple[int, int, int]]:
    """The rows that a reader sees, as (docid, ts, var)."""
    if not state.paths("witness"):
        return Counter()
    table = ds.dataset(state.paths("witness"), schema=WITNESS_SCHEMA).to_table()
    columns = {name: table.column(name).to_numpy() for name in ("docid", "ts", "var", "late")}
    kept = ~columns["late"].astype(bool)
    if state.floors is not None:
        kept &= state.floors.keep(columns["var"], columns["ts"])
    return Counter(zip(*(columns[name][kept].tolist() for name in ("docid", "ts", "var")), strict=True))


@dataclass
class Stream:
    """Batches of random rows of a home, and what should be held of them by the rule alone."""

    home: Home
    choose: Dice
    reach: dict[int, int]
    lateness: int = 0
    batch: int = 0
    clock: int = 0
    held: list[Row] = field(default_factory=list)
    purged: int = 0

    def next(self, rows: int, *, step: int = 10) -> StateChange:
        self.batch += 1
        fresh = [
            (self.batch * 1000 + n, max(0, self.clock + self.choose.count(-5, step)), self.choose.count(1, 4),
             self.choose.chance(5))
            for n in range(rows)
        ]  # fmt: skip
        tag = f"witness/{self.batch:08d}"
        write_rows(self.home, f"{tag}/part-0.parquet", fresh[: rows // 2])
        write_rows(self.home, f"{tag}/part-1.parquet", fresh[rows // 2 :])
        self.clock = max([self.clock, *(ts for _, ts, _, _ in fresh)])
        change = changed(
            self.home, state_of(self.home), batch=self.batch, last=self.batch,
            reach=reach_table(*((False, var, "S", r, r) for var, r in sorted(self.reach.items()))),
            newest={"S": self.clock}, fresh=[("witness", tag)],
        )  # fmt: skip
        floor = self.clock - self.lateness
        before = len(self.held)
        self.held = [row for row in self.held if self._kept(row, floor)]
        self.purged = before - len(self.held)
        self.held += [row for row in fresh if not row[3] and self._kept(row, floor)]
        commit(self.home, change, self.batch * MINUTE)
        return change

    def _kept(self, row: Row, floor: int) -> bool:
        return row[2] in self.reach and row[1] + self.reach[row[2]] >= floor


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("seed", range(examples(2)))
def test_what_is_held_is_exact(home: Home, seed: int) -> None:
    """Whatever is merged, rewritten and dropped; also when floors fall, and when queries end and come again."""
    choose = Dice(seed)
    stream = Stream(home, choose, {1: 40, 2: 5, 3: 0})
    for number in range(70):
        if number in (25, 45):
            # Lateness is raised: what went out of sight stays so.
            stream.lateness = number
            set_channel(home.catalog, "S", lateness=f"{number} us")
        if number == 35:
            set_channel(home.catalog, "S", lateness="0 s")
            stream.lateness = 0
            del stream.reach[1]
        if number == 37:
            stream.reach[1] = 60
            stream.reach[4] = 20
        change = stream.next(choose.one(0, 3, 8, 30))
        state = state_of(home)
        expected = Counter((docid, ts, var) for docid, ts, var, _ in stream.held)
        assert visible(state) == expected, number
        assert (state.rows, change.after.rows) == (len(stream.held), len(stream.held)), number
        assert change.purged == stream.purged, number
        assert sorted(change.after.files, key=repr) == sorted(state.files, key=repr)
        assert all(file.held for file in state.files)
        # Three tiers of three files at most, and what the limit of their span keeps apart.
        assert len(state.files) < 20, number


@pytest.mark.usefixtures("small_files")
def test_without_a_limit_files_stay_few_and_whole(home: Home) -> None:
    set_channel(home.catalog, "S", lateness="none")
    stream = Stream(home, Dice(1), {1: 0, 2: 0, 3: 0, 4: 0})
    stream.lateness = 1 << 40
    for _ in range(120):
        stream.next(12)
        assert len(state_of(home).files) <= 3 * 5
    assert visible(state_of(home)) == Counter(row[:3] for row in stream.held)
    assert max(file.rows for file in state_of(home).files) > 500
    chains = ds.dataset(state_of(home).paths("witness"), schema=WITNESS_SCHEMA).to_table(columns=["docid", "chain"])
    assert all(row["chain"][0]["node2"] == row["docid"] for row in chains.to_pylist())


@pytest.mark.usefixtures("small_files")
def test_whole_files_go_when_their_time_has_passed(home: Home) -> None:
    stream = Stream(home, Dice(2), dict.fromkeys(range(1, 5), 200))
    sizes = []
    for _ in range(150):
        stream.next(10)
        state = state_of(home)
        sizes.append((state.rows, sum(file.rows for file in state.files)))
    late = sizes[75:]
    assert max(held for held, _ in late) < 1.5 * min(held for held, _ in late), "the state levels off"
    assert max(there / held for held, there in late) < 1.6, "and so do its files"


def test_replaced_files_are_unlinked_later(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.store.join_state, "_FANOUT", 4)
    stream = Stream(home, Dice(3), dict.fromkeys(range(1, 5), 10_000))
    stream.next(6)
    before = state_of(home).paths("witness")
    change = stream.next(6)
    assert len(change.files.retired) == 4 and len(state_of(home).files) == 1
    assert all(Path(path).exists() for path in before), "someone may be reading them"
    commit(home, same_state(change.after), 2 * MINUTE + GRACE)
    assert not any(Path(path).parent.exists() for path in before)
    assert all(Path(path).exists() for path in state_of(home).paths("witness"))
    assert home.catalog.rows(OLD_FILES) == []


def test_a_change_that_is_not_committed_leaves_nothing(home: Home) -> None:
    stream = Stream(home, Dice(4), dict.fromkeys(range(1, 5), 1))
    stream.next(5)
    before, files = state_of(home), set((home.root / "witness").rglob("*.parquet"))
    write_rows(home, "witness/b.parquet", [(9, 99, 1, False)])
    own = seal(home.root / "witness/b.parquet")
    change = changed(
        home, before, batch=2, last=2, reach=reach_table((False, 1, "S", 7, 7)), newest={"S": 99},
        fresh=[("witness", f"witness/{own.name}")],
    )  # fmt: skip
    assert change.written
    discard_change(home, change)
    assert set((home.root / "witness").rglob("*.parquet")) == files | {own}
    assert state_of(home).files == before.files and state_of(home).reach == before.reach


def test_rows_in_memory_are_written_if_they_are_kept(home: Home) -> None:
    write_rows(home, "witness/x.parquet", [(1, 99, 1, False), (2, 91, 1, False), (3, 99, 1, True), (4, 99, 2, False)])
    rows = pq.read_table(home.root / "witness/x.parquet", schema=WITNESS_SCHEMA)
    given = {"witness/all": rows, "witness/none": rows.slice(1)}
    reach = reach_table((False, 1, "S", 7, 7))
    change = changed(
        home, state_of(home), batch=1, last=1, reach=reach, newest={"S": 99}, fresh=(), rows=given
    )  # fmt: skip
    [path] = change.after.paths("witness")
    assert Path(path).name.startswith("all.")
    assert (change.after.rows, change.purged) == (1, 0)
    assert pq.read_table(path).column("docid").to_pylist() == [1]
    discard_change(home, change)
    assert not Path(path).exists()


def test_a_change_that_fails_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.store.join_state, "_FANOUT", 4)
    stream = Stream(home, Dice(5), dict.fromkeys(range(1, 5), 1000))
    stream.next(6)
    before, files = state_of(home), set((home.root / "witness").rglob("*.parquet"))
    monkeypatch.setattr(xscl.store.join_state, "facts_of_file", failing_after(2, xscl.store.join_state.facts_of_file))
    stream.reach[1] = 7
    with pytest.raises(OSError, match="no space"):
        stream.next(6)
    own = set((home.root / "witness").rglob("*.parquet")) - files
    assert {(file.parent.name, file.name.partition(".")[0]) for file in own} == {
        ("00000002", "part-0"),
        ("00000002", "part-1"),
    }
    assert state_of(home).files == before.files


def failing_after(count: int, function: Callable[..., object]) -> Callable[..., object]:
    calls = iter(range(count))

    def failing(*arguments: object) -> object:
        if next(calls, None) is None:
            raise OSError("no space left")
        return function(*arguments)

    return failing


def test_links_are_kept_as_long_as_both_members_allow(home: Home) -> None:
    members = [
        [{"docid": d, "item": d, "ts": ts, "place": f"S\0{d}"} for d, ts in ((1, left), (2, right))]
        for left, right in ((10, 20), (15, 20), (15, 12), (30, 30))
    ]
    rows = pa.RecordBatch.from_pylist(
        [{"link": 7, "members": pair, "nodes": [0, number]} for number, pair in enumerate(members)]
        + [{"link": 8, "members": members[3], "nodes": []}]
    )
    assert write_links(home, "none", []) is None
    path = write_links(home, "a", [rows])
    assert path is not None
    # From S a document may come 5 us after the left and 8 us after the right member; T has no limit yet.
    reach = reach_table((True, 7, "S", 5, 8))
    change = changed(home, state_of(home), batch=1, last=1, reach=reach, newest={"S": 20}, fresh=[("link", path)])
    commit(home, change, 0)
    state = state_of(home)
    assert state.rows == 3, "what no query asks for is not held"
    assert state.floors is not None
    table = pq.read_table(state.paths("link"))
    times = [table.column(name).to_numpy() for name in ("link", "ts1", "ts2")]
    kept = state.floors.keep_links(*times)
    assert table.column("nodes").filter(pa.array(kept)).to_pylist() == [[0, 1], [0, 2], [0, 3]]
    reach = reach_table((True, 7, "S", 5, 8), (True, 7, "T", 100, 3))
    change = changed(home, state, batch=2, last=2, reach=reach, newest={"T": 21}, fresh=())
    assert change.after.rows == 2, "(10, 20) would be in time for T, but is gone; (15, 20) is"
    commit(home, change, 0)
    nodes = pq.read_table(state_of(home).paths("link")).column("nodes").to_pylist()
    assert nodes == [[0, 1], [0, 3]]


def test_events_judged_by_other_settings_are_waited_for(home: Home) -> None:
    """Events that were taken in, and not late, before lateness was lowered may be as old as it said then."""
    with Engine(home) as engine:
        set_channel(home.catalog, "S", lateness="1 h")
        engine.ingest([Event("S", "a", 5000, xml="<a/>"), Event("S", "b", 2000, xml="<a/>")])
        set_channel(home.catalog, "S", lateness="1 s")
        empty = REACH_SCHEMA.empty_table()
        marks = [
            changed(home, state_of(home), batch=1, last=last, reach=empty, newest={"S": 5 * 10**9}, fresh=())
            for last in (1, 2)
        ]
        assert [change.after.watermarks["S"] for change in marks] == [None, 4999 * 10**6]
        # Another channel of the clock had its events judged before this one joined it.
        add_channel(home.catalog, "U", lateness="0 s", clock="u")
        engine.ingest([Event("T", "c", 1, xml="<a/>")])
        set_channel(home.catalog, "U", clock="c")
        change = changed(home, state_of(home), batch=1, last=2, reach=empty, newest={"S": 5 * 10**9}, fresh=())
        assert change.after.watermarks == {"S": None, "T": None, "U": None}


def test_a_registration_by_itself_purges_nothing(home: Home) -> None:
    with Engine(home) as engine:
        engine.register("S/a->x FOLLOWED BY {x = y, 1 h} T/a->y", name="first")
        engine.ingest([Event("S", "a", 3, xml="<a>1</a>")])
        (report,) = engine.run_once()
        assert report.state_rows == 1
        engine.register("T/a", name="second")
        engine.run_once()
        assert state_of(home).rows == 1
        engine.drop("second")
        engine.run_once()
        engine.ingest([Event("T", "b", 4, xml="<a>1</a>")])
        (report,) = engine.run_once()
        assert [match.query for match in engine.matches()] == ["first"]
        engine.drop("first")
        engine.run_once()
        engine.ingest([Event("T", "c", 5, xml="<a>1</a>")])
        (report,) = engine.run_once()
        assert (report.state_rows, report.purged) == (0, 1), "b was of no use to anyone: S comes before T"


def test_what_is_published_moves_its_channel_and_no_clock(home: Home) -> None:
    add_channel(home.catalog, "P", lateness="1 us", clock="p")
    reach = reach_table((False, 1, "P", 4, 4))
    marks = []
    for batch, (newest, published) in enumerate([({"S": 9}, {}), ({"S": 10}, {"P": 7, "T": 50}), ({}, {"P": 6})], 1):
        change = changed(
            home, state_of(home), batch=batch, last=batch, reach=reach, newest=newest, fresh=(), published=published
        )
        commit(home, change, batch)
        marks.append(dict(state_of(home).watermarks))
    assert marks == [
        {"P": None, "S": 9, "T": 9},
        {"P": 6, "S": 10, "T": 50},
        {"P": 6, "S": 10, "T": 50},
    ]


def test_clocks_are_those_of_processed_events(home: Home) -> None:
    with Engine(home) as engine:
        events = [Event("S", "a", 3, xml="<a/>"), Event("T", "b", 9, xml="<a/>"), Event("S", "c", 7, xml="<a/>")]
        engine.ingest(events)
        paths = [str(path) for path in (home.root / "events").glob("*.parquet")]
        assert event_times(paths, 1, 2).newest == {"S": 3_000_000, "T": 9_000_000}
        last = event_times(paths, 3, 3)
        assert last.newest == {"S": 7_000_000}
        with home.catalog.read() as connection:
            assert last.received == connection.scalar(sa.select(HOME.c.received))
        assert event_times([], 1, 2) == EventTimes()
        (report,) = engine.run_once(batch_docs=10)
        assert report.state_rows == 0
    with home.catalog.read() as connection:
        columns = CHANNELS.c.name, CHANNELS.c.newest, CHANNELS.c.processed
        found = connection.execute(sa.select(*columns).order_by(CHANNELS.c.name)).all()
        assert found == [("S", 7_000_000, 7_000_000), ("T", 9_000_000, 9_000_000)]
        marks = dict(connection.execute(sa.select(CHANNELS.c.name, CHANNELS.c.watermark)).all())  # type: ignore[arg-type]
        assert marks == {"S": 9_000_000, "T": 9_000_000}
        assert connection.scalar(sa.select(BATCHES.c.purged)) == 0


@pytest.mark.parametrize("idle", [None, "5 s"])
def test_a_channel_to_which_nothing_comes_holds_no_state(idle: str | None, tmp_path: Path) -> None:
    """Join state waits for partners from a channel as long as its clock stands, unless it is set aside when idle."""
    with Engine(init_home(tmp_path / "own")) as engine:
        engine.add_channel("S", lateness="2 s")
        engine.add_channel("T", lateness="2 s", idle=idle)
        engine.register("S/a->x JOIN {x = y, 3 s} T/a->y", name="q")
        engine.ingest([Event("T", "t", 0, xml="<a>1</a>")])
        held = []
        for number in range(1, 40):
            engine.ingest([Event("S", f"s{number}", number, xml="<a>1</a>")])
            (report,) = engine.run_once()
            held.append(report.state_rows)
        # Kept are times of at least number - 5 - 2 - 3: an event of T of that age may still come.
        assert held[10:] == ([11] * 29 if idle else list(range(11, 40)))
        assert engine.ingest([Event("T", "u", 31.5, xml="<a>1</a>")]).late == (idle is not None)
        engine.run_once()
        assert len(list(engine.matches())) == (3 if idle else 3 + 6)
        assert engine.ingest([Event("T", "v", 32, xml="<a>1</a>")]).late == 0
        engine.run_once()
        found = [match.events[0].id for match in engine.matches() if match.events[1].id == "v"]
        assert sorted(found) == [f"s{number}" for number in range(29, 36)]


def test_a_new_idle_time_waits_for_what_was_judged_by_another(home: Home) -> None:
    with Engine(home) as engine:
        engine.ingest(
            [Event("S", "a", 5, xml="<a/>"), Event("U", "b", 100, xml="<a/>"), Event("S", "c", 6, xml="<a/>")]
        )
        set_channel(home.catalog, "S", idle="10 s")
        empty = REACH_SCHEMA.empty_table()
        marks = [
            changed(
                home, state_of(home), batch=1, last=last, reach=empty, newest={"S": 5 * 10**6, "U": 10**8}, fresh=()
            )
            for last in (2, 3)
        ]
        assert [change.after.watermarks["S"] for change in marks] == [None, 90 * 10**6]
        assert marks[1].after.watermarks["T"] is not None, "its own settings are as they were"
