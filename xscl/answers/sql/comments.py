"""Comments on relations and their columns, which ``DESCRIBE``, the shell and docs/reference/sql.md show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from xscl.answers.sql.channel_views import ChannelView

__all__ = ["CHANNEL", "OF_TEMPLATE", "RELATIONS", "column_comment", "relation_comment"]

_COMMON: Mapping[str, str] = MappingProxyType(
    {
        "batch": "number of the batch",
        "channel": "name of the channel",
        "condition": "named condition, as docs/reference/errors.md lists them",
        "docid": "number of the document",
        "guard": "guard, 16 hex digits",
        "id": "id of the event, unique in its channel",
        "match": "id of the match",
        "message": "reason in words",
        "qid": "name of the query",
        "template": "id of the template",
        "ts": "event time, microseconds since 1970",
        "received": "time of receipt, microseconds since 1970",
        "version": "version of an item of a feed, else 1",
    }
)
"""Comments on columns that mean the same in most relations."""

_OF_MATCHES: Mapping[str, str] = MappingProxyType(
    {
        "ts_min": "event time of its oldest member, microseconds since 1970",
        "ts_max": "event time of its newest member, microseconds since 1970",
        "received_min": "time at which the first of its members came, microseconds since 1970",
        "received_max": "time at which the last of its members came, microseconds since 1970",
        "docids": "numbers of its documents, in block order",
        "nodes": "places of its result nodes in their documents",
        "replaces": "match over older versions that it replaces; NULL: none",
        "batch": "batch that found it",
    }
)
"""Comments on the columns of matches, those that hold and all."""

RELATIONS: Mapping[str, tuple[str, Mapping[str, str]]] = MappingProxyType(
    {
        "batches": (
            "batches, and the work of each",
            {
                "first": "first place of the intake order that it took",
                "last": "last place of the intake order that it took",
                "events": "events taken",
                "witnesses": "new witness rows",
                "pairs": "pairs of documents that agree in some edge",
                "rout": "rows of R_out",
                "matches": "stored matches, each with its set of groups",
                "retracted": "matches that were taken back, each with its set of queries",
                "published": "documents that queries published",
                "links": "new rows of links of longer queries",
                "jobs": "Spark jobs; NULL where Spark does not count them",
                "joined_in": "driver or spark",
                "prepare_s": "seconds of planning",
                "stage1_s": "seconds of matching documents",
                "join_s": "seconds of joining, and of published documents",
                "commit_s": "seconds of upkeep of the state and of the commit",
                "state_rows": "rows of join state held after it",
                "state_bytes": "size of the files that hold them",
                "purged": "rows of earlier batches that no partner can come for since",
                "filled": "queries answered from what was held",
                "replayed": "late events that were taken again",
                "late_for": "events that came too late for queries with a memory, and in time for others",
                "committed": "time of its commit, microseconds since 1970",
            },
        ),
        "changes": (
            "matches that came, and matches that were taken back",
            {
                "kind": "insert or retract",
                "because": "late, edited, removed, replayed or limit; NULL: it came",
                "channel": "channel of the event that took it back",
                "id": "id of that event",
                "place": "last place of the intake order in that batch",
            },
        ),
        "channels": (
            "channels and their settings",
            {
                "name": "name of the channel",
                "kind": "xml or rows",
                "feed": "whether ids have versions",
                "element": "root element of the document of a row",
                "schema": "columns of a row channel, a JSON object of types",
                "lateness": "time for which events may be late, microseconds; NULL: nothing is late",
                "clock": "channel whose clock it follows",
                "settled": "place up to which events may have been judged by another lateness, clock or idle time",
                "newest": "greatest event time of what was taken in; NULL: nothing was",
                "processed": "greatest event time of processed events; NULL: none, or not known",
                "published": "greatest event time of what queries published to it; NULL: not known",
                "watermark": "no event of a later batch is older; NULL: any age, or not known",
                "retention": "time for which events are held, microseconds; NULL: for ever",
                "idle": "its clock is at most so far behind the newest one; NULL: its own counts",
                "heartbeat": "events up to this time are in, says the last heartbeat; NULL: none came",
                "auto": "whether each feed has a lateness of its own",
                "beaten": "the same of processed heartbeats; NULL: none, or not known",
                "wall": "how far heartbeats that runs make are behind now; NULL: they make none",
                "held_from": "older events are held no more; NULL: all are",
                "kept_from": "older events may be gone, and no match has one; NULL: none is",
            },
        ),
        "events": (
            "events that are retained, with their documents",
            {
                "item": "number of the first version of its item",
                "declared": "event time that it declared; NULL: none",
                "time_source": "kind of the date that became its event time",
                "late": "whether it came too late for joins",
                "member": "names of the streams that brought it",
                "batch": "batch that processed it; NULL: it waits",
                "content": "document",
            },
        ),
        "feed_clocks": (
            "clocks of feeds in channels with lateness auto",
            {
                "feed": "identity of the feed",
                "lateness": "time that an item may be behind the feed's clock, microseconds",
                "newest": "greatest event time of its items; NULL: none was ingested",
            },
        ),
        "feeds": (
            "items and versions by feed",
            {
                "feed": "identity of the feed",
                "channel": "channel of its items, or one of its streams",
                "items": "number of items",
                "versions": "number of items and newer versions",
            },
        ),
        "frontiers": (
            "how far the times of channels are settled",
            {
                "clock": "time that its clock shows, by processed events; NULL: none",
                "watermark": "time below which all events are in; NULL: events of any age may come",
                "source": "reason for it: lateness, heartbeat, feeds, or published",
                "waiting": "variables and links whose rows in the join state wait for the channel",
            },
        ),
        "guards": (
            "guards: conditions of a block on its whole document",
            {"text": "topmost node of the block, with the conditions of the guard"},
        ),
        "heartbeats": (
            "heartbeats of channels, by place",
            {"place": "place of the intake order", "ts": "events of the channel up to this time are in"},
        ),
        "late": (
            "events that came too late for joins",
            {
                "docid": "number of the document; NULL: a published one that repair has forgotten",
                "replayed": "place at which it was taken as if it had been in time; NULL: never",
            },
        ),
        "match_members": (
            "documents of matches, by which they are joined with channels",
            {"block": "block of the query, from 0"},
        ),
        "matches": ("matches of each query that hold", _OF_MATCHES),
        "matches_all": ("matches of each query, also those that were taken back", _OF_MATCHES),
        "plan": (
            "m-ops that run for live queries: operators of queries, put together by rules",
            {
                "mop": "m-op: operators that run as one",
                "kind": "select, aggregate, join, next, fold or absence",
                "rule": "rule that has put its operators together; NULL: it has one",
                "operators": "number of operators",
                "queries": "number of queries that it serves",
                "inputs": "channels and m-ops that it reads",
            },
        ),
        "queries": (
            "queries, also dropped ones",
            {
                "query": "number of the query",
                "text": "text as it was registered",
                "written": "text with the queries that it has in parentheses; NULL: it has none",
                "namespaces": "prefixes of its text, as JSON",
                "gid": "group of equal queries",
                "docid_from": "its place in the intake order",
                "docid_until": "place where it was dropped; 2^62: it is live",
                "spare": "first of the places before its drop, left for replays; NULL: none is there",
                "received": "time of its registration, microseconds since 1970",
                "publish": "channel to which its output goes; NULL: none",
                "starting": "NOW, ALL or a time (ISO 8601)",
                "sees_from": "it sees members that come after this place",
                "ts_from": "it sees members of this event time or later; NULL: of any",
                "history": "stands for its group in matches of members from before it; NULL: it has none",
                "filled": "batch that found those; NULL: none has",
                "ended": "it has no matches of later batches; NULL: places tell",
                "owner": "who registered it; empty: nobody said",
                "level": "level of consistency of a query about absence; NULL: it is about none",
                "late_for": "events of its channels that came too late for its memory, and in time for others",
                "suspended": "reason for which it was ended: a quota, or a failure; NULL: it was not",
                "released": "place where its suspension ended; NULL: it has not",
            },
        ),
        "r_bin": (
            "R_bin: pairs of bindings along the edges of reduced patterns",
            {
                "var1": "upper variable, 16 hex digits",
                "var2": "lower variable; of a pattern of one variable the same one",
                "node1": "node of the upper variable",
                "node2": "node of the lower variable",
            },
        ),
        "r_doc": (
            "R_doc: values of bound nodes that take part in a join",
            {
                "node": "node of the document",
                "fn": "function applied to the value; empty: none",
                "strval": "value as a text",
                "num": "value as a number; NULL where it is none",
            },
        ),
        "r_docts": (
            "R_docTS: documents that a batch has processed, and later copies of them",
            {
                "item": "number of the first version of its item",
                "late": "whether it came too late for joins, and no replay has joined it",
                "whole": "false: a copy that a stream brought later",
            },
        ),
        "r_guard": ("guards that documents satisfy", {}),
        "r_member": ("streams that brought each document", {"stream": "number of the stream"}),
        "r_ordinal": (
            "events of each channel in the intake order, which row windows count",
            {"ordinal": "how many events of the channel came before it"},
        ),
        "removals": (
            "removed events, by place",
            {
                "docid": "number of the event",
                "place": "place of the removal in the intake order",
                "id": "id of the event",
                "stated": "time of the removal as its feed states it; NULL: it states none",
            },
        ),
        "rejected": (
            "input that was refused, and documents that queries lost",
            {
                "source": "file and line, or other origin, of what was refused",
                "query": "query that lacks it; NULL: nobody has it",
            },
        ),
        "streams": (
            "streams of channels",
            {
                "number": "number of the stream",
                "name": "name of the stream, which no channel has",
                "source": "streams of one source and channel share equal events; NULL: with none",
            },
        ),
        "templates": (
            "templates: queries grouped by the shape of their joins",
            {
                "certificate": "shape in words",
                "blocks": "block of each variable, as JSON",
                "parents": "variable above each one, as JSON",
                "joins": "value joins, as JSON",
            },
        ),
        "variables": (
            "canonical variables of queries",
            {
                "var": "digest of the definition, 16 hex digits",
                "definition": "path from the root of documents, with its conditions",
                "example": "name that some query gives it",
            },
        ),
    }
)
"""Comment of each relation, and those of its columns that mean something of their own."""

CHANNEL: Mapping[str, str] = MappingProxyType(
    {
        "docid": "number of the event, as in matches.docids and match_members",
        "id": "id, unique in the channel",
        "version": "version of an item of a feed, else 1",
        "ts": "event time",
        "received": "time of receipt",
        "stream": "names of the streams that brought it",
        "content": "document, or text of the whole content of an item",
        "item_url": "address of the item's page",
        "channel_url": "address of the feed",
        "channel_title": "title of the feed",
        "title": "title of the item",
        "author": "names of authors",
        "published": "time of publication",
        "updated": "time of the last change",
        "description": "summary as plain text",
        "category": "categories",
        "guid": "id that the publisher gave it",
        "link": "canonical addresses of links in the content",
        "language": "language of the feed or the item",
        "comments": "address of the page of comments",
        "enclosure": "files that go with it",
        "media": "pictures and films that go with it",
    }
)
"""Comments on columns of ``ch_<channel>``: of every channel, of documents and of items; others are of its rows."""

OF_TEMPLATE: Mapping[str, str] = MappingProxyType(
    {
        "qid": "name of the query",
        "case": "number of the case, from 1",
        "batch": "batch that found it",
        "sees_from": "members come after this place",
        "ts_from": "members have this event time or a later one; NULL: any",
        "docid<i>": "number of the document of block i",
        "node<i>": "node of variable i",
        "var<i>": "variable i, 16 hex digits",
        "kind_<e>": "kind of value join e: EQ, NE or BAND",
        "fn_l_<e>": "function applied to the left value of join e; empty: none",
        "fn_r_<e>": "function applied to the right value of join e; empty: none",
        "f_<e>": "factor of join e, for BAND",
        "add_<e>": "summand of join e, for BAND",
        "op_<e>": "operator of join e",
        "alone_<e>": "side of join e that stands alone: l or r",
        "lo_<i>_<j>": "least time from block i to block j, microseconds; -2^62: no bound",
        "hi_<i>_<j>": "greatest time from block i to block j, microseconds; 2^62: no bound",
        "once_<i>_<j>": "1: only matches whose member of block i is first, -1: of block j, 0: all",
        "exchange_<i>_<j>": "whether a match gives way to the one with the members of blocks i and j exchanged",
        "stream<i>": "number of the stream that block i names; NULL: its channel",
        "guard<i>": "guard of block i; NULL: it has none",
        "docid_from": "place at which the query came",
        "held<i>": "events of block i up to that place have this event time or a later one; NULL: any",
        "n<i>": "how many newest events of its channel the one of block i is among; NULL: any",
    }
)
"""Comments on columns of ``rt_<template>`` and ``rout_<template>``; <i>, <j> and <e> stand for numbers from 1."""

_KINDS = (
    ("ch_", "events of a channel"),
    ("rt_", "R_T of a template: a row for each query and case"),
    ("rout_", "R_out of a template: answers of its queries"),
)


def relation_comment(relation: str) -> str:
    """Return the comment on a relation of a home."""
    if relation in RELATIONS:
        return RELATIONS[relation][0]
    return next((about for prefix, about in _KINDS if relation.startswith(prefix)), "")


def column_comment(relation: str, column: str, view: ChannelView | None = None) -> str:
    """Return the comment on a column; ``view``: the channel that the relation shows, for columns of its rows."""
    if view is not None:
        own = next((each for each in view.columns if each.name == column), None)
        if own is not None and own.stored == "cells":
            return f"column {own.field} of the rows"
        return CHANNEL.get(column, "")
    if relation in RELATIONS:
        return RELATIONS[relation][1].get(column) or _COMMON.get(column, "")
    if relation.startswith("ch_"):
        return CHANNEL.get(column, "")
    return OF_TEMPLATE.get(column) or _numbered(column)


def _numbered(column: str) -> str:
    """Return the comment on a column whose name has numbers."""
    numbers = re.findall(r"\d+", column)
    for letters in ("i", "e", "ij"):
        waiting = iter(letters)
        name = re.sub(r"\d+", lambda _: f"<{next(waiting, '')}>", column)  # noqa: B023
        if name in OF_TEMPLATE:
            text = OF_TEMPLATE[name]
            for letter, number in zip(letters, numbers, strict=False):
                text = re.sub(rf"\b{letter}\b", number, text)
            return text
    return ""
