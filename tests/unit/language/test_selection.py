"""Output documents: result nodes, SELECT lists, constructors."""

from __future__ import annotations

import pytest
from budget import examples
from constructors import constructor_texts
from hypothesis import given, settings
from lxml import etree

from xscl.base.errors import QueryError
from xscl.base.safe_xml import parse_xml
from xscl.language.selection import output_document, prepare_select, selected_document
from xscl.language.syntax.parser import parse_query
from xscl.xpath.nodes import AttributeNode, Node, TextNode

BOOK = parse_xml(
    "<book isbn='1'><title lang='en'>RSS</title> by <author>Danny</author> and "
    "<author>A &amp; W</author><!-- c -->!</book>"
)
BLOG = parse_xml(
    '<a:entry xmlns:a="urn:a" xmlns:p="urn:p" a:k="v" j="w">'
    '<title xmlns="urn:t" p:q="z">T<b>x</b>y</title>tail</a:entry>'
)
NODES: dict[str, Node] = {
    "x1": BOOK,
    "x2": BOOK[1],
    "x3": AttributeNode(BOOK, "isbn"),
    "x4": BLOG,
    "x5'": TextNode(BOOK, 1, " by "),
}
NAMESPACES = {"t": "urn:t", "a": "urn:a", "n": "urn:n", "m": "urn:n", "p": "urn:p"}


def output(select: str) -> str:
    text = f"SELECT {select} FROM S"
    found = parse_query(text).select
    assert found is not None
    document = selected_document(prepare_select(found, text, NAMESPACES), NODES)
    assert parse_xml(document) is not None
    return document


# -- default -----------------------------------------------------------------------------------------------------


def test_result_nodes() -> None:
    author, isbn, text = NODES["x2"], NODES["x3"], NODES["x5'"]
    assert output_document([author]) == "<author>Danny</author>"
    assert output_document([isbn]) == '<result isbn="1"/>'
    assert output_document([text]) == "<result> by </result>"
    assert (
        output_document([author, isbn, text])
        == '<result><author>Danny</author><result isbn="1"/><result> by </result></result>'
    )


def test_output_takes_nothing_from_the_document() -> None:
    before = etree.tostring(BOOK)
    output_document([BOOK[1], BOOK[1]])
    output("x1/*, x2, x1/author AS a")
    output("<e>{x1/*}{x2}</e>")
    assert etree.tostring(BOOK) == before


# -- lists -------------------------------------------------------------------------------------------------------

LISTS = [
    ("x2", "<author>Danny</author>"),
    ("x2, x2", "<author>Danny</author><author>Danny</author>"),
    ("x1/author", "<author>Danny</author><author>A &amp; W</author>"),
    ("x1/title AS headline", '<headline lang="en">RSS</headline>'),
    ("x1/author AS w", "<w>Danny</w><w>A &amp; W</w>"),
    ("x1/title/@lang", '<result lang="en"/>'),
    ("x1/title/@lang AS language", "<language>en</language>"),
    ("x3, x3 AS isbn", '<result isbn="1"/><isbn>1</isbn>'),
    ("x1/title/text(), x1/title/text() AS t", "<result>RSS</result><t>RSS</t>"),
    ("x5', x5' AS by", "<result> by </result><by> by </by>"),
    ("x1//@*", '<result isbn="1"/><result lang="en"/>'),
    ("x1/*[. = 'RSS' or contains(., '&')]", '<title lang="en">RSS</title><author>A &amp; W</author>'),
    ("x1/author[. != 'Danny']/text()", "<result>A &amp; W</result>"),
    ("x1/nothing, x2/@k AS k", ""),
    ("x3/a, x5'/b", ""),
    (
        "x1 AS e",
        '<e isbn="1"><title lang="en">RSS</title> by <author>Danny</author> and '
        "<author>A &amp; W</author><!-- c -->!</e>",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("select", "inside"), LISTS)
def test_lists(select: str, inside: str) -> None:
    assert output(select) == (f"<result>{inside}</result>" if inside else "<result/>")


def test_nodes_come_once_and_in_document_order() -> None:
    assert (
        output("x1//*//text()")
        == "<result><result>RSS</result><result>Danny</result><result>A &amp; W</result></result>"
    )
    assert output("x4//*//text()") == "<result><result>T</result><result>x</result><result>y</result></result>"


def test_namespaces_of_copies() -> None:
    assert output("x4/t:title") == '<result><title xmlns="urn:t" xmlns:p="urn:p" p:q="z">T<b>x</b>y</title></result>'
    renamed = parse_xml(output("x4/t:title AS h, x4 AS e"))
    assert [child.tag for child in renamed.iter()] == ["result", "h", "{urn:t}b", "e", "{urn:t}title", "{urn:t}b"]
    assert dict(renamed[0].attrib) == {"{urn:p}q": "z"}
    assert dict(renamed[1].attrib) == {"{urn:a}k": "v", "j": "w"}
    assert "tail" not in str(renamed[0].tail)
    assert parse_xml(output("x4/@a:k"))[0].attrib == {"{urn:a}k": "v"}


# -- constructors ------------------------------------------------------------------------------------------------

CONSTRUCTORS = [
    ("<e/>", "<e/>"),
    ("<e></e>", "<e/>"),
    ('<e by="{x2}" k=""/>', '<e by="Danny" k=""/>'),
    ('<e by="by {x1/author}, {x3}"/>', '<e by="by Danny A &amp; W, 1"/>'),
    ("<e none=\"{x1/none}\" q='\"{x2}&lt;'/>", '<e none="" q="&quot;Danny&lt;"/>'),
    ("<e>{x2}</e>", "<e><author>Danny</author></e>"),
    ("<e> {x2}\n  {x1/author} </e>", "<e><author>Danny</author><author>Danny</author><author>A &amp; W</author></e>"),
    ("<e>by {x2}</e>", "<e>by Danny</e>"),
    ("<e>{x1/author}!</e>", "<e>Danny A &amp; W!</e>"),
    ("<e>{x2}{{}}</e>", "<e>Danny{}</e>"),
    ("<e>{x2}&#32;{x2}</e>", "<e><author>Danny</author> <author>Danny</author></e>"),
    ("<e>{x3}{x5'}<f/>{x3}</e>", "<e>1 by <f/>1</e>"),
    ("<e>{x2}{x1/title/@lang}{x2}{x3}</e>", "<e><author>Danny</author>en<author>Danny</author>1</e>"),
    ("<e>a<b>{x2}</b>{x2}</e>", "<e>a<b><author>Danny</author></b>Danny</e>"),
    ("<e><b> {x2} and {x3} </b></e>", "<e><b>Danny and 1</b></e>"),
    ("<e><!-- gone -->{x1/title/text()}<!-- ; ' { --></e>", "<e>RSS</e>"),
    ("<e>{x1/none}</e>", "<e/>"),
    ("<e>&lt;{x2}&gt; ; '</e>", "<e>&lt;Danny&gt; ; '</e>"),
    ('<n:e n:k="{x2}"><n:f/><g/></n:e>', '<n:e xmlns:n="urn:n" n:k="Danny"><n:f/><g/></n:e>'),
    ('<xlink:e xml:lang="{x1/title/@lang}"/>', '<xlink:e xmlns:xlink="http://www.w3.org/1999/xlink" xml:lang="en"/>'),
    (
        '<echo by="{x2}">{x1/title}{x4/t:title}</echo>',
        '<echo by="Danny"><title lang="en">RSS</title>'
        '<title xmlns="urn:t" xmlns:p="urn:p" p:q="z">T<b>x</b>y</title></echo>',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("constructor", "document"), CONSTRUCTORS)
def test_constructors(constructor: str, document: str) -> None:
    assert output(constructor) == document


REFUSED = [
    ("<e>{x1/¦q:title}</e>", "XSCL_UNDECLARED_PREFIX", "prefix q"),
    ("<¦q:e/>", "XSCL_UNDECLARED_PREFIX", "prefix q"),
    ("<e><f/><¦q:e/></e>", "XSCL_UNDECLARED_PREFIX", "prefix q"),
    ("<e k='' ¦q:e=''/>", "XSCL_UNDECLARED_PREFIX", "prefix q"),
    ("<e k='{x1/*[¦q:e]}'/>", "XSCL_UNDECLARED_PREFIX", "prefix q"),
    ("<e n:k='' ¦m:k=''/>", "XSCL_SYNTAX", "twice, under two prefixes"),
    ("x1, x1/¦q:title", "XSCL_UNDECLARED_PREFIX", "prefix q"),
    ("x1/*[a->¦y]", "XSCL_BINDING_IN_DISJUNCTION", "in SELECT"),
    ("x1/*[¦.]", "XSCL_SYNTAX", "always true"),
    ("<¦bad:e/>", "XSCL_SYNTAX", "namespace"),
]


@pytest.mark.parametrize(("marked", "condition", "message"), REFUSED)
def test_what_is_refused(marked: str, condition: str, message: str) -> None:
    text = f"SELECT {marked.replace('¦', '')} FROM S"
    select = parse_query(text).select
    assert select is not None
    with pytest.raises(QueryError) as caught:
        prepare_select(select, text, {**NAMESPACES, "bad": "not a URI"})
    assert (caught.value.condition, caught.value.column) == (condition, len("SELECT ") + marked.index("¦") + 1)
    assert message in caught.value.message


@settings(max_examples=examples(40), deadline=None)
@given(constructor_texts())
def test_any_constructor_gives_a_document(constructor: str) -> None:
    text = f"SELECT {constructor} FROM S"
    select = parse_query(text).select
    assert select is not None
    nodes: dict[str, Node] = dict.fromkeys(("x1", "y", "x5'", "x"), BLOG)
    parse_xml(selected_document(prepare_select(select, text, NAMESPACES), nodes))
