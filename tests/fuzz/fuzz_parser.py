"""A fuzzer for the parser and the printer of queries.  It is no part of the test suite.

Run it in a development environment, from the top folder, for five minutes::

    .venv/bin/python -m pip install atheris
    mkdir -p build/fuzz
    .venv/bin/python tests/fuzz/fuzz_parser.py -max_total_time=300 -max_len=300 \
        -dict=tests/fuzz/xscl.dict build/fuzz tests/golden/texts

New inputs are kept in build/fuzz.  An input that breaks the rules below is written to a file ``crash-…``: make it a
case of tests/unit/language/test_any_text.py.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["xscl"]):
    from xscl.base.errors import QueryError
    from xscl.language.syntax import ast
    from xscl.language.syntax.format import format_query, format_statement
    from xscl.language.syntax.parser import parse_query
    from xscl.language.syntax.statements import parse_script


def check(data: bytes) -> None:
    """Any text gives statements and query errors; a query is printed, parsed to the same tree and printed the same."""
    text = data.decode("utf-8", "surrogateescape")
    for item in parse_script(text):
        if item.error is not None:
            assert isinstance(item.error, QueryError) and str(item.error)
            continue
        assert item.statement is not None
        printed = format_statement(item.statement)
        (again,) = parse_script(printed)
        assert again.statement is not None, printed
        assert format_statement(again.statement) == printed
        if isinstance(item.statement, ast.CreateQuery):
            query = item.statement.query
            assert parse_query(format_query(query)) == query, printed


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
