"""Replacements: a match over a newer version of an item takes the place of an older match.

The replaced match is of the same query over the same members, but with the version before in place of the newest
version among them: of the members that are newer versions, the one that came last.  Where that combination has several
matches, the one with the same nodes is replaced, or else the one with the least id.  A match that no listing shows
replaces nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import product
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.matches.reader import FoundMatch, MatchReader, Part
from xscl.answers.matches.times import Times
from xscl.base.docids import place_of
from xscl.catalog.events import of_base
from xscl.catalog.parts import finders_of
from xscl.catalog.tables import BATCHES, EVENT_IDS, LATE, in_parts
from xscl.store.home import Home

__all__ = ["Replacements"]


class _Batch(NamedTuple):
    """A batch with matches."""

    first: int
    """Place of its first event."""
    last: int
    """Place of its last event."""
    batch: int
    path: str
    """Folder of its results."""


class Replacements:
    """Looks up what matches replace, among those that are committed when it is first asked."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._reader: MatchReader | None = None
        self._batches: list[_Batch] = []
        self._replayed: dict[int, int] = {}
        """Late events that were taken again, and where."""
        self._waiting: frozenset[int] = frozenset()
        """Groups whose matches are decided later than in the batch of their last member."""

    def of(self, found: Sequence[FoundMatch]) -> dict[str, str]:
        """Return the ids of replaced matches by the ids of the matches that replace them."""
        newest = {item.id: place for item in found if (place := _newest(item)) is not None}
        if not newest:
            return {}
        self._begin()
        newer = [item for item in found if item.id in newest]
        with self._home.catalog.read() as connection:
            before = _versions_before(connection, {item.match.docids[newest[item.id]] for item in newer})
        combinations: dict[str, list[tuple[int, ...]]] = {}
        wanted: dict[Part, set[tuple[int, ...]]] = {}
        for item in newer:
            place, docids = newest[item.id], item.match.docids
            for docid in before.get(docids[place], ()):
                combination = (*docids[:place], docid, *docids[place + 1 :])
                combinations.setdefault(item.id, []).append(combination)
                for part in self._parts_of(item, combination):
                    wanted.setdefault(part, set()).add(combination)
        there = self._matches(wanted)
        replaced = {}
        for item in newer:
            several = [
                (older.match.nodes != item.match.nodes, older.id)
                for combination in combinations.get(item.id, ())
                for older in there.get((item.query.query, combination), ())
            ]
            if several:
                replaced[item.id] = min(several)[1]
        return replaced

    def _begin(self) -> None:
        """Read what all look-ups need."""
        if self._reader is not None:
            return
        self._reader = MatchReader(self._home, None, Times())
        columns = BATCHES.c.first, BATCHES.c.last, BATCHES.c.batch, BATCHES.c.result_path
        with self._home.catalog.read() as connection:
            there = BATCHES.c.matches > 0, BATCHES.c.result_path.is_not(None)
            rows = connection.execute(sa.select(*columns).where(*there).order_by(BATCHES.c.first))
            self._batches = [_Batch(*row) for row in rows]
            replayed = sa.select(LATE.c.docid, LATE.c.replayed).where(LATE.c.replayed.is_not(None))
            self._replayed = {row.docid: row.replayed for row in connection.execute(replayed)}
            self._waiting = frozenset(finders_of(connection, 0))

    def _parts_of(self, item: FoundMatch, combination: Sequence[int]) -> set[Part]:
        """Return the batches that may have found a combination of documents as a match of the item's query.

        The batch of the last member has found the match, or the batch that answered the query from held events.  A
        query that waits may have answered in any batch from the last member's on.
        """
        assert self._reader is not None
        last = max(self._replayed.get(docid, place_of(docid)) for docid in combination)
        at = bisect_right(self._batches, last, key=lambda batch: batch.first) - 1
        if item.query.gid in self._waiting:
            begin = self._batches[at].batch if at >= 0 else 0
            return {part for part in self._reader.committed.parts if part.last >= begin}
        found = {self._batches[at]} if at >= 0 and self._batches[at].last >= last else set()
        found |= {batch for batch in self._batches if batch.batch == item.query.filled}
        return {Part(batch.path, batch.batch, batch.batch) for batch in found}

    def _matches(self, wanted: dict[Part, set[tuple[int, ...]]]) -> dict[tuple[int, tuple[int, ...]], list[FoundMatch]]:
        """Read the matches of some combinations that hold, by query and combination."""
        assert self._reader is not None
        found: dict[tuple[int, tuple[int, ...]], list[FoundMatch]] = {}
        for part, combinations in sorted(wanted.items()):
            for match in self._reader.of_documents(part, combinations):
                found.setdefault((match.query.query, match.match.docids), []).append(match)
        return found


def _newest(item: FoundMatch) -> int | None:
    """Find the block of the newer version that came last; None if all members are first versions."""
    newer = [
        (place_of(docid), docid, place)
        for place, (docid, member) in enumerate(zip(item.match.docids, item.members, strict=True))
        if member.version > 1
    ]
    return max(newer)[2] if newer else None


def _versions_before(connection: Connection, docids: Collection[int]) -> dict[int, list[int]]:
    """Find the events of the version before newer versions; several where streams brought copies."""
    mine, older = EVENT_IDS.alias("mine"), EVENT_IDS.alias("older")
    same = [mine.c[name] == older.c[name] for name in ("channel", "item")]
    pairs = sa.select(mine.c.docid, older.c.docid).where(*same, older.c.version == mine.c.version - 1).distinct()
    found: dict[int, list[int]] = {}
    for part, here in product(in_parts(sorted(docids)), of_base(older, mine.c.base)):
        for docid, before in connection.execute(pairs.where(mine.c.docid.in_(part), here)):
            found.setdefault(docid, []).append(before)
    return found
