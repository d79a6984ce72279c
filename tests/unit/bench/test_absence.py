"""Orders of the bench ``absence``: who is unpaid, against SQLite and DuckDB; nothing is late."""

from __future__ import annotations

import sqlite3

import pyarrow as pa
import pytest

from xscl.bench.orders import LATENESS_S, WINDOW_S, Trade
from xscl.bench.unpaid import Asked

TRADE = Trade(orders=600, shops=7, seed=3)


def test_the_unpaid_are_those_of_sqlite() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("create table orders (no, ts, shop)")
    database.execute("create table payments (no, ts)")
    for part in TRADE.parts(100):
        for name, table in (("orders", part.orders), ("payments", part.payments)):
            rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
            database.executemany(f"insert into {name} values ({','.join('?' * table.num_columns)})", rows)
    window = WINDOW_S * 1_000_000
    unpaid = database.execute(
        "select no from orders o where (select count(*) from payments p "
        f"where p.no = o.no and p.ts - o.ts between 1 and {window}) = 0 order by no"
    ).fetchall()
    assert [no for (no,) in unpaid] == TRADE.unpaid().tolist() and 10 < len(unpaid) < 90
    shops = dict(database.execute("select no, shop from orders"))
    assert [shops[no] for no in range(600)] == [f"S{shop}" for shop in TRADE.shop_of()]
    paid_late = "select count(*) from orders o join payments p using (no) where p.ts > o.ts + ?"
    assert database.execute(paid_late, (window,)).fetchone()[0] > 0


def test_nothing_is_late_and_much_is_disordered() -> None:
    parts = list(TRADE.parts(100))
    assert len(parts) == pytest.approx(12, abs=1)
    for name in ("orders", "payments"):
        clock, behind = 0, 0
        for ts in pa.concat_tables([getattr(part, name) for part in parts]).column("ts").to_pylist():
            assert ts >= clock - LATENESS_S * 1_000_000
            behind += ts < clock
            clock = max(clock, ts)
        assert behind > 50


def test_duckdb_finds_them_too() -> None:
    pytest.importorskip("duckdb")
    asked = Asked()
    for part in TRADE.parts(250):
        asked.take(part)
    assert asked.found() == TRADE.unpaid().tolist()
