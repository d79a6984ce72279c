"""Functions of one's own (G-C14): as many calls as queries times rows, however many partners a row has.

The shape is that of section 5 of S. Madden et al., *Continuously Adaptive Continuous Queries over Streams*, 2002; its
rows are our own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import xscl

QUERIES, QUOTES = 10, 50


def predicate(least: int, version: str, calls: list[str]) -> xscl.OwnFunction:
    """Return a function that counts its calls."""

    @xscl.function(name=f"above_{least}", version=version)
    def above(text: str) -> str:
        calls.append(text)
        return "yes" if int(text) > least else "no"

    found: xscl.OwnFunction = above
    return found


def by_rows(count: int) -> list[xscl.Event]:
    return [xscl.Event("quotes", f"q{n}", 100, row={"symbol": f"s{n}", "price": n}) for n in range(count)]


def by_documents(count: int) -> list[xscl.Event]:
    text = "<quote><symbol>s{0}</symbol><price>{0}</price></quote>"
    return [xscl.Event("quotes", f"q{n}", 100, xml=text.format(n)) for n in range(count)]


@pytest.mark.parametrize("quotes", [by_rows, by_documents])
@pytest.mark.parametrize("articles", [1, 10])
def test_gc14_calls_do_not_grow_with_partners(
    articles: int, quotes: Callable[[int], list[xscl.Event]], tmp_path: Path
) -> None:
    calls: list[str] = []
    functions = [predicate(least, f"{quotes.__name__}.{articles}", calls) for least in range(QUERIES)]
    with xscl.connect(home=tmp_path / "home", functions=functions, settings=xscl.Settings("driver")) as engine:
        for least in range(QUERIES):
            engine.register(
                f"quotes[above_{least}(./price) = 'yes'][./symbol->s] JOIN {{s = t, 1 h}} articles/article/symbol->t",
                name=f"q{least}",
            )
        engine.ingest(quotes(QUOTES))
        engine.ingest(
            xscl.Event("articles", f"a{n}.{k}", 101, xml=f"<article><symbol>s{n}</symbol></article>")
            for n in range(QUOTES)
            for k in range(articles)
        )
        engine.run_once()
        assert len(calls) == QUERIES * QUOTES == 500
        found = {f"q{least}": len(list(engine.matches(f"q{least}"))) for least in range(QUERIES)}
        assert found == {f"q{least}": (QUOTES - 1 - least) * articles for least in range(QUERIES)}
