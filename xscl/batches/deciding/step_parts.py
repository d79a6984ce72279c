"""Matches of parts that batches have found, as rows of the steps over them, with the queries that have each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from xscl.batches.attempt import Attempt
from xscl.batches.bindings import groups_of, of_meanings
from xscl.batches.deciding.edited import paths_since
from xscl.batches.steps.matches import part_rows
from xscl.batches.steps.rows import Layout, Rows, joined_rows
from xscl.batches.windows.rows import Found, in_order, members_of, rows_of
from xscl.catalog.late import replayed_among
from xscl.language.steps.terms import StepsDefinition
from xscl.store.home import Home
from xscl.store.parquet import data_files
from xscl.store.results import Results
from xscl.templates.absence import Settled
from xscl.templates.columns import Bools, Int64s, numbered_rows
from xscl.templates.sequences.member_sets import MemberSets

__all__ = ["PartMatches", "PartMembers", "all_results", "remembered", "versions_of", "with_replayed"]


@dataclass(frozen=True, slots=True)
class PartMembers:
    """Queries that share a step, as those that read one of its parts."""

    of: Mapping[int, Int64s]
    """Members by the group that finds the part's matches for them."""
    since: Int64s
    """Place after which each member sees events."""
    sets: MemberSets

    @property
    def groups(self) -> tuple[int, ...]:
        """Return the groups."""
        return tuple(sorted(self.of))


@dataclass(frozen=True, slots=True)
class _Look:
    """Outcome of one look at the results, for the parts that were asked for then."""

    found: Sequence[tuple[Int64s, Int64s, Int64s]]
    """Documents, nodes, and the number of the meaning of each match."""
    meaning: Int64s
    """Meanings and the groups that have them."""
    group: Int64s
    events: pa.Table

    def having(self, groups: Collection[int]) -> Bools:
        """Tell which of its meanings some groups have."""
        count = max((int(meant.max(initial=-1)) for _, _, meant in self.found), default=-1) + 1
        found = np.zeros(max(count, int(self.meaning.max(initial=-1)) + 1), dtype=np.bool_)
        found[self.meaning[np.isin(self.group, np.array(sorted(groups), dtype=np.int64))]] = True
        return found


def with_replayed(home: Home, events: pa.Table, last: int) -> pa.Table:
    """Return events by ``members_of``; those that were replayed at places up to ``last`` are not late.

    Every memory reaches back to them, as if they had not come behind any clock.
    """
    late, docids = events.column("late").to_numpy(), events.column("docid").to_numpy()
    if not late.any():
        return events
    behind = np.where(late, 0, events.column("behind").to_numpy())
    events = events.set_column(events.schema.get_field_index("behind"), "behind", pa.array(behind))
    with home.catalog.read() as connection:
        again = replayed_among(connection, docids[late].tolist(), last)
    left = late & ~np.isin(docids, np.array(sorted(again), np.int64))
    return events.set_column(events.schema.get_field_index("late"), "late", pa.array(left))


def versions_of(events: pa.Table) -> dict[int, int]:
    """Return the newer versions among events by ``members_of``, with their items."""
    docids, items = (events.column(name).to_numpy() for name in ("docid", "item"))
    newer = docids != items
    return dict(zip(docids[newer].tolist(), items[newer].tolist(), strict=True))


def all_results(batch: Attempt) -> list[str]:
    """Return the results of all batches before one."""
    with batch.home.catalog.read() as connection:
        return batch.home.results(paths_since(connection, 0))


@dataclass
class PartMatches:
    """Matches of parts in one batch, or in all batches up to one."""

    batch: Attempt
    whole: bool = False
    """Whether those of earlier batches are among them, as far as their events are there."""
    known: set[int] = field(default_factory=set)
    """Parts that were looked for."""
    _looks: list[_Look] = field(default_factory=list)
    _tables: dict[tuple[object, ...], list[tuple[pa.Table, Int64s, _Look]]] = field(default_factory=dict)
    """Matches as rows with their meanings, by parts."""

    def find(self, blocks: Mapping[int, Sequence[int]], published: Sequence[pa.Table]) -> None:
        """Look for the matches of parts; ``blocks`` are those of their variables, ``published`` what a batch made."""
        blocks = {part: of for part, of in blocks.items() if part not in self.known}
        self.known.update(blocks)
        home = self.batch.home
        results = Results(self._files())
        meanings = results.meanings(blocks)
        if not meanings:
            return
        found = [*of_meanings(results.combinations(meanings), meanings)]
        if not found:
            return
        wanted = [0] * any(map(len, blocks.values()))
        events = members_of(home, [Found(docs, nodes, wanted) for docs, nodes, _ in found], published)
        events = with_replayed(home, events, self.batch.span.last)
        known = events.column("docid").to_numpy()[~events.column("late").to_numpy()]
        in_time = [np.isin(docs, known).all(axis=1) for docs, _, _ in found]
        kept = [
            (docs[good], nodes[good], meant[good]) for (docs, nodes, meant), good in zip(found, in_time, strict=True)
        ]
        meaning, group = groups_of(meanings)
        mine = np.isin(group, np.array(sorted(blocks), dtype=np.int64))
        self._looks.append(_Look(kept, meaning[mine], group[mine], events))

    def _files(self) -> list[str | Path]:
        folder = self.batch.home.root / self.batch.results
        own: list[str | Path] = [*(data_files(folder) if folder.exists() else ())]
        return [*all_results(self.batch), *own] if self.whole else own

    def some(self, groups: Collection[int]) -> bool:
        """Whether anything was found for some parts."""
        parts = np.array(sorted(groups), dtype=np.int64)
        return any(bool(np.isin(look.group, parts).any()) for look in self._looks)

    def versions(self) -> dict[int, int]:
        """Return the newer versions among the documents of what was found, with their items."""
        return {docid: item for look in self._looks for docid, item in versions_of(look.events).items()}

    def rows(
        self,
        definition: StepsDefinition,
        layout: Layout,
        number: int,
        members: PartMembers,
        settled: Sequence[Settled],
        memory: int | None = None,
    ) -> Rows:
        """Return the matches of a part that are in time, with the members that have them.

        Args:
            definition: the steps.
            layout: their places.
            number: the part.
            members: who reads it.
            settled: times of its channels, behind which matches come too late.
            memory: how far behind their clocks the events may have come; None: as far as the lateness.
        """
        found = []
        for table, meant, look in self._of(members.groups, definition.parts[number].blocks):
            came = table.column("came").to_numpy()
            # What comes behind the settled times is late, wherever batches are cut; of earlier batches it is marked so.
            good = np.ones(len(came), dtype=np.bool_)
            if not self.whole:
                good = table.column("ts").to_numpy() >= np.minimum.reduce([each.at(came - 1) for each in settled])
            rows = part_rows(definition, layout, number, table.filter(pa.array(good)), look.events)
            rows.base = _bases(members, look, meant[good], rows.first)
            blocks, _ = layout.of_parts(frozenset([number]))
            found.append(rows.take((rows.base >= 0) & remembered(rows.docs[:, blocks], look.events, memory)))
        return _once(joined_rows(found), members.sets) if found else Rows.empty(layout)

    def _of(self, groups: tuple[int, ...], blocks: Sequence[int]) -> list[tuple[pa.Table, Int64s, _Look]]:
        """Return the matches of parts as tables, with their meanings."""
        key = groups, tuple(blocks)
        if key not in self._tables:
            self._tables[key] = []
            for look in self._looks:
                having = look.having(groups)
                for docs, nodes, meant in look.found:
                    mine = having[meant]
                    if mine.any():
                        found = Found(docs[mine], nodes[mine], blocks)
                        table = rows_of(found, look.events, self.batch.span.clocks.channels)
                        table = table.append_column("part", pa.array(meant[mine]))
                        table = in_order(table)
                        self._tables[key].append((table, table.column("part").to_numpy(), look))
        return self._tables[key]


def remembered(docs: Int64s, events: pa.Table, memory: int | None) -> Bools:
    """Tell which documents of matches, a row each, came in time for a memory; ``events`` are by ``members_of``."""
    if memory is None:
        return np.ones(len(docs), dtype=np.bool_)
    at = np.searchsorted(events.column("docid").to_numpy(), docs)
    found: Bools = (events.column("behind").to_numpy()[at] <= memory).all(axis=1)
    return found


def _bases(members: PartMembers, look: _Look, meant: Int64s, first: Int64s) -> Int64s:
    """Return the sets of members that have some matches: those that see all their events; -1: nobody does."""
    since = np.unique(members.since)
    seen = np.searchsorted(since, first, "left")
    ones, which = numbered_rows([meant, seen])
    both = np.stack([meant[ones], seen[ones]], axis=1)
    order = np.argsort(look.meaning, kind="stable")
    ends = [np.searchsorted(look.meaning, both[:, 0], side, order) for side in ("left", "right")]
    found = []
    for (_, cell), low, high in zip(both.tolist(), *(each.tolist() for each in ends), strict=True):
        groups = [members.of[gid] for gid in look.group[order[low:high]].tolist() if gid in members.of]
        mine = np.unique(np.concatenate(groups)) if groups else np.zeros(0, dtype=np.int64)
        if cell < len(since):
            mine = mine[members.since[mine] < since[cell]]
        found.append(members.sets.add(mine) if len(mine) else -1)
    return np.array(found, dtype=np.int64)[which]


def _once(rows: Rows, sets: MemberSets) -> Rows:
    """Return each match once, with all members that have it; it may have been found for some of them by itself."""
    if len(rows) < 2 or len(np.unique(rows.base)) < 2:
        return rows
    first, same = numbered_rows([*rows.docs.T, *rows.nodes.T])
    if len(first) == len(same):
        return rows
    order = np.argsort(same, kind="stable")
    row, base = sets.together(same[order], rows.base[order])
    found = rows.take(first[row])
    found.base = base
    return found
