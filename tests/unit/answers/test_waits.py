"""How long events waited for their batch, by parts of a span of time."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from xscl.answers.recent_activity import waits
from xscl.catalog.catalog import Catalog
from xscl.catalog.tables import BATCHES, EVENT_IDS, HOME
from xscl.store.home import init_home

SECOND = 1_000_000
NOW = 1_000 * SECOND
NOUGHT = dict.fromkeys(("witnesses", "pairs", "rout", "matches", "prepare_s", "stage1_s", "commit_s"), 0)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return init_home(tmp_path / "home").catalog


def add_event(connection: Connection, docid: int, received_s: float, published: int | None = None) -> None:
    fixed = {"channel": "S", "base": "", "feed": "", "version": 1, "item": docid, "digest": ""}
    received = int(received_s * SECOND)
    values = {"id": str(docid), "docid": docid, "received": received, "published": published}
    connection.execute(EVENT_IDS.insert().values(**fixed, **values))


def add_batch(connection: Connection, batch: int, first: int, last: int, committed_s: float, took: float = 0.1) -> None:
    committed = int(committed_s * SECOND)
    values = {"batch": batch, "first": first, "last": last, "events": 1, "committed": committed, "join_s": took}
    connection.execute(BATCHES.insert().values(**NOUGHT, **values))


def test_a_wait_is_in_all_parts_that_it_spans(catalog: Catalog) -> None:
    with catalog.begin() as connection:
        # Place 1 is a registration; what a query published has not waited.
        add_event(connection, 2, 960.5)
        add_event(connection, 3, 900, published=3)
        add_batch(connection, 1, 1, 3, 962)
        add_event(connection, 4, 975)
        add_batch(connection, 2, 4, 4, 995)
    # Parts of ten seconds from 950 to 1,000.
    assert waits(catalog, NOW, 50 * SECOND, 5) == [0, 1.5, 5, 15, 20]


def test_what_waits_now_counts(catalog: Catalog) -> None:
    with catalog.begin() as connection:
        add_event(connection, 1, 985)
        connection.execute(HOME.update().values(next_place=2))
    assert waits(catalog, NOW, 20 * SECOND, 2) == [5, 15]


def test_the_batches_that_took_longest_are_looked_at(catalog: Catalog) -> None:
    with catalog.begin() as connection:
        for batch in range(1, 21):
            add_event(connection, batch, 990 - (30 if batch == 7 else 0.5))
            add_batch(connection, batch, batch, batch, 991, took=2.0 if batch == 7 else 0.1)
    assert waits(catalog, NOW, 10 * SECOND, 1) == [31.0]
