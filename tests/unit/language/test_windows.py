"""Windows to cases: who may be the latest, ties, ONCE, and what nothing satisfies."""

from __future__ import annotations

from itertools import product

import pytest
from budget import examples
from strategies import Dice

from xscl.base.errors import QueryError, UnsatisfiableWindowError, UnsupportedFeatureError
from xscl.language import windows
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.language.windows import cases_of, placed_joins
from xscl.templates.bounds import UNBOUNDED, Case

SECOND = 1_000_000
NAMES = "abcdef"


def cases(text: str) -> tuple[Case, ...]:
    """Of blocks S->a, S->b …"""
    count = text.count("->")
    return cases_of(
        parse_query(text).source, text, {name: place for place, name in enumerate(NAMES[:count])}, NAMES[:count]
    )


def seconds(found: tuple[Case, ...]) -> list[list[tuple[float, float]]]:
    """Bounds in seconds."""

    def shown(bound: int) -> float:
        return bound / SECOND if abs(bound) < UNBOUNDED else bound / UNBOUNDED * float("inf")

    return [[(shown(b.lo), shown(b.hi)) for b in case] for case in found]


TICK = 1 / SECOND
INF = float("inf")


# -- one case ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lo", "hi"),
    [
        ("S->a FOLLOWED BY {5 s} S->b", TICK, 5),
        ("S->a FOLLOWED BY {} S->b", TICK, INF),
        ("S->a FOLLOWED BY {UNBOUNDED} S->b", TICK, INF),
        ("S->a FOLLOWED BY {0 s..5 s} S->b", 0, 5),
        ("S->a FOLLOWED BY {2 s..UNBOUNDED} S->b", 2, INF),
        ("S->a FOLLOWED BY {0 s..5 s, 3 s} S->b", TICK, 3),
        ("S->a FOLLOWED BY {0 s..5 s, 2 s..9 s} S->b", 2, 5),
        ("S->a FOLLOWED BY {MAXWINDOW 4 s} S->b", TICK, 4),
        ("S->a JOIN {5 s} S->b", -5, 5),
        ("S->a JOIN {} S->b", -INF, INF),
        ("S->a JOIN {5 s, 3 s} S->b", -3, 3),
        ("S->a JOIN {5 s, MAXWINDOW 2 s} S->b", -2, 2),
        ("S->a JOIN {5 s, b - a IN [1 s, UNBOUNDED)} S->b", 1, 5),
        ("S->a JOIN {b - a IN (1 s, 2 s)} S->b", 1 + TICK, 2 - TICK),
        ("S->a JOIN {a - b IN (1 s, 2 s]} S->b", -2, -1 - TICK),
        ("S->a JOIN {0 s} S->b", 0, 0),
        ("S->a JOIN {ONCE, 5 s} S->b", -5, 5),
        ("S->a JOIN {ONCE, b - a IN [1 s, UNBOUNDED)} S->b", 1, INF),
    ],
)
def test_two_blocks(text: str, lo: float, hi: float) -> None:
    assert seconds(cases(text)) == [[(lo, hi)]]
    ((bounds,),) = cases(text)
    assert (bounds.order, bounds.exchange) == (0, "ONCE" in text)


def test_one_block_has_one_case_without_bounds() -> None:
    assert cases("S->a") == ((),)


def test_bounds_of_all_pairs_are_tight() -> None:
    text = "S->a FOLLOWED BY {1 s..2 s} S->b FOLLOWED BY {3 s..4 s} S->c"
    assert seconds(cases(text)) == [[(1, 2), (4, 6), (3, 4)]]
    (case,) = seconds(cases("S->a JOIN {1 s} S->b FOLLOWED BY {c - a IN [5 s, 6 s], MAXWINDOW 6 s} S->c"))[:1]
    assert case[1] == (5, 6)


def test_maxwindow_holds_between_all_wherever_it_stands() -> None:
    found = cases("S->a FOLLOWED BY {MAXWINDOW 5 s} S->b FOLLOWED BY {} S->c")
    assert seconds(found) == [[(TICK, 5 - TICK), (2 * TICK, 5), (TICK, 5 - TICK)]]
    assert cases("S->a FOLLOWED BY {} S->b FOLLOWED BY {MAXWINDOW 5 s} S->c") == found


def test_relative_windows_of_any_pair_joined_so_far() -> None:
    text = "S->a FOLLOWED BY {1 s} S->b FOLLOWED BY {c - a IN (0 s, 2 s]} S->c"
    assert seconds(cases(text)) == [[(TICK, 1), (2 * TICK, 2), (TICK, 2 - TICK)]]


# -- composites ----------------------------------------------------------------------------------------------------


def test_after_followed_by_the_right_operand_is_the_latest() -> None:
    assert seconds(cases("S->a FOLLOWED BY {0 s..9 s} S->b FOLLOWED BY {2 s} S->c")) == [
        [(0, 9), (TICK, 11), (TICK, 2)]
    ]


def test_after_join_either_may_be_the_latest() -> None:
    found = cases("S->a JOIN {9 s} S->b FOLLOWED BY {2 s} S->c")
    assert seconds(found) == [
        # a is the latest: b strictly before.
        [(-9, -TICK), (TICK, 2), (2 * TICK, 11)],
        # b is, or they are of one time: the later in FROM counts.
        [(0, 9), (TICK, 11), (TICK, 2)],
    ]


def test_only_what_matters_is_split() -> None:
    # That c is later than both says nothing about which was the latest.
    assert len(cases("S->a JOIN {9 s} S->b FOLLOWED BY {} S->c")) == 1
    assert len(cases("S->a FOLLOWED BY {} (S->b JOIN {9 s} S->c)")) == 2
    assert len(cases("S->a JOIN {9 s} S->b JOIN {} S->c")) == 1
    assert len(cases("S->a JOIN {9 s} S->b JOIN {1 s} S->c")) == 2
    # Cases that nothing satisfies are left out.
    assert len(cases("S->a JOIN {b - a IN [1 s, 2 s]} S->b FOLLOWED BY {2 s} S->c")) == 1


def test_a_parenthesised_right_side_counts_by_its_latest() -> None:
    # A right side that follows itself: only its last member's time counts, so the first may come before a.
    assert seconds(cases("S->a FOLLOWED BY {2 s} (S->b FOLLOWED BY {9 s} S->c)")) == [
        [(-9 + TICK, 2 - TICK), (TICK, 2), (TICK, 9)]
    ]


def test_once_orders_by_more_than_time() -> None:
    found = cases("S->a JOIN {ONCE, 9 s} S->b JOIN {ONCE} S->c")
    # Either of a and b may be the latest of the left operand, and the match with both exchanged another one.
    assert [[b.order for b in case] for case in found] == [[-1, 1, 0], [1, 0, 1]]
    assert [[b.exchange for b in case] for case in found] == [[True, False, False]] * 2
    found = cases("S->a JOIN {9 s} S->b JOIN {ONCE} S->c")
    assert [[b.order for b in case] for case in found] == [[-1, 1, 0], [1, 0, 1]]
    assert seconds(found) == [[(-9, 0), (0, INF), (0, INF)], [(0, 9), (0, INF), (0, INF)]]


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("S->a FOLLOWED BY {2 s..1 s} S->b", "a → b → a: b at least 2 s after a, a at most 1 s before b"),
        ("S->a JOIN {1 s, b - a IN [2 s, 3 s]} S->b", "a → b → a: b at least 2 s after a, a at most 1 s before b"),
        ("S->a FOLLOWED BY {0 s} S->b", "a → b → a: b at least 1 us after a, a at least 0 s after b"),
        (
            "S->a FOLLOWED BY {} S->b FOLLOWED BY {a - c IN [1 s, 2 s]} S->c",
            "a → b → c → a: b at least 1 us after a, c at least 1 us after b, a at least 1 s after c",
        ),
    ],
)
def test_windows_that_nothing_satisfies(text: str, told: str) -> None:
    with pytest.raises(UnsatisfiableWindowError) as caught:
        cases(text)
    assert caught.value.condition == "XSCL_UNSATISFIABLE_WINDOW"
    assert caught.value.message.endswith(told)
    # The caret is at a relative window of the cycle, if there is one.
    at = text.index("b - a IN") if "b - a IN" in text else text.rindex("{") + 1
    assert (caught.value.line, caught.value.column) == (1, at + 1)


@pytest.mark.parametrize(
    ("text", "condition", "at"),
    [
        ("S->a FOLLOWED BY {ONCE} S->b", "XSCL_SYNTAX", "ONCE"),
        ("S->a JOIN {1 s..2 s} S->b", "XSCL_SYNTAX", "1 s.."),
        ("S->a JOIN {a - a IN [0 s, 1 s]} S->b", "XSCL_ATOM_INSIDE_BLOCK", "a - a"),
        ("S->a JOIN {z - a IN [0 s, 1 s]} S->b", "XSCL_UNBOUND_VARIABLE", "z - a"),
        ("S->a JOIN {c - a IN [0 s, 1 s]} S->b JOIN {} S->c", "XSCL_UNBOUND_VARIABLE", "c - a"),
        ("S->a JOIN {} (S->b JOIN {c - a IN [0 s, 1 s]} S->c)", "XSCL_UNBOUND_VARIABLE", "a IN"),
    ],
)
def test_windows_that_are_not_sound(text: str, condition: str, at: str) -> None:
    with pytest.raises(QueryError) as caught:
        cases(text)
    assert caught.value.condition == condition
    assert caught.value.column == text.index(at) + 1


def test_too_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "S->a JOIN {9 s} S->b JOIN {9 s} S->c JOIN {9 s} S->d"
    # a or b before c, and then that one or c before d.
    assert len(cases(text)) == 4
    monkeypatch.setattr(windows, "MAX_CASES", 4)
    assert len(cases(text)) == 4
    monkeypatch.setattr(windows, "MAX_CASES", 3)
    with pytest.raises(UnsupportedFeatureError) as caught:
        cases(text)
    assert caught.value.condition == "XSCL_TOO_MANY_CASES"


def test_real_bound_of_cases() -> None:
    text = "S->a" + "".join(f" JOIN {{9 s}} S->{letter}" for letter in "bcdefghijklmnop")
    names = [f"{chr(97 + place)}" for place in range(16)]
    with pytest.raises(UnsupportedFeatureError) as caught:
        cases_of(parse_query(text).source, text, {name: place for place, name in enumerate(names)}, names)
    assert caught.value.condition == "XSCL_TOO_MANY_CASES"


def test_places_of_joins() -> None:
    source = parse_query("S->a JOIN {1 s} (S->b JOIN {2 s} S->c) JOIN {3 s} S->d").source
    assert [(p.start, p.middle, p.end) for p in placed_joins(source)] == [(1, 2, 3), (0, 1, 3), (0, 3, 4)]
    assert placed_joins(parse_query("S->a").source) == []


# -- against the words of the language -------------------------------------------------------------------------------


def holds(source: ast.Source, times: tuple[int, ...], start: int = 0) -> tuple[bool, int, int]:
    """(whether the windows hold, ts, place behind) of an operand (docs/explanation/architecture.md, From text to rows).

    Times are in seconds; a block's place stands for channel and id.
    """
    if isinstance(source, ast.Block):
        return True, times[start], start + 1
    left, ts_l, middle = holds(source.left, times, start)
    right, ts_r, end = holds(source.right, times, middle)
    fine = left and right
    block_of = {name: place for place, name in enumerate(NAMES)}
    following = source.op == "followed by"
    between = (ts_r - ts_l) * SECOND
    ranged = any(isinstance(w, ast.Window) and w.kind == "range" for w in source.windows)
    fine &= between > 0 or not following or ranged
    for window in source.windows:
        match window:
            case ast.RelativeWindow():
                apart = (times[block_of[window.later]] - times[block_of[window.earlier]]) * SECOND
                fine &= window.low is None or window.low <= apart
                fine &= window.high is None or apart <= window.high
            case ast.Window("max", _, high):
                fine &= (max(times) - min(times)) * SECOND <= high
            case ast.Window("range", low, high):
                fine &= low <= between and (high is None or between <= high)
            case ast.Window("within", _, high):
                fine &= high is None or abs(between) <= high
                fine &= between > 0 or not following
            case ast.Window("once") if not isinstance(source.left, ast.Block) or not isinstance(
                source.right, ast.Block
            ):
                first, second = (max((times[p], p) for p in r) for r in (range(start, middle), range(middle, end)))
                fine &= first < second
    return fine, max(ts_l, ts_r), end


def written(choose: Dice, first: int, count: int) -> str:
    if count == 1:
        return f"S->{NAMES[first]}"
    right = choose.one(1, 1, choose.count(1, count - 1))
    left_text = written(choose, first, count - right)
    right_text = written(choose, first + count - right, right)
    following = choose.chance(40)
    parts = [choose.one("1 s", "2 s", "", "", *(["0 s..2 s", "1 s..UNBOUNDED"] if following else ["0 s"]))]
    if choose.chance(15):
        one, other = choose.one((first, first + count - 1), (first + count - 1, first))
        low, high = choose.one(("-1 s", "1 s"), ("1 s", "UNBOUNDED"), ("-UNBOUNDED", "0 s"))
        parts.append(f"{NAMES[one]} - {NAMES[other]} IN {choose.one('[', '(')}{low}, {high}{choose.one(']', ')')}")
    parts.append(choose.one("", "", "", "MAXWINDOW 2 s"))
    if not following:
        parts.append(choose.one("", "", "ONCE"))
    op = "FOLLOWED BY" if following else "JOIN"
    right_text = f"({right_text})" if right > 1 else right_text
    return f"{left_text} {op} {{{', '.join(part for part in parts if part)}}} {right_text}"


@pytest.mark.parametrize("count", [2, 3, 4])
def test_cases_are_disjoint_and_complete(count: int) -> None:
    """Every combination of times, with the places in FROM for channels and ids, is in as many cases as it should."""
    refused = 0
    for seed in range(examples(250)):
        text = written(Dice(seed), 0, count)
        source = parse_query(text).source
        try:
            found = cases(text)
        except UnsatisfiableWindowError:
            found = ()
            refused += 1
        # Whole seconds around the bounds, of which none is above 2 s.
        for rest in product(range(-4, 5), repeat=count - 1):
            times = (0, *rest)
            pairs = [
                ((times[j] - times[i]) * SECOND, (times[i], i) < (times[j], j))
                for i in range(count)
                for j in range(i + 1, count)
            ]
            admitted = sum(all(b.admits(*p) for b, p in zip(case, pairs, strict=True)) for case in found)
            assert admitted == holds(source, times)[0], (text, times)
    assert 0 < refused < 100
