"""Work gives the same results in this process and in tasks."""

from __future__ import annotations

import pytest

from xscl.spark.places import HERE


def test_here_keeps_the_order() -> None:
    assert HERE.map(len, ["a", "", "ccc"]) == [1, 0, 3]
    assert HERE.map(len, []) == []


def test_a_failure_is_the_works_own() -> None:
    with pytest.raises(ZeroDivisionError):
        HERE.map(lambda number: 1 // number, [1, 0])
