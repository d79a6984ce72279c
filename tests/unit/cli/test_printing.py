"""Rows as tables, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from xscl.cli.printing import Format, print_rows

ROWS = [
    {"name": 'a,"b"', "count": 3, "share": 0.25, "more": None, "flag": True},
    {"name": "é\n", "count": 10, "share": 1e9, "more": ["x", 1], "flag": False},
]
COLUMNS = ["name", "count", "share", "more", "flag"]


def printed(capsys: pytest.CaptureFixture[str], format_: Format, rows: list[dict[str, object]] = ROWS) -> str:
    assert print_rows(rows, COLUMNS, format_) == len(rows)
    return capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, Format.json)) == ROWS
    assert [json.loads(line) for line in printed(capsys, Format.ndjson).splitlines()] == ROWS
    assert json.loads(printed(capsys, Format.json, [])) == []
    assert printed(capsys, Format.ndjson, []) == ""


def test_json_of_other_values(capsys: pytest.CaptureFixture[str]) -> None:
    values = [
        datetime(2026, 1, 1, tzinfo=UTC),
        date(2026, 1, 1),
        Decimal("2.50"),
        Decimal("3"),
        b"\x00\xff",
        Format.csv,
    ]
    out = json.loads(printed(capsys, Format.ndjson, [{str(i): value for i, value in enumerate(values)}]))
    assert list(out.values()) == ["2026-01-01T00:00:00+00:00", "2026-01-01", 2.5, 3, "00ff", "csv"]


def test_csv(capsys: pytest.CaptureFixture[str]) -> None:
    found = list(csv.reader(io.StringIO(printed(capsys, Format.csv))))
    assert found == [
        COLUMNS,
        ['a,"b"', "3", "0.25", "", "true"],
        ["é\n", "10", "1000000000.0", '["x", 1]', "false"],
    ]


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "[bold]a[/bold]", "count": 3}, {"name": "b" * 300, "count": 10, "more": "x"}]
    lines = printed(capsys, Format.table, rows).splitlines()
    assert lines[0].split() == COLUMNS
    assert lines[1].startswith("[bold]a[/bold] ")
    assert len(lines) == 3, "in a pipe a row is a line"
    assert "b" * 300 in lines[2]
    assert lines[1].index(" 3") + 2 == lines[2].index("10") + 2, "numbers stand on the right"


@pytest.mark.parametrize("format_", [Format.ndjson, Format.json, Format.csv, Format.table])
def test_rows_are_printed_as_they_come(capsys: pytest.CaptureFixture[str], format_: Format) -> None:
    """A listing of a million rows is not kept in memory; a table looks at a thousand for its widths."""
    printed_before = []

    def rows() -> Iterator[dict[str, object]]:
        for number in range(1_501):
            if number == 1_500:
                printed_before.append(capsys.readouterr().out)
            yield {"name": f"row\n{number}", "count": number if number < 1_200 else "many"}

    assert print_rows(rows(), ["name", "count"], format_) == 1_501
    assert "1499" in printed_before[0]
    out = printed_before[0] + capsys.readouterr().out
    if format_ is Format.json:
        assert len(json.loads(out)) == 1_501
    if format_ is Format.table:
        assert len(out.splitlines()) == 1_502 and out.splitlines()[-1].split() == ["row", "1500", "many"]


@pytest.mark.parametrize(("width", "whole"), [("60", True), ("30", False)])
def test_times_and_numbers_are_not_broken_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: str, whole: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", width)
    moment, number = "2026-01-02T03:04:05.678901Z", 12_345_678
    rows = [{"match": "a1b2c3d4e5f6", "ts": moment, "n": number, "events": "channel:" + "i" * 50}]
    assert print_rows(rows, ["match", "ts", "n", "events"], Format.table) == 1
    out = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    assert max(map(len, out.splitlines())) <= int(width)
    assert (moment in out) == (str(number) in out) == whole
    # Nothing is cut.
    letters = sorted("".join(f"{name}{value}" for name, value in rows[0].items()))
    assert sorted("".join(out.split())) == letters


def test_notes_stand_below_their_row_and_a_long_first_cell_stays_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    address = "https://example.org/" + "a" * 40
    rows = [
        {"feed": "https://example.org/a", "items": 12, "why": None},
        {"feed": address, "items": 3, "why": "no guids :100: [bold]"},
    ]
    assert print_rows(rows, ["feed", "items"], Format.table, notes=["why"]) == 2
    assert re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines() == [
        "feed                               items",
        "https://example.org/a                 12",
        address,
        " " * 35 + "    3",
        "    why: no guids :100: [bold]",
    ]
