"""Outlines of steps: what belongs to one, and how many are remembered."""

from __future__ import annotations

import pytest

from xscl.language import step_outlines
from xscl.language.step_outlines import StepOutlines
from xscl.language.tokens import tokenize

TEXT = "S[./a = {}][./v->x] NEXT {{y > {} * x, {} s}} T[./v->y]"


def add(outlines: StepOutlines[str], text: str) -> None:
    outlines.add(text, tokenize(text)[:-1], text)


@pytest.mark.parametrize(
    ("other", "is_found"),
    [
        (("1", "3", "5"), True),
        (("2", "3", "5"), False),  # a constant in brackets
        (("1", "3", "6"), False),  # a window
        (("1", "1", "5"), False),  # 1 * x is x
        (("1", "03", "5"), False),  # a number that is not as it is printed
    ],
)
def test_what_belongs_to_an_outline(other: tuple[str, str, str], is_found: bool) -> None:
    outlines = StepOutlines[str]({})
    first = TEXT.format("1", "2", "5")
    add(outlines, first)
    found = outlines.find(TEXT.format(*other))
    assert (found is not None) is is_found
    if found is not None:
        assert found[0] == first
        assert 3 in found[1].numbers and 2 not in found[1].numbers
        assert "3 * x" in found[1].said


def test_so_many_outlines_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_outlines, "_MOST", 3)
    outlines = StepOutlines[str]({})
    for window in range(1, 5):
        add(outlines, TEXT.format("1", "2", window))
    found = [outlines.find(TEXT.format("1", "7", window)) is not None for window in range(1, 5)]
    assert found == [False, False, False, True]
