"""Reading matches: stored once for all groups that share them, told apart by subscriber here.  No Spark is needed.

A stored match names the groups it satisfies; a query of such a group sees it if all its members came after the query's
registration and before its drop in the intake order.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from lxml import etree

from xscl.catalog import QueryInfo
from xscl.errors import CatalogError
from xscl.event_files import EVENT_SCHEMA, event_document
from xscl.home import Home
from xscl.output import Selection, output_document, prepare_select, selected_document
from xscl.parser import parse_query
from xscl.places import place_of
from xscl.queries import of_groups
from xscl.safexml import in_fresh_dictionary, parse_stored
from xscl.tables import BATCHES, INTAKE_FILES
from xscl.templates.results import RESULT_SCHEMA, batch_of
from xscl.types import Match, MatchEvent, format_time
from xscl.xpath.nodes import Node, locator, node_at, string_value

__all__ = [
    "StoredMatch",
    "events_of",
    "find_match",
    "list_matches",
    "match_document",
    "match_id",
    "match_json",
    "selection_of",
    "stored_matches",
]

_ID_LENGTH = 32


def match_id(query_digest: str, members: Sequence[tuple[str, str]], nodes: Sequence[int]) -> str:
    """A match's id: a digest of the query's name and text, the members' channels and ids, and the result nodes.

    Written so that Spark SQL computes the same (``views``): digests of fixed length side by side, then the nodes.
    """
    parts = [query_digest]
    for channel, id_ in members:
        parts += [_sha(channel), _sha(id_)]
    parts.append(",".join(map(str, nodes)))
    return _sha("".join(parts))[:_ID_LENGTH]


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class _Found:
    """A stored match as one query sees it, before its documents are read."""

    id: str
    query: QueryInfo
    ts: int
    docids: tuple[int, ...]
    nodes: tuple[int, ...]
    witness: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredMatch:
    """A row of the results: a match with the groups that it satisfies."""

    docids: tuple[int, ...]
    nodes: tuple[int, ...]
    witness: tuple[int, ...]
    groups: frozenset[int]
    batch: int
    """That found it."""

    def is_seen_by(self, query: QueryInfo) -> bool:
        """Whether a query has it, as far as places tell; one that starts at a time asks for times too.

        A query that was answered from what was held has the matches found for it then (``history``), and of its group
        those of later levels and batches, whose members may be older than the query.
        """
        places = [place_of(docid) for docid in self.docids]
        if max(places) >= query.docid_until or (query.ended is not None and self.batch > query.ended):
            return False
        if query.history is not None and query.history in self.groups:
            return True
        waits = query.filled is None and query.sees_from < query.docid_from
        later = not waits and (query.filled is None or self.batch >= query.filled)
        return query.gid in self.groups and later and query.sees_from < min(places)


@dataclass(frozen=True, slots=True)
class _Member:
    channel: str
    id: str
    ts: int


def list_matches(
    home: Home, *, query: str | None = None, since: int | None = None, until: int | None = None
) -> Iterator[Match]:
    """Matches of committed batches, sorted by (ts, query, match).

    Raises:
        CatalogError: there was never a query of that name.
    """
    yield from _built(home, _found(home, query, since, until))


def find_match(home: Home, match: str) -> Match:
    """The match whose id is, or begins with, ``match``.

    Raises:
        CatalogError: there is none, or more than one.
    """
    found = [item for item in _found(home, None, None, None) if item.id.startswith(match)]
    if len(found) != 1 or not match:
        some = ", ".join(item.id[:12] for item in found[:5])
        what = f"{len(found)} matches begin with {match!r}: {some} …" if found else f"there is no match {match!r}"
        raise CatalogError("XSCL_MATCH_NOT_FOUND", what, hint="list them with 'xscl match list'")
    return next(_built(home, found))


def match_json(match: Match) -> dict[str, object]:
    """A match as the contract writes it."""
    return {
        "match": match.id,
        "query": match.query,
        "ts": format_time(match.ts),
        "events": [{"channel": e.channel, "id": e.id, "ts": format_time(e.ts)} for e in match.events],
        "nodes": dict(match.nodes),
        "values": dict(match.values),
        "document": match.document,
    }


# -- finding ---------------------------------------------------------------------------------------------------


def _found(home: Home, query: str | None, since: int | None, until: int | None) -> list[_Found]:
    if query is None:
        stored = _stored(home, None)
        queries = of_groups(home.catalog, {gid for row in stored for gid in row.groups})
    else:
        asked = home.catalog.queries(live_only=False, name=query)
        if not asked:
            raise CatalogError(
                "XSCL_QUERY_NOT_FOUND", f"there is no query {query!r}", hint="list them with 'xscl query list'"
            )
        stored = _stored(home, {gid for info in asked for gid in info.groups})
        queries = iter(asked)
    subscribers: dict[int, list[QueryInfo]] = {}
    for info in queries:
        for gid in info.groups:
            subscribers.setdefault(gid, []).append(info)
    members = _members(home, {docid for row in stored for docid in row.docids})
    found = []
    for row in stored:
        ts = max(members[docid].ts for docid in row.docids)
        if (since is not None and ts < since) or (until is not None and ts > until):
            continue
        named = [(members[docid].channel, members[docid].id) for docid in row.docids]
        begin = min(members[docid].ts for docid in row.docids)
        for info in (info for gid in row.groups for info in subscribers.get(gid, ())):
            if row.is_seen_by(info) and (info.ts_from is None or info.ts_from <= begin):
                id_ = match_id(info.digest, named, row.nodes)
                found.append(_Found(id_, info, ts, row.docids, row.nodes, row.witness))
    return sorted(found, key=lambda item: (item.ts, item.query.name, item.id))


def _stored(home: Home, groups: set[int] | None) -> list[StoredMatch]:
    """The stored matches of some groups, or of all."""
    with home.catalog.read() as connection:
        statement = sa.select(BATCHES.c.result_path).where(BATCHES.c.matches > 0).order_by(BATCHES.c.batch)
        paths = home.paths([path for path in connection.scalars(statement) if path is not None])
    return [row for path in paths for row in stored_matches(path, groups)]


def stored_matches(path: str | Path, groups: Collection[int] | None = None) -> Iterator[StoredMatch]:
    """The matches in a folder of results, of some groups or of all."""
    import pyarrow.dataset as ds  # brings pandas, which homes without matches do without

    only = None if groups is None else frozenset(groups)
    results = ds.dataset(path, schema=RESULT_SCHEMA)
    columns = ["origin", "class", "nodes", "witness", "groups"]
    meant: dict[tuple[int, int], list[tuple[tuple[int, ...], tuple[int, ...], frozenset[int]]]] = {}
    for row in results.to_table(columns=columns, filter=ds.field("relation") == "match").to_pylist():
        if only is None or only.intersection(row["groups"]):
            of_class = meant.setdefault((row["origin"], row["class"]), [])
            of_class.append((tuple(row["nodes"]), tuple(row["witness"]), frozenset(row["groups"])))
    if not meant:
        return
    wanted = ds.field("relation") == "docs"
    if only is not None:
        wanted &= ds.field("class").isin(sorted({number for _, number in meant}))
    for batch in results.to_batches(columns=["origin", "class", "d1", "d2", "docs"], filter=wanted):
        for row in batch.to_pylist():
            docids = tuple(row["docs"] or (doc for doc in (row["d1"], row["d2"]) if doc is not None))
            for nodes, witness, satisfied in meant.get((row["origin"], row["class"]), ()):
                yield StoredMatch(docids, nodes, witness, satisfied, batch_of(row["origin"]))


def _members(home: Home, docids: set[int]) -> dict[int, _Member]:
    table = events_of(home, docids, ["docid", "channel", "id", "ts"])
    return {row["docid"]: _Member(row["channel"], row["id"], row["ts"]) for row in table.to_pylist()}


def events_of(home: Home, docids: set[int], columns: list[str], also: Sequence[pa.Table] = ()) -> pa.Table:
    """Some events by number, from the files that hold them, or from tables that no file holds yet."""
    if not docids:
        return EVENT_SCHEMA.empty_table().select(columns)
    import pyarrow.dataset as ds

    with home.catalog.read() as connection:
        files = connection.execute(
            sa.select(INTAKE_FILES).where(INTAKE_FILES.c.last >= min(docids), INTAKE_FILES.c.first <= max(docids))
        ).all()
    wanted = sorted(docids)
    # A file is needed if the first wanted number from its beginning on lies before its end.
    paths = [r.path for r in files if (i := bisect_left(wanted, r.first)) < len(wanted) and wanted[i] <= r.last]
    datasets = [ds.dataset(home.paths(paths), schema=EVENT_SCHEMA), *map(ds.dataset, also)]
    chosen = ds.field("docid").isin(wanted)
    return pa.concat_tables([dataset.to_table(columns=columns, filter=chosen) for dataset in datasets])


# -- building --------------------------------------------------------------------------------------------------


def _built(home: Home, found: Sequence[_Found]) -> Iterator[Match]:
    """Matches with their documents, a few hundred at a time so that memory stays bounded."""
    channels = home.catalog.channels()
    blocks: dict[str, tuple[int, ...]] = {}
    selections: dict[int, Selection | None] = {}
    for start in range(0, len(found), 500):
        part = found[start : start + 500]
        docids = {docid for item in part for docid in item.docids}
        events = {row["docid"]: row for row in events_of(home, docids, EVENT_SCHEMA.names).to_pylist()}
        documents = {
            docid: event_document(event["content"], event["cells"], channels[event["channel"]])
            for docid, event in events.items()
        }
        for item in part:
            template = item.query.template
            if template not in blocks:
                blocks[template] = home.catalog.template(template).blocks
            if item.query.query not in selections:
                selections[item.query.query] = selection_of(item.query)
        yield from in_fresh_dictionary(_matches, part, blocks, selections, events, documents)


def _matches(
    found: Sequence[_Found],
    blocks: Mapping[str, tuple[int, ...]],
    selections: Mapping[int, Selection | None],
    events: Mapping[int, Mapping[str, object]],
    documents: Mapping[int, str],
) -> list[Match]:
    roots = {docid: parse_stored(document) for docid, document in documents.items()}
    return [_match(item, blocks[item.query.template], selections[item.query.query], events, roots) for item in found]


def _match(
    item: _Found,
    blocks: tuple[int, ...],
    selection: Selection | None,
    events: Mapping[int, Mapping[str, object]],
    roots: Mapping[int, etree._Element],
) -> Match:
    names = item.query.names
    docids = [item.docids[block] for block in names["result_blocks"]]
    places = [locator(roots[docid], node) for docid, node in zip(docids, item.nodes, strict=True)]
    nodes = {name: place for name, place in zip(names["results"], places, strict=True) if name is not None}
    return Match(
        id=item.id,
        query=item.query.name,
        ts=item.ts,
        events=tuple(_member(events[docid]) for docid in item.docids),
        nodes=nodes,
        values=_values(item, blocks, roots),
        document=match_document(item.query, selection, item.docids, item.nodes, roots),
    )


def match_document(
    query: QueryInfo,
    selection: Selection | None,
    docids: Sequence[int],
    nodes: Sequence[int],
    roots: Mapping[int, etree._Element],
) -> str:
    """The output document of a match: ``selection`` is the query's, ``roots`` are its documents."""
    results: list[Node] = []
    for block, node in zip(query.names["result_blocks"], nodes, strict=True):
        root = roots[docids[block]]
        results.append(node_at(root, locator(root, node)))
    if selection is None:
        return output_document(results)
    selected = zip(query.names["results"], results, strict=True)
    return selected_document(selection, {name: node for name, node in selected if name is not None})


def selection_of(query: QueryInfo) -> Selection | None:
    """What a query selects; None if it outputs its result nodes."""
    select = parse_query(query.text).select
    return None if select is None else prepare_select(select, query.text, query.namespaces)


def _member(event: Mapping[str, object]) -> MatchEvent:
    channel, id_, ts = event["channel"], event["id"], event["ts"]
    assert isinstance(channel, str) and isinstance(id_, str) and isinstance(ts, int)
    return MatchEvent(channel, id_, ts)


def _values(item: _Found, blocks: tuple[int, ...], roots: Mapping[int, etree._Element]) -> dict[str, str]:
    """String values of the joined variables in the match's witness."""
    joined = set(item.query.names["joined"])
    values = {}
    for place, (name, node) in enumerate(zip(item.query.names["meta"], item.witness, strict=True)):
        if name in joined and name is not None:
            root = roots[item.docids[blocks[place]]]
            values[name] = string_value(node_at(root, locator(root, node)))
    return values
