"""A client of a running service, which ``--url`` or ``XSCL_URL`` names, or a home that it has open."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from xscl.base.errors import EngineError
from xscl.base.shown import masked

__all__ = ["Client", "error_of", "quoted"]

_TIMEOUT = httpx2.Timeout(120.0, connect=10.0)
_SOON = httpx2.Timeout(3.0, connect=1.0)
"""Patience with a service that nobody named."""
_HERE = ("127.0.0.1", "::1", "localhost")
_NO_BATCH = 2**62
_BUSY = (429, 503)
"""Statuses after which a call may be made again."""
_PATIENCE_S, _LONGEST_S = 600.0, 60.0
"""Seconds for which a call is made again while the service is busy, and of one pause."""
_PAUSES_S = (0.5, 1.0, 2.0, 4.0)
"""Pauses after calls that nobody answered."""


def error_of(problem: Mapping[str, Any]) -> EngineError:
    """Make the error that a problem of the service tells, with its place and a caret where it has them."""
    condition = str(problem.get("type", "")).rpartition(":")[2] or "XSCL_INTERNAL"
    message = str(problem.get("detail", "the service gave no reason"))
    if problem.get("line") is not None and problem.get("caret"):
        caret = "\n".join(f"    {line}" for line in str(problem["caret"]).split("\n"))
        message = f"line {problem['line']}, column {problem.get('column')}: {message}\n{caret}"
    hint = problem.get("hint")
    return EngineError(condition, message, hint=None if hint is None else str(hint))


class Client:
    """Calls of one service, with the token of ``XSCL_TOKEN``."""

    def __init__(
        self,
        url: str,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        is_found: bool = False,
    ) -> None:
        """``is_found``: nobody named the service; what it does not do, the home does."""
        self.url = url.rstrip("/")
        self.is_found = is_found
        self._sleep = sleep
        token = os.environ.get("XSCL_TOKEN", "").strip()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._client = httpx2.Client(base_url=self.url, headers=headers, timeout=_TIMEOUT, transport=transport)
        except (httpx2.InvalidURL, ValueError) as error:
            raise EngineError("XSCL_BAD_URL", f"{masked(url)!r} is no address of a service: {error}") from None
        self.is_here = is_found or self._client.base_url.host in _HERE
        """Whether the service runs on this machine."""

    def call(self, method: str, path: str, **request: Any) -> Any:
        """Make a call; return the JSON of its answer, a text, or None.

        Raises:
            EngineError: ``XSCL_NO_ANSWER``; or what the service says.
        """
        try:
            response = self._client.request(method, path, **request)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._no_answer(error) from None
        return self._read(response)

    def fault(self) -> str | None:
        """Ask whether the service takes the token; return why it does not, or None."""
        try:
            response = self._client.get("/v1/batches", params={"after": _NO_BATCH, "limit": 1}, timeout=_SOON)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return f"it does not answer: {error}"
        if response.status_code == 401:
            return "it does not know the token XSCL_TOKEN"
        # Whoever may only write is told so by the call.
        return None if response.status_code in (200, 403) else f"it answered {response.status_code}"

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
                response = self._client.request(method, path, **request)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                again = httpx2.TransportError if is_repeatable else (httpx2.ConnectError, httpx2.ConnectTimeout)
                pause = next(pauses, None) if isinstance(error, again) else None
                if pause is None:
                    raise self._no_answer(error) from None
            else:
                if response.status_code not in _BUSY or waited >= _PATIENCE_S:
                    return self._read(response)
                pause = _pause_s(response.headers.get("retry-after", ""))
                waited += pause
            self._sleep(pause)

    def lines(self, path: str, params: Mapping[str, Any], asked: object = None) -> Iterator[dict[str, Any]]:
        """Yield the objects of an answer of lines, as they come; ``asked`` is a body that is sent.

        Raises:
            EngineError: as ``call`` says; also where the answer ends early.
        """
        try:
            method = "GET" if asked is None else "POST"
            with self._client.stream(method, path, params=params, json=asked) as response:
                if response.status_code >= 300:
                    response.read()
                    self._read(response)
                for line in response.iter_lines():
                    if line:
                        yield json.loads(line)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise self._no_answer(error) from None

    def _read(self, response: httpx2.Response) -> Any:
        if response.status_code < 300 and not response.content:
            return None
        kind = response.headers.get("content-type", "")
        try:
            told = response.json() if "json" in kind else response.text
        except ValueError as error:
            raise self._no_answer(error) from None
        if response.status_code < 300:
            return told
        if isinstance(told, dict) and "type" in told:
            raise error_of(told)
        raise self._no_answer(RuntimeError(f"it answered {response.status_code}"))

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


def quoted(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")
