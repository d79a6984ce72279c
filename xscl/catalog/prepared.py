"""Statements of SQL that are made once: making a small one takes four times as long as executing it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa

__all__ = ["prepared"]

P = ParamSpec("P")
S = TypeVar("S")


def prepared(make: Callable[P, S]) -> Callable[P, tuple[S, dict[str, Any]]]:
    """Have a function's statement made at its first call, and handed out with the values of each call.

    ``make`` gets a parameter of SQL in place of each argument, so all that it does with one has to be SQL::

        @prepared
        def _rows(place: int) -> sa.Select[Any]:
            return sa.select(FLUSHES).where(FLUSHES.c.place >= place)

        connection.execute(*_rows(5))
    """
    names = tuple(signature(make).parameters)
    maker: Callable[..., S] = make
    made: list[S] = []

    @wraps(make)
    def statement(*args: P.args, **kwargs: P.kwargs) -> tuple[S, dict[str, Any]]:
        if not made:
            made.append(maker(*map(sa.bindparam, names)))
        return made[0], dict(zip(names, args, strict=True))

    return statement
