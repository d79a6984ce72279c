"""Normal forms of queries with marks, and with the constants of a text in their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any

from xscl.base.replacing import replaced
from xscl.language.compile_joins import compile_normal, lifted_like
from xscl.language.compiled import CompiledQuery, Filled, FilledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.guards import Lifted, guard_of
from xscl.language.normalize import NormalBlock, NormalQuery, TreeNode, normalize
from xscl.language.outlines.filled_conditions import Marks, Refused, filled_once, marks_within
from xscl.language.outlines.join_marks import JoinMarks, Numbers, join_marks
from xscl.language.outlines.marks import Cut, cut_at
from xscl.language.syntax import ast
from xscl.xpath.pattern import Condition, Constant

__all__ = ["MarkedQuery", "marked_query", "shared", "worded"]


@dataclass(frozen=True, slots=True)
class MarkedQuery:
    """A normal form with marks."""

    normal: NormalQuery
    places: tuple[tuple[int, int], ...]
    """(block, node) of the conditions with marks."""
    first: CompiledQuery
    """The first text of the outline, compiled."""
    lifted: tuple[Lifted, ...] | None
    """Guards of the blocks; None: marks are not in guards alone."""
    cut: Cut = Cut(("",), ())
    """Text of a part, without the marks in it."""
    joins: JoinMarks | None = None
    """Marks in joins and windows; None: there are none."""

    def filled(self, marks: Marks, made: dict[int, Any], told: Sequence[str], numbers: Numbers) -> FilledQuery:
        """Return the normal form with constants for marks, but for places in its text.

        Args:
            marks: the constants.
            made: blocks, conditions and guards with these constants, by the identity of those with marks.
            told: the constants as texts have them.
            numbers: numbers of joins and windows by their marks.

        Raises:
            Refused: the text has to be parsed.
        """
        if not self.places and self.joins is None:
            return FilledQuery(self.first.normal, text=self.cut.filled(told))
        for place, block in enumerate(self.normal.blocks):
            if id(block) not in made:
                marked = [node for at, node in self.places if at == place]
                filled = partial(filled_once, marks=marks, made=made)
                made[id(block)] = _filled_block(block, marked, filled) if marked else self.first.normal.blocks[place]
        normal = replaced(self.normal, blocks=tuple([made[id(block)] for block in self.normal.blocks]))
        guards = self._guards(marks, made) if self.places else None
        joins = None
        if self.joins is not None:
            normal, known = self.joins.filled(normal, numbers), self.first.normal
            if (normal.joins, normal.cases) != (known.joins, known.cases):
                # Marks of conditions that are no guards are in more than joins and guards.
                joins = None if guards is None and self.places else self.joins.compiled(normal, numbers)
                # Without what the joins are compiled to, other guards alone do not make the query.
                guards = None if joins is None else guards
            elif not self.places:
                normal = known
        return FilledQuery(normal, guards, self.cut.filled(told), joins=joins)

    def _guards(self, marks: Marks, made: dict[int, Any]) -> tuple[Filled, ...] | None:
        """Return the guards of the blocks with constants for marks; None: these are not in guards alone."""
        if self.lifted is None:
            return None
        marked = {place for place, _ in self.places}
        found: list[Filled] = []
        for place, lifted in enumerate(self.lifted):
            selection = lifted.selection
            if place not in marked or selection is None:
                found.append((lifted.guard, lifted.specs))
                continue
            if id(selection) not in made:
                made[id(selection)] = guard_of(selection.mapped(partial(filled_once, marks=marks, made=made)))
            if made[id(selection)] is None:
                return None
            found.append(made[id(selection)])
        return tuple(found)


def _filled_block(block: NormalBlock, marked: Sequence[int], filled: Callable[[Condition], Condition]) -> NormalBlock:
    """Return a block whose conditions are filled in at some of its nodes."""
    nodes = list(block.nodes)
    for node in marked:
        known = nodes[node]
        found = list(map(filled, known.conditions))
        nodes[node] = TreeNode(known.parent, known.step, known.variable, found, known.spans)
    return NormalBlock(block.channel, nodes, block.result)


def shared(part: MarkedQuery, whole: MarkedQuery) -> MarkedQuery:
    """Return a part that has what the whole query has where both are equal, to be filled in once."""
    blocks = list(part.normal.blocks)
    for place in {place for place, _ in whole.places if place < len(blocks)}:
        if blocks[place] == whole.normal.blocks[place]:
            blocks[place] = whole.normal.blocks[place]
    lifted = part.lifted
    if lifted is not None and whole.lifted is not None:
        known = {each.selection: each.selection for each in whole.lifted}
        lifted = tuple(replace(each, selection=known.get(each.selection, each.selection)) for each in lifted)
    return replace(part, normal=replace(part.normal, blocks=tuple(blocks)), lifted=lifted)


def marked_query(
    query: ast.Query,
    *,
    text: str,
    marks: Sequence[Constant],
    first: CompiledQuery,
    namespaces: Mapping[str, str],
    channels: Mapping[str, ChannelFacts],
    numbers: Mapping[Fraction, Constant | None] = MappingProxyType({}),
) -> tuple[MarkedQuery, Counter[Constant]]:
    """Return the normal form of a query with marks, and how often it has each of them.

    Args:
        query: the query with marks.
        text: its text.
        marks: the marks.
        first: the first text of the outline, compiled.
        namespaces: URIs by prefix.
        channels: the channels' schemas.
        numbers: marks that joins and windows may have, as those of conditions; None: they may be in no condition.

    Raises:
        QueryError, Refused: it cannot be filled in.
    """
    normal = normalize(query, text, namespaces)
    places, seen = [], Counter[Constant]()
    for at, block in enumerate(normal.blocks):
        for node, tree in enumerate(block.nodes):
            found = [each for condition in tree.conditions for each in marks_within(condition, marks)]
            seen.update(found)
            places += [(at, node)] * bool(found)
    of_joins = [number for number, constant in numbers.items() if constant is None or constant not in seen]
    if not of_joins:
        return MarkedQuery(normal, tuple(places), first, lifted_like(normal, channels, first)), seen
    joins = join_marks(compile_normal(normal, channels), first, of_joins, query.source)
    seen.update(constant for number in of_joins if (constant := numbers[number]) is not None)
    alike = replace(normal, joins=first.normal.joins, cases=first.normal.cases)
    lifted = lifted_like(alike, channels, first) if places else None
    return MarkedQuery(normal, tuple(places), first, lifted, joins=joins), seen


def worded(part: MarkedQuery, text: str, printed: Sequence[str]) -> MarkedQuery:
    """Return a part with its text, cut at the marks; ``printed`` are all marks as texts have them.

    Raises:
        Refused: the text has one more than once.
    """
    own = [number for number, mark in enumerate(printed) if mark in text]
    found = cut_at(text, [printed[number] for number in own])
    if found is None:
        raise Refused
    return replace(part, cut=Cut(found.words, tuple(own[number] for number in found.order)))
