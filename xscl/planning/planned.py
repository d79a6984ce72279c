"""Products of a planner: the plan of a range, its groups, and the specs that these ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xscl.base.mixed import label
from xscl.catalog.records import ChannelInfo
from xscl.language.facts import ChannelFacts
from xscl.planning.worker_files import WorkerFiles
from xscl.templates.columns import Int64s
from xscl.templates.program import Program
from xscl.templates.program_guards import guard_set
from xscl.templates.template import Group
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.automaton.states import SpecKey, WitnessSpec
from xscl.xpath.relational import RowShape
from xscl.xpath.row_witness import RowMatcher

__all__ = ["Facts", "Plan", "PlannedGroup", "PlannedSpec", "SpecBundle", "Value", "Way", "row_shapes"]

Facts = tuple[ChannelFacts, ...]
Value = tuple[int, str | None, str]
"""Variable and function of a witness row, None for a row without a value; and the names of guards (``guard_set``)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The requests of a range's queries; valid until the planner is asked for the next range.

    Its files are for workers: they are written when they are asked for.
    """

    program: Program
    matchers: Mapping[str, RowMatcher]
    """Matchers of columns, by row channel."""
    walked: frozenset[str]
    """Channels with something to walk for."""
    answered: frozenset[str]
    """Row channels with something that columns answer."""
    shapes: Mapping[str, RowShape]
    asking: Callable[[Collection[int]], Mapping[int, Sequence[int]]]
    """Gives the groups that ask for specs, by the digests of these (``spec_digests``)."""
    groups: Mapping[int, PlannedGroup]
    functions: frozenset[str]
    """Functions of one's own that they need, by their names in definitions."""
    _files: WorkerFiles

    @property
    def places(self) -> Mapping[str, Int64s]:
        """Return the places of the events that row windows count, by channel."""
        return self.program.ordinals.places

    @property
    def reach(self) -> int:
        """Return the greatest distance in time of two documents that some edge joins."""
        edges = self.program.edges.values()
        return max((max(-edge.lo, edge.hi, 0) for edge in edges if edge.key.kind != "ONE"), default=0)

    @property
    def specs_path(self) -> Path:
        """Path of the specs that walks answer, of documents, and of rows where columns do not; written if need be."""
        return self._files.walked.written(self._files.folder)

    def automaton(self) -> Automaton:
        """Return what walks documents for those specs, in this process."""
        return self._files.walked.automaton()

    @property
    def rows_path(self) -> Path:
        """Path of the specs that columns answer; written if need be."""
        return self._files.rows.written(self._files.folder, self.matchers)

    @property
    def program_path(self) -> Path:
        """Path of the program; written if need be."""
        return self._files.program.written(self._files.folder)


def row_shapes(channels: Mapping[str, ChannelInfo]) -> dict[str, RowShape]:
    """Return the shape of rows' documents for each channel whose columns are known."""
    return {
        name: RowShape(channel.element, tuple(channel.schema))
        for name, channel in channels.items()
        if channel.schema is not None
    }


Way = Literal["walk", "columns"]


@dataclass(slots=True, eq=False)
class PlannedSpec:
    """A spec that some groups ask for."""

    key: SpecKey
    spec: WitnessSpec
    uses: int = 0
    way: Way | None = None
    """Engine that answers it: the walk of documents, or columns of rows; None: nobody asks."""


@dataclass(slots=True, eq=False)
class SpecBundle:
    """Specs that some groups ask for together."""

    given: tuple[WitnessSpec, ...]
    """Specs as the groups have them, by whose identity the bundle is known."""
    specs: tuple[PlannedSpec, ...]
    groups: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PlannedGroup:
    """Group of the program."""

    asks_kind: bool
    """Whether it depends on its channels being known to have documents (``language.facts``)."""
    channels: tuple[str, ...]
    facts: Facts
    """Facts of the channels that decided what its text was compiled to."""
    asked: SpecBundle
    read: SpecBundle
    """Specs of facts that its guards read."""
    group: Group

    @property
    def specs(self) -> tuple[PlannedSpec, ...]:
        """Specs of its variables."""
        return self.asked.specs

    @property
    def values(self) -> frozenset[Value]:
        """Variables and functions of the witness rows that the group asks for, each with its guards."""
        return frozenset(
            (key, None if name is None else label(name), guard_set(self.group, key))
            for spec in self.specs
            for key in (spec.spec.definition.key,)
            for name in spec.spec.functions
        )
