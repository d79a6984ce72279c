"""Comparisons of values of several kinds: their parts together say what the kinds demand."""

from __future__ import annotations

import operator
from datetime import datetime
from fractions import Fraction
from itertools import chain, combinations, product

import pytest

from xscl.base.mixed import (
    Kind,
    by_column,
    described,
    label,
    mixed_parts,
    most_parts,
    of_column,
    read_value,
    roles,
    with_kinds,
)

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = (
    "0",
    "-0.0",
    "5",
    "5.0",
    "05",
    "-5",
    "-5.5",
    "-50",
    "0.05",
    "10",
    "9.99",
    "1000",
    "0." + "0" * 30 + "1",
    ".5",
)
TIMES = {
    "2026-01-01": "2026-01-01T00:00:00+00:00",
    "2026-01-01T00:00:00Z": "2026-01-01T00:00:00+00:00",
    "2026-01-01T00:00:00.5Z": "2026-01-01T00:00:00.5+00:00",
    "2025-12-31T23:00:00-02:00": "2026-01-01T01:00:00+00:00",
}
STRINGS = ("", "x", "X", "~", "2:", "9" * 1_001, "\ufffd", "\U0001f600", *NUMBERS, *TIMES)
VALUES: dict[Kind, tuple[str, ...]] = {"n": (*NUMBERS, "x", "", "2026-01-01"), "s": STRINGS, "t": (*TIMES, "5")}


def sets(kinds: str) -> list[frozenset[Kind]]:
    found = chain.from_iterable(combinations(kinds, size) for size in range(1, len(kinds) + 1))
    return [frozenset(each) for each in found]  # type: ignore[arg-type]


def demanded(op: str, left: tuple[Kind, str], right: tuple[Kind, str]) -> bool:
    """The comparison of two values, read by whoever knows the language."""

    def number(text: str) -> Fraction | None:
        try:
            return Fraction(text) if len(text) < 1_000 and "/" not in text else None
        except ValueError:
            return None

    def time(text: str) -> datetime | None:
        return datetime.fromisoformat(TIMES[text]) if text in TIMES else None

    kinds = {left[0], right[0]}
    if "n" in kinds:
        read = [number(text) for _, text in (left, right)]
    elif "t" in kinds:
        read = [time(text) for _, text in (left, right)]  # type: ignore[misc]
    else:
        read = [left[1], right[1]]  # type: ignore[list-item]
    return None not in read and bool(OPERATORS[op](*read))


@pytest.mark.parametrize("op", OPERATORS)
def test_parts_together_say_what_kinds_demand(op: str) -> None:
    kinds = "ns" if op in ("=", "!=") else "nst"
    mixed = 0
    for left, right in product(sets(kinds), repeat=2):
        parts = mixed_parts(op, left, right)
        assert len(parts) <= most_parts(op)
        mixed += bool(parts)
        for one, other in product(sorted(left), sorted(right)) if parts else ():
            for mine, theirs in product(VALUES[one], VALUES[other]):
                read = [
                    (read_value(f"{part.left}|{one}", mine), read_value(f"{part.right}|{other}", theirs))
                    for part in parts
                ]
                holds = all(
                    None not in pair and OPERATORS[part.op](*pair) for part, pair in zip(parts, read, strict=True)
                )
                assert holds == demanded(op, (one, mine), (other, theirs)), (op, left, right, one, mine, other, theirs)
    assert mixed > 2


@pytest.mark.parametrize("op", OPERATORS)
def test_all_roles_of_an_operator_are_known(op: str) -> None:
    left, right = roles(op)
    kinds = sets("ns" if op in ("=", "!=") else "nst")
    parts = [part for one, other in product(kinds, repeat=2) for part in mixed_parts(op, one, other)]
    assert (set(left), set(right)) == ({part.left for part in parts}, {part.right for part in parts})
    assert all(described(part.left, part.right) for part in parts)


def test_functions_of_columns() -> None:
    function = with_kinds("order-own-low lower", {"a": "n", "b": "s", "c": "t"}, "n")
    assert function == "order-own-low lower|n b=s c=t" and label(function) == "order-own-low lower"
    assert by_column(function) and not any(map(by_column, ("order-low|s", "lower", "", None)))
    assert [of_column(function, name)[-1] for name in ("a", "b", "c", "d", None)] == ["n", "s", "t", "n", "n"]
