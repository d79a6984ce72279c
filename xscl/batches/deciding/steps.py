"""Steps in a batch: matches of parts become rows, which NEXT and FOLD move on as far as times are settled.

Queries with steps are made of parts, which are joined as all other queries are.  Answers (``step_answers``) are matches
of the events themselves, or documents of their own where they tell values of a FOLD.  Rows that later events may need
are kept.

Queries whose steps have one shape (``steps.shapes``) share a step, whatever the numbers of their conditions are and
whatever their parts select.  Members of a step are groups of queries that were registered at the same place; others see
other events.  Each row says which members have it, so it is moved once for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from xscl.batches.attempt import Attempt
from xscl.batches.deciding.step_answers import Decided, Teller
from xscl.batches.deciding.step_corrections import came_since, corrected, having_docs, moved_ahead, told_once
from xscl.batches.deciding.step_parts import PartMatches, PartMembers
from xscl.batches.deciding.step_refusals import StepRefusals
from xscl.batches.deciding.step_replay import Replay, before, moved_again
from xscl.batches.failing_queries import Failing, FailingQueriesError, evaluating
from xscl.batches.function_failures import own_terms
from xscl.batches.memory.steps import Members, SharedStep
from xscl.batches.settled import settled_times
from xscl.batches.steps.files import CUT, DONE, TOLD, KeptRows, KeptSteps, Member, read_steps, state_of, write_steps
from xscl.batches.steps.members import Versions, kept_versions
from xscl.batches.steps.rows import Rows, joined_rows, of_members, terms_of
from xscl.batches.steps.sharing import Sharing, TooMany
from xscl.batches.steps.tree import Tree
from xscl.batches.taking_back import Retraction, retraction_rows
from xscl.batches.windows.answers import Frontier
from xscl.catalog.retractions import add_retractions
from xscl.catalog.state_files import replace_state_files
from xscl.catalog.tables import NEVER
from xscl.catalog.windows import Reader
from xscl.language.steps.shapes import Number
from xscl.store.results import NO_DOC
from xscl.store.state_files import StateFile
from xscl.templates.absence import Settled
from xscl.templates.columns import Int64s

__all__ = ["Steps", "commit_steps"]

_NEVER = -(1 << 62)
_Times = Mapping[tuple[str, int | None], Settled]


@dataclass(frozen=True, slots=True)
class _Look:
    """Queries of a step that see alike in a batch."""

    settled: tuple[Frontier, ...]
    """Times up to which each part is settled."""
    ahead: tuple[Frontier, ...]
    """Times up to which answers of each part are given that are not final; empty: there are none."""
    end: int
    """Place of the queries' end, if it lies in the batch and answers may still change; ``NEVER``: it does not matter.

    Later events of the batch correct nothing of theirs.
    """
    since: int | None
    """Least start of the rows that replayed events may change; None: they change none."""
    members: set[Member] = field(default_factory=set)

    def ends(self, step: SharedStep, last: int) -> tuple[int, int]:
        """Return the least and the greatest place of the queries' ends; ``last`` is the batch's last place."""
        if self.end < NEVER:
            return self.end, self.end
        return last + 1 if step.corrects else 0, NEVER


@dataclass
class Steps:
    """Steps in one batch; nothing counts before ``commit_steps``."""

    batch: Attempt
    counts: Counter[str] = field(default_factory=Counter)
    """Rows of its results."""
    changed: bool = False
    """Whether other rows are kept behind the batch than before."""
    after: StateFile | None = None
    """File of those."""
    _steps: Mapping[str, SharedStep] = field(default_factory=dict)
    _readers: Mapping[int, Sequence[Reader]] = field(default_factory=dict)
    _kept: KeptSteps = field(default_factory=KeptSteps)
    _tables: dict[str, pa.Table] = field(default_factory=dict)
    """Rows of the file, by step."""
    _new: KeptSteps = field(default_factory=KeptSteps)
    """Rows that are kept behind the batch."""
    _places: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    """Places of the batch at which some times change."""
    _known: dict[tuple[tuple[str, ...], int | None, int], Frontier] = field(default_factory=dict)
    """Times up to which parts are settled, at these places, by channels, distance and the times before."""
    retractions: tuple[dict[str, Any], ...] = ()
    """Rows of table ``retractions``."""
    _retracted: list[Retraction] = field(default_factory=list)
    _replay: Replay | None = None
    """Late events that the batch takes again."""
    _sinces: dict[tuple[str | Number, ...], int | None] = field(default_factory=dict)
    """Least starts of rows that replayed events may change, by step and how long before a match these may be."""
    _versions: Versions = field(default_factory=dict)
    """Versions among the documents of rows."""
    _failing: Failing = field(default_factory=Failing)
    _matches: PartMatches = field(init=False)
    _teller: Teller = field(init=False)

    def __post_init__(self) -> None:
        self._matches = PartMatches(self.batch)

    def begin(self) -> None:
        """Read what the batch begins with."""
        span = self.batch.span
        if not span.has_parts:
            return
        levels = () if span.publishing is None else span.publishing.levels
        self._steps, self._readers = self.batch.driver.steps.asked(self.batch.home.catalog, span, levels)
        self._teller = Teller(self.batch, self._readers, self.counts)
        if span.replayed and self._steps:
            self._replay = Replay(self.batch)
        self._kept, self._tables = read_steps(None if span.steps is None else self.batch.home.root / span.steps)
        self._versions = self._kept.versions

    def decide(self, level: int | None) -> None:
        """Answer over matches that levels of publishing up to ``level`` have found; None: all that are left."""
        mine = [
            each
            for name, each in sorted(self._steps.items())
            if name not in self._new.rows and (level is None or each.level <= level)
        ]
        if not mine:
            return
        blocks = {
            part: of.blocks
            for each in mine
            for parts in each.members
            for part, of in zip(parts, each.definition.parts, strict=True)
        }
        self._matches.find(blocks, self.batch.made)
        if self._replay is not None:
            self._replay.matches.find(blocks, self.batch.made)
            self._versions = {**self._versions, **self._replay.matches.versions()}
        self._versions = {**self._versions, **self._matches.versions()}
        asked = {(name, behind) for each in mine for of in each.channels for name in of for behind in each.distances}
        times = settled_times(self.batch.span, asked, self.batch.made)
        every = [settled.places for settled in times.values()]
        self._places = np.unique(np.concatenate([[self.batch.span.first], *every]).astype(np.int64))
        self._known = {}
        found = [(each, *one) for each in mine for one in self._decided(each, times)]
        self._failing.end()
        known = [one for _, one, since in found if since is None]
        self._teller.tell([one for one in known if one.told is None])
        # A document has the place at which it came for those who end first: they see nothing behind it.
        held = sorted((one for one in known if one.told is not None), key=lambda one: one.ends)
        retracted = [each for one in held for each in corrected(self._teller, one)]
        for each, one, since in found:
            if self._replay is not None and since is not None:
                retracted += self._replay.tell(self._teller, one, each.channels, since)
        self._retracted += retracted
        if self.batch.publisher is not None:
            self.batch.publisher.take_back(retracted)

    def _since(self, step: SharedStep, gid: int) -> int | None:
        """Return the least start of a group's rows that replayed events may change; None: they change none."""
        if self._replay is None:
            return None
        key = step.name, *(step.numbers[gid][slot] for slot in step.looks_back)
        if key not in self._sinces:
            self._sinces[key] = self._replay.since(step.of_group(gid), step.channels)
        return self._sinces[key]

    def end(self) -> None:
        """Answer what is left, and write the rows that are kept, if these are others than before."""
        self.decide(None)
        self.retractions = tuple(retraction_rows(self.batch.home, self.batch.span, self._retracted, self.batch.made))
        old, new = self._kept, self._new
        if not self._steps and not self._tables:
            return
        new.waits = tuple(sorted({name for each in self._steps.values() for of in each.channels for name in of}))
        gone = self._tables.keys() - new.rows.keys()
        if not (self.changed or gone or new.settled != old.settled):
            return
        self.changed = True
        kept = (rows for of in new.rows.values() for each in of for rows in each.state.values())
        new.versions = kept_versions(self._versions, kept)
        new.oldest = _oldest_members(self._steps, new)
        self.after = write_steps(self.batch.home, self.batch.tag, self.batch.span.batch, new)

    @property
    def retracted(self) -> int:
        """Number of matches that are taken back, each with its set of queries."""
        return len(self._retracted)

    @property
    def oldest(self) -> Mapping[str, int]:
        """Return the least time of the members of rows that are kept behind the batch, by channel."""
        return self._new.oldest if self.changed else self._kept.oldest

    # -- times -------------------------------------------------------------------------------------------------

    def _frontiers(
        self, step: SharedStep, parts: Sequence[int], times: _Times, behind: int | None
    ) -> tuple[Frontier, ...]:
        """Return how far the times of each part are settled, or are behind clocks, at the same places."""
        both = zip(parts, step.channels, strict=True)
        return tuple(self._frontier(part, channels, times, behind) for part, channels in both)

    def _frontier(self, part: int, channels: tuple[str, ...], times: _Times, behind: int | None) -> Frontier:
        answered = self._kept.settled.get((part, behind), _NEVER)
        key = channels, behind, answered
        if key not in self._known:
            steps = np.minimum.reduce([times[name, behind].at(self._places) for name in channels])
            growing = np.maximum.accumulate(np.maximum(steps, answered))
            self._known[key] = Frontier(answered, self._places, growing)
        self._new.settled[part, behind] = self._known[key].now
        return self._known[key]

    # -- answers -----------------------------------------------------------------------------------------------

    def _decided(self, step: SharedStep, times: _Times) -> Iterator[tuple[Decided, int | None]]:
        """Yield what is decided for a step, with ``_Look.since``, and keep the rows that later batches may need."""
        self._new.rows[step.name] = []
        looks = self._looks(step, times)
        came = any(look.since is not None for look in looks) or self._matches.some(step.parts)
        if step.name not in self._tables and not came:
            return  # nothing is there, and nothing came
        self.changed |= came
        settled = [[times[name, step.distances[1]] for name in channels] for channels in step.channels]
        for look in looks:
            for one in self._moved(step, look, sorted(look.members), settled):
                yield one, look.since

    def _looks(self, step: SharedStep, times: _Times) -> list[_Look]:
        """Return the queries of a step by how they see the batch."""
        blocking, memory = step.distances
        found: dict[tuple[object, ...], _Look] = {}
        for parts, members in step.members.items():
            settled = self._frontiers(step, parts, times, memory)
            ahead = self._frontiers(step, parts, times, blocking) if step.corrects else ()
            told = tuple(each.times.tobytes() for each in (*settled, *ahead))
            for end, mine in self._by_end(step, members).items():
                for gid, place in mine:
                    key = told, end, (since := self._since(step, gid))
                    if key not in found:
                        found[key] = _Look(_until(settled, end), _until(ahead, end), end, since)
                    found[key].members.add((gid, place))
        return list(found.values())

    def _by_end(self, step: SharedStep, members: Sequence[Member]) -> Mapping[int, Collection[Member]]:
        """Return members by the place at which queries of theirs end (``_Look.end``)."""
        if not step.corrects:
            return {NEVER: members}
        first, last = self.batch.span.first, self.batch.span.last
        found: dict[int, set[Member]] = {}
        for gid in {gid for gid, _ in members}:
            for reader in self._readers[gid]:
                if reader.until > first:
                    end = reader.until if reader.until <= last else NEVER
                    found.setdefault(end, set()).add((gid, reader.since))
        return found

    def _found(
        self,
        step: SharedStep,
        look: _Look,
        together: Members,
        sharing: Sharing,
        settled: Sequence[Sequence[Settled]],
    ) -> list[Rows]:
        """Return the matches of each part that are new; in a replay, those of all batches."""
        matches = self._matches if self._replay is None or look.since is None else self._replay.matches
        found = []
        for number, (of, times) in enumerate(zip(together.by_part, settled, strict=True)):
            mine = PartMembers(of, together.since, sharing.sets)
            found.append(matches.rows(step.definition, together.layout, number, mine, times, step.distances[1]))
        return found if look.end == NEVER else [rows.take(rows.place < look.end) for rows in found]

    def _moved(
        self, step: SharedStep, look: _Look, members: Sequence[Member], settled: Sequence[Sequence[Settled]]
    ) -> list[Decided]:
        """Move the rows of some members on; where that fails, find out and note which of them it is.

        Raises:
            FailingQueriesError: it fails for several, as nobody foresaw, and for none alone.
        """
        try:
            with evaluating({gid for gid, _ in members}):
                return [*self._moved_together(step, look, members, settled)]
        except FailingQueriesError as error:
            half, noted = len(members) // 2, self._failing.count
            if len(error.groups) > 1:
                for some in (members[:half], members[half:]):
                    self._moved(step, look, some, settled)
            if self._failing.count == noted:
                self._failing.note(error)
            return []

    def _moved_together(
        self, step: SharedStep, look: _Look, members: Sequence[Member], settled: Sequence[Sequence[Settled]]
    ) -> Iterator[Decided]:
        """Move the rows of some members on; halves of them, where there are more than one query may have."""
        if not members:
            return
        together = step.together(members)
        sharing, layout = together.sharing(), together.layout
        new, start = self._found(step, look, together, sharing, settled), look.since
        known = self._kept.members.get(step.name, ())
        state = state_of(layout, self._tables.get(step.name), known, members, sharing.sets)
        nothing = Rows.empty(layout)
        told, done, cut = (state.pop(name, nothing) for name in (TOLD, DONE, CUT))
        if start is not None:
            done = nothing  # all are decided again
            state, new = before(state, start), [rows.take(rows.start >= start) for rows in new]
        tree = Tree(layout, together.root, look.settled, state, sharing, versions=self._versions)
        try:
            final = tree.move(new) if start is None else joined_rows([*moved_again(tree, new)])
            ahead, short = moved_ahead(tree, look.ahead) if look.ahead else (nothing, nothing)
        except TooMany:
            half = len(members) // 2
            for some in (members[:half], members[half:]):
                yield from self._moved_together(step, look, some, settled)
            return
        self.changed |= bool(len(final))
        too_long = joined_rows([nothing, *tree.too_long, short])
        ends = look.ends(step, self.batch.span.last)
        decided = Decided(step.definition, layout, together, sharing, nothing, ends, cut=too_long)
        refused = StepRefusals(self.batch, self._readers, decided)
        refused.tell_runs(too_long.take(~having_docs(too_long, cut)))
        for term in own_terms(terms_of(step.definition.root)):
            refused.tell_values(term, new[term.part])
        if look.end == NEVER:
            repeated = tree.repeated(joined_rows([done, final]))
            kept = {**tree.state, TOLD: ahead, DONE: repeated, CUT: short}
            kept = {name: rows for name, rows in kept.items() if len(rows)}
            self._new.rows[step.name].append(KeptRows(members, sharing.sets, kept))
        final, ahead, told, done = (of_members(rows, layout, step.definition) for rows in (final, ahead, told, done))
        if not step.corrects:
            yield from told_once(replace(decided, rows=final), done)
            return
        rows, told = joined_rows([final, ahead, done]), joined_rows([told, done])
        yield replace(decided, rows=rows, told=told, came=came_since(new, self.batch.span.first))


def _oldest_members(steps: Mapping[str, SharedStep], kept: KeptSteps) -> dict[str, int]:
    """Return the least time of the members of rows, by channel.

    The members of a part count for all channels that the part reads.  Rows that others are compared with count, too.
    """
    found: dict[str, int] = {}
    for name, of in kept.rows.items():
        blocks = steps[name].layout.blocks
        for rows in (rows for each in of for rows in each.state.values()):
            for first, behind, channels in zip(blocks[:-1], blocks[1:], steps[name].channels, strict=True):
                there = rows.times[:, first:behind][rows.docs[:, first:behind] != NO_DOC]
                if len(there):
                    found |= {channel: min(int(there.min()), found.get(channel, NEVER)) for channel in channels}
    return found


def _until(frontiers: tuple[Frontier, ...], end: int) -> tuple[Frontier, ...]:
    """Return how far times are settled at places before one."""
    if end == NEVER:
        return frontiers
    there = [each.places < end for each in frontiers]
    return tuple(Frontier(e.before, e.places[t], e.times[t]) for e, t in zip(frontiers, there, strict=True))


def commit_steps(connection: sa.Connection, steps: Steps, now: int) -> None:
    """Name the rows that are kept, in the transaction of the batch; ``now`` is in microseconds since the epoch."""
    add_retractions(connection, steps.retractions)
    if not steps.changed:
        return
    old, after = steps.batch.span.steps, steps.after
    replace_state_files(connection, [] if old is None else [old], [] if after is None else [after.row()], now)
