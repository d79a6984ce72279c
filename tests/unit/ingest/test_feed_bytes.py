"""Bytes of feeds: strictly where they are well-formed, tolerantly with a word where not."""

from __future__ import annotations

import pytest

from xscl.base.errors import MalformedDocumentError
from xscl.ingest.feed import entry_item
from xscl.ingest.feed_bytes import read_feed, with_named_characters

RSS_091 = b"""<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://nowhere.example/rss-0.91.dtd">
<rss version="0.91"><channel><title>Caf&eacute;</title><item><title>Cr&egrave;me &amp; caf&eacute;</title>
<description><![CDATA[&eacute;]]></description></item></channel></rss>"""


def test_characters_named_by_a_dtd_that_is_not_there():
    document = read_feed(RSS_091, source="f.xml")
    (entry,) = document.entries
    item = entry_item(entry, document.feed)
    assert document.flaw is None and document.feed.title == "Café"
    assert item.title == "Crème & café" and item.description == "é"
    assert "Crème &amp; café" in entry.raw


def test_without_a_dtd_they_are_a_flaw():
    document = read_feed(b"<rss><channel>\n<item><title>a&nbsp;b &foo; c</title></item></channel></rss>", source="f")
    assert document.flaw.startswith("line 2, column")
    document = read_feed(b"<rss><channel>\n<item><title>a&nbsp;b</title></item></channel></rss>", source="f")
    assert document.flaw.startswith("line 2, column") and entry_item(document.entries[0], document.feed).title == "a b"
    assert document.entries[0].raw is not None


def test_what_a_document_declares_itself_is_its_own():
    data = b'<!DOCTYPE rss SYSTEM "x" [<!ENTITY eacute "mine">]><rss><channel><title>&eacute;</title></channel></rss>'
    assert read_feed(data, source="f").feed.title == "mine"


def test_only_references_are_replaced():
    data = b"<!-- &eacute; --><?p &eacute;?><a b='&eacute;'>&unknown;&lt;<![CDATA[&eacute;]]></a>"
    assert with_named_characters(data) == data.replace(b"'&eacute;'", b"'&#233;'")


def test_what_stands_before_the_declaration_is_cut_off():
    data = b"Warning: x in y\n<?xml version='1.0'?><rss><channel><item><title>t</title></item></channel></rss>"
    document = read_feed(data, source="f")
    assert document.flaw and document.entries[0].raw == "<item><title>t</title></item>"


def test_other_documents_and_feeds_that_yield_nothing():
    assert read_feed(b"<html/>", source="f") is None
    with pytest.raises(MalformedDocumentError, match="line 1"):
        read_feed(b"<rss><channel><title>A & B", source="f")


def test_cdf():
    data = b"""<CHANNEL HREF="http://x.org/" LASTMOD="2026-06-01"><TITLE>T</TITLE>
    <ITEM HREF="a" LASTMOD="2026-06-02"><TITLE>A</TITLE><ABSTRACT>B</ABSTRACT></ITEM></CHANNEL>"""
    document = read_feed(data, source="f")
    item = entry_item(document.entries[0], document.feed)
    assert (document.feed.title, document.feed.home, document.feed.date.day) == ("T", "http://x.org/", 1)
    assert (item.item_url, item.title, item.description, item.updated.day) == ("http://x.org/a", "A", "B", 2)
    assert read_feed(b"<channel><ITEM/></channel>", source="f") is None


def test_bases_around_entries_hold_when_an_item_is_made_later():
    data = b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://x.org/a/" xml:lang="fr">
    <entry xml:base="b/"><link href="c"/><summary type="html">&lt;a href="d">d&lt;/a></summary></entry></feed>"""
    document = read_feed(data, source="f")
    item = entry_item(document.entries[0], document.feed)
    assert item.item_url == document.entries[0].link == "http://x.org/a/b/c"
    assert item.links == ("https://x.org/a/b/d",) and item.language == "fr"
