"""Documents as columns, against a walk through the parsed document."""

from __future__ import annotations

import pyarrow as pa
import pytest
from budget import examples
from chunk_oracle import check, nodes_of, shredded, walked
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from patterns import document as random_document
from patterns import documents
from strategies import Choices, Dice

from xscl.base.safe_xml import parse_xml, serialize
from xscl.xpath.columns.names import ChunkNames
from xscl.xpath.columns.shredding import shred


def stored(text: str) -> str:
    return serialize(parse_xml(text))


VALUES = (
    "",
    "x",
    "a>b",
    "<",
    "&",
    '"',
    "'",
    "\t",
    "\n",
    "\r",
    "é",
    "\U0001f600",
    "\x85",
    "&amp;",
    "]]>",
    "a\t\n b",
    "/>",
    ' xmlns="u"',
)
NAMES = ("a", "b", "n:a", "m:a", "longer-than-eight", "longer-than-eight.bytes", "é", "_", "a1", "xmlnsx", "n:xmlns")


def tree(choose: Choices, depth: int) -> etree._Element:
    """A tree with everything that may be written, and declarations inside."""
    spaces = {"n": "urn:n", "m": choose.one("urn:m", "urn:n")}
    top = etree.Element("{urn:n}r" if choose.chance(20) else "r", nsmap=spaces if choose.chance(80) else None)
    _grow(choose, top, depth)
    return top


def _grow(choose: Choices, element: etree._Element, depth: int) -> None:
    for name in NAMES[: choose.one(0, 0, 1, 3, len(NAMES))]:
        element.set(_named(name), choose.one(*VALUES))
    element.text = choose.one(*VALUES)
    if not depth:
        return
    for _ in range(choose.count(0, 3)):
        declared = choose.one(None, None, None, {None: "urn:d"}, {"n": "urn:other"})
        child = etree.SubElement(element, _named(choose.one(*NAMES)), nsmap=declared)
        child.tail = choose.one(*VALUES)
        _grow(choose, child, depth - 1)


def _named(name: str) -> str:
    prefix, colon, local = name.rpartition(":")
    return f"{{urn:{prefix}}}{local}" if colon else local


@st.composite
def trees(draw: st.DrawFn) -> str:
    return serialize(tree(Choices(draw), 3))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(trees(), min_size=1, max_size=4))
def test_random_trees(texts: list[str]) -> None:
    assert check(texts) == len(texts)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(documents(), min_size=1, max_size=4))
def test_any_texts(texts: list[str]) -> None:
    """What is left out is not in the stored form."""
    plain = [stored(text) for text in texts]
    assert check([*texts, *plain]) >= sum("<!" not in text and "<?" not in text for text in plain)


@pytest.mark.parametrize("value", ["how to write an xmlns", ' xmlns="u"', "xmlns:p"])
def test_letters_of_a_declaration_within_values_declare_nothing(value: str) -> None:
    element = etree.Element("a", href=value)
    etree.SubElement(element, "t").text = value
    text = etree.tostring(element, encoding="unicode")
    check([stored(text)] * 3)


def test_chunks_share_names() -> None:
    choose, names = Dice(4), ChunkNames()
    for _ in range(20):
        assert check([serialize(tree(choose, 3)) for _ in range(5)], names) == 5
    epoch = names.epoch
    names.forget()
    assert names.epoch > epoch
    assert check([serialize(tree(choose, 3)) for _ in range(5)], names) == 5


def test_deep_documents() -> None:
    deep = "<a>" * 200 + "x" + "</a>" * 200
    assert check([deep, stored("<b>y</b>"), "<a>" * 249 + "<a/>" + "</a>" * 249]) == 3
    assert len(shredded(["<a>" * 251 + "</a>" * 251, "<b/>"]).places) == 1


ODD = [
    "",
    "x",
    " <a/>",
    "<a/> ",
    "<a/>\n",
    "\ufeff<a/>",
    "<a/><b/>",
    "<a></b>",
    "<a><b></a></b>",
    "<a>",
    "</a>",
    "</a><a>",
    "<a></a></a><a>",
    "<>",
    "</>",
    "<a/",
    "<a>>",
    "<a>></a>",
    "<a>]]></a>",
    "<a b='1'/>",
    "<a b='\"1\"'/>",
    '<a b="1>2"/>',
    '<a  b="1"/>',
    '<a b="1" />',
    '<a b="1"c="2"/>',
    '<a b = "1"/>',
    '<a b="1" c="2" b="3"/>',
    '<a b=" \n "/>',
    '<a b="\t"/>',
    '<a b="1/>',
    '<a b="1"></a b="1">',
    '<a ="1"/>',
    '<a b=""" c=""/>',
    "<a >x</a>",
    "<a\n>x</a>",
    "<a>x</a >",
    "<a>\r\n</a>",
    "<a>\x01</a>",
    "<a>&unknown;</a>",
    "<a>&</a>",
    "<a>&#160;</a>",
    "<a>&apos;</a>",
    "<a><!--c--></a>",
    "<a><?p i?></a>",
    "<a><![CDATA[<b>]]></a>",
    "<!--c--><a/>",
    '<?xml version="1.0"?><a/>',
    "<!DOCTYPE a><a/>",
    "<n:a/>",
    '<a n:b="1"/>',
    "<1a/>",
    "<-a/>",
    "<a:/>",
    "<:a/>",
    "<a:b:c/>",
    "<a$/>",
    f"<{'a' * 300}/>",
]


@pytest.mark.parametrize("odd", ODD)
def test_one_odd_document_is_left_out_alone(odd: str) -> None:
    sound = ['<a b="1">x<c/></a>', "<n:a xmlns:n='urn:n'/>".replace("'", '"'), "<a>&amp;&lt;</a>"]
    for texts in ([odd], [odd, *sound], [*sound, odd], [sound[0], odd, odd, *sound[1:]]):
        chunk = shredded(texts)
        assert chunk.places.tolist() == [place for place, text in enumerate(texts) if text != odd]
        assert check(texts) == len(texts) - texts.count(odd)


def test_parts_of_sound_documents() -> None:
    """Whatever is cut off, the others stay as they are."""
    choose = Dice(9)
    texts = [serialize(tree(choose, 2)) for _ in range(30)]
    cut = [text[choose.count(0, len(text)) :] for text in texts] + [
        text[: choose.count(0, len(text))] for text in texts
    ]
    mixed = [part for text, first, last in zip(texts, cut[:30], cut[30:], strict=True) for part in (first, text, last)]
    chunk = shredded(mixed)
    assert set(range(1, 90, 3)) <= set(chunk.places.tolist())
    for place in chunk.places.tolist():
        parse_xml(mixed[place])
    assert check(mixed) == len(chunk.places)


def test_parts_of_an_array() -> None:
    texts = [stored(random_document(Dice(seed))) for seed in range(20)]
    whole = pa.array(texts, pa.string())
    names = ChunkNames()
    for low, high in ((0, 0), (0, 7), (7, 8), (8, 20), (20, 20)):
        chunk = shred(whole.slice(low, high - low), names.roots(["S"] * (high - low)), names)
        for place, nodes in zip(chunk.places.tolist(), nodes_of(chunk), strict=True):
            assert nodes == walked(parse_xml(texts[low + place]))
