"""Compile each statement of the catalogue, and of its tables, once for all homes of a test process."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from xscl.catalog.tables import METADATA


class SharedStatements(dict[tuple[Any, ...], Any]):
    """Compiled statements by the name of their dialect; SQLAlchemy asks by the dialect, which each home has anew."""

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        return super().__getitem__(_by_name(key))

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(_by_name(key), compiled)

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(_by_name(key), default)


def share_compiled_statements() -> None:
    """Give every catalogue that is opened from now on the same compiled statements."""
    shared, create = SharedStatements(), sa.create_engine

    def create_engine(*args: Any, **options: Any) -> sa.Engine:
        engine = create(*args, **options)
        engine.update_execution_options(compiled_cache=shared)
        return engine

    sa.create_engine = create_engine


def share_texts_of_tables() -> None:
    """Make the tables of every new SQLite catalogue by the texts that made the first one's."""
    texts: list[str] = []
    create = METADATA.create_all

    def create_all(connection: sa.Connection) -> None:
        if connection.dialect.name != "sqlite":
            create(connection)
        elif texts:
            cursor = connection.connection.cursor()
            for text in texts:
                cursor.execute(text)
            cursor.close()
        else:
            create(connection)
            made = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
            texts.extend(made.scalars())

    object.__setattr__(METADATA, "create_all", create_all)


def _by_name(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return (key[0].name, key[0].driver, *key[1:])
