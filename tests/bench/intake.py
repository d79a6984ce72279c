"""Inputs taken in by this process and by tasks of Spark: what each costs, and whether both homes are the same.

    python tests/bench/intake.py [--rows 1000000] [--items 100000] [--frame 10000000] [--cores 2] [--only KIND,…]

Rows come as CSV, as CSV in gzip and as Parquet; items of feeds come as a folder of files, as a tar archive, and as one
in gzip.  Each input goes into a home of its own in both places, turn about, and the session has worked before.  A
DataFrame of Spark is taken in by tasks alone.  The script ends with 1 if places, ids or versions differ.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import shutil
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.base.settings import Settings, Where
from xscl.bench.apart import Watch, peak_memory, watched
from xscl.bench.documents import ItemFeed
from xscl.catalog.tables import EVENT_IDS, ROW_RANGES
from xscl.engine import Engine, connect

_ROWS = ("rows.csv", "rows.csv.gz", "rows.parquet")
_FEEDS = ("feeds", "feeds.tar", "feeds.tar.gz")
_FEED = 100
"""Items of a feed."""


def make_rows(folder: Path, count: int) -> None:
    generator = np.random.default_rng(1)
    rooms = pa.array([f"room {number}" for number in range(500)]).take(generator.integers(500, size=count))
    numbers = np.arange(count)
    temps = np.round(generator.normal(20, 5, count), 2)
    table = pa.table({"seq": numbers, "room": rooms, "temp": temps, "at": numbers + 1_700_000_000})
    pq.write_table(table, folder / "rows.parquet", row_group_size=100_000)
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    with (folder / "rows.csv").open("rb") as plain, gzip.open(folder / "rows.csv.gz", "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)


def make_feeds(folder: Path, count: int) -> None:
    feeds = folder / "feeds"
    feeds.mkdir()
    items = list(ItemFeed(1).take(count))
    for number, begin in enumerate(range(0, count, _FEED)):
        entries = "".join(
            f"<item><guid isPermaLink='false'>g{number}-{place}</guid><link>http://h{number}.org/{place}</link>"
            f"<title>{_text(xml, 'title')}</title><description>{_text(xml, 'description')}</description>"
            f"<pubDate>{formatdate(ts)}</pubDate></item>"
            for place, (ts, xml) in enumerate(items[begin : begin + _FEED])
        )
        head = f"<title>F{number}</title><link>http://h{number}.org/</link>"
        text = f"<rss version='2.0'><channel>{head}{entries}</channel></rss>"
        (feeds / f"f{number:06}.xml").write_text(text, encoding="utf-8")
    with tarfile.open(folder / "feeds.tar", "w") as archive:
        archive.add(feeds, "feeds")
    with (folder / "feeds.tar").open("rb") as plain, gzip.open(folder / "feeds.tar.gz", "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)


def _text(xml: str, name: str) -> str:
    return escape(ET.fromstring(xml).findtext(name) or "")


def places(engine: Engine) -> str:
    """Return a digest of all places, ids and versions, in the order of places."""
    ids = [EVENT_IDS.c[name] for name in ("docid", "channel", "id", "version")]
    ranges = [ROW_RANGES.c[name] for name in ("docid", "last_docid", "channel", "prefix", "first", "last")]
    found = hashlib.sha256()
    with engine.home.catalog.read() as connection:
        for columns in (ids, ranges):
            for row in connection.execute(sa.select(*columns).order_by(columns[0])):
                found.update(repr(tuple(row)).encode())
    return found.hexdigest()[:12]


def inputs(folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    for name in _ROWS:
        yield folder / name, {"channel": "r", "ts": "at", "id": "seq"}
    for name in _FEEDS:
        yield folder / name, {"channel": "news"}


def compare(folder: Path, cores: int, only: set[str]) -> bool:
    """Take in each input in both places; return whether all homes are the same."""
    same = True
    with connect(home=folder / "warm", master=f"local[{cores}]", settings=Settings("spark")) as warm:
        session = warm.spark
        warm.ingest(sorted((folder / "feeds").iterdir())[:20], channel="news")
        for path, options in inputs(folder):
            if only and path.name not in only:
                continue
            watches: dict[Where, Watch] = {}
            found: set[tuple[int, int, int, str]] = set()
            chosen: tuple[Where, ...] = ("driver", "spark")
            for where in chosen:
                home = folder / f"home-{where}-{path.name}"
                with connect(home=home, spark=session, settings=Settings(where)) as engine:
                    with watched() as watches[where]:
                        report = engine.ingest(path, **options)
                    found.add((report.taken, report.duplicates, report.rejected, places(engine)))
                shutil.rmtree(home)
            here, there = watches["driver"], watches["spark"]
            print(
                f"{path.name}: {max(found)[0]:,} taken; driver {here.seconds:.2f} s (cpu {here.cpu_s:.2f}), "
                f"tasks {there.seconds:.2f} s (cpu {there.cpu_s:.2f}); wall {there.seconds / here.seconds:.2f}, "
                f"cpu {there.cpu_s / here.cpu_s:.2f}; {'equal' if len(found) == 1 else f'DIFFERENT {found}'}",
                flush=True,
            )
            same &= len(found) == 1
    return same


def take_frame(folder: Path, count: int, cores: int) -> None:
    """Take in a DataFrame of so many rows; tell the memory of this process before and after."""
    with connect(home=folder / "frame", master=f"local[{cores}]") as engine:
        session = engine.spark
        columns = ("id AS seq", "concat('room ', id % 500) AS room", "rand(7) * 40 AS temp", "id + 1700000000 AS at")
        frame = session.range(0, count, 1, 4 * cores).selectExpr(*columns)
        engine.ingest(frame.limit(1_000), channel="few", ts="at", id="seq")
        before = peak_memory()
        with watched() as watch:
            report = engine.ingest(frame, channel="r", ts="at", id="seq")
        print(
            f"DataFrame: {report.taken:,} rows in {watch.seconds:.1f} s, cpu {watch.cpu_s:.1f} s; greatest memory of "
            f"this process {before / 1e6:.0f} MB before, {peak_memory() / 1e6:.0f} MB after"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--frame", type=int, default=10_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    only = set(filter(None, given.only.split(",")))
    if unknown := only - {*_ROWS, *_FEEDS, "frame"}:
        parser.error(f"--only has no {', '.join(sorted(unknown))}; it has {', '.join((*_ROWS, *_FEEDS, 'frame'))}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_rows(folder, given.rows)
        make_feeds(folder, given.items)
        same = compare(folder, given.cores, only) if only != {"frame"} else True
        if given.frame and (not only or "frame" in only):
            take_frame(folder, given.frame, given.cores)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
