"""Parts of what a listing finds: a short one first, because many readers look at the first page only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

__all__ = ["MOST", "growing_parts"]

_FIRST = 50
MOST = 500
"""Things of a part, at most."""
_Thing = TypeVar("_Thing")


def growing_parts(found: Iterator[_Thing]) -> Iterator[list[_Thing]]:
    """Cut what is found into parts.

    >>> [len(part) for part in growing_parts(iter(range(700)))]
    [50, 500, 150]
    """
    size = _FIRST
    while part := list(islice(found, size)):
        yield part
        size = MOST
