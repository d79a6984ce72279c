"""Export of relations for other databases: Parquet files with a script of views, or one file of DuckDB."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from xscl.answers.sql.comments import column_comment, relation_comment
from xscl.answers.sql.relations import home_relations
from xscl.base.errors import EngineError
from xscl.store.home import Home

__all__ = ["VIEWS_FILE", "chosen_relations", "export_relations"]

VIEWS_FILE = "views.sql"
"""Name of the script that makes a view of each Parquet file."""
_DUCKDB = ".duckdb"
_OTHERS = frozenset({".csv", ".db", ".json", ".parquet", ".sql", ".sqlite", ".sqlite3", ".tar", ".zip"})
"""Endings of what somebody else would expect than a folder."""


def chosen_relations(home: Home, patterns: Iterable[str]) -> list[str]:
    """Return the relations of a home whose names fit one of some patterns of ``*`` and ``?``; without patterns all.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: a pattern fits none.
    """
    with home_relations(home) as relations:
        listed = sorted(relations.listed)
    wanted = list(patterns)
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern.lower()) for name in listed):
            raise EngineError("XSCL_BAD_OPTION", f"no relation is called {pattern}", hint="xscl sql 'SHOW TABLES'")
    return [name for name in listed if not wanted or any(fnmatchcase(name, each.lower()) for each in wanted)]


def export_relations(
    relations: Iterable[str], read: Callable[[str], pa.Table], target: Path
) -> Iterator[tuple[str, int]]:
    """Write relations to a folder or, by its ending ``.duckdb``, a file; yield the name and the rows of each.

    Nothing is there under the name of the target before all of it is.

    Args:
        relations: names, in their order.
        read: gives the rows of a relation.
        target: a folder that is not there or empty, or a file that is not there.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: the name is that of another kind of file.
            ``XSCL_CANNOT_WRITE``: something is there, or nothing can be written.
            ``XSCL_NO_DUCKDB``: the package is not installed.
    """
    if target.suffix.lower() in _OTHERS:
        raise EngineError(
            "XSCL_BAD_OPTION",
            f"relations are not written as {target.suffix}",
            hint="name a folder, which gets Parquet files and a script of views, or a FILE.duckdb",
        )
    write = _to_duckdb if target.suffix == _DUCKDB else _to_parquet
    with _unfinished(target) as place:
        yield from write(((name, _plain(read(name))) for name in relations), place)


def _to_parquet(tables: Iterable[tuple[str, pa.Table]], folder: Path) -> Iterator[tuple[str, int]]:
    folder.mkdir()
    views = ["-- In this folder: duckdb -init views.sql"]
    for name, table in tables:
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        views.append(f"CREATE OR REPLACE VIEW \"{name}\" AS SELECT * FROM read_parquet('{name}.parquet');")
        yield name, len(table)
    (folder / VIEWS_FILE).write_text("\n".join(views) + "\n", encoding="utf-8")


def _to_duckdb(tables: Iterable[tuple[str, pa.Table]], file: Path) -> Iterator[tuple[str, int]]:
    try:
        import duckdb
    except ModuleNotFoundError:
        hint = "pip install duckdb; or name a folder, which gets Parquet files"
        raise EngineError("XSCL_NO_DUCKDB", "files of DuckDB need the package duckdb", hint=hint) from None
    with duckdb.connect(str(file)) as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, table in tables:
            database.register("xscl_exported", table)
            database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM xscl_exported')
            database.unregister("xscl_exported")
            for place, comment in _comments(name, table.column_names):
                database.execute(f"COMMENT ON {place} IS '{comment.replace(chr(39), chr(39) * 2)}'")
            yield name, len(table)


def _comments(relation: str, columns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the comments on a relation and its columns, each with its place as DuckDB names it."""
    yield f'TABLE "{relation}"', relation_comment(relation)
    for column in columns:
        if comment := column_comment(relation, column):
            yield f'COLUMN "{relation}"."{column}"', comment


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose columns without any value are texts, because other databases know no type of nothing."""
    fields = [
        pa.field(field.name, pa.string() if pa.types.is_null(field.type) else field.type) for field in table.schema
    ]
    return table.cast(pa.schema(fields))


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """Give a path beside the target, which takes its name at the end."""
    empty = target.is_dir() and target.suffix != _DUCKDB and not any(target.iterdir())
    if os.path.lexists(target) and not empty:
        raise EngineError("XSCL_CANNOT_WRITE", f"{target}: something is there already", hint="another name")
    place = target.resolve().with_name(f".{target.name}.{os.getpid()}{target.suffix}")
    try:
        yield place
        if empty:
            target.rmdir()
        place.rename(target)
    except OSError as error:
        raise EngineError("XSCL_CANNOT_WRITE", f"{target}: {error.strerror or error}") from None
    finally:
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)
