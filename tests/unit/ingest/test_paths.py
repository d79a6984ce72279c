"""Paths to records and to values, held against lxml's XPath."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from xscl.base.errors import SourceError
from xscl.ingest.paths import split_path, value_path

SPACES = {"p": "urn:p", "atom": "http://www.w3.org/2005/Atom"}
DOCUMENT = etree.fromstring(
    b"<a xmlns:p='urn:p' n=' 7 ' p:n='8'><b><d>first</d></b><p:b>other</p:b>"
    b"<c><b><d n='9'> second\n</d></b></c><e/></a>"
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("@n", "7"),
        ("./@n", "7"),
        ("@p:n", "8"),
        ("@*:n", "7"),
        ("b/d", "first"),
        ("./c/b/d", "second"),
        (".//d", "first"),
        (".//d/@n", "9"),
        ("p:b", "other"),
        ("*:b", "first"),
        ("c//d", "second"),
        ("c/*/d/@n", "9"),
        (".//d/text()", "first"),
        ("e", None),
        ("missing", None),
        ("b/@n", None),
    ],
)
def test_values(path, value):
    assert value_path(path, SPACES).value(DOCUMENT) == value


@pytest.mark.parametrize(
    "path",
    ["", "/a/b", "//b", "b[1]", "b[d='x']", "../b", "@", "@n/b", "b/", "b/text(", "a|b", "ancestor::b", "b c", "1a"],
)
def test_other_paths_to_values_are_refused(path):
    with pytest.raises(SourceError, match="path") as refused:
        value_path(path, SPACES)
    assert refused.value.condition == "XSCL_BAD_OPTION" and "supported" in str(refused.value)


@pytest.mark.parametrize(
    "path", ["", "item", "./item", "//item[1]", "//@id", "//item/text()", "/", "//", "//a/..", "//a b"]
)
def test_other_paths_to_records_are_refused(path):
    with pytest.raises(SourceError) as refused:
        split_path(path, SPACES)
    assert refused.value.condition == "XSCL_BAD_OPTION" and "//item" in str(refused.value)


def test_prefixes_must_stand_for_something():
    for make, text in ((split_path, "//q:a"), (value_path, "q:a"), (value_path, "@q:a")):
        with pytest.raises(SourceError, match="atom, p") as refused:
            make(text, SPACES)
        assert refused.value.condition == "XSCL_UNDECLARED_PREFIX"


@st.composite
def trees(draw, depth=0):
    element = etree.Element(draw(st.sampled_from(["a", "b", "{urn:p}a", "{urn:p}b"])))
    for _ in range(draw(st.integers(0, 0 if depth > 3 else 3))):
        element.append(draw(trees(depth=depth + 1)))
    return element


STEPS = st.tuples(st.sampled_from(["/", "//"]), st.sampled_from(["a", "b", "*", "p:a", "p:*", "*:b"]))


def outermost(elements):
    found = set(elements)
    return [element for element in elements if not found & set(element.iterancestors())]


@given(trees(), st.lists(STEPS, min_size=1, max_size=4))
def test_records_are_what_xpath_selects(root, steps):
    text = "".join(map("".join, steps))
    xpath = text.replace("*:b", "*[local-name()='b']")
    expected = outermost(root.getroottree().xpath(xpath, namespaces=SPACES))
    path = split_path(text, SPACES)
    found = []

    def visit(element, made):
        name = etree.QName(element)
        made = path.follow(made, name.namespace or "", name.localname)
        if path.is_record(made):
            found.append(element)
            return
        for child in element:
            visit(child, made)

    visit(root, path.begin())
    assert found == expected
