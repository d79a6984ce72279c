"""Forms of texts: what is the same query, what only looks like it."""

from __future__ import annotations

import json

import pytest
from preparing import Both
from strategies import NAMESPACES

from xscl.base.errors import QueryError
from xscl.language import forms as prepared
from xscl.language.facts import ChannelFacts
from xscl.language.forms import Prepared, Preparer
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.tokens import tokenize

JOIN = "S//a->x JOIN {x = y, 1 h} T//b->y"
BOOKS = "S//r[./a->x][./b->y] FOLLOWED BY {x = u AND y = v, 7 days} T//r[./a->u][./b->v]"


def prepare(preparer: Preparer, text: str) -> Prepared:
    return preparer.prepare(text, tokenize(text)[:-1], lambda: (parse_query(text), text))


def unparsed(preparer: Preparer, text: str) -> Prepared:
    def parse() -> tuple[object, str]:
        raise AssertionError("parsed")

    return preparer.prepare(text, tokenize(text)[:-1], parse)  # type: ignore[arg-type]


# -- the same query ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        BOOKS,
        BOOKS.replace("x", "book").replace("u", "blog"),
        BOOKS.replace("x", "y'").replace("v", "x"),
        "S//r[./b->y][./a->x] FOLLOWED BY {x = u AND y = v, 7 days} T//r[./b->v][./a->u]",
        "S//r[./a->x][./b->y] FOLLOWED BY {y = v and x = u, 7 days} T//r[./b->v][./a->u]",
        BOOKS.replace(" ", "\n (: a comment :) ") + " -- another",
        BOOKS.replace("u", "unit").replace("v", "été"),
    ],
)
def test_forms_are_not_parsed_again(text: str) -> None:
    preparer = Preparer()
    first = prepare(preparer, BOOKS)
    again = unparsed(preparer, text)
    assert again.compiled is first.compiled
    assert Both().check(text) is not None
    both = Both()
    both.check(BOOKS)
    both.check(text)
    assert both.known == 1


@pytest.mark.parametrize(
    "window", ["8 days", "1 w", "'P7D'", "0 s..UNBOUNDED", "MAXWINDOW 3 s, 7 days", "v - x IN [1, 2]"]
)
def test_windows_alone_are_compiled_for_a_form(window: str) -> None:
    both = Both()
    for text in (BOOKS, BOOKS.replace("7 days", window), BOOKS.replace("7 days", window).replace("x", "z")):
        both.check(text)
    assert both.known == 2


def test_names_are_those_of_each_text() -> None:
    preparer = Preparer()
    prepare(preparer, "S//r->p[./a->x][./b->y] JOIN {x = u AND y = v} T//s->q[./a->u][./b->v]")
    other = unparsed(preparer, "S//r->one[./b->y'][./a->é] JOIN {é = k AND y' = z} T//s->two[./b->z][./a->k]")
    names = json.loads(other.names)
    assert names["results"] == ["one", "two"]
    assert sorted(names["meta"]) == sorted(["one", "two", "é", "k", "z", "y'"])
    assert set(names["joined"]) == {"é", "k", "y'", "z"}


@pytest.mark.parametrize("bound", ["_MOST_TEXTS", "_MOST_COMPILED"])
def test_everything_is_forgotten_now_and_then(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, bound, 3)
    both = Both()
    for _ in range(3):
        for text in (JOIN, JOIN.replace("1 h", "2 h"), BOOKS, "S//a->x", "S//b->x", "S//c->x"):
            both.check(text)
    assert 0 < both.known < 15


# -- what only looks the same ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts",
    [
        # A number is no variable of that number.
        [JOIN, JOIN.replace("x = y", "x = 1"), JOIN.replace("x = y", "0 = y"), JOIN.replace("x = y", "0 = 1")],
        [JOIN.replace("x = y", "x = y AND x > 1"), JOIN.replace("x = y", "x = y AND x > y")],
        [JOIN.replace("x = y", "x = 2 * y"), JOIN.replace("x = y", "x = 1 * y"), JOIN.replace("x = y", "x = y * y")],
        # A string is not what it says.
        [JOIN.replace("x = y", "x = y AND x = 'a + 1'"), JOIN.replace("x = y", "x = y AND x = 'a' + 1")],
        [JOIN.replace("x = y", "x = y AND x = 'y'"), JOIN.replace("x = y", "x = y AND x = y")],
        ["S//a[. = 'x']->x", "S//a->x[. = 'x']", "S//a->x[. = x]", "S//a->x[. = '->']", "S//a->x[. = '''x']"],
        ["S//a[. = '1']", "S//a[. = 1]", "S//a[. = '''1']", 'S//a[. = "1"]', "S//a[. = '\"1\"']"],
        [JOIN.replace("1 h", "'PT1H'"), JOIN.replace("1 h", "PT1H"), JOIN.replace("1 h", "'1 h'")],
        # Commas, braces and words where none belong.
        [JOIN, JOIN.replace(", 1 h", ","), JOIN.replace(", 1 h", ""), JOIN.replace(", 1 h", ", , 1 h")],
        [JOIN, JOIN.replace("x = y, 1 h", "1 h, x = y"), JOIN.replace("x = y, 1 h", ", x = y, 1 h")],
        [
            JOIN,
            JOIN.replace("1 h", "1 h,"),
            JOIN.replace("1 h", "1 x"),
            JOIN.replace("1 h", "h"),
            JOIN.replace("h", ""),
        ],
        [
            JOIN,
            JOIN.replace("x = y", "x = y AND"),
            JOIN.replace("x = y", "AND x = y"),
            JOIN.replace("x = y", "x = AND y"),
        ],
        [JOIN, JOIN.replace("x = y", "x = y and and x = y"), JOIN.replace("x = y", "x = y OR x = y")],
        [JOIN.replace("x = y", "(x) = (y)"), JOIN.replace("x = y", "(x = y)"), JOIN.replace("x = y", "(x = (y)")],
        [
            JOIN,
            JOIN.replace("{", "{{"),
            JOIN.replace("}", "}}"),
            JOIN.replace("}", ""),
            JOIN.replace("{", ""),
            JOIN + "}",
        ],
        [JOIN, JOIN + " JOIN {", JOIN + " JOIN {1 h", JOIN + " JOIN", JOIN + " U", JOIN + " JOIN {1 h}", "(" + JOIN],
        [BOOKS, BOOKS.replace("[./b->y]", "[./b->y"), BOOKS.replace("[./b->y]", "./b->y]"), BOOKS.replace("]", "")],
        [BOOKS, BOOKS.replace("[./b->y]", "[./b->y]]"), BOOKS.replace("./a->x", "[./a->x]"), BOOKS + "[", BOOKS + "]"],
        [
            BOOKS,
            BOOKS.replace("[./a->x][./b->y]", "[./a->x[./b->y]]"),
            BOOKS.replace("[./a->x][./b->y]", "[./a->x]/b->y"),
        ],
        [BOOKS, BOOKS.replace("][./b->y", " and ./b->y"), BOOKS.replace("][./b->y", " or ./b->y")],
        # Names of variables that are also something else.
        [
            JOIN,
            "S//a->a JOIN {a = y, 1 h} T//b->y",
            "S//x->x JOIN {x = y, 1 h} T//b->y",
            "x//a->x JOIN {x = y} y//b->y",
        ],
        [JOIN, JOIN.replace("x", "join"), JOIN.replace("x", "and"), JOIN.replace("x", "once"), JOIN.replace("x", "h")],
        [
            JOIN.replace("x", name)
            for name in ("unbounded", "maxwindow", "in", "As", "select", "publish", "not", "text")
        ],
        [
            JOIN.replace("x = y", f"lower({name}) = y").replace("->x", f"->{name}")
            for name in ("x", "lower", "Lower", "y")
        ],
        [JOIN.replace("->x", "->" + name).replace("x = y", f"{name}/b = y") for name in ("x", "b", "y", "z")],
        [JOIN, JOIN.replace("->x", " AS x"), JOIN.replace("->y", " as y"), "S AS x JOIN {x = y, 1 h} T->y", "S->AS"],
        [JOIN, JOIN.replace("x = y", "x = z"), JOIN.replace("->y", "->x"), JOIN.replace("x = y", "y = x")],
        [JOIN, JOIN.replace("x = y", "x -> y"), JOIN.replace("x = y", "x = y->z"), JOIN.replace("x = y", "x' = y")],
        [JOIN.replace("->x", "[b->z]->x"), JOIN.replace("->x", "->x[b->z]"), JOIN.replace("->x", "->x[z->b]")],
        # Steps after variables, divisions, prefixes.
        [JOIN.replace("x = y", text) for text in ("x/b = y", "x/c = y", "z/b = y", "x/y = y", "x//b = y", "x/@y = y")],
        [
            JOIN.replace("x = y", text)
            for text in ("x/2 = y", "x/3 = y", "x/b/2 = y", "x/(2) = y", "x/-2 = y", "x/0 = y")
        ],
        [
            JOIN.replace("x = y", f"x = y AND x/{step} = 'k'")
            for step in ("b", "c", "n:b", "q:b", "*:b", "n:*", "x:y", "y:x")
        ],
        ["S//n:a->x", "S//a:n->x", "S//n:a->a", "S//n:a->n", "S//*:a->x", "S//n:*->x", "S//@n:a->x", "S//q:a->x"],
        [JOIN.replace("x = y", f"x = y AND x[. = {k}] = 1") for k in ("1", "'1'")],
        [JOIN.replace("x = y", f"x/b[{p}] = y") for p in ("./c = 1", "./c and ./d", "./d and ./c", "c, d", "y")],
        # SELECT, constructors and the clauses behind.
        [
            JOIN,
            "SELECT x FROM " + JOIN,
            "SELECT y FROM " + JOIN,
            "SELECT * FROM " + JOIN,
            "select//a->x JOIN {x=y} T->y",
        ],
        [
            "SELECT <e>{x}</e> FROM " + JOIN,
            "SELECT <e>{y}</e> FROM " + JOIN,
            "SELECT <e>{z}</e> FROM " + JOIN,
            "SELECT <",
        ],
        [
            JOIN,
            JOIN + " PUBLISH p",
            JOIN + " PUBLISH q",
            JOIN + " STARTING ALL",
            JOIN + " STARTING NOW",
            JOIN + "->publish",
        ],
        # Kinds of joins.
        [JOIN, JOIN.replace("JOIN", "FOLLOWED BY"), JOIN.replace("JOIN", "join"), JOIN.replace("JOIN", "FOLLOWED")],
        [
            JOIN.replace("1 h", window)
            for window in ("1 h", "ONCE", "1 h, ONCE", "ONCE, 1 h", "1 h..2 h", "2 h..1 h", "0")
        ],
        [JOIN.replace("x = y", text) for text in ("x = y", "x != y", "x < y", "y > x", "lower(x) = y", "x = lower(y)")],
        # What ties the blocks are their windows.
        [
            JOIN.replace("x = y, 1 h", window)
            for window in ("1 h", "2 h", "", "UNBOUNDED", "x = 1, 1 h", "x = 1", "ONCE")
        ],
        [
            f"S//a JOIN {{{window}}} T//b"
            for window in ("1 h", "2 h", "", "UNBOUNDED", "1 h, 2 h", "MAXWINDOW 3 s", "-1 h")
        ],
        # Things that are no tokens.
        [
            JOIN,
            JOIN.replace("y,", "'y,"),
            JOIN + " (: open",
            JOIN + "'",
            JOIN + "\0",
            JOIN.replace("=", "~"),
        ],
        [
            "S",
            "S ",
            "(S)",
            "((S))",
            "S->x",
            "S->y",
            "(S->x",
            "S)",
            ")",
            "(",
            "{",
            "}",
            "[",
            "]",
            "->",
            "x",
            ",",
            "=",
            "",
        ],
    ],
)
def test_nothing_gets_the_answer_of_another(texts: list[str]) -> None:
    for order in (texts, texts[::-1]):
        both = Both()
        for text in [*order, *order]:
            both.check(text)


@pytest.mark.parametrize("right", ["T//b->y", "T//c->y", "(T//b->y)"])
def test_three_blocks(right: str) -> None:
    text = "S//a->x JOIN {x = y, %s} " + right + " FOLLOWED BY {y = z AND x = z, %s} T//d->z"
    both = Both()
    for windows in (
        ("1 h", "1 h"),
        ("1 h", "2 h"),
        ("2 h", "1 h"),
        ("1 s", "1 h, x - y IN [2 s, 3 s]"),
        ("", "1 s..0 s"),
    ):
        both.check(text % windows)
        both.check(text.replace("y = z AND x = z", "x = z AND y = z") % windows)
        both.check(text.replace("x", "p") % windows)
    # Windows are part of their forms, as they decide which blocks are tied to which.
    assert both.known == 6


def test_atoms_of_one_operator_are_not_those_of_another() -> None:
    text = "S//a->x JOIN {%s} T//b->y JOIN {%s} U//c->z"
    atoms = ["x = y", "y = z", "x = z", "x = y AND y = z", "x = y AND x = z", "y = z AND x = y", "1 h", ""]
    both = Both()
    for first in atoms:
        for second in atoms:
            both.check(text % (first, second))


# -- constants -----------------------------------------------------------------------------------------------------

UNPAID = "orders[./shop = %s][./no->x][./sum > %s] NOT FOLLOWED BY {x = y, 30 min} payments[./no->y]"
ABSENT = "S//a->x[./k = %s] JOIN {x = y, 1 h} T//b->y[./n > %s] WITHOUT {x = z, %s} U//c->z[./k = %s or ./k = %s]"
CONSTANTS = ("'one'", "'it''s'", '"said"', "7", "2.50", "7000000001", "'qz0zq'", "'2026-01-01'")


@pytest.mark.parametrize("kind", [None, "rows", "xml"])
@pytest.mark.parametrize(
    "text",
    [
        UNPAID,
        UNPAID + " CONSISTENCY MIDDLE",
        "SELECT x FROM " + UNPAID,
        ABSENT.replace("WITHOUT {x = z, %s}", "WITHOUT {x = z, x - z IN [1 s, 5 min]}"),
        ABSENT.replace("{x = z, %s}", "{x = z, BETWEEN}"),
        "orders[./shop = %s][./no->x][./sum > %s]",
    ],
)
def test_texts_that_differ_in_constants_are_not_parsed(text: str, kind: str | None) -> None:
    channels = {name: ChannelFacts(kind=kind) for name in ("orders", "payments", "S", "T", "U")}
    both = Both(channels)
    many = text.count("%s")
    told = [tuple(CONSTANTS[(first + place) % len(CONSTANTS)] for place in range(many)) for first in range(8)]
    # Texts and numbers are told apart by the words of a text, and so are these.
    for constants in [
        *told,
        ("'one'", "5", "'a'", "'b'"),
        ("'qz1zq'", "6", "'c'", "'d'"),
        ("'z'", "8", "'e'", "'f'"),
        ("'u'", "9", "'g'", "'h'"),
    ]:
        both.check(text % constants[:many])
    assert both.refused == 0
    if "SELECT" not in text:
        assert both.preparer.filled >= 2


def test_variables_may_have_names_of_elements() -> None:
    both = Both()
    for first, second in [("p", "q"), ("r", "p"), ("a", "b"), ("p", "r")]:
        both.check(f"S//r[./p->{first}] JOIN {{{first} = {second}, 1 h}} T//r[./p->{second}]")
    assert both.known == 3


def test_constants_are_told_from_what_only_looks_like_them() -> None:
    both = Both()
    rest = "[./b->x] JOIN {{x = y, 1 h}} T//r[./n > {1}][./b->y]"
    alike = [
        "[./k = '{0}']",
        "[./k = '-- {0}'][./l = '{0} :)']",
        "[./k->u'][./l = '{0}']",
        "[./k->u''][./l = '''{0}''']",
        '[./k = 1{0}.{0}][./l = {0}1 or ./l = "{0}"]',
    ]
    others = ["[./k-{0} = '{0}']", "[./k{0} = '1']", "[./k = '{0}' (: it's :)]", "[./k = '(: {0}'] (: '1' :)"]
    for bracket in (*alike, *others):
        before = both.preparer.filled
        for number in range(1, 5):
            both.check(f"S//r{bracket}{rest}".format(number, 9 - number))
        # Names with other digits are other texts, and so are those with comments.
        assert both.preparer.filled - before == (3 if bracket in alike else 0), bracket
    assert both.refused == 0


# -- refusals ------------------------------------------------------------------------------------------------------


def test_windows_that_nothing_satisfies_speak_of_their_own_text() -> None:
    preparer = Preparer()
    prepare(preparer, BOOKS)
    text = "S//r[./b->title][./a->author]\nFOLLOWED BY {author = a AND title = t,\n 3 s..2 s} T//r[./a->a][./b->t]"
    with pytest.raises(QueryError) as caught:
        prepare(preparer, text)
    assert caught.value.condition == "XSCL_UNSATISFIABLE_WINDOW"
    assert (caught.value.line, caught.value.column) == (3, 2)
    assert "title → a → title" in caught.value.message
    both = Both()
    both.check(BOOKS)
    assert both.check(text) is None


@pytest.mark.parametrize(
    "window",
    [
        "z - x IN [0 s, 1 s]",
        "x - y IN [0 s, 1 s]",
        "u - v IN [0 s, 1 s]",
        "x-u IN [0 s, 1 s]",
        "ONCE",
        "1 h..2 x",
        "1 lightyear",
    ],
)
def test_other_bad_windows_of_a_known_form(window: str) -> None:
    both = Both()
    both.check(BOOKS)
    both.check("S//r[./a->x][./b->y] FOLLOWED BY {x = u AND y = v AND x/c = 'k', 7 days} T//r[./a->u][./b->v]")
    for text in (BOOKS, BOOKS.replace("AND", "AND x/c = 'k' AND")):
        assert both.check(text.replace("7 days", window)) is None
        assert both.check(text.replace("7 days", window).replace("y", "w")) is None


def test_namespaces_are_those_of_the_preparer() -> None:
    text = "S//n:a->x"
    here, there = Preparer(NAMESPACES), Preparer({"n": "urn:other"})
    assert prepare(here, text).compiled.group != prepare(there, text).compiled.group
    with pytest.raises(QueryError):
        prepare(Preparer(), text)
