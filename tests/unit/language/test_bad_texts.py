"""Texts that the parser refuses: the condition, the exact place (between two ¦, or from one on), what is said.

``test_parser`` has what is wrong inside one line of a query; here are scripts of several lines, clauses, constructors.
"""

from __future__ import annotations

import pytest

from xscl.base.errors import QueryError
from xscl.language.syntax import tokens
from xscl.language.syntax.statements import parse_script

BAD = [
    # marked text, condition, part of the message, part of the hint
    # -- statements
    ("CREATE ¦|¦ QUERY q AS S", "SYNTAX", "the character '|'", ""),
    ("CREATE QUERY q\n¦S¦", "SYNTAX", "expected AS after the query's name, found 'S'", ""),
    ("CREATE QUERY q AS\n\n  ¦", "SYNTAX", "expected a channel, found end of text", ""),
    ("DROP QUERY\n  ¦'q'¦", "SYNTAX", "expected the query's name, found 'q'", ""),
    ("DECLARE NAMESPACE n =\n¦uri¦", "SYNTAX", "expected the namespace's URI in quotes", ""),
    ("DECLARE NAMESPACE n = ¦'*'¦", "SYNTAX", "is not '*'", ""),
    ("S//a ¦CREATE¦ QUERY q AS T", "SYNTAX", "unexpected 'CREATE'; statements end with ';'", ""),
    ("S//a ¦T¦//b", "SYNTAX", "unexpected 'T'; statements end with ';'", ""),
    ("SELECT <a/> FROM S STARTING ALL ¦PUBLISH¦ T", "SYNTAX", "unexpected 'PUBLISH'; it comes before STARTING", ""),
    ("S ¦(: never\n closed¦", "SYNTAX", "a comment that is not closed", ""),
    ("SELECT count(¦*¦) AS n FROM S/a->x WINDOW 1 h", "SYNTAX", "takes a variable, not '*'", "count() counts matches"),
    ("SELECT max(¦*¦) AS n FROM S/a->x WINDOW 1 h", "SYNTAX", "takes a variable, not '*'", "write max(x)"),
    # -- paths and brackets
    ("S//a[\n  ./b = ¦'x]¦\n]", "SYNTAX", "a string that is not closed", ""),
    ("S//a[./b\n  ¦5¦]", "SYNTAX", "expected ']' to close the bracket, found '5'", ""),
    ("S\n[¦/¦a]", "ABSOLUTE_PATH", "would be absolute", "write './'"),
    ("S\n[b or ¦//¦a]", "ABSOLUTE_PATH", "would be absolute", "write './/'"),
    ("S\n//¦ancestor¦::a", "UNSUPPORTED_AXIS", "the axis ancestor", "supported: '/' (child)"),
    ("S\n/a/¦..¦", "UNSUPPORTED_AXIS", "parent (..)", "supported"),
    ("S[a\n  and ¦last¦() = 1]", "UNSUPPORTED_FUNCTION", "last()", "contains, contains-word, count"),
    ("S[not(\n¦3¦)]", "UNSUPPORTED_FUNCTION", "a position", "brackets hold paths"),
    ("S//a[¦contains(.)¦]", "SYNTAX", "contains() takes 2 arguments, not 1", ""),
    ("S[a = ¦b¦]", "SYNTAX", "expected a string or a number, found 'b'", "bind them and join"),
    ("S[a = ¦" + "1" * 1001 + "¦]", "SYNTAX", "a number of more than 1000 digits", ""),
    ("S//a->¦[¦./b]", "SYNTAX", "expected a variable, found '['", ""),
    ("S/¦@*:k¦", "SYNTAX", "'*' beside a prefix is for elements", "write @name"),
    # -- joins
    ("S FOLLOWED BY\n{x ¦y¦}\nT", "SYNTAX", "expected a comparison, found 'y'", "one of ="),
    ("S FOLLOWED BY {7 ¦dayz¦} T", "SYNTAX", "'dayz' is no unit of time", "us ms s min h d w"),
    ("S FOLLOWED BY {¦'P1M'¦} T", "SYNTAX", "no ISO 8601 duration", "for example 'PT5M'"),
    ("S FOLLOWED BY {¦'P" + "1" * 1001 + "D'¦} T", "SYNTAX", "a number of more than 1000 digits", ""),
    ("S FOLLOWED BY {¦" + "1" * 1001 + "¦ s} T", "SYNTAX", "a number of more than 1000 digits", ""),
    ("S FOLLOWED BY {1 h, ¦x¦ = y} T", "SYNTAX", "expected a window, found 'x'", "predicates come first"),
    ("S FOLLOWED BY {x = y,\n  ¦y-x¦ IN [1 s, 2 s]} T", "SYNTAX", "'y-x' is one name", "y - x IN"),
    ("S JOIN {¦x5-x4'¦ in (0, 1)} T", "SYNTAX", "\"x5-x4'\" is one name", "x5 - x4' IN"),
    ("S JOIN {x - y IN ¦1¦ s} T", "SYNTAX", "expected '[' or '(' after IN", ""),
    ("S JOIN {x - y IN [¦UNBOUNDED¦, 1 s]} T", "SYNTAX", "cannot be unbounded in that direction", ""),
    ("S JOIN {x - y IN [0 s, ¦-UNBOUNDED¦]} T", "SYNTAX", "cannot be unbounded in that direction", ""),
    ("S JOIN {\n¦x * y¦ = 1} T", "SYNTAX", "not linear in one variable", ""),
    ("S JOIN {¦x + y¦ = 1} T", "SYNTAX", "one variable path", "the other side"),
    ("S JOIN {x = ¦y / (1 - 1)¦} T", "SYNTAX", "division by zero", ""),
    ("S JOIN {x = ¦" + "9" * 999 + " * 100¦} T", "SYNTAX", "a number of more than 1000 digits", ""),
    ("S JOIN {x = ¦" + "9" * 1000 + " + 1¦} T", "SYNTAX", "a number of more than 1000 digits", ""),
    ("S JOIN {x = ¦tokens¦(y)} T", "UNSUPPORTED_FUNCTION", "tokens()", "lower, normalize-space, host, url"),
    ("S JOIN {x = y¦]¦ T", "SYNTAX", "expected '}' to close the join's parameters, found ']'", ""),
    ("S NEXT {1 s} T ¦JOIN¦ {x = y} U", "STEP_LIMIT", "JOIN behind a step", "join first"),
    ("S FOLD {x = y¦]¦ T", "SYNTAX", "expected '}' to close the braces of FOLD, found ']'", ""),
    ("S FOLD {x = y, ¦WHILE¦ x > y} T", "SYNTAX", "WHILE stands without ','", "WHILE q > last(q, p)"),
    ("S FOLD {LONGEST, ¦x¦ = y} T", "SYNTAX", "expected 'expression AS name', LONGEST or AT MOST", ""),
    ("S FOLD {AT MOST ¦0¦} T", "SYNTAX", "a number of iterations", ""),
    ("S FOLD {¦q / 0¦ AS q} T", "SYNTAX", "division by zero", ""),
    ("S FOLD ¦T¦", "SYNTAX", "expected '{' with what FOLD asks for", "FOLD {"),
    ("S FILTER {¦1 h¦}", "SYNTAX", "no two operands with a time between them", "DUR <= 10 min"),
    ("S FILTER {DUR > ¦x¦}", "SYNTAX", "DUR is a time", "DUR >= 10 min"),
    ("S JOIN {x = ¦last¦(y, x)} T", "STEP", "in the braces of one", "FOLD"),
    ("S" + " NEXT T" * 8 + " ¦NEXT¦ T", "TOO_MANY_STEPS", "at most 8 NEXT and FOLD", "publish a part"),
    ("S\n¦union¦ T", "UNSUPPORTED_OPERATOR", "union is kept free for later", "PUBLISH to one channel"),
    ("S->x NOT ¦JOIN¦ {x = y} T->y", "SYNTAX", "expected FOLLOWED BY after NOT", "NOT FOLLOWED BY"),
    ("S->x NOT FOLLOWED BY {x = y, 1 h} T->y ¦JOIN¦ {x = z} U->z", "ABSENCE_LIMIT", "a join behind it", "join first"),
    ("S\n¦LIMIT¦ 5", "UNSUPPORTED_OPERATOR", "LIMIT is kept free", "where you read it"),
    ("S ¦BEGIN¦ 5", "UNSUPPORTED_OPERATOR", "BEGIN is kept free", "STARTING"),
    ("SELECT ¦DISTINCT¦ x FROM S->x", "UNSUPPORTED_OPERATOR", "DISTINCT is kept free", "once"),
    ("SELECT ¦distinct¦ * FROM S->x", "UNSUPPORTED_OPERATOR", "distinct is kept free", "once"),
    ("S JOIN {¦similar¦(x, y)} T", "UNSUPPORTED_FUNCTION", "similar()", "and functions of your own"),
    ("S JOIN ¦T¦", "SYNTAX", "expected '{' with the join's predicates and window", ""),
    ("S JOIN {1 s}\n" * 16 + "¦S¦ JOIN {1 s} T", "TOO_MANY_BLOCKS", "at most 16 blocks", "publish a part"),
    ("S JOIN {1 s} (\n" * 16 + "¦S¦ JOIN {1 s} T", "TOO_MANY_BLOCKS", "at most 16 blocks", "publish a part"),
    # -- clauses
    ("SELECT x1,\n  x4/title ¦S¦//a->x1", "SYNTAX", "expected FROM after the SELECT list", ""),
    ("SELECT x1 AS ¦a²¦ FROM S->x1", "SYNTAX", "an element cannot be called 'a²' in XML", ""),
    ("SELECT x/a¦->¦b FROM S->x", "SYNTAX", "expected FROM after the SELECT list, found '->'", ""),
    ("S\nPUBLISH ¦'p'¦", "SYNTAX", "expected the channel to publish to", ""),
    ("S\nPUBLISH ¦p'¦", "SYNTAX", "only variables may end in primes", ""),
    ("S\nSTARTING ¦yesterday¦", "SYNTAX", "expected NOW, ALL or a time in quotes", ""),
    ("S\nSTARTING ¦'yesterday'¦", "SYNTAX", "not an ISO 8601 time", ""),
    ("S\nSTARTING ¦'2026-06-01T00:00:00'¦", "SYNTAX", "no time zone", ""),
    ("S STARTING NOW\n¦PUBLISH¦ p", "SYNTAX", "unexpected 'PUBLISH'", ""),
    # -- constructors
    ("SELECT ¦<¦ a>x</a> FROM S", "SYNTAX", "the name of an element right after '<'", "SELECT <pair>"),
    ("SELECT <a>\n  <b>{x}¦</c>¦\n</a> FROM S", "SYNTAX", "</c> does not match the start tag <b>", "write </b>"),
    ("SELECT\n¦<a¦>{x} FROM S", "SYNTAX", "the element <a> is not closed", "close it by </a>"),
    ("SELECT <a>¦<b¦>x FROM S", "SYNTAX", "the element <b> is not closed", "close it by </b>"),
    ("SELECT <a><b/></a ¦x¦> FROM S", "SYNTAX", "expected '>' to close the end tag", ""),
    ("SELECT ¦<a¦", "SYNTAX", "the tag <a is not closed", "'>' or '/>'"),
    ("SELECT <a¦*¦/> FROM S", "SYNTAX", "expected '>', '/>' or white space, found '*'", ""),
    ("SELECT <a k='1'¦m¦='2'/> FROM S", "SYNTAX", "expected '>', '/>' or white space, found 'm'", ""),
    ("SELECT <a ¦1¦='1'/> FROM S", "SYNTAX", "expected an attribute, '>' or '/>', found '1'", ""),
    ("SELECT <a k¦/¦> FROM S", "SYNTAX", "expected '=' after the attribute's name, found '/'", ""),
    ("SELECT <a k=¦{¦x}/> FROM S", "SYNTAX", "expected the attribute's value in quotes, found '{'", 'k="{x1}"'),
    ("SELECT <a\n  k='1'\n  ¦k¦='2'/> FROM S", "SYNTAX", "the attribute k is given twice", "leave one"),
    ("SELECT <a ¦xmlns:p¦='u'/> FROM S", "SYNTAX", "declares no namespaces", "DECLARE NAMESPACE"),
    ("SELECT <a k='¦<¦'/> FROM S", "SYNTAX", "'<' has no place in an attribute's value", "&lt;"),
    ('SELECT <a k=¦"¦x/> FROM S', "SYNTAX", "the attribute's value is not closed", 'by "'),
    ("SELECT <a>\n{¦}¦</a> FROM S", "SYNTAX", "expected a variable, found '}'", ""),
    ("SELECT <a>{x ¦y¦}</a> FROM S", "SYNTAX", "expected '}' to close the hole, found 'y'", ""),
    ("SELECT <a>{x/b¦->¦c}</a> FROM S", "SYNTAX", "expected '}' to close the hole, found '->'", ""),
    ("SELECT <a>{x/b[¦/¦c]}</a> FROM S", "ABSOLUTE_PATH", "would be absolute", "./"),
    ("SELECT <a>{x¦<¦/a> FROM S", "SYNTAX", "expected '}' to close the hole, found '<'", ""),
    ("SELECT <a k='{¦'/> FROM S¦", "SYNTAX", "a string that is not closed", ""),
    ("SELECT <a>x ¦}¦</a> FROM S", "SYNTAX", "a '}' that closes no hole", "'}}'"),
    ("SELECT <a>\n¦&nbsp;¦</a> FROM S", "SYNTAX", "the entity &nbsp; is not declared", "&quot;"),
    ("SELECT <a>R¦&¦D</a> FROM S", "SYNTAX", "a '&' that begins no reference", "&amp;"),
    ("SELECT <a>¦&#0;¦</a> FROM S", "SYNTAX", "&#0; is no character of XML", ""),
    ("SELECT <a>¦&#x110000;¦</a> FROM S", "SYNTAX", "&#x110000; is no character of XML", ""),
    ("SELECT <a>x¦\x00¦</a> FROM S", "SYNTAX", "the character '\\x00' has no place in XML", ""),
    ("SELECT <a>¦<?¦p?></a> FROM S", "SYNTAX", "a processing instruction has no place", ""),
    ("SELECT <a>¦<!¦[CDATA[x]]></a> FROM S", "SYNTAX", "a CDATA section or a declaration has no place", "&lt;"),
    ("SELECT <a>¦<!--¦ x - </a> FROM S", "SYNTAX", "a comment that is not closed by '-->'", ""),
    ("SELECT <a><!-- ¦--¦ --></a> FROM S", "SYNTAX", "'--' has no place in a comment of XML", ""),
    ("SELECT <a><¦1¦/></a> FROM S", "SYNTAX", "the name of an element right after '<'", "&lt;"),
    ("SELECT " + "<a>" * 100 + "¦<a>¦x", "SYNTAX", "elements nest deeper than 100", ""),
    ("SELECT ¦<a¦>" + "x" * 65_536 + "</a> FROM S", "SYNTAX", "not closed within 65,536 characters", "</a>"),
    ("SELECT <a/>\n¦S¦", "SYNTAX", "expected FROM after it, found 'S'", ""),
]  # fmt: skip


def check(error: QueryError | None, marked: str) -> None:
    """Whether the error stands at the mark, with its line and a caret under what is marked there."""
    assert error is not None
    before, inside, *_ = marked.split("¦")
    text = marked.replace("¦", "")
    assert error.text == text
    assert error.span is not None
    assert text[: error.span.start] == before
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    assert (error.line, error.column) == (line, column)
    if marked.count("¦") == 2:
        assert text[error.span.start : error.span.end] == inside
    assert error.source_line == text.split("\n")[line - 1]
    if error.source_line.strip() and len(text) < 1000:
        caret = str(error).split("\n")[2]
        if len(error.source_line) <= 120:  # of longer ones a piece is shown
            assert len(caret.rstrip("^")) == 2 + column - 1
            assert caret.count("^") == max(1, len(inside.split("\n")[0]))


@pytest.mark.parametrize(("marked", "condition", "message", "hint"), BAD)
def test_bad_texts(marked: str, condition: str, message: str, hint: str) -> None:
    (item,) = parse_script(marked.replace("¦", ""))
    check(item.error, marked)
    assert item.error is not None
    assert item.error.condition == f"XSCL_{condition}"
    assert message in item.error.message
    assert hint in (item.error.hint or "")
    assert bool(hint) <= bool(item.error.hint)


def test_the_corpus_is_large() -> None:
    assert len(BAD) >= 80


@pytest.mark.parametrize(
    "marked", [marked for marked, _, message, _ in BAD if "closed" not in message and len(marked) < 1000]
)
def test_a_bad_statement_hides_no_other(marked: str) -> None:
    script = f"S//before;\n{marked.replace('¦', '')};\nT//after;\nCREATE QUERY last AS U"
    items = parse_script(script)
    assert items[0].error is None and items[0].line == 1
    assert [item.error is None for item in items[-2:]] == [True, True]
    assert items[-1].name == "last"
    bad = [item for item in items if item.error is not None]
    assert bad and bad[0].line == 2
    before = marked.split("¦")[0]
    assert bad[0].error is not None
    assert bad[0].error.line == 2 + before.count("\n")


RECOVERED = [
    # a script, the lines of its statements, which of them are good
    ("SELECT <a>{x} FROM S;\nT", [1, 2], [False, True]),
    ("SELECT <a>x;y</b> FROM S; T;\nU", [1, 2], [False, True]),
    ("SELECT <a>{x}</b>;  \t\r\nT", [1, 2], [False, True]),
    ("SELECT <a>\nx;\n</b> FROM S;\nT", [1, 3, 4], [False, False, True]),
    ("CREATE QUERY 5 AS SELECT <a>x;\n</a> FROM S; T", [1, 2], [False, True]),
    ("CREATE QUERY 5 AS SELECT <a>x;\n</b> FROM S;T;\nU", [1, 2, 2, 3], [False, False, True, True]),
    ("SELECT <a/> SELECT <b>;\n</b> FROM S; T", [1, 2], [False, True]),
    ("SELECT <a>x;\n</a> FROM S; T", [1, 2], [True, True]),
    ("SELECT <a>{x;\n}</a> FROM S", [1, 2], [False, False]),
    ("SELECT <a>x", [1], [False]),
    # a missing ';' costs one statement
    ("S//a\nCREATE QUERY b AS T; U", [1, 2, 2], [False, True, True]),
    ("S//a\n  create standing\nquery b AS T", [1, 2], [False, True]),
    ("DECLARE NAMESPACE p = 'u'\nDROP QUERY b\nDROP QUERY a;\nT", [1, 2, 3, 4], [False, False, True, True]),
    ("CREATE QUERY a AS S//a[./b\nCREATE QUERY b AS T", [1, 2], [False, True]),
    ("CREATE QUERY a AS\nCREATE QUERY b AS T", [1, 2], [False, True]),
    ("CREATE\nCREATE QUERY b AS T", [1, 2], [False, True]),
    ("S//a[. = 'x]\nCREATE QUERY b AS T", [1, 2], [False, True]),
    ("S//a (: not closed\n; T\nCREATE QUERY b AS T", [1, 3], [False, True]),
    ("(: not closed\nCREATE QUERY b AS T", [1, 2], [False, True]),
    ("SELECT <a/> FROM S\nCREATE QUERY b AS T", [1, 2], [False, True]),
    ("SELECT <a/>\nCREATE QUERY b AS T", [1, 2], [False, True]),
    ("SELECT <a>{x} FROM S\nCREATE QUERY b AS T", [1, 2], [False, True]),
    # what begins no statement
    ("S//a (:\nCREATE QUERY b AS T :)", [1], [True]),
    ("S//a (:\nCREATE QUERY b AS T :)\nCREATE QUERY b AS T", [1, 3], [False, True]),
    ("SELECT <a>\nCREATE QUERY b\n</a> FROM S", [1], [True]),
    ("S//a ->\ncreate", [1], [True]),
    ("S//a[./b or\ncreate]", [1], [True]),
    ("CREATE QUERY create AS\ncreate//query", [1], [True]),
]  # fmt: skip


@pytest.mark.parametrize(("script", "lines", "good"), RECOVERED)
def test_after_a_bad_statement_the_next_one_counts(script: str, lines: list[int], good: list[bool]) -> None:
    items = parse_script(script)
    assert [item.line for item in items] == lines
    assert [item.error is None for item in items] == good


def test_a_missing_semicolon_is_told_where_it_belongs() -> None:
    first, second = parse_script("CREATE QUERY a AS\n  S//a  -- the end\nCREATE QUERY b AS T")
    assert first.name == "a" and second.name == "b"
    assert str(first.error) == (
        "[XSCL_SYNTAX] line 2, column 7: a ';' is missing behind this statement\n"
        "    S//a  -- the end\n"
        "        ^\n"
        "  hint: statements end with ';'"
    )


def test_scripts_without_any_semicolon_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    token = tokens.Token

    def counted(*args: object) -> object:
        nonlocal made
        made += 1
        return token(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(tokens, "Token", counted)
    for line in (
        "CREATE QUERY q AS S//a\n",
        "CREATE QUERY q AS S//a (: (: :)\n",
        "CREATE QUERY q AS SELECT <a/> FROM S\n",
    ):
        counts = []
        for size in (50, 100):
            made = 0
            assert len(parse_script(line * size)) == size
            counts.append(made)
        assert counts[1] <= 2.1 * counts[0]
