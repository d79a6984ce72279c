"""Literals of guards: facts and numbers that stage 1 finds of documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers

from xscl.language.syntax.parser import parse_query


def counts(brackets: str) -> list[int]:
    """Numbers of literals of the alternatives of a guard."""
    guard = compiled(f"S/r{brackets}[./k->a] JOIN {{a = b, 1 h}} T/r/k->b").group.guards[0]
    assert guard is not None
    return sorted(len(each) for each in guard.alternatives)


@pytest.mark.parametrize(
    ("brackets", "expected"),
    [
        ("[./c = 'x'][./d = 'y']", [2]),
        ("[./c = 'x'][not(./d = 'y')]", [1]),
        ("[contains-word(./c, 'x')][not(contains-word(./c, 'y', 'z'))][./d != 'w']", [1]),
        ("[not(./c = 'x')][not(./d = 'y')]", [2]),
        ("[./p > 5][not(./d = 'y')]", [2]),
        ("[./p > 5][./c = 'x'][./d != 'y']", [2]),
        ("[./c = 'x' or ./c = 'y'][not(./d = 'z')]", [1, 1]),
        ("[./c = 'x' or not(./d = 'z')]", [1, 1]),
    ],
)
def test_what_excludes_is_one_fact_with_what_is_asked_for(brackets: str, expected: list[int]) -> None:
    assert counts(brackets) == expected


@pytest.mark.parametrize("kind", [UnitsEngine, LocalEngine])
def test_words_that_queries_exclude_leave_documents_out(kind: type[LocalEngine], tmp_path: Path) -> None:
    texts = [
        f"S/r[contains-word(./t, 'w{n}')][not(contains-word(./t, 'w{n + 1}'))][./k->a] JOIN {{a = b, 1 h}} T/r/k->b"
        for n in range(30)
    ]
    engine = kind(tmp_path, {text: compiled(text) for text in texts})
    docs = [Doc("S", f"s{n}", n, f"<r><k>a</k><t>w{n} w{n + n % 2}</t></r>") for n in range(30)]
    docs.append(Doc("T", "t", 40, "<r><k>a</k></r>"))
    for part in (docs[:17], docs[17:]):
        engine.run(part)
    for text in texts:
        assert engine.answers(text) == answers(parse_query(text), docs)
