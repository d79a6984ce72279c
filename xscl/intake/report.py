"""Counts of the records that were given to an intake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from xscl.base.errors import SourceError
from xscl.base.notebook import facts_html
from xscl.base.shown import counted
from xscl.ingest.records import Rejected

__all__ = ["IntakeReport", "Outcome", "noted_on_errors"]

Outcome = Literal["taken", "version", "shared", "duplicate", "rejected"]
"""Outcome of one event; a ``version`` is taken, too."""

_COUNTS = (
    "taken",
    "versions",
    "duplicates",
    "shared",
    "late",
    "rejected",
    "tolerant",
    "registered",
    "dropped",
    "heartbeats",
    "removed",
    "missing",
)
_SHOWN = 100


@dataclass(slots=True, repr=False)
class IntakeReport:
    """Counts of an intake: each event that is given is taken, a duplicate, shared or rejected."""

    taken: int = 0
    versions: int = 0
    """Number of events taken that are newer versions of known items."""
    duplicates: int = 0
    shared: int = 0
    """Events known by another stream of their source, of whose stream they are a member since."""
    late: int = 0
    """Number of events taken and shared that came late."""
    rejected: int = 0
    tolerant: int = 0
    """Feeds that are not well-formed and were read all the same."""
    registered: int = 0
    dropped: int = 0
    heartbeats: int = 0
    removed: int = 0
    """Events that were taken out."""
    missing: int = 0
    """Removals of ids that no event has, or none any more."""
    problems: list[Rejected] = field(default_factory=list)
    """The first hundred rejections."""
    notes: list[str] = field(default_factory=list)
    """The first hundred notes on inputs."""
    flaws: list[str] = field(default_factory=list)
    """Flaws of the first hundred feeds that were read tolerantly: source, place and reason."""

    def __repr__(self) -> str:
        counts = [f"{name}={getattr(self, name)}" for name in _COUNTS if getattr(self, name)]
        if self.problems:
            first = self.problems[0]
            counts.append(f"first={f'{_place(first)}[{first.condition}] {first.message}'!r}")
        if self.notes:
            counts.append(f"note={self.notes[0]!r}")
        return f"IntakeReport({', '.join(counts)})"

    def _repr_html_(self) -> str:
        counts = {name: getattr(self, name) for name in _COUNTS if getattr(self, name)}
        problems = [(f"{_place(problem)}{problem.condition}", problem.message) for problem in self.problems[:10]]
        notes = {f"note {number}": note for number, note in enumerate(self.notes[:10], start=1)}
        return facts_html("intake", {**counts, **notes, **dict(problems)})

    def add(self, other: IntakeReport) -> None:
        """Count what another intake did, too."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.problems += other.problems[: _SHOWN - len(self.problems)]
        self.notes += other.notes[: _SHOWN - len(self.notes)]
        self.flaws += other.flaws[: _SHOWN - len(self.flaws)]

    def count(self, outcome: Outcome) -> None:
        """Count an event that was not rejected."""
        match outcome:
            case "taken" | "version":
                self.taken += 1
                self.versions += outcome == "version"
            case "shared":
                self.shared += 1
            case "duplicate":
                self.duplicates += 1

    def raise_if_rejected(self) -> None:
        """Raise what the first rejection says, if there is one; everything else was taken.

        Raises:
            SourceError: with the condition of the first rejection.
        """
        if not self.rejected:
            return
        first = self.problems[0]
        more = f" (and {self.rejected - 1:,} more)" if self.rejected > 1 else ""
        where = "" if first.source and first.source in first.message else _place(first)
        raise SourceError(
            first.condition, f"{where}{first.message}{more}", hint="report.problems has the first hundred"
        )

    def note(self, problem: Rejected) -> None:
        """Count a rejection."""
        self.rejected += 1
        if len(self.problems) < _SHOWN:
            self.problems.append(problem)

    def note_input(self, text: str) -> None:
        """Keep a note on an input."""
        if len(self.notes) < _SHOWN:
            self.notes.append(text)

    def note_flaw(self, flaw: str) -> None:
        """Count a feed that was read tolerantly."""
        self.tolerant += 1
        if len(self.flaws) < _SHOWN:
            self.flaws.append(flaw)


@contextmanager
def noted_on_errors(report: IntakeReport) -> Iterator[None]:
    """Note on an error what was taken in before it: whoever reads it knows where to go on."""
    try:
        yield
    except Exception as error:
        done = f"{counted(report.taken, 'event')} of the input taken in before"
        if report.rejected:
            done += f", {report.rejected:,} rejected"
        error.add_note(f"{done}; give the same input again: what is known is not taken twice")
        raise


def _place(problem: Rejected) -> str:
    """Tell where a rejected thing came from; an event that a program made has a channel, and an id perhaps."""
    where = problem.source or ":".join(filter(None, (problem.channel, problem.id)))
    return f"{where}: " if where else ""
