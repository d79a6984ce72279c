"""The library's face: ``connect`` gives an engine on a home.

Modules that load Spark, Spark's SQL or the network are imported by what needs them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from xscl.answers.ask_once import Answer, query_once
from xscl.answers.data_sources import register_sources
from xscl.answers.match_listing import ALL_MATCHES, Listing, MatchListing, list_matches
from xscl.answers.match_reader import named_queries
from xscl.base.durations import parse_duration
from xscl.base.errors import EngineError
from xscl.base.failpoints import step
from xscl.base.locks import RunLock
from xscl.base.notebook import facts_html
from xscl.base.progress import told
from xscl.base.settings import DEFAULT_BATCH_DOCS, DEFAULT_SETTINGS, Settings
from xscl.base.system_errors import named_file_faults
from xscl.base.types import QueryName, QueryOutcome, now_micros, time_bound, with_fields
from xscl.batches.batch import process_batch
from xscl.batches.driver import Driver
from xscl.batches.kernels import kernels_of
from xscl.batches.ranges import next_batch
from xscl.batches.report import BatchReport
from xscl.batches.run_handle import Pauses, RunHandle, Work
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.kept_groups import KeptGroups
from xscl.catalog.quotas import Quotas, read_quotas, set_quotas
from xscl.catalog.records import QueryInfo
from xscl.ingest.reading import DEFAULT_READING, Reading
from xscl.ingest.records import Record
from xscl.intake.data_frames import frame_texts
from xscl.intake.frame_intake import is_spark_frame, take_frame
from xscl.intake.heartbeats import end_input, take_heartbeat
from xscl.intake.inputs import follow_paths, paths_in, records_of, take_sql_table
from xscl.intake.intake import Intake, IntakeReport
from xscl.intake.where import take_files
from xscl.planning.planner import Planner
from xscl.registry.channel_names import ChannelNames
from xscl.registry.channels import NEW_CHANNEL, ChannelOptions, add_channel, drop_channel
from xscl.registry.query_list import ALL_QUERIES, QueryFilter, count_queries, list_queries
from xscl.registry.registrations import Resumed
from xscl.registry.registry import Registry, read_script
from xscl.spark.session import forget_session, session_has_ended, start_session
from xscl.spark.session_options import LOCAL, SessionOptions
from xscl.store.home import Home, init_home
from xscl.store.late_events import LateChoice, Taken, take_again
from xscl.store.orphans import tidy
from xscl.upkeep.upkeep import Upkeep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from xscl.intake.polling import PollReport, PollSettings

__all__ = ["Engine", "RunHandle", "connect"]


def connect(
    catalog: str | None = None,
    *,
    home: str | Path = "xscl-home",
    spark: SparkSession | None = None,
    master: str | None = None,
    remote: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> Engine:
    """Open a home, creating it if need be.

    Without ``spark`` a session is started when it is first needed, by default on this machine.

    Args:
        catalog: SQLAlchemy URL of the catalogue; by default a SQLite file in the home.
        home: folder of the home.
        spark: an existing session, classic or of Spark Connect.
        master: Spark's master for a session of ours, such as ``spark://host:7077`` or ``local-cluster[2,1,1024]``.
        remote: a server of Spark Connect for a session of ours, such as ``sc://host:15002``.
        spark_conf: settings of Spark for a session of ours.
        settings: where work is done; no setting changes an answer.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: there are two of ``spark``, ``master`` and ``remote``, or one is no address.
    """
    if spark is not None and (master is not None or remote is not None or spark_conf):
        raise EngineError("XSCL_BAD_OPTION", "spark is a session, so master, remote and spark_conf have no meaning")
    options = SessionOptions(master, remote, MappingProxyType(dict(spark_conf or {})))
    return Engine(init_home(home, catalog), spark, settings, options)


class Engine:
    """Registers queries, takes in events, runs batches and lists matches of one home."""

    def __init__(
        self,
        home: Home,
        spark: SparkSession | None = None,
        settings: Settings = DEFAULT_SETTINGS,
        session_options: SessionOptions = LOCAL,
    ) -> None:
        self._home = home
        self._session_options = session_options
        self._registry = Registry(home.catalog, ChannelNames(home.root), KeptGroups(home.folder("programs")))
        self._is_closed = False
        self._spark = spark
        self._is_given = spark is not None
        if spark is not None:
            register_sources(spark)
        self._planner = Planner(home.catalog, home.folder("programs"))
        self._driver = Driver(settings)
        self._upkeep = Upkeep(home, self._planner)
        self._lock = threading.Lock()
        self._spark_lock = threading.Lock()
        self._run_lock = RunLock(home.root)
        self._is_tidy = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the catalogue back; the Spark session stays, because others may use it."""
        self._is_closed = True
        self._planner.close()
        self._home.catalog.close()

    def __repr__(self) -> str:
        return f"<xscl.Engine on {str(self._home.root)!r}{', closed' if self._is_closed else ''}>"

    def _repr_html_(self) -> str:
        if self._is_closed:
            return facts_html("xscl.Engine", {"home": self._home.root, "state": "closed"})
        last, batch = self._home.catalog.ask(read_last_places)
        facts = {"home": self._home.root, "queries": count_queries(self._home.catalog), "batches": batch}
        return facts_html("xscl.Engine", {**facts, "processed up to place": last})

    @property
    def home(self) -> Home:
        """The home, while the engine is open.

        Raises:
            EngineError: ``XSCL_ENGINE_CLOSED``.
        """
        self._refuse_closed()
        return self._home

    @property
    def registry(self) -> Registry:
        """The home's registry, while the engine is open.

        Raises:
            EngineError: ``XSCL_ENGINE_CLOSED``.
        """
        self._refuse_closed()
        return self._registry

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise EngineError(
                "XSCL_ENGINE_CLOSED",
                f"the engine on {self._home.root} was closed",
                hint="xscl.connect(home=…) opens the home again; use it within the with block",
            )

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started on first use, and anew if its Java has ended or its server no longer knows it."""
        with self._spark_lock:
            if self._spark is not None and not self._is_given and session_has_ended(self._spark):
                forget_session(self._spark)
                self._spark = None
            if self._spark is None:
                started = start_session(self._session_options)
                register_sources(started)
                self._spark = started
            return self._spark

    # -- channels and queries ----------------------------------------------------------------------------------

    def add_channel(self, name: str, options: ChannelOptions = NEW_CHANNEL, **given: Any) -> None:
        """Create a channel, or a stream of one.

        Args:
            name: the channel's name.
            options: kind, columns, times and the like; ``given`` are fields of it, such as ``lateness="1 h"``.

        Raises:
            CatalogError: the name is taken, or queries use it for a channel that is not there yet.
        """
        add_channel(self.home.catalog, name, options, **given)

    def drop_channel(self, name: str) -> None:
        """Remove a channel or a stream that holds no events and that nothing reads.

        Raises:
            CatalogError: there is none, or something needs it.
        """
        drop_channel(self.home.catalog, name)

    def register(
        self, text: str, *, name: str | None = None, owner: str | None = None, strict: bool = False
    ) -> QueryName:
        """Register one query; returns its name, a text with ``notes`` on what it may not say as it was meant.

        Args:
            text: the query, which DECLAREs may precede.
            name: its name; by default the text's, or one that the service gives.
            owner: who registers it, any text of at most 128 characters; quotas count queries by owner.
            strict: refuse it over channels that do not exist.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: the name is taken; with ``strict``, a channel does not exist.  ``XSCL_TOO_MANY_QUERIES``: the
                owner has as many queries as the home allows.
        """
        return self.registry.register(text, name=name, owner=owner, strict=strict)

    def register_many(
        self,
        texts: Iterable[str | tuple[str | None, str]] | DataFrame,
        *,
        owner: str | None = None,
        strict: bool = False,
        atomic: bool = False,
    ) -> list[QueryOutcome]:
        """Register many texts; one outcome each, in order, and one bad text never fails the rest.

        Args:
            texts: texts, (name, text) pairs, or a DataFrame of pandas or Spark with a column ``text`` and, if wanted,
                one ``name``; where a name is missing the service gives one.
            owner: who registers them, as of ``register``.
            strict: refuse queries over channels that do not exist.
            atomic: register all or none.

        Raises:
            EngineError: ``XSCL_BAD_FRAME``: the DataFrame has no column ``text``.
        """
        given = frame_texts(texts) if hasattr(texts, "columns") else texts
        return self.registry.register_many(given, owner=owner, strict=strict, atomic=atomic)

    def load(
        self, script: str, *, owner: str | None = None, strict: bool = False, atomic: bool = False
    ) -> list[QueryOutcome]:
        """Take the statements of a script; one outcome each, in order; with ``atomic`` all or none."""
        return self.registry.load(script, owner=owner, strict=strict, atomic=atomic)

    def load_file(
        self, path: str | Path, *, owner: str | None = None, strict: bool = False, atomic: bool = False
    ) -> list[QueryOutcome]:
        """Take the statements of a file in UTF-8, as ``load``.

        Raises:
            CatalogError: ``XSCL_SOURCE_UNREADABLE``.
        """
        return self.load(read_script(path), owner=owner, strict=strict, atomic=atomic)

    def drop(self, name: str) -> None:
        """End a query; its matches stay."""
        self.registry.drop(name)

    def resume(self, name: str) -> Resumed:
        """Have a query that a quota suspended go on from now, with the same name, owner and ids of matches.

        The query does not see events from in between; ``query_once(text, name=name)`` asks for it.

        Raises:
            CatalogError: ``XSCL_QUERY_NOT_FOUND``; ``XSCL_NOT_SUSPENDED``; ``XSCL_TOO_MANY_QUERIES``.
        """
        return self.registry.resume(name)

    @property
    def quotas(self) -> Quotas:
        """Quotas of the home."""
        with self.home.catalog.read() as connection:
            return read_quotas(connection)

    def set_quotas(self, **quotas: int | None) -> Quotas:
        """Set quotas of the home, for all processes that work on it; returns all of them.

        A batch in which a query exceeds one is its last one until ``resume``; what the batch has found stays::

            engine.set_quotas(queries=1_000, bindings=5_000_000, pairs=1_000_000)

        Args:
            quotas: ``queries`` that are live of one owner, ``bindings`` and ``pairs`` (combinations of documents) of
                one query in one batch; None: any number.

        Raises:
            CatalogError: ``XSCL_BAD_OPTION``.
        """
        with self.home.catalog.begin() as connection:
            return set_quotas(connection, **quotas)

    def queries(self, wanted: QueryFilter = ALL_QUERIES, **given: Any) -> Iterator[QueryInfo]:
        """List live and suspended queries by name (in the order of code points), read a thousand at a time.

        All filters hold together; ``given`` are fields of ``wanted``::

            page = list(engine.queries(like="quake*", channel="items", limit=100))
            next_page = engine.queries(like="quake*", channel="items", limit=100, after=page[-1].name)
        """
        return list_queries(self.home.catalog, with_fields(wanted, given))

    # -- events ------------------------------------------------------------------------------------------------

    def ingest(
        self,
        source: str | Path | Iterable[Record | Mapping[str, object]] | Iterable[str | Path] | DataFrame,
        *,
        strict: bool = False,
        table: str | None = None,
        key: str | None = None,
        reading: Reading = DEFAULT_READING,
        **options: Any,
    ) -> IntakeReport:
        """Take in events: paths, an iterable of events, a table of rows, or a table of a database.

        Tables of rows are those of pyarrow and pandas, and DataFrames of Spark without a column ``xml``; all need
        ``channel``::

            engine.ingest([{"channel": "S", "id": "d1", "ts": 1, "xml": "<a/>"}])
            engine.ingest(readings, channel="readings", ts="time", id="seq")
            engine.ingest("readings.csv", ts="time", null=["NA"])
            engine.ingest("sqlite:///plant.db", table="readings", key="id", channel="readings")

        A DataFrame of Spark with a column ``xml`` has columns ``channel``, ``xml`` and, if wanted, ``id`` and ``ts``
        (seconds, ISO text or timestamp), or is one of ``xscl-xml`` or ``xscl-feed``.  A streaming one is fed by
        ``ingest_stream``.  Tasks of Spark read, check and write DataFrames, and files where ``Settings.where`` says so;
        they have to see the files and the home.

        Args:
            source: path, paths, events, dicts, table, DataFrame, or the SQLAlchemy URL of a database.
            strict: refuse events of channels that do not exist.
            table: a table or view of the database at the URL ``source``.
            key: the table's growing key; only rows above the last one taken are read.
            reading: options of reading.
            options: fields of ``reading``, such as ``channel``, ``whole``, ``split``, ``id``, ``ts``.

        Returns:
            Counts of the events.  One that cannot be taken is counted there, and the rest is taken;
            ``raise_if_rejected`` makes an error of it.

        Raises:
            EngineError: ``XSCL_BAD_OPTION``; ``XSCL_BAD_EVENT``: an item of the iterable is no event, which ends the
                intake there.
            SourceError: ``XSCL_SOURCE_UNREADABLE``: a path leads nowhere, and nothing was taken; a database's table
                cannot be taken, or an option is not understood.  ``XSCL_NO_COLUMN``, ``XSCL_BAD_OPTION``,
                ``XSCL_COLUMN_TYPE``: a table of rows, or the one file that is named, lacks a column of the options, or
                its column cannot have ids or times; nothing of it was taken.
        """
        intake = Intake(self.home, strict=strict)
        reading = with_fields(reading, options)
        if table is None and is_spark_frame(source):
            return take_frame(intake, source, reading)
        if table is None and (paths := paths_in(source)) is not None:
            records = partial(records_of, source, reading)
            session = partial(getattr, self, "spark")
            return take_files(
                intake, paths, reading, where=self._driver.settings.where, session=session, records=records
            )
        if table is None:
            return intake.take(records_of(source, reading))
        if key is None or not isinstance(source, str):
            raise EngineError("XSCL_BAD_OPTION", "a table needs the URL of its database, a key and a channel")
        return take_sql_table(intake, source, table, key=key, reading=reading)

    def ingest_jdbc(
        self,
        url: str,
        table: str,
        *,
        key: str,
        channel: str,
        strict: bool = False,
        properties: Mapping[str, str] | None = None,
        **options: Any,
    ) -> IntakeReport:
        """Take in the rows of a table at a JDBC URL above the last key taken, through Spark, whose driver it needs.

        Args:
            url: as Spark's ``jdbc`` source takes it.
            table: a table or view, or a query in parentheses with a name.
            key: a column of whole numbers, texts or times that grows; ids are the table's name and the key.
            channel: the rows' channel.
            strict: refuse a channel that does not exist.
            properties: options of the ``jdbc`` source, such as user, password and driver.
            options: fields of ``Reading``, for rows.

        Raises:
            SourceError: the table cannot be read.
            DocumentError: its rows do not fit the channel as a whole.
        """
        reading = with_fields(Reading(channel), options)
        from xscl.intake.jdbc import take_jdbc_table

        return take_jdbc_table(
            Intake(self.home, strict=strict), self.spark, url, table, key=key, reading=reading, properties=properties
        )

    def heartbeat(self, channel: str, ts: int | str | datetime, *, strict: bool = False) -> int:
        """Say that all events of a channel up to a time are in: later ones of that time and before it are late.

        Args:
            channel: its name; one that does not exist is made, for documents.
            ts: event time: microseconds since the epoch, ISO 8601, or a datetime.
            strict: refuse a channel that does not exist.

        Returns:
            The heartbeat's place of the intake order.

        Raises:
            CatalogError: ``XSCL_UNKNOWN_CHANNEL``; ``XSCL_BAD_CHANNEL``: it is a stream, or queries publish to it.
            EngineError: ``XSCL_BAD_OPTION``: ``ts`` is no time.
        """
        moment = time_bound("ts", ts)
        if moment is None:
            raise EngineError("XSCL_BAD_OPTION", "a heartbeat has a time")
        with self.home.catalog.begin() as connection:
            return take_heartbeat(connection, channel, moment, now_micros(), strict=strict)

    def end_input(self) -> None:
        """Say that nothing comes any more, so that the next batch has all answers; later events are late."""
        with self.home.catalog.begin() as connection:
            end_input(connection, now_micros())

    def follow(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        every: str = "5 seconds",
        strict: bool = False,
        reading: Reading = DEFAULT_READING,
        **options: Any,
    ) -> Iterator[IntakeReport]:
        """Take in what is there and what is added to directories and event files, without end.

        There is a report for some thousand records at most, and an empty one when everything was looked at.  The
        catalogue keeps how far files were read, so a later call, also of another process, goes on from there::

            for report in engine.follow("incoming", every="10 seconds"):
                engine.run_once()

        Args:
            paths: files and directories.
            every: time between two looks; the first is made at once.
            strict, reading, options: as of ``ingest``.
        """
        given = [paths] if isinstance(paths, (str, Path)) else list(paths)
        return follow_paths(Intake(self.home, strict=strict), given, with_fields(reading, options), every=every)

    def fetch_feeds(
        self,
        urls: Sequence[str] | None = None,
        *,
        everything: bool = False,
        settings: PollSettings | None = None,
    ) -> PollReport:
        """Ask the subscribed feeds that are due, and take in what is new.

        Args:
            urls: ask these instead, also before they are due.
            everything: ask all active feeds, also before they are due.
            settings: contact, limits, and how long the pass may take.

        Raises:
            CatalogError: one of ``urls`` is not subscribed, or another process polls the home's feeds.
        """
        from xscl.intake.polling import DEFAULT_POLL_SETTINGS, poll

        return poll(self.home, urls=urls, everything=everything, settings=settings or DEFAULT_POLL_SETTINGS)

    def ingest_stream(
        self,
        frame: DataFrame,
        *,
        checkpoint: str,
        available_now: bool = False,
        **options: Any,
    ) -> StreamingQuery:
        """Feed the intake from a streaming DataFrame of Spark, through ``foreachBatch``.

        Spark may repeat a micro-batch after a failure; ids make the repetition add nothing, so give events ids, rows
        by ``id="column"``.

        Args:
            frame: with columns as of ``ingest``.
            checkpoint: folder in which Spark keeps how far it is.
            available_now: end when everything that is there now was taken.
            options: as of ``ingest``.
        """

        def take(batch: DataFrame, number: int) -> None:
            self.ingest(batch, **options)

        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    def replay_late(
        self,
        *,
        channel: str | None = None,
        since: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
        ids: Sequence[str] = (),
    ) -> Taken:
        """Have late events taken as if they had been in time: the next batch finds what they join with.

        Args:
            channel: only those of this channel.
            since: only those of this event time or later: microseconds since the epoch, ISO 8601, or a datetime.
            until: only those of this event time or earlier.
            ids: only these.

        Raises:
            CatalogError: there is no such channel, no late event of one of the ids, or nothing of them is held.
            EngineError: ``XSCL_BAD_OPTION``: a bound is no time.
        """
        choice = LateChoice(channel, time_bound("since", since), time_bound("until", until), tuple(ids))
        return take_again(self.home, choice)

    # -- running -----------------------------------------------------------------------------------------------

    def run_once(
        self,
        *,
        batch_docs: int = DEFAULT_BATCH_DOCS,
        stop: Callable[[], bool] = lambda: False,
        then: Callable[[BatchReport], None] = lambda report: None,
    ) -> list[BatchReport]:
        """Process everything taken in so far; one report a batch.

        Args:
            batch_docs: documents in a batch at most.
            stop: is asked before each batch; once it says so, none begins.
            then: is called with the report of each batch once that is committed.

        Raises:
            CatalogError: ``XSCL_HOME_IN_USE``: another process runs batches on this home.
            EngineError: a batch failed; nothing of it is visible, and it runs again next time.
        """
        if batch_docs < 1:
            raise EngineError("XSCL_BAD_OPTION", f"a batch has at least one document, not {batch_docs}")
        reports = []
        with self._lock, self._run_lock.held(), named_file_faults(self.home.root):
            self._tidy_once()
            while not stop() and (span := next_batch(self.home, self._planner, batch_docs)) is not None:
                step("run.ranged")
                told("events", span.first - 1, span.taken_in)
                reports.append(process_batch(self.home, self._driver, lambda: self.spark, span))
                then(reports[-1])
                self._upkeep.after_commit()
        return reports

    def _tidy_once(self) -> None:
        if not self._is_tidy:
            step("run.begin")
            tidy(self.home)
            step("run.tidied")
            self._is_tidy = True

    def warm(self) -> None:
        """Plan for the live queries, which the first batch would do else.

        Raises:
            CatalogError: ``XSCL_HOME_IN_USE``: another process runs batches on this home.
        """
        with self._lock, self._run_lock.held(), named_file_faults(self.home.root):
            self._tidy_once()
            processed, last = self.home.catalog.ask(read_last_places)
            plan = self._planner.plan(processed + 1, max(processed + 1, last))
            if plan is not None:
                kernels_of(plan, self._driver.finder).automaton()

    def start(
        self,
        *,
        every: str = "30 seconds",
        batch_docs: int = DEFAULT_BATCH_DOCS,
        name: str = "xscl-run",
        then: Callable[[BatchReport], None] = lambda report: None,
        failed: Callable[[BaseException], None] = lambda error: None,
        apart_s: float = 0.0,
    ) -> RunHandle:
        """Process what comes in until stopped; a handle in the manner of pyspark's StreamingQuery.

        Args:
            every: time between two looks.
            batch_docs: documents in a batch at most.
            name: of the handle and its thread.
            then: is called in that thread with the report of each batch once that is committed.
            failed: is called in that thread with the error that ends it.
            apart_s: seconds between the beginnings of two batches at least; so under load a batch is worth its cost.

        Raises:
            CatalogError: ``XSCL_HOME_IN_USE``: another process runs batches on this home.
        """
        self._refuse_closed()
        try:
            pause = parse_duration(every) / 1e6
        except ValueError as error:
            raise EngineError("XSCL_BAD_OPTION", f"every: {error}") from None

        def run(stop: Callable[[], bool], note: Callable[[BatchReport], None]) -> None:
            reports = self.run_once(batch_docs=batch_docs, stop=stop, then=note)
            if reports and not reports[-1].events:
                # Registrations are planned for as they come, and not when the next event waits for it.
                self.warm()

        return RunHandle(Work(self.warm, run, then, failed), Pauses(pause, apart_s), self._run_lock, name)

    def alone(self) -> AbstractContextManager[None]:
        """Keep others from running batches on this home, from entering the context until leaving it.

        Raises:
            CatalogError: on entering, ``XSCL_HOME_IN_USE``: another process does.
        """
        return self._run_lock.held()

    # -- answers -----------------------------------------------------------------------------------------------

    def matches(self, query: str | None = None, listing: Listing = ALL_MATCHES, **given: Any) -> MatchListing:
        """Return matches of one query, or of all, that are committed when this is called.

        They are sorted by (ts, query, match); with ``after`` they come in the order in which they were committed, and
        ``cursor`` of a match, or of the listing, is where to go on from::

            listing = engine.matches(after=cursor)        # "start" the first time
            for match in listing:
                deliver(match)
            cursor = listing.cursor

        Args:
            query: only of the query of this name, also if it was dropped.
            listing: options; ``given`` are fields of it, such as ``since``, ``until``, ``window``, ``limit``.  Whole
                numbers of ``since``, ``until`` and ``now`` are microseconds since the epoch, as ``ts`` of a match is;
                numbers within ``window`` are seconds.

        Raises:
            CatalogError: there was never a query of that name.
            EngineError: ``XSCL_BAD_WINDOW``, ``XSCL_BAD_CURSOR``; ``XSCL_BAD_OPTION``: a bound is no time.
        """
        return list_matches(self.home, listing, **({} if query is None else {"query": query}), **given)

    def query_once(self, text: str, *, since: int | str | datetime | None = None, name: str | None = None) -> Answer:
        """Answer one query from all that is held, sorted by (ts, match), without registering it.

        Nothing is written to the home, events that wait to be processed count, and other processes may work on the
        home.  The ids are those that a query of this name and text has.  Temporary files go where Python puts them
        (``TMPDIR``), which executors on other machines must be able to reach.

        Args:
            text: one query, which DECLAREs may precede; nothing is published.
            since: members are of this event time or later: microseconds, ISO 8601, or a datetime.  By default the
                text's own STARTING says so, where NOW means all that is held: nothing comes after the question.
            name: what the matches are listed under; else the text's own (CREATE QUERY), or ``once``.

        Returns:
            An iterator of matches, whose ``notes`` say what they may lack: a channel that is not there, documents that
            queries are still to publish, documents that were left out.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: it is no name.
        """
        return query_once(
            self.home, self._driver.settings, lambda: self.spark, text, since=time_bound("since", since), name=name
        )

    def matches_df(
        self,
        query: str | None = None,
        *,
        since: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
    ) -> DataFrame:
        """Return matches of one query, or of all, as a DataFrame of Spark, in no order; docs/reference/sql.md lists its
        columns.

        Spark's tasks build values and documents when rows are read.

        Args:
            query: only of the query of this name, also if it was dropped.
            since: of this event time or later: microseconds, ISO 8601, or a datetime; bounds are included.
            until: of this event time or earlier.

        Raises:
            CatalogError: there was never a query of that name.
            EngineError: ``XSCL_BAD_OPTION``: a bound is no time.
        """
        begin, end = time_bound("since", since), time_bound("until", until)
        if query is not None:
            named_queries(self.home, query)
        from xscl.answers.sql_views import matches_frame

        return matches_frame(self.home, self.spark, query, begin, end)

    def channel_df(
        self,
        name: str,
        *,
        since: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
    ) -> DataFrame:
        """Return the events of a channel as a DataFrame of Spark, in no order; docs/reference/sql.md lists its columns.

        Spark's tasks decode the columns that are read.  Bounds keep files of other times from being read.

        Args:
            name: the channel's name.
            since: of this event time or later: microseconds, ISO 8601, or a datetime; bounds are included.
            until: of this event time or earlier.

        Raises:
            CatalogError: ``XSCL_UNKNOWN_CHANNEL``.
            EngineError: ``XSCL_BAD_OPTION``: a bound is no time.
        """
        begin, end = time_bound("since", since), time_bound("until", until)
        from xscl.answers.sql_views import channel_frame

        return channel_frame(self.home, self.spark, name, begin, end)

    def sql(self, statement: str, /, **frames: object) -> DataFrame:
        """Read the home's relations with one statement of Spark SQL, which docs/reference/sql.md describes.

        DataFrames of Spark and pandas and tables of pyarrow that are given by name are relations of this statement.
        So are the temporary views of the session that ``connect`` was given, unless the home has a relation of
        that name::

            engine.sql("SELECT owner, count(*) AS n FROM matches JOIN owners USING (qid) GROUP BY owner", owners=df)

        Raises:
            EngineError: ``XSCL_SQL``: the statement does something else than reading, or Spark cannot run it.
                ``XSCL_BAD_OPTION``: a frame is no table, or has the name of a relation of the home.
        """
        caller = self.spark if self._is_given else None
        from xscl.answers.sql_views import sql_session

        return sql_session(self.home, self.spark, statement, frames=frames, caller=caller)
