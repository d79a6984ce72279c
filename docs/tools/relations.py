"""The columns of relations in docs/reference/sql.md, written from their comments: ``relations.py --write``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from xscl.answers.sql.comments import CHANNEL, OF_TEMPLATE, RELATIONS, column_comment, relation_comment
from xscl.answers.sql.relation_steps import relation_steps
from xscl.answers.sql.steps import Needs

PAGE = Path(__file__).resolve().parents[1] / "reference" / "sql.md"
_TITLE = "## Columns of the relations"


def sections() -> Iterator[str]:
    """Yield a section for each relation, and those of channels and templates."""
    for name, (about, _) in RELATIONS.items():
        columns = relation_steps(name, Needs(), {})[-1].columns
        yield _section([name], about, {each: column_comment(name, each) for each in columns})
    yield _section(["ch_<channel>"], relation_comment("ch_"), CHANNEL)
    yield _section(["rt_<template>", "rout_<template>"], "queries and answers of a template", OF_TEMPLATE)


def _section(names: list[str], about: str, columns: Mapping[str, str]) -> str:
    titles = ", ".join(f"`{name}`" for name in names)
    rows = "\n".join(f"| `{column}` | {comment} |" for column, comment in columns.items())
    return f"### {titles}\n\n{about[0].upper()}{about[1:]}.\n\n| column | |\n|---|---|\n{rows}\n"


def page(text: str) -> str:
    """Return the page with the sections as they are now."""
    own = f"{_TITLE}\n\n" + "\n".join(sections())
    pattern = re.compile(rf"{_TITLE}\n.*?(?=\n## |\Z)", re.DOTALL)
    return pattern.sub(lambda _: own, text) if _TITLE in text else f"{text.rstrip()}\n\n{own}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(*sections(), sep="\n")
