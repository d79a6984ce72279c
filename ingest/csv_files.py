"""CSV (RFC 4180, UTF-8) into tables of rows, a block of whole records at a time.

pyarrow parses the blocks.  Its own stream of blocks (``pyarrow.csv.open_csv``) is not used, because it counts records
instead of lines, and because a line that is not UTF-8 ends the whole file there.  Here such a line costs itself alone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from xscl.base.errors import SourceError
from xscl.base.shown import counted
from xscl.base.ways import way
from xscl.ingest.lines import ByteStream
from xscl.ingest.reading import Reading
from xscl.ingest.records import Noted, Rejected, RowTable
from xscl.ingest.row_format import BOM, ENDINGS, check_width, ending
from xscl.ingest.rows import is_column

__all__ = ["CSV_BLOCK", "CsvRange", "csv_columns", "read_csv", "record_ends"]


CSV_BLOCK = 16 * 1024 * 1024
"""Bytes of CSV that are read at once, and what one record may have."""


_DELIMITERS = (",", ";", "\t", "|")
_MARKED = r"^[+-]?(?:\d+(?:,\d+)?|\d{1,3}(?:[.' ]\d{3})+(?:,\d+)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?)$"
"""Numbers as people write them in some countries, in the notation of RE2."""
_LOOKED_AT = 1_000
"""Rows of a file whose values are looked at for such numbers."""
_NO_NAME = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class CsvRange:
    """One block of a file, as reading from the beginning cuts it."""

    begin: int
    """Offset of its first record."""
    size: int | None
    """Bytes of its records; None: all that is left."""
    first: int
    """Bytes up to where the block was cut."""
    line: int
    """Number of its first line."""
    columns: tuple[str, ...] | None
    """Names of the columns; None: its first line has them."""


def read_csv(
    stream: ByteStream,
    *,
    channel: str,
    source: str,
    reading: Reading,
    within: CsvRange | None = None,
) -> Iterator[RowTable | Noted]:
    """Yield the rows of CSV (RFC 4180, UTF-8); a record of another number of values is a problem of its table.

    A row's number is that of the line it begins in.  Blank lines are passed over.

    Args:
        stream: from its beginning on, or from that of the range.
        channel: the rows' channel.
        source: what places and ids begin with.
        reading: options; ``format`` has no meaning here.
        within: the range to read; None: the whole file.

    Raises:
        SourceError: ``XSCL_BAD_CSV``: no header, or a record that does not end.
    """
    delimiter = _delimiter(source, reading)
    columns: Sequence[str] | None = None
    line, blocks = 1, _blocks(stream)
    if within is not None:
        columns, line = within.columns, within.line
        blocks = _blocks(stream, within.first) if within.size is None else iter([stream.read(within.size)])
    for block in blocks:
        begins = columns is None
        if columns is None:
            block = block.removeprefix(BOM)
            columns, used, lines = _header(block, reading, delimiter, source)
            if len(columns) == 1 and (other := _other_delimiter(block[:used], delimiter)) is not None:
                meant = f"did you mean {way(f'--delimiter {other!r}', f'delimiter={other!r}')}?"
                yield Noted(source, f"it is read as one column, {columns[0]}; {meant}")
            line, block = line + lines, block[used:]
        if block.strip():
            table = _csv_table(block, line, columns, delimiter, channel, source, reading)
            if begins:
                yield from _marked_numbers(table)
            yield table
            assert table.numbers is not None
            # Where records end with a carriage return alone there are more of them than line feeds.
            least = int(table.numbers[-1]) + 1 if len(table.numbers) else line
        else:
            least = line
        line = max(line + block.count(b"\n"), least)


def csv_columns(block: bytes, *, source: str, reading: Reading) -> tuple[str, ...]:
    """Return the names of the columns by the first block of a file.

    Raises:
        SourceError: ``XSCL_BAD_CSV``; ``XSCL_BAD_OPTION``.
    """
    return tuple(_header(block.removeprefix(BOM), reading, _delimiter(source, reading), source)[0])


def _delimiter(source: str, reading: Reading) -> str:
    delimiter = reading.delimiter or ENDINGS.get(ending(source), ",")
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise SourceError("XSCL_BAD_OPTION", f"{delimiter!r} cannot stand between values", hint="one character, as ;")
    return delimiter


def _blocks(stream: ByteStream, first: int | None = None) -> Iterator[bytes]:
    """Yield the stream in pieces of whole records; the first cut is behind ``first`` bytes."""
    rest = b""
    wanted = first or CSV_BLOCK
    while data := stream.read(wanted):
        wanted = CSV_BLOCK
        rest += data
        end = _last_end(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > 2 * CSV_BLOCK:
            raise SourceError(
                "XSCL_BAD_CSV", f"a record has more than {CSV_BLOCK:,} bytes; is a quotation mark missing?"
            )
    if rest:
        yield rest


def _last_end(data: bytes) -> int:
    """Find the end of the last whole record; 0 if there is none."""
    if b'"' not in data:
        return data.rfind(b"\n") + 1
    ends = record_ends(data)
    return int(ends[-1]) + 1 if len(ends) else 0


def record_ends(data: bytes) -> npt.NDArray[np.int64]:
    """Return the line ends that are not inside quotation marks."""
    found = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(found == 10)
    marks = np.flatnonzero(found == 34)
    whole: npt.NDArray[np.int64] = ends[np.searchsorted(marks, ends) % 2 == 0]
    return whole


def _header(block: bytes, reading: Reading, delimiter: str, source: str) -> tuple[list[str], int, int]:
    """Return the names of the columns, and the bytes and lines before the first row."""
    ends = record_ends(block)
    begin = 0
    for end in [*ends.tolist(), len(block)]:
        if block[begin:end].strip():
            break
        begin = end + 1
    else:
        end = len(block)
    try:
        text = block[begin:end].decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError("XSCL_BAD_CSV", f"{source}: the first line is not UTF-8") from None
    check_width(text.count(delimiter) + 1, source)
    try:
        names = next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error as error:
        raise SourceError("XSCL_BAD_CSV", f"{source}: the first line does not name columns: {error}") from None
    names = [name if is_column(name) else _name_of(name) for name in map(str.strip, names)]
    known = list(reading.declared or ())
    if reading.header is False or (reading.header is None and known and set(names) != set(known)):
        if not known:
            raise SourceError("XSCL_BAD_CSV", f"{source}: without a header the columns are not known", hint="--schema")
        return known, 0, 0
    if not names or not all(map(is_column, names)) or len(set(names)) < len(names):
        raise SourceError(
            "XSCL_BAD_CSV",
            f"{source}: the first line does not name columns: {text.strip()[:80]!r}",
            hint="give --schema 'column type, …' if there is no header, --delimiter if it is no comma",
        )
    used = min(end + 1, len(block))
    return names, used, block[:used].count(b"\n")


def _other_delimiter(header: bytes, delimiter: str) -> str | None:
    """Find what may stand between the names of a header that has one column; None: nothing does."""
    found = [(header.count(other.encode()), other) for other in _DELIMITERS if other != delimiter]
    count, other = max(found)
    return other if count else None


def _name_of(text: str) -> str:
    """Return a column's name of a header's: what a name cannot hold becomes ``_``."""
    name = _NO_NAME.sub("_", text)
    return name if is_column(name) or not name else f"_{name}"


def _csv_table(
    block: bytes, line: int, columns: Sequence[str], delimiter: str, channel: str, source: str, reading: Reading
) -> RowTable:
    problems: list[Rejected] = []
    block, broken = _decoded(block)
    problems += [Rejected(f"{source}:{line + at}", "XSCL_BAD_CSV", "the line is not UTF-8", channel) for at in broken]
    bad: list[pacsv.InvalidRow] = []
    table = _parsed(block, columns, delimiter, reading.nulls, bad, threads=True)
    if bad:
        # Only a reader with one thread counts.
        bad.clear()
        table = _parsed(block, columns, delimiter, reading.nulls, bad, threads=False)
    lines = line + _first_lines(block, len(table) + len(bad))
    for row in bad:
        problems.append(
            Rejected(
                f"{source}:{lines[row.number - 1]}",
                "XSCL_BAD_CSV",
                f"expected {counted(row.expected_columns, 'value')}, found {row.actual_columns}",
                channel,
            )
        )
    numbers = np.delete(lines, [row.number - 1 for row in bad])
    return RowTable(
        channel,
        table,
        source,
        numbers,
        texts=True,
        options=reading.rows,
        schema=reading.declared,
        problems=tuple(problems),
    )


def _marked_numbers(table: RowTable) -> Iterator[Noted]:
    """Note columns whose numbers have a comma for their point, or marks between thousands, and so are texts."""
    for name in table.rows.column_names:
        column = pc.drop_null(table.rows.column(name).slice(0, _LOOKED_AT))
        marked = column.filter(pc.match_substring(column, ","))
        if len(marked) and pc.all(pc.match_substring_regex(column, _MARKED)).as_py():
            told = f"column {name} has texts such as {marked[0].as_py()}, and no numbers: numbers have a point, "
            yield Noted(table.source, f"{told}and no marks between thousands")


def _decoded(block: bytes) -> tuple[bytes, list[int]]:
    """Return the block with lines that are not UTF-8 left empty, and their places."""
    try:
        block.decode("utf-8")
        return block, []
    except UnicodeDecodeError:
        pass
    lines, broken = block.split(b"\n"), []
    for place, text in enumerate(lines):
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            broken.append(place)
            lines[place] = b""
    return b"\n".join(lines), broken


def _parsed(
    block: bytes,
    columns: Sequence[str],
    delimiter: str,
    nulls: Sequence[str],
    bad: list[pacsv.InvalidRow],
    *,
    threads: bool,
) -> pa.Table:
    def skip(row: pacsv.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    if not block.strip():
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    return pacsv.read_csv(
        pa.BufferReader(block),
        read_options=pacsv.ReadOptions(column_names=list(columns), use_threads=threads, block_size=len(block) + 1),
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=True, invalid_row_handler=skip
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=["", *nulls],
        ),
    )


def _first_lines(block: bytes, count: int) -> npt.NDArray[np.int64]:
    """Count the lines before the line in which each record begins."""
    if b'"' not in block and b"\n\n" not in block and b"\n\r\n" not in block and block[:1] not in (b"\n", b"\r"):
        return np.arange(count, dtype=np.int64)
    ends = record_ends(block)
    starts = np.concatenate([[0], ends + 1])
    stops = np.concatenate([ends, [len(block)]])
    found = np.frombuffer(block, dtype=np.uint8)
    sizes = stops - starts
    last = found[np.clip(stops - 1, 0, len(block) - 1)]
    blank = (sizes == 0) | ((sizes == 1) & (last == 13))
    lines: npt.NDArray[np.int64] = np.searchsorted(np.flatnonzero(found == 10), starts[~blank]).astype(np.int64)
    # A stray quotation mark makes records of other lines; then they are just counted.
    if len(lines) != count:
        lines = np.arange(count, dtype=np.int64)
    return lines
