"""Answers about absence among matches that were found once in held events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from xscl.base.docids import place_of
from xscl.base.types import LAST_TIME
from xscl.language.absence import LATEST
from xscl.language.compiled import CompiledAbsence
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.results import StoredMatch

__all__ = ["without_forbidden"]


def without_forbidden(
    home: Home,
    absence: CompiledAbsence,
    wanted: Sequence[StoredMatch],
    forbidden: Sequence[Sequence[StoredMatch]],
    again: Collection[int],
    memory: int | None,
) -> list[StoredMatch]:
    """Return the matches that nothing forbids, as if nothing came any more; each has the time of the match.

    Args:
        home: the home.
        absence: parts of the query.
        wanted: matches of what is wanted.
        forbidden: matches of each forbidden part.
        again: late events that count as in time.
        memory: how far behind their clocks events may have come, in microseconds; None: as far as the lateness.
    """
    docids = {docid for matches in (wanted, *forbidden) for match in matches for docid in match.docids}
    events = {row["docid"]: row for row in events_of(home, docids, ["docid", "ts", "late", "behind"]).to_pylist()}
    late = {docid for docid, row in events.items() if row["late"] and docid not in again}
    if memory is not None:
        late |= {docid for docid, row in events.items() if not row["late"] and row["behind"] > memory}
    count = len(wanted[0].docids) if wanted else 0
    killed = {
        (match.docids[:-1], (*match.nodes[:count], *match.nodes[count + 1 :]))
        for matches in forbidden
        for match in matches
        if memory is None or late.isdisjoint(match.docids)
    }
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], StoredMatch] = {}
    for match in sorted(wanted, key=lambda one: one.witness):
        if (match.docids, match.nodes) not in killed and late.isdisjoint(match.docids):
            shown = match.nodes[: count + absence.shown]
            later = _later(absence, [events[docid]["ts"] for docid in match.docids])
            found.setdefault((match.docids, shown), replace(match, nodes=shown, later=later))
    return sorted(found.values(), key=lambda one: max(map(place_of, one.docids)))


def _later(absence: CompiledAbsence, times: Sequence[int]) -> int:
    """Return the time from the newest member to the match."""
    newest = max(times)
    ends = (min((newest if e.block == LATEST else times[e.block]) + e.offset for e in of) for _, of in absence.ends)
    return max(newest, min(LAST_TIME, max(ends))) - newest
