"""Events over which steps refuse answers: runs that are cut off, and values that functions lack.

A query is told of what it sees alone: of events behind its registration, and of no limit that is met behind its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xscl.batches.attempt import Attempt
from xscl.batches.deciding.step_answers import Decided
from xscl.batches.deciding.step_corrections import first_docs
from xscl.batches.function_failures import failed, failed_value
from xscl.batches.refusals import Rejection
from xscl.batches.steps.rows import Rows
from xscl.catalog.tables import NEVER
from xscl.catalog.windows import Reader
from xscl.language.terms import Term
from xscl.store.event_files import events_of
from xscl.store.results import NO_DOC
from xscl.templates.columns import Int64s
from xscl.templates.sequences.fold_rounds import MOST_INSTANCES, MOST_ROUNDS

__all__ = ["StepRefusals"]

_CUT_OFF = (
    f"a run from this event ends early: it has {MOST_ROUNDS:,} iterations or matches at once, or the FOLD made "
    f"{MOST_INSTANCES:,} in this batch; give FOLD a window, or a stricter WHILE"
)


@dataclass(frozen=True, slots=True)
class StepRefusals:
    """Tells the queries that share a step of the events over which they are refused answers."""

    batch: Attempt
    queries: Mapping[int, Sequence[Reader]]
    """Queries by their groups."""
    decided: Decided
    """Outcome of the step for some of its members, and whose ends this is about."""

    def tell_runs(self, lefts: Rows) -> None:
        """Tell of lefts whose runs were cut off (``Tree.too_long``)."""
        publisher = self.batch.publisher
        if not len(lefts) or publisher is None:
            return
        docs, which = np.unique(first_docs(lefts.docs), return_inverse=True)
        places = np.full(len(docs), NEVER)
        np.minimum.at(places, which.reshape(-1), lefts.place)
        events = self._events(docs)
        for query in self._told():
            publisher.rejected += [
                Rejection(query.name, row["channel"], row["id"], row["ts"], "XSCL_RUN_LIMIT", _CUT_OFF, "steps")
                for doc in docs[places < query.until].tolist()
                for row in events.get(doc, ())
            ]

    def tell_values(self, term: Term, new: Rows) -> None:
        """Tell of new matches of a part on whose values the functions of a term fail."""
        publisher = self.batch.publisher
        texts = new.texts[:, self.decided.layout.variable(term.part, term.place)]
        reasons = dict(failed(term.functions, texts.tolist()))
        if publisher is None or not reasons:
            return
        docs = {at: max(doc for doc in new.docs[at].tolist() if doc != NO_DOC) for at in reasons}
        events = self._events(np.array(sorted(set(docs.values())), dtype=np.int64))
        for query in self._told():
            publisher.rejected += [
                failed_value(query.name, row["channel"], row["id"], row["ts"], reasons[at], "steps")
                for at, doc in docs.items()
                if query.since < new.first[at] and new.place[at] < query.until
                for row in events.get(doc, ())
            ]

    def _told(self) -> Iterator[Reader]:
        """Yield the queries that are told."""
        least, most = self.decided.ends
        for gid, since in self.decided.members.members:
            for query in self.queries[gid]:
                if query.since == since and least <= query.until <= most:
                    yield query

    def _events(self, docs: Int64s) -> dict[int, list[dict[str, Any]]]:
        """Return documents with their channels, ids and times."""
        events = events_of(self.batch.home, docs, ["docid", "channel", "id", "ts"], self.batch.made)
        return {row["docid"]: [row] for row in events.to_pylist()}
