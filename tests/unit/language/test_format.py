"""Trees to text: what is printed is parsed to an equal tree, and printed again to the same text."""

from __future__ import annotations

from fractions import Fraction

import pytest
from budget import examples
from constructors import constructing_queries
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import one_block_queries, query_texts, two_block_queries

from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query, format_statement
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.statements import parse_script

TEXTS = [
    ("S", "S"),
    ("Select * From S", "S"),
    ("S AS r[a][.//b->x]/c//@k", "S->r[./a][.//b->x]/c//@k"),
    ("S//n:a/*:b/n:*/*//@n:k//@*/text()", "S//n:a/*:b/n:*/*//@n:k//@*/text()"),
    ("S[a and (b or not(c))][(a and b) and c]", "S[./a and (./b or not(./c))][(./a and ./b) and ./c]"),
    ("S[(a or b) or c]", "S[(./a or ./b) or ./c]"),
    ("S[not((a))]", "S[not(./a)]"),
    ('S[. = "it\'s"][contains(., "a""b")]', "S[. = 'it''s'][contains(., 'a\"b')]"),
    ("S[count(not) = - 007.50][and]", "S[count(./not) = -007.50][./and]"),
    ("S[starts-with(lower(a), 'x')]", "S[starts-with(lower(./a), 'x')]"),
    ("A join {60} B", "A\n  JOIN {1 min}\nB"),
    ("A JOIN {} B", "A\n  JOIN {}\nB"),
    (
        "(A JOIN {1 s} B) FOLLOWED BY {1 s} (C JOIN {2 s} (D JOIN {3 s} E))",
        "A\n  JOIN {1 s}\nB\n  FOLLOWED BY {1 s}\n(C\n  JOIN {2 s}\n(D\n  JOIN {3 s}\nE))",
    ),
    ("A JOIN {x = y AND 2 != lower(z/b), 7 days, ONCE} B", "A\n  JOIN {x = y AND 2 != lower(z/b), 1 w, ONCE}\nB"),
    ("A FOLLOWED BY {90 min .. 'PT2H', MAXWINDOW 48 h} B", "A\n  FOLLOWED BY {90 min..2 h, MAXWINDOW 2 d}\nB"),
    ("A FOLLOWED BY {0..UNBOUNDED, unbounded} B", "A\n  FOLLOWED BY {0 s..UNBOUNDED, UNBOUNDED}\nB"),
    ("A JOIN {x' - y in (0 s, 4 s)} B", "A\n  JOIN {x' - y IN [1 us, 3999999 us]}\nB"),
    ("A JOIN {x - y in (-unbounded, unbounded)} B", "A\n  JOIN {x - y IN [-UNBOUNDED, UNBOUNDED]}\nB"),
    ("A JOIN {x - y in [-1 d, -'PT1S']} B", "A\n  JOIN {x - y IN [-1 d, -1 s]}\nB"),
    ("A JOIN {2 * (x + 1) / 3 = -y} B", "A\n  JOIN {2/3 * x + 2/3 = -y}\nB"),
    ("A JOIN {-(1/2) < 0.25 - z/a AND -(-3) = 1 - 2} B", "A\n  JOIN {-0.5 < -z/a + 0.25 AND 3 = -1}\nB"),
    ("A JOIN {0 * x - 1 >= 's'} B", "A\n  JOIN {0 * x - 1 >= 's'}\nB"),
    ("select x1/a//b as h, y from S publish p starting all", "SELECT x1/a//b AS h, y FROM S\nPUBLISH p\nSTARTING ALL"),
    ('S starting "2026-06-01T00:00:00Z"', "S\nSTARTING '2026-06-01T00:00:00Z'"),
    ("S STARTING NOW", "S"),
    ("select//a", "SELECT * FROM select//a"),
    ("(Select) PUBLISH from", "SELECT * FROM Select\nPUBLISH from"),
    ("selected PUBLISH from", "selected\nPUBLISH from"),
    ("SELECT <a  b = '{x}&quot;\"''' ></a > FROM S", "SELECT <a b=\"{x}&quot;&quot;'\"/> FROM S"),
    ("SELECT <a> {x} &#32;<b/>{{ &lt;&gt;&amp;</a> FROM S", "SELECT <a>{x}&#32;&#32;<b/>{{ &lt;>&amp;</a> FROM S"),
    ("SELECT <a>{x}&#32;<b/>\n\t<!-- c --></a> FROM S", "SELECT <a>{x}&#32;<b/></a> FROM S"),
    ("SELECT <a b='&#9;\n'>&#13;x</a> FROM S", 'SELECT <a b="&#9; ">&#13;x</a> FROM S'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), TEXTS)
def test_canonical_texts(text: str, printed: str) -> None:
    assert format_query(parse_query(text)) == printed
    assert parse_query(printed) == parse_query(text)
    assert format_query(parse_query(printed)) == printed


STATEMENTS = [
    ('declare namespace n = "it\'s"', "DECLARE NAMESPACE n = 'it''s';"),
    ("drop query q.1", "DROP QUERY q.1;"),
    ("S//a", "S//a;"),
    ("create standing query q as select <a/> from S", "CREATE QUERY q AS\nSELECT <a/> FROM S;"),
    ("CREATE QUERY q AS select PUBLISH p", "CREATE QUERY q AS\nSELECT * FROM select\nPUBLISH p;"),
]


@pytest.mark.parametrize(("text", "printed"), STATEMENTS)
def test_statements(text: str, printed: str) -> None:
    (item,) = parse_script(text)
    assert item.statement is not None
    assert format_statement(item.statement) == printed
    (again,) = parse_script(printed)
    assert again.statement is not None
    assert format_statement(again.statement) == printed


def check(text: str) -> None:
    query = parse_query(text)
    printed = format_query(query)
    again = parse_query(printed)
    assert again == query
    assert format_query(again) == printed


@settings(max_examples=examples(120), deadline=None)
@example("S->x JOIN {x = y, 12345678901234567890 w} S->y")
@example("S JOIN {1.00000000000000000000000000001 d} T")
@example("S JOIN {'P123456789012345678901W12345678901234567890123DT1.1S'} T")
@given(query_texts())
def test_texts_by_the_grammar_are_kept(text: str) -> None:
    check(text)


@settings(max_examples=examples(40), deadline=None)
@given(st.one_of(one_block_queries(), two_block_queries()))
def test_sound_queries_are_kept(text: str) -> None:
    check(text)


@settings(max_examples=examples(80), deadline=None)
@given(constructing_queries())
def test_queries_with_constructors_are_kept(text: str) -> None:
    check(text)


NUMBERS = st.fractions(max_denominator=10**12).flatmap(lambda n: st.sampled_from((n, n * 10**20, Fraction(0), -n)))


@given(NUMBERS, NUMBERS)
def test_numbers_are_exact(factor: Fraction, constant: Fraction) -> None:
    atom = ast.Atom(ast.Linear(ast.VarPath("x"), factor, constant), "=", ast.Linear(None, Fraction(1), constant))
    query = ast.Query(ast.Join("join", ast.Block("S"), ast.Block("T"), (atom,)))
    assert parse_query(format_query(query)) == query


@given(st.integers(0, 10**30), st.integers(-(10**30), 10**30), st.one_of(st.none(), st.integers(-(10**15), 10**15)))
def test_windows_are_exact(high: int, low: int, other: int | None) -> None:
    windows = (
        ast.Window("within", None, high),
        ast.Window("range", high, None),
        ast.Window("max", None, high),
        ast.RelativeWindow("x", "y", other, low),
        ast.RelativeWindow("x", "y", low, other),
    )
    query = ast.Query(ast.Join("followed by", ast.Block("S"), ast.Block("T"), (), windows))
    assert parse_query(format_query(query)) == query
