"""Channels that queries publish rows to: the first of these queries gives a channel its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.catalog.channels import put_channel, read_channels
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import NEVER, QUERIES
from xscl.ingest.rows import COLUMN_TYPES

__all__ = ["make_row_channel", "require_target"]

Columns = Mapping[str, str]
_KINDS = {"bigint": "number", "double": "number", "decimal": "number"}


def require_target(connection: Connection, target: str, columns: Columns | None) -> None:
    """Refuse a channel to publish to that takes something else; ``columns`` None: documents are published.

    Raises:
        CatalogError: ``XSCL_CHANNEL_KIND``; ``XSCL_PUBLISH_COLUMNS``: its rows have other columns.
    """
    channel = read_channels(connection).get(target)
    if columns is None:
        if channel is not None and channel.kind == "rows":
            raise CatalogError(
                "XSCL_CHANNEL_KIND",
                f"the channel {target!r} takes rows, and PUBLISH appends documents",
                hint="publish to a channel of another name, or write PUBLISH … AS ROWS",
            )
        return
    publishing = QUERIES.c.publish == target, QUERIES.c.docid_until == NEVER
    if channel is None and connection.execute(sa.select(QUERIES.c.query).where(*publishing).limit(1)).first() is None:
        return
    if channel is None or channel.kind != "rows":
        raise CatalogError(
            "XSCL_CHANNEL_KIND",
            f"the channel {target!r} takes documents, and PUBLISH … AS ROWS appends rows",
            hint="publish to a channel of another name, or leave out AS ROWS",
        )
    if channel.schema is not None:
        _require_columns(target, channel.schema, columns)


def _require_columns(target: str, known: Mapping[str, str | None], columns: Columns) -> None:
    """Refuse rows of other columns than a channel has."""
    shown = ", ".join(f"{name} {type_ or 'of any type'}" for name, type_ in known.items())
    if known.keys() != columns.keys():
        differ = sorted(known.keys() ^ columns.keys())
        raise CatalogError(
            "XSCL_PUBLISH_COLUMNS",
            f"the rows of {target!r} have other columns: {shown}; {differ[0]} is only on one side",
            hint="name the items of SELECT as its columns, or publish to a channel of another name",
        )
    for name, type_ in columns.items():
        there = known[name]
        # Texts are taken for whatever they turn out to be, and a column of texts takes everything.
        if there not in (None, "string") and type_ != "string" and _kind(there) != _kind(type_):
            raise CatalogError(
                "XSCL_PUBLISH_COLUMNS",
                f"the rows of {target!r} have other columns: {shown}; the query publishes {name} {type_}",
                hint="publish to a channel of another name",
            )


def _kind(type_: str | None) -> str:
    assert type_ in COLUMN_TYPES
    return _KINDS.get(type_, type_)


def make_row_channel(connection: Connection, target: str, columns: Columns) -> ChannelInfo | None:
    """Make a channel with these columns, or give one the columns and types that it lacks; None: it has all."""
    channel = read_channels(connection).get(target)
    if channel is None:
        made = replace(ChannelInfo.new(target, "rows"), schema=dict(columns))
    else:
        known = channel.schema or dict.fromkeys(columns)
        made = replace(channel, schema={name: type_ or columns[name] for name, type_ in known.items()})
    if made == channel:
        return None
    put_channel(connection, made)
    return made
