"""The gate in front of all calls: who asks, from where, how often, and with how large a body."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xscl.base.errors import XsclError
from xscl.base.shown import for_terminal
from xscl.base.types import format_time, now_micros
from xscl.catalog.tokens import Token, read_token
from xscl.service.problems import Refused, response_of
from xscl.service.runtime import Service

__all__ = ["COOKIE", "LOOPBACK", "NOBODY", "OPEN_PATHS", "Gate", "holder_of", "needs"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts at which a service without tokens may be reached."""
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/login"})
"""Paths that need no token, besides those of files of the console."""
COOKIE = "xscl_token"
"""Cookie with the token of whoever uses the console; calls of the API do not take it."""
_FILES = "/static/"
_NO_PAGES = ("/v1/", "/metrics", "/openapi.json", "/healthz", "/readyz")
"""Beginnings of paths that are no pages of the console."""
NOBODY = Token("", frozenset({"admin"}), 0)
"""Holder of all calls where the service asks for no token."""
_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Cache-Control", "no-store"),
)
_GUESSES_PER_S = 10.0
"""Calls without a token that is known, a second, of one address."""
_BODY_S, _BODY_BYTES_PER_S = 30.0, 8 * 1024
"""Seconds that any body may take, and the rate at which what it brings gives it more of them."""
_HOLDERS = 10_000
"""Holders and addresses whose rate is remembered."""


@dataclass(slots=True)
class _Bucket:
    """Requests that may come at once: as many as have gathered, at so many a second."""

    left: float
    at: float


class _Rates:
    """Rates of requests by holder (token bucket)."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, who: str, *, count: bool = True) -> float:
        """Count a request, or look only; return 0, or the seconds after which the next one is welcome."""
        now, most = self._clock(), 2 * self._per_s
        bucket = self._buckets.pop(who, None) or _Bucket(most, now)
        self._buckets[who] = bucket
        if len(self._buckets) > _HOLDERS:
            self._buckets.popitem(last=False)
        bucket.left = min(most, bucket.left + (now - bucket.at) * self._per_s)
        bucket.at = now
        if bucket.left < 1:
            return (1 - bucket.left) / self._per_s
        bucket.left -= count
        return 0.0


def holder_of(request: Request) -> Token:
    """Return the holder of the token with which a request came."""
    holder = request.scope["xscl.holder"]
    assert isinstance(holder, Token)
    return holder


def needs(scope: str) -> Callable[[Request], Awaitable[Token]]:
    """Make the check of a call that needs a scope; it returns the holder."""

    async def check(request: Request) -> Token:
        holder = holder_of(request)
        if not holder.admits(scope):
            raise Refused(
                403,
                "XSCL_FORBIDDEN",
                f"the token {holder.name} has {', '.join(sorted(holder.scopes))}; this call needs {scope}",
                hint=f"xscl token add NAME --scope {scope}",
            )
        return holder

    return check


class Gate:
    """Middleware that checks every request before anything else sees it, and logs its answer."""

    def __init__(self, app: ASGIApp, service: Service, log: Callable[[str], None]) -> None:
        self._app = app
        self._service = service
        self._log = log
        self._rates = _Rates(service.settings.requests_per_s)
        self._guesses = _Rates(_GUESSES_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status = 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS:
                    headers.setdefault(name, value)
                if status == 401 and _FEED.fullmatch(scope["path"]):
                    headers["WWW-Authenticate"] = 'Basic realm="xscl", charset="UTF-8"'
            await send(message)

        scope["xscl.holder"] = NOBODY
        try:
            await self._admit(scope)
            await self._app(scope, _bounded(scope, receive, self._service.settings.max_body), sent)
        except XsclError as error:
            await _refusal(scope, error)(scope, receive, sent)
        finally:
            self._note(scope, status, time.monotonic() - began)

    async def _admit(self, scope: Scope) -> None:
        """Find out who asks; refuse whoever may not, or asks too often.

        Raises:
            Refused: ``XSCL_UNAUTHORIZED``, ``XSCL_FORBIDDEN_HOST``, ``XSCL_TOO_MANY_REQUESTS``.
        """
        headers = Headers(scope=scope)
        client = scope["client"][0] if scope.get("client") else ""
        who, path = client, scope["path"]
        if not self._service.settings.auth:
            _check_local(headers)
        elif path not in OPEN_PATHS and not path.startswith(_FILES):
            # Whoever has guessed often is refused before the catalogue is asked.
            if wait_s := self._guesses.wait_s(client, count=False):
                raise _too_many(f"more than {_GUESSES_PER_S:g} unknown tokens a second came from {client}", wait_s)
            try:
                scope["xscl.holder"] = await self._holder(_credentials(path, headers))
            except Refused:
                self._guesses.wait_s(client)
                raise
            who = f"token {scope['xscl.holder'].name}"
        if scope["method"] == "POST" and _is_page(path) and "authorization" not in headers:
            _check_origin(headers)
        if wait_s := self._rates.wait_s(who):
            most = self._service.settings.requests_per_s
            raise _too_many(f"{who} sends more than {most:g} requests a second", wait_s)

    async def _holder(self, given: str) -> Token:
        scheme, _, text = given.partition(" ")
        token = None
        if scheme.lower() == "bearer":
            token = await run_in_threadpool(self._service.home.catalog.ask, read_token, text.strip())
        if token is None:
            raise Refused(
                401,
                "XSCL_UNAUTHORIZED",
                "the token is unknown or was revoked" if given else "the call has no token",
                hint="send the header 'Authorization: Bearer TOKEN'; 'xscl token add NAME' makes one",
            )
        return token

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request, and write a line of the access log; neither has a token, a query string or a body."""
        route = scope.get("route")
        call = getattr(route, "path", None) or "none"
        method = scope["method"] if scope["method"] in _METHODS else "other"
        metrics = self._service.metrics
        metrics.requests.labels(method, call, f"{status // 100}xx").inc()
        if not call.endswith("/stream"):
            metrics.request_seconds.labels(call).observe(seconds)
        line = {
            "at": format_time(now_micros()),
            "method": method,
            "path": for_terminal(scope["path"])[:500],
            "status": status,
            "ms": round(seconds * 1e3, 1),
            "who": scope["xscl.holder"].name,
            "from": scope["client"][0] if scope.get("client") else None,
        }
        self._log(json.dumps(line, ensure_ascii=False))


_FEED = re.compile(r"/queries/[^/]+/feed\.(?:atom|json)")
"""Paths of feeds."""


def _password(text: str) -> str:
    """Return the password of ``Authorization: Basic``; empty where there is none."""
    try:
        return base64.b64decode(text.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


def _too_many(told: str, wait_s: float) -> Refused:
    return Refused(429, "XSCL_TOO_MANY_REQUESTS", told, after_s=wait_s)


def _check_local(headers: Headers) -> None:
    """Refuse requests that a page of another site may have made (DNS rebinding, cross-site requests).

    Raises:
        Refused: ``XSCL_FORBIDDEN_HOST``.
    """
    names = [("Host", headers.get("host", ""))]
    if (origin := headers.get("origin")) is not None:
        names.append(("Origin", origin.partition("://")[2] or origin))
    for header, value in names:
        if _host_of(value) not in LOOPBACK:
            raise Refused(
                403,
                "XSCL_FORBIDDEN_HOST",
                f"without tokens the service answers to {', '.join(sorted(LOOPBACK))}; {header} is {value!r}",
                hint="start it with tokens to reach it by other names",
            )


def _is_page(path: str) -> bool:
    return not path.startswith(_NO_PAGES)


def _credentials(path: str, headers: Headers) -> str:
    """Return the header with the token; on pages the cookie stands for it, of readers of feeds the password."""
    given = headers.get("authorization", "")
    scheme, _, text = given.partition(" ")
    if scheme.lower() == "basic" and _FEED.fullmatch(path):
        return f"Bearer {_password(text)}"
    if not given and _is_page(path) and (token := cookie_parser(headers.get("cookie", "")).get(COOKIE)):
        return f"Bearer {token}"
    return given


def _check_origin(headers: Headers) -> None:
    """Refuse forms that a page of another site sent; browsers name the origin of every form.

    Raises:
        Refused: ``XSCL_FORBIDDEN_HOST``.
    """
    origin = headers.get("origin", "")
    if not origin or origin.partition("://")[2] != headers.get("host", ""):
        raise Refused(
            403,
            "XSCL_FORBIDDEN_HOST",
            f"forms of the console come from its own pages; Origin is {origin!r}, Host {headers.get('host', '')!r}",
            hint="a proxy in front of the service has to pass the header Host on",
        )


def _refusal(scope: Scope, error: XsclError) -> Response:
    """Make the answer to a request that may not pass; who opens a page is asked for a token."""
    headers = Headers(scope=scope)
    if isinstance(error, Refused) and error.status == 401 and _is_page(scope["path"]):
        if "hx-request" in headers:
            return Response(status_code=401, headers={"HX-Redirect": "/login"})
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse(f"/login?{urlencode({'next': scope['path']})}", status_code=303)
    return response_of(error)


def _host_of(value: str) -> str:
    """Return the host of ``host:port``; the address of IPv6 without its brackets."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0].lower()


def _bounded(scope: Scope, receive: Receive, most: int) -> Receive:
    """Return the body of a request, refused where it is larger than ``most`` bytes, or comes too slowly.

    Raises:
        Refused: ``XSCL_BODY_LIMIT``, at once if the request says how large it is; ``XSCL_SLOW_BODY``.
    """
    told = Headers(scope=scope).get("content-length", "")
    if told.isdigit() and int(told) > most:
        raise _too_large(most)
    seen, waited_s, is_whole = 0, 0.0, False

    async def received() -> Message:
        nonlocal seen, waited_s, is_whole
        if is_whole:
            return await receive()
        began, most_s = time.monotonic(), _BODY_S + seen / _BODY_BYTES_PER_S
        try:
            async with asyncio.timeout(most_s - waited_s):
                message = await receive()
        except TimeoutError:
            told = f"{seen:,} bytes of the body came in {most_s:.0f} s"
            raise Refused(408, "XSCL_SLOW_BODY", told, hint="send less at once, or over a faster line") from None
        waited_s += time.monotonic() - began
        is_whole = not message.get("more_body", False)
        seen += len(message.get("body", b""))
        if seen > most:
            raise _too_large(most)
        return message

    return received


def _too_large(most: int) -> Refused:
    return Refused(413, "XSCL_BODY_LIMIT", f"a body has at most {most:,} bytes", hint="send it in parts")
