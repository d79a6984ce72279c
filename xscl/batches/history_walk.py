"""Held events walked, and joined among themselves, for some groups.

Answers from what is held, late events taken again, texts asked once and join state made again all come from such walks:
some thousand events at a time, by a plan that knows the concerned groups only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import published_docid
from xscl.base.settings import Settings
from xscl.batches.driver_join import Driver
from xscl.batches.level import BatchWork
from xscl.batches.missing_rows import LackingRows
from xscl.catalog.event_counts import channel_counts, nth_event
from xscl.catalog.events import files_between
from xscl.catalog.retained_from import held_times
from xscl.catalog.tables import CHANNELS, INTAKE_FILES, LATE
from xscl.planning.planner import Plan
from xscl.store.event_files import Level
from xscl.store.home import Home
from xscl.store.join_state import HeldState
from xscl.store.state_files import LINK_SCHEMA, Kind, write_rows
from xscl.xpath.witness_columns import WITNESS_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HeldEvents", "HeldWalk", "held_events"]

_PART = 10_000
"""Events that are walked together, where these make no more than ``_PARTS`` parts."""
_PARTS = 1 << 14
"""Most parts where the driver joins."""
_FEW_PARTS = 100
"""Most parts from where executors join."""
_MANY_ROWS = 2_000_000
"""Witness rows that wait in memory; more are written to files."""


@dataclass(frozen=True, slots=True)
class HeldEvents:
    """The events before a place that are held."""

    place: int
    since: Mapping[str, int]
    """Least event time of held events, by channel; of a channel without one all are held."""
    on_time: frozenset[int]
    """Late ones that were taken again before the place, and count as in time."""
    count: int
    """Their number, about."""
    until: int | None = None
    """The greatest event time of those that are wanted."""

    def levels(self, home: Home, channels: frozenset[str], cut: Callable[[], _Cut]) -> Iterator[Level]:
        """Yield the events of some channels, one part after another; ``cut`` is asked before each."""
        for first, last in ((1, self.place - 1), (published_docid(0, 0), published_docid(self.place, 0) - 1)):
            while first <= last:
                part, events = cut()
                with home.catalog.read() as connection:
                    end = nth_event(connection, first, last, events) or last
                    counts = channel_counts(connection, first, end)
                    paths = home.paths(files_between(connection, first, end))
                mine = {name: count for name, count in counts.items() if name in channels}
                if mine:
                    yield Level(0, first, end, mine, paths, part, self.since, self.on_time, until=self.until)
                first = end + 1


class _Cut(NamedTuple):
    """The next part of held events: its number, from 1, and how many events it may have."""

    part: int
    events: int


def held_events(connection: Connection, place: int, least: int | None = None) -> HeldEvents:
    """Read which events before a place are held as of the last commit; with ``least`` of that time or later."""
    since = held_times(connection)
    if least is not None:
        since = {name: max(since.get(name, least), least) for name in connection.scalars(sa.select(CHANNELS.c.name))}
    again = connection.scalars(sa.select(LATE.c.docid).where(LATE.c.replayed < place, LATE.c.docid.is_not(None)))
    count = connection.scalar(sa.select(sa.func.sum(INTAKE_FILES.c.rows)))
    return HeldEvents(place, since, frozenset(again), int(count or 0))


class HeldWalk:
    """Held events walked, and joined among themselves, for some groups; writes files under the tag of a batch."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        session: Callable[[], SparkSession],
        plan: Plan,
        events: HeldEvents,
        batch: int,
        tag: str,
    ) -> None:
        """``session`` is asked only where Spark is needed."""
        self._events = events
        self._driver = Driver(settings)
        self._settings = settings
        nothing = HeldState(home.root, (), None, None, {})
        self.work = BatchWork(home, self._driver, session, plan, batch, events.place, nothing, tag)
        """Levels that were walked so far."""
        self._joins = any(edge.key.kind != "ONE" for edge in plan.program.edges.values())
        self._parts = 0
        self._own: Sequence[tuple[Kind, str]] = ()
        """Files and rows of the last part."""

    def parts(self) -> Iterator[Level]:
        """Walk part after part; ``rows`` and ``links`` have those of the last one."""
        work = self.work
        for level in self._events.levels(work.home, work.plan.walked | work.plan.answered, self._cut):
            before = len(work.written)
            work.process(level)
            self._own = work.written[before:]
            yield level
            if not self._joins:
                work.drop()  # nothing meets anything
            elif sum(table.num_rows for table in work.waiting.values()) > _MANY_ROWS:
                work.write_waiting()
            self._driver.merge()
            if self._driver.is_full:
                # More than one process should remember; executors read it from the files.
                self._driver.forget()
                work.in_executors = True

    def also(self, level: Level) -> Level:
        """Walk one more part; returns it with its number."""
        before = len(self.work.written)
        numbered = replace(level, part=self._cut().part)
        self.work.process(numbered)
        self._own = self.work.written[before:]
        return numbered

    def rows(self) -> Iterator[pa.Table]:
        """Yield the witness rows of the last part."""
        for kind, path in self._own:
            if kind == "witness":
                yield from self.work.tables(path, WITNESS_SCHEMA)

    def links(self) -> Iterator[pa.Table]:
        """Yield the rows of links that the last part has found."""
        for kind, path in self._own:
            if kind == "link":
                yield from self.work.tables(path, LINK_SCHEMA)

    def write(self, name: str, lacking: LackingRows | None = None) -> list[tuple[Kind, str]]:
        """Write the rows of the last part as join state; the kind and path of each file, whose name begins so.

        With ``lacking`` only those that the state lacks.
        """
        home = self.work.home
        written: list[tuple[Kind, str]] = []
        rows, links = self.rows(), self.links()
        if lacking is not None:
            rows, links = map(lacking.rows, rows), map(lacking.links, links)
        kinds: tuple[tuple[Kind, pa.Schema, Iterator[pa.Table]], ...] = (
            ("witness", WITNESS_SCHEMA, rows),
            ("link", LINK_SCHEMA, links),
        )
        for kind, schema, tables in kinds:
            path = home.root / "witness" / f"{name}-{kind}.parquet"
            file = write_rows(path, schema, (part for table in tables for part in table.to_batches()))
            if file is not None:
                written.append((kind, f"witness/{file.name}"))
        return written

    def close(self) -> None:
        """Remove the rows that were written: what is needed of them has been taken."""
        self._driver.forget()
        self.work.drop()

    def _cut(self) -> _Cut:
        self._parts += 1
        here = not self.work.in_executors and self._settings.driver_rows
        return _Cut(self._parts, max(_PART, self._events.count // (_PARTS if here else _FEW_PARTS) + 1))
