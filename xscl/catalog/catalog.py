"""The catalogue: channels, queries, templates and what the home has taken in, in a SQL database by SQLAlchemy Core.

One transaction is one change that readers see whole.  Queries are rows: a query adds one row to ``queries``, and, if
nobody asked the same before, one row to the table of its template and one for each new variable; nothing is compiled
or planned for it anywhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Column, Integer, MetaData, Table
from sqlalchemy.engine import Connection, Engine

from xscl.base.errors import CatalogError
from xscl.base.failpoints import step
from xscl.base.system_errors import catalog_fault
from xscl.catalog.read_only import is_read_only, reader_of
from xscl.catalog.suggestions import no_query, no_template
from xscl.catalog.tables import (
    CHANNELS,
    HOME,
    METADATA,
    NEVER,
    QUERIES,
    REJECTED,
    SCHEMA_VERSION,
    STREAMS,
    TEMPLATES,
)

if TYPE_CHECKING:
    from xscl.language.compile import ChannelFacts
    from xscl.templates.template import Template

__all__ = [
    "RAW",
    "Catalog",
    "ChannelInfo",
    "QueryInfo",
    "StreamInfo",
    "all_facts",
    "channel_facts",
    "channels_json",
    "open_catalog",
    "query_info",
    "require_version",
    "stored_rt",
    "stored_template",
    "template_values",
]


RAW = ".raw"
"""Ends the names of channels and streams of entries as they were published."""
_BUSY_TIMEOUT_MS = 60_000
_LOG_BYTES = 16 << 20
_ADVISORY = 0x7873636C  # "xscl"


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel as the catalogue has it."""

    name: str
    kind: str
    feed: bool
    element: str
    schema: Mapping[str, str | None] | None
    """Columns of a row channel; a type is None while only NULLs were seen.  None: fixed by the first row."""
    lateness: int | None
    clock: str
    idle: int | None = None
    """Its clock counts as at most so far behind the newest of all channels, microseconds; None: as it is."""
    retention: int | None = None
    """How long events are held, microseconds; None: for ever."""

    @classmethod
    def new(cls, name: str, kind: str = "xml") -> ChannelInfo:
        """A channel of which nothing was said and nothing has come."""
        return cls(name, kind, feed=False, element=name, schema=None, lateness=None, clock=name)


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream of a channel as the catalogue has it."""

    number: int
    """From 1; 0 stands for none: the channel itself."""
    name: str
    channel: str
    source: str | None
    """Streams of one channel and source share equal events; None: with no other."""


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A query as the catalogue has it."""

    query: int
    name: str
    text: str
    namespaces: Mapping[str, str]
    gid: int
    template: str
    digest: str
    names: Mapping[str, list[Any]]
    """Its own names of meta-variables, nodes that make a match (and their blocks), and joined variables."""
    docid_from: int
    docid_until: int
    received: int
    publish: str | None
    """The channel its output goes to."""
    starting: str
    """``NOW``, ``ALL`` or a time, ISO 8601."""
    sees_from: int
    """It sees members that come after this place of the intake order: its own, or 0 with ``STARTING`` ALL or a time."""
    ts_from: int | None
    """It sees members of this event time or later, microseconds; None: of any."""
    history: int | None
    """Stands for its group in matches that were found when it was answered from what was held; None: it was not."""
    filled: int | None
    """The batch that did that."""
    ended: int | None = None
    """It has no matches of later batches, whatever members they have; None: places tell."""
    held_from: Mapping[str, int] = field(default_factory=dict)
    """By channel, the least event time of members from before it: older ones were held no more.  Without one all were.
    """
    owner: str = ""
    """Who registered it; '' where nobody said."""
    suspended: str | None = None
    """The quota that ended it, in words; None: none did."""
    released: int | None = None
    """The place at which its suspension ended, by resuming or dropping it; None: it has not."""

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups whose matches it may have."""
        return (self.gid,) if self.history is None else (self.gid, self.history)

    def admits(self, members: Iterable[tuple[str, int, int]]) -> bool:
        """Whether it sees a match of these members, as far as times tell.

        Args:
            members: channel, place in the intake order and event time of each.
        """
        return all(
            (self.ts_from is None or ts >= self.ts_from)
            and (place > self.docid_from or ts >= self.held_from.get(channel, ts))
            for channel, place, ts in members
        )

    @property
    def live(self) -> bool:
        """Whether it is neither dropped nor suspended."""
        return self.docid_until == NEVER

    @property
    def is_suspended(self) -> bool:
        """Whether a quota has ended it, and it was neither resumed nor dropped since."""
        return self.suspended is not None and self.released is None


def open_catalog(url: str, *, create: bool = False, folder: Path | None = None) -> Catalog:
    """Open (or create) the catalogue at a SQLAlchemy URL.

    Args:
        url: where it is.
        create: make it if there is none.
        folder: the home's; a new catalogue is not made beside events that another one names.

    Raises:
        CatalogError: ``XSCL_NO_CATALOG``; ``XSCL_CATALOG_VERSION``: another version of xscl made it.
    """
    # What is no address is shown to its first colon, because a password may come behind.
    shown = url.partition(":")[0] + (":…" if ":" in url else "")
    try:
        # As text, an address has no password.
        shown = str(sa.make_url(url))
        address = sa.make_url(url)
        file = Path(address.database or "") if address.get_backend_name() == "sqlite" else None
        read_only = file is not None and is_read_only(file)
        engine = sa.create_engine(url, creator=reader_of(file)) if file and read_only else sa.create_engine(url)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError, ValueError) as error:
        raise CatalogError(
            "XSCL_NO_CATALOG",
            f"{shown!r} is no address of a catalogue: {str(error).replace(url, shown)}",
            hint="for example sqlite:///catalog.db; for PostgreSQL: pip install 'xscl[postgres]'",
        ) from None
    if engine.dialect.name == "sqlite" and not read_only:
        sa.event.listen(engine, "connect", _sqlite_settings)
    catalog = Catalog(engine, read_only=read_only)
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


class Catalog:
    """Reads and writes of the catalogue; every method that takes a connection is part of its caller's transaction."""

    def __init__(self, engine: Engine, *, read_only: bool = False) -> None:
        self.engine = engine
        self._read_only = read_only
        name = engine.url.database
        self._file = Path(name) if engine.dialect.name == "sqlite" and name and name != ":memory:" else None
        self._inode: tuple[int, int] | None = None
        """Of the file when it was opened."""

    @property
    def is_missing(self) -> bool:
        """Whether it is a file, and that is not there."""
        return self._file is not None and not self._file.exists()

    def close(self) -> None:
        """Give the database back."""
        self.engine.dispose()

    def version(self, connection: Connection) -> int | None:
        """Return the number of the catalogue's schema; None if there is no catalogue."""
        if not sa.inspect(connection).has_table(HOME.name):
            return None
        return connection.scalar(sa.select(HOME.c.schema_version))

    def create(self) -> None:
        """Make the tables that are not there."""
        with self.exclusive() as connection:
            METADATA.create_all(connection)
            if connection.execute(sa.select(HOME.c.one)).first() is None:
                first = {"next_place": 1, "received": 0, "processed": 0}
                connection.execute(HOME.insert().values(one=1, schema_version=SCHEMA_VERSION, **first))

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction that writes; there is one at a time, so that none fails half way."""
        with self._transaction(sa.select(HOME.c.one).with_for_update()) as connection:
            yield connection

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """One transaction that may change tables, and that no other of its kind runs beside."""
        # No lock on a row here: it would stand in the way of changes to its table by the one who waits for it.
        key = sa.func.hashtext(sa.func.current_schema())
        with self._transaction(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY, key))) as connection:
            yield connection

    @contextmanager
    def _transaction(self, lock: sa.Select[tuple[object]]) -> Iterator[Connection]:
        """A transaction that holds SQLite's write lock, or the lock that a statement takes elsewhere."""
        if self._read_only:
            raise CatalogError(
                "XSCL_READ_ONLY",
                f"{self._file} and its folder cannot be written by this user, or their disk is read-only",
                hint="listings need no more than reading; to change something, use the home's owner or a copy",
            )
        with self._connected() as connection:
            self._lock(connection, lock)
            try:
                step("catalog.begin")
                yield connection
                step("catalog.commit")
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
        step("catalog.committed")

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
        """A connection; faults of the database, inside, have names of ours.

        Raises:
            CatalogError: ``XSCL_CATALOG_GONE``, or what ``catalog_fault`` says.
            EngineError: ``XSCL_DISK_FULL``.
        """
        self._require_file()
        try:
            with self.engine.connect() as connection:
                yield connection
        except sa.exc.DBAPIError as error:
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
        """A connection for reading."""
        with self._connected() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection whose statements all read what was committed at one moment."""
        with self._connected() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("begin")
            elif connection.dialect.name == "postgresql":
                connection.exec_driver_sql("set transaction isolation level repeatable read")
            yield connection

    # -- intake order ------------------------------------------------------------------------------------------

    def take_places(self, connection: Connection, count: int, now: int) -> tuple[int, int]:
        """The next ``count`` places of the intake order: (first place, its time of receipt).

        Later ones follow at distances of one, so that ``received`` grows strictly over everything a home takes in.
        """
        row = connection.execute(sa.select(HOME.c.next_place, HOME.c.received).with_for_update()).one()
        received = max(now, row.received + 1)
        connection.execute(HOME.update().values(next_place=row.next_place + count, received=received + count - 1))
        return row.next_place, received

    def processed(self) -> tuple[int, int]:
        """(last place of the last committed batch, last place taken in)."""
        with self.read() as connection:
            row = connection.execute(sa.select(HOME.c.processed, HOME.c.next_place)).one()
        return row.processed, row.next_place - 1

    # -- channels ----------------------------------------------------------------------------------------------

    def channels(self, connection: Connection | None = None) -> dict[str, ChannelInfo]:
        """All channels by name."""
        if connection is None:
            with self.read() as connection:
                return self.channels(connection)
        rows = connection.execute(sa.select(CHANNELS).order_by(CHANNELS.c.name))
        return {row.name: _channel_info(row) for row in rows}

    def put_channel(self, connection: Connection, channel: ChannelInfo) -> None:
        """Add or replace a channel."""
        values = {
            "kind": channel.kind,
            "feed": channel.feed,
            "element": channel.element,
            "schema": None if channel.schema is None else json.dumps(channel.schema),
            "lateness": channel.lateness,
            "clock": channel.clock,
            "idle": channel.idle,
            "retention": channel.retention,
        }
        changed = connection.execute(CHANNELS.update().where(CHANNELS.c.name == channel.name).values(**values))
        if changed.rowcount == 0:
            connection.execute(CHANNELS.insert().values(name=channel.name, **values))

    def streams(self, connection: Connection | None = None) -> dict[str, StreamInfo]:
        """All streams by name; those of ``C.raw`` that feeds of a stream of ``C`` fill are among them."""
        if connection is None:
            with self.read() as connection:
                return self.streams(connection)
        found = {}
        for row in connection.execute(sa.select(STREAMS).order_by(STREAMS.c.name)):
            found[row.name] = StreamInfo(row.number, row.name, row.channel, row.source)
            if not row.channel.endswith(RAW):
                raw = row.name + RAW, row.channel + RAW
                found[raw[0]] = StreamInfo(row.number, *raw, row.source)
        return found

    def facts(self, connection: Connection | None = None) -> dict[str, ChannelFacts]:
        """What registration needs of every channel and stream."""
        if connection is None:
            with self.read() as connection:
                return self.facts(connection)
        return all_facts(self.channels(connection), self.streams(connection))

    # -- queries -----------------------------------------------------------------------------------------------

    def queries(
        self,
        connection: Connection | None = None,
        *,
        live_only: bool = True,
        name: str | None = None,
    ) -> list[QueryInfo]:
        """Queries by name, the ones that are not dropped unless told otherwise."""
        if connection is None:
            with self.read() as connection:
                return self.queries(connection, live_only=live_only, name=name)
        statement = sa.select(QUERIES).order_by(QUERIES.c.qid, QUERIES.c.query)
        if live_only:
            statement = statement.where(QUERIES.c.docid_until == NEVER)
        if name is not None:
            statement = statement.where(QUERIES.c.qid == name)
        return [query_info(row) for row in connection.execute(statement)]

    def query(self, name: str) -> QueryInfo:
        """A live query.

        Raises:
            CatalogError: there is none of that name.
        """
        with self.read() as connection:
            found = self.queries(connection, name=name)
            if not found:
                raise no_query(connection, name)
        return found[0]

    def drop_query(self, connection: Connection, name: str, now: int) -> int:
        """End a query; returns the place of the drop in the intake order.

        Raises:
            CatalogError: there is none of that name.
        """
        live = (QUERIES.c.qid == name) & (QUERIES.c.docid_until == NEVER)
        if not connection.execute(sa.select(QUERIES.c.query).where(live)).first():
            raise no_query(connection, name)
        place, _ = self.take_places(connection, 1, now)
        connection.execute(QUERIES.update().where(live).values(docid_until=place))
        return place

    # -- templates ---------------------------------------------------------------------------------------------

    def templates(self) -> list[tuple[Template, int, int]]:
        """(template, live queries, groups of live queries) of every template, those with most queries first."""
        counts = (
            sa.select(
                QUERIES.c.template,
                sa.func.count().label("queries"),
                sa.func.count(sa.distinct(QUERIES.c.gid)).label("groups"),
            )
            .where(QUERIES.c.docid_until == NEVER)
            .group_by(QUERIES.c.template)
            .subquery()
        )
        statement = sa.select(TEMPLATES, counts.c.queries, counts.c.groups).outerjoin(
            counts, counts.c.template == TEMPLATES.c.template
        )
        with self.read() as connection:
            rows = connection.execute(statement).all()
        found = [(stored_template(row), row.queries or 0, row.groups or 0) for row in rows]
        return sorted(found, key=lambda item: (-item[1], item[0].id))

    def shapes(self) -> list[Template]:
        """Every template, without counting its queries."""
        with self.read() as connection:
            return [stored_template(row) for row in connection.execute(sa.select(TEMPLATES))]

    def template(self, name: str) -> Template:
        """A template by id.

        Raises:
            CatalogError: there is none.
        """
        with self.read() as connection:
            row = connection.execute(sa.select(TEMPLATES).where(TEMPLATES.c.template == name)).first()
            if row is None:
                raise no_template(connection, name)
        return stored_template(row)

    def rt_rows(self, template: Template) -> list[dict[str, object]]:
        """The rows of ``rt_<template>``: one per live query and case."""
        from xscl.templates.relations import SUBSCRIBED  # listing queries needs no templates

        stored = stored_rt(template)
        columns = [column for column in stored.c if column.name != "gid"]
        statement = (
            sa.select(QUERIES.c.qid, *(QUERIES.c[name] for name in SUBSCRIBED), *columns)
            .join(stored, stored.c.gid == QUERIES.c.gid)
            .where(QUERIES.c.docid_until == NEVER)
            .order_by(QUERIES.c.qid, stored.c.case)
        )
        with self.read() as connection:
            return [dict(row._mapping) for row in connection.execute(statement)]

    # -- rows of any relation ----------------------------------------------------------------------------------

    def rows(self, table: Table) -> list[dict[str, object]]:
        """All rows of a catalogue table."""
        with self.read() as connection:
            return [dict(row._mapping) for row in connection.execute(sa.select(table))]

    def reject(self, connection: Connection, rows: Iterable[Mapping[str, object]], now: int) -> None:
        """Note what could not be taken."""
        values = [{"query": None, **row, "received": now} for row in rows]
        if values:
            connection.execute(REJECTED.insert(), values)


@lru_cache(maxsize=1024)
def stored_rt(template: Template) -> Table:
    """The stored form of ``rt_<template>``: one row per group and case, which the relation fans out to queries."""
    from xscl.templates.relations import SUBSCRIBED, rt_table  # listing queries needs no templates

    metadata = MetaData()
    columns = [
        Column(column.name, column.type)
        for column in rt_table(template).columns
        if column.name not in ("qid", *SUBSCRIBED)
    ]
    key = sa.PrimaryKeyConstraint("gid", "case")
    return Table(f"rt_{template.id}", metadata, Column("gid", Integer), *columns, key)


def template_values(template: Template) -> dict[str, object]:
    """A template's row of ``templates``."""
    return {
        "template": template.id,
        "certificate": template.certificate,
        "blocks": json.dumps(template.blocks),
        "parents": json.dumps(template.parents),
        "joins": json.dumps(template.joins),
    }


def channels_json(channels: Iterable[str]) -> str:
    """The channels that a group reads, and the streams it names, as they are kept: sorted, each once."""
    return json.dumps(sorted(set(channels)), ensure_ascii=False)


def _channel_info(row: sa.Row[tuple[object, ...]]) -> ChannelInfo:
    return ChannelInfo(
        name=row.name,
        kind=row.kind,
        feed=row.feed,
        element=row.element or row.name,
        schema=None if row.schema is None else json.loads(row.schema),
        lateness=row.lateness,
        clock=row.clock,
        idle=row.idle,
        retention=row.retention,
    )


def channel_facts(channel: ChannelInfo) -> ChannelFacts:
    """What registration needs of a channel."""
    from xscl.language.compile import ChannelFacts  # listing queries needs no compiler

    columns = channel.schema or {}

    def of_types(*types: str) -> frozenset[str]:
        return frozenset(name for name, type_ in columns.items() if type_ in types)

    numeric = of_types("bigint", "double", "decimal")
    times, truths = of_types("timestamp", "date"), of_types("boolean")
    return ChannelFacts(channel.kind, numeric, of_types("string"), times, truths)


def all_facts(channels: Mapping[str, ChannelInfo], streams: Mapping[str, StreamInfo]) -> dict[str, ChannelFacts]:
    """What registration needs of channels and streams, by name."""
    facts = {name: channel_facts(channel) for name, channel in channels.items()}
    if streams:
        from xscl.language.compile import ChannelFacts  # listing queries needs no compiler

        for name, stream in streams.items():
            of_channel = facts.get(stream.channel, ChannelFacts())
            facts[name] = replace(of_channel, channel=stream.channel, stream=stream.number)
    return facts


def query_info(row: sa.Row[tuple[object, ...]]) -> QueryInfo:
    """The query of a row of ``queries``."""
    return QueryInfo(
        query=row.query,
        name=row.qid,
        text=row.text,
        namespaces={} if row.namespaces == "{}" else json.loads(row.namespaces),
        gid=row.gid,
        template=row.template,
        digest=row.digest,
        names=json.loads(row.names),
        docid_from=row.docid_from,
        docid_until=row.docid_until,
        received=row.received,
        publish=row.publish,
        starting=row.starting,
        sees_from=row.sees_from,
        ts_from=row.ts_from,
        history=row.history,
        filled=row.filled,
        ended=row.ended,
        held_from={} if row.held_from is None else json.loads(row.held_from),
        owner=row.owner,
        suspended=row.suspended,
        released=row.released,
    )


def stored_template(row: sa.Row[tuple[object, ...]]) -> Template:
    """The template of a row of ``templates``."""
    from xscl.templates.template import Template  # listing queries needs no templates

    return Template(
        id=row.template,
        certificate=row.certificate,
        blocks=tuple(json.loads(row.blocks)),
        parents=tuple(json.loads(row.parents)),
        joins=tuple((left, right, kind) for left, right, kind in json.loads(row.joins)),
    )
