"""Steps of SQL: a relation is a list of named steps, in the order in which data flows.

Each step reads steps before it and *sources* (``sources``: files and tables of a home, named ``xscl_…``).  Steps
that a home or a statement does not need are left out.  A list of steps is printed, and run, as one WITH statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import dedent, indent

__all__ = ["Needs", "Step", "chained", "commas", "quoted", "step", "with_statement"]

_BEFORE = "previous_step"


@dataclass(frozen=True, slots=True)
class Step:
    """One named query of a relation."""

    name: str
    about: str
    """One sentence for who reads the statement."""
    columns: tuple[str, ...]
    text: str
    """One SELECT of Spark SQL."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that the step itself reads."""
        return tuple(dict.fromkeys(re.findall(r"\bxscl_\w+", self.text)))


@dataclass(frozen=True, slots=True)
class Needs:
    """Facts about a home and a statement that decide which steps a relation has."""

    processed: int = 0
    """The last place of the intake order that a batch has committed."""
    members: bool = True
    """The statement reads times, ids or documents of the members of matches."""
    replaces: bool = False
    """The statement reads ``replaces``, and the home has newer versions of items."""
    streams: bool = False
    """Events may be copies of others, which streams brought."""
    kept: bool = False
    """Some channel no longer shows its oldest events."""
    timed: bool = False
    """Some query starts at a time, or when older events had been removed."""
    repeats: bool = False
    """A query that starts with what is held was registered again, and so has some matches again."""
    facts: bool = False
    """The statement reads channels, ids or versions of members of matches, each by itself."""
    retracted: bool = False
    """Some matches were taken back."""
    floors: bool = False
    """Some rows of the join state are out of every query's reach."""

    @property
    def reads_events(self) -> bool:
        """Tell whether combinations of documents are not enough for matches."""
        several = self.replaces, self.kept, self.timed, self.repeats, self.retracted
        return self.members or any(several)


def step(name: str, about: str, columns: str, text: str) -> Step:
    """Make a step; names of ``columns`` stand between spaces."""
    return Step(name, about, tuple(columns.split()), dedent(text).strip())


def chained(steps: Iterable[Step | None]) -> list[Step]:
    """Leave out what is None, and put the name of the step before in place of the word ``previous_step``.

    >>> first, second = step("a", "", "x", "select 1 as x"), step("b", "", "x", "select x from previous_step")
    >>> [each.text for each in chained([first, None, second])]
    ['select 1 as x', 'select x from a']
    """
    linked: list[Step] = []
    for each in steps:
        if each is not None:
            text = each.text.replace(_BEFORE, linked[-1].name) if linked else each.text
            linked.append(Step(each.name, each.about, each.columns, text))
    return linked


def with_statement(steps: Sequence[Step], last: str | None = None) -> str:
    """Write the steps as one statement, which selects the columns of the last step, or of the one named ``last``.

    >>> print(with_statement([step("a", "The number one.", "x", "select 1 as x")]))
    with
    -- The number one.
    -- a: x
    a as (
      select 1 as x
    )
    select x from a
    """
    written = [
        f"-- {each.about}\n-- {each.name}: {', '.join(each.columns)}\n"
        f"{quoted(each.name)} as (\n{indent(each.text, '  ')}\n)"
        for each in steps
    ]
    shown = next(each for each in reversed(steps) if last in (None, each.name))
    return "with\n" + ",\n".join(written) + f"\nselect {', '.join(shown.columns)} from {quoted(shown.name)}"


def quoted(name: str) -> str:
    """Write the name of a relation as Spark takes it: letters beyond those of ASCII need backticks.

    >>> quoted("ch_news"), quoted("ch_größen")
    ('ch_news', '`ch_größen`')
    """
    return name if name.isascii() else f"`{name}`"


def commas(columns: str) -> str:
    """Write names that stand between spaces with commas."""
    return ", ".join(columns.split())
