"""What a process remembers of queries about absence is what the catalogue says, whatever has come and gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

import xscl
from xscl.batches.absence_memory import AbsenceMemory
from xscl.catalog import absences
from xscl.catalog.queries import regroup
from xscl.catalog.tables import QUERIES


def told(memory: AbsenceMemory, groups: int = 40) -> tuple[object, ...]:
    parts, every = memory.parts_of(np.arange(groups)), np.arange(groups)
    rows = zip(parts.gid.tolist(), parts.part.tolist(), [parts.kinds[kind] for kind in parts.kind], strict=True)
    return [*rows], memory.readers(-1).tolist(), memory.are_unasked(every).tolist()


def fresh(engine: xscl.Engine) -> AbsenceMemory:
    made = AbsenceMemory()
    with engine.home.catalog.read() as connection:
        made.read(connection)
    return made


@pytest.mark.parametrize("shop", ["1", "2"])
def test_changes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: str) -> None:
    reads: list[int] = []
    real = absences.asked_since
    monkeypatch.setattr("xscl.batches.absence_memory.asked_since", lambda c, n: reads.append(n) or real(c, n))
    unpaid = "a[./s = '{}'][./k->k] NOT FOLLOWED BY {{k = l, 5}} b[./k->l]"
    with xscl.connect(home=tmp_path / "home") as engine:
        memory = fresh(engine)

        def follows() -> bool:
            reads.clear()
            with engine.home.catalog.read() as connection:
                memory.read(connection)
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
        with engine.home.catalog.read() as connection:
            memory.read(connection)
        assert told(memory) == told(fresh(engine))
        assert [gid for gid, *_ in memory.readers(-1).tolist()] == [two.gid, two.gid]
