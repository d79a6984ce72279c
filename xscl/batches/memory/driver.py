"""Memory of this process from batch to batch: solved signatures, the price of work, and who asks for windows, steps
and absence.

Nothing of it decides an answer: the join state is what its files say (``xscl.store.join_state``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import thread_time

from xscl.base.settings import Settings
from xscl.batches.memory.absence import AbsenceMemory
from xscl.batches.memory.steps import StepMemory
from xscl.batches.memory.windows import WindowMemory
from xscl.batches.tasks import UnitCosts
from xscl.spark.start_cost import cores, start_seconds
from xscl.store.join_state import HeldState
from xscl.templates.joins.find import Finder
from xscl.templates.rules import named_rules

__all__ = ["Driver", "sooner_on_spark"]

_OVERHEAD = 1.2
"""Processor time of tasks for what takes one here."""
_SURE = 100_000
"""Pairs from which on their number says what they cost."""


def sooner_on_spark(seconds: float, start: float, processors: int) -> bool:
    """Return whether tasks on so many processors end work sooner than this process, after a start.

    >>> sooner_on_spark(9, 5, 2), sooner_on_spark(13, 5, 2), sooner_on_spark(99, 5, 1)
    (False, True, False)
    """
    return seconds > start + _OVERHEAD * seconds / processors


@dataclass
class Driver:
    """Memory of one process that works on a home."""

    settings: Settings
    finder: Finder = field(default_factory=Finder)
    costs: UnitCosts = field(default_factory=UnitCosts)
    windows: WindowMemory = field(init=False)
    absences: AbsenceMemory = field(default_factory=AbsenceMemory)
    steps: StepMemory = field(default_factory=StepMemory)

    def __post_init__(self) -> None:
        """Remember no windows yet."""
        self.windows = _no_windows(self.settings)

    def prefers_spark(self, seconds: float) -> bool:
        """Tell whether work that takes so many processor seconds here is better done on Spark."""
        if self.settings.where != "auto":
            return self.settings.where == "spark"
        return sooner_on_spark(seconds, start_seconds(), cores())

    def forget(self) -> None:
        """Forget what a batch that failed may have left."""
        self.finder = Finder()
        self.windows = _no_windows(self.settings)
        self.absences = AbsenceMemory()
        self.steps = StepMemory()

    def committed(self, state: HeldState) -> None:
        """Forget runs that are not part of the state any more."""
        self.finder.forget(state.runs())

    @contextmanager
    def measured(self, new: int, met: int, rows: int) -> Iterator[Counted]:
        """Measure a join here of new documents with others, to know what the next one will cost.

        Args:
            new: new documents.
            met: documents that they meet.
            rows: look-ups of new rows in runs.
        """
        counted, started = Counted(), thread_time()
        yield counted
        seconds = thread_time() - started
        self.note_pairs(new * met, counted.pairs)
        if counted.pairs >= _SURE:
            price = max(seconds - self.costs.row * rows, 0.0) / counted.pairs
            self.costs = replace(self.costs, pair=price)

    def note_pairs(self, possible: int, found: int) -> None:
        """Remember how many pairs of documents were found among so many."""
        if possible:
            self.costs = replace(self.costs, pairs=found / possible)


@dataclass
class Counted:
    """Pairs that a join has looked at."""

    pairs: int = 0


def _no_windows(settings: Settings) -> WindowMemory:
    """Return a memory without windows, whose parts share rows as far as rules of sharing say."""
    return WindowMemory({"s_σ", "c_α"} <= {rule.name for rule in named_rules(settings.rules)})
