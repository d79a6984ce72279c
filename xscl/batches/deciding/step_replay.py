"""Steps whose answers a replay of late events changes.

A replayed event may lie between two rows that NEXT has put together, or within the run of a FOLD.  So the steps
that read its channel move once more over all matches of their parts, which the results of all batches have.  The steps
then give answers, and a comparison with those that queries hold tells which come and which go.

Rows may be looked at once more if everything behind their start is retained.  Older ones go on where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from xscl.base.docids import place_of
from xscl.batches.attempt import Attempt
from xscl.batches.deciding.step_answers import Decided, Kind, Teller, behind_members, groups_having, having
from xscl.batches.deciding.step_corrections import cut_from, documents_cut, made_before
from xscl.batches.deciding.step_parts import PartMatches, all_results
from xscl.batches.memory.steps import Readers
from xscl.batches.publishing.removals import published_numbers
from xscl.batches.steps.matches import answer_nodes
from xscl.batches.steps.rows import Rows, State, numbered_nodes
from xscl.batches.steps.tree import Tree
from xscl.batches.taking_back import Retraction, groups_with
from xscl.batches.windows.answers import Frontier
from xscl.catalog.retained_from import keep_times
from xscl.catalog.retractions import Because, Retracted, read_retractions
from xscl.language.facts import ANSWERS
from xscl.language.steps.terms import Fold, StepsDefinition, Without
from xscl.store.event_files import events_of
from xscl.store.results import NO_DOC, stored_matches
from xscl.templates.columns import Bools, Int64s
from xscl.templates.sequences.lanes import FAR

__all__ = ["Replay", "before", "complete_since", "moved_again"]

_NEVER = -(1 << 62)
_SLICE = 50_000
"""Rows of parts that are moved at a time."""
_Answer = tuple[tuple[int, ...], tuple[int, ...], int]
"""Documents and nodes of a match, and how much later than its last member it is."""


@dataclass(frozen=True, slots=True)
class _Event:
    """A replayed event."""

    docid: int
    ts: int
    channel: str


def complete_since(definition: StepsDefinition, channels: Sequence[Sequence[str]], kept: Mapping[str, int]) -> int:
    """Return the least start of rows behind which all events are retained; ``FAR``: there is none.

    Args:
        definition: the steps.
        channels: those that each part reads.
        kept: time from which on events of a channel are retained, for channels that have let some go.
    """
    bounds = [_NEVER, *(kept[name] for of in channels for name in of if name in kept)]
    nodes = numbered_nodes(definition.root)
    if max(bounds) > _NEVER and any(isinstance(node, Fold) and node.longest for node in nodes):
        return FAR  # a run that began before may be longer
    for node in nodes:
        if isinstance(node, Without):
            of = [kept[name] for name in channels[node.right.number] if name in kept]
            bounds += [FAR if (back := _reach_back(node)) is None else time + back for time in of]
    return min(max(bounds), FAR)


def _reach_back(node: Without) -> int | None:
    """Return how long before a row's start a document that forbids it may be; None: nothing bounds that."""
    if node.is_inside:
        return 0
    number, skip = node.right.number, node.skip
    lows = [] if skip.least is None else [skip.least]
    lows += [each.low for each in skip.between if each.later[0] == number and each.low is not None]
    lows += [-each.high for each in skip.between if each.earlier[0] == number and each.high is not None]
    return max(-max(lows), 0) if lows else None


def moved_again(tree: Tree, new: Sequence[Rows]) -> Iterator[Rows]:
    """Yield the rows that a tree decides if it sees all matches of its parts, some at a time; its state goes on.

    The tree's frontiers are those of the batch.
    """
    now = [each.now for each in tree.frontiers]
    place = [each.places[-1:] for each in tree.frontiers]
    times = np.sort(np.concatenate([rows.ts for rows in new]))
    cuts = np.unique(np.append(times[_SLICE::_SLICE], FAR))
    begin = _NEVER
    for cut in cuts.tolist():
        tree.frontiers = [Frontier(_NEVER, of, np.array([min(time, cut)])) for time, of in zip(now, place, strict=True)]
        some = [rows.take((rows.ts >= begin) & (rows.ts < cut)) for rows in new]
        yield tree.move(some)
        begin = cut


def before(state: State, since: int) -> State:
    """Return the rows of a state that begin before a time; a replayed event may be what they wait for."""
    found = {name: rows.take(rows.start < since) for name, rows in state.items()}
    for rows in found.values():
        rows.seen[:] = -FAR
    return {name: rows for name, rows in found.items() if len(rows)}


@dataclass(frozen=True, slots=True)
class _Stored:
    """An answer as the results have it."""

    sources: dict[int, int] = field(default_factory=dict)
    """Last batch that stored it, by group, or by what stands for it in a query."""


class _Held:
    """Answers that the queries of a step held before the batch."""

    def __init__(self, readers: Readers, first: int) -> None:
        """Begin without any; ``first`` is the place of the replay."""
        self.readers, self.first = readers, first
        self.stored: dict[_Answer, _Stored] = {}
        self.gone: dict[_Answer, list[Retracted]] = {}
        self._events: dict[int, tuple[int, int, str]] = {}
        """Start, time and id of documents."""

    def had(self, answer: _Answer) -> Bools:
        """Tell which queries had an answer, of those that see the replay."""
        readers, found = self.readers, np.zeros(len(self.readers.number), dtype=np.bool_)
        stored = self.stored.get(answer)
        if stored is None:
            return found
        sees = readers.sees(answer[0])
        for whose, batch in stored.sources.items():
            mine = sees & self._of(whose)
            for each in self.gone.get(answer, ()):
                if each.batch > batch:
                    mine &= ~(self._of(each.gid) & (each.place < readers.until))
            found |= mine
        live: Bools = found & (readers.until > self.first) & (readers.member >= 0)
        return live

    def _of(self, whose: int) -> Bools:
        found: Bools = self.readers.gid == whose if whose > 0 else self.readers.number == -whose
        return found

    def knows(self, answer: _Answer) -> bool:
        """Tell whether all events of an answer are there."""
        return all(doc in self._events for doc in answer[0])

    def span(self, answer: _Answer) -> tuple[int, int] | None:
        """Return the start and the time of an answer; None: an event of it has gone."""
        if not self.knows(answer):
            return None
        starts, times, _ = zip(*(self._events[doc] for doc in answer[0]), strict=True)
        return min(starts), max(times) + answer[2]

    def id(self, answer: _Answer) -> str:
        """Return the id of the first document of an answer."""
        return self._events[answer[0][0]][2]

    def lost(self, answer: _Answer, lost: Bools, had: Bools, cause: int, because: Because) -> Retraction:
        """Return what takes an answer back from some of the queries that had it; ``cause`` is a document."""
        stored, readers = self.stored[answer], self.readers
        groups: list[int] = []
        for gid in np.unique(readers.gid[lost]).tolist():
            mine = readers.gid == gid
            numbers = readers.number[lost & mine]
            whole = gid in stored.sources and bool((lost & mine == had & mine).all())
            groups += groups_with(gid, numbers, whole=whole)
        return Retraction(tuple(sorted(groups)), *answer, self.first, cause, because)


class Replay:
    """Late events that a batch takes again, for the steps that read their channels."""

    def __init__(self, batch: Attempt) -> None:
        """Read the events."""
        self.batch = batch
        span = batch.span
        rows = events_of(batch.home, np.array(sorted(span.replayed), np.int64), ["docid", "ts", "channel"]).to_pylist()
        self.events = [_Event(row["docid"], row["ts"], row["channel"]) for row in rows]
        self.channels = frozenset(each.channel for each in self.events)
        self.matches = PartMatches(batch, whole=True)
        with batch.home.catalog.read() as connection:
            self.kept = keep_times(connection)

    def since(self, definition: StepsDefinition, channels: Sequence[Sequence[str]]) -> int | None:
        """Return the least start of the rows of a step that are looked at again; None: none are."""
        if self.channels.isdisjoint(name for of in channels for name in of):
            return None
        found = complete_since(definition, channels, self.kept)
        return None if found >= FAR else found

    def held(self, readers: Readers) -> _Held:
        """Read the answers that queries hold."""
        batch = self.batch
        found = _Held(readers, batch.span.first)
        groups = [*np.unique(readers.gid).tolist(), *(-readers.number).tolist()]
        with batch.home.catalog.read() as connection:
            for each in read_retractions(connection, groups):
                found.gone.setdefault((each.docids, each.nodes, each.later), []).append(each)
        for match in stored_matches(all_results(batch), groups):
            stored = found.stored.setdefault((match.docids, match.nodes, match.later), _Stored())
            for group in match.groups.intersection(groups):
                stored.sources[group] = max(match.batch, stored.sources.get(group, -1))
        self._read_events(found)
        return found

    def _read_events(self, held: _Held) -> None:
        docs = np.unique(np.array([doc for answer in held.stored for doc in answer[0]], dtype=np.int64))
        events = events_of(self.batch.home, docs, ["docid", "start", "ts", "id"])
        starts = pc.coalesce(events.column("start"), events.column("ts"))
        columns = events.column("docid"), starts, events.column("ts"), events.column("id")
        for docid, *of in zip(*(column.to_pylist() for column in columns), strict=True):
            held._events[docid] = tuple(of)

    def cause(self, span: tuple[int, int], channels: Sequence[Sequence[str]]) -> int:
        """Return the replayed event that takes an answer back: the first between its start and its time."""
        names = {name for of in channels for name in of}
        mine = sorted((each for each in self.events if each.channel in names), key=lambda each: (each.ts, each.docid))
        inside = [each for each in mine if span[0] <= each.ts <= span[1]]
        return (inside or mine)[0].docid

    # -- answers -----------------------------------------------------------------------------------------------

    def tell(self, teller: Teller, one: Decided, channels: Sequence[Sequence[str]], since: int) -> list[Retraction]:
        """Write the answers that come, and return those that go.

        Args:
            teller: writes answers.
            one: rows that the steps give now.
            channels: those that each part reads.
            since: least start of rows that were looked at again.
        """
        held = self.held(one.members.readers)
        mine = one.is_about(np.arange(len(held.readers.number)))
        if one.definition.has_values:
            now = self._told_documents(teller, one, held)
        else:
            now = self._told(teller, one, held, *having(one))
        nodes = numbered_nodes(one.definition.root)
        is_longest = any(isinstance(node, Fold) and node.longest for node in nodes)
        oldest = min(each.ts for each in self.events)
        open_ = self._open(teller, one, held)
        limits = documents_cut(teller, one) if one.definition.has_values else {}
        retracted = []
        for answer in sorted(held.stored):
            span = held.span(answer)
            # What ends before the first replayed event is as it was, unless a longer run may end behind it.
            is_old = span is not None and (span[0] < since or (span[1] < oldest and not is_longest))
            if span is None or (is_old and answer not in open_):
                continue
            had = held.had(answer)
            lost = had & mine & ~now.get(answer, np.zeros(len(had), dtype=np.bool_))
            if lost.any():
                limit = limits.get(held.id(answer), NO_DOC)
                if not one.definition.has_values:
                    limit = int(cut_from(np.array([answer[0]]), one.cut)[0])
                cause: tuple[int, Because] = (limit, "limit")
                if limit == NO_DOC:
                    cause = self.cause(span, channels), "replayed"
                retracted.append(held.lost(answer, lost, had, *cause))
        return retracted

    def _open(self, teller: Teller, one: Decided, held: _Held) -> set[_Answer]:
        """Return the answers that held before the batch and were not final: any event may take these back."""
        if one.told is None:
            return set()
        if one.definition.has_values:
            ids = made_before(teller, one)
            return {answer for answer in held.stored if held.knows(answer) and held.id(answer) in ids}
        return set(_answers(one.told, answer_nodes(one.definition, one.layout, one.told)))

    def _told(
        self, teller: Teller, one: Decided, held: _Held, kinds: Sequence[Kind], which: Int64s
    ) -> dict[_Answer, Bools]:
        """Write matches of the events that come, and return all that hold, with the queries that have each."""
        readers = held.readers
        masks = [readers.mask(kind.queries) for kind in kinds]
        nodes = answer_nodes(one.definition, one.layout, one.rows)
        now: dict[_Answer, Bools] = {}
        row: dict[_Answer, int] = {}
        for at, (answer, kind) in enumerate(zip(_answers(one.rows, nodes), which.tolist(), strict=True)):
            known = now.get(answer)
            now[answer] = masks[kind] if known is None else known | masks[kind]
            row.setdefault(answer, at)
        rows, groups, of = list[int](), dict[tuple[int, ...], int](), list[int]()
        for answer, has in now.items():
            new = has & ~held.had(answer)
            if new.any():
                rows.append(row[answer])
                places = [place_of(doc) for doc in answer[0]]
                whose = groups_having(readers, np.flatnonzero(new), (min(places), max(places)))
                of.append(groups.setdefault(whose, len(groups)))
        out = teller.results()
        teller.publish(out, [*teller.put(out, one.rows, nodes, np.array(rows, np.int64), [*groups], np.array(of))])
        return now

    def _told_documents(self, teller: Teller, one: Decided, held: _Held) -> dict[_Answer, Bools]:
        """Write documents that come, with their matches, and return all that hold with the queries that have each."""
        made = teller.made(one)
        with self.batch.home.catalog.read() as connection:
            known = published_numbers(connection, [(ANSWERS, id_) for id_ in made])
        answers = {held.id(answer): answer for answer in held.stored}
        now, found = {}, []
        for id_, (document, whose) in made.items():
            has = np.isin(-held.readers.number, np.array(sorted(whose), np.int64))
            had = np.zeros(len(has), dtype=np.bool_)
            if id_ in answers:
                now[answers[id_]], had = has, held.had(answers[id_])
            if (new := has & ~had).any():
                found.append((document, tuple(sorted((-held.readers.number[new]).tolist()))))
        teller.write_documents(found, {id_: docid for (_, id_), docid in known.items()})
        return now


def _answers(rows: Rows, nodes: Int64s) -> Iterator[_Answer]:
    """Iterate over the answers that rows are."""
    return zip(map(tuple, rows.docs.tolist()), map(tuple, nodes.tolist()), behind_members(rows).tolist(), strict=True)
