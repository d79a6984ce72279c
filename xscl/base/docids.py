"""Places in the intake order, and the document numbers that stand for them.

An event's docid is its place.  A published document is found with the last member of its match and takes that member's
place (docs/reference/language.md, Published channels), so its docid holds the place and a serial number: greater than
any place,
unique, and the same whenever the batch runs.  A leaf module: numbers here, ``place_sql`` for whoever asks in SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["PUBLISHED", "SERIAL_BITS", "place_of", "place_sql", "place_words", "published_docid", "serial_of"]

PUBLISHED = 1 << 62
"""Docids of published documents begin here."""
SERIAL_BITS = 24
"""Bits of the serial number of documents that are published at one place."""
_SERIALS = 1 << SERIAL_BITS

_Number = TypeVar("_Number", int, "npt.NDArray[np.int64]")


def published_docid(place: int, serial: int) -> int:
    """Return the docid of the published document ``serial`` (from 0) whose match's last member has this place."""
    assert 0 <= serial < _SERIALS and 0 <= place < PUBLISHED // _SERIALS
    return PUBLISHED + place * _SERIALS + serial


def place_of(docid: _Number) -> _Number:
    """Return the place in the intake order of a document, or of each of an array of documents.

    >>> place_of(7), place_of(published_docid(7, 3))
    (7, 7)
    """
    if isinstance(docid, int):
        return (docid - PUBLISHED) // _SERIALS if docid >= PUBLISHED else docid
    places, published = docid.copy(), docid >= PUBLISHED
    places[published] = (docid[published] - PUBLISHED) // _SERIALS
    return places


def serial_of(docids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the serial numbers of published documents."""
    return (docids - PUBLISHED) % _SERIALS


def place_words(sql: str) -> str:
    """Explain the great number of a statement in a comment before it, if the statement has that number.

    >>> print(place_words("select 4611686018427387904"))
    -- 4611686018427387904 is 2^62, where numbers of published documents begin; in any other column, it is no limit.
    select 4611686018427387904
    """
    if str(PUBLISHED) not in sql:
        return sql
    about = "where numbers of published documents begin; in any other column, it is no limit."
    return f"-- {PUBLISHED} is 2^62, {about}\n{sql}"


def place_sql(docid: str) -> str:
    """Write ``place_of`` of a column in Spark SQL."""
    # Behind the words array and struct, Spark's lexer takes no >>.
    return f"if({docid} >= {PUBLISHED}, shiftright({docid} - {PUBLISHED}, {SERIAL_BITS}), {docid})"
