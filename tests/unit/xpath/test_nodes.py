"""Node numbers against an independent walk of the text, and locators."""

from __future__ import annotations

import xml.sax
from xml.sax.handler import ContentHandler, property_lexical_handler

import pytest
from hypothesis import given
from strategies import small_documents

from xscl.base.safe_xml import parse_xml
from xscl.xpath.nodes import (
    AttributeNode,
    DocumentNode,
    NodeNumbers,
    TextNode,
    children,
    document_order,
    node_at,
    string_value,
    text_nodes,
)

MIXED = (
    "<?xml version='1.0'?><?before x?><!--before--><a k='1' xmlns:p='urn:p' p:m='2'>one<b/>two<!--c-->three"
    "<b k='3'>in<c/><![CDATA[<cd>]]>after</b><?pi x?>four<![CDATA[five]]>six<d>\n</d></a><!--behind--><?behind x?>"
)
"""Attributes, text cut by elements, comments and processing instructions, and CDATA that joins the text around it."""


class Walk(ContentHandler):
    """Events of a parser of its own, in document order: the elements, and everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.others: list[tuple[int, str, str]] = []
        self.open: list[list[int]] = []
        self.text = ""

    def end_text(self) -> None:
        if self.text and self.open:
            self.open[-1][1] += 1
            self.others.append((self.open[-1][0], f"text()[{self.open[-1][1]}]", self.text))
        self.text = ""

    def startElementNS(self, name, qname, attrs):  # noqa: N802
        self.end_text()
        self.open.append([len(self.elements), 0])
        self.elements.append(clark(name))
        for key in attrs.getNames():
            self.others.append((self.open[-1][0], "@" + clark(key), attrs.getValue(key)))

    def endElementNS(self, name, qname):  # noqa: N802
        self.end_text()
        self.open.pop()

    def characters(self, content):
        self.text += content

    def processingInstruction(self, target, data):  # noqa: N802
        self.end_text()

    def comment(self, content):
        self.end_text()

    def startCDATA(self):  # noqa: N802
        pass

    endCDATA = startDTD = endDTD = startEntity = endEntity = lambda self, *_: None  # noqa: N815


def clark(name: tuple[str | None, str]) -> str:
    return f"{{{name[0]}}}{name[1]}" if name[0] else name[1]


def walked(text: str) -> Walk:
    walk = Walk()
    reader = xml.sax.make_parser()
    reader.setFeature(xml.sax.handler.feature_namespaces, True)
    reader.setContentHandler(walk)
    reader.setProperty(property_lexical_handler, walk)
    reader.feed(text)
    reader.close()
    return walk


def check_numbers(text: str) -> None:
    walk = walked(text)
    root = parse_xml(text)
    numbers = NodeNumbers(root)
    elements = list(numbers.elements())
    assert [element.tag for element in elements] == walk.elements
    expected = {(owner, label): place for place, (owner, label, _) in enumerate(walk.others, start=len(elements))}
    assert numbers.others == expected
    for owner, label, value in walk.others:
        place = NodeNumbers(root).locator(expected[owner, label])
        assert place == f"{owner}/{label}"
        node = node_at(root, place)
        assert isinstance(node, AttributeNode if label[0] == "@" else TextNode)
        assert node.owner is elements[owner]
        assert string_value(node) == value
        assert numbers.of(owner, node) == expected[owner, label]
    for number, element in enumerate(elements):
        assert NodeNumbers(root).locator(number) == number
        assert node_at(root, number) is element


def test_numbers_of_every_kind_of_node() -> None:
    check_numbers(MIXED)


@given(small_documents())
def test_numbers_of_random_documents(text: str) -> None:
    check_numbers(text)


def test_numbers_by_hand() -> None:
    root = parse_xml("<a k='v'>x<b m='w'>y</b>z</a>")
    assert NodeNumbers(root).others == {
        (0, "@k"): 2,
        (0, "text()[1]"): 3,
        (1, "@m"): 4,
        (1, "text()[1]"): 5,
        (0, "text()[2]"): 6,
    }


@pytest.mark.parametrize("between", ["<!--c-->", "<?p?>", "<b/>"])
def test_long_runs_of_siblings(between: str) -> None:
    """Work that grew with the square of such a run would not end."""
    count = 30_000
    root = parse_xml(f"<a>{between * count}<!--c-->{f'{between}t' * count}</a>")
    first = 1 + 2 * count * (between == "<b/>")
    others = NodeNumbers(root).others
    assert len(others) == count
    assert others[0, f"text()[{count}]"] == first + count - 1
    assert NodeNumbers(root).locator(first + count - 1) == f"0/text()[{count}]"
    last = node_at(root, f"0/text()[{count}]")
    assert isinstance(last, TextNode)
    assert last.owner is root
    assert sum(1 for _ in document_order(last)) == first + count


def test_deep_nesting_takes_no_recursion() -> None:
    depth = 200
    root = parse_xml("<a k='v'>t" * depth + "</a>" * depth)
    assert NodeNumbers(root).others[depth - 1, "text()[1]"] == 3 * depth - 1


def test_string_values() -> None:
    root = parse_xml("<a>x<!--no--><b k='v'>y<?no no?></b>z</a>")
    assert string_value(root) == string_value(DocumentNode(root)) == "xyz"
    assert string_value(root[1]) == "y"
    assert [node.text for node in text_nodes(root)] == ["x", "z"]
    assert [child.tag for child in children(root)] == ["b"]
    assert string_value(parse_xml("<a><!--c--></a>")) == ""
    assert string_value(parse_xml("<a><!--c-->t</a>")) == "t"


def test_the_text_beside_the_root_is_no_node() -> None:
    assert NodeNumbers(parse_xml("<!--c-->\n<a/>\n<!--c-->\n")).others == {}


def test_locators_of_names_with_namespaces() -> None:
    root = parse_xml("<a xmlns:p='urn:p/@x' p:k='v'/>")
    assert NodeNumbers(root).locator(1) == "0/@{urn:p/@x}k"
    assert string_value(node_at(root, "0/@{urn:p/@x}k")) == "v"


@pytest.mark.parametrize("number", [3, 100])
def test_numbers_that_name_no_node(number: int) -> None:
    with pytest.raises(LookupError):
        NodeNumbers(parse_xml("<a><b/>t</a>")).locator(number)


@pytest.mark.parametrize("place", [2, "x", "0/b", "9/@k", "0/text()"])
def test_locators_that_name_no_node(place: int | str) -> None:
    with pytest.raises(LookupError):
        node_at(parse_xml("<a><b/>t</a>"), place)


@pytest.mark.parametrize("place", ["0/text()[2]", "0/@k", -1])
def test_locators_of_absent_nodes(place: int | str) -> None:
    with pytest.raises(LookupError):
        node_at(parse_xml("<a><b/>t</a>"), place)
