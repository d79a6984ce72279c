"""Tables of SQL databases into tables of rows: those whose key is greater than that of the last row taken.

The key must grow: rows are read in its order, and a row that appears later with a key below the last one taken is not
seen.  Where transactions may commit in another order than they drew their keys, feed a table some time after its rows
were written, or one that is filled by a single writer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import cast

import pyarrow as pa
import sqlalchemy as sa

from xscl.base.errors import SourceError
from xscl.base.shown import masked
from xscl.base.types import Scalar
from xscl.ingest.json_rows import python_table
from xscl.ingest.reading import Reading
from xscl.ingest.records import Position, RowTable

__all__ = ["key_position", "keyed_table", "position_key", "read_sql_table", "shown_url", "sql_source"]

_ROWS = 50_000


def shown_url(url: str) -> str:
    """Return a database's address without its password.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``: it is none.
    """
    try:
        return masked(sa.make_url(url).render_as_string(hide_password=True))
    except sa.exc.ArgumentError:
        raise SourceError(
            "XSCL_BAD_OPTION", "this is no SQLAlchemy URL of a database", hint="as sqlite:///x.db"
        ) from None


def sql_source(shown: str, table: str, channel: str) -> str:
    """Return the name of a table's position; each channel has its own."""
    return f"{shown}#{table} > {channel}"


def key_position(key: object) -> str:
    """Return a key as positions hold it.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``: a key of this type has no order that is kept.
    """
    if isinstance(key, datetime):
        return json.dumps({"key": key.isoformat(), "type": "timestamp"})
    if isinstance(key, Decimal) and key == key.to_integral_value():
        key = int(key)
    if isinstance(key, int | str) and not isinstance(key, bool):
        return json.dumps({"key": key})
    raise SourceError(
        "XSCL_BAD_OPTION",
        f"a key of type {type(key).__name__} does not grow",
        hint="a whole number, a time or a text that is never NULL",
    )


def position_key(position: str) -> int | str | datetime:
    """Return the key of a position."""
    found = json.loads(position)
    return datetime.fromisoformat(found["key"]) if found.get("type") == "timestamp" else found["key"]


def read_sql_table(
    url: str, table: str, *, key: str, channel: str, position: str | None, reading: Reading
) -> Iterator[RowTable]:
    """Yield the rows of a table or view above a position, in the order of the key, with the position they lead to.

    Ids are the table's name and the key, unless ``reading.id`` names a column.

    Args:
        url: SQLAlchemy URL of the database.
        table: its name, with its schema if that is not the usual one (``schema.table``).
        key: a column that grows from row to row.
        channel: the rows' channel.
        position: what was stored with the last rows; None: from the beginning.
        reading: options, and the columns of a channel that is not known yet.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``, ``XSCL_NO_COLUMN``, ``XSCL_SOURCE_UNREADABLE``.
    """
    shown = shown_url(url)
    kept_as = sql_source(shown, table, channel)
    try:
        engine = _engine(url, shown)
        try:
            for rows in _partitions(engine, table, key, None if position is None else position_key(position), reading):
                yield _row_table(rows, table, key, channel, kept_as, reading)
        finally:
            engine.dispose()
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        reason = str(error.orig) if isinstance(error, sa.exc.DBAPIError) else str(error).partition("\n")[0]
        raise SourceError("XSCL_SOURCE_UNREADABLE", f"{shown}: {reason}") from None


def keyed_table(
    rows: pa.Table, table: str, *, key: str, channel: str, kept_as: str, reading: Reading
) -> Iterator[RowTable]:
    """Yield rows in the order of a key as ``read_sql_table`` yields them; nothing if there are none.

    Raises:
        SourceError: as there.
    """
    for start in range(0, len(rows), _ROWS):
        part = rows.slice(start, _ROWS)
        yield _row_table(part.to_pylist(), table, key, channel, kept_as, reading)


def _engine(url: str, shown: str) -> sa.Engine:
    engine = sa.create_engine(url)
    file = engine.url.database
    # SQLite would make a database that is not there.
    if engine.dialect.name == "sqlite" and file and not file.startswith((":", "file:")) and not Path(file).exists():
        raise SourceError("XSCL_SOURCE_UNREADABLE", f"{shown}: there is no such file")
    return engine


def _partitions(
    engine: sa.Engine, table: str, key: str, above: object, reading: Reading
) -> Iterator[list[dict[str, object]]]:
    schema, _, name = table.rpartition(".")
    if not sa.inspect(engine).has_table(name, schema=schema or None):
        known = ", ".join(sa.inspect(engine).get_table_names()[:20])
        raise SourceError("XSCL_BAD_OPTION", f"there is no table {table!r}", hint=f"tables are {known}")
    found = sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=engine)
    options = reading.rows
    wanted = found.columns.keys() if options.columns is None else list(options.columns)
    times = options.ts.split() if options.ts and options.ts not in found.columns else [options.ts]
    needed = [name for name in dict.fromkeys([*wanted, key, options.id, options.op, *times]) if name]
    for name in needed:
        if name not in found.columns:
            raise SourceError(
                "XSCL_NO_COLUMN",
                f"the table {table} has no column {name!r}",
                hint=f"columns are {', '.join(found.columns.keys())}",
            )
    statement = sa.select(*(found.columns[name] for name in needed)).order_by(found.columns[key])
    if above is not None:
        statement = statement.where(found.columns[key] > above)
    with engine.connect() as connection:
        result = connection.execution_options(stream_results=True, yield_per=_ROWS).execute(statement)
        for part in result.mappings().partitions():
            yield [{name: _plain(value) for name, value in row.items()} for row in part]


def _plain(value: object) -> object:
    """Return a value of a type that rows have; others, such as UUIDs and times of day, as texts."""
    if value is None or isinstance(value, bool | int | float | str | Decimal | datetime | date | bytes):
        return value
    return str(value)


def _row_table(
    rows: list[dict[str, object]], table: str, key: str, channel: str, kept_as: str, reading: Reading
) -> RowTable:
    position = key_position(rows[-1][key])
    keys = [row[key] for row in rows]
    whole = all(isinstance(value, int) for value in keys)
    options = reading.rows
    if not whole and options.id is None:
        if not all(isinstance(value, str) for value in keys):
            raise SourceError(
                "XSCL_BAD_OPTION", f"the key {key} is no id", hint="name a column of whole numbers or texts with --id"
            )
        options = replace(options, id=key)
    if options.columns is None:
        options = replace(options, columns=tuple(rows[0]))
    numbers = cast(list[int], keys) if whole else list(range(1, len(rows) + 1))
    given = cast(list[dict[str, Scalar]], rows)
    made = python_table(given, numbers, channel=channel, source=table, reading=reading)
    return replace(made, options=options, position=Position(kept_as, position))
