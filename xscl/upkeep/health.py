"""Integrity check of a home: its files, its tables, and the rows that follow from texts.

A look at a home changes nothing and needs no lock.  Without ``deep`` it reads the catalogue, and of each file how many
rows it has.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED
from xscl.base.errors import CatalogError
from xscl.base.locks import holder
from xscl.base.sealed import LIST, damaged_files
from xscl.base.system_errors import damage_told
from xscl.base.temporary import let_folder_go
from xscl.catalog.counters import REMOVED_EVENTS, total
from xscl.catalog.event_counts import channel_counts
from xscl.catalog.groups import stored_rt, stored_template
from xscl.catalog.intake_order import sweeps
from xscl.catalog.parts import has_parts
from xscl.catalog.read_only import is_read_only, reader_of
from xscl.catalog.tables import (
    BATCHES,
    CHANNELS,
    GROUPS,
    HOME,
    INSTANCES,
    INTAKE_FILES,
    METADATA,
    NEVER,
    QUERIES,
    TEMPLATES,
)
from xscl.store.home import Home
from xscl.store.inventory import NamedFile, files_of, named_files
from xscl.store.orphans import unnamed_files
from xscl.store.results import stored_matches
from xscl.upkeep.derived_rows import derived_differences
from xscl.upkeep.file_rows import wrong_file_rows
from xscl.upkeep.row_checks import wrong_value
from xscl.upkeep.state_checks import UNREADABLE, state_rows, wrong_state_file

__all__ = ["Damaged", "Health", "derived_problems", "examine_home", "has_removed", "looks_like_a_catalogue"]

_LITTLE = 256 * 1024 * 1024
"""Bytes of free disk below which a batch may fail."""
_SHOWN = 5
_NO_DOCID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file that the catalogue names and that is not as it says."""

    file: NamedFile
    why: str
    """``missing``, or what is wrong."""

    def __str__(self) -> str:
        return f"{self.file.path}: {self.why}"


@dataclass(frozen=True, slots=True)
class Health:
    """Findings of a check."""

    free: int
    """Bytes on the home's disk."""
    runs: str | None
    """Process that runs batches; None: no process does."""
    catalogue: str | None = None
    """Fault of the database; None: it is sound.  Nothing else is looked at in a faulty one."""
    damaged: tuple[Damaged, ...] = ()
    files: int = 0
    """Number of named files."""
    unnamed: tuple[Path, ...] = ()
    """Files and folders that no row names; running batches may be about to name them."""
    unnamed_bytes: int = 0
    derived: tuple[str, ...] = ()
    """Rows that differ from the texts of queries, as sentences."""
    places: tuple[str, ...] = ()
    """Places of the intake order that contradict each other."""
    counts: tuple[str, ...] = ()
    """Files and rows of the catalogue that do not have the same events."""

    @property
    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Every problem as (subject, finding, advice)."""
        repair = "'xscl doctor --repair'; --dry-run says what that would do"
        if self.catalogue is not None:
            yield "catalogue", self.catalogue, "'xscl import' the last export; what is left may be read with sqlite3"
        for what, found, advice in (
            ("files", [str(each) for each in self.damaged], repair),
            ("derived", self.derived, repair),
            ("places", self.places, repair),
            ("ids", self.counts, "'xscl import' the last export: no repair can tell which of the two was changed"),
        ):
            if found:
                more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
                yield what, "; ".join(found[:_SHOWN]) + more, advice
        if self.free < _LITTLE:
            yield "disk", f"{self.free:,} bytes are free", "make room, or lower the retention of channels"


def examine_home(home: Home, *, deep: bool = False) -> Health:
    """Look at a home; with ``deep``, read every file whole."""
    free, runs = shutil.disk_usage(home.root).free, holder(home.root / "run.lock")
    with home.catalog.read() as connection:
        if (fault := _checked_database(connection, deep)) is not None:
            return Health(free, runs, catalogue=fault)
        named = list(named_files(connection))
        removed = has_removed(connection)
        derived = tuple(_differences(connection) if deep else derived_problems(connection))
        places, counts = tuple(_places(connection)), tuple(_counts(connection))
        counts += tuple(wrong_file_rows(connection, home.root)) if deep else ()
    # Matches with an event that is gone leave when files are merged, and are counted by their batches all the same.
    counting = deep and not removed
    # Results have matches of parts that no query asks for, which batches do not count; the parts may have been swept.
    exact = counting and not home.catalog.ask(has_parts) and not home.catalog.ask(sweeps)
    damaged = tuple(
        found
        for file in named
        if (found := _damage(home.root, file, deep=deep, counting=counting, exact=exact)) is not None
    )
    unnamed = _unnamed(home)
    return Health(
        free,
        runs,
        damaged=damaged,
        files=len(named),
        unnamed=unnamed,
        unnamed_bytes=sum(map(_size, unnamed)),
        derived=derived,
        places=places,
        counts=counts,
    )


def _unnamed(home: Home) -> tuple[Path, ...]:
    try:
        return tuple(unnamed_files(home))
    except CatalogError as error:
        if error.condition != "XSCL_READ_ONLY":
            raise
        # Only who may write can wait for a file that somebody is about to name.
        return ()


def looks_like_a_catalogue(path: Path) -> str | None:
    """Return the fault of a catalogue's SQLite file before it is opened; None: it is sound, or not there."""
    if not path.is_file():
        return None
    try:
        with _connected(path) as connection:
            found = str(connection.execute("pragma quick_check(1)").fetchone()[0])
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return damage_told(error)
    return None if found == "ok" else found


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect with a database to read it, also where its log cannot be read without a copy."""
    reader = reader_of(path) if is_read_only(path) else None
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True) if reader is None else reader.connect()) as connection:
            yield connection
    finally:
        if reader is not None and reader.copy is not None:
            let_folder_go(reader.copy)


def _checked_database(connection: Connection, deep: bool) -> str | None:
    """Return what is wrong with the database: tables that are not those of this version, or what SQLite finds.

    With ``deep``, indexes are compared with their tables too.
    """
    if (lacking := _missing_tables(connection)) is not None:
        return lacking
    if connection.dialect.name != "sqlite":
        return None
    try:
        connection.exec_driver_sql("pragma cell_size_check = on")
        check = "integrity_check" if deep else "quick_check"
        found = str(connection.exec_driver_sql(f"pragma {check}(1)").scalar())
    except sa.exc.DBAPIError as error:
        return str(error.orig)
    return _wrong_row(connection) if deep and found == "ok" else None if found == "ok" else found


def _missing_tables(connection: Connection) -> str | None:
    """Return the tables and columns of this version that a catalogue does not have."""
    inspector = sa.inspect(connection)
    try:
        there = set(inspector.get_table_names())
        lacks = [name for name in METADATA.tables if name not in there]
        for name, table in METADATA.tables.items():
            if name in there:
                columns = {column["name"] for column in inspector.get_columns(name)}
                lacks += [f"{name}.{column.name}" for column in table.c if column.name not in columns]
    except sa.exc.DBAPIError as error:
        return str(error.orig)
    return None if not lacks else f"made by another version of xscl: it lacks {', '.join(lacks[:_SHOWN])}"


def _wrong_row(connection: Connection) -> str | None:
    """Return the first value that no column may hold, as SQLite stores it."""
    for table in METADATA.sorted_tables:
        check = wrong_value(table)
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        for row in connection.exec_driver_sql(f'select {columns} from "{table.name}"'):
            if (wrong := check(row)) is not None:
                return wrong
    return None


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(_size(each) for each in path.iterdir())
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def has_removed(connection: Connection) -> bool:
    """Tell whether retention may have removed events."""
    some = sa.select(CHANNELS.c.name).where(CHANNELS.c.kept_from.is_not(None)).limit(1)
    # The channel may have been dropped since.
    return total(connection, REMOVED_EVENTS) > 0 or connection.execute(some).first() is not None


# -- files -----------------------------------------------------------------------------------------------------


def _damage(root: Path, file: NamedFile, *, deep: bool, counting: bool, exact: bool = True) -> Damaged | None:
    full = root / file.path
    if (wrong := next(damaged_files(full, deep=deep), None)) is not None:
        at, why = wrong
        return Damaged(file, why if at == full else f"{at.relative_to(full)} {_is(why)}")
    found = [path for path in files_of(root, file.path) if not path.endswith(f"/{LIST}")]
    try:
        if file.kind in ("witness", "link"):
            rows = state_rows(full, file.kind)
            if deep and (why_not := wrong_state_file(full, file.kind)) is not None:
                return Damaged(file, why_not)
        else:
            rows = sum(_rows_of(root / path, deep=deep) for path in found)
    except UNREADABLE as error:
        return Damaged(file, f"cannot be read ({str(error).splitlines()[0][:120] if str(error) else 'damaged'})")
    if file.kind == "results":
        stored = sum(1 for _ in stored_matches(root / path for path in found)) if counting else file.rows
        if stored < file.rows or exact and counting and stored > file.rows:
            return Damaged(file, f"has {stored:,} matches, {file.rows:,} are told")
        return None
    return None if rows == file.rows else Damaged(file, f"has {rows:,} rows, {file.rows:,} are told")


def _rows_of(path: Path, *, deep: bool) -> int:
    """Return the number of rows of a Parquet file, by its footer; with ``deep``, all are read."""
    with pq.ParquetFile(path) as parquet:
        for group in range(parquet.num_row_groups if deep else 0):
            parquet.read_row_group(group)
        return int(parquet.metadata.num_rows)


def _is(why: str) -> str:
    return f"is {why}" if why == "missing" else why


# -- tables ----------------------------------------------------------------------------------------------------


def derived_problems(connection: Connection) -> Iterator[str]:
    """Iterate over the missing instances, groups, templates and ``rt_`` tables of live queries."""
    live = QUERIES.c.docid_until == NEVER
    asked = sa.select(QUERIES.c.gid).where(live)

    def count(statement: sa.Select[Any]) -> int:
        return connection.scalar(statement) or 0

    of_queries = partial(sa.select(sa.func.count()).select_from(QUERIES).where, live)
    of_groups = partial(sa.select(sa.func.count()).select_from(GROUPS).where, GROUPS.c.gid.in_(asked))
    for what, missing in (
        ("queries have no group", of_queries(~sa.exists().where(GROUPS.c.gid == QUERIES.c.gid))),
        (
            "queries have another template than their group",
            of_queries(sa.exists().where(GROUPS.c.gid == QUERIES.c.gid, GROUPS.c.template != QUERIES.c.template)),
        ),
        ("groups have no instance", of_groups(~sa.exists().where(INSTANCES.c.iid == GROUPS.c.iid))),
        ("groups have no template", of_groups(~sa.exists().where(TEMPLATES.c.template == GROUPS.c.template))),
    ):
        if number := count(missing):
            yield f"{number:,} {what}"
    there = set(sa.inspect(connection).get_table_names())
    for row in connection.execute(sa.select(TEMPLATES)).all():
        table = stored_rt(stored_template(row))
        if table.name not in there:
            yield f"table {table.name} is missing"
            continue
        none = ~sa.exists().where(table.c.gid == GROUPS.c.gid)
        if number := count(of_groups(GROUPS.c.template == row.template, none)):
            yield f"{number:,} groups have no row in {table.name}"


def _differences(connection: Connection) -> Iterator[str]:
    counted = Counter(each.text for each in derived_differences(connection))
    return (f"{count:,} {text}" for text, count in counted.items())


def _places(connection: Connection) -> Iterator[str]:
    home = connection.execute(sa.select(HOME)).one()
    done = connection.scalar(sa.select(sa.func.max(BATCHES.c.last))) or 0
    taken = connection.scalar(sa.select(sa.func.max(INTAKE_FILES.c.last)).where(INTAKE_FILES.c.last < PUBLISHED)) or 0
    registered = connection.scalar(sa.select(sa.func.max(QUERIES.c.docid_from))) or 0
    if home.processed < done:
        yield f"the last batch ends at place {done}, the home says {home.processed}"
    most = max(home.processed, done, taken, registered)
    if home.next_place <= most:
        yield f"place {most} is taken, the home gives out {home.next_place} next"


def _counts(connection: Connection) -> Iterator[str]:
    ids = sum(channel_counts(connection, 0, _NO_DOCID).values())
    rows = connection.scalar(sa.select(sa.func.coalesce(sa.func.sum(INTAKE_FILES.c.rows), 0))) or 0
    if ids < rows:
        yield f"the files of events have {rows:,} rows, {ids:,} of them have an id"
