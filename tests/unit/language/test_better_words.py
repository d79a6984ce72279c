"""Refusals that say what was meant: the whole text of each, with its caret and the right form."""

from __future__ import annotations

import pytest

from xscl.base.errors import QueryError
from xscl.language.normalize import normalize
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.statements import parse_script

WORDS = [
    (
        'S//a[./b]->x',
        '[XSCL_SYNTAX] line 1, column 10: a variable behind the brackets; it stands before them\n'
        '  S//a[./b]->x\n'
        '           ^^^\n'
        '  hint: write a->x[…]'
    ),
    (
        'S//a[./b] AS x',
        '[XSCL_SYNTAX] line 1, column 11: a variable behind the brackets; it stands before them\n'
        '  S//a[./b] AS x\n'
        '            ^^^^\n'
        '  hint: write a->x[…]'
    ),
    (
        'S[./b]->x//c',
        '[XSCL_SYNTAX] line 1, column 7: a variable behind the brackets; it stands before them\n'
        '  S[./b]->x//c\n'
        '        ^^^\n'
        '  hint: write S->x[…]'
    ),
    (
        'S//a[.//b[c]->x]',
        '[XSCL_SYNTAX] line 1, column 13: a variable behind the brackets; it stands before them\n'
        '  S//a[.//b[c]->x]\n'
        '              ^^^\n'
        '  hint: write b->x[…]'
    ),
    (
        'S//a->x[b]->y',
        '[XSCL_SYNTAX] line 1, column 11: a second variable for one node\n'
        '  S//a->x[b]->y\n'
        '            ^^^\n'
        '  hint: bind it once: a->x'
    ),
    (
        'S//a WHERE ./x = 1',
        '[XSCL_SYNTAX] line 1, column 6: there is no WHERE\n'
        '  S//a WHERE ./x = 1\n'
        '       ^^^^^\n'
        "  hint: conditions on one document go into its brackets: S//a[./b = 'x']; "
        "comparisons of two documents into the braces of their join: {x = y, 1 h}"
    ),
    (
        'S->x JOIN {x = y, 1 h} T->y where x = 1',
        '[XSCL_SYNTAX] line 1, column 29: there is no WHERE\n'
        '  S->x JOIN {x = y, 1 h} T->y where x = 1\n'
        '                              ^^^^^\n'
        "  hint: conditions on one document go into its brackets: S//a[./b = 'x']; "
        "comparisons of two documents into the braces of their join: {x = y, 1 h}"
    ),
    (
        'S->x FOLLOWED {x = y} T->y',
        "[XSCL_SYNTAX] line 1, column 15: expected BY after FOLLOWED, found '{'\n"
        '  S->x FOLLOWED {x = y} T->y\n'
        '                ^\n'
        '  hint: write A FOLLOWED BY {x = y, 1 h} B'
    ),
    (
        'S->x followed T->y',
        "[XSCL_SYNTAX] line 1, column 15: expected BY after followed, found 'T'\n"
        '  S->x followed T->y\n'
        '                ^\n'
        '  hint: write A FOLLOWED BY {x = y, 1 h} B'
    ),
    (
        'CREATE STREAM s',
        '[XSCL_SYNTAX] line 1, column 1: CREATE STREAM is no statement of a script\n'
        '  CREATE STREAM s\n'
        '  ^^^^^^^^^^^^^\n'
        '  hint: channels and streams are made outside: xscl channel add NAME; a query: CREATE QUERY name AS S//a'
    ),
    (
        'create channel s AS S',
        '[XSCL_SYNTAX] line 1, column 1: CREATE CHANNEL is no statement of a script\n'
        '  create channel s AS S\n'
        '  ^^^^^^^^^^^^^^\n'
        '  hint: channels and streams are made outside: xscl channel add NAME; a query: CREATE QUERY name AS S//a'
    ),
    (
        'create view v as S',
        '[XSCL_SYNTAX] line 1, column 1: CREATE VIEW is no statement of a script\n'
        '  create view v as S\n'
        '  ^^^^^^^^^^^\n'
        '  hint: a view is a query that publishes: CREATE QUERY name AS S//a PUBLISH channel'
    ),
    (
        'DROP STREAM s',
        '[XSCL_SYNTAX] line 1, column 1: DROP STREAM is no statement of a script\n'
        '  DROP STREAM s\n'
        '  ^^^^^^^^^^^\n'
        '  hint: channels and streams are made outside: xscl channel drop NAME; a query: CREATE QUERY name AS S//a'
    ),
    (
        'CREATE x AS S',
        "[XSCL_SYNTAX] line 1, column 8: expected QUERY after CREATE, found 'x'\n"
        '  CREATE x AS S\n'
        '         ^\n'
        '  hint: CREATE QUERY name AS S//a'
    ),
    (
        "S//a[./b == 'x']",
        '[XSCL_SYNTAX] line 1, column 10: there is no operator ==\n'
        "  S//a[./b == 'x']\n"
        '           ^^\n'
        '  hint: write ='
    ),
    (
        'S->x JOIN {x == y} T->y',
        '[XSCL_SYNTAX] line 1, column 14: there is no operator ==\n'
        '  S->x JOIN {x == y} T->y\n'
        '               ^^\n'
        '  hint: write ='
    ),
    (
        "S[a <> 'x']",
        '[XSCL_SYNTAX] line 1, column 5: there is no operator <>\n'
        "  S[a <> 'x']\n"
        '      ^^\n'
        '  hint: write !='
    ),
    (
        'S->x JOIN {x = y, 7 days AND z = w} T->y',
        '[XSCL_SYNTAX] line 1, column 26: AND behind a window; predicates stand before it\n'
        '  S->x JOIN {x = y, 7 days AND z = w} T->y\n'
        '                           ^^^\n'
        '  hint: write {x = y AND z = w, 1 h}'
    ),
    (
        'S->x JOIN {7 days AND x = y} T->y',
        '[XSCL_SYNTAX] line 1, column 19: AND behind a window; predicates stand before it\n'
        '  S->x JOIN {7 days AND x = y} T->y\n'
        '                    ^^^\n'
        '  hint: write {x = y AND z = w, 1 h}'
    ),
    (
        'S[a = 1 && b = 2]',
        '[XSCL_SYNTAX] line 1, column 9: there is no operator &&\n'
        '  S[a = 1 && b = 2]\n'
        '          ^^\n'
        '  hint: write and'
    ),
    (
        'S[(a || b)]',
        '[XSCL_SYNTAX] line 1, column 6: there is no operator ||\n'
        '  S[(a || b)]\n'
        '       ^^\n'
        '  hint: write or'
    ),
    (
        'S->x JOIN {x = y && z = w} T->y',
        '[XSCL_SYNTAX] line 1, column 18: there is no operator &&\n'
        '  S->x JOIN {x = y && z = w} T->y\n'
        '                   ^^\n'
        '  hint: write AND'
    ),
    (
        'S->x JOIN {x = y || z = w} T->y',
        '[XSCL_SYNTAX] line 1, column 18: there is no operator ||\n'
        '  S->x JOIN {x = y || z = w} T->y\n'
        '                   ^^\n'
        '  hint: atoms are joined by AND; for OR register two queries'
    ),
    (
        "S[./title like '%x%']",
        '[XSCL_SYNTAX] line 1, column 11: there is no operator like\n'
        "  S[./title like '%x%']\n"
        '            ^^^^\n'
        "  hint: write [contains(./title, 'x')]"
    ),
    (
        "S[./title contains 'x']",
        '[XSCL_SYNTAX] line 1, column 11: there is no operator contains\n'
        "  S[./title contains 'x']\n"
        '            ^^^^^^^^\n'
        "  hint: write [contains(./title, 'x')]"
    ),
    (
        "S[a and lower(./b) starts-with 'x']",
        '[XSCL_SYNTAX] line 1, column 20: there is no operator starts-with\n'
        "  S[a and lower(./b) starts-with 'x']\n"
        '                     ^^^^^^^^^^^\n'
        "  hint: write [starts-with(lower(./b), 'x')]"
    ),
    (
        'S->x JOIN {x like y} T->y',
        '[XSCL_SYNTAX] line 1, column 14: there is no operator like\n'
        '  S->x JOIN {x like y} T->y\n'
        '               ^^^^\n'
        "  hint: write [contains(./a, 'x')] in the brackets of a block, where texts are searched"
    ),
    (
        "S->x JOIN {x contains 'a'} T->y",
        '[XSCL_SYNTAX] line 1, column 14: there is no operator contains\n'
        "  S->x JOIN {x contains 'a'} T->y\n"
        '               ^^^^^^^^\n'
        "  hint: write [contains(./a, 'a')] in the brackets of a block, where texts are searched"
    ),
    (
        'S->x JOIN {x, 7 days} T->y',
        '[XSCL_SYNTAX] line 1, column 12: x is compared with nothing\n'
        '  S->x JOIN {x, 7 days} T->y\n'
        '             ^\n'
        '  hint: write x = y with a variable of the other block, or a window alone: {1 h}'
    ),
    (
        'S->x JOIN {x and y = z} T->y',
        '[XSCL_SYNTAX] line 1, column 12: x is compared with nothing\n'
        '  S->x JOIN {x and y = z} T->y\n'
        '             ^\n'
        '  hint: write x = y with a variable of the other block, or a window alone: {1 h}'
    ),
    (
        "S->x JOIN {'a'} T->y",
        "[XSCL_SYNTAX] line 1, column 12: 'a' is no ISO 8601 duration of weeks, days, hours, minutes and seconds\n"
        "  S->x JOIN {'a'} T->y\n"
        '             ^^^\n'
        "  hint: for example 'PT5M' or 5 min"
    ),
    (
        'S->x JOIN {x.title = y} T->y',
        "[XSCL_UNBOUND_VARIABLE] line 1, column 12: 'x.title' is one name, and no variable\n"
        '  S->x JOIN {x.title = y} T->y\n'
        '             ^^^^^^^\n'
        "  hint: a path behind a variable is written with '/': x/title"
    ),
    (
        'SELECT x.title FROM S->x',
        "[XSCL_UNBOUND_VARIABLE] line 1, column 8: 'x.title' is one name, and no variable\n"
        '  SELECT x.title FROM S->x\n'
        '         ^^^^^^^\n'
        "  hint: a path behind a variable is written with '/': x/title"
    ),
    (
        'S JOIN T',
        "[XSCL_SYNTAX] line 1, column 8: expected '{' with the join's predicates and window, found 'T'\n"
        '  S JOIN T\n'
        '         ^\n'
        '  hint: write A JOIN {x = y, 1 h} B'
    ),
    (
        "S[.title = 'x']",
        "[XSCL_SYNTAX] line 1, column 3: '.' before 'title'; a child is written with '/'\n"
        "  S[.title = 'x']\n"
        '    ^\n'
        '  hint: write ./title'
    ),
]  # fmt: skip


def refusal(text: str) -> QueryError | None:
    (item,) = parse_script(text)
    if item.error is not None:
        return item.error
    with pytest.raises(QueryError) as caught:
        normalize(parse_query(text), text)
    return caught.value


@pytest.mark.parametrize(("text", "message"), WORDS)
def test_what_was_meant(text: str, message: str) -> None:
    assert str(refusal(text)) == message


@pytest.mark.parametrize(
    "text",
    [
        "create//stream",
        "create JOIN {1 s} drop",
        "S//a[like = 'x'][contains]",
        "where//followed",
        "S->like JOIN {like = y} T->y",
        "S[a.b = 1]",
        "S//matches->is[is = 'x']",
    ],
)
def test_words_that_are_names(text: str) -> None:
    normalize(parse_query(text), text)


MEANT = [
    ("A->x FOLOWED BY {x = y, 1 h} B->y", "unexpected 'FOLOWED'", "did you mean FOLLOWED BY?"),
    ("A JION {1 h} B", "unexpected 'JION'", "did you mean JOIN?"),
    ("A PUBLSH c", "unexpected 'PUBLSH'", "did you mean PUBLISH?"),
    ("CREATE QERY q AS S//a", "unexpected 'QERY'", "did you mean CREATE QUERY?"),
    ("CRATE QUERY q AS S//a", "unexpected 'QUERY'", "did you mean CREATE QUERY?"),
    ("A AND B", "unexpected 'AND'", "blocks are joined by A JOIN {x = y, 1 h} B or A FOLLOWED BY {x = y, 1 h} B"),
    ("A B", "unexpected 'B'; statements end with ';'", None),
    ('S//a[./a="5]', "expected a string or a number, found a string that is not closed on its line", "close the quote"),
    ('A JOIN {x = "5} B', "expected a variable, found a string that is not closed on its line", "close the quote"),
    (
        "A FOLLOWED BY rooms",
        "expected '{' with the join's predicates and window, found 'rooms'",
        "write A FOLLOWED BY {x = y, 1 h} B",
    ),
]


@pytest.mark.parametrize(("text", "message", "hint"), MEANT)
def test_words_that_are_meant(text: str, message: str, hint: str | None) -> None:
    error = parse_script(text)[0].error
    assert error is not None
    assert (error.message, error.hint) == (message, hint)
