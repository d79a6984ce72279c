"""What a process remembers of queries about absence is what the catalogue says, whatever has come and gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

import xscl
from xscl.batches.memory.absence import AbsenceMemory
from xscl.catalog import absences
from xscl.catalog.queries import regroup
from xscl.catalog.query_state import query_state
from xscl.catalog.tables import QUERIES


def told(memory: AbsenceMemory, groups: int = 40) -> tuple[object, ...]:
    parts, every = memory.parts_of(np.arange(groups)), np.arange(groups)
    rows = zip(parts.gid.tolist(), parts.part.tolist(), [parts.kinds[kind] for kind in parts.kind], strict=True)
    groups, asked = memory.correcting
    changing = memory.retracting, groups, asked.gid.tolist(), asked.part.tolist(), memory.least_memory
    return [*rows], memory.readers(-1).tolist(), memory.are_unasked(every).tolist(), changing


def fresh(engine: xscl.Engine) -> AbsenceMemory:
    made = AbsenceMemory()
    made.read(engine.home.catalog, engine.home.catalog.ask(query_state))
    return made


@pytest.mark.parametrize("shop", ["1", "2"])
def test_changes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: str) -> None:
    reads: list[int] = []
    real = absences.asked_since
    monkeypatch.setattr("xscl.batches.memory.absence.asked_since", lambda c, n: reads.append(n) or real(c, n))
    unpaid = "a[./s = '{}'][./k->k] NOT FOLLOWED BY {{k = l, 5}} b[./k->l]"
    with xscl.connect(home=tmp_path / "home") as engine:
        memory = fresh(engine)

        def follows() -> bool:
            reads.clear()
            memory.read(engine.home.catalog, engine.home.catalog.ask(query_state))
            follows = max(reads, default=1) > 0
            assert told(memory) == told(fresh(engine))
            return follows

        engine.register(unpaid.format(1), name="q1")
        engine.register(unpaid.format(2), name="q2")
        follows()
        assert len(memory.readers(-1)) == 2 and memory.are_unasked(np.arange(40)).any()
        engine.register(unpaid.format(shop), name="more")
        assert follows() and len(memory.readers(-1)) == 3
        # A query may ask for itself what others ask for.
        engine.register("a[./k->k] FOLLOWED BY {k = l, 5} b[./k->l]", name="plain")
        engine.register("a[./k->k] NEXT {k = l} b[./k->l]", name="steps")
        assert follows()
        engine.drop("q1")
        engine.register(unpaid.format(3), name="q3")
        assert follows() and sorted(row[2] for row in memory.readers(-1).tolist())[0] < 1 << 62
        assert len(memory.readers(1 << 40)) == 3


def test_queries_that_go_to_other_groups_are_read_again(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        for shop in (1, 2):
            engine.register(f"a[./s = '{shop}'][./k->k] NOT FOLLOWED BY {{k = l, 5}} b[./k->l]", name=f"q{shop}")
        memory = fresh(engine)
        with engine.home.catalog.begin() as connection:
            one, two = connection.execute(sa.select(QUERIES).order_by(QUERIES.c.query)).all()
            regroup(connection, [(one.query, two.gid, two.template, one.names)])
        memory.read(engine.home.catalog, engine.home.catalog.ask(query_state))
        assert told(memory) == told(fresh(engine))
        assert [gid for gid, *_ in memory.readers(-1).tolist()] == [two.gid, two.gid]


def test_what_comes_while_a_batch_begins_is_read_once(tmp_path: Path) -> None:
    unpaid = "a[./s = '{}'][./k->k] NOT FOLLOWED BY {{k = l, 5}} b[./k->l]"
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register(unpaid.format(1), name="q1")
        memory = fresh(engine)
        engine.register(unpaid.format(2), name="q2")
        state = engine.home.catalog.ask(query_state)
        engine.register(unpaid.format(3), name="q3")
        memory.read(engine.home.catalog, state)
        memory.read(engine.home.catalog, engine.home.catalog.ask(query_state))
        assert told(memory) == told(fresh(engine))


def test_what_changes_correct_is_remembered(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("a[./k->k] JOIN {k = l, 5} b[./k->l] ON CHANGE RETRACT", name="join")
        engine.register("a[./k->k] NOT FOLLOWED BY {k = l, 5} b[./k->l] ON CHANGE RETRACT", name="absence")
        memory = fresh(engine)
        ((found, joins),) = memory.retracting.items()
        groups, asked = memory.correcting
        assert found not in joins and len(groups) == 1 and set(asked.gid.tolist()) == set(groups)
        assert memory.least_memory is None
        level = "CONSISTENCY BLOCKING 0 MEMORY 7 s"
        engine.add_channel("a", lateness="9 s")
        engine.add_channel("b", lateness="9 s")
        engine.register(f"a[./k->k] NOT FOLLOWED BY {{k = l, 6}} b[./k->l] {level}", name="short")
        memory.read(engine.home.catalog, engine.home.catalog.ask(query_state))
        assert memory.least_memory == 7_000_000
        assert told(memory) == told(fresh(engine))
