"""Levels of a batch: its events, then documents that queries publish, each joined with all that was there before.

A level is walked, and joined, in this process or in tasks of Spark, by the same kernels on the same files.  Large work
goes to tasks where these end it sooner (``driver``); documents that were walked here by then stay walked.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from xscl.base.alike_rows import LoneRows
from xscl.base.failpoints import step
from xscl.base.number_order import each_once
from xscl.base.progress import told
from xscl.base.safe_xml import work_time
from xscl.batches.kernels import QueryFiles, kernels_of
from xscl.batches.link_work import LinkWork
from xscl.batches.memory.driver import Driver
from xscl.batches.new_rows import NewRows
from xscl.batches.quotas import BindingCount
from xscl.batches.refusals import Unnamed, refused_at_joining, refused_at_matching
from xscl.batches.tasks import (
    LevelWork,
    Made,
    Share,
    Unit,
    document_pairs,
    finished,
    kept_rows,
    meet_share,
    shares,
    units_cost,
    units_of,
    work_on,
)
from xscl.batches.walking import (
    Asked,
    Fresh,
    Left,
    Level,
    column_witnesses,
    count_documents,
    cut,
    documents_of,
    walked_parts,
)
from xscl.batches.witness_facts import binding_rows, refusal_rows
from xscl.planning.planned import Plan
from xscl.spark.places import OnSpark, slots_of
from xscl.spark.start_cost import start_seconds
from xscl.store.home import Home
from xscl.store.join_state import HeldState
from xscl.store.parquet import data_files
from xscl.store.taken_events import TakenEvents
from xscl.templates.origins import origin_of
from xscl.templates.results import ResultColumns
from xscl.templates.set_apart import SetApart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BatchWork"]

_SMALL = 250
"""Documents of a level that every task walks for itself, so that one job is enough."""
_PART = 500
"""Documents of a task's part, at least."""
_RUNS = 16
"""Runs of the state from which on a small level has one more task; a task costs as much as some thirty of them."""
_JOB_SECONDS = 0.1
"""Processor time of a job of Spark, about: what runs of its tasks find in each other within that is found here."""
_ROW_SECONDS = 1e-6
"""Processor time for a row that columns answer."""


@dataclass
class BatchWork:
    """A batch under way, and what its levels have come to so far."""

    home: Home
    driver: Driver
    session: Callable[[], SparkSession]
    """Asked only where Spark is needed."""
    plan: Plan
    batch: int
    state: HeldState
    """Join state after all batches before it."""
    tag: str
    """Begins the names of what it writes."""
    on_spark: bool = False
    """Whether tasks of Spark have done some of it."""
    counts: Counter[str] = field(default_factory=Counter)
    refused: list[Unnamed] = field(default_factory=list)
    """Refusals at matching and joining."""
    stage1_s: float = 0.0
    """Seconds of walks but those in tasks, which join what they walk."""
    bindings: BindingCount = field(default_factory=BindingCount)
    taken: TakenEvents | None = None
    """Events of the batch; None: levels read them from files."""
    alone: Collection[int] = ()
    """Groups that nothing but windows is over: of their matches nothing is written here."""
    apart: list[SetApart] = field(default_factory=list)
    """Matches of these groups that were found here."""
    links: LinkWork = field(init=False)
    new: NewRows = field(init=False)
    _parts: Counter[int] = field(default_factory=Counter)
    """Origins that were given out, by level."""
    _tasks: int = 0
    """Tasks with results."""

    def __post_init__(self) -> None:
        self.links = LinkWork(self.home, self.plan.program)
        self.new = NewRows(self.home.root)

    def results(self, level: Level) -> Path:
        """Return the folder of a level's results."""
        return self.home.root / "results" / self.tag / level.name

    def result_files(self, level: Level) -> list[Path]:
        """Return the files of a level's results; there are none where nothing was found."""
        folder = self.results(level)
        return data_files(folder) if folder.exists() else []

    def process(self, level: Level) -> int:
        """Write the results of the documents of a level, and return the number of matches."""
        asked = Asked(self.plan.walked, self.plan.answered, self.plan.shapes)
        before, started = self.counts.copy(), time.perf_counter()
        if self.driver.settings.where == "spark" and 0 < documents_of(level, asked.channels) <= _SMALL:
            self._in_one_job(level, asked)
        else:
            fresh, left = self._walk(level, asked)
            self.stage1_s += time.perf_counter() - started
            step("batch.witnesses")
            if left is None and not self.driver.prefers_spark(self._join_seconds(fresh.rows)):
                self._join(level, fresh)
            else:
                self._in_tasks(level, asked, fresh.table(), left)
        step("batch.results")
        counts = self.counts - before
        if counts["refused"]:
            self.refused += refused_at_joining(self.results(level))
        return counts["match"]

    # -- in this process -----------------------------------------------------------------------------------------

    def _walk(self, level: Level, asked: Asked) -> tuple[Fresh, Left | None]:
        """Walk documents here, while tasks would not end sooner: their rows, and the documents that are left.

        The processor time of a part tells what the rest will take, once a part before it has made what is made only
        once.
        """
        row_seconds = documents_of(level, asked.answered) * _ROW_SECONDS
        if self.driver.settings.where == "spark" or self.driver.prefers_spark(row_seconds):
            return Fresh.of([], LoneRows()), Left(level, asked)
        kernels = kernels_of(self.plan, self.driver.finder)
        # What quotas count are rows.
        lone = LoneRows(frozenset() if self.bindings.is_on else kernels.finder.lone)
        rows = list(column_witnesses(kernels, asked, level, self.taken, lone))
        documents = documents_of(level, asked.walked)
        walked, warm, before = 0, False, work_time()
        for part in walked_parts(kernels, asked, level, self.taken):
            seconds = work_time() - before
            rows += part.rows
            walked += part.documents
            told("documents", walked, documents)
            waiting = seconds * (documents - walked) / part.documents
            if walked < documents and (warm or seconds > start_seconds()) and self.driver.prefers_spark(waiting):
                left = Left(replace(level, first=part.last + 1), replace(asked, answered=frozenset()))
                # Only if the first documents were walked, and no others.
                if count_documents(left.asked, left.level) == documents - walked:
                    return Fresh.of(rows, lone), left
            warm, before = True, work_time()
        return Fresh.of(rows, lone), None

    def _join_seconds(self, fresh: pa.Table) -> float:
        """Return the processor seconds that a join of new rows will take here, about."""
        runs = [*self.state.runs(), *self.new.earlier]
        docs = len(each_once(fresh.column("docid").to_numpy()))
        costs = self.driver.costs
        pairs = costs.pairs * docs * (docs + sum(len(run.docs) for run in runs))
        return float(fresh.num_rows * costs.row * (len(runs) + 1) + pairs * costs.pair)

    def _join(self, level: Level, new_rows: Fresh) -> None:
        """Join new rows with all before them, and with each other."""
        fresh = new_rows.rows
        finder = kernels_of(self.plan, self.driver.finder).finder
        out = ResultColumns(self._origin(level), self.results(level))
        new = finder.new_run(fresh, out)
        for each in new_rows.alike:
            finder.resolve_alike(each, out)
        state = [(run, self.state.floors) for run in self.state.runs()]
        others = [*state, *((run, None) for run in self.new.earlier)]
        met = len(new.docs) + sum(len(run.docs) for run, _ in others)
        with self.driver.measured(len(new.docs), met, new.size * (len(others) + 1)) as counted:
            finder.meet(new, others, out, own=True)
            counted.pairs = out.counts["pairs"]
        step("batch.joined")
        if out.counts["link"] and (links := self.links.add(f"{self.tag}-{level.name}", self.state, out)) is not None:
            self.new.add_links([links])
            step("batch.links")
        apart = out.set_apart(self.alone) if self.alone else None
        if apart is not None:
            self.apart.append(apart)
        out.write()
        self._count(out.counts + Counter(witness=new_rows.count), refusal_rows(fresh))
        if self.bindings.is_on:
            self.bindings.add(binding_rows(fresh, self.plan.program.guards))
        if new.size:
            self.new.add(f"witness/{self.tag}-{level.name}.run", new)

    # -- in tasks ------------------------------------------------------------------------------------------------

    def _in_one_job(self, level: Level, asked: Asked) -> None:
        """Walk the few documents of a level in every task, and join them with a part of what was there before."""
        work, place = self._work(level, asked), self._place()
        state, earlier = self._files()
        reached = [Unit("", (path,)) for path in state] + [Unit("", (path,), fresh=True) for path in earlier]
        count = max(1, min(place.slots, len(reached) // _RUNS))
        parts = [[Unit(""), *reached[::count]], *(reached[at::count] for at in range(1, count))]
        items = [Share(self._origin(level), tuple(units), level, is_first=not at) for at, units in enumerate(parts)]
        made = self._mapped(place, work, items)
        self._made(level, made)
        step("tasks.results")
        self._link(level, [each.links for each in made if each.links is not None])

    def _in_tasks(self, level: Level, asked: Asked, fresh: pa.Table, left: Left | None) -> None:
        """Join new rows in tasks, which walk the documents that are left before.

        Each of these tasks joins its rows with each other and with all runs that are there.  Its rows meet those of
        other tasks later, in further tasks if that costs more than a job.
        """
        work, place, root = self._work(level, asked), self._place(), self.home.root
        before = self.counts["pairs"]
        mine = self._runs_of(level, work, fresh, place.slots)
        state, written = self._files()
        earlier = [path for path in written if path not in mine]
        made: list[Made] = []
        new: list[str] = []
        if left is not None:
            there = [*(Unit("", (path,)) for path in state), *(Unit("", (path,), fresh=True) for path in written)]
            wanted = max(1 + documents_of(left.level, left.asked.channels) // _PART, len(there) // _RUNS)
            parts = cut(left.asked, left.level, min(place.slots, wanted), self.taken)
            items = [Share(self._origin(level), (Unit(""), *there), part) for part in parts]
            made = self._mapped(place, replace(work, asked=left.asked), items)
            new = self._made(level, made)
            step("tasks.witnesses")
        done, waiting = 0, []
        for unit in units_of(root, [*new, *mine], state, earlier, work.reach):
            if unit.new in mine or any(path in new for path in unit.others):
                waiting.append(unit)
            else:
                done += document_pairs(root, unit)
        self.driver.note_pairs(done, self.counts["pairs"] - before)
        made += self._meet_others(level, work, place, waiting)
        possible = done + sum(document_pairs(root, unit) for unit in waiting)
        self.driver.note_pairs(possible, self.counts["pairs"] - before)
        step("tasks.results")
        self._link(level, [each.links for each in made if each.links is not None])

    def _meet_others(self, level: Level, work: LevelWork, place: OnSpark, units: Sequence[Unit]) -> list[Made]:
        """Join runs with others in tasks; if a job would cost more than that, here."""
        root, costs = self.home.root, self.driver.costs
        if not units:
            return []
        if self.on_spark and units_cost(root, units, costs) < _JOB_SECONDS:
            kernels = kernels_of(self.plan, self.driver.finder)
            made = [meet_share(kernels, work, Share(self._origin(level), tuple(units)))]
        else:
            items = [Share(self._origin(level), each) for each in shares(root, units, costs, place.slots)]
            made = self._mapped(place, work, items)
        self._made(level, made)
        return made

    def _mapped(self, place: OnSpark, work: LevelWork, items: Sequence[Share]) -> list[Made]:
        self.on_spark = True
        return place.map(partial(work_on, work), items)

    def _runs_of(self, level: Level, work: LevelWork, fresh: pa.Table, count: int) -> list[str]:
        """Save rows of documents that were walked here as so many runs, at most."""
        if not fresh.num_rows:
            return []
        docids = fresh.column("docid").to_numpy()
        finder = kernels_of(self.plan, self.driver.finder).finder
        found = []
        for docs in np.array_split(np.unique(docids), count):
            out = ResultColumns(self._origin(level), work.folder())
            rows = fresh.filter(pa.array(np.isin(docids, docs)))
            found.append(finished(work, out, kept_rows(work, finder, rows, out)[1]))
        return self._made(level, found)

    def _made(self, level: Level, made: Sequence[Made]) -> list[str]:
        """Take what tasks have made, and return the files of new rows."""
        target = self.results(level)
        for each in made:
            if each.folder is not None:
                target.mkdir(parents=True, exist_ok=True)
                (self.home.root / each.folder).rename(target / f"task-{self._tasks}")
                self._tasks += 1
            self._count(each.counts, each.refused)
            if each.bindings is not None:
                self.bindings.add(each.bindings)
        runs = [each.run for each in made if each.run is not None]
        self.new.add_files(runs)
        return runs

    def _link(self, level: Level, found: Sequence[str]) -> None:
        """Put rows of links that tasks have found together with those of before."""
        shutil.rmtree(self.results(level) / ".tasks", ignore_errors=True)
        if found:
            out = ResultColumns(self._origin(level), self.results(level) / "joined")
            self.links.add_files(found, self.state, out)
            out.write()
            self._count(out.counts, ())
            self.new.add_links(found)
            step("batch.links")

    def _work(self, level: Level, asked: Asked) -> LevelWork:
        return LevelWork(
            root=self.home.root,
            tag=self.tag,
            results=str(self.results(level).relative_to(self.home.root)),
            files=QueryFiles.of(self.plan),
            asked=asked,
            level=level,
            floors=self.state.floors,
            reach=self.plan.reach,
            counts_bindings=self.bindings.is_on,
        )

    def _place(self) -> OnSpark:
        return OnSpark(self.session, slots_of(self.session()))

    def _files(self) -> tuple[list[str], list[str]]:
        """Return the runs of the state, and those of this work so far."""
        self.new.write_waiting()
        state = [file.path for file in self.state.files if file.kind == "witness" and file.held]
        return state, [path for kind, path in self.new.written if kind == "witness"]

    # -- both ----------------------------------------------------------------------------------------------------

    def _count(self, counts: Counter[str], refused: Sequence[Mapping[str, Any]]) -> None:
        self.counts += counts
        self.refused += refused_at_matching(refused, self.plan.asking)

    def _origin(self, level: Level) -> int:
        """Give out an origin for classes."""
        part = self._parts[level.number]
        self._parts[level.number] += 1
        return origin_of(self.batch, level.number, part)
