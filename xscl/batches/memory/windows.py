"""Windows as this process remembers them from batch to batch: who asks for them, and the rows that are kept.

Nothing of it decides an answer: who asks is what the catalogue says, and the rows are those of the file that it names.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from xscl.batches.function_failures import own_terms
from xscl.batches.ranges import BatchRange
from xscl.batches.windows.buckets import Shape
from xscl.batches.windows.families import Family, Member, families, identity
from xscl.batches.windows.rows import Kept, read_kept
from xscl.batches.windows.stores import Store, stores_of
from xscl.catalog.catalog import Catalog
from xscl.catalog.query_state import QueryState
from xscl.catalog.windows import Reader, Windowed, Windows, groups_of_windows_alone, read_windows
from xscl.language.aggregates import Definition, variable_blocks
from xscl.language.outlines.windows import known_definition
from xscl.language.terms import Term
from xscl.language.variable_paths import stream_of

__all__ = ["Asked", "Part", "WindowMemory"]

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
    stores: Mapping[Shape, Store]
    """Buckets that several families may share."""
    own: tuple[tuple[int, Term], ...]
    """Terms that call functions of one's own, by the number of the group."""
    once: tuple[Member, ...]
    """Members that note when they have told of a group."""
    blocks: tuple[int, ...]
    """Block of each variable."""
    channels: tuple[str, ...]
    level: int
    """Level of the batch behind which its matches are found."""
    channel: Hashable
    """Parts of equal ones select from the same events, and bind the same variables; None: no other part does."""


class Asked(NamedTuple):
    """Windows that somebody asks for."""

    parts: Mapping[int, Part] = {}
    shared: Sequence[tuple[int, ...]] = ()
    """Parts that share their rows, ascending."""
    readers: Mapping[int, Sequence[Reader]] = {}
    """Who asks, by group."""
    alone: frozenset[int] = frozenset()
    """Parts that nothing but windows is over."""


@dataclass
class WindowMemory:
    """Memory of one process that works on a home."""

    shares: bool = True
    """Whether parts that select from one channel share rows."""
    _state: QueryState | None = None
    """State of the catalogue in which was read who asks."""
    _windows: Windows = field(default_factory=Windows)
    _alone: frozenset[int] = frozenset()
    """Groups that nothing but windows is over."""
    _levels: _Levels = ()
    _asked: Asked = field(default_factory=Asked)
    _path: Path | None = None
    _kept: Kept = field(default_factory=Kept)

    def asked(self, catalog: Catalog, span: BatchRange, levels: _Levels) -> Asked:
        """Return the parts with windows that somebody asks for in a range of places, and who does."""
        if span.queries != self._state or not self._windows.range.has(span.first, span.last):
            with catalog.read() as connection:
                self._windows = read_windows(connection, span.first, span.last)
                self._alone = frozenset(groups_of_windows_alone(connection) if self._windows.groups else ())
            self._state, self._asked = span.queries, Asked()
        if self._levels != levels or not self._asked.parts:
            self._levels = levels
            by_part: dict[int, list[Windowed]] = {}
            for each in self._windows.groups:
                by_part.setdefault(each.part, []).append(each)
            parts = {part: _part(groups, levels, self._windows.readers) for part, groups in by_part.items()}
            alone = self._alone & parts.keys()
            self._asked = Asked(parts, _sharing(parts, self.shares), self._windows.readers, alone)
        return self._asked

    def rows(self, path: Path | None) -> Kept:
        """Return the rows of a file; None: there are none."""
        kept = self._kept if path is not None and path == self._path else read_kept(path)
        # A batch that fails leaves what was remembered.
        told = {gid: dict(of) for gid, of in kept.told.items()}
        return Kept(dict(kept.rows), dict(kept.answered), dict(kept.settled), dict(kept.buckets), told, kept.waits)

    def remember(self, path: Path, kept: Kept) -> None:
        """Remember the rows that a file has."""
        self._path, self._kept = (path, kept) if kept.nbytes <= _MOST_BYTES else (None, Kept())


def _sharing(parts: Mapping[int, Part], shares: bool) -> tuple[tuple[int, ...], ...]:
    """Return parts that share their rows."""
    found: dict[Hashable, list[int]] = {}
    for number, part in sorted(parts.items()):
        alone = not shares or part.channel is None
        found.setdefault((number, None) if alone else (None, part.channel), []).append(number)
    return tuple(map(tuple, found.values()))


def _part(groups: Sequence[Windowed], levels: _Levels, readers: Mapping[int, Sequence[Reader]]) -> Part:
    definitions = _definitions(groups)
    members = [
        Member(gid, of, tuple(sorted({reader.since for reader in readers[gid]}))) for gid, of in definitions.items()
    ]
    one = groups[0]
    paths = stream_of(one.part_text)
    of_kinds = tuple(families(members))
    return Part(
        {each.gid: each for each in groups},
        definitions,
        of_kinds,
        stores_of(of_kinds),
        tuple(_own(definitions)),
        tuple(each for each in members if each.definition.once_per is not None),
        variable_blocks(one.part_text, tuple(sorted(one.namespaces.items()))),
        one.channels,
        max((number for number, names in enumerate(levels, 1) if names & {*one.channels}), default=0),
        None if paths is None else (one.channels, paths),
    )


def _definitions(groups: Sequence[Windowed]) -> dict[int, Definition]:
    """Return the definitions of groups by their numbers."""
    several = {id(each.namespaces): each.namespaces for each in groups}
    namespaces = {number: tuple(sorted(of.items())) for number, of in several.items()}
    return {each.gid: known_definition(each.text, namespaces[id(each.namespaces)], each.part_text) for each in groups}


def _own(definitions: Mapping[int, Definition]) -> Iterator[tuple[int, Term]]:
    """Yield the terms that call functions of one's own, each with the number of its group."""
    known: dict[tuple[int, int, int], list[Term]] = {}
    for gid, of in definitions.items():
        same = identity(of)
        if same not in known:
            known[same] = own_terms(_terms(of))
        yield from ((gid, term) for term in known[same])


def _terms(definition: Definition) -> tuple[Term, ...]:
    """Return the terms of a definition: of its groups, and of the values that it counts."""
    counted = tuple([each.term for each in definition.aggregates if each.term is not None])
    return (*definition.group, *definition.per, *counted)
