"""Comparisons that can never hold are refused with the reason; what may hold is taken."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.evaluate import Doc, answers
from strategies import Choices

from xscl.language.facts import ChannelFacts
from xscl.language.normalize import normalize
from xscl.language.syntax.parser import parse_query
from xscl.language.unsatisfiable import impossible

ROWS = ChannelFacts("rows", frozenset(("p", "q")), frozenset("s"), frozenset("t"), frozenset(("ok",)))
FACTS: Mapping[str, ChannelFacts] = {"R": ROWS, "X": ChannelFacts("xml")}
ORDER = "compares numbers, so nothing is"
ONE = "the column p, which has one value in a row, cannot satisfy this and the conditions before"

NEVER = [
    # a text with what is told between two ¦, the reason
    ("X//a[¦./p > 'abc'¦]", f"'>' {ORDER} > 'abc'"),
    ("X//a[./b[¦. <= 'NaN'¦]]", f"'<=' {ORDER} <= 'NaN'"),
    ("X//a[¦@b < ''¦]", f"'<' {ORDER} < ''"),
    ("X//a[¦./b > 'x' or ./c > 'y'¦]", f"'>' {ORDER} > 'x'"),
    ("X//a[./b][¦./t > '2026-01-01'¦]", f"'>' {ORDER} > '2026-01-01'"),
    ("X//a[¦lower(.) > 'b'¦]", f"'>' {ORDER} > 'b'"),
    ("X//a[¦string-length(.) < 0¦]", "string-length() is a whole number from 0 on, so it is never < 0"),
    ("X//a[¦count(b) = 1.5¦]", "count() is a whole number from 0 on, so it is never = 1.5"),
    ("X//a[¦count(b) <= -1¦]", "count() is a whole number from 0 on, so it is never <= -1"),
    ("X//a[¦count(b) = 'one'¦]", "count() is a number, and 'one' is none"),
    ("X//a[¦lower(b) = 'Ab'¦]", "lower() gives lower case, so it is never = 'Ab'"),
    ("X//a[¦normalize-space(b) = 'a '¦]", "normalize-space() gives no white space at the ends"),
    ("X//a[. > 5][¦. < 3¦]", "a value cannot satisfy this and the conditions before"),
    ("X//a[@b = 'x'][c][¦@b = 'y'¦]", "a value cannot satisfy this and the conditions before"),
    ("X//a[contains(., 'x')][¦not(contains(., 'x'))¦]", "a value cannot satisfy this"),
    ("X//a->x JOIN {x > 1 AND ¦x < 1¦, 1 h} X", "a value cannot satisfy this"),
    ("X//a->x JOIN {¦x > 'b'¦, 1 h} X", f"'>' {ORDER} > 'b'"),
    ("X//a->x JOIN {x < y AND ¦x > y¦, 1 h} X//a->y", "x and y cannot satisfy this"),
    ("X//a->x JOIN {x = y AND ¦y != x¦, 1 h} X//a->y", "x and y cannot satisfy this"),
    ("X//a->x JOIN {x = y AND ¦x < y¦, 1 h} X//a->y", "x and y cannot satisfy this"),
    ("U//a[¦./p > 'abc'¦]", f"'>' {ORDER} > 'abc'"),
    ("R[p = 1 and ¦p = 2¦]", ONE),
    ("R[p > 5][s][¦p < 3¦]", ONE),
    ("R[./p = 1]//p[¦. = 2¦]", ONE),
    ("R[p > 5][¦not(p > 3)¦]", "a row cannot satisfy this and the conditions before"),
    ("R->r JOIN {r/p = 5 AND ¦r/p = 6¦, 1 h} X", ONE),
    ("R[¦p = 'abc'¦]", "the column p is a number, and 'abc' is none"),
    ("R[¦ok = 'yes'¦]", "the column ok is 'true' or 'false', so it is never = 'yes'"),
    ("R[¦ok > 0¦]", "the column ok is 'true' or 'false', so it is never > 0"),
    ("R[¦s > 'b'¦]", f"'>' {ORDER} > 'b'"),
    ("R[¦t > 'noon'¦]", "the column t is a time, and 'noon' is none"),
    ("R[¦t = 5¦]", "the column t is a time, and 5 is none"),
    ("R[¦t < '2026-01-01T00:00:00'¦]", "the column t is a time, and '2026-01-01T00:00:00' is none"),
    ("R[t > '2026-01-02'][¦t <= '2026-01-01T23:00:00Z'¦]", "the column t, which has one value in a row, cannot"),
    ("R->r JOIN {¦r/t > 'noon'¦, 1 h} X", "the column t is a time"),
    ("R/R/*[. = 'a'][¦. = 'b'¦]", "a value cannot satisfy this"),
    ("R[¦./* > 'noon'¦]", f"'>' {ORDER} > 'noon'"),
]

MAY = [
    "X//a[b = 1][b = 2]",
    "X//a[b > 5 and b < 3]",
    "X//a[.//@b = 1][.//@b = 2]",
    "X//a[@* = 1][@* = 2]",
    "X//a[. = 'x'][. = 'x']",
    "X//a[. != 'x'][. != 'y']",
    "X//a[b or c > 'x']",
    "X//a[not(b > 'x')]",
    "X//a[. != 5][. = 'x']",
    "X//a[. != 'abc'][. > 5]",
    "X//a[count(b) != 1.5]",
    "X//a[count(b) >= 0]",
    "X//a[string-length(.) <= 0]",
    "X//a[lower(.) != 'A']",
    "X//a[lower(.) = 'ß']",
    "X//a->x JOIN {x <= y AND x >= y AND x != y, 1 h} X//a->y",
    "X//a->x JOIN {x = y AND lower(x) != lower(y), 1 h} X//a->y",
    "X//a->x JOIN {x < y AND x > y - 1, 1 h} X//a->y",
    "X//a->x JOIN {x/b = 1 AND x/b = 2, 1 h} X",
    "U[p = 1][p = 2]",
    "U[t > '2026-01-01']",
    "U->u JOIN {u/t > '2026-01-01', 1 h} X",
    "R[later > '2026-01-01']",
    "R[p = 1 or p = 2]",
    "R[p = 1][q = 2]",
    "R[p != 'abc']",
    "R[* = 1][* = 2]",
    # Equal for a column of numbers, or of times, though their texts differ.
    "R/R/*->x JOIN {x = '1' AND x = '1.0', 1 h} X",
    "R/R/*[. = '2026-01-01'][. = '2026-01-01T00:00:00Z']",
    "U//*[. = '2026-01-01'][. = '2026-01-01T00:00:00Z']",
    "R[./*[. = '2026-01-01'][. = '2026-01-01T00:00:00Z']]",
    "R[./* > '2026-01-01']",
    "R[p > 5][not(p > 7)]",
    "R[not(p)]",
    "R[s = '5'][s = 5]",
    "R[ok = 'true']",
    "R[ok != 'yes']",
    "R[t > '2026-01-01'][t < '2027-01-01T00:00:00+01:00']",
    "R[t != 'noon']",
    "X//a[count(b) = '1'][count(b) = '1.0']",
    "R[string-length(s) = '3' and string-length(s) = ' 3.0']",
    "X//a[count(b) != '1.0' or count(b) = '01']",
]


def test_what_can_never_hold_is_told_with_its_place_and_reason() -> None:
    for marked, reason in NEVER:
        text = marked.replace("¦", "")
        found = impossible(normalize(parse_query(text), text), FACTS)
        assert found is not None, text
        assert text[found.span.start : found.span.end] == marked.split("¦")[1], marked
        assert reason in found.reason, marked


@pytest.mark.parametrize("text", MAY)
def test_what_may_hold_is_taken(text: str) -> None:
    assert impossible(normalize(parse_query(text), text), FACTS) is None


VALUES = {
    "p": (None, "-1", "0", "1", "1.5", "2", "3"),
    "s": (None, "", "1", "2", "A", "a", "b "),
    "t": (None, "2026-01-01", "2026-01-01T12:00:00Z", "2026-01-02"),
    "ok": (None, "true", "false"),
}
LITERALS = ("0", "1", "2", "1.5", "'1'", "'a'", "'A'", "''", "'true'", "'2026-01-01'", "'2026-01-02T00:00:00Z'")


def conditions(choose: Choices, depth: int = 0) -> str:
    kind = choose.count(0, 9 if depth < 3 else 5)
    if kind == 6:
        return f"not({conditions(choose, depth + 1)})"
    if kind >= 7:
        word = choose.one(" and ", " or ")
        return "(" + word.join(conditions(choose, depth + 1) for _ in range(2)) + ")"
    path = choose.one(*VALUES)
    if kind == 0:
        return path
    if kind == 1:
        path = choose.one("lower({})", "normalize-space({})", "string-length({})", "count({})").format(path)
    return f"{path} {choose.one('=', '!=', '<', '<=', '>', '>=')} {choose.one(*LITERALS)}"


@st.composite
def bracketed(draw: st.DrawFn) -> str:
    """A block with two columns at most, so that all rows can be tried."""
    choose = Choices(draw)
    return "".join(f"[{conditions(choose)}]" for _ in range(choose.count(1, 3)))


@settings(max_examples=examples(160), deadline=None)
@given(bracketed())
def test_no_row_answers_what_can_never_hold(brackets: str) -> None:
    text = f"R{brackets}"
    query = parse_query(text)
    facts = {"R": ChannelFacts("rows", frozenset("p"), frozenset("s"), frozenset("t"), frozenset(("ok",)))}
    if impossible(normalize(query, text), facts) is None:
        return
    named = [name for name in VALUES if name in brackets]
    for values in product(*(VALUES[name] for name in named)):
        cells = "".join(
            f"<{name}>{value}</{name}>" for name, value in zip(named, values, strict=True) if value is not None
        )
        row = Doc("R", "1", 1, f"<R>{cells}</R>")
        found = answers(query, [row], numeric={"R": frozenset("p")}, times={"R": frozenset("t")})
        assert not found, cells


def test_equal_parts_are_looked_at_once() -> None:
    """The work for one value is bounded, however many conditions speak of it."""
    text = "R" + "".join(f"[p != {n}]" for n in range(500))
    assert impossible(normalize(parse_query(text), text), FACTS) is None
