"""JSON in columns of the catalogue: types of its values, and reading it.

Values that this program never wrote come from damage, or from somebody who changed the database by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, NamedTuple

import sqlalchemy as sa

from xscl.base.errors import CatalogError
from xscl.catalog.tables import CHANNELS, FEEDS, GROUPS, GUARDS, MEMBERSHIPS, QUERIES, RETRACTIONS, SOURCES, TEMPLATES

__all__ = ["JSON_COLUMNS", "read_stored", "wrong_json"]

_SHOWN = 40
"""Characters of a wrong value that a message shows."""


class _Kind(NamedTuple):
    """Types of a JSON value, and of the members of a list or an object; None: any."""

    value: type | tuple[type, ...]
    member: type | tuple[type, ...] | None = None
    keys: frozenset[str] = frozenset()
    """Names that an object has at least."""


JSON_COLUMNS: Mapping[sa.Column[Any], _Kind] = {
    CHANNELS.c.schema: _Kind(dict, (str, NoneType)),
    CHANNELS.c.former: _Kind(list, list),
    TEMPLATES.c.blocks: _Kind(list, int),
    TEMPLATES.c.parents: _Kind(list, int),
    TEMPLATES.c.joins: _Kind(list, list),
    GROUPS.c.namespaces: _Kind(dict, str),
    GROUPS.c.channels: _Kind(list, str),
    GUARDS.c.alternatives: _Kind(list, list),
    QUERIES.c.namespaces: _Kind(dict, str),
    QUERIES.c.names: _Kind(dict, list, frozenset({"meta", "results", "result_blocks", "joined"})),
    QUERIES.c.held_from: _Kind(dict, int),
    RETRACTIONS.c.docs: _Kind(list, int),
    MEMBERSHIPS.c.streams: _Kind(list, int),
    FEEDS.c.outline: _Kind(dict, str),
    FEEDS.c.hints: _Kind(dict, (int, list)),
    FEEDS.c.memory: _Kind((dict, list)),
    SOURCES.c.position: _Kind((dict, list, int, str)),
}
"""Columns that hold JSON."""


def wrong_json(column: sa.Column[Any], text: str) -> str | None:
    """Say what is wrong with the types of the JSON in a column; None: nothing.

    Names that an object lacks are no fault here: they follow from the query's text, and a repair mends them.
    """
    try:
        _load(column, text)
    except RecursionError:
        return "no JSON"
    except ValueError as error:
        return "no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
    return None


def read_stored(column: sa.Column[Any], text: str, read: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a column's JSON.

    Args:
        column: one of ``JSON_COLUMNS``.
        text: its text.
        read: makes the value of the text; None: the JSON as it is.

    Raises:
        CatalogError: ``XSCL_CATALOG_DAMAGED``: the program did not write this.
    """
    try:
        value = _load(column, text)
        if missing := [key for key in JSON_COLUMNS[column].keys if key not in value]:
            raise KeyError(min(missing))
        return value if read is None else read(text)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        told = json.dumps(text[:_SHOWN] if isinstance(text, str) else repr(text)[:_SHOWN])
        raise CatalogError(
            "XSCL_CATALOG_DAMAGED",
            f"column {column.name} of table {column.table.name} of the catalogue cannot be read: it has {told}",
            hint="'xscl doctor --deep' says what else is damaged; bring the catalogue back from a backup",
        ) from error


def _load(column: sa.Column[Any], text: str) -> Any:
    kind, found = JSON_COLUMNS[column], json.loads(text)
    members = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    sound = isinstance(found, kind.value) and (kind.member is None or all(isinstance(m, kind.member) for m in members))
    if not sound:
        raise ValueError("JSON of another kind")
    return found
