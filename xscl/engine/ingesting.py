"""Records into a home: events, heartbeats, removals, feeds, and late events once more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xscl.base.errors import EngineError
from xscl.base.types import now_micros, time_bound, with_fields
from xscl.engine.opened import OpenedHome
from xscl.ingest.reading import DEFAULT_READING, Reading
from xscl.ingest.records import Record, Removal
from xscl.intake.data_frames import is_spark_frame
from xscl.intake.heartbeats import end_input, take_heartbeat
from xscl.intake.inputs import follow_paths, paths_in, records_of, take_sql_table
from xscl.intake.intake import Intake, IntakeReport
from xscl.intake.where import take_files
from xscl.store.late_events import LateChoice, Taken, take_again

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from xscl.intake.polling import PollReport, PollSettings

__all__ = ["Ingesting"]


class Ingesting(OpenedHome):
    """Calls that ingest events, take them out, and say how far the times of channels are settled."""

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
            from xscl.intake.frame_intake import take_frame

            return take_frame(intake, cast("DataFrame", source), reading)
        if table is None and (paths := paths_in(source)) is not None:
            records = partial(records_of, source, reading)
            where = self._driver.settings.where
            return take_files(intake, paths, reading, where=where, session=lambda: self.spark, records=records)
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
            CatalogError: ``XSCL_UNKNOWN_CHANNEL``; ``XSCL_BAD_CHANNEL``: it is a stream, or queries publish to it;
                ``XSCL_BAD_EVENT_TIME``: the time is not in the years 1 to 9999.
            EngineError: ``XSCL_BAD_OPTION``: ``ts`` is no time.
        """
        moment = time_bound("ts", ts)
        if moment is None:
            raise EngineError("XSCL_BAD_OPTION", "a heartbeat has a time")
        with self.home.catalog.begin() as connection:
            return take_heartbeat(connection, channel, moment, now_micros(), strict=strict)

    def retract(self, channel: str, ids: str | Sequence[str], *, strict: bool = False) -> IntakeReport:
        """Take events out: matches with them hold no longer for queries with ``ON CHANGE RETRACT``.

        Args:
            channel: name of their channel.
            ids: id of one event, or several; all versions of an item go together.
            strict: refuse a channel that does not exist.

        Returns:
            ``removed`` counts the events, ``missing`` the ids that no event has, or none any more.
        """
        given = (ids,) if isinstance(ids, str) else tuple(ids)
        return Intake(self.home, strict=strict).take([Removal(channel, given, "retract")])

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
