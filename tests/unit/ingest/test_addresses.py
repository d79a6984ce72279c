from __future__ import annotations

import asyncio
import ipaddress
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xscl.base.errors import SourceError
from xscl.ingest.addresses import check_addresses, checked_url, forbidden, normal_url, system_resolver

V4 = st.ip_addresses(v=4)
V6 = st.ip_addresses(v=6)


@given(V4 | V6)
@example(ipaddress.ip_address("2001:4860:4860::8888"))
@example(ipaddress.ip_address("93.184.216.34"))
def test_only_global_addresses_are_asked(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if forbidden(str(address)) is None:
        assert address.is_global or address in ipaddress.ip_network("2002::/16") or "64:ff9b::" in str(address)
        assert not address.is_multicast


@given(V4)
def test_an_address_within_another_is_judged(address: ipaddress.IPv4Address) -> None:
    expected = forbidden(str(address))
    number = int(address)
    mapped = ipaddress.IPv6Address((0xFFFF << 32) | number)
    nat64 = ipaddress.IPv6Address((0x64FF9B << 96) | number)
    six_to_four = ipaddress.IPv6Address((0x2002 << 112) | (number << 80) | 1)
    assert forbidden(str(mapped)) == forbidden(str(nat64)) == forbidden(str(six_to_four)) == expected


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.255.0.9", "10.1.2.3", "172.31.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd00::1"],
)
def test_private_addresses_can_be_allowed(address: str) -> None:
    assert forbidden(address) == "private"
    assert forbidden(address, allow_private=True) is None


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fe80::1",
        "fe80::1%eth0",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.2.1",
        "2001:db8::1",
        "2001::1",
        "64:ff9b:1::1",
        "fec0::1",
        "::127.0.0.1",
        "",
        "localhost",
    ],
)
def test_others_cannot(address: str) -> None:
    assert forbidden(address) is not None
    assert forbidden(address, allow_private=True) is not None


CLOUDS = {
    "Amazon": "169.254.169.254 fd00:ec2::254 fd00:ec2::253 fe80::a9fe:a9fe fe80::a9fe:a9fe%eth0",
    "Alibaba": "100.100.100.200",
    "Azure": "168.63.129.16",
    "Google": "169.254.169.254 fd20:ce::254",
    "Oracle": "192.0.0.192 fd00:c1::a9fe:a9fe",
}


def forms(address: str) -> list[str]:
    """Ways to write an address of IPv4 in IPv6."""
    if ":" in address:
        return [address, address.upper()]
    number = int(ipaddress.IPv4Address(address))
    mapped = [f"::ffff:{address}", f"64:ff9b::{address}", f"::{address}", f"::ffff:0:{address}"]
    return [address, *mapped, str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80)))]


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("allow_private", [False, True])
def test_metadata_services_are_never_asked(cloud: str, allow_private: bool) -> None:
    for address in CLOUDS[cloud].split():
        for form in forms(address):
            assert forbidden(form, allow_private=allow_private) is not None, form
            with pytest.raises(SourceError, match="XSCL_PRIVATE_ADDRESS") as caught:
                check_addresses("metadata.example", ["93.184.216.34", form], allow_private=allow_private)
            assert caught.value.hint is None
    assert forbidden("fd00:ec3::254", allow_private=True) is None
    assert forbidden("100.100.100.201", allow_private=True) is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("example.org", "https://example.org/"),
        ("example.org/feed?a=b#c", "https://example.org/feed?a=b"),
        ("EXAMPLE.org:8080", "https://example.org:8080/"),
        ("//example.org/feed", "https://example.org/feed"),
        ("localhost:8000/feed", "https://localhost:8000/feed"),
        ("192.168.1.1/feed", "https://192.168.1.1/feed"),
        ("[::1]:80/feed", "https://[::1]:80/feed"),
        ("bücher.example/feed", "https://xn--bcher-kva.example/feed"),
        ("example.org/feed.xml", "https://example.org/feed.xml"),
        (" example.org ", "https://example.org/"),
        ("http://example.org", "http://example.org/"),
    ],
)
def test_a_missing_scheme_is_completed(text: str, url: str) -> None:
    assert checked_url(text) == url == normal_url(text) == checked_url(url)


@pytest.mark.parametrize(
    "text",
    [
        "feed",
        "feed.xml",
        "mailto:a@example.org",
        "javascript:x",
        "file:///etc/passwd",
        "/feed",
        "a:b",
        "u:p@a.org",
        "///a.org",
    ],
)
def test_what_names_no_host_is_not_completed(text: str) -> None:
    with pytest.raises(SourceError, match="XSCL_BAD_URL"):
        checked_url(text)
    assert normal_url(text) == text


def test_one_bad_address_is_enough() -> None:
    check_addresses("a.example", ["93.184.216.34"])
    with pytest.raises(SourceError, match=r"XSCL_PRIVATE_ADDRESS.*a\.example is at 10\.0\.0\.1") as caught:
        check_addresses("a.example", ["93.184.216.34", "10.0.0.1"])
    assert caught.value.hint and "--allow-private" in caught.value.hint
    with pytest.raises(SourceError, match="XSCL_FETCH"):
        check_addresses("a.example", [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" http://a.example ", "http://a.example/"),
        ("HTTPS://A.example:443/x?y=1#z", "https://a.example/x?y=1"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://münchen.example/ä", "http://xn--mnchen-3ya.example/%C3%A4"),
    ],
)
def test_addresses_of_the_web(text: str, expected: str) -> None:
    assert checked_url(text) == expected
    assert checked_url(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "feed.xml",
        "file:///etc/passwd",
        "ftp://a.example/",
        "feed://a.example/",
        "javascript:alert(1)",
        "http://",
        "http:///x",
        "http://user:secret@a.example/",
        "http://user@a.example/",
        "http://a.example:0/",
        "http://a.example:70000/",
        "http://a b.example/",
        "http://a.example/\r\nX-Y: z",
        "http://a.example/" + "x" * 2_000,
    ],
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(SourceError, match="XSCL_BAD_URL") as caught:
        checked_url(text)
    assert "secret" not in str(caught.value)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for shown in (text, f"http://{text}", f"http://a.example/{text}"):
        try:
            url = checked_url(shown)
        except SourceError:
            continue
        assert url.startswith(("http://", "https://"))


@pytest.mark.parametrize("name", ["127.1", "0x7f.1", "2130706433", "0177.0.0.1"])
def test_old_ways_to_write_an_address_resolve_before_they_are_checked(name: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        found = asyncio.run(system_resolver(threads)(name, 80))  # type: ignore[arg-type]
    assert found == ["127.0.0.1"]
    with pytest.raises(SourceError, match="XSCL_PRIVATE_ADDRESS"):
        check_addresses(name, found)
