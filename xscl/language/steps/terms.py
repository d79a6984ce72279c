"""Steps of a query by places instead of names: what NEXT, FOLD and FILTER ask of the matches of parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xscl.language.selection import Element
from xscl.language.terms import Comparison, Term

__all__ = [
    "Accumulator",
    "Between",
    "Computed",
    "Filter",
    "Fold",
    "Key",
    "Next",
    "Node",
    "Part",
    "PartVariables",
    "Skip",
    "StepsDefinition",
    "Taken",
    "Value",
    "Without",
]


@dataclass(frozen=True, slots=True)
class Computed:
    """Arithmetic of several values; a value that is no number, or a division by zero, makes no value."""

    op: Literal["+", "-", "*", "/"]
    left: Value
    right: Value


Value = Term | Computed


@dataclass(frozen=True, slots=True)
class Key:
    """An equality of a value of the left side with one of the right side, without arithmetic."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Between:
    """Limits of the difference of two event times in microseconds, ends included; None: none."""

    later: tuple[int, int]
    """Part, and block of the part."""
    earlier: tuple[int, int]
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class Skip:
    """Conditions of NEXT or FOLD on a left and a right side; a right side that fails one is skipped.

    The end of the left side is before the start of the right one in any case.  In a FOLD the left side has ended with
    the iteration before, and began where the first one did.
    """

    keys: tuple[Key, ...]
    least: int | None
    """Least time from the end of the left side to the end of the right one, in microseconds, included."""
    most: int | None
    """Greatest time between these, included."""
    duration: int | None
    """Greatest time from the start of the left side to the end of the right one, included."""
    between: tuple[Between, ...]
    comparisons: tuple[Comparison, ...]
    """All other conditions."""
    least_slot: int | None = None
    """Place of ``least`` among the numbers that were taken out (``shapes``); None: it is as told."""
    most_slot: int | None = None
    """The same of ``most``; where it is that of ``least`` too, ``least`` is the time before, and ``most`` as long."""
    duration_slot: int | None = None
    """The same of ``duration``."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A function over the values that the iterations of a FOLD have taken."""

    function: str
    """One of count, sum, avg, min, max and first."""
    term: Term | None
    """Value of the right side; None: the iterations themselves."""
    first: Term | None
    """Value of the left side that comes before all of them; None: none does."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A value that a FOLD keeps: each iteration makes it of the values before it, all at once."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Part:
    """Matches of a part."""

    number: int


@dataclass(frozen=True, slots=True)
class Next:
    """Each left side with the right sides behind it that satisfy ``skip`` and end first."""

    left: Node
    right: Node
    skip: Skip


@dataclass(frozen=True, slots=True)
class Fold:
    """The same again and again, from what the iteration before has come to; every iteration is a match."""

    number: int
    """Place among the query's FOLDs, in the order of the text."""
    left: Node
    right: Node
    skip: Skip
    conditions: tuple[Comparison, ...]
    """Conditions of WHILE: an iteration that fails one ends its run and does not count."""
    accumulators: tuple[Accumulator, ...]
    taken: tuple[Taken, ...]
    longest: bool
    at_most: int | None
    at_most_slot: int | None = None
    """Place of ``at_most`` among the numbers that were taken out (``shapes``); None: it is as told."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Matches that satisfy all conditions."""

    of: Node
    comparisons: tuple[Comparison, ...]
    between: tuple[Between, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Left sides that no document to the right accompanies which satisfies ``skip``.

    Times of ``skip`` are those from the last member of the left side to the document, which may be negative.
    """

    left: Node
    right: Part
    skip: Skip
    is_inside: bool
    """Whether documents count alone that are strictly between the first and the last member."""


Node = Part | Next | Fold | Filter | Without


@dataclass(frozen=True, slots=True)
class PartVariables:
    """Variables that the matches of a part have, which it selects in this order."""

    names: tuple[str, ...]
    blocks: tuple[int, ...]
    """Block of each of them, within the part."""
    channels: tuple[str, ...]
    """Name of the channel or stream of each block, as written."""


@dataclass(frozen=True, slots=True)
class StepsDefinition:
    """Steps of a query over the matches of its parts, and what makes a match of the query."""

    parts: tuple[PartVariables, ...]
    root: Node
    selected: tuple[tuple[int, int], ...]
    """Part and place of each variable that SELECT mentions, in the order of first mention.

    With the documents and result nodes of all parts, in their order, these make a match."""
    columns: tuple[tuple[str, Term], ...]
    """Elements of an answer with their values, where SELECT speaks of what FOLDs keep; none: ``element`` makes it, or
    an answer is shown as any match is."""
    element: Element | None
    holes: tuple[tuple[str, Value], ...]
    """Values of the element's holes, by the names of their paths."""
    absent: int = 0
    """Number of the last parts that have what must not be there, which is no member."""

    @property
    def members(self) -> tuple[PartVariables, ...]:
        """Return the parts whose matches are members."""
        return self.parts[: len(self.parts) - self.absent]

    @property
    def has_values(self) -> bool:
        """Whether an answer is made of values instead of nodes."""
        return bool(self.columns) or self.element is not None
