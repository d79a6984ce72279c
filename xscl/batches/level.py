"""Levels of a batch: its events, then documents that queries publish, each joined with all that was there before.

Small levels are matched and joined in the driver, on state that it remembers (``driver``); Spark's executors do what is
large, or all of it if the settings say so (``executors``).  Both write the same files.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from xscl.base.docids import place_of
from xscl.base.failpoints import step
from xscl.base.sealed import PAGE_CHECKSUMS
from xscl.batches.driver_join import Driver
from xscl.batches.driver_match import driver_witnesses
from xscl.batches.executors import read_state, write_assembled, write_results, write_witnesses
from xscl.batches.publisher import Publisher
from xscl.batches.quotas import BindingCount
from xscl.batches.refusals import Unnamed, refused_at_joining, refused_at_matching
from xscl.planning.planner import Plan
from xscl.store.event_files import Level
from xscl.store.home import Home
from xscl.store.inventory import remove
from xscl.store.join_state import HeldState
from xscl.store.state_files import Kind, write_links
from xscl.templates.batch_pairs import TooManyRows
from xscl.templates.results import RESULT_SCHEMA, origin_of
from xscl.xpath.witness_columns import WITNESS_SCHEMA

__all__ = ["BatchWork", "levels"]

_ROW_GROUP = 64_000
_JOINED = 1 << 15
"""The first part of a level that numbers classes of queries of three and more blocks, where executors join."""
_OF_PARTS = 128
"""The first level that numbers classes where executors join one of several parts of a level; they number many each."""


def levels(plan: Plan, publisher: Publisher | None) -> Iterator[Level]:
    """Yield the documents that are published for the events of a batch, level by level.

    Each level is processed, and the publisher told its matches, before the next is asked for.  Documents that no query
    reads are published and go no further.
    """
    number = 0
    for channels in () if publisher is None else publisher.levels:
        assert publisher is not None
        published = publisher.level(channels)
        if published is None or (plan.walked | plan.answered).isdisjoint(published.channels):
            continue
        number += 1
        yield Level(number, published.first, published.last, published.channels, [str(published.path)])


@dataclass
class BatchWork:
    """A batch under way, and what its levels have come to so far."""

    home: Home
    driver: Driver
    session: Callable[[], SparkSession]
    """Asked only where Spark is needed."""
    plan: Plan
    batch: int
    first: int
    """The first place of the batch."""
    state: HeldState
    """Join state after all batches before it."""
    tag: str
    """Begins the names of what it writes."""
    in_executors: bool = False
    """Whether executors have joined a level; then they join the later ones too."""
    counts: Counter[str] = field(default_factory=Counter)
    written: list[tuple[Kind, str]] = field(default_factory=list)
    """Witness rows and rows of links: files, or folders of them."""
    waiting: dict[str, pa.Table] = field(default_factory=dict)
    """Witness rows of ``written`` that are in memory; they go to files only if someone reads them."""
    refused: list[Unnamed] = field(default_factory=list)
    """Refusals at matching and joining."""
    stage1_s: float = 0.0
    bindings: BindingCount = field(default_factory=BindingCount)
    _parts: int = 0
    """Parts of levels that executors have joined."""

    def results(self, level: Level) -> Path:
        """Return the folder of a level's results."""
        return self.home.root / "results" / self.tag / level.name

    def process(self, level: Level) -> int:
        """Write the results of the documents of a level, and return the number of matches."""
        started = time.perf_counter()
        path = f"witness/{self.tag}-{level.name}"
        fresh = self._witnesses(level, self.home.root / path)
        self.stage1_s += time.perf_counter() - started
        step("batch.witnesses")
        counts = self._join(level, fresh, self.home.root / path)
        step("batch.results")
        self.counts += counts + Counter(witness=fresh.count_rows())
        self.bindings.add(fresh)
        self.refused += refused_at_matching(fresh, self.plan.asking)
        if counts["refused"]:
            self.refused += refused_at_joining(self.results(level))
        self.written.append(("witness", path))
        if counts["link"]:
            links = write_links(self.home, f"{self.tag}-{level.name}", _link_batches(self.results(level)))
            self.written += [] if links is None else [("link", links)]
            step("batch.links")
        return counts["match"]

    @property
    def files(self) -> list[tuple[Kind, str]]:
        """Files of ``written`` that are there."""
        return [(kind, path) for kind, path in self.written if path not in self.waiting]

    def tables(self, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of one of ``written``, some at a time."""
        if path in self.waiting:
            yield self.waiting[path]
            return
        for batch in ds.dataset(self.home.root / path, schema=schema).to_batches():
            yield pa.Table.from_batches([batch])

    def write_waiting(self) -> None:
        """Put witness rows that wait into files, all of them."""
        for path, rows in self.waiting.items():
            target = self.home.root / path
            target.mkdir()
            pq.write_table(rows, target / "part-0.parquet", row_group_size=_ROW_GROUP, **PAGE_CHECKSUMS)
        self.waiting.clear()
        step("batch.waiting")

    def drop(self) -> None:
        """Remove the rows written so far: nothing is to be joined with them any more."""
        for _, path in self.written:
            if self.waiting.pop(path, None) is None:
                remove(self.home.root / path)
        self.written.clear()

    # -- stages ------------------------------------------------------------------------------------------------

    def _witnesses(self, level: Level, target: Path) -> ds.Dataset:
        """Make the witness rows of a level, and write them if executors do it."""
        plan: Plan | None = self.plan
        here = WITNESS_SCHEMA.empty_table()
        if self.driver.settings.driver_rows:
            walked = driver_witnesses(self.plan, level, self.driver.settings.driver_rows)
            here, plan, level = walked.rows, walked.plan, walked.level
        if plan is None:
            self.waiting[str(target.relative_to(self.home.root))] = here
            return ds.InMemoryDataset(here)
        write_witnesses(self.session(), plan, level, target)
        if here.num_rows:
            pq.write_table(here, target / "walked-here.parquet", row_group_size=_ROW_GROUP, **PAGE_CHECKSUMS)
        return ds.dataset(target, schema=WITNESS_SCHEMA)

    def _join(self, level: Level, fresh: ds.Dataset, fresh_path: Path) -> Counter[str]:
        """Write the results of the witnesses of a level, and count them."""
        origin, target = origin_of(self.batch, level.number, level.part), self.results(level)
        if not self.in_executors and fresh.count_rows() <= self.driver.settings.driver_rows:
            try:
                out = self.driver.results(self.plan, self.state, fresh.to_table(), self.first, origin, self._fetch)
            except TooManyRows:
                pass
            else:
                step("batch.joined")
                target.mkdir(parents=True)
                out.write(target)
                return out.counts
        self.driver.forget()
        self.in_executors = True
        self.write_waiting()
        number = level.number
        if level.part:
            number = _OF_PARTS + self._parts
            self._parts += 1
        origin = origin_of(self.batch, number)
        write_results(self.session(), self.plan, fresh_path, self._paths("witness"), target, origin)
        counts = _count_results(target)
        if counts["link"]:
            joined, origin = target / "joined", origin_of(self.batch, number, _JOINED)
            write_assembled(self.session(), self.plan, target, self._paths("link"), joined, origin)
            counts += _count_results(joined)
        return counts

    def _fetch(self, wanted: npt.NDArray[np.int64], documents: bool) -> pa.Table:
        """Rows of the state that the driver does not remember: of some values, or of some documents."""
        paths = self._paths("witness") if self.driver.is_blind else self.state.paths("witness")
        column = "docid" if documents else "h"
        found = read_state(self.session(), paths, wanted, column, self.driver.settings.driver_rows)
        floors = self.state.floors
        if floors is None or found.num_rows > self.driver.settings.driver_rows:
            return found
        # What went out of sight stays so; rows of this batch are all in sight.
        kept = floors.keep(found.column("var").to_numpy(), found.column("ts").to_numpy())
        return found.filter(pa.array(kept | (place_of(found.column("docid").to_numpy()) >= self.first)))

    def _paths(self, kind: Kind) -> list[str]:
        """Return the files of all rows from before the level that is under way."""
        self.write_waiting()
        own = [self.home.root / path for of, path in self.written if of == kind]
        files = [file for path in own for file in (sorted(path.glob("*.parquet")) if path.is_dir() else [path])]
        return [*self.state.paths(kind), *map(str, files)]


# -- what was found --------------------------------------------------------------------------------------------


def _link_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of links of a batch's results."""
    results = ds.dataset(path, schema=RESULT_SCHEMA)
    yield from results.to_batches(columns=["link", "members", "nodes"], filter=ds.field("relation") == "link")


def _count_results(path: Path) -> Counter[str]:
    """Count the rows of each relation, with every combination of documents; for ``pairs`` the number of pairs."""
    results = ds.dataset(path, schema=RESULT_SCHEMA)
    counts: Counter[str] = Counter()
    sizes: Counter[tuple[str, int, int]] = Counter()
    columns = ["relation", "origin", "class", "docs", "others"]
    wanted = ds.field("relation") != "docs"
    for row in results.to_table(columns=columns, filter=wanted).to_pylist():
        if row["relation"] == "pairs":
            counts["pairs"] += row["docs"][0]
        elif row["relation"] in ("link", "refused"):
            counts[row["relation"]] += 1
        else:
            sizes[row["relation"], row["origin"], row["class"]] += prod(map(len, row["others"] or ()))
    docs = results.to_table(columns=["origin", "class"], filter=ds.field("relation") == "docs")
    for row in docs.group_by(["origin", "class"]).aggregate([([], "count_all")]).to_pylist():
        for relation in ("rout", "match"):
            counts[relation] += row["count_all"] * sizes[relation, row["origin"], row["class"]]
    return counts
