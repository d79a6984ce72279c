"""Compiling registered queries again, as columns of their channels become known."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.channels import read_facts
from xscl.catalog.queries import LIVE, regroup
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import GROUPS, QUERIES, in_parts
from xscl.language.compile import compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.forms import Prepared, Preparer
from xscl.language.syntax.parser import parse_query
from xscl.registry.levels import levelled
from xscl.registry.loading import Loading
from xscl.registry.memory import Memory
from xscl.registry.query_list import reads

__all__ = ["compile_info", "refresh"]

_CHUNK = 2_000
"""Queries written together."""


def refresh(memory: Memory, connection: Connection, channel: str, before: ChannelFacts | None) -> None:
    """Compile queries over a channel again, now that its columns are known; ``before`` is what was known of it.

    No event of the channel came before its first row, so it is as if they had been registered with this knowledge.
    """
    facts = read_facts(connection)
    before, now = before or ChannelFacts(), facts.get(channel, ChannelFacts())
    if (before.numeric, before.texts, before.times) == (now.numeric, now.texts, now.times):
        return  # groups depend on nothing else
    preparers: dict[str, Preparer] = {}

    def prepare(text: str, namespaces: str) -> Prepared:
        if namespaces not in preparers:
            preparers[namespaces] = memory.preparer(namespaces, facts)
        return preparers[namespaces].prepare_text(text)

    reading = sa.select(QUERIES.c.gid).where(LIVE, reads(connection, channel)).distinct()
    grown = before.numeric <= now.numeric
    # What is made here is known to this transaction alone, which may be rolled back.
    loading = Loading(connection, memory.known)
    for gids in in_parts(connection.scalars(reading.order_by(QUERIES.c.gid)).all()):
        groups = connection.execute(sa.select(GROUPS).where(GROUPS.c.gid.in_(gids))).all()
        changed = [
            row.gid
            for row in groups
            if not (grown and _keeps_group(row.key, prepare(row.text, row.namespaces).compiled))
        ]
        if not changed:
            continue
        columns = QUERIES.c.query, QUERIES.c.text, QUERIES.c.namespaces, QUERIES.c.level
        statement = sa.select(*columns).where(LIVE, QUERIES.c.gid.in_(changed))
        rows = connection.execute(statement.order_by(QUERIES.c.query)).all()
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            found = [
                (row.query, row.text, row.namespaces, levelled(prepare(row.text, row.namespaces), row.level))
                for row in part
            ]
            numbers = loading.put_groups(one[1:] for one in found)
            regroup(connection, (_regrouped(query, prepared, numbers) for query, _, _, prepared in found))


def _regrouped(query: int, prepared: Prepared, numbers: Mapping[str, int]) -> tuple[int, int, str, str]:
    """Return (query, group, template, names) of a query that was compiled again."""
    compiled = prepared.compiled
    return query, numbers[compiled.group.key], compiled.template.id, prepared.names


def compile_info(info: QueryInfo, facts: Mapping[str, ChannelFacts]) -> CompiledQuery:
    """Compile a registered query again."""
    return compile_query(parse_query(info.text), info.text, namespaces=info.namespaces, channels=facts)


def _keeps_group(key: str, compiled: CompiledQuery) -> bool:
    """Whether all queries of a group stay in it when columns were added, told from what its text compiles to now."""
    # Comparisons in order with and without arithmetic (x < y, x < y + 0) are one group until both are known as texts.
    return key == compiled.group.key and all(join.kind != "BAND" for join in compiled.group.instance.joins)
