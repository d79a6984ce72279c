"""How documents and rows are read: options of ``ingest``, ``eval`` and ``query test``, and how refusals are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from xscl.ingest.records import Rejected

__all__ = [
    "ColumnsOption",
    "DelimiterOption",
    "HeaderOption",
    "IdOption",
    "NullOption",
    "SchemaOption",
    "SplitOption",
    "TsFormatOption",
    "TsOption",
    "TsZoneOption",
    "WholeOption",
    "delimiter_of",
    "rejection",
]

SplitOption = Annotated[
    str | None, typer.Option(help="Take these elements of documents as documents: //item, /set/record, //*:entry.")
]


IdOption = Annotated[
    str | None, typer.Option("--id", help="Where a document has its id: @id, ./head/code; of rows: a column.")
]


TsOption = Annotated[
    str | None, typer.Option(help="Where a document has its event time: pubDate, @date; of rows: 'Date Time'.")
]


DelimiterOption = Annotated[
    str | None, typer.Option(help="Between the values of CSV.", show_default="a comma, in .tsv a tab")
]


HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether CSV begins with the names of its columns.")
]


NullOption = Annotated[list[str] | None, typer.Option(help="A text of CSV that stands for NULL, such as NA.")]


SchemaOption = Annotated[
    str | None, typer.Option(help="Columns of rows, 'room string, temp double', for a channel without.")
]


ColumnsOption = Annotated[str | None, typer.Option(help="Only these columns of rows, by commas.")]


TsFormatOption = Annotated[
    str | None, typer.Option(help="How times are written: '%m/%d/%Y %H:%M:%S.%f'; or s, ms, us, ns since 1970.")
]


TsZoneOption = Annotated[str, typer.Option(help="Where times without a zone were written.")]


WholeOption = Annotated[bool, typer.Option("--whole", help="Take feeds as documents, do not split them.")]


def delimiter_of(text: str | None) -> str | None:
    """The delimiter that an option names; shells have no easy tabulator."""
    return "\t" if text == "\\t" else text


def rejection(problem: Rejected) -> str:
    """What a person reads of a rejected document or row."""
    where = f"{problem.source}: " if problem.source else ""
    return f"rejected {where}[{problem.condition}] {problem.message.removeprefix(where)}"
