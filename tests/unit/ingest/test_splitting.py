"""Documents of many records as streams, held against lxml's whole tree."""

import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import DocumentLimitError, MalformedDocumentError, SourceError, XsclError
from xscl.ingest import splitting
from xscl.ingest.paths import split_path
from xscl.ingest.splitting import split_records

SPACES = {"p": "urn:p"}


class Dripping(io.BytesIO):
    """Gives a few bytes at a time."""

    def __init__(self, data, size):
        super().__init__(data)
        self.size = size

    def read1(self, size=-1, /):
        return super().read(self.size)


def split(data, path="//item", limits=DEFAULT_LIMITS, size=1 << 20):
    return list(split_records(Dripping(data, size), split_path(path, SPACES), source="s", limits=limits))


def contents(data, path="//item", **options):
    return [record.content for record in split(data, path, **options)]


def broken(data, path="//item", limits=DEFAULT_LIMITS, size=1 << 20):
    """(records before, what ended it)."""
    found = []
    with pytest.raises(XsclError) as refused:
        records = split_records(Dripping(data, size), split_path(path, SPACES), source="s", limits=limits)
        found.extend(record.content for record in records)
    return found, refused.value


def test_records_with_their_lines():
    data = b"<?xml version='1.0'?>\n<r>\n <item>1</item>x<item\n a='>'>2</item >\n<item/></r>"
    assert [(record.line, record.content) for record in split(data)] == [
        (3, b"<item>1</item>"),
        (3, b"<item\n a='>'>2</item >"),
        (5, b"<item/>"),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_however_it_arrives(size):
    data = b"<r><item/><item a='/>'/><x><item>a/></item></x><item><item/></item><item><b/></item></r>"
    assert contents(data, size=size) == [
        b"<item/>",
        b"<item a='/>'/>",
        b"<item>a/></item>",
        b"<item><item/></item>",
        b"<item><b/></item>",
    ]


def test_an_empty_record_in_an_element_of_its_name():
    assert contents(b"<item><item/></item>", "/item/item") == [b"<item/>"]
    assert contents(b"<item><item a='1'><b/></item></item>", "/item/item") == [b"<item a='1'><b/></item>"]


def test_the_root_may_be_the_record():
    assert contents(b"<item>1</item>") == contents(b"<item>1</item>", "/item") == [b"<item>1</item>"]


def test_namespaces_in_scope_are_kept_if_their_prefixes_are_written():
    data = (
        b"<r xmlns='urn:d' xmlns:p='urn:p' xmlns:q='urn:a&amp;b' xmlns:none='urn:none'>"
        b"<s xmlns:p='urn:p2' xmlns=''><item xmlns:q='c'>p:x</item></s><p:item q:y=''/></r>"
    )
    first, second = contents(data, "//*:item")
    assert etree.fromstring(first).nsmap == {"p": "urn:p2", "q": "c"}
    assert etree.fromstring(second).nsmap == {None: "urn:d", "p": "urn:p", "q": "urn:a&b"}
    assert contents(data, "//p:item") == [second]
    with pytest.raises(SourceError):
        contents(data, "//*:x")
    assert len(contents(data, "//item")) == 1


def test_without_records():
    _, error = broken(b"<r/>")
    assert error.condition == "XSCL_NO_RECORDS" and "//item" in error.message


@pytest.mark.parametrize("size", [5, 1000])
def test_a_malformed_place_costs_what_follows(size):
    found, error = broken(b"<r><item>1</item>\n<item>2</item><b></c><item>3</item></r>", size=size)
    assert found == [b"<item>1</item>", b"<item>2</item>"]
    assert isinstance(error, MalformedDocumentError) and "line 2, column 20" in error.message
    found, error = broken(b"<r><item>1</item><item>2", size=size)
    assert found == [b"<item>1</item>"] and isinstance(error, MalformedDocumentError)
    assert isinstance(broken(b"")[1], MalformedDocumentError)


def test_encodings():
    text = "<r><item>é€</item></r>"
    for data in (
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        b"<?xml version='1.0' encoding='utf-16'?>".decode().encode("utf-16") + text.encode("utf-16-le"),
        b"<?xml version='1.0' encoding='windows-1252'?>" + text.encode("cp1252"),
        b"\n \n<?xml version='1.0' encoding='utf-8'?>" + text.encode(),
    ):
        for size in (1, 3, 1000):
            assert contents(data, size=size) == ["<item>é€</item>".encode()]
    for name in (b"x-fake", b"rot13", b"zlib", b"base64"):
        _, error = broken(b"<?xml version='1.0' encoding='" + name + b"'?><r/>")
        assert "is no known character encoding" in error.message
    found, error = broken(
        b"<?xml version='1.0' encoding='ascii'?><r><item/>" + b" " * 300 + b"\xff<item/></r>", size=50
    )
    assert found == [b"<item/>"] and "ascii" in error.message


def test_entities_are_not_declared():
    for declared in ("<!ENTITY e 'x'>", "<!ENTITY % e 'x'>", "<!ENTITY e SYSTEM 'file:///etc/passwd'>"):
        found, error = broken(f"<!DOCTYPE r [{declared}]><r><item/></r>".encode())
        assert not found and "entity e" in error.message
    # Records that use those of an external DTD, which is not read, are refused one by one.
    assert contents(b"<!DOCTYPE r SYSTEM 'x.dtd'><r><item>&uuml;</item><item/></r>") == [
        b"<item>&uuml;</item>",
        b"<item/>",
    ]


def test_limits_of_records():
    data = b"<r><item>%s</item><item>2</item></r>" % (b"x" * 300_000)
    limits = Limits(max_bytes=1000)
    for size in (1000, 1 << 20):
        first, second = contents(data, limits=limits, size=size)
        assert isinstance(first, DocumentLimitError) and "max_bytes is 1,000" in first.message
        assert second == b"<item>2</item>"
    assert contents(b"<item>%s</item>" % (b"x" * 9), limits=Limits(max_bytes=22)) == [b"<item>xxxxxxxxx</item>"]


def test_limits_of_the_document(monkeypatch):
    found, error = broken(b"<r><item/><a><a><a/></a></a></r>", limits=Limits(max_depth=3))
    assert found == [b"<item/>"] and "max_depth is 3" in error.message
    _, error = broken(b"<r><item><a><a/></a></item></r>", limits=Limits(max_depth=3))
    assert "max_depth is 3" in error.message
    _, error = broken(b"<r><item a='1' b='2'/></r>", limits=Limits(max_names=3))
    assert "max_names is 3" in error.message
    monkeypatch.setattr(splitting, "_MAX_TOKEN", 100)
    for long in (b"<!--" + b"x" * 500, b"<a b='" + b"x" * 500):
        _, error = broken(b"<r><item/>" + long, size=50)
        assert isinstance(error, DocumentLimitError) and "100 bytes" in error.message
    _, error = broken(b"<!DOCTYPE r [" + b"<!ELEMENT a (b)>" * 100, size=50, limits=Limits(max_declaring_bytes=200))
    assert isinstance(error, DocumentLimitError)


def test_no_more_is_held_than_the_open_record():
    class Endless(io.BytesIO):
        read_ = 0

        def read1(self, size=-1, /):
            self.read_ += 1
            return b"<r>" if self.read_ == 1 else b"<x><y>1</y></x><item>2</item>text" * 1000

    records = split_records(Endless(), split_path("//item", SPACES), source="s", limits=DEFAULT_LIMITS)
    splitter = None
    for _ in range(20_000):
        next(records)
    splitter = records.gi_frame.f_locals["splitter"]
    assert len(splitter._held) < 200


def test_namespaces_do_not_multiply(monkeypatch):
    monkeypatch.setattr(splitting, "_MAX_REPEATED", 10_000)
    data = b"<r xmlns:p='%s'>" % (b"u" * 500) + b"<item>p:</item>" * 1000
    found, error = broken(data)
    assert 10 <= len(found) < 1000 and isinstance(error, DocumentLimitError) and "namespaces" in error.message


NAMES = ["a", "item", "p:item", "p:a"]


@st.composite
def documents(draw, depth=0):
    name = draw(st.sampled_from(NAMES))
    spaces = draw(st.sampled_from(["", "", " xmlns:p='urn:p'", " xmlns:p='urn:o'", " xmlns='urn:p'", " xmlns=''"]))
    if depth == 0:
        spaces = re.sub(" xmlns:p='[^']*'", "", spaces) + " xmlns:p='urn:p'"
    attribute = draw(st.sampled_from(["", " x='>'", ' x="/>"', " p:x='&lt;'"]))
    if depth > 3 or draw(st.booleans()):
        return f"<{name}{spaces}{attribute}{draw(st.sampled_from(['/>', f'></{name}>', f'>/></{name}>']))}"
    texts = st.sampled_from(["", "t", "<!-- <item> -->", "<![CDATA[</item>]]>", "<?item >?>", "é\n", "&#65;/>"])
    inner = "".join(draw(texts) + draw(documents(depth=depth + 1)) for _ in range(draw(st.integers(0, 3))))
    return f"<{name}{spaces}{attribute}>{inner}{draw(texts)}</{name}>"


def spaces(element):
    # Only of what is written for sure: a prefix may be dropped where no name or text has it.
    text = etree.tostring(element, with_tail=False).decode()
    return {prefix: uri for prefix, uri in element.nsmap.items() if uri and (prefix is None or f"{prefix}:" in text)}


def test_many_and_long_namespaces_are_refused_before_they_are_repeated():
    limits = Limits(max_namespaces=2, max_namespace=5)
    assert len(contents(b"<r xmlns:p='urn:p' xmlns='urn:d'><item/></r>", "//*:item", limits=limits)) == 1
    _, many = broken(b"<r xmlns:p='urn:p' xmlns='u'><s xmlns:q='u'><item/></s></r>", limits=limits)
    assert "3 namespaces in scope; the limit max_namespaces is 2" in many.message
    _, long = broken(b"<r xmlns:p='urn:pp'><item/></r>", limits=limits)
    assert "6 characters in one namespace; the limit max_namespace is 5" in long.message


@pytest.mark.parametrize("text", ["<a b='{}'/>", "<!--{}-->", "<?a {}?>", "<![CDATA[{}]]>", "<a>{}</a>"])
def test_a_long_token_in_small_pieces_is_looked_at_a_few_times(monkeypatch, text):
    looked = 0

    def counted(*arguments):
        parser = create(*arguments)
        return Counted(parser)

    class Counted:
        """Counts the bytes that expat looks at: of an open token all again with each step."""

        def __init__(self, parser):
            object.__setattr__(self, "parser", parser)
            object.__setattr__(self, "seen", 0)

        def __getattr__(self, name):
            return getattr(self.parser, name)

        def __setattr__(self, name, value):
            setattr(self.parser, name, value)

        def Parse(self, data, final):  # noqa: N802 - expat's name
            nonlocal looked
            object.__setattr__(self, "seen", self.seen + len(data))
            looked += self.seen - max(self.parser.CurrentByteIndex, 0)
            return self.parser.Parse(data, final)

    create = splitting.expat.ParserCreate
    monkeypatch.setattr(splitting.expat, "ParserCreate", counted)
    data = f"<r>{text.format('x' * 3_000_000)}<item/></r>".encode()
    assert contents(data) == [b"<item/>"]
    steps = len(data) // 4096
    looked = 0
    assert len(split(data, size=4096)) == 1
    assert looked < 24 * len(data) < steps * len(data) / 10


@pytest.mark.parametrize("text", ["<a b='{}'/>", "<item>{}</item>", "<a>{}</a>"])
def test_a_token_that_expat_puts_off_loses_nothing(monkeypatch, text):
    class PuttingOff:
        """Looks at what has come when twice as much has, and tells no offset until then, as expat 2.6 does."""

        def __init__(self, parser):
            vars(self).update(parser=parser, waiting=b"", wanted=1)

        def __getattr__(self, name):
            return -1 if name == "CurrentByteIndex" and self.waiting else getattr(self.parser, name)

        def __setattr__(self, name, value):
            setattr(self.parser, name, value)

        def Parse(self, data, final):  # noqa: N802 - expat's name
            seen = self.waiting + data
            late = len(seen) < self.wanted and not final
            vars(self).update(waiting=seen if late else b"", wanted=2 * len(seen) if not late else self.wanted)
            if not late:
                self.parser.Parse(seen, final)

    create = splitting.expat.ParserCreate
    monkeypatch.setattr(splitting.expat, "ParserCreate", lambda *arguments: PuttingOff(create(*arguments)))
    data = f"<r>{text.format('x' * 300_000)}<item/></r>".encode()
    expected = re.findall(b"<item>x+</item>|<item/>", data)
    assert contents(data, size=4096) == expected


def canonical(element):
    return etree.tostring(element, method="c14n", exclusive=True)


@settings(deadline=None)
@given(documents(), st.sampled_from(["//item", "//*:item", "/*/p:item", "//p:a//item", "//*"]), st.integers(1, 50))
@example("<item xmlns:p='urn:p'>/></item>", "//item", 1)
def test_the_same_as_from_the_whole_tree(text, path, size):
    root = etree.fromstring(text.encode())
    xpath = path.replace("*:item", "*[local-name()='item']")
    selected = root.getroottree().xpath(xpath, namespaces=SPACES)
    chosen = set(selected)
    expected = [element for element in selected if not chosen & set(element.iterancestors())]
    try:
        found = contents(text.encode(), path, size=size)
    except SourceError as error:
        assert error.condition == "XSCL_NO_RECORDS"
        found = []
    roots = [etree.fromstring(content) for content in found]
    for element in expected:
        element.tail = None
    assert list(map(canonical, roots)) == list(map(canonical, expected))
    assert list(map(spaces, roots)) == list(map(spaces, expected))


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"<r><item>", b"<!DOCTYPE r [", b"\xff\xfe"]), st.integers(1, 99))
def test_any_bytes(data, head, size):
    try:
        contents(head + data, size=size)
    except XsclError as error:
        assert error.condition.startswith("XSCL_")
