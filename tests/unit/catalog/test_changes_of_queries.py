"""The state of the queries, by which processes know that queries, their groups or streams have changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

import xscl
from xscl.catalog.query_state import QueryState, query_state
from xscl.catalog.tables import GROUPS, PARTS, QUERIES, STREAMS
from xscl.registry.channels import drop_channel
from xscl.upkeep import catalog_rows

_ASKED = (
    sa.select(QUERIES.c.query, QUERIES.c.gid, QUERIES.c.docid_from, QUERIES.c.docid_until, QUERIES.c.publish),
    sa.select(PARTS),
    sa.select(GROUPS.c.gid, GROUPS.c.key, GROUPS.c.channels),
    sa.select(STREAMS.c.number, STREAMS.c.name),
)


def test_it_changes_with_them_and_with_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        catalog = engine.home.catalog

        def there() -> tuple[QueryState, list[list[tuple[object, ...]]]]:
            with catalog.read() as connection:
                rows = [sorted(map(tuple, connection.execute(each)), key=str) for each in _ASKED]
                return query_state(connection), rows

        def changes(work: Callable[[], object]) -> bool:
            (before, rows), _ = there(), work()
            after, others = there()
            assert (after != before) == (rows != others), "processes would go on with what they remember"
            return after != before

        join = "S/a/k->x JOIN {x = y, 1 h} S/b/k->y"
        absence = "a[./k->k] NOT FOLLOWED BY {k = l, 5} b[./k->l]"
        unknown = "R[./m->x] JOIN {x = y, 1 h} R[./m->y]"
        assert changes(lambda: engine.register(join, name="join"))
        assert changes(lambda: engine.register(absence, name="absence"))
        assert changes(lambda: engine.register("a[./k->k] NEXT {k = l} b[./k->l]", name="steps"))
        assert changes(lambda: engine.register(unknown, name="unknown"))
        assert changes(lambda: engine.register(f"{join} PUBLISH T", name="publishing"))
        assert changes(lambda: engine.add_channel("one", of="S"))
        assert not changes(lambda: engine.ingest([xscl.Event("S", "e", 1, xml="<a><k>1</k></a>")]))
        assert not changes(engine.run_once)
        # Queries over a channel of which more becomes known may go to another group.
        assert changes(lambda: engine.add_channel("R", kind="rows", schema="m double"))
        assert changes(lambda: engine.drop("join"))
        assert changes(lambda: drop_channel(catalog, "one"))
        engine.run_once()
        monkeypatch.setattr(catalog_rows, "FEWEST_DROPPED", 1)
        assert changes(lambda: catalog_rows.sweep_queries(engine.home, lambda: (set(), 0)))


def test_a_suspension_changes_it(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("S/a/k->x JOIN {x = y, 1 h} S/b/k->y", name="greedy")
        engine.set_quotas(pairs=1)
        before = engine.home.catalog.ask(query_state)
        engine.ingest([xscl.Event("S", f"{n}{i}", i, xml=f"<{n}><k>1</k></{n}>") for i in range(3) for n in "ab"])
        (report,) = engine.run_once()
        assert report.suspended
        assert engine.home.catalog.ask(query_state) != before
