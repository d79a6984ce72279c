"""Merges of join state: small files become large ones, in a thread beside the batch that goes on from them.

A merge reads files that the last commit has named, and these never change.  The batch needs nothing of it before all
its joins are done.  Then its change of state has the merged files in place of the others (``join_state.next_state``),
and both are named by one transaction.  A merge that fails is told, costs no row, and is tried again beside the next
batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np

from xscl.base.failpoints import step
from xscl.base.system_errors import file_fault
from xscl.store.compaction import longest_run, tier_of
from xscl.store.home import Home
from xscl.store.inventory import remove
from xscl.store.join_state import HeldState, Merged
from xscl.store.kept_rows import KeptRows
from xscl.store.state_files import StateFile, facts_of_file, times_of, write_run
from xscl.templates.bounds import UNBOUNDED
from xscl.templates.retention import Floors

__all__ = ["StateMerges"]

_FILES = 6
"""Files of one tier that are merged: the batch beside which they are adds others before their file is there."""
_FANOUT = 8
"""A tier's files have at most that many times the rows of the one before."""
_SMALL = 10_000
"""Rows of the greatest file of the lowest tier."""
_LARGE = 2_000_000
"""Rows from which on files are not merged."""
_PARTS_OF_REACH = 4
"""Files are not merged to span more than this part of the time that rows are kept, so that whole files go."""


@dataclass(slots=True)
class _Done:
    """Merges that are done, and the reason why they ended early."""

    merged: list[Merged]
    failure: str | None = None


class StateMerges:
    """Merges of the files of a state, which begin at once.

    Args:
        home: the home, whose lock the caller holds.
        state: the state as it is named.
        batch: the number of the batch beside which they are done.
    """

    def __init__(self, home: Home, state: HeldState, batch: int) -> None:
        self._home = home
        self._batch = batch
        self._done: Future[_Done] | None = None
        rule = state.floors
        plan = [] if rule is None else list(_merges(state.files, rule))
        if rule is not None and plan:
            pool = ThreadPoolExecutor(1, "xscl-merges")
            self._done = pool.submit(self._merge, plan, KeptRows(home.root, None, rule))
            pool.shutdown(wait=False)

    def merged(self) -> Sequence[Merged]:
        """Wait for the merges, and return those that went well."""
        if self._done is None:
            return ()
        found = self._done.result().merged
        step("state.taken")
        return found

    @property
    def failure(self) -> str | None:
        """Reason why the merges ended early, in words; None: they did not."""
        return None if self._done is None else self._done.result().failure

    def wait(self) -> None:
        """Wait for the merges, however they end."""
        if self._done is not None:
            wait([self._done])

    def discard(self) -> None:
        """Remove the files of the merges, which are waited for."""
        self.wait()
        if self._done is not None and self._done.exception() is None:
            for each in self._done.result().merged:
                remove(self._home.root / each.file.path)

    def _merge(self, plan: Sequence[Sequence[StateFile]], kept: KeptRows) -> _Done:
        done = _Done([])
        try:
            for inputs in plan:
                done.merged.append(self._write(inputs, kept))
        except Exception as error:
            done.failure = str(file_fault(error, self._home.root) or error or repr(error)).partition("\n")[0]
        return done

    def _write(self, inputs: Sequence[StateFile], kept: KeptRows) -> Merged:
        """Write the kept rows of some files into one."""
        step("state.merge")
        kind, root = inputs[0].rows_kind, self._home.root
        target = self._home.folder("witness") / f"{self._batch:08d}-{uuid.uuid4().hex[:8]}-{kind}.run"
        path = write_run(target, kept.merged(sorted(inputs, key=times_of)))
        try:
            step("state.merged")
            facts = facts_of_file(root, str(path.relative_to(root)), kind, self._batch)
        except Exception:
            remove(path)
            raise
        return Merged(frozenset(file.path for file in inputs), replace(facts, held=facts.rows))


def _merges(files: Sequence[StateFile], rule: Floors) -> Iterator[list[StateFile]]:
    """Plan merges: neighbours in time of one tier become one file, and a file loses most of its rows if few are held.

    Merged files span a part of the time that rows are kept, at most.
    """
    tiers: dict[tuple[str, int], list[StateFile]] = {}
    for file in files:
        if file.held * 2 < file.rows and file.rows > _SMALL:
            yield [file]
        elif file.held < _LARGE:
            tiers.setdefault((file.kind, tier_of(file.held, _SMALL, _FANOUT)), []).append(file)
    span = _span(rule, max((times_of(file)[1] for file in files), default=0))
    for found in tiers.values():
        if len(found) >= _FILES:
            run = longest_run(sorted(found, key=times_of), times_of, span)
            if len(run) > 1:
                yield run


def _span(rule: Floors, newest: int) -> int | None:
    """Return how far a merged file's times may be apart, a part of how long rows are kept; None: no limit."""
    ends = np.concatenate([rule.least, rule.left, rule.right])
    if not len(ends) or (least := int(ends.min())) < -UNBOUNDED // 2:
        return None
    return max(0, newest - least) // _PARTS_OF_REACH
