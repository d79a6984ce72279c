"""Events of tests of steps, and what the oracle answers to a text over them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from absences import S
from oracle.evaluate import Doc
from oracle.steps import at_last

import xscl
from xscl.base.errors import QueryError
from xscl.base.types import LAST_TIME
from xscl.ingest.records import Heartbeat
from xscl.language.steps.parts import selects_values
from xscl.language.syntax.parser import parse_query
from xscl.language.terms import item_name

Row = tuple[str, ...]
"""Values of a match that SELECT lists, and then its start and its time in seconds."""


def doc(channel: str, ts: float, start: float | None = None, *, id: str | None = None, **fields: object) -> Doc:
    """An event of flat fields, from a second to another."""
    inner = "".join(
        f"<{name}>{value}</{name}>"
        for name, values in fields.items()
        for value in (values if isinstance(values, list) else [values])
    )
    begun = None if start is None else round(start * S)
    name = f"{channel}@{ts}" if id is None else id
    return Doc(channel, name, round(ts * S), f"<e>{inner}</e>", start=begun)


def by_oracle(text: str, docs: Sequence[Doc]) -> list[Row]:
    """All matches when nothing comes any more, in order."""
    found = at_last(parse_query(text), docs)
    return sorted((*(value for _, value in each.values), f"{each.start // S}", f"{each.ts // S}") for each in found)


def started(event: Doc) -> Decimal | None:
    """When an event began, in seconds."""
    return None if event.start is None else Decimal(event.start) / S


def by_engine(text: str, docs: Sequence[Doc], size: int = 2) -> list[Row]:
    """All matches that the engine finds in batches of so many events, without their starts, in order."""
    with TemporaryDirectory() as folder, xscl.connect(home=Path(folder) / "home") as engine:
        try:
            engine.register(text, name="q")
        except QueryError as error:
            assert error.condition == "XSCL_NEVER_HOLDS"
            return []
        events = [
            xscl.Event(each.channel, each.id, Decimal(each.ts) / S, xml=each.xml, start=started(each)) for each in docs
        ]
        beats = [Heartbeat(channel, LAST_TIME, "test") for channel in sorted({each.channel for each in docs})]
        for first in range(0, len(docs), size):
            engine.ingest(events[first : first + size])
            engine.run_once()
        engine.ingest(beats)
        engine.run_once()
        query = parse_query(text)
        names = [item_name(item) for item in query.select] if isinstance(query.select, tuple) else []
        paths = [item.path.name for item in query.select] if isinstance(query.select, tuple) else []
        made = selects_values(query)
        return sorted(
            (*(match.values[name] for name in (names if made else paths)), f"{match.ts // S}")
            for match in engine.matches("q")
        )
