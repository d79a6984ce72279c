"""Positions in the catalogue, and directories followed into a home."""

import os
import sqlite3
import time
from contextlib import closing

import pyarrow as pa
import pytest
import sqlalchemy as sa

from xscl.base.errors import EngineError, SourceError
from xscl.base.types import Event
from xscl.catalog.source_offsets import positions_in
from xscl.catalog.tables import REJECTED, SOURCES
from xscl.engine import connect
from xscl.ingest.following import FilePosition, Signature
from xscl.ingest.reading import Reading
from xscl.ingest.records import Position
from xscl.intake.intake import Intake


def kept(engine, start=""):
    with engine.home.catalog.read() as connection:
        return positions_in(connection, start)


def at(offset):
    return FilePosition(Signature(9, 1, "1-1"), offset).text()


def test_positions_are_kept_with_what_stands_before_them(tmp_path):
    with closing(connect(home=tmp_path / "home")) as engine:
        intake = Intake(engine.home)
        events = [Event("S", f"d{n}", xml="<a/>") for n in range(3)]
        records = [
            events[0],
            Position("a", at(1)),
            events[1],
            Position("a", at(2)),
            Position("b_", at(3)),
            Position("bx", at(4)),
        ]
        assert intake.take(records).taken == 2
        assert kept(engine) == {"a": at(2), "b_": at(3), "bx": at(4)}
        assert kept(engine, "b_") == {"b_": at(3)}

        def failing():
            yield events[2]
            yield Position("a", at(9))
            raise RuntimeError

        with pytest.raises(RuntimeError):
            intake.take(failing())
        assert kept(engine)["a"] == at(2)
        assert intake.take([Position("a", at(5))]).taken == 0
        assert kept(engine)["a"] == at(5)


def test_follow_goes_on_where_another_process_stopped(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    lines = folder / "e.ndjson"
    lines.write_text('{"channel": "S", "xml": "<a/>"}\n')
    (folder / "a.xml").write_text("<a><b/></a>")
    long_ago = time.time() - 3600
    os.utime(folder / "a.xml", (long_ago, long_ago))
    with closing(connect(home=tmp_path / "home")) as engine:
        looks = engine.follow(folder, every="10 ms", channel="S")
        assert [next(looks).taken for _ in range(3)] == [2, 0, 0]
        looks.close()
        with lines.open("a") as file:
            file.write('{"channel": "S", "xml": "<c/>"}\n')
        report = next(engine.follow([str(folder)], every="10 ms"))
        assert (report.taken, report.duplicates) == (1, 0)
        # Without following, everything is read again, and known.
        report = engine.ingest(folder, channel="S")
        assert (report.taken, report.duplicates) == (0, 3)
        with engine.home.catalog.read() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(SOURCES)).scalar() == 2


def test_what_cannot_be_followed(tmp_path):
    with closing(connect(home=tmp_path / "home")) as engine:
        for paths, every in (("-", "1s"), (tmp_path, "often"), (tmp_path, "0s")):
            with pytest.raises(EngineError) as refused:
                next(engine.follow(paths, every=every))
            assert refused.value.condition == "XSCL_BAD_OPTION"


def test_records_of_a_file_with_ids_and_times(tmp_path):
    file = tmp_path / "set.xml"
    file.write_text(
        "<set><r n='1' t='1987-02-26T15:01:01Z'/><r n='2' t='Thu, 26 Feb 1987 15:01:01 GMT'/><r n='3'/>\n"
        "<r n='4' t='26-FEB-1987 15:01:01.79'/><r t='541350061'><x></x></r></set>"
    )
    with closing(connect(home=tmp_path / "home")) as engine:
        report = engine.ingest(file, channel="S", split="//r", id="@n", ts="./@t")
        assert (report.taken, report.rejected) == (4, 1)
        with engine.home.catalog.read() as connection:
            row = connection.execute(sa.select(REJECTED)).one()
        assert (row.condition, row.channel, row.id) == ("XSCL_BAD_EVENT_TIME", "S", "4")
        assert row.source == f"{file}:2" and "26-FEB-1987" in row.message
        assert engine.ingest(file, channel="S", split="//r", id="@n", ts="./@t").duplicates == 4
        # A document that is taken whole has an id and a time, too.
        assert engine.ingest(file, channel="T", id="r/@n", ts=".//r/@t").taken == 1


def test_paths_know_the_prefixes_of_queries():
    assert Reading(split="//atom:entry").split_path is not None
    for wrong in ({"split": "//x:y"}, {"split": "//a", "id": "a[1]"}):
        with pytest.raises(SourceError):
            Reading(**wrong)
    # These may be names of columns; documents are refused when they come.
    for wrong in ({"id": "a[1]"}, {"ts": "/a"}):
        assert Reading(**wrong).no_paths is not None


def test_tables_and_events_have_no_elements_to_take(tmp_path):
    database = sqlite3.connect(tmp_path / "d.db")
    database.execute("CREATE TABLE t (k INTEGER)")
    database.close()
    with closing(connect(home=tmp_path / "home")) as engine:
        for source, options in (
            (pa.table({"a": [1]}), {"channel": "r"}),
            ([Event("S", xml="<a><b/></a>")], {}),
            (f"sqlite:///{tmp_path / 'd.db'}", {"channel": "r", "table": "t", "key": "k"}),
        ):
            with pytest.raises(SourceError, match="elements --split could take") as refused:
                engine.ingest(source, split="//b", **options)
            assert refused.value.condition == "XSCL_BAD_OPTION"
            engine.ingest(source, **options)


def test_homes_are_no_input(tmp_path):
    with closing(connect(home=tmp_path / "home")) as engine:
        engine.ingest([Event("S", "kept", xml="<a/>")])
        (tmp_path / "a.xml").write_text("<a/>")
        (tmp_path / "r.csv").write_text("n;m\n1;2\n")
        report = engine.ingest(tmp_path)
        assert (report.taken, report.rejected) == (2, 0)
        home, header = report.notes
        assert home.startswith(f"{tmp_path / 'home'}: this is a home of xscl")
        assert header.startswith(f"{tmp_path / 'r.csv'}: it is read as one column, n_m; did you mean --delimiter ';'")
        assert f"note={home!r}" in repr(report) and "did you mean" in report._repr_html_()
        # A part of a home that was lost does not make its other files input.
        (tmp_path / "home" / "results").rmdir()
        assert engine.ingest(tmp_path / "home").notes == [home] and not report.problems
        looks = engine.follow(tmp_path, every="10 ms", channel="S")
        assert sum(len(next(looks).notes) for _ in range(9)) == 2
        looks.close()
