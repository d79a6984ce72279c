"""Real archives of polls into homes, each archive twice: items, feeds, versions, rejections and entries a second.

    python tests/bench/archives.py [--folder FOLDER] [FILE ...]

The folder is ``raw`` of the real corpora (``corpora``), unless another is given.  Archives are ``.tar.xz`` with one
poll a member, in their order, and folders of ``.gz`` files.  The second pass over the same polls must add nothing.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpora import RAW

from xscl.answers.feed_listing import feed_rows
from xscl.base.errors import XsclError
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.base.types import Event
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.records import FeedDocument, Record, rejected
from xscl.intake.intake import Intake, IntakeReport
from xscl.store.home import Home, init_home


def polls(path: Path) -> Iterator[tuple[str, bytes]]:
    """The members of an archive, read as a stream."""
    if path.is_dir():
        for file in sorted(path.glob("*.gz")):
            yield str(file), gzip.decompress(file.read_bytes())
        return
    with tarfile.open(path, "r|xz") as archive:
        for member in archive:
            opened = archive.extractfile(member) if member.isfile() else None
            if opened is not None:
                yield f"{path.name}/{member.name}", opened.read()


def records(path: Path, channel: str, counts: dict[str, int]) -> Iterator[Record]:
    """What the members hold; counts polls, bytes and entries as they are read."""
    for name, data in polls(path):
        counts["polls"] += 1
        counts["bytes"] += len(data)
        try:
            document = in_fresh_dictionary(read_feed, data, source=name, channel=channel)
        except XsclError as error:
            yield rejected(name, error, channel)
            continue
        if isinstance(document, FeedDocument):
            counts["entries"] += len(document.entries)
        yield document or Event(channel, xml=data, source=name)


def ingest(home: Home, path: Path, channel: str) -> tuple[IntakeReport, dict[str, int], float, float]:
    """The report, what was read, and the seconds of wall clock and of this process's processors."""
    counts = {"polls": 0, "bytes": 0, "entries": 0}
    wall, cpu = time.perf_counter(), time.process_time()
    report = Intake(home).take(records(path, channel, counts))
    return report, counts, time.perf_counter() - wall, time.process_time() - cpu


def passes(home: Home, path: Path) -> int:
    """Ingest an archive twice and print what came of it; how many events the second pass added."""
    name = path.name.partition(".")[0]
    report = IntakeReport()
    for number in (1, 2):
        report, counts, wall, cpu = ingest(home, path, "items")
        rows = list(feed_rows(home.catalog))
        items, versions = (sum(int(str(row[column])) for row in rows) for column in ("items", "versions"))
        print(
            f"{name:20} {number:4} {counts['polls']:6} {counts['bytes'] / 1e6:7.1f} {counts['entries']:8}"
            f" {items:7} {versions:8} {len(rows):7} {report.rejected:8} {wall:7.1f} {cpu:7.1f}"
            f" {counts['entries'] / cpu:15.0f}",
            flush=True,
        )
    reasons = Counter(f"{row['policy']}, because {row['reason']}" for row in rows if row["reason"])
    no_guid = sum(count for reason, count in reasons.items() if "has a guid" in reason)
    for reason, count in reasons.items():
        if "has a guid" not in reason:
            print(f"    {count}: {reason}")
    print(f"    {no_guid} of {len(rows)} feeds without guids: link")
    return report.taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=RAW, help="where the archives are")
    parser.add_argument("names", nargs="*", help="only these of them")
    arguments = parser.parse_args()
    found = [path for path in sorted(arguments.folder.iterdir()) if path.suffix == ".xz" or any(path.glob("*.gz"))]
    paths = [path for path in found if not arguments.names or path.name in arguments.names]
    print(
        "archive              pass  polls      MB  entries   items versions   feeds rejected    wall     cpu  entries/s"
    )
    added = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            added += passes(init_home(Path(folder) / "home"), path)
    return 1 if added else 0


if __name__ == "__main__":
    sys.exit(main())
