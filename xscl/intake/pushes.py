"""Events that several senders push at the same time, taken in one transaction; each sender learns of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from xscl.base.safe_xml import in_fresh_dictionary
from xscl.base.system_errors import named_file_faults
from xscl.base.types import Event
from xscl.catalog.intake_order import read_last_places
from xscl.ingest.records import Rejected
from xscl.intake.checks import check_events
from xscl.intake.events import take_events
from xscl.intake.intake import Intake
from xscl.intake.report import IntakeReport, Outcome
from xscl.intake.transaction import open_chunk

__all__ = ["Push", "Pushed", "take_pushes"]

Push = Sequence[Event | Rejected]
"""Events of one sender in their order, and records of what could not be read among them."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """Outcome of one push."""

    taken: int
    known: int
    """Number of events that the home had already."""
    rejected: list[Rejected]
    place: int
    """Place of the intake order up to which all events of the push stand."""


def take_pushes(intake: Intake, pushes: Sequence[Push]) -> list[Pushed]:
    """Take all pushes in one transaction, in their order; return the outcome of each.

    Raises:
        XsclError: a fault of the surroundings; nothing of any push is taken.
    """
    terms = intake.terms
    events = [record for push in pushes for record in push if isinstance(record, Event)]
    sound = iter(in_fresh_dictionary(check_events, events, terms.limits))
    checked = [next(sound) if isinstance(record, Event) else record for push in pushes for record in push]
    with named_file_faults(intake.home.root), open_chunk(terms, IntakeReport()) as chunk:
        outcomes = iter(take_events(chunk, checked))
        place = read_last_places(chunk.connection)[1]
    refused = iter(chunk.rejected)
    return [_outcome(list(islice(outcomes, len(push))), refused, place) for push in pushes]


def _outcome(outcomes: Sequence[Outcome], refused: Iterator[Rejected], place: int) -> Pushed:
    """Count the outcomes of one push; ``refused`` goes on with the refusals of all pushes in their order."""
    counts = Counter(outcomes)
    taken = counts["taken"] + counts["version"]
    known = counts["duplicate"] + counts["shared"]
    return Pushed(taken, known, list(islice(refused, counts["rejected"])), place)
