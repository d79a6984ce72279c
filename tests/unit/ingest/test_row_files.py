"""Files of rows: what is read, with which numbers, and what is refused."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xscl.base.errors import SourceError
from xscl.base.types import Event
from xscl.ingest import csv_files
from xscl.ingest.csv_files import read_csv
from xscl.ingest.json_rows import read_json_lines
from xscl.ingest.plain_rows import plain_row, plain_rows
from xscl.ingest.reading import Reading
from xscl.ingest.records import Noted, Record, Rejected, RowTable
from xscl.ingest.row_format import row_format
from xscl.ingest.sources import read_paths


def read(data: bytes, *, source: str = "r.csv", **more: object):
    how = Reading(**more)  # type: ignore[arg-type]
    return list(read_csv(io.BytesIO(data), channel="R", source=source, reading=how))


def rows(tables: Sequence[RowTable]) -> list[tuple[int, dict[str, object]]]:
    """The rows with their numbers."""
    return [
        (int(number), row)
        for table in tables
        for number, row in zip(table.numbers, table.rows.to_pylist(), strict=True)  # type: ignore[arg-type]
    ]


def problems(tables: Sequence[RowTable]) -> list[tuple[str, str]]:
    return [(one.source, one.condition) for table in tables for one in table.problems]


# -- CSV -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "noted"),
    [
        ("264,10|-1,5|7", "264,10"),
        ('1,234.50|"1,234,567"|12', "1,234.50"),
        ("1.234,50||3", "1.234,50"),
        ("264.10|7", None),
        ("Smith, John|7,5", None),
        ("1,2,3", None),
        ("|", None),
    ],
)
def test_numbers_that_are_written_otherwise_are_noted(values: str, noted: str | None) -> None:
    found = read(("p;q\n" + "\n".join(f"{value};x" for value in values.split("|"))).encode(), delimiter=";")
    told = [record.text for record in found if isinstance(record, Noted)]
    assert len(told) == (noted is not None)
    assert all(text.startswith(f"column p has texts such as {noted}, and no numbers: ") for text in told)


@pytest.mark.parametrize(
    ("header", "delimiter", "other"),
    [(b"a;b", None, ";"), (b"a\tb;c\td", None, "\t"), (b"a,b", ";", ","), (b"a", None, None), (b"a;b,c", None, None)],
)
def test_a_header_of_one_column_may_have_another_delimiter(
    header: bytes, delimiter: str | None, other: str | None
) -> None:
    found = read(header + b"\n1\n", **({} if delimiter is None else {"delimiter": delimiter}))
    noted = [record.text for record in found if isinstance(record, Noted)]
    assert len(noted) == (other is not None)
    assert all(f"did you mean --delimiter {other!r}" in text for text in noted)


def test_rows_have_the_numbers_of_their_lines() -> None:
    data = b'\xef\xbb\xbfa,b\r\n1,2\r\n\r\n"x\r\ny",""\r\n,NA\r\n5,6'
    found = read(data, null="NA")
    assert rows(found) == [
        (2, {"a": "1", "b": "2"}),
        (4, {"a": "x\r\ny", "b": ""}),
        (6, {"a": None, "b": None}),
        (7, {"a": "5", "b": "6"}),
    ]
    assert all(table.texts for table in found)


def test_lines_that_are_no_records_cost_themselves_only() -> None:
    found = read(b"a,b\n1,2\n\n3\n4,5,6\n\xff,8\n9,10\n")
    assert [number for number, _ in rows(found)] == [2, 7]
    assert sorted(problems(found)) == [(f"r.csv:{line}", "XSCL_BAD_CSV") for line in (4, 5, 6)]


@given(
    st.lists(
        st.lists(st.text('ab",\n\r;é ', max_size=4), min_size=2, max_size=2).filter(lambda row: row != ["", ""]),
        max_size=8,
    ),
    st.integers(1, 30),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_what_was_written_is_read_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch, given_rows, block) -> None:
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["c", "d"])
    starts = []
    for row in given_rows:
        starts.append(written.getvalue().count("\n") + 1)
        writer.writerow(row)
    monkeypatch.setattr(csv_files, "CSV_BLOCK", max(block, 20))
    found = rows(read(written.getvalue().encode()))
    assert found == [(start, {"c": row[0], "d": row[1]}) for start, row in zip(starts, given_rows, strict=True)]


@pytest.mark.parametrize(
    ("data", "more", "expected"),
    [
        (b"a,b\n1,2\n", {}, [(2, {"a": "1", "b": "2"})]),
        (b"1;2\n", {"schema": "a int, b int", "delimiter": ";"}, [(1, {"a": "1", "b": "2"})]),
        (b"b,a\n1,2\n", {"schema": "a int, b int"}, [(2, {"b": "1", "a": "2"})]),
        (b"a,b\n", {"schema": "a string, b string", "header": False}, [(1, {"a": "a", "b": "b"})]),
        (b"\n\na b,2x\n1,2\n", {}, [(4, {"a_b": "1", "_2x": "2"})]),
        (b"a\n", {}, []),
    ],
)
def test_names_of_columns(data, more, expected) -> None:
    assert rows(read(data, **more)) == expected


@pytest.mark.parametrize(
    ("data", "more"),
    [
        (b"a,a\n1,2\n", {}),
        (b"a,,b\n1,2,3\n", {}),
        (b"1,2\n", {"header": False}),
        (b"\xff,b\n1,2\n", {}),
        (b"a\n1\n", {"delimiter": "ab"}),
    ],
)
def test_headers_that_name_no_columns(data, more) -> None:
    with pytest.raises(SourceError):
        read(data, **more)


def test_a_record_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "CSV_BLOCK", 100)
    with pytest.raises(SourceError, match="quotation mark"):
        read(b"a,b\n" + b'1,"2\n' + b"3,4\n" * 100)


# -- JSON lines ------------------------------------------------------------------------------------------------


def read_json(data: bytes) -> list[RowTable]:
    return list(read_json_lines(io.BytesIO(data), channel="R", source="j", reading=Reading()))


def test_json_lines() -> None:
    found = read_json(b'{"a": 1, "b": "x"}\n\n{"b": null, "a": 2.5, "c": true}\n{"a": 9}')
    assert rows(found) == [
        (1, {"a": 1.0, "b": "x", "c": None}),
        (3, {"a": 2.5, "b": None, "c": True}),
        (4, {"a": 9.0, "b": None, "c": None}),
    ]
    assert not any(table.texts for table in found)


def test_json_lines_that_are_no_rows_cost_themselves_only() -> None:
    lines = ['{"a": 1}', "[1]", '{"a": {"b": 1}}', '{"a": "x"}', '{"a": 1, "a": 2}', '{"a": 2}', '{"a": 1e999}']
    found = read_json("\n".join([*[""] * 10, *lines, '{"a": 123456789012345678901234567890}']).encode())
    assert [number for number, _ in rows(found)] == [11, 16, 17, 18]
    assert problems(found) == [
        ("j:12", "XSCL_BAD_EVENT_LINE"),
        ("j:13", "XSCL_BAD_EVENT_LINE"),
        ("j:15", "XSCL_BAD_EVENT_LINE"),
        ("j:14", "XSCL_ROW_SCHEMA"),
    ]
    # Whether a column takes these, its channel says.
    assert found[0].exact == {17: {"a": Decimal("1e999")}, 18: {"a": 123456789012345678901234567890}}


def test_a_key_may_not_come_twice_whatever_stands_behind_it() -> None:
    found = read_json(b'{"a": 1}\n{"a" : 1, "a": 2}\n{"\\u0061": 1, "a": 2}\n{"b" : 1}')
    assert [number for number, _ in rows(found)] == [1, 4]
    assert problems(found) == [("j:2", "XSCL_BAD_EVENT_LINE"), ("j:3", "XSCL_BAD_EVENT_LINE")]


_PIECES = ['{"a": 1}', '{"a": 1}', '{"a":"}"}', '{"a":{}', '{"a":[1', "2]}", "", '{"a": 1}, {"a": 2}', '"b": 1}']
_PIECES += [
    '{"a": 1e999}',
    '{"a": -1e999}',
    '{"a": NaN}',
    '{"a":"\\ud800"}',
    '{"a":"\\ud83d\\ude00"}',
    '{"a": {"b":1}, "a":1}',
]


@given(st.lists(st.sampled_from(_PIECES), max_size=8))
def test_lines_read_together_are_as_each_alone(lines: list[str]) -> None:
    data = [line.encode() for line in lines]
    alone = [plain_row(line) for line in lines]
    together = plain_rows(data)
    assert together in (None, alone)
    assert (together is None) == (None in alone or not lines)


def test_whole_numbers_that_are_no_doubles_do_not_become_some() -> None:
    found = read_json(b'{"a": 9007199254740993}\n{"a": 0.5}\n')
    assert rows(found) == [(1, {"a": None}), (2, {"a": 0.5})]
    assert found[0].exact == {1: {"a": 9007199254740993}}


# -- which files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.csv", b"<x/>", "csv"),
        ("a.TSV.gz", b"", "csv"),
        ("a", b"PAR1....", "parquet"),
        ("a.jsonl", b'{"temp": 1}\n{', "jsonl"),
        ("a.jsonl", b'{"channel": "S", "xml": "<a/>"}\n', None),
        ("a.jsonl", b'{"register": {"text": "S"}}\n', None),
        ("a.jsonl", b'{"flush": true}\n', None),
        ("a.jsonl", b'{"temp": {"x": 1}}\n', None),
        ("a.txt", b"a,b\n", None),
        ("a.xml", b"<x/>", None),
    ],
)
def test_formats_are_told_by_name_and_content(name, head, expected) -> None:
    assert row_format(name, head) == expected
    assert row_format(name, head, "jsonl") == "jsonl"


def records(*paths: Path | str, stdin: bytes = b"", **more: object) -> list[Record]:
    how = Reading(**more)  # type: ignore[arg-type]
    return list(read_paths(list(paths), how, stdin=io.BytesIO(stdin)))


def test_files_of_all_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"v\n1\n", mtime=0))
    (tmp_path / "b.jsonl").write_text('{"v": 1}\n')
    pq.write_table(pa.table({"v": [1, 2]}), tmp_path / "c.parquet")
    (tmp_path / "d.xml").write_text("<d/>")
    found = records(tmp_path)
    assert [type(one) for one in found] == [RowTable, RowTable, RowTable, Event]
    tables = [one for one in found if isinstance(one, RowTable)]
    assert [table.channel for table in tables] == ["a", "b", "c"]
    assert [table.source for table in tables] == [str(tmp_path / name) for name in ("a.csv.gz", "b.jsonl", "c.parquet")]
    assert [number for number, _ in rows(tables)] == [2, 1, 1, 2]
    assert all(table.named for table in tables)


def test_standard_input_has_no_name() -> None:
    [table] = records("-", stdin=b"v\n1\n", format="csv")
    assert isinstance(table, Rejected)
    [found] = read_paths(["-"], Reading("R", format="csv"), stdin=io.BytesIO(b"v\n1\n"))
    assert isinstance(found, RowTable)
    assert not found.named


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.parquet", b"PAR1 no"), ("a.csv.gz", b"\x1f\x8b no"), ("a.csv.gz", gzip.compress(b"a\n" * 9999, mtime=0)[:-9])],
)
def test_files_that_are_damaged(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    *_, last = records(tmp_path / name)
    assert isinstance(last, Rejected)
    assert last.condition == "XSCL_SOURCE_UNREADABLE"


def test_a_file_without_a_channel(tmp_path: Path) -> None:
    (tmp_path / "2026.csv").write_text("v\n1\n")
    [problem] = records(tmp_path)
    assert isinstance(problem, Rejected)
    assert problem.condition == "XSCL_BAD_CHANNEL_NAME"


def test_options_that_are_none() -> None:
    for wrong in ({"format": "xls"}, {"schema": "a"}):
        with pytest.raises(SourceError):
            Reading(**wrong)
    assert Reading(columns="a, b").rows.columns == ("a", "b")


@pytest.mark.parametrize("wrong", [{"ts_zone": "Mars/Base"}, {"ts_format": "%Q"}, {"ts_format": "soon"}])
def test_times_that_cannot_be_meant_are_refused_before_anything_is_read(wrong: dict[str, str]) -> None:
    with pytest.raises(SourceError, match="XSCL_BAD_OPTION"):
        Reading(ts="at", **wrong)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_that_are_too_wide_are_refused_at_once(ending: str, tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(10_001)]
    file = tmp_path / f"wide.{ending}"
    if ending == "csv":
        file.write_text(",".join(names) + "\n1\n")
    else:
        pq.write_table(pa.table({name: [1] for name in names}), file)
    [found] = read_paths([str(file)], Reading())
    assert isinstance(found, Rejected) and found.condition == "XSCL_DOCUMENT_LIMIT"
    assert "10,001 columns" in found.message


def test_a_header_that_is_one_long_name_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        read(b"a" * 200_000 + b",b\n1,2\n")
    assert caught.value.condition == "XSCL_BAD_CSV"


def test_numbers_are_given_once_where_records_end_with_a_carriage_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "CSV_BLOCK", 16)
    numbers = [number for number, _ in rows(read(b"a,b\r\n" + b"1,2\r3,4\n" * 20))]
    assert len(numbers) == 40 and numbers == sorted(set(numbers))
