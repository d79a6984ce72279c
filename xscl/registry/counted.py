"""Row windows and published channels: what queries publish has no order of its own in which it could be counted.

A published document has the place of its match, and a query that is answered from history publishes old ones.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.catalog.tables import NEVER, QUERIES
from xscl.language.compiled import CompiledQuery
from xscl.language.row_windows import row_windows
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.language.terms import bound
from xscl.registry.query_list import reads

__all__ = ["refuse_counted", "refuse_counting"]


def refuse_counted(compiled: CompiledQuery, is_published: Callable[[str], bool]) -> None:
    """Refuse a query that counts the events of a channel to which queries publish.

    Raises:
        CatalogError: ``XSCL_ROW_WINDOW``.
    """
    for count, channel in zip(compiled.group.rows, compiled.channels, strict=False):
        if count and is_published(channel):
            raise CatalogError(
                "XSCL_ROW_WINDOW",
                f"LAST {count} OF counts the events of {channel}, and queries publish to {channel}: only "
                "ingested events can be counted",
                hint="write a time window, or count the events of a channel that the publishers read",
            )


def refuse_counting(connection: Connection, target: str) -> None:
    """Refuse to publish to a channel whose events a live query counts.

    Raises:
        CatalogError: ``XSCL_ROW_WINDOW``.
    """
    may_count = QUERIES.c.docid_until == NEVER, QUERIES.c.text.ilike("%last%"), reads(connection, target)
    for row in connection.execute(sa.select(QUERIES.c.qid, QUERIES.c.text).where(*may_count)):
        if target in _counted(parse_query(row.text)):
            raise CatalogError(
                "XSCL_ROW_WINDOW",
                f"the query {row.qid} counts the events of {target}: nothing can be published to it",
                hint=f"publish to another channel, or drop {row.qid} first",
            )


def _counted(query: ast.Query) -> set[str]:
    """Return the channels whose events a query counts."""
    names = {window.of for window in row_windows(query.source)}
    return {block.channel for block in ast.blocks(query.source) if names.intersection(bound(block))}
