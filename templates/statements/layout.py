"""Layout of statements: a line for every relation and every condition, in nested queries too.

Only white space outside quotes is changed.  sqlglot's own layout would write other operators and functions than the
statement has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["laid_out"]

_WIDE = 120
"""Characters of the longest condition that stays on one line."""
_NARROW = 60
"""Characters of the longest group in brackets that stays on one line."""
_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`"
_SPACES = re.compile(rf"{_QUOTED}|(\s+)")
_MARKS = re.compile(rf"{_QUOTED}|([()])| ?(,|\b(?:LEFT OUTER JOIN|JOIN|WHERE|FROM|ON|AND|OR)) ")


def laid_out(select: str) -> str:
    """Lay out a SELECT, without brackets around it.

    >>> print(laid_out("SELECT a.x FROM a JOIN b ON a.x = b.x WHERE a.y > 1 AND b.z = 'p AND q'"))
    SELECT a.x
    FROM a
      JOIN b ON a.x = b.x
    WHERE a.y > 1
      AND b.z = 'p AND q'
    """
    return "\n".join(_select(_SPACES.sub(lambda found: " " if found[1] else found[0], select)))


def _select(text: str) -> list[str]:
    head, *rest = _cut(text, "FROM")
    if not rest:
        return [text]
    relations, *where = _cut(" FROM ".join(rest), "WHERE")
    first, *joined = _cut(relations, "JOIN", "LEFT OUTER JOIN")
    lines = [*_head(head), f"FROM {first}"]
    for kind, relation in zip(_words(relations), joined, strict=True):
        name, *conditions = _cut(relation, "ON")
        lines += _indented(_led(f"{kind} {name}{' ON' if conditions else ''}", " ON ".join(conditions)))
    if where:
        one, *others = _cut(" WHERE ".join(where), "AND")
        lines += _led("WHERE", one)
        lines += _indented(line for other in others for line in _led("AND", other))
    return lines


def _head(text: str) -> list[str]:
    """Lay out what comes before FROM: as many columns on a line as there is room for."""
    if len(text) <= _WIDE:
        return [text]
    first, *columns = _cut(text, ",")
    lines = [first]
    for column in columns:
        lines[-1] += ","
        if len(lines[-1]) + len(column) < _WIDE - 1:
            lines[-1] += f" {column}"
        else:
            lines.append(f"  {column}")
    return lines


def _words(relations: str) -> list[str]:
    """Return the words that join the relations, from left to right."""
    found = _outer(relations)
    return ["LEFT JOIN" if word.startswith("LEFT") else "JOIN" for _, _, word in found if word.endswith("JOIN")]


def _condition(text: str) -> list[str]:
    if len(text) <= _WIDE:
        return [text]
    for word in ("OR", "AND"):
        first, *others = _cut(text, word)
        if others:
            return [*_condition(first), *(line for other in others for line in _led(word, other))]
    *values, last = _cut(text, ",")
    if values:
        return [*(f"{value}," for value in values), last]
    begin, end = _greatest_group(text)
    if end - begin <= _NARROW:
        return [text]
    inner = text[begin + 1 : end]
    body = _select(inner) if inner.startswith("SELECT ") else _condition(inner)
    first, *others = _condition(text[end + 1 :])
    return [text[: begin + 1], *_indented(body), f"){first}", *others]


def _led(word: str, condition: str) -> list[str]:
    """Return a condition with a word before it."""
    first, *others = _condition(condition)
    return [f"{word} {first}".rstrip(), *_indented(others)]


def _indented(lines: Iterator[str] | Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _cut(text: str, *words: str) -> list[str]:
    """Return the parts of a text between some words that stand in no brackets and no quotes."""
    parts, begin = [], 0
    for start, end, word in _outer(text):
        if word in words:
            parts.append(text[begin:start])
            begin = end
    return [*parts, text[begin:]]


def _outer(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the words in no brackets, each with where it begins and ends."""
    depth = at = 0
    while (found := _MARKS.search(text, at)) is not None:
        # Two words may share the space between them.
        at = found.end() if found[2] is None else found.end() - 1
        depth += {"(": 1, ")": -1}.get(found[1], 0)
        if found[2] is not None and depth == 0:
            yield found.start(), found.end(), found[2]


def _greatest_group(text: str) -> tuple[int, int]:
    """Return where the longest group in brackets begins and ends; (0, 0) without one."""
    depth = begin = 0
    greatest = 0, 0
    for found in _MARKS.finditer(text):
        if found[1] == "(":
            begin = begin if depth else found.start()
            depth += 1
        elif found[1] == ")":
            depth -= 1
            if depth == 0:
                greatest = max(greatest, (begin, found.start()), key=lambda group: group[1] - group[0])
    return greatest
