"""Statements laid out in lines: nothing but white space outside quotes changes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from sqlglot import tokenize

from xscl.templates.statements.layout import laid_out

names = st.sampled_from(["a.x", "rt.hi_1_2", "`case`", "'it''s AND (', 'OR \n x", "' FROM '", "1"]).map(
    lambda text: text if text.count("'") % 2 == 0 else f"{text}'"
)


def conditions(depth: int) -> st.SearchStrategy[str]:
    plain = st.builds("{} {} {}".format, names, st.sampled_from(["=", "!=", "<="]), names)
    if not depth:
        return plain
    inner = conditions(depth - 1)
    some = st.lists(inner, min_size=1, max_size=6)
    return st.one_of(
        plain,
        some.map(lambda parts: f"({' OR '.join(parts)})"),
        some.map(" AND ".join),
        st.builds("NOT (EXISTS (SELECT {} \nFROM t AS u JOIN v ON {} \nWHERE {}))".format, names, inner, inner),
        st.builds("CASE WHEN ({}) THEN greatest({}, {}) ELSE {} END > {}".format, inner, names, names, names, names),
    )


@given(st.lists(names, min_size=1, max_size=30), st.lists(conditions(3), max_size=3), conditions(2))
def test_tokens_stay_as_they_are(columns: list[str], joined: list[str], where: str) -> None:
    relations = "".join(f" LEFT OUTER JOIN b{n} ON {on}" for n, on in enumerate(joined))
    text = f"SELECT DISTINCT {', '.join(columns)} \nFROM a{relations} \nWHERE {where}"
    laid = laid_out(text)
    before, after = ([(token.token_type, token.text) for token in tokenize(each)] for each in (text, laid))
    assert [token for token in before if token[1] != "OUTER"] == after
    assert laid.count("\nFROM ") >= 1 and laid.startswith("SELECT DISTINCT ")


def test_a_nested_query_has_a_line_for_every_condition() -> None:
    wide = " AND ".join(f"x.column_{n} = y.column_{n}" for n in range(6))
    text = f"SELECT a FROM t WHERE a = 1 AND NOT (EXISTS (SELECT b FROM x JOIN y ON x.k = y.k WHERE {wide}))"
    assert laid_out(text).split("\n") == [
        "SELECT a",
        "FROM t",
        "WHERE a = 1",
        "  AND NOT (",
        "      EXISTS (",
        "        SELECT b",
        "        FROM x",
        "          JOIN y ON x.k = y.k",
        "        WHERE x.column_0 = y.column_0",
        *(f"          AND x.column_{n} = y.column_{n}" for n in range(1, 6)),
        "      )",
        "    )",
    ]


def test_many_columns_fill_lines() -> None:
    columns = [f"a.column_{n} AS c{n}" for n in range(20)]
    *lines, end = laid_out(f"SELECT {', '.join(columns)} FROM a").split("\n")
    assert end == "FROM a" and max(map(len, lines)) <= 120 and len(lines) == 4
    assert re.sub(r"\s+", " ", " ".join(lines)) == f"SELECT {', '.join(columns)}"
