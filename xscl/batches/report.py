"""Report of a batch."""

from __future__ import annotations

from dataclasses import dataclass, fields

from xscl.base.notebook import facts_html
from xscl.batches.refusals import Rejection

__all__ = ["BatchReport"]


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
    published: int = 0
    """Documents that queries published."""
    links: int = 0
    """Rows of links: pairs of documents that queries of three and more blocks have linked."""
    jobs: int | None = 0
    """Spark jobs, as Spark counts them; None where it does not (Spark Connect)."""
    joined_in: str = "driver"
    """``driver`` or ``executors``."""
    slices_asked: int = 0
    """Values whose slices were asked of the driver's cache."""
    slices_found: int = 0
    """Values for which the cache needed nothing from the files."""
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
    result_path: str | None = None
    rejected: tuple[Rejection, ...] = ()
    """Documents that exceed a limit, and the queries that lack them; relation ``rejected`` has them too."""

    def _repr_html_(self) -> str:
        return facts_html(f"batch {self.batch}", {f.name: getattr(self, f.name) for f in fields(self)})
