"""Patterns of names and titles, as options take them: ``*`` is any text, ``?`` any character, of either case."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["like"]


def like(pattern: str) -> Callable[[object], bool]:
    """Make a test whether the whole of a text fits a pattern; None and other values that are no text fit none.

    >>> fits = like("*übung [1]?")
    >>> fits("Dritte ÜBUNG [1]!"), fits("Übung 1!"), fits(None)
    (True, False, False)
    """
    parts = ({"*": ".*", "?": "."}.get(c) or re.escape(c) for c in pattern.casefold())
    compiled = re.compile("".join(parts), re.DOTALL)
    return lambda text: isinstance(text, str) and compiled.fullmatch(text.casefold()) is not None
