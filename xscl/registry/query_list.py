"""Listing queries by name, in pages, with filters: made for catalogues of a million queries."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.catalog import Catalog
from xscl.catalog.queries import query_info
from xscl.catalog.records import QueryInfo
from xscl.catalog.steps import groups_by_steps, is_step
from xscl.catalog.stored_json import read_stored
from xscl.catalog.suggestions import find_template
from xscl.catalog.tables import GROUPS, IS_LISTED, IS_SUSPENDED, NEVER, QUERIES, among, in_parts
from xscl.language.facts import SUB_QUERIES

__all__ = [
    "ALL_QUERIES",
    "IS_WRITTEN",
    "QueryFilter",
    "count_queries",
    "list_queries",
    "of_groups",
    "query_count",
    "query_page",
    "reads",
    "state_facts",
]

IS_WRITTEN = sa.func.substr(QUERIES.c.qid, 1, len(SUB_QUERIES)) != SUB_QUERIES
"""Condition that a query is no sub-query, which somebody wrote as a part of another."""
_PAGE = 1_000
_FEW = 10_000


@dataclass(frozen=True, slots=True)
class QueryFilter:
    """Filters of listed queries, live and suspended ones; None asks for nothing."""

    like: str | None = None
    """A pattern that the whole name fits: ``*`` is any text, ``?`` any character.  Sub-queries are listed only by a
    pattern that begins as their names do."""
    template: str | None = None
    """Queries of this template, or of this step: its id, or the beginning that no other has."""
    group: int | None = None
    """Queries of this group: those that ask the same."""
    channel: str | None = None
    """Queries that read this channel."""
    after: str | None = None
    """Queries whose names come after this one: the last of a page asks for the next."""
    limit: int | None = None
    """At most so many."""
    offset: int = 0
    """Without the first so many; slower than ``after``, the further the more."""
    owner: str | None = None
    """Queries of this owner; '' asks for those without one."""
    suspended: bool | None = None
    """Whether to list suspended queries or live ones; None: both."""


ALL_QUERIES = QueryFilter()


def list_queries(catalog: Catalog, wanted: QueryFilter = ALL_QUERIES) -> Iterator[QueryInfo]:
    """List queries by name (in the order of code points), read as they are asked for, a thousand at a time.

    A query that is registered or dropped meanwhile may or may not be among them.
    """
    after, offset, left = wanted.after, wanted.offset, wanted.limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        found = catalog.ask(query_page, replace(wanted, after=after, offset=offset, limit=size))
        yield from found
        if len(found) < size:
            return
        after, offset = found[-1].name, 0
        left = None if left is None else left - len(found)


def query_page(connection: Connection, wanted: QueryFilter) -> list[QueryInfo]:
    """Return queries by name, as one transaction sees them; all at once, so ``limit`` says how many these may be."""
    conditions = _conditions(connection, wanted)
    statement = sa.select(QUERIES).where(*conditions).order_by(QUERIES.c.qid).limit(wanted.limit).offset(wanted.offset)
    return [query_info(row) for row in connection.execute(statement).mappings()]


def state_facts(info: QueryInfo) -> dict[str, object]:
    """Return the state of a listed query: since which place it is suspended, and why, and what its level leaves out."""
    level = {"level": info.level, "late_for": info.late_for}
    if not info.is_suspended:
        return {"state": "live", "suspended_from": None, "reason": None, **level}
    return {"state": "suspended", "suspended_from": info.docid_until, "reason": info.suspended, **level}


def count_queries(catalog: Catalog, wanted: QueryFilter = ALL_QUERIES) -> int:
    """Count queries; ``limit`` and ``offset`` do not matter."""
    return catalog.ask(query_count, wanted)


def query_count(connection: Connection, wanted: QueryFilter) -> int:
    """Count queries, as one transaction sees them; ``limit`` and ``offset`` do not matter."""
    conditions = _conditions(connection, wanted)
    return connection.scalar(sa.select(sa.func.count()).select_from(QUERIES).where(*conditions)) or 0


def of_groups(catalog: Catalog, groups: Collection[int]) -> Iterator[QueryInfo]:
    """Return the queries of some groups, dropped ones included."""
    wanted = sorted(groups)
    with catalog.read() as connection:
        for some in in_parts(wanted):
            # OR would have SQLite read all queries: each half has an index of its own.
            halves = (sa.select(QUERIES.c.query).where(of.in_(some)) for of in (QUERIES.c.gid, QUERIES.c.history))
            statement = sa.select(QUERIES).where(QUERIES.c.query.in_(sa.union(*halves)))
            yield from map(query_info, connection.execute(statement).mappings())


def _conditions(connection: Connection, wanted: QueryFilter) -> list[sa.ColumnElement[bool]]:
    states = {None: IS_LISTED, True: IS_SUSPENDED, False: QUERIES.c.docid_until == NEVER}
    found = [states[wanted.suspended]]
    if not (wanted.like or "").startswith(SUB_QUERIES):
        found.append(IS_WRITTEN)
    if wanted.owner is not None:
        found.append(QUERIES.c.owner == wanted.owner)
    if wanted.after is not None:
        found.append(QUERIES.c.qid > wanted.after)
    if wanted.like is not None:
        found += _like(connection, wanted.like)
    if wanted.template is not None:
        found.append(_of_template(connection, wanted.template))
    if wanted.group is not None:
        found.append(QUERIES.c.gid == wanted.group)
    if wanted.channel is not None:
        found.append(reads(connection, wanted.channel))
    return found


def _of_template(connection: Connection, name: str) -> sa.ColumnElement[bool]:
    """Return the condition that a query has a template, or a step, with an id that begins so."""
    template = find_template(connection, name)
    if template is None or not is_step(template):
        return sa.false() if template is None else QUERIES.c.template == template
    return among(connection, QUERIES.c.gid, groups_by_steps(connection, -1, NEVER - 1)[template])


def reads(connection: Connection, channel: str) -> sa.ColumnElement[bool]:
    """Return the condition that a query reads a channel, in the form that finds it soonest."""
    lists = [text for text in _channel_lists(connection) if channel in read_stored(GROUPS.c.channels, text)]
    if not lists:
        return sa.false()
    groups = sa.select(GROUPS.c.gid).where(GROUPS.c.channels.in_(lists))
    joined = sa.select(QUERIES.c.query).join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
    some = joined.where(GROUPS.c.channels.in_(lists)).limit(_FEW + 1).subquery()
    if (connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0) <= _FEW:
        return QUERIES.c.gid.in_(groups)
    # One in a hundred or more: going through queries in the order of names soon finds a page of them.
    return sa.exists().where(GROUPS.c.gid == QUERIES.c.gid, GROUPS.c.channels.in_(lists))


def _like(connection: Connection, pattern: str) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the conditions for a pattern; its beginning as bounds, so that an index serves everywhere."""
    if not set(pattern) & set("*?"):
        yield QUERIES.c.qid == pattern
        return
    beginning = "".join(itertools.takewhile(lambda c: c.isascii() and c not in "*?", pattern))
    if beginning:
        yield QUERIES.c.qid >= beginning
        yield QUERIES.c.qid < beginning[:-1] + chr(ord(beginning[-1]) + 1)
    if pattern == beginning + "*":
        return
    if connection.dialect.name == "sqlite":
        # LIKE takes upper and lower case for the same there.
        yield QUERIES.c.qid.op("glob", is_comparison=True)(pattern.replace("[", "[[]"))
        return
    text = "".join({"*": "%", "?": "_"}.get(c, f"\\{c}" if c in "\\%_" else c) for c in pattern)
    yield QUERIES.c.qid.like(text, escape="\\")


def _channel_lists(connection: Connection) -> list[str]:
    """Return the different texts in ``groups.channels``: there are few, and an index is walked from one to the next."""
    following = sa.select(sa.func.min(GROUPS.c.channels).label("text")).cte("lists", recursive=True)
    more = sa.select(sa.func.min(GROUPS.c.channels)).where(GROUPS.c.channels > following.c.text).scalar_subquery()
    lists = following.union_all(sa.select(more).where(following.c.text.is_not(None)))
    return [row.text for row in connection.execute(sa.select(lists.c.text)) if row.text is not None]
