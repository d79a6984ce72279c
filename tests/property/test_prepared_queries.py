"""Texts prepared one after another against each compiled by itself."""

from __future__ import annotations

import re
from random import Random

import pytest
from both_sides import channel_facts
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from preparing import Both, near
from step_queries import other_numbers, step_query
from strategies import (
    NAMESPACES,
    NUMERIC,
    TEXTS,
    Choices,
    Dice,
    many_block_query,
    one_block_queries,
    query_texts,
    two_block_queries,
)
from window_queries import window_query

from xscl.language.aggregates import definition_of, selects_all
from xscl.language.compile import compile_query
from xscl.language.forms import Preparer
from xscl.language.outlines.steps import known_shape
from xscl.language.outlines.windows import known_definition
from xscl.language.steps.shapes import shape_of
from xscl.language.steps.steps import steps_of
from xscl.language.syntax.parser import parse_query
from xscl.language.unsatisfiable import impossible

FACTS = channel_facts(NUMERIC, TEXTS)


@settings(max_examples=examples(40), deadline=None)
@given(st.data(), st.lists(two_block_queries() | one_block_queries(), min_size=1, max_size=3))
def test_prepared_is_compiled(data: st.DataObject, texts: list[str]) -> None:
    both, choose = Both(), Choices(data.draw)
    for text in texts:
        both.check(text)
    for _ in range(choose.count(1, 6)):
        both.check(near(choose, choose.one(*texts)))


@pytest.mark.parametrize("channels", [("S", "T"), ("R", "Q", "S")])
@pytest.mark.parametrize("most", [2, 4])
def test_many_texts_near_to_each_other(most: int, channels: tuple[str, ...]) -> None:
    known = refused = count = 0
    for seed in range(examples(40)):
        choose, both = Dice(seed), Both(FACTS)
        for _ in range(2):
            text = many_block_query(choose, channels, least=2, most=most, select=choose.chance(10))
            both.check(text)
            for _ in range(10):
                both.check(near(choose, text))
                count += 1
        known += both.known
        refused += both.refused
    assert known > count / 10, "forms must be met again"
    assert refused > count / 20, "so must texts that are refused"


@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_texts_that_differ_in_constants(data: st.DataObject) -> None:
    choose = Choices(data.draw)
    channel, kept = choose.one("S", "R"), choose.one("", "[./t > 1]", "[.//b = 'x']")
    windows = choose.one("1 h", "1 h, ONCE", "")
    both = Both(FACTS)
    for _ in range(4):
        guards = choose.one(
            f"[./n > {choose.count(0, 9)}]", f"[./s = '{choose.count(0, 2)}' or ./n < 3]", "[not(./n = 1)]"
        )
        word = choose.one("'x'", "'y', 'x'", "'2026-01-01'")
        asked = f"[contains(./s, {word})]" if "," not in word else f"[contains-word(./s, {word})]"
        both.check(
            f"{channel}->a{guards}{kept}[./s->x] JOIN {{x = y{', ' * bool(windows)}{windows}}} R->b{asked}[./s->y]"
        )


def test_constants_that_are_filled_in() -> None:
    both = Both(FACTS)
    texts = [
        "S/a[./c > {0}][./c < {1}][./b->x] JOIN {{x = y, 1 h}} R->b[contains-word(./s, {2}, {3})][./s->y]",
        "S/a[./c = {2} or not(./d != {3})][./b->x] JOIN {{x = y, 1 h}} R->b[string-length(./s) >= {0}][./s->y]",
        "S/a[starts-with(./c, {3})][./d[./e = {0}] = {2}][./b->x] JOIN {{x = y AND x != {2}, 1 h}} R->b[./s->y]",
        "S/a[./c >= {2}][./b->x] JOIN {{x = y, 1 h}} R->b[./n < {1}][./s->y]",
        "R->a[./n = {0}][./s->x] JOIN {{x = y, 1 h}} R->b[./n = {1}][./s->y]",
    ]
    numbers = ["5", "3", "1e3", "007", "0.50", "7000000001", "99999999999999999999.1"]
    words = ["'x'", "'Y'", "'two words'", "''", "'qz0zq'", "'it''s'", "'5'", "'2026-01-01'", "'é'"]
    for seed in range(30):
        choose = Dice(seed)
        for text in texts:
            both.check(text.format(*(choose.one(*of) for of in (numbers, numbers, words, words))))
    assert both.preparer.filled > 40 and both.refused > 10


def test_constants_of_joins_that_are_filled_in() -> None:
    both = Both(FACTS)
    texts = [
        "S/a[./b->x][./c->p] FOLLOWED BY {{x = y AND q >= {0} * p, {4} min}} R->b[./s->y][./n->q]",
        "S/a[./c > {2}][./b->x][./c->p] JOIN {{x = y AND {0} * q < p - {1} AND q > 2, {4} h}} R[./s->y][./n->q]",
        "S/a[./b->x][./c->p] JOIN {{x = y AND q - {1} <= -{0} * p AND p < {1}, {4} s, ONCE}} S/a[./b->y][./c->q]",
        "S[./c->p] FOLLOWED BY {{p >= {0} * q AND p <= {1} * q + {2}, {4} min}} S[./c->q]",
        "S[./c->p] JOIN {{p + {0} >= q - {1} AND p >= q + {2}, {4} min}} T[./c->q]",
        "S[./b->x][./c->p] JOIN {{x = y AND p != {0} AND x != {3}, {4} d, MAXWINDOW {4} h}} R[./s->y]",
        "R->a[./s->x][./n->p] JOIN {{x = y AND s = {3} AND 2 * p > {1}, b - a IN [0 s, {4} min]}} R->b[./s->y][./s->s]",
        "S[./b->x][./c->p] JOIN {{x = y AND z = w AND p > {0} * q, {4} s}} S[./b->y][./b->w][./c->q][./b->z]",
        "S[./b->x][./c->p] JOIN {{x = y AND q > {0} * p, {4} s}} S[./b->y][./c->q] JOIN {{y = z, {4} s}} T[./b->z]",
        "S[./b->x][./c->p] FOLLOWED BY {{x = y AND q > {0} * p, {4} s}} S[./b->y][./c->q] "
        "FOLLOWED BY {{y = z AND {1} * r <= q - {2} AND p < r + {0}, 1 h}} S[./b->z][./c->r]",
        "S->a[./b->x][./c->p] JOIN {{x = y AND q = {0} * p, 2 h, ONCE}} R->b[./s->y][./n->q] "
        "JOIN {{s = {3} AND q = {1} * r AND p != r, MAXWINDOW {4} h}} R->c[./s->s][./n->r]",
        "S[./b->x][./c->p] JOIN {{x = y AND p >= {0} * q AND q > {1}, 1 h}} "
        "(S[./b->y][./c->q] JOIN {{y = z AND r - {2} > q, 2 h}} T[./b->z][./c->r])",
    ]
    numbers = ["5", "3", "2.5", "1.020", "4", "7", "0.98", "0.25", "12"]
    numbers += ["007", "0", "1", "1.0", "1e3", "8000000001", "99999999999999999999.1"]
    words, durations = (
        ["'x'", "'two words'", "'it''s'", "'5'", "''"],
        ["1", "2", "60", "90", "24", "700001", "0", "1.5"],
    )
    for seed in range(60):
        choose = Dice(seed)
        for text in texts:
            both.check(text.format(*(choose.one(*of) for of in (numbers, numbers, numbers, words, durations))))
    assert both.preparer.filled > 60 and both.refused > 10


@pytest.mark.parametrize(
    ("braces", "filled"),
    [
        ("x = y AND q >= 1.0{} * p, 1 h", 4),
        ("x = y AND q > 1.0{} * p + {}, {} min", 4),
        ("x = y AND q > p - {} AND q < p + 1{}, {} min", 4),
        ("x = y AND q > {}, {} min", 4),
        ("x = y, {} min", 4),
        ("{} * q > 3.{} * p, 1 h", 0),  # solved for one side, the factor is a quotient of both
        ("{} * p - 1 > q, 1 h", 0),  # solved for p, an addend without a mark is divided as well
        ("1 - {} * p <= q, 1 h", 0),
        ("q > p / {} - 1, 1 h", 0),
        ("{} * p - {} > q, 1 h", 4),
        ("{} * p > q, 1 h", 4),
    ],
)
def test_joins_whose_constants_are_filled_in(braces: str, filled: int) -> None:
    both = Both(FACTS)
    for number in range(3, 8):
        both.check(f"S/a[./b->x][./c->p] FOLLOWED BY {{{braces.format(*[number] * 3)}}} S/a[./b->y][./c->q]")
    assert both.preparer.filled == filled and not both.refused


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("S/a->a[./b->x] JOIN {{x = y, {} s, b - a IN [-5 s, UNBOUNDED)}} T->b[./b->y]", ("10", "20", "3")),
        ("S/a->a[./b->x] FOLLOWED BY {{x = y, {} s, b - a IN [5 s, UNBOUNDED)}} T->b[./b->y]", ("10", "20", "3")),
        ("S/a->a[./b->x] JOIN {{x = y, {} us, 0.7 s..3 s}} T->b[./b->y]", ("750000", "760000", "6")),
        ("S/a[./b->x] JOIN {{x = y, {} min, MAXWINDOW 750000 min}} T[./b->y]", ("10", "20", "800000")),
        ("S/a[./b->x] JOIN {{{} min, MAXWINDOW 5 min}} T[./b->y]", ("10", "20", "3")),
        ("S/a[./b->x] JOIN {{{} us, 0.75 s}} T[./b->y][./c > 1]", ("5", "6", "999999")),
        (
            "S->p[./b->u][contains(./c, 'a')] FOLLOWED BY {{u = w AND u != {}, 3 s}} S[./c->w]",
            ("8000000001", "7", "8000000001.0", "9"),
        ),
        (
            "S->p[./b->u][contains(./c, '{}')] FOLLOWED BY {{u + 5 >= -123 * w AND 'a' = u, 3 s}} S[./c->w]",
            ("qy1yq", "c", "d"),
        ),
    ],
)
def test_windows_beside_others_and_constants_like_marks(text: str, given: tuple[str, ...]) -> None:
    for order in (given, given[::-1]):
        both = Both(FACTS)
        for each in order:
            both.check(text.format(each))


def test_constants_of_texts_with_steps_that_are_filled_in() -> None:
    both = Both(FACTS)
    texts = [
        "S/a[./c > {0}][./b->x] NEXT {{y > {1} * x - 3, {4} min}} R->b[./n = {2}][./s->y] FILTER {{DUR <= {4} s}}",
        "SELECT x, y FROM S/a[./c = {3}][./b->x] FILTER {{x > {1}}} FOLD {{x = y, WHILE y < {0}, {4} h}} R[./n->y]",
        "S/a[./b->x] NEXT {{x = y, {4} d}} (R[./s = {3}][./n->y] NEXT {{z > y + {2}, {4} s}} S[./c->z]) PUBLISH p",
        "S[./b->x] JOIN {{x = y, 2 h}} R[./n > {0}][./s->y] NEXT {{x = z}} S/c[./d = {3}][./e->z]"
        " NOT FOLLOWED BY {{z = u AND v > {1}, {4} min}} R[./n->v][./s->u]",
        "S[./b->x] NEXT {{y != {0}, {4} s..{4} min}} S[./c->y] FILTER {{DUR < {4} AND x > -{2}, MAXWINDOW {4} h}}",
    ]
    numbers, words = ["5", "3", "2.5", "007", "0", "1", "8000000001"], ["'x'", "'two words'", "'it''s'", "'5'", "''"]
    durations = ["1", "2", "60", "90", "24", "0", "700001", "1.5", "1234567"]
    for seed in range(30):
        choose = Dice(seed)
        for text in texts:
            both.check(text.format(*(choose.one(*of) for of in (numbers, numbers, numbers, words, durations))))
    assert both.preparer.filled > 40 and both.refused > 10


def test_ends_of_ranges_and_parts_of_seconds_that_are_filled_in() -> None:
    """They are compiled as each is alone, and so are shapes of steps."""
    texts = [
        "S/a[./b->x] NEXT {{y > {0} * x, {1} s..{2} min}} R->b[./n->y]",
        "S/a[./b->x] NEXT {{y > x, {1} s..{2} s, {3} min}} R->b[./n->y] FILTER {{DUR < {3} h}}",
        "S/a[./b->x] NEXT {{y > x, {1}..{2} min, MAXWINDOW {3} h}} R->b[./s->y]",
        "S/a[./b->x] NEXT {{y > x, {1} s..UNBOUNDED}} R->b[./s->y] FILTER {{DUR > {3} ms AND x > {0}}}",
        "S/a[./b->x] NEXT {{y > x, 'PT3M'..{2} min}} R->b[./s->y]",
        "S/a[./b->x] NEXT {{y > x, 0..{2} min}} R->b[./s->y]",
        "S/a[./c = {0}][./b->x] FOLD {{{1} ms..{2} s WHILE y > last(y, x), last(k, {0}) + 7 AS k}} R->b[./n->y]",
        "S/a[./b->x] FOLD {{WHILE y > last(y, {0}), last(k, 2) + y AS k, LONGEST}} R->b[./n->y]",
        "S/a[./b->x] FOLD {{WHILE y > x, last(k, -{0}) + y AS k, last(h, {0}) * 3 AS h}} R->b[./n->y]",
        "S[./b->x] JOIN {{x = y, 2 h}} R[./s->y] NEXT {{x = z}} S/c[./e->z]"
        " NOT FOLLOWED BY {{z = u AND v > {0}, {1} s..{2} min}} R[./n->v][./s->u]",
        "S/a[./b->x] FOLLOWED BY {{x = y, {1} s..{2} min}} S/a[./b->y]",
        "S/a[./b->x] FOLLOWED BY {{{1} s..{2} s}} R[./s->y]",
        "S/a[./b->x] FOLLOWED BY {{x = y, 0 s..{2} min}} R[./s->y]",
        "S/a[./b->x] FOLLOWED BY {{x = y AND p > {0}, {1}..{2} s}} R[./s->y][./n->p]",
        "S/a[./b->x] FOLLOWED BY {{x = y, {1} s..{2} min}} R[./s->y] FOLLOWED BY {{y = z, 1 h}} S[./c->z]",
        "S/a[./b->x] JOIN {{x = y, {3} s, ONCE}} S/a[./b->y]",
    ]
    numbers = ["2", "3", "2.5", "7", "0", "1", "007", "0.50"]
    lengths = ["2", "2.5", "5", "5.0", "60", "0.5", "1000", "3.25"]
    odd = ["0", "0.0", "05", "0.0000001", "1.2345678", "699999.9", "700001", "1234567"]
    filled = refused = count = 0
    for seed in range(examples(20)):
        choose = Dice(seed)
        for text in texts:
            both = Both(FACTS)
            for _ in range(8):
                times = [choose.one(*(odd if choose.chance(15) else lengths)) for _ in range(3)]
                said = text.format(choose.one(*numbers), *times)
                compiled = both.check(said)
                if compiled is not None and compiled.stepped:
                    alone = shape_of(steps_of(parse_query(said), said, NAMESPACES))
                    assert known_shape(said, tuple(NAMESPACES.items())) == alone, said
            filled += both.preparer.filled
            refused += both.refused
            count += 8
    assert filled > count / 10 and refused > count / 20


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("S/a[./b->x] NEXT {{y > x, {} s..{} min}} R[./n->y]", 4),
        ("S/a[./b->x] NEXT {{y > x, {}.5 s}} R[./n->y]", 4),
        ("S/a[./b->x] NEXT {{y > x, 0 s..{} min}} R[./n->y]", 4),
        ("S/a[./b->x] NEXT {{y > x, {}.5 s..UNBOUNDED}} R[./n->y]", 4),
        ("S/a[./b->x] NEXT {{y > x, {} s..{}000 ms}} R[./n->y]", 0),  # its marks would be an empty range
        ("S/a[./b->x] NEXT {{y > x, 'PT3S'..{} min}} R[./n->y]", 0),  # nobody knows whether it would be empty
        ("S/a[./b->x] NEXT {{y > x, {} s..'PT3H'}} R[./n->y]", 0),
        ("S/a[./b->x] FOLD {{WHILE y > x, last(k, {}) + y AS k}} R[./n->y]", 4),
        ("S/a[./b->x] FOLD {{WHILE y > last(y, {}), last(k, {}) + y AS k}} R[./n->y]", 0),
        ("S/a[./b->x] FOLLOWED BY {{x = y, {} s..{} min}} R[./s->y]", 4),
        ("S/a[./b->x] FOLLOWED BY {{x = y, 0..{}.25 min}} R[./s->y]", 4),
        ("S/a[./b->x] FOLLOWED BY {{x = y, {} min..{} s}} R[./s->y]", 0),
    ],
)
def test_ranges_parts_of_seconds_and_first_values_that_are_filled_in(text: str, filled: int) -> None:
    both = Both(FACTS)
    for number in range(3, 8):
        both.check(text.format(*[number] * 2))
    assert both.preparer.filled == filled
    assert bool(both.refused) is ("min..{} s" in text)


def test_constants_of_texts_with_windows_that_are_filled_in() -> None:
    """They are compiled as each is alone, and so are their definitions."""
    both = Both(FACTS)
    filled = 0
    for seed in range(500):
        text = window_query(Dice(seed))
        before = both.preparer.filled
        compiled = both.check(text)
        if compiled is None:
            continue
        assert compiled.windowed is not None
        filled += both.preparer.filled > before
        part, namespaces = compiled.windowed.text, tuple(NAMESPACES.items())
        expected = definition_of(parse_query(text), text, NAMESPACES, of_all=selects_all(part, namespaces))
        assert known_definition(text, namespaces, part) == expected, text
    assert filled > 60 and both.refused > 40


ABSENT = "S/a->a[./b->x][./c->p] "
ABSENCES = (
    "NOT FOLLOWED BY {{x = y, {4} min}} R->b[./s->y]",
    "NOT FOLLOWED BY {{x = y AND p > {0}, 3 h}} R->b[./s->y][./n > {2}]",
    "NOT FOLLOWED BY {{x = y AND q >= {0} * p AND x != {3}, {4} s}} R->b[./s->y][./n->q]",
    "NOT FOLLOWED BY {{x = y, {4} s..{5} min}} R->b[./s->y]",
    "FOLLOWED BY {{x = y, {4} h}} R[./s->y] NOT FOLLOWED BY {{y = z, {5} min}} S[./c->z]",
    "JOIN {{x = y, {4} h}} R->b[./s->y][./n > {0}] WITHOUT {{x = z, c - b IN (-{4} s, {5} min]}} S->c[./c->z]",
    "JOIN {{x = y, 1 h}} R[./s->y] WITHOUT {{x = z, c - a IN [-{4} ms, {5} min), BETWEEN}} S->c[./c->z][./b = {3}]",
    "FOLLOWED BY {{x = y, {4} h}} R[./s->y] WITHOUT {{x = z AND z > {0}, BETWEEN}} S[./c->z]",
    "NOT FOLLOWED BY {{x = y, {4} s}} R[./s->y] NOT FOLLOWED BY {{x = z, {5} min}} S[./c->z] CONSISTENCY MIDDLE",
)
"""Absences with numbers, a word and lengths."""


@pytest.mark.parametrize("absence", ABSENCES)
def test_constants_of_absence_are_filled_in(absence: str) -> None:
    both = Both(FACTS)
    for number in range(3, 8):
        both.check((ABSENT + absence).format(number, number, number, f"'w{number}'", number, number + 2))
    assert both.preparer.filled == 4 and not both.refused


def test_odd_constants_of_absence() -> None:
    """They are compiled as each is alone, and refused with the same places."""
    numbers = ["5", "3", "2.5", "5.0", "1.020", "007", "0", "1", "1e3", "8000000001", "99999999999999999999.1"]
    words = ["'x'", "'two words'", "'it''s'", "'5'", "''", "'qz0zq'"]
    lengths = ["2", "5", "5.0", "60", "24", "0.5", "1", "0", "05", "700001", "1.5", "1234567", "0.0000001"]
    filled = refused = count = 0
    for seed in range(examples(30)):
        choose = Dice(seed)
        for absence in ABSENCES:
            both = Both(FACTS)
            for _ in range(6):
                times = [choose.one(*(lengths if choose.chance(30) else lengths[:6])) for _ in range(2)]
                given = [choose.one(*(numbers if choose.chance(30) else numbers[:4])) for _ in range(3)]
                both.check((ABSENT + absence).format(*given, choose.one(*words), *times))
            filled += both.preparer.filled
            refused += both.refused
            count += 6
    assert filled > count / 10 and refused > count / 100


def test_windows_that_bound_nothing_belong_to_the_text_of_a_part() -> None:
    """An earlier event is never later, so the first window says nothing; a part has it in its text all the same."""
    both = Both(FACTS)
    for first, second in [("5", "3"), ("5", "3"), ("5", "4"), ("3", "3"), ("3.0", "3"), ("2", "4")]:
        both.check(
            f"S/a->r[./b->x][./c->u] FOLLOWED BY {{x = y, r - s IN (-UNBOUNDED, {first} d]}} S/a->s[./b->y][./c->v] "
            f"NOT FOLLOWED BY {{y = z, {second} d}} S->t[./b->z][./c->w]"
        )
    assert both.preparer.filled >= 3


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("S/a[./b->x] FOLLOWED BY {{x = y, {} s..UNBOUNDED}} R[./s->y]", 4),
        ("S/a[./b->x] FOLLOWED BY {{x = y, {} h, {} min}} R[./s->y]", 4),
        ("S/a->a[./b->x] JOIN {{x = y, b - a IN [-{} s, {} min)}} R->b[./s->y]", 4),
        ("S/a[./b->x] JOIN {{x = y, {} h}} R[./s->y] JOIN {{y = z, {} min}} T[./b->z]", 4),
        ("S/a[./b->x] FOLLOWED BY {{x = y, {} s..{} min}} R[./s->y] FOLLOWED BY {{y = z, {} h}} T[./b->z]", 4),
        ("S[./b->x] FOLLOWED BY {{x = y, 1 h}} R[./s->y] JOIN {{y = z, MAXWINDOW {} h, {} min}} T[./b->z]", 4),
        ("S/a[./c > {}][./b->x] JOIN {{x = y, {} h}} R[./s->y] PUBLISH p", 4),
        ("SELECT x, y AS k FROM S/a[./c > {}][./b->x] JOIN {{x = y, {} h}} R[./s->y]", 4),
        ("SELECT x/k[. > {}] FROM S/a[./b->x] JOIN {{x = y, 1 h}} R[./s->y]", 0),  # no part of what is joined
        ("S/a[./c > {}][./b->x] JOIN {{x = y, 1 h}} R[./s->y] STARTING ALL", 0),
        ("S/a[./b->x] JOIN {{x = y, {} s, ONCE}} S[./b->y] JOIN {{y = z, {} min}} S/a[./b->z]", 4),
    ],
)
def test_windows_of_several_blocks_and_what_is_published(text: str, filled: int) -> None:
    both = Both(FACTS)
    for number in range(3, 8):
        both.check(text.format(number, number + 1, number))
    assert both.preparer.filled == filled and not both.refused


def test_windows_that_nothing_satisfies_are_refused_among_others() -> None:
    """So are those by which blocks are joined in another order, or that leave another number of cases."""
    texts = [
        "S->a[./b->x] JOIN {{x = y, {} s, a - b IN [{} s, UNBOUNDED]}} R->b[./s->y]",
        "S->a JOIN {{{} s}} R->b JOIN {{{} s}} S->c",
        "S->a JOIN {{{} s}} R->b FOLLOWED BY {{c - a IN [{} s, {} s]}} T->c",
        "S->a[./b->x] JOIN {{x = y, {} s}} R->b[./s->y] "
        "NOT FOLLOWED BY {{x = z, {} s, c - a IN [{} s, 9 s]}} S->c[./b->z]",
        "(S->a JOIN {{{} s}} R->b) JOIN {{{} s, b - c IN [{} s, 7 s)}} (S->c JOIN {{3 s}} T->d)",
    ]
    filled = refused = count = 0
    for seed in range(examples(30)):
        choose = Dice(seed)
        for text in texts:
            both = Both(FACTS)
            for _ in range(6):
                both.check(text.format(*(choose.one("2", "3", "5", "0.5", "7", "60") for _ in range(3))))
            filled += both.preparer.filled
            refused += both.refused
            count += 6
    assert filled > count / 10 and refused > count / 20


def test_joins_of_the_first_text_that_are_one_beside_guards() -> None:
    """Its instance has one value join less than those of other texts, whose guards differ as well."""
    both = Both(FACTS)
    for number, factors in enumerate([(2, 2), (2, 3), (4, 12), (5, 5), (7, 2)]):
        atoms = "y1 >= {} * y0 AND y1 >= {} * y0".format(*factors)
        both.check(f"R[./s->x0][./n->y0] FOLLOWED BY {{x0 = x1 AND {atoms}}} S[./c > {number}][./b->x1][./c->y1]")
    assert not both.refused


def test_constants_behind_a_sign_are_filled_in() -> None:
    both = Both(FACTS)
    for number in range(3, 8):
        both.check(f"SELECT k FROM R[./s->k][./n->v] WINDOW 5 min GROUP BY k HAVING max(v) > -{number} AND -9 < sum(v)")
    assert both.preparer.filled == 4


@pytest.mark.parametrize(
    ("having", "filled"),
    [
        ("max(v) > min(v) + {}", 4),
        ("{} * max(v) - 2{} < 4 - min(v)", 4),
        ("max(v)-{} > 2.5{} * min(v)", 4),
        ("first(k) = 'it''s {}' AND last(k) != \"{}\"", 4),
        ("(max(v) - {}) * 4{} > 2", 0),
        ("max(v) / {} > 2", 0),
        ("max(v) - {} > 3 - 2{}", 0),
        ("{} * v > 2", 0),  # 3 * v is a value of GROUP BY
    ],
)
def test_constants_of_having_are_filled_in(having: str, filled: int) -> None:
    both = Both(FACTS)
    for number in range(3, 8):
        both.check(
            f"SELECT k FROM R[./s->k][./n->v] WINDOW 5 min GROUP BY k, v{', 3 * v' * having.startswith('{} * v')}"
            f" HAVING {having.format(number, number)}"
        )
    assert both.preparer.filled == filled and not both.refused


def test_conditions_that_are_filled_in_are_those_of_the_text() -> None:
    preparer = Preparer(None, FACTS)
    template = "S/a[@k > {0}][@k < 9][./b->x] JOIN {{x = y, 1 h}} R->b[./n = {1}][./s->y]"
    for low, number in [(1, 2), (3, 4), (10, 5), (1, 6)]:
        text = template.format(low, number)
        normal = preparer.prepare_text(text).compiled.normal
        fresh = compile_query(parse_query(text), text, channels=FACTS).normal
        assert [[node.conditions for node in block.nodes] for block in normal.blocks] == [
            [node.conditions for node in block.nodes] for block in fresh.blocks
        ]
        assert (impossible(normal, FACTS) is None) == (impossible(fresh, FACTS) is None) == (low != 10)


def test_constants_of_guards_are_compiled_alike() -> None:
    both = Both(FACTS)
    for number in range(5):
        both.check(f"S/a[./c > {number}][./b->x] JOIN {{x = y, 1 h}} R->b[contains-word(./s, 'w{number}')][./s->y]")
    assert both.preparer.filled == 4


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(query_texts(), min_size=1, max_size=4))
def test_texts_by_the_grammar(texts: list[str]) -> None:
    both = Both()
    for text in [*texts, *texts]:
        both.check(text)


def test_texts_that_differ_in_numbers_of_steps() -> None:
    """They are compiled as each is alone, and so are their shapes and numbers."""
    filled = count = 0
    for seed in range(examples(100)):
        choose, both = Random(seed), Both()
        first = step_query(choose, steps=3, with_absence=seed % 4 == 0)
        for _ in range(8):
            text = other_numbers(choose, first)
            if seed % 3 == 0:
                text = re.sub(r"(?<=[<>=*+-] )\d(?![\d.])", rf"\g<0>.{choose.randrange(1, 9)}", text)
            before = both.preparer.compilations
            if both.check(text) is None:
                continue
            count += text != first
            filled += text != first and both.preparer.compilations == before
            assert known_shape(text, ()) == shape_of(steps_of(parse_query(text), text)), text
    assert filled > count / 10
