"""Documents from strangers: nothing outside is read, limits hold, every refusal is one of two errors."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from decimal import Decimal, localcontext
from pathlib import Path
from xml.parsers import expat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.base import safe_xml
from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import DocumentError, DocumentLimitError, MalformedDocumentError
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored, parse_xml, serialize, work_time
from xscl.base.xml_bounds import has_few_names, longest_tag, may_have_long_namespace, most_values, without_sections

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


@contextmanager
def nothing_opens(folder: Path) -> Iterator[None]:
    """Fails if a file of the folder is opened, by whatever library."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs inotify")
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    on_open = 0x20
    assert watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(folder), on_open) >= 0
    try:
        yield
        with pytest.raises(BlockingIOError):
            os.read(watch, 4096)
        next(folder.iterdir()).read_bytes()
        assert os.read(watch, 4096)  # it would have been seen
    finally:
        os.close(watch)


def counted(text: str) -> object:
    return parse_xml(text, limits=replace(DEFAULT_LIMITS, max_text=len(text) - 1))


@pytest.mark.parametrize("parse", [parse_xml, counted, parse_stored])
@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE r [<!ENTITY e SYSTEM "{file}">]><r k="x">&e;</r>',
        '<!DOCTYPE r [<!ENTITY e SYSTEM "{file}">]><r k="&e;"/>',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "{file}"> %p;]><r>&e;</r>',
        '<!DOCTYPE r [<!ENTITY % p PUBLIC "x" "{file}"> %p;]><r/>',
        "<!DOCTYPE r [<!ENTITY % p \"<!ENTITY e SYSTEM '{file}'>\"> %p;]><r>&e;</r>",
        '<!DOCTYPE r [<!NOTATION n SYSTEM "{file}"><!ENTITY e SYSTEM "{file}" NDATA n>]><r/>',
        '<!DOCTYPE r SYSTEM "{file}"><r>&e;</r>',
        '<!DOCTYPE r SYSTEM "{file}"><r/>',
        '<!DOCTYPE r PUBLIC "x" "{file}" [<!ENTITY a "b">]><r>&a;</r>',
        '<r xmlns:i="http://www.w3.org/2001/XInclude"><i:include href="{file}" parse="text"/></r>',
        '<?xml-stylesheet href="{file}" type="text/xsl"?><r/>',
        '<r xmlns:x="http://www.w3.org/2001/XMLSchema-instance" x:noNamespaceSchemaLocation="{file}"/>',
        '<r xml:base="{file}"><a href="{file}"/></r>',
    ],
)
def test_nothing_outside_is_opened(text: str, parse: Callable[[str], object], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(f'<!ENTITY e "{SECRET}">')
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        places = file.as_uri(), str(file), f"http://127.0.0.1:{server.getsockname()[1]}/file"
        with nothing_opens(tmp_path):
            for place in places:
                try:
                    parse(text.format(file=place))
                except DocumentError as error:
                    assert SECRET not in str(error)
        with pytest.raises(BlockingIOError):
            server.accept()


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


def test_what_entities_make_longer() -> None:
    long, times = "x" * 100_000, 200
    values = "<a b='&e;'/>" * times
    with pytest.raises(DocumentLimitError, match="five times as long"):
        parse_xml(f'<!DOCTYPE r [<!ENTITY e "{long}">]><r>{"&e;" * times}</r>')
    with pytest.raises(DocumentLimitError, match="five times as long"):
        parse_xml(f"<!DOCTYPE r [<!ENTITY e '{long}'>]><r>{values}</r>")
    # Each element would get all the attributes.
    defaults = " ".join(f'a{n} CDATA "x"' for n in range(2_000))
    with pytest.raises(DocumentLimitError, match="five times as long"):
        parse_xml(f"<!DOCTYPE r [<!ATTLIST a {defaults}>]><r>{'<a/>' * 2_000}</r>")


def test_nodes_of_entities_count_wherever_they_are_used() -> None:
    text = f'<!DOCTYPE r [<!ENTITY e "{"<a/>" * 100}">]><r>{"&e;" * 100}</r>'
    assert parse_xml(text, limits=Limits(max_nodes=10_001)) is not None
    with pytest.raises(DocumentLimitError, match="line 1: 10,001 .* max_nodes is 10,000"):
        parse_xml(text, limits=Limits(max_nodes=10_000))


@pytest.mark.parametrize(
    "declarations",
    [
        '<!ENTITY e{} "">',
        "<!ENTITY % e{} ''>",
        "<!ELEMENT e{} (a|b)*>",
        "<!ATTLIST r e{} CDATA ''>",
        "<!NOTATION e{} SYSTEM 'x'>",
    ],
)
@pytest.mark.parametrize("before", ["", "<?xml version='1.0'?>\n<!-- > [ -->", "<?p [?> <!---->\n", "\ufeff"])
def test_documents_with_declarations_are_smaller(declarations: str, before: str) -> None:
    subset = "".join(declarations.format(n) for n in range(1000))
    text = f'{before}<!DOCTYPE r PUBLIC "-//X" "[>" [{subset}]><r/>'
    data = text.removeprefix("\ufeff").encode()
    assert parse_xml(text, limits=Limits(max_declaring_bytes=len(data))) is not None
    for content in (text, data, b"\xef\xbb\xbf" + data):
        with pytest.raises(DocumentLimitError, match="max_declaring_bytes"):
            parse_xml(content, limits=Limits(max_declaring_bytes=len(data) - 1))


def test_documents_that_only_speak_of_declarations_are_not() -> None:
    small = Limits(max_declaring_bytes=10)
    assert parse_xml("<a><![CDATA[<!DOCTYPE a [<!ENTITY e ''>]>]]></a>", limits=small) is not None
    assert parse_xml("<!-- <!DOCTYPE a [ --><a>[</a>", limits=small) is not None
    assert parse_xml("<!DOCTYPE rss PUBLIC '-//X' '['><rss>[</rss>", limits=small) is not None


def test_an_entity_that_contains_itself() -> None:
    with pytest.raises(DocumentError, match="contain themselves"):
        parse_xml('<!DOCTYPE r [<!ENTITY a "&b;"><!ENTITY b "&a;">]><r>&a;</r>')


# -- limits ------------------------------------------------------------------------------------------------


def nested(depth: int) -> str:
    return "<a>" * depth + "</a>" * depth


ONE_OVER = [
    ("max_bytes", "<é/>", 5, "has 5 bytes"),
    ("max_depth", nested(3), 3, "line 1: 3 levels"),
    ("max_depth", "<a>\n<b>\n<c/></b></a>", 3, "line 3: 3 levels"),
    ("max_nodes", "<a>\n<b c='1'/></a>", 3, "line 2: 3 elements, attributes"),
    ("max_nodes", "<a>" + "<b/>" * 1000 + "</a>", 1001, "line 1: 1,001 elements"),
    ("max_nodes", "<a xmlns='u'><!---->\n<?p?></a>", 4, "line 2: 4 elements"),
    ("max_attributes", "<a>\n<b c='' d='' xmlns='u' xmlns:p='u'/></a>", 4, "line 2: 4 attributes"),
    ("max_attributes", "<a>" + "<b c='' d=''/>" * 9 + "</a>", 2, "line 1: 2 attributes"),
    ("max_text", "<a>\n<b>x&lt;<![CDATA[<]]>y</b></a>", 4, "line 2: 4 characters|line 3: 4"),
    ("max_text", "<a>\n<b/>xxxx</a>", 4, "line 1: 4 characters|line 2: 4"),
    ("max_text", "<a b='xééx'/>", 4, "line 1: 4 characters"),
    ("max_text", "<a><!--xxxx--></a>", 4, "line 1: 4 characters"),
    ("max_text", "<a><?p xxxx?></a>", 4, "line 1: 4 characters"),
    ("max_text", "<a><!---->xxxx</a>", 4, "line 1: 4 characters"),
    ("max_names", "<a><b c=''/>\n<d/><b/></a>", 4, "line 2: 4 distinct"),
    ("max_names", "<a xmlns='u'>\n<a xmlns=''/></a>", 2, "line 2: 2 distinct"),
    ("max_names", "<a xmlns:p='u'>\n<p:a p:a=''/></a>", 2, "line 2: 2 distinct"),
    ("max_namespace", "<a>\n<p:a xmlns:p='uuuu'/></a>", 4, "line 2: 4 characters in one namespace"),
    ("max_namespace", '<a xmlns = "uuuu"/>', 4, "line 1: 4 characters in one namespace"),
    ("max_namespaces", "<a xmlns='u'>\n<a xmlns=''/><a xmlns='u'/></a>", 2, "line 2: 2 declarations"),
    ("max_names", "<a>\n<?b?></a>", 2, "line 2: 2 distinct"),
]


@pytest.mark.parametrize("doctype", [False, True])
@pytest.mark.parametrize(("name", "text", "figure", "message"), ONE_OVER)
def test_limits_are_inclusive(name: str, text: str, figure: int, message: str, doctype: bool) -> None:
    if doctype and name != "max_bytes":
        text = f"<!DOCTYPE a [<!ENTITY e ''>]>{text}"
    assert parse_xml(text, limits=replace(DEFAULT_LIMITS, **{name: figure})) is not None
    with pytest.raises(
        DocumentLimitError, match=f"({message}).* {name} is {figure - 1}".replace("1000", "1,000")
    ) as caught:
        parse_xml(text, limits=replace(DEFAULT_LIMITS, **{name: figure - 1}))
    assert caught.value.condition == "XSCL_DOCUMENT_LIMIT"


def figures(text: str) -> dict[str, int]:
    """What the limits count, by another parser; limits of a document without declarations."""
    found = dict.fromkeys((field.name for field in fields(Limits)), 0)
    names: set[str] = set()
    declared: set[tuple[str | None, str | None]] = set()
    depth = spaces = 0
    pieces: list[str] = []

    def largest(name: str, figure: int) -> None:
        found[name] = max(found[name], figure)

    def end_text() -> None:
        largest("max_text", len("".join(pieces)))
        pieces.clear()

    def space(prefix: str | None, uri: str | None) -> None:
        nonlocal spaces
        spaces += 1
        declared.add((prefix, uri))
        largest("max_namespace", len(uri or ""))

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, spaces
        end_text()
        depth += 1
        largest("max_depth", depth)
        largest("max_attributes", spaces + len(attributes))
        largest("max_text", max(map(len, attributes.values()), default=0))
        found["max_nodes"] += 1 + spaces + len(attributes)
        names.update((name, *attributes))
        spaces = 0

    def end(name: str) -> None:
        nonlocal depth
        end_text()
        depth -= 1

    def other(text: str) -> None:
        end_text()
        largest("max_text", len(text))
        found["max_nodes"] += 1

    def instruction(target: str, text: str) -> None:
        other(text)
        names.add(target)

    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartNamespaceDeclHandler = space
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CommentHandler = other
    parser.ProcessingInstructionHandler = instruction
    parser.CharacterDataHandler = pieces.append
    parser.Parse(text, True)
    return found | {"max_names": len(names), "max_namespaces": len(declared), "max_bytes": len(text.encode())}


@st.composite
def documents(draw: st.DrawFn, depth: int = 4) -> str:
    name = draw(st.sampled_from(["a", "b", "p:c"]))
    attributes = draw(st.dictionaries(st.sampled_from(["a", "p:d", "e", "f"]), st.text("xé =")))
    attributes |= draw(st.sampled_from([{}, {}, {"xmlns": "u"}, {"xmlns": "vvvvvvvvv"}]))
    inner = st.one_of(
        st.text("xé= \n"),
        st.just("&lt;<![CDATA[<=x]]>"),
        st.text("x<=").map("<!--{}-->".format),
        st.text("x<=", min_size=1).map("<?q {}?>".format),
        *([documents(depth - 1)] if depth else []),
    )
    shown = "".join(f' {key}="{value}"' for key, value in attributes.items())
    space = ' xmlns:p="u"' if depth == 4 else ""
    return f"<{name}{space}{shown}>{''.join(draw(st.lists(inner, max_size=4)))}</{name}>"


@given(documents(), st.booleans())
def test_limits_are_what_another_parser_counts(text: str, declares: bool) -> None:
    exact = Limits(**figures(text) | {"max_declaring_bytes": 1 << 20})
    if declares:
        text = f"<!DOCTYPE a [<!ENTITY e ''>]>{text}"
        exact = replace(exact, max_bytes=len(text.encode()))
    assert serialize(parse_xml(text, limits=exact)) == serialize(parse_xml(text))
    for field in fields(Limits):
        allowed = getattr(exact, field.name) - 1
        if field.name == "max_declaring_bytes" or allowed < 0:
            continue
        with pytest.raises(DocumentLimitError, match=f"{field.name} is {allowed:,}"):
            parse_xml(text, limits=replace(exact, **{field.name: allowed}))


def test_the_default_limits() -> None:
    assert parse_xml(nested(200)) is not None
    over = {
        "max_bytes": "<a>" + " " * (1 << 24) + "</a>",
        "max_depth": nested(201),
        "max_nodes": "<a>" + "<b/>" * 500_000 + "</a>",
        "max_attributes": "<a " + " ".join(f"b{n}=''" for n in range(1001)) + "/>",
        "max_text": f"<a>{'x' * (1024 * 1024 + 1)}</a>",
        "max_names": "<a>" + "".join(f"<b{n}/>" for n in range(10_000)) + "</a>",
        "max_namespace": f"<a xmlns='{'u' * 501}'/>",
        "max_namespaces": "<a>" + "".join(f"<b xmlns='u{n}'/>" for n in range(201)) + "</a>",
        "max_declaring_bytes": f"<!DOCTYPE a [<!--{'x' * 1024 * 1024}-->]><a/>",
    }
    assert set(over) == {field.name for field in fields(Limits)}
    for name, text in over.items():
        allowed = f"{getattr(DEFAULT_LIMITS, name):,}"
        with pytest.raises(DocumentLimitError, match=f"{name} is {allowed}$"):
            parse_xml(text.encode())
    spaces = " ".join(f"xmlns:b{n}='u'" for n in range(101)) + " " + " ".join(f"b{n}=''" for n in range(900))
    with pytest.raises(DocumentLimitError, match="1,001 attributes"):
        parse_xml(f"<a {spaces}/>")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nested(300), "256 levels"),
        (f"<a>{'x' * 10_000_001}</a>", "10,000,000 bytes"),
        (f"<a b='{'x' * 10_000_001}'/>", "10,000,000 bytes"),
        (f"<a><!--{'x' * 10_000_001}--></a>", "10,000,000 bytes"),
        (f"<a><?p {'x' * 10_000_001}?></a>", "10,000,000 bytes"),
        (f"<{'x' * 50_001}/>", "50,000 in one name"),
        (f"<a {'x' * 50_001}=''/>", "50,000 in one name"),
    ],
)
def test_no_limit_can_be_raised_beyond_what_the_parser_takes(text: str, message: str) -> None:
    everything = Limits(*(1 << 40 for _ in fields(Limits)))
    for limits in (everything, replace(everything, max_nodes=0 if len(text) > 10_000 else 1 << 40)):
        with pytest.raises(DocumentLimitError, match=f"{message}.*no limit|max_nodes"):
            parse_xml(text, limits=limits)


# -- not well-formed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("  \n", "line 2, column 1"),
        (b"", "empty"),
        (b"\xff\xfe", "line|Document|document"),
        ("text", "line 1, column 1"),
        ("<a>", "line 1"),
        ("<a>\n</b>", "line 2"),
        ("<a/><b/>", "line 1, column 5"),
        ("<a b='1' b='2'/>", "redefined"),
        ("<x:a/>", "prefix x"),
        # A warning of the parser behind the error hides it from lxml.
        ("<x:a><b xmlns='rel'/></x:a>", "line 1, column 5: .*prefix x"),
        ("<a xmlns:x='u}' x:b='1'><b xmlns='rel'/></a>", "valid URI"),
        ("<a xmlns:x='u' xmlns:y='u' x:b='1' y:b='1'><b xmlns='rel'/></a>", "redefined"),
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
        *(
            (f"<?xml version='1.0' encoding='{name}'?><a/>".encode(), f"line 1: {name} is no known character encoding")
            for name in (
                *(
                    "punycode",
                    "idna",
                    "rot13",
                    "undefined",
                    "unicode_escape",
                    "raw_unicode_escape",
                    "zlib_codec",
                    "hex",
                ),
                *("utf-7", "mbcs", "oem", "base64", "uu", "bz2", "quopri", "utf_8_sig", "charmap", "nosuch"),
            )
        ),
        (b"<?xml version='1.0' encoding='" + b"a" * 9_000 + b"'?><a/>", f"line 1: {'a' * 199}… is no known"),
        (b"<?xml version='1.0' encoding='ascii'?>\n<a>\xe9</a>", "line 2: byte 42 .* encoding ascii"),
        ("<a>é</a>".encode("utf-16")[:-1], "encoding utf-16"),
        ("<?xml version='1.0'?><a/>".encode("cp037"), "line 1, column 1"),
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
        "<?xml version='1.0' encoding='UTF-16'?><a>é</a>".encode("utf-16"),
        "<a>é</a>".encode("utf-32"),
        b"\xfe\xff" + "<a>é</a>".encode("utf-16-be"),
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


# -- what was taken before ---------------------------------------------------------------------------------


@pytest.mark.parametrize("character", ["x", "é", "😀", "&lt;", "&gt;", "&amp;", "&quot;", "&#9;", "&#10;", "&#13;"])
def test_the_longest_texts_are_taken_again(character: str) -> None:
    longest = character * DEFAULT_LIMITS.max_text
    for text in (f"<a>{longest}</a>", f"<a b='{longest}'/>"):
        stored = serialize(parse_xml(text))
        assert serialize(parse_stored(stored)) == stored


@given(documents())
def test_stored_documents_are_parsed_to_the_same_tree(text: str) -> None:
    stored = serialize(parse_xml(text))
    assert serialize(parse_stored(stored)) == serialize(parse_stored(stored.encode())) == stored
    assert [node.sourceline for node in parse_stored(stored).iter()] == [
        node.sourceline for node in parse_xml(stored).iter()
    ]


@pytest.mark.parametrize(
    "bad", ["<a>", "", "<a>\ud800</a>", '<!DOCTYPE r [<!ENTITY a "&b;"><!ENTITY b "&a;">]><r>&a;</r>']
)
def test_a_refused_document_changes_nothing_for_the_next(bad: str) -> None:
    for parse in (parse_xml, parse_stored):
        with pytest.raises(DocumentError):
            parse(bad)
        assert serialize(parse('<a xml:id="x">é</a>')) == '<a xml:id="x">é</a>'
        with pytest.raises(MalformedDocumentError, match="'a' not defined"):
            parse("<r>&a;</r>")


def test_threads_parse_side_by_side() -> None:
    texts = [f"<a{n}>{'<b/>' * 50}{n}</a{n}>" for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: serialize(parse_stored(text)), texts)) == texts


# -- dictionaries ------------------------------------------------------------------------------------------


def test_a_function_in_a_fresh_dictionary() -> None:
    assert in_fresh_dictionary(lambda *args, **kwargs: (args, kwargs), 1, x=2) == ((1,), {"x": 2})
    assert in_fresh_dictionary(threading.get_ident) != threading.get_ident()
    assert in_fresh_dictionary(in_fresh_dictionary, in_fresh_dictionary, str, 3) == "3"
    with pytest.raises(MalformedDocumentError, match="line 1"):
        in_fresh_dictionary(parse_xml, "<a>")
    with pytest.raises(KeyboardInterrupt):
        in_fresh_dictionary(_interrupted)
    with localcontext(prec=3):
        assert in_fresh_dictionary(lambda: Decimal(1) / 3) == Decimal("0.333")


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_work_in_fresh_dictionaries_is_work_of_the_caller() -> None:
    def work(depth: int) -> None:
        if depth:
            in_fresh_dictionary(work, depth - 1)
        else:
            until = time.thread_time() + 0.05
            while time.thread_time() < until:
                pass

    began = work_time(), time.thread_time()
    work(2)
    assert work_time() - began[0] >= 0.05 > time.thread_time() - began[1]


def test_a_tree_outlives_its_thread() -> None:
    root = in_fresh_dictionary(parse_stored, "<a b='c'><d>x</d></a>")
    assert (root.get("b"), root.findtext("d"), serialize(root)) == ("c", "x", '<a b="c"><d>x</d></a>')


GROWTH = """
import sys
from pathlib import Path
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 1_000_000

def parse(part):
    for number in range(100):
        parse_stored(f"<{'x' * 40_000}-{part}-{number}/>")

parse(0)
before = resident()
for part in range(1, 21):
    in_fresh_dictionary(parse, part) if sys.argv[1] == "recycled" else parse(part)
print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_names_are_forgotten_with_their_dictionary() -> None:
    def growth(way: str) -> int:
        done = subprocess.run([sys.executable, "-c", GROWTH, way], capture_output=True, check=True, text=True)
        return int(done.stdout)

    names = 80  # MB
    assert growth("one thread") > names * 3 // 4
    assert growth("recycled") < names // 4


# -- documents with many nodes ------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [3, 6, 9])
@given(documents())
def test_bounds_spare_no_document_the_count(most: int, text: str) -> None:
    limits = Limits(max_names=most, max_text=most, max_attributes=most)

    def outcome() -> str | None:
        try:
            parse_xml(text, limits=limits)
        except DocumentError as error:
            return error.message
        return None

    found = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safe_xml, "has_few_names", lambda *_: False)
        patch.setattr(safe_xml, "may_have_long_text", lambda *_: True)
        patch.setattr(safe_xml, "may_be_over", lambda *_: True)
        assert found == outcome()


@pytest.mark.parametrize(
    ("text", "few"),
    [
        ("<a b='1'><c d = '2'/></a>", True),
        ("<a b='1'><c d = '2'/><e/><f/></a>", False),
        ("<a xmlns='u'><a xmlns='v'/></a>", False),
        ("<a href='x?y=1&amp;z=2'>k = v</a>", True),
        ("<?p?><?q?><a/><?r?><?s?><?t?>", False),
    ],
)
def test_names_are_bounded_from_above(text: str, few: bool) -> None:
    assert has_few_names(text.encode(), 5) == few


def test_long_namespaces_are_found_wherever_they_stand() -> None:
    for text in (" xmlns='uuuu'", '\nxmlns:p = "uuuu"', "xmlns xmlns='uuuu'", " xmlns:xmlns='uuuu'"):
        assert may_have_long_namespace(f"<a{text}".encode(), 3)
        assert not may_have_long_namespace(f"<a{text}".encode(), 4)


@given(documents())
def test_bounds_see_no_section(text: str) -> None:
    data = text.encode()
    markup = without_sections(data)
    assert len(markup) == len(data) and b"<!" not in markup
    exact = figures(text)
    sections = text.count("<![CDATA[")
    assert markup.count(b"<") + markup.count(b"=") >= exact["max_nodes"]
    assert data.count(b"<") >= markup.count(b"<") + 2 * sections
    assert most_values(markup) >= exact["max_attributes"]
    assert longest_tag(markup) >= exact["max_text"]


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("<a><!-- <![CDATA[ --><b/><!--]]>--></a>", "<a><                 <b/><         </a>"),
        ("<a><![CDATA[<!--]]><b/><!----></a>", "<a>                <b/><      </a>"),
        ("<a><?p <!-- ?><b/><?q?></a>", "<a><?p  !-- ?><b/><?q?></a>"),
        ("<a/><!-- the end", "<a/><           "),
    ],
)
def test_sections_end_where_they_do(text: str, markup: str) -> None:
    assert without_sections(text.encode()).rstrip() == markup.encode().rstrip()
