"""A service that a function plays, for clients of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from xscl.cli.wire import Request, Response


class PlayedWire:
    """Way to a service that answers as a function does; it keeps what it was sent."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self.answer = answer
        self.asked: list[Request] = []

    def send(self, request: Request) -> Response:
        self.asked.append(request)
        return self.answer(request)


def answered(status: int, told: object, **headers: str) -> Response:
    """An answer in JSON."""
    return in_pieces(iter([json.dumps(told).encode()]), status, {"content-type": "application/json", **headers})


def in_pieces(pieces: Iterator[bytes], status: int = 200, headers: Mapping[str, str] = {}) -> Response:  # noqa: B006
    return Response(status, headers, pieces)
