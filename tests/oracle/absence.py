"""The oracle of absence: which members are not followed, or not accompanied, by what a query forbids, and when that is
answered by the query's level of consistency (docs/explanation/time.md).

Tries every combination, as ``evaluate`` does, and looks back over the whole intake order for each answer anew.  A
question is told as two joins: what is wanted, and what is wanted together with a document that must not be there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oracle.evaluate import (
    NO_COLUMNS,
    Answer,
    Columns,
    Doc,
    Row,
    bindings_rows,
    selected_variables,
    variables_of,
)

from xscl.language.syntax import ast

FOR_EVER = 1 << 60
"""A time and a place behind all others."""


@dataclass(frozen=True)
class Asked:
    """A query, registered at a place and dropped at another."""

    query: ast.Query
    since: int = -1
    until: int = FOR_EVER + 1


@dataclass(frozen=True)
class Forbidden:
    """A document that must not be there."""

    join: ast.Join
    """What is wanted, joined with it: the right side is its block."""
    between: bool = False
    """Whether it must lie between the first and the last member."""

    @property
    def channel(self) -> str:
        assert isinstance(self.join.right, ast.Block)
        return self.join.right.channel

    def last(self, docs: Sequence[Doc]) -> int:
        """The greatest time that such a document may have, for members that are wanted."""
        times = [doc.ts for doc in docs]
        ends = [max(times) - 1] if self.between else []
        wanted = ast.blocks(self.join.left)
        place = {name: at for at, block in enumerate(wanted) for name in variables_of(block)}
        for window in self.join.windows:
            match window:
                case ast.RelativeWindow(later, earlier, low, high):
                    if later not in place and high is not None:
                        ends.append(docs[place[earlier]].ts + high)
                    if earlier not in place and low is not None:
                        ends.append(docs[place[later]].ts - low)
                case ast.Window("within" | "range", _, high) if high is not None:
                    ends.append(max(times) + high)
        return min(ends)


@dataclass(frozen=True)
class Question:
    """A question about absence, registered at a place and dropped at another."""

    wanted: ast.Query
    forbidden: tuple[Forbidden, ...]
    since: int = -1
    until: int = FOR_EVER + 1
    blocking: int | None = None
    """How far behind clocks it answers; None: when it is certain."""
    memory: int | None = None
    """How far behind clocks the events come that it sees; None: as far as they are in time."""
    retracts: bool = False
    """Whether documents that are out are no members, and forbid nothing."""

    @property
    def behind(self) -> int | None:
        """How far clocks are beyond a time that is answered; -1: they show it."""
        return -1 if self.blocking == 0 and self.memory != 0 else self.blocking


@dataclass(frozen=True)
class Beat:
    """A heartbeat: all events of the channel up to this time are in."""

    channel: str
    ts: int


@dataclass(frozen=True)
class Terms:
    """Settings of a channel."""

    lateness: int | None = None
    clock: str | None = None
    """Name of its clock; None: one of its own."""
    idle: int | None = None


@dataclass(frozen=True)
class Decided:
    """An answer, and the place of the intake order from which on it is given."""

    answer: Answer
    ts: int
    place: int


@dataclass(frozen=True)
class Fed:
    """A query that waits until times are settled, and publishes: registered at a place and dropped at another."""

    sources: frozenset[str]
    """Channels that it reads."""
    since: int = -1
    until: int = FOR_EVER + 1
    blocking: int | None = None
    """How far behind clocks it answers; None: what it publishes is final."""

    def behind(self, asked: int | None) -> tuple[int | None, int]:
        """How far its sources are to be behind clocks for what is asked of its answers, and what is taken off."""
        if asked is None or self.blocking is None:
            return None, max(asked or 0, 0)
        return (max(asked, 0) + self.blocking if self.blocking else asked), 0


@dataclass(frozen=True)
class Intake:
    """Events and heartbeats by place, and the settings of channels."""

    events: Mapping[Doc, int]
    beats: Mapping[int, Beat]
    terms: Mapping[str, Terms]
    ends: bool = False
    """Whether nothing comes any more."""
    before: Mapping[str, Sequence[tuple[int, int | None]]] = field(default_factory=dict)
    """Places up to which a channel had another lateness, ascending, with that lateness."""
    out: Mapping[Doc, int] = field(default_factory=dict)
    """Place at which a newer version, or a removal, has taken a document out."""
    again: Mapping[Doc, int] = field(default_factory=dict)
    """Place at which a late document was replayed: from there on it counts as in time."""
    fed: Mapping[str, Sequence[Fed]] = field(default_factory=dict)
    """Queries that feed each channel to which nothing else comes; what they publish moves no clock of others."""

    def lateness(self, channel: str, place: int) -> int | None:
        """The lateness by which the next event behind a place is judged."""
        former = [lateness for until, lateness in self.before.get(channel, ()) if place < until]
        return former[0] if former else self.terms.get(channel, Terms()).lateness

    def settled(self, channel: str, place: int, blocking: int | None = None) -> int:
        """The time below which the events of a channel are in, with everything up to a place; or below which its clock
        is by ``blocking``.
        """
        live = [each for each in self.fed.get(channel, ()) if each.since <= place < each.until]
        times = []
        for each in live:
            behind, less = each.behind(blocking)
            found = (self.settled(source, place, behind) for source in each.sources)
            times += [time if time == -FOR_EVER else time - less for time in found]
        if times:
            least = min(times)
            by_itself = self.terms.get(channel, Terms()).lateness is not None
            return min(least, self._by_itself(channel, place, blocking)) if by_itself else least
        return self._by_itself(channel, place, blocking)

    def _by_itself(self, channel: str, place: int, blocking: int | None) -> int:
        found = [beat.ts + 1 for at, beat in self.beats.items() if at <= place and beat.channel == channel]
        # A change of lateness lets in nothing that was late before it.
        for until, former in self.before.get(channel, ()):
            if until <= place and former is not None:
                found += self._shown(channel, until, former)
        lateness = self.lateness(channel, place)
        behind = [] if lateness is None else [lateness]
        behind += [] if blocking is None else [blocking]
        found += self._shown(channel, place, min(behind)) if behind else []
        if self.ends and place >= FOR_EVER:
            found.append(FOR_EVER)
        return max(found, default=-FOR_EVER)

    def _shown(self, channel: str, place: int, behind: int) -> Iterator[int]:
        """Times that move the clock of a channel, up to a place, less something."""
        terms = self.terms.get(channel, Terms())
        mine = terms.clock or channel
        for doc, at in self.events.items():
            if at <= place and (doc.channel == channel or doc.channel not in self.fed):
                if (self.terms.get(doc.channel, Terms()).clock or doc.channel) == mine:
                    yield doc.ts - behind
                if terms.idle is not None:
                    yield doc.ts - terms.idle - behind

    def until(self, place: int) -> Intake:
        """What had come up to a place."""
        events = {doc: at for doc, at in self.events.items() if at <= place}
        return replace(self, events=events, beats={at: beat for at, beat in self.beats.items() if at <= place})

    def judged(self) -> dict[Doc, int]:
        """The events, those that came late marked so."""
        return {
            replace(doc, late=doc.ts < self.settled(doc.channel, place - 1)): place
            for doc, place in self.events.items()
        }


def _in_time(question: Question, intake: Intake) -> dict[Doc, int]:
    return {
        doc: place for doc, place in intake.judged().items() if question.since < place < question.until and not doc.late
    }


def _replayed(question: Question, intake: Intake) -> dict[Doc, int]:
    """Late events that count as in time, with the places of their replays; every level remembers them."""
    return {
        doc: intake.again[doc]
        for doc, place in intake.events.items()
        if doc in intake.again and question.since < place and intake.again[doc] < question.until
    }


def too_late(question: Question, intake: Intake, channels: Collection[str] | None = None) -> set[Doc]:
    """The events in time, of some channels, that a question does not remember."""
    return {
        doc
        for doc, place in _in_time(question, intake).items()
        if (channels is None or doc.channel in channels)
        and question.memory is not None
        and doc.ts < intake.settled(doc.channel, place - 1, question.memory)
    }


def decided(question: Question, intake: Intake) -> set[Decided]:
    """All answers to a question that hold, each with its time and the place at which it was given first."""
    return {answer for answer, _ in decided_rows(question, intake)}


def decided_rows(
    question: Question, intake: Intake, *, numeric: Columns = NO_COLUMNS, texts: Columns = NO_COLUMNS
) -> Iterator[tuple[Decided, Row]]:
    """The same with the bindings that they are of."""
    forgotten = too_late(question, intake)
    events = {doc: place for doc, place in _in_time(question, intake).items() if doc not in forgotten}
    events |= _replayed(question, intake)
    if question.retracts:
        gone = {(doc.channel, doc.id) for doc, place in intake.out.items() if place < question.until}
        events = {doc: place for doc, place in events.items() if (doc.channel, doc.id) not in gone}
    changes = {place for former in intake.before.values() for place, _ in former}
    ends = [FOR_EVER] if intake.ends else []
    places = sorted({*intake.events.values(), *intake.beats, *changes, *intake.again.values(), *ends})
    names = selected_variables(question.wanted.select)
    columns = {"numeric": numeric, "texts": texts}
    killed = [set(_killed(forbidden, list(events), columns)) for forbidden in question.forbidden]
    for row in bindings_rows(question.wanted, list(events), **columns):
        if any(_binding(row.docs, row.nodes) in some for some in killed):
            continue
        ends = [forbidden.last(row.docs) for forbidden in question.forbidden]
        complete = max(events[doc] for doc in row.docs)
        for place in places:
            settled = (intake.settled(each.channel, place, question.behind) for each in question.forbidden)
            if place >= complete and all(w > end for w, end in zip(settled, ends, strict=True)):
                if place < question.until:
                    answer = (
                        tuple((doc.channel, doc.id) for doc in row.docs),
                        (*row.results, *(row.nodes[name] for name in names)),
                    )
                    yield Decided(answer, max(*(doc.ts for doc in row.docs), *ends), place), row
                break


_Binding = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, int], ...]]


def _killed(forbidden: Forbidden, docs: Sequence[Doc], columns: Mapping[str, Columns]) -> Iterator[_Binding]:
    """The bindings of what is wanted that a forbidden document accompanies."""
    wanted = [name for block in ast.blocks(forbidden.join.left) for name in variables_of(block)]
    for row in bindings_rows(ast.Query(forbidden.join), docs, **columns):
        *members, other = row.docs
        times = [doc.ts for doc in members]
        if not forbidden.between or min(times) < other.ts < max(times):
            yield _binding(members, {name: row.nodes[name] for name in wanted})


def _binding(docs: Sequence[Doc], nodes: Mapping[str, int]) -> _Binding:
    return tuple((doc.channel, doc.id) for doc in docs), tuple(sorted(nodes.items()))
