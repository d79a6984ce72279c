"""Spans of event files: between which numbers and times the events of a file lie, read from its footer.

Files never change, so their spans are kept in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow.parquet as pq

__all__ = ["EVERYTHING", "Events", "groups_with"]

_MOST = 8_192
"""Files whose spans are kept."""
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Events:
    """Events that are asked for; all bounds are included."""

    channel: str | None = None
    since: int = _LEAST
    """Least event time, microseconds."""
    until: int = _GREATEST
    first: int = 0
    """Least number."""
    last: int = _GREATEST

    @property
    def is_timed(self) -> bool:
        """Whether not every event time is asked for."""
        return (self.since, self.until) != (_LEAST, _GREATEST)


EVERYTHING = Events()


@dataclass(frozen=True, slots=True)
class _Group:
    """Least and greatest values of a row group by column; None: the footer does not tell."""

    docid: tuple[int, int] | None
    ts: tuple[int, int] | None
    channel: tuple[str, str] | None

    def may_have(self, wanted: Events) -> bool:
        """Tell whether events that are asked for may be in it."""
        return (
            (wanted.channel is None or self.channel is None or self.channel[0] <= wanted.channel <= self.channel[1])
            and (self.ts is None or (self.ts[0] <= wanted.until and self.ts[1] >= wanted.since))
            and (self.docid is None or (self.docid[0] <= wanted.last and self.docid[1] >= wanted.first))
        )


def groups_with(path: Path, wanted: Events) -> Sequence[int]:
    """Return the numbers of the row groups of a file that may have events that are asked for.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return [number for number, group in enumerate(_groups(path)) if group.may_have(wanted)]


@lru_cache(_MOST)
def _groups(path: Path) -> tuple[_Group, ...]:
    with pq.ParquetFile(path) as file:
        return tuple(_group(file.metadata.row_group(number)) for number in range(file.metadata.num_row_groups))


def _group(found: pq.RowGroupMetaData) -> _Group:
    spans = {}
    for number in range(found.num_columns):
        column = found.column(number)
        if column.path_in_schema in ("docid", "ts", "channel"):
            known = column.statistics
            told = known is not None and known.has_min_max
            spans[column.path_in_schema] = (known.min, known.max) if told else None
    return _Group(spans.get("docid"), spans.get("ts"), spans.get("channel"))
