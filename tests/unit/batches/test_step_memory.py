"""Steps as a process remembers them: read again only where queries come or go, with the queries as columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

import xscl
from xscl.batches.deciding.step_answers import groups_having
from xscl.batches.memory import steps as step_memory
from xscl.batches.memory.steps import Readers
from xscl.catalog.steps import SteppedQueries
from xscl.catalog.tables import NEVER
from xscl.catalog.windows import Reader


def ingest(engine: xscl.Engine, second: int) -> None:
    events = [xscl.Event(name, f"{name}{second}", second, xml=f"<r><v>{second}</v></r>") for name in ("a", "b")]
    engine.ingest(events)
    engine.run_once()


def test_a_batch_reads_who_has_steps_only_where_that_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    reads = step_memory.read_stepped

    def counted(connection: sa.Connection, first: int, last: int) -> SteppedQueries:
        read.append(first)
        return reads(connection, first, last)

    monkeypatch.setattr(step_memory, "read_stepped", counted)
    text = "SELECT p, q FROM a[./v->p] NEXT {{q >= {}}} b[./v->q]"
    with xscl.connect(home=tmp_path / "home") as engine:
        for name in ("a", "b"):
            engine.add_channel(name, lateness="0 s")
        changes: list[Callable[[], object]] = [
            lambda: engine.register(text.format(1), name="one"),
            lambda: engine.register(text.format(1), name="same"),
            lambda: engine.register(text.format(15), name="other"),
            lambda: engine.drop("one"),
        ]
        for number, change in enumerate(changes):
            change()
            for second in range(3):
                ingest(engine, 10 * number + second)
            # A query that goes is there in the batch in which it goes.
            assert len(read) <= 2, number
            assert read, number
            read.clear()
        ingest(engine, 99)
        found = {
            name: sorted([each.id for each in match.events] for match in engine.matches(name))
            for name in ("one", "same", "other")
        }
    seconds = [10 * number + second for number in range(4) for second in range(3)]

    def pairs(first: int) -> list[list[str]]:
        """Each event of ``a`` from a second on with the first one of ``b`` behind it."""
        behind = {one: [other for other in seconds if other > one] for one in seconds}
        return [[f"a{one}", f"b{others[0]}"] for one, others in behind.items() if one >= first and others]

    assert found["same"] == sorted(pairs(10))
    assert found["other"] == sorted(pairs(20))
    # Time goes beyond second 22 behind its end.
    assert found["one"] == sorted(pair for pair in pairs(0) if int(pair[1][1:]) < 22)


def test_queries_of_groups_by_columns() -> None:
    """A dropped query has not what is decided behind its end, though it saw the events."""
    stays, came, went = Reader(1, "stays", 5, NEVER), Reader(2, "came", 9, NEVER), Reader(3, "went", 5, 20)
    readers = Readers.of([(7, 5), (8, 9)], {7: [stays, went], 8: [came]})
    assert readers.of_members(np.array([0])).tolist() == [0, 1]
    assert readers.of_members(np.array([0, 1])).tolist() == [0, 1, 2]
    assert groups_having(readers, np.array([0, 1, 2]), (10, 12)) == (7, 8)
    assert groups_having(readers, np.array([0, 2]), (10, 12)) == (-1, 8)
    assert groups_having(readers, np.array([0]), (7, 25)) == (7,)
    assert groups_having(readers, np.array([], dtype=np.int64), (7, 25)) == ()
