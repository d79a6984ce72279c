"""Scripts of SQL are split at semicolons, wherever those end a statement."""

from __future__ import annotations

import pytest

from xscl.answers.sql.scripts import statements


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; -- nothing\n/* ; */;", []),
        ("select 1", [(1, "select 1", False)]),
        ("select 1;\nselect 2;", [(1, "select 1", True), (2, "select 2", True)]),
        ("select ';', \";\", `;`; select 2", [(1, "select ';', \";\", `;`", True), (1, "select 2", False)]),
        (r"select 'a\';', 'b''; c'; select 2", [(1, r"select 'a\';', 'b''; c'", True), (1, "select 2", False)]),
        ("-- first; \n\n  select 1 -- ;\n + 1;\n", [(3, "select 1 -- ;\n + 1", True)]),
        ("select 1 /* ;\n */ + 1\n;\n\nselect", [(1, "select 1 /* ;\n */ + 1", True), (5, "select", False)]),
        ("select 'open; select 2;", [(1, "select 'open; select 2;", False)]),
        ("select 1; /* open; select 2;", [(1, "select 1", True), (1, "/* open; select 2;", False)]),
    ],
)
def test_statements(script: str, expected: list[tuple[int, str, bool]]) -> None:
    assert [(each.line, each.text, each.is_ended) for each in statements(script)] == expected


def test_places_in_messages_are_those_of_the_script() -> None:
    (_, second) = statements("select 1;\n\nselect\n2")
    assert second.placed == "\n\nselect\n2"
