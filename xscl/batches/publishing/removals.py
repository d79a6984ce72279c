"""Removals of published documents: the matches that they were made of hold no longer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.batches.ranges import BatchRange
from xscl.batches.taking_back import Retraction
from xscl.catalog.records import QueryInfo
from xscl.catalog.removals import Removed, removed_among
from xscl.catalog.tables import EVENT_IDS, in_parts
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.store.results import StoredMatch, match_id

__all__ = ["published_numbers", "removals_of"]


def removals_of(
    home: Home,
    span: BatchRange,
    retracted: Sequence[Retraction],
    queries: Mapping[int, Mapping[int, QueryInfo]],
    tables: Sequence[pa.Table],
) -> dict[int, Removed]:
    """Return the removals of the documents that queries published of matches, by number.

    Args:
        home: the home.
        span: the batch.
        retracted: matches that hold no longer.
        queries: queries that publish, by group and number.
        tables: events that the batch has published.
    """
    docids = {docid for each in retracted for docid in each.docs}
    rows = events_of(home, docids, ["docid", "channel", "id"], tables).to_pylist()
    members = {row["docid"]: (row["channel"], row["id"]) for row in rows}
    places: dict[tuple[str, str], int] = {}
    for each in retracted:
        groups = frozenset(each.groups)
        match = StoredMatch(each.docs, each.nodes, (), groups, each.exchange, each.later, span.batch)
        for info in [info for gid in groups for info in queries.get(gid, {}).values()]:
            # Nothing is taken back from a dropped query.
            if info.docid_until > each.place and match.is_seen_by(info) and members.keys() >= {*each.docs}:
                assert info.publish is not None
                key = info.publish, match_id(info.digest, [members[docid] for docid in each.docs], each.nodes)
                places[key] = min(each.place, places.get(key, each.place))
    with home.catalog.read() as connection:
        known = published_numbers(connection, places)
        gone = removed_among(connection, known.values())
    return {docid: Removed(docid, places[key], *key, None) for key, docid in sorted(known.items()) if docid not in gone}


def published_numbers(connection: Connection, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the numbers of the events with these channels and ids, as far as there are some."""
    wanted: dict[str, list[str]] = {}
    for channel, id_ in keys:
        wanted.setdefault(channel, []).append(id_)
    taken: dict[tuple[str, str], int] = {}
    for channel, ids in wanted.items():
        for part in in_parts(ids):
            mine = EVENT_IDS.c.channel == channel, EVENT_IDS.c.id.in_(part)
            rows = connection.execute(sa.select(EVENT_IDS.c.id, EVENT_IDS.c.docid).where(*mine))
            taken.update(((channel, row.id), row.docid) for row in rows)
    return taken
