"""No statement of every day reads a whole table that grows, and SQLite knows each index by the words of a condition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from catalog_plans import DELIBERATE, SMALL, add_rows, bad_plans, executed, sqlite_scans
from sqlalchemy.engine import Connection

from xscl.batches.ranges import _end_before_drop, next_stop, waiting_queries
from xscl.catalog.events import (
    edited_between,
    find_event_ids,
    find_feed_digests,
    has_other_base,
    newer_versions,
    of_base,
)
from xscl.catalog.queries import _spare_behind, _spare_of_drop
from xscl.catalog.tables import EVENT_IDS, METADATA, OF_STEPS, OF_WINDOWS, PARTS, in_parts
from xscl.catalog.windows import groups_of_windows_alone
from xscl.engine import Engine
from xscl.planning.subscribers import Subscribers
from xscl.registry.publish_graph import Publications, is_published
from xscl.store.home import init_home


def changes(connection: Connection) -> None:
    subscribers = Subscribers()
    subscribers.move(connection, 1, 2)
    subscribers.move(connection, 2, 3)


ASKED: dict[str, list[Callable[[Connection], object]]] = {
    "queries_dropped": [
        changes,
        lambda connection: next_stop(connection, 1, 9),
        lambda connection: connection.execute(*_spare_behind(3)).all(),
        lambda connection: connection.execute(*_spare_of_drop(9)).all(),
    ],
    "queries_spare": [lambda connection: _end_before_drop(connection, 1, 9)],
    "queries_waiting": [
        lambda connection: next_stop(connection, 1, 9),
        lambda connection: waiting_queries(connection, 1, 9),
    ],
    "parts_of_windows": [groups_of_windows_alone],
    "event_ids_base": [
        lambda connection: find_event_ids(connection, "c", ["a", "b"]),
        lambda connection: find_feed_digests(connection, "c", "f", ["a", "b"]),
        lambda connection: has_other_base(connection, "c"),
        lambda connection: newer_versions(connection, [1, 2], 9),
        lambda connection: edited_between(connection, 1, 9),
        *(
            lambda connection, those=those: connection.execute(sa.select(EVENT_IDS.c.docid).where(*those)).all()
            for those in [(EVENT_IDS.c.channel == "c", of_base(EVENT_IDS, bases)[1]) for bases in (["a"], ["a", "b"])]
        ),
    ],
    "queries_publish": [
        lambda connection: is_published(connection, "c"),
        lambda connection: Publications(connection)._look_up_all(),
    ],
}


@pytest.mark.parametrize(("index", "ask"), [(index, ask) for index, asks in ASKED.items() for ask in asks])
def test_indexes_are_used(tmp_path: Path, index: str, ask: Callable[[Connection], object]) -> None:
    home = init_home(tmp_path / "home")
    with home.catalog.begin() as connection:
        for place in range(1, 4):
            names = '{"meta": [], "results": [], "result_blocks": [], "joined": []}'
            values = (place, f"q{place}", names, place, 9 if place == 1 else 1 << 62, "ALL")
            connection.exec_driver_sql(
                "insert into queries (query, qid, text, namespaces, gid, template, digest, names, docid_from, "
                "docid_until, received, starting) values (?, ?, '', '{}', 1, '', '', ?, ?, ?, 0, ?)",
                values,
            )
    asked: list[tuple[str, object]] = []
    with home.catalog.read() as connection:
        sa.event.listen(
            connection, "before_cursor_execute", lambda _c, _u, text, values, *_: asked.append((text, values))
        )
        ask(connection)
    plans = []
    with home.catalog.read() as connection:
        for text, values in asked:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
            plans.append(" ".join(row.detail for row in rows))
    home.catalog.close()
    assert any(f"INDEX {index} " in f"{plan} " for plan in plans), plans
    assert not any("event_ids_1 (channel=?)" in plan for plan in plans), "a whole channel is read"


@pytest.mark.parametrize("count", [0, 1, 399, 400, 401, 1_200])
def test_parts(count: int) -> None:
    parts = list(in_parts(range(count)))
    assert [value for part in parts for value in part] == list(range(count))
    assert all(0 < len(part) <= 400 for part in parts)


def test_no_statement_reads_a_whole_table_that_grows(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        statements = executed(engine, tmp_path)
        names = frozenset(METADATA.tables)
        used: set[str] = set()
        with engine.home.catalog.engine.connect() as connection:
            add_rows(connection, 3_000)
            for analysed in (False, True):
                if analysed:
                    connection.exec_driver_sql("ANALYZE")
                    connection.commit()
                with engine.home.catalog.engine.connect() as fresh:
                    bad, allowed = bad_plans(statements, sqlite_scans(fresh, names))
                told = "\n".join(f"{analysed=} {of}: {text}" for text, of in bad.items())
                assert told == ""
                used |= allowed
    assert len(statements) > 150
    assert names > SMALL
    assert used == set(DELIBERATE)


@pytest.mark.parametrize("others", [[], [None], [OF_STEPS]])
def test_each_part_that_windows_share_is_looked_at_once(others: list[str | None]) -> None:
    """Other queries may be over it, too."""
    database = sa.create_engine("sqlite://")
    many, looked = 3_000, 0

    def look() -> None:
        nonlocal looked
        looked += 1_000

    rows = [{"gid": 10 + number, "number": 0, "part": 1, "ends": OF_WINDOWS} for number in range(many)]
    rows += [{"gid": 9_000 + number, "number": 0, "part": 1, "ends": ends} for number, ends in enumerate(others)]
    with database.connect() as connection:
        METADATA.create_all(connection)
        connection.execute(sa.insert(PARTS), rows)
        raw = connection.connection.driver_connection
        assert raw is not None
        raw.set_progress_handler(look, 1_000)
        assert groups_of_windows_alone(connection) == ([] if others else [1])
    assert 0 < looked < 50 * many
