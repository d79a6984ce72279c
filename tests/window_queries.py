"""Texts with windows of matches that differ in constants."""

from __future__ import annotations

from strategies import Dice

_TEXTS = (
    "SELECT k, {sum} AS n FROM R->a[./n > {a}][./s->k][./n->v] WINDOW {d} min EVERY {e} s GROUP BY k"
    " HAVING {sum} >= {b}",
    "SELECT k FROM R[./s = {s}][./s->k][./n->v] WINDOW LAST {c} PER k GROUP BY k HAVING {a} < {sum} AND k != {s}",
    "SELECT k, 2 * v AS w FROM R[./s->k][./n->v] WINDOW {d} s GROUP BY k, v, {a} * v HAVING {a} * v > {b} ON CROSSING",
    "SELECT count() AS n FROM R[./s->k] JOIN {{k = j, {d} s}} R[./n = {b}][./s->j] WINDOW {e} h EVERY {e} h"
    " HAVING count() > {a} + {b} TOP {c} BY {sum_j} PUBLISH p",
    "SELECT j, {sum} AS n FROM S[./c->j][./b->v] WINDOW {d} h GROUP BY j HAVING {sum} / 4 > {a} AND {b} <= count()"
    " ONCE PER {e} min",
    "SELECT <e>{{k}}</e> FROM R[./s->k][./n->v] WINDOW {d} s GROUP BY k HAVING max(v) < {a}",
    "SELECT k FROM R[./s->k][./n->v] WINDOW {d} s GROUP BY k HAVING max(v) > -{a} AND - {b} < {sum}",
    "SELECT k FROM R[./s->k][./n->v] WINDOW {d} s GROUP BY k HAVING {sum} - {a} < -{b} - {a} ON CROSSING",
    "SELECT k FROM R[./s->k][./n->v] WINDOW {d} h EVERY {e} min GROUP BY k HAVING first(k) = {s}"
    " AND max(v) >= {b} * min(v) + {a} AND lower(last(k)) != {t}",
    "SELECT j FROM S[./c->j][./b->v] WINDOW LAST {c} PER j GROUP BY j HAVING {a} * max(v)-{b} < -{b} * min(v)"
    " AND {s} != first(j) AND {sum} * {a} > - {b} ON CROSSING",
    "SELECT k FROM R[./s->k][./n->v] WINDOW {d} s GROUP BY k HAVING (max(v) - {a}) * {b} > {a} AND first(k) = {t}"
    " AND {b} + {sum} > 3 * {b} ONCE PER {e} s",
    "SELECT k FROM R[./s->k][./n->v] WINDOW {d} s GROUP BY k, v, 3 * v, v - {a} HAVING {b} * v + {a} < 2.5 - v"
    " AND k != {s}",
    "SELECT k, v FROM R[./s->k][./n->v] WINDOW {d} s GROUP BY k, v HAVING {a} * v - -{b} > {b} / {a} * max(v)"
    " AND first(k) >= {t} PUBLISH p",
)
_STRINGS = (
    "'x'",
    "'two words'",
    "'it''s'",
    "'5'",
    "''",
    "'NaN'",
    "'-inf'",
    "'1e5'",
    "'2026-01-01'",
    "'é—ü'",
    "'qy0yq'",
    "'say \"no\"'",
    "' 7 h '",
    "'AND k > 3'",
    "'a'",
)


def window_query(choose: Dice) -> str:
    """A query of one of a few outlines; some are not sound."""
    numbers = ("5", "3", "2.5", "12") * 3 + (
        "007",
        "0",
        "1",
        "8000000001",
        "0.1234567890123",
        "1e3",
        "0.50",
        "99999999999999",
    )
    lengths = ("1", "2", "60", "90", "24") * 3 + ("0", "700001", "1.5", "1234567", "3600")
    return choose.one(*_TEXTS).format(
        a=choose.one(*numbers),
        b=choose.one(*numbers),
        c=choose.one("1", "3", "4", "05", "0", "600000001", "9999999999"),
        d=choose.one(*lengths),
        e=choose.one(*lengths),
        s=choose.one(*_STRINGS),
        t=choose.one(*_STRINGS, '"x"', '"it\'s"', '"a ""b"" c"'),
        sum=choose.one("sum(v)", "sum(v)", "avg(2 * v)"),
        sum_j="count(j)",
    )
