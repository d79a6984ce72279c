"""Plain text and links of markup, whatever the markup."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from xscl.ingest import markup
from xscl.ingest.markup import absolute_url, clean, collapse, fragment_text, is_web, links, parse_html


def text_of(html):
    fragment = parse_html(html)
    return "" if fragment is None else fragment_text(fragment)


def links_of(html, base="https://example.org/a/b"):
    return list(links(parse_html(html), base))


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a &amp; b &eacute; &#8217; &lt;i&gt;", "a & b é ’ <i>"),
        ("<p>one</p><p>two</p>", "one two"),
        ("o<b>n</b>e", "one"),
        ("one<br>two<br/>three", "one two three"),
        ("<ul><li>one<li>two</ul>", "one two"),
        ("<table><tr><td>1</td><td>2</td></tr></table>", "1 2"),
        ("a<script>alert('x')</script>b<style>p {}</style>c<!-- d -->e", "abce"),
        (" a\u00a0 \n b&nbsp;", "a b"),
        ("a < b and c > d", "a < b and c > d"),
        ("<p>not closed", "not closed"),
        ("</div></body>after", "after"),
        ("<img src='http://example.org/x.png' alt='no'>", ""),
        ("<!DOCTYPE html SYSTEM 'file:///etc/passwd'><p>x", "x"),
        ("", ""),
        ("a\x00b\x01c\ud800d", "abcd"),
    ],
)
def test_text(html, text):
    assert text_of(html) == text


def test_references_to_what_xml_cannot_hold_do_no_harm():
    text = collapse(text_of("a&#1;&#x1F;&#xFFFE;&#xD800;&#0;b"))
    assert etree.fromstring(f"<a>{text}</a>").text == text


def test_deep_markup_does_no_harm():
    # What is nested deeper than libxml2 goes is left out.
    assert text_of("<p>before</p>" + "<b>" * 100_000 + "x") == "before"


def test_inline_markup_is_read_by_local_names():
    entry = etree.fromstring(
        '<e xmlns:h="http://www.w3.org/1999/xhtml"><h:p>a</h:p><h:p>b <h:a href="/c">c</h:a></h:p>'
        "<h:script>no</h:script></e>"
    )
    before = etree.tostring(entry)
    assert fragment_text(entry) == "a b c"
    assert list(links(entry, "https://example.org")) == ["https://example.org/c"]
    assert etree.tostring(entry) == before


def test_links_are_absolute_canonical_and_of_the_web():
    html = """<a href="c?utm_source=x&amp;b=2&amp;a=1">1</a> <a href=" HTTP://Example.ORG:80/d/#top ">2</a>
        <a href="mailto:me@example.org">3</a> <a href="javascript:x()">4</a> <a name="n">5</a>
        <a href="">6</a> <a href="#note">7</a> <a href="//other.org/x">8</a> <a href="http://[">9</a> <a href="ftp://a.org/">10</a>
        <link href="/style.css"><img src="/i.png"> <A HREF="../up">11</A> <a href="c?a=1&amp;b=2">12</a>"""
    assert links_of(html) == [
        "https://example.org/a/c?a=1&b=2",
        "https://example.org/d",
        "https://other.org/x",
        "https://example.org/up",
        "https://example.org/a/c?a=1&b=2",
    ]


def test_relative_links_without_a_base_are_dropped():
    assert links_of('<a href="c">1</a><a href="https://a.org/">2</a>', base="") == ["https://a.org"]


def test_absolute_urls():
    assert absolute_url("http://a.org/b/c", " ../d ") == "http://a.org/d"
    assert absolute_url("http://a.org", "urn:x:1") == "urn:x:1"
    assert absolute_url("", "/d") == "/d"
    assert absolute_url("http://a.org/b", " ") == ""
    assert absolute_url("http://[bad", "/d") == "/d"
    assert is_web("https://a.org") and not is_web("a.org") and not is_web("http://[") and not is_web("http:///x")


@given(st.text(st.characters(codec=None)))
def test_clean_text_is_xml_text(text):
    assert etree.fromstring(etree.tostring(_element(clean(text)))) is not None


def _element(text):
    element = etree.Element("a")
    element.text = text
    return element


@given(st.text(st.characters(codec=None)) | st.text("<>/ab&;\"'= #!-[]x0\x00", max_size=60))
def test_any_markup(html):
    fragment = parse_html(html)
    if fragment is not None:
        assert collapse(fragment_text(fragment)) == fragment_text(fragment)
        assert all(is_web(link) for link in links(fragment, "https://example.org/"))


@given(st.text(st.characters(codec=None), max_size=30))
def test_any_href(href):
    anchor = etree.Element("a")
    anchor.set("href", clean("http://" + href))
    for link in links(anchor, "https://example.org/"):
        assert clean(link) == link


PIECES = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        "é",
        "&amp;",
        "&lt;p&gt;",
        "&nbsp;",
        "&#13;",
        "&#1;",
        "<p>",
        "</p>",
        "<P class='>'>",
        "<b>",
        "</b>",
        "<br/>",
    ]
    + ["<!-- <p> -->", "<!-->", "<li>", "<ul>", "</ul>", "<o:p>", "</o:p>", "<td>", "<table>", "<a href='x>y'>", "</a>"]
    + [
        "<script>s<p></script>",
        "<style>",
        "</style>",
        "<template><p>t</p></template>",
        "<![CDATA[x]]>",
        "<?x y?>",
        "<",
        ">",
    ]
)


@given(st.lists(PIECES, max_size=12))
def test_the_text_of_markup_is_that_of_a_walk(pieces):
    tree = parse_html("".join(pieces))
    if tree is not None:
        assert fragment_text(tree) == collapse("".join(markup._pieces(tree)))


@given(st.text(alphabet=st.sampled_from("ab \t\n\x00\x1c\x85\xa0\u2003\u2028\ufffe\ud800é😀")))
def test_lines_of_any_text(text):
    assert collapse(text) == " ".join(clean(text).split())
