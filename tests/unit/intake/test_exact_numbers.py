"""Numbers that no double is: they stay what they are where the channel's column can hold them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from xscl.base.values import exact_number
from xscl.catalog.channels import read_channels
from xscl.ingest.plain_rows import plain_row
from xscl.upkeep.event_export import export_events

LONG = "12345678901234567890.123456789012345678"


@pytest.fixture
def engine(tmp_path: Path):
    with xscl.connect(home=tmp_path / "home") as found:
        found.add_channel("p", kind="rows", schema="n decimal, d double, b bigint")
        yield found


def held(engine: xscl.Engine, tmp_path: Path) -> list[object]:
    """Return the decimals of the events, as an export has them."""
    path = tmp_path / "out.ndjson"
    with path.open("wb") as stream:
        export_events(engine.home, stream)
    return [json.loads(line)["row"]["n"] for line in path.read_text().splitlines()]


def from_dict(text: str, folder: Path) -> object:
    return [{"channel": "p", "row": {"n": Decimal(text)}}]


def from_event_file(text: str, folder: Path) -> object:
    (folder / "e.ndjson").write_text(f'{{"channel": "p", "row": {{"n": {text}}}}}\n')
    return folder / "e.ndjson"


def from_json_lines(text: str, folder: Path) -> object:
    (folder / "p.jsonl").write_text(f'{{"n": 0.5}}\n{{"n": {text}}}\n')
    return folder / "p.jsonl"


@pytest.mark.parametrize("source", [from_dict, from_event_file, from_json_lines])
@pytest.mark.parametrize("number", [LONG, f"-{LONG}", "9007199254740993", "0.1000000000000000055", "1e400"])
def test_decimals_stay_exact(engine, tmp_path: Path, source, number: str) -> None:
    report = engine.ingest(source(number, tmp_path))
    assert report.rejected == 0
    assert Decimal(held(engine, tmp_path)[-1]) == Decimal(number)


def test_whole_numbers_of_a_decimal_column_may_have_more_than_64_bits(engine, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"n": 123456789012345678901}\n{"n": 7}\n')
    assert engine.ingest(tmp_path / "p.jsonl").rejected == 0
    assert held(engine, tmp_path) == ["123456789012345678901", "7"]


def test_a_double_takes_the_nearest_one_and_a_whole_number_none(engine, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"d": 0.1000000000000000055}\n{"d": 9007199254740993}\n{"d": 1e400}\n')
    report = engine.ingest(tmp_path / "p.jsonl")
    assert (report.taken, report.rejected) == (1, 2)
    assert engine.ingest([{"channel": "p", "row": {"d": Decimal("0.1000000000000000055")}}]).taken == 1


def test_a_column_of_long_numbers_is_one_of_doubles_still(engine, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(f'{{"n": {LONG}}}\n')
    engine.ingest(tmp_path / "q.jsonl")
    engine.ingest([{"channel": "r", "row": {"n": Decimal(LONG)}}])
    with engine.home.catalog.read() as connection:
        known = read_channels(connection)
    assert [known[name].schema for name in "qr"] == [{"n": "double"}, {"n": "double"}]


def test_a_whole_number_written_with_a_point_is_that_number_or_refused(engine, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"b": 1234567890123456789.0}\n')
    assert engine.ingest(tmp_path / "p.jsonl").taken == 1
    path = tmp_path / "out.ndjson"
    with path.open("wb") as stream:
        export_events(engine.home, stream)
    assert '"b": 1234567890123456789}' in path.read_text()


def test_decimals_of_many_digits_in_a_column_of_whole_numbers_are_refused_alone(engine) -> None:
    numbers = pa.array([Decimal(10) ** 35, Decimal(3)], pa.decimal128(38, 2))
    report = engine.ingest(pa.table({"b": numbers}), channel="p")
    assert (report.taken, report.rejected) == (1, 1)


def test_numbers_of_very_many_digits_are_refused_at_once(engine) -> None:
    events = [{"channel": "p", "row": {"n": Decimal(number)}} for number in ("1e999999999", "1e-999999999")]
    report = engine.ingest(events)
    assert (report.taken, report.rejected) == (0, 2)


def test_an_export_adds_nothing_to_its_own_home(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("p", kind="rows", schema="n decimal, d double, t timestamp")
        row = {"n": 0.1, "d": Decimal("0.1000000000000000055"), "t": "2026-01-01T01:00:00+01:00"}
        engine.ingest([xscl.Event("p", "1", 5, row=row)])
        with (tmp_path / "out.ndjson").open("wb") as stream:
            export_events(engine.home, stream)
        report = engine.ingest(tmp_path / "out.ndjson")
        assert (report.duplicates, report.rejected) == (1, 0)


_NUMERALS = st.from_regex(r"-?(0|[1-9][0-9]{0,20})\.[0-9]{1,20}([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@given(_NUMERALS)
def test_every_number_of_a_line_is_what_its_text_says(text: str) -> None:
    row = plain_row(f'{{"n": {text}}}')
    assert row is not None
    number = row["n"]
    assert number == exact_number(text)
    exact = Decimal(repr(number)) if isinstance(number, float) else number
    assert exact == Decimal(text)
