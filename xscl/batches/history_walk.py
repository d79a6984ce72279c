"""Held events walked, and joined among themselves, for some groups.

Answers from what is held, late events taken again, texts asked once and join state made again all come from such walks:
some thousand events at a time, by a plan that knows the concerned groups only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import published_docid
from xscl.base.settings import Settings
from xscl.batches.level import BatchWork
from xscl.batches.memory.driver import Driver
from xscl.batches.missing_rows import LackingRows
from xscl.batches.walking import Level
from xscl.catalog.event_counts import channel_counts, nth_event
from xscl.catalog.events import files_between
from xscl.catalog.retained_from import held_times
from xscl.catalog.tables import CHANNELS, INTAKE_FILES, LATE
from xscl.planning.planned import Plan
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.join_state import HeldState
from xscl.store.parquet import int64s
from xscl.store.state_files import Kind, open_links, write_run
from xscl.templates.columns import Int64s
from xscl.templates.many_blocks.runs import LinkRun, rows_of
from xscl.templates.runs.making import run_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HeldEvents", "HeldWalk", "held_events"]

_PART = 10_000
"""Events that are walked together, where these make no more than ``_PARTS`` parts."""
_PARTS = 1 << 14
"""Most parts where this process walks them."""
_FEW_PARTS = 100
"""Most parts from where tasks walk them."""
_MANY_ROWS = 2_000_000
"""Rows of runs that wait in memory; more are written to files."""


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
    removed: frozenset[int] = frozenset()
    """Removed ones that are left out."""
    counted_from: Mapping[str, int] = field(default_factory=dict)
    """Least event time of events that row windows count, by channel; of a channel without one all are counted."""

    @property
    def published(self) -> tuple[int, int]:
        """The least and the greatest number that a published document before the place may have."""
        return published_docid(0, 0), published_docid(self.place, 0) - 1

    def levels(self, home: Home, channels: frozenset[str], cut: Callable[[], _Cut]) -> Iterator[Level]:
        """Yield the events of some channels, one part after another; ``cut`` is asked before each."""
        for first, last in ((1, self.place - 1), self.published):
            while first <= last:
                part, events = cut()
                with home.catalog.read() as connection:
                    end = nth_event(connection, first, last, events) or last
                    counts = channel_counts(connection, first, end)
                    paths = home.paths(files_between(connection, first, end))
                mine = {name: count for name, count in counts.items() if name in channels}
                if mine:
                    yield Level(
                        0,
                        first,
                        end,
                        mine,
                        paths,
                        part,
                        self.since,
                        self.on_time,
                        until=self.until,
                        without=self.removed,
                    )
                first = end + 1


class _Cut(NamedTuple):
    """The next part of held events: its number, from 1, and how many events it may have."""

    part: int
    events: int


def held_events(connection: Connection, place: int, least: int | None = None) -> HeldEvents:
    """Read which events before a place are held as of the last commit; with ``least`` of that time or later."""
    since = held = held_times(connection)
    if least is not None:
        since = {name: max(since.get(name, least), least) for name in connection.scalars(sa.select(CHANNELS.c.name))}
    again = connection.scalars(sa.select(LATE.c.docid).where(LATE.c.replayed < place, LATE.c.docid.is_not(None)))
    count = connection.scalar(sa.select(sa.func.sum(INTAKE_FILES.c.rows)))
    return HeldEvents(place, since, frozenset(again), int(count or 0), counted_from=held)


def _count_held(home: Home, plan: Plan, since: Mapping[str, int]) -> None:
    """Have row windows count held events alone: upkeep removes others, and no answer depends on when that is."""
    ordinals = plan.program.ordinals
    held: dict[str, Int64s] = {}
    for channel in ordinals.counts.keys() & since.keys():
        events = events_of(home, ordinals.places[channel], ["docid", "ts"])
        docids, times = (int64s(events.column(name)) for name in ("docid", "ts"))
        held[channel] = np.sort(docids[times >= since[channel]])
    ordinals.take({**ordinals.places, **held})


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
        _count_held(home, plan, events.counted_from)
        self._events = events
        self._driver = Driver(settings)
        self._settings = settings
        nothing = HeldState(home.root, (), None, None, {})
        self.work = BatchWork(home, self._driver, session, plan, batch, nothing, tag)
        """Levels that were walked so far."""
        self._joins = any(edge.key.kind != "ONE" for edge in plan.program.edges.values())
        self._parts = 0
        self._own: Sequence[tuple[Kind, str]] = ()
        """Files and rows of the last part."""

    def parts(self) -> Iterator[Level]:
        """Walk part after part; ``rows`` and ``links`` have those of the last one."""
        work = self.work
        for level in self._events.levels(work.home, work.plan.walked | work.plan.answered, self._cut):
            before = len(work.new.written)
            work.process(level)
            self._own = work.new.written[before:]
            yield level
            if not self._joins:
                work.new.drop()  # nothing meets anything
            elif work.new.waiting_size > _MANY_ROWS:
                work.new.write_waiting()

    def also(self, level: Level) -> Level:
        """Walk one more part; returns it with its number."""
        before = len(self.work.new.written)
        numbered = replace(level, part=self._cut().part)
        self.work.process(numbered)
        self._own = self.work.new.written[before:]
        return numbered

    def rows(self) -> Iterator[pa.Table]:
        """Yield the witness rows of the last part."""
        for kind, path in self._own:
            if kind == "witness":
                yield self.work.new.rows(path)

    def links(self) -> Iterator[pa.Table]:
        """Yield the rows of links that the last part has found."""
        for kind, path in self._own:
            if kind == "link":
                yield rows_of(open_links(str(self.work.home.root / path)))

    def write(self, name: str, lacking: LackingRows | None = None) -> list[tuple[Kind, str]]:
        """Write the rows of the last part as join state; the kind and path of each file, whose name begins so.

        With ``lacking`` only those that the state lacks.
        """
        home = self.work.home
        written: list[tuple[Kind, str]] = []
        rows, links = self.rows(), self.links()
        if lacking is not None:
            rows, links = map(lacking.rows, rows), map(lacking.links, links)
        more = [table for table in rows if table.num_rows]
        if more:
            run = run_of(pa.concat_tables(more))
            written.append(("witness", f"witness/{write_run(home.root / f'witness/{name}-witness.run', run).name}"))
        more = [table for table in links if table.num_rows]
        if more:
            found = LinkRun.of(pa.concat_tables(more))
            written.append(("link", f"witness/{write_run(home.root / f'witness/{name}-link.run', found).name}"))
        return written

    def close(self) -> None:
        """Remove the rows that were written: what is needed of them has been taken."""
        self.work.new.drop()

    def _cut(self) -> _Cut:
        self._parts += 1
        many = self._settings.where != "spark" and not self.work.on_spark
        return _Cut(self._parts, max(_PART, self._events.count // (_PARTS if many else _FEW_PARTS) + 1))
