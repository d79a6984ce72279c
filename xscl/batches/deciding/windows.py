"""Windows in a batch: matches of parts become rows, and windows whose time has passed become documents and matches.

Queries with windows are made of a part each, which is joined as all other queries are.  Matches of parts become rows
(``windows.rows``).  Windows that are settled are answered (``windows.answers``): each answer is a document of the
channel of answers, and the one member of a match.  Rows that later windows may have are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from xscl.base.errors import XsclError
from xscl.base.failpoints import step
from xscl.base.number_order import each_once
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.batches.attempt import Attempt
from xscl.batches.bindings import Parts, bindings
from xscl.batches.deciding.made_answers import shown_name, write_made
from xscl.batches.failing_queries import Failing
from xscl.batches.function_failures import failed, failed_value
from xscl.batches.memory.windows import Asked
from xscl.batches.publishing.documents import Made
from xscl.batches.refusals import refused_document
from xscl.batches.settled import settled_times
from xscl.batches.windows.answers import Answer, Frontier, answers, last_of, reach_of
from xscl.batches.windows.buckets import key_of
from xscl.batches.windows.documents import answer_documents, window_answer_id
from xscl.batches.windows.rows import Found, Kept, members_of, merged, write_kept
from xscl.batches.windows.stores import Stores
from xscl.batches.windows.streams import ROWLESS, Streams, of_parts, shared_rows
from xscl.catalog.parts import PartRow
from xscl.catalog.state_files import replace_state_files
from xscl.catalog.windows import Reader, Windowed
from xscl.language.aggregates import Definition
from xscl.language.facts import ANSWERS
from xscl.store.state_files import StateFile
from xscl.templates.absence import Settled
from xscl.templates.columns import Int64s
from xscl.templates.origins import WINDOWS_LEVEL, origin_of
from xscl.templates.results import ResultColumns

__all__ = ["Windows", "commit_windows"]

_NEVER = -(1 << 62)
_Times = Mapping[tuple[str, int | None], Settled]
"""Settled times of channels, by their name."""


@dataclass
class Windows:
    """Windows in one batch; nothing counts before ``commit_windows``."""

    batch: Attempt
    counts: Counter[str] = field(default_factory=Counter)
    """Rows of its results."""
    changed: bool = False
    """Whether other rows are kept behind the batch than before."""
    after: StateFile | None = None
    """File of those."""
    _asked: Asked = field(default_factory=Asked)
    _kept: Kept = field(default_factory=Kept)
    _new: dict[tuple[int, ...], pa.Table] = field(default_factory=dict)
    """Rows that are kept behind the batch, by the parts that share them."""
    _changed: bool = False
    """Whether matches came."""
    _told: int = 0
    """Number of times that something was answered."""
    _failing: Failing = field(default_factory=Failing)

    def begin(self) -> None:
        """Read what the batch begins with."""
        span = self.batch.span
        if not span.has_parts:
            return
        memory, levels = self.batch.driver.windows, () if span.publishing is None else span.publishing.levels
        self._asked = memory.asked(self.batch.home.catalog, span, levels)
        if self.batch.work is not None:
            self.batch.work.alone = self._asked.alone
        self._kept = memory.rows(None if span.windows is None else self.batch.home.root / span.windows)

    def decide(self, level: int | None) -> None:
        """Answer the windows over matches that levels up to ``level`` have found; None: all that are left.

        Level 0 has the events, others have the channels of that level of publishing.
        """
        parts = self._asked.parts
        # Parts that share rows read the same channels.
        mine = [
            shared
            for shared in self._asked.shared
            if shared not in self._new and (level is None or parts[shared[0]].level <= level)
        ]
        if not mine:
            return
        found = self._found(mine)
        names = sorted({(name, None) for shared in mine for name in parts[shared[0]].channels})
        settled = settled_times(self.batch.span, names, self.batch.made)
        made: list[tuple[Windowed, Answer]] = []
        for shared in mine:
            made += self._answered(shared, found.get(shared, ROWLESS), settled)
        self._failing.end()
        self._tell(made)

    def end(self) -> None:
        """Answer what is left, and write the rows that are kept, if these are others than before."""
        self.decide(None)
        parts, readers = self._asked.parts, self._asked.readers
        waits = {channel for part in parts.values() for channel in part.channels}
        # Of parts and groups that nobody asks for any more nothing is kept: they begin anew if they come again.
        rows = {shared: table.combine_chunks() for shared, table in self._new.items() if len(table)}
        answered = {part: time for part, time in self._kept.answered.items() if part in parts}
        counts = {part: count for part, count in self._kept.settled.items() if part in parts}
        told = {gid: of for gid, of in self._kept.told.items() if of and gid in readers}
        known = {(part, key_of(shape)) for part, each in parts.items() for shape in each.stores}
        buckets = {key: of for key, of in self._kept.buckets.items() if key in known}
        kept = Kept(rows, answered, counts, buckets, told, tuple(sorted(waits)))
        if not self._told and not self._changed and self._kept.size == kept.size:
            return
        self.changed, self._kept = True, kept
        self.after = write_kept(self.batch.home, self.batch.tag, self.batch.span.batch, self._kept)

    def remember(self) -> None:
        """Remember the rows of its file for the next batch."""
        if self.after is not None:
            self.batch.driver.windows.remember(self.batch.home.root / self.after.path, self._kept)

    # -- matches of parts --------------------------------------------------------------------------------------

    def _found(self, mine: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], pa.Table]:
        """Return the matches of the batch's levels for parts that share rows, as rows."""
        results = self.batch.found()
        parts = {part: self._asked.parts[part] for shared in mine for part in shared}
        meanings = results.meanings(parts)
        if not meanings:
            return {}
        combinations = results.combinations(meanings)
        asked = Parts.of(
            PartRow(part, 0, part, "", len(each.blocks), None, None, retracts=False) for part, each in parts.items()
        )
        sharing = {part: shared for shared in mine for part in shared}
        found: list[tuple[Int64s, Found]] = []
        for some in bindings(combinations, meanings, asked):
            number = {part: sharing[part][0] for part in each_once(some.groups).tolist()}
            which = np.array([*number.values()])[np.searchsorted([*number], some.groups)]
            for least in each_once(which).tolist():
                of = which == least
                found.append((some.groups[of], Found(some.docs[of], some.nodes[of], parts[least].blocks)))
        if not found:
            return {}
        events = members_of(self.batch.home, [each for _, each in found], self.batch.made, self.batch.span.taken)
        rows: dict[tuple[int, ...], list[pa.Table]] = {}
        for groups, each in found:
            table = shared_rows(groups, each, events, self.batch.span.clocks.channels)
            rows.setdefault(sharing[int(groups[0])], []).append(table)
        return {shared: pa.concat_tables(tables) for shared, tables in rows.items()}

    # -- answers -----------------------------------------------------------------------------------------------

    def _answered(self, shared: tuple[int, ...], new: pa.Table, times: _Times) -> list[tuple[Windowed, Answer]]:
        """Return the answers over the matches of parts that share rows, and keep the rows that later ones may need."""
        parts = self._asked.parts
        steps = self._steps([times[name, None] for name in parts[shared[0]].channels])
        # What comes behind the settled times is in no window, wherever batches are cut.
        before = steps.at_many(new.column("came").to_numpy() - 1)
        timely = new.column("ts").to_numpy() >= before
        new = new if timely.all() else new.filter(pa.array(timely))
        self._changed |= bool(new.num_rows)
        for part in shared:
            self._refuse(part, new)
        streams = Streams(merged(of_parts(self._kept.rows, shared), new))
        made: list[tuple[Windowed, Answer]] = []
        there = {*each_once(streams.parts).tolist(), *(part for part, _ in self._kept.buckets)}
        for part in shared:
            if part in there or parts[part].once:
                made += self._of_part(part, streams, steps)
            else:  # nothing is in its windows
                self._kept.settled.setdefault(part, 0)
                self._kept.answered[part] = self._frontier(part, steps).now
        self._new[shared] = streams.kept_rows()
        return made

    def _of_part(self, part: int, streams: Streams, steps: _Steps) -> Iterator[tuple[Windowed, Answer]]:
        """Yield the answers over the matches of a part, and mark the rows that later ones may need."""
        each, stream, told = self._asked.parts[part], streams.of(part), self._kept.told
        frontier = self._frontier(part, steps)
        self._kept.settled[part] = streams.number(stream, frontier.now, self._kept.settled.get(part, 0))
        matches = streams.matches(stream)
        for member in each.once:
            told.setdefault(member.gid, {})
        stores = Stores(part, each.stores, self._kept.buckets)
        stores.take(matches, frontier)
        for family in each.families:
            buckets = stores.of(family)
            over = matches if buckets is None else buckets.matches
            yield from (
                (each.groups[of.gid], answer) for of, answer in answers(family, over, frontier, told, self._failing)
            )
            if family.kind.last is None:
                behind = (
                    reach_of(family.kind, frontier.now, matches) if buckets is None else matches.since(buckets.until)
                )
                streams.kept[stream.places[behind]] = True
        lasts = [family for family in each.families if family.kind.last is not None]
        streams.kept[stream.places[last_of(lasts, frontier.now, matches)]] = True
        stores.leave(frontier.now)
        for member in each.once:
            least = frontier.now - (member.definition.once_per or 0)
            mine = told[member.gid].items()
            told[member.gid] = {key: ts for key, ts in mine if ts >= least and key[0] in member.sees}
        self._kept.answered[part] = frontier.now

    def _frontier(self, part: int, steps: _Steps) -> Frontier:
        """Return how far the windows of a part are answered."""
        answered = self._kept.answered.get(part, _NEVER)
        return Frontier(answered, steps.places, np.maximum(steps.times, answered))

    def _refuse(self, part: int, new: pa.Table) -> None:
        """Tell of new matches of a part on whose values functions fail."""
        publisher = self.batch.publisher
        terms = self._asked.parts[part].own
        if publisher is None or not new.num_rows or not terms:
            return
        mine = new.take(pa.array(Streams(new).of(part).rows))
        texts = mine.column("texts").to_pylist()
        for gid, term in terms:
            for at, reason in failed(term.functions, (each[term.place] for each in texts)):
                (row,) = mine.slice(at, 1).select(["name", "ts", "first", "came"]).to_pylist()
                *_, channel, id_ = str(row["name"]).split("\0")
                publisher.rejected += [
                    failed_value(reader.name, channel, id_, row["ts"], reason, "windows")
                    for reader in self._asked.readers[gid]
                    if reader.since < row["first"] and row["came"] < reader.until
                ]

    def _steps(self, each: Sequence[Settled]) -> _Steps:
        """Return how far times of channels are settled."""
        places = each_once(np.concatenate([[self.batch.span.first], *(one.places for one in each)]).astype(np.int64))
        before = min(one.before for one in each)
        times = np.minimum.reduce([one.at(places) for one in each])
        return _Steps(before, places, np.maximum.accumulate(np.maximum(times, before)))

    def _tell(self, made: Sequence[tuple[Windowed, Answer]]) -> None:
        """Make documents and matches of answers."""
        if not made:
            return
        self._told += 1
        publisher = self.batch.publisher
        assert publisher is not None
        documents = in_fresh_dictionary(answer_documents, [(self._definition(group), answer) for group, answer in made])
        found: dict[str, tuple[Made, set[int]]] = {}
        having: dict[tuple[int, int, int], tuple[list[Reader], bool]] = {}
        for (group, answer), document in zip(made, documents, strict=True):
            key = group.gid, id(answer.sees), answer.place  # most answers of a batch go to the same queries
            if key not in having:
                having[key] = self._having(group, answer)
            readers, whole = having[key]
            if not readers:
                continue
            if isinstance(document, XsclError):
                shown = shown_name(answer.name)
                publisher.rejected += [
                    refused_document(each.name, ANSWERS, shown, answer.ts, document) for each in readers
                ]
                continue
            id_ = window_answer_id(group.key, answer, document)
            one = Made(ANSWERS, id_, answer.place, answer.ts, answer.received, document)
            whose = {group.gid} if whole else {-reader.number for reader in readers}
            if id_ in found:  # another match of the same documents, or what others see, ends with the same values
                known, mine = found[id_]
                one, whose = replace(known, received=max(known.received, one.received)), mine | whose
            found[id_] = one, {group.gid} if group.gid in whose else whose
        if found:  # otherwise whoever asked was dropped before
            folder = self.batch.home.root / self.batch.results / f"windows-{self._told}"
            out = ResultColumns(origin_of(self.batch.span.batch, WINDOWS_LEVEL, self._told), folder)
            told = [(one, tuple(sorted(whose))) for one, whose in found.values()]
            self.counts.update(write_made(publisher, out, told)[0])
            step("batch.told")

    def _having(self, group: Windowed, answer: Answer) -> tuple[list[Reader], bool]:
        """Return the queries of a group that have an answer, and whether all have it that are there."""
        # Who is gone by then says nothing of who has the answer: another cut of batches would not know of it.
        there = [each for each in self._asked.readers[group.gid] if each.since < answer.place < each.until]
        sees = frozenset(answer.sees)
        readers = [reader for reader in there if reader.since in sees]
        return readers, len(readers) == len(there)

    def _definition(self, group: Windowed) -> Definition:
        return self._asked.parts[group.part].definitions[group.gid]


def commit_windows(connection: sa.Connection, windows: Windows, now: int) -> None:
    """Name the rows that are kept, in the transaction of the batch; ``now`` is in microseconds since the epoch."""
    if not windows.changed:
        return
    before, after = windows.batch.span.windows, windows.after
    replace_state_files(connection, [] if before is None else [before], [] if after is None else [after.row()], now)
    windows.remember()


@dataclass(frozen=True, slots=True)
class _Steps:
    """Settled times that never fall, by places."""

    before: int
    places: np.ndarray[tuple[int], np.dtype[np.int64]]
    times: np.ndarray[tuple[int], np.dtype[np.int64]]

    def at_many(self, places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        found: np.ndarray[tuple[int], np.dtype[np.int64]] = np.append(self.before, self.times)[
            np.searchsorted(self.places, places, side="right")
        ]
        return found
