"""Kinds of queries that a home has, remembered until its queries change.

Most homes lack most kinds, and what these need is not asked for then.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import Connection

from xscl.catalog.parts import has_parts
from xscl.catalog.queries import has_publishing
from xscl.catalog.query_state import QueryState

__all__ = ["Kinds", "KindsOfQueries"]


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of queries that are there, dropped ones included."""

    has_parts: bool
    """Whether some are made of parts: queries about absence, with steps, or with windows."""
    publish: bool
    """Whether some publish."""


class KindsOfQueries:
    """Memory of one process that works on a home."""

    def __init__(self) -> None:
        """Begin without anything."""
        self._state: QueryState | None = None
        self._kinds = Kinds(has_parts=False, publish=False)

    def read(self, connection: Connection, state: QueryState) -> Kinds:
        """Return the kinds of queries, whose state is given."""
        if state != self._state:
            self._kinds = Kinds(has_parts(connection), has_publishing(connection))
            self._state = state
        return self._kinds
