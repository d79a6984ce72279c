"""Attributes of streams that texts in CEL name: columns of rows, and what queries publish."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.channels import read_channels
from xscl.catalog.tables import NEVER, QUERIES
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query
from xscl.language.terms import item_name

__all__ = ["stream_schemas"]

_MOST = 1_000
"""Queries that publish which are asked for what they publish."""


def stream_schemas(
    connection: Connection, facts: Mapping[str, ChannelFacts], names: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the attributes of those of some streams whose attributes are known, by name."""
    channels = read_channels(connection)
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted({*names} & facts.keys()):
        channel = channels.get(facts[name].channel or name)
        if channel is not None and channel.kind == "rows":
            found[name] = tuple(channel.schema or ())
    published = (QUERIES.c.publish.in_(sorted({*names} - found.keys())), QUERIES.c.docid_until == NEVER)
    statement = sa.select(QUERIES.c.publish, QUERIES.c.text).where(*published).order_by(QUERIES.c.query)
    selected: dict[str, list[tuple[str, ...]]] = {}
    for name, text in connection.execute(statement.limit(_MOST)):
        select = parse_query(text).select
        selected.setdefault(name, []).append(tuple(map(item_name, select)) if isinstance(select, tuple) else ())
    for name, lists in selected.items():
        # Several queries may feed a channel: their documents have in common what all of them select.
        common = tuple(each for each in lists[0] if all(each in others for others in lists))
        if common:
            found[name] = common
    return found
