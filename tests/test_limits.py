"""docs/reference/limits.md lists every limit that can drop an answer, with the figure that the code has."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path

from xscl.base.document_limits import DEFAULT_LIMITS

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+) \| ([\d,]+) \| `([\w.]+)` \| (.+) \|$", TEXT, re.MULTILINE)
SIZES = {
    "xscl.bench.grammar.MAX_DEPTH": "generated queries of a benchmark are not deeper",
    "xscl.ingest.markup.MAX_ADDRESS": "a longer address is left as it is, or out of an item",
    "xscl.ingest.identity.MAX_ITEMS": "what memory of a feed forgets is looked up in the catalogue",
    "xscl.xpath.automaton.automaton.MAX_HELD": "the path automaton starts anew",
    "xscl.xpath.automaton.automaton.MAX_STRANGERS": "names are looked up again",
    "xscl.xpath.columns.conditions.MAX_ALTERNATIVES": "such definitions are walked",
}
"""Constants of that kind of name which drop nothing, and what happens instead."""


def value(path: str) -> int:
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name)
        assert isinstance(found, int)
        return found
    raise AssertionError(path)


def test_figures_are_those_of_the_code() -> None:
    assert len(ROWS) > 25
    assert [(path, int(figure.replace(",", ""))) for _, figure, path, _ in ROWS] == [
        (path, value(path)) for _, _, path, _ in ROWS
    ]


def test_every_limit_is_listed() -> None:
    found = set()
    for folder in ("xscl", "xpath", "templates", "ingest"):
        package = "xscl" if folder == "xscl" else f"xscl.{folder}"
        for path in (ROOT / folder).rglob("*.py"):
            module = ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts])
            names = re.findall(r"^(MAX_[A-Z_]+)(?:: \w+)? = ", path.read_text(encoding="utf-8"), re.MULTILINE)
            found |= {f"{module}.{name}" for name in names}
    listed = {path for _, _, path, _ in ROWS}
    of_settings = {
        "max_bytes": "xscl.base.settings.DEFAULT_MAX_BYTES",
        "max_nodes": "xscl.base.settings.DEFAULT_MAX_NODES",
    }
    for field in dataclasses.fields(DEFAULT_LIMITS):
        assert of_settings.get(field.name, f"xscl.base.document_limits.DEFAULT_LIMITS.{field.name}") in listed
    assert found - listed - SIZES.keys() == set()
    assert SIZES.keys() - found == set()
