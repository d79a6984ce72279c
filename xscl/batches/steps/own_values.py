"""Values of rows on the right that queries compare with numbers or texts of their own.

A condition such as ``q = 'IBM'`` or ``q != 5`` says the same to all queries whose own value no row of a key has.
A condition such as ``q > 5`` does so to all queries whose own values are between those of two rows.
So a row on the left makes one request for all of these queries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xscl.batches.steps.rows import objects
from xscl.batches.steps.sharing import Sharing, TooMany
from xscl.batches.steps.values import Pairs
from xscl.batches.windows.values import number_of
from xscl.language.steps.shapes import own_value
from xscl.language.syntax.ast import Op
from xscl.language.terms import Comparison
from xscl.templates.columns import Bools, Int64s, gather, numbered_rows
from xscl.templates.sequences.member_sets import Pieces

__all__ = ["MOST_MEMBERS", "OwnValues", "own_values"]

MOST_MEMBERS = 10_000_000
"""Members of the sets that are cut up at once; behind them half of the queries are moved at a time."""


class _Condition(NamedTuple):
    op: Op
    rank: Int64s
    """Rank of each row's value among those of the members; -1: no member has it, or it is none.

    Of a comparison that orders values, that of the first member's which the row's value is on the other side of.
    """
    own: Int64s
    """Rank of each member's own."""


@dataclass(frozen=True, slots=True)
class OwnValues:
    """Conditions of this kind, over the rows on the right of a step."""

    conditions: Sequence[_Condition]
    code: Int64s
    """Number of the values that each row has in equalities, from 1 on; 0: no member has these."""
    codes: Mapping[tuple[int, ...], int]
    """These numbers by the ranks of the values."""

    @property
    def asked(self) -> Bools:
        """Tell which rows have values that a member asks for."""
        found: Bools = self.code > 0
        return found if any(each.op == "=" for each in self.conditions) else np.ones(len(found), dtype=np.bool_)

    def keys(self, key: Int64s, code: Int64s) -> Int64s:
        """Return keys by which rows meet that have the same values, too."""
        return np.where(key < 0, -1, key * (len(self.codes) + 1) + code)

    def cut(self, sharing: Sharing, pieces: Pieces, key: Int64s, rights: Int64s, of: Int64s) -> tuple[Pieces, Int64s]:
        """Cut pieces of the left up, so that the members of each are alike to all rows on the right of its key.

        Args:
            sharing: how the members share the steps.
            pieces: rows on the left.
            key: key of each.
            rights: keys of rows on the right.
            of: these rows.

        Returns:
            Pieces, and the keys by which they meet rows of their values.
        """
        there = np.flatnonzero(np.any([each.rank[of] >= 0 for each in self.conditions], axis=0))
        there = there[np.argsort(rights[there], kind="stable")]
        known, begins = np.unique(rights[there], return_index=True)
        rows = np.split(of[there], begins[1:])
        at = np.searchsorted(known, key)
        at = np.where(np.append(known, -2)[at] == key, at, -1)
        first, which = numbered_rows([at, pieces.base])
        both = zip(at[first].tolist(), pieces.base[first].tolist(), strict=True)
        cut, members = list[tuple[list[int], list[int]]](), 0
        for place, base in both:
            members += len(sharing.sets.of(base)) if place >= 0 else 0
            if members > MOST_MEMBERS:
                raise TooMany
            cut.append(([base], [0]) if place < 0 else self._parts(sharing, base, rows[place]))
        counts = np.array([len(bases) for bases, _ in cut], dtype=np.int64)
        place, piece = gather((np.cumsum(counts) - counts)[which], counts[which])
        base = np.array([base for bases, _ in cut for base in bases], dtype=np.int64)[place]
        code = np.array([code for _, codes in cut for code in codes], dtype=np.int64)[place]
        return Pieces(pieces.row[piece], pieces.part[piece], base), self.keys(key[piece], code)

    def _parts(self, sharing: Sharing, base: int, rows: Int64s) -> tuple[list[int], list[int]]:
        """Return the sets of members of one that are alike to some rows, and the codes of the rows that they meet."""
        members = sharing.sets.of(base)
        ranks = []
        for each in self.conditions:
            values, own = np.unique(each.rank[rows]), each.own[members]
            if each.op not in ("=", "!="):
                ranks.append(np.searchsorted(values, own, "right"))
                continue
            ranks.append(np.where(values[np.minimum(np.searchsorted(values, own), len(values) - 1)] == own, own, -1))
        first, which = numbered_rows(ranks)
        order = np.argsort(which, kind="stable")
        parts = np.split(members[order], np.flatnonzero(np.diff(which[order])) + 1)
        equal = [rank[first].tolist() for each, rank in zip(self.conditions, ranks, strict=True) if each.op == "="]
        codes = [self.codes.get(each, 0) for each in zip(*equal, strict=True)] if equal else [0] * len(parts)
        return [sharing.sets.add(part) for part in parts], codes


def own_values(sharing: Sharing, pairs: Pairs, parts: frozenset[int], comparisons: Sequence[Comparison]) -> OwnValues:
    """Return conditions with queries' own values over rows of some parts; ``pairs`` are these rows by themselves."""
    conditions = [_condition(sharing, pairs, parts, each) for each in comparisons]
    code, codes = np.zeros(len(pairs.at), dtype=np.int64), dict[tuple[int, ...], int]()
    ranks = [each.rank for each in conditions if each.op == "="]
    if ranks:
        known = np.flatnonzero(np.all([rank >= 0 for rank in ranks], axis=0))
        for row, each in zip(known.tolist(), zip(*(rank[known].tolist() for rank in ranks), strict=True), strict=True):
            code[row] = codes.setdefault(each, len(codes) + 1)
    return OwnValues(conditions, code, codes)


def _condition(sharing: Sharing, pairs: Pairs, parts: frozenset[int], each: Comparison) -> _Condition:
    own = own_value(each, parts)
    assert own is not None and own.slot is not None
    slot = own.slot + (own.kind == "number")
    values = pairs.values(each.right if own is each.left else each.left)
    known = sharing.ranks_of(slot)
    if own.kind == "number":
        values = objects([*map(number_of, values)])
    if each.op in ("=", "!="):
        rank = [-1 if value is None else known.get(value, -1) for value in values]
    else:
        # q > c and c >= q change behind the numbers that are less than q, others behind those that are equal, too.
        find = bisect_left if (each.op in (">", "<=")) is (own is each.right) else bisect_right
        numbers = sharing.numbers[slot].numbers.tolist()
        rank = [-1 if value is None else find(numbers, value) for value in values]
    return _Condition(each.op, np.array(rank, dtype=np.int64), sharing.numbers[slot].which)
