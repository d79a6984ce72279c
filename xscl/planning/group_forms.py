"""Compiled forms of groups: read from the file of those compiled before, or compiled from their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from xscl.catalog.kept_groups import FEW, KeptGroups, group_name
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import GROUPS
from xscl.language.compile import GUARDED, compile_query
from xscl.language.facts import ChannelFacts
from xscl.language.forms import Preparer
from xscl.language.group_data import GroupForm
from xscl.language.outlines.skeletons import cut
from xscl.language.syntax.parser import parse_query
from xscl.planning.subscribers import GroupText

__all__ = ["GroupForms"]

Facts = Mapping[str, ChannelFacts]


class GroupForms:
    """Compiled forms of groups, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._kept = KeptGroups(folder)
        self._new: list[tuple[str, GroupForm]] = []
        """Groups that were compiled a few at a time, and are not kept yet."""

    def of(self, rows: Sequence[GroupText], facts: Facts, *, whole: bool) -> list[tuple[GroupText, GroupForm]]:
        """Return what some groups are compiled to, by their numbers; ``whole``: there are no others."""
        return sorted(self._of(rows, facts, whole=whole), key=lambda each: each[0].number)

    def _of(self, rows: Sequence[GroupText], facts: Facts, *, whole: bool) -> Iterable[tuple[GroupText, GroupForm]]:
        name_of = _names(rows, facts)
        if len(rows) <= FEW:
            few = list(_compiled(rows, facts))
            self._new += [(name_of[row.number], form) for row, form in few]
            if len(self._new) > FEW:
                self._kept.add(self._new)
                self._new = []
            return few
        kept, entries = self._kept.read(set(name_of.values()))
        found = [(row, kept[name_of[row.number]]) for row in rows if name_of[row.number] in kept]
        new = list(_compiled([row for row in rows if name_of[row.number] not in kept], facts))
        # Groups that nobody asks for any more leave the file once they are more than all the rest.
        if whole and entries > 2 * len(kept) + FEW:
            self._kept.replace([(name_of[row.number], form) for row, form in (*found, *new)])
        else:
            self._kept.add([(name_of[row.number], form) for row, form in new])
        return found + new


def _names(rows: Sequence[GroupText], facts: Facts) -> dict[int, str]:
    """Return the names under which forms of groups are kept, by the groups' numbers."""
    known: dict[str, list[tuple[str, ChannelFacts | None]]] = {}
    for row in rows:
        if row.channels not in known:
            known[row.channels] = [
                (channel, facts.get(channel)) for channel in read_stored(GROUPS.c.channels, row.channels)
            ]
    return {row.number: group_name(row.text, row.namespaces, known[row.channels]) for row in rows}


def _compiled(rows: Sequence[GroupText], facts: Facts) -> Iterator[tuple[GroupText, GroupForm]]:
    """Yield the groups with what their texts are compiled to; groups of one instance come together."""
    counts = Counter((row.namespaces, row.iid) for row in rows)

    def alike(row: GroupText) -> tuple[str, int, tuple[str, ...]]:
        # Groups of one instance differ in windows and guards.  Others may differ in constants of joins.
        is_one = counts[row.namespaces, row.iid] > 1
        return row.namespaces, row.iid if is_one else 0, () if is_one else cut(row.text)[0]

    ordered = sorted(((alike(row), row.number, row) for row in rows), key=itemgetter(0, 1))
    for (namespaces, *_), found in groupby(ordered, key=itemgetter(0)):
        some = [row for _, _, row in found]
        declared = read_stored(GROUPS.c.namespaces, namespaces)
        preparer = Preparer(declared, facts) if len(some) > 1 else None
        for row in some:
            if preparer is not None:
                compiled = preparer.prepare_text(row.text).compiled
            else:
                compiled = compile_query(
                    parse_query(row.text),
                    row.text,
                    namespaces=declared,
                    channels=facts,
                    guarded=row.text.startswith(GUARDED),
                )
            yield row, GroupForm.of(compiled)
