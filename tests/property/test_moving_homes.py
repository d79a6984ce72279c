"""A home that was packed and unpacked, and one that took in what another wrote as events, answer as the first does."""

from __future__ import annotations

import io
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from budget import examples
from sample_home import fill
from strategies import CHANNELS, NAMESPACES, SECOND, Dice, many_block_query, plain_stream

from xscl.base.errors import QueryError
from xscl.base.types import Event, Match
from xscl.catalog.tables import LATE
from xscl.cli.app import main
from xscl.engine import Engine
from xscl.ingest.event_file import read_event_lines
from xscl.ingest.records import Drop, Flush, Record, Register
from xscl.store.home import init_home, open_home
from xscl.upkeep.archive_export import export_home
from xscl.upkeep.archive_import import import_home
from xscl.upkeep.event_export import Replay, export_events

DECLARED = "".join(f"DECLARE NAMESPACE {prefix} = '{uri}'; " for prefix, uri in NAMESPACES.items())
STREAMS = {"left": "S", "right": "S", "other": "S"}


def records(choose: Dice) -> list[Record]:
    """Events, by streams too, and what is registered, dropped and flushed between them."""
    found: list[Record] = []
    live: list[str] = []
    for number, doc in enumerate(plain_stream(choose, 24, 36)):
        if choose.chance(25) or number < 3:
            text = many_block_query(choose, [*CHANNELS, "left", "right", "out"][: choose.count(2, 6)])
            publish = choose.chance(25) and "out" not in text
            found.append(Register(f"{DECLARED}{text}{' PUBLISH out' if publish else ''}", f"q{number}", "here"))
            live.append(f"q{number}")
        if len(live) > 2 and choose.chance(10):
            found.append(Drop(live.pop(0), "here"))
        if choose.chance(15):
            found.append(Flush("here"))
        ways = [choose.one(*STREAMS)] if doc.channel == "S" and choose.chance(50) else [doc.channel]
        if ways == ["left"] and choose.chance(60):
            ways = ["left", "right"]
        found += (Event(way, f"e{number}", Decimal(doc.ts) / SECOND, xml=doc.xml) for way in ways)
    return found


def make(folder: Path, choose: Dice) -> Engine:
    engine = Engine(init_home(folder))
    lateness = choose.one(None, "2 s", "1 h")
    for name in CHANNELS:
        engine.add_channel(name, lateness=lateness, clock=choose.one(name, "shared"))
    for name, of in STREAMS.items():
        engine.add_channel(name, of=of, source=None if name == "other" else "agency")
    return engine


def take(engine: Engine, choose: Dice, given: Sequence[Record]) -> None:
    """In some parts, with batches of any size between them."""
    start = 0
    while start < len(given):
        end = start + choose.count(1, 20)
        engine.ingest(list(given[start:end]))
        start = end
        if choose.chance(60):
            engine.run_once(batch_docs=choose.count(1, 12))


def listed(engine: Engine) -> list[Match]:
    """Matches, in whatever batch they were found."""
    engine.run_once()
    return [replace(match, cursor="") for match in engine.matches()]


def commands(engine: Engine, root: Path, monkeypatch: pytest.MonkeyPatch) -> Replay:
    """What another home is to be made with, made; the events are written to a file beside it."""
    with root.with_suffix(".ndjson").open("wb") as stream:
        replay = export_events(engine.home, stream)
    init_home(root).catalog.close()
    for command in replay.channels:
        monkeypatch.setattr("sys.argv", [*shlex.split(command), "--home", str(root)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, command
    return replay


def replayed(engine: Engine, root: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    commands(engine, root, monkeypatch)
    again = Engine(open_home(root))
    lines = root.with_suffix(".ndjson").read_bytes().splitlines()
    assert again.ingest(list(read_event_lines(lines, source="events"))).rejected == 0
    return again


def test_random_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    for seed in range(3, 3 + examples(2)):
        choose = Dice(seed)
        try:
            given = records(choose)
        except QueryError:
            continue
        middle = choose.count(0, len(given))
        with make(tmp_path / f"{seed}", choose) as engine:
            take(engine, choose, given[:middle])
            stream = io.BytesIO()
            export_home(engine.home, stream)
            stream.seek(0)
            import_home(tmp_path / f"{seed}-copy", stream)
            with Engine(open_home(tmp_path / f"{seed}-copy")) as copy:
                for each in (engine, copy):
                    take(each, Dice(seed + 1_000), given[middle:])
                expected = listed(engine)
                assert listed(copy) == expected, seed
            seen["matches"] += len(expected)
            seen["late"] += sum(row["condition"] == "XSCL_LATE" for row in engine.home.catalog.rows(LATE))
            with replayed(engine, tmp_path / f"{seed}-again", monkeypatch) as again:
                assert listed(again) == expected, seed
                lines = [(tmp_path / f"{seed}-again.ndjson").read_bytes()]
                # What is replayed is written as it was read.
                with (tmp_path / "twice").open("wb") as twice:
                    export_events(again.home, twice)
                assert (tmp_path / "twice").read_bytes() == lines[0], seed
    assert seen["matches"] > 10, seen


def test_a_home_with_something_of_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        fill(engine, tmp_path)
        expected = listed(engine)
        with replayed(engine, tmp_path / "again", monkeypatch) as again:
            got = listed(again)
        # Versions of an item are events of their own there.
        extra = {match.id for match in got} - {match.id for match in expected}
        assert {match.query for match in got if match.id in extra} <= {"items"}
        # Nor do they replace what earlier ones had.
        told = [replace(match, replaces=None) for match in got if match.id not in extra]
        assert told == [replace(match, replaces=None) for match in expected]
        assert {match.query for match in got} >= {"loud", "three", "price", "wires", "wire", "hot", "loudest", "raw"}
