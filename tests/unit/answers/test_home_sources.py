"""Streams of channels and matches have each row once, whatever comes and fails between micro-batches.  No Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import xscl
from xscl.answers.spark_sources.channels import ChannelSource
from xscl.answers.spark_sources.common import HomeSource
from xscl.answers.spark_sources.matches import MatchSource
from xscl.catalog.tables import INTAKE_FILES, LATE
from xscl.engine import Engine, connect

PAIRS = "S//a->x[./k->p] FOLLOWED BY {p = q, 1 h} S//a->y[./k->q] PUBLISH pairs"
MATCH_COLUMNS = ["match", "query", "ids", "document", "cursor"]


def event(number: int, ts: float | None = None) -> xscl.Event:
    return xscl.Event("S", f"e{number}", number if ts is None else ts, xml=f"<i><a><k>{number % 3}</k></a></i>")


def columns(*names: str) -> Any:
    return SimpleNamespace(fieldNames=lambda: list(names))


class Stream:
    """Spark's part: offsets are noted before rows are asked for, and rows are asked for again after a failure."""

    def __init__(self, source: HomeSource, *names: str) -> None:
        self._make: Callable[[], Any] = lambda: source.streamReader(columns(*names))
        source.check()
        self.start = self._make().initialOffset()
        self.rows: list[Any] = []

    def step(self, most: int | None = None, *, repeats: int = 0) -> int:
        """Take one micro-batch, which fails some times; each time another process asks."""
        end = self._make().latestOffset(self.start, ReadAllAvailable() if most is None else ReadMaxRows(most))
        if end == self.start:
            return 0
        tries = [list(self._read(end)) for _ in range(repeats + 1)]
        assert all(sorted(map(str, each)) == sorted(map(str, tries[0])) for each in tries)
        self.start = end
        self.rows += tries[-1]
        assert most is None or len(tries[-1]) <= most
        return len(tries[-1])

    def _read(self, end: dict[str, Any]) -> Iterator[Any]:
        reader = self._make()
        for part in reader.partitions(self.start, end):
            for found in reader.read(part):
                yield from found.to_pylist() if isinstance(found, pa.RecordBatch) else [found]


def all_events(engine: Engine) -> dict[str, list[tuple[int, str]]]:
    """Numbers and ids by channel, as files have them."""
    found: dict[str, list[tuple[int, str]]] = {}
    for path in engine.home.paths([str(row["path"]) for row in engine.home.catalog.rows(INTAKE_FILES)]):
        for row in pq.read_table(path, columns=["channel", "docid", "id"]).to_pylist():
            found.setdefault(row["channel"], []).append((row["docid"], row["id"]))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_each_event_and_each_match_comes_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with connect(home=tmp_path) as engine:
        engine.add_channel("S", lateness="20 s")
        engine.register(PAIRS, name="Q")
        path = str(tmp_path)
        engine.ingest([event(0)])
        engine.ingest([xscl.Event("pairs", "own", 1, xml="<own/>")])
        events = Stream(ChannelSource({"path": path, "channel": "S"}), "docid", "id", "content")
        pairs = Stream(ChannelSource({"path": path, "channel": "pairs"}), "docid", "id")
        matches = Stream(MatchSource({"path": path}), *MATCH_COLUMNS)
        for number in range(1, 18):
            match chance.randrange(6):
                case 0:
                    engine.ingest([event(number, max(0, number - 30 * chance.random()))])
                case 1:
                    engine.ingest([xscl.Event("other", f"o{number}", number, xml="<o/>")])
                case 2 if number > 9:
                    engine.register(f"{PAIRS.replace('1 h', f'{number} min')} STARTING ALL", name=f"R{number}")
                case _:
                    engine.ingest([event(100 * number + n, number) for n in range(chance.randrange(1, 4))])
            if chance.random() < 0.5:
                engine.run_once(batch_docs=chance.choice([2, 100]))
            for stream in (events, pairs, matches):
                if chance.random() < 0.5:
                    stream.step(chance.choice([None, 1, 4]), repeats=chance.randrange(2))
        if engine.home.catalog.rows(LATE):
            engine.replay_late(channel="S")
        engine.run_once()
        for stream in (events, pairs, matches):
            while stream.step(5):
                pass
        known = all_events(engine)
        assert Counter((row["docid"], row["id"]) for row in events.rows) == Counter(known["S"])
        assert Counter((row["docid"], row["id"]) for row in pairs.rows) == Counter(known["pairs"])
        assert len(known["pairs"]) > 5 and {row["content"] for row in events.rows} >= {"<i><a><k>0</k></a></i>"}
        listed = list(engine.matches(after="start"))
        assert [row[4] for row in matches.rows] == [match.cursor for match in listed]
        assert [row[3] for row in matches.rows] == [match.document for match in listed]


def test_times_of_a_match_are_those_of_listings(tmp_path: Path) -> None:
    with connect(home=tmp_path / "home") as engine:
        engine.register("S//a->x NOT FOLLOWED BY {10 s} T//b", name="absent")
        engine.ingest([event(1), xscl.Event("T", "t", 60, xml="<i/>")])
        engine.run_once()
        (match,) = engine.matches()
        assert match.ts == 11_000_000
        stream = Stream(MatchSource({"path": str(tmp_path / "home")}), "ts", "ts_min", "ts_max")
        assert stream.step() == 1
        told = [tuple(time.timestamp() for time in row) for row in stream.rows]
        assert told == [(match.ts / 1e6, 1, match.ts / 1e6)]


def test_events_from_now_on(tmp_path: Path) -> None:
    with connect(home=tmp_path) as engine:
        engine.register(PAIRS, name="Q")
        engine.ingest([event(0), event(3)])
        engine.run_once()
        engine.ingest([event(6)])
        path = str(tmp_path)
        pairs = Stream(ChannelSource({"path": path, "channel": "pairs", "after": "now"}), "id")
        events = Stream(ChannelSource({"path": path, "channel": "S", "after": "3"}), "id")
        assert (pairs.step(), events.step()) == (0, 1)
        assert [row["id"] for row in events.rows] == ["e6"]
        engine.run_once()
        assert (pairs.step(), events.step()) == (2, 0)


def test_available_now_ends(tmp_path: Path) -> None:
    with connect(home=tmp_path) as engine:
        engine.ingest([event(0)])
        for source in (ChannelSource({"path": str(tmp_path), "channel": "S"}), MatchSource({"path": str(tmp_path)})):
            reader: Any = source.streamReader(columns("docid"))
            reader.prepareForTriggerAvailableNow()
            end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
            engine.ingest([event(1)])
            assert reader.latestOffset(end, ReadAllAvailable()) == end


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (ChannelSource, {}, "XSCL_BAD_OPTION.*needs a channel"),
        (ChannelSource, {"channel": "T"}, "XSCL_UNKNOWN_CHANNEL.*there is no channel 'T'"),
        (ChannelSource, {"channel": "S", "chanel": "S"}, "XSCL_BAD_OPTION.*no option 'chanel'.*mean 'channel'"),
        (ChannelSource, {"channel": "S", "since": "soon"}, "XSCL_BAD_OPTION.*since"),
        (ChannelSource, {"channel": "S", "after": "8"}, "XSCL_BAD_CURSOR.*place 8 is ahead"),
        (ChannelSource, {"channel": "S", "after": "soon"}, "XSCL_BAD_OPTION.*after is"),
        (ChannelSource, {"channel": "S", "maxRowsPerTrigger": "0"}, "XSCL_BAD_OPTION.*at least 1"),
        (MatchSource, {"query": "nobody"}, "XSCL_QUERY_NOT_FOUND"),
        (MatchSource, {"after": "there"}, "XSCL_BAD_CURSOR"),
        (MatchSource, {"after": "c9"}, "XSCL_BAD_CURSOR.*ahead"),
        (MatchSource, {"channel": "S"}, "XSCL_BAD_OPTION.*no option 'channel'"),
        (MatchSource, {"path": "/nowhere"}, "XSCL_NO_HOME"),
    ],
)
def test_refusals_have_names(tmp_path: Path, source: type[HomeSource], options: dict[str, str], said: str) -> None:
    with connect(home=tmp_path) as engine:
        engine.add_channel("S")
    mine = source({"path": str(tmp_path), **options})
    with pytest.raises(xscl.XsclError, match=f"(?s){said}"):
        mine.schema()
        reader: Any = mine.reader(columns("docid"))
        reader.partitions()
        stream: Any = mine.streamReader(columns("docid"))
        stream.latestOffset(stream.initialOffset(), ReadAllAvailable())


def test_a_column_that_a_channel_lacks_is_refused(tmp_path: Path) -> None:
    with connect(home=tmp_path) as engine:
        engine.ingest([event(0)])
    reader: Any = ChannelSource({"path": str(tmp_path), "channel": "S"}).reader(columns("docid", "title"))
    with pytest.raises(xscl.EngineError, match="no column 'title'") as refused:
        reader.partitions()
    assert refused.value.condition == "XSCL_NO_COLUMN"
