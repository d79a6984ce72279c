"""Asking for feeds over HTTP: one request at a time, bounded in time, size and where it may go.

Each request makes a connection of its own, to an address that was checked (``addresses``), with the certificate
checked against the name.  Nothing of one request is kept for the next: no cookies, no credentials, no connections.
Proxies of the environment are not used, because they would resolve names themselves.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import httpx2

from xscl.base.errors import SourceError
from xscl.ingest.addresses import Resolve, check_addresses, checked_url, system_resolver
from xscl.ingest.fetch_policy import Answer

__all__ = [
    "DEFAULT_FETCH_LIMITS",
    "Exchange",
    "FetchLimits",
    "Fetched",
    "Fetcher",
    "follow",
    "user_agent",
]

MAX_REDIRECTS = 5
_ACCEPT = "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, */*;q=0.8"
_CODINGS = ("gzip", "br", "zstd")
_MAX_HEADERS = 100 * 1024
"""Bytes of headers that h11 takes for the client."""
_PIECE = 1 << 20
"""Bytes that are unpacked at a time."""
_CONTENT = frozenset({200, 203})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LASTING = frozenset({301, 308})
_MAX_CONTACT = 200
_LOOKUPS = 32
"""Names that are resolved at once."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one request."""

    connect_s: float = 10.0
    total_s: float = 30.0
    """Seconds from the look-up of the name to the last byte."""
    max_bytes: int = 10_000_000
    """Bytes of a body, unpacked; inclusive."""


DEFAULT_FETCH_LIMITS = FetchLimits()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came of it."""

    url: str
    status: int | None
    """None: no answer, or none that was asked for (``sent`` tells)."""
    headers: Mapping[str, str]
    """Headers by names in lower case."""
    body: bytes | None = None
    """Unpacked; None where it could not be read."""
    received: int = 0
    """Bytes of the body as they were sent."""
    problem: SourceError | None = None
    sent: bool = True
    """Whether the host may have seen a request."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """Headers of a request, and the body of one that has a body."""

    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """Result of a poll, at the end of its redirects."""

    answer: Answer
    url: str
    """Address of the last answer."""
    body: bytes | None
    problem: SourceError | None
    """Why there is no body that could be a feed; None with a body, and for 304."""
    requests: int
    received: int
    seconds: float = 0.0
    """Time that hosts took to answer."""


def user_agent(version: str, contact: str | None) -> str:
    """Make the User-Agent: ``xscl/1.0 (+https://example.org/contact)``.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``: the contact does not fit into a header.
    """
    if not contact:
        return f"xscl/{version}"
    if len(contact) > _MAX_CONTACT or not (contact.isascii() and contact.isprintable()) or set(contact) & set("()\\"):
        raise SourceError(
            "XSCL_BAD_OPTION",
            f"{contact!r} is no contact",
            hint=f"an address of the web or of mail, of at most {_MAX_CONTACT} characters without brackets",
        )
    return f"xscl/{version} (+{contact})"


class Fetcher:
    """Sends requests.  Use it as an asynchronous context manager.

    Args:
        agent: the User-Agent.
        limits: what one request may take.
        allow_private: whether all hosts may be on private networks.
        resolve: gives the addresses of a host; by default the machine's resolver.
        transport: sends a request to an address; by default over TCP and TLS.
    """

    def __init__(
        self,
        agent: str,
        *,
        limits: FetchLimits = DEFAULT_FETCH_LIMITS,
        allow_private: bool = False,
        resolve: Resolve | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.limits = limits
        self.allow_private = allow_private
        self._headers = {"User-Agent": agent, "Accept": _ACCEPT, "Accept-Encoding": ", ".join(_CODINGS)}
        self._threads = ThreadPoolExecutor(_LOOKUPS, "xscl-names")
        self._resolve = resolve or system_resolver(self._threads)
        # Connections are not kept: one to an address would serve every name that has this address.
        alone = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        self._transport = transport or httpx2.AsyncHTTPTransport(trust_env=False, limits=alone)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def exchange(
        self, url: str, *, etag: str | None = None, modified: str | None = None, allow_private: bool = False
    ) -> Exchange:
        """Ask once for ``url``; never raises for what the host does.

        Args:
            url: as ``checked_url`` gives it.
            etag: of the content we have; with ``modified`` the host is asked for newer content only.
            modified: the content's ``Last-Modified``.
            allow_private: whether the host may be on a private network.
        """
        headers = {**self._headers, "Host": httpx2.URL(url).netloc.decode("ascii")}
        if etag:
            headers["If-None-Match"] = etag
        if modified:
            headers["If-Modified-Since"] = modified
        try:
            found = await self._exchange(url, _Sent(headers), allow_private or self.allow_private)
        except Exception as error:  # whatever a stranger makes a library do costs its own feed alone
            return Exchange(url, None, {}, problem=_failed(url, error))
        if found.status == 304 and not (etag or modified):
            problem = SourceError("XSCL_HTTP_STATUS", f"{url} answered 304, not modified, to who had nothing")
            return replace(found, problem=problem)
        return found

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool = False) -> Exchange:
        """Send a body to ``url`` once; never raises for what the host does.  The body of an answer is not read.

        Args:
            url: as ``checked_url`` gives it.
            body: what is sent.
            headers: what is told of it.
            allow_private: whether the host may be on a private network.
        """
        agent, host = self._headers["User-Agent"], httpx2.URL(url).netloc.decode("ascii")
        sent = _Sent({**headers, "User-Agent": agent, "Host": host}, body)
        try:
            return await self._exchange(url, sent, allow_private or self.allow_private)
        except Exception as error:  # as of feeds: a stranger's fault costs its own delivery alone
            return Exchange(url, None, {}, problem=_failed(url, error))

    async def _exchange(self, url: str, sent: _Sent, allow_private: bool) -> Exchange:
        deadline = asyncio.get_running_loop().time() + self.limits.total_s
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._addresses(url, allow_private)
        except SourceError as error:
            return Exchange(url, None, {}, problem=error, sent=False)
        except TimeoutError:
            return Exchange(url, None, {}, problem=self._too_slow(url), sent=False)
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._ask(url, addresses, sent)
        except SourceError as error:
            return Exchange(url, None, {}, problem=error)
        except TimeoutError:
            return Exchange(url, None, {}, problem=self._too_slow(url))
        return await self._read(url, response, deadline, wanted=sent.body is None)

    def _too_slow(self, url: str) -> SourceError:
        return SourceError("XSCL_FETCH_TIMEOUT", f"{url} was not there within {self.limits.total_s:g} seconds")

    async def _addresses(self, url: str, allow_private: bool) -> list[str]:
        host = httpx2.URL(url).raw_host.decode("ascii").strip("[]")
        port = httpx2.URL(url).port or (443 if url.startswith("https:") else 80)
        try:
            found = list(await self._resolve(host, port))
        except (OSError, ValueError) as error:  # ValueError: a label that no name can have
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise SourceError("XSCL_FETCH", f"{host} cannot be resolved: {reason}") from None
        check_addresses(host, found, allow_private=allow_private)
        return found

    async def _ask(self, url: str, addresses: list[str], sent: _Sent) -> httpx2.Response:
        """Return the answer of the first address that takes the connection, its body still to be read."""
        problem = SourceError("XSCL_FETCH", url)
        for address in addresses:
            try:
                return await self._transport.handle_async_request(self._request(url, address, sent))
            except httpx2.ConnectTimeout:
                seconds = f"{self.limits.connect_s:g} seconds"
                problem = SourceError("XSCL_FETCH_TIMEOUT", f"{url}: no connection within {seconds}")
            except httpx2.ConnectError as error:
                problem = _failed(url, error)
            except httpx2.TransportError as error:
                raise _failed(url, error) from None
        raise problem

    def _request(self, url: str, address: str, sent: _Sent) -> httpx2.Request:
        parsed = httpx2.URL(url)
        limits = self.limits
        timeout = httpx2.Timeout(limits.total_s, connect=limits.connect_s, pool=None)
        extensions: dict[str, object] = {"timeout": timeout.as_dict()}
        if parsed.scheme == "https":
            extensions["sni_hostname"] = parsed.raw_host.decode("ascii")
        method = "GET" if sent.body is None else "POST"
        at = parsed.copy_with(host=address)
        return httpx2.Request(method, at, headers=sent.headers, content=sent.body, extensions=extensions)

    async def _read(self, url: str, response: httpx2.Response, deadline: float, *, wanted: bool) -> Exchange:
        headers = {name.lower(): value for name, value in response.headers.items()}
        body = bytearray()
        problem = None
        wanted = wanted and response.status_code in _CONTENT
        try:
            async with asyncio.timeout_at(deadline), aclosing(response):
                if wanted:
                    await self._read_body(url, response, body)
        except SourceError as error:
            problem = error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            problem = _failed(url, error)
        except TimeoutError:
            problem = self._too_slow(url)
        whole = bytes(body) if problem is None and wanted else None
        return Exchange(url, response.status_code, headers, whole, response.num_bytes_downloaded, problem)

    async def _read_body(self, url: str, response: httpx2.Response, body: bytearray) -> None:
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity", *_CODINGS):
            # Several at a time could keep us busy for hours with a few kilobytes.
            raise SourceError("XSCL_FETCH", f"{url} came packed as {coding[:100]!r}, which was not asked for")
        chunks = _gunzipped(url, response.aiter_raw()) if coding == "gzip" else response.aiter_bytes()
        async for chunk in chunks:
            body += chunk
            if len(body) > self.limits.max_bytes:
                most = f"{self.limits.max_bytes:,} bytes, unpacked"
                raise SourceError("XSCL_FETCH_LIMIT", f"{url} has more than {most}")


async def _gunzipped(url: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Unpack a body piece by piece; a library's decoder would take one that was cut off for the whole."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        async for chunk in chunks:
            while chunk and not unpacker.eof:
                yield unpacker.decompress(chunk, _PIECE)
                chunk = unpacker.unconsumed_tail
    except zlib.error as error:
        raise SourceError("XSCL_FETCH", f"{url}: the body is no gzip: {error}") from None
    if not unpacker.eof:
        raise SourceError("XSCL_FETCH", f"{url}: the packed body was cut off")


def _failed(url: str, error: Exception) -> SourceError:
    if "Receive buffer too long" in str(error):
        return SourceError("XSCL_FETCH_LIMIT", f"{url} has more than {_MAX_HEADERS:,} bytes of headers")
    return SourceError("XSCL_FETCH", f"{url}: {_reason(error)}")


def _reason(error: BaseException) -> str:
    """Find the system's own words for an error; libraries put general texts around them."""
    told = str(error) or type(error).__name__
    inner = error.__cause__ or error.__context__
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            told = inner.strerror
        inner = inner.__cause__ or inner.__context__
    return told


async def follow(url: str, exchange: Callable[[str], Awaitable[Exchange]]) -> Fetched:
    """Ask for ``url`` and for what it redirects to, each address checked, at most ``MAX_REDIRECTS`` times.

    Args:
        url: where to begin.
        exchange: asks for one address, when its host's turn has come.
    """
    lasting: str | None = None
    only_lasting = True
    received = requests = 0
    problem: SourceError | None
    for _ in range(MAX_REDIRECTS + 1):
        found = await exchange(url)
        requests += found.sent
        received += found.received
        problem = found.problem
        target = found.headers.get("location", "").strip() if found.status in _REDIRECTS else None
        if target is None:
            if problem is None and found.body is None and found.status != 304:
                problem = SourceError("XSCL_HTTP_STATUS", f"{url} answered {_named(found.status)}")
            break
        problem = SourceError("XSCL_REDIRECT", f"{url} redirects to nowhere")
        if not target:
            break
        try:
            url = checked_url(urljoin(url, target))
        except ValueError as error:
            message = error.message if isinstance(error, SourceError) else str(error)
            problem = SourceError("XSCL_REDIRECT", f"{url} redirects: {message}")
            break
        only_lasting = only_lasting and found.status in _LASTING
        lasting = url if only_lasting else lasting
        problem = SourceError("XSCL_REDIRECT", f"{url}: more than {MAX_REDIRECTS} redirects")
    answer = Answer(found.status, found.headers, lasting)
    return Fetched(answer, found.url, found.body if problem is None else None, problem, requests, received)


def _named(status: int | None) -> str:
    try:
        return f"{status} {httpx2.codes(status or 0).name.replace('_', ' ').lower()}"
    except ValueError:
        return str(status)
