"""Joins in the driver: batches that fit into one process, on state that the driver remembers.

The state is that of the files (``xscl.store.join_state``), as of the last committed batch.  The driver's
memory of it may be lost or smaller than the state: the driver reads rows that it lacks from the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from xscl.base.settings import Settings
from xscl.planning.planner import Plan
from xscl.store.join_state import HeldState
from xscl.store.state_files import LINK_SCHEMA
from xscl.templates.assemble import assemble
from xscl.templates.batch_pairs import TooManyRows
from xscl.templates.columns import rising
from xscl.templates.find import Finder
from xscl.templates.link_rows import LinkRows
from xscl.templates.results import ResultColumns
from xscl.templates.runs import STATE_COLUMNS
from xscl.templates.slices import SliceCache
from xscl.xpath.witness_columns import WITNESS_SCHEMA

__all__ = ["Driver", "Fetch"]

_MOST_LINKS = 1_000_000
"""Rows of links that are kept here."""
_LOADED = 1_000_000
"""Rows that are read from files at a time."""


class Driver:
    """Remembers the join state of a home from batch to batch."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._finder: Finder | None = None
        self._links: LinkRows | None = None
        self._processed = -1
        """The last place of the last batch that was committed as it is remembered; levels of the next may be too."""

    def forget(self) -> None:
        """Remember nothing: a batch failed, or was done elsewhere."""
        self._finder = self._links = None
        self._processed = -1

    def results(
        self, plan: Plan, state: HeldState, fresh: pa.Table, first: int, origin: int, fetch: Fetch
    ) -> ResultColumns:
        """Join new witnesses; ``first`` is the first place of the batch, ``state`` all before the batch.

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
        """Take note that a batch of these places was committed, with this state."""
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


def _links_held(state: HeldState) -> int:
    return sum(file.held for file in state.files if file.kind == "link")


Fetch = Callable[[npt.NDArray[np.int64], bool], pa.Table]


def _held_rows(path: Path, state: HeldState) -> Iterator[pa.Table]:
    """Yield the rows of a file that are held."""
    floors = state.floors
    for batch in ds.dataset(path, schema=WITNESS_SCHEMA).to_batches(columns=list(STATE_COLUMNS), batch_size=_LOADED):
        table = pa.Table.from_batches([batch]).filter(pc.invert(batch.column("late")))
        if floors is not None:
            keep = floors.keep(table.column("var").to_numpy(), table.column("ts").to_numpy())
            table = table.filter(pa.array(keep))
        if table.num_rows:
            yield table
