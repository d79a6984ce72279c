"""Documents told to be in the stored form are well-formed, and serialize writes them as they are."""

from __future__ import annotations

import random
from itertools import product

import pytest
from budget import examples

from xscl.base.errors import XsclError
from xscl.base.safe_xml import parse_xml, serialize
from xscl.xpath.columns import stored_form
from xscl.xpath.columns.stored_form import in_stored_form

SOUND = [
    *("<a/>", '<a b="&lt;&gt;&amp;&quot;&#9;&#10;&#13;" c=""/>', "<a>\t\"'\n&lt;&gt;&amp;&#13;é😀\x7f\x85</a>"),
    *("<a-1.b>x<_/>y<_>z</_></a-1.b>", f'<{"a" * 40} {"b" * 20}="1"/>'),
]
OTHER = [
    *("<a></a>", "<a>&quot;</a>", "<a>&#9;</a>", "<a>&#10;</a>", "<a>></a>", "<a>\r</a>", "<a>&apos;</a>", "<a>&</a>"),
    *(
        "<a b='1'/>",
        '<a b="\t"/>',
        '<a b="&apos;"/>',
        '<a  b="1"/>',
        '<a b="1" />',
        "<a />",
        "<a>x</a >",
        '<a b ="1"/>',
    ),
    *('<a b="1" b="2"/>', '<a b="1"c="2"/>', "<a b=1/>", "<a b/>", "<1/>", "<-a/>", '<a 1="1"/>', "<a/><b/>", "<a/>x"),
    *("<a>\ufffe</a>", '<a b="\uffff"/>', "<a>\x1f</a>", "<a>\0</a>", "<a><b></a></b>", "<a>", "</a>", "", "x", "<>"),
    *("<p:a/>", "<a xmlns='u'/>", '<a xmlns="u"/>', '<a xml:id="i"/>', "<é/>", "<a><!--c--></a>", "<a><?x?></a>"),
    *(" <a/>", "<a/>\n", "\ufeff<a/>", "<?xml version='1.0'?><a/>", "<a><![CDATA[x]]></a>", '<a/ b="1"></a/>'),
]
PIECES = [
    "<",
    ">",
    "/",
    "a",
    " ",
    "=",
    '"',
    "&",
    "<a>",
    "</a>",
    "/>",
    "&lt;",
    "&quot;",
    "\n",
    ' b="',
    "\uffff",
    "'",
    "x",
]


def told(documents: list[str]) -> list[bool]:
    """What is told of each among as many sound ones, so that all are looked at."""
    texts = [document.encode() for document in documents]
    return in_stored_form([*texts, *[b"<a/>"] * (len(texts) + 1)])[: len(texts)]


def is_stored(document: str) -> bool:
    try:
        return serialize(parse_xml(document)) == document
    except XsclError:
        return False


@pytest.fixture(autouse=True)
def look_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_form, "_MOST_LOOKS", 1_000)


def test_documents_in_the_stored_form_are_told_from_others() -> None:
    assert told([*SOUND, *OTHER]) == [True] * len(SOUND) + [False] * len(OTHER)
    assert all(map(is_stored, SOUND))


def test_few_looks_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_form, "_MOST_LOOKS", 2)
    sound = [b"<a/>"] * 5
    assert in_stored_form([*sound, b"<a>"]) == [True] * 5 + [False]
    assert not any(in_stored_form([*sound, b"<a>", b"<a></a>"]))  # the third look would find the sound ones
    assert not any(in_stored_form([b"<a/>", b"<a>", b"<b>"]))
    assert in_stored_form([]) == []


def test_every_short_document_that_is_told_so_is_in_the_stored_form() -> None:
    documents = ["<" + "".join(each) + ">" for each in product('ab/ ="<>&', repeat=4)]
    documents += ["<a>" + "".join(each) + "</a>" for each in product(PIECES, repeat=2)]
    found = told(documents)
    assert sum(found) > 10
    assert [document for document, so in zip(documents, found, strict=True) if so and not is_stored(document)] == []


@pytest.mark.parametrize("seed", range(examples(4)))
def test_changed_documents_that_are_told_so_are_in_the_stored_form(seed: int) -> None:
    chance = random.Random(seed)
    documents = []
    for _ in range(500):
        document = chance.choice(SOUND)
        for _ in range(chance.randrange(4)):
            first, last = sorted(chance.choices(range(len(document) + 1), k=2))
            last = min(last, first + chance.randrange(4))
            document = document[:first] + chance.choice([*PIECES, ""]) + document[last:]
        documents.append(document)
    found = told(documents)
    assert any(found)
    assert [document for document, so in zip(documents, found, strict=True) if so and not is_stored(document)] == []
