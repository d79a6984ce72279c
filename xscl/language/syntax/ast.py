"""The syntax tree of XSCL: frozen nodes with spans, as written, before any rewriting (docs/reference/language.md,
Statements).

``block_nodes``, ``atom_nodes``, ``from_nodes`` and ``select_nodes`` have the nodes of smaller parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xscl.base.errors import Span
from xscl.language.syntax.atom_nodes import (
    Arithmetic,
    Atom,
    Expression,
    FunctionOperand,
    Linear,
    Operand,
    RelativeWindow,
    StringOperand,
    VarPath,
    Window,
)
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
    span_field,
)
from xscl.language.syntax.from_nodes import (
    Accumulator,
    Duration,
    Filter,
    Fold,
    Join,
    Negation,
    Next,
    Source,
    Stepped,
    Tree,
    blocks,
)
from xscl.language.syntax.select_nodes import Constructor, ConstructorAttribute, Select, SelectItem, selected

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
    span: Span = span_field()


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
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Level:
    """Level of consistency of answers that are no joins, by two distances from a channel's clock in microseconds.

    None is the channel's lateness, beyond which no event is in time.
    """

    blocking: int | None
    """Distance behind the clock up to which it answers."""
    memory: int | None
    """Distance behind the clock up to which events are in time, and answers are corrected."""
    span: Span = span_field()

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
    span: Span = span_field()
    publish_span: Span = span_field()
    spanning: bool = False
    """Whether what it publishes begins with its earliest member, instead of being a point in time."""
    as_rows: bool = False
    """Whether it publishes the items of SELECT as columns of rows, instead of documents."""


@dataclass(frozen=True, slots=True)
class SubQuery(Block):
    """A block over what a query in parentheses finds; its channel is named by the text of that query."""

    query: Query = Query(Block(""))
    query_span: Span = span_field()
    """The parentheses and what is between them."""


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """A registration; unnamed queries are named by the service.  ``text`` is the query as written."""

    name: str | None
    query: Query
    text: str = ""
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class DropQuery:
    """``DROP QUERY name``."""

    name: str
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class DeclareNamespace:
    """``DECLARE NAMESPACE prefix = 'uri'``."""

    prefix: str
    uri: str
    span: Span = span_field()


Statement = CreateQuery | DropQuery | DeclareNamespace
