"""Matches that a batch takes back, and their rows of table ``retractions``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from xscl.base.docids import place_of
from xscl.batches.ranges import BatchRange
from xscl.catalog.retractions import Because
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.results import member_digests
from xscl.templates.columns import Int64s

__all__ = ["Retraction", "groups_with", "retraction_rows"]


@dataclass(frozen=True, slots=True)
class Retraction:
    """A match that some queries have no longer."""

    groups: tuple[int, ...]
    docs: tuple[int, ...]
    nodes: tuple[int, ...]
    later: int
    place: int
    """Place of what takes it back."""
    other: int
    """Number of the document that does, or from which a run was cut off that it is of."""
    because: Because = "late"
    exchange: int | None = None


def groups_with(gid: int, numbers: Int64s, *, whole: bool) -> tuple[int, ...]:
    """Return the group, or what stands for it in the matches of some of its queries."""
    return (gid,) if whole else tuple(sorted((-numbers).tolist()))


def retraction_rows(
    home: Home, span: BatchRange, retracted: Sequence[Retraction], tables: Sequence[pa.Table]
) -> Iterator[dict[str, Any]]:
    """Yield rows of table ``retractions``; ``tables`` are events that the batch publishes."""
    docids = {docid for each in retracted for docid in (*each.docs, each.other)}
    if not docids:
        return
    events = {row["docid"]: row for row in events_of(home, docids, ["docid", "channel", "id"], tables).to_pylist()}
    for each in sorted(retracted, key=lambda one: (one.docs, one.nodes, one.groups)):
        places = [place_of(docid) for docid in each.docs]
        other = events.get(each.other, {"channel": None, "id": None})
        row = {
            "batch": span.batch,
            "docs": json.dumps(each.docs),
            "nodes": ",".join(map(str, each.nodes)),
            "members": member_digests((events[docid]["channel"], events[docid]["id"]) for docid in each.docs),
            "first": min(places),
            "last": max(places),
            "later": each.later,
            "place": each.place,
            "exchange": each.exchange,
            "because": "replayed" if span.replayed and each.because != "limit" else each.because,
            "channel": other["channel"],
            "id": other["id"],
        }
        yield from ({**row, "gid": gid} for gid in each.groups)
