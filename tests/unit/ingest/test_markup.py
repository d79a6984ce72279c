"""Plain text and links of markup, whatever the markup."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from xscl.ingest import markup
from xscl.ingest import plain_html as plain_html_module
from xscl.ingest.markup import (
    absolute_url,
    clean,
    collapse,
    fragment_text,
    is_web,
    links,
    parse_html,
    read_fragment,
    read_html,
)
from xscl.ingest.plain_html import plain_html


def text_of(html):
    return read_html(html).text


def links_of(html, base="https://example.org/a/b"):
    return list(links(read_html(html).hrefs, base))


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
    assert read_fragment(entry) == ("a b c", ["/c"])
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
    found = read_html(html)
    assert collapse(found.text) == found.text
    assert all(is_web(link) for link in links(found.hrefs, "https://example.org/"))


@given(st.text(st.characters(codec=None), max_size=30))
def test_any_href(href):
    for link in links([clean("http://" + href)], "https://example.org/"):
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


PLAIN = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        "é",
        ">",
        "\u00a0",
        "&amp;",
        "&lt;",
        "&deg;",
        "&#8217;",
        "&#38;lt;",
        "&am",
        "p;",
        "&",
        "&lang;",
        "&#150;",
    ]
    + [f"<{name}>" for name in plain_html_module._WITHIN["div"] | {"li", "dt", "dd"}]
    + [f"</{name}>" for name in ("a", "b", "div", "dl", "dd", "li", "p", "ul")]
    + [
        '<a href="b?c&amp;d=&#233;">',
        '<a class="x"\n href="" href="y" >',
        '<img alt="a>b"/>',
        "<br />",
        "<p/>",
        "<p a>",
    ]
)


def nested(tags, inner):
    """``inner`` in well-formed markup, of which each element may not stand where it does."""
    return "".join(f"<{tag}>x" for tag in tags) + inner + "".join(f"</{tag}> y" for tag in reversed(tags))


@given(
    st.lists(PLAIN, max_size=12).map("".join)
    | st.builds(nested, st.lists(st.sampled_from(sorted(plain_html_module._WITHIN)[1:]), max_size=4), PLAIN)
)
def test_plain_html_is_read_as_its_tree(html):
    found = plain_html(html)
    if found is not None:
        assert (collapse(found[0]), list(found[1])) == tree_of(html)


@pytest.mark.parametrize("outer", sorted(plain_html_module._WITHIN))
@pytest.mark.parametrize("inner", sorted(plain_html_module._FLOW | {"dd", "dt", "li"}))
def test_plain_html_of_two_elements_is_read_as_its_tree(outer, inner):
    tags = [tag for tag in (outer, inner) if tag]
    for html in (
        nested(tags, "a"),
        nested(tags[:1], nested(tags[1:], " ") * 2),
        nested(tags, nested(tags[1:], "<b> </b>")),
    ):
        found = plain_html(html)
        if found is not None:
            assert (collapse(found[0]), list(found[1])) == tree_of(html)


def tree_of(html):
    tree = parse_html(html)
    return (
        ("", [])
        if tree is None
        else (fragment_text(tree), [node.get("href") for node in tree.iter("a") if "href" in node.attrib])
    )


def test_html_that_is_not_plain():
    assert plain_html('<p>a</p><ul><li>b &deg; <a href="c">d</a></li></ul>') is not None
    for html in (
        "<p>a<p>b",
        "<b>a<i>b</b>",
        "<P>a</P>",
        "<!-- a -->",
        "a < b",
        "a & b",
        "<x>a</x>",
        "<p>" * 200,
        "a" * 1_000_001,
    ):
        assert plain_html(html) is None


@given(st.text(alphabet=st.sampled_from("ab \t\n\x00\x1c\x85\xa0\u2003\u2028\ufffe\ud800é😀")))
def test_lines_of_any_text(text):
    assert collapse(text) == " ".join(clean(text).split())
