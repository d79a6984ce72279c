"""Options of reading, which ``ingest``, ``eval`` and ``query test`` share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.settings import DEFAULT_MAX_BYTES, DEFAULT_MAX_NODES

if TYPE_CHECKING:
    from xscl.ingest.reading import Reading

__all__ = ["ChannelOption", "IngestReading", "TimedReading", "WitnessReading"]

ChannelOption = Annotated[str | None, typer.Option(help="Channel of documents, feed items and rows.")]


class RowsFormat(StrEnum):
    """Formats of files of rows."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


@dataclass(frozen=True, slots=True)
class WitnessReading:
    """Options of reading documents whose times do not matter."""

    whole: Annotated[bool, typer.Option("--whole", help="Take feeds as documents, do not split them.")] = False
    split: Annotated[
        str | None, typer.Option(help="Take these elements of documents as documents: //item, /set/record, //*:entry.")
    ] = None
    id: Annotated[
        str | None, typer.Option("--id", help="Where a document has its id: @id, ./head/code; of rows: a column.")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option(help="Character between the values of CSV.", show_default="a comma, in .tsv a tab")
    ] = None
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether CSV begins with the names of its columns.")
    ] = None
    null: Annotated[list[str] | None, typer.Option(help="A text of CSV that stands for NULL, such as NA.")] = None
    schema: Annotated[
        str | None, typer.Option(help="Columns of rows, 'room string, temp double', for a channel without.")
    ] = None
    columns: Annotated[str | None, typer.Option(help="Only these columns of rows, by commas.")] = None

    def reading(self, channel: str | None) -> Reading:
        """Make the record of all options."""
        from xscl.base.document_limits import Limits
        from xscl.ingest.reading import Reading

        given = {field.name: getattr(self, field.name) for field in fields(self)}
        # Shells have no easy tabulator.
        given["delimiter"] = "\t" if self.delimiter == "\\t" else self.delimiter
        given["null"] = self.null or ()
        limits = {name: given.pop(name) for name in ("max_bytes", "max_nodes") if name in given}
        return Reading(channel, **given, limits=Limits(**limits))


@dataclass(frozen=True, slots=True)
class TimedReading(WitnessReading):
    """Options of reading, with those of times."""

    ts: Annotated[
        str | None, typer.Option(help="Where a document has its event time: pubDate, @date; of rows: 'Date Time'.")
    ] = None
    ts_format: Annotated[
        str | None, typer.Option(help="How times are written: '%m/%d/%Y %H:%M:%S.%f'; or s, ms, us, ns since 1970.")
    ] = None
    ts_zone: Annotated[str, typer.Option(help="Where times without a zone were written.")] = "UTC"


@dataclass(frozen=True, slots=True)
class IngestReading(TimedReading):
    """Options of reading, with format and limits."""

    format: Annotated[
        RowsFormat | None, typer.Option("--format", help="Rows in this format.", show_default="by name and content")
    ] = None
    op: Annotated[
        str | None, typer.Option("--op", help="Rows are changes; this column says insert, update or delete.")
    ] = None
    start: Annotated[str | None, typer.Option(help="Column of rows with the times at which they begin.")] = None
    max_bytes: Annotated[int, typer.Option(min=1, help="Bytes of a document.")] = DEFAULT_MAX_BYTES
    max_nodes: Annotated[int, typer.Option(min=1, help="Elements, attributes and the like of a document.")] = (
        DEFAULT_MAX_NODES
    )
