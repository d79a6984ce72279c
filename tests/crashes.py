"""A long run that may end anywhere and goes on by itself, and what it must have come to in the end.

The workload has all that a home takes: documents and rows of an event file that is followed, with queries registered
and dropped between them, tables of rows, and feeds that are polled.  Channels have a retention, some an idle time; late
events are taken again; archives are made and read.  A *round* takes in what has come and runs its batches, between
which a consumer reads new matches.  Upkeep and merges of join state are made to work often, on small files.
After a crash whoever runs it begins the round anew that was not finished, as a scheduler would: what was taken in is
known, and nothing else says how far it was.

    python tests/crashes.py FOLDER --seed 1 --rounds 50      goes on with the run in FOLDER, to its end
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
import pyarrow as pa
import pyarrow.dataset as ds
import sqlalchemy as sa

import xscl
from xscl.answers.matches.listing import Match, match_json
from xscl.base import temporary as scratch
from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.errors import XsclError
from xscl.base.failpoints import STEPS, VARIABLE, hooked
from xscl.base.settings import Settings
from xscl.catalog.channels import read_channels
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.retained_from import keep_times
from xscl.catalog.subscriptions import add_feed
from xscl.catalog.tables import BATCHES, CHANNELS, FEEDS, INTAKE_FILES, LATE, NEVER, QUERIES, REJECTED, REMOVALS
from xscl.engine import Engine
from xscl.intake.host_queue import Clock
from xscl.intake.intake import IntakeReport
from xscl.intake.polling import poll
from xscl.store import retired_files as old_files
from xscl.store import state_merges
from xscl.store.orphans import unnamed_files
from xscl.upkeep import catalog_rows as catalog_upkeep
from xscl.upkeep import events as event_upkeep
from xscl.upkeep import results as result_upkeep
from xscl.upkeep import upkeep
from xscl.upkeep.archive_export import export_home
from xscl.upkeep.archive_import import import_home
from xscl.upkeep.catalog_rows import total

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

START = datetime(2018, 12, 7, 6, tzinfo=UTC)
"""Behind the feeds' entries, or no channel with an idle time would have an event in time."""
_CORPUS = files("xscl.demo") / "corpus"
_FEEDS = ("past-day", "all-day")
_ROUND = timedelta(minutes=7)

CHANNELS_AT_FIRST: Mapping[str, Mapping[str, Any]] = {
    "S": {"lateness": "30 minutes", "retention": "90 minutes"},
    "T": {"lateness": "30 minutes", "clock": "S", "retention": "90 minutes"},
    "P": {"lateness": "30 minutes", "clock": "S", "retention": "100 minutes"},
    "Q": {"lateness": "30 minutes", "idle": "20 minutes", "retention": "1 h"},
    "N": {"lateness": "30 minutes", "clock": "S", "retention": "100 minutes"},
    "M": {"lateness": "30 minutes", "clock": "S", "retention": "100 minutes"},
    "readings": {
        "kind": "rows",
        "schema": "id string, ts timestamp, room string, temp double",
        "lateness": "40 minutes",
        "idle": "15 minutes",
        # Longer than a row is late: one that is gone is forgotten, and would be taken anew with its table.
        "retention": "110 minutes",
    },
    "quakes": {"lateness": "30 days"},
}
QUERIES_AT_FIRST = {
    "pairs": 'SELECT <pair k="{x}">{y}</pair> FROM S/a/k->x FOLLOWED BY {x = y, 1 h} S/b/k->y PUBLISH P',
    "met": "P/pair/@k->x JOIN {x = y, 1 h} T/k->y PUBLISH Q",
    "last": "Q//k->x JOIN {x = y, 1 h} P//k->y JOIN {y = z, 1 h} T/k->z",
    "near": "S/*[./k->x][./m->m] JOIN {x = y AND m != n, 10 minutes, ONCE} S/*[./k->y][./m->n]",
    "single": "S/a[./m > 5]",
    "held": "S/a[./k->x] JOIN {x = y, 30 minutes} S/b/k->y ON CHANGE RETRACT",
    "unmet": "S/a/k->x NOT FOLLOWED BY {x = y, 20 minutes} T/k->y",
    **{
        f"unmet_{name}": f"S/a/k->x NOT FOLLOWED BY {{x != y, 1 minute}} T/k->y CONSISTENCY {level}"
        for name, level in (
            ("middle", "MIDDLE"),
            ("between", "BLOCKING 2 minutes MEMORY 20 minutes"),
            ("weak", "WEAK"),
        )
    },
    # Nothing settles these channels.
    "clear": "weather->w[./origin->o1] WITHOUT {o1 = o2, w - f IN [0 s, 1 h]} "
    "flights->f[./dep_delay >= 60][./origin->o2]",
    "warm": "SELECT count() AS n, avg(t) AS mean, r FROM readings[./room->r][./temp->t] "
    "WINDOW 30 minutes EVERY 10 minutes GROUP BY r",
    "alone": "S/b[./m > 4][./k->x] WITHOUT {x = y, 15 minutes} P/pair/@k->y",
    "told": 'SELECT <unmet k="{x}"/> FROM S/a/k->x NOT FOLLOWED BY {x = y, 10 minutes} T/k->y PUBLISH N',
    "heard": "N/unmet/@k->x JOIN {x = y, 1 h} T/k->y",
    "quiet": "N/unmet/@k->x NOT FOLLOWED BY {x = y, 15 minutes} N/unmet/@k->y",
    "doubted": 'SELECT <unmet k="{x}"/> FROM S/a/k->x NOT FOLLOWED BY {x = y, 10 minutes} T/k->y '
    "PUBLISH M CONSISTENCY MIDDLE",
    "believed": "M/unmet/@k->x FOLLOWED BY {x = y, 1 h} S//k->y ON CHANGE RETRACT",
    "next": "readings[./room->r][./temp->t] NEXT {r = q, 1 h} readings[./room->q][./temp->u]",
    "soon": "readings[./room->r][./temp->t] NEXT {r = q, 1 h} readings[./room->q][./temp->u] CONSISTENCY MIDDLE",
    "rising": "SELECT r, t, u FROM readings[./room->r][./temp->t] "
    "FOLD {r = q, 1 h WHILE u > last(u, t)} readings[./room->q][./temp->u]",
    "fog": "weather->w[./visib <= 1][./origin->o1] FOLLOWED BY {o1 = o2, 2 h} "
    "flights->f[./dep_delay >= 60][./origin->o2]",
    "again": "quakes->a[./guid->g1][./title->t1] JOIN {g1 = g2 AND t1 != t2, 2 days} "
    "quakes->b[./guid->g2][./title->t2]",
    "both": "quakes->a[./guid->g1][./channel_title->c1] JOIN {g1 = g2 AND c1 != c2, 2 days, ONCE} "
    "quakes->b[./guid->g2][./channel_title->c2]",
}
LATER = (
    "S/*[./k->x] JOIN {x = y, @W minutes} T/k->y",
    "S/*[./k->x] JOIN {x = y, @W minutes} T/k->y STARTING ALL",
    "S/a[./k->x][./m->m] FOLLOWED BY {x = y AND m < n, @W minutes} S/b[./k->y][./m->n] STARTING ALL",
    "S/a[./m = @N] STARTING ALL",
    "P/pair/@k->x FOLLOWED BY {x = y, @W minutes} P/pair/@k->y",
    "S/a/k->x JOIN {x = y, @W minutes} T/k->y JOIN {y = z, @W minutes} P//k->z",
    "S/a/k->x FOLLOWED BY {x = y, @W minutes} T/k->y PUBLISH Q",
    "readings->a[./room->r][./temp > 25] JOIN {r = q, @W minutes} readings->b[./room->q][./temp < 15]",
    "weather->w[./visib < @N][./origin->o]",
)


class Crash(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Round:
    """What comes in one round."""

    lines: Sequence[str]
    """Of the event file."""
    readings: Sequence[Mapping[str, object]]
    """A table of rows."""
    feeds: Mapping[str, bytes]
    """By address, what the feeds say now."""


def workload(seed: int, rounds: int) -> list[Round]:
    """Equal seeds give equal rounds."""
    generator, removals = random.Random(seed), random.Random(seed)
    quakes = _entries("earthquakes-past-day.atom.gz")
    with gzip.open(str(_CORPUS / "new-york-2013.ndjson.gz"), "rt", encoding="utf-8") as file:
        rows = file.read().splitlines()[: rounds * 6]
    live: list[str] = []
    found = []
    for number in range(rounds):
        lines: list[str] = []
        if number == 0:
            lines += [_line(register={"name": n, "text": t}) for n, t in QUERIES_AT_FIRST.items()]
        elif removals.random() < 0.5:
            # Some matches with it were seen already, and nothing else is that comes now.
            id_ = f"S{number - 1}-{removals.randrange(4)}"
            lines.append(_line(retract={"channel": "S", "id": id_}))
        for event in range(generator.randrange(4, 12)):
            lines.append(_event(generator, number, event))
            if generator.random() < 0.12:
                name, text = f"L{number}_{event}", _later(generator)
                live.append(name)
                lines.append(_line(register={"name": name, "text": text}))
            if live and generator.random() < 0.07:
                lines.append(_line(drop=live.pop(generator.randrange(len(live)))))
            if generator.random() < 0.02:
                lines.append(_line(flush=True))
            if generator.random() < 0.01:
                lines.append(_line(register={"name": "pairs", "text": "S//taken"}))
        lines += [*rows[number * 6 : number * 6 + 6], *_taken_back(number)]
        if number % 3 == 2:
            beat = START + number * _ROUND - timedelta(minutes=25)
            lines.append(_line(heartbeat={"channel": "T", "ts": beat.isoformat()}))
        readings = [
            {
                "id": f"r{number}-{n}",
                "ts": _time(generator, number).isoformat(),
                "room": f"room {generator.randrange(5)}",
                "temp": generator.randrange(100, 300) / 10,
            }
            for n in range(generator.randrange(0, 12))
        ]
        feeds = {
            f"http://{name}.example/feed": _feed(
                name, quakes[max(0, len(quakes) - 10 * number - 10 * n) :][:25], number
            )
            for n, name in enumerate(_FEEDS)
        }
        found.append(Round(lines, readings, feeds if number % 3 == 0 else {}))
    return found


def _time(generator: random.Random, number: int) -> datetime:
    late = timedelta(minutes=generator.choice([0, 0, 0, 0, 5, 20, 45, 90]))
    return START + number * _ROUND + timedelta(seconds=generator.randrange(400)) - late


def _event(generator: random.Random, number: int, event: int) -> str:
    channel, name = generator.choice([("S", "a"), ("S", "b"), ("T", "t")])
    k, m = generator.randrange(24), generator.randrange(10)
    xml = f"<k>{k}</k>" if channel == "T" else f"<{name}><k>{k}</k><m>{m}</m></{name}>"
    if generator.random() < 0.02:
        xml = "<not-well-formed>"
    return _line(channel=channel, id=f"{channel}{number}-{event}", ts=_time(generator, number).isoformat(), xml=xml)


def _taken_back(number: int) -> list[str]:
    """An event that nothing follows within a minute, and one that comes late and follows that of two rounds ago."""

    def line(channel: str, of: int, seconds: int, xml: str) -> str:
        time = START + of * _ROUND + timedelta(seconds=seconds)
        return _line(channel=channel, id=f"{channel}{number}-alone", ts=time.isoformat(), xml=xml)

    late = [line("T", number - 2, 330, "<k>99</k>")] if number > 1 else []
    return [line("S", number, 300, "<a><k>98</k><m>1</m></a>"), *late]


def _later(generator: random.Random) -> str:
    text = generator.choice(LATER)
    return text.replace("@W", str(generator.choice([5, 20, 60, 80]))).replace("@N", str(generator.randrange(1, 9)))


def _line(**values: object) -> str:
    return json.dumps(values)


def _entries(name: str) -> list[str]:
    with gzip.open(str(_CORPUS / name), "rt", encoding="utf-8") as file:
        text = file.read()
    return [f"<entry>{part.partition('</entry>')[0]}</entry>" for part in text.split("<entry>")[1:]]


def _feed(name: str, entries: Sequence[str], number: int) -> bytes:
    # Some entries are told differently later.
    told = [entry.replace("<title>M ", "<title>M 1") if (len(entry) + number) % 7 == 0 else entry for entry in entries]
    head = (
        '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:georss="http://www.georss.org/georss">'
        f"<title>Quakes, {name}</title><id>urn:{name}</id><updated>2018-12-07T05:59:50Z</updated>"
    )
    return f"{head}{''.join(told)}</feed>".encode()


# -- running ---------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """A run in a folder, which goes on where it was when it is opened again."""

    folder: Path
    rounds: Sequence[Round]
    settings: Settings = field(default_factory=Settings)
    spark: SparkSession | None = None

    def play(self) -> None:
        """Go on to the end."""
        self.folder.mkdir(exist_ok=True)
        with busy_upkeep(), xscl.connect(home=self.folder / "home", spark=self.spark, settings=self.settings) as engine:
            self.consume(engine)
            self._prepare(engine)
            done = self.folder / "rounds"
            for number in range(int(done.read_text()) if done.exists() else 0, len(self.rounds)):
                self._round(engine, number)
                _replace(done, str(number + 1))

    def consume(self, engine: Engine) -> None:
        """Read what is new, and keep it together with the cursor.

        It is done between any two commits of batches, so that nothing is too old before it is read.
        """
        _, cursor = self.consumed()
        listing = engine.matches(after=cursor)
        ids = [f"{'+' if match.retracted is None else '-'}{match.id}" for match in listing]
        if listing.cursor != cursor:
            with (self.folder / "consumed.ndjson").open("a") as file:
                file.write(json.dumps({"ids": ids, "cursor": listing.cursor}) + "\n")

    def consumed(self) -> tuple[list[str], str]:
        """The ids of the matches that were read, with + if they came and - if they went, and the cursor."""
        path = self.folder / "consumed.ndjson"
        parts = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [id_ for part in parts for id_ in part["ids"]], parts[-1]["cursor"] if parts else "start"

    def _prepare(self, engine: Engine) -> None:
        there = engine.home.catalog.ask(read_channels)
        for name, options in CHANNELS_AT_FIRST.items():
            if name not in there:
                engine.add_channel(name, **options)
        with engine.home.catalog.read() as connection:
            known = set(connection.scalars(sa.select(FEEDS.c.url)))
        for name in _FEEDS:
            if f"http://{name}.example/feed" not in known:
                add_feed(engine.home.catalog, f"http://{name}.example/feed", now=_micros(0), channel="quakes")

    def _round(self, engine: Engine, number: int) -> None:
        work = self.rounds[number]
        events = self.folder / "events.ndjson"
        text = "".join(f"{line}\n" for one in self.rounds[: number + 1] for line in one.lines).encode()
        have = events.stat().st_size if events.exists() else 0
        with events.open("ab") as file:
            file.write(text[have:])
        looks = engine.follow(events, every="1 h")
        while next(looks) != IntakeReport():
            pass
        looks.close()
        if work.readings:
            engine.ingest(pa.Table.from_pylist(list(work.readings)), channel="readings", id="id", ts="ts")
        if work.feeds:
            _poll(engine, work.feeds, number)
        if number % 4 == 3:
            _take_late_again(engine)
        engine.run_once(batch_docs=200, stop=lambda: bool(self.consume(engine)))
        self.consume(engine)
        if number % 8 == 4:
            self._copy(engine)

    def _copy(self, engine: Engine) -> None:
        """Have a copy of the home, made of an archive."""
        archive = self.folder / "archive.tar.gz"
        with archive.open("wb") as file:
            export_home(engine.home, file)
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        with archive.open("rb") as file:
            import_home(self.folder / "copy", file)


def _take_late_again(engine: Engine) -> None:
    try:
        engine.replay_late(channel="S")
    except XsclError as error:
        # Those that are held were taken again before this round was begun anew.
        if error.condition != "XSCL_LATE_GONE":
            raise


_BUSY: Mapping[ModuleType, Mapping[str, float]] = {
    upkeep: {"EVERY": 2, "_TRIMS": 2},
    event_upkeep: {"FANOUT": 3, "SMALL": 60, "_IDS": 20},
    result_upkeep: {"FANOUT": 3, "SMALL": 60},
    catalog_upkeep: {"FEWEST_DROPPED": 2},
    old_files: {"GRACE": 0},
    state_merges: {"_FILES": 3},
}


@contextmanager
def busy_upkeep() -> Iterator[None]:
    """Upkeep has much to do, and does it soon."""
    with ExitStack() as stack:
        for module, values in _BUSY.items():
            for name, value in values.items():
                stack.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, value)
        yield


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def _micros(number: int) -> int:
    return int((START + timedelta(days=10) + number * _ROUND).timestamp()) * 1_000_000


def _poll(engine: Engine, feeds: Mapping[str, bytes], number: int) -> None:
    slept = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34"]

    def answer(request: httpx2.Request) -> httpx2.Response:
        url = f"http://{request.headers['host']}{request.url.path}"
        return httpx2.Response(200, content=feeds[url], headers={"content-type": "application/atom+xml"})

    report = poll(
        engine.home,
        everything=True,
        clock=Clock(lambda: _micros(number) + int(slept * 1e6), sleep),
        chance=lambda: 0.5,
        resolve=resolve,
        transport=httpx2.MockTransport(answer),
    )
    assert not report.problems, report.problems


# -- what it has come to ---------------------------------------------------------------------------------------


def outcome_of(run: Run) -> dict[str, list[Any]]:
    """Everything of a run that is at its end, and that must not depend on where it was ended before."""
    with xscl.connect(home=run.folder / "home") as engine:
        assert engine.run_once() == []
        return _outcome(engine, run)


def _outcome(engine: Engine, run: Run) -> dict[str, list[Any]]:
    run.consume(engine)
    matches = list(engine.matches())
    seen, cursor = run.consumed()
    net: set[str] = set()
    for line in seen:
        assert (line[1:] in net) == (line[0] == "-"), "a cursor repeats, or something goes that had not come"
        net ^= {line[1:]}
    assert {match.id for match in matches} <= net, "a cursor skips"
    catalog = engine.home.catalog
    assert unnamed_files(engine.home) == [], "files that no row names are left"
    spans = [(row["first"], row["last"]) for row in catalog.rows(BATCHES)]
    assert all(a[1] < b[0] for a, b in zip(sorted(spans), sorted(spans)[1:], strict=False)), "batches overlap"
    processed, last = catalog.ask(read_last_places)
    assert processed == last
    _check_archive(engine, matches, cursor)
    with catalog.read() as connection:
        kept = keep_times(connection)
        gone = total(connection, "late")

    def is_kept(row: Mapping[str, Any]) -> bool:
        """Upkeep removes others, sooner or later."""
        return row["channel"] not in kept or bool(row["ts"] >= kept[row["channel"]])

    paths = engine.home.paths([str(row["path"]) for row in catalog.rows(INTAKE_FILES)])
    wanted = ["docid", "channel", "id", "version", "ts", "late", "behind", "declared", "content", "cells"]
    events = ds.dataset(paths, schema=EVENT_SCHEMA).to_table(columns=wanted).to_pylist()
    numbers = {event.pop("docid") for event in events if is_kept(event)}
    refused = ("channel", "id", "ts", "condition", "message")
    late = list(catalog.rows(LATE))
    of_channel = ("name", "newest", "processed", "published", "watermark", "held_from", "kept_from")
    listed = {match.query for match in matches}

    return {
        "matches": sorted(_text(match_json(match)) for match in matches),
        "seen": [f"{number} {line}" for number, line in enumerate(seen)],
        "events": sorted(_text(event) for event in events if is_kept(event)),
        "late": sorted(_text([row[name] for name in refused]) for row in late if is_kept(row)),
        "late ever": [gone + len(late)],
        "again": sorted(_text([row["channel"], row["id"]]) for row in late if is_kept(row) and row["replayed"]),
        "rejected": sorted(
            _text({name: _shown(row[name]) for name in (*refused, "source")}) for row in catalog.rows(REJECTED)
        ),
        "removed": sorted(
            _text([row["channel"], row["id"]]) for row in catalog.rows(REMOVALS) if row["docid"] in numbers
        ),
        "places": [last],
        "queries": sorted(
            (row["qid"], row["docid_until"] == NEVER, row["text"], row["late_for"])
            for row in catalog.rows(QUERIES)
            if row["docid_until"] == NEVER or row["qid"] in listed
        ),
        "channels": sorted(_text([row[name] for name in of_channel]) for row in catalog.rows(CHANNELS)),
        "feeds": sorted((row["url"], row["items"], row["versions"]) for row in catalog.rows(FEEDS)),
    }


def _check_archive(engine: Engine, matches: Sequence[Match], cursor: str) -> None:
    """A home that is made of an archive of this one lists what this one lists."""
    with io.BytesIO() as stream, tempfile.TemporaryDirectory() as folder:
        export_home(engine.home, stream)
        stream.seek(0)
        import_home(Path(folder) / "copy", stream)
        with xscl.connect(home=Path(folder) / "copy") as copy:
            assert list(map(match_json, copy.matches())) == list(map(match_json, matches)), "an archive differs"
            assert list(copy.matches(after=cursor)) == [], "a cursor means something else in a copy"


def _shown(value: object) -> object:
    """Without the folder of the run."""
    return f"{Path(value).name}" if isinstance(value, str) and value.startswith("/") else value


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def differences(expected: Mapping[str, list[Any]], found: Mapping[str, list[Any]]) -> list[str]:
    """What is missing and what is too much, in words."""
    told = []
    for name in expected:
        missing = Counter(map(str, expected[name])) - Counter(map(str, found[name]))
        added = Counter(map(str, found[name])) - Counter(map(str, expected[name]))
        for word, which in (("missing", missing), ("too many", added)):
            if which:
                told.append(f"{name}: {sum(which.values())} {word}, as {next(iter(which))[:300]}")
    return told


# -- crashes ---------------------------------------------------------------------------------------------------


@contextmanager
def dying(at: str, times: int) -> Iterator[list[str]]:
    """The process ends, for all it can tell, when it comes to a step for so many times.

    From then on nothing is committed and nothing removed, whatever handles the exception; memory is the caller's to
    throw away.  Gives the list of steps since the end.
    """
    left, dead = times, []
    real = Path.unlink, shutil.rmtree

    def hook(name: str) -> None:
        nonlocal left
        left -= name == at
        if dead or (name == at and left == 0):
            dead.append(name)
            raise Crash(f"{at}:{times}")

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if not dead:
            real[0](path, missing_ok=missing_ok)

    def rmtree(*arguments: Any, **options: Any) -> None:
        if not dead:
            real[1](*arguments, **options)

    Path.unlink, shutil.rmtree = unlink, rmtree  # type: ignore[method-assign, assignment]
    try:
        with hooked(hook):
            yield dead
    finally:
        Path.unlink, shutil.rmtree = real  # type: ignore[method-assign]
        for folder in list(scratch._held):
            if folder.parent.name == "programs":
                scratch._held.pop(folder).close()


def crashed(run: Run, at: str, times: int) -> bool:
    """Play a run on until it comes to a step for so many times, and ends there; False if it came to its end before."""
    try:
        with dying(at, times):
            run.play()
    except Crash:
        return True
    return False


def killed(run: Run, at: str, times: int, arguments: Sequence[str]) -> bool:
    """The same with a process of its own, which is killed."""
    environment = {**os.environ, VARIABLE: f"{at}:{times}", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, __file__, str(run.folder), *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode == -signal.SIGKILL:
        return True
    assert ended.returncode == 0, ended.stderr
    return False


def reached(run: Run) -> Counter[str]:
    """Play a run to its end; how often it came to each step."""
    counts: Counter[str] = Counter()
    with hooked(lambda name: counts.update([name])):
        run.play()
    assert set(counts) <= set(STEPS)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    settings = Settings("spark") if given.spark else Settings()
    Run(given.folder, workload(given.seed, given.rounds), settings).play()


if __name__ == "__main__":
    main()
