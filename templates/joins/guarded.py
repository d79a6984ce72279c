"""Guards over many pairs of documents: which pairs the groups of an instance have by their guards and windows.

Nothing is tested for every pair and group.  Each conjunction of literals is looked for by the literal that the fewest
pairs satisfy, counted exactly; its other literals are tested on what that finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.base.number_order import order_of
from xscl.templates.columns import Bools, Int32s, Int64s, gather, take
from xscl.templates.joins.document_facts import DocumentFacts
from xscl.templates.program_guards import OPERATORS, UNGUARDED, GuardTable

__all__ = ["AnyGuard", "Conjunctions", "Sought"]

_MANY = 4_000_000
"""Pairs and conjunctions that are tested at a time."""


_FEW = 5_000
"""Pairs and conjunctions that are tested, each with each, sooner than counts tell how to look for them."""


class _Literals(NamedTuple):
    """Literals of conjunctions, in columns."""

    side: Int64s
    """Whether the literal speaks of the left document (0) or the right one (1)."""
    variable: Int64s
    place: Int64s
    """The place of the variable among those of facts, or of numbers."""
    operator: Int32s
    constant: npt.NDArray[np.float64]


class Pairs(NamedTuple):
    """Pairs of documents, by the places of their documents among those whose facts are known."""

    left: Int64s
    right: Int64s
    facts: DocumentFacts

    def of(self, side: int) -> Int64s:
        """Return the documents of one side."""
        return self.right if side else self.left

    @property
    def documents(self) -> int:
        """The number of documents whose facts are known."""
        return len(self.facts.docs)


class Sought(NamedTuple):
    """Pairs among which conjunctions are looked for, each by one of its literals."""

    pairs: Pairs
    access: Int64s
    """The literal of each conjunction; -1 where all pairs are looked at."""
    cost: Int64s
    """Number of pairs that satisfy that literal, or are looked at."""


@dataclass(frozen=True)
class Conjunctions:
    """Conjunctions of literals, each of one combination of two guards: the left document's and the right one's."""

    combination: Int64s
    """The combination of each conjunction, rising."""
    starts: Int64s
    """The first literal of each conjunction, and the end."""
    literals: _Literals

    @classmethod
    def of(cls, table: GuardTable, left: Int64s, right: Int64s) -> Conjunctions:
        """Make the conjunctions of some combinations of guards, by their numbers."""
        counts = [np.where(side == UNGUARDED, 1, table.starts[side + 1] - table.starts[side]) for side in (left, right)]
        _, combination = gather(np.zeros(len(left), dtype=np.int64), counts[0] * counts[1])
        within = np.arange(len(combination)) - (np.cumsum(counts[0] * counts[1]) - counts[0] * counts[1])[combination]
        places = (within // counts[1][combination], within % counts[1][combination])
        conjunctions, sides, literals = [], [], []
        for number, (side, place) in enumerate(zip((left, right), places, strict=True)):
            guard = side[combination]
            some = np.flatnonzero(guard != UNGUARDED)
            alternative = table.starts[guard[some]] + place[some]
            begin = table.literal_starts[alternative]
            at, of = gather(begin, table.literal_starts[alternative + 1] - begin)
            conjunctions.append(some[of])
            sides.append(np.full(len(at), number, dtype=np.int64))
            literals.append(at)
        of_literal = np.concatenate(conjunctions)
        order = np.argsort(of_literal, kind="stable")
        at = np.concatenate(literals)[order]
        starts = np.searchsorted(of_literal[order], np.arange(len(combination) + 1))
        return cls(
            combination,
            starts,
            _Literals(
                np.concatenate(sides)[order],
                table.variable[at],
                table.place[at],
                table.operator[at],
                table.constant[at],
            ),
        )

    def sought(self, left: Int64s, right: Int64s, facts: DocumentFacts) -> Sought:
        """Choose how conjunctions are looked for; ``left`` and ``right`` are places of documents in ``facts``."""
        pairs = Pairs(left, right, facts)
        many = len(self.combination)
        if many * len(left) <= _FEW:
            return Sought(pairs, np.full(many, -1), np.full(many, len(left)))
        return Sought(pairs, *self._accesses(pairs))

    def held(self, sought: Sought) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield places of pairs, and a combination of guards that each satisfies, some of them more than once."""
        pairs, access, cost = sought
        order = np.flatnonzero(cost)
        order = order[np.argsort(cost[order], kind="stable")]
        part = np.cumsum(cost[order]) // _MANY
        for some in np.split(order, np.flatnonzero(np.diff(part)) + 1):
            pair, conjunction = self._candidates(some, access[some], pairs)
            kept = self._tested(pair, conjunction, access, pairs)
            yield pair[kept], self.combination[conjunction[kept]]

    def holds(self, left: Int64s, right: Int64s, conjunction: Int64s, facts: DocumentFacts) -> Bools:
        """Tell which pairs satisfy a conjunction each."""
        found = np.zeros(len(left), dtype=np.bool_)
        nothing = np.full(len(self.combination), -1, dtype=np.int64)
        found[self._tested(np.arange(len(left)), conjunction, nothing, Pairs(left, right, facts))] = True
        return found

    def of_combinations(self, combinations: Int64s) -> tuple[Int64s, Int64s]:
        """Return the conjunctions of some combinations, and to which of them each belongs."""
        begin = np.searchsorted(self.combination, combinations)
        return gather(begin, np.searchsorted(self.combination, combinations, side="right") - begin)

    def _accesses(self, pairs: Pairs) -> tuple[Int64s, Int64s]:
        """Return ``Sought.access`` and ``Sought.cost``."""
        facts, local = pairs.facts, self.literals.place
        cost = np.zeros(len(local), dtype=np.int64)
        for side in (0, 1):
            weights = np.bincount(pairs.of(side), minlength=pairs.documents)
            doc, fact = facts.entries()
            of_fact = np.bincount(fact, weights=weights[doc], minlength=len(facts.variables)).astype(np.int64)
            mine = self.literals.side == side
            some = np.flatnonzero(mine & (self.literals.operator == 0))
            cost[some] = of_fact[local[some]]
            for of, begin, order in self._ordered(mine, pairs):
                sums = np.concatenate([np.cumsum(weights[order][::-1])[::-1], [0]])
                cost[of] = sums[begin]
        sizes = np.diff(self.starts)
        access = np.where(sizes > 0, self.starts[:-1], -1)
        several = np.flatnonzero(sizes > 1)
        literal, of = gather(self.starts[several], sizes[several])
        order = np.lexsort((cost[literal], of))
        access[several] = literal[order[np.cumsum(sizes[several]) - sizes[several]]]
        return access, np.where(access < 0, len(pairs.left), cost[access] if len(cost) else 0)

    def _ordered(self, mine: Bools, pairs: Pairs) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
        """Yield some literals that compare numbers, an order of documents, and where in it those that satisfy begin."""
        facts, local = pairs.facts, self.literals.place
        for number, name in enumerate(OPERATORS[1:], start=1):
            of_operator = mine & (self.literals.operator == number)
            for variable in np.unique(local[of_operator]).tolist():
                some = np.flatnonzero(of_operator & (local == variable))
                # What is above a bound, of what is below one its negative is.
                sign = -1 if name.startswith("<") else 1
                values, constants = sign * facts.decisive(name)[variable], sign * self.literals.constant[some]
                order = np.argsort(values, kind="stable")  # NaN comes last
                known = int((~np.isnan(values)).sum())
                begin = np.searchsorted(values[order[:known]], constants, side="left" if "=" in name else "right")
                yield some, begin, order[:known]

    def _candidates(self, conjunctions: Int64s, access: Int64s, pairs: Pairs) -> tuple[Int64s, Int64s]:
        """Return the pairs that satisfy the literal by which each conjunction is looked for."""
        places, found = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for side in (0, 1):
            mine = np.zeros(len(self.literals.side), dtype=np.bool_)
            mine[access[access >= 0]] = True
            mine &= self.literals.side == side
            if not mine.any():
                continue
            of_literal = np.full(len(mine), -1, dtype=np.int64)
            of_literal[access[access >= 0]] = conjunctions[access >= 0]
            order = order_of(pairs.of(side))
            starts = np.searchsorted(pairs.of(side)[order], np.arange(pairs.documents + 1))
            for literal, doc in self._documents(mine, pairs):
                at, which = gather(starts[doc], starts[doc + 1] - starts[doc])
                places.append(order[at])
                found.append(of_literal[literal[which]])
        every = conjunctions[access < 0]
        places.append(np.tile(np.arange(len(pairs.left)), len(every)))
        found.append(np.repeat(every, len(pairs.left)))
        return np.concatenate(places), np.concatenate(found)

    def _documents(self, mine: Bools, pairs: Pairs) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield literals, and the documents that satisfy each."""
        facts, local = pairs.facts, self.literals.place
        some = np.flatnonzero(mine & (self.literals.operator == 0))
        doc, fact = facts.entries()
        by_fact = order_of(fact)
        begin = np.searchsorted(fact[by_fact], local[some])
        at, which = gather(begin, np.searchsorted(fact[by_fact], local[some], side="right") - begin)
        yield some[which], doc[by_fact[at]]
        for literals, begin, order in self._ordered(mine, pairs):
            at, which = gather(begin, len(order) - begin)
            yield literals[which], order[at]

    def _tested(self, pair: Int64s, conjunction: Int64s, access: Int64s, pairs: Pairs) -> Int64s:
        """Return the places of pairs that satisfy the conjunction beside them; its literal ``access`` holds."""
        at = np.arange(len(pair))
        known = access[conjunction]
        for step in range(int(np.diff(self.starts)[conjunction].max(initial=0))):
            literal = self.starts[conjunction[at]] + step
            asked = (literal < self.starts[conjunction[at] + 1]) & (literal != known[at])
            some = np.flatnonzero(asked)
            held = np.ones(len(at), dtype=np.bool_)
            held[some] = self._satisfy(pair[at[some]], literal[some], pairs)
            at = at[held]
        return at

    def _satisfy(self, pair: Int64s, literal: Int64s, pairs: Pairs) -> Bools:
        of, facts = take(self.literals, literal), pairs.facts
        doc = np.where(of.side == 0, pairs.left[pair], pairs.right[pair])
        place = of.place
        found = np.zeros(len(pair), dtype=np.bool_)
        some = np.flatnonzero(of.operator == 0)
        found[some] = facts.has(doc[some], place[some])
        for number, name in enumerate(OPERATORS[1:], start=1):
            some = np.flatnonzero(of.operator == number)
            if len(some):
                values = facts.decisive(name)[place[some], doc[some]]
                found[some] = _COMPARE[name.removeprefix("length ")](values, of.constant[some])
        return found


_COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


@dataclass(frozen=True)
class AnyGuard:
    """Guards that a document satisfies if one of them holds."""

    parts: tuple[Conjunctions, ...]

    @classmethod
    def of(cls, table: GuardTable, guards: Int64s) -> AnyGuard:
        """Prepare some guards, by their numbers."""
        rules = Conjunctions.of(table, guards, np.zeros_like(guards))
        parts = _weakest(rules), np.flatnonzero(np.diff(rules.starts) != 1)
        return cls(tuple(_only(rules, part) for part in parts if len(part)))

    def holds(self, facts: DocumentFacts) -> Bools:
        """Tell which documents satisfy some of them."""
        found = np.zeros(len(facts.docs), dtype=np.bool_)
        for part in self.parts:
            waiting = np.flatnonzero(~found)
            if not len(waiting):
                break
            for at, _ in part.held(part.sought(waiting, waiting, facts)):
                found[waiting[at]] = True
        return found


def _weakest(rules: Conjunctions) -> Int64s:
    """Return conjunctions of one literal, of comparisons only the one that most numbers satisfy."""
    alone = np.flatnonzero(np.diff(rules.starts) == 1)
    of = take(rules.literals, rules.starts[alone])
    greater = of.operator >= OPERATORS.index(">")
    weight = np.where(greater, of.constant, -of.constant)
    order = np.lexsort((weight, of.operator, of.variable))
    first = np.ones(len(order), dtype=np.bool_)
    variable, operator = of.variable[order], of.operator[order]
    first[1:] = (variable[1:] != variable[:-1]) | (operator[1:] != operator[:-1])
    return np.sort(alone[order[first]])


def _only(rules: Conjunctions, some: Int64s) -> Conjunctions:
    """Return some of the conjunctions."""
    at, of = gather(rules.starts[some], rules.starts[some + 1] - rules.starts[some])
    starts = np.searchsorted(of, np.arange(len(some) + 1))
    return Conjunctions(rules.combination[some], starts, take(rules.literals, at))
