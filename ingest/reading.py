"""Options of reading, as users name them: one record for documents, feeds and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import SourceError, XsclError
from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.base.ways import way
from xscl.ingest.paths import SplitPath, ValuePath, split_path, value_path
from xscl.ingest.records import RowOptions
from xscl.ingest.row_format import FORMATS, Format
from xscl.ingest.row_times import check_times
from xscl.ingest.rows import parse_schema

__all__ = ["DEFAULT_READING", "Reading"]


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of reading.  Paths know the prefixes that queries need not declare.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``, ``XSCL_BAD_SCHEMA``: an option is not understood.
    """

    channel: str | None = None
    """Channel of documents (else ``documents``), of feed items (else ``items``) and of rows (else the file's name).
    Events of event files keep their own."""
    whole: bool = False
    """Whether a feed is one document."""
    split: str | None = None
    """Elements of a document, also of a feed, that are documents of their own: ``//item``."""
    id: str | None = None
    """Place of a document's id: ``@id``; without an id there, or without this, it is a digest of the content.
    In rows: the column of ids; without it the place in the file is the id."""
    ts: str | None = None
    """Place of a document's event time: ``head/date``; without a time there, or without this, it is the time of
    receipt.  In rows: the column of times, or several by white space."""
    format: Format | None = None
    """Format of files of rows: ``csv``, ``jsonl`` or ``parquet``; by default their names and contents tell."""
    delimiter: str | None = None
    """Character between the values of CSV; by default a tab in ``.tsv`` files, else a comma."""
    header: bool | None = None
    """Whether the first line of CSV names the columns.  By default it does, unless ``schema`` has other names."""
    null: str | Sequence[str] = ()
    """Texts of CSV that stand for NULL, besides nothing."""
    schema: str | None = None
    """Columns and types of rows, ``room string, temp double``, for a channel that is not known yet.  They name the
    columns of CSV without a header."""
    columns: str | Sequence[str] | None = None
    """Columns of rows to take, in a list or by commas; all by default."""
    ts_format: str | None = None
    """Format of times, as for ``strptime``, or the unit of numbers since 1970: ``s``, ``ms``, ``us``, ``ns``."""
    ts_zone: str = "UTC"
    """Zone of times that have none."""
    op: str | None = None
    """Column of rows that says whether each is inserted, updated or deleted; it goes with ``id``."""
    start: str | None = None
    """Column of rows, or several by white space, with the time at which each begins; it goes with ``ts``."""
    limits: Limits = DEFAULT_LIMITS
    """Limits of a document."""
    keeps_feeds: bool = False
    """Whether feeds are read with their content as published, for whoever sends them on."""

    split_path: SplitPath | None = field(init=False, repr=False, compare=False)
    """``split`` as a path."""
    id_path: ValuePath | None = field(init=False, repr=False, compare=False, default=None)
    """``id`` as a path."""
    ts_path: ValuePath | None = field(init=False, repr=False, compare=False, default=None)
    """``ts`` as a path."""
    no_paths: XsclError | None = field(init=False, repr=False, compare=False, default=None)
    """Reason why ``id`` or ``ts`` is no path in documents, if it is none; it may still be a column of rows."""
    nulls: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """``null`` as texts."""
    declared: Mapping[str, str] | None = field(init=False, repr=False, compare=False)
    """``schema`` as types by column."""
    rows: RowOptions = field(init=False, repr=False, compare=False)
    """Columns and times of rows, for tables."""

    def __post_init__(self) -> None:
        if self.format not in (None, *FORMATS):
            raise SourceError("XSCL_BAD_OPTION", f"there is no format {self.format!r}", hint="csv, jsonl or parquet")
        check_times(self.ts_format, self.ts_zone)
        if self.op is not None and self.id is None:
            raise SourceError(
                "XSCL_BAD_OPTION", "changes of rows need ids", hint=f"name the column of ids, by {way('--id', 'id=')}"
            )
        if self.start is not None and self.ts is None:
            raise SourceError(
                "XSCL_BAD_OPTION",
                "what begins has a time at which it ends",
                hint=f"name its column, by {way('--ts', 'ts=')}",
            )
        names = self.columns
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",")]
        found: dict[str, object] = {
            "rows": RowOptions(
                None if names is None else tuple(names),
                self.id,
                self.ts,
                self.ts_format,
                self.ts_zone,
                self.op,
                self.start,
            ),
            "nulls": (self.null,) if isinstance(self.null, str) else tuple(self.null),
            "declared": None if self.schema is None else parse_schema(self.schema),
            "split_path": None if self.split is None else split_path(self.split, DEFAULT_NAMESPACES),
        }
        try:
            found["id_path"] = None if self.id is None else value_path(self.id, DEFAULT_NAMESPACES)
            found["ts_path"] = None if self.ts is None else value_path(self.ts, DEFAULT_NAMESPACES)
        except XsclError as error:
            if self.split is not None:
                raise  # records are documents
            found |= {"no_paths": error, "id_path": None}
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def refuse_split(self, source: str, kind: str) -> None:
        """Refuse a source that has no elements where ``split`` asks for some.

        Args:
            source: where from.
            kind: words for what it is instead of an XML document.

        Raises:
            SourceError: ``XSCL_BAD_OPTION``.
        """
        if self.split is not None:
            raise SourceError(
                "XSCL_BAD_OPTION",
                f"{source}: {kind}, and no XML document whose elements --split could take",
                hint=f"take it in by itself, without {way('--split', 'split=')}",
            )


DEFAULT_READING = Reading()
