"""Queries that make a batch fail as nobody foresaw: they are suspended before it, so that all others are answered.

Such a failure is a fault of xscl that one query meets.  Without the suspension no batch of the home would end any more.
Where queries are evaluated one by one, ``evaluating`` says whose turn it is.  A failure of what queries share names no
query, and the batch fails as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

import pyarrow as pa
import sqlalchemy as sa

from xscl.base.errors import EngineError, XsclError
from xscl.base.shown import bounded_message, dotted
from xscl.batches.suspensions import Culprit, Suspension, suspend
from xscl.catalog.intake_order import read_processed
from xscl.catalog.tables import NEVER, QUERIES
from xscl.store.home import Home

__all__ = ["FailingQueriesError", "evaluating", "suspend_failing"]

_CONDITION = "XSCL_QUERY_FAILED"

_UNFORESEEN = ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError
_FORESEEN = XsclError, pa.ArrowException
"""Failures by a document, a file or a function, which blame no query."""


class FailingQueriesError(EngineError):
    """Failure of the evaluation of a group of queries, or of one among some groups; the cause says what happened."""

    def __init__(self, groups: Collection[int], error: Exception) -> None:
        super().__init__("XSCL_INTERNAL", f"the evaluation of a query failed: {error!r}")
        self.groups = frozenset(groups)


@contextmanager
def evaluating(groups: Collection[int]) -> Iterator[None]:
    """Name the groups whose queries are evaluated, should that fail as nobody foresaw.

    Raises:
        FailingQueriesError: it failed.
    """
    try:
        yield
    except _UNFORESEEN as error:
        if isinstance(error, _FORESEEN):
            raise
        raise FailingQueriesError(groups, error) from error


def suspend_failing(home: Home, failed: FailingQueriesError, first: int) -> list[Suspension]:
    """Suspend the live queries of a group whose evaluation failed, from the first place of the batch on.

    They are suspended as if a quota had ended them behind the batch before.

    Args:
        home: the home, whose lock the caller holds.
        failed: the failure, which names one group.
        first: first place of the batch.

    Returns:
        The suspensions; none if nobody is left to be suspended, so that the batch would fail again.
    """
    if len(failed.groups) != 1:
        return []
    (gid,) = failed.groups
    # What failed may be a stranger's text.
    reason = bounded_message(dotted(f"its evaluation failed: {_told(failed.__cause__)}"))
    with home.catalog.begin() as connection:
        if read_processed(connection, lock=True) != first - 1:
            return []
        live = QUERIES.c.gid == gid, QUERIES.c.docid_until == NEVER
        rows = connection.execute(sa.select(QUERIES.c.query, QUERIES.c.qid, QUERIES.c.owner).where(*live)).all()
        return suspend(connection, [Culprit(*row, reason) for row in rows], first, _CONDITION)


def _told(cause: BaseException | None) -> str:
    """Return a failure with the place in the program where it happened: whoever mends it sees no trace."""
    frames = extract_tb(None if cause is None else cause.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(cause).__name__}: {cause}{place}"
