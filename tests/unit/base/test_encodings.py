"""The encodings that strangers may name: character encodings, and nothing else that Python can decode by."""

from __future__ import annotations

import codecs
import encodings
import pkgutil
from email.message import Message

import pytest

from xscl.base.encodings import character_encoding
from xscl.ingest.broken_feed import read_broken_feed
from xscl.ingest.fetched import read_fetched

WHATWG = """
utf-8 ibm866 iso-8859-2 iso-8859-3 iso-8859-4 iso-8859-5 iso-8859-6 iso-8859-7 iso-8859-8 iso-8859-10 iso-8859-13
iso-8859-14 iso-8859-15 iso-8859-16 koi8-r koi8-u macintosh windows-874 windows-1250 windows-1251 windows-1252
windows-1253 windows-1254 windows-1255 windows-1256 windows-1257 windows-1258 x-mac-cyrillic gbk gb18030 big5 euc-jp
iso-2022-jp
shift_jis euc-kr utf-16be utf-16le latin1 us-ascii x-sjis ks_c_5601-1987 windows-31j x-gbk
"""
NONE = """
idna punycode rot13 rot_13 hex hex_codec base64 base64_codec bz2_codec zlib zlib_codec uu uu_codec quopri quopri_codec
undefined unicode_escape unicode-escape raw_unicode_escape raw-unicode-escape utf-7 utf_8_sig mbcs oem charmap
unicode_internal string_escape palmos nosuch
"""


@pytest.mark.parametrize("name", WHATWG.split())
def test_labels_of_the_web(name: str) -> None:
    found = character_encoding(name.upper())
    assert found is not None and "<a>".encode(found).decode(found) == "<a>"


@pytest.mark.parametrize("name", [*NONE.split(), "", " ", "a\0b", "é", "x" * 1_000_000, "../x", "os.path", "utf-8\x1b"])
def test_what_is_no_character_encoding(name: str) -> None:
    assert character_encoding(name) is None


def test_each_codec_of_python_that_is_taken_is_a_character_encoding() -> None:
    taken = set()
    for module in pkgutil.iter_modules(encodings.__path__):
        if (found := character_encoding(module.name)) is not None:
            taken.add(found)
            assert codecs.lookup(found)._is_text_encoding
            assert "<a b='c'>&amp;</a>".encode(found).decode(found) == "<a b='c'>&amp;</a>"
    assert 60 < len(taken) < 90


@pytest.mark.parametrize("name", NONE.split())
@pytest.mark.parametrize("form", ["text/xml; charset={}", "text/xml; charset*={}''x", "text/xml; charset*=utf-8''{}"])
def test_headers_choose_no_other_codec(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"<rss><channel><title>a</title><item><title>b\\x41</title></channel></rss>"
    plain = read_fetched(body, url="http://a.org/", channel="c").document
    monkeypatch.setattr(codecs, "decode", None)
    found = read_fetched(body, url="http://a.org/", channel="c", content_type=form.format(name)).document
    assert found.entries == plain.entries


def test_headers_of_great_length_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Message, "get_content_charset", None)
    body = b"<rss><channel><title>a</title><item><title>b</title></channel></rss>"
    header = "text/xml; charset=" + "a" * 100_000
    assert read_fetched(body, url="http://a.org/", channel="c", content_type=header).document.entries


@pytest.mark.parametrize("name", NONE.split())
@pytest.mark.parametrize(
    "head",
    [
        "<?xml version='1.0' encoding='{}'?>",
        '<?xml encoding = "{}" ?>',
        "<?xml version='1.0'?><?x encoding='{}'?>",
        "<?x encoding='{}' >",
        "<?xml version='1.0' standalone='" + "y" * 600 + "' encoding='{}'?>",
    ],
)
def test_broken_feeds_choose_no_other_codec(name: str, head: str) -> None:
    text = "{}<rss><channel><title>a</title><item><title>b\\u0041 \u00e9</title></channel></rss>"
    found = read_broken_feed(text.format(head.format(name)).encode(), source="s")
    plain = read_broken_feed(text.format("").encode(), source="s")
    assert found is not None and plain is not None
    assert found.entries == plain.entries
    assert found.entries[0].item is not None and found.entries[0].item.title == "b\\u0041 é"


def test_broken_feeds_keep_the_encoding_that_they_name() -> None:
    body = "<?xml version='1.0' encoding='iso-8859-5'?><rss><channel><item><title>Ж</title></channel></rss>"
    found = read_broken_feed(body.encode("iso-8859-5"), source="s")
    assert found is not None and found.entries[0].item is not None and found.entries[0].item.title == "Ж"
