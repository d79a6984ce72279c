"""Rows with the time at which they begin (``start``): read, refused, kept in files of tasks, and exported."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xscl
from xscl.base.document_limits import DEFAULT_LIMITS
from xscl.base.errors import SourceError
from xscl.catalog.records import ChannelInfo
from xscl.engine import Engine
from xscl.ingest.reading import Reading
from xscl.ingest.records import RowTable
from xscl.intake.part_files import keep_rows, kept_rows
from xscl.intake.row_batch import read_batch
from xscl.upkeep.event_export import export_events

CSV = """id,k,begin,end
a,1,0,5
b,1,4,6
c,1,5.5,7
d,1,9,8
e,1,x,8
f,1,,9
g,1,9,
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.csv"
    path.write_text(CSV)
    return path


def starts(engine: Engine) -> dict[str, tuple[str | None, str | None]]:
    """Start and time of each exported event."""
    stream = io.BytesIO()
    export_events(engine.home, stream)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return {line["id"]: (line.get("start"), line.get("ts")) for line in lines if "id" in line}


def seconds(number: float) -> str:
    return f"1970-01-01T00:00:0{number:g}Z"


@pytest.mark.parametrize("op", [False, True])
def test_rows_begin_before_they_end(tmp_path: Path, file: Path, op: bool) -> None:
    if op:
        lines = CSV.splitlines()
        file.write_text("\n".join([f"{lines[0]},op", *(f"{line},c" for line in lines[1:])]))
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("r", kind="rows", lateness="0 s")
        engine.register("r[./k->a] NEXT {a = b} r[./k->b]", name="next")
        report = engine.ingest(
            file, channel="r", id="id", ts="end", start="begin", ts_format="s", op="op" if op else None
        )
        assert report.taken == 4
        refused = {problem.source.rpartition(":")[2]: problem.condition for problem in report.problems}
        # Two begin behind their end or have none, and one begins at no time.
        assert refused == {"5": "XSCL_BAD_EVENT_START", "6": "XSCL_BAD_EVENT_TIME", "8": "XSCL_BAD_EVENT_START"}
        assert starts(engine) == {
            "a": (seconds(0), seconds(5)),
            "b": (seconds(4), seconds(6)),
            "c": (seconds(5.5), seconds(7)),
            "f": (None, seconds(9)),
        }
        engine.run_once()
        # b begins before a ends, so c is the next one.
        assert [[event.id for event in match.events] for match in engine.matches()] == [["a", "c"]]


def test_starts_go_through_the_files_of_tasks(tmp_path: Path) -> None:
    options = Reading("r", id="id", ts="end", start="begin").rows
    rows = pa.table({"id": ["a", "b"], "begin": [1, None], "end": [5, 6]})
    table = RowTable("r", rows, "r.csv", np.array([1, 2]), options=options)
    batch, refused = read_batch(table, ChannelInfo.new("r", "rows"), DEFAULT_LIMITS)
    again = kept_rows(keep_rows(str(tmp_path), batch, np.arange(2), None), "", batch.channel).batch
    assert not refused and again.starts is not None
    assert again.starts.to_pylist() == [1_000_000, None]


def test_a_start_goes_with_a_time(file: Path) -> None:
    with pytest.raises(SourceError, match="XSCL_BAD_OPTION.*has a time at which it ends"):
        Reading("r", start="begin")
