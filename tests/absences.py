"""Questions about absence, for the oracle and for the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.absence import Beat, Forbidden, Intake, Question, Terms, decided
from oracle.evaluate import Doc

import xscl
from xscl.base.settings import Settings
from xscl.base.types import LAST_TIME
from xscl.ingest.records import Heartbeat
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query

if TYPE_CHECKING:
    from xscl.engine import Engine

Taken = Sequence[Doc | Beat]
Found = list[tuple[list[str], int]]
"""Ids of members, and time, of each answer, sorted by time and ids."""
S = 1_000_000
FAR = LAST_TIME
"""The greatest time that an event may have."""


def question(wanted: str, *forbidden: str, between: bool = False) -> Question:
    """A question: the text of what is wanted, and that of it joined with each document that must not be there."""
    joins = [parse_query(text).source for text in forbidden]
    assert all(isinstance(join, ast.Join) for join in joins)
    found = tuple(Forbidden(join, between) for join in joins if isinstance(join, ast.Join))
    return Question(parse_query(wanted), found)


def by_oracle(asked: Question, taken: Taken, terms: Mapping[str, Terms] | None = None) -> Found:
    """The answers of the oracle."""
    events = {item: place for place, item in enumerate(taken) if isinstance(item, Doc)}
    beats = {place: item for place, item in enumerate(taken) if isinstance(item, Beat)}
    rows = decided(asked, Intake(events, beats, terms or {}))
    return sorted((([id_ for _, id_ in each.answer[0]], each.ts) for each in rows), key=lambda row: (row[1], row[0]))


def add_channels(engine: Engine, terms: Mapping[str, Terms]) -> None:
    """Make channels with their settings."""
    for name, each in terms.items():
        options = {"lateness": each.lateness, "idle": each.idle}
        given = {option: f"{value} us" for option, value in options.items() if value is not None}
        engine.add_channel(name, **given, **({} if each.clock is None else {"clock": each.clock}))


def record(item: Doc | Beat) -> xscl.Event | Heartbeat:
    """What the engine takes in."""
    if isinstance(item, Beat):
        return Heartbeat(item.channel, item.ts, "test")
    start = None if item.start is None else Decimal(item.start) / S
    return xscl.Event(item.channel, item.id, Decimal(item.ts) / S, xml=item.xml, start=start)


def by_engine(
    folder: Path,
    text: str,
    taken: Taken,
    terms: Mapping[str, Terms] | None = None,
    *,
    cut: Sequence[int] = (),
    settings: Settings | None = None,
    spark: object = None,
) -> Found:
    """The answers of the engine, with a batch behind each place of ``cut`` and one at the end."""
    options = {} if settings is None else {"settings": settings}
    with xscl.connect(home=folder, spark=spark, **options) as engine:  # type: ignore[arg-type]
        add_channels(engine, terms or {})
        engine.register(text, name="q")
        for place, item in enumerate(taken):
            report = engine.ingest([record(item)])
            assert not report.rejected, report
            if place in cut:
                engine.run_once()
        engine.run_once()
        return answers(engine, "q")


def answers(engine: Engine, query: str) -> Found:
    """The matches of a query in a home."""
    return sorted(
        (([event.id for event in match.events], match.ts) for match in engine.matches(query)),
        key=lambda row: (row[1], row[0]),
    )
