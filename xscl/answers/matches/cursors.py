"""Places in the order in which matches were committed, and their texts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xscl.base.errors import EngineError

__all__ = ["START", "Cursor", "parse_cursor", "refuse_ahead"]

_NUMBERS = r"-?\d{1,19}(?:_-?\d{1,19})*"
_TEXT = re.compile(rf"c(\d{{1,18}})(?:\.({_NUMBERS})\.(\d{{1,18}})\.((?:{_NUMBERS})?))?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the order of commits: before a batch, or right behind one of its matches.

    Batches come in the order of their numbers, matches of a batch in that of their documents, queries and nodes.  All
    of these stay, whatever becomes of the files that hold them, so a cursor has one meaning for ever.
    """

    batch: int
    """Number of the batch."""
    docids: tuple[int, ...] = ()
    """Documents of the match before the cursor, in block order; empty before all matches of the batch."""
    query: int = 0
    """Number of the match's query."""
    nodes: tuple[int, ...] = ()
    """Result nodes of the match, in block order."""

    def is_behind(self, other: Cursor) -> bool:
        """Tell whether another place comes before this one."""
        here = self.batch, self.docids, self.query, self.nodes
        return here > (other.batch, other.docids, other.query, other.nodes)

    def __str__(self) -> str:
        if not self.docids:
            return f"c{self.batch}"
        return f"c{self.batch}.{_joined(self.docids)}.{self.query}.{_joined(self.nodes)}"


START = Cursor(0)
"""Before everything."""


def parse_cursor(text: str) -> Cursor:
    """Read the cursor that a text stands for; ``start`` is before everything.

    Raises:
        EngineError: ``XSCL_BAD_CURSOR``.

    >>> parse_cursor("c3"), str(parse_cursor("c3.7_8.2.1_0"))
    (Cursor(batch=3, docids=(), query=0, nodes=()), 'c3.7_8.2.1_0')
    """
    text = text.strip()
    if text == "start":
        return START
    found = _TEXT.match(text)
    if found is None:
        raise EngineError(
            "XSCL_BAD_CURSOR",
            f"{text[:100]!r} is no cursor",
            hint="take one as a listing gave it; 'start' stands before all matches",
        )
    batch, docids, query, nodes = found.groups()
    if docids is None:
        return Cursor(int(batch))
    return Cursor(int(batch), _parts(docids), int(query), _parts(nodes))


def refuse_ahead(cursor: Cursor, last: int) -> None:
    """Refuse a cursor that a home whose last batch is ``last`` cannot have given.

    Raises:
        EngineError: ``XSCL_BAD_CURSOR``.
    """
    if cursor.batch > last + 1:
        raise EngineError(
            "XSCL_BAD_CURSOR",
            f"cursor {cursor} is ahead of all that was committed here (batch {last})",
            hint="a cursor belongs to the home that gave it; 'start' stands before all matches",
        )


def _joined(numbers: tuple[int, ...]) -> str:
    return "_".join(map(str, numbers))


def _parts(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("_"))) if text else ()
