"""Ids of rows without one, and rejections that say which id is taken."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from xscl.engine import Engine, connect


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with connect(home=tmp_path / "home") as opened:
        yield opened


@pytest.mark.parametrize("again", [17.0, 21.5])
def test_rows_of_an_iterable_get_ids_that_nothing_else_has(engine: Engine, again: float) -> None:
    for temp in (17.0, again):
        report = engine.ingest([{"channel": "rooms", "row": {"room": "hall", "temp": temp}}])
        assert (report.taken, report.duplicates, report.rejected) == (1, 0, 0)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("x.csv", ("room,temp\nhall,1\n", "room,temp\nhall,2\n")),
        ("x.ndjson", tuple(f'{{"channel": "x", "row": {{"temp": {temp}}}}}\n' for temp in (1, 2))),
    ],
)
def test_an_overwritten_file_is_told_which_id_is_taken(
    engine: Engine, tmp_path: Path, name: str, rows: tuple[str, str]
) -> None:
    for text in rows:
        (tmp_path / name).write_text(text)
        report = engine.ingest(tmp_path / name)
    (problem,) = report.problems
    assert problem.condition == "XSCL_EVENT_ID_REUSED"
    assert problem.message.endswith("give --id COLUMN, or another file name")


def test_an_id_that_was_given_is_no_place(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("seq,room\n7,hall\n7,attic\n")
    (problem,) = engine.ingest(tmp_path / "x.csv", id="seq").problems
    assert problem.message == "the id '7' is taken by other content in channel x"


@pytest.mark.parametrize(
    ("option", "told"),
    [({}, "no ISO 8601 time and no number of seconds; --ts-format"), ({"ts_format": "%Y"}, "of the form '%Y'")],
)
def test_a_time_that_is_none_says_which_form_was_read(
    engine: Engine, tmp_path: Path, option: dict[str, str], told: str
) -> None:
    (tmp_path / "x.csv").write_text("at,v\nyesterday,1\n")
    (problem,) = engine.ingest(tmp_path / "x.csv", ts="at", **option).problems
    assert told in problem.message
