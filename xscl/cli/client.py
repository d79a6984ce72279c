"""A client of a running service, which ``--url`` or ``XSCL_URL`` names, or a home that it has open."""

from __future__ import annotations

import json
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from xscl.base.errors import EngineError
from xscl.base.shown import masked
from xscl.cli.wire import LOOPBACK, CallFailed, NetworkWire, Request, Response, Wire

__all__ = ["Client", "error_of", "quoted"]

_USUAL, _SOON = (10.0, 120.0), (1.0, 10.0)
"""Seconds until somebody takes a connection, and while nothing comes; and the same with a service that nobody named."""
_NO_BATCH = 2**62
_BUSY = (429, 503)
"""Statuses after which a call may be made again."""
_PATIENCE_S, _LONGEST_S = 600.0, 60.0
"""Seconds for which a call is made again while the service is busy, and of one pause."""
_PAUSES_S = (0.5, 1.0, 2.0, 4.0)
"""Pauses after calls that nobody answered."""


_OWN_HINTS = {
    "XSCL_UNAUTHORIZED": "XSCL_TOKEN has the token; 'xscl token add NAME' makes one, on the home of the service"
}
"""Hints by conditions whose own hints are for those who write requests."""


def error_of(problem: Mapping[str, Any]) -> EngineError:
    """Make the error that a problem of the service tells, with its place and a caret where it has them."""
    condition = str(problem.get("type", "")).rpartition(":")[2] or "XSCL_INTERNAL"
    message = str(problem.get("detail", "the service gave no reason"))
    if problem.get("line") is not None and problem.get("caret"):
        caret = "\n".join(f"  {line}" for line in str(problem["caret"]).split("\n"))
        message = f"line {problem['line']}, column {problem.get('column')}: {message}\n{caret}"
    hint = _OWN_HINTS.get(condition, problem.get("hint"))
    return EngineError(condition, message, hint=None if hint is None else str(hint))


class Client:
    """Calls of one service, with the token of ``XSCL_TOKEN``."""

    def __init__(
        self,
        url: str,
        wire: Wire | None = None,
        sleep: Callable[[float], None] = time.sleep,
        is_found: bool = False,
    ) -> None:
        """``is_found``: nobody named the service; what it does not do, the home does."""
        self.url = url.rstrip("/")
        self.is_found = is_found
        self._sleep = sleep
        try:
            self._wire = NetworkWire(self.url) if wire is None else wire
            self._headers = _authorization(self.url)
        except ValueError as error:
            raise EngineError("XSCL_BAD_URL", f"{masked(url)!r} is no address of a service: {error}") from None
        self.is_here = is_found or urlsplit(self.url).hostname in LOOPBACK
        """Whether the service runs on this machine."""

    def call(self, method: str, path: str, **request: Any) -> Any:
        """Make a call; return the JSON of its answer, a text, or None.

        Args:
            method: method of HTTP.
            path: path of the address.
            request: ``params`` of the address; ``json`` or ``content``, and ``headers``.

        Raises:
            EngineError: ``XSCL_NO_ANSWER``; or what the service says.
        """
        try:
            response = self._send(method, path, **request)
            return self._read(response)
        except CallFailed as error:
            raise self._no_answer(error) from None

    def fault(self) -> str | None:
        """Ask whether the service takes the token; return why it does not, or None."""
        try:
            response = self._send("GET", "/v1/batches", params={"after": _NO_BATCH, "limit": 1}, patience=_SOON)
            b"".join(response.pieces)
        except CallFailed as error:
            return f"it does not answer: {error}"
        if response.status == 401:
            return "it does not know the token XSCL_TOKEN"
        # Whoever may only write is told so by the call.
        return None if response.status in (200, 403) else f"it answered {response.status}"

    def send_heartbeat(self, channel: str, ts: str) -> None:
        """Say that all events of a channel up to a time are in; ``ts`` is ISO 8601.

        Raises:
            EngineError: as ``call_patiently`` says.
        """
        self.call_patiently("POST", f"/v1/channels/{quoted(channel)}/heartbeat", json={"ts": ts})

    def call_patiently(self, method: str, path: str, *, is_repeatable: bool = True, **request: Any) -> Any:
        """Make a call; while the service is busy or away, it is made again.

        Args:
            method: method of HTTP.
            path: path of the address.
            is_repeatable: whether the call does nothing more if it is made twice; else one whose answer is lost is
                made once.
            request: the rest of the request.

        Raises:
            EngineError: as ``call`` says, after ten minutes of a busy service, or some seconds of none.
        """
        waited, pauses = 0.0, iter(_PAUSES_S)
        while True:
            try:
                response = self._send(method, path, **request)
                if response.status not in _BUSY or waited >= _PATIENCE_S:
                    return self._read(response)
                b"".join(response.pieces)
            except CallFailed as error:
                pause = next(pauses, None) if is_repeatable or not error.was_sent else None
                if pause is None:
                    raise self._no_answer(error) from None
            else:
                pause = _pause_s(response.headers.get("retry-after", ""))
                waited += pause
            self._sleep(pause)

    def lines(self, path: str, params: Mapping[str, Any], asked: object = None) -> Iterator[dict[str, Any]]:
        """Yield the objects of an answer of lines, as they come; ``asked`` is a body that is sent.

        Raises:
            EngineError: as ``call`` says; also where the answer ends early.
        """
        try:
            response = self._send("GET" if asked is None else "POST", path, params=params, json=asked)
            if response.status >= 300:
                self._read(response)
            rest = b""
            for piece in response.pieces:
                *lines, rest = (rest + piece).split(b"\n")
                yield from map(json.loads, filter(None, lines))
            if rest:
                yield json.loads(rest)
        except (CallFailed, ValueError) as error:
            raise self._no_answer(error) from None

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        patience: tuple[float, float] = _USUAL,
    ) -> Response:
        all_headers = {**self._headers, **(headers or {})}
        if json is not None:
            content, all_headers["Content-Type"] = _json_text(json).encode(), "application/json"
        if params:
            path += f"?{urlencode(_written(params), doseq=True, quote_via=quote)}"
        return self._wire.send(Request(method, path, all_headers, content, *patience))

    def _read(self, response: Response) -> Any:
        content = b"".join(response.pieces)
        if response.status < 300 and not content:
            return None
        try:
            text = content.decode()
            told = json.loads(text) if "json" in response.headers.get("content-type", "") else text
        except ValueError as error:
            raise self._no_answer(error) from None
        if response.status < 300:
            return told
        if isinstance(told, dict) and "type" in told:
            raise error_of(told)
        raise self._no_answer(RuntimeError(f"it answered {response.status}"))

    def _no_answer(self, error: Exception) -> EngineError:
        return EngineError(
            "XSCL_NO_ANSWER",
            f"no service answers at {masked(self.url)}: {error}",
            hint="--url or XSCL_URL names the service, 'xscl serve' starts one; without them commands open a home",
        )


def _pause_s(asked: str) -> float:
    """Read the seconds of ``Retry-After``; a second where it says none."""
    try:
        return min(max(float(asked), 0.1), _LONGEST_S)
    except ValueError:
        return 1.0


def _authorization(url: str) -> dict[str, str]:
    """Return the header for the token of the environment, or else for a user and password in the address."""
    if token := os.environ.get("XSCL_TOKEN", "").strip():
        return {"Authorization": f"Bearer {token}"}
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _written(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as addresses have them."""
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in params.items()}


def quoted(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")
