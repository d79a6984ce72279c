"""Rows: the schema of a row channel, and a row as a flat two-level document.

A schema maps column names to types, in order.  A column that has only been NULL so far has the type None; its
first value fixes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from xml.sax.saxutils import escape

from xscl.base.errors import DocumentError, MalformedDocumentError, SourceError
from xscl.base.types import Scalar, format_time, to_micros
from xscl.base.values import column_text, digest_text, number_text, written_digits
from xscl.base.xml_characters import NO_CHARACTER, plain_name

__all__ = [
    "COLUMN_TYPES",
    "ROW_DOCUMENT",
    "TEXT_TYPES",
    "cells_digest",
    "cells_document",
    "fit_row",
    "held_digest",
    "infer_schema",
    "is_column",
    "parse_schema",
    "row_cells",
    "row_digest",
    "row_document",
]

COLUMN_TYPES = ("string", "bigint", "double", "boolean", "decimal", "timestamp", "date")
TEXT_TYPES = frozenset(("string", "timestamp", "date"))
"""Types of columns whose values are told from numbers and truth values of the same text."""
_OF_TEXTS = frozenset(("timestamp", "date", "decimal"))
"""Types of columns whose values may be given as texts; several texts may mean one value."""

_SYNONYMS = {
    **{name: name for name in COLUMN_TYPES},
    **dict.fromkeys(("int", "integer", "long"), "bigint"),
    **dict.fromkeys(("text", "varchar"), "string"),
    "float": "double",
    "bool": "boolean",
    "numeric": "decimal",
    **dict.fromkeys(("datetime", "timestamptz"), "timestamp"),
}
_COLUMN_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_BIGINT = range(-(2**63), 2**63)
_MOST_DIGITS = 1_000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


def parse_schema(text: str) -> dict[str, str]:
    """Return the schema written as ``room string, temp double``; type names in any case, with the usual synonyms.

    Raises:
        SourceError: ``XSCL_BAD_SCHEMA``.

    >>> parse_schema("room text, temp float")
    {'room': 'string', 'temp': 'double'}
    """
    schema: dict[str, str] = {}
    for part in text.split(","):
        words = part.split()
        if len(words) != 2:
            raise _bad_schema(f"expected a column and its type, found {part.strip()!r}")
        name, kind = words[0], _SYNONYMS.get(words[1].lower())
        if not is_column(name):
            raise _bad_schema(f"column {name!r} is not a name (letters, digits, _ . -, a letter or _ first)")
        if kind is None:
            raise _bad_schema(f"column {name!r} has the unknown type {words[1]!r}")
        if name in schema:
            raise _bad_schema(f"column {name!r} is given twice")
        schema[name] = kind
    return schema


def infer_schema(row: Mapping[str, Scalar]) -> dict[str, str | None]:
    """Return the schema that a channel's first row fixes.

    Raises:
        DocumentError: ``XSCL_ROW_SCHEMA``: no columns, a name that is no XML name, or a value of no type.

    >>> infer_schema({"a": 1, "b": 1.5, "c": None})
    {'a': 'bigint', 'b': 'double', 'c': None}
    """
    if not row:
        raise _misfit("the first row of a channel fixes its columns, and this one has none")
    for name in row:
        if not is_column(name):
            raise _misfit(f"column {name!r} is not a name (letters, digits, _ . -, a letter or _ first)")
    return {name: _type_of(name, value) for name, value in row.items()}


def fit_row(
    row: Mapping[str, Scalar], schema: Mapping[str, str | None]
) -> tuple[dict[str, Scalar], dict[str, str | None]]:
    """Return the row with all columns in the schema's order, and the schema with the types that this row fixed.

    Missing columns are NULL (None).  Integers in a double column become floats, and so do decimals; numbers and
    numerals in a decimal column become decimals; times and dates, also as ISO 8601, become the texts they are kept as.

    Raises:
        DocumentError: ``XSCL_ROW_SCHEMA``: an unknown column or a value that is not of its column's type.

    >>> fit_row({"b": 2}, {"a": None, "b": "double"})
    ({'a': None, 'b': 2.0}, {'a': None, 'b': 'double'})
    """
    for name in row:
        if name not in schema:
            raise _misfit(f"column {name!r} is unknown; expected {', '.join(schema)}")
    fitted: dict[str, Scalar] = {}
    refined: dict[str, str | None] = {}
    for name, expected in schema.items():
        value = row.get(name)
        refined[name] = expected or _type_of(name, value)
        fitted[name] = _fit(name, value, refined[name])
    return fitted, refined


def row_digest(row: Mapping[str, Scalar]) -> str:
    """Return a digest of a row as it was given, by which an id seen again is told from an id reused.

    >>> row_digest({"a": 1, "b": None}) == row_digest({"a": 1.0})
    True
    """
    present = sorted((name, value) for name, value in row.items() if value is not None)
    # 1 and '1' are different values with one text.
    kinds = {True: "text", False: "value"}
    return digest_text("row", *(f"{n} {kinds[isinstance(v, str | date)]} {_scalar_text(v)}" for n, v in present))


def held_digest(row: Mapping[str, Scalar], schema: Mapping[str, str | None]) -> str | None:
    """Return ``row_digest`` of a row as columns hold it; None where that is the row as it was given.

    A value that does not fit its column counts as it was given.

    >>> held_digest({"a": "1.50"}, {"a": "decimal"}) == cells_digest({"a": "decimal"}, ["1.5"])
    True
    """
    held: dict[str, Scalar] = {}
    for name, value in row.items():
        if isinstance(value, str):
            expected = schema.get(name)
            if expected not in _OF_TEXTS:
                continue
        elif isinstance(value, Decimal):
            expected = schema.get(name) or "double"
            if expected != "double":
                continue
        else:
            continue
        with suppress(DocumentError):
            held[name] = _fit(name, value, expected)
    return row_digest({**row, **held}) if held else None


def cells_digest(columns: Mapping[str, str | None], cells: Sequence[str | None]) -> str:
    """Return ``row_digest`` of a row that was given as its columns (with their types) hold it.

    >>> cells_digest({"a": "bigint", "b": "string"}, ["1", None]) == row_digest({"a": 1})
    True
    """
    present = sorted(
        (name, kind, cell) for (name, kind), cell in zip(columns.items(), cells, strict=True) if cell is not None
    )
    return digest_text("row", *(f"{n} {'text' if kind in TEXT_TYPES else 'value'} {cell}" for n, kind, cell in present))


def _scalar_text(value: Scalar) -> str:
    try:
        if isinstance(value, datetime):
            return _timestamp("", value)
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, Decimal) and value.is_finite() and written_digits(value) > _MOST_DIGITS:
            return str(value)  # no column takes its digits
        return column_text(value) if isinstance(value, (bool, int, float, Decimal, str)) else repr(value)
    except (ValueError, ArithmeticError, DocumentError):
        return repr(value)  # such as NaN, which its channel will refuse


def row_document(row: Mapping[str, Scalar], *, element: str) -> str:
    """Return the row as XML: a root named ``element``, a child for each column that is not NULL, in the row's order.

    Raises:
        MalformedDocumentError: ``XSCL_MALFORMED_DOCUMENT``: a name or a text that XML cannot hold.

    >>> row_document({"room": "a<b", "temp": 3.0, "note": None}, element="r")
    '<r><room>a&lt;b</room><temp>3</temp></r>'
    """
    return cells_document(row_cells(row, element=element), list(row), element=element)


def row_cells(row: Mapping[str, Scalar], *, element: str) -> list[str | None]:
    """Return the text of each column in the row's order; None for NULL.

    Raises:
        MalformedDocumentError: as ``row_document``.

    >>> row_cells({"room": "a<b", "temp": 3.0, "note": None}, element="r")
    ['a<b', '3', None]
    """
    for name in (element, *row):
        if not plain_name().fullmatch(name):
            raise MalformedDocumentError("XSCL_MALFORMED_DOCUMENT", f"{name!r} is not a name of an XML element")
    return [None if value is None else _cell(name, value) for name, value in row.items()]


def _cell(name: str, value: Scalar) -> str:
    text = _scalar_text(value)
    if bad := NO_CHARACTER.search(text):
        raise MalformedDocumentError(
            "XSCL_MALFORMED_DOCUMENT", f"column {name!r} holds U+{ord(bad[0]):04X}, which XML cannot hold"
        )
    return text


def cells_document(cells: Sequence[str | None], columns: Sequence[str], *, element: str) -> str:
    """Return the document of a row by its cells, which ``row_cells`` has found sound.

    >>> cells_document(["a<b", None], ["room", "temp"], element="r")
    '<r><room>a&lt;b</room></r>'
    """
    # A parser would turn a bare carriage return into a line feed.
    texts = [
        f"<{name}>{escape(cell, _REFERENCES)}</{name}>"
        for name, cell in zip(columns, cells, strict=True)
        if cell is not None
    ]
    return f"<{element}>{''.join(texts)}</{element}>"


_REFERENCES = {"\r": "&#13;"}

ROW_DOCUMENT = """
concat('<', shape.element, '>',
       array_join(zip_with(shape.columns, cells, (name, cell) -> concat(
         '<', name, '>',
         replace(replace(replace(replace(cell, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), char(13), '&#13;'),
         '</', name, '>')), ''),
       '</', shape.element, '>')
"""
"""``cells_document`` in Spark SQL, of columns ``cells`` and ``shape`` (a struct of element and columns)."""


def _fit(name: str, value: Scalar, expected: str | None) -> Scalar:
    found = _type_of(name, value)
    if value is None or found is None:
        return None
    if expected == "timestamp":
        return _timestamp(name, value)
    if expected == "date":
        return _date(name, value)
    if expected == "decimal":
        return _decimal(name, value)
    if found != expected and (found, expected) != ("bigint", "double"):
        hint = "; declare its channel's columns before the first row to have doubles" if found == "double" else ""
        raise _misfit(f"column {name!r}: expected {expected}, found {found} {_show(value)}{hint}")
    if expected == "double":
        assert isinstance(value, int | float | Decimal)
        return _double(name, value)
    if expected == "bigint" and value not in _BIGINT:
        raise _misfit(f"column {name!r}: expected bigint (64 bits), found {_show(value)}")
    return value


def _timestamp(name: str, value: object) -> str:
    """Return a time as ISO 8601 in UTC; one without a zone is UTC already."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        if isinstance(value, datetime):
            return format_time(to_micros(value if value.tzinfo is not None else value.replace(tzinfo=UTC)))
    except ValueError:
        pass
    raise _misfit(f"column {name!r}: expected timestamp (ISO 8601, years 1 to 9999), found {_show(value)}")


def _date(name: str, value: object) -> str:
    try:
        if isinstance(value, str) and _DATE.match(value):
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise _misfit(f"column {name!r}: expected date (as 2026-06-01), found {_show(value)}")


def _decimal(name: str, value: object) -> Decimal:
    if isinstance(value, str) and number_text(value) is not None:
        value = Decimal(value.strip(" \t\r\n"))
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        number = Decimal(value)
        # Longer ones are no numbers in comparisons.
        if number.is_finite() and written_digits(number) <= _MOST_DIGITS:
            return number
    raise _misfit(f"column {name!r}: expected decimal (of at most {_MOST_DIGITS:,} digits), found {_show(value)}")


def _double(name: str, value: int | float | Decimal) -> float:
    try:
        number = float(value)
    except (OverflowError, ValueError):  # ValueError: a signalling NaN
        number = math.inf
    if not math.isfinite(number):
        raise _misfit(f"column {name!r}: expected a finite double, found {_show(value)}")
    if isinstance(value, int) and int(number) != value:
        raise _misfit(f"column {name!r}: no double is exactly {_show(value)}")
    return number


def _type_of(name: str, value: object) -> str | None:
    """Return the type of a value; None for NULL."""
    if value is None:
        return None
    for kind, column_type in (
        (bool, "boolean"),
        (int, "bigint"),
        ((float, Decimal), "double"),
        (str, "string"),
        (datetime, "timestamp"),
        (date, "date"),
    ):
        if isinstance(value, kind):
            return column_type
    raise _misfit(f"column {name!r}: expected one of {', '.join(COLUMN_TYPES)}, found {type(value).__name__}")


def is_column(name: object) -> bool:
    """Whether a text can name a column: a name that is also one of XML."""
    return isinstance(name, str) and bool(_COLUMN_NAME.fullmatch(name) and plain_name().fullmatch(name))


def _show(value: object) -> str:
    """Return a value in a message, cut; the digits of an integer may be more than can be written."""
    try:
        text = str(value) if isinstance(value, Decimal) else repr(value)
    except ValueError:
        text = "an integer of very many digits"
    return text if len(text) <= 80 else f"{text[:79]}…"


def _bad_schema(message: str) -> SourceError:
    return SourceError(
        "XSCL_BAD_SCHEMA",
        f"{message}; write 'room string, temp double', with types {', '.join(COLUMN_TYPES)}",
    )


def _misfit(message: str) -> DocumentError:
    return DocumentError("XSCL_ROW_SCHEMA", message)
