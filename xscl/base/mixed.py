"""Comparisons of values of several kinds, as conjunctions of comparisons of texts.

A wildcard may reach columns of numbers, of texts and of times, and each pair of values compares as its kinds demand.
An edge of a join compares texts in one way.  So a comparison becomes *parts*, and all of them must hold.  A part
reads each value by its *role* and its kind.  Each part decides the pairs of some kinds.  For the others, the roles give
texts that satisfy the part whatever the values are: one below or above all others, or one that differs from them.

Stage 2 knows a function by its role and the functions applied before it (``equal-low lower``).  Stage 1 is also told
the kinds: ``equal-low lower|s``, or ``equal-low|s price=n qty=n`` where they differ by the name of a row's column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Literal, NamedTuple

from xscl.base.errors import FunctionFailedError
from xscl.base.own_functions import FAILED
from xscl.base.values import FUNCTIONS, apply_functions, number_text, time_key

__all__ = [
    "Kind",
    "Part",
    "by_column",
    "described",
    "is_role",
    "label",
    "mixed_parts",
    "most_parts",
    "of_column",
    "read_value",
    "read_values",
    "roles",
    "with_kinds",
]

Kind = Literal["n", "s", "t"]
"""The way in which a value is compared: as a number, as a string, as a time.  In comparisons for order, everything but
strings and times is a number, so that a value without one satisfies nothing."""

_COMPLEMENT = str.maketrans("0123456789", "9876543210")


class Part(NamedTuple):
    """A comparison of two values, read by their roles."""

    op: str
    left: str
    right: str


def mixed_parts(op: str, left: Set[Kind], right: Set[Kind]) -> list[Part]:
    """Return the parts of a comparison of values of these kinds; [] where all pairs of kinds are compared alike."""
    pairs = {_comparison_kind(op, one, other) for one in left for other in right}
    if len(pairs) == 1:
        return []
    if op == "=":
        found = [("=", "same", "same"), ("<=", "low", "high"), (">=", "high", "low")]
    elif op == "!=":
        found = [("!=", "low", "high")] if "s" in pairs else []
        if "n" in left:
            found += [("!=", "own-low", "any-low"), ("<=", "own-low", "has")]
        if "n" in right:
            found += [("!=", "any-low", "own-low"), (">=", "has", "own-low")]
    else:
        found = [(op, *ends) for ends in _in_order(pairs, left, right)]
        if op in (">", ">="):
            found = [(op, _turned(one), _turned(other)) for _, one, other in found]
    return [Part(each, _named(op, one), _named(op, other)) for each, one, other in found]


def _in_order(pairs: Set[Kind], left: Set[Kind], right: Set[Kind]) -> list[tuple[str, str]]:
    found = [("low", "high")] if "s" in pairs else []
    if "n" in left:
        found.append(("own-low", "any-low"))
    if "n" in right:
        found.append(("any-high", "own-high"))
    if "t" in left and "t" in pairs:
        found.append(("own-time-low", "any-time-low"))
    if "t" in right and "s" in left:
        found.append(("any-time-high", "own-time-high"))
    return found


def _comparison_kind(op: str, left: Kind, right: Kind) -> Kind:
    """Tell in which way values of two kinds are compared."""
    if "n" in (left, right):
        return "n"
    return "t" if "t" in (left, right) and op not in ("=", "!=") else "s"


def most_parts(op: str) -> int:
    """Return the greatest number of parts that a comparison has."""
    return 3 if op == "=" else 5


def roles(op: str) -> tuple[list[str], list[str]]:
    """Return the roles that a comparison may read the left and the right value by, whatever their kinds are."""
    every: tuple[frozenset[Kind], ...] = (frozenset("ns"), frozenset("nst"))  # type: ignore[arg-type]
    kinds = every[op not in ("=", "!=")]
    parts = mixed_parts(op, kinds, kinds)
    return sorted({part.left for part in parts}), sorted({part.right for part in parts})


def _named(op: str, role: str) -> str:
    # A value may be of another kind in comparisons for order.
    return f"equal-{role}" if op in ("=", "!=") else f"order-{role}"


def _turned(role: str) -> str:
    return role[:-3] + "high" if role.endswith("low") else role[:-4] + "low"


# -- roles -----------------------------------------------------------------------------------------------------


def _same(kind: Kind, text: str) -> str | None:
    """Return one text for equal numbers and for equal texts, but also for two texts that are one number."""
    number = number_text(text)
    if number is None:
        return None if kind == "n" else f"t{text}"
    return f"n{number}"


def _has(_: Kind, text: str) -> str:
    return "1" if number_text(text) is None else "3"


def _only(kind: Kind, text: str, *, beyond: str) -> str:
    """Return a text that compares as strings do; ``beyond``, for other kinds, satisfies every comparison."""
    return f"1{text}" if kind == "s" else beyond


def _own(kind: Kind, text: str, *, beyond: str) -> str | None:
    """Return a text that compares as numbers do, for values whose kind demands that comparison."""
    if kind != "n":
        return beyond
    key = _number_key(text)
    return None if key is None else f"2{key}"


def _any(kind: Kind, text: str, *, none: str, key: Callable[[str], str | None]) -> str:
    """Return a text for a value of any kind, to be compared with those of one; only what is beyond all satisfies
    ``none``.
    """
    found = key(text)
    return none if found is None else f"2{found}"


def _own_time(kind: Kind, text: str, *, none: str, beyond: str) -> str:
    return _any(kind, text, none=none, key=time_key) if kind == "t" else beyond


def _any_time(kind: Kind, text: str, *, none: str, beyond: str) -> str:
    return beyond if kind == "n" else _any(kind, text, none=none, key=time_key)


def _number_key(text: str) -> str | None:
    """Return a text by which numbers are ordered; None for what is no number.

    >>> keys = [_number_key(text) or "" for text in ("-10", "-2.5", "-2", "-0.1", "0", "0.05", "0.5", "2", "10")]
    >>> keys == sorted(keys)
    True
    """
    number = number_text(text)
    if number is None:
        return None
    whole, _, fraction = number.lstrip("-").partition(".")
    key = f"{len(whole):04d}{whole}{fraction}"
    # Of negative ones the longer key is the smaller, so that something above all digits ends each.
    return f"0{key.translate(_COMPLEMENT)}:" if number.startswith("-") else f"1{key}"


_ROLES: Mapping[str, Callable[[Kind, str], str | None]] = {
    "same": _same,
    "has": _has,
    "low": lambda kind, text: _only(kind, text, beyond="0"),
    "high": lambda kind, text: _only(kind, text, beyond="2"),
    "own-low": lambda kind, text: _own(kind, text, beyond="0"),
    "own-high": lambda kind, text: _own(kind, text, beyond="4"),
    "any-low": lambda kind, text: _any(kind, text, none="1", key=_number_key),
    "any-high": lambda kind, text: _any(kind, text, none="3", key=_number_key),
    "own-time-low": lambda kind, text: _own_time(kind, text, none="3", beyond="0"),
    "own-time-high": lambda kind, text: _own_time(kind, text, none="1", beyond="5"),
    "any-time-low": lambda kind, text: _any_time(kind, text, none="1", beyond="5"),
    "any-time-high": lambda kind, text: _any_time(kind, text, none="3", beyond="0"),
}

# -- functions -------------------------------------------------------------------------------------------------


def is_role(function: str) -> bool:
    """Tell whether values are read by their kinds."""
    return function.startswith(("equal-", "order-"))


def label(function: str) -> str:
    """Return the name by which stage 2 knows a function.

    >>> label("equal-low lower|s price=n")
    'equal-low lower'
    """
    return function.partition("|")[0]


def with_kinds(function: str, columns: Mapping[str, Kind], otherwise: Kind) -> str:
    """Return a function of a role with the kinds of the values that it is applied to.

    >>> with_kinds("equal-low", {"price": "n", "sym": "s"}, "s")
    'equal-low|s price=n'
    """
    others = [f" {column}={kind}" for column, kind in sorted(columns.items()) if kind != otherwise]
    return f"{function}|{otherwise}{''.join(others)}"


def by_column(function: str | None) -> bool:
    """Tell whether a function reads columns of several kinds."""
    return function is not None and "=" in function


def of_column(function: str, column: str | None) -> str:
    """Return a function for the values of one column; None: of what is no column.

    >>> of_column("equal-low|s price=n", "price"), of_column("equal-low|s price=n", "sym"), of_column("lower", "sym")
    ('equal-low|n', 'equal-low|s', 'lower')
    """
    if not by_column(function):
        return function
    name, _, kinds = function.partition("|")
    otherwise, *columns = kinds.split(" ")
    known = dict(each.split("=") for each in columns)
    return f"{name}|{known.get(column or '', otherwise)}"


def read_value(function: str, text: str) -> str | None:
    """Return what a function gives for a text; None: it has no value there; ``FAILED`` and why: it fails.

    >>> read_value("equal-same|n", "5.0"), read_value("equal-low lower|s", "X"), read_value("lower", "X")
    ('n5', '1x', 'x')
    """
    name, _, kinds = function.partition("|")
    try:
        if not kinds:
            return apply_functions(name, text)
        role, _, before = name.partition(" ")
        value = apply_functions(before, text)
    except FunctionFailedError as error:
        return FAILED + error.message
    kind: Kind = kinds[0]  # type: ignore[assignment]
    return None if value is None else _ROLES[role[6:]](kind, value)


def read_values(function: str, texts: Sequence[str]) -> list[str | None]:
    """Return what a function gives for each of some texts.

    >>> read_values("lower", ["X", "y"])
    ['x', 'y']
    """
    if (single := FUNCTIONS.get(function)) is not None:
        return list(map(single, texts))
    return [read_value(function, text) for text in texts]


def described(left: str, right: str) -> str:
    """Tell what a part of a comparison compares."""
    one, other = (function.partition(" ")[0][6:] for function in (left, right))
    if one == "same":
        return "numbers, or strings where no side is a number"
    if "low" in (one, other) or "high" in (one, other):
        return "strings where both sides are"
    side = "left" if one.startswith("own") else "right"
    if "has" in (one, other):
        return f"whether the other side is a number where the {side} one is"
    return f"{'times' if 'time' in one else 'numbers'} where the {side} side is one"
