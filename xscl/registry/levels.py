"""Levels of consistency of queries about absence and with steps, as the catalogue keeps them."""

from __future__ import annotations

from dataclasses import replace

from xscl.language.compile import at_level
from xscl.language.compiled import CompiledQuery
from xscl.language.forms import Prepared
from xscl.language.syntax.format import format_level
from xscl.language.syntax.parser import parse_level

__all__ = ["level_of", "levelled"]


def level_of(compiled: CompiledQuery) -> str | None:
    """Return the level of a query as it is kept; None: it has none."""
    return None if compiled.level is None else format_level(compiled.level)


def levelled(prepared: Prepared, level: str | None) -> Prepared:
    """Return a query at the level that it is kept with; None: it has none."""
    if level is None:
        return prepared
    return replace(prepared, compiled=at_level(prepared.compiled, parse_level(level)))
