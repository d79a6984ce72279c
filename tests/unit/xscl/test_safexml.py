"""Documents from strangers: nothing outside is read, limits hold, every refusal is one of two errors."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.errors import DocumentError, DocumentLimitError, MalformedDocumentError
from xscl.safexml import Limits, parse_xml, serialize

SECRET = "not for strangers"


def grown(count: int) -> str:
    """Entities of which each is ten times the one before."""
    names = "abcdefghijkl"[:count]
    lines = [f'<!ENTITY {names[0]} "xxxxxxxxxx">']
    lines += [f'<!ENTITY {names[n]} "{f"&{names[n - 1]};" * 10}">' for n in range(1, count)]
    return f"<!DOCTYPE r [{''.join(lines)}]><r>&{names[-1]};</r>"


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """A file with a secret and a DTD that would bring it in."""
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    dtd = tmp_path / "some.dtd"
    dtd.write_text(f'<!ENTITY e "{SECRET}"><!ATTLIST r k CDATA "{SECRET}">')
    return {"secret": secret.as_uri(), "dtd": dtd.as_uri()}


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE r [<!ENTITY e SYSTEM "{secret}">]><r>&e;</r>',
        '<!DOCTYPE r [<!ENTITY e SYSTEM "{secret}">]><r k="&e;"/>',
        '<!DOCTYPE r [<!ENTITY e PUBLIC "x" "{secret}">]><r>&e;</r>',
        '<!DOCTYPE r SYSTEM "{dtd}"><r>&e;</r>',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "{dtd}"> %p;]><r>&e;</r>',
        '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x.dtd"><r>&e;</r>',
    ],
)
def test_entities_from_outside_are_refused_unread(text: str, outside: dict[str, str]) -> None:
    with pytest.raises(MalformedDocumentError) as caught:
        parse_xml(text.format(**outside))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE r SYSTEM "{dtd}"><r/>',
        '<!DOCTYPE r [<!ENTITY e SYSTEM "{secret}">]><r/>',
        '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x.dtd"><r/>',
        '<r xmlns:i="http://www.w3.org/2001/XInclude"><i:include href="{secret}" parse="text"/></r>',
        '<?xml-stylesheet href="{secret}"?><r/>',
    ],
)
def test_what_merely_names_something_outside_is_taken_unread(text: str, outside: dict[str, str]) -> None:
    root = parse_xml(text.format(**outside))
    assert SECRET not in serialize(root)
    assert root.get("k") is None


def test_defaults_of_an_internal_dtd_are_not_filled_in() -> None:
    assert serialize(parse_xml('<!DOCTYPE r [<!ATTLIST r k CDATA "x">]><r/>')) == "<r/>"


def test_entities_of_the_document_itself_are_expanded() -> None:
    assert parse_xml('<!DOCTYPE r [<!ENTITY e "in">]><r>&e;&amp;&#65;</r>').text == "in&A"
    assert len(parse_xml(grown(2)).text or "") == 100


@pytest.mark.parametrize("encoded", [False, True])
def test_billion_laughs(encoded: bool) -> None:
    text = grown(10)
    tracemalloc.start()
    with pytest.raises(DocumentLimitError):
        parse_xml(text.encode() if encoded else text)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_an_entity_that_contains_itself() -> None:
    with pytest.raises(DocumentError, match="loop"):
        parse_xml('<!DOCTYPE r [<!ENTITY a "&b;"><!ENTITY b "&a;">]><r>&a;</r>')


# -- limits ------------------------------------------------------------------------------------------------


def nested(depth: int) -> str:
    return "<a>" * depth + "</a>" * depth


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        (nested(3), Limits(max_depth=3)),
        (nested(200), Limits()),
        ("<a b='1'><c/></a>", Limits(max_nodes=3)),
        ("<a/>", Limits(max_bytes=4)),
        ("<é/>", Limits(max_bytes=5)),
    ],
)
def test_limits_are_inclusive(text: str, limits: Limits) -> None:
    assert parse_xml(text, limits=limits) is not None


@pytest.mark.parametrize(
    ("text", "limits", "message"),
    [
        (nested(4), Limits(max_depth=3), "deeper than 3"),
        (nested(201), Limits(), "deeper than 200"),
        (nested(5000), Limits(), "(?i)depth"),
        ("<a>\n<b c='1'/></a>", Limits(max_nodes=2), "line 2: more than 2"),
        ("<a>" + "<b/>" * 1000 + "</a>", Limits(max_nodes=1000), "more than 1,000"),
        ("<a/>", Limits(max_bytes=3), "4 bytes, the limit is 3"),
        ("<é/>", Limits(max_bytes=4), "5 bytes"),
    ],
)
def test_over_a_limit(text: str, limits: Limits, message: str) -> None:
    with pytest.raises(DocumentLimitError, match=message) as caught:
        parse_xml(text, limits=limits)
    assert caught.value.condition == "XSCL_DOCUMENT_LIMIT"


# -- not well-formed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        (b"", "empty"),
        (b"\xff\xfe", "line|Document|document"),
        ("text", "line 1, column 1"),
        ("<a>", "line 1"),
        ("<a>\n</b>", "line 2"),
        ("<a/><b/>", "line 1, column 5"),
        ("<a b='1' b='2'/>", "redefined"),
        ("<x:a/>", "prefix x"),
        ("<a>&nbsp;</a>", "nbsp"),
        ("<a>&#0;</a>", "line|Document|document"),
        ("<a>\x01</a>", "line|Document|document"),
        ("<a>\x00</a>", "line|Document|document"),
        ("<a>\ud800</a>", "half a surrogate pair"),
        ("<?xml version='1.0'?", "line|Document|document"),
        ("<?xml version='1.0'", "line|Document|document"),
        (b"\n<?xml version='1.0'?><a/>", "declaration"),
        (b"<?xml version='1.0' encoding='no-such'?><a/>", "no-such"),
        (b"<a>\xe9</a>", "encoding"),
        (b"<?xml version='1.0' encoding='utf-16'?><a/>", "line|Document|document"),
    ],
)
def test_malformed(content: str | bytes, message: str) -> None:
    with pytest.raises(MalformedDocumentError, match=message) as caught:
        parse_xml(content)
    assert caught.value.condition == "XSCL_MALFORMED_DOCUMENT"


@pytest.mark.parametrize(
    "content",
    [
        "<a>é</a>",
        "\ufeff<a>é</a>",
        "\n <?xml version='1.0' encoding='utf-16'?><a>é</a>",
        "<?xml version='1.0' encoding='no-such'?><a>é</a>",
        "<a>é</a>".encode(),
        "\ufeff<a>é</a>".encode(),
        "<a>é</a>".encode("utf-16"),
        "<?xml version='1.0' encoding='iso-8859-1'?><a>é</a>".encode("latin-1"),
        "<?xml version='1.0' encoding='windows-1252'?><a>é</a>".encode("cp1252"),
    ],
)
def test_encodings(content: str | bytes) -> None:
    assert parse_xml(content).text == "é"


def test_comments_and_instructions_stay_and_cdata_is_text() -> None:
    root = parse_xml("<a>x<!--c-->y<?p q?>z<![CDATA[<&]]></a>")
    assert [(child.tail or "") for child in root] == ["y", "z<&"]
    assert serialize(root) == "<a>x<!--c-->y<?p q?>z&lt;&amp;</a>"


def test_serialize_leaves_out_what_follows_and_keeps_namespaces() -> None:
    root = parse_xml('<r xmlns:n="urn:n"><n:a>x</n:a>tail</r>')
    assert serialize(root[0]) == '<n:a xmlns:n="urn:n">x</n:a>'


@given(st.one_of(st.text(), st.binary(), st.text(alphabet="<>/a&;!?[]'\" =").map("<a>{}".format)))
def test_anything_gives_a_tree_or_a_document_error(content: str | bytes) -> None:
    try:
        root = parse_xml(content)
    except DocumentError as error:
        assert error.message
    else:
        assert parse_xml(serialize(root)).tag == root.tag
