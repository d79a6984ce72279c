"""Rows of links in the driver, by the events of their members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from xscl.templates.columns import Bools, Int64s
from xscl.templates.partial_matches import Members, members_of

__all__ = ["LinkRow", "LinkRows"]


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A row of a link and the number of the batch that added it."""

    members: Members
    nodes: tuple[int, ...]
    batch: int


class LinkRows:
    """Rows of links, indexed by either member's event."""

    def __init__(self) -> None:
        self._rows: defaultdict[tuple[int, int, str], list[LinkRow]] = defaultdict(list)
        """Rows by link, side (0 or 1) and ``Member.place``: each row twice."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: pa.Table, batch: int) -> None:
        """Add the rows (link, members, nodes) of a batch."""
        self._count += rows.num_rows
        for row in rows.select(["link", "members", "nodes"]).to_pylist():
            members = members_of(row["members"])
            added = LinkRow(members, tuple(row["nodes"]), batch)
            for side, member in enumerate(members):
                assert member is not None
                self._rows[row["link"], side, member.place].append(added)

    def of_event(self, link: int, side: int, place: str) -> Sequence[LinkRow]:
        """Return the rows of a link with an event, or a stream's copy of it, on one side."""
        return self._rows.get((link, side, place), ())

    def purge(self, keep: Callable[[Int64s, Int64s, Int64s], Bools]) -> None:
        """Forget rows; ``keep`` tells by links and the event times of left and right members which ones stay."""
        entries = [(key, row) for key, rows in self._rows.items() for row in rows]
        if not entries:
            return
        times = np.array([[m.ts for m in row.members if m is not None] for _, row in entries], dtype=np.int64)
        stays = keep(np.array([key[0] for key, _ in entries], dtype=np.int64), times[:, 0], times[:, 1])
        if stays.all():
            return
        self._count = int(stays.sum()) // 2
        self._rows = defaultdict(list)
        for (key, row), stay in zip(entries, stays.tolist(), strict=True):
            if stay:
                self._rows[key].append(row)
