"""The catalogue: channels, queries, templates and what the home has taken in, in a SQL database by SQLAlchemy Core.

One transaction is one change that readers see whole.  Queries are rows: a query adds one row to ``queries``, and, if
nobody asked the same before, one row to the table of its template and one for each new variable; nothing is compiled
or planned for it anywhere else.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy import Table
from sqlalchemy.engine import Connection, Engine

from xscl.base.errors import CatalogError
from xscl.base.failpoints import step
from xscl.base.system_errors import catalog_fault
from xscl.base.temporary import let_folder_go
from xscl.catalog.intake_order import create_home
from xscl.catalog.read_only import Reader, is_read_only, reader_of
from xscl.catalog.tables import HOME, METADATA, SCHEMA_VERSION

__all__ = ["Catalog", "address_of", "open_catalog", "require_version"]

P = ParamSpec("P")
T = TypeVar("T")

_BUSY_TIMEOUT_MS = 60_000
_LOG_BYTES = 16 << 20
_ADVISORY = 0x7873636C  # "xscl"
_ADDRESS_HINT = "an address is for example sqlite:///catalog.db; for PostgreSQL: pip install 'xscl[postgres]'"
_HOME_HINT = "the folder of a home is given as home= in Python, and as --home on the command line"


def open_catalog(url: str, *, create: bool = False, folder: Path | None = None) -> Catalog:
    """Open (or create) the catalogue at a SQLAlchemy URL.

    Args:
        url: where it is.
        create: make it if there is none.
        folder: the home's; a new catalogue is not made beside events that another one names.

    Raises:
        CatalogError: ``XSCL_NO_CATALOG``; ``XSCL_CATALOG_VERSION``: another version of xscl made it.
    """
    address = address_of(url)
    try:
        database = Path(address.database or "")
        reader = reader_of(database) if address.get_backend_name() == "sqlite" and is_read_only(database) else None
        engine = sa.create_engine(url, **_pool(address, reader))
    except (sa.exc.ArgumentError, ValueError) as error:
        raise _no_address(url, error) from None
    if engine.dialect.name == "sqlite" and reader is None:
        sa.event.listen(engine, "connect", _sqlite_settings)
        # A call that was stopped, as by Ctrl-C, may leave a transaction in either case.
        for event in ("checkin", "invalidate"):
            sa.event.listen(engine, event, _roll_back)
    # As text, an address has no password.
    shown = str(address)
    catalog = Catalog(engine, reader)
    try:
        _make_ready(catalog, create, folder)
    except BaseException as error:
        catalog.close()
        hint = "create it with 'xscl init'"
        if isinstance(error, CatalogError) and error.condition == "XSCL_CATALOG_UNREACHABLE" and catalog.is_missing:
            raise CatalogError("XSCL_NO_CATALOG", error.message, hint=hint) from error
        if not isinstance(error, sa.exc.DBAPIError):
            raise
        raise CatalogError("XSCL_NO_CATALOG", f"no catalogue at {shown}: {error.orig}", hint=hint) from error
    return catalog


def address_of(url: str) -> sa.URL:
    """Parse the address of a catalogue, and load the driver of its database.

    Raises:
        CatalogError: ``XSCL_NO_CATALOG``: it is none, or there is no such driver.
    """
    try:
        address = sa.make_url(url)
        address.get_dialect().import_dbapi()
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError, ValueError) as error:
        raise _no_address(url, error) from None
    return address


def _no_address(url: str, error: Exception) -> CatalogError:
    """Return the refusal of an address."""
    # What is no address is shown to its first colon, because a password may come behind.
    shown = url.partition(":")[0] + (":…" if ":" in url else "")
    with suppress(sa.exc.ArgumentError, ValueError):
        shown = str(sa.make_url(url))
    hint = _ADDRESS_HINT if "://" in url else f"{_HOME_HINT}; {_ADDRESS_HINT}"
    message = f"{shown!r} is no address of a catalogue: {str(error).replace(url, shown)}"
    return CatalogError("XSCL_NO_CATALOG", message, hint=hint)


def _pool(address: sa.URL, reader: Reader | None) -> dict[str, Any]:
    """Return options of the pool of connections to a database."""
    if address.get_backend_name() != "sqlite":
        return {"pool_timeout": _BUSY_TIMEOUT_MS / 1000}
    if address.database in (None, "", ":memory:"):
        return {}
    # However many wait for the file's one lock, whoever only reads waits for nobody.
    return {"max_overflow": -1, **({} if reader is None else {"creator": reader.connect})}


def _make_ready(catalog: Catalog, create: bool, folder: Path | None) -> None:
    with catalog.read() as connection:
        version = catalog.version(connection)
    if version is None and folder is not None and any((folder / "events").glob("*.parquet")):
        raise CatalogError(
            "XSCL_NO_CATALOG",
            f"{folder} holds events, and there is no catalogue in {catalog.engine.url} that names them",
            hint="give the catalogue's address with --catalog, or bring the catalogue back from a backup",
        )
    if version is None and create:
        catalog.create()
        with catalog.read() as connection:
            version = catalog.version(connection)
    if version is None:
        raise CatalogError(
            "XSCL_NO_CATALOG", f"there is no catalogue in {catalog.engine.url}", hint="create it with 'xscl init'"
        )
    require_version(version)


def require_version(version: int) -> None:
    """Refuse the tables and files of another version of xscl.

    Raises:
        CatalogError: ``XSCL_CATALOG_VERSION``.
    """
    if version != SCHEMA_VERSION:
        raise CatalogError(
            "XSCL_CATALOG_VERSION",
            f"the home has schema {version}, this version of xscl reads schema {SCHEMA_VERSION}",
            hint="write its events to a file with the version that made it ('xscl export --events FILE'), and ingest "
            "that file into a new home",
        )


def _sqlite_settings(connection: object, record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("pragma journal_mode = wal")
    cursor.execute("pragma synchronous = normal")
    cursor.execute(f"pragma busy_timeout = {_BUSY_TIMEOUT_MS}")
    # What one large transaction, or a reader that stayed long, has made of the log does not stay.
    cursor.execute(f"pragma journal_size_limit = {_LOG_BYTES}")
    cursor.close()


def _roll_back(connection: sqlite3.Connection | None, *_: object) -> None:
    """Give back the lock of a connection that leaves its caller.

    A closed one keeps its lock for as long as anything refers to one of its statements, as a traceback does.
    """
    with suppress(sqlite3.Error):
        if connection is not None and connection.in_transaction:
            connection.rollback()


class Catalog:
    """Reads and writes of the catalogue; every method that takes a connection is part of its caller's transaction."""

    def __init__(self, engine: Engine, reader: Reader | None = None) -> None:
        """``reader``: how it is read where it cannot be written."""
        self.engine = engine
        self._reader = reader
        name = engine.url.database
        self._file = Path(name) if engine.dialect.name == "sqlite" and name and name != ":memory:" else None
        self._inode: tuple[int, int] | None = None
        """Inode of the file when it was opened."""
        self._own = threading.local()
        """Each thread's ``connection`` of the transaction that it began last, until its end."""

    @property
    def is_missing(self) -> bool:
        """Whether it is a file, and that is not there."""
        return self._file is not None and not self._file.exists()

    def close(self) -> None:
        """Give the database back, and remove the copy of it that was read."""
        self._end_what_was_left()
        self.engine.dispose()
        if self._reader is not None and self._reader.copy is not None:
            let_folder_go(self._reader.copy)

    def version(self, connection: Connection) -> int | None:
        """Return the number of the catalogue's schema; None if there is no catalogue."""
        if not sa.inspect(connection).has_table(HOME.name):
            return None
        return connection.scalar(sa.select(HOME.c.schema_version))

    def create(self) -> None:
        """Make the tables that are not there."""
        with self.exclusive() as connection:
            METADATA.create_all(connection)
            create_home(connection)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction that writes; there is one at a time, so that none fails half way."""
        with self._transaction(sa.select(HOME.c.one).with_for_update()) as connection:
            yield connection

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """Open a transaction that may change tables; no other of its kind runs beside it."""
        # No lock on a row here: it would stand in the way of changes to its table by the one who waits for it.
        key = sa.func.hashtext(sa.func.current_schema())
        with self._transaction(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY, key))) as connection:
            yield connection

    @contextmanager
    def _transaction(self, lock: sa.Select[tuple[object]]) -> Iterator[Connection]:
        """Open a transaction that holds SQLite's write lock, or the lock that a statement takes elsewhere."""
        if self._reader is not None:
            raise CatalogError(
                "XSCL_READ_ONLY",
                f"{self._file} and its folder cannot be written by this user, or their disk is read-only",
                hint="listings need no more than reading; to change something, use the home's owner or a copy",
            )
        self._end_what_was_left()
        with self._connected() as connection:
            self._own.connection = connection
            self._lock(connection, lock)
            try:
                step("catalog.begin")
                yield connection
                step("catalog.commit")
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
        self._own.connection = None
        step("catalog.committed")

    def _end_what_was_left(self) -> None:
        """Undo this thread's last transaction, if it was left without its end.

        Ctrl-C may come right before the end.  Then nothing ends the transaction while a traceback refers to it, and
        this thread would wait for its own lock.  For the same reason a thread has no two transactions at once.
        """
        left, self._own.connection = getattr(self._own, "connection", None), None
        if left is not None and not left.closed:
            left.invalidate()
            left.close()

    @staticmethod
    def _lock(connection: Connection, lock: sa.Select[tuple[object]]) -> None:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("begin immediate")
            return
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"set local lock_timeout = {_BUSY_TIMEOUT_MS}")
        connection.execute(lock)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Open a connection; faults of the database inside the context get conditions of xscl.

        Raises:
            CatalogError: ``XSCL_CATALOG_GONE``, or what ``catalog_fault`` says.
            EngineError: ``XSCL_DISK_FULL``.
        """
        self._require_file()
        try:
            with self.engine.connect() as connection:
                yield connection
        except sa.exc.TimeoutError as error:
            raise CatalogError(
                "XSCL_CATALOG_BUSY",
                "all connections to the catalogue that this process may have are in use",
                hint="too much is asked of it at once; try again",
            ) from error
        except (sa.exc.DBAPIError, UnicodeDecodeError) as error:
            named = catalog_fault(error, str(self.engine.url))
            if named is None:
                raise
            raise named from error

    def _require_file(self) -> None:
        """Refuse to go on with a file that was removed or replaced: what SQLite writes to it would be lost."""
        if self._file is None:
            return
        try:
            state = self._file.stat()
            now = state.st_dev, state.st_ino
        except OSError:
            if self._inode is None:
                return  # it is not made yet
            now = None
        if self._inode is None:
            self._inode = now
        elif now != self._inode:
            raise CatalogError(
                "XSCL_CATALOG_GONE",
                f"the catalogue {self._file} was {'removed' if now is None else 'replaced'} while it was open",
                hint="stop what works on this home, bring the catalogue back from a backup, and start again",
            )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection for reading; all its statements read what was committed at one moment."""
        with self._connected() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("begin")
            elif connection.dialect.name == "postgresql":
                connection.exec_driver_sql("set transaction isolation level repeatable read")
            yield connection

    def ask(self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of a connection with one for reading, and return its answer.

        >>> catalog.ask(read_query, "q1")  # doctest: +SKIP
        """
        with self.read() as connection:
            return question(connection, *args, **kwargs)

    def rows(self, table: Table) -> list[dict[str, object]]:
        """Return all rows of a catalogue table."""
        with self.read() as connection:
            return [dict(row._mapping) for row in connection.execute(sa.select(table))]
