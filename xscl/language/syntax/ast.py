"""The syntax tree of XSCL: frozen nodes with spans, as written, before any rewriting (docs/reference/language.md,
Statements).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from xscl.base.errors import Span
from xscl.language.syntax.block_nodes import (
    NOWHERE,
    And,
    Binding,
    Block,
    Call,
    Literal_,
    Not,
    Op,
    Or,
    Predicate,
    RelPath,
    Step,
    Test,
    Truth,
)

__all__ = [
    "Accumulator",
    "Aggregate",
    "And",
    "Arithmetic",
    "Atom",
    "Binding",
    "Block",
    "Call",
    "Constructor",
    "ConstructorAttribute",
    "CreateQuery",
    "DeclareNamespace",
    "DropQuery",
    "Duration",
    "Expression",
    "Filter",
    "Fold",
    "FunctionOperand",
    "Join",
    "Level",
    "Linear",
    "Literal_",
    "MIDDLE",
    "Measure",
    "NOWHERE",
    "Negation",
    "Next",
    "Not",
    "Op",
    "Operand",
    "Or",
    "Predicate",
    "Query",
    "RelPath",
    "RelativeWindow",
    "STRONG",
    "Select",
    "SelectItem",
    "Source",
    "Statement",
    "Step",
    "Stepped",
    "StringOperand",
    "SubQuery",
    "Test",
    "Tree",
    "Truth",
    "VarPath",
    "WEAK",
    "Window",
    "blocks",
    "selected",
]


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class VarPath:
    """A variable, possibly followed by steps (``x4/author``)."""

    name: str
    steps: tuple[Step, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Linear:
    """``factor * path + constant``; a bare variable has factor 1 and constant 0; a number has no path."""

    path: VarPath | None
    factor: Fraction = Fraction(1)
    constant: Fraction = Fraction(0)
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class StringOperand:
    """A string in an atom."""

    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class FunctionOperand:
    """A function applied to an operand of an atom."""

    name: str
    operand: Operand
    span: Span = _span()


Operand = Linear | StringOperand | FunctionOperand


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Arithmetic that is linear in no single variable, of what a FOLD keeps."""

    op: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression
    span: Span = _span()


Expression = Operand | Arithmetic


@dataclass(frozen=True, slots=True)
class Atom:
    """A comparison of two operands."""

    left: Operand
    op: Op
    right: Operand
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Window:
    """A duration, range, UNBOUNDED, MAXWINDOW, ONCE, BETWEEN or LAST of one operator; bounds in microseconds.

    ``within``: high only (None = UNBOUNDED).  ``range``: low and high (None = UNBOUNDED).  ``max``: high.  ``once``.
    ``between``, of a negation alone.  ``rows``: high is how many of the newest events of the channel of ``of`` count.
    """

    kind: Literal["within", "range", "max", "once", "between", "rows"]
    low: int | None = None
    high: int | None = None
    span: Span = _span()
    bare: str | None = field(default=None, compare=False, repr=False)
    """A number that is written without a unit, and counts as seconds."""
    of: str | None = None
    """Variable whose event is among the newest, of ``rows``."""
    of_span: Span = _span()


@dataclass(frozen=True, slots=True)
class RelativeWindow:
    """``later - earlier IN [low, high]``; bounds in microseconds, None = unbounded, open ends already moved by one."""

    later: str
    earlier: str
    low: int | None
    high: int | None
    span: Span = _span()
    later_span: Span = _span()
    earlier_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Join:
    """``left FOLLOWED BY {…} right`` or ``left JOIN {…} right``."""

    op: Literal["followed by", "join"]
    left: Source
    right: Source
    atoms: tuple[Atom, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    span: Span = _span()


Source = Block | Join


@dataclass(frozen=True, slots=True)
class Negation:
    """``WITHOUT {…} right`` or ``NOT FOLLOWED BY {…} right``, behind what stands to the left of it."""

    op: Literal["without", "not followed by"]
    right: Block
    atoms: tuple[Atom, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    span: Span = _span()
    """Operator and braces."""


@dataclass(frozen=True, slots=True)
class Next:
    """``left NEXT {…} right``: the first of the right ones behind the left one that satisfies all."""

    left: Tree
    right: Tree
    atoms: tuple[Atom, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    span: Span = _span()
    """Word and braces."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """``total + q AS total``: a value that a FOLD keeps, which each iteration computes from the last one."""

    value: Expression
    name: str
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Fold:
    """``left FOLD {… WHILE …} right``: NEXT again and again, from what the iteration before has come to."""

    left: Tree
    right: Tree
    atoms: tuple[Atom, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    conditions: tuple[Atom, ...] = ()
    """Conditions behind WHILE; each iteration satisfies all of them."""
    accumulators: tuple[Accumulator, ...] = ()
    longest: bool = False
    at_most: int | None = None
    """Most iterations; None: as many as there are."""
    span: Span = _span()
    """Word and braces."""


@dataclass(frozen=True, slots=True)
class Duration:
    """``DUR >= 10 min``: the time from the start of a match to its end, compared with microseconds."""

    op: Op
    time: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Filter:
    """``left FILTER {…}``: the matches that satisfy all conditions."""

    of: Tree
    conditions: tuple[Atom | Duration, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    span: Span = _span()
    """Word and braces."""


Stepped = Next | Fold | Filter
Tree = Source | Stepped


@dataclass(frozen=True, slots=True)
class Measure:
    """A value of many matches or iterations together; paths have its text for a name."""

    text: str
    """Canonical text, which is no name of a variable."""
    function: str
    """Name of an aggregate function; ``value``: what is grouped by, or arithmetic."""
    operand: Operand | None
    distinct: bool = False
    first: Operand | None = None
    """Value at the first iteration of a FOLD."""
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Windows of matches, their groups, and which groups are told."""

    window: int | None
    """Length of the windows in microseconds; None: they have the ``last`` matches of a group."""
    every: int | None = None
    """Time between the beginnings of windows; None: each match ends one."""
    last: int | None = None
    per: tuple[Operand, ...] = ()
    """Operands whose combinations of values have so many last matches each; none: the group has."""
    group: tuple[Operand, ...] = ()
    having: tuple[Atom, ...] = ()
    crossing: bool = False
    """Whether a match is told of only where the conditions begin to hold with it."""
    once_per: int | None = None
    """Time behind an answer in which its group has no other one."""
    top: int | None = None
    """Most groups of a window; None: all."""
    by: Operand | None = None
    """Value by which these are the first."""
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SelectItem:
    """``x4/title AS headline``."""

    path: VarPath
    name: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ConstructorAttribute:
    """An attribute of a constructor: texts and holes in turn."""

    name: str
    parts: tuple[str | VarPath, ...]
    span: Span = _span()
    """The name's."""


@dataclass(frozen=True, slots=True)
class Constructor:
    """``<echo by="{x2}">{x1/title}</echo>``: an element with holes.

    References and escapes are resolved, comments and white space alone between tags and holes are left out; no two
    texts are neighbours and none is empty.
    """

    name: str
    attributes: tuple[ConstructorAttribute, ...] = ()
    content: tuple[str | VarPath | Constructor, ...] = ()
    span: Span = _span()


Select = tuple[SelectItem, ...] | Constructor | None
"""The output of a query; None is ``*``."""


@dataclass(frozen=True, slots=True)
class Level:
    """Level of consistency of answers that are no joins, by two distances from a channel's clock in microseconds.

    None is the channel's lateness, beyond which no event is in time.
    """

    blocking: int | None
    """Distance behind the clock up to which it answers."""
    memory: int | None
    """Distance behind the clock up to which events are in time, and answers are corrected."""
    span: Span = _span()

    @property
    def corrects(self) -> bool:
        """Whether answers may be taken back."""
        return self.blocking != self.memory

    @property
    def behind(self) -> int | None:
        """Distance behind the clock at which times are passed that answers wait for; -1: the clock shows them."""
        return -1 if self.blocking == 0 and self.corrects else self.blocking


STRONG = Level(None, None)
MIDDLE = Level(0, None)
WEAK = Level(0, 0)


@dataclass(frozen=True, slots=True)
class Query:
    """A query; ``select`` is None for ``*`` and for none."""

    source: Source
    select: Select = None
    publish: str | None = None
    starting: str = "NOW"
    negations: tuple[Negation, ...] = ()
    """Documents that must not be there, besides those of the source."""
    level: Level | None = None
    """Level of consistency; None: the channels that it reads tell."""
    retracts: bool = False
    """Whether a newer version of an item takes back the matches of the older one."""
    aggregate: Aggregate | None = None
    """Windows and groups of matches; None: each match is an answer."""
    measures: tuple[Measure, ...] = field(default=(), compare=False, repr=False)
    """Values of groups or iterations, which paths have for names."""
    steps: Stepped | None = None
    """Steps over blocks and joins; the source then only has the blocks, in their order.  None: the source is all."""
    span: Span = _span()
    publish_span: Span = _span()
    spanning: bool = False
    """Whether what it publishes begins with its earliest member, instead of being a point in time."""
    as_rows: bool = False
    """Whether it publishes the items of SELECT as columns of rows, instead of documents."""


@dataclass(frozen=True, slots=True)
class SubQuery(Block):
    """A block over what a query in parentheses finds; its channel is named by the text of that query."""

    query: Query = Query(Block(""))
    query_span: Span = _span()
    """The parentheses and what is between them."""


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """A registration; unnamed queries are named by the service.  ``text`` is the query as written."""

    name: str | None
    query: Query
    text: str = ""
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class DropQuery:
    """``DROP QUERY name``."""

    name: str
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class DeclareNamespace:
    """``DECLARE NAMESPACE prefix = 'uri'``."""

    prefix: str
    uri: str
    span: Span = _span()


Statement = CreateQuery | DropQuery | DeclareNamespace


def blocks(source: Tree) -> tuple[Block, ...]:
    """Return all blocks in the order of FROM."""
    match source:
        case Block():
            return (source,)
        case Filter():
            return blocks(source.of)
    return blocks(source.left) + blocks(source.right)


def selected(select: Select) -> tuple[VarPath, ...]:
    """Return all variable paths of a SELECT list or of a constructor's holes, as written."""
    if select is None:
        return ()
    if isinstance(select, tuple):
        return tuple(item.path for item in select)
    found: list[VarPath] = []
    waiting: list[str | VarPath | Constructor] = [select]
    while waiting:
        part = waiting.pop()
        if isinstance(part, VarPath):
            found.append(part)
        elif isinstance(part, Constructor):
            waiting += reversed(part.content)
            waiting += [piece for attribute in reversed(part.attributes) for piece in reversed(attribute.parts)]
    return tuple(found)
