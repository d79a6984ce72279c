"""Inputs that are taken in part by part come to what reading them from the beginning comes to."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from budget import examples
from homes_alike import content
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xscl.base.errors import CatalogError
from xscl.base.failpoints import hooked
from xscl.base.types import FIRST_TIME, LAST_TIME, Event, to_micros
from xscl.ingest import archive_parts, archives, csv_files, json_rows, row_files
from xscl.ingest import file_parts as parts_module
from xscl.ingest.file_parts import FilePart, file_parts, read_part
from xscl.ingest.reading import Reading
from xscl.ingest.records import Rejected
from xscl.ingest.sources import read_paths
from xscl.intake import frame_intake, part_intake, part_waves, rows
from xscl.intake.intake import Intake, IntakeReport
from xscl.intake.part_intake import take_parts
from xscl.registry.channels import add_channel
from xscl.spark.places import HERE
from xscl.store.home import Home, init_home
from xscl.store.orphans import tidy, unnamed_files

NOW = 4_000_000_000_000_000
"""After the clock, which registrations ask."""
FEED = (
    b"<rss version='2.0'><channel><title>F</title><link>http://x.org</link>"
    b"<item><guid>1</guid><title>one</title></item><item><guid>2</guid><title>two</title></item></channel></rss>"
)
Before = Callable[[Home], object]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which small files have many blocks, tables, chunks, waves and transactions."""
    monkeypatch.setattr(csv_files, "CSV_BLOCK", 512)
    monkeypatch.setattr(json_rows, "_BLOCK", 128)
    monkeypatch.setattr(row_files, "TABLE_ROWS", 16)
    monkeypatch.setattr(parts_module, "TABLE_ROWS", 16)
    monkeypatch.setattr(parts_module, "_GROUP_BYTES", 600)
    monkeypatch.setattr(rows, "CHUNK_ROWS", 10)
    monkeypatch.setattr(part_waves, "_PARTS", 5)
    monkeypatch.setattr(part_intake, "_PIECES", 3)


def both(folder: Path, paths: Sequence[Path], reading: Reading, before: Before = lambda home: None) -> IntakeReport:
    """Take the paths in both ways, twice each, and compare; the report of the first time."""
    outcomes = []
    for way in ("whole", "parts"):
        home = init_home(folder / way)
        before(home)
        intake = Intake(home, now=lambda: NOW)
        reports = [
            intake.take(read_paths(paths, reading))
            if way == "whole"
            else take_parts(intake, file_parts(paths, reading, HERE), reading, HERE)
            for _ in range(2)
        ]
        outcomes.append((reports, content(home)))
        assert unnamed_files(home) == [] and list(home.folder("programs").iterdir()) == []
        home.catalog.close()
    for whole, parts in zip(*(reports for reports, _ in outcomes), strict=True):
        assert repr(parts) == repr(whole) and parts.problems == whole.problems and parts.flaws == whole.flaws
    for name, found in outcomes[1][1].items():
        assert found == outcomes[0][1][name], name
    return outcomes[0][0][0]


def table(count: int, seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "seq": None if chance.random() < 0.02 else chance.choice([n, n, n, chance.randrange(count)]),
            "at": 1_780_000_000 + chance.randrange(4_000),
            "text": chance.choice(["a", 'with "marks"', "two\nlines", "", "ü", "x\x01"]),
            "value": chance.choice([1, 2.5, None, None]) if n > count // 3 else None,
        }
        for n in range(count)
    ]


def as_csv(found: Sequence[dict[str, Any]], plain: bool) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "text": "t" if plain else row["text"]} for row in found)
    return text.getvalue().encode() + (b"1,2\n\xff,\n\n9,9,9,9" if plain else b"")


def as_lines(found: Sequence[dict[str, Any]]) -> bytes:
    lines = [json.dumps({**row, "seq": str(row["seq"])}) for row in found]
    return "\n".join([*lines[:9], "", "{no json", *lines[9:]]).encode()


@settings(max_examples=examples(6))
@example(seed=27_639, kind="lines", id_="seq", lateness=None, group=40)  # a later wave knows more columns
@given(
    seed=st.integers(0, 1 << 20),
    kind=st.sampled_from(["csv", "plain", "lines", "parquet"]),
    id_=st.sampled_from([None, "seq", "text"]),
    lateness=st.sampled_from([None, "20 minutes"]),
    group=st.sampled_from([7, 40, 1_000]),
)
def test_rows_of_large_files(seed: int, kind: str, id_: str | None, lateness: str | None, group: int) -> None:
    found = table(90, seed)
    reading = Reading("readings", id=id_, ts="at", ts_format="s")

    def before(home: Home) -> None:
        if lateness is not None:
            add_channel(home.catalog, "readings", kind="rows", lateness=lateness)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / f"f.{'parquet' if kind == 'parquet' else 'jsonl' if kind == 'lines' else 'csv'}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(found), path, row_group_size=group)
        else:
            path.write_bytes(as_lines(found) if kind == "lines" else as_csv(found, kind == "plain"))
        both(folder, [path], reading, before)


def parts_of(path: Path, **options: Any) -> list[FilePart]:
    found = list(file_parts([path], Reading("r", **options), HERE))
    assert not any(isinstance(part, Rejected) for part in found)
    return [part for part in found if isinstance(part, FilePart)]


def test_large_files_have_many_parts(tmp_path: Path) -> None:
    found = table(90, 1)
    for name, data in (("a.csv", as_csv(found, False)), ("b.csv", as_csv(found, True)), ("c.jsonl", as_lines(found))):
        (tmp_path / name).write_bytes(data)
        parts = parts_of(tmp_path / name)
        assert len(parts) > 3 and all(part.within is not None for part in parts)
    pq.write_table(pa.Table.from_pylist(found), tmp_path / "d.parquet", row_group_size=40)
    assert len(parts_of(tmp_path / "d.parquet")) == 7
    events = "\n".join(json.dumps({"channel": "S", "id": str(n), "xml": f"<a>{n}</a>"}) for n in range(60))
    (tmp_path / "e.ndjson").write_text(events)
    assert len(parts_of(tmp_path / "e.ndjson")) > 4
    # Each is refused once.
    split = Reading("r", split="//a")
    refused = [record for part in parts_of(tmp_path, split="//a") for record in read_part(part, split)]
    assert [getattr(record, "condition", None) for record in refused] == ["XSCL_BAD_OPTION"] * 5


@pytest.mark.parametrize(
    "data",
    [
        b"a,b\n" + b'1,"open\n' * 400,
        b"a,b\r" + b"1,2\r" * 400,
        b'"a\n' + b"1,2\n" * 400,
        b"a,b\n" + b"\n" * 900 + b"1,2",
    ],
    ids=["an open quotation mark", "carriage returns", "no header", "blank lines"],
)
def test_files_whose_ranges_only_reading_tells(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "r.csv").write_bytes(data)
    both(tmp_path, [tmp_path / "r.csv"], Reading("r"))


def rss(number: int, items: int, chance: random.Random) -> str:
    made = "".join(
        f"<item><guid>g{chance.randrange(40)}</guid><title>t{chance.randrange(3)}</title>"
        f"<pubDate>Sun, 3{n % 2} May 2026 0{n % 10}:00:00 GMT</pubDate></item>"
        for n in range(items)
    )
    return f"<rss version='2.0'><channel><title>F{number % 3}</title><link>http://x.org</link>{made}</channel></rss>"


@settings(max_examples=examples(4))
@given(seed=st.integers(0, 1 << 20), lateness=st.sampled_from([None, "1 h"]))
@example(seed=17188, lateness=None)  # an entry that its feed does not know any more was taken in before
def test_files_of_a_directory(seed: int, lateness: str | None) -> None:
    chance = random.Random(seed)

    def before(home: Home) -> None:
        add_channel(home.catalog, "items", lateness=lateness)
        for stream in ("left", "right"):
            add_channel(home.catalog, stream, of="both")
        add_channel(home.catalog, "trades", kind="rows")
        add_channel(home.catalog, "lse", of="trades")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given_ = folder / "in"
        (given_ / "more").mkdir(parents=True)
        for number in range(6):
            (given_ / f"f{number}.rss").write_text(rss(number, 5, chance))
            (given_ / f"d{number}.xml").write_text(chance.choice(["<a/>", "<a><b>1</b></a>", "<broken", ""]))
        lines: list[object] = [
            {"channel": stream, "id": str(chance.randrange(20)), "ts": chance.randrange(9), "xml": f"<a>{n % 2}</a>"}
            for n in range(40)
            for stream in ("left", "right")
        ]
        lines += [
            {"channel": "w", "id": str(n // 2), "row": {"p": n // 3, "q": None if n < 9 else 1}} for n in range(30)
        ]
        lines += [{"register": {"name": f"q{n}", "text": "items/item"}} for n in range(2)]
        lines += [
            {"flush": True},
            {"channel": "w", "id": "x", "row": {"p": "text"}},
            {"drop": "q1"},
            {"drop": "none"},
            3,
        ]
        (given_ / "more" / "events.ndjson").write_text("\n".join(map(json.dumps, lines)))
        (given_ / "more" / "packed.csv.gz").write_bytes(gzip.compress(as_csv(table(40, seed), True)))
        (given_ / "lse.csv").write_text("p,q\n" + "".join(f"{n},x\n" for n in range(30)))
        report = both(folder, [given_, folder / "nowhere"], Reading(), before)
        assert report.taken and report.duplicates and report.rejected and report.registered == 2


def test_columns_that_another_fixes_meanwhile(tmp_path: Path) -> None:
    """What was checked for other columns is checked again."""
    (tmp_path / "r.csv").write_text("n,v\n" + "".join(f"{n},{n}\n" for n in range(400)))
    home = init_home(tmp_path / "home")
    intake = Intake(home, now=lambda: NOW)
    reading = Reading("r")
    seen: list[str] = []

    def other(name: str) -> None:
        if name == "intake.chunk" and not seen:
            seen.append(name)
            add_channel(home.catalog, "r", kind="rows", schema="n string, v double")

    with hooked(other):
        report = take_parts(intake, file_parts([tmp_path / "r.csv"], reading, HERE), reading, HERE)
    assert (report.taken, report.rejected) == (400, 0)
    cells = [event["cells"] for event in content(home)["events"]]
    assert cells == [[str(n), str(n)] for n in range(400)]
    assert "'n': 'string'" in content(home)["channels"][0] or '"n": "string"' in content(home)["channels"][0]


def test_a_channel_that_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("n\n" + "1\n" * 600)
    home = init_home(tmp_path / "home")
    reading = Reading("r")
    report = take_parts(Intake(home, strict=True), file_parts([tmp_path / "r.csv"], reading, HERE), reading, HERE)
    assert (report.taken, report.rejected) == (0, 600)
    assert {problem.condition for problem in report.problems} == {"XSCL_UNKNOWN_CHANNEL"}


@pytest.mark.parametrize("at", ["intake.chunk", "intake.write", "intake.wrote", "intake.commit", "intake.committed"])
def test_an_intake_that_ends_anywhere_is_begun_again(tmp_path: Path, at: str) -> None:
    (tmp_path / "r.csv").write_text("n,v\n" + "".join(f"{n},{n % 7}\n" for n in range(300)))
    paths, reading = [tmp_path / "r.csv"], Reading("r", id="n")
    home = init_home(tmp_path / "home")
    left = 2

    def end(name: str) -> None:
        nonlocal left
        left -= name == at
        if left == 0 and name == at:
            raise CatalogError("XSCL_TEST", "the end")

    with hooked(end), pytest.raises(CatalogError, match="the end"):
        take_parts(Intake(home), file_parts(paths, reading, HERE), reading, HERE)
    tidy(home)
    assert unnamed_files(home) == []
    take_parts(Intake(home), file_parts(paths, reading, HERE), reading, HERE)
    found = content(home)["events"]
    assert sorted(event["cells"][0] for event in found) == sorted(map(str, range(300)))


def test_a_task_that_comes_twice_doubles_nothing(tmp_path: Path) -> None:
    """The second writing of a file has another name, which no row names."""

    class Twice:
        slots = 1

        def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            return [[work(item), work(item)][1] for item in items]

        beside = HERE.beside

    (tmp_path / "r.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(300)))
    home, reading = init_home(tmp_path / "home"), Reading("r")
    report = take_parts(Intake(home), file_parts([tmp_path / "r.csv"], reading, HERE), reading, Twice())
    assert report.taken == 300
    assert unnamed_files(home)
    tidy(home)
    assert unnamed_files(home) == []
    assert [event["cells"] for event in content(home)["events"]] == [[str(n)] for n in range(300)]


def test_partitions_become_tables_of_one_file_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_intake, "CHUNK_ROWS", 8)
    batches = (pa.record_batch({"n": pa.array(range(4 * n, 4 * n + 4))}) for n in range(7))
    found = list(frame_intake._tables(batches, Reading("r"), "name", 3))
    assert [(len(one.rows), one.numbers[0]) for one in found] == [(8, (3 << 33) + n) for n in (1, 9, 17)] + [
        (4, (3 << 33) + 25)
    ]


def test_documents_of_partitions_keep_their_times_in_every_zone() -> None:
    first, last = FIRST_TIME, LAST_TIME // 1_000_000 * 1_000_000
    for zone in ("America/New_York", "Asia/Tokyo", "UTC"):
        times = pa.array([first, last, None], pa.timestamp("us", zone))
        batch = pa.record_batch({"xml": pa.array(["<a/>"] * 3), "ts": times})
        found = frame_intake._documents(iter([batch]), Reading("S"))
        given = [event.ts for event in found if isinstance(event, Event)]
        assert [None if ts is None else to_micros(ts) for ts in given] == [first, last, None]


def test_records_of_parts_are_those_of_the_whole(tmp_path: Path) -> None:
    (tmp_path / "e.ndjson").write_text("\n".join(json.dumps({"channel": "S", "xml": f"<a>{n}</a>"}) for n in range(80)))
    reading = Reading()
    parts = list(file_parts([tmp_path], reading, HERE))
    assert len(parts) > 3
    assert [r for part in parts for r in read_part(part, reading)] == list(read_paths([tmp_path], reading))


def archive_of(members: Sequence[tuple[str, bytes]], packed: bool) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz" if packed else "w") as archive:
        for name, data in members:
            found = tarfile.TarInfo(name)
            found.size = len(data)
            archive.addfile(found, io.BytesIO(data))
    return stream.getvalue()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("flaw", ["", "short", "many", "nested"])
def test_a_large_archive_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool, flaw: str) -> None:
    monkeypatch.setattr(parts_module, "_ARCHIVE_BYTES", 500)
    monkeypatch.setattr(archive_parts, "RANGE_BYTES", 700)
    chance = random.Random(7)
    members = [(f"m{n}.xml", f"<a>{chance.randbytes(40).hex()}{n}</a>".encode()) for n in range(60)]
    members[7:7] = [("../out.xml", b"<a/>"), ("bad.xml", b"<a>"), ("r.csv", b"n,v\n1,2\n3,4,5\n"), (".hidden", b"<a/>")]
    members[30:30] = [("feed.rss", FEED), ("e.ndjson", b'{"channel": "S", "xml": "<a/>"}\n{"flush": true}\n{}\n')]
    if flaw == "nested":
        members[40:40] = [("z.tar.gz", archive_of(members[:3], packed=True))]
    if flaw == "many":
        monkeypatch.setattr(archives, "MAX_MEMBERS", 50)
    data = archive_of(members, packed)
    (tmp_path / "all.bin").write_bytes(data[: len(data) // 2048 * 1024 + 530] if flaw == "short" else data)
    reading = Reading()
    parts = list(file_parts([tmp_path / "all.bin"], reading, HERE))
    if flaw in ("", "many"):
        assert 4 < len(parts) <= 16
    assert flaw != "nested" or len(parts) == 1
    whole = list(read_paths([tmp_path / "all.bin"], reading))
    assert repr([r for part in parts for r in read_part(part, reading)]) == repr(whole)
    assert sum(isinstance(one, Rejected) and one.source.endswith("all.bin") for one in whole) == (
        flaw in ("short", "many")
    )
    both(tmp_path, [tmp_path / "all.bin"], reading)


class Elsewhere:
    """A place whose tasks work in another folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, monkeypatch

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        with self.patch.context() as patch:
            patch.chdir(self.folder)
            return HERE.map(work, items)


def test_relative_paths_are_those_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "_ARCHIVE_BYTES", 100)
    monkeypatch.setattr(archive_parts, "RANGE_BYTES", 100)
    (tmp_path / "in").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in" / "a.xml").write_text("<a/>")
    (tmp_path / "in" / "b.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(500)))
    with tarfile.open(tmp_path / "in" / "c.tar", "w") as archive:
        archive.add(tmp_path / "in" / "b.csv", "b.csv")
        archive.add(tmp_path / "in" / "a.xml", "a.xml")
    monkeypatch.chdir(tmp_path)
    place = Elsewhere(tmp_path / "elsewhere", monkeypatch)
    reading = Reading()
    parts = [part for part in file_parts(["in"], reading, place) if isinstance(part, FilePart)]
    assert {part.kind for part in parts} == {None, "csv", "archive"}
    found = place.map(lambda part: [getattr(each, "source", None) for each in read_part(part, reading)], parts)
    names = {source.partition("!")[0].partition(":")[0] for sources in found for source in sources}
    assert names == {"in/a.xml", "in/b.csv", "in/c.tar"}
