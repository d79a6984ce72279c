"""Checks of channels whose documents may be removed again: who reads them takes matches back, too.

A query that publishes and takes matches back removes their documents from its channel.  A reader that keeps its matches
would go on telling of what holds no longer, so it is refused, whichever of the two comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import IS_LISTED, IS_RETRACTING, NOTHING_FORBIDDEN, PARTS, QUERIES
from xscl.registry.publish_graph import is_feeding
from xscl.registry.query_list import reads

__all__ = ["Retracting", "keeps_retracted"]

_CORRECTS = sa.or_(
    PARTS.c.ends == NOTHING_FORBIDDEN,
    sa.and_(PARTS.c.blocking.is_not(None), PARTS.c.memory.is_distinct_from(PARTS.c.blocking)),
)
"""Condition that matches of a query with such a part may be taken back."""


class Retracting:
    """Channels whose documents may be removed again, as one transaction sees them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, str | None] = {}
        """A query that removes documents from a channel, by channel."""

    def add(self, name: str, target: str) -> None:
        """Note a query of this transaction that publishes and takes matches back."""
        self._known[target] = name

    def forget(self) -> None:
        """Forget what was read: queries were dropped."""
        self._known.clear()

    def first_of(self, channels: Iterable[str]) -> tuple[str, str] | None:
        """Return the first of some channels whose documents may be removed again, and a query that removes them."""
        for channel in channels:
            if channel not in self._known:
                self._known[channel] = self._connection.scalar(*_publishers(channel))
            if (name := self._known[channel]) is not None:
                return channel, name
        return None

    def refuse_readers(self, target: str) -> None:
        """Refuse to remove documents of a channel that a query reads which keeps its matches.

        Raises:
            CatalogError: ``XSCL_KEEPS_RETRACTED``.
        """
        follows = sa.exists().where(PARTS.c.gid == QUERIES.c.gid, IS_RETRACTING)
        wanted = IS_LISTED, reads(self._connection, target), ~follows
        name = self._connection.scalar(sa.select(QUERIES.c.qid).where(*wanted).order_by(QUERIES.c.qid).limit(1))
        if name is not None:
            raise CatalogError(
                "XSCL_KEEPS_RETRACTED",
                f"matches of this query may be taken back, and query {name} would keep what it made of them",
                hint=f"publish to another channel, drop {name} and give it ON CHANGE RETRACT, or ask for final answers "
                "(CONSISTENCY STRONG)",
            )


@prepared
def _publishers(channel: str) -> sa.Select[Any]:
    """Select a query that publishes to a channel and takes matches back."""
    joined = sa.select(QUERIES.c.qid).join(PARTS, sa.and_(PARTS.c.gid == QUERIES.c.gid, PARTS.c.number == 0))
    return joined.where(is_feeding(channel), _CORRECTS).limit(1)


def keeps_retracted(channel: str, publisher: str) -> CatalogError:
    """Return the refusal of a query that keeps its matches, and reads a channel whose documents go again."""
    return CatalogError(
        "XSCL_KEEPS_RETRACTED",
        f"query {publisher} publishes to {channel} and may take its matches back, and this query would keep what it "
        "made of them",
        hint=f"ON CHANGE RETRACT, or have {publisher} publish final answers: CONSISTENCY STRONG, or a lateness of its "
        "channels before it is registered",
    )
