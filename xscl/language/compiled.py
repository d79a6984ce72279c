"""Queries as they are compiled, with the queries that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from xscl.language.absence import End
from xscl.language.block_plans import BlockPlan
from xscl.language.normalize import NormalQuery
from xscl.language.syntax import ast
from xscl.templates.bounds import Case
from xscl.templates.graph import ValueJoin
from xscl.templates.guards import Guard
from xscl.templates.template import Group, Template
from xscl.xpath.automaton.automaton import WitnessSpec
from xscl.xpath.pattern import Definition

__all__ = ["CompiledAbsence", "CompiledPart", "CompiledQuery", "Filled", "FilledJoins", "FilledQuery"]

Filled = tuple[Guard | None, tuple[WitnessSpec, ...]]
"""Guard of a block, with the specs that it reads."""


@dataclass(frozen=True, slots=True)
class CompiledPart:
    """A query that a query about absence, or with steps, is made of."""

    text: str
    compiled: CompiledQuery


@dataclass(frozen=True, slots=True)
class CompiledAbsence:
    """Parts of a query about absence, which are registered with it."""

    wanted: CompiledPart
    forbidden: tuple[CompiledPart, ...]
    ends: tuple[tuple[str, tuple[End, ...]], ...]
    """Channel of each block that must not be there, and when its time ends."""
    shown: int
    """Number of selected nodes that make a match."""
    retracts: bool = False
    """Whether newer versions and removals change its answers."""

    @property
    def parts(self) -> tuple[CompiledPart, ...]:
        """Return all parts, the wanted one first."""
        return (self.wanted, *self.forbidden)


class FilledJoins(NamedTuple):
    """Value joins and windows with numbers of a text."""

    joins: tuple[ValueJoin, ...]
    """Value joins of the template's instance."""
    cases: tuple[Case, ...]
    """Bounds of event times of the group."""


@dataclass(frozen=True, slots=True)
class FilledQuery:
    """The normal form of a text, but for places in it, with those of the queries that it is made of."""

    normal: NormalQuery
    guards: tuple[Filled, ...] | None = None
    """Guards of its blocks; None: constants are not in guards alone."""
    text: str = ""
    """Text of a part."""
    parts: tuple[FilledQuery, ...] = ()
    said: str = ""
    """Text by which a query with steps, or windows, is of a group (``said_of``)."""
    ends: tuple[tuple[End, ...], ...] = ()
    """Ends of the time of each block that must not be there."""
    joins: FilledJoins | None = None
    """Joins and windows whose numbers differ, if no other constant is outside of guards."""


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query ready to be registered."""

    normal: NormalQuery
    template: Template
    group: Group
    specs: tuple[WitnessSpec, ...]
    """Specs that stage 1 has to find."""
    facts: tuple[WitnessSpec, ...]
    """Specs of facts that guards read."""
    channels: tuple[str, ...]
    """Channel of each block; for one that names a stream, the stream's."""
    read: frozenset[str]
    """Names of all channels and streams that it, and what it is made of, reads."""
    block_names: tuple[str, ...]
    """Name of each block: its first variable, or its place and channel."""
    definitions: Mapping[str, Definition]
    """Definition of every variable that takes part in the join or is a result node, by the query's own name."""
    meta_names: tuple[str | None, ...]
    """The query's own name of each meta-variable."""
    result_names: tuple[str | None, ...]
    """The query's own name of each node that makes a match: the blocks' result nodes, then SELECT's variables."""
    result_blocks: tuple[int, ...]
    """The block of each of these nodes."""
    joined_names: tuple[str, ...]
    """The variables that take part in value joins."""
    notes: tuple[str, ...] = ()
    """Notes on what its text says otherwise than it may seem to."""
    plans: tuple[BlockPlan, ...] = field(default=(), compare=False, repr=False)
    """Blocks, from which all but guards and facts is made."""
    absence: CompiledAbsence | None = None
    """Parts of a query about absence; all else is said of the members that are there."""
    level: ast.Level | None = None
    """Level of consistency of a query about absence, or with steps; None: its channels tell."""
    windowed: CompiledPart | None = None
    """Part of a query with windows, which are over its matches; all else is said of these."""
    stepped: tuple[CompiledPart, ...] = ()
    """Parts of a query with steps, in the order of FROM; all else is said of the members of its answers."""
    is_made: bool = False
    """Whether answers are documents of their own."""

    @property
    def is_guarded_alone(self) -> bool:
        """Return whether it has one block, and the guard of that is apart."""
        return len(self.normal.blocks) == 1 and bool(self.group.guards)

    @property
    def waits(self) -> bool:
        """Return whether its answers wait for settled times, so that it has a level."""
        return bool(self.stepped) or (self.absence is not None and bool(self.absence.ends))

    @property
    def follows_removals(self) -> bool:
        """Return whether what is removed takes its matches back."""
        return self.absence is not None and self.absence.retracts

    @property
    def takes_back(self) -> bool:
        """Return whether its matches may be taken back."""
        return self.follows_removals or (self.level is not None and self.level.corrects)

    @property
    def cost(self) -> int:
        """Return what limits of tokens count: the cost of its template, or of those of its parts together."""
        if not self.parts:
            return self.template.cost
        return sum(part.compiled.template.cost for part in self.parts)

    @property
    def parts(self) -> tuple[CompiledPart, ...]:
        """Return the queries that it is made of; none: it is joined itself."""
        if self.windowed is not None:
            return (self.windowed,)
        if self.stepped:
            return self.stepped
        return () if self.absence is None else self.absence.parts
