"""Texts that grow or make no sense: registered or refused with a place, explained and tried, in bounded work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import Choices, query_tokens, spaced

from xscl.answers.explaining.explain import explain
from xscl.answers.explaining.text import explanation_text
from xscl.answers.try_query import DryRun
from xscl.base.errors import CatalogError, QueryError
from xscl.base.types import Event
from xscl.catalog.channels import read_channels
from xscl.catalog.queries import read_queries, read_query
from xscl.registry.canonical_text import canonical_text
from xscl.registry.channels import add_channel
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home

MOST_CALLS = 3_000_000
"""Calls of functions that a text may cost from registration to its explanation; one call is some 100 ns."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    opened = init_home(tmp_path_factory.mktemp("strangers") / "home")
    add_channel(opened.catalog, "R", kind="rows", schema="p double, q double, s string, t timestamp")
    yield opened
    opened.catalog.close()


def calls(work: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def called(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count // 2  # calls and returns


def outcome(home: Home, text: str) -> QueryError | CatalogError | None:
    """Register a text, tell of it and try it on a document: None, or the refusal."""
    registry = Registry(home.catalog)
    try:
        name = registry.register(text)
    except (QueryError, CatalogError) as error:
        assert error.has_place and error.line >= 1 and error.column >= 1
        assert len(error.details()) < 5_000
        return error
    info = home.catalog.ask(read_query, name)
    assert explanation_text(explain(home.catalog, name))
    assert canonical_text(info)
    dry_run = DryRun(info, home.catalog.ask(read_channels))
    # There may be 2^60; they are found as they are asked for.
    found = islice(dry_run.witnesses([Event("S", "d", 1, xml="<a><b>1</b><b>2</b></a>")]), 100)
    assert all(witness.document == "d" for witness in found)
    registry.drop(name)
    return None


def listed(form: str, count: int, between: str) -> str:
    return between.join(form.format(n) for n in range(count))


GROWN: dict[str, Callable[[int], str]] = {
    "or": lambda n: f"S//a[{listed('b = {}', n, ' or ')}]",
    "or of rows": lambda n: f"R[{listed('p = {}', n, ' or ')}]",
    "and of rows": lambda n: f"R[{listed('p != {}', n, ' and ')}]",
    "ands of ors of rows": lambda n: f"R[{listed('(p > {0} or s = {0})', n, ' and ')}]",
    "not": lambda n: f"S//a[{listed('not(b{0} or not(c{0}))', n, ' and ')}]",
    "nested parentheses": lambda n: f"S//a[{'(' * n}b{')' * n}]",
    "nested not": lambda n: f"S//a[{'not(' * n}b{')' * n}]",
    "nested brackets": lambda n: f"S//a{'[b' * n}{']' * n}",
    "nested functions": lambda n: f"S//a[contains({'lower(' * n}.{')' * n}, 'x')]",
    "nested terms": lambda n: f"{'(' * n}S{')' * n}",
    "comments": lambda n: f"S {'(: ' * n}{':) ' * n}",
    "open comments": lambda n: "(: \nCREATE QUERY a AS " * n,
    "brackets": lambda n: f"S//a{listed('[b{}]', n, '')}",
    "variables": lambda n: f"S//a{listed('[b{0}->x{0}]', n, '')}",
    "selected": lambda n: f"SELECT {listed('x{}', n, ',')} FROM S//a{listed('[b{0}->x{0}]', n, '')}",
    "path": lambda n: "S" + "/a" * n,
    "literal": lambda n: f"S//a[b = '{'x' * n * 40}']",
    "name": lambda n: f"S//{'a' * n * 40}",
    "number": lambda n: f"S//a[b = {'1' * n}]",
    "blocks": lambda n: " JOIN {5 s} ".join(f"S->x{i}" for i in range(n)),
    "blocks on the right": lambda n: "S" + " JOIN {5 s} (S" * n + ")" * n,
    "blocks once": lambda n: " JOIN {1 h, ONCE} ".join(f"S->x{i}" for i in range(n)),
    "atoms": lambda n: (
        f"S//a{listed('[b->x{}]', n, '')} JOIN {{{listed('x{0} = y{0}', n, ' AND ')}}} T//a{listed('[b->y{}]', n, '')}"
    ),
    "atoms of one variable": lambda n: f"S//a->x JOIN {{{listed('x != {}', n, ' AND ')}, 1 h}} T",
    "atoms of paths": lambda n: f"S->x JOIN {{{listed('x/a{} = y/b', n, ' AND ')}}} T->y",
    "all with all": lambda n: (
        "S//a->x0"
        + "".join(f" JOIN {{{listed(f'x{{}} = x{i}', i, ' AND ')}}} S//a->x{i}" for i in range(1, min(n, 40)))
    ),
    "windows": lambda n: f"S->x JOIN {{{', '.join(['x - y IN [-1 h, 1 h]'] * n)}}} T->y",
    "exponents": lambda n: f"S->x JOIN {{{'1000000000 * ' * n}x = y}} T->y",
    "fractions": lambda n: f"S->x JOIN {{x = y{listed(' + 1 / {}7', n, '')}}} T->y",
    "constructor": lambda n: f"SELECT {'<a>' * n}{{x}}{'</a>' * n} FROM S->x",
    "holes": lambda n: f"SELECT <a>{'{x}' * n}</a> FROM S->x",
    "prefixes": lambda n: "".join(f"DECLARE NAMESPACE p{i} = 'u{i}';\n" for i in range(n)) + "S//p1:a",
}
SIZES = (60, 120)


@pytest.mark.parametrize("kind", GROWN)
def test_texts_that_grow_cost_bounded_work(home: Home, kind: str) -> None:
    counts = []
    for size in SIZES:
        text = GROWN[kind](size)
        counts.append(calls(lambda: outcome(home, text)))  # noqa: B023
    assert counts[-1] < MOST_CALLS
    # Twice the text is some twice the work, or a refusal.
    assert counts[1] < 3 * counts[0] + 100_000, counts


LONG = ("or", "or of rows", "brackets", "variables", "selected", "literal", "atoms", "windows", "open comments")


@pytest.mark.parametrize("kind", LONG)
def test_texts_that_are_too_long_are_refused(home: Home, kind: str) -> None:
    refused: list[QueryError | CatalogError | None] = []
    count = calls(lambda: refused.append(outcome(home, GROWN[kind](7_000))))
    assert count < MOST_CALLS
    [error] = refused
    assert error is not None and error.condition in ("XSCL_QUERY_LIMIT", "XSCL_SYNTAX")


WORDS = (
    "S",
    "R",
    "x",
    "y",
    "p",
    "t",
    "a",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "/",
    "//",
    "->",
    "=",
    "!=",
    "<",
    ">",
    "or",
    "and",
)
WORDS += (
    "AND",
    "not(",
    "JOIN {",
    "FOLLOWED BY {",
    "1 h",
    "1e9",
    "9" * 400,
    "-",
    "*",
    ".",
    "@",
    ";",
    "\n",
    "'2026'",
    "count(",
)
WORDS += (
    "SELECT",
    "<e>",
    "</e>",
    "FROM",
    "PUBLISH",
    "STARTING",
    "CREATE QUERY",
    "AS",
    "DROP QUERY",
    "DECLARE NAMESPACE",
    "(:",
)


@st.composite
def soups(draw: st.DrawFn) -> str:
    """Words of queries in any order, and queries of which a piece is repeated."""
    choose = Choices(draw)
    if choose.chance(50):
        return " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=40)))
    tokens = list(draw(query_tokens()))
    at = choose.count(0, len(tokens) - 1)
    piece = tokens[at : at + choose.count(1, 6)]
    return spaced(choose, [*tokens[:at], *piece * choose.one(1, 2, 5, 60), *tokens[at:]])


@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=soups())
def test_soups_are_taken_or_refused_with_a_place(home: Home, text: str) -> None:
    count = calls(lambda: outcome(home, text))
    assert count < MOST_CALLS
    for found in Registry(home.catalog).load(text, atomic=True):
        assert found.ok or found.error is not None and found.line >= 1
    for query in list(home.catalog.ask(read_queries)):
        Registry(home.catalog).drop(query.name)
