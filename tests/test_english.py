"""Docstrings name the actor and the thing; those of functions begin with a verb.

Ruff (D401) knows some words that are no verbs in the imperative, and takes every other word for one.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BAD_START = re.compile(
    r"(What|Which|Of|By|Those|That|Where|As|It|Whose|How|When|With|For|In|From|To)\b",
)
"""Words that begin no docstring: each leaves the thing unnamed that the docstring is about."""
BAD_SUBJECT = re.compile(r"[.;:]\s+(What|Those|That of|It)\s+\w+")
NO_VERB = re.compile(
    r"([`(\d]|[A-Z]{2}|[A-Z]\w*[^\Ws]s('s)?\b|(One|All|Any|Each|Every\w*|None|Nothing|So|There|Who|Why|Until|At|Between|Once)\b)"
)
"""Beginnings of docstrings of functions that are no verbs: signs, abbreviations, plurals, and some other words."""
TRANSLATED = re.compile(r"\b(no more\b(?! than)|of which\b|comes to\b|made anew\b)")
"""Turns of phrase that are English only word by word."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every docstring of a module, its functions, classes and data, with its line."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, statement in zip([None, *body], body, strict=False):
            is_first = before is None and documented
            if (is_first or isinstance(before, ast.Assign | ast.AnnAssign)) and isinstance(statement, ast.Expr):
                value = statement.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield statement.lineno, value.value.strip()


def faults(text: str) -> Iterator[str]:
    if BAD_START.match(text):
        yield "begins without a verb or a noun"
    if text[:1].islower():
        yield "goes on with the sentence of another docstring"
    if BAD_SUBJECT.search(text):
        yield "has a sentence whose subject is a pronoun"
    if TRANSLATED.search(text):
        yield "is English word by word only"


def test_docstrings_name_the_thing() -> None:
    found, count = [], 0
    for folder, _, files in os.walk(ROOT / "xscl", followlinks=True):
        for path in (Path(folder, name) for name in sorted(files) if name.endswith(".py")):
            for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
                count += 1
                found += [f"{path.relative_to(ROOT)}:{line} {fault}: {text[:60]}" for fault in faults(text)]
    assert count > 3_000
    assert found == []


def functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every docstring of a function: that of a property is about a datum, and that of ``__init__`` about arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            text = ast.get_docstring(node)
            if text is not None and not any("property" in ast.unparse(each) for each in node.decorator_list):
                yield node.lineno, text


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    found = []
    for folder, _, files in os.walk(ROOT / "xscl", followlinks=True):
        for path in (Path(folder, name) for name in sorted(files) if name.endswith(".py")):
            for line, text in functions(ast.parse(path.read_text(encoding="utf-8"))):
                found += [f"{path.relative_to(ROOT)}:{line}: {text[:60]}"] if NO_VERB.match(text) else []
    assert found == []


def test_faults_are_found() -> None:
    assert all(
        map(NO_VERB.match, ("``x`` of y", "(a, b) of c", "ISO 8601", "Rows of a file", "One row a feed", "None: no"))
    )
    assert not any(map(NO_VERB.match, ("Process rows", "Return rows", "Pass it on", "Address rows")))
    assert list(faults("What it holds.")) and list(faults("of so many events,")) and not list(faults("Count events."))
    assert list(faults("Return the state. It holds rows.")) and list(faults("Rows that are there no more."))
