"""Queries that make a batch fail as nobody foresaw: they are suspended before it, so that all others are answered.

Such a failure is a fault of xscl that one query meets.  Without the suspension no batch of the home would end any more.
Where queries are evaluated one by one, ``evaluating`` says whose turn it is.  A failure of what queries share names no
query, and the batch fails as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
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

__all__ = ["Failing", "FailingQueriesError", "evaluating", "suspend_failing"]

_CONDITION = "XSCL_QUERY_FAILED"

_UNFORESEEN = ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError
_FORESEEN = XsclError, pa.ArrowException
"""Failures by a document, a file or a function, which blame no query."""


_LIVE = sa.select(QUERIES.c.query, QUERIES.c.qid, QUERIES.c.owner).where(QUERIES.c.docid_until == NEVER)


class FailingQueriesError(EngineError):
    """Failure of the evaluation of some groups of queries, or of one among them; the cause says what happened."""

    def __init__(self, groups: Collection[int], error: BaseException, causes: Mapping[int, BaseException]) -> None:
        super().__init__("XSCL_INTERNAL", f"the evaluation of a query failed: {error!r}")
        self.groups = frozenset(groups)
        self.causes = causes
        """Failures by group, of those that are known to fail; empty: one among the groups fails."""


class Failing:
    """Groups of queries that fail in one attempt of a batch: it goes on with the others, and ends then."""

    def __init__(self) -> None:
        self.count = 0
        """Number of failures that were noted."""
        self._causes: dict[int, BaseException] = {}

    def note(self, error: FailingQueriesError) -> None:
        """Note groups that are known to fail; a failure of one among several is raised again.

        Raises:
            FailingQueriesError: nobody knows which group fails.
        """
        if not error.causes:
            raise error
        self.count += 1
        self._causes = {**error.causes, **self._causes}

    def end(self) -> None:
        """End the attempt if groups fail.

        Raises:
            FailingQueriesError: they do.
        """
        if self._causes:
            first = next(iter(self._causes.values()))
            raise FailingQueriesError(self._causes.keys(), first, self._causes) from first


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
        causes = dict.fromkeys(groups, error) if len(groups) == 1 else {}
        raise FailingQueriesError(groups, error, causes) from error


def suspend_failing(home: Home, failed: FailingQueriesError, first: int) -> list[Suspension]:
    """Suspend the live queries of groups whose evaluation failed, from the first place of the batch on.

    They are suspended as if a quota had ended them behind the batch before.

    Args:
        home: the home, whose lock the caller holds.
        failed: the failure.
        first: first place of the batch.

    Returns:
        The suspensions; none if nobody is left to be suspended, so that the batch would fail again.
    """
    if not failed.causes:
        return []
    # What failed may be a stranger's text.
    reasons = {
        gid: bounded_message(dotted(f"its evaluation failed: {_told(cause)}")) for gid, cause in failed.causes.items()
    }
    with home.catalog.begin() as connection:
        if read_processed(connection, lock=True) != first - 1:
            return []
        rows = [
            (row, reason)
            for gid, reason in reasons.items()
            for row in connection.execute(_LIVE.where(QUERIES.c.gid == gid)).all()
        ]
        return suspend(connection, [Culprit(*row, reason) for row, reason in rows], first, _CONDITION)


def _told(cause: BaseException) -> str:
    """Return a failure with the place in the program where it happened: whoever mends it sees no trace."""
    frames = extract_tb(cause.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(cause).__name__}: {cause}{place}"
