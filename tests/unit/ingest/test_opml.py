from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.base.errors import MalformedDocumentError, SourceError
from xscl.ingest.markup import collapse
from xscl.ingest.opml import Outline, read_opml, write_opml

LIST = b"""<?xml version="1.0"?>
<opml version="1.0"><head><title>mine</title></head><body>
<outline text="News" isOpen="true">
  <outline type="rss" text="A" title="Feed A" xmlUrl=" http://a.example/rss " htmlUrl="http://a.example/"
    category="/x" xmlns:r="urn:reader" r:star="1"/>
  <outline title="World / Asia"><outline text="B" xmlUrl="http://b.example/atom"/></outline>
</outline>
<outline text="http://c.example/" xmlUrl="http://c.example/"/>
<outline><outline text="D" xmlUrl="ftp://d.example/"><outline text="E" xmlUrl="http://e.example/"/></outline></outline>
</body></opml>"""


def test_a_list_of_another_program() -> None:
    found = list(read_opml(LIST, source="a.opml"))
    assert [(outline.url, outline.title, outline.folder, outline.line) for outline in found] == [
        ("http://a.example/rss", "Feed A", ("News",), 5),
        ("http://b.example/atom", "B", ("News", "World / Asia"), 6),
        ("http://c.example/", None, (), 8),
        ("ftp://d.example/", "D", (), 9),
        ("http://e.example/", "E", (), 9),
    ]
    assert found[0].home == "http://a.example/"
    assert found[0].other == {"category": "/x", "{urn:reader}star": "1"}


@pytest.mark.parametrize("document", [b"<rss/>", b"<opml/>", b"<opml><head/></opml>"])
def test_what_is_no_list(document: bytes) -> None:
    with pytest.raises(SourceError, match="XSCL_BAD_OPML"):
        read_opml(document, source="a.opml")


def test_what_is_not_well_formed() -> None:
    with pytest.raises(MalformedDocumentError, match=r"a\.opml: line 1"):
        read_opml(b"<opml><body>", source="a.opml")


LINES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12).map(collapse)
WORDS = LINES.filter(bool)
OUTLINES = st.builds(
    Outline,
    st.from_regex(r"http://[a-z]{1,3}\.example/[a-z&<\"']{0,5}", fullmatch=True),
    st.none() | WORDS,
    st.none() | st.from_regex(r"http://[a-z]{1,3}\.example/", fullmatch=True),
    st.lists(WORDS, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(["channel", "interval", "status"]), WORDS),
    st.dictionaries(st.sampled_from(["category", "language", "{urn:other}x", "created"]), LINES),
)


@given(st.lists(OUTLINES, max_size=8, unique_by=lambda outline: outline.url))
def test_what_is_written_is_read_again(outlines: list[Outline]) -> None:
    found = [replace(outline, line=0) for outline in read_opml(write_opml(outlines), source="x")]

    def key(outline: Outline) -> str:
        return outline.url

    assert sorted(found, key=key) == sorted(outlines, key=key)
    assert write_opml(found) == write_opml(read_opml(write_opml(found), source="x"))
