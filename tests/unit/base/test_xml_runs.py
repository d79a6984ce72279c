"""Documents that are checked together: each has the outcome that it has alone, whatever stands beside it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from budget import examples

from xscl.base import xml_runs
from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import XsclError
from xscl.base.values import digest_text
from xscl.base.xml_runs import CanonicalDocument, canonical_documents
from xscl.store.event_content import document_digest, stored_document, stored_documents

Document = str | bytes

SOUND: list[Document] = [
    "<a/>",
    "<a>x</a>",
    "<c/>",
    "  <a>é</a>\r\n",
    "<a>é</a>".encode(),
    "<a b='\"'/>",
    '<a b="&lt;>&#10;"/>',
    "<a>&#38;&#60;&#x85; > </a>",
    "<a xmlns='u'><b xmlns=''/></a>",
    '<p:a xmlns:p="u"><p:b/></p:a>',
    '<a xml:id="i"/>',
    '<a xml:id="i"/>',
    "<a><!--c--><b/></a>",
    "<a><![CDATA[<b>&]]></a>",
    "<?xml version='1.0'?>\n<a/>",
    '<?xml version="1.0" encoding="UTF-8"?><a>é</a>'.encode(),
    "<a>" + "<b>1</b>" * 150 + "</a>",
]
"""Documents that are taken together."""
HOSTILE: list[Document] = [
    *("</c><c>", "</c><c/><c>", "<a><!--", "--><b/>", "]]>", "<a>", "</a>", "<a b='", "'/>", "<a><![CDATA[", "]]></a>"),
    *("", " ", "x", "<a/>x", "x<a/>", "<a/><b/>", "<a/ >", "<>", "<a/>&amp;", "&amp;", "<a x=y/>", "<a b='1' b='2'/>"),
    *("<!--c-->", "<a/><!--c-->", "<!--c--><a/>", "<?x?>", "<a><?x?></a>", "<a/><?x?>", "<?x?><a/>", "<?x?>" * 3),
    *(
        "<a><b></a></b>",
        "<a>&e;</a>",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
        "<!ELEMENT a ANY>",
    ),
    *(
        "<a>\ud800</a>",
        "<a>\0</a>",
        "<a/>\0",
        "\0<a/>",
        "<a>\x01</a>",
        "\ufeff<a/>",
        "\xa0<a/>",
        "<a/>\u2003",
        "<a/>\x1c",
    ),
    *("<p:a/>", "<a><p:b/></a>", "<a xmlns:p=''/>", "<x:a xmlns:x='r/e'/>", '<a xml:id="1"/>', "<a:b:c xmlns:a='u'/>"),
    *("<a>]]></a>", " <?xml version='1.0'?><a/>", b"\n<?xml version='1.0'?><a/>", "<?xml version='1.1'?><a/>"),
    '<?xml version="1.0" encoding="latin-1"?><a>é</a>',
    '<?xml version="1.0" encoding="latin-1"?><a>é</a>'.encode("latin-1"),
    *(b"<a>\xe9</a>", b"<a>\xe2\x82", b"\xef\xbb\xbf<a/>", "<a>é</a>".encode("utf-16"), b"<a/>\x00"),
    *("<a>" * depth + "</a>" * depth for depth in (199, 200, 201, 256, 257)),
    *("<a" + "".join(f" a{n}=''" for n in range(count)) + "/>" for count in (1_000, 1_001)),
    *("<a" + "".join(f" xmlns:a{n}='u{n}'" for n in range(count)) + "/>" for count in (200, 201)),
    *(f"<a xmlns:p='{'u' * count}'/>" for count in (500, 501)),
    f"<a>{''.join(f'<b{n}/>' for n in range(9_999))}</a>",
    f"<a>{''.join(f'<b{n}/>' for n in range(10_000))}</a>",
    f"<a>{'x' * 70_000}</a>",
]
SMALL = Limits(
    max_bytes=60,
    max_depth=3,
    max_nodes=9,
    max_attributes=2,
    max_text=40,
    max_names=6,
    max_namespace=3,
    max_namespaces=2,
)
NEAR: list[Document] = [
    *("<a><b><c/></b></a>", "<a><b><c><d/></c></b></a>", "<a b='1' c='2'/>", "<a b='1' c='2' d='3'/>"),
    *(
        "<a xmlns='uuu'/>",
        "<a xmlns='uuuu'/>",
        "<a xmlns:b='u' xmlns:c='v'/>",
        "<a xmlns:b='u' xmlns:c='v' xmlns:d='w'/>",
    ),
    *(f"<a>{'<b/>' * count}</a>" for count in (7, 8, 9)),
    *(f"<a>{'x' * count}</a>" for count in (39, 40, 41, 53, 54)),
    *(f"<a>{'>' * count}</a>" for count in (12, 13, 14)),
    "<a><b/><c/><d/><e/><f/></a>",
    "<a><b/><c/><d/><e/><f/><g/></a>",
]
"""Documents at the edge of ``SMALL``."""


def alone(content: Document, limits: Limits) -> bytes | tuple[str, str]:
    try:
        return stored_document(content, limits).encode()
    except XsclError as error:
        return error.condition, error.message


def shown(found: bytes | XsclError) -> bytes | tuple[str, str]:
    return (found.condition, found.message) if isinstance(found, XsclError) else found


def made(chance: random.Random, depth: int = 4) -> str:
    """A sound document."""
    name = chance.choice("abcde")
    attributes = "".join(
        f' {key}="{chance.choice(["", "x", "&lt;", "a=b"])}"' for key in chance.sample("uvw", chance.randrange(3))
    )
    parts = ["", "text", "é &amp; 😀", "<!-- c -->", "a>b", "<![CDATA[<x>]]>"]
    inside = "".join(
        made(chance, depth - 1) if depth and chance.random() < 0.5 else chance.choice(parts)
        for _ in range(chance.randrange(4))
    )
    return f"<{name}{attributes}>{inside}</{name}>"


def broken(document: str, chance: random.Random) -> Document:
    """A piece of a document, or one with something put in."""
    first, last = sorted(chance.choices(range(len(document) + 1), k=2))
    put = chance.choice(["", "<", "&", '"', "<?", "<!", ">", "/>", "]]>", "<?x?>", "</c>", "\xa0", "\0"])
    text = chance.choice([document[:first], document[last:], document[:first] + put + document[last:]])
    return text.encode() if chance.random() < 0.3 else text


@pytest.mark.parametrize("seed", range(examples(8)))
@pytest.mark.parametrize("limits", [DEFAULT_LIMITS, SMALL], ids=["default", "small"])
@pytest.mark.parametrize("looked_at", [False, True], ids=["parsed", "looked at"])
def test_neighbours_change_nothing(seed: int, limits: Limits, looked_at: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    if looked_at:
        monkeypatch.setattr(xml_runs, "_FEW", 1)
        monkeypatch.setattr(xml_runs, "_LOOK", 7)
    real = [made(chance) for _ in range(20)]
    sources: Sequence[Sequence[Document]] = [SOUND, HOSTILE, NEAR, real]
    known: dict[Document, bytes | tuple[str, str]] = {}
    for _ in range(40):
        weights = chance.choice([(5, 0, 2, 5), (1, 1, 1, 1), (40, 1, 10, 40)])
        run = [chance.choice(chance.choices(sources, weights)[0]) for _ in range(chance.choice([1, 2, 3, 9, 40]))]
        if chance.random() < 0.5:
            run[chance.randrange(len(run))] = broken(chance.choice(real), chance)
        for content, found in zip(run, stored_documents(run, limits), strict=True):
            if content not in known:
                known[content] = alone(content, limits)
            assert shown(found) == known[content], content


def test_sound_documents_are_checked_together() -> None:
    assert None not in canonical_documents(SOUND)
    assert None not in canonical_documents([*SOUND * 40])
    assert None not in canonical_documents(["<a/>"])


def test_bad_documents_leave_the_others_together(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    monkeypatch.setattr(
        xml_runs, "parse_faultless", lambda data, of=xml_runs.parse_faultless: parsed.append(1) or of(data)
    )
    documents: list[Document] = ["<a/>"] * 500
    documents[77] = "<a>"
    found = canonical_documents(documents)
    assert [n for n, text in enumerate(found) if text is None] == list(range(71, 79))
    # The run, its eighths, and the eighths of one of them.
    assert len(parsed) == 1 + 8 + 8


def test_documents_that_are_canonical_as_they_are_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = '<?xml version="1.0" encoding="UTF-8"?>\n<c/>\n'
    documents: list[Document] = ["<a>é</a>", "<b>é</b>".encode(), declared, declared.encode()] * 300
    monkeypatch.setattr(xml_runs, "parse_faultless", None)
    assert stored_documents(documents) == ["<a>é</a>".encode(), "<b>é</b>".encode(), b"<c/>", b"<c/>"] * 300


def test_no_more_bytes_than_allowed_when_written_out() -> None:
    grown = "<a>" + ">" * 20 + "</a>"
    limits = Limits(max_bytes=len(grown))
    assert [isinstance(found, XsclError) for found in stored_documents(["<a/>", grown], limits)] == [False, True]


@pytest.mark.parametrize(
    "text",
    [
        "<r><a><![CDATA[]]></a><b/></r>",
        "<r><a><![CDATA[]]><![CDATA[]]></a><b></b></r>",
        "<!DOCTYPE r [<!ENTITY e ''>]><r><a>&e;</a><b>&e;</b></r>",
    ],
)
@pytest.mark.parametrize("encoding", ["", "utf-8", "utf-16"])
def test_elements_with_empty_sections_are_empty(text: str, encoding: str) -> None:
    content = text.encode(encoding) if encoding else text
    plain, empty = stored_documents(["<r><a/><b/></r>", content], DEFAULT_LIMITS)
    assert shown(empty) == shown(plain)


def test_digests_of_documents() -> None:
    assert document_digest("<a>é</a>".encode()) == digest_text("xml", "<a>é</a>")


def test_canonical_documents_are_held_to_limits_unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [CanonicalDocument(f"<a>{'<b/>' * count}</a>") for count in (7, 8, 9)]
    found = stored_documents(documents, SMALL)
    assert list(map(shown, found)) == [alone(str(document), SMALL) for document in documents]
    monkeypatch.setattr(xml_runs, "parse_faultless", None)
    assert canonical_documents([CanonicalDocument("<a>é</a>")]) == ["<a>é</a>".encode()]
