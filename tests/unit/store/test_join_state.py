"""Files of join state: what is held, what is merged, what goes."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from budget import examples
from strategies import Dice

import xscl.store.join_state
import xscl.store.state_merges
from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.base.errors import XsclError
from xscl.base.failpoints import hooked
from xscl.base.types import Event
from xscl.catalog.tables import BATCHES, CHANNELS, HOME, OLD_FILES
from xscl.engine import Engine
from xscl.registry.channels import add_channel, set_channel
from xscl.store.compaction import FileSet
from xscl.store.home import Home, init_home
from xscl.store.join_state import (
    HeldState,
    StateChange,
    commit_state,
    discard_change,
    held_state,
    next_state,
)
from xscl.store.retired_files import unlink_old
from xscl.store.state_files import Kind, write_run
from xscl.store.state_merges import StateMerges
from xscl.store.watermarks import EventTimes, channel_clocks, event_times, next_watermarks
from xscl.templates.many_blocks.runs import LINK_SCHEMA, LinkRun, kept, rows_of
from xscl.templates.retention import REACH_SCHEMA
from xscl.templates.runs.files import open_run
from xscl.templates.runs.making import run_of
from xscl.templates.runs.rows import row_variables, rows_of_run
from xscl.templates.runs.run import Run

MINUTE = 60_000_000
GRACE = 11 * MINUTE
Row = tuple[int, int, int]
"""docid, ts, var."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = init_home(tmp_path / "home")
    for channel in "ST":
        add_channel(home.catalog, channel, lateness="0 s", clock="c")
    yield home
    home.catalog.close()


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a few hundred rows go through all tiers."""
    for name, value in {"_FILES": 3, "_FANOUT": 3, "_SMALL": 20, "_LARGE": 2000}.items():
        monkeypatch.setattr(xscl.store.state_merges, name, value)


def reach_table(*rows: tuple[bool, int, str, int, int]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(REACH_SCHEMA)
    return pa.table(dict(zip(REACH_SCHEMA.names, columns, strict=True)), schema=REACH_SCHEMA)


def run_with(rows: Sequence[Row]) -> Run:
    table = [
        {"docid": docid, "ts": ts, "item": docid, "place": f"S\0{docid}", "late": False, "membership": 0, "var": var,
         "node": 0, "fn": "", "strval": f"v{docid % 7}", "num": None, "h": docid % 7,
         "chain": [{"var1": 1, "var2": 2, "node1": 0, "node2": docid}]}
        for docid, ts, var in rows
    ]  # fmt: skip
    return run_of(pa.Table.from_pylist(table, schema=WITNESS_SCHEMA))


def write_rows(home: Home, path: str, rows: Sequence[Row]) -> tuple[Kind, str]:
    return "witness", str(write_run(home.root / path, run_with(rows)).relative_to(home.root))


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
        watermarks = next_watermarks(channel_clocks(connection), last, newest, published)
    merges = StateMerges(home, before, options["batch"])
    return next_state(home, before, watermarks=watermarks, merged=merges.merged(), **options)


def commit(home: Home, change: StateChange, now: int) -> None:
    with home.catalog.begin() as connection:
        commit_state(connection, change, now)
    unlink_old(home, now)


def visible(state: HeldState) -> Counter[Row]:
    """The rows that a reader sees."""
    found: Counter[Row] = Counter()
    for run in state.runs():
        kept = None if state.floors is None else state.floors.keep(row_variables(run), run.ts)
        rows = rows_of_run(run, kept)
        found.update(zip(*(rows.column(name).to_pylist() for name in ("docid", "ts", "var")), strict=True))
        assert all(row["chain"][0]["node2"] == row["docid"] for row in rows.to_pylist())
    return found


@dataclass
class Stream:
    """Batches of random rows of a home, and what should be held of them by the rule alone."""

    home: Home
    choose: Dice
    reach: dict[int, int]
    lateness: int = 0
    batch: int = 0
    clock: int = 0
    times: dict[int, int] = field(default_factory=dict)
    """Event times of all documents so far."""
    held: list[Row] = field(default_factory=list)
    purged: int = 0

    def next(self, documents: int, *, step: int = 10, again: int = 0) -> StateChange:
        """Make a batch with new documents, and with rows that the state lacks of some documents from before."""
        self.batch += 1
        fresh = list(self._lacking(again))
        for number in range(documents):
            docid = self.batch * 1000 + number
            self.times[docid] = max(0, self.clock + self.choose.count(-5, step))
            fresh += self._rows(docid, self.choose.one((1,), (2, 4), (1, 2, 3, 4)))
        docids = sorted({docid for docid, _, _ in fresh})
        files = [
            write_rows(self.home, f"witness/{self.batch:08d}-{part}.run", [row for row in fresh if row[0] in own])
            for part, own in enumerate((set(docids[::2]), set(docids[1::2])))
        ]
        self.clock = max([self.clock, *(ts for _, ts, _ in fresh)])
        change = changed(
            self.home, state_of(self.home), batch=self.batch, last=self.batch,
            reach=reach_table(*((False, var, "S", r, r) for var, r in sorted(self.reach.items()))),
            newest={"S": self.clock}, fresh=files,
        )  # fmt: skip
        floor = self.clock - self.lateness
        before = len(self.held)
        self.held = [row for row in self.held if self._kept(row, floor)]
        self.purged = before - len(self.held)
        self.held += [row for row in fresh if self._kept(row, floor)]
        commit(self.home, change, self.batch * MINUTE)
        return change

    def _rows(self, docid: int, variables: Iterable[int]) -> list[Row]:
        return [(docid, self.times[docid], var) for var in variables]

    def _lacking(self, documents: int) -> Iterator[Row]:
        """Yield rows of some documents from before that are not held, as a back-fill finds them."""
        known = list(self.times)[-40:]
        for docid in self.choose.random.sample(known, min(documents, len(known))):
            lacking = [row for row in self._rows(docid, (1, 2, 3, 4)) if row not in self.held]
            yield from self.choose.random.sample(lacking, min(len(lacking), 2))

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
        change = stream.next(choose.one(0, 2, 4, 15), again=choose.one(0, 0, 1, 6))
        state = state_of(home)
        assert visible(state) == Counter(stream.held), number
        assert_documents_are_whole(state)
        assert (state.rows, change.after.rows) == (len(stream.held), len(stream.held)), number
        assert change.purged == stream.purged, number
        assert sorted(change.after.files, key=repr) == sorted(state.files, key=repr)
        assert all(file.held for file in state.files)
        # Three tiers of three files at most, and what the limit of their span keeps apart.
        assert len(state.files) < 20, number


def assert_documents_are_whole(state: HeldState) -> None:
    """All rows of a document are in one run (law R1)."""
    runs = Counter(docid for run in state.runs() for docid in run.docs.tolist())
    assert set(runs.values()) <= {1}, runs.most_common(3)


@pytest.mark.usefixtures("small_files")
def test_without_a_limit_files_stay_few_and_whole(home: Home) -> None:
    set_channel(home.catalog, "S", lateness="none")
    stream = Stream(home, Dice(1), {1: 0, 2: 0, 3: 0, 4: 0})
    stream.lateness = 1 << 40
    for _ in range(120):
        stream.next(6, again=1)
        assert len(state_of(home).files) <= 3 * 5
    assert visible(state_of(home)) == Counter(stream.held)
    assert_documents_are_whole(state_of(home))
    assert max(file.rows for file in state_of(home).files) > 500


def test_rows_of_documents_that_several_runs_have_go_to_each(home: Home) -> None:
    """A back-fill finds rows of documents old and new, the state has them in two runs, and one row is of no use."""
    reach = reach_table((False, 1, "S", 50, 50), (False, 2, "S", 3, 3))

    def after(batch: int, newest: int, *files: Sequence[Row]) -> StateChange:
        fresh = [write_rows(home, f"witness/{batch}-{part}.run", rows) for part, rows in enumerate(files)]
        change = changed(
            home, state_of(home), batch=batch, last=batch, reach=reach, newest={"S": newest}, fresh=fresh
        )  # fmt: skip
        commit(home, change, 0)
        return change

    after(1, 20, [(1, 15, 1), (2, 20, 1)], [(5, 19, 1)])
    own = [(1, 15, 2), (2, 20, 2), (3, 18, 2), (5, 19, 2)]
    change = after(2, 22, own)
    state = state_of(home)
    assert visible(state) == Counter([(1, 15, 1), (2, 20, 1), (5, 19, 1), (2, 20, 2), (5, 19, 2)])
    assert sorted(run.docs.tolist() for run in state.runs()) == [[1, 2], [5]]
    assert (state.rows, change.purged) == (5, 0)
    assert len(change.files.retired) == 3 + 1, "two runs that were, the back-fill's own, and its rest"
    change = after(3, 23)
    assert (state_of(home).rows, change.purged) == (4, 1)


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
    monkeypatch.setattr(xscl.store.state_merges, "_FILES", 4)
    stream = Stream(home, Dice(3), dict.fromkeys(range(1, 5), 10_000))
    stream.next(6)
    stream.next(6)
    before = state_of(home).paths("witness")
    change = stream.next(6)
    assert len(change.files.retired) == 4 and len(state_of(home).files) == 1 + 2, "the batch's own files are new"
    assert all(Path(path).exists() for path in before), "someone may be reading them"
    commit(home, StateChange(change.after, change.after, FileSet(change.after.files)), 3 * MINUTE + GRACE)
    assert not any(Path(path).exists() for path in before)
    assert all(Path(path).exists() for path in state_of(home).paths("witness"))
    assert home.catalog.rows(OLD_FILES) == []


def test_a_merge_that_fails_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it stays, no row is lost, and the batch beside it has its answers."""
    monkeypatch.setattr(xscl.store.state_merges, "_FILES", 3)
    with Engine(init_home(tmp_path / "own")) as engine:
        engine.register("S/a->x FOLLOWED BY {x = y, 1 h} S/a->y", name="q")
        told, files = [], []
        for number, fails_at in enumerate([None, None, None, "state.merge", "state.merged", None]):
            engine.ingest([Event("S", f"e{number}", number, xml="<a>1</a>")])
            with hooked(full_disk(fails_at)):
                (report,) = engine.run_once()
            told.append(report.unmerged)
            files.append(sum(1 for path in (tmp_path / "own/witness").iterdir() if path.suffix == ".run"))
            assert (report.matches, report.state_rows) == (number, number + 1)
        assert [each is not None and each.startswith("[XSCL_DISK_FULL]") for each in told] == [
            *(False, False, False, True, True, False)
        ]
        assert files == [1, 2, 3, 4, 5, 5 + 2], "the last batch has a file of its own, and a merged one"
        assert len(state_of(engine.home).files) == 2


def full_disk(at: str | None) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == at:
            raise OSError(errno.ENOSPC, "No space left on device")

    return hook


def test_merges_of_a_batch_that_fails_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.store.state_merges, "_FILES", 3)
    with Engine(init_home(tmp_path / "own")) as engine:
        engine.register("S/a->x FOLLOWED BY {x = y, 1 h} S/a->y", name="q")
        for number in range(4):
            files = files_of_state(engine.home)
            engine.ingest([Event("S", f"e{number}", number, xml="<a>1</a>")])
            if number < 3:
                engine.run_once()
        for at in ("batch.joined", "state.taken", "batch.before"):
            with hooked(full_disk(at)), pytest.raises(XsclError, match="XSCL_DISK_FULL"):
                engine.run_once()
            assert files_of_state(engine.home) == files
        (report,) = engine.run_once()
        assert (report.matches, report.unmerged) == (3, None)
        assert len(state_of(engine.home).files) == 2


def files_of_state(home: Home) -> set[Path]:
    return set((home.root / "witness").iterdir())


def test_a_change_that_is_not_committed_leaves_nothing(home: Home) -> None:
    stream = Stream(home, Dice(4), dict.fromkeys(range(1, 5), 1))
    stream.next(5)
    before, files = state_of(home), files_of_state(home)
    own = write_rows(home, "witness/b.run", [(9, 99, 1)])
    change = changed(
        home, before, batch=2, last=2, reach=reach_table((False, 1, "S", 7, 7)), newest={"S": 99}, fresh=[own]
    )
    assert change.written
    discard_change(home, change)
    assert files_of_state(home) == files | {home.root / own[1]}
    assert state_of(home).files == before.files and state_of(home).reach == before.reach


def test_rows_in_memory_are_written_if_they_are_kept(home: Home) -> None:
    rows: list[Row] = [(1, 99, 1), (2, 91, 1), (4, 99, 2)]
    given = {"witness/all.run": run_with(rows), "witness/none.run": run_with(rows[1:])}
    reach = reach_table((False, 1, "S", 7, 7))
    change = changed(home, state_of(home), batch=1, last=1, reach=reach, newest={"S": 99}, fresh=(), rows=given)
    [path] = change.after.paths("witness")
    assert Path(path).name.startswith("all.")
    assert (change.after.rows, change.purged) == (1, 0)
    assert open_run(path).docs.tolist() == [1]
    discard_change(home, change)
    assert not Path(path).exists()


def test_a_change_that_fails_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.store.state_merges, "_FILES", 4)
    stream = Stream(home, Dice(5), dict.fromkeys(range(1, 5), 1000))
    stream.next(6)
    before, files = state_of(home), files_of_state(home)
    monkeypatch.setattr(xscl.store.join_state, "facts_of_file", failing_after(2, xscl.store.join_state.facts_of_file))
    stream.reach[1] = 7
    with pytest.raises(OSError, match="no space"):
        stream.next(6)
    assert {file.name.partition(".")[0] for file in files_of_state(home) - files} == {"00000002-0", "00000002-1"}
    assert state_of(home).files == before.files


def failing_after(count: int, function: Callable[..., object]) -> Callable[..., object]:
    calls = iter(range(count))

    def failing(*arguments: object) -> object:
        if next(calls, None) is None:
            raise OSError("no space left")
        return function(*arguments)

    return failing


def test_links_are_kept_as_long_as_both_members_allow(home: Home) -> None:
    times = [(10, 20), (15, 20), (15, 12), (30, 30)]

    def row(link: int, number: int, nodes: list[int]) -> dict[str, object]:
        docids = 2 * number, 2 * number + 1
        members = [
            {"docid": docid, "item": docid, "ts": ts, "place": f"S\0{docid}", "membership": 0}
            for docid, ts in zip(docids, times[number], strict=True)
        ]
        return {"link": link, "ts1": times[number][0], "ts2": times[number][1], "members": members, "nodes": nodes}

    def nodes_seen(state: HeldState) -> list[list[int]]:
        floors = state.floors
        return [
            nodes for run in state.links() for nodes in rows_of(run, floors and kept(run, floors))["nodes"].to_pylist()
        ]

    rows = [*(row(7, number, [0, number]) for number in range(4)), row(8, 3, [])]
    run = LinkRun.of(pa.Table.from_pylist(rows, schema=LINK_SCHEMA))
    path = str(write_run(home.root / "witness/a.run", run).relative_to(home.root))
    # From S a document may come 5 us after the left and 8 us after the right member; T has no limit yet.
    reach = reach_table((True, 7, "S", 5, 8))
    change = changed(home, state_of(home), batch=1, last=1, reach=reach, newest={"S": 20}, fresh=[("link", path)])
    commit(home, change, 0)
    state = state_of(home)
    assert state.rows == 3, "what no query asks for is not held"
    assert sorted(nodes_seen(state)) == [[0, 1], [0, 2], [0, 3]]
    reach = reach_table((True, 7, "S", 5, 8), (True, 7, "T", 100, 3))
    change = changed(home, state, batch=2, last=2, reach=reach, newest={"T": 21}, fresh=())
    assert change.after.rows == 2, "(10, 20) would be in time for T, but is gone; (15, 20) is"
    commit(home, change, 0)
    (run,) = state_of(home).links()
    assert sorted(rows_of(run)["nodes"].to_pylist()) == [[0, 1], [0, 3]], "floors have fallen, so it is written again"


def test_events_judged_by_other_settings_are_waited_for(home: Home) -> None:
    """Events that were taken in, and not late, before lateness was lowered may be as old as it said then."""
    with Engine(home) as engine:
        set_channel(home.catalog, "S", lateness="1 h")
        engine.ingest([Event("S", "a", 5000, xml="<a/>"), Event("S", "b", 2000, xml="<a/>")])
        set_channel(home.catalog, "S", lateness="1 s")
        empty = REACH_SCHEMA.empty_table()
        marks = [
            changed(home, state_of(home), batch=1, last=last, reach=empty, newest={"S": 5 * 10**9}, fresh=())
            for last in (2, 3)
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
            for last in (3, 4)
        ]
        assert [change.after.watermarks["S"] for change in marks] == [None, 90 * 10**6]
        assert marks[1].after.watermarks["T"] is not None, "its own settings are as they were"
