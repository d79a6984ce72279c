"""Functions of one's own in texts: what is refused, and what is part of a definition."""

from __future__ import annotations

import pytest
from local_engine import compiled

from xscl.base.errors import QueryError
from xscl.language.compile import compile_query
from xscl.language.syntax.parser import parse_query


@pytest.mark.parametrize(
    ("marked", "condition", "message", "hint"),
    [
        ("S[./b and ¦tickr(./a)¦ = 1]", "UNKNOWN_FUNCTION", "there is no function tickr()", "xscl --functions"),
        ("S->x JOIN {¦tickr(x)¦ = y, 1 h} T->y", "UNKNOWN_FUNCTION", "no function tickr()", "lower, normalize-space"),
        ("S[¦size(.)¦]", "SYNTAX", "size() is a number, which alone", "size(…) > 0"),
        ("S[¦swap(., 'a')¦ = 'b']", "SYNTAX", "swap() takes 1 arguments, not 2", ""),
        ("S->x JOIN {x = y AND swap(¦'a'¦) = y, 1 h} T->y", "SYNTAX", "swap() is applied to a constant", "the value"),
        (
            "SELECT count() AS n FROM S->x WINDOW 1 h GROUP BY x HAVING ¦swap(x)¦ = 'a'",
            "AGGREGATE",
            "",
            "GROUP BY swap(x)",
        ),
        ("SELECT x FROM S->x NEXT {¦swap(sum(x))¦ = y} S->y", "STEP", "", ""),
    ],
)
def test_refusals(marked: str, condition: str, message: str, hint: str) -> None:
    before, inside, _ = marked.split("¦")
    with pytest.raises(QueryError) as told:
        compiled(marked.replace("¦", ""))
    error = told.value
    if condition != "STEP":  # sums have refusals of their own there
        assert error.condition == f"XSCL_{condition}", error
        assert error.span is not None
        assert (error.span.start, error.text[error.span.start : error.span.end]) == (len(before), inside)
    assert message in error.message
    assert hint in (error.hint or "")


def test_versions_are_other_definitions() -> None:
    text = "S->n[swap(./a) = 'x'] JOIN {size(n) > m, 1 h} T->m"
    keys = {
        compile_query(parse_query(text), text, namespaces={"swap()": f"swap@{one}", "size()": f"size#{two}"}).group.key
        for one in "12"
        for two in "12"
    }
    assert len(keys) == 4


def test_conditions_with_functions_of_ones_own_are_one_fact_with_all_others() -> None:
    """So the function is called where the others hold."""
    guard = compiled("S->n[./k = 'a'][swap(./b) = 'x'][./p > 5] JOIN {n = m, 1 h} T->m").group.guards[0]
    assert guard is not None
    assert [len(each) for each in guard.alternatives] == [1]
