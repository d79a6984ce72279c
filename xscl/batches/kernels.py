"""Kernels of both stages for the queries of a batch: in this process, or loaded in a task from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xscl.spark.own_functions import packed_functions, unpack_functions
from xscl.templates.columns import Int64s
from xscl.templates.joins.find import Finder
from xscl.templates.program_files import load_program
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.row_files import load_matchers
from xscl.xpath.row_witness import RowMatcher
from xscl.xpath.spec_files import load_automaton

if TYPE_CHECKING:
    from xscl.planning.planned import Plan

__all__ = ["Kernels", "QueryFiles", "kernels_of", "loaded_kernels"]


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels that walk documents, answer columns of rows, and join."""

    automaton: Callable[[], Automaton]
    matchers: Callable[[], Mapping[str, RowMatcher]]
    """Matchers of columns, by row channel."""
    finder: Finder


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """Files with the queries of a plan, as tasks load them."""

    specs: str | None
    """Specs that documents are walked for; None: there are none."""
    rows: str | None
    """Specs that columns of rows answer; None: there are none."""
    program: str
    places: Mapping[str, Int64s]
    """Places of the events that row windows count, by channel."""
    functions: tuple[bytes, ...] = ()
    """Functions of one's own, packed with the code of their modules."""

    @classmethod
    def of(cls, plan: Plan) -> QueryFiles:
        """Write the files."""
        return cls(
            str(plan.specs_path) if plan.walked else None,
            str(plan.rows_path) if plan.answered else None,
            str(plan.program_path),
            plan.places,
            packed_functions(plan.functions),
        )


def kernels_of(plan: Plan, finder: Finder) -> Kernels:
    """Return the kernels for a plan of this process."""
    finder.take(plan.program)
    return Kernels(plan.automaton, lambda: plan.matchers, finder)


def loaded_kernels(files: QueryFiles) -> Kernels:
    """Load the kernels in a task; a process remembers what it has solved from task to task."""
    unpack_functions(files.functions)
    specs, rows = files.specs or "", files.rows or ""
    program = load_program(files.program)
    program.ordinals.take(files.places)
    _FINDER.take(program)
    return Kernels(lambda: load_automaton(specs), lambda: load_matchers(rows), _FINDER)


_FINDER = Finder()
"""The finder of a process that works on tasks."""
