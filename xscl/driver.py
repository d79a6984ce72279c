"""What a batch does in the driver: the joins of batches that fit into one process, on state that it remembers.

The state is that of the files (``xscl.state``), as of the last committed batch.  Memory of it may be lost, be smaller
than the state, or not be there at all: what a batch needs and the driver does not have is read from the files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from xscl.event_files import EVENT_SCHEMA, Level, event_document
from xscl.home import Home
from xscl.planner import Plan
from xscl.settings import Settings
from xscl.state import LINK_SCHEMA, HeldState
from xscl.templates.assemble import LinkRows, assemble
from xscl.templates.columns import rising
from xscl.templates.find import Finder, TooManyRows
from xscl.templates.results import ResultColumns
from xscl.templates.slices import STATE_COLUMNS, SliceCache
from xscl.xpath.row_witness import row_witnesses
from xscl.xpath.spec_files import load_automaton
from xscl.xpath.witness import WITNESS_SCHEMA, witness_rows

__all__ = ["Driver", "Fetch", "witness_table"]

_SMALL = 5_000
"""Events that are always walked here."""
_MOST = 30_000
"""Events that are walked here, if that does not take long."""
_MOST_ROWS = 2_000_000
"""Rows that columns answer here, at about a microsecond each."""
_LONG_S = 1.0
"""Executors need a second to start, and are as many as there are cores."""
_TELLING = 1_000
"""Events whose time says what others will take."""
_MOST_BYTES = 64 << 20
"""Of documents."""
_MOST_ROW_BYTES = 1 << 30
_WALKED = ("docid", "channel", "id", "item", "ts", "late", "membership", "content")
_READ = [*_WALKED, "cells"]
_MOST_LINKS = 1_000_000
"""Rows of links that are kept here."""
_LOADED = 1_000_000
"""Rows that are read from files at a time."""


class Driver:
    """Remembers the join state of a home from batch to batch."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self.home = home
        self.settings = settings
        self._finder: Finder | None = None
        self._links: LinkRows | None = None
        self._event_s = 0.0
        """What it took to match an event, the last time that was done here."""
        self._processed = -1
        """The last place of the last batch that was committed as it is remembered; levels of the next may be too."""

    def forget(self) -> None:
        """Remember nothing: a batch failed, or was done elsewhere."""
        self._finder = self._links = None
        self._processed = -1

    def results(
        self, plan: Plan, state: HeldState, fresh: pa.Table, first: int, origin: int, fetch: Fetch
    ) -> ResultColumns:
        """What the new witnesses come to; ``first`` is the first place of the batch, ``state`` all before the batch.

        A batch may have several levels of new witnesses, each with an origin of its own, which grows.

        Raises:
            TooManyRows: more than the driver should hold.
        """
        if max(fresh.num_rows, 1) > self.settings.driver_rows:
            raise TooManyRows
        if plan.program.links and _links_held(state) > _MOST_LINKS:
            raise TooManyRows
        if self._finder is None or self._processed != first - 1:
            self._load(state)
            self._processed = first - 1
        assert self._finder is not None
        if self.is_blind:
            self._finder.cache.runs = []  # what was brought for the level before
        out = ResultColumns(origin)
        try:
            self._finder.process(plan.program, fresh, origin, out, fetch=fetch, most_rows=self.settings.driver_rows)
            if out.counts["link"]:
                self._assemble(plan, state, origin, out)
        except BaseException:
            self.forget()
            raise
        return out

    def extend(self, rows: Iterator[pa.Table], links: Iterator[pa.Table], first: int) -> None:
        """Remember witness rows, and rows of links, of earlier documents that the state gets.

        ``first`` is the first place of the batch that adds them.
        """
        if self._finder is None:
            return
        cache = self._finder.cache
        if self._processed != first - 1 or cache.blind or len(cache.absent):
            # Rows of values that are in files only would stand here alone.
            self.forget()
            return
        docs = []
        for table in rows:
            run = cache.run_of(table, 0)
            docs.append(run.docs)
            cache.append(run)
        if docs:
            cache.find_again(rising(np.concatenate(docs)))
        if self._links is not None:
            for table in links:
                self._links.add(table, batch=0)

    def committed(self, state: HeldState, first: int, last: int) -> None:
        """A batch of these places was committed, with this state."""
        if self._finder is None:
            return
        if self._processed != first - 1:
            # A batch without events asks nothing of what is remembered, which may miss what was done elsewhere.
            self.forget()
            return
        self._processed = last
        floors = state.floors
        if floors is not None:
            self._finder.cache.purge(floors.keep)
            # A look at every row: not without need.
            if self._links is not None and len(self._links) > _links_held(state):
                self._links.purge(floors.keep_links)
        cache = self._finder.cache
        cache.merge()
        cache.shrink()
        if cache.blind and cache.has_room_to_list(state.rows):
            self.forget()

    def merge(self) -> None:
        """Bring what several levels have added together, so that many do not cost more each."""
        if self._finder is not None:
            self._finder.cache.merge()

    @property
    def is_blind(self) -> bool:
        """Whether nothing is kept here, so that rows of levels of the same batch are to be fetched as well."""
        return self._finder is not None and self._finder.cache.blind

    @property
    def is_full(self) -> bool:
        """Whether what is remembered takes more memory than it may."""
        return self._finder is not None and self._finder.cache.size > self.settings.cache_bytes

    @property
    def slices(self) -> tuple[int, int]:
        """Values asked for so far, and those that needed nothing from the files."""
        cache = None if self._finder is None else self._finder.cache
        return (0, 0) if cache is None else (cache.asked, cache.hits)

    def witnesses(self, plan: Plan, level: Level) -> pa.Table | None:
        """The witness rows of a level's documents, made here; None if executors make them sooner."""
        events = sum(number for channel, number in level.channels.items() if channel in plan.walked)
        rows = sum(number for channel, number in level.channels.items() if channel in plan.answered)
        if rows > _MOST_ROWS or events > _SMALL and (events > _MOST or events * self._event_s > _LONG_S):
            return None
        read = sorted((plan.walked | plan.answered).intersection(level.channels))
        table = ds.dataset(level.paths, schema=EVENT_SCHEMA).to_table(columns=_READ, filter=_wanted(level, read))
        if level.on_time:
            in_time = pc.is_in(table.column("docid"), pa.array(sorted(level.on_time), pa.int64()))
            late = pc.and_not(table.column("late"), in_time)
            table = table.set_column(table.schema.get_field_index("late"), "late", late)
        if table.column("content").nbytes > _MOST_BYTES or table.nbytes > _MOST_BYTES + _MOST_ROW_BYTES:
            return None
        began = time.perf_counter()
        found = witness_table(self.home, plan, table, self.settings.driver_rows)
        if events >= _TELLING and not rows:
            self._event_s = (time.perf_counter() - began) / events
        return found

    # -- inside ------------------------------------------------------------------------------------------------

    def _load(self, state: HeldState) -> None:
        """Read the state, the newest files first; what does not fit is noted as being in files only."""
        cache = SliceCache(self.settings.cache_bytes)
        paths = reversed(state.paths("witness"))
        cache.load((part for path in paths for part in _held_rows(Path(path), state)), 0)
        self._finder = Finder(cache)
        self._links = None

    def _assemble(self, plan: Plan, state: HeldState, origin: int, out: ResultColumns) -> None:
        if _links_held(state) + out.counts["link"] > _MOST_LINKS:
            raise TooManyRows
        if self._links is None:
            self._links = LinkRows()
            floors = state.floors
            for path in state.paths("link"):
                rows = pq.read_table(path, schema=LINK_SCHEMA)
                if floors is not None:
                    columns = (rows.column(name).to_numpy() for name in ("link", "ts1", "ts2"))
                    rows = rows.filter(pa.array(floors.keep_links(*columns)))
                self._links.add(rows, batch=0)
        assemble(plan.program, self._links, out.link_rows(), origin, out)


def _wanted(level: Level, channels: Collection[str]) -> pc.Expression:
    """The events of a level of some channels."""
    wanted = (ds.field("docid") >= level.first) & (ds.field("docid") <= level.last)
    wanted &= ds.field("channel").isin(pa.array(channels, pa.string()))
    for channel, least in level.since.items():
        wanted &= (ds.field("channel") != channel) | (ds.field("ts") >= least)
    if level.until is not None:
        wanted &= ds.field("ts") <= level.until
    if level.only is not None:
        wanted &= ds.field("docid").isin(pa.array(sorted(level.only), pa.int64()))
    return wanted


def _links_held(state: HeldState) -> int:
    return sum(file.held for file in state.files if file.kind == "link")


Fetch = Callable[[npt.NDArray[np.int64], bool], pa.Table]


def _held_rows(path: Path, state: HeldState) -> Iterator[pa.Table]:
    """The rows of a file that are held."""
    floors = state.floors
    for batch in ds.dataset(path, schema=WITNESS_SCHEMA).to_batches(columns=list(STATE_COLUMNS), batch_size=_LOADED):
        table = pa.Table.from_batches([batch]).filter(pc.invert(batch.column("late")))
        if floors is not None:
            keep = floors.keep(table.column("var").to_numpy(), table.column("ts").to_numpy())
            table = table.filter(pa.array(keep))
        if table.num_rows:
            yield table


# -- stage 1 ---------------------------------------------------------------------------------------------------


def witness_table(home: Home, plan: Plan, events: pa.Table, most_rows: int) -> pa.Table | None:
    """The witness rows of some events (``_READ``); None if columns give more than ``most_rows``."""
    parts: list[pa.RecordBatch] = []
    is_row = events.column("cells").is_valid()
    for part in events.combine_chunks().to_batches():
        for found in row_witnesses(plan.matchers, part):
            parts.append(found)
            most_rows -= found.num_rows
            if most_rows < 0:
                return None
    walked = events.filter(pc.is_in(events.column("channel"), pa.array(sorted(plan.walked), pa.string())))
    if walked.num_rows:
        parts += _walked(plan.specs_path, _with_documents(home, walked))
    # Rows of earlier versions are documents, and walked for all that is asked of them.
    old = pc.and_not(pc.is_in(events.column("channel"), pa.array(sorted(plan.answered), pa.string())), is_row)
    if pc.any(old, min_count=0).as_py():
        parts += _walked(plan.answered_path, events.filter(old))
    return pa.Table.from_batches(parts, schema=WITNESS_SCHEMA)


def _walked(specs: Path, events: pa.Table) -> Iterator[pa.RecordBatch]:
    for part in events.select(_WALKED).combine_chunks().to_batches():
        yield from witness_rows(load_automaton(str(specs)), part)


def _with_documents(home: Home, events: pa.Table) -> pa.Table:
    """Events with the document of each row as its content."""
    if events.column("cells").null_count == events.num_rows:
        return events
    channels = home.catalog.channels()
    rows = zip(*(events.column(name).to_pylist() for name in ("channel", "content", "cells")), strict=True)
    documents = [event_document(content, cells, channels[name]) for name, content, cells in rows]
    return events.set_column(events.schema.get_field_index("content"), "content", pa.array(documents, pa.string()))
