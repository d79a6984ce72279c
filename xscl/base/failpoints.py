"""Failpoints: named steps between writes, so that tests can end a process at any of them.

``step(name)`` does nothing, unless a hook was put in (``hooked``) or the environment variable ``XSCL_CRASH_AT`` names
the step when the process starts: ``XSCL_CRASH_AT=batch.commit`` ends the process with SIGKILL when it comes there for
the first time, ``batch.commit:3`` the third time.  A hook may raise what a full disk or a broken server would.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

__all__ = ["STEPS", "VARIABLE", "Hook", "crash_at", "hooked", "step"]

VARIABLE = "XSCL_CRASH_AT"

STEPS: Mapping[str, str] = {
    "catalog.begin": "a transaction that writes holds its lock and has changed nothing",
    "catalog.commit": "all rows of a transaction are written, nothing is committed",
    "catalog.committed": "a transaction is committed, whoever asked for it does not know yet",
    "home.folders": "the folders of a home are there, its catalogue is not",
    "export.catalog": "the catalogue is copied, no file is packed",
    "import.file": "a file of an archive is unpacked beside the home",
    "import.unpacked": "all of an archive is unpacked beside the home",
    "import.checked": "what was unpacked is sound, and of this version",
    "import.rename": "what was unpacked is going to be the home",
    "import.renamed": "what was unpacked is the home; a catalogue elsewhere is not committed",
    "deliver.sent": "matches are at their target, the catalogue does not know yet",
    "repair.commit": "a home is repaired, nothing is committed",
    "repair.committed": "a repair is committed, files are not put in order",
    "run.begin": "the lock of the home is held, nothing is tidied up",
    "run.tidied": "what no row names is removed",
    "intake.chunk": "a chunk was read and checked, its transaction has not begun",
    "intake.write": "events have places, their file is not written",
    "intake.wrote": "a file of events is written, no row names it",
    "intake.commit": "the rows of a chunk are written, nothing is committed",
    "intake.committed": "a chunk is committed and not counted",
    "intake.rows": "a part of a table of rows is committed, the next is not begun",
    "follow.taken": "some records of inputs that grow are committed, with how far they go",
    "poll.fetched": "answers of feeds have come, nothing of them is kept",
    "poll.taken": "items of feeds are committed, what was learned of hosts is not",
    "poll.stored": "what was learned of feeds and hosts is committed",
    "register.commit": "queries are registered, nothing is committed",
    "register.committed": "queries are committed, the process does not remember their numbers",
    "run.ranged": "the next batch's range is known",
    "batch.planned": "a batch is planned, its documents are not matched",
    "batch.witnesses": "a level's witness rows are there: in memory, or in files if tasks made them",
    "batch.waiting": "witness rows that waited in memory are in files",
    "batch.joined": "a level is joined, its results are not written",
    "batch.results": "a level's results are written",
    "batch.links": "a level's rows of links are written",
    "fill.planned": "queries are going to be answered from what is held, their plan is made",
    "fill.part": "a part of the held events is walked and joined, rows that the join state lacks are not written",
    "fill.rows": "the rows of a part that the join state lacks are written",
    "fill.walked": "all held events are walked, the join state with their rows is not made",
    "replay.planned": "late events are going to be taken again, the plan for those who ask is made",
    "replay.part": "a part of their partners is walked and joined, and what that came to removed",
    "replay.walked": "the late events are walked and joined, their rows are not written",
    "replay.rows": "the rows of late events are written, the join state with them is not made",
    "batch.absence": "what is decided of absences is going to be found",
    "batch.decided": "results of absences are written",
    "batch.pending": "a file of what waits for its decision is written",
    "batch.answered": "a file of answers about absence that nothing makes final is written",
    "batch.told": "documents and matches of windows are written",
    "batch.windows": "a file of what windows are over is written",
    "batch.stepped": "results of steps are written",
    "batch.steps": "a file of what steps go on from is written",
    "batch.publish": "a level's documents are made, their file is not written",
    "batch.published": "a file of published documents is written",
    "state.complete": "rows of documents that the state has already are going to join the others",
    "state.write": "a file of join state is going to be written",
    "state.wrote": "a file of join state is written",
    "state.merge": "files of join state are going to be merged beside a batch",
    "state.merged": "files of join state are merged into one that no row names",
    "state.taken": "merges beside a batch are done, the join state with their files is not made",
    "state.again": "a file of join state is going to be written anew, because floors have fallen",
    "state.reach": "how long rows are kept is written",
    "batch.before": "all files of a batch are written, its transaction has not begun",
    "batch.begin": "the transaction of a batch holds its lock",
    "batch.state": "the transaction of a batch has named its join state",
    "batch.commit": "the rows of a batch are written, nothing is committed",
    "batch.committed": "a batch is committed, memory of the join state is that of the batch before",
    "batch.done": "a batch is done and not reported",
    "workers.write": "what workers load is going to be written",
    "tasks.witnesses": "tasks have written runs of new rows",
    "tasks.results": "tasks have written what pairs come to",
    "upkeep.begin": "a batch is going to begin, nothing is looked after beside it",
    "upkeep.events": "events that are kept are written into a new file, which no row names",
    "upkeep.ids": "some ids of events that are no longer kept are removed, their file is still named",
    "upkeep.swapped": "the file is named in place of those it replaces",
    "upkeep.results": "results are written into a new folder, which no row names",
    "upkeep.folders": "batches name the folder in place of those it replaces",
    "upkeep.trimmed": "rows of listings that are of no use any more are removed",
    "upkeep.swept": "dropped queries without matches are removed",
    "files.orphan": "a file that no row names is going to be removed",
    "files.unlink": "files that went out of use long ago are going to be unlinked",
}
"""Meaning of each step."""

Hook = Callable[[str], None]


def crash_at(where: str, end: Callable[[], None] | None = None) -> Hook:
    """Make a hook that ends the process with SIGKILL, or does something else, at ``name`` or ``name:times``.

    Raises:
        ValueError: there is no such step.
    """
    name, _, times = where.partition(":")
    if name not in STEPS:
        raise ValueError(f"{VARIABLE}: there is no step {name!r}; there are: {', '.join(STEPS)}")
    left = int(times or 1)

    def hook(at: str) -> None:
        nonlocal left
        if at == name:
            left -= 1
            if left == 0:
                _kill() if end is None else end()

    return hook


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_hook: Hook | None = crash_at(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def step(name: str) -> None:
    """Say that a step was reached, one of ``STEPS``."""
    if _hook is not None:
        _hook(name)


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Have a hook called at each step, in all threads."""
    global _hook
    before, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = before
