"""Conditions of a block on its whole document, apart from the block's pattern: guards.

Queries that differ in such conditions alone have one pattern, the *skeleton*, and so share variables, witness rows,
edges and instances; a guard is a column of a group, as a window is (S. Madden and others, *Continuously Adaptive
Continuous Queries over Streams*, 2002, call the queries that a row is left to its lineage).

A guard is a disjunction of *alternatives*, each a set of *literals*: a fact that stage 1 has found of the document, or
an interval of a number in it.  Every literal is positive; the negation of a fact is a fact by itself.  So an unknown
fact never makes a guard hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from xscl.base.values import digest_text, hash64

__all__ = ["LENGTH", "MOST_ALTERNATIVES", "Guard", "Literal", "LiteralOp", "facts_variable"]

MOST_ALTERNATIVES = 64
"""Most alternatives of a query's guards together; conditions with more stay in the pattern."""
LiteralOp = str
"""``has``: the document has a row of the variable; or ``<``, ``<=``, ``>``, ``>=``: some row's number compares so; or
``length >``, ``length >=``: the length of the first node's value does.
"""
LENGTH = "string-length"
"""Function of the rows that tell lengths."""


@dataclass(frozen=True, slots=True, order=True)
class Literal:
    """A fact of a document, told by the witness rows of one variable."""

    variable: int
    op: LiteralOp = "has"
    constant: float = 0.0


Alternative = tuple[Literal, ...]


@dataclass(frozen=True)
class Guard:
    """The guard of one block."""

    text: str
    """The definition of the block's topmost node with all conditions of the guard."""
    facts: int
    """The variable of the rows that have the facts of a document (``facts_variable``)."""
    alternatives: tuple[Alternative, ...]

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def name(self) -> str:
        """The guard's name in relations: 16 hex digits."""
        return digest_text("guard", self.text, size=8)

    @cached_property
    def facts_read(self) -> frozenset[int]:
        """The variables of its facts."""
        return frozenset(each.variable for each in self._literals if each.op == "has")

    @cached_property
    def numbers_read(self) -> frozenset[int]:
        """The variables whose numbers it compares."""
        return frozenset(each.variable for each in self._literals if each.op != "has")

    @property
    def _literals(self) -> Iterable[Literal]:
        return (literal for alternative in self.alternatives for literal in alternative)


def facts_variable(channel: str) -> int:
    """Return the variable of the rows with the facts of a channel's documents.

    >>> facts_variable("items") == facts_variable("items") != facts_variable("alerts")
    True
    """
    return hash64(f"facts:{channel}")
