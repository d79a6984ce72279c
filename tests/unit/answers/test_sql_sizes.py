"""Sizes of values that statements of strangers may ask for."""

from __future__ import annotations

import pytest

from xscl.answers.sql.sizes import MOST_ELEMENTS, MOST_RANGE, check_sizes
from xscl.base.errors import EngineError

SOUND = [
    "SELECT qid, count(*) AS n FROM matches GROUP BY qid",
    "SELECT explode(sequence(1, 500)) AS i",
    f"SELECT size(sequence(1, {MOST_ELEMENTS}))",
    "SELECT sequence(10, 1, -1), sequence(-5, 5), sequence(CAST(1 AS BIGINT), 3L)",
    "SELECT sequence(DATE'2026-01-01', DATE'2026-12-31')",
    "SELECT sequence(DATE'2026-01-01', DATE'2026-12-31', INTERVAL 1 WEEK)",
    "SELECT sequence(to_timestamp('2026-01-01'), to_timestamp('2026-02-01'), INTERVAL 1 HOUR)",
    "SELECT lpad(id, 10, '0') || '-' || rpad(channel, 5, ' ') FROM events",
    "SELECT repeat('ab', 3), space(2 * 4), array_repeat(0, 10)",
    f"SELECT * FROM range({MOST_RANGE})",
    "SELECT transform(sequence(1, 1000), x -> x * x)",
    "SELECT aggregate(array(1, 2), 0, (a, x) -> a + a * x)",
    "SELECT aggregate(array('a', 'b'), '', (a, x) -> a || x)",
    "SELECT format_string('%5d of %s', 1, 'x'), format_number(1.5, 2)",
    "SELECT window(ts, '1 day', '1 hour'), count(*) FROM events GROUP BY 1",
    "WITH RECURSIVE r AS (SELECT 'a' AS s UNION ALL SELECT s || '/' FROM r) SELECT * FROM r",
    "this cannot be read at all (",
    "SELECT stack(2, 1, 2)",
    "SHOW TABLES",
    "DESCRIBE events",
    "DESCRIBE QUERY SELECT 1",
    "WITH a AS (SELECT concat(id, '-', channel) AS k FROM events), b AS (SELECT k || k AS k FROM a) "
    "SELECT struct(k, array(k, k)) FROM b UNION ALL SELECT struct(k, array(k, k)) FROM b",
    "SELECT concat(id, channel), (SELECT max(concat(id, channel)) FROM events) FROM (SELECT * FROM events)",
]
BOMBS = [
    "SELECT sequence(1, 1000000000)",
    "SELECT SeQuEnCe (1, /* long */ 1000000000)",
    "SELECT `sequence`(1, 1000000000)",
    "SELECT explode(sequence(1, 1000000000))",
    "SELECT * FROM events LATERAL VIEW explode(sequence(1, 10000000000)) t AS x",
    "SELECT sequence(1, n) FROM (SELECT 1000000000 AS n)",
    "SELECT sequence(1, 10 * 1000 * 1000 * 1000)",
    "SELECT sequence(1, 1e9), sequence(1, 2000000000, 3)",
    "SELECT sequence(DATE'0001-01-01', DATE'9999-12-31')",
    "SELECT sequence(to_timestamp('2026-01-01'), to_timestamp('2027-01-01'), INTERVAL 1 SECOND)",
    "SELECT sequence(to_timestamp('2026-01-01'), to_timestamp('2026-02-01'), INTERVAL 1 MICROSECOND)",
    "SELECT repeat('x', 1000000000)",
    "SELECT repeat(repeat('x', 100000), 100000)",
    "SELECT repeat(s, 100000) FROM (SELECT repeat('x', 100000) AS s)",
    f"SELECT repeat('{'x' * 1000}', 1000000)",
    "SELECT repeat(content, 1000) FROM events",
    "SELECT replace(repeat('x', 100000), 'x', repeat('y', 100000))",
    "SELECT array_repeat(array_repeat(1, 10000), 10000), transform(sequence(1, 100), x -> repeat(x, 10))",
    "SELECT space(2000000000)",
    "SELECT lpad('x', 2000000000), rpad('x', 1 + 2000000000)",
    "SELECT lpad('x', length(content)) FROM events",
    "SELECT array_insert(array(1), 1000000000, 2)",
    "SELECT stack(100000000, 1)",
    "SELECT * FROM range(100000000000)",
    "SELECT * FROM range(0, 100000000000, 1, 8)",
    "SELECT format_string('%1000000000d', 1)",
    "SELECT printf(s, 1) FROM (SELECT '%1000000000d' AS s)",
    "SELECT format_number(1, 100000000)",
    "SELECT count_min_sketch(x, 0.000000001, 0.9, 1) FROM range(3)",
    "SELECT window(ts, '1000 days', '1 us'), count(*) FROM events GROUP BY 1",
    "SELECT aggregate(sequence(1, 100), 'x', (a, x) -> a || a)",
    "SELECT reduce(sequence(1, 100), 'x', (a, x) -> concat(a, 'y', a))",
    "WITH RECURSIVE r AS (SELECT 'a' AS s UNION ALL SELECT s || s FROM r) SELECT * FROM r",
    "SELECT randstr(1000000000)",
    "DESCRIBE QUERY SELECT sequence(1, 1000000000)",
    "WITH a0 AS (SELECT content AS c FROM events), "
    + ", ".join(f"a{n + 1} AS (SELECT c || c AS c FROM a{n})" for n in range(10))
    + " SELECT length(c) FROM a10",
    "WITH a0 AS (SELECT content AS c, content AS d FROM events), "
    + ", ".join(f"a{n + 1} AS (SELECT concat(c, d) AS c, concat(d, c) AS d FROM a{n})" for n in range(10))
    + " SELECT c FROM a10",
    "SELECT * FROM " + "(SELECT array(c, c) AS c FROM " * 10 + "(SELECT 1 AS c)" + ")" * 10,
    "SELECT concat(" + ", ".join(["content"] * 300) + ") FROM events",
]


@pytest.mark.parametrize("statement", SOUND)
def test_statements_of_people_pass(statement: str, caplog: pytest.LogCaptureFixture) -> None:
    check_sizes(statement)
    assert not caplog.records


@pytest.mark.parametrize("statement", BOMBS)
def test_what_would_fill_the_memory_is_refused(statement: str) -> None:
    with pytest.raises(EngineError) as raised:
        check_sizes(statement)
    assert raised.value.condition == "XSCL_SQL_SIZE"
    assert len(raised.value.message) < 300
