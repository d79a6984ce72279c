"""Records that differ from others in a few of many fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

__all__ = ["replaced"]

T = TypeVar("T")


def replaced(record: T, **changes: object) -> T:
    """Return a record with other values in some fields, as ``dataclasses.replace`` does in twice the time.

    That one asks for the fields one by one, which tells where a record of twenty is made for each query.

    >>> from xscl.base.errors import Span
    >>> replaced(Span(1, 2), end=3)
    Span(start=1, end=3)
    """
    made: Any = type(record)
    places, read = _fields(made)
    values = list(read(record))
    for name, value in changes.items():
        values[places[name]] = value
    found: T = made(*values)
    return found


@lru_cache(maxsize=64)
def _fields(made: Any) -> tuple[Mapping[str, int], Callable[[Any], tuple[object, ...]]]:
    """Return the places of the fields of a class, and what reads them all."""
    names = [each.name for each in fields(made)]
    return {name: place for place, name in enumerate(names)}, attrgetter(*names)
