"""Each rule of the language and each refusal, with its place."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest

from xscl.base.errors import QueryError, QuerySyntaxError, UnsupportedFeatureError
from xscl.language.compile import compile_query
from xscl.language.syntax import ast
from xscl.language.syntax.ast import (
    And,
    Atom,
    Binding,
    Block,
    Call,
    FunctionOperand,
    Join,
    Linear,
    Literal_,
    Not,
    Or,
    RelativeWindow,
    RelPath,
    Step,
    StringOperand,
    Truth,
    VarPath,
    Window,
)
from xscl.language.syntax.ast import Test as NodeTest
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.statements import parse_script

SECOND = 1_000_000
DAY = 86_400 * SECOND


def block(text: str) -> Block:
    source = parse_query(text).source
    assert isinstance(source, Block)
    return source


def join(text: str) -> Join:
    source = parse_query(text).source
    assert isinstance(source, Join)
    return source


def bracket(text: str) -> ast.Predicate:
    (predicate,) = block(f"S[{text}]").predicates
    return predicate


def atom(text: str) -> Atom:
    (found,) = join(f"S JOIN {{{text}}} T").atoms
    return found


def windows(text: str) -> tuple[Window | RelativeWindow, ...]:
    return join(f"S FOLLOWED BY {{{text}}} T").windows


def element(name: str, axis: str = "child", binding: str | None = None, *predicates: ast.Predicate) -> Step:
    test = NodeTest("element", None, name)
    return Step(axis, test, Binding(binding) if binding else None, predicates)  # type: ignore[arg-type]


A = RelPath((element("a"),))
B = RelPath((element("b"),))
ONE = Literal_("1", True)
X = Linear(VarPath("x"))


# -- the queries of the thesis -----------------------------------------------------------------------------


def test_first_query_of_the_thesis() -> None:
    found = join(
        "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 7 days} "
        "S//blog->x4[./author->x5][./title->x6]"
    )

    def side(root: str, names: tuple[str, str, str]) -> Block:
        leaves = [
            Truth(RelPath((element(n, "child", v),))) for n, v in zip(("author", "title"), names[1:], strict=True)
        ]
        return Block("S", steps=(element(root, "descendant", names[0], *leaves),))

    assert found == Join(
        "followed by",
        side("book", ("x1", "x2", "x3")),
        side("blog", ("x4", "x5", "x6")),
        (
            Atom(Linear(VarPath("x2")), "=", Linear(VarPath("x5"))),
            Atom(Linear(VarPath("x3")), "=", Linear(VarPath("x6"))),
        ),
        (Window("within", None, 7 * DAY),),
    )


def test_primes_of_the_thesis() -> None:
    found = join(
        "S//blog->x4[./author->x5][./title->x6] FOLLOWED BY {x5=x5' AND x6=x6', 1 day} "
        "S//blog->x4'[./author->x5'][./title->x6']"
    )
    assert [atom.right for atom in found.atoms] == [Linear(VarPath("x5'")), Linear(VarPath("x6'"))]


def test_select_everything_is_the_query_itself() -> None:
    assert parse_query("SELECT * FROM blog") == parse_query("blog")
    assert block("S//blog//title").steps == (element("blog", "descendant"), element("title", "descendant"))


# -- queries -----------------------------------------------------------------------------------------------


def test_the_parts_of_a_query() -> None:
    query = parse_query("select x1, x4/@href, x1//b as c From S->x1 publish out starting All ;")
    assert query.publish == "out"
    assert query.starting == "ALL"
    assert isinstance(query.select, tuple)
    assert [item.path.name for item in query.select] == ["x1", "x4", "x1"]
    assert query.select[1].path.steps == (Step("child", NodeTest("attribute", None, "href")),)


@pytest.mark.parametrize(
    ("text", "starting"),
    [
        ("S", "NOW"),
        ("S STARTING now", "NOW"),
        ("S STARTING '2026-06-01T00:00:00Z'", "2026-06-01T00:00:00Z"),
        ('S PUBLISH a STARTING "2026-06-01T00:00:00+02:00"', "2026-06-01T00:00:00+02:00"),
    ],
)
def test_starting(text: str, starting: str) -> None:
    assert parse_query(text).starting == starting


def test_an_item_of_select_can_be_renamed() -> None:
    assert parse_query("SELECT x AS y FROM S->x").select == (ast.SelectItem(VarPath("x"), "y"),)


def test_keywords_are_not_reserved() -> None:
    found = join("join//from->as FOLLOWED BY {as = by, 1 s} followed[by->by]")
    assert [b.channel for b in ast.blocks(found)] == ["join", "followed"]
    assert block("select//a").channel == "select"
    assert block("select->x").channel == "select"
    assert block("S[and and or or not]").predicates == (
        Or(
            (
                And((Truth(RelPath((element("and"),))), Truth(RelPath((element("or"),))))),
                Truth(RelPath((element("not"),))),
            )
        ),
    )
    assert parse_query("publish PUBLISH publish STARTING now").publish == "publish"


def test_joins_associate_to_the_left_and_parentheses_group() -> None:
    left = join("A JOIN {1 s} B FOLLOWED BY {2 s} C")
    assert isinstance(left.left, Join)
    assert (left.op, left.left.op) == ("followed by", "join")
    right = join("A JOIN {1 s} (B FOLLOWED BY {2 s} C)")
    assert isinstance(right.right, Join)
    assert [b.channel for b in ast.blocks(right)] == ["A", "B", "C"]
    assert parse_query("((S))") == parse_query("S")


# -- paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("a", NodeTest("element", None, "a")),
        ("n:a", NodeTest("element", "n", "a")),
        ("n:*", NodeTest("element", "n", "*")),
        ("*:a", NodeTest("element", "*", "a")),
        ("*", NodeTest("element", None, "*")),
        ("@a", NodeTest("attribute", None, "a")),
        ("@n:a", NodeTest("attribute", "n", "a")),
        ("@*", NodeTest("attribute", None, "*")),
        ("text()", NodeTest("text", None, "")),
        ("text", NodeTest("element", None, "text")),
        ("news-item.v2", NodeTest("element", None, "news-item.v2")),
    ],
)
def test_node_tests(text: str, test: NodeTest) -> None:
    assert block(f"S/{text}").steps == (Step("child", test),)
    assert block(f"S//{text}->v").steps == (Step("descendant", test, Binding("v")),)
    assert bracket(text) == Truth(RelPath((Step("child", test),)))


def test_bindings_and_brackets_of_a_block() -> None:
    found = block("S AS r[a][./b]/c->v''[.//d]")
    assert found.binding == Binding("r")
    assert found.predicates == (Truth(A), Truth(RelPath((element("b"),))))
    inner = Truth(RelPath((element("d", "descendant"),)))
    assert found.steps == (element("c", "child", "v''", inner),)


@pytest.mark.parametrize(
    "text", ["S//a[.//b->x]", " S // a [ . // b -> x ] ", "S(: c :)//a[.//b AS x]", "S//a -- c\n[.//b as x]"]
)
def test_space_and_comments_mean_nothing(text: str) -> None:
    assert parse_query(text) == parse_query("S//a[.//b->x]")


# -- brackets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        (".", Truth(RelPath(()))),
        (". = 'it''s'", Truth(RelPath(()), "=", Literal_("it's", False))),
        ("a != -1.50", Truth(A, "!=", Literal_("-1.50", True))),
        ("./a >= 2", Truth(A, ">=", Literal_("2", True))),
        ("a/b", Truth(RelPath((element("a"), element("b"))))),
        ("a->v[b]/c < 1", Truth(RelPath((element("a", "child", "v", Truth(B)), element("c"))), "<", ONE)),
        ("not(a)", Not(Truth(A))),
        ("(a)", Truth(A)),
        ("a or a and a", Or((Truth(A), And((Truth(A), Truth(A)))))),
        ("(a or a) and a", And((Or((Truth(A), Truth(A))), Truth(A)))),
        ("not(a or a)", Not(Or((Truth(A), Truth(A))))),
        ("contains(., 'x')", Truth(Call("contains", (RelPath(()), Literal_("x", False))))),
        ("starts-with(a, -1)", Truth(Call("starts-with", (A, Literal_("-1", True))))),
        ("normalize-space() = 'x'", Truth(Call("normalize-space", ()), "=", Literal_("x", False))),
        ("string-length(lower(a)) > 3", Truth(Call("string-length", (Call("lower", (A,)),)), ">", Literal_("3", True))),
        ("count(a) = 2", Truth(Call("count", (A,)), "=", Literal_("2", True))),
        ("lower(text())", Truth(Call("lower", (RelPath((Step("child", NodeTest("text", None, "")),)),)))),
    ],
)  # fmt: skip
def test_brackets(text: str, predicate: ast.Predicate) -> None:
    assert bracket(text) == predicate


# -- atoms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("x", X),
        ("x/a", Linear(VarPath("x", (element("a"),)))),
        ("x//a[b]", Linear(VarPath("x", (element("a", "descendant", None, Truth(RelPath((element("b"),)))),)))),
        ("1.02 * x", Linear(VarPath("x"), Fraction(51, 50))),
        ("x * 2 / 4", Linear(VarPath("x"), Fraction(1, 2))),
        ("x/2", Linear(VarPath("x"), Fraction(1, 2))),
        ("2*(x + 1) - 3", Linear(VarPath("x"), Fraction(2), Fraction(-1))),
        ("5 - x", Linear(VarPath("x"), Fraction(-1), Fraction(5))),
        ("-x - -1", Linear(VarPath("x"), Fraction(-1), Fraction(1))),
        ("-(2 + x)", Linear(VarPath("x"), Fraction(-1), Fraction(-2))),
        ("7", Linear(None, Fraction(1), Fraction(7))),
        ("'s'", StringOperand("s")),
        ("lower(x)", FunctionOperand("lower", X)),
        ("host(url('s'))", FunctionOperand("host", FunctionOperand("url", StringOperand("s")))),
        ("normalize-space(x/a)", FunctionOperand("normalize-space", Linear(VarPath("x", (element("a"),))))),
        ("once", Linear(VarPath("once"))),
        ("unbounded", Linear(VarPath("unbounded"))),
        ("maxwindow", Linear(VarPath("maxwindow"))),
        ("lower", Linear(VarPath("lower"))),
    ],
)
def test_operands(text: str, operand: ast.Operand) -> None:
    assert atom(f"{text} = y").left == operand
    assert atom(f"y <= {text}").right == operand


@pytest.mark.parametrize(
    ("text", "number"), [("1 + 2 * 3", 7), ("7 / 2", Fraction(7, 2)), ("-(1 - 2)", 1), ("1/3 * 3", 1), ("- -2", 2)]
)
def test_constants(text: str, number: int | Fraction) -> None:
    operand = atom(f"{text} = y").left
    assert isinstance(operand, Linear)
    assert (operand.path, operand.constant) == (None, number)


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons(op: str) -> None:
    assert atom(f"x{op}y").op == op


def test_atoms_come_before_windows() -> None:
    found = join("S JOIN {x = y AND 1 < x AND 'PT1S' = y, 'PT1S', ONCE} T")
    assert [atom.op for atom in found.atoms] == ["=", "<", "="]
    assert found.windows == (Window("within", None, SECOND), Window("once"))
    assert join("S JOIN {} T").atoms == ()


# -- windows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("7 days", Window("within", None, 7 * DAY)),
        ("7DAYS", Window("within", None, 7 * DAY)),
        ("90", Window("within", None, 90 * SECOND)),
        ("1.5 ms", Window("within", None, 1500)),
        ("0.9 us", Window("within", None, 0)),
        ("2 weeks", Window("within", None, 14 * DAY)),
        ("'PT5M'", Window("within", None, 300 * SECOND)),
        ('"p1dt0.5s"', Window("within", None, DAY + SECOND // 2)),
        ("'P1W'", Window("within", None, 7 * DAY)),
        ("Unbounded", Window("within")),
        ("0 s..2 s", Window("range", 0, 2 * SECOND)),
        ("1..2", Window("range", SECOND, 2 * SECOND)),
        ("1h..'PT2H'", Window("range", 3600 * SECOND, 7200 * SECOND)),
        ("1 min..UNBOUNDED", Window("range", 60 * SECOND, None)),
        ("MAXWINDOW 2 h", Window("max", None, 7200 * SECOND)),
        ("maxwindow 'PT1S'", Window("max", None, SECOND)),
        ("once", Window("once")),
        ("x - y IN [1 s, 2 s]", RelativeWindow("x", "y", SECOND, 2 * SECOND)),
        ("x' - y in (0 s, 4 s)", RelativeWindow("x'", "y", 1, 4 * SECOND - 1)),
        ("x - y IN [-1 s, 2)", RelativeWindow("x", "y", -SECOND, 2 * SECOND - 1)),
        ("x - y IN (-UNBOUNDED, -'PT1S']", RelativeWindow("x", "y", None, -SECOND)),
        ("x - y IN [0, unbounded)", RelativeWindow("x", "y", 0, None)),
    ],
)
def test_windows(text: str, window: Window | RelativeWindow) -> None:
    assert windows(text) == (window,)
    assert windows(f"x = y, {text}, ONCE") == (window, Window("once"))


# -- scripts -----------------------------------------------------------------------------------------------


def test_statements() -> None:
    items = parse_script(
        "DECLARE NAMESPACE n = 'urn:n';\n\n-- a comment\nCREATE STANDING QUERY q1 AS S//a;\n"
        "create query q2 as S\n  //b (: c :) ;; drop query q1; T//c"
    )
    assert [item.error for item in items] == [None] * 5
    assert [item.line for item in items] == [1, 4, 5, 6, 6]
    assert [item.name for item in items] == [None, "q1", "q2", "q1", None]
    declared, first, second, dropped, last = (item.statement for item in items)
    assert declared == ast.DeclareNamespace("n", "urn:n")
    assert first == ast.CreateQuery("q1", parse_query("S//a"), "S//a")
    assert isinstance(second, ast.CreateQuery)
    assert second.text == "S\n  //b"
    assert dropped == ast.DropQuery("q1")
    assert last == ast.CreateQuery(None, parse_query("T//c"), "T//c")


def test_channels_may_have_the_names_of_statements() -> None:
    items = parse_script("create//a; drop->x; declare; standing")
    assert [item.error for item in items] == [None] * 4
    assert [item.statement.text for item in items if isinstance(item.statement, ast.CreateQuery)] == [
        "create//a",
        "drop->x",
        "declare",
        "standing",
    ]


def test_bad_statements_do_not_hide_good_ones() -> None:
    items = parse_script("S//a;\nCREATE QUERY bad AS S[;\nT//b;\nDROP QUERY;\nS | T;\nU")
    assert [item.error is None for item in items] == [True, False, True, False, False, True]
    assert [item.line for item in items] == [1, 2, 3, 4, 5, 6]
    assert items[1].name == "bad"
    assert items[3].name is None
    assert isinstance(items[1].error, QueryError)
    assert (items[1].error.line, items[1].error.column) == (2, 23)


def test_a_semicolon_in_a_string_ends_no_statement() -> None:
    items = parse_script("S//a[. = ';']; S[')")
    assert [item.error is None for item in items] == [True, False]


@pytest.mark.parametrize("text", ["", " ;; ", "-- nothing\n", "(: nothing :)"])
def test_an_empty_script(text: str) -> None:
    assert parse_script(text) == []


def test_spans_cover_what_they_speak_of() -> None:
    text = "S//a->x FOLLOWED BY {x/b = y, 1 s} T->y[not(c = 1)]"
    found = join(text)
    first, second = ast.blocks(found)
    parts = {
        "S//a->x": first.span,
        "//a->x": None,
        "x/b = y": found.atoms[0].span,
        "1 s": found.windows[0].span,
        "T->y[not(c = 1)]": second.span,
        "not(c = 1)": second.predicates[0].span,
        text: found.span,
    }
    for part, span in parts.items():
        if span is not None:
            assert text[span.start : span.end] == part


# -- refusals ----------------------------------------------------------------------------------------------

SYNTAX = [
    # text, column, part of the message
    ("", 1, "expected a channel, found end of text"),
    ("   ", 4, "expected a channel"),
    ("->x", 1, "expected a channel, found '->'"),
    ("'S'", 1, "expected a channel"),
    ("5", 1, "expected a channel, found '5'"),
    ("S'", 1, "only variables may end in primes"),
    ("S T", 3, "unexpected 'T' after the end"),
    ("S;T", 3, "unexpected 'T' after the end"),
    ("S;;", 3, "unexpected ';'"),
    ("S |", 3, "the character '|'"),
    ("S (: x", 3, "a comment that is not closed"),
    ("S->", 4, "expected a variable, found end of text"),
    ("S->5", 4, "expected a variable, found '5'"),
    ("S AS [a]", 6, "expected a variable"),
    ("S/", 3, "expected a name, '*', '@name' or 'text()'"),
    ("S///a", 4, "expected a name"),
    ("S/a'", 3, "only variables may end in primes"),
    ("S/@", 4, "expected an attribute's name"),
    ("S/@5", 4, "expected an attribute's name"),
    ("S/n:", 5, "expected a name or '*' after 'n:'"),
    ("S/*:*", 4, "unexpected ':'"),
    ("S/text(", 8, "expected ')' after 'text('"),
    ("S/.", 3, "'.' is no step"),
    ("S[./.]", 5, "'.' is no step"),
    ("S[", 3, "expected a name"),
    ("S[]", 3, "expected a name"),
    ("S[a", 4, "expected ']' to close the bracket"),
    ("S[a]]", 5, "unexpected ']'"),
    ("S[a b]", 5, "expected ']'"),
    ("S[a and]", 8, "expected a name"),
    ("S[a or or or]", 13, "expected a name"),
    ("S[(a]", 5, "expected ')' to close the parenthesis"),
    ("S[()]", 4, "expected a name"),
    ("S[not()]", 7, "expected a name"),
    ("S[a = b]", 7, "expected a string or a number, found 'b'"),
    ("S[a = ]", 7, "expected a string or a number"),
    ("S[a = -'x']", 8, "expected a string or a number"),
    ("S[a = 'x]", 7, "a string that is not closed"),
    ("S[a = 'x' 'y']", 11, "expected ']'"),
    ("S['x' = a]", 3, "expected a name"),
    ("S[.->x]", 4, "expected ']'"),
    ("S[contains(.)]", 3, "contains() takes 2 arguments, not 1"),
    ("S[starts-with('a', 'b', 'c')]", 3, "starts-with() takes 2 arguments, not 3"),
    ("S[contains-word(.)]", 3, "contains-word() takes 2 or more arguments, not 1"),
    ("S[contains-word(., 5)]", 20, "words in quotes after its first argument"),
    ("S[contains-word(., 'a', ./b)]", 25, "words in quotes"),
    ("S[contains-word(., lower('a'))]", 20, "words in quotes"),
    ("S[lower()]", 3, "lower() takes 1 arguments, not 0"),
    ("S[string-length(a, b)]", 3, "string-length() takes 0 to 1 arguments, not 2"),
    ("S[count('x')]", 9, "count() takes a path"),
    ("S[lower(a]", 10, "expected ')' to close lower("),
    ("S[lower(a,)]", 11, "expected a name"),
    ("S FOLLOWED T", 12, "expected BY after FOLLOWED, found 'T'"),
    ("S FOLLOWED BY T", 15, "expected '{' with the join's predicates"),
    ("S JOIN T", 8, "expected '{'"),
    ("S JOIN {", 9, "expected a variable"),
    ("S JOIN {1 s", 11, "expected a comparison"),
    ("S JOIN {1 s}", 13, "expected a channel"),
    ("S JOIN {1 s} 5", 14, "expected a channel"),
    ("(S JOIN {1 s} T", 16, "expected ')' to close the parenthesis"),
    ("S)", 2, "unexpected ')'"),
    ("S JOIN {x} T", 9, "x is compared with nothing"),
    ("S JOIN {x = } T", 13, "expected a variable"),
    ("S JOIN {x = y = z} T", 15, "expected '}' to close the join's parameters"),
    ("S JOIN {x = y AND} T", 18, "expected a variable"),
    ("S JOIN {x = y, } T", 16, "expected a window, found '}'"),
    ("S JOIN {x = y, z = w} T", 16, "expected a window, found 'z'"),
    ("S JOIN {1 s, x = y} T", 14, "expected a window, found 'x'"),
    ("S JOIN {x = y 1 s} T", 15, "expected '}'"),
    ("S JOIN {x + z = y} T", 9, "one variable path"),
    ("S JOIN {x * z = y} T", 9, "not linear"),
    ("S JOIN {1 / x = y} T", 9, "not linear"),
    ("S JOIN {x / 0 = y} T", 9, "division by zero"),
    ("S JOIN {(x = y} T", 12, "expected ')' to close the parenthesis"),
    ("S JOIN {lower(x = y} T", 17, "expected ')' to close lower("),
    ("S JOIN {lower(x) + 1 = y} T", 18, "expected a comparison"),
    ("S JOIN {5 lightyears} T", 11, "'lightyears' is no unit of time"),
    ("S JOIN {'P1M'} T", 9, "no ISO 8601 duration"),
    ("S JOIN {'soon'} T", 9, "no ISO 8601 duration"),
    ("S JOIN {-1 s} T", 12, "expected a comparison"),
    ("S JOIN {1 s..} T", 14, "expected a duration"),
    ("S JOIN {1 s..x} T", 14, "expected a duration"),
    ("S JOIN {MAXWINDOW x} T", 19, "MAXWINDOW takes a duration"),
    ("S JOIN {x - y IN 1 s} T", 18, "expected '[' or '(' after IN"),
    ("S JOIN {x - y IN [1 s]} T", 22, "expected ',' between the bounds"),
    ("S JOIN {x - y IN [1 s, 2 s} T", 27, "expected ']' or ')'"),
    ("S JOIN {x - y IN [a, 2 s]} T", 19, "expected a duration"),
    ("S JOIN {x - y IN [UNBOUNDED, 2 s]} T", 19, "cannot be unbounded in that direction"),
    ("S JOIN {x - y IN [0, -UNBOUNDED]} T", 22, "cannot be unbounded in that direction"),
    ("SELECT * S", 10, "expected FROM after the SELECT list"),
    ("SELECT x, FROM S", 16, "expected FROM"),
    ("SELECT 'x' FROM S", 8, "expected a variable"),
    ("SELECT x AS 5 FROM S", 13, "expected a name after AS"),
    ("SELECT x AS y' FROM S", 13, "only variables may end in primes"),
    ("SELECT * FROM", 14, "expected a channel"),
    ("S PUBLISH", 10, "expected the channel to publish to"),
    ("S PUBLISH 'x'", 11, "expected the channel to publish to"),
    ("S STARTING", 11, "expected NOW, ALL or a time"),
    ("S STARTING soon", 12, "expected NOW, ALL or a time"),
    ("S STARTING '2026-06-01T00:00:00'", 12, "no time zone"),
    ("S STARTING 'soon'", 12, "not an ISO 8601 time"),
    ("S STARTING now PUBLISH x", 16, "unexpected 'PUBLISH'"),
    ("S" + "[a" * 51, 102, "nest deeper than 100"),
    ("(" * 101, 101, "nest deeper than 100"),
    ("S[" + "not(" * 50 + "a", 202, "nest deeper than 100"),
    ("S" + "/a" * 101, 203, "nest deeper than 100"),
    ("S[." + "/a" * 100 + "]", 203, "nest deeper than 100"),
    ("S" + "/a" * 99 + "[b]", 201, "nest deeper than 100"),
    ("S->x JOIN {x" + "/a" * 101 + " = y} T->y", 214, "nest deeper than 100"),
    ("c" * 129 + "//a", 1, "a name of more than 128 characters"),
    ("S JOIN {1 s} " + "c" * 129 + "//a", 14, "a name of more than 128 characters"),
    ("S//a PUBLISH " + "c" * 129, 14, "a name of more than 128 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "message"), SYNTAX)
def test_bad_texts(text: str, column: int, message: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse_query(text)
    error = caught.value
    assert (error.condition, error.line, error.column) == ("XSCL_SYNTAX", 1, column)
    assert message in error.message
    assert error.source_line == text


DEEPEST = [
    "S" + "/a" * 100,
    "S//a[./" + "/".join("b" * 98) + "]",
    "S//a[./x or ./" + "/".join("b" * 98) + "]",
    "S//a" + "[./b" * 49 + "]" * 49,
    "S//a[not(" + "./b[" * 48 + ". = 1" + "]" * 48 + ")]",
    "S//a[" + "./x or ./y and ./b[" * 49 + ". = 1" + "]" * 49 + "]",
    "S//a[" + "not(./x or ./y and " * 48 + "./b" + ")" * 48 + "]",
    "S//a[" + "not(" * 48 + "./b" + " and ./x or ./y)" * 48 + "]",
    "S//a[" + "contains(./b[" * 32 + ". = 1" + "], 'x')" * 32 + "]",
    "S//a[" + "lower(" * 98 + "." + ")" * 98 + " = 'x']",
]


@pytest.mark.parametrize("text", DEEPEST)
def test_texts_at_the_limit_of_depth_can_be_used(text: str) -> None:
    specs = compile_query(parse_query(text), text).specs
    assert repr(specs)
    assert pickle.loads(pickle.dumps(specs)) == specs


def test_depth_is_counted_anew_for_what_stands_side_by_side() -> None:
    deep = "/a" * 99
    joined = parse_query(f"S[.{deep}][.{deep} or .{deep}] JOIN {{1 s}} S/a{deep}").source
    assert [len(block.steps) for block in ast.blocks(joined)] == [0, 100]
    (block,) = ast.blocks(parse_query("S" + "[./a/b[c]]" * 200 + "[" + " and ".join(["(./a)"] * 200) + "]").source)
    assert len(block.predicates) == 201


def test_long_names() -> None:
    assert parse_query("c" * 128 + "//a").source == Block(
        "c" * 128, None, (), (Step("descendant", NodeTest("element", None, "a")),)
    )
    assert parse_query("S//a PUBLISH " + "c" * 128).publish == "c" * 128
    (block,) = ast.blocks(parse_query("S//" + "a" * 129 + "->" + "x" * 129).source)
    assert block.steps[0].test.local == "a" * 129 and block.steps[0].binding == Binding("x" * 129)


REFUSED = [
    # text, condition, column, what the hint or message names
    ("S[/a]", "XSCL_ABSOLUTE_PATH", 3, "./"),
    ("S[//a]", "XSCL_ABSOLUTE_PATH", 3, ".//"),
    ("S[count(/a) = 1]", "XSCL_ABSOLUTE_PATH", 9, "./"),
    ("S/..", "XSCL_UNSUPPORTED_AXIS", 3, "descendant"),
    ("S[../a]", "XSCL_UNSUPPORTED_AXIS", 3, "parent"),
    ("S/ancestor::a", "XSCL_UNSUPPORTED_AXIS", 3, "ancestor"),
    ("S[following-sibling::a]", "XSCL_UNSUPPORTED_AXIS", 3, "following-sibling"),
    ("S/self::node()", "XSCL_UNSUPPORTED_AXIS", 3, "self"),
    ("S/node()", "XSCL_UNSUPPORTED_FUNCTION", 3, "text()"),
    ("S[position() = 1]", "XSCL_UNSUPPORTED_FUNCTION", 3, "contains"),
    ("S[a = 1 and last()]", "XSCL_UNSUPPORTED_FUNCTION", 13, "last"),
    ("S[contains(upper(.), 'x')]", "XSCL_UNSUPPORTED_FUNCTION", 12, "lower"),
    ("S[5]", "XSCL_UNSUPPORTED_FUNCTION", 3, "position"),
    ("S/a[1]", "XSCL_UNSUPPORTED_FUNCTION", 5, "position"),
    ("S[./comment()]", "XSCL_UNSUPPORTED_FUNCTION", 5, "comment()"),
    ("S JOIN {upper(x) = y} T", "XSCL_UNSUPPORTED_FUNCTION", 9, "normalize-space"),
    ("S JOIN {x = tokens(y)} T", "XSCL_UNSUPPORTED_FUNCTION", 13, "tokens"),
    ("S JOIN {1 s} " * 16 + "S", "XSCL_TOO_MANY_BLOCKS", 209, "channel"),
    ("S JOIN {1 s} (" * 20 + "S", "XSCL_TOO_MANY_BLOCKS", 225, "channel"),
]


@pytest.mark.parametrize(("text", "condition", "column", "names"), REFUSED)
def test_what_is_understood_but_refused(text: str, condition: str, column: int, names: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    error = caught.value
    assert not isinstance(error, QuerySyntaxError)
    assert isinstance(error, UnsupportedFeatureError) == condition.startswith("XSCL_UNSUPPORTED")
    assert (error.condition, error.line, error.column) == (condition, 1, column)
    assert names in str(error)
    assert error.hint


STATEMENTS = [
    ("CREATE QUERY", 13, "expected the query's name"),
    ("CREATE STANDING q AS S", 17, "expected QUERY after CREATE"),
    ("CREATE QUERY q S", 16, "expected AS after the query's name"),
    ("CREATE QUERY q' AS S", 14, "only variables may end in primes"),
    ("CREATE QUERY q AS", 18, "expected a channel"),
    ("CREATE QUERY q AS S T", 21, "statements end with ';'"),
    ("DROP QUERY", 11, "expected the query's name"),
    ("DROP QUERY 'q'", 12, "expected the query's name"),
    ("DROP QUERY q r", 14, "statements end with ';'"),
    ("DECLARE NAMESPACE = 'u'", 19, "expected a prefix"),
    ("DECLARE NAMESPACE n 'u'", 21, "expected '=' after the prefix"),
    ("DECLARE NAMESPACE n = u", 23, "expected the namespace's URI in quotes"),
]


@pytest.mark.parametrize(("text", "column", "message"), STATEMENTS)
def test_bad_statements(text: str, column: int, message: str) -> None:
    (item,) = parse_script(text)
    assert item.statement is None
    assert item.error is not None
    assert (item.error.condition, item.error.line, item.error.column) == ("XSCL_SYNTAX", 1, column)
    assert message in item.error.message


def test_an_error_says_its_line() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse_query("S//a->x\n  FOLLOWED BY {x = y,\n\t7 dayz}\nT->y")
    error = caught.value
    assert (error.line, error.column) == (3, 4)
    assert str(error).split("\n")[1:3] == ["  \t7 dayz}", "  \t  ^^^^"]


def test_a_string_that_is_not_closed_hides_no_other_statement() -> None:
    script = 'A//a[./x = "open];\nB//b[;\nC//c;\nD//d[./y = "closed"];\nE//e[;\n-- it\'s a comment\nF//f;'
    found = parse_script(script)
    assert [(item.line, item.error is None) for item in found] == [
        (1, False),
        (2, False),
        (3, True),
        (4, True),
        (5, False),
        (7, True),
    ]
    assert "not closed on its line" in str(found[0].error)


def test_long_lines_are_shown_in_part_and_nothing_that_terminals_obey() -> None:
    (item,) = parse_script("S//a[./b = 'x'] \x1b]0," + " " * 1_000)
    assert item.error is not None
    shown = str(item.error)
    assert "\x1b" not in shown.splitlines()[1] and len(shown) < 400
    late = parse_script(" " * 10_000 + "S//a[" + " " * 10_000)[0].error
    assert late is not None
    line, caret = str(late).splitlines()[1:3]
    assert len(line) < 130 and caret.strip() == "^" and late.column > 10_000
