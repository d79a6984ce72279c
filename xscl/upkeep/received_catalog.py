"""A catalogue that a stranger sent: its rows are copied, one by one and checked, into a catalogue that we make.

Nothing of the received database is executed or opened by anything else.  Its schema must be, word by word, what this
program makes; so it has no trigger, view, generated column, virtual table, or expression of its own.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa

from xscl.base.system_errors import damage_told
from xscl.catalog.groups import stored_rt, stored_template
from xscl.catalog.tables import DEAD_LETTERS, DELIVERIES, METADATA, TEMPLATES, TOKENS
from xscl.upkeep.row_checks import MOST_TEXT, wrong_value

__all__ = ["BadCatalogError", "copy_received"]

_TEMPLATE = re.compile(r"[a-z][a-z0-9]*_[0-9a-f]{1,64}\Z")
_ROWS = 5_000
_NOT_TAKEN = (TOKENS, DELIVERIES, DEAD_LETTERS)
"""Tables that are not copied: a stranger says neither who may use a home nor where its matches go."""
_MOST_ROWS = 1 << 32


class BadCatalogError(Exception):
    """Says what is wrong with a received catalogue."""


def copy_received(received: Path, target: Path) -> None:
    """Make a catalogue at ``target`` with the rows of a received one.

    Raises:
        BadCatalogError: it is damaged, has another schema, or rows that this program does not write.
    """
    try:
        with closing(_opened(received)) as source:
            found = source.execute("pragma quick_check(1)").fetchone()[0]
            if found != "ok":
                raise BadCatalogError(f"its catalogue is damaged: {found}")
            _require_schema(source, METADATA.sorted_tables, others=True)
            templates = [_template_table(row) for row in _rows(source, TEMPLATES)]
            tables = [*METADATA.sorted_tables, *templates]
            _require_schema(source, tables, others=False)
            engine = sa.create_engine(f"sqlite:///{target}")
            try:
                with engine.begin() as connection:
                    METADATA.create_all(connection)
                    for table in templates:
                        table.create(connection)
                    for table in tables:
                        if table not in _NOT_TAKEN:
                            _copy(source, connection, table)
                    _require_home(connection)
            finally:
                engine.dispose()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise BadCatalogError(f"its catalogue cannot be read: {damage_told(error)}") from None
    except sa.exc.DBAPIError as error:
        raise BadCatalogError(f"its rows contradict each other: {error.orig}") from None


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    for setting in ("trusted_schema = off", "cell_size_check = on", "mmap_size = 0", "query_only = on"):
        connection.execute(f"pragma {setting}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 * MOST_TEXT)
    return connection


def _require_schema(source: sqlite3.Connection, tables: list[sa.Table], *, others: bool) -> None:
    """Refuse a schema that is not what these tables have; ``others`` says whether tables of templates may be there."""
    wanted = _schema(tables)
    names = {table.name for table in tables}
    found = {
        (kind, name, table, sql)
        for kind, name, table, sql in source.execute("select type, name, tbl_name, sql from sqlite_master")
        if not (others and kind in ("table", "index") and str(table).startswith("rt_"))
        # What ANALYZE has noted is not copied.
        and not (kind == "table" and re.fullmatch(r"sqlite_stat[14]", str(name)))
    }
    for kind, name, table, _ in sorted(found - wanted, key=repr):
        which = "is not as this program makes it" if name in names else "is none of this program"
        raise BadCatalogError(f"{kind} {name!r} of its catalogue (table {table!r}) {which}")
    for kind, name, *_ in sorted(wanted - found, key=repr):
        raise BadCatalogError(f"its catalogue lacks {kind} {name!r}")


def _schema(tables: list[sa.Table]) -> set[tuple[str, str, str, str | None]]:
    """Return the rows of ``sqlite_master`` of a database with these tables."""
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        METADATA.create_all(connection)
        for table in tables:
            table.create(connection, checkfirst=True)
        rows = connection.exec_driver_sql("select type, name, tbl_name, sql from sqlite_master").all()
    engine.dispose()
    return {(kind, name, table, sql) for kind, name, table, sql in rows}


def _template_table(row: Mapping[str, Any]) -> sa.Table:
    name = row["template"]
    if not _TEMPLATE.match(name):
        raise BadCatalogError(f"{name!r} in its table templates is no template")
    try:
        return stored_rt(stored_template(SimpleNamespace(**row)))  # type: ignore[arg-type]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise BadCatalogError(f"the template {name!r} is none: {type(error).__name__}: {error}") from None


def _rows(source: sqlite3.Connection, table: sa.Table) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a table, checked."""
    quoted = ", ".join(f'"{column.name}"' for column in table.columns)
    check = wrong_value(table)
    for number, row in enumerate(source.execute(f'select {quoted} from "{table.name}"')):
        if number >= _MOST_ROWS:
            raise BadCatalogError(f"its table {table.name} has too many rows")
        if (wrong := check(row)) is not None:
            raise BadCatalogError(wrong)
        yield dict(zip(table.columns.keys(), row, strict=True))


def _copy(source: sqlite3.Connection, connection: sa.Connection, table: sa.Table) -> None:
    truths = {column.name for column in table.columns if isinstance(column.type, sa.Boolean)}
    part: list[dict[str, Any]] = []
    for row in _rows(source, table):
        part.append(
            {name: value if name not in truths or value is None else bool(value) for name, value in row.items()}
        )
        if len(part) >= _ROWS:
            connection.execute(table.insert(), part)
            part = []
    if part:
        connection.execute(table.insert(), part)


def _require_home(connection: sa.Connection) -> None:
    home = METADATA.tables["home"]
    rows = connection.execute(sa.select(home)).all()
    if len(rows) != 1 or rows[0].one != 1:
        raise BadCatalogError(f"its table home has {len(rows)} rows, and should have one")
    if not rows[0].processed < rows[0].next_place:
        raise BadCatalogError("places of its table home contradict each other")
