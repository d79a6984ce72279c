"""Texts about absence: their canonical form, the queries that they are made of, and refusals with their places."""

from __future__ import annotations

import pytest

from xscl.base.errors import QueryError, XsclError
from xscl.language.compile import GUARDED, at_level, compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.forms import Preparer
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_level, format_query
from xscl.language.syntax.parser import parse_level, parse_query

BEHIND = "[1 us, UNBOUNDED]"


def compiled(text: str) -> CompiledQuery:
    return compile_query(parse_query(text), text)


@pytest.mark.parametrize(
    ("marked", "condition", "message", "hint"),
    [
        ("S->x ¦NOT FOLLOWED BY {x = y}¦ T->y", "UNBOUNDED_ABSENCE", "nothing ends the time in which T", "30 min"),
        ("SELECT ¦y¦ FROM S->x NOT FOLLOWED BY {x = y, 1 h} T->y", "NEGATED_VARIABLE", "the variable y", "before"),
        (
            "S->x WITHOUT {x = y, 1 h} T->y WITHOUT {¦y¦ = z, 1 h} U->z",
            "NEGATED_VARIABLE",
            "the variable y",
            "before WITHOUT",
        ),
        ("S->x NOT FOLLOWED BY {x = y, 1 h, ¦ONCE¦} T->y", "ABSENCE_LIMIT", "ONCE says nothing", "braces of a join"),
        ("S->x WITHOUT {x = y, ¦BETWEEN¦} T->y", "ABSENCE_LIMIT", "of one document", "window"),
        ("S->x WITHOUT {x = ¦z¦, 1 h} T->y", "UNBOUND_VARIABLE", "the variable z", "bind it"),
        ("S->x WITHOUT {x = y, ¦1 h..2 h¦} T->y", "SYNTAX", "a range of differences", "JOIN takes"),
    ],
)
def test_refusals(marked: str, condition: str, message: str, hint: str) -> None:
    before, inside, _ = marked.split("¦")
    with pytest.raises(QueryError) as refused:
        compiled(marked.replace("¦", ""))
    error = refused.value
    assert error.condition == f"XSCL_{condition}" and message in error.message and hint in (error.hint or "")
    assert error.span is not None
    assert (error.span.start, error.span.end) == (len(before), len(before + inside))


@pytest.mark.parametrize(
    ("text", "wanted", "forbidden"),
    [
        (
            "o/order/no->x not followed by {x = y, 30 min} p/payment/no->y",
            "SELECT x FROM o/order/no->x",
            ["SELECT x FROM o/order/no->x\n  FOLLOWED BY {x = y, 30 min}\np/payment/no->y"],
        ),
        (
            "SELECT x FROM A->x WITHOUT {a/k = b, y - x IN (-1, 2]} B->y[./k->b]",
            None,
            None,
        ),
        (
            "A JOIN {2 d} B WITHOUT {BETWEEN} C",
            "A\n  JOIN {2 d}\nB",
            [
                f"A->e1\n  JOIN {{2 d}}\nB->e2\n  JOIN {{e3 - {first} IN {BEHIND}, {last} - e3 IN {BEHIND}}}\nC->e3"
                for first, last in (("e1", "e2"), ("e2", "e1"))
            ],
        ),
    ],
)
def test_parts(text: str, wanted: str | None, forbidden: list[str] | None) -> None:
    tree = parse_query(text)
    assert parse_query(format_query(tree)) == tree
    if wanted is None or forbidden is None:
        with pytest.raises(QueryError, match="XSCL_UNBOUND_VARIABLE"):
            compiled(text)
        return
    absence = compiled(text).absence
    assert absence is not None
    assert absence.wanted.text == wanted
    assert [part.text for part in absence.forbidden] == forbidden


def test_groups_are_those_of_equal_questions() -> None:
    text = "S->x[./a->p] NOT FOLLOWED BY {p = q, 1 h} T->y[./b->q]"
    one = compiled(text)
    assert one.group.key == compiled(text.replace("p", "r")).group.key
    assert one.group.key != compiled(text.replace("1 h", "2 h")).group.key
    assert one.group.key != compiled("S->x[./a->p]").group.key
    assert one.read == {"S", "T"}


def test_queries_that_differ_in_constants_have_parts_that_differ_in_guards() -> None:
    text = "S->x[./a = 1][./b->p] NOT FOLLOWED BY {p = q, 1 h} T->y[./c->q]"
    preparer = Preparer()
    found = [(compiled(each), preparer.prepare_text(each).compiled) for each in (text, text.replace("1]", "2]"))]
    for one, prepared in found:
        assert one.absence is not None and prepared.absence is not None
        assert one.group == prepared.group
        assert [part.text for part in one.absence.parts] == [part.text for part in prepared.absence.parts]
        for part in one.absence.parts:
            assert part.compiled.group.guards
            again = (
                compile_query(parse_query(part.text), part.text, guarded=part.text.startswith(GUARDED)),
                preparer.prepare_text(part.text).compiled,
            )
            assert {part.compiled.group.key} == {each.group.key for each in again}
    (one, _), (other, _) = found
    assert one.absence is not None and other.absence is not None
    for mine, theirs in zip(one.absence.parts, other.absence.parts, strict=True):
        assert mine.compiled.group.key != theirs.compiled.group.key
        assert mine.compiled.group.instance == theirs.compiled.group.instance
    assert one.group.instance == other.group.instance
    # What is asked outright has rows of its own documents alone.
    assert not compiled("S->x[./a = 1][./b->p]").group.guards


def test_levels_and_changes_make_groups_of_their_own() -> None:
    text = "S->x[./a->p] NOT FOLLOWED BY {p = q, 1 h} T->y[./b->q]"
    between = ("BLOCKING 1 s MEMORY 2 s", "BLOCKING 1 s MEMORY 1 s", "BLOCKING 0 MEMORY 1")
    levels = [compiled(f"{text} CONSISTENCY {level}") for level in ("STRONG", "MIDDLE", "WEAK", *between)]
    assert len({one.group.key for one in [compiled(text), *levels]}) == 7
    assert compiled(f"{text} CONSISTENCY BLOCKING 0 MEMORY 0 s").group.key == levels[2].group.key
    assert at_level(compiled(text), ast.MIDDLE).group.key == levels[1].group.key
    assert at_level(levels[0], ast.MIDDLE) is levels[0]
    plain = "S->x[./a = 1]"
    assert compiled(f"{plain} ON CHANGE KEEP").group.key == compiled(plain).group.key
    retracting = compiled(f"{plain} ON CHANGE RETRACT")
    assert retracting.group.key != compiled(plain).group.key
    assert retracting.absence is not None
    assert retracting.absence.wanted.compiled.group.key == compiled(plain).group.key
    preparer = Preparer()
    correcting = compiled(f"{text} ON CHANGE RETRACT")
    assert correcting.follows_removals and correcting.absence is not None
    keys = [[part.compiled.group.key for part in one.parts] for one in (correcting, compiled(text))]
    assert keys[0] == keys[1]
    middle = compiled(f"{text} CONSISTENCY MIDDLE ON CHANGE RETRACT")
    assert len({one.group.key for one in (compiled(text), correcting, middle, levels[1])}) == 4
    negated = " NOT FOLLOWED BY {1 h} T"
    for number in (1, 2, 3):
        for end in ("", " ON CHANGE RETRACT", negated, f"{negated} ON CHANGE RETRACT"):
            one = f"S->x[./a = {number}]{end}"
            assert preparer.prepare_text(one).compiled.group.key == compiled(one).group.key


@pytest.mark.parametrize(
    "text",
    [
        "S->x NOT FOLLOWED BY {1 h} T PUBLISH c ON CHANGE RETRACT",
        "S->x NOT FOLLOWED BY {1 h} T STARTING ALL ON CHANGE RETRACT",
        "S STARTING ALL ON CHANGE RETRACT",
        "S ON CHANGE FORGET",
        "S CONSISTENCY OFTEN",
        "S CONSISTENCY BLOCKING 1 s",
        "S CONSISTENCY BLOCKING -1 s MEMORY 1 s",
        "S CONSISTENCY BLOCKING 1 s MEMORY -1 s",
        "S CONSISTENCY BLOCKING 1 parsec MEMORY 2 parsec",
    ],
)
def test_what_changes_cannot_take_back(text: str) -> None:
    with pytest.raises(XsclError, match="XSCL_RETRACT_LIMIT" if text.endswith("RETRACT") else "XSCL_SYNTAX"):
        compiled(text)


@pytest.mark.parametrize(
    "written, read",
    [
        ("strong", "STRONG"),
        ("BLOCKING 60 s MEMORY 60 min", "BLOCKING 1 min MEMORY 1 h"),
        ("BLOCKING 'PT1S' MEMORY 1 ON CHANGE KEEP", "BLOCKING 1 s MEMORY 1 s"),
        ("BLOCKING 0 MEMORY 1", "BLOCKING 0 s MEMORY 1 s"),
        ("blocking 0 memory 0", "WEAK"),
    ],
)
def test_levels_as_they_are_kept(written: str, read: str) -> None:
    level = parse_query(f"S CONSISTENCY {written}").level
    assert level is not None and format_level(level) == read
    assert parse_level(read) == level


def test_an_answer_does_not_wait_longer_than_its_query_remembers() -> None:
    text = "S->x NOT FOLLOWED BY {1 h} T CONSISTENCY BLOCKING 2 min MEMORY 1 min"
    with pytest.raises(QueryError, match=r"XSCL_BAD_LEVEL.*2 min.*1 min") as refused:
        compiled(text)
    assert refused.value.span is not None
    assert text[refused.value.span.start : refused.value.span.end] == "BLOCKING 2 min MEMORY 1 min"


def joined(count: int, rest: str) -> str:
    blocks = (f"JOIN {{a1 = a{n}, 1 d}} S->x{n}[./k->a{n}]" for n in range(2, count + 1))
    return " ".join(["S->x1[./k->a1]", *blocks, rest])


def test_a_query_is_made_of_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    absence = compiled(joined(4, "WITHOUT {BETWEEN} T")).absence
    assert absence is not None and len(absence.forbidden) == 12
    chain = joined(8, "WITHOUT {BETWEEN} T").replace("JOIN", "FOLLOWED BY")
    assert len(compiled(chain).absence.forbidden) == 1  # type: ignore[union-attr]
    many = joined(2, " ".join(["WITHOUT {BETWEEN} T"] * 9))
    monkeypatch.setattr("xscl.language.compile.format_query", None)  # nothing is compiled
    for text, start in ((joined(5, "WITHOUT {BETWEEN} T"), None), (many, many.rindex("WITHOUT"))):
        with pytest.raises(QueryError, match="XSCL_ABSENCE_LIMIT.*more than 16 queries") as refused:
            compiled(text)
        assert "FOLLOWED BY" in (refused.value.hint or "") and refused.value.span is not None
        assert start is None or refused.value.span.start == start


def test_cases_of_all_parts_count_together() -> None:
    compiled(joined(6, "WITHOUT {a1 = b, 1 h} T[./k->b]"))
    with pytest.raises(QueryError, match="XSCL_TOO_MANY_CASES.*together"):
        compiled(joined(8, "WITHOUT {a1 = b, 1 h} T[./k->b] WITHOUT {a1 = c, 1 h} T[./k->c]"))


def test_a_query_costs_what_its_parts_do() -> None:
    found = compiled("S[./k->a] FOLLOWED BY {a = b, 1 d} S[./k->b] WITHOUT {a = c, BETWEEN} T[./k->c]")
    assert compiled("S[./k->a] FOLLOWED BY {a = b, 1 d} S[./k->b]").cost == found.template.cost == 3
    assert found.cost == 3 + 5
