"""Numbers, addresses, functions and hashes, against tables and against the oracle's own versions."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from oracle import texts

from xscl.base.values import (
    FUNCTIONS,
    apply_functions,
    canonical_url,
    column_text,
    digest_text,
    hash64,
    host,
    normalize_space,
    number_text,
    to_number,
)

NUMBER_LIKE = st.text(alphabet="0123456789.-+e \t\xa0٣", max_size=8)


@pytest.mark.parametrize(
    ("text", "number", "written"),
    [
        ("1", 1.0, "1"),
        (" -1.50\r\n", -1.5, "-1.5"),
        ("007", 7.0, "7"),
        (".5", 0.5, "0.5"),
        ("5.", 5.0, "5"),
        ("-0.0", 0.0, "0"),
        ("12345678901234567891", 12345678901234567891.0, "12345678901234567891"),
        *[
            (text, None, None)
            for text in ("", " ", "x", "1e3", "+5", "--5", "1 2", ".", "-", "٣", "\xa01", "Infinity", "NaN")
        ],
    ],
)
def test_numbers(text: str, number: float | None, written: str | None) -> None:
    assert to_number(text) == number
    assert number_text(text) == written


@given(NUMBER_LIKE)
def test_numbers_against_the_oracle(text: str) -> None:
    exact = texts.number(text)
    written = number_text(text)
    assert (written is None) == (exact is None) == (to_number(text) is None)
    if written is not None and exact is not None:
        assert Fraction(written) == exact
        assert number_text(written) == written
        assert to_number(text) == float(exact)


@given(NUMBER_LIKE, NUMBER_LIKE)
def test_equal_numbers_have_one_text(left: str, right: str) -> None:
    a, b = texts.number(left), texts.number(right)
    if a is not None and b is not None:
        assert (number_text(left) == number_text(right)) == (a == b)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (101, "101"),
        (101.5, "101.5"),
        (101.0, "101"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e-7, "0.0000001"),
        (1e21, "1000000000000000000000"),
        (10**30, "1" + "0" * 30),
        (Decimal("1.10"), "1.1"),
        (Decimal("1E+3"), "1000"),
        (True, "true"),
        (False, "false"),
        (" x ", " x "),
        ("1.0", "1.0"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
    ],
)
def test_columns(value: bool | int | float | Decimal | str, text: str) -> None:
    assert column_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_column_keeps_its_number(value: float) -> None:
    assert float(column_text(value)) == value


@given(st.text(alphabet="ab \t\r\n\xa0\u2003\x0b"))
def test_normalize_space_is_that_of_xpath(text: str) -> None:
    assert normalize_space(text) == texts.normalize_space(text)
    if not set(text) & {"\x0b"}:
        assert normalize_space(text) == etree.XPath("normalize-space($t)")(etree.Element("a"), t=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://e.org", "https://e.org"),
        ("HTTPS://E.ORG:443/", "https://e.org"),
        ("http://e.org:80/a/", "https://e.org/a"),
        ("http://e.org:8080/a", "https://e.org:8080/a"),
        ("https://e.org/a?b=2&a=1#top", "https://e.org/a?a=1&b=2"),
        ("http://e.org/?utm_source=x&utm_id=1&fbclid=2&gclid=3", "https://e.org"),
        ("http://e.org/a?utm=1", "https://e.org/a?utm=1"),
        ("http://e.org/Path?Q=A", "https://e.org/Path?Q=A"),
        ("http://[::1]:80/x", "https://[::1]/x"),
        (" \thttp://e.org/\n", "https://e.org"),
        ("ftp://E.org/", "ftp://E.org/"),
        ("mailto:x@e.org", "mailto:x@e.org"),
        ("//e.org/x", "//e.org/x"),
        ("http://[bad/", "http://[bad/"),
        ("http://e.org:99999/", "http://e.org:99999/"),
        (" x ", "x"),
        ("", None),
        (" \n", None),
    ],
)
def test_canonical_url(text: str, expected: str | None) -> None:
    assert canonical_url(text) == expected
    assert texts.url(text) == expected or ":99999" in text or "[bad" in text


ADDRESSES = st.builds(
    "{}://{}{}{}{}{}".format,
    st.sampled_from(("http", "HTTPS", "https", "ftp")),
    st.sampled_from(("e.org", "E.Org", "f.org")),
    st.sampled_from(("", ":80", ":443", ":8080")),
    st.sampled_from(("", "/", "/a", "/a/", "/A", "/a/b//")),
    st.lists(st.sampled_from(("a=1", "b=2", "a=2", "utm_x=1", "gclid=9")), max_size=3).map(
        lambda parts: "?" + "&".join(parts) if parts else ""
    ),
    st.sampled_from(("", "#", "#f")),
)


@given(ADDRESSES, ADDRESSES)
def test_addresses_are_equal_where_the_oracle_says_so(left: str, right: str) -> None:
    assert (canonical_url(left) == canonical_url(right)) == (texts.url(left) == texts.url(right))
    assert host(left) == texts.host(left) == (urlsplit(left).hostname or "").lower()


@given(
    st.sampled_from(("http", "https", "HTTP")),
    st.sampled_from(("e.org", "a-b.e.org", "e.org.", "e..org", "E.org", "e.org:80", "u@e.org", "e_f.org")),
    st.text("/aB4%:@!$&'()*+,;=-._~#", max_size=8),
)
def test_addresses_without_a_query_are_as_the_oracle_has_them(scheme: str, name: str, path: str) -> None:
    text = f"{scheme}://{name}/{path}"
    assert canonical_url(text) == texts.url(text)


@given(
    st.text(st.characters(exclude_categories=["Cs"])).map("http://{}".format)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
def test_functions_take_any_text(text: str) -> None:
    for function in FUNCTIONS.values():
        assert isinstance(function(text), str | None)


def test_an_address_with_half_a_surrogate_pair() -> None:
    assert canonical_url("http://e.org/\ud800")


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("", " A ", " A "),
        ("lower", "ÄB", "äb"),
        ("lower normalize-space", "  A   B ", "a b"),
        ("lower host", "http://E.org", "e.org"),
        ("lower host", "no url", None),
        ("host url", "", None),
        ("number", "1.0", "1"),
        ("number", "x", None),
    ],
)
def test_functions_are_applied_from_the_inside(names: str, text: str, expected: str | None) -> None:
    assert apply_functions(names, text) == expected


def test_hashes_are_the_same_everywhere() -> None:
    assert hash64("") == -1970711489451281740
    assert hash64("a") == 4681665781835383343
    assert digest_text("ab", "c") == "d301c71d527a1a9ae0e1e1e5bee135f5"
    assert -(2**63) <= hash64("\ud800") < 2**63
    assert len(digest_text("a", size=8)) == 16


@given(st.lists(st.text()), st.lists(st.text()))
def test_no_two_sequences_share_a_digest(left: list[str], right: list[str]) -> None:
    assert (digest_text(*left) == digest_text(*right)) == (left == right)
