"""Tables of HTML for notebooks; every text in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

__all__ = ["facts_html", "table_html"]

_LONGEST = 200
"""Characters of a cell that are shown."""


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Return a table of names and values under a title."""
    return table_html(title, (), facts.items())


def table_html(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table under a title.

    >>> table_html("<T>", ["a"], [["&"], [None]])
    '<table><caption>&lt;T&gt;</caption><tr><th>a</th></tr><tr><td>&amp;</td></tr><tr><td></td></tr></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = [f"<tr>{head}</tr>"] if head else []
    lines += ["<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows]
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
