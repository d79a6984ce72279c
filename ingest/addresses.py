"""Addresses that may be asked: only the web, and only public hosts, unless the operator allows others.

A name is resolved once, all of its addresses are checked, and the connection is made to one of those that were
checked.  So a name that resolves to something else a moment later leads nowhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from urllib.parse import urlsplit

import httpx2

from xscl.base.errors import SourceError
from xscl.base.shown import shortened

__all__ = [
    "Resolve",
    "check_addresses",
    "checked_target",
    "checked_url",
    "forbidden",
    "normal_url",
    "private_allowed",
    "system_resolver",
]

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host: (name, port) → addresses as text."""

_MAX_URL = 2_000
_NO_SCHEME = re.compile(
    r"//[^/]|(?:localhost|\[[0-9a-f:.]+\]|[^\W_][\w-]*+(?:\.[\w-]++)++\.?)(?::\d{1,5})?(?:[/?#]|\Z)", re.IGNORECASE
)
"""Beginning of an address that names a host alone: two slashes, or a name with a dot and at most a port."""
_FILE = re.compile(r"[^/?#:]+\.(?:xml|rss|atom|rdf|json|opml|html?)", re.IGNORECASE)
"""A name that is rather a file's than a host's."""
_BLANKS = re.compile(r"[\x00-\x20\x7f]")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(*texts: str) -> tuple[_Network, ...]:
    return tuple(map(ipaddress.ip_network, texts))


_PRIVATE = _networks(
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "::1/128",
    "fc00::/7",
)
"""Used inside a machine, a house, a provider: asked where the operator allows it."""
_NEVER = _networks(
    "0.0.0.0/8",
    "169.254.0.0/16",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
)
"""Link-local, multicast, examples, reserved: no feed is there."""
_METADATA = _networks(
    "100.100.100.200/32",
    "168.63.129.16/32",
    "169.254.169.254/32",
    "192.0.0.192/32",
    "fd00:c1::a9fe:a9fe/128",
    "fd00:ec2::/32",
    "fd20:ce::254/128",
    "fe80::a9fe:a9fe/128",
)
"""Metadata addresses of clouds, which give the machine's credentials; some are private, some public."""
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def private_allowed(said: bool = False) -> bool:
    """Whether hosts on private networks may be asked: it was said, or ``XSCL_ALLOW_PRIVATE`` says it."""
    return said or os.environ.get("XSCL_ALLOW_PRIVATE", "").strip().lower() in ("1", "true", "yes")


def checked_url(text: str) -> str:
    """Bring an address of the web into its normal form, without a fragment; one without a scheme gets https.

    Raises:
        SourceError: ``XSCL_BAD_URL``: another scheme, no host, user and password, or no address at all.

    >>> checked_url("HTTP://Example.org:80/feed?a=b#top")
    'http://example.org/feed?a=b'
    >>> checked_url("example.org/feed"), checked_url("//example.org:8080")
    ('https://example.org/feed', 'https://example.org:8080/')
    """
    text = text.strip()
    shown = shortened(text)
    if len(text) > _MAX_URL or _BLANKS.search(text):
        raise _bad_url(shown, f"it has blanks or more than {_MAX_URL:,} characters")
    if _NO_SCHEME.match(text) and not _FILE.fullmatch(text):
        text = f"https://{text.removeprefix('//')}"
    try:
        url = httpx2.URL(text)
        host = url.raw_host.decode("ascii")
        port = url.port
    except (httpx2.InvalidURL, ValueError) as error:
        raise _bad_url(shown, str(error)) from None
    if url.scheme not in ("http", "https"):
        raise _bad_url(shown, "only http and https are fetched")
    if not host:
        raise _bad_url(shown, "it names no host")
    if port is not None and not 0 < port < 65_536:
        raise _bad_url(shown, f"there is no port {port}")
    if url.userinfo:
        raise _bad_url(f"{url.scheme}://…@{host}", "user names and passwords are not sent")
    return str(url.copy_with(fragment=None, raw_path=url.raw_path or b"/"))


def checked_target(text: str, *, allow_private: bool = False) -> str:
    """Bring an address to ask or to send to into its normal form; a host that is given as a number is judged at once.

    Raises:
        SourceError: ``XSCL_BAD_URL``; ``XSCL_PRIVATE_ADDRESS``.
    """
    allow_private = private_allowed(allow_private)
    url = checked_url(text)
    host = urlsplit(url).hostname or ""
    numeric = host.replace(".", "").isdigit() or ":" in host
    reason = forbidden(host, allow_private=allow_private) if numeric else None
    if host == "localhost" and not allow_private:
        reason = "private"
    if reason is not None:
        hint = "if it is meant: --allow-private, or XSCL_ALLOW_PRIVATE=1" if reason == "private" else None
        raise SourceError("XSCL_PRIVATE_ADDRESS", f"{host} is {reason}", hint=hint)
    return url


def normal_url(text: str) -> str:
    """Bring an address into its normal form; what is none stays as it is."""
    try:
        return checked_url(text)
    except SourceError:
        return text


def _bad_url(shown: str, reason: str) -> SourceError:
    return SourceError("XSCL_BAD_URL", f"{shown!r} cannot be fetched: {reason}")


def forbidden(address: str, *, allow_private: bool = False) -> str | None:
    """Return why an address may not be asked; None if it may.

    Of IPv6 addresses that stand for an IPv4 address (mapped, NAT64, 6to4) that one is judged.

    >>> forbidden("127.0.0.1"), forbidden("::ffff:169.254.169.254"), forbidden("8.8.8.8")
    ('private', 'a metadata service of a cloud', None)
    """
    try:
        found: _Address = ipaddress.ip_address(address)
    except ValueError:
        return "no address"
    inner = _inner(found) if isinstance(found, ipaddress.IPv6Address) else None
    if inner is not None:
        found = inner
    if _within(found, _METADATA):
        return "a metadata service of a cloud"
    if _within(found, _PRIVATE):
        return None if allow_private else "private"
    if _within(found, _NEVER) or (found.version == 6 and found not in _GLOBAL_V6):
        return "not public"
    return None


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def _within(address: _Address, networks: tuple[_Network, ...]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def check_addresses(host: str, addresses: Sequence[str], *, allow_private: bool = False) -> None:
    """Refuse a host that has no address, or any that may not be asked.

    Raises:
        SourceError: ``XSCL_FETCH`` without an address, ``XSCL_PRIVATE_ADDRESS`` with one that is refused.
    """
    if not addresses:
        raise SourceError("XSCL_FETCH", f"{host} has no address")
    for address in addresses:
        if reason := forbidden(address, allow_private=allow_private):
            shown = address if address == host else f"{host} is at {address}, which"
            hint = None
            if reason == "private":
                hint = (
                    "if it is meant: 'xscl feed set URL --allow-private', so too 'deliver add', or XSCL_ALLOW_PRIVATE=1"
                )
            raise SourceError("XSCL_PRIVATE_ADDRESS", f"{shown} is {reason}; it is not asked", hint=hint)


def system_resolver(executor: Executor) -> Resolve:
    """Return the names of this machine's resolver, looked up in threads of ``executor``."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(executor, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    return resolve
