"""A text with queries in parentheses, answered once: in a home of its own, which takes in what is held and is removed.

All that is held comes behind the registration there, in the same order, and then the channels end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from xscl.answers.matches.listing import list_matches
from xscl.base.docids import place_of
from xscl.base.sealed import CHECKED_PAGES
from xscl.base.settings import DEFAULT_BATCH_DOCS, Settings
from xscl.base.temporary import temporary_folder
from xscl.base.types import LAST_TIME, Match
from xscl.batches.batch import process_batch
from xscl.batches.history_walk import HeldEvents
from xscl.batches.memory.driver import Driver
from xscl.batches.ranges import next_batch
from xscl.catalog.channels import add_stream, put_channel, read_channels, read_streams
from xscl.catalog.events import files_between
from xscl.catalog.memberships import resolve_stream, stored_memberships
from xscl.catalog.records import ChannelInfo, QueryInfo
from xscl.ingest.event_file import event_of
from xscl.ingest.records import Heartbeat, Record
from xscl.intake.intake import Intake
from xscl.language.declared import prefixes
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_statement
from xscl.language.syntax.parser import parse_query
from xscl.planning.planner import Planner
from xscl.registry.registry import Registry
from xscl.store.event_lines import EventLines
from xscl.store.home import Home, init_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["answered_apart", "channels_of"]

_SOURCE = "held events"


def answered_apart(
    home: Home, settings: Settings, session: Callable[[], SparkSession], info: QueryInfo, events: HeldEvents
) -> list[Match]:
    """Return the matches of a query with queries in parentheses over held events.

    Args:
        home: the home.
        settings: how much this process does itself.
        session: gives Spark, and is asked only where it is needed.
        info: the query.
        events: the events.
    """
    wanted = {*channels_of(parse_query(info.said))}
    with home.catalog.read() as connection:
        channels, streams = read_channels(connection), read_streams(connection)
        memberships = stored_memberships(connection)
    named = {resolve_stream(streams, name)[0] for name in wanted} & channels.keys()
    with temporary_folder("xscl-once") as folder:
        apart = init_home(folder)
        try:
            with apart.catalog.begin() as connection:
                for name in sorted(named):
                    put_channel(connection, _plain(channels[name]))
                for stream in sorted(streams.values(), key=lambda each: each.number):
                    if stream.channel in named:
                        add_stream(connection, stream.name, stream.channel, stream.source)
            Registry(apart.catalog, ends=True).register(_declared(info) + info.said, name=info.name)
            intake = Intake(apart)
            intake.take(_records(home, EventLines(home, channels, streams, memberships), named, events))
            intake.take(Heartbeat(name, LAST_TIME, _SOURCE) for name in sorted(named))
            _process(apart, settings, session)
            return [replace(match, cursor="") for match in list_matches(apart, query=info.name)]
        finally:
            apart.catalog.close()


def _process(home: Home, settings: Settings, session: Callable[[], SparkSession]) -> None:
    """Run all batches of a home."""
    driver, planner = Driver(settings), Planner(home.catalog, home.folder("programs"))
    try:
        while (span := next_batch(home, planner, DEFAULT_BATCH_DOCS, beats=False)) is not None:
            process_batch(home, driver, session, span)
    finally:
        planner.close()


def _records(home: Home, lines: EventLines, named: Collection[str], events: HeldEvents) -> Iterator[Record]:
    """Yield the held events of some channels in the order of their places."""
    with home.catalog.read() as connection:
        last = events.place - 1
        taken_in = files_between(connection, 1, last)
        published = files_between(connection, *events.published)
    rows = [
        row
        for path in home.paths(list(dict.fromkeys((*taken_in, *published))))
        for row in pq.read_table(path, **CHECKED_PAGES).to_pylist()
        if row["channel"] in named and place_of(row["docid"]) < events.place and _is_wanted(row, events)
    ]
    rows.sort(key=lambda row: (place_of(row["docid"]), row["docid"]))
    for row in rows:
        for _, line in lines.of_event(row):
            yield event_of(line, source=_SOURCE)


def _is_wanted(row: Mapping[str, object], events: HeldEvents) -> bool:
    ts, docid = row["ts"], row["docid"]
    assert isinstance(ts, int)
    if docid in events.removed:
        return False
    return ts >= events.since.get(str(row["channel"]), ts) and (not row["late"] or docid in events.on_time)


def channels_of(query: ast.Query) -> Iterator[str]:
    """Yield the channels and streams that a query reads, those of its queries in parentheses included."""
    for block in (*ast.blocks(query.source), *(each.right for each in query.negations)):
        if isinstance(block, ast.SubQuery):
            yield from channels_of(block.query)
        else:
            yield block.channel


def _plain(channel: ChannelInfo) -> ChannelInfo:
    """Return a channel as it is where nothing comes late."""
    return replace(
        channel, feed=False, lateness=None, clock=channel.name, idle=None, retention=None, heartbeat=None, auto=False,
        wall=None,
    )  # fmt: skip


def _declared(info: QueryInfo) -> str:
    declared = (ast.DeclareNamespace(prefix, uri) for prefix, uri in prefixes(info.namespaces).items())
    return "".join(f"{format_statement(each)}\n" for each in declared)
