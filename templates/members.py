"""The streams of its channel that a document belongs to, and the blocks that see it.

A document is *whole* where its channel has it, or else a copy that a stream brought later; a block that names the
channel sees documents that are whole, one that names a stream those that belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["NONE", "Membership", "sees"]


class Membership(NamedTuple):
    """The streams of a document by number, and whether it is whole."""

    streams: frozenset[int] = frozenset()
    whole: bool = True


NONE = Membership()
"""The membership of a document of the channel alone, whose number is 0."""


def sees(memberships: Mapping[int, Membership], stream: int, number: int) -> bool:
    """Tell whether a block that names ``stream`` (0: the channel) sees documents of the membership ``number``.

    >>> some = {1: Membership(frozenset({7})), 2: Membership(frozenset({8}), whole=False)}
    >>> [[sees(some, stream, number) for number in (0, 1, 2)] for stream in (0, 7, 8)]
    [[True, True, False], [False, True, False], [False, False, True]]
    """
    membership = NONE if number == 0 else memberships[number]
    return membership.whole if stream == 0 else stream in membership.streams
