"""A catalogue's rows in another database: out of it into a SQLite file, and from such a file into any catalogue."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Table
from sqlalchemy.engine import Connection

from xscl.catalog.catalog import Catalog
from xscl.catalog.deliveries import forget_deliveries
from xscl.catalog.groups import stored_rt, stored_template
from xscl.catalog.state_files import forget_retired
from xscl.catalog.tables import METADATA, TEMPLATES
from xscl.catalog.tokens import forget_tokens

__all__ = ["copy_to_file", "copy_to_catalog", "file_catalog"]

_CHUNK = 5_000


def copy_to_file(catalog: Catalog, path: Path) -> None:
    """Write what is committed in a catalogue to a new SQLite file, as of one moment; others go on meanwhile.

    Files that went out of use are not named in it.  Tokens and deliveries, which have keys, are left out.
    """
    with catalog.read() as connection:
        if connection.dialect.name == "sqlite":
            source = connection.connection.driver_connection
            assert isinstance(source, sqlite3.Connection)
            target = sqlite3.connect(path)
            try:
                source.backup(target)
                # One file, without a log beside it.
                target.execute("pragma journal_mode = delete")
            finally:
                target.close()
        else:
            with file_catalog(path) as copy, copy.engine.begin() as there:
                METADATA.create_all(there)
                _copy(connection, there)
    with file_catalog(path) as copy, copy.engine.begin() as there:
        # What was removed is overwritten, so that nobody finds it in the file.
        there.exec_driver_sql("pragma secure_delete = on")
        forget_retired(there)
        forget_tokens(there)
        forget_deliveries(there)


@contextmanager
def file_catalog(path: Path) -> Iterator[Catalog]:
    """Open the catalogue in a SQLite file that nobody else uses, without a check that it is one."""
    catalog = Catalog(sa.create_engine(f"sqlite:///{path}"))
    try:
        yield catalog
    finally:
        catalog.close()


def copy_to_catalog(source: Catalog, there: Connection) -> None:
    """Make the tables of a catalogue of this version in a database that has none, and fill them, in a transaction."""
    METADATA.create_all(there)
    with source.read() as here:
        _copy(here, there)
    if there.dialect.name == "postgresql":
        # Sequences do not see numbers that are given.
        for table in METADATA.sorted_tables:
            number = table.autoincrement_column
            if number is not None:
                sequence = sa.func.pg_get_serial_sequence(table.name, number.name)
                greatest = there.scalar(sa.select(sa.func.max(number)))
                if greatest is not None and there.scalar(sa.select(sequence)) is not None:
                    there.execute(sa.select(sa.func.setval(sequence, greatest)))


def _copy(here: Connection, there: Connection) -> None:
    for table in METADATA.sorted_tables:
        _copy_rows(table, here, there)
    for row in here.execute(sa.select(TEMPLATES)).all():
        table = stored_rt(stored_template(row))
        table.create(there)
        _copy_rows(table, here, there)


def _copy_rows(table: Table, here: Connection, there: Connection) -> None:
    rows = here.execution_options(yield_per=_CHUNK).execute(sa.select(table))
    for part in rows.mappings().partitions():
        there.execute(table.insert(), [dict(row) for row in part])
