"""Windows as this process remembers them from batch to batch: who asks for them, and the rows that are kept.

Nothing of it decides an answer: who asks is what the catalogue says, and the rows are those of the file that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import Connection

from xscl.batches.aggregate_families import Family, Member, families
from xscl.batches.aggregate_rows import Kept, read_kept
from xscl.catalog.windows import Reader, Windowed, Windows, read_windows, windows_state
from xscl.language.aggregates import Definition, known_definition, variable_blocks

__all__ = ["Part", "WindowMemory"]

_MOST_BYTES = 1 << 28
"""Bytes of rows that are remembered at most; more are read again."""
_Levels = Sequence[frozenset[str]]
"""Channels of each level of publishing."""


@dataclass(frozen=True, slots=True)
class Part:
    """Common facts of the windows over the matches of a part."""

    groups: Mapping[int, Windowed]
    """Groups of queries by their numbers."""
    definitions: Mapping[int, Definition]
    families: tuple[Family, ...]
    once: tuple[Member, ...]
    """Members that note when they have told of a group."""
    blocks: tuple[int, ...]
    """Block of each variable."""
    channels: tuple[str, ...]
    level: int
    """Level of the batch behind which its matches are found."""


@dataclass
class WindowMemory:
    """Memory of one process that works on a home."""

    _state: object = None
    """State of the catalogue in which was read who asks."""
    _windows: Windows = field(default_factory=Windows)
    _levels: _Levels = ()
    _parts: dict[int, Part] = field(default_factory=dict)
    _path: Path | None = None
    _kept: Kept = field(default_factory=Kept)

    def asked(
        self, connection: Connection, first: int, last: int, levels: _Levels
    ) -> tuple[dict[int, Part], Mapping[int, Sequence[Reader]]]:
        """Return the parts with windows that somebody asks for in a range of places, and who does, by group."""
        state = windows_state(connection)
        if state != self._state or not self._windows.hold(first, last):
            self._windows = read_windows(connection, first, last)
            self._state, self._parts = state, {}
        if self._levels != levels or not self._parts:
            self._levels = levels
            by_part: dict[int, list[Windowed]] = {}
            for each in self._windows.groups:
                by_part.setdefault(each.part, []).append(each)
            self._parts = {part: _part(groups, levels, self._windows.readers) for part, groups in by_part.items()}
        return self._parts, self._windows.readers

    def rows(self, path: Path | None) -> Kept:
        """Return the rows of a file; None: there are none."""
        kept = self._kept if path is not None and path == self._path else read_kept(path)
        # A batch that fails leaves what was remembered.
        told = {gid: dict(of) for gid, of in kept.told.items()}
        return Kept(kept.rows, dict(kept.answered), dict(kept.settled), told, kept.waits)

    def remember(self, path: Path, kept: Kept) -> None:
        """Remember the rows that a file has."""
        small = kept.rows.nbytes <= _MOST_BYTES
        self._path, self._kept = (path, kept) if small else (None, Kept())


def _part(groups: Sequence[Windowed], levels: _Levels, readers: Mapping[int, Sequence[Reader]]) -> Part:
    definitions = {
        each.gid: known_definition(each.text, tuple(sorted(each.namespaces.items())), each.part_text) for each in groups
    }
    members = [
        Member(gid, of, tuple(sorted({reader.since for reader in readers[gid]}))) for gid, of in definitions.items()
    ]
    one = groups[0]
    return Part(
        {each.gid: each for each in groups},
        definitions,
        tuple(families(members)),
        tuple(each for each in members if each.definition.once_per is not None),
        variable_blocks(one.part_text, tuple(sorted(one.namespaces.items()))),
        one.channels,
        max((number for number, names in enumerate(levels, 1) if names & {*one.channels}), default=0),
    )
