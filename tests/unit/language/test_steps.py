"""Steps of queries: what they are parsed to, which parts they are over, and what is asked of these, by places."""

from __future__ import annotations

from fractions import Fraction

import pytest

from xscl.base.errors import QueryError, UnsupportedFeatureError
from xscl.language.compile import compile_query
from xscl.language.shown import shown
from xscl.language.steps.parts import parts_of
from xscl.language.steps.steps import steps_of
from xscl.language.steps.terms import Between, Computed, Filter, Fold, Key, Next, Part, Taken
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query
from xscl.language.syntax.parser import parse_query
from xscl.language.terms import Comparison, Term

REBOUND = """SELECT s AS company, p AS maxp, q AS minp, r AS finalp
FROM stock[./volume > 10000][./name->s][./price->p]
  FOLD {s = t WHILE q < last(q, p)} stock[./name->t][./price->q]
  FILTER {DUR >= 10 min}
  NEXT {s = u} stock[./name->u][./price->r]
  FILTER {r > 1.05 * q}"""

TEXTS = [
    ("A NEXT B", "A\n  NEXT\nB"),
    ("A next {} B", "A\n  NEXT\nB"),
    ("A NEXT {x = y, 1..2, MAXWINDOW 3 h} B", "A\n  NEXT {x = y, 1 s..2 s, MAXWINDOW 3 h}\nB"),
    ("A NEXT (B NEXT {1 h} C)", "A\n  NEXT\n(B\n  NEXT {1 h}\nC)"),
    ("(A JOIN {x = y} B) NEXT C", "A\n  JOIN {x = y}\nB\n  NEXT\nC"),
    ("A FOLD {} B", "A\n  FOLD {}\nB"),
    ("A FOLD {while q > last(q,p)} B", "A\n  FOLD {WHILE q > last(q, p)}\nB"),
    ("A FOLD {1 h WHILE 2 * sum(q) > 3 - first(q, p)} B", "A\n  FOLD {1 h WHILE 2 * sum(q) > -first(q, p) + 3}\nB"),
    ("A FOLD {x = y, longest, at most 3} B", "A\n  FOLD {x = y, LONGEST, AT MOST 3}\nB"),
    ("A FOLD {last(m, 1) + 1 AS m} B", "A\n  FOLD {last(m, 1) + 1 AS m}\nB"),
    ("A FOLD {(n * m + q) / (m + 1) AS n} B", "A\n  FOLD {((n * m) + q) / (m + 1) AS n}\nB"),
    ("A FOLD {x = as, -(n - q) AS k} B", "A\n  FOLD {x = as, (-1) * (n - q) AS k}\nB"),
    ("A FOLD {while = at, 'x' AS most, lower(q) AS as} B", "A\n  FOLD {while = at, 'x' AS most, lower(q) AS as}\nB"),
    ("A FILTER {DUR = 0 AND x > 5, x - y IN [0, 1 s]}", "A\n  FILTER {DUR = 0 s AND x > 5, x - y IN [0 s, 1 s]}"),
    # Conditions on a join stand in its braces; a time of composites is one of FILTER.
    ("A JOIN {1 h} B FILTER {x = y AND DUR > 3}", "A\n  JOIN {x = y, 1 h}\nB\n  FILTER {DUR > 3 s}"),
    ("A JOIN {1 h} B FILTER {x = y} JOIN {z = y} C", "A\n  JOIN {x = y, 1 h}\nB\n  JOIN {z = y}\nC"),
    ("A FILTER {MAXWINDOW 3 h}", "A\n  FILTER {DUR <= 3 h}"),
    ("SELECT sum(q, p) AS s, n FROM A FOLD {q AS n} B", "SELECT sum(q, p) AS s, n FROM A\n  FOLD {q AS n}\nB"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), TEXTS)
def test_canonical_texts(text: str, printed: str) -> None:
    tree = parse_query(text)
    assert format_query(tree) == printed
    assert parse_query(printed) == tree and format_query(parse_query(printed)) == printed


def test_a_price_that_falls_and_rebounds() -> None:
    query = parse_query(REBOUND)
    assert [format_query(part) for part in parts_of(query)] == [
        "SELECT p, s FROM stock[./volume > 10000][./name->s][./price->p]",
        "SELECT q, t FROM stock[./name->t][./price->q]",
        "SELECT r, u FROM stock[./name->u][./price->r]",
    ]
    found = steps_of(query, REBOUND)
    assert [part.names for part in found.parts] == [("p", "s"), ("q", "t"), ("r", "u")]
    assert found.selected == ((0, 1), (0, 0), (1, 0), (2, 0)) and not found.has_values
    p, s = Term("variable", 0), Term("variable", 1)
    q, t, r, u = (Term("variable", place, part=part) for part in (1, 2) for place in (0, 1))
    rebound = Comparison(r, ">", Term("variable", 0, (), Fraction(21, 20), is_number=True, part=1))
    assert isinstance(found.root, Filter) and found.root.comparisons == (rebound,)
    then = found.root.of
    assert isinstance(then, Next) and then.skip.keys == (Key(s, u),) and then.right == Part(2)
    length = Term("number", constant=Fraction(600_000_000), is_number=True)
    ten_minutes = Comparison(Term("duration", is_number=True), ">=", length)
    falls = then.left
    assert isinstance(falls, Filter) and falls.comparisons == (ten_minutes,)
    fold = falls.of
    assert isinstance(fold, Fold) and fold.skip.keys == (Key(s, t),) and (fold.left, fold.right) == (Part(0), Part(1))
    assert fold.conditions == (Comparison(q, "<", Term("last", 0, part=1, first=p)),)
    assert ast.blocks(query.source) == ast.blocks(query.steps or query.source)
    assert format_query(shown(query)).startswith("SELECT s AS company, p AS maxp, q AS minp, r AS finalp FROM stock")


def test_windows_and_conditions_of_a_step_are_told_apart() -> None:
    text = "A->a[./x->x] JOIN {a = b} B->b NEXT {x = lower(y) AND y = x AND x = 2 * y AND y > 3, 1 s..5 s, UNBOUNDED,"
    text += " 3 s, MAXWINDOW 9 s, c - b IN [1, 2]} C->c[./y->y]"
    step = steps_of(parse_query(text), text).root
    assert isinstance(step, Next)
    x, y = Term("variable", 0), Term("variable", 0, part=1)
    assert step.skip.keys == (Key(x, Term("variable", 0, ("lower",), part=1)), Key(x, y))
    assert (step.skip.least, step.skip.most, step.skip.duration) == (1_000_000, 3_000_000, 9_000_000)
    assert step.skip.between == (Between((1, 0), (0, 1), 1_000_000, 2_000_000),)
    assert len(step.skip.comparisons) == 2


def test_what_a_fold_keeps() -> None:
    text = "SELECT sum(q, p), count() AS c, n, m, p AS p FROM A[./p->p][./n->n] FOLD {p = q WHILE count() < 3 AND "
    text += "min(q) > 5, last(m, 1) + q AS m, n * q AS n, LONGEST, AT MOST 7} B[./q->q]"
    found = steps_of(parse_query(text), text)
    fold = found.root
    assert isinstance(fold, Fold) and fold.longest and fold.at_most == 7
    n, p, q = Term("variable", 0), Term("variable", 1), Term("variable", 0, part=1)
    assert fold.taken == (Taken("count", None, None), Taken("min", q, None), Taken("sum", q, p))
    one = Term("number", constant=Fraction(1), is_number=True)
    assert [each.name for each in fold.accumulators] == ["m", "n"]
    assert fold.accumulators[0].value == Computed("+", Term("accumulator", 0, first=one), q)
    assert fold.accumulators[1].value == Computed("*", Term("accumulator", 1, first=n), q)
    kinds = [(name, term.kind, term.place, term.first) for name, term in found.columns]
    assert kinds == [
        ("sum", "aggregate", 2, None),
        ("c", "aggregate", 0, None),
        ("n", "accumulator", 1, None),
        ("m", "accumulator", 0, None),
        ("p", "variable", 1, None),
    ]
    assert format_query(shown(parse_query(text))).startswith("xscl.answers[./sum->sum][./c->c]")


BAD = [
    ("A->x NEXT {¦z¦ = x} B->y NEXT {x = z} C->z", "UNBOUND_VARIABLE", "in a block joined so far"),
    ("A->x NEXT B->¦x¦", "DUPLICATE_VARIABLE", "bound twice"),
    ("A->x NEXT {¦w¦ = x} B->y", "UNBOUND_VARIABLE", "not bound in any block"),
    ("A->x FOLD {x = last(y, ¦y¦)} B->y", "UNBOUND_VARIABLE", "joined so far"),
    ("A->x FOLD {x = last(y, x)} B->y FILTER {¦last(y, x)¦ > 3}", "STEP", "in the braces of one"),
    ("A->x FOLD {x = y WHILE ¦last(y)¦ > 3} B->y", "STEP", "with a value for the first one"),
    ("A->x FOLD {x = y, ¦n¦ + 1 AS n} B->y", "STEP", "n has no value at the first iteration"),
    ("A->x FOLD {x = y, 1 AS n, 2 AS ¦n¦} B->y", "STEP", "two values have the name n"),
    ("A->x FOLD {x = y, 1 AS ¦y¦} B->y", "STEP", "y is a variable of what FOLD takes"),
    ("A->x FOLD {x = y} B->y NEXT {¦min(z)¦ > 4} B->z", "STEP", "none takes that"),
    ("A->x NEXT {¦x/b¦ = y} B->y", "STEP", "a path behind the variable x"),
    ("A->x NEXT {¦1 = 2¦} B->y", "STEP", "compares two constants"),
    ("A->x NEXT {¦ONCE¦} B->y", "STEP", "ONCE says nothing of a step"),
    ("A->x NEXT {¦0 s¦} B->y", "UNSATISFIABLE_WINDOW", "a step goes to what is later"),
    ("A->x NEXT B->y ¦WITHOUT {x = z}¦ C->z", "UNBOUNDED_ABSENCE", "could never be known"),
    ("A->x NEXT B->y WITHOUT {x = z, ¦1..2¦} C->z", "ABSENCE_LIMIT", "two ends"),
    ("A->x NEXT B->y WITHOUT {x = z, ¦ONCE¦} C->z", "ABSENCE_LIMIT", "ONCE says nothing"),
    ("A->x NEXT B->y NOT FOLLOWED BY {x = z, ¦BETWEEN¦} C->z", "ABSENCE_LIMIT", "belongs to WITHOUT"),
    ("A->x FILTER {DUR > 1} WITHOUT {x = z, ¦BETWEEN¦} C->z", "ABSENCE_LIMIT", "one document"),
    ("SELECT ¦z¦ FROM A->x NEXT B->y WITHOUT {x = z, 1} C->z", "NEGATED_VARIABLE", "no value behind it"),
    ("A->x NEXT B->y WITHOUT {x = z, 1} C->z WITHOUT {¦z¦ = u, 1} C->u", "NEGATED_VARIABLE", "no value behind it"),
    ("SELECT x, count() AS n FROM A->x ¦NEXT¦ B->y WINDOW 1 h GROUP BY x", "STEP_LIMIT", "WINDOW is over matches"),
    ("SELECT ¦lower(count())¦ AS n FROM A->x FOLD {1 h} B->y NEXT C", "OK", ""),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "condition", "message"), BAD)
def test_bad_steps(marked: str, condition: str, message: str) -> None:
    text = marked.replace("¦", "")
    if condition == "OK":
        assert steps_of(parse_query(text), text).has_values
        return
    with pytest.raises(QueryError) as caught:
        steps_of(parse_query(text), text)
    error = caught.value
    assert error.condition == f"XSCL_{condition}" and message in error.message
    assert error.hint and error.column == marked.index("¦") + 1


def test_steps_have_parts_and_show_the_blocks() -> None:
    compiled = compile_query(parse_query(REBOUND), REBOUND)
    assert len(compiled.stepped) == 3 and not compiled.is_made
    assert compiled.result_names[:3] == (None, None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A NEXT B STARTING ALL", "after the registration"),
        ("A NEXT (A FOLD {LONGEST} B)", "LONGEST to the right"),
    ],
)
def test_steps_do_not_do_all(text: str, message: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=message):
        compile_query(parse_query(text), text)
