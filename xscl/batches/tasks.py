"""Tasks of a level, which write files under fresh names, and return the names and some figures.

A task walks a part of a level's documents, saves their rows as a run, and joins them with each other and with all runs
from before.  Runs of different tasks then meet each other.  Two runs that meet are a unit of work, and units are shared
out by what they cost.  A task looks at all its units of the same new rows at once.  Whatever a task that failed, or ran
twice, has written is in a folder that nobody names.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from xscl.base.local_copies import near_file
from xscl.batches.kernels import Kernels, QueryFiles, loaded_kernels
from xscl.batches.walking import Asked, Level, witnesses
from xscl.batches.witness_facts import binding_rows, refusal_rows
from xscl.store.state_files import write_run
from xscl.templates.joins.find import Finder
from xscl.templates.many_blocks.runs import LinkRun
from xscl.templates.results import ResultColumns
from xscl.templates.retention import Floors
from xscl.templates.runs.files import open_run, run_facts
from xscl.templates.runs.run import Run

__all__ = [
    "LevelWork",
    "Made",
    "Share",
    "Unit",
    "UnitCosts",
    "document_pairs",
    "finished",
    "kept_rows",
    "meet_share",
    "shares",
    "units_cost",
    "units_of",
    "work_on",
]


@dataclass(frozen=True, slots=True)
class LevelWork:
    """Work of a level, the same for all its tasks."""

    root: Path
    """The home."""
    tag: str
    """Begins the names of what the batch writes."""
    results: str
    """The folder of the level's results, in the home."""
    files: QueryFiles
    asked: Asked
    level: Level
    floors: Floors | None
    """Floors of the state's rows; None: all are in sight."""
    reach: int
    """Runs whose times are farther apart do not meet, microseconds."""
    counts_bindings: bool

    def folder(self) -> Path:
        """Make up a folder for a task's results, which counts when it has been given its name."""
        return self.root / self.results / ".tasks" / uuid.uuid4().hex

    def new_file(self, kind: str) -> Path:
        """Make up a name for a file of join state."""
        return self.root / "witness" / f"{self.tag}-{self.level.name}-{uuid.uuid4().hex[:8]}-{kind}.run"


@dataclass(frozen=True, slots=True)
class Made:
    """Products of a task."""

    folder: str | None
    """Folder of its results; None: there are none."""
    counts: Counter[str]
    run: str | None = None
    """The file of its new rows, in the home."""
    links: str | None = None
    """The file of rows of links that it has found."""
    refused: Sequence[Mapping[str, object]] = ()
    """Witness rows that say what was refused."""
    bindings: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """New rows and the runs that they meet, by their files; without other files the rows meet each other."""

    new: str
    others: tuple[str, ...] = ()
    """Files of the state, or of new rows."""
    fresh: bool = False
    """Whether the others are new rows, which are all in sight."""


@dataclass(frozen=True, slots=True)
class Share:
    """Share of a level's work for one task."""

    origin: int
    """Origin of its classes."""
    units: tuple[Unit, ...] = ()
    level: Level | None = None
    """Documents that are to be walked first; their rows meet the runs of the units without a new file."""
    is_first: bool = True
    """Whether the walk is the task's alone, and its rows are kept."""


# -- tasks ---------------------------------------------------------------------------------------------------------


def work_on(work: LevelWork, share: Share) -> Made:
    """Do a share of the work in a task."""
    return meet_share(loaded_kernels(work.files), work, share)


def meet_share(kernels: Kernels, work: LevelWork, share: Share) -> Made:
    """Walk the documents of a share, if it has any, and find and resolve the pairs of its units."""
    out = ResultColumns(share.origin, work.folder())
    made = Made(None, Counter())
    new: Run | None = None
    if share.level is not None:
        rows = witnesses(kernels, work.asked, share.level)
        if share.is_first:
            new, made = kept_rows(work, kernels.finder, rows, out)
        else:
            new = kernels.finder.new_run(rows, ResultColumns(share.origin))
    opened: list[Run] = []
    for path, units in _by_new_rows(share.units).items():
        mine = new if share.level is not None else _open(work, path)
        assert mine is not None
        named = [(each, None if unit.fresh else work.floors) for unit in units for each in unit.others]
        if share.level is not None:
            # When the work was shared out, nobody knew the times of these rows.
            named = [(each, floors) for each, floors in named if _near(work, mine, each)]
        others = [(_open(work, each), floors) for each, floors in named]
        kernels.finder.meet(mine, others, out, own=any(not unit.others for unit in units))
        opened += [mine, *(run for run, _ in others)]
    kernels.finder.forget(opened)
    return finished(work, out, made)


def kept_rows(work: LevelWork, finder: Finder, rows: pa.Table, out: ResultColumns) -> tuple[Run, Made]:
    """Make a run of new rows, and save it if it has any; the results of queries of one block are added."""
    new = finder.new_run(rows, out)
    path = None
    if new.size:
        path = str(write_run(work.new_file("rows"), new).relative_to(work.root))
    bindings = binding_rows(rows, finder.program.guards) if work.counts_bindings else None
    refused = refusal_rows(rows)
    return new, Made(None, Counter(witness=rows.num_rows), path, refused=refused, bindings=bindings)


def finished(work: LevelWork, out: ResultColumns, made: Made) -> Made:
    """Write the results of a task, and return all that it has made."""
    links = None
    if out.counts["link"]:
        found = write_run(work.new_file("links"), LinkRun.of(out.take_links()))
        links = str(found.relative_to(work.root))
    folder = out.write()
    name = None if folder is None else str(folder.relative_to(work.root))
    return replace(made, folder=name, counts=made.counts + out.counts, links=links)


def _by_new_rows(units: Sequence[Unit]) -> dict[str, list[Unit]]:
    """Bring units of the same new rows together: what is told once for new rows is told once a task."""
    found: dict[str, list[Unit]] = {}
    for unit in units:
        found.setdefault(unit.new, []).append(unit)
    return found


def _near(work: LevelWork, run: Run, path: str) -> bool:
    times = (int(run.ts.min()), int(run.ts.max())) if run.size else None
    return may_meet(times, run_facts(str(work.root / path)).times, work.reach)


def _open(work: LevelWork, path: str) -> Run:
    return open_run(str(near_file(work.root / path)))


# -- sharing out ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Processor seconds that parts of units cost."""

    unit: float = 2e-3
    row: float = 1e-7
    """A new row that is looked up in a run."""
    pair: float = 2e-7
    """A pair of documents that is found."""
    pairs: float = 0.0
    """Pairs among a new document and another one, as the last batch had them."""


def units_of(
    root: Path, new: Sequence[str], state: Sequence[str], earlier: Sequence[str], reach: int
) -> Iterator[Unit]:
    """Yield the units of new runs with each other, with runs of the state, and with earlier runs of the batch.

    Runs whose times are farther apart than ``reach`` do not meet.
    """
    times = {path: run_facts(str(root / path)).times for path in (*new, *state, *earlier)}

    def near(one: str, other: str) -> bool:
        return may_meet(times[one], times[other], reach)

    for number, run in enumerate(new):
        yield Unit(run)
        fresh = (*new[number + 1 :], *earlier)
        yield from (Unit(run, (other,), fresh=True) for other in fresh if near(run, other))
        yield from (Unit(run, (other,)) for other in state if near(run, other))


def may_meet(one: tuple[int, int] | None, other: tuple[int, int] | None, reach: int) -> bool:
    """Tell whether rows of two spans of time may be within ``reach`` of each other; None is the span of no rows."""
    return one is not None and other is not None and max(other[0] - one[1], one[0] - other[1]) <= reach


def shares(root: Path, units: Sequence[Unit], costs: UnitCosts, count: int) -> list[tuple[Unit, ...]]:
    """Share units out in their order, to at most so many tasks that cost about the same.

    Units of the same new rows stand together in that order.
    """
    if not units:
        return []
    ends = np.cumsum([_cost(root, unit, costs) for unit in units])
    middles = ends - np.diff(ends, prepend=0.0) / 2
    whole = float(ends[-1]) or 1.0
    found: dict[int, list[Unit]] = {}
    for unit, middle in zip(units, middles.tolist(), strict=True):
        found.setdefault(int(middle * count / whole), []).append(unit)
    return [tuple(each) for each in found.values()]


def units_cost(root: Path, units: Sequence[Unit], costs: UnitCosts) -> float:
    """Return the processor seconds of some units, about."""
    return sum(_cost(root, unit, costs) for unit in units)


def _cost(root: Path, unit: Unit, costs: UnitCosts) -> float:
    rows = open_run(str(root / unit.new)).size
    return costs.unit + costs.row * rows + costs.pair * costs.pairs * document_pairs(root, unit)


def document_pairs(root: Path, unit: Unit) -> int:
    """Return the number of pairs of documents that a unit could find."""
    new = open_run(str(root / unit.new))
    others = [open_run(str(root / path)) for path in unit.others] or [new]
    return len(new.docs) * sum(len(run.docs) for run in others)
