"""Published rows: what SELECT shows of matches, as cells of the columns of a channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xscl.base.errors import DocumentError
from xscl.base.types import Scalar
from xscl.base.values import number_text
from xscl.catalog.records import ChannelInfo, QueryInfo
from xscl.ingest.rows import fit_row, row_cells
from xscl.language.published_columns import column_name
from xscl.language.selection import Item, Selection, selected_values, told_values
from xscl.language.syntax.parser import parse_query
from xscl.xpath.nodes import Node

__all__ = ["Publication", "match_cells", "publication_of"]

Cells = tuple[str | None, ...]
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class Publication:
    """The way in which a query publishes."""

    spanning: bool
    """Whether events begin with their earliest members."""
    columns: tuple[str, ...] | None
    """Columns of rows, in the order of SELECT; None: it publishes documents."""


def publication_of(query: QueryInfo) -> Publication:
    """Return the way in which a query publishes."""
    parsed = parse_query(query.text)
    columns = None
    if parsed.as_rows and isinstance(parsed.select, tuple):
        columns = tuple(map(column_name, parsed.select))
    return Publication(parsed.spanning, columns)


def match_cells(
    names: Sequence[str],
    selection: Selection | None,
    nodes: Mapping[str, Node],
    results: Sequence[Node],
    to: ChannelInfo,
) -> Cells:
    """Return the cells of a match's row.

    Args:
        names: columns of the query, in the order of its SELECT.
        selection: the query's SELECT; None: its answers are documents of their own, which have the values.
        nodes: by the variables that it mentions.
        results: the result nodes.
        to: the channel.

    Raises:
        DocumentError: ``XSCL_ROW_SCHEMA``: a value is not of its column's type, or there are several.
    """
    values: dict[str, str | None]
    if selection is None:
        values = dict.fromkeys(names)
        values |= told_values(results[0])
    else:
        items = selection if isinstance(selection, tuple) else ()
        values = {name: _one(name, item, nodes) for name, item in zip(names, items, strict=True)}
    schema = to.schema or {}
    if schema.keys() != values.keys():
        differ = sorted(schema.keys() ^ values.keys())[0]
        raise DocumentError("XSCL_ROW_SCHEMA", f"rows of {to.name} have other columns: {differ} is only on one side")
    known = {name: type_ or "string" for name, type_ in schema.items()}
    row, _ = fit_row({name: _value(name, known[name], text) for name, text in values.items()}, known)
    return tuple(row_cells(row, element=to.element))


def _one(name: str, item: Item, nodes: Mapping[str, Node]) -> str | None:
    """Return the value of an item; None: there is none."""
    found = selected_values(item, nodes)
    if len(found) > 1:
        raise DocumentError(
            "XSCL_ROW_SCHEMA", f"column {name!r}: a row has one value of it, and the match {len(found)}"
        )
    return found[0] if found else None


def _value(name: str, type_: str, text: str | None) -> Scalar:
    """Return a value as a row of that type has it."""
    if text is None or type_ == "string":
        return text
    if not text.strip():
        return None
    if type_ in ("bigint", "double"):
        number = number_text(text)
        if number is None or type_ == "bigint" and "." in number:
            raise DocumentError("XSCL_ROW_SCHEMA", f"column {name!r}: expected {type_}, found {text[:80]!r}")
        return int(number) if "." not in number else float(number)
    if type_ == "boolean":
        return _TRUTHS.get(text.strip(), text)
    return text
