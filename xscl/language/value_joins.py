"""Value joins by the types of columns: how values are compared, and which functions stage 1 applies to them."""

from __future__ import annotations

from collections.abc import Sequence

from xscl.base.errors import UnsupportedFeatureError
from xscl.base.mixed import Kind, is_role, mixed_parts, most_parts, roles, with_kinds
from xscl.base.own_functions import returns_numbers
from xscl.language.column_types import BlockColumns, ColumnType
from xscl.language.normalize import MAX_JOINS, NormalJoin, NormalQuery

__all__ = ["JoinSides", "check_comparisons"]


def check_comparisons(sides: Sequence[JoinSides]) -> None:
    """Refuse more comparisons than a template may have, also where columns that are not known yet may make them.

    Raises:
        UnsupportedFeatureError: ``XSCL_TOO_MANY_ATOMS``.
    """
    count = sum(each.most for each in sides)
    if count > MAX_JOINS:
        raise UnsupportedFeatureError(
            "XSCL_TOO_MANY_ATOMS",
            f"an atom on * counts as several, because columns of each type compare in their own way; this query has "
            f"{count:,}, and {MAX_JOINS} are allowed",
            hint="name the columns",
        )


class JoinSides:
    """A value join with what is known of its two sides."""

    def __init__(self, normal: NormalQuery, columns: Sequence[BlockColumns], join: NormalJoin) -> None:
        self.join = join
        self.nodes = normal.variables[join.left], normal.variables[join.right]
        """(block, node) of the left and the right side."""
        self._sides = [
            _Side(columns[block], node, join.op, functions)
            for (block, node), functions in zip(self.nodes, (join.fn_l, join.fn_r), strict=True)
        ]

    @property
    def most(self) -> int:
        """Return the number of comparisons that columns of any type may make of it."""
        may_be_mixed = not self.join.linear and any(side.is_any for side in self._sides)
        return most_parts(self.join.op) if may_be_mixed else 1

    def comparisons(self) -> list[tuple[str, str, str]]:
        """Return (operator, functions of the left side, those of the right) of each comparison that it asks for."""
        left, right = self._sides
        parts = [] if self.join.linear else mixed_parts(self.join.op, left.kinds, right.kinds)
        if parts:
            return [(op, left.applied(one), right.applied(other)) for op, one, other in parts]
        kinds = left.kinds, right.kinds
        first = "number" if self.join.linear or {"n"} in kinds else "time" if {"t"} in kinds else ""
        return [(self.join.op, left.applied(first), right.applied(first))]

    def functions(self) -> tuple[set[str], set[str]]:
        """Return the functions that stage 1 is asked for on both sides."""
        join, comparisons = self.join, self.comparisons()
        found = {fn_l for _, fn_l, _ in comparisons}, {fn_r for _, _, fn_r in comparisons}
        # While a column may still turn out to be of another type, numbers are kept as well as strings, so that
        # documents seen before its first row can join with it.
        if any(side.is_open for side in self._sides) and join.f == 1 and join.add == 0:
            every = roles(join.op) if any(side.is_any for side in self._sides) else ((), ())
            for side, names, known in zip(self._sides, found, every, strict=True):
                names.update(map(side.applied, ("", "number", *known)))
                # The other side may still turn out to be a column of times.
                if join.op not in ("=", "!=") and side.is_ordered:
                    names.add(side.applied("time"))
        left, right = (set(map(side.of_kinds, names)) for side, names in zip(self._sides, found, strict=True))
        return left, right


class _Side:
    """One side of a value join."""

    def __init__(self, columns: BlockColumns, node: int, op: str, functions: str) -> None:
        self._columns = columns
        self._node = node
        self._op = op
        self._functions = functions
        self._types = columns.types(node)
        self.is_any = columns.is_any(node)
        self.is_open = columns.is_open(node)
        self.is_ordered = self._types <= {"text", "time"}
        self.kinds = frozenset(map(self._kind, self._types))

    def _kind(self, type_: ColumnType) -> Kind:
        """Return the kind of values of a type; a function makes a text of each."""
        if returns_numbers(self._functions):
            return "n"
        if self._op in ("=", "!="):
            return "n" if type_ == "number" and not self._functions else "s"
        if type_ == "time" and not self._functions:
            return "t"
        return "s" if type_ in ("text", "time") else "n"

    def applied(self, function: str) -> str:
        """Return the side's own functions with one more applied to what they give; '' for none more."""
        return f"{function} {self._functions}".strip(" ")

    def of_kinds(self, function: str) -> str:
        """Return a function as stage 1 has it: what reads values by their kinds has the kinds of the side's columns."""
        if not is_role(function):
            return function
        if len(self.kinds) == 1:
            return with_kinds(function, {}, *self.kinds)
        kinds = {column: self._kind(type_) for column, type_ in self._columns.columns(self._node).items()}
        return with_kinds(function, kinds, self._kind("other"))
