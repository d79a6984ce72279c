"""Refusals at matching and joining: each names the query and the document, and whoever runs the batch is told.

A limit drops documents for the query that exceeds it, and for no other (docs/reference/limits.md).  Stages know
groups; this module knows whose they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import place_of
from xscl.base.errors import XsclError
from xscl.base.own_functions import FAILED
from xscl.catalog.parts import asking_of
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import QUERIES, in_parts
from xscl.templates.joins.solve import MAX_STEPS
from xscl.templates.results import MAX_MATCHES, MAX_ROUT, RESULT_SCHEMA, Refusal

__all__ = [
    "Rejection",
    "Unnamed",
    "named",
    "refused_at_joining",
    "refused_at_matching",
    "refused_document",
    "rejection_row",
]

_AT_JOINING: Mapping[Refusal, str] = {
    "matches": f"more than {MAX_MATCHES:,} different matches in these documents: none of them is listed",
    "steps": f"more than {MAX_STEPS:,} bindings to look at in these documents: it has no match in them",
    "rout": f"more than {MAX_ROUT:,} rows of R_out in these documents: none is in rout_ views; all matches are listed",
    "links": f"more than {MAX_ROUT:,} ways to link these two documents: it has no match with both",
}


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A refusal: groups do not get something of a document, or of several."""

    channel: str
    id: str
    ts: int
    message: str
    source: str
    """``stage 1`` or ``stage 2``."""
    docids: tuple[int, ...]
    groups: tuple[int, ...] | None
    """Numbers of groups, below 0 for history groups; None: nobody gets the document."""
    condition: str = "XSCL_MATCH_LIMIT"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Refusal of a batch: a document and, unless all queries lack it, the query."""

    query: str | None
    channel: str
    id: str
    ts: int
    condition: str
    message: str
    source: str

    def __str__(self) -> str:
        who = f"query {self.query}: " if self.query is not None else ""
        return f"{who}{self.channel}:{self.id}: [{self.condition}] {self.message}"


def refused_document(query: str, channel: str, id_: str, ts: int, error: XsclError) -> Rejection:
    """Tell why what a query answers is no document."""
    return Rejection(query, channel, id_, ts, error.condition, error.message, f"query {query}")


def rejection_row(rejection: Rejection) -> dict[str, object]:
    """Return a row of ``rejected``, without the time."""
    return {name: getattr(rejection, name) for name in Rejection.__slots__}


def refused_at_matching(
    rows: Sequence[Mapping[str, Any]], asking: Callable[[Collection[int]], Mapping[int, Sequence[int]]]
) -> list[Unnamed]:
    """Tell the refusals of stage 1 (``refusal_rows``); ``asking`` gives the groups of digests of specs."""
    groups = asking({entry["var2"] for row in rows for entry in row["chain"]}) if rows else {}
    found = []
    for row in rows:
        channel, _, id_ = row["place"].partition("\0")
        of = tuple(sorted({gid for entry in row["chain"] for gid in groups.get(entry["var2"], ())}))
        who = of if row["chain"] else None
        reason = row["strval"].removeprefix(FAILED)
        condition = "XSCL_FUNCTION_FAILED" if reason != row["strval"] else "XSCL_MATCH_LIMIT"
        message = f"{reason}: it has no match with it" if who is not None else reason
        found.append(Unnamed(channel, id_, row["ts"], message, "stage 1", (row["docid"],), who, condition))
    return found


def refused_at_joining(path: Path) -> list[Unnamed]:
    """Read the refusals of stage 2 from the results in a folder: each newest document with those it met."""
    columns = ["members", "groups", "reason"]
    rows = ds.dataset(path, schema=RESULT_SCHEMA).to_table(columns=columns, filter=ds.field("relation") == "refused")
    found = []
    for row in rows.to_pylist():
        *others, newest = sorted(row["members"], key=lambda member: place_of(member["docid"]))
        channel, _, id_ = newest["place"].partition("\0")
        met = ", ".join("{0}:{2}".format(*other["place"].partition("\0")) for other in others)
        message = (met and f"with {met}: ") + _AT_JOINING[row["reason"]]
        docids = tuple(member["docid"] for member in row["members"])
        found.append(Unnamed(channel, id_, newest["ts"], message, "stage 2", docids, tuple(row["groups"])))
    return found


def named(connection: Connection, refused: Iterable[Unnamed], filled: Sequence[QueryInfo] = ()) -> Iterator[Rejection]:
    """Yield refusals with the queries that lack the document, each once.

    ``filled`` are those that the batch answers from what is held.
    """
    refused = list(dict.fromkeys(refused))
    if not refused:
        return
    asked = sorted({gid for each in refused for gid in each.groups or () if gid >= 0})
    queries: dict[int, list[tuple[str, int, int]]] = {}
    absences = asking_of(connection, asked)
    for some in in_parts(sorted({*asked, *(gid for gids in absences.values() for gid in gids)})):
        columns = (QUERIES.c.gid, QUERIES.c.qid, QUERIES.c.sees_from, QUERIES.c.docid_until)
        for gid, *query in connection.execute(sa.select(*columns).where(QUERIES.c.gid.in_(some))):
            queries.setdefault(gid, []).append(tuple(query))
    for part, gids in absences.items():
        queries[part] = [query for gid in (part, *gids) for query in queries.get(gid, ())]
    for info in filled:
        if info.history is not None:
            queries.setdefault(info.history, []).append((info.name, -1, info.docid_until))
    told = set()
    for each in refused:
        places = [place_of(docid) for docid in each.docids]
        names = {
            name
            for gid in each.groups or ()
            for name, first, last in queries.get(gid, ())
            if first < min(places) and max(places) < last
        }
        condition = "XSCL_DOCUMENT_LIMIT" if each.groups is None else each.condition
        for name in (None,) if each.groups is None else sorted(names):
            rejection = Rejection(name, each.channel, each.id, each.ts, condition, each.message, each.source)
            if rejection not in told:
                told.add(rejection)
                yield rejection
