"""Answers of steps: what is decided becomes matches of the events, or of documents of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from xscl.base.docids import place_of
from xscl.base.errors import XsclError
from xscl.base.failpoints import step
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.batches.attempt import Attempt
from xscl.batches.deciding.made_answers import MEMBER_COLUMNS, always_admitted, member_names, shown_name, write_made
from xscl.batches.memory.steps import Members, Readers
from xscl.batches.publishing.documents import Made
from xscl.batches.refusals import refused_document
from xscl.batches.steps.documents import step_documents
from xscl.batches.steps.matches import answer_nodes
from xscl.batches.steps.rows import Layout, Rows
from xscl.batches.steps.sharing import Sharing
from xscl.catalog.tables import NEVER
from xscl.catalog.windows import Reader
from xscl.language.facts import ANSWERS
from xscl.language.steps.terms import StepsDefinition
from xscl.store.event_files import events_of
from xscl.store.results import StoredMatch, answer_id
from xscl.templates.columns import Bools, Int64s, numbered_rows
from xscl.templates.origins import STEPS_LEVEL, origin_of
from xscl.templates.results import ClassRow, ResultColumns
from xscl.templates.sequences.lanes import FAR

__all__ = ["Decided", "Kind", "Teller", "behind_members", "groups_having", "having"]

_NONE: Int64s = np.zeros(0, np.int64)
_Groups = tuple[int, ...]
"""Groups that have a match, and numbers of single queries below 0."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Rows that the steps of some queries have decided."""

    definition: StepsDefinition
    layout: Layout
    members: Members
    sharing: Sharing
    rows: Rows
    ends: tuple[int, int] = (0, NEVER)
    """Least and greatest place of the ends of the queries that this is about."""
    told: Rows | None = None
    """Rows that held before the batch and may be among ``rows``; None: the level gives final ones, each once."""
    came: tuple[Int64s, Int64s] = (_NONE, _NONE)
    """Documents of the batch, and their times, in the order of these; they take answers back that are not final."""
    cut: Rows | None = None
    """Lefts whose runs were cut off (``Tree.too_long``): their answers may go without an event that takes them back."""

    def is_about(self, places: Int64s) -> Bools:
        """Tell which of the queries at some places this is about."""
        until = self.members.readers.until[places]
        found: Bools = (self.ends[0] <= until) & (until <= self.ends[1])
        return found


@dataclass
class Teller:
    """Writes what steps have decided in one batch."""

    batch: Attempt
    readers: Mapping[int, Sequence[Reader]]
    """Queries by their groups."""
    counts: Counter[str] = field(default_factory=Counter)
    """Rows of the results."""
    told: int = 0
    """Files that were written."""
    _numbers: dict[str, int] = field(default_factory=dict)
    """Numbers of documents by their ids: queries that are looked at apart may have the same ones."""

    def tell(self, decided: Sequence[Decided]) -> None:
        """Make matches of rows, each once for all queries that have it."""
        plain = [each for each in decided if len(each.rows) and not each.definition.has_values]
        if plain:
            self._write(plain)
        made = [each for each in decided if len(each.rows) and each.definition.has_values]
        if made:
            self._make(made)

    # -- matches of the events ---------------------------------------------------------------------------------

    def _write(self, decided: Sequence[Decided]) -> None:
        """Write rows that are matches of the events."""
        out = self.results()
        matches: list[tuple[int, StoredMatch]] = []
        for one in decided:
            readers, (kinds, which) = one.members.readers, having(one)
            nodes = answer_nodes(one.definition, one.layout, one.rows)
            groups = [groups_having(readers, kind.queries, kind.places) for kind in kinds]
            found = _once(one.rows, nodes, groups, which, readers)
            matches += self.put(out, one.rows, nodes, *found)
        self.publish(out, matches)

    def put(
        self, out: ResultColumns, rows: Rows, nodes: Int64s, row: Int64s, groups: Sequence[_Groups], which: Int64s
    ) -> Iterable[tuple[int, StoredMatch]]:
        """Write some rows, each for the groups that have it, and return the matches of groups that publish."""
        if not len(row):
            return ()
        later = behind_members(rows)[row]
        first, number = numbered_rows([which, later, *nodes[row].T])
        classes = []
        for each in first.tolist():
            by = always_admitted(groups[which[each]])
            made = ClassRow("match", 0, nodes[row[each]].tolist(), (), by, later=int(later[each]) or None)
            classes.append(out.add_class([made]))
        out.add_combinations(rows.docs[row], np.array(classes, dtype=np.int32)[number])
        return self._published_of(rows, nodes, row, later, groups, which)

    def publish(self, out: ResultColumns, matches: list[tuple[int, StoredMatch]]) -> None:
        """Write the results, and tell the publisher of matches with their places."""
        out.write()
        step("batch.stepped")
        self.counts.update(out.counts)
        if self.batch.publisher is not None and matches:
            matches.sort(key=lambda each: (each[0], each[1].docids, each[1].nodes))
            self.batch.publisher.found([match for _, match in matches], [place for place, _ in matches])

    def _published_of(
        self, rows: Rows, nodes: Int64s, row: Int64s, later: Int64s, groups: Sequence[_Groups], which: Int64s
    ) -> Iterator[tuple[int, StoredMatch]]:
        """Yield the matches of groups that publish, with their places."""
        publishing = frozenset() if self.batch.publisher is None else self.batch.publisher.groups
        wanted = np.array([not publishing.isdisjoint(each) for each in groups], dtype=np.bool_)
        for at in np.flatnonzero(wanted[which]).tolist():
            members, selected = tuple(rows.docs[row[at]].tolist()), tuple(nodes[row[at]].tolist())
            whose = frozenset(groups[which[at]])
            yield (
                int(rows.place[row[at]]),
                StoredMatch(members, selected, (), whose, None, int(later[at]), self.batch.span.batch),
            )

    def results(self) -> ResultColumns:
        """Return what takes more results."""
        self.told += 1
        folder = self.batch.home.root / self.batch.results / f"steps-{self.told}"
        return ResultColumns(origin_of(self.batch.span.batch, STEPS_LEVEL, self.told), folder)

    # -- documents ---------------------------------------------------------------------------------------------

    def _make(self, decided: Sequence[Decided]) -> None:
        """Make documents of rows that tell what FOLDs keep, and matches of these."""
        found: dict[str, tuple[Made, set[int]]] = {}
        for one in decided:
            for id_, (made, whose) in self.made(one).items():
                known, numbers = found.get(id_, (made, set()))
                found[id_] = min(known, made, key=lambda each: each.place), numbers | whose
        self.write_documents([(made, tuple(sorted(whose))) for made, whose in found.values()])

    def write_documents(
        self, found: Sequence[tuple[Made, _Groups]], known: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Write documents and their matches; ``known`` are numbers of those of earlier batches, by their ids."""
        if found:
            assert self.batch.publisher is not None
            there = {**known, **self._numbers}
            counts, self._numbers = write_made(self.batch.publisher, self.results(), found, there)
            self.counts.update(counts)
            step("batch.stepped")

    def made(self, one: Decided) -> dict[str, tuple[Made, set[int]]]:
        """Return the documents of rows by their ids, with what stands for the queries that have each."""
        publisher = self.batch.publisher
        assert publisher is not None
        found: dict[str, tuple[Made, set[int]]] = {}
        readers, (kinds, which) = one.members.readers, having(one)
        numbers = [readers.number[kind.queries] for kind in kinds]
        gids = [readers.gid[kind.queries] for kind in kinds]
        rows = [at for at, kind in enumerate(which.tolist()) if len(numbers[kind])]
        nodes = answer_nodes(one.definition, one.layout, one.rows)
        for at, document, members, when in self._documents(one, rows):
            mine, place, ts = which[at], int(one.rows.place[at]), int(one.rows.ts[at])
            if isinstance(document, XsclError):
                names = {each.number: each.name for gid in set(gids[mine].tolist()) for each in self.readers[gid]}
                told = sorted(numbers[mine].tolist())
                publisher.rejected += [
                    refused_document(names[number], ANSWERS, shown_name("\0".join(members)), ts, document)
                    for number in told
                ]
                continue
            of = *members, repr(nodes[at].tolist())
            ids = {gid: answer_id(one.members.keys[gid], ts, of, document) for gid in set(gids[mine].tolist())}
            for id_ in ids.values():
                made = Made(ANSWERS, id_, place, ts, when, document, int(one.rows.start[at]))
                known, whose = found.get(id_, (made, set()))
                found[id_] = min(known, made, key=lambda each: each.place), whose
            for gid, number in zip(gids[mine].tolist(), numbers[mine].tolist(), strict=True):
                found[ids[gid]][1].add(-number)
        return found

    def _documents(self, one: Decided, rows: Sequence[int]) -> Iterator[tuple[int, str | XsclError, list[str], int]]:
        """Yield rows with their documents, the channels and ids of their members, and when these came."""
        made = in_fresh_dictionary(step_documents, one.definition, one.layout, one.rows, rows)
        docs = one.rows.docs[np.array(rows, dtype=np.int64)]
        members = member_names(events_of(self.batch.home, np.unique(docs), MEMBER_COLUMNS, self.batch.made))
        for at, document, of in zip(rows, made, docs.tolist(), strict=True):
            names, times = zip(*(members.get(doc, (str(doc), 0)) for doc in of), strict=True)
            yield at, document, [*names], max(times)


def behind_members(rows: Rows) -> Int64s:
    """Return how much later than its last member each match is: an absence is there behind it."""
    found: Int64s = rows.ts - rows.times.max(axis=1, initial=-FAR)
    return found


class Kind(NamedTuple):
    """Rows that the same queries have."""

    queries: Int64s
    """Places of these queries among the readers, rising."""
    places: tuple[int, int]
    """Least and greatest place of the events of one of the rows; all are alike to the queries."""


def having(one: Decided) -> tuple[list[Kind], Int64s]:
    """Return the kinds of rows, by the queries that have these, and the kind of each row."""
    readers, rows = one.members.readers, one.rows
    places = place_of(rows.docs)
    since, until = np.unique(readers.since), np.unique(readers.until)
    least, most = places.min(axis=1), places.max(axis=1)
    ends = np.searchsorted(until, rows.place, "right"), np.searchsorted(until, most, "right")
    alike = [rows.base, *ends, np.searchsorted(since, least, "left"), *rows.box.T]
    first, which = numbered_rows(alike)
    kinds = []
    for at in first.tolist():
        mine = readers.of_members(one.sharing.sets.members(int(rows.base[at]), rows.box[at]))
        mine = mine[(readers.since[mine] < rows.place[at]) & (rows.place[at] < readers.until[mine])]
        mine = mine[one.is_about(mine)]
        kinds.append(Kind(mine, (int(least[at]), int(most[at]))))
    return kinds, which


def groups_having(readers: Readers, queries: Int64s, places: tuple[int, int]) -> _Groups:
    """Return who has rows: a group stands for all its queries that see the members, or these are named.

    Args:
        readers: queries of all groups.
        queries: places of those that have the rows.
        places: least and greatest place of the members.
    """
    least, most = places
    every = readers.of_groups(np.unique(readers.gid[queries]))
    plain = every[(readers.since[every] < least) & (most < readers.until[every])]
    alone = np.isin(readers.gid[queries], readers.gid[np.setxor1d(queries, plain, assume_unique=True)])
    groups = np.unique(readers.gid[queries[~alone]]).tolist()
    return (*np.sort(-readers.number[queries[alone]]).tolist(), *groups)


def _once(
    rows: Rows, nodes: Int64s, groups: list[_Groups], which: Int64s, readers: Readers
) -> tuple[Int64s, list[_Groups], Int64s]:
    """Return each match once, in order: its row, who may have it, and which of these do.

    A match that is decided in several ways is that of the first, for all who have any.  Queries whose absences end at
    other times have others.
    """
    there = np.flatnonzero(np.array([bool(each) for each in groups], dtype=np.bool_)[which])
    same = numbered_rows([*rows.docs[there].T, *nodes[there].T, rows.ts[there]])[1]
    order = np.lexsort((which[there], same, rows.place[there]))
    there, same = there[order], same[order]
    first = np.unique(same, return_index=True)[1]
    kinds = which[there]
    if len(first) < len(same):
        groups, kinds = _united(groups, kinds, same, readers)
    first.sort()
    return there[first], groups, kinds[first]


def _united(groups: Sequence[_Groups], kinds: Int64s, same: Int64s, readers: Readers) -> tuple[list[_Groups], Int64s]:
    """Return who has any of the rows that are the same match."""
    every, found = list(groups), kinds.copy()
    gid_of = dict(zip(readers.number.tolist(), readers.gid.tolist(), strict=True))
    known: dict[tuple[int, ...], int] = {}
    order = np.argsort(same, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(same[order])) + 1):
        if len(rows) > 1:
            key = tuple(sorted(set(kinds[rows].tolist())))
            if len(key) > 1 and key not in known:
                having = {one for kind in key for one in groups[kind]}
                known[key] = len(every)
                every.append(tuple(sorted(one for one in having if one > 0 or gid_of[-one] not in having)))
            found[rows] = known[key] if len(key) > 1 else key[0]
    return every, found
