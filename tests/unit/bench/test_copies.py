"""Copies of a pattern: the plan and the answers of one."""

from __future__ import annotations

import pytest

from xscl.bench.copies import PATTERNS, Copies, measure_copies


@pytest.mark.parametrize("kind", PATTERNS)
def test_copies_have_the_plan_and_the_answers_of_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.bench.copies._ROUNDS", 1)
    figures, agrees = measure_copies(Copies(kind, 20, 800, 1))
    assert agrees
    assert figures["mops"] in (2, 3)
