"""A home under a steady load, where queries come and go and everything grows old: does it level off?

    python tests/bench/soak.py [--minutes 30] [--out build/soak]

Feeds are polled from a local server, event files grow and are followed, tables of rows are taken in, queries of all
kinds are registered and dropped, matches are listed.  Event times run ahead of the wall, so that many retentions
pass.  Samples are written as CSV; at the end the last third of each series is held against the middle one, a
table and plots are written, and the process ends with 1 if something still grows.
"""

from __future__ import annotations

import argparse
import csv
import gc
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
from feed_server import FeedServer, Network, reply

from xscl.answers.matches.listing import list_matches
from xscl.base.errors import XsclError
from xscl.bench.apart import resident_memory
from xscl.bench.plot import Plot, draw
from xscl.catalog.subscriptions import add_feed
from xscl.engine import Engine
from xscl.intake.host_queue import Clock
from xscl.intake.polling import poll
from xscl.store.join_state import held_state

RETENTION_S = 6 * 3600
WINDOW_S = 2 * 3600
LATENESS_S = 600
FEEDS = 12
LIVE = 60
"""Queries that are there at a time."""
WORDS = [f"word{number}" for number in range(400)]
FOLDERS = ("events", "witness", "results", "programs")

BOUNDED: Mapping[str, float] = {
    "python_mb": 0.10,
    "java_mb": 0.15,
    "files": 0.25,
    "events_mb": 0.25,
    "witness_mb": 0.25,
    "results_mb": 0.5,
    "catalog_mb": 0.20,
    "wal_mb": 0.50,
    "events": 0.15,
    "event_ids": 0.15,
    "state_rows": 0.20,
    "matches": 0.5,
    "queries_rows": 0.30,
    "groups_rows": 0.30,
    "variables_rows": 0.30,
    "p50_ms": 0.30,
    "p95_ms": 0.40,
}
"""Series that must level off, and by which part the last third may lie above the middle one."""


@dataclass
class World:
    """What the home is given; the same for one seed."""

    folder: Path
    choose: random.Random
    began: float
    step_s: float
    """Of event time in a cycle, so that sizes do not depend on the machine."""
    cycle: int = 0
    numbers: Iterator[int] = field(default_factory=itertools.count)
    names: deque[str] = field(default_factory=deque)

    def now(self) -> float:
        """Event time, seconds since the epoch."""
        return 1_700_000_000 + self.cycle * self.step_s

    def title(self) -> str:
        return " ".join(self.choose.choices(WORDS, k=2))

    def feed(self, number: int) -> bytes:
        """A feed whose last items are new."""
        items = "".join(
            f"<item><guid>f{number}-{self.now():.0f}-{item}</guid><title>{self.title()}</title>"
            f"<pubDate>{datetime.fromtimestamp(self.now(), UTC):%a, %d %b %Y %H:%M:%S +0000}</pubDate>"
            f"<link>http://feed{number}.example/{next(self.numbers)}</link></item>"
            for item in range(3)
        )
        return f"<rss><channel><title>Feed {number}</title><link>http://feed{number}.example/</link>{items}</channel></rss>".encode()

    def news(self) -> str:
        """A line of an event file, now and then late or broken."""
        number = next(self.numbers)
        if number % 211 == 0:
            return "{broken"
        ts = self.now() - (self.choose.random() * LATENESS_S * (1.5 if number % 17 == 0 else 0.5))
        xml = f"<story><title>{self.title()}</title><by>{self.choose.choice(WORDS)}</by></story>"
        return json.dumps({"channel": "news", "id": f"n{number}", "ts": round(ts, 3), "xml": xml})

    def readings(self, rows: int) -> pa.Table:
        start, begin = self.now(), next(self.numbers) * 1_000
        times = [int((start + n) * 1e6) for n in range(rows)]
        return pa.table(
            {
                "seq": list(range(begin, begin + rows)),
                "time": pa.array(times, pa.timestamp("us", "UTC")),
                "sensor": [self.choose.choice(WORDS[:20]) for _ in range(rows)],
                "value": [round(self.choose.gauss(20, 5), 2) for _ in range(rows)],
            }
        )

    def query(self) -> str:
        """A text that hardly anyone asked before."""
        window = f"{self.choose.randint(60, WINDOW_S)} s"
        limit = round(self.choose.uniform(25, 35), 3)
        kind = self.choose.randrange(6)
        starting = self.choose.choice(["", "", " STARTING ALL"])
        if kind == 0:
            return f"items//item->i[./title->t] FOLLOWED BY {{t = u, {window}}} news//story->n[./title->u]{starting}"
        if kind == 1:
            word = self.choose.choice(WORDS)
            return f"news//story->a[./by = '{word}']{starting}"
        if kind == 2:
            return f"news//story->a[./by->x][./title->t] FOLLOWED BY {{x = y, {window}}} news//story->b[./by->y]"
        if kind == 3:
            return (
                f"readings->r[./value > {limit}][./sensor->s] FOLLOWED BY {{s = q, {self.choose.randint(5, 60)} s}} "
                f"readings->o[./value > {limit}][./sensor->q]"
            )
        if kind == 4:
            return f"readings->r[./value > {limit + 8}] PUBLISH alarms"
        return f"alarms//readings->a[./sensor->s] FOLLOWED BY {{s = q, {window}}} alarms//readings->b[./sensor->q]"


def prepare(engine: Engine, server: FeedServer) -> None:
    held = f"{RETENTION_S} s"
    shape = {"lateness": f"{LATENESS_S} s", "retention": held}
    for name in ("news", "items", "items.raw", "alarms"):
        engine.add_channel(name, **shape)
    engine.add_channel(
        "readings", kind="rows", schema="seq bigint, time timestamp, sensor string, value double", **shape
    )
    for number in range(FEEDS):
        add_feed(engine.home.catalog, f"http://feed{number}.example/rss", now=0)


def clock(world: World) -> Clock:
    async def sleep(seconds: float) -> None:
        return None

    return Clock(lambda: int(world.now() * 1e6), sleep)


# -- samples -------------------------------------------------------------------------------------------------------


def sample(engine: Engine, world: World, batches: Sequence[float], seconds: float, listed: int) -> dict[str, float]:
    home = engine.home
    sizes = dict.fromkeys(FOLDERS, 0)
    files = 0
    for name in FOLDERS:
        for path in home.folder(name).rglob("*"):
            try:
                if path.is_file():
                    files += 1
                    sizes[name] += path.stat().st_size
            except FileNotFoundError:
                pass
    with home.catalog.read() as connection:
        counts = {
            name: connection.exec_driver_sql(f"select count(*) from {table}").scalar()
            for name, table in {
                "event_ids": "event_ids",
                "queries_rows": "queries",
                "groups_rows": "groups",
                "instances_rows": "instances",
                "variables_rows": "variables",
                "templates": "templates",
                "batches_rows": "batches",
                "late": "late",
                "rejected": "rejected",
                "old_files": "old_files",
                "event_files": "intake_files",
            }.items()
        }
        events = connection.exec_driver_sql("select coalesce(sum(rows), 0) from intake_files").scalar()
        state = held_state(home, connection).rows
    catalog = home.root / "catalog.db"
    wal = home.root / "catalog.db-wal"
    cuts = quantiles(batches, n=20) if len(batches) > 1 else [0.0] * 19
    return {
        "seconds": round(seconds, 1),
        "cycles": world.cycle,
        "python_mb": resident_memory() / 1e6,
        "java_mb": java_memory() / 1e6,
        "files": files,
        **{f"{name}_mb": size / 1e6 for name, size in sizes.items()},
        "catalog_mb": catalog.stat().st_size / 1e6,
        "wal_mb": wal.stat().st_size / 1e6 if wal.exists() else 0.0,
        "events": events,
        "state_rows": state,
        "live": len(world.names),
        "matches": listed,
        "batches": len(batches),
        "p50_ms": 1e3 * cuts[9],
        "p95_ms": 1e3 * cuts[18],
        **counts,
    }


def java_memory() -> int:
    """Resident bytes of the Java processes that this one started."""
    found, waiting = 0, [os.getpid()]
    while waiting:
        parent = waiting.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                children = [int(child) for child in task.read_text().split()]
                waiting += children
                for child in children:
                    if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                        found += int(Path(f"/proc/{child}/statm").read_text().split()[1]) * 4096
            except FileNotFoundError:
                continue
    return found


def verdicts(rows: Sequence[Mapping[str, float]]) -> list[dict[str, object]]:
    """Of each series: the medians of its middle and its last third, and whether it has levelled off."""
    third = len(rows) // 3
    found: list[dict[str, object]] = []
    for name, tolerance in BOUNDED.items():
        middle, last = (median(row[name] for row in rows[a:b]) for a, b in ((third, 2 * third), (2 * third, len(rows))))
        # Below what matters there is nothing to say.
        floor = {"wal_mb": 16.0, "java_mb": 50.0, "files": 20.0, "p50_ms": 5.0, "p95_ms": 20.0}.get(name, 1.0)
        level = last <= middle * (1 + tolerance) + floor
        found.append(
            {"series": name, "middle": round(middle, 2), "last": round(last, 2), "tolerance": tolerance, "level": level}
        )
    return found


def write(rows: Sequence[Mapping[str, float]], folder: Path, told: Sequence[Mapping[str, object]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "soak.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    lines = ["| series | median of the middle third | of the last third | levels off |", "|---|---|---|---|"]
    lines += [f"| `{v['series']}` | {v['middle']:,} | {v['last']:,} | {'yes' if v['level'] else 'NO'} |" for v in told]
    (folder / "soak.md").write_text("\n".join(lines) + "\n")
    plots = {
        "memory": ("MB", ["python_mb", "java_mb"]),
        "disk": ("MB", ["events_mb", "witness_mb", "results_mb", "catalog_mb", "wal_mb"]),
        "files": ("files", ["files", "event_files", "old_files"]),
        "state": ("rows", ["events", "event_ids", "state_rows"]),
        "catalogue": ("rows", ["queries_rows", "groups_rows", "instances_rows", "variables_rows", "late", "rejected"]),
        "answers": ("matches listed", ["matches"]),
        "latency": ("ms a batch", ["p50_ms", "p95_ms"]),
    }
    for name, (unit, series) in plots.items():
        curves = {one: tuple((row["seconds"] / 60, row[one]) for row in rows) for one in series}
        draw(Plot(f"Soak: {name}", "minutes", unit, curves), folder / f"soak-{name}")


# -- the run -------------------------------------------------------------------------------------------------------


def soak(engine: Engine, world: World, server: FeedServer, given: argparse.Namespace) -> list[dict[str, float]]:
    """Go on for so many minutes; the samples."""
    network = Network(server)
    log = world.folder / "log" / "news.ndjson"
    log.parent.mkdir()
    log.touch()
    followed = engine.follow(log.parent, every="1 ms")
    rows: list[dict[str, float]] = []
    recent: deque[tuple[float, float]] = deque()
    end, next_sample = world.began + given.minutes * 60, 0.0
    listed = 0
    while time.monotonic() < end:
        world.cycle += 1
        cycle = world.cycle
        with log.open("a") as file:
            file.writelines(world.news() + "\n" for _ in range(20))
        if cycle % 200 == 0:
            log.rename(log.with_name(f"news-{cycle}.ndjson"))
            for old in sorted(log.parent.glob("news-*"))[:-1]:
                old.unlink()
            log.touch()
        for report in followed:
            if not report.taken + report.duplicates + report.rejected:
                break
        engine.ingest(world.readings(100), channel="readings", ts="time", id="seq")
        if cycle % 10 == 0:
            for number in range(FEEDS):
                server.routes[f"feed{number}.example/rss"] = reply(
                    200, world.feed(number), content_type="application/xml"
                )
            server.log.clear()
            network.resolved.clear()
            network.connections.clear()
            poll(engine.home, everything=True, clock=clock(world), resolve=network.resolve, transport=network)
        for _ in range(given.churn):
            name = f"s{next(world.numbers)}"
            try:
                engine.register(world.query(), name=name)
                world.names.append(name)
            except XsclError as error:
                if error.condition != "XSCL_PUBLISH_CYCLE":
                    raise
            if len(world.names) > LIVE:
                engine.drop(world.names.popleft())
        began = time.monotonic()
        engine.run_once()
        recent.append((time.monotonic(), time.monotonic() - began))
        while recent and recent[0][0] < time.monotonic() - 60:
            recent.popleft()
        elapsed = time.monotonic() - world.began
        if elapsed >= next_sample:
            next_sample = elapsed + given.sample
            listed = sum(1 for _ in list_matches(engine.home)) if given.list else 0
            gc.collect()
            rows.append(sample(engine, world, [each for _, each in recent], elapsed, listed))
            if sys.stderr.isatty() or given.verbose:
                shown = {name: round(value, 1) for name, value in rows[-1].items()}
                print(json.dumps(shown), file=sys.stderr, flush=True)
    return rows


def main() -> int:
    """Run, write, and say what grows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    parser.add_argument("--sample", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--cycles", type=int, default=180, help="rounds in which a retention passes")
    parser.add_argument("--churn", type=int, default=3, help="queries registered and dropped a cycle")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grace", type=float, default=600, help="seconds that files out of use are kept")
    parser.add_argument("--no-list", dest="list", action="store_false", help="do not list the matches")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    import xscl.store.retired_files

    xscl.store.retired_files.GRACE = int(given.grace * 1e6)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    world = World(folder, random.Random(given.seed), time.monotonic(), RETENTION_S / given.cycles)
    server = FeedServer()
    try:
        with xscl.connect(home=folder / "home") as engine:
            prepare(engine, server)
            rows = soak(engine, world, server, given)
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
    told = verdicts(rows)
    write(rows, given.out, told)
    growing = [verdict["series"] for verdict in told if not verdict["level"]]
    print((given.out / "soak.md").read_text())
    print("levels off" if not growing else f"still growing: {', '.join(map(str, growing))}")
    return 1 if growing else 0


if __name__ == "__main__":
    sys.exit(main())
