"""A client of a running service, for commands that are told its address by ``--url`` or ``XSCL_URL``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from xscl.base.errors import EngineError
from xscl.base.shown import masked

__all__ = ["Client", "error_of", "quoted"]

_TIMEOUT = httpx2.Timeout(120.0, connect=10.0)


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

    def __init__(self, url: str, transport: httpx2.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        token = os.environ.get("XSCL_TOKEN", "").strip()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._client = httpx2.Client(base_url=self.url, headers=headers, timeout=_TIMEOUT, transport=transport)
        except (httpx2.InvalidURL, ValueError) as error:
            raise EngineError("XSCL_BAD_URL", f"{masked(url)!r} is no address of a service: {error}") from None

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

    def lines(self, path: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the objects of an answer of lines, as they come.

        Raises:
            EngineError: as ``call`` says; also where the answer ends early.
        """
        try:
            with self._client.stream("GET", path, params=params) as response:
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


def quoted(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")
