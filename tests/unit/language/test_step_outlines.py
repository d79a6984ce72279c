"""Outlines of steps: what belongs to one, and how many are remembered."""

from __future__ import annotations

from fractions import Fraction

import pytest

from xscl.language.forms import Preparer
from xscl.language.outlines import texts as text_outlines
from xscl.language.outlines.outlines import Outline, Outlines
from xscl.language.outlines.steps import Shaped, step_outlines
from xscl.language.outlines.texts import TextOutlines
from xscl.language.steps.shapes import shape_of
from xscl.language.steps.steps import steps_of
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.tokens import tokenize

TEXT = "S[./a = {}][./v->x] NEXT {{y > {} * x, {} min}} T[./v->y] FILTER {{DUR <= {} s}}"


def add(outlines: TextOutlines[Shaped], text: str) -> None:
    outlines.add(text, tokenize(text)[:-1])


@pytest.mark.parametrize(
    ("other", "is_found"),
    [
        (("1", "3", "5", "60"), True),
        (("2", "3", "5", "60"), True),  # a constant in brackets
        (("1", "3", "6", "60"), True),  # a window
        (("1", "3", "5", "61"), False),  # the length of a match
        (("1", "1", "5", "60"), False),  # 1 * x is x
        (("1", "03", "5", "60"), False),  # a number that is not as it is printed
        (("1", "3", "0", "60"), False),  # no event times satisfy this window
        (("1", "3", "5.0", "60"), True),
        (("1", "3", "0.25", "60"), True),
        (("1", "3", "0.00", "60"), False),
        (("1", "3", "0.0000001", "60"), False),
    ],
)
def test_what_belongs_to_an_outline_of_shapes(other: tuple[str, str, str, str], is_found: bool) -> None:
    outlines = step_outlines({})
    add(outlines, TEXT.format("1", "2", "5", "60"))
    found = outlines.find(TEXT.format(*other))
    assert (found is not None) is is_found
    if found is not None:
        assert 3 in found[1] and 2 not in found[1]
        assert 60_000_000 * Fraction(other[2]) in found[1]


@pytest.mark.parametrize(("op", "is_found"), [(">", True), (">=", True), ("=", False), ("<", False)])
def test_lengths_that_matches_reach_are_numbers_of_shapes(op: str, is_found: bool) -> None:
    outlines = step_outlines({})
    text = f"S[./v->x] NEXT {{y > 2 * x}} T[./v->y] FILTER {{DUR {op} %s min}}"
    add(outlines, text % 2)
    found = outlines.find(text % 3)
    assert (found is not None) is is_found
    assert found is None or Fraction(180_000_000) in found[1]


@pytest.mark.parametrize(
    ("step", "number", "is_found"),
    [
        ("FOLD {{WHILE y > x, AT MOST {}}} T[./v->y]", 3, True),
        ("NEXT {{y > x, MAXWINDOW {} us}} T[./v->y]", 3, True),
        ("FOLD {{WHILE y > x, last(n, 5) + {} * y AS n}} T[./v->y]", 3, True),
        ("NEXT {{y > x, 5 s, MAXWINDOW {} us}} T[./v->y] FILTER {{DUR <= 9 s}}", 3, True),
        ("FOLD {{WHILE y > x, LONGEST, AT MOST {}}} T[./v->y]", 3, True),
        ("FOLD {{MAXWINDOW {} us WHILE y > x, LONGEST}} T[./v->y]", 3, True),
        ("NEXT {{y > x, MAXWINDOW {} us}} T[./v->y] FILTER {{DUR <= 800000 us}}", 600_000, True),
        ("NEXT {{y > x, MAXWINDOW {} us}} T[./v->y] FILTER {{DUR <= 800000 us}}", 900_000, False),
        ("NEXT {{y > x}} T[./v->y] WITHOUT {{{} us}} U[./v->z]", 3, True),
        ("NEXT {{y > x}} T[./v->y] NOT FOLLOWED BY {{z > x, {} us}} U[./v->z]", 3, True),
        ("FOLD {{MAXWINDOW {} us WHILE y > x}} T[./v->y]", 3, True),
        ("FOLD {{{} us WHILE y > x}} T[./v->y]", 3, True),
        ("NEXT {{y > x}} (T[./v->y] FOLD {{WHILE y > z, AT MOST {}}} T[./v->z])", 3, True),
    ],
)
def test_iterations_and_spans_are_numbers_of_shapes(step: str, number: int, is_found: bool) -> None:
    outlines, text = step_outlines({}), f"S[./v->x] {step}"
    add(outlines, text.format(2))
    found, said = outlines.find(text.format(number)), text.format(number)
    assert (found is not None) is is_found
    own = shape_of(steps_of(parse_query(said), said))
    assert found in (None, own) and (found is None or Fraction(number) in own[1])


def test_all_numbers_are_taken_out_of_shapes() -> None:
    text = "S[./v->x] FOLD {{y = z, {} s WHILE y > {} * x, LONGEST}} T[./v->y][./k->z] FILTER {{count() > {}}} "
    text += "NEXT {{w > {} * y, {} s}} (U[./v->w] NEXT {{{} s..9 s}} U->u) WITHOUT {{{} s}} U"
    text = text.replace("x, LONGEST", "x, last(n, {}) + {} * y AS n, LONGEST")
    shapes = {}
    for given in ("234562345", *("234562345"[:at] + "7" + "234562345"[at + 1 :] for at in range(9))):
        said = text.format(*given)
        shapes[given] = shape_of(steps_of(parse_query(said), said))[0]
    assert len(set(shapes.values())) == 1


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (("2", "3", "6", "61"), ("./a = 2", "3 * x, 6 min", "DUR <= 61 s")),
        (("2", "3", "120", "60"), ("./a = 2", "3 * x, 2 h", "DUR <= 1 min")),
        (("1", "1", "5", "60"), None),
        (("1", "3", "05", "60"), None),
        (("1", "3", "1234567", "60"), None),
    ],
)
def test_what_is_told_of_a_group_is_filled_in(other: tuple[str, ...], told: tuple[str, ...] | None) -> None:
    first, text = TEXT.format("1", "2", "5", "90"), TEXT.format(*other)
    prepared = Preparer().prepare_text(first)
    outlines = Outlines()
    outlines.add(first, tokenize(first)[:-1], Outline(prepared.compiled, prepared.names))
    found = outlines.find(text)
    assert (found is not None) is (told is not None)
    if found is not None and told is not None:
        outline, constants, numbers = found
        filled = outline.filled(text, constants, numbers, {}, {})
        assert filled is not None and all(each in filled.said for each in told)
        assert len(filled.parts) == 2 and "./a = 2" in filled.parts[0].text


def test_a_sign_belongs_to_the_outline() -> None:
    preparer = Preparer()
    texts = [f"S[./v->x] NEXT {{y > -{number}, {number} s}} T[./v->y]" for number in (2, 3, 4)]
    said = [preparer.prepare_text(text).compiled.group.absence[-1] for text in texts]
    assert ["y > -3" in each for each in said] == [False, True, False]
    assert "4 s" in said[2]


def test_parts_without_constants_that_differ_are_compiled_once() -> None:
    preparer = Preparer()
    text = "S[./a = {}][./v->x] NEXT {{y > 2 * x, 5 min}} T[./v->y]"
    first, second = (preparer.prepare_text(text.format(number)).compiled for number in (1, 2))
    assert second.stepped[0] != first.stepped[0] and second.stepped[1] is first.stepped[1]
    assert second.group == Preparer().prepare_text(text.format(2)).compiled.group


def test_so_many_outlines_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_outlines, "_MOST", 3)
    outlines = step_outlines({})
    for length in range(2, 6):
        add(outlines, TEXT.format("1", "2", "5", length))
    found = [outlines.find(TEXT.format("1", "7", "5", length)) is not None for length in range(2, 6)]
    assert found == [False, False, True, True]


def test_skeletons_without_marks_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_outlines, "_MOST", 3)
    outlines = step_outlines({})
    for number in range(20):
        add(outlines, f"S[./v->x{number}] NEXT {{TRUE, 1.5 h}} T[./v->y]")
    assert 0 < len(outlines._skeletons) <= 3


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("y > 15 / 7 * x", "y > 28 / 7 * x"),  # printed as a quotient, or as a whole number
        ("y > 10.0 * 3 * x", "y > 10.0 * 2.5 * x"),  # a mark with a digit behind it
        ("y > 3 * x", "y > 0.1234567890123 * x"),  # printed as a division
    ],
)
def test_a_group_is_told_by_numbers_as_they_are_printed(first: str, other: str) -> None:
    text = "S[./v->x] NEXT {{{}, 5 min}} T[./v->y]"
    preparer = Preparer()
    preparer.prepare_text(text.format(first))
    again = Preparer().prepare_text(text.format(other))
    assert preparer.prepare_text(text.format(other)).compiled.group == again.compiled.group
