"""Report of a batch."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, fields

from xscl.base.notebook import facts_html
from xscl.batches.attempt import Attempt
from xscl.batches.deciding.absence import Absences
from xscl.batches.deciding.steps import Steps
from xscl.batches.refusals import Rejection
from xscl.batches.suspensions import Suspension

__all__ = ["BatchReport", "report_of"]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Figures of a batch; times in seconds."""

    batch: int
    first: int
    last: int
    events: int
    witnesses: int = 0
    pairs: int = 0
    """Candidate pairs: pairs of documents with a matched edge."""
    rout: int = 0
    """Rows of R_out, each with its set of groups."""
    matches: int = 0
    """Matches, each with its set of groups."""
    retracted: int = 0
    """Matches that were taken back, each with its set of queries."""
    published: int = 0
    """Documents that queries published."""
    links: int = 0
    """Rows of links: pairs of documents that queries of three and more blocks have linked."""
    jobs: int | None = 0
    """Spark jobs, as Spark counts them; None where it does not (Spark Connect), or Java has ended since."""
    joined_in: str = "driver"
    """``driver`` or ``spark``."""
    prepare_s: float = 0.0
    stage1_s: float = 0.0
    join_s: float = 0.0
    commit_s: float = 0.0
    state_rows: int = 0
    """Rows of join state held after it."""
    state_bytes: int = 0
    """Size of the files that hold them."""
    purged: int = 0
    """Rows of earlier batches that are no longer held."""
    filled: int = 0
    """Queries answered from held events."""
    replayed: int = 0
    """Late events that were taken again."""
    late_for: int = 0
    """Events that came too late for queries with a memory of their own, and in time for others."""
    result_path: str | None = None
    rejected: tuple[Rejection, ...] = ()
    """Documents that exceed a limit, and the queries that lack them; relation ``rejected`` has them too."""
    suspended: tuple[Suspension, ...] = ()
    """Queries that exceeded a quota, and see nothing that comes after the batch, and queries that failed in it."""
    unmerged: str | None = None
    """Reason why files of join state were not merged, which the next batch tries again; None: no merge failed."""

    def _repr_html_(self) -> str:
        return facts_html(f"batch {self.batch}", {f.name: getattr(self, f.name) for f in fields(self)})


def report_of(
    batch: Attempt,
    rejected: tuple[Rejection, ...],
    suspended: tuple[Suspension, ...],
    absences: Absences,
    steps: Steps,
    told: Counter[str],
) -> BatchReport:
    """Make the report; ``commit_s`` goes up to now, which is nearly the whole.

    ``told`` counts the rows of the results of windows and steps.
    """
    span, works = batch.span, batch.works
    counts = sum((work.counts for work in works), Counter[str]()) + absences.counts + told
    stage1_s = sum(work.stage1_s for work in works)
    return BatchReport(
        batch=span.batch,
        first=span.first,
        last=span.last,
        events=span.events,
        witnesses=counts["witness"],
        pairs=counts["pairs"],
        rout=counts["rout"],
        matches=counts["match"],
        retracted=absences.retracted + steps.retracted,
        published=0 if batch.publisher is None else batch.publisher.count,
        links=counts["link"],
        jobs=batch.jobs.count(),
        joined_in="spark" if absences.on_spark or any(work.on_spark for work in works) else "driver",
        prepare_s=batch.planned - span.started,
        stage1_s=stage1_s,
        join_s=batch.joined - batch.planned - stage1_s,
        commit_s=time.perf_counter() - batch.joined,
        state_rows=batch.state.rows,
        state_bytes=batch.state.size,
        purged=sum(change.purged for change in batch.changes),
        filled=len(span.waiting),
        replayed=len(span.replayed),
        late_for=absences.too_late,
        result_path=batch.results if (batch.home.root / batch.results).exists() else None,
        rejected=rejected,
        suspended=suspended,
        unmerged=None if batch.merges is None else batch.merges.failure,
    )
